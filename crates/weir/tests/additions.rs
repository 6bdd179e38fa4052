//! Bodies of other requests around a body: nginx's addition module, beside Debian's nginx.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod beside;

use std::io::Read as _;

use beside::{agree, conf, start};
use weir_testkit::response::Framing;
use weir_testkit::{Client, Gate, Io, Origin, Proxy, Request, both_drivers};

fn gets(paths: &[&str]) -> Vec<Request> {
    paths.iter().map(|path| Request::get(path)).collect()
}

both_drivers! {
    fn bodies_of_other_paths_stand_around_a_body(io: Io) {
        let main = Origin::script(|c| c.keep_answering(200, &[("Content-Type", "text/html"), ("ETag", "\"a\"")], "proxied"));
        let part = Origin::script(|c| c.keep_answering(200, &[("X-Part", "1")], "part "));
        let text = conf("add_before_body /before.txt; add_after_body /after/x;", &format!(
            "location /after/ {{ internal; return 200 '[after $uri $request_uri $request_method]'; }} \
             location /none/ {{ add_before_body ''; add_after_body ''; }} \
             location /css/ {{ addition_types text/css; }} \
             location /all/ {{ addition_types *; }} \
             location /missing/ {{ add_before_body /nowhere; }} \
             location /denied/ {{ add_before_body /closed/x; }} location /closed/ {{ deny all; return 200 'closed '; }} \
             location /proxied {{ proxy_pass http://{main}; add_before_body /part/x; }} location /part/ {{ proxy_pass http://{part}; }} \
             location /sub/ {{ sub_filter text TEXT; sub_filter after AFTER; sub_filter_last_modified on; }} \
             location /nested/ {{ add_before_body /inner/a.html; }} location /inner/ {{ add_before_body /before.txt; }} \
             location /text {{ default_type text/html; return 200 text; }} location /empty {{ default_type text/html; return 200 ''; }} \
             location /moved {{ return 302 http://x.test/; }} location /created {{ default_type text/html; return 201 made; }}"
        ));
        let files: &[beside::Named<'_>] = &[
            ("before.txt", b"before "), ("a.html", b"text"), ("a.txt", b"text"), ("none/a.html", b"text"), ("css/a.css", b"text"),
            ("css/a.html", b"text"), ("all/a.bin", b"text"), ("missing/a.html", b"text"), ("denied/a.html", b"text"), ("sub/a.html", b"text"),
            ("nested/a.html", b"text"), ("inner/a.html", b"inner "), ("empty.html", b""),
        ];
        let mut requests = gets(&[
            "/a.html?x=1", "/a.txt", "/none/a.html", "/css/a.css", "/css/a.html", "/all/a.bin", "/missing/a.html", "/denied/a.html", "/proxied",
            "/sub/a.html", "/nested/a.html", "/text", "/empty", "/moved", "/created", "/nofile.html", "/empty.html",
        ]);
        requests.push(Request::head("/a.html"));
        requests.push(Request::get("/a.html").header("Range", "bytes=0-3"));
        requests.push(Request::get("/a.html").header("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"));
        let said = agree(io, &text, files, &requests);
        assert!(said[0].ends_with("\nbefore text[after /after/x /a.html?x=1 GET]"), "{}", said[0]);
        assert!(said[8].contains("part proxied[after"), "{}", said[8]);
    }

    fn parts_are_compressed_with_the_whole(io: Io) {
        let text = conf("gzip on; gzip_min_length 1; add_before_body /before.html; add_after_body /after.html;", "");
        let files: &[beside::Named<'_>] = &[("before.html", b"before "), ("a.html", b"text"), ("after.html", b" after")];
        for rival in [false, true] {
            let proxy = start(io, &text, files, rival);
            let request = Request::get("/a.html").header("Accept-Encoding", "gzip");
            let got = Client::connect(&proxy).request(&request).expect_header("Content-Encoding", "gzip");
            let mut plain = String::new();
            flate2::read::MultiGzDecoder::new(&got.body[..]).read_to_string(&mut plain).unwrap();
            assert_eq!(plain, "before text after", "rival: {rival}");
        }
    }

    fn large_parts_are_passed_on_as_they_come(io: Io) {
        let big = vec![b'x'; 5_000_000];
        let text = conf("", "location / { add_before_body /big.txt; add_after_body /big.txt; }");
        let files: &[beside::Named<'_>] = &[("big.txt", &big), ("a.html", b"text")];
        for rival in [false, true] {
            let proxy = start(io, &text, files, rival);
            let got = Client::connect(&proxy).get("/a.html").expect_framing(Framing::Chunked);
            assert_eq!(got.body.len(), 10_000_004, "rival: {rival}");
            assert_eq!(&got.body[5_000_000..5_000_004], b"text");
        }
    }

    fn what_has_come_of_a_part_is_sent_before_the_rest_of_it(io: Io) {
        let gate = Gate::new();
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
        let part = Origin::script(|c| c.expect("GET /part").send(head).send(vec![b'a'; 4]).wait_for(&gate).send("bbbbb").close());
        let text = conf("", &format!(
            "location / {{ add_after_body /part; }} location /part {{ proxy_buffering off; proxy_pass http://{part}; }}"
        ));
        let proxy = start(io, &text, &[("a.html", b"text ")], false);
        let mut client = Client::connect(&proxy);
        client.send(Request::get("/a.html").header("Connection", "close").bytes());
        client.read_head();
        assert_eq!(client.read_exactly(19), b"5\r\ntext \r\n4\r\naaaa\r\n");
        gate.open();
        let (rest, _) = client.read_to_end();
        assert_eq!(rest, b"5\r\nbbbbb\r\n0\r\n\r\n");
    }

    fn a_part_that_is_cut_leaves_no_whole_response(io: Io) {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut";
        let part = Origin::script(|c| c.expect("GET /part").send(head).close());
        let text = conf("", &format!("location / {{ add_after_body /part; }} location /part {{ proxy_pass http://{part}; }}"));
        let proxy = start(io, &text, &[("a.html", b"text ")], false);
        assert!(Client::connect(&proxy).try_request(&Request::get("/a.html")).is_err());
        proxy.wait_for_file("error.log", "the response of \"/part\" was cut");
    }
}

#[test]
fn mistakes_are_found() {
    let check = |words: &str| Proxy::nginx(&conf("", words)).check();
    let (code, said) = check("add_before_body nowhere;");
    assert!(code != 0 && said.contains("a path that begins with `/`"), "{said}");
    let (code, said) = check("add_before_body /a; add_after_body ''; addition_types text/css *;");
    assert_eq!(code, 0, "{said}");
}
