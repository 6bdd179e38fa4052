//! Reading a TLS ClientHello without taking part in the handshake (RFC 8446 §4.1.2, RFC 6066 §3, RFC 7301 §3.1).
//!
//! Owns: what a proxy may learn from the first message of a connection that it does not terminate.
//! Never: keeps a byte, trusts a length: what is cut off is [`Peek::More`], what cannot be is [`Peek::Other`].
//! Driven by: TCP services that choose by server name.
//! Why: the hello may lie in several records, and each length in it is the client's word; one reader with a bound on
//! every step serves every rule.

use crate::cursor::Cursor;

/// Most bytes of records that are looked at for a hello.
pub const MOST: usize = 16 << 10;

/// What the first bytes of a connection are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peek {
    /// The beginning of a hello, or nothing at all yet.
    More,
    /// A hello.
    Hello(Hello),
    /// Not TLS, or not a hello.
    Other,
}

/// What a hello says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The server name asked for, as sent; empty if none.
    pub server_name: Vec<u8>,
    /// The first protocol offered by ALPN; empty if none.
    pub alpn: Vec<u8>,
    /// All protocols offered by ALPN, with commas between them.
    pub protocols: Vec<u8>,
    /// Newest version offered: major, minor on the wire (3, 4 is TLS 1.3).
    pub version: (u8, u8),
}

/// What a hello says beside what services choose by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The version that it names first: major, minor on the wire.
    pub version: (u8, u8),
    /// Its suites, two bytes each.
    pub ciphers: Vec<u8>,
    /// The groups that it knows (RFC 8422 §5.1.1), two bytes each.
    pub groups: Vec<u8>,
    /// The signature algorithms that it takes, two bytes each.
    pub signature_algorithms: Vec<u8>,
    /// The groups of its key shares (RFC 8446 §4.2.8), two bytes each.
    pub key_shares: Vec<u8>,
    /// It says something about elliptic curves.
    pub elliptic_curves: bool,
    /// It knows tickets (RFC 5077 §3.2); true: it brings one.
    pub ticket: Option<bool>,
}

/// All that the first bytes of a client say, if they are a whole hello.
pub fn details(bytes: &[u8]) -> Option<Details> {
    match gather(bytes, details_of) {
        Parsed::Done(details) => Some(details),
        Parsed::Short | Parsed::Bad => None,
    }
}

fn details_of(body: &[u8]) -> Option<Details> {
    let mut cursor = Cursor::new(body);
    let version = cursor.take(2)?;
    cursor.take(32)?;
    cursor.small()?;
    let ciphers = cursor.large()?.to_vec();
    cursor.small()?;
    let mut details = Details { version: (version[0], version[1]), ciphers, ..Details::default() };
    let mut extensions = Cursor::new(cursor.large().unwrap_or_default());
    while !extensions.is_empty() {
        let kind = extensions.short()?;
        let mut data = Cursor::new(extensions.large()?);
        match kind {
            10 => {
                details.elliptic_curves = true;
                details.groups = data.large()?.to_vec();
            }
            13 => details.signature_algorithms = data.large()?.to_vec(),
            35 => details.ticket = Some(!data.is_empty()),
            51 => {
                let mut shares = Cursor::new(data.large()?);
                while !shares.is_empty() {
                    details.key_shares.extend_from_slice(shares.take(2)?);
                    shares.large()?;
                }
            }
            _ => {}
        }
    }
    Some(details)
}

/// Looks at the first bytes that a client sent.
pub fn peek(bytes: &[u8]) -> Peek {
    match gather(bytes, body_of) {
        Parsed::Done(hello) => Peek::Hello(hello),
        Parsed::Short => Peek::More,
        Parsed::Bad => Peek::Other,
    }
}

enum Parsed<T> {
    Done(T),
    Short,
    Bad,
}

/// Has the body of a hello read, once its records are there.
fn gather<T>(bytes: &[u8], read: fn(&[u8]) -> Option<T>) -> Parsed<T> {
    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
        // Record header: type, version, length.
        let Some((&kind, after)) = rest.split_first() else { return Parsed::Short };
        if kind != 22 || after.first().is_some_and(|&major| major != 3) {
            return Parsed::Bad;
        }
        let Some((header, after)) = after.split_at_checked(4) else { return Parsed::Short };
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if length == 0 || length > MOST {
            return Parsed::Bad;
        }
        // A hello that is still short is shorter than `MOST` and its header: what is gathered has a bound.
        let whole = after.len() >= length;
        message.extend_from_slice(&after[..length.min(after.len())]);
        match parse(&message, read) {
            Parsed::Short if whole => rest = &after[length..],
            parsed => return parsed,
        }
    }
}

fn parse<T>(message: &[u8], read: fn(&[u8]) -> Option<T>) -> Parsed<T> {
    let Some(&kind) = message.first() else { return Parsed::Short };
    if kind != 1 {
        return Parsed::Bad;
    }
    let Some(length) = message.get(1..4) else { return Parsed::Short };
    let length = usize::from(length[0]) << 16 | usize::from(length[1]) << 8 | usize::from(length[2]);
    if length > MOST {
        return Parsed::Bad;
    }
    let Some(body) = message.get(4..4 + length) else { return Parsed::Short };
    read(body).map_or(Parsed::Bad, Parsed::Done)
}

