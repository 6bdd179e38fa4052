//! Where connections go, and how they are opened.
//!
//! Owns: the addresses of a target, `--connect-to`, unix sockets, local addresses.
//! Never: speaks; looks a name up while load runs.
//! Driven by: `plan` (addresses), workers and `hold` (connections).

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use weir_rt::{ConnectOptions, Stream, connect, connect_unix};

use crate::plan::Options;
use crate::target::Target;

/// One place to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Peer {
    Ip(SocketAddr),
    Unix(PathBuf),
}

impl Peer {
    /// Its address, where it has one.
    pub(crate) fn ip(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(addr) => Some(*addr),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(addr) => write!(f, "{addr}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// curl's `--connect-to HOST1:PORT1:HOST2:PORT2`: requests for the first go to the second. What is asked for (Host, TLS
/// name) stays as it is. Each part may be empty: an empty HOST1 or PORT1 is any, an empty HOST2 or PORT2 the URL's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectTo {
    from: (String, Option<u16>),
    to: (String, Option<u16>),
}

impl FromStr for ConnectTo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("`{text}` is not HOST1:PORT1:HOST2:PORT2 (each part may be empty)");
        let (from, rest) = host(text).ok_or_else(wanted)?;
        let (from_port, rest) = rest.split_once(':').ok_or_else(wanted)?;
        let (to, to_port) = host(rest).ok_or_else(wanted)?;
        let port = |digits: &str| match digits {
            "" => Ok(None),
            digits => digits.parse().map(Some).map_err(|_| wanted()),
        };
        Ok(Self { from: (from.to_ascii_lowercase(), port(from_port)?), to: (to.to_owned(), port(to_port)?) })
    }
}

/// A host, in brackets or not, up to its colon; and what follows the colon.
fn host(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('[') {
        Some(inside) => inside.split_once("]:"),
        None => text.split_once(':'),
    }
}

impl fmt::Display for ConnectTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |(host, port): &(String, Option<u16>)| {
            let host =
                if host.contains(':') || host.starts_with('[') { format!("[{host}]") } else { host.clone() };
            format!("{host}:{}", port.map_or_else(String::new, |port| port.to_string()))
        };
        write!(f, "{}:{}", part(&self.from), part(&self.to))
    }
}

impl ConnectTo {
    fn is_for(&self, target: &Target) -> bool {
        let (host, port) = &self.from;
        (host.is_empty() || target.host.eq_ignore_ascii_case(host))
            && port.is_none_or(|port| port == target.port)
    }
}

/// The places where connections to `target` go, at least one.
///
/// # Errors
/// A sentence: a name has no address, or none of the kind that `--source` has.
pub(crate) fn peers(target: &Target, options: &Options) -> Result<Vec<Peer>, String> {
    if let Some(path) = &options.unix_socket {
        return Ok(vec![Peer::Unix(path.clone())]);
    }
    let other = options.connect_to.iter().find(|rule| rule.is_for(target)).map(|rule| &rule.to);
    let host = other.map_or("", |(host, _)| host.as_str());
    let host = if host.is_empty() { target.host.as_str() } else { host };
    let port = other.and_then(|(_, port)| *port).unwrap_or(target.port);
    let found: Vec<Peer> = (host, port)
        .to_socket_addrs()
        .map_err(|error| format!("unable to resolve {host}:{port}: {error}"))?
        .filter(|addr| options.sources.iter().all(|source| source.is_ipv4() == addr.is_ipv4()))
        .map(Peer::Ip)
        .collect();
    if found.is_empty() {
        return Err(format!("{host} has no address of the kind that --source has"));
    }
    Ok(found)
}

/// Connects to `peer`, from the `n`-th of `sources`, if there are any.
pub(crate) async fn dial(peer: &Peer, sources: &[IpAddr], n: usize) -> io::Result<Stream> {
    match peer {
        Peer::Unix(path) => connect_unix(path).await,
        Peer::Ip(addr) => {
            let source = (!sources.is_empty()).then(|| SocketAddr::new(sources[n % sources.len()], 0));
            connect(*addr, &ConnectOptions { source, nodelay: true, ..ConnectOptions::default() }).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(rule: &str, url: &str) -> Vec<String> {
        let options = Options { connect_to: vec![rule.parse().unwrap()], ..Options::default() };
        peers(&Target::parse(url).unwrap(), &options).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rules_are_curls() {
        assert_eq!(to("example.test:443:127.0.0.1:8443", "https://example.test/"), ["127.0.0.1:8443"]);
        assert_eq!(to("::127.0.0.1:", "https://Example.test:99/"), ["127.0.0.1:99"]);
        assert_eq!(to("EXAMPLE.test::[::1]:81", "http://example.test/"), ["[::1]:81"]);
        assert_eq!(to("[::1]:80:127.0.0.1:81", "http://[::1]/"), ["127.0.0.1:81"]);
        // Another port is not meant, and the address stays the URL's.
        assert_eq!(to("127.0.0.1:443:127.0.0.2:", "http://127.0.0.1/"), ["127.0.0.1:80"]);
        for rule in ["a:80:b:81", ":::", "[::1]:1:[::2]:"] {
            assert_eq!(rule.parse::<ConnectTo>().unwrap().to_string(), rule);
        }
        for bad in ["", "a", "a:b", "a:b:c", "a:x:b:1", "a:1:b:70000", "[::1:80:b:1"] {
            assert!(bad.parse::<ConnectTo>().unwrap_err().contains("HOST1:PORT1"), "{bad}");
        }
    }

    #[test]
    fn a_unix_socket_is_for_all() {
        let options = Options { unix_socket: Some("/run/app.sock".into()), ..Options::default() };
        let found = peers(&Target::parse("http://no.such.name.test/").unwrap(), &options).unwrap();
        assert_eq!(found[0].to_string(), "unix:/run/app.sock");
    }
}
