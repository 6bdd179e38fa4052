//! Requests to origins over HTTP/1.1, and what becomes of what they answer.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use weir_testkit::response::Framing;
use weir_testkit::{
    Client, Deadline, Gate, Io, Origin, Proxy, ReadError, Request, Running, Script, both_drivers, eventually,
};

/// One server whose `location /` holds `directives`; `upstreams` stand before it.
fn proxy(io: Io, upstreams: &str, directives: &str) -> Running {
    Proxy::nginx(&format!(
        "worker_processes 1; events {{}} http {{ access_log off; {upstreams}\n\
         server {{ listen 127.0.0.1:{{port}}; location / {{ {directives} }} }} }}"
    ))
    .io(io)
    .start()
}

fn to(io: Io, origin: &Origin) -> Running {
    to_address(io, origin)
}

fn to_address(io: Io, origin: impl std::fmt::Display) -> Running {
    proxy(
        io,
        "",
        &format!("proxy_pass http://{origin}; proxy_http_version 1.1; proxy_set_header Connection '';"),
    )
}

/// Half of what a kernel takes to acknowledge what it hopes to answer (40 ms). Until then the peer's kernel holds back what
/// its program wrote behind a small piece, unless told otherwise (TCP_NODELAY).
const NAGLE: Duration = Duration::from_millis(20);

/// The median time of one of many calls.
fn median(mut call: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..21)
        .map(|_| {
            let begun = Instant::now();
            call();
            begun.elapsed()
        })
        .collect();
    times.sort();
    times[10]
}

fn median_of_answers(proxy: Running) -> Duration {
    let mut client = Client::connect(&proxy);
    median(|| {
        client.get("/").expect_body("ok");
    })
}

/// An origin for one connection that writes heads and bodies apart, with Nagle's rule unless `nodelay`.
fn writes_apart(nodelay: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(nodelay).unwrap();
        let mut request = [0; 4096];
        // The requests of the test come one at a time, each in one piece.
        while stream.read(&mut request).is_ok_and(|read| read > 0) {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n").unwrap();
            stream.write_all(b"ok").unwrap();
        }
    });
    address
}