fn body_of(body: &[u8]) -> Option<Hello> {
    let mut cursor = Cursor::new(body);
    let version = cursor.take(2)?;
    let mut hello = Hello { version: (version[0], version[1]), ..Hello::default() };
    cursor.take(32)?;
    cursor.small()?;
    cursor.large()?;
    cursor.small()?;
    if cursor.is_empty() {
        return Some(hello);
    }
    let mut extensions = Cursor::new(cursor.large()?);
    while !extensions.is_empty() {
        let kind = extensions.short()?;
        let mut data = Cursor::new(extensions.large()?);
        match kind {
            0 => hello.server_name = server_name(&mut data)?,
            16 => {
                (hello.alpn, hello.protocols) = protocols(&mut data)?;
            }
            43 => {
                let versions = data.small()?.chunks_exact(2);
                // Values like 0x?a?a are grease (RFC 8701).
                let offered = versions.map(|v| (v[0], v[1])).filter(|v| v.0 == 3);
                hello.version = offered.max().unwrap_or(hello.version);
            }
            _ => {}
        }
    }
    Some(hello)
}

/// The first protocol, and all of them with commas between them.
fn protocols(data: &mut Cursor<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut names = Cursor::new(data.large()?);
    let first = names.small()?.to_vec();
    let mut all = first.clone();
    while !names.is_empty() {
        all.push(b',');
        all.extend_from_slice(names.small()?);
    }
    Some((first, all))
}

/// The first name of type `host_name`.
fn server_name(data: &mut Cursor<'_>) -> Option<Vec<u8>> {
    let mut names = Cursor::new(data.large()?);
    while !names.is_empty() {
        let kind = names.byte()?;
        let name = names.large()?;
        if kind == 0 {
            return Some(name.to_vec());
        }
    }
    Some(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hello with a server name, ALPN and versions, in records of `size` bytes.
    fn hello(name: &str, size: usize) -> Vec<u8> {
        let vector = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
        let extension = |kind: u16, data: &[u8]| [&kind.to_be_bytes()[..], &vector(data)].concat();
        let mut sni = vec![0];
        sni.extend(vector(name.as_bytes()));
        let extensions = [
            extension(0x0a0a, b""),
            extension(0, &vector(&sni)),
            extension(16, &vector(b"\x02h2\x08http/1.1")),
            extension(43, b"\x06\x3a\x3a\x03\x04\x03\x03"),
        ]
        .concat();
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend(b"\x00\x00\x02\x13\x01\x01\x00");
        body.extend(vector(&extensions));
        let mut message = vec![1, 0];
        message.extend(vector(&body));
        message.chunks(size).flat_map(|part| [&[22, 3, 1][..], &vector(part)].concat()).collect()
    }

    #[test]
    fn details_are_those_of_the_same_hello() {
        for size in [1, 7, 100, 16_000] {
            let found = details(&hello("a.example", size)).unwrap();
            assert_eq!((found.version, &found.ciphers[..]), ((3, 3), &[0x13, 1][..]), "{size}");
            assert!(!found.elliptic_curves && found.ticket.is_none());
        }
        let whole = hello("a.example", 16_000);
        assert!((0..whole.len()).all(|end| details(&whole[..end]).is_none()));
        assert_eq!(details(b"GET / HTTP/1.1\r\n"), None);
    }

    #[test]
    fn a_hello_is_read_in_one_record_or_many() {
        for size in [1, 7, 100, 16_000] {
            let Peek::Hello(found) = peek(&hello("a.example", size)) else { panic!("{size}") };
            assert_eq!(found.server_name, b"a.example");
            assert_eq!((found.alpn.as_slice(), found.version), (&b"h2"[..], (3, 4)));
            assert_eq!(found.protocols, b"h2,http/1.1");
        }
    }

    #[test]
    fn the_longest_hello_is_read_however_it_arrives() {
        let padding = MOST - hello("", 16_000).len() + 5 + 4;
        let whole = hello(&"a".repeat(padding), 8 << 10);
        assert!(matches!(peek(&whole), Peek::Hello(_)));
        for cut in 1..10 {
            assert_eq!(peek(&whole[..whole.len() - cut]), Peek::More, "{cut}");
        }
        assert_eq!(peek(&hello(&"a".repeat(padding + 1), 8 << 10)), Peek::Other);
    }

    #[test]
    fn every_beginning_asks_for_more() {
        let whole = hello("a.example", 40);
        for length in 0..whole.len() {
            assert_eq!(peek(&whole[..length]), Peek::More, "{length}");
        }
    }

    #[test]
    fn what_is_no_hello_is_told_at_once() {
        for bytes in [
            &b"GET / HTTP/1.1"[..],
            b"\x16\x02",
            b"\x15\x03\x01\x00\x02",
            b"\x16\x03\x01\x00\x00",
            b"\x16\x03\x01\x00\x01\x02",
        ] {
            assert_eq!(peek(bytes), Peek::Other, "{bytes:?}");
        }
        // A length inside that points beyond its frame.
        let mut broken = hello("a.example", 16_000);
        let at = broken.windows(9).position(|window| window == b"a.example").unwrap();
        broken[at - 1] = 200;
        assert_eq!(peek(&broken), Peek::Other);
    }
}
