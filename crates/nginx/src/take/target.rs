//! Addresses of upstreams, and the pools they belong to.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use weir_diag::{Diagnostic, Span};
use weir_model::settings::{BackupUse, Unavailable};
use weir_model::{Balance, Endpoint, EndpointAddress, Pool, UpstreamKeepalive};

use super::Lowering;
use crate::variables::Dialect;

/// `host`, `host:port`, `[v6]` or `[v6]:port`. Brackets are removed.
pub(crate) fn host_port(text: &str, default_port: u16) -> Option<(String, u16)> {
    let (host, port) = split_port(text)?;
    Some((host.to_owned(), port.unwrap_or(default_port)))
}

/// Host without brackets, and the port if one is written.
pub(crate) fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            match after {
                "" => (host, None),
                _ => (host, Some(after.strip_prefix(':')?)),
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        Some(port) => {
            Some(crate::value::number(port).and_then(|n| u16::try_from(n).ok()).filter(|&n| n > 0)?)
        }
        None => None,
    };
    let fine =
        |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, '/' | '?' | '#' | '[' | ']' | '@');
    (!host.is_empty() && host.chars().all(fine)).then_some((host, port))
}

/// Where an endpoint is, from its host.
pub(crate) fn endpoint_address(host: &str, port: u16) -> EndpointAddress {
    match host.parse::<IpAddr>() {
        Ok(ip) => EndpointAddress::Ip(SocketAddr::new(ip, port)),
        Err(_) => EndpointAddress::Name { host: host.to_owned(), port, all_addresses: true },
    }
}

/// An endpoint with nginx's defaults.
pub(crate) fn endpoint(name: &str, address: EndpointAddress, span: Span) -> Endpoint {
    Endpoint {
        begins: None,
        follows: None,
        socks: None,
        name: name.to_owned(),
        origin: Some(span),
        address,
        weight: 1,
        max_connections: None,
        max_queue: None,
        max_fails: 1,
        fail_timeout: Duration::from_secs(10),
        backup: false,
        down: false,
        drain: false,
        slow_start: None,
        tls: None,
        send_proxy: None,
        check: None,
        more_checks: Vec::new(),
        agent: None,
        tracks: None,
        cuts: weir_expr::check::Cuts::default(),
        cookie: None,
        resolve: None,
        initially: weir_model::Initially::default(),
        id: None,
        zone: None,
    }
}

/// A pool with nginx's defaults.
pub(crate) fn pool(name: &str, span: Span) -> Pool {
    Pool {
        name: name.to_owned(),
        origin: Some(span),
        balance: Balance::RoundRobin,
        endpoints: Vec::new(),
        keepalive: UpstreamKeepalive::default(),
        shared: false,
        queue: None,
        sticky: None,
        stickiness: None,
        assigned: Vec::new(),
        persistence: Vec::new(),
        resolver: None,
        backups: BackupUse::WhenNoneChosen,
        unavailable: Unavailable::default(),
        outliers: None,
        panic_percent: 0,
        load_percent: 0,
        locality: None,
        retry_budget: None,
        max_pending: None,
        may_be_empty: false,
        group: None,
        fresh: None,
    }
}

/// An upstream as an action names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Authority {
    Unix(PathBuf),
    Host { host: String, port: Option<u16> },
}

/// Splits `host:port/path` or `unix:/socket:/path`; the path begins with `/` or `?`.
pub(crate) fn authority(text: &str) -> Option<(Authority, Option<&str>)> {
    if let Some(rest) = text.strip_prefix("unix:") {
        let (path, uri) = match rest.split_once(':') {
            Some((path, uri)) => (path, Some(uri).filter(|uri| !uri.is_empty())),
            None => (rest, None),
        };
        return (!path.is_empty()).then(|| (Authority::Unix(path.into()), uri));
    }
    let end = text.find(['/', '?']).unwrap_or(text.len());
    let (host, port) = split_port(&text[..end])?;
    let uri = Some(&text[end..]).filter(|uri| !uri.is_empty());
    Some((Authority::Host { host: host.to_owned(), port }, uri))
}

impl Lowering<'_> {
    /// The pool that an action's authority means: one that was defined, or one made for it.
    /// `default_port`: for a host that names none; without it a port is required.
    pub(crate) fn pool_of(
        &mut self,
        authority: &Authority,
        default_port: Option<u16>,
        span: Span,
    ) -> Option<String> {
        let (name, address) = match authority {
            Authority::Unix(path) => {
                (format!("unix:{}", path.display()), EndpointAddress::Unix(path.clone()))
            }
            Authority::Host { host, port } => {
                if let Some(defined) = self.defined_pool(host) {
                    if let Some(port) = port {
                        let text = format!("the upstream `{host}` cannot be named with a port ({port})");
                        let found = Diagnostic::error("nginx::upstream-port", text).at(span);
                        self.report(found.help("ports belong to the servers of the upstream"));
                        return None;
                    }
                    return Some(defined);
                }
                let Some(port) = port.or(default_port) else {
                    self.no_port(host, span);
                    return None;
                };
                let shown =
                    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
                (shown, endpoint_address(host, port))
            }
        };
        if !self.pools.contains_key(&(self.dialect, name.clone())) {
            let unique = self.register_pool(&name);
            let mut new = pool(&unique, span);
            new.endpoints.push(endpoint(&name, address, span));
            self.model.pools.push(new);
        }
        self.pools.get(&(self.dialect, name)).cloned()
    }

    fn no_port(&mut self, host: &str, span: Span) {
        let text = format!("`{host}` is no upstream, and no port is given");
        let mut found = Diagnostic::error("nginx::unknown-upstream", text).at(span);
        let names: Vec<&String> =
            self.pools.keys().filter(|(d, _)| *d == self.dialect).map(|(_, n)| n).collect();
        if let Some(near) = weir_diag::nearest(host, names.into_iter().map(String::as_str)) {
            found = found.help(format!("did you mean `{near}`?"));
        }
        self.report(found);
    }

    /// A defined pool by the name its `upstream` has.
    pub(crate) fn defined_pool(&self, name: &str) -> Option<String> {
        self.pools.get(&(self.dialect, name.to_owned())).cloned()
    }

    /// Keeps a pool's name; `http` and `stream` may use the same one for different pools.
    pub(crate) fn register_pool(&mut self, name: &str) -> String {
        let taken = self.dialect == Dialect::Stream && self.pools.values().any(|known| known == name);
        let unique = if taken { format!("{name} (stream)") } else { name.to_owned() };
        self.pools.insert((self.dialect, name.to_owned()), unique.clone());
        unique
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        let table = [
            ("a.b:80", Some(("a.b", Some(80)))),
            ("a", Some(("a", None))),
            ("[::1]:8080", Some(("::1", Some(8080)))),
            ("[::1]", Some(("::1", None))),
            ("a:0", None),
            ("a:x", None),
            ("a:80:1", None),
            (":80", None),
            ("[::1", None),
        ];
        for (text, expected) in table {
            assert_eq!(split_port(text), expected, "{text}");
        }
    }

    #[test]
    fn authorities() {
        let host = |host: &str, port| Authority::Host { host: host.into(), port };
        assert_eq!(authority("a:1/x?y"), Some((host("a", Some(1)), Some("/x?y"))));
        assert_eq!(authority("a"), Some((host("a", None), None)));
        assert_eq!(authority("unix:/s:/x"), Some((Authority::Unix("/s".into()), Some("/x"))));
        assert_eq!(authority("unix:/s"), Some((Authority::Unix("/s".into()), None)));
        assert_eq!(authority("/x"), None);
    }
}
