//! Corners of proxying: cookies' flags, local addresses with ports, rates of upstreams. Beside Debian's nginx where it has them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use weir_testkit::{Client, Io, Origin, Proxy, both_drivers};

both_drivers! {
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
}
