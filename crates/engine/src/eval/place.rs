//! Where an exchange leads: the folder and file of its path, the host that its action names.
//!
//! Owns: the mapping of paths to names of files, the reading of computed targets' hosts.
//! Never: opens a file, or resolves a name.
//! Driven by: variables, the file action, targets of proxies.

use std::borrow::Cow;

use weir_plan::ProxyTarget;

use crate::exchange::Exchange;

impl Exchange {
    /// Appends the folder that the path is looked for in.
    pub(crate) fn append_root(&self, out: &mut Vec<u8>) {
        if let Some(route) = self.route_if_any() {
            super::render(self, &route.files.root, out);
        }
    }

    /// Appends the file name that the path maps to.
    pub(crate) fn append_filename(&self, out: &mut Vec<u8>) {
        self.append_root(out);
        let Some(files) = self.route_if_any().map(|route| &route.files) else { return };
        let path = &self.request.path;
        if files.alias {
            // A pattern stands for the whole path; a prefix for its own bytes.
            out.extend_from_slice(path.get(self.matched..).unwrap_or_default());
        } else {
            if out.last() == Some(&b'/') && path.first() == Some(&b'/') {
                out.pop();
            }
            out.extend_from_slice(path);
        }
    }

    /// Host named by the proxy action, perhaps with its port: what most upstream requests have as `Host`.
    pub(crate) fn proxy_host_text(&self) -> Option<Cow<'_, [u8]>> {
        match self.route().action.proxy() {
            Some(proxy) if matches!(proxy.target, ProxyTarget::Pool(_)) => {
                Some(Cow::Borrowed(proxy.host.as_bytes()))
            }
            _ => self.proxy_host().map(|(host, _)| host),
        }
    }

    /// Host and port named by the proxy action; of a computed target, what it comes to now.
    pub(crate) fn proxy_host(&self) -> Option<(Cow<'_, [u8]>, u16)> {
        let proxy = self.route_if_any()?.action.proxy()?;
        if let ProxyTarget::Computed(template) = &proxy.target {
            let (host, port) = named_host(&super::text(self, template))?;
            return Some((Cow::Owned(host), port));
        }
        let host = proxy.host.as_bytes();
        let default = if proxy.tls.is_some() { 443 } else { 80 };
        let port = proxy.host.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(default);
        Some((Cow::Borrowed(host), port))
    }
}

/// Host and port that a computed target names, as `$proxy_host` shows them: without the scheme's own port.
pub(crate) fn named_host(value: &[u8]) -> Option<(Vec<u8>, u16)> {
    let value = std::str::from_utf8(value).ok()?;
    let (default, rest) = match value.split_once("://") {
        Some(("https" | "grpcs", rest)) => (443, rest),
        Some(("http" | "grpc", rest)) => (80, rest),
        _ => (80, value),
    };
    if rest.starts_with("unix:") {
        return Some((b"localhost".to_vec(), default));
    }
    let host = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    let (name, port) = split_port(host, default)?;
    let shown = if port == default { name } else { host };
    Some((shown.as_bytes().to_vec(), port))
}

/// A host and its port; `None`: what stands behind the colon is none.
pub(crate) fn split_port(host: &str, default: u16) -> Option<(&str, u16)> {
    let after_bracket = host.rfind(']').unwrap_or(0);
    match host[after_bracket..].rfind(':') {
        Some(at) => {
            let at = after_bracket + at;
            let port = &host[at + 1..];
            Some((&host[..at], port.parse().ok().filter(|&port| port > 0)?))
        }
        None => Some((host, default)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computed_targets_name_their_host() {
        let named = |value: &str| {
            named_host(value.as_bytes()).map(|(h, p)| (String::from_utf8_lossy(&h).into_owned(), p))
        };
        assert_eq!(named("http://a:81/x?y"), Some(("a:81".into(), 81)));
        assert_eq!(named("https://a:443?y"), Some(("a".into(), 443)));
        assert_eq!(named("http://[::1]:8080"), Some(("[::1]:8080".into(), 8080)));
        assert_eq!(named("http://unix:/s:/x"), Some(("localhost".into(), 80)));
        assert_eq!(named("http://a:x/"), None);
    }

    #[test]
    fn ports_are_split_off() {
        assert_eq!(split_port("a", 80), Some(("a", 80)));
        assert_eq!(split_port("a:81", 80), Some(("a", 81)));
        assert_eq!(split_port("[::1]", 443), Some(("[::1]", 443)));
        assert_eq!(split_port("[::1]:8443", 443), Some(("[::1]", 8443)));
        assert_eq!(split_port("a:0", 80), None);
        assert_eq!(split_port("a:x", 80), None);
    }
}
