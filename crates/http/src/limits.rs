//! Bounds and choices of the head parsers.
//!
//! Owns: [`HeadRules`].
//! Why: one value per listener (and per pool, for answers), built when the plan is compiled.

use crate::name::HeaderId;

/// What a head may measure, and which unusual names are kept.
///
/// Memory cost: a connection that is sending its head may hold `head` bytes, so this times the connections that a
/// client may open is what slow senders can pin down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadRules {
    /// Longest request or status line in bytes, without its CRLF. nginx: one of `large_client_header_buffers`.
    pub first_line: usize,
    /// Longest field line in bytes, without its CRLF. nginx: one of `large_client_header_buffers`.
    pub field_line: usize,
    /// Longest whole head in bytes, first line and final empty line included. At most [`HeadRules::MAX_HEAD`].
    pub head: usize,
    /// Most field lines. Lines dropped for their names count too.
    pub fields: usize,
    /// What happens to names that are tokens, but not only letters, digits and hyphens.
    pub unusual_names: UnusualNames,
    /// What breaks the grammar without leaving two readings is mended: a fragment is cut off the target, and a field whose
    /// name is no token is left out, as nginx does. Otherwise the message is refused.
    pub mends: bool,
}

/// The fate of field names with characters other than letters, digits and hyphens. Names that are no tokens at all
/// are never kept, see [`HeadRules::mends`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnusualNames {
    /// Kept and forwarded. nginx with `ignore_invalid_headers off`.
    ///
    /// Danger: CGI-like gateways read `X_User` and `X-User` as the same variable.
    Keep,
    /// As [`UnusualNames::Keep`], without those that differ from the name of a field that decides by `_` for `-` alone.
    DropLookalikes,
    /// Left out as if it had not been sent. nginx's default.
    #[default]
    Drop,
    /// As [`UnusualNames::Drop`], but underscores are taken for letters. nginx with `underscores_in_headers on`.
    DropExceptUnderscores,
}

impl HeadRules {
    /// Upper bound of [`HeadRules::head`], whatever is configured: one megabyte.
    pub const MAX_HEAD: usize = 1 << 20;

    /// The bound on the head that is really used.
    pub(crate) fn head_limit(&self) -> usize {
        self.head.min(Self::MAX_HEAD)
    }

    /// The bound on a field line that is really used: a name's length must fit 16 bits.
    pub(crate) fn field_limit(&self) -> usize {
        self.field_line.min(usize::from(u16::MAX))
    }

    /// Whether a field of this name, which is a token, is kept.
    #[must_use]
    pub fn keeps(&self, name: &[u8]) -> bool {
        match self.unusual_names {
            UnusualNames::Keep => true,
            UnusualNames::DropLookalikes => !is_lookalike(name),
            UnusualNames::Drop => crate::scan::is_plain_name(name),
            UnusualNames::DropExceptUnderscores => name.split(|&b| b == b'_').all(crate::scan::is_plain_name),
        }
    }
}

/// Names beside those in [`HeaderId`] by which proxies tell what they know of a client, and applications decide.
const DECIDING: [&[u8]; 9] = [
    b"true-client-ip",
    b"x-client-ip",
    b"x-cluster-client-ip",
    b"cf-connecting-ip",
    b"client-ip",
    b"remote-addr",
    b"x-original-url",
    b"x-rewrite-url",
    b"x-http-method-override",
];

/// How names of such fields begin.
const DECIDING_PREFIXES: [&[u8]; 4] = [b"x-forwarded-", b"x-ssl-", b"ssl-client-", b"x-remote-"];

/// Longest name that is looked at: no field that decides has a longer one.
const LONGEST: usize = 64;

/// Whether a name is that of a field that decides, but for underscores in place of hyphens.
fn is_lookalike(name: &[u8]) -> bool {
    if memchr::memchr(b'_', name).is_none() || name.len() > LONGEST {
        return false;
    }
    let mut plain = [0; LONGEST];
    for (to, &from) in plain.iter_mut().zip(name) {
        *to = if from == b'_' { b'-' } else { from.to_ascii_lowercase() };
    }
    let plain = &plain[..name.len()];
    HeaderId::of(plain) != HeaderId::Unknown
        || DECIDING.contains(&plain)
        || DECIDING_PREFIXES.iter().any(|prefix| plain.starts_with(prefix))
}

impl Default for HeadRules {
    /// nginx's `large_client_header_buffers 4 8k`, and at most 128 fields.
    fn default() -> Self {
        Self {
            first_line: 8 << 10,
            field_line: 8 << 10,
            head: 32 << 10,
            fields: 128,
            unusual_names: UnusualNames::default(),
            mends: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_like_others() {
        for name in
            ["Content_Length", "transfer_encoding", "X_Forwarded-For", "x_real_ip", "X_SSL_Client_Verify"]
        {
            assert!(is_lookalike(name.as_bytes()), "{name}");
        }
        let long = format!("X_{}", "a".repeat(LONGEST));
        for name in ["Content-Length", "X-Forwarded-For", "api_key", "X_Forwarded", "_", &long] {
            assert!(!is_lookalike(name.as_bytes()), "{name}");
        }
    }
}
