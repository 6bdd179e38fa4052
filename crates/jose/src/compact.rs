//! Tokens in their compact form: parts in base64url, with dots between them.
//!
//! Owns: how many parts a token has, and its header as JSON.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::{LONGEST, Refused};

/// What can be read of a token without any key. Nothing of it holds yet.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The header.
    pub header: Map<String, Value>,
    /// The payload of a signed token; of an encrypted one nothing is known.
    pub payload: Option<Vec<u8>>,
}

/// Reads a token without any key.
///
/// # Errors
/// It has another form.
pub fn read(token: &[u8]) -> Result<Parts, Refused> {
    if is_encrypted(token) {
        let [first, ..] = split::<5>(token)?;
        return Ok(Parts { header: header(first)?, payload: None });
    }
    let [first, payload, _] = split::<3>(token)?;
    Ok(Parts { header: header(first)?, payload: Some(decode(payload)?) })
}

/// Whether a token has the five parts of an encrypted one.
pub fn is_encrypted(token: &[u8]) -> bool {
    token.iter().filter(|byte| **byte == b'.').count() == 4
}

/// The parts of a token, of which it must have so many.
pub(crate) fn split<const N: usize>(token: &[u8]) -> Result<[&[u8]; N], Refused> {
    if token.len() > LONGEST {
        return Err(Refused::TooLong);
    }
    let mut parts = [&token[..0]; N];
    let mut found = token.split(|byte| *byte == b'.');
    for part in &mut parts {
        *part = found.next().ok_or(Refused::Malformed)?;
    }
    if found.next().is_some() { Err(Refused::Malformed) } else { Ok(parts) }
}

pub(crate) fn decode(part: &[u8]) -> Result<Vec<u8>, Refused> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| Refused::Malformed)
}

/// The header of a token, from its first part.
///
/// # Errors
/// It is no JSON object in base64url.
pub fn header(part: &[u8]) -> Result<Map<String, Value>, Refused> {
    match serde_json::from_slice(&decode(part)?) {
        Ok(Value::Object(header)) => Ok(header),
        _ => Err(Refused::Malformed),
    }
}

/// The header, if all that it asks for is understood.
pub(crate) fn understood(part: &[u8]) -> Result<Map<String, Value>, Refused> {
    let header = header(part)?;
    if header.contains_key("crit") || header.contains_key("zip") {
        return Err(Refused::Critical);
    }
    Ok(header)
}

/// A text of the header.
pub(crate) fn text<'h>(header: &'h Map<String, Value>, name: &str) -> Option<&'h str> {
    header.get(name)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_three_parts_or_five() {
        let read = |text: &str| read(text.as_bytes());
        assert_eq!(read("e30.e30.").unwrap().payload.unwrap(), b"{}");
        assert!(read("e30.a.b.c.d").unwrap().payload.is_none());
        for broken in ["", "e30", "e30.e30", "e30.e30.a.b", "W10.e30.a", "e30.!.a", "e30=.e30.a", "...."] {
            assert_eq!(read(broken).unwrap_err(), Refused::Malformed, "{broken}");
        }
        assert_eq!(read(&"e".repeat(LONGEST + 1)).unwrap_err(), Refused::TooLong);
    }
}
