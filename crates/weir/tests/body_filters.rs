//! What is done to bodies on their way: nginx's sub_filter, gunzip and add_trailer, beside Debian's nginx.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod beside;

use std::io::Write as _;

use beside::{agree, conf, start, told};
use weir_testkit::response::{Framing, ReadError};
use weir_testkit::{Client, Gate, Io, Origin, Request, both_drivers};

fn gets(paths: &[&str]) -> Vec<Request> {
    paths.iter().map(|path| Request::get(path)).collect()
}

fn packed(text: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_ref()).unwrap();
    encoder.finish().unwrap()
}

both_drivers! {
    fn text_is_replaced_in_files_and_fields_about_the_old_body_go(io: Io) {
        let text = conf(
            "sub_filter foo bar; sub_filter '<b>' '[$uri]';",
            "location /many { sub_filter_once off; } \
             location /own { sub_filter x y; sub_filter_types text/css; } \
             location /all { sub_filter_types *; sub_filter_last_modified on; } \
             location /var { sub_filter $arg_from '$arg_to'; sub_filter_once off; } \
             location /two { sub_filter abcd 1; sub_filter bc 2; sub_filter ab 3; sub_filter_once off; } \
             location /text { return 200 'a foo'; } \
             location /html { default_type text/html; return 200 'a foo and a FOO'; } \
             location /nothing { default_type text/html; return 200 ''; } \
             location /gz { gzip on; gzip_min_length 1; } \
             location /conditional { }",
        );
        let page: &[u8] = b"<B>foo</b> Foo <b> FOO";
        let files: &[beside::Named<'_>] = &[
            ("a.html", page), ("many.html", page), ("own.html", b"foo x X"), ("own.css", b"foo x X"), ("own.txt", b"x"),
            ("all.txt", b"foo foo"), ("var.html", b"one two ONE"), ("two.html", b"abcabcdbcab."), ("conditional.html", page),
            ("empty.html", b""), ("index.html", b"foo"),
        ];
        // At the end of a body nginx leaves `ab` of /two.html as it is, because it may yet have become `abcd`: hence the full stop.
        let mut requests = gets(&[
            "/a.html", "/many.html", "/own.html", "/own.css", "/own.txt", "/all.txt", "/var.html?from=One&to=%3c1%3e", "/var.html",
            "/two.html", "/text", "/html", "/nothing", "/empty.html", "/none.html", "/",
        ]);
        requests.push(Request::head("/a.html"));
        requests.push(Request::get("/a.html").header("Range", "bytes=0-3"));
        requests.push(Request::get("/own.txt").header("Range", "bytes=0-3"));
        requests.push(Request::get("/conditional.html").header("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"));
        let said = agree(io, &text, files, &requests);
        assert!(said[0].ends_with("\n[/a.html]bar</b> Foo <b> FOO"), "{}", said[0]);
        assert!(said[0].contains("transfer-encoding: chunked") && !said[0].contains("etag") && !said[0].contains("last-modified"));
        assert!(said[1].ends_with("\n[/many.html]bar</b> bar [/many.html] bar"));
        assert!(said[5].contains("etag: W/") && said[5].contains("last-modified"));
        assert!(said[8].ends_with("\n3c123."), "{}", said[8]);
    }

    fn text_that_lies_across_pieces_is_found_and_little_is_held_back(io: Io) {
        for rival in [false, true] {
            let gate = Gate::new();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"a\"\r\nContent-Length: 15\r\n\r\n";
            let origin = Origin::script(|c| {
                c.expect("GET /").send(head).send("one NEE").wait_for(&gate).send("dle, nee").close()
            });
            let text = conf("", &format!(
                "location / {{ proxy_buffering off; sub_filter needle thread; sub_filter_once off; sub_filter_last_modified on; \
                 proxy_pass http://{origin}; }}"
            ));
            let proxy = start(io, &text, &[], rival);
            let mut client = Client::connect(&proxy);
            client.send(Request::get("/").header("Connection", "close").bytes());
            let head = client.read_head();
            assert_eq!(head.header("ETag"), Some("W/\"a\""), "rival: {rival}");
            assert_eq!(head.header("Content-Length"), None);
            // What cannot be part of the text has left already.
            assert_eq!(client.read_exactly(9), b"4\r\none \r\n");
            gate.open();
            let (rest, _) = client.read_to_end();
            let rest = String::from_utf8_lossy(&rest).into_owned();
            assert!(rest.contains("thread") && rest.contains(", ") && rest.ends_with("nee\r\n0\r\n\r\n"), "rival: {rival}: {rest}");
        }
    }

    fn large_bodies_are_searched_piece_by_piece(io: Io) {
        let page: Vec<u8> = (0..200_000).flat_map(|n: u32| if n % 1000 == 7 { *b"needle! " } else { *b"hayhayha" }).collect();
        let text = conf("sub_filter needle thread; sub_filter_once off;", "");
        let want = String::from_utf8(page.clone()).unwrap().replace("needle", "thread");
        for rival in [false, true] {
            let proxy = start(io, &text, &[("big.html", &page)], rival);
            let got = Client::connect(&proxy).get("/big.html").expect_status(200).expect_framing(Framing::Chunked);
            assert!(got.body == want.as_bytes(), "rival: {rival}");
        }
    }

    fn what_is_replaced_is_compressed_afterwards_and_error_pages_are_searched_too(io: Io) {
        for rival in [false, true] {
            let text = conf("gzip on; gzip_min_length 1; sub_filter foo bar; sub_filter 'Not Found' '$uri';", "");
            let proxy = start(io, &text, &[("a.html", b"some foo")], rival);
            let request = Request::get("/a.html").header("Accept-Encoding", "gzip");
            let got = Client::connect(&proxy).request(&request).expect_header("Content-Encoding", "gzip");
            let mut plain = String::new();
            std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&got.body[..]), &mut plain).unwrap();
            assert_eq!(plain, "some bar", "rival: {rival}");
            Client::connect(&proxy).get("/none").expect_status(404).expect_text("<title>404 /none</title>");
        }
    }

    fn bodies_in_gzip_are_unpacked_for_clients_without_it(io: Io) {
        let long = packed(vec![b'x'; 3_000_000]);
        let two = [packed("one, "), packed("two")].concat();
        let origin = |body: &[u8]| {
            let fields = [("Content-Encoding", "gzip"), ("ETag", "\"t\""), ("Accept-Ranges", "bytes"), ("Content-Type", "text/html")];
            Origin::script(|c| c.keep_answering(200, &fields, body))
        };
        let origins = [origin(&packed("some text")), origin(&long), origin(&two), origin(b""), origin(&packed("a foo"))];
        let text = conf("gunzip on; gzip_http_version 1.0;", &format!(
            "location /short {{ proxy_pass http://{}; }} location /long {{ proxy_pass http://{}; }} location /two {{ proxy_pass http://{}; }} \
             location /vary {{ gzip_vary on; proxy_pass http://{}; }} \
             location /foo {{ sub_filter foo bar; proxy_pass http://{}; }} location /off {{ gunzip off; proxy_pass http://{}; }}",
            origins[0], origins[1], origins[2], origins[0], origins[4], origins[0]
        ));
        let mut requests = gets(&["/short", "/two", "/vary", "/foo", "/off"]);
        requests.push(Request::get("/short").header("Accept-Encoding", "gzip"));
        requests.push(Request::get("/vary").header("Accept-Encoding", "gzip, br"));
        requests.push(Request::get("/short").header("Accept-Encoding", "gzip;q=0"));
        let said = agree(io, &text, &[], &requests);
        assert!(said[0].ends_with("\nsome text") && said[0].contains("W/\"t\"") && !said[0].contains("content-encoding"));
        assert!(said[1].ends_with("\none, two"));
        assert!(said[2].contains("vary: Accept-Encoding"));
        assert!(said[3].ends_with("\na bar"));
        let proxy = start(io, &text, &[], false);
        let got = Client::connect(&proxy).get("/long");
        assert!(got.body.len() == 3_000_000 && got.body.iter().all(|&byte| byte == b'x'));
    }

    fn a_broken_packed_body_never_looks_whole(io: Io) {
        let whole = packed("some text that is long enough to be cut somewhere");
        for rival in [false, true] {
            let bodies = [whole[..30].to_vec(), b"this is no gzip at all".to_vec()];
            for body in bodies {
                let origin = Origin::script(|c| c.expect("GET /").respond_with(200, &[("Content-Encoding", "gzip")], &body));
                let proxy = start(io, &conf("", &format!("gunzip on; location / {{ proxy_pass http://{origin}; }}")), &[], rival);
                let got = Client::connect(&proxy).try_request(&Request::get("/"));
                assert!(matches!(got, Err(ReadError::Truncated(_) | ReadError::Closed)), "rival: {rival}: {got:?}");
                proxy.wait_for_file("error.log", if rival { "inflate" } else { "inflate() failed" });
            }
        }
    }

    fn trailers_follow_the_body(io: Io) {
        let origin = Origin::named("main", "main");
        let text = conf("add_trailer X-One $arg_one; add_trailer X-Always $uri always;", &format!(
            "location /own {{ add_trailer X-Sent $status; }} location /proxied {{ proxy_pass http://{origin}; }} \
             location /empty {{ add_trailer X-Empty $arg_nothing; }} \
             location /unchunked {{ chunked_transfer_encoding off; }} location /404 {{ add_trailer X-No no; return 404; }} \
             location /text {{ return 200 text; }}"
        ));
        let files: &[beside::Named<'_>] = &[("a.txt", b"text"), ("own.txt", b"text"), ("empty.txt", b"text"), ("unchunked.txt", b"text")];
        let mut requests = gets(&["/a.txt", "/a.txt?one=1", "/own.txt", "/none", "/404", "/empty.txt", "/proxied", "/text?one=%20x"]);
        requests.push(Request::head("/a.txt"));
        requests.push(Request::get("/a.txt").header("Range", "bytes=1-2"));
        let said = agree(io, &text, files, &requests);
        assert!(said[1].ends_with("text\n[X-One: 1]\n[X-Always: /a.txt]"), "{}", said[1]);
        assert!(said[4].contains("404") && !said[4].contains("X-No"));
        let proxy = start(io, &text, files, false);
        let mut client = Client::connect(&proxy);
        client.get("/unchunked.txt").expect_framing(Framing::Length).expect_body("text");
        // A value is never more than one line.
        assert!(told(&client.get("/a.txt?one=1%0d%0aX-Two:%202")).contains("[X-One: 1%0d%0aX-Two:%202]"));
    }
}

#[test]
fn mistakes_are_found() {
    let check = |words: &str| weir_testkit::Proxy::nginx(&conf("", words)).check();
    for words in
        ["sub_filter '' x;", "sub_filter_once maybe;", "add_trailer 'a b' c;", "add_trailer a b sometimes;"]
    {
        let (code, said) = check(words);
        assert!(code != 0, "{words}: {said}");
    }
    let (code, said) = check(
        "sub_filter a b; sub_filter c ''; sub_filter_types * text/css; gunzip on; gunzip_buffers 4 8k;",
    );
    assert_eq!(code, 0, "{said}");
}
