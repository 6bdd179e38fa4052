//! PROXY protocol headers, in both versions and directions.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_http::proxy_protocol::{MAX_HEADER, Proxied, ProxyError, ProxyVersion, parse, write};

/// Parses at once and byte by byte, and wants the same of both.
#[track_caller]
fn check(bytes: &[u8]) -> Result<Option<(Proxied, usize)>, ProxyError> {
    let whole = parse(bytes);
    let mut early = Ok(None);
    for end in 0..=bytes.len() {
        early = parse(&bytes[..end]);
        if !matches!(early, Ok(None)) {
            break;
        }
    }
    assert_eq!(early, whole, "{}", bytes.escape_ascii());
    whole.map(|found| found.map(|header| (header.proxied, header.len)))
}

fn inet(source: &str, destination: &str, datagram: bool) -> Proxied {
    Proxied::Inet {
        source: source.parse().expect("an address"),
        destination: destination.parse().expect("an address"),
        datagram,
    }
}

#[test]
fn lines() {
    let expected = inet("192.0.2.1:1234", "198.51.100.2:80", false);
    assert_eq!(check(b"PROXY TCP4 192.0.2.1 198.51.100.2 1234 80\r\nGET /"), Ok(Some((expected, 43))));
    let expected = inet("[2001:db8::1]:0", "[::1]:65535", false);
    assert_eq!(check(b"PROXY TCP6 2001:db8::1 ::1 0 65535\r\n").unwrap().unwrap().0, expected);
    assert_eq!(check(b"PROXY UNKNOWN\r\n").unwrap(), Some((Proxied::Local, 15)));
    assert_eq!(check(b"PROXY UNKNOWN some thing\r\n").unwrap().unwrap().0, Proxied::Local);
    assert_eq!(check(b"PROXY TCP4 192.0.2.1"), Ok(None));
    assert_eq!(check(b""), Ok(None));
}

#[test]
fn bad_lines() {
    for line in [
        "PROXY TCP4 192.0.2.1 198.51.100.2 1234 80\n",
        "PROXY TCP4  192.0.2.1 198.51.100.2 1234 80\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 1234\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 1234 80 \r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 1234 65536\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 01234 80\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 +1234 80\r\n",
        "PROXY TCP4 192.0.2.01 198.51.100.2 1234 80\r\n",
        "PROXY TCP4 ::1 ::1 1234 80\r\n",
        "PROXY TCP6 192.0.2.1 198.51.100.2 1234 80\r\n",
        "PROXY UDP4 192.0.2.1 198.51.100.2 1234 80\r\n",
        "PROXY UNKNOWNX\r\n",
        "PROXY \r\n",
    ] {
        assert_eq!(check(line.as_bytes()), Err(ProxyError::Line), "{line:?}");
    }
    assert_eq!(check(format!("PROXY UNKNOWN {}\r\n", "x".repeat(100)).as_bytes()), Err(ProxyError::Line));
    assert_eq!(check(b"GET / HTTP/1.1\r\n"), Err(ProxyError::NoHeader));
    assert_eq!(check(b"PROXX"), Err(ProxyError::NoHeader));
    assert_eq!(check(b"\x16\x03\x01"), Err(ProxyError::NoHeader));
}

fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    bytes.extend_from_slice(&[command, family]);
    bytes.extend_from_slice(&(rest.len() as u16).to_be_bytes());
    bytes.extend_from_slice(rest);
    bytes
}

const INET: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0x04, 0xd2, 0, 80];

#[test]
fn binary_headers() {
    let expected = inet("192.0.2.1:1234", "198.51.100.2:80", false);
    assert_eq!(check(&binary(0x21, 0x11, &INET)), Ok(Some((expected.clone(), 28))));
    let udp = inet("192.0.2.1:1234", "198.51.100.2:80", true);
    assert_eq!(check(&binary(0x21, 0x12, &INET)).unwrap().unwrap().0, udp);
    assert_eq!(check(&binary(0x20, 0x11, &INET)).unwrap().unwrap(), (Proxied::Local, 28));
    assert_eq!(check(&binary(0x20, 0, &[])).unwrap().unwrap(), (Proxied::Local, 16));
    assert_eq!(check(&binary(0x21, 0, b"whatever")).unwrap().unwrap(), (Proxied::Local, 24));

    let with_tlvs = [&INET[..], &[1, 0, 2, b'h', b'2'], &[4, 0, 0]].concat();
    let bytes = [binary(0x21, 0x11, &with_tlvs), b"GET /".to_vec()].concat();
    let header = parse(&bytes).unwrap().unwrap();
    assert_eq!(header.proxied, expected);
    let tlvs: Vec<_> = header.tlvs(&bytes).map(|tlv| (tlv.kind, tlv.value.to_vec())).collect();
    assert_eq!(tlvs, [(1, b"h2".to_vec()), (4, vec![])]);
    assert_eq!(&bytes[header.len..], b"GET /");
}

#[test]
fn bad_binary_headers() {
    for bytes in [
        binary(0x11, 0x11, &INET),
        binary(0x22, 0x11, &INET),
        binary(0x21, 0x13, &INET),
        binary(0x21, 0x41, &INET),
        binary(0x21, 0x10, &INET),
        binary(0x21, 0x11, &INET[..11]),
        binary(0x21, 0x21, &INET),
        binary(0x21, 0x31, &INET),
        binary(0x21, 0x11, &[&INET[..], &[1, 0]].concat()),
        binary(0x21, 0x11, &[&INET[..], &[1, 0, 5, 1]].concat()),
        binary(0x21, 0x11, &[&INET[..], &[3, 0, 1, 1]].concat()),
    ] {
        assert_eq!(check(&bytes), Err(ProxyError::Binary), "{}", bytes.escape_ascii());
    }
    assert_eq!(check(&binary(0x21, 0x11, &vec![0; MAX_HEADER])), Err(ProxyError::TooLong));
}

#[test]
fn checksums() {
    let tlvs = [&INET[..], &[3, 0, 4, 0, 0, 0, 0], &[4, 0, 1, 9]].concat();
    let mut bytes = binary(0x21, 0x11, &tlvs);
    assert_eq!(check(&bytes), Err(ProxyError::Checksum));
    let mut crc = u32::MAX;
    for byte in &bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    bytes[31..35].copy_from_slice(&(!crc).to_be_bytes());
    assert!(matches!(check(&bytes), Ok(Some(_))));
}

#[test]
fn what_is_written_is_read() {
    let unix = Proxied::Unix { source: b"/run/a".to_vec(), destination: vec![b'x'; 108] };
    for proxied in [
        Proxied::Local,
        inet("192.0.2.1:1234", "198.51.100.2:80", false),
        inet("[2001:db8::1]:1", "[::1]:2", false),
        inet("192.0.2.1:1234", "198.51.100.2:80", true),
        unix,
    ] {
        let mut out = Vec::new();
        write(ProxyVersion::V2, &proxied, &mut out);
        assert_eq!(check(&out), Ok(Some((proxied.clone(), out.len()))));
        out.clear();
        write(ProxyVersion::V1, &proxied, &mut out);
        let read = check(&out).unwrap().unwrap().0;
        let sayable = matches!(proxied, Proxied::Inet { datagram: false, .. });
        assert_eq!(read, if sayable { proxied } else { Proxied::Local });
    }
    let mut out = Vec::new();
    write(ProxyVersion::V1, &inet("192.0.2.1:1", "[::1]:2", false), &mut out);
    assert_eq!(out, b"PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n");
}
