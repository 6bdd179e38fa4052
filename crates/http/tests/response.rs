//! Answers of upstreams: what is taken, what becomes 502, and what follows the head.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_http::{
    Framing, FramingError, HeadRules, HeaderId, LineError, Method, Parsed, ResponseError, ResponseHead,
    Version,
};

fn parse(text: &[u8]) -> Result<ResponseHead, ResponseError> {
    let mut head = ResponseHead::new();
    match head.parse(text, &HeadRules::default())? {
        Parsed::Whole(_) => Ok(head),
        Parsed::NeedMore => panic!("cut: {}", text.escape_ascii()),
    }
}

#[test]
fn a_usual_answer() {
    let text =
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nServer: x\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\nhello";
    let head = parse(text).unwrap();
    let answer = head.view(text);
    assert_eq!(
        (answer.status(), answer.reason(), answer.version()),
        (200, b"OK".as_slice(), Version::Http11)
    );
    assert_eq!(answer.headers().value(HeaderId::Server), Some(b"x".as_slice()));
    assert_eq!(answer.framing(Method::Get), Framing::Length(5));
    assert!(answer.reusable(Method::Get) && !answer.is_interim());
    assert_eq!(answer.headers().end_to_end().count(), 2);
}

#[test]
fn status_lines() {
    for (line, status, reason) in [
        ("HTTP/1.1 204 ", 204, ""),
        ("HTTP/1.1 204", 204, ""),
        ("HTTP/1.0 999 A  b\t\u{e9}", 999, "A  b\t\u{e9}"),
        ("HTTP/1.2 100 Continue", 100, "Continue"),
    ] {
        let text = format!("{line}\r\n\r\n");
        let head = parse(text.as_bytes()).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert_eq!(head.view(text.as_bytes()).status(), status);
        assert_eq!(head.view(text.as_bytes()).reason(), reason.as_bytes());
    }
    for line in [
        "",
        "garbage",
        "HTTP/1.1",
        "HTTP/1.1 ",
        "HTTP/1.1 20",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 099 x",
        "HTTP/1.1 -20 x",
        "HTTP/1.1 2x0 OK",
        "HTTP/1.1  200 OK",
        "HTTP/1.1\t200 OK",
        "HTTP/2 200 OK",
        "HTTP/2.0 200 OK",
        "HTTP/0.9 200 OK",
        "http/1.1 200 OK",
        "ICY 200 OK",
        "<html>",
        " HTTP/1.1 200 OK",
        "HTTP/1.10 200 OK",
        "HTTP/1.1 200\tOK",
    ] {
        let text = format!("{line}\r\n\r\n");
        assert_eq!(parse(text.as_bytes()).err(), Some(ResponseError::StatusLine), "{line}");
    }
    assert_eq!(parse(b"HTTP/1.1 200 a\0b\r\n\r\n").err(), Some(ResponseError::Line(LineError::Control)));
    assert_eq!(parse(b"HTTP/1.1 200 OK\n\r\n").err(), Some(ResponseError::Line(LineError::MixedEnds)));
    assert_eq!(parse(b"HTTP/1.1 200 OK\r\n\n").err(), Some(ResponseError::Line(LineError::BareLf)));
    assert_eq!(parse(b"HTTP/1.1 200 OK\nA: b\r\n\n").err(), Some(ResponseError::Line(LineError::MixedEnds)));
    assert_eq!(parse(b"HTTP/1.1 200 OK\n\rA: b\n\r\n").err(), Some(ResponseError::Line(LineError::BareCr)));
    assert_eq!(parse(b"\r\nHTTP/1.1 200 OK\r\n\r\n").err(), Some(ResponseError::StatusLine));
}

