//! Request heads: what is taken, what is refused, and with which status.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_http::{
    Framing, FramingError, HeadRules, HeaderId, LineError, Method, Parsed, RequestError, RequestHead,
    TargetForm, UnusualNames, Version,
};

fn parse(text: &[u8], rules: &HeadRules) -> Result<RequestHead, RequestError> {
    let mut head = RequestHead::new();
    match head.parse(text, rules)? {
        Parsed::Whole(_) => Ok(head),
        Parsed::NeedMore => panic!("cut: {}", text.escape_ascii()),
    }
}

#[track_caller]
fn ok(text: &str) -> (RequestHead, Vec<u8>) {
    match parse(text.as_bytes(), &HeadRules::default()) {
        Ok(head) => (head, text.as_bytes().to_vec()),
        Err(error) => panic!("{error}: {}", text.escape_debug()),
    }
}

#[track_caller]
fn refused(text: &[u8], expected: RequestError, status: u16) {
    let found = parse(text, &HeadRules::default()).err();
    assert_eq!(found, Some(expected), "{}", text.escape_ascii());
    assert_eq!(expected.status(), status);
}

#[test]
fn a_usual_request() {
    let text = "GET /a/b?c=d HTTP/1.1\r\nHost: example.com:8080\r\nUser-Agent:curl/8\r\nX-Odd: \t a b \t\r\n\r\nGET /";
    let (head, buf) = ok(text);
    let request = head.view(&buf);
    assert_eq!(request.method(), Method::Get);
    assert_eq!(request.version(), Version::Http11);
    assert_eq!(request.target(), b"/a/b?c=d");
    assert_eq!(request.line(), b"GET /a/b?c=d HTTP/1.1");
    assert_eq!(request.path(), b"/a/b");
    assert_eq!(request.query(), Some(b"c=d".as_slice()));
    assert_eq!(request.framing(), Framing::None);
    assert!(request.keep_alive());
    assert_eq!(request.authority().unwrap().host, b"example.com");
    assert_eq!(request.authority().unwrap().port, Some(8080));
    let headers = request.headers();
    assert_eq!(headers.len(), 3);
    assert_eq!(headers.value(HeaderId::UserAgent), Some(b"curl/8".as_slice()));
    assert_eq!(headers.by_name(b"x-ODD"), Some(b"a b".as_slice()));
    assert_eq!(headers.by_name(b"x-none"), None);
    assert_eq!(headers.by_name(b"hOST"), Some(b"example.com:8080".as_slice()));
    assert!(!headers.has(HeaderId::Accept));
}

#[test]
fn the_length_ends_at_the_empty_line() {
    let text = b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nrest";
    let mut head = RequestHead::new();
    assert_eq!(head.parse(text, &HeadRules::default()), Ok(Parsed::Whole(text.len() - 4)));
    assert_eq!(head.view(text).line(), b"GET / HTTP/1.1");
    head.reset();
    assert_eq!(head.parse(b"", &HeadRules::default()), Ok(Parsed::NeedMore));
    assert!(head.is_untouched(b"\r\n"));
    assert!(!head.is_untouched(b"\r\nG"));
}

