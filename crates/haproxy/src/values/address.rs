//! Addresses: `:80`, `*:80`, `10.0.0.1:80`, `[::]:80`, `::1:80`, `ipv4@host:80`, `unix@/path`, `/path`, `abns@name`,
//! `fd@3`, `quic4@…`, and ports that are ranges or offsets (configuration manual 11, "Address formats").
//!
//! Owns: their grammar.
//! Never: resolves a name.
//! Why: in HAProxy the last colon parts host and port even in an unbracketed IPv6 address (`::1:80` is port 80 of
//! `::1`), so a port is looked for from the right.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What is before the port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// `:80` or `*:80`: every IPv4 address (and, with `[::]` and `v4v6`, more).
    Any,
    /// A literal.
    Ip(IpAddr),
    /// To be resolved; the family may be forced.
    Name(String, Option<Family>),
    /// A path in the file system.
    Unix(String),
    /// A name in Linux's abstract namespace, with what fills it up: `abns@` takes the whole field, `abnsz@` as much as is
    /// written.
    Abstract(String),
    /// A descriptor handed over by the parent.
    Fd(i32),
    /// A scheme that is known, and not built (`quic4@`, `udp4@`, `sockpair@`, `rhttp@` …).
    Other(String),
}

/// `ipv4@` or `ipv6@`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

/// What is after the last colon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// None is written.
    None,
    /// One.
    One(u16),
    /// `8080-8089`, both included.
    Range(u16, u16),
    /// `+1000` or `-1000`: the port the client came to, moved by so many (servers only).
    Offset(i32),
}

/// One address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Where.
    pub(crate) host: Host,
    /// On which port.
    pub(crate) port: Port,
}

const KNOWN_ELSEWHERE: &[&str] = &[
    "quic4",
    "quic6",
    "quic+udp4",
    "quic+udp6",
    "udp",
    "udp4",
    "udp6",
    "tcp",
    "tcp4",
    "tcp6",
    "uxst",
    "uxdg",
    "uxseqpacket",
    "sockpair",
    "rhttp",
    "rev",
    "mptcp",
    "mptcp4",
    "mptcp6",
    "ring",
    "stream+ipv4",
    "stream+ipv6",
    "dgram+ipv4",
    "dgram+ipv6",
];

/// Reads one address.
pub(crate) fn parse(text: &str) -> Result<Address, String> {
    if text.is_empty() {
        return Err("an address is missing".into());
    }
    if text.starts_with('/') {
        return Ok(Address { host: Host::Unix(text.into()), port: Port::None });
    }
    let Some((scheme, rest)) = text.split_once('@') else { return parse_inet(text, None) };
    let local = |host| Ok(Address { host, port: Port::None });
    match scheme {
        "ipv4" | "tcp4" | "stream+ipv4" => parse_inet(rest, Some(Family::V4)),
        "ipv6" | "tcp6" | "stream+ipv6" => parse_inet(rest, Some(Family::V6)),
        "ip" | "tcp" => parse_inet(rest, None),
        "unix" | "uxst" if rest.is_empty() => Err("a path is missing".into()),
        "unix" | "uxst" => local(Host::Unix(rest.into())),
        "abns" => abstract_name(rest, true).and_then(local),
        "abnsz" => abstract_name(rest, false).and_then(local),
        "fd" => descriptor(rest).and_then(local),
        known if KNOWN_ELSEWHERE.contains(&known) => local(Host::Other(known.into())),
        other => {
            Err(format!("`{other}@` is no kind of address; those are ipv4@, ipv6@, unix@, abns@ and fd@"))
        }
    }
}

/// Bytes of a name in the abstract namespace.
const ABSTRACT: usize = 107;

/// HAProxy gives the kernel the whole field for `abns@`: a name and the zeros after it are another name than itself.
fn abstract_name(name: &str, filled: bool) -> Result<Host, String> {
    if name.is_empty() || name.len() > ABSTRACT {
        return Err(format!("a name of the abstract namespace has 1 to {ABSTRACT} bytes"));
    }
    let zeros = if filled { ABSTRACT - name.len() } else { 0 };
    Ok(Host::Abstract(format!("{name}{}", "\0".repeat(zeros))))
}

fn descriptor(text: &str) -> Result<Host, String> {
    let number = text.parse().ok().filter(|number| *number >= 0).map(Host::Fd);
    number.ok_or_else(|| match text {
        "" => {
            "`fd@` is followed by the number of a descriptor; a variable that is not set leaves nothing there"
                .into()
        }
        _ => format!("`{text}` is no number of a descriptor"),
    })
}

/// Reads the addresses of a `bind`: several, parted by commas.
pub(crate) fn parse_list(text: &str) -> Vec<Result<Address, String>> {
    text.split(',').map(parse).collect()
}

