//! Corners of proxying: cookies' flags, local addresses with ports, rates of upstreams. Beside Debian's nginx where it has them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use weir_testkit::{Client, Io, Origin, Proxy, Request, both_drivers};

both_drivers! {
    fn parts_are_given_of_responses_that_do_not_offer_them(io: Io) {
        let fields = [("ETag", "\"v\""), ("Content-Type", "text/plain")];
        let (origin, empty) = (Origin::script(|c| c.keep_answering(200, &fields, "0123456789")), Origin::script(|c| c.keep_answering(404, &[], "0123456789")));
        let text = format!(
            "worker_processes 1; error_log {{dir}}/error.log; events {{}} http {{ access_log off; proxy_cache_path {{dir}}/cache keys_zone=z:1m; server {{ listen 127.0.0.1:{{port}}; proxy_force_ranges on;
             location / {{ proxy_pass http://{origin}; }} location /cached {{ proxy_pass http://{origin}; proxy_cache z; proxy_cache_valid 1m; }}
             location /off {{ proxy_pass http://{origin}; proxy_force_ranges off; }} location /404 {{ proxy_pass http://{empty}; }} }} }}"
        );
        let file = Proxy::nginx(&text);
        for (proxy, who) in [(file.clone().io(io).start(), "weir"), (file.by_rival().start(), "nginx")] {
            let got = |path: &str, fields: &[(&str, &str)]| {
                let request = fields.iter().fold(Request::get(path), |request, (name, value)| request.header(name, value));
                let response = Client::connect(&proxy).request(&request);
                let body = if response.status == 416 { String::new() } else { response.text() };
                (response.status, response.header("Content-Range").unwrap_or("-").to_owned(), body)
            };
            let range = |value: &'static str| ("Range", value);
            for path in ["/", "/cached/1", "/cached/1"] {
                for (fields, status, content_range, body) in [
                    (&[range("bytes=2-4")][..], 206, "bytes 2-4/10", "234"), (&[range("bytes=7-")], 206, "bytes 7-9/10", "789"), (&[range("bytes=-3")], 206, "bytes 7-9/10", "789"),
                    (&[range("bytes=0-100")], 206, "bytes 0-9/10", "0123456789"), (&[range("items=1-2")], 200, "-", "0123456789"), (&[], 200, "-", "0123456789"),
                    (&[range("bytes=1-1"), ("If-Range", "\"v\"")], 206, "bytes 1-1/10", "1"), (&[range("bytes=1-1"), ("If-Range", "\"w\"")], 200, "-", "0123456789"),
                ] {
                    assert_eq!(got(path, fields), (status, content_range.to_owned(), body.to_owned()), "{who}: {path} {fields:?}");
                }
            }
            assert_eq!(got("/", &[range("bytes=10-")]), (416, "bytes */10".to_owned(), String::new()), "{who}");
            assert_eq!(got("/off", &[range("bytes=2-4")]).0, 200, "{who}");
            assert_eq!(got("/404", &[range("bytes=2-4")]), (404, "-".to_owned(), "0123456789".to_owned()), "{who}");
        }
    }

    fn flags_of_cookies_change_as_in_nginx(io: Io) {
        let cookies = [
            ("Set-Cookie", "one=1; Path=/; HttpOnly"),
            ("Set-Cookie", "two=2; SameSite=Lax; secure"),
            ("Set-Cookie", "TRACK_a=3"),
            ("Set-Cookie", "other=4; Secure; Domain=in.test"),
        ];
        let origin = Origin::script(|script| script.keep_answering(200, &cookies, "ok"));
        let text = format!(
            "worker_processes 1; error_log {{dir}}/error.log; events {{}} http {{ access_log off; proxy_cookie_domain in.test out.test; server {{ listen 127.0.0.1:{{port}};
             location / {{ proxy_pass http://{origin}; proxy_cookie_flags ONE secure nohttponly samesite=strict; proxy_cookie_flags two nosecure nosamesite;
               proxy_cookie_flags ~^track_ secure httponly samesite=none; }}
             location /off {{ proxy_pass http://{origin}; proxy_cookie_flags off; }} }} }}"
        );
        for rival in [false, true] {
            let file = Proxy::nginx(&text).io(io);
            let proxy = if rival { file.by_rival().start() } else { file.start() };
            let mut client = Client::connect(&proxy);
            // The order of attributes and the case of their names mean nothing.
            let mut got = |path: &str| {
                let response = client.get(path);
                response.all("Set-Cookie").map(|cookie| {
                    let mut parts: Vec<String> = cookie.split(';').map(|part| part.trim().to_lowercase()).collect();
                    parts[1..].sort();
                    parts.join("; ")
                }).collect::<Vec<_>>()
            };
            assert_eq!(
                got("/"),
                [
                    "one=1; path=/; samesite=strict; secure",
                    "two=2",
                    "track_a=3; httponly; samesite=none; secure",
                    "other=4; domain=out.test; secure",
                ],
                "rival: {rival}"
            );
            assert_eq!(got("/off")[..2], ["one=1; httponly; path=/", "two=2; samesite=lax; secure"], "rival: {rival}");
        }
    }

    fn a_local_address_may_have_a_port(io: Io) {
        for rival in [false, true] {
            let free = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let origin = listener.local_addr().unwrap();
            let seen = std::thread::spawn(move || {
                let (mut conn, peer) = listener.accept().unwrap();
                let mut piece = [0; 4096];
                assert!(conn.read(&mut piece).unwrap() > 0);
                conn.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").unwrap();
                peer
            });
            let file = Proxy::nginx(&format!(
                "worker_processes 1; error_log {{dir}}/error.log; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}};
                 location / {{ proxy_pass http://{origin}; proxy_bind 127.0.0.2:$arg_port; }} }} }}"
            )).io(io);
            let proxy = if rival { file.by_rival().start() } else { file.start() };
            Client::connect(&proxy).get(&format!("/?port={}", free.port())).expect_body("ok");
            assert_eq!(seen.join().unwrap(), free, "rival: {rival}");
        }
    }

    fn an_upstream_has_a_rate(io: Io) {
        let origin = Origin::named("large", vec![b'x'; 60_000]);
        let text = format!(
            "worker_processes 1; error_log {{dir}}/error.log; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}};
             location / {{ proxy_pass http://{origin}; proxy_limit_rate 40k; }} location /free {{ proxy_pass http://{origin}; }} }} }}"
        );
        for rival in [false, true] {
            let file = Proxy::nginx(&text).io(io);
            let proxy = if rival { file.by_rival().start() } else { file.start() };
            let mut client = Client::connect(&proxy);
            let began = Instant::now();
            assert_eq!(client.get("/").expect_status(200).body.len(), 60_000);
            assert!(began.elapsed() > Duration::from_millis(900), "rival: {rival}: {:?}", began.elapsed());
            assert_eq!(client.get("/free").body.len(), 60_000);
        }
    }

    fn fields_pass_as_in_nginx(io: Io) {
        let fields = [("Server", "origin"), ("Set-Cookie", "a=1; Domain=.in.test"), ("Set-Cookie", "b=2; Domain=in.test"), ("Content-Type", "text/plain")];
        let challenges = [("WWW-Authenticate", "Basic realm=x")];
        let (origin, closed) = (Origin::script(|c| c.keep_answering(200, &fields, "0123456789")), Origin::script(|c| c.keep_answering(401, &challenges, "no")));
        let text = format!(
            "worker_processes 1; error_log {{dir}}/error.log; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}};
             proxy_pass_header Server; proxy_cookie_domain in.test out.test; gzip on; gzip_min_length 1; gzip_types text/plain;
             location / {{ proxy_pass http://{origin}; gzip_proxied expired no-cache; }}
             location /etag {{ proxy_pass http://{origin}; gzip_proxied auth; }}
             location /closed {{ proxy_pass http://{closed}; proxy_intercept_errors on; error_page 401 /page; }}
             location = /page {{ return 200 page; }} }} }}"
        );
        let file = Proxy::nginx(&text);
        let got: Vec<_> = [file.clone().io(io).start(), file.by_rival().start()].iter().map(|proxy| {
            ["/", "/etag", "/closed"].map(|path| {
                let response = Client::connect(proxy).request(&Request::get(path).header("Accept-Encoding", "gzip").header("Via", "x"));
                let shown = ["Server", "Set-Cookie", "Content-Encoding", "WWW-Authenticate"].map(|name| response.all(name).collect::<Vec<_>>().join(", "));
                (response.status, shown)
            })
        }).collect();
        // Weir and nginx each have a name of their own where none is passed on.
        let named = |all: &[(u16, [String; 4]); 3]| [0, 1].map(|at| all[at].1[0].clone());
        assert_eq!(named(&got[0]), ["origin", "origin"]);
        let rest = |all: &[(u16, [String; 4]); 3]| all.clone().map(|(status, shown)| (status, shown[1..].to_vec()));
        assert_eq!(rest(&got[0]), rest(&got[1]));
    }

    /// nginx 1.23 and later pass the first of several lines of a field of which there is one.
    fn the_first_of_several_lines_is_passed_on(io: Io) {
        let fields = [("Content-Type", "text/a"), ("Content-Type", "text/b"), ("ETag", "\"a\""), ("ETag", "\"b\""), ("X-A", "1"), ("X-A", "2")];
        let origin = Origin::script(|c| c.keep_answering(200, &fields, "body"));
        let proxy = Proxy::nginx(&format!(
            "worker_processes 1; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://{origin}; }} }} }}"
        )).io(io).start();
        let response = Client::connect(&proxy).get("/");
        let all = |name| response.all(name).collect::<Vec<_>>();
        assert_eq!((all("Content-Type"), all("ETag"), all("X-A")), (vec!["text/a"], vec!["\"a\""], vec!["1", "2"]));
    }

    fn a_body_of_the_configuration_may_show_the_clients(io: Io) {
        for rival in [false, true] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let origin = listener.local_addr().unwrap();
            let seen = std::thread::spawn(move || {
                let (mut conn, _) = listener.accept().unwrap();
                let mut seen = Vec::new();
                while !seen.ends_with(b"]") {
                    let mut piece = [0; 4096];
                    let n = conn.read(&mut piece).unwrap();
                    assert!(n > 0, "{}", String::from_utf8_lossy(&seen));
                    seen.extend_from_slice(&piece[..n]);
                }
                conn.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").unwrap();
                String::from_utf8(seen).unwrap()
            });
            let file = Proxy::nginx(&format!(
                "worker_processes 1; error_log {{dir}}/error.log; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}};
                 location / {{ proxy_pass http://{origin}; proxy_set_body \"[$request_body]\"; }} }} }}"
            )).io(io);
            let proxy = if rival { file.by_rival().start() } else { file.start() };
            Client::connect(&proxy).request(&Request::post("/", "abc")).expect_body("ok");
            assert!(seen.join().unwrap().ends_with("\r\n\r\n[abc]"), "rival: {rival}");
        }
    }
}
