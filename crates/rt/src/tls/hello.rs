//! A look at a client's first bytes, before the TLS library sees them.
//!
//! Owns: telling TLS from plain HTTP, and the server name and protocols a client asks for.
//! Never: consumes a byte; trusts a length.
//! Driven by: `ServerTls::accept_with`, and anything that routes by server name without decrypting.
//! Why: the configuration may depend on the server name (client certificates of one site only), and rustls wants it
//! before it reads.

use super::suites::TlsVersion;

/// What a client asked for (RFC 8446, 4.1.2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// The server name, in lower case, if one was sent (RFC 6066, 3).
    pub server_name: Option<String>,
    /// The application protocols offered (RFC 7301), in the client's order.
    pub alpn: Vec<Vec<u8>>,
    /// Its suites, two bytes each.
    pub suites: Vec<u8>,
    /// The groups that it knows (RFC 8422, 5.1.1), two bytes each.
    pub groups: Vec<u8>,
    /// TLS 1.3 is offered, with AES-128-GCM among its suites and AES before ChaCha20.
    pub(crate) aes_first: bool,
    /// Nothing newer than TLS 1.1 is offered.
    pub(crate) too_old: bool,
    /// TLS 1.3 is offered.
    offers_tls13: bool,
    /// The client says that it offered more before, and was refused (RFC 7507).
    fallback: bool,
}

impl ClientHello {
    /// Whether the client gave up a version that the server speaks: somebody between the two wants it so.
    pub(crate) fn falls_back_from(&self, newest: TlsVersion) -> bool {
        self.fallback && (self.too_old || (newest > TlsVersion::Tls12 && !self.offers_tls13))
    }
}

/// What the bytes received so far are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Peek {
    /// Too few to tell.
    Incomplete,
    /// A whole ClientHello.
    Hello(ClientHello),
    /// Something that starts like an HTTP request.
    PlainHttp,
    /// Anything else. TLS records that hold no sensible hello count as `Hello`: the TLS library says it better.
    NotTls,
}

/// A ClientHello longer than this is not waited for here.
pub(super) const MAX_HELLO: usize = 48 * 1024;

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }

    fn u8(&mut self) -> Option<usize> {
        self.take(1).map(|b| usize::from(b[0]))
    }

    fn u16(&mut self) -> Option<usize> {
        self.take(2).map(|b| usize::from(b[0]) << 8 | usize::from(b[1]))
    }

    fn vec8(&mut self) -> Option<Reader<'a>> {
        let len = self.u8()?;
        self.take(len).map(Reader)
    }

    fn vec16(&mut self) -> Option<Reader<'a>> {
        let len = self.u16()?;
        self.take(len).map(Reader)
    }
}

pub(crate) fn peek(bytes: &[u8]) -> Peek {
    let Some(&first) = bytes.first() else {
        return Peek::Incomplete;
    };
    if first != 0x16 {
        let http = first.is_ascii_uppercase() || matches!(first, b'\r' | b'\n');
        return if http { Peek::PlainHttp } else { Peek::NotTls };
    }
    match handshake_message(bytes) {
        Some(Some(message)) => Peek::Hello(parse_hello(&message).unwrap_or_default()),
        Some(None) => Peek::Hello(ClientHello::default()),
        None if bytes.len() >= MAX_HELLO => Peek::Hello(ClientHello::default()),
        None => Peek::Incomplete,
    }
}

/// The first handshake message, joined over records; `None` if it is incomplete, `Some(None)` if it is none.
fn handshake_message(bytes: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut records = Reader(bytes);
    let mut message = Vec::new();
    loop {
        if message.len() >= 4 {
            let len =
                4 + (usize::from(message[1]) << 16 | usize::from(message[2]) << 8 | usize::from(message[3]));
            if message[0] != 1 || len > MAX_HELLO {
                return Some(None);
            }
            if message.len() >= len {
                message.truncate(len);
                return Some(Some(message));
            }
        }
        if records.u8()? != 0x16 {
            return Some(None);
        }
        records.u16()?;
        let len = records.u16()?;
        if len == 0 || len > 16384 + 256 {
            return Some(None);
        }
        message.extend_from_slice(records.take(len)?);
    }
}

