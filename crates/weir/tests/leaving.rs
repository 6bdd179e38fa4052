//! Clients that go away before they are answered, and what becomes of the work for them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::UdpSocket;
use std::time::Duration;
use weir_testkit::{Client, Gate, Io, Origin, Proxy, Request, Running, Script, both_drivers};

/// Longer than an answer takes before it counts whether its client is still there.
const LONG: Duration = Duration::from_millis(100);

fn nginx(io: Io, locations: &str) -> Running {
    Proxy::nginx(&format!(
        "worker_processes 1; error_log {{dir}}/error.log info; events {{}}
         http {{ log_format short '$status $request_uri $bytes_sent'; access_log {{dir}}/access.log short;
         server {{ listen 127.0.0.1:{{port}}; proxy_http_version 1.1; {locations} }} }}"
    ))
    .io(io)
    .start()
}

fn ask(proxy: &Running, path: &str) -> Client {
    let mut client = Client::connect(proxy);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client
}

/// HAProxy with its log at a socket of ours. `backend` follows `server s …` in a backend that everything goes to.
fn haproxy(io: Io, backend: &str) -> (Running, UdpSocket) {
    let syslog = UdpSocket::bind("127.0.0.1:0").unwrap();
    syslog.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let text = format!(
        "global\n nbthread 1\n log 127.0.0.1:{} local0\ndefaults\n mode http\n log global\n option httplog\n \
         timeout connect 20s\n timeout client 20s\n timeout server 20s\n\
         frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\nbackend b\n {backend}\n",
        syslog.local_addr().unwrap().port()
    );
    (Proxy::haproxy(&text).io(io).start(), syslog)
}

/// Status, bytes and state of the next request's line in HAProxy's log.
fn logged(syslog: &UdpSocket) -> String {
    loop {
        let mut line = [0; 4096];
        let length = syslog.recv(&mut line).expect("a log line");
        let line = String::from_utf8_lossy(&line[..length]).into_owned();
        if line.contains(" f b/") {
            let words: Vec<&str> = line.split(' ').skip_while(|word| !word.starts_with("b/")).collect();
            return format!("{} {}", words[2], words[6]);
        }
    }
}

