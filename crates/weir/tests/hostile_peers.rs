//! Messages that must not be passed on, in either direction.

use std::time::Duration;
use weir_testkit::hostile::{BAD_CHUNKS, BAD_REQUESTS, CUT_BODIES, MALFORMED_ANSWERS};
use weir_testkit::{Client, Io, Origin, Proxy, ReadError, Request, Running, both_drivers};

fn to(io: Io, origin: &Origin) -> Running {
    Proxy::nginx(&format!(
        "worker_processes 1; events {{}} http {{ access_log off; large_client_header_buffers 4 8k;
         server {{ listen 127.0.0.1:{{port}}; location / {{
             proxy_pass http://{origin}; proxy_http_version 1.1; proxy_set_header Connection ''; }} }} }}"
    ))
    .io(io)
    .start()
}

both_drivers! {
    fn bad_requests_are_refused_and_reach_nobody(io: Io) {
        let origin = Origin::named("one", "reached");
        let proxy = to(io, &origin);
        for bad in BAD_REQUESTS {
            let mut client = Client::connect(&proxy);
            client.send(bad.bytes);
            let answer = client.try_read("GET").unwrap_or_else(|e| panic!("{}: {e}", bad.name));
            // RFC 9112 wants 400 where `chunked` is not last, and 501 for a coding that is not known: both may be meant.
            let coding = bad.name.starts_with("chunked") && answer.status == 501;
            assert!(answer.status == bad.status || coding, "{}: {answer}", bad.name);
            client.expect_closed();
            let sent: Vec<String> = origin.requests().into_iter().map(|r| r.head).collect();
            assert!(sent.is_empty(), "{} reached the origin: {sent:?}", bad.name);
        }
        Client::connect(&proxy).get("/").expect_body("reached");
    }

    fn broken_chunks_never_become_a_whole_body(io: Io) {
        let origin = Origin::named("one", "reached");
        let proxy = to(io, &origin);
        for bad in BAD_CHUNKS {
            let mut client = Client::connect(&proxy);
            client.send(bad.bytes);
            let answer = client.try_read("POST").unwrap_or_else(|e| panic!("{}: {e}", bad.name));
            assert_eq!(answer.status, bad.status, "{}", bad.name);
            client.expect_closed();
            assert!(origin.requests().is_empty(), "{} reached the origin", bad.name);
        }
        // Connections that were cut short of a body are the point, not a fault.
        let _ = origin.take_failures();
    }

    fn malformed_answers_are_502(io: Io) {
        for answer in MALFORMED_ANSWERS {
            let origin = Origin::script(|c| c.expect("GET /").send(answer.bytes).close());
            let proxy = to(io, &origin);
            let got = Client::connect(&proxy).try_request(&Request::get("/"));
            let got = got.unwrap_or_else(|e| panic!("{}: {e}", answer.name));
            assert_eq!(got.status, 502, "{}", answer.name);
            let _ = origin.take_failures();
        }
    }

    fn cut_bodies_never_look_whole(io: Io) {
        for answer in CUT_BODIES {
            let origin = Origin::script(|c| c.expect("GET /").send(answer.bytes).close());
            let proxy = to(io, &origin);
            match Client::connect(&proxy).try_request(&Request::get("/")) {
                Ok(got) => assert_eq!(got.status, 502, "{}: {got}", answer.name),
                // Cut within the body, or before a head that had not gone out yet.
                Err(ReadError::Truncated(_) | ReadError::Closed | ReadError::Reset) => {}
                Err(other) => panic!("{}: {other}", answer.name),
            }
            let _ = origin.take_failures();
        }
    }

    fn heads_have_a_bound(io: Io) {
        let origin = Origin::named("one", "ok");
        let proxy = to(io, &origin);
        let long = "x".repeat(20_000);
        let mut client = Client::connect(&proxy);
        client.send(format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.read().expect_status(414);
        let many: String = (0..5_000).map(|n| format!("X-{n}: {n}\r\n")).collect();
        for fields in [format!("X-Long: {long}\r\n"), many] {
            let mut client = Client::connect(&proxy);
            // The refusal may come while we still send.
            let _ = client.try_send(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
            let status = client.read().status;
            // nginx says 400; RFC 6585 has a word of its own for it.
            assert!(matches!(status, 400 | 431), "{status}");
        }
        assert!(origin.requests().is_empty());
    }

    fn slow_heads_time_out(io: Io) {
        let proxy = Proxy::nginx(
            "worker_processes 1; events {} http { access_log off; client_header_timeout 1s; keepalive_timeout 1s;
             server { listen 127.0.0.1:{port}; return 200 ok; } }",
        )
        .io(io)
        .start();
        let mut slow = Client::connect(&proxy);
        let sent = slow.send_slowly("GET / HTTP/1.1\r\nHost: a\r\nX-A: aaaaaaaaaaaaaaaaaaaaaaaaaaaa", 1, Duration::from_millis(50));
        let (answer, _) = slow.read_to_end();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(sent.is_err() || answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
        let mut idle = Client::connect(&proxy);
        idle.get("/").expect_body("ok");
        idle.expect_closed();
        Client::connect(&proxy).expect_closed();
    }
}