fn parse_inet(text: &str, family: Option<Family>) -> Result<Address, String> {
    let (host, port) = split_port(text);
    let port = port.map_or(Ok(Port::None), parse_port)?;
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let host = match (host, family) {
        ("" | "*", None | Some(Family::V4)) => Host::Any,
        ("" | "*" | "::", Some(Family::V6)) => Host::Ip(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        (literal, _) => match (literal.parse::<IpAddr>(), family) {
            (Ok(IpAddr::V6(_)), Some(Family::V4)) => return Err(format!("`{literal}` is no IPv4 address")),
            (Ok(IpAddr::V4(_)), Some(Family::V6)) => return Err(format!("`{literal}` is no IPv6 address")),
            (Ok(address), _) => Host::Ip(address),
            (Err(_), _) if is_name(literal) => Host::Name(literal.into(), family),
            (Err(_), _) => return Err(format!("`{literal}` is neither an address nor a host name")),
        },
    };
    Ok(Address { host, port })
}

fn split_port(text: &str) -> (&str, Option<&str>) {
    if let Some(close) = text.rfind(']') {
        let (host, rest) = text.split_at(close + 1);
        return (host, rest.strip_prefix(':'));
    }
    // A bare IPv6 address has no port only if it would be none with its last group taken away.
    match text.rsplit_once(':') {
        None => (text, None),
        Some((host, _)) if host.parse::<Ipv6Addr>().is_err() && text.parse::<Ipv6Addr>().is_ok() => {
            (text, None)
        }
        Some((host, port)) => (host, Some(port)),
    }
}

fn parse_port(text: &str) -> Result<Port, String> {
    let number = |digits: &str| {
        digits.parse::<u16>().map_err(|_| format!("`{digits}` is no port; those are 0 to 65535"))
    };
    if text.is_empty() {
        return Ok(Port::None);
    }
    if let Some(offset) = text.strip_prefix('+') {
        return number(offset).map(|n| Port::Offset(i32::from(n)));
    }
    if let Some(offset) = text.strip_prefix('-') {
        return number(offset).map(|n| Port::Offset(-i32::from(n)));
    }
    match text.split_once('-') {
        None => number(text).map(Port::One),
        Some((from, to)) => match (number(from)?, number(to)?) {
            (from, to) if from <= to => Ok(Port::Range(from, to)),
            (from, to) => Err(format!("the range of ports {from}-{to} ends before it starts")),
        },
    }
}

fn is_name(text: &str) -> bool {
    let label = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    !text.is_empty() && text.len() <= 255 && text.as_bytes().iter().all(label)
}

impl Host {
    /// The literal it stands for, if it is one.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        match self {
            Host::Any => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            Host::Ip(ip) => Some(*ip),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(a: u8, b: u8, c: u8, d: u8) -> Host {
        Host::Ip(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
    }

    #[test]
    fn every_form_is_read() {
        for (text, host, port) in [
            (":80", Host::Any, Port::One(80)),
            ("*:80", Host::Any, Port::One(80)),
            ("0.0.0.0:80", v4(0, 0, 0, 0), Port::One(80)),
            ("[::]:443", Host::Ip(IpAddr::V6(Ipv6Addr::UNSPECIFIED)), Port::One(443)),
            (":::443", Host::Ip(IpAddr::V6(Ipv6Addr::UNSPECIFIED)), Port::One(443)),
            ("::1:80", Host::Ip(IpAddr::V6(Ipv6Addr::LOCALHOST)), Port::One(80)),
            ("[::1]", Host::Ip(IpAddr::V6(Ipv6Addr::LOCALHOST)), Port::None),
            ("ipv4@10.0.0.1:81", v4(10, 0, 0, 1), Port::One(81)),
            ("ipv6@:81", Host::Ip(IpAddr::V6(Ipv6Addr::UNSPECIFIED)), Port::One(81)),
            ("unix@/run/a.sock", Host::Unix("/run/a.sock".into()), Port::None),
            ("/run/a.sock", Host::Unix("/run/a.sock".into()), Port::None),
            ("abns@a", Host::Abstract(format!("a{}", "\0".repeat(106))), Port::None),
            ("abnsz@a", Host::Abstract("a".into()), Port::None),
            ("fd@3", Host::Fd(3), Port::None),
            ("quic4@:443", Host::Other("quic4".into()), Port::None),
            ("*:8080-8089", Host::Any, Port::Range(8080, 8089)),
            ("web1:+1000", Host::Name("web1".into(), None), Port::Offset(1000)),
            ("10.0.0.1", v4(10, 0, 0, 1), Port::None),
            ("web.example.org:8080", Host::Name("web.example.org".into(), None), Port::One(8080)),
        ] {
            assert_eq!(parse(text), Ok(Address { host, port }), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_says_why() {
        for bad in [
            "",
            ":99999",
            ":a",
            "a b:1",
            "ipv4@::1",
            "what@x:1",
            ":90-80",
            "unix@",
            "ipv6@1.2.3.4:1",
            "fd@",
            "fd@x",
            "fd@-1",
            "abns@",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_list(":80,:81").len(), 2);
    }
}
