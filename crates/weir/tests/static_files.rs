//! Files over HTTP/1.1, as nginx serves them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_testkit::response::Framing;
use weir_testkit::{Client, Io, Proxy, Request, Running, both_drivers};

const CONF: &str = "worker_processes 1; events {} http { access_log off;
    types { text/html html; text/css css; } default_type application/octet-stream;
    server { listen 127.0.0.1:{port}; root {dir}/html; index index.html;
        location /try/ { try_files $uri $uri/ /fallback.html; }
        location /missing/ { error_page 404 /sorry.html; }
        location /as/ { alias {dir}/other/; }
        location /old { return 301 /new; }
        location = /exact { return 200 exact; }
        location /say { default_type text/plain; return 200 \"$request_method $uri $arg_a\"; add_header X-Said yes; }
        location ~ ^/re/(?<name>[a-z]+)$ { return 200 $name; }
        location /rw { rewrite ^/rw/(.*)$ /$1 last; }
    } }";

fn start(io: Io) -> Running {
    let big: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    Proxy::nginx(CONF)
        .io(io)
        .file("html/index.html", "<p>index</p>")
        .file("html/a.css", "a{}")
        .file("html/ten", "0123456789")
        .file("html/middle", &big[..100_000])
        .file("html/big", big)
        .file("html/empty", "")
        .file("html/dir/index.html", "in dir")
        .file("html/fallback.html", "fallback")
        .file("html/sorry.html", "sorry")
        .file("other/x.html", "aliased")
        .start()
}