#[test]
fn lines_may_all_end_in_lf() {
    for (text, reason) in [
        (&b"HTTP/1.1 200 All right\nContent-Length: 2\n\n"[..], &b"All right"[..]),
        (b"HTTP/1.1 200 \nContent-Length: 2\n\n", b""),
        (b"HTTP/1.1 200\nContent-Length: 2\n\n", b""),
    ] {
        let mut head = ResponseHead::new();
        for end in 0..text.len() {
            assert_eq!(head.parse(&text[..end], &HeadRules::default()), Ok(Parsed::NeedMore), "{end}");
        }
        assert_eq!(head.parse(text, &HeadRules::default()), Ok(Parsed::Whole(text.len())));
        assert_eq!(head.view(text).reason(), reason);
        assert_eq!(head.view(text).framing(Method::Get), Framing::Length(2));
    }
}

#[test]
fn garbage_is_known_at_its_first_byte() {
    assert_eq!(ResponseHead::new().parse(b"x", &HeadRules::default()), Err(ResponseError::StatusLine));
    assert_eq!(ResponseHead::new().parse(b"HTTP/1.1", &HeadRules::default()), Ok(Parsed::NeedMore));
}

#[test]
fn bodies_in_doubt() {
    use FramingError as F;
    for (fields, error) in [
        ("Content-Length: 5\r\nContent-Length: 5\r\n", F::RepeatedLength),
        ("Content-Length: +5\r\n", F::Length),
        ("Content-Length: 0x5\r\n", F::Length),
        ("Content-Length: 99999999999999999999\r\n", F::Length),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", F::LengthAndCoding),
        ("Transfer-Encoding: gzip\r\n", F::UnknownCoding),
        ("Transfer-Encoding: chunked, identity\r\n", F::Coding),
    ] {
        let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        assert_eq!(parse(text.as_bytes()).err(), Some(ResponseError::Framing(error)), "{fields}");
    }
    assert_eq!(
        parse(b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").err(),
        Some(ResponseError::Framing(F::CodingInHttp10))
    );
}

#[test]
fn which_body_follows() {
    use Framing as B;
    for (line, fields, method, framing, reusable) in [
        ("200", "Content-Length: 5\r\n", Method::Get, B::Length(5), true),
        ("200", "Content-Length: 0\r\n", Method::Get, B::None, true),
        ("200", "Transfer-Encoding: chunked\r\n", Method::Get, B::Chunked, true),
        ("200", "", Method::Get, B::UntilClose, false),
        ("200", "Content-Length: 5\r\nConnection: close\r\n", Method::Get, B::Length(5), false),
        ("200", "Content-Length: 5\r\n", Method::Head, B::None, true),
        ("200", "", Method::Head, B::None, true),
        ("200", "Transfer-Encoding: chunked\r\n", Method::Head, B::None, true),
        ("304", "Content-Length: 5\r\n", Method::Get, B::None, true),
        ("204", "", Method::Get, B::None, true),
        ("204", "Content-Length: 0\r\n", Method::Get, B::None, true),
        ("204", "Content-Length: 5\r\n", Method::Get, B::None, false),
        ("204", "Transfer-Encoding: chunked\r\n", Method::Get, B::None, false),
        ("205", "", Method::Get, B::UntilClose, false),
        ("103", "", Method::Get, B::None, true),
        ("200", "Content-Length: 5\r\n", Method::Connect, B::None, false),
        ("403", "Content-Length: 5\r\n", Method::Connect, B::Length(5), true),
    ] {
        let text = format!("HTTP/1.1 {line} x\r\n{fields}\r\n");
        let head = parse(text.as_bytes()).unwrap();
        let answer = head.view(text.as_bytes());
        assert_eq!(answer.framing(method), framing, "{text}");
        assert_eq!(answer.reusable(method), reusable, "{text}");
    }
    let text = b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n";
    assert!(!parse(text).unwrap().view(text).reusable(Method::Get));
    let text = b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n";
    assert!(parse(text).unwrap().view(text).reusable(Method::Get));
}

#[test]
fn upgrades() {
    let text = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let head = parse(text).unwrap();
    let answer = head.view(text);
    assert!(answer.is_tunnel(Method::Get) && !answer.is_interim() && !answer.reusable(Method::Get));
    assert_eq!(answer.upgrade(), Some(b"websocket".as_slice()));
    let text = b"HTTP/1.1 101 Switching Protocols\r\n\r\n";
    assert!(!parse(text).unwrap().view(text).is_tunnel(Method::Get));
}