both_drivers! {
    fn bodies_go_both_ways(io: Io) {
        let origin = Origin::script(|c| c.expect("POST /up?x=1").respond_with(201, &[("X-A", "b")], "made").until_closed());
        let proxy = to(io, &origin);
        let body = vec![b'z'; 100_000];
        let answer = Client::connect(&proxy).request(&Request::post("/up?x=1", &body));
        answer.expect_status(201).expect_header("X-A", "b").expect_framing(Framing::Length).expect_body("made");
        let got = &origin.wait_for_requests(1)[0];
        assert_eq!(got.body, body);
        assert!(got.header("host").is_some());
    }

    fn chunks_are_taken_and_given(io: Io) {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n";
        let origin = Origin::script(|c| c.expect("POST /").send(chunked).until_closed());
        let proxy = to(io, &origin);
        let answer = Client::connect(&proxy).request(&Request::post("/", "some body").chunked());
        answer.expect_status(200).expect_body("hello world");
        assert_eq!(origin.wait_for_requests(1)[0].body, b"some body");
    }

    fn a_body_written_apart_from_its_head_comes_at_once(io: Io) {
        let usual = median_of_answers(to_address(io, writes_apart(true)));
        let held_back = median_of_answers(to_address(io, writes_apart(false)));
        assert!(held_back < usual + NAGLE, "{held_back:?}; without Nagle's rule {usual:?}");
    }

    fn a_request_body_written_apart_from_its_head_is_taken_at_once(io: Io) {
        let origin = Origin::named("one", "ok");
        let proxy = to(io, &origin);
        let median = |nodelay: bool| {
            let mut client = TcpStream::connect(("127.0.0.1", proxy.port().number())).unwrap();
            client.set_nodelay(nodelay).unwrap();
            median(|| {
                client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n").unwrap();
                client.write_all(b"hi").unwrap();
                // A small answer comes in one piece.
                assert!(client.read(&mut [0; 4096]).unwrap() > 0);
            })
        };
        let (usual, held_back) = (median(true), median(false));
        assert!(held_back < usual + NAGLE, "{held_back:?}; without Nagle's rule {usual:?}");
    }

    fn upstream_connections_are_kept(io: Io) {
        let origin = Origin::named("one", "ok");
        let upstream = format!("upstream u {{ server {origin}; keepalive 4; }}");
        let proxy = proxy(io, &upstream, "proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection '';");
        let mut client = Client::connect(&proxy);
        for _ in 0..20 {
            client.get("/").expect_body("ok");
        }
        assert_eq!(origin.connections(), 1);
    }

    fn an_answer_that_ends_by_closing(io: Io) {
        let origin = Origin::script(|c| c.expect("GET /").send("HTTP/1.1 200 OK\r\n\r\nuntil the end").close());
        let proxy = to(io, &origin);
        Client::connect(&proxy).get("/").expect_status(200).expect_body("until the end");
    }

    fn answers_without_bodies(io: Io) {
        let origin = Origin::script(|c| {
            c.expect("HEAD /").send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
                .expect("GET /304").send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n")
                .expect("GET /204").send("HTTP/1.1 204 No Content\r\n\r\n")
                .expect("GET /last").respond(200, "last").until_closed()
        });
        let upstream = format!("upstream u {{ server {origin}; keepalive 4; }}");
        let proxy = proxy(io, &upstream, "proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection '';");
        let mut client = Client::connect(&proxy);
        client.request(&Request::head("/")).expect_status(200).expect_header("Content-Length", "5");
        client.get("/304").expect_status(304).expect_header("ETag", "\"a\"");
        client.get("/204").expect_status(204);
        client.get("/last").expect_body("last");
    }

    fn a_client_may_wait_for_100(io: Io) {
        let origin = Origin::script(|c| c.expect("POST /").respond(200, "thanks").until_closed());
        let proxy = to(io, &origin);
        let mut client = Client::connect(&proxy);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
        assert_eq!(client.read_head().status, 100);
        client.send("hello");
        client.read().expect_body("thanks");
        assert_eq!(origin.wait_for_requests(1)[0].body, b"hello");
    }

    fn tunnels_carry_bytes_both_ways(io: Io) {
        let switch = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nfirst";
        let origin = Origin::script(|c| c.expect("GET /ws").send(switch).echo());
        let pass = format!(
            "proxy_pass http://{origin}; proxy_http_version 1.1; \
             proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;"
        );
        let proxy = proxy(io, "", &pass);
        let mut client = Client::connect(&proxy);
        client.send("GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
        assert_eq!(client.read_head().status, 101);
        assert_eq!(client.read_exactly(5), b"first");
        client.send("ping");
        assert_eq!(client.read_exactly(4), b"ping");
        drop(client);
        origin.wait_for_completed(1);
    }

    fn a_dead_endpoint_is_passed_over(io: Io) {
        let origin = Origin::named("alive", "ok");
        let dead = weir_testkit::Port::lease();
        let upstream = format!("upstream u {{ server 127.0.0.1:{dead}; server {origin}; }}");
        let proxy = proxy(io, &upstream, "proxy_pass http://u;");
        let mut client = Client::connect(&proxy);
        for _ in 0..6 {
            client.get("/").expect_header("X-Origin", "alive");
        }
    }

    fn nobody_there_is_502(io: Io) {
        let dead = weir_testkit::Port::lease();
        let proxy = proxy(io, "", &format!("proxy_pass http://127.0.0.1:{dead};"));
        let mut client = Client::connect(&proxy);
        client.get("/").expect_status(502);
        client.get("/").expect_status(502);
    }

    fn a_silent_origin_is_504(io: Io) {
        let origin = Origin::script(|c| c.expect("GET /").until_closed());
        let proxy = proxy(io, "", &format!("proxy_pass http://{origin}; proxy_read_timeout 200ms;"));
        Client::connect(&proxy).get("/").expect_status(504);
        origin.wait_for_completed(1);
    }

    fn a_kept_connection_closed_in_a_race_is_no_failure(io: Io) {
        let origin = Origin::script(|c| c.expect("GET /").respond(200, "ok").close());
        let upstream = format!("upstream u {{ server {origin} max_fails=1 fail_timeout=60s; keepalive 4; }}");
        let proxy = proxy(io, &upstream, "proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection '';");
        let mut client = Client::connect(&proxy);
        for _ in 0..20 {
            client.get("/").expect_status(200).expect_body("ok");
        }
    }

    fn a_request_with_effects_is_sent_once(io: Io) {
        let first = Origin::script(|c| c.expect("POST /").reset());
        let second = Origin::named("second", "ok");
        let upstream = format!("upstream u {{ server {first}; server {second} backup; }}");
        let proxy = proxy(io, &upstream, "proxy_pass http://u;");
        Client::connect(&proxy).request(&Request::post("/", "pay")).expect_status(502);
        assert_eq!((first.requests().len(), second.requests().len()), (1, 0));
    }

    fn a_client_that_leaves_frees_the_origin(io: Io) {
        let origin = Origin::script(|c| c.expect("GET /").send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome").until_closed());
        let proxy = proxy(io, "", &format!("proxy_pass http://{origin}; proxy_buffering off;"));
        let mut client = Client::connect(&proxy);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.read_head();
        client.reset();
        origin.wait_for_completed(1);
    }

    fn a_slow_reader_holds_the_origin_back(io: Io) {
        let body = vec![b'x'; 64 << 20];
        let origin = Origin::script(|c| c.expect("GET /").respond(200, body).until_closed());
        let proxy = proxy(io, "", &format!("proxy_pass http://{origin}; proxy_max_temp_file_size 0;"));
        let mut client = Client::connect(&proxy);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = client.read_head();
        assert_eq!(head.status, 200);
        assert!(!client.read_some().is_empty());
        let_it_fill();
        let memory = resident(proxy.pid());
        assert!(memory < 48 << 20, "{memory} bytes held for a client that does not read");
        // The origin cannot finish writing while nobody reads; that is no fault of it.
        drop(client);
        eventually("the origin's write to fail", || (!origin.take_failures().is_empty()).then_some(()));
    }

    fn fields_for_one_hop_stay_there(io: Io) {
        let answer = [("Connection", "X-Hop"), ("X-Hop", "1"), ("Keep-Alive", "timeout=9"), ("X-End", "2")];
        let origin = Origin::script(|c| c.expect("GET /").respond_with(200, &answer, "ok").until_closed());
        let proxy = to(io, &origin);
        let request = Request::get("/").header("Connection", "X-Mine").header("X-Mine", "1").header("X-Far", "2").header("TE", "gzip");
        let got = Client::connect(&proxy).request(&request);
        got.expect_no_header("X-Hop").expect_no_header("Keep-Alive").expect_header("X-End", "2");
        let sent = &origin.wait_for_requests(1)[0];
        assert_eq!((sent.header("X-Mine"), sent.header("TE"), sent.header("X-Far")), (None, None, Some("2")));
    }

    fn interim_answers_pass(io: Io) {
        let origin = Origin::script(|c| {
            c.expect("GET /").send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n").respond(200, "ok").until_closed()
        });
        let proxy = to(io, &origin);
        let answer = Client::connect(&proxy).get("/").expect_status(200).expect_body("ok");
        assert_eq!(answer.interim.len(), 1);
        assert_eq!(answer.interim[0].header("Link"), Some("</a.css>"));
        // A second origin: the first one's connection may be kept, and its script has no further answer.
        let origin = Origin::script(|c| c.expect("GET /").send("HTTP/1.1 103 Early Hints\r\n\r\n").respond(200, "ok").until_closed());
        let proxy = to(io, &origin);
        let mut old = Client::connect(&proxy);
        old.send("GET / HTTP/1.0\r\n\r\n");
        assert!(old.read().interim.is_empty(), "HTTP/1.0 knows no interim answers");
    }

    fn early_hints_pass_where_their_condition_holds(io: Io) {
        let origin = Origin::script(|c| {
            c.expect("GET /").send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n")
                .respond_with(200, &[("Connection", "close")], "ok").close()
        });
        let proxy = proxy(io, "", &format!("proxy_pass http://{origin}; early_hints $http_x_one $http_x_other;"));
        let mut client = Client::connect(&proxy);
        for (name, value, passed) in [("X-Other", "1", 1), ("X-Other", "0", 0), ("X-None", "1", 0), ("X-One", "no", 1)] {
            let answer = client.request(&Request::get("/").header(name, value)).expect_status(200).expect_body("ok");
            assert_eq!(answer.interim.len(), passed, "{name}: {value}");
        }
    }

    fn trailers_pass(io: Io) {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: v\r\n\r\n";
        let origin = Origin::script(|c| c.expect("GET /").send(chunked).until_closed());
        let proxy = to(io, &origin);
        let answer = Client::connect(&proxy).request(&Request::get("/").header("TE", "trailers"));
        assert_eq!(answer.expect_body("ok").trailers, [("X-T".to_owned(), "v".to_owned())]);
    }

    fn an_early_answer_reaches_the_client(io: Io) {
        let origin = Origin::script(|c| c.expect_head("POST /").respond(413, "too much").close());
        let proxy = proxy(io, "", &format!("proxy_pass http://{origin}; proxy_http_version 1.1; proxy_request_buffering off; client_max_body_size 0;"));
        let mut client = Client::connect(&proxy);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nonly a little");
        client.read().expect_status(413).expect_body("too much");
    }

    fn an_early_refusal_is_not_waited_for(io: Io) {
        let answered = Gate::new();
        let origin = Origin::script(|c| {
            c.expect_head("POST /").respond_with(413, &[("Connection", "close")], "too much").wait_for(&answered).close()
        });
        let proxy = proxy(io, "", &format!("proxy_pass http://{origin}; proxy_http_version 1.1; client_max_body_size 0;"));
        // More than two sockets hold: the origin reads none of it, and keeps its connection open.
        let answer = Client::connect(&proxy).request(&Request::post("/", vec![b'x'; 20_000_000]));
        answer.expect_status(413).expect_body("too much");
        answered.open();
    }

    fn interim_answers_do_not_end_a_body(io: Io) {
        let origin = Origin::script(|c| {
            c.expect_head("POST /").send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
                .read_body().respond(200, "whole").until_closed()
        });
        let proxy = proxy(io, "", &format!("proxy_pass http://{origin}; proxy_http_version 1.1; proxy_request_buffering off;"));
        let mut client = Client::connect(&proxy);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfirst ");
        let mut interim = Vec::new();
        while !interim.ends_with(b"\r\n\r\n") {
            interim.extend(client.read_some());
        }
        assert!(interim.starts_with(b"HTTP/1.1 103"), "{}", String::from_utf8_lossy(&interim));
        client.send("rest");
        client.read().expect_status(200).expect_body("whole");
        assert_eq!(origin.wait_for_requests(2)[1].body, b"first rest");
    }

    fn what_tls_says_for_itself_does_not_end_a_body(io: Io) {
        // In TLS 1.3 session tickets follow the handshake: bytes, but no answer.
        let certificate = weir_testkit::Certificate::p256(&["origin.test"]);
        let origin = Origin::tls(&certificate, |c| c.expect_head("POST /").read_body().respond(200, "whole").until_closed());
        let proxy = Proxy::haproxy(&format!(
            "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
             frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\nbackend b\n server s {origin} ssl verify none\n"
        ))
        .io(io)
        .start();
        let mut client = Client::connect(&proxy);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfirst ");
        origin.wait_for_requests(1);
        client.send("rest");
        client.read().expect_status(200).expect_body("whole");
        assert_eq!(origin.wait_for_requests(2)[1].body, b"first rest");
    }

    fn a_body_too_large_is_413(io: Io) {
        let origin = Origin::script(Script::until_closed);
        let proxy = proxy(io, "", &format!("proxy_pass http://{origin}; client_max_body_size 10;"));
        let mut client = Client::connect(&proxy);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello world");
        client.read().expect_status(413);
        assert_eq!(origin.requests().len(), 0);
    }

    fn a_page_for_413_closes_the_connection_too(io: Io) {
        let origin = Origin::script(Script::until_closed);
        let proxy = Proxy::nginx(&format!(
            "worker_processes 1; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}}; client_max_body_size 10;
             error_page 413 @large; location @large {{ return 200 page; }} location / {{ proxy_pass http://{origin}; }} }} }}"
        ))
        .io(io)
        .start();
        let mut client = Client::connect(&proxy);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello worldGET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.read().expect_status(413).expect_body("page");
        client.expect_closed();
        assert_eq!(origin.requests().len(), 0);
    }

    fn a_cut_answer_never_looks_whole(io: Io) {
        for framing in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
            let cut = format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n5\r\nhello\r\n");
            let origin = Origin::script(|c| c.expect("GET /").send(cut).close());
            let proxy = to(io, &origin);
            let mut client = Client::connect(&proxy);
            client.send(Request::get("/").bytes());
            let got = client.try_read("GET");
            let refused = matches!(&got, Ok(r) if r.status == 502);
            assert!(refused || matches!(got, Err(ReadError::Truncated(_))), "{framing}: {got:?}");
        }
    }

    fn weights_are_kept(io: Io) {
        let origins = [Origin::named("a", ""), Origin::named("b", ""), Origin::named("c", "")];
        let upstream = format!(
            "upstream u {{ server {} weight=3; server {}; server {} down; }}", origins[0], origins[1], origins[2]
        );
        let proxy = proxy(io, &upstream, "proxy_pass http://u;");
        let mut client = Client::connect(&proxy);
        for _ in 0..40 {
            client.get("/").expect_status(200);
        }
        let counts: Vec<usize> = origins.iter().map(|o| o.requests().len()).collect();
        assert_eq!(counts, [30, 10, 0]);
    }

    fn a_failed_endpoint_rests_and_comes_back(io: Io) {
        let port = weir_testkit::Port::lease();
        let alive = Origin::named("alive", "");
        let upstream = format!("upstream u {{ server 127.0.0.1:{port} fail_timeout=1s; server {alive}; }}");
        let proxy = proxy(io, &upstream, "proxy_pass http://u; proxy_connect_timeout 1s;");
        let mut client = Client::connect(&proxy);
        for _ in 0..4 {
            client.get("/").expect_header("X-Origin", "alive");
        }
        let back = std::net::TcpListener::bind(("127.0.0.1", port.number())).unwrap();
        std::thread::spawn(move || {
            for tcp in back.incoming().flatten() {
                use std::io::{Read, Write};
                let mut tcp = tcp;
                let _ = tcp.read(&mut [0; 4096]);
                let _ = tcp.write_all(b"HTTP/1.1 200 OK\r\nX-Origin: back\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
        });
        eventually("the endpoint to be tried again", || {
            (client.get("/").header("X-Origin") == Some("back")).then_some(())
        });
    }
}

/// Time for the proxy to read what it may of an answer that nobody takes: that it stops has no signal to wait for.
fn let_it_fill() {
    let _ = Gate::new().pass(Deadline::after(Duration::from_millis(500)));
}

/// Resident bytes of a process and its children.
fn resident(pid: u32) -> u64 {
    let of = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line =
            text.lines().find_map(|l| l.strip_prefix("VmRSS:")).map(str::trim).unwrap_or("0 kB").to_owned();
        line.trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
    };
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    of(pid) + children.split_ascii_whitespace().filter_map(|c| c.parse().ok()).map(of).sum::<u64>()
}