pub(super) fn parse_hello(message: &[u8]) -> Option<ClientHello> {
    let mut reader = Reader(message);
    reader.take(4)?;
    let version = reader.u16()?;
    reader.take(32)?;
    reader.vec8()?;
    let offered = reader.vec16()?;
    let all = offered.0.to_vec();
    let (aes_first, fallback) = suites(offered);
    reader.vec8()?;
    let mut hello =
        ClientHello { too_old: version < 0x0303, fallback, suites: all, ..ClientHello::default() };
    let Some(mut extensions) = reader.vec16() else {
        return Some(hello);
    };
    while let (Some(kind), Some(mut body)) = (extensions.u16(), extensions.vec16()) {
        match kind {
            0 => hello.server_name = server_name(&mut body),
            10 => hello.groups = body.vec16()?.0.to_vec(),
            16 => {
                let mut list = body.vec16()?;
                while let Some(protocol) = list.vec8() {
                    hello.alpn.push(protocol.0.to_vec());
                }
            }
            43 => {
                hello.offers_tls13 = offers_tls13(&mut body);
                hello.aes_first = aes_first && hello.offers_tls13;
                // RFC 8446 §4.2.1: the list replaces the old field; what it holds is for the library to judge.
                hello.too_old = false;
            }
            _ => {}
        }
    }
    Some(hello)
}

/// Whether AES-128-GCM is among the suites of TLS 1.3 and AES before ChaCha20, and whether TLS_FALLBACK_SCSV is there.
fn suites(mut suites: Reader<'_>) -> (bool, bool) {
    let (mut first, mut aes128, mut fallback) = (None, false, false);
    while let Some(suite) = suites.u16() {
        if matches!(suite, 0x1301..=0x1303) {
            first.get_or_insert(suite);
            aes128 |= suite == 0x1301;
        }
        fallback |= suite == 0x5600;
    }
    (aes128 && first != Some(0x1303), fallback)
}

fn offers_tls13(body: &mut Reader<'_>) -> bool {
    let Some(mut versions) = body.vec8() else {
        return false;
    };
    while let Some(version) = versions.u16() {
        if version == 0x0304 {
            return true;
        }
    }
    false
}

fn server_name(body: &mut Reader<'_>) -> Option<String> {
    let mut list = body.vec16()?;
    while let (Some(kind), Some(name)) = (list.u8(), list.vec16()) {
        if kind == 0 {
            let name = std::str::from_utf8(name.0).ok()?;
            return Some(name.trim_end_matches('.').to_ascii_lowercase());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(name: &str, split: usize) -> Vec<u8> {
        let mut sni = vec![0, 0, 0, name.len() as u8 + 5, 0, name.len() as u8 + 3, 0, 0, name.len() as u8];
        sni.extend(name.as_bytes());
        let alpn = b"\x00\x10\x00\x0b\x00\x09\x08http/1.1\x00\x2b\x00\x03\x02\x03\x04";
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([0, 0, 2, 0x13, 1, 1, 0]);
        body.extend([0, (sni.len() + alpn.len()) as u8]);
        body.extend(&sni);
        body.extend(alpn);
        let mut message = vec![1, 0, 0, body.len() as u8];
        message.extend(body);
        message.chunks(split).flat_map(|part| [&[0x16, 3, 1, 0, part.len() as u8], part].concat()).collect()
    }

    #[test]
    fn names_are_found_in_one_record_or_in_many() {
        for split in [200, 10, 1] {
            let bytes = hello("WWW.Example.org.", split);
            let Peek::Hello(found) = peek(&bytes) else { panic!() };
            assert_eq!(found.server_name.as_deref(), Some("www.example.org"));
            assert_eq!(found.alpn, [b"http/1.1"]);
            assert!(found.aes_first);
            for len in 0..bytes.len() {
                assert_eq!(peek(&bytes[..len]), Peek::Incomplete, "{len}");
            }
        }
    }

    #[test]
    fn other_protocols_are_told_apart() {
        assert_eq!(peek(b"GET / HTTP/1.1\r\n"), Peek::PlainHttp);
        assert_eq!(peek(b"\x00\x01"), Peek::NotTls);
        assert_eq!(peek(b"\x16\x03\x01\x00\x04\x02\x00\x00\x00"), Peek::Hello(ClientHello::default()));
    }
}
