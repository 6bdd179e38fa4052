//! FastCGI records and CGI heads.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_http::fastcgi::{self, CgiError, CgiHead, Decoder, FastCgiError, FastCgiEvent};
use weir_http::{HeadRules, LineError, Parsed};

fn record(kind: u8, id: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    let mut out = vec![1, kind, 0, id, high, low, padding, 0];
    out.extend_from_slice(content);
    out.resize(out.len() + usize::from(padding), 0xff);
    out
}

/// What was decoded: stdout, stderr, and consumed bytes with the exit status if the answer is whole.
type Decoded = (Vec<u8>, Vec<u8>, Option<(usize, u32)>);

fn decode(pieces: &[&[u8]]) -> Result<Decoded, FastCgiError> {
    let mut decoder = Decoder::new();
    let (mut stdout, mut stderr, mut consumed) = (Vec::new(), Vec::new(), 0);
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let used = match decoder.next(rest)? {
                FastCgiEvent::Stdout(range) => {
                    stdout.extend_from_slice(&rest[range.clone()]);
                    range.end
                }
                FastCgiEvent::Stderr(range) => {
                    stderr.extend_from_slice(&rest[range.clone()]);
                    range.end
                }
                FastCgiEvent::NeedMore(n) => {
                    assert_eq!(n, rest.len());
                    consumed += n;
                    break;
                }
                FastCgiEvent::End { consumed: n, app_status } => {
                    assert!(decoder.is_done());
                    return Ok((stdout, stderr, Some((consumed + n, app_status))));
                }
            };
            consumed += used;
            rest = &rest[used..];
        }
    }
    Ok((stdout, stderr, None))
}

#[track_caller]
fn check(bytes: &[u8]) -> Result<Decoded, FastCgiError> {
    let whole = decode(&[bytes]);
    for size in [1, 3, 8, 13] {
        assert_eq!(decode(&bytes.chunks(size).collect::<Vec<_>>()), whole);
    }
    whole
}

#[test]
fn an_answer() {
    let bytes = [
        record(6, 1, b"Status: 200\r\n", 3),
        record(7, 1, b"oops", 0),
        record(6, 1, b"\r\nbody", 2),
        record(6, 1, b"", 8),
        record(7, 1, b"", 0),
        record(3, 1, &[0, 0, 0, 5, 0, 0, 0, 0], 4),
        b"next".to_vec(),
    ]
    .concat();
    let (stdout, stderr, end) = check(&bytes).unwrap();
    assert_eq!(stdout, b"Status: 200\r\n\r\nbody");
    assert_eq!(stderr, b"oops");
    assert_eq!(end, Some((bytes.len() - 4, 5)));
    for cut in 0..bytes.len() - 4 {
        assert_eq!(decode(&[&bytes[..cut]]).unwrap().2, None, "a cut answer is not whole: {cut}");
    }
}

#[test]
fn bad_records() {
    assert_eq!(check(b"HTTP/1.1 200 OK\r\n"), Err(FastCgiError::Version));
    assert_eq!(check(&record(6, 2, b"x", 0)), Err(FastCgiError::RequestId));
    assert_eq!(check(&record(5, 1, b"x", 0)), Err(FastCgiError::Type));
    assert_eq!(check(&record(3, 1, b"1234567", 0)), Err(FastCgiError::EndRequest));
}

/// Reads records back into streams by type.
fn streams(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut found: Vec<(u8, Vec<u8>)> = Vec::new();
    while let Some(&[1, kind, 0, 1, high, low, padding, 0]) = bytes.first_chunk() {
        let len = usize::from(u16::from_be_bytes([high, low]));
        assert_eq!((len + usize::from(padding)) % 8, 0);
        let content = &bytes[8..8 + len];
        match found.last_mut() {
            Some((last, stream)) if *last == kind => stream.extend_from_slice(content),
            _ => found.push((kind, content.to_vec())),
        }
        bytes = &bytes[8 + len + usize::from(padding)..];
    }
    assert!(bytes.is_empty());
    found
}

