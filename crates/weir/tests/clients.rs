//! Clients that take their time, and connections that end early.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::Read as _;
use std::time::{Duration, Instant};
use weir_testkit::{Client, Io, Origin, Proxy, Request, Running, Script, both_drivers};

const LARGE: usize = 64 << 20;

fn serving(io: Io, settings: &str) -> Running {
    let proxy = Proxy::nginx(&format!(
        "worker_processes 1; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}}; root {{dir}}/html;
         client_header_timeout 1s; send_timeout 2s; {settings} location /gone {{ return 444; }} }} }}"
    ));
    proxy.file("html/large", vec![b'x'; LARGE]).io(io).start()
}

/// Takes a little of an answer now and then, for so long. True if the connection ended meanwhile.
fn takes_slowly(proxy: &Running, time: Duration) -> bool {
    let client = Client::connect(proxy);
    let mut socket = client.socket();
    std::io::Write::write_all(&mut socket, b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let end = Instant::now() + time;
    let mut taken = 0;
    while Instant::now() < end {
        // About a quarter of a megabyte a second, which is what is tested.
        std::thread::sleep(Duration::from_millis(60));
        match socket.read(&mut [0; 16 << 10]) {
            Ok(0) | Err(_) => return true,
            Ok(read) => taken += read,
        }
    }
    assert!(taken < LARGE);
    false
}

both_drivers! {
    fn who_takes_too_slowly_is_given_up(io: Io) {
        let proxy = serving(io, "weir_min_send_rate 8m;");
        assert!(takes_slowly(&proxy, Duration::from_secs(40)));
        let proxy = serving(io, "weir_min_send_rate 0;");
        assert!(!takes_slowly(&proxy, Duration::from_secs(8)));
    }

    fn connections_that_timed_out_are_reset_where_that_is_asked_for(io: Io) {
        for (word, resets) in [("on", true), ("off", false)] {
            let proxy = serving(io, &format!("reset_timedout_connection {word};"));
            let mut client = Client::connect(&proxy);
            client.send("GET / HTT");
            assert_eq!(client.read_to_end().1, !resets, "a head that does not end, {word}");
            let mut client = Client::connect(&proxy);
            client.send("GET /gone HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.read_to_end().1, !resets, "444, {word}");
        }
    }

    fn a_post_survives_that_its_kept_connection_was_closed(io: Io) {
        // Each connection is closed right behind its first answer, which did not say so.
        let once = || Script::new().expect("POST /").respond(200, "taken");
        let origin = Origin::sequence((0..60).map(|_| once()));
        let proxy = Proxy::nginx(&format!(
            "worker_processes 1; events {{}} http {{ access_log off; upstream u {{ server {origin}; keepalive 8; }}
             server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://u; proxy_http_version 1.1;
             proxy_set_header Connection ''; }} }} }}"
        )).io(io).start();
        let mut client = Client::connect(&proxy);
        for at in 0..50 {
            // So that the end has come when the next request does; what came later would be a race that nobody can win.
            origin.wait_for_completed(at);
            client.request(&Request::post("/", "once")).expect_status(200).expect_body("taken");
        }
    }
}