#[test]
fn request_lines_refused() {
    use RequestError as E;
    for (line, error, status) in [
        ("GET /", E::RequestLine, 400),
        ("GET", E::RequestLine, 400),
        ("GET  / HTTP/1.1", E::RequestLine, 400),
        ("GET /  HTTP/1.1", E::Version, 400),
        ("GET / HTTP/1.1 ", E::Version, 400),
        (" GET / HTTP/1.1", E::Method, 400),
        ("G(T / HTTP/1.1", E::Method, 400),
        ("ABCDEFGHIJKLMNOPQRSTUVWXYZ-ABCDEF / HTTP/1.1", E::Method, 400),
        ("GET\t/ HTTP/1.1", E::Method, 400),
        ("GET /\tHTTP/1.1", E::Target, 400),
        ("GET / HTTP/1.1x", E::Version, 400),
        ("GET / HTTP/0.9", E::Version, 400),
        ("GET / http/1.1", E::Version, 400),
        ("GET / HTTP/1", E::Version, 400),
        ("GET / HTTP/1.10", E::Version, 400),
        ("GET / HTTP/2.0", E::UnsupportedVersion, 505),
        ("PRI * HTTP/2.0", E::UnsupportedVersion, 505),
        ("GET / HTTP/3.0", E::UnsupportedVersion, 505),
        ("GET a HTTP/1.1", E::Target, 400),
        ("GET * HTTP/1.1", E::Target, 400),
        ("GET a:80 HTTP/1.1", E::Target, 400),
        ("GET /a#b HTTP/1.1", E::Target, 400),
        ("GET /\u{7f} HTTP/1.1", E::Target, 400),
        ("GET /\0 HTTP/1.1", E::Target, 400),
        ("GET ftp://a/ HTTP/1.1", E::Target, 400),
        ("GET http:/a HTTP/1.1", E::Target, 400),
        ("GET http:///a HTTP/1.1", E::Target, 400),
        ("GET http://u@a/ HTTP/1.1", E::Target, 400),
        ("GET http://a:b/ HTTP/1.1", E::Target, 400),
    ] {
        refused(format!("{line}\r\nHost: a\r\n\r\n").as_bytes(), error, status);
    }
    refused(b"\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n", E::Method, 400);
    refused(b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", E::Line(LineError::MixedEnds), 400);
    refused(b"\r\nGET / HTTP/1.1\nHost: a\n\n", E::Line(LineError::BareLf), 400);
    refused(b"\n\n\n\n\n\n\n\n\nGET / HTTP/1.1\nHost: a\n\n", E::Method, 400);
    refused(b"\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", E::Line(LineError::BareCr), 400);
    refused(b"GET / HTTP/1.1\nHost: a\r\n\r\n", E::Line(LineError::MixedEnds), 400);
    refused(b"GET / HTTP/1.1\nHost: a\n\r\n", E::Line(LineError::MixedEnds), 400);
    refused(b"GET / HTTP/1.1\r\nHost: a\n\n", E::Line(LineError::BareLf), 400);
    refused(b"GET / HTTP/1.1\n\rHost: a\n\r\n\r", E::Line(LineError::BareCr), 400);
    refused(b"GET / HTTP/1.1\nHost: a\rX: b\n\n", E::Line(LineError::BareCr), 400);
    refused(b"GET / HTTP/1.1\nHost: a\nX: b\n c\n\n", E::Line(LineError::Folding), 400);
    refused(b"GET / HTTP/1.1\rHost: a\r\n\r\n", E::Line(LineError::BareCr), 400);
    refused(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", E::Method, 400);
}

#[test]
fn lines_may_all_end_in_lf() {
    let text = b"\nGET /a HTTP/1.1\nHost: b\nContent-Length: 3\nX-A:  c \n\nabc";
    let mut head = RequestHead::new();
    for end in 0..text.len() - 4 {
        assert_eq!(head.parse(&text[..end], &HeadRules::default()), Ok(Parsed::NeedMore), "{end}");
    }
    assert_eq!(head.parse(text, &HeadRules::default()), Ok(Parsed::Whole(text.len() - 3)));
    let request = head.view(text);
    assert_eq!((request.line(), request.path()), (&b"GET /a HTTP/1.1"[..], &b"/a"[..]));
    assert_eq!(request.framing(), Framing::Length(3));
    let fields: Vec<_> = request.headers().iter().map(|(_, name, value)| (name, value)).collect();
    assert_eq!(fields[2], (&b"X-A"[..], &b"c"[..]));
    // What one head chose binds no other.
    head.reset();
    let next = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(head.parse(next, &HeadRules::default()), Ok(Parsed::Whole(next.len())));
}

#[test]
fn methods_have_32_characters_at_most() {
    let text = "ABCDEFGHIJKLMNOPQRSTUVWXYZ-ABCDE / HTTP/1.1\r\nHost: a\r\n\r\n";
    let (head, buf) = ok(text);
    assert_eq!(head.view(&buf).method_text().len(), 32);
}

#[test]
fn field_lines_refused() {
    use LineError as L;
    for (line, error) in [
        ("X : a", L::SpaceBeforeColon),
        ("X\t: a", L::SpaceBeforeColon),
        ("X", L::FieldName),
        (": a", L::FieldName),
        ("X\u{e9}: a", L::FieldName),
        ("X(: a", L::FieldName),
        ("X\0: a", L::Control),
        ("X: a\0b", L::Control),
        ("X: a\u{7f}", L::Control),
        ("X: a\u{1}", L::Control),
        ("X: a\u{b}", L::Control),
        ("X: a\rb", L::BareCr),
        ("X: a\r\r", L::BareCr),
        ("X: a\nY: b", L::BareLf),
        ("X: a\r\n b", L::Folding),
        ("X: a\r\n\tb", L::Folding),
        (" X: a", L::Folding),
        ("X: a\r\n\nY: b", L::BareLf),
        ("X: a\r\n\rY: b", L::BareCr),
    ] {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n");
        refused(text.as_bytes(), RequestError::Line(error), 400);
    }
}

#[test]
fn hosts_refused() {
    use RequestError as E;
    refused(b"GET / HTTP/1.1\r\n\r\n", E::NoHost, 400);
    refused(b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", E::RepeatedHost, 400);
    refused(b"GET / HTTP/1.0\r\nHost: a\r\nhost: b\r\n\r\n", E::RepeatedHost, 400);
    refused(b"GET http://a/ HTTP/1.1\r\n\r\n", E::NoHost, 400);
    for host in
        ["", "a b", "a/b", "a@b", "a:b", "a,b", "http://a", "[::1", "a:99999", "a\\b", "\u{e9}", "%zz"]
    {
        refused(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes(), E::Host, 400);
        refused(format!("GET / HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes(), E::Host, 400);
    }
    let (head, buf) = ok("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(head.view(&buf).authority(), None);
}

#[test]
fn bodies_in_doubt_are_refused() {
    use FramingError as F;
    let length = "Content-Length: 5\r\n";
    for (fields, error, status) in [
        ("Content-Length: +5\r\n", F::Length, 400),
        ("Content-Length: -5\r\n", F::Length, 400),
        ("Content-Length: 0x5\r\n", F::Length, 400),
        ("Content-Length: 5, 5\r\n", F::Length, 400),
        ("Content-Length: 5,\r\n", F::Length, 400),
        ("Content-Length: \r\n", F::Length, 400),
        ("Content-Length: 5 5\r\n", F::Length, 400),
        ("Content-Length: 99999999999999999999\r\n", F::Length, 400),
        ("Content-Length: 18446744073709551621\r\n", F::Length, 400),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", F::RepeatedLength, 400),
        ("Content-Length: 5\r\ncontent-length: 6\r\n", F::RepeatedLength, 400),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", F::LengthAndCoding, 400),
        ("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", F::LengthAndCoding, 400),
        ("Transfer-Encoding: identity\r\nContent-Length: 5\r\n", F::LengthAndCoding, 400),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", F::Coding, 400),
        ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", F::Coding, 400),
        ("Transfer-Encoding: chunked, chunked\r\n", F::Coding, 400),
        ("Transfer-Encoding: chunked, gzip\r\n", F::Coding, 400),
        ("Transfer-Encoding: \r\n", F::Coding, 400),
        ("Transfer-Encoding: chunked;q=1\r\n", F::Coding, 400),
        ("Transfer-Encoding: \"chunked\"\r\n", F::Coding, 400),
        ("Transfer-Encoding: gzip, chunked\r\n", F::UnknownCoding, 501),
        ("Transfer-Encoding: gzip\r\n", F::UnknownCoding, 501),
        ("Transfer-Encoding: identity\r\n", F::UnknownCoding, 501),
        ("Transfer-Encoding: xchunked\r\n", F::UnknownCoding, 501),
    ] {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        refused(text.as_bytes(), RequestError::Framing(error), status);
    }
    refused(
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        RequestError::Framing(F::CodingInHttp10),
        400,
    );
    let framing = |fields: &str| {
        let (head, buf) = ok(&format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        head.view(&buf).framing()
    };
    assert_eq!(framing(length), Framing::Length(5));
    assert_eq!(framing("Content-Length: 0\r\n"), Framing::None);
    assert_eq!(framing(""), Framing::None);
    assert_eq!(framing("Transfer-Encoding: Chunked\r\n"), Framing::Chunked);
}

#[test]
fn forms_of_the_target() {
    let text = "GET HTTP://b.example:81/x?y HTTP/1.1\r\nHost: a\r\n\r\n";
    let (head, buf) = ok(text);
    let request = head.view(&buf);
    assert_eq!(request.target_form(), TargetForm::Absolute);
    assert_eq!(request.authority_text(), Some(b"b.example:81".as_slice()));
    assert_eq!((request.path(), request.query()), (b"/x".as_slice(), Some(b"y".as_slice())));
    assert_eq!(request.origin_target(), b"/x?y");

    for (target, path, query) in
        [("http://b", "/", None), ("https://b?q", "/", Some("q")), ("http://[::1]:80/", "/", None)]
    {
        let (head, buf) = ok(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let request = head.view(&buf);
        assert_eq!(request.path(), path.as_bytes());
        assert_eq!(request.query(), query.map(str::as_bytes));
        let mut out = Vec::new();
        request.put_origin_target(&mut out);
        assert_eq!(out, query.map_or(path.to_owned(), |query| format!("{path}?{query}")).as_bytes());
    }

    let (head, buf) = ok("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(head.view(&buf).target_form(), TargetForm::Asterisk);
    let (head, buf) = ok("OPTIONS http://b HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(head.view(&buf).path(), b"*");
    let (head, buf) = ok("CONNECT b:443 HTTP/1.1\r\nHost: a\r\n\r\n");
    let request = head.view(&buf);
    assert_eq!((request.method(), request.target_form()), (Method::Connect, TargetForm::Authority));
    assert_eq!(request.authority_text(), Some(b"b:443".as_slice()));

    // Bytes from 0x80 on pass, as in nginx; unknown methods pass by their spelling.
    let text = b"brew /caf\xc3\xa9/\"<>\\^`{|} HTTP/1.1\r\nHost: a\r\n\r\n";
    let head = parse(text, &HeadRules::default()).unwrap();
    assert_eq!(head.view(text).method(), Method::Other);
    assert_eq!(head.view(text).method_text(), b"brew");
}

#[test]
fn bounds() {
    use RequestError as E;
    let rules = HeadRules {
        first_line: 40,
        field_line: 30,
        head: 120,
        fields: 4,
        unusual_names: UnusualNames::Keep,
        mends: false,
    };
    let status = |text: &str| parse(text.as_bytes(), &rules).err().map(|e| (e, e.status()));
    let line = |n: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(n - 14));
    assert_eq!(status(&line(40)), None);
    assert_eq!(status(&line(41)), Some((E::LineTooLong, 414)));
    let field = |n: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(n - 3));
    assert_eq!(status(&field(30)), None);
    assert_eq!(status(&field(31)), Some((E::Line(LineError::FieldTooLong), 431)));
    let fields = |n: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: a\r\n".repeat(n));
    assert_eq!(status(&fields(3)), None);
    assert_eq!(status(&fields(4)), Some((E::Line(LineError::TooManyFields), 431)));
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", format!("X: {}\r\n", "a".repeat(27)).repeat(3));
    assert_eq!(status(&long), Some((E::Line(LineError::HeadTooLong), 431)));

    // Lines that never end meet their bounds, too.
    let cut = |text: &str| RequestHead::new().parse(text.as_bytes(), &rules);
    assert_eq!(cut(&format!("GET /{}", "x".repeat(60))), Err(E::LineTooLong));
    assert_eq!(cut(&"G".repeat(60)), Err(E::LineTooLong));
    assert_eq!(
        cut(&format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(60))),
        Err(E::Line(LineError::FieldTooLong))
    );
    assert_eq!(cut(&format!("GET / HTTP/1.1\r\n{}", "x".repeat(60))), Err(E::Line(LineError::FieldTooLong)));
}

#[test]
fn unusual_names() {
    let text = b"GET / HTTP/1.1\r\nHost: a\r\nX_A: 1\r\nX.B: 2\r\nX-C: 3\r\nContent_Length: 9\r\n\r\n";
    let names = |unusual_names| {
        let rules = HeadRules { unusual_names, ..HeadRules::default() };
        let head = parse(text, &rules).unwrap();
        assert_eq!(head.view(text).framing(), Framing::None);
        head.view(text)
            .headers()
            .iter()
            .map(|(_, name, _)| String::from_utf8_lossy(name).into_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(UnusualNames::Keep), ["Host", "X_A", "X.B", "X-C", "Content_Length"]);
    assert_eq!(names(UnusualNames::Drop), ["Host", "X-C"]);
    assert_eq!(names(UnusualNames::DropExceptUnderscores), ["Host", "X_A", "X-C", "Content_Length"]);
}

#[test]
fn what_may_be_mended() {
    let rules = HeadRules { mends: true, ..HeadRules::default() };
    let text =
        b"GET /a?b#c?d HTTP/1.1\r\nHost: a\r\nX(A: 1\r\nX-B: 2\r\nContent-Length@: 9\r\n\xe4: 3\r\n\r\n";
    let head = parse(text, &rules).unwrap();
    let request = head.view(text);
    assert_eq!((request.path(), request.query()), (&b"/a"[..], Some(&b"b"[..])));
    assert_eq!(request.line(), b"GET /a?b#c?d HTTP/1.1");
    let names: Vec<_> = request.headers().iter().map(|(_, name, _)| name).collect();
    assert_eq!(names, [&b"Host"[..], b"X-B"]);
    for (line, error) in [
        ("X A: 1", LineError::SpaceBeforeColon),
        ("X(A : 1", LineError::SpaceBeforeColon),
        ("X(A", LineError::FieldName),
        (": 1", LineError::FieldName),
        ("X(\x01: 1", LineError::Control),
        ("X(A: \x01", LineError::Control),
    ] {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n");
        assert_eq!(parse(text.as_bytes(), &rules).unwrap_err(), RequestError::Line(error), "{line}");
    }
    for line in ["GET #a HTTP/1.1", "GET /#a\x7f HTTP/1.1"] {
        assert!(parse(format!("{line}\r\nHost: a\r\n\r\n").as_bytes(), &rules).is_err(), "{line}");
    }
}

#[test]
fn what_ends_at_this_hop() {
    let (head, buf) = ok(concat!(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-Mine ,\r\nConnection: Cookie, Host, content-length\r\n",
        "X-Mine: 1\r\nx-mine: 2\r\nX-Yours: 3\r\nCookie: a=b\r\nKeep-Alive: 5\r\nTE: trailers\r\n",
        "Proxy-Connection: x\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\nTrailer: X-T\r\nContent-Length: 0\r\n\r\n"
    ));
    let request = head.view(&buf);
    let kept: Vec<_> =
        request.headers().end_to_end().map(|(_, name, _)| std::str::from_utf8(name).unwrap()).collect();
    assert_eq!(kept, ["Host", "X-Yours", "Trailer", "Content-Length"]);
    assert!(request.connection().close && !request.keep_alive());
    assert!(request.takes_trailers());
    let many = (0..40).map(|n| format!("x{n},")).collect::<String>();
    refused(
        format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: {many}\r\n\r\n").as_bytes(),
        RequestError::Line(LineError::TooManyFields),
        431,
    );
}

#[test]
fn keeping_alive() {
    let keeps = |version: &str, connection: &str| {
        let (head, buf) = ok(&format!("GET / {version}\r\nHost: a\r\n{connection}\r\n"));
        head.view(&buf).keep_alive()
    };
    assert!(keeps("HTTP/1.1", ""));
    assert!(keeps("HTTP/1.1", "Connection: foo\r\n"));
    assert!(!keeps("HTTP/1.1", "Connection: foo, CLOSE\r\n"));
    assert!(!keeps("HTTP/1.1", "Connection: keep-alive, close\r\n"));
    assert!(!keeps("HTTP/1.0", ""));
    assert!(keeps("HTTP/1.0", "Connection: Keep-Alive\r\n"));
    assert!(!keeps("HTTP/1.0", "Connection: keep-alive\r\nConnection: close\r\n"));
}

#[test]
fn expectations_and_upgrades() {
    let with = |method: &str, fields: &str| ok(&format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    let (head, buf) = with("POST", "Expect: 100-Continue\r\nContent-Length: 1\r\n");
    assert!(head.view(&buf).expects_continue() && !head.view(&buf).expects_unknown());
    let (head, buf) = with("POST", "Expect: 100-continue\r\n");
    // Without a body as well, as nginx has it.
    assert!(head.view(&buf).expects_continue());
    let (head, buf) = with("POST", "Expect: tea\r\n");
    assert!(head.view(&buf).expects_unknown());

    let (head, buf) = with("GET", "Connection: Upgrade\r\nUpgrade: WebSocket\r\n");
    assert!(head.view(&buf).is_websocket());
    let (head, buf) = with("GET", "Upgrade: websocket\r\n");
    assert!(!head.view(&buf).is_websocket());
    let (head, buf) = with("GET", "Connection: upgrade, http2-settings\r\nUpgrade: h2c\r\n");
    assert_eq!(head.view(&buf).upgrade(), None);
    let (head, buf) = with("GET", "Connection: upgrade\r\nUpgrade: h2c, foo/2\r\n");
    assert_eq!(head.view(&buf).upgrade(), Some(b"foo/2".as_slice()));
}