both_drivers! {
    fn types_lengths_and_index(io: Io) {
        let proxy = start(io);
        let mut client = Client::connect(&proxy);
        client.get("/").expect_status(200).expect_header("Content-Type", "text/html").expect_body("<p>index</p>");
        client.get("/a.css").expect_header("Content-Type", "text/css").expect_header("Content-Length", "3");
        client.get("/ten").expect_header("Content-Type", "application/octet-stream").expect_framing(Framing::Length);
        client.get("/empty").expect_status(200).expect_body("");
        client.get("/none").expect_status(404);
        client.get("/dir").expect_status(301);
        client.get("/dir/").expect_body("in dir");
        for (path, length) in [("/big", 300_000), ("/middle", 100_000)] {
            let whole = client.get(path).expect_status(200);
            assert_eq!(whole.body.len(), length);
            assert!(whole.body.iter().enumerate().all(|(n, &b)| usize::from(b) == n % 251));
            let part = client.request(&Request::get(path).header("Range", "bytes=90000-99998")).expect_status(206);
            assert!(part.body.iter().enumerate().all(|(n, &b)| usize::from(b) == (n + 90_000) % 251));
            assert_eq!(part.body.len(), 9_999);
        }
        let big = client.get("/big");
        assert!(big.header("ETag").is_some() && big.header("Last-Modified").is_some() && big.header("Date").is_some());
    }

    fn one_file_has_a_type_for_each_path_that_leads_to_it(io: Io) {
        // A file that has not changed for seconds is held in memory, with the head of its last answer.
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let proxy = Proxy::nginx(&format!(
            "events {{}} http {{ access_log off; types {{ text/html html; text/css css; }}
                server {{ listen 127.0.0.1:{{port}}; location / {{ alias {file}; }} location ~ ^/a\\.\\w+$ {{ alias {file}; }} }} }}"
        ))
        .io(io)
        .start();
        let mut client = Client::connect(&proxy);
        for _ in 0..3 {
            for (path, expected) in [("/a.html", "text/html"), ("/a.css", "text/css"), ("/a.x", "text/plain")] {
                let answer = client.get(path).expect_status(200).expect_header("Content-Type", expected);
                assert_eq!(answer.header("Content-Length"), Some(answer.body.len().to_string().as_str()));
            }
        }
    }

    fn head_has_the_length_and_no_body(io: Io) {
        let proxy = start(io);
        let mut client = Client::connect(&proxy);
        client.request(&Request::head("/ten")).expect_status(200).expect_header("Content-Length", "10").expect_body("");
        client.request(&Request::head("/none")).expect_status(404).expect_body("");
        client.get("/ten").expect_body("0123456789");
    }

    fn ranges(io: Io) {
        let proxy = start(io);
        let mut client = Client::connect(&proxy);
        let mut range = |value: &str| client.request(&Request::get("/ten").header("Range", value));
        range("bytes=2-4").expect_status(206).expect_header("Content-Range", "bytes 2-4/10").expect_body("234");
        range("bytes=7-").expect_status(206).expect_body("789");
        range("bytes=-2").expect_status(206).expect_body("89");
        range("bytes=5-100").expect_status(206).expect_header("Content-Range", "bytes 5-9/10");
        range("bytes=10-").expect_status(416).expect_header("Content-Range", "bytes */10");
        range("items=0-1").expect_status(200).expect_body("0123456789");
        let parts = range("bytes=0-0,9-9").expect_status(206);
        let kind = parts.header("Content-Type").unwrap();
        assert!(kind.starts_with("multipart/byteranges; boundary="), "{parts}");
        assert_eq!(parts.text().matches("Content-Range: bytes ").count(), 2, "{parts}");
    }

    fn conditions(io: Io) {
        let proxy = start(io);
        let mut client = Client::connect(&proxy);
        let first = client.get("/ten");
        let (etag, date) = (first.header("ETag").unwrap().to_owned(), first.header("Last-Modified").unwrap().to_owned());
        let with = |name: &str, value: &str| {
            // Refusing a condition, nginx may close.
            Client::connect(&proxy).request(&Request::get("/ten").header(name, value))
        };
        with("If-None-Match", &etag).expect_status(304).expect_header("ETag", &etag).expect_body("");
        with("If-None-Match", "\"other\"").expect_status(200);
        with("If-None-Match", "*").expect_status(304);
        with("If-Modified-Since", &date).expect_status(304);
        with("If-Match", "\"other\"").expect_status(412);
        with("If-Match", &etag).expect_status(200);
        with("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:01 GMT").expect_status(412);
        let ranged = Request::get("/ten").header("Range", "bytes=0-1");
        client.request(&ranged.clone().header("If-Range", &etag)).expect_status(206);
        client.request(&ranged.header("If-Range", "\"other\"")).expect_status(200).expect_body("0123456789");
    }

    fn locations_and_rewrites(io: Io) {
        let proxy = start(io);
        let mut client = Client::connect(&proxy);
        client.get("/try/none").expect_status(200).expect_body("fallback");
        client.get("/missing/x").expect_status(404).expect_body("sorry");
        client.get("/as/x.html").expect_body("aliased");
        let moved = client.get("/old").expect_status(301);
        assert!(moved.header("Location").unwrap().ends_with("/new"), "{moved}");
        client.get("/exact").expect_body("exact");
        client.get("/exactly").expect_status(404);
        client.get("/say/it?a=b").expect_body("GET /say/it b").expect_header("X-Said", "yes");
        client.get("/re/name").expect_body("name");
        client.get("/rw/ten").expect_body("0123456789");
        client.get("/x/../ten").expect_body("0123456789");
        client.get("/%74en").expect_body("0123456789");
        client.get("/..%2f..%2fetc/passwd").expect_status(400);
    }

    fn a_replaced_file_is_seen(io: Io) {
        let proxy = start(io);
        let mut client = Client::connect(&proxy);
        client.get("/ten").expect_body("0123456789");
        proxy.write("html/ten", "changed");
        weir_testkit::eventually("the new content", || (client.get("/ten").body == b"changed").then_some(()));
    }

    fn pipelined_requests_are_answered_in_order(io: Io) {
        let proxy = start(io);
        let mut client = Client::connect(&proxy);
        let pipeline: Vec<u8> =
            ["/ten", "/a.css", "/none", "/big", "/exact"].iter().flat_map(|p| Request::get(p).bytes()).collect();
        client.send(pipeline);
        client.read().expect_body("0123456789");
        client.read().expect_body("a{}");
        client.read().expect_status(404);
        assert_eq!(client.read().body.len(), 300_000);
        client.read().expect_body("exact");
    }

    fn old_clients(io: Io) {
        let proxy = start(io);
        let mut client = Client::connect(&proxy);
        client.send("GET /ten HTTP/1.0\r\n\r\n");
        client.read().expect_status(200).expect_body("0123456789");
        client.expect_closed();
        let mut client = Client::connect(&proxy);
        client.send("GET /ten HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        client.read().expect_header("Connection", "keep-alive").expect_body("0123456789");
        client.send("GET /ten HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.read().expect_header("Connection", "close");
        client.expect_closed();
    }
}