both_drivers! {
    fn nginx_ends_the_work_for_a_client_that_left(io: Io) {
        let origin = Origin::script(|c| c.expect("GET /*").until_closed());
        let proxy = nginx(io, &format!("location / {{ proxy_pass http://{origin}; }}"));
        let mut half = ask(&proxy, "/half");
        origin.wait_for_requests(1);
        half.half_close();
        // Not a byte comes back, and the origin sees its connection end.
        half.expect_closed();
        origin.wait_for_completed(1);

        let whole = ask(&proxy, "/whole");
        origin.wait_for_requests(2);
        drop(whole);
        origin.wait_for_completed(2);

        let reset = ask(&proxy, "/reset");
        origin.wait_for_requests(3);
        reset.reset();
        origin.wait_for_completed(3);

        for path in ["/half", "/whole", "/reset"] {
            proxy.wait_for_file("access.log", &format!("499 {path} 0\n"));
        }
        proxy.wait_for_file("error.log", "client prematurely closed connection");
        proxy.stop();
    }

    fn the_end_of_a_client_shows_behind_a_pipelined_request(io: Io) {
        let origin = Origin::script(|c| c.expect("GET /one").until_closed());
        let proxy = nginx(io, &format!("location / {{ proxy_pass http://{origin}; }}"));
        let mut client = ask(&proxy, "/one");
        origin.wait_for_requests(1);
        client.send("GET /two HTTP/1.1\r\nHost: a\r\n\r\n").half_close();
        origin.wait_for_completed(1);
        proxy.wait_for_file("access.log", "499 /one 0\n");
    }

    fn a_pipelined_request_is_neither_an_end_nor_lost(io: Io) {
        let origin = Origin::script(|c| {
            c.expect("GET /one").pause(LONG).respond(200, "first").expect("GET /two").pause(LONG).respond(200, "second").until_closed()
        });
        let upstream = format!("location / {{ proxy_pass http://{origin}; proxy_set_header Connection ''; }}");
        let proxy = nginx(io, &upstream);
        let mut client = ask(&proxy, "/one");
        client.send("GET /two HTTP/1.1\r\nHost: a\r\n\r\n");
        client.read().expect_status(200).expect_body("first");
        client.read().expect_status(200).expect_body("second");
    }

    fn nginx_goes_on_where_it_is_told_to(io: Io) {
        let gate = Gate::new();
        let held = Origin::script(|c| c.expect("GET /kept*").wait_for(&gate).respond(200, "done").close());
        let dropped = Origin::script(|c| c.expect("GET /dropped").until_closed());
        let proxy = nginx(io, &format!(
            "location /kept {{ proxy_pass http://{held}; proxy_ignore_client_abort on; }}
             location /dropped {{ proxy_pass http://{dropped}; }}"
        ));
        let (mut half, gone) = (ask(&proxy, "/kept/half"), ask(&proxy, "/kept/gone"));
        held.wait_for_requests(2);
        half.half_close();
        gone.reset();
        // By the time that this one's end was seen, so were theirs.
        let other = ask(&proxy, "/dropped");
        dropped.wait_for_requests(1);
        drop(other);
        dropped.wait_for_completed(1);
        gate.open();
        half.read().expect_status(200).expect_body("done");
        held.wait_for_completed(2);
        proxy.wait_for_file("access.log", "200 /kept/gone");
    }

    fn an_answer_that_stays_silent_ends_with_its_client(io: Io) {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
        let origin = Origin::script(|c| c.expect("GET /events").send(head).until_closed());
        let proxy = nginx(io, &format!("location / {{ proxy_pass http://{origin}; proxy_read_timeout 1h; }}"));
        let mut client = ask(&proxy, "/events");
        client.read_head().expect_status(200);
        client.half_close();
        origin.wait_for_completed(1);
        proxy.wait_for_file("access.log", "200 /events");
    }

    fn the_end_of_a_client_counts_once_its_body_is_through(io: Io) {
        let origin = Origin::script(|c| c.expect("POST /up").until_closed());
        let proxy = nginx(io, &format!("location / {{ proxy_pass http://{origin}; proxy_request_buffering off; }}"));
        let mut client = Client::connect(&proxy);
        client.send(Request::post("/up", vec![b'u'; 300_000]).bytes()).half_close();
        assert_eq!(origin.wait_for_requests(1)[0].body.len(), 300_000);
        origin.wait_for_completed(1);
        proxy.wait_for_file("access.log", "499 /up 0\n");
    }

    fn fastcgi_ends_the_work_too(io: Io) {
        let application = Origin::silent();
        let proxy = nginx(io, &format!("location / {{ fastcgi_pass {application}; fastcgi_param A b; }}"));
        let client = ask(&proxy, "/script");
        application.wait_for_connections(1);
        drop(client);
        application.wait_for_completed(1);
        proxy.wait_for_file("access.log", "499 /script 0\n");
    }

    fn haproxy_answers_a_client_that_ended_its_half(io: Io) {
        let origin = Origin::script(|c| c.expect("GET /slow").pause(LONG).respond(200, "still wanted").until_closed());
        let (proxy, syslog) = haproxy(io, &format!("server s {origin}"));
        let mut client = ask(&proxy, "/slow");
        client.half_close();
        client.read().expect_status(200).expect_body("still wanted");
        assert_eq!(logged(&syslog), "200 ----");
    }

    fn a_reset_that_comes_early_is_a_reset(io: Io) {
        let origin = Origin::script(|c| c.expect("GET /first").respond(200, "ok").expect("GET /reset").until_closed());
        let (proxy, syslog) = haproxy(io, &format!("option abortonclose\n server s {origin}"));
        // Its end is heard of before it counts: the kernel names the reason once.
        for round in 1..=5 {
            let mut client = ask(&proxy, "/first");
            client.read().expect_status(200);
            assert!(logged(&syslog).starts_with("200 "));
            client.send("GET /reset HTTP/1.1\r\nHost: a\r\n\r\n");
            origin.wait_for_requests(2 * round);
            client.reset();
            assert_eq!(logged(&syslog), "-1 CD--");
        }
    }

    fn abortonclose_drops_what_nobody_waits_for(io: Io) {
        let gate = Gate::new();
        let origin = Origin::sequence([
            Script::new().expect("GET /half").until_closed(),
            Script::new().expect("GET /reset").until_closed(),
            Script::new().expect("GET /busy").wait_for(&gate).respond(200, "ok").expect("GET /last").respond(200, "last").until_closed(),
        ]);
        let (proxy, syslog) = haproxy(io, &format!("option abortonclose\n timeout queue 20s\n server s {origin} maxconn 1"));
        let mut half = ask(&proxy, "/half");
        origin.wait_for_requests(1);
        half.half_close();
        // It can still hear, and is told.
        half.read().expect_status(400);
        origin.wait_for_completed(1);
        assert_eq!(logged(&syslog), "400 CH--");
        let reset = ask(&proxy, "/reset");
        origin.wait_for_requests(2);
        reset.reset();
        origin.wait_for_completed(2);
        assert_eq!(logged(&syslog), "-1 CD--");

        // One is busy there, so the next waits in the queue, and leaves it.
        let mut busy = ask(&proxy, "/busy");
        origin.wait_for_requests(3);
        let mut queued = ask(&proxy, "/queued");
        queued.half_close();
        queued.expect_closed();
        assert_eq!(logged(&syslog), "-1 CQ--");
        gate.open();
        busy.read().expect_status(200).expect_body("ok");
        // The place of the one that left is nobody's.
        busy.get("/last").expect_status(200).expect_body("last");
        assert_eq!(origin.requests().len(), 4);
    }
}
