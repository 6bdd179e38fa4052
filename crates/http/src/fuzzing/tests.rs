//! The properties over generated inputs: random bytes meet few branches, so each target also gets text made of the
//! pieces that its grammar is about.

use proptest::prelude::*;

use super::{bodies, heads, values};

/// Joins pieces picked at random, and puts the byte that says how they arrive before them.
fn made_of(pieces: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        20 => proptest::sample::select(pieces).prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 1..3),
    ];
    (any::<u8>(), proptest::collection::vec(piece, 0..24)).prop_map(|(first, pieces)| {
        let mut data = vec![first];
        data.extend(pieces.concat());
        data
    })
}

const FIELDS: &[&[u8]] = &[
    b"Host: a\r\n",
    b"Host: ",
    b"X-Odd: b\r\n",
    b"x_y:\r\n",
    b"Connection: close, X-Odd\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: ",
    b"Upgrade: h2c, websocket\r\n",
    b"Connection: upgrade\r\n",
    b"\r\n",
    b"\r",
    b"\n",
    b" ",
    b"\t",
    b":",
    b",",
    b"a",
    b"5",
    b"\0",
    b"\xff",
    b"Expect: 100-continue\r\n",
    b"Status: 404 x\n",
    b"Location: /\n",
    b"TE: trailers\r\n",
    b"Connection: keep-alive\r\n",
];

fn request_text() -> impl Strategy<Value = Vec<u8>> {
    let line = proptest::sample::select(vec![
        "GET / HTTP/1.1\r\nHost: a\r\n",
        "\r\nPOST /a?b HTTP/1.1\r\nHost: [::1]:80\r\n",
        "GET http://b:80?x HTTP/1.1\r\nHost: a\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n",
        "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n",
        "GET / HTTP/1.0\r\n",
        "get  ",
        "",
    ]);
    (line, made_of(FIELDS)).prop_map(|(line, mut data)| {
        data.splice(1..1, line.bytes());
        data
    })
}

fn response_text() -> impl Strategy<Value = Vec<u8>> {
    let line = proptest::sample::select(vec![
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.0 304\r\n",
        "HTTP/1.1 101 Switching\r\n",
        "HTTP/1.1 204 ",
        "HTTP/1.",
        "",
    ]);
    (line, made_of(FIELDS)).prop_map(|(line, mut data)| {
        data.splice(1..1, line.bytes());
        data
    })
}

const CHUNKS: &[&[u8]] = &[
    b"5\r\nhello\r\n",
    b"1\r\nx\r\n",
    b"0\r\n\r\n",
    b"0\r\n",
    b"a;b=\"c\\\"\"\r\n0123456789\r\n",
    b"X-T: y\r\n",
    b"Content-Length: 1\r\n",
    b"f",
    b"7fffffffffffffff\r\n",
    b"\r\n",
    b"\r",
    b"\n",
    b";",
    b"\"",
    b" ",
];

const MEMCACHED: &[&[u8]] =
    &[b"VALUE ", b"key", b" ", b"0", b"17", b"\r\n", b"END", b"\n", b"-1", b"99999999999999999999"];

const RECORDS: &[&[u8]] = &[
    b"\x01\x06\0\x01\0\x05\x03\0helloxxx",
    b"\x01\x07\0\x01\0\x01\0\0e",
    b"\x01\x06\0\x01\0\0\0\0",
    b"\x01\x03\0\x01\0\x08\0\0\0\0\0\x05\0\0\0\0",
    b"\x01",
    b"\0",
    b"\x06",
];

const PROXY: &[&[u8]] = &[
    b"\r\n\r\n\0\r\nQUIT\n",
    b"\x21\x11\0\x0c\xc0\0\x02\x01\xc0\0\x02\x02\x04\xd2\0\x50",
    b"\x20\0\0\0",
    b"\x21\x21\0\x24",
    b"PROXY ",
    b"TCP4 ",
    b"TCP6 ",
    b"UNKNOWN",
    b"192.0.2.1 ",
    b"::1 ",
    b"1234 80\r\n",
    b"\x01\0\x01a",
    b"\x21\x11\0\x10",
    b"\r\n",
    b"\0\0\0\0\0\0\0\0\0\0\0\0",
];

const PATHS: &[&[u8]] =
    &[b"/", b".", b"..", b"%2f", b"%2e", b"%25", b"%3f", b"%00", b"%", b"a", b"?", b"#", b"\xc3\xa9"];

const VALUES: &[&[u8]] = &[
    b"bytes=",
    b"0-",
    b"-5",
    b"1-2",
    b",",
    b" ",
    b";",
    b"q=",
    b"0.5",
    b"\"a\"",
    b"W/",
    b"=",
    b"a",
    b"gzip",
    b"\"",
    b"\\",
    b"Basic ",
    b"YTpi",
    b"Sun, 06 Nov 1994 08:49:37 GMT",
    b":80",
    b"[::1]",
    b"example.com",
    b"?",
    b"&",
    b"%41",
    b"99999999999999999999",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn request_heads(data in request_text()) { heads::request(&data); }

    #[test]
    fn response_heads(data in response_text()) { heads::response(&data); }

    #[test]
    fn cgi_heads(data in made_of(FIELDS)) { heads::cgi(&data); }

    #[test]
    fn written_heads(data in made_of(FIELDS)) { heads::writer(&data); }

    #[test]
    fn chunked_bodies(data in made_of(CHUNKS)) { bodies::chunked(&data); }

    #[test]
    fn fastcgi_records(data in made_of(RECORDS)) { bodies::fastcgi(&data); }
    #[test]
    fn memcached_answers(data in made_of(MEMCACHED)) { bodies::memcached(&data); }

    #[test]
    fn proxy_headers(data in made_of(PROXY)) { bodies::proxy_protocol(&data); }

    #[test]
    fn paths(data in made_of(PATHS)) { values::uri(&data); }

    #[test]
    fn texts(data in made_of(VALUES)) {
        values::values(&data);
        values::range(&data);
        values::date(&data);
    }

    #[test]
    fn dates(data in any::<[u8; 8]>()) { values::date(&data); }

    #[test]
    fn anything(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        for (_, target) in super::TARGETS {
            target(&data);
        }
    }
}
