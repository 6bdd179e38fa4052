//! Request methods and protocol versions.
//!
//! Owns: the methods that Weir treats specially, and the HTTP/1 minor version.
//! Why: unknown methods are allowed tokens (RFC 9110 §9.1) and are forwarded by their spelling; only those with a
//! meaning for framing, retries or configuration have a number.

/// A request method. Spellings are case-sensitive: `get` is [`Method::Other`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "each variant is the method it spells")]
pub enum Method {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
    Patch,
    Connect,
    Trace,
    Propfind,
    Proppatch,
    Mkcol,
    Copy,
    Move,
    Lock,
    Unlock,
    Purge,
    /// Any other token; its spelling is in the head.
    Other,
}

const NAMES: [(Method, &str); 17] = [
    (Method::Get, "GET"),
    (Method::Head, "HEAD"),
    (Method::Post, "POST"),
    (Method::Put, "PUT"),
    (Method::Delete, "DELETE"),
    (Method::Options, "OPTIONS"),
    (Method::Patch, "PATCH"),
    (Method::Connect, "CONNECT"),
    (Method::Trace, "TRACE"),
    (Method::Propfind, "PROPFIND"),
    (Method::Proppatch, "PROPPATCH"),
    (Method::Mkcol, "MKCOL"),
    (Method::Copy, "COPY"),
    (Method::Move, "MOVE"),
    (Method::Lock, "LOCK"),
    (Method::Unlock, "UNLOCK"),
    (Method::Purge, "PURGE"),
];

impl Method {
    /// Finds a method by its exact spelling.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        match text {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            _ => NAMES.iter().find(|(_, name)| name.as_bytes() == text).map_or(Self::Other, |found| found.0),
        }
    }

    /// The spelling; empty for [`Method::Other`].
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.get(self as usize).map_or("", |entry| entry.1)
    }

    /// GET, HEAD, OPTIONS, TRACE (and PROPFIND): RFC 9110 §9.2.1.
    #[must_use]
    pub fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options | Self::Trace | Self::Propfind)
    }

    /// Whether sending it twice means the same as once: RFC 9110 §9.2.2. These may be retried after a failure that
    /// left it open whether the upstream saw the request; nginx's `proxy_next_upstream` excludes POST, LOCK and PATCH.
    #[must_use]
    pub fn is_idempotent(self) -> bool {
        self.is_safe()
            || matches!(
                self,
                Self::Put
                    | Self::Delete
                    | Self::Proppatch
                    | Self::Mkcol
                    | Self::Copy
                    | Self::Move
                    | Self::Unlock
                    | Self::Purge
            )
    }
}

/// The minor version of an HTTP/1 message. Ordered: `Http10 < Http11`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// HTTP/1.0: no chunked coding, no interim answers, closes unless told otherwise.
    Http10,
    /// HTTP/1.1, and any higher minor version, which RFC 9110 §2.5 reads as the highest that we know.
    #[default]
    Http11,
    /// HTTP/2, which has no minor versions.
    Http2,
    /// HTTP/3, which has none either.
    Http3,
}

impl Version {
    /// As written on the wire, `HTTP/1.1`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2.0",
            Self::Http3 => "HTTP/3.0",
        }
    }
}

/// Why a version is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionError {
    Malformed,
    OtherMajor,
}

/// Parses the eight bytes of `HTTP/1.1`.
pub(crate) fn parse_version(text: &[u8]) -> Result<Version, VersionError> {
    match text {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => Ok(Version::Http11),
        [b'H', b'T', b'T', b'P', b'/', b'2'..=b'9', b'.', b'0'..=b'9'] => Err(VersionError::OtherMajor),
        _ => Err(VersionError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (method, name) in NAMES {
            assert_eq!(Method::of(name.as_bytes()), method);
            assert_eq!(method.name(), name);
        }
        assert_eq!(Method::of(b"get"), Method::Other);
        assert_eq!(Method::Other.name(), "");
    }

    #[test]
    fn versions() {
        assert_eq!(parse_version(b"HTTP/1.1"), Ok(Version::Http11));
        assert_eq!(parse_version(b"HTTP/1.7"), Ok(Version::Http11));
        assert_eq!(parse_version(b"HTTP/1.0"), Ok(Version::Http10));
        assert_eq!(parse_version(b"HTTP/2.0"), Err(VersionError::OtherMajor));
        for bad in ["http/1.1", "HTTP/0.9", "HTTP/1.", "HTTP/1.10", "HTTP/11.1", "HTTP/1,1", "HTTP/1.1 ", ""]
        {
            assert_eq!(parse_version(bad.as_bytes()), Err(VersionError::Malformed), "{bad}");
        }
    }
}
