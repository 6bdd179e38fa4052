//! Preconditions in the order of RFC 9110 §13.2.2, ranges, codings, cookies and addresses over real heads.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::{IpAddr, SocketAddr};

use weir_http::semantics::{Conditions, ETag, IfModifiedSince, Outcome, Validators, accept};
use weir_http::{HeadRules, HeaderId, Headers, HttpDate, Method, RequestHead, cookie, forwarded};

/// Runs `test` on the fields of a request.
fn with<T>(fields: &str, test: impl FnOnce(Headers<'_>) -> T) -> T {
    let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let mut head = RequestHead::new();
    head.parse(text.as_bytes(), &HeadRules::default()).expect("a good head");
    test(head.view(text.as_bytes()).headers())
}

/// Sun, 06 Nov 1994 08:49:37 GMT, with the tag "a".
fn current(weak: bool) -> Validators<'static> {
    Validators {
        etag: Some(ETag { weak, opaque: b"\"a\"" }),
        modified: Some(HttpDate::from_unix(784_111_777)),
    }
}

fn conditions(headers: Headers<'_>, method: Method) -> Conditions<Headers<'_>> {
    Conditions { headers, method, now: HttpDate::from_unix(1_800_000_000), since: IfModifiedSince::Before }
}

#[test]
fn preconditions() {
    use Outcome::{Failed, NotModified, Proceed};
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    for (fields, get, put) in [
        (String::new(), Proceed, Proceed),
        ("If-Match: \"a\"\r\n".into(), Proceed, Proceed),
        ("If-Match: *\r\n".into(), Proceed, Proceed),
        ("If-Match: \"b\"\r\n".into(), Failed, Failed),
        ("If-Match: W/\"a\"\r\n".into(), Failed, Failed),
        ("If-Match: \"b\"\r\nIf-Match: \"c\", \"a\"\r\n".into(), Proceed, Proceed),
        (format!("If-Match: \"a\"\r\nIf-Unmodified-Since: {BEFORE}\r\n"), Proceed, Proceed),
        (format!("If-Unmodified-Since: {BEFORE}\r\n"), Failed, Failed),
        (format!("If-Unmodified-Since: {SAME}\r\n"), Proceed, Proceed),
        ("If-Unmodified-Since: nonsense\r\n".into(), Proceed, Proceed),
        ("If-None-Match: \"a\"\r\n".into(), NotModified, Failed),
        ("If-None-Match: W/\"a\"\r\n".into(), NotModified, Failed),
        ("If-None-Match: *\r\n".into(), NotModified, Failed),
        ("If-None-Match: \"b\"\r\n".into(), Proceed, Proceed),
        (format!("If-None-Match: \"b\"\r\nIf-Modified-Since: {SAME}\r\n"), Proceed, Proceed),
        (format!("If-Modified-Since: {SAME}\r\n"), NotModified, Proceed),
        (format!("If-Modified-Since: {AFTER}\r\n"), NotModified, Proceed),
        (format!("If-Modified-Since: {BEFORE}\r\n"), Proceed, Proceed),
        ("If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT\r\n".into(), NotModified, Proceed),
        ("If-Modified-Since: yesterday\r\n".into(), Proceed, Proceed),
        ("If-Match: \"b\"\r\nIf-None-Match: \"a\"\r\n".into(), Failed, Failed),
        ("If-Match: \"a\"\r\nIf-None-Match: \"a\"\r\n".into(), NotModified, Failed),
    ] {
        with(&fields, |headers| {
            assert_eq!(conditions(headers, Method::Get).judge(current(false)), get, "{fields}");
            assert_eq!(conditions(headers, Method::Head).judge(current(false)), get, "{fields}");
            assert_eq!(conditions(headers, Method::Put).judge(current(false)), put, "{fields}");
        });
    }
    with(&format!("If-Modified-Since: {AFTER}\r\n"), |headers| {
        let exact = Conditions { since: IfModifiedSince::Exact, ..conditions(headers, Method::Get) };
        assert_eq!(exact.judge(current(false)), Proceed);
    });
}

#[test]
fn if_range() {
    for (fields, weak, applies) in [
        ("", false, true),
        ("If-Range: \"a\"\r\n", false, true),
        ("If-Range: \"a\"\r\n", true, false),
        ("If-Range: W/\"a\"\r\n", false, false),
        ("If-Range: \"b\"\r\n", false, false),
        ("If-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n", false, true),
        ("If-Range: Sun, 06 Nov 1994 08:49:38 GMT\r\n", false, false),
        ("If-Range: x\r\n", false, false),
        ("If-Range: \"a\"\r\nIf-Range: \"a\"\r\n", false, false),
    ] {
        with(fields, |headers| {
            assert_eq!(conditions(headers, Method::Get).range_applies(current(weak)), applies, "{fields}");
        });
    }
}

#[test]
fn codings_and_cookies() {
    with("Accept-Encoding: br, gzip;q=0.5\r\nAccept-Encoding: deflate;q=0\r\n", |headers| {
        assert!(accept::accepts_encoding(headers, b"gzip"));
        assert!(!accept::accepts_encoding(headers, b"deflate"));
        assert!(!accept::accepts_encoding(headers, b"zstd"));
    });
    with("Cookie: a=1; B=2\r\nCookie: c=3\r\n", |headers| {
        assert_eq!(cookie::cookie(headers, b"b"), Some(b"2".as_slice()));
        assert_eq!(cookie::cookie(headers, b"c"), Some(b"3".as_slice()));
        assert_eq!(cookie::cookie(headers, b"d"), None);
    });
}

#[test]
fn the_client_behind_proxies() {
    let trusted = |ip: IpAddr| ip.to_string().starts_with("10.");
    let client = |fields: &str, peer: &str, recursive| {
        let peer: SocketAddr = format!("{peer}:1").parse().unwrap();
        with(fields, |h| {
            forwarded::client(h, HeaderId::XForwardedFor, peer, recursive, trusted).ip().to_string()
        })
    };
    let list = "X-Forwarded-For: 192.0.2.1, 192.0.2.2\r\nX-Forwarded-For: 10.0.0.2\r\n";
    assert_eq!(client(list, "192.0.2.9", true), "192.0.2.9");
    assert_eq!(client(list, "10.0.0.1", false), "10.0.0.2");
    assert_eq!(client(list, "10.0.0.1", true), "192.0.2.2");
    assert_eq!(client("X-Forwarded-For: 10.0.0.3, x, 10.0.0.2\r\n", "10.0.0.1", true), "10.0.0.2");
    assert_eq!(client("X-Forwarded-For: 10.0.0.3,10.0.0.2\r\n", "10.0.0.1", true), "10.0.0.3");
    assert_eq!(client("", "10.0.0.1", true), "10.0.0.1");
    with(list, |headers| {
        let mut out = Vec::new();
        forwarded::append(headers, "10.0.0.1".parse().unwrap(), &mut out);
        assert_eq!(out, b"192.0.2.1, 192.0.2.2, 10.0.0.2, 10.0.0.1");
    });
}
