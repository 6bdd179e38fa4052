//! Charsets of responses: saying them and converting bodies, beside Debian's nginx.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod beside;

use beside::{agree, conf, start};
use weir_testkit::{Client, Io, Origin, Proxy, Request, both_drivers};

fn gets(paths: &[&str]) -> Vec<Request> {
    paths.iter().map(|path| Request::get(path)).collect()
}

const MAPS: &str = "charset_map win utf-8 { 80 E282AC; E4 C3A4; } charset_map win mac { E4 8A; }";

both_drivers! {
    fn a_charset_is_said_of_texts_that_say_none(io: Io) {
        let plain = Origin::script(|c| c.keep_answering(200, &[("Content-Type", "text/html")], "plain"));
        let named = Origin::script(|c| c.keep_answering(200, &[("Content-Type", "text/html; charset=win")], "named"));
        let packed = Origin::script(|c| {
            c.keep_answering(200, &[("Content-Type", "text/html"), ("Content-Encoding", "x-odd")], "packed")
        });
        let moved = Origin::script(|c| c.keep_answering(302, &[("Content-Type", "text/html"), ("Location", "http://x.test/")], "moved"));
        let text = conf(&format!("charset koi8-r; {MAPS}"), &format!(
            "location /plain {{ proxy_pass http://{plain}; }} location /named {{ proxy_pass http://{named}; }} \
             location /packed {{ proxy_pass http://{packed}; }} \
             location /off {{ charset off; proxy_pass http://{plain}; }} \
             location /types {{ charset_types text/css; proxy_pass http://{plain}; }} \
             location /all {{ charset_types *; default_type a/b; return 200 all; }} \
             location /var {{ charset $arg_c; proxy_pass http://{plain}; }} \
             location /moved {{ return 301 http://x.test/; }} location /other {{ proxy_pass http://{moved}; }} \
             location /rewritten {{ rewrite ^ http://x.test/ redirect; }} location /noted {{ return 303 http://x.test/; }} location /gone {{ return 410; }} location /text {{ return 200 text; }} \
             location /bare {{ default_type ''; return 200 text; }} \
             location /b.bin {{ }}"
        ));
        let files: &[beside::Named<'_>] = &[("a.html", b"file"), ("a.css", b"style"), ("types.css", b"style"), ("b.bin", b"x")];
        let mut requests = gets(&[
            "/a.html", "/a.css", "/types.css", "/b.bin", "/none", "/plain", "/named", "/packed", "/off", "/types", "/all", "/var?c=utf-8",
            "/moved", "/other", "/rewritten", "/noted", "/gone", "/text", "/bare",
        ]);
        requests.push(Request::head("/a.html"));
        requests.push(Request::get("/a.html").header("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"));
        requests.push(Request::get("/a.html").header("Range", "bytes=0-1"));
        let said = agree(io, &text, files, &requests);
        assert!(said[0].contains("text/html; charset=koi8-r") && said[4].contains("text/html; charset=koi8-r"));
        assert!(said[5].contains("text/html; charset=koi8-r") && said[6].contains("text/html; charset=win"));
        assert!(said[11].contains("text/html; charset=utf-8"));
    }

    fn bodies_are_converted_and_what_is_not_known_is_marked(io: Io) {
        let named = |charset: &str, body: &[u8]| {
            let content_type = format!("text/html; charset={charset}");
            Origin::script(|c| c.keep_answering(200, &[("Content-Type", &content_type), ("ETag", "\"a\"")], body))
        };
        let (win, utf8, odd) = (named("win", b"\x80 \xe4 \xff"), named("UTF-8", "€ ä ж \u{1f600}".as_bytes()), named("odd", b"\x80"));
        let text = conf(&format!("charset utf-8; source_charset win; {MAPS}"), &format!(
            "location /mac {{ charset mac; }} location /same {{ charset win; }} \
             location /back {{ charset win; source_charset utf-8; }} \
             location /css {{ charset_types text/css; }} \
             location /proxied {{ proxy_pass http://{win}; }} \
             location /over {{ override_charset on; proxy_pass http://{win}; }} \
             location /overback {{ charset win; override_charset on; proxy_pass http://{utf8}; }} \
             location /odd {{ override_charset on; proxy_pass http://{odd}; }} \
             location /return {{ default_type text/html; return 200 '\u{80}'; }}"
        ));
        let body: &[u8] = b"ASCII \x80\xe4\xff";
        let utf: &[u8] = "€ä ж".as_bytes();
        let files: &[beside::Named<'_>] = &[
            ("a.html", body), ("mac.html", body), ("same.html", body), ("back.html", utf), ("css.html", body), ("broken.html", b""), ("a.bin", body),
        ];
        let mut requests = gets(&[
            "/a.html", "/mac.html", "/same.html", "/back.html", "/css.html", "/broken.html", "/a.bin", "/proxied", "/over",
            "/overback", "/odd", "/none",
        ]);
        requests.push(Request::head("/a.html"));
        requests.push(Request::get("/a.html").header("Range", "bytes=0-1"));
        let said = agree(io, &text, files, &requests);
        // nginx gives ranges where bytes become bytes; Weir gives no range of what it converts.
        let proxy = start(io, &text, files, false);
        Client::connect(&proxy).request(&Request::get("/mac.html").header("Range", "bytes=6-7")).expect_status(200);
        assert!(said[0].contains("charset=utf-8") && said[0].ends_with(r"ASCII \xe2\x82\xac\xc3\xa4?"), "{}", said[0]);
        assert!(said[1].ends_with(r"ASCII ?\x8a?"));
        assert!(said[3].ends_with(r"\x80\xe4 &#1078;"));
        assert!(said.iter().any(|told| told.ends_with(r"\xe2\x82\xac \xc3\xa4 ?")));
    }

    fn characters_across_pieces_are_converted(io: Io) {
        let page = "ä€ж".repeat(40_000);
        let text = conf(&format!("charset win; source_charset utf-8; {MAPS}"), "");
        for rival in [false, true] {
            let proxy = start(io, &text, &[("big.html", page.as_bytes())], rival);
            let got = Client::connect(&proxy).get("/big.html").expect_header("Content-Type", "text/html; charset=win");
            assert!(got.body == b"\xe4\x80&#1078;".repeat(40_000), "rival: {rival}");
        }
    }
}

#[test]
fn mistakes_are_found() {
    let check = |http: &str, words: &str| Proxy::nginx(&conf(http, words)).check();
    for (http, words, why) in [
        ("charset_map a A { 80 81; }", "", "another charset"),
        ("charset_map a utf-8 { 80 FF; }", "", "is no line"),
        ("charset_map a b { 80 8182; }", "", "is no line"),
        ("charset_map a b { G0 81; }", "", "is no line"),
        ("", "charset utf-8; source_charset koi8-r;", "no table says how to get"),
        ("", "charset 'a b';", "a charset such as"),
    ] {
        let (code, said) = check(http, words);
        assert!(code != 0 && said.contains(why), "{http} {words}: {said}");
    }
}
