//! Credentials of HTTP basic authentication: RFC 7617.
//!
//! Owns: taking apart an Authorization value. Never: checks a password.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// A user and the password that came along.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Everything before the first colon.
    pub user: Vec<u8>,
    /// Everything after it.
    pub password: Vec<u8>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &String::from_utf8_lossy(&self.user))
            .finish_non_exhaustive()
    }
}

/// Clients that leave out the padding exist, and nothing is ambiguous about it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reads `Basic dXNlcjpwYXNz`. `None` where it is another scheme, is no base64, or has no colon.
#[must_use]
pub fn basic(value: &[u8]) -> Option<Credentials> {
    let (scheme, encoded) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let mut user = BASE64.decode(crate::scan::trim_ows(encoded)).ok()?;
    let colon = memchr::memchr(b':', &user)?;
    let password = user.split_off(colon + 1);
    user.truncate(colon);
    Some(Credentials { user, password })
}

/// Writes `Basic …`, for requests of our own.
#[must_use]
pub fn encode_basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64.encode(format!("{user}:{password}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials() {
        let found = basic(b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==").unwrap();
        assert_eq!(
            (found.user.as_slice(), found.password.as_slice()),
            (&b"Aladdin"[..], &b"open sesame"[..])
        );
        assert!(!format!("{found:?}").contains("sesame"));
        assert_eq!(basic(b"bAsIc  YTpiOmM").unwrap().password, b"b:c");
        assert_eq!(basic(encode_basic("a", "").as_bytes()).unwrap().password, b"");
        for bad in ["", "Basic", "Basic ", "Bearer YTpi", "Basic YQ==", "Basic !!!!", "BasicYTpi"] {
            assert!(basic(bad.as_bytes()).is_none(), "{bad}");
        }
    }
}