#[test]
fn a_request() {
    let (mut pairs, mut out) = (Vec::new(), Vec::new());
    fastcgi::param(&mut pairs, b"A", b"bc");
    fastcgi::param(&mut pairs, b"LONG", &[b'x'; 70_000]);
    fastcgi::begin_request(&mut out, true);
    fastcgi::params(&mut out, &pairs);
    fastcgi::stdin(&mut out, b"");
    fastcgi::stdin(&mut out, b"hello");
    fastcgi::end_stream(&mut out);
    let found = streams(&out);
    assert_eq!(found.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [1, 4, 5]);
    assert_eq!(found[0].1, [0, 1, 1, 0, 0, 0, 0, 0]);
    assert_eq!(&found[1].1[..5], b"\x01\x02Abc");
    assert_eq!(&found[1].1[5..10], [4, 0x80, 1, 0x11, 0x70]);
    assert_eq!(found[1].1.len(), 5 + 9 + 70_000);
    assert_eq!(found[2].1, b"hello");
    assert_eq!(&out[out.len() - 8..], [1, 5, 0, 1, 0, 0, 0, 0]);
}

#[track_caller]
fn head(text: &str) -> Result<(CgiHead, usize), CgiError> {
    let parse = |step: usize| {
        let mut head = CgiHead::new();
        for end in (0..text.len()).step_by(step).chain([text.len()]) {
            if let Parsed::Whole(n) = head.parse(&text.as_bytes()[..end], &HeadRules::default())? {
                return Ok((head, n));
            }
        }
        panic!("cut: {text:?}");
    };
    let whole = parse(text.len().max(1));
    assert_eq!(parse(1).map(|r| r.1).is_ok(), whole.as_ref().map(|r| r.1).is_ok());
    whole
}

#[test]
fn cgi_heads() {
    let text = "Status: 404 Not here\nContent-type: text/html\r\nX-A:  b \r\nContent-Length: 3\nConnection: X-A\n\nbody";
    let (found, len) = head(text).unwrap();
    assert_eq!((found.status(), len), (404, text.len() - 4));
    assert_eq!(found.reason(text.as_bytes()), Some(b"Not here".as_slice()));
    assert_eq!(found.content_length(), Some(3));
    assert_eq!(found.headers(text.as_bytes()).by_name(b"x-a"), Some(b"b".as_slice()));
    let kept: Vec<_> = found.headers(text.as_bytes()).end_to_end().map(|(_, name, _)| name).collect();
    assert_eq!(kept, [b"Content-type".as_slice(), b"Content-Length"]);
    assert_eq!(head("Location: /x\r\n\r\n").unwrap().0.status(), 302);
    assert_eq!(head("Content-Type: a/b\n\n").unwrap().0.status(), 200);
    assert_eq!(head("Status: 201\n\n").unwrap().0.status(), 201);
    assert_eq!(head("\n").unwrap().0.status(), 200);
}

#[test]
fn bad_cgi_heads() {
    for (text, error) in [
        ("Status: 20\n\n", CgiError::Status),
        ("Status: 2000\n\n", CgiError::Status),
        ("Status: OK\n\n", CgiError::Status),
        ("Status: 101 Switching\n\n", CgiError::Status),
        ("Status: 200\nStatus: 200\n\n", CgiError::Status),
        ("Content-Length: -1\n\n", CgiError::Length),
        ("Content-Length: 1\nContent-Length: 1\n\n", CgiError::Length),
        ("hello\n\n", CgiError::Line(LineError::FieldName)),
        ("A : b\n\n", CgiError::Line(LineError::SpaceBeforeColon)),
        ("A: b\n c\n\n", CgiError::Line(LineError::Folding)),
        ("A: b\rc\n\n", CgiError::Line(LineError::Control)),
        ("A: b\0\n\n", CgiError::Line(LineError::Control)),
    ] {
        assert_eq!(head(text).err(), Some(error), "{text:?}");
    }
}
