//! Reason phrases.
//!
//! Owns: the phrases of RFC 9110 §15 and the registry, and those of older servers where they differ.
//! Why: nobody should read them, yet logs, error pages and scripts do: a file written for nginx gets nginx's words.

/// Whose words to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phrases {
    /// RFC 9110 and the IANA registry.
    #[default]
    Rfc,
    /// Those of the first servers (RFC 2068), as nginx still writes them.
    Traditional,
}

impl Phrases {
    /// The phrase of a status; empty where there is none.
    #[must_use]
    pub fn reason(self, status: u16) -> &'static str {
        match self {
            Self::Traditional => traditional(status).unwrap_or_else(|| rfc(status)),
            Self::Rfc => rfc(status),
        }
    }
}

fn traditional(status: u16) -> Option<&'static str> {
    Some(match status {
        302 => "Moved Temporarily",
        405 => "Not Allowed",
        408 => "Request Time-out",
        413 => "Request Entity Too Large",
        414 => "Request-URI Too Large",
        416 => "Requested Range Not Satisfiable",
        503 => "Service Temporarily Unavailable",
        504 => "Gateway Time-out",
        _ => return None,
    })
}

fn rfc(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        511 => "Network Authentication Required",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(Phrases::Rfc.reason(404), "Not Found");
        assert_eq!(Phrases::Traditional.reason(404), "Not Found");
        assert_eq!(Phrases::Rfc.reason(504), "Gateway Timeout");
        assert_eq!(Phrases::Traditional.reason(504), "Gateway Time-out");
        assert_eq!(Phrases::Rfc.reason(299), "");
    }
}
