//! Messages that must not be passed on, in either direction.

use std::time::Duration;
use weir_testkit::hostile::{BAD_CHUNKS, BAD_REQUESTS, CUT_BODIES, MALFORMED_ANSWERS};
use weir_testkit::{
    Client, Gate, Io, Origin, Proxy, ReadError, Request, Running, Script, both_drivers, eventually,
};

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

    fn a_chunk_that_is_too_large_is_refused_when_it_is_announced(io: Io) {
        let origin = Origin::named("one", "reached");
        let proxy = to(io, &origin);
        let mut client = Client::connect(&proxy);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n7fffffff\r\nbegun");
        client.read().expect_status(413);
        client.expect_closed();
        assert!(origin.requests().is_empty());
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

    fn heads_whose_lines_all_end_in_lf_are_taken_and_forwarded_in_canonical_form(io: Io) {
        let origin = Origin::sequence([
            Script::new().expect("GET /one").send("HTTP/1.1 200 OK\nContent-Length: 3\nX-A:  b \n\none"),
            Script::new().expect("GET /two").send("HTTP/1.1 200\n\nuntil the end").close(),
            Script::new().expect("POST /three")
                .send("HTTP/1.1 103 Early Hints\nLink: </a>\n\n")
                .send("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\r\nthree\r\n0\r\n\r\n"),
            Script::new().expect("GET /four").respond(200, "four"),
        ]);
        let proxy = to(io, &origin);
        let mut client = Client::connect(&proxy);
        client.send("GET /one HTTP/1.1\nHost: a\nX-C:\td\n\n");
        let answer = client.read().expect_body("one");
        assert_eq!(answer.header("x-a"), Some("b"));
        client.send("\nGET /two HTTP/1.1\nHost: a\n\n");
        client.read().expect_body("until the end");
        // Each head says for itself how its lines end, also where several stand in one segment.
        client.send(
            "POST /three HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n2\r\nhi\r\n0\r\n\r\n\
             GET /four HTTP/1.1\r\nHost: a\r\n\r\n",
        );
        let three = client.read().expect_body("three");
        assert_eq!(three.interim[0].header("link"), Some("</a>"));
        client.read().expect_body("four");
        let heads: Vec<String> = origin.wait_for_requests(4).into_iter().map(|request| request.head).collect();
        assert!(heads[0].contains("\r\nX-C: d"), "{:?}", heads[0]);
        for head in heads {
            assert_eq!(head.matches('\n').count(), head.matches("\r\n").count(), "{head:?}");
        }
        // As slowly as can be.
        let mut slow = Client::connect(&proxy);
        slow.send_slowly("GET /none HTTP/1.1\nHost: a\nX\n\n", 1, Duration::ZERO).expect("it is read");
        slow.read().expect_status(400);
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

    fn a_body_that_only_a_close_ends_is_reset_when_it_was_cut(io: Io) {
        // HTTP/1.0 has no chunks: the end of the connection is the end of the body, unless it is a reset.
        for cut in [
            Script::new().expect("GET /").send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nonly").close(),
            Script::new().expect("GET /").send("HTTP/1.1 200 OK\r\n\r\nonly").pause(Duration::from_millis(50)).reset(),
        ] {
            let origin = Origin::sequence([cut]);
            let proxy = to(io, &origin);
            let mut client = Client::connect(&proxy);
            client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
            let (got, in_good_order) = client.read_to_end();
            assert!(!in_good_order, "{}", String::from_utf8_lossy(&got));
        }
        let origin = Origin::script(|c| c.expect("GET /").send("HTTP/1.1 200 OK\r\n\r\nwhole").close());
        let proxy = to(io, &origin);
        let mut client = Client::connect(&proxy);
        client.send("GET / HTTP/1.0\r\n\r\n");
        let (got, in_good_order) = client.read_to_end();
        assert!(in_good_order && got.ends_with(b"whole"));
    }

    fn a_body_that_is_broken_from_the_start_is_502(io: Io) {
        for answer in CUT_BODIES.iter().filter(|answer| answer.name.starts_with("chunk ")) {
            let origin = Origin::script(|c| c.expect("GET /").send(answer.bytes).close());
            let proxy = to(io, &origin);
            let mut client = Client::connect(&proxy);
            client.get("/").expect_status(502);
            // Nothing of the answer had left: the connection goes on.
            client.get("/").expect_status(502);
            let _ = origin.take_failures();
        }
    }

    fn what_a_kept_connection_says_unasked_is_no_answer(io: Io) {
        let unasked = Gate::new();
        let origin = Origin::sequence([
            Script::new().expect("GET /1").respond(200, "one").wait_for(&unasked)
                .send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"),
            Script::new().expect("GET /2").respond(200, "two").until_closed(),
        ]);
        let proxy = Proxy::nginx(&format!(
            "worker_processes 1; events {{}} http {{ access_log off; upstream u {{ server {origin}; keepalive 4; }}
             server {{ listen 127.0.0.1:{{port}}; location / {{
                 proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ''; }} }} }}"
        ))
        .io(io)
        .start();
        let mut client = Client::connect(&proxy);
        client.get("/1").expect_body("one");
        unasked.open();
        origin.wait_for_completed(1);
        client.get("/2").expect_body("two");
    }

    fn a_request_that_was_cut_short_ends_its_connection(io: Io) {
        // The origin still waits for a body: what came next on its connection would be read as that.
        let origin = Origin::sequence([
            Script::new().expect_head("POST /").respond(401, "who are you").until_closed(),
            Script::new().expect("GET /next").respond(200, "next").until_closed(),
        ]);
        let proxy = Proxy::nginx(&format!(
            "worker_processes 1; events {{}} http {{ access_log off; upstream u {{ server {origin}; keepalive 4; }}
             server {{ listen 127.0.0.1:{{port}}; error_page 401 /sign-in; location /sign-in {{ return 200 page; }} location / {{
                 proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection '';
                 proxy_request_buffering off; proxy_intercept_errors on; }} }} }}"
        ))
        .io(io)
        .start();
        let mut client = Client::connect(&proxy);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc");
        client.read().expect_status(401).expect_body("page");
        Client::connect(&proxy).get("/next").expect_body("next");
    }

    fn a_body_that_nobody_wants_is_not_waited_for_in_drips(io: Io) {
        let proxy = Proxy::nginx(
            "worker_processes 1; events {} http { access_log off; lingering_time 1s; lingering_timeout 1s;
             server { listen 127.0.0.1:{port}; location / { return 200 done; } } }",
        )
        .io(io)
        .start();
        let mut client = Client::connect(&proxy);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
        client.read().expect_body("done");
        let dripped = client.send_slowly([b'x'; 100], 1, Duration::from_millis(200));
        assert!(dripped.is_err(), "the connection was held for 20 seconds");
    }

    fn answers_without_bodies_announce_none(io: Io) {
        let origin = Origin::script(|c| {
            c.expect("GET /").send(
                "HTTP/1.1 103 Early Hints\r\nContent-Length: 3\r\nLink: </a>\r\n\r\n\
                 HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n",
            ).close()
        });
        let proxy = to(io, &origin);
        let mut client = Client::connect(&proxy);
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let (got, _) = client.read_to_end();
        let got = String::from_utf8_lossy(&got).to_ascii_lowercase();
        assert!(got.starts_with("http/1.1 103") && got.contains("http/1.1 204"), "{got}");
        assert!(!got.contains("content-length"), "{got}");
    }

    fn protocols_are_changed_to_what_was_offered(io: Io) {
        let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n";
        let origin = Origin::script(|c| c.expect("GET /").send(switch).close());
        let proxy = Proxy::nginx(&format!(
            "worker_processes 1; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}}; location / {{
                 proxy_pass http://{origin}; proxy_http_version 1.1;
                 proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} }} }}"
        ))
        .io(io)
        .start();
        let mut client = Client::connect(&proxy);
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c, websocket\r\n\r\n");
        client.read().expect_status(502);
        // A version of HTTP is never offered further.
        assert_eq!(origin.wait_for_requests(1)[0].header("upgrade"), Some("websocket"));
        let _ = origin.take_failures();
    }

    fn hops_are_counted_and_trace_is_refused(io: Io) {
        let origin = Origin::named("one", "ok");
        let proxy = to(io, &origin);
        let mut client = Client::connect(&proxy);
        client.send("OPTIONS /a HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n");
        let last = client.read().expect_status(200);
        assert!(last.header("allow").is_some() && origin.requests().is_empty(), "{last}");
        client.send("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(client.read().expect_status(200).header("allow").is_some() && origin.requests().is_empty());
        client.send("OPTIONS /b HTTP/1.1\r\nHost: a\r\nMax-Forwards: 7\r\n\r\n");
        client.read().expect_body("ok");
        assert_eq!(origin.wait_for_requests(1)[0].header("max-forwards"), Some("6"));
        client.send("TRACE /c HTTP/1.1\r\nHost: a\r\nCookie: secret\r\n\r\n");
        let refused = client.read().expect_status(405);
        assert!(refused.header("allow").is_some() && origin.requests().len() == 1, "{refused}");
    }

    fn haproxys_default_repeats_nothing_that_was_sent(io: Io) {
        let origin = Origin::script(|c| c.expect("GET /").send("HTTP/1.1 200 OK\r\nConte").close());
        let proxy = Proxy::haproxy(&format!(
            "defaults\n mode http\n retries 3\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
             frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\nbackend b\n server s {origin}\n"
        ))
        .io(io)
        .start();
        Client::connect(&proxy).get("/").expect_status(502);
        assert_eq!(origin.connections(), 1);
    }

    fn refused_heads_have_their_page(io: Io) {
        let text = "events {} http { access_log off; large_client_header_buffers 2 2k; server { listen 127.0.0.1:{port}; server_name first;
             error_page 400 =200 /bad; error_page 414 =200 /long; error_page 494 =200 /large;
             location = /bad { return 200 bad; } location = /long { return 200 long; } location = /large { return 200 large; }
             location / { return 200 in; } }
             }";
        let (ours, theirs) = (Proxy::nginx(text).io(io).start(), Proxy::nginx(text).by_rival().start());
        let long = "x".repeat(5_000);
        for head in [
            "GET / HTTP/1.1\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\nHost: first\r\nbad line\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\nHost: first\r\nContent-Length: x\r\n\r\n".to_owned(),
            "nonsense\r\n\r\n".to_owned(),
            format!("GET /{long} HTTP/1.1\r\nHost: first\r\n\r\n"),
            format!("GET / HTTP/1.1\r\nHost: first\r\nX: {long}\r\n\r\n"),
        ] {
            let told = |proxy: &Running| {
                let mut client = Client::connect(proxy);
                client.send(&head);
                let answer = client.read();
                client.expect_closed();
                (answer.status, answer.text().lines().next().unwrap_or_default().to_owned())
            };
            assert_eq!(told(&ours), told(&theirs), "{:.80}", head.escape_debug().to_string());
        }
    }

    fn the_last_descriptors_are_for_those_who_are_here(io: Io) {
        let origin = Origin::named("one", "ok");
        let proxy = Proxy::nginx(&format!(
            "worker_processes 1; worker_rlimit_nofile 80; events {{}} http {{ access_log off;
             server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://{origin}; }}
                 location /file {{ root {{dir}}/html; }} location /count {{ stub_status; }} }} }}"
        ))
        .io(io)
        .file("html/file", "content")
        .start();
        let mut here = Client::connect(&proxy);
        here.get("/").expect_body("ok");
        let crowd: Vec<Client> = (0..100).map(|_| Client::connect(&proxy)).collect();
        // Accepting goes on until there is no room; from then on the number stands.
        let mut before = 0;
        eventually("accepting to pause", || {
            let text = here.get("/count").text();
            let active: u32 = text.split_whitespace().nth(2).and_then(|n| n.parse().ok()).expect("a number");
            (active == std::mem::replace(&mut before, active) && active > 10).then_some(())
        });
        here.get("/file").expect_body("content");
        here.get("/").expect_body("ok");
        drop(crowd);
        eventually("room for others", || {
            let answer = Client::try_connect(&proxy).ok()?.try_request(&Request::get("/file")).ok()?;
            (answer.status == 200).then_some(())
        });
    }

    fn scripts_that_answer_nonsense_are_502(io: Io) {
        for (name, text) in [
            ("a change of protocol", "Status: 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
            ("an interim answer", "Status: 103 Early Hints\r\n\r\n"),
            ("less than it said", "Content-Length: 50\r\n\r\nhello"),
            ("two lengths", "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
            ("NUL in a value", "X-A: a\0b\r\n\r\nhello"),
        ] {
            let (_origin, proxy) = script_that_says(text, io);
            let got = Client::connect(&proxy).try_request(&Request::get("/")).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(got.status, 502, "{name}");
        }
    }

    fn what_a_script_says_beyond_its_length_is_cut_off(io: Io) {
        let (_origin, proxy) = script_that_says("Content-Length: 2\r\n\r\nhello", io);
        Client::connect(&proxy).get("/").expect_status(200).expect_body("he");
    }
}

/// A FastCGI application that answers this to everybody, and a proxy before it.
fn script_that_says(text: &str, io: Io) -> (Origin, Running) {
    let record = |kind: u8, data: &[u8]| [&[1, kind, 0, 1, 0, data.len() as u8, 0, 0], data].concat();
    let answer = [record(6, text.as_bytes()), record(6, b""), record(3, &[0; 8])].concat();
    let origin = Origin::script(|c| c.send(answer).until_closed());
    let proxy = Proxy::nginx(&format!(
        "worker_processes 1; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}};
         location / {{ fastcgi_pass {origin}; fastcgi_param REQUEST_METHOD $request_method; }} }} }}"
    ))
    .io(io)
    .start();
    (origin, proxy)
}
