//! The server that load is sent to, read from a URL.
//!
//! Owns: reading `[WEIGHT@]scheme://host[:port][/path][?query]`.
//! Never: resolves a name.
//! Driven by: `plan`.

/// The protocol of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Scheme {
    /// HTTP/1.1 over TCP.
    Http,
    /// HTTP/1.1 over TLS.
    Https,
    /// Bytes that come back.
    Tcp,
    /// WebSocket messages over TCP (RFC 6455).
    Ws,
    /// WebSocket messages over TLS.
    Wss,
}

impl Scheme {
    /// Its name in a URL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Tcp => "tcp",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }

    /// Whether it runs over TLS.
    pub(crate) fn is_encrypted(self) -> bool {
        matches!(self, Self::Https | Self::Wss)
    }

    /// Whether WebSocket messages are exchanged.
    pub(crate) fn is_websocket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }
}

/// One address asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// As given, without the weight.
    pub(crate) url: String,
    /// Its share.
    pub(crate) weight: u32,
    /// The protocol.
    pub(crate) scheme: Scheme,
    /// The host, without brackets.
    pub(crate) host: String,
    /// The port.
    pub(crate) port: u16,
    /// Host and port as the Host field has them: the port only where the URL has one.
    pub(crate) authority: String,
    /// Path and query; at least `/`.
    pub(crate) path: String,
}

impl Target {
    /// Reads a URL, with `WEIGHT@` before it or not.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (weight, url) = match text.split_once('@') {
            Some((weight, url)) if !weight.is_empty() && weight.bytes().all(|b| b.is_ascii_digit()) => {
                let weight: u32 = weight.parse().map_err(|_| format!("`{weight}@` is too large a weight"))?;
                (weight, url)
            }
            _ => (1, text),
        };
        if !(1..=10_000).contains(&weight) {
            return Err(format!("`{text}`: a weight is 1 to 10000"));
        }
        if let Some(bad) = url.chars().find(|c| c.is_control() || *c == ' ') {
            return Err(format!("`{url}` has {bad:?} in it: write it percent-encoded"));
        }
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(format!(
                "`{url}` is no URL: it begins with ws://, wss://, http://, https:// or tcp://"
            ));
        };
        let (scheme, default_port) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (Scheme::Http, Some(80)),
            "https" => (Scheme::Https, Some(443)),
            "tcp" => (Scheme::Tcp, None),
            "ws" => (Scheme::Ws, Some(80)),
            "wss" => (Scheme::Wss, Some(443)),
            other => {
                return Err(format!("`{other}://` is not spoken here: http, https, ws, wss and tcp are"));
            }
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        // User and password are not for the Host field; `-H 'Authorization: …'` sends them.
        let authority = authority.rsplit('@').next().unwrap_or_default();
        let (host, port) = split_port(authority).ok_or_else(|| format!("`{url}`: no port number"))?;
        if host.is_empty() {
            return Err(format!("`{url}` names no host"));
        }
        let Some(port) = port.or(default_port) else {
            return Err(format!("`{url}` needs a port: tcp://{host}:7"));
        };
        let path = match path.as_bytes().first() {
            None => "/".to_owned(),
            Some(b'?') => format!("/{path}"),
            Some(_) => path.to_owned(),
        };
        Ok(Self {
            url: url.to_owned(),
            weight,
            scheme,
            host: host.to_owned(),
            port,
            authority: authority.to_owned(),
            path,
        })
    }

    /// Whether two targets can share connections.
    #[must_use]
    pub(crate) fn same_origin(&self, other: &Self) -> bool {
        (self.scheme, &self.host, self.port) == (other.scheme, &other.host, other.port)
    }
}

/// Host without brackets, and the port if there is one.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        return match after.strip_prefix(':') {
            Some(port) => Some((host, Some(port.parse().ok()?))),
            None => after.is_empty().then_some((host, None)),
        };
    }
    match authority.split_once(':') {
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
        None => Some((authority, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let of = |text: &str| {
            let t = Target::parse(text).unwrap();
            (t.weight, t.scheme, t.host, t.port, t.authority, t.path)
        };
        let own = |w, s, h: &str, p, a: &str, path: &str| (w, s, h.into(), p, a.into(), path.into());
        assert_eq!(of("http://a"), own(1, Scheme::Http, "a", 80, "a", "/"));
        assert_eq!(of("https://a:8443/x?y#z"), own(1, Scheme::Https, "a", 8443, "a:8443", "/x?y"));
        assert_eq!(of("3@http://u:p@a/@b"), own(3, Scheme::Http, "a", 80, "a", "/@b"));
        assert_eq!(of("http://[::1]:81?q"), own(1, Scheme::Http, "::1", 81, "[::1]:81", "/?q"));
        assert_eq!(of("wss://a/chat"), own(1, Scheme::Wss, "a", 443, "a", "/chat"));
        assert_eq!(of("tcp://a:7"), own(1, Scheme::Tcp, "a", 7, "a:7", "/"));
    }

    #[test]
    fn mistakes_are_told() {
        for (bad, word) in [
            ("localhost:80", "http://"),
            ("ftp://a", "ftp"),
            ("http://", "no host"),
            ("http://a:b/", "port"),
            ("tcp://a", "needs a port"),
            ("http://a/x y", "percent"),
            ("0@http://a", "weight"),
        ] {
            let error = Target::parse(bad).unwrap_err();
            assert!(error.contains(word), "{bad}: {error}");
        }
    }
}
