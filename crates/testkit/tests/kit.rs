//! The kit tried on Debian's own nginx and haproxy, so that a failure of Weir is Weir's.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;
use weir_testkit::response::Framing;
use weir_testkit::{
    Certificate, Client, Gate, Load, Origin, Proxy, ReadError, Request, Response, Script, TlsOptions,
    hostile, netns, programs, tcp,
};

fn direct(answer: &'static str) -> Result<Response, ReadError> {
    let origin = Origin::script(|c| c.expect("GET /").send(answer).close());
    let mut client = Client::connect(&origin);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.try_read("GET")
}

#[test]
fn every_framing_is_read() {
    let length = direct("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    length.expect_framing(Framing::Length).expect_body("ok");
    let close = direct("HTTP/1.1 200 OK\r\n\r\nok").unwrap();
    close.expect_framing(Framing::Close).expect_body("ok");
    let chunked =
        direct("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: v\r\n\r\n")
            .unwrap();
    assert_eq!(chunked.trailers, [("X-T".to_owned(), "v".to_owned())]);
    chunked.expect_framing(Framing::Chunked).expect_body("ok");
    direct("HTTP/1.1 204 No Content\r\n\r\n").unwrap().expect_framing(Framing::None);
}

#[test]
fn interim_answers_are_kept_apart() {
    let r = direct("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        .unwrap();
    assert_eq!(r.interim[0].status, 103);
    assert_eq!(r.status, 200);
}

#[test]
fn broken_answers_are_told_from_cut_ones() {
    for answer in hostile::MALFORMED_ANSWERS {
        let got = direct(std::str::from_utf8(answer.bytes).unwrap());
        let unasked_switch = answer.name == "switch that nobody asked for";
        // A reader without memory of the request cannot know that nobody asked; an unknown coding may be read to the close.
        assert!(got.is_err() || unasked_switch, "{}: {:?}", answer.name, got.unwrap());
    }
    for answer in hostile::CUT_BODIES {
        let got = direct(std::str::from_utf8(answer.bytes).unwrap());
        assert!(
            matches!(got, Err(ReadError::Truncated(_) | ReadError::Malformed(_))),
            "{}: {got:?}",
            answer.name
        );
    }
}

#[test]
fn requests_are_recorded() {
    let origin =
        Origin::script(|c| c.expect("POST /a").respond(200, "one").expect("POST /b").respond(200, "two"));
    let mut client = Client::connect(&origin);
    client.request(&Request::post("/a", "x").header("X-Y", "z")).expect_body("one");
    client.request(&Request::post("/b", "yy").chunked()).expect_body("two");
    client.expect_closed();
    let requests = origin.wait_for_requests(2);
    assert_eq!((requests[0].line(), requests[0].header("x-y")), ("POST /a", Some("z")));
    assert_eq!(requests[1].body, b"yy");
}

#[test]
#[should_panic(expected = "expected `GET /a`")]
fn a_wrong_request_fails_the_test() {
    let origin = Origin::script(|c| c.expect("GET /a").respond(200, ""));
    Client::connect(&origin).send("GET /b HTTP/1.1\r\nHost: a\r\n\r\n").read_some();
    drop(origin);
}

#[test]
#[should_panic(expected = "connection 2 was not expected")]
fn a_connection_too_many_fails_the_test() {
    let origin = Origin::sequence([Script::new().close()]);
    Client::connect(&origin).expect_closed();
    Client::connect(&origin).expect_closed();
    drop(origin);
}

#[test]
fn resets_and_gates() {
    let gate = Gate::new();
    let origin = Origin::script(|c| c.expect("GET /").wait_for(&gate).reset());
    let mut client = Client::connect(&origin);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.expect_silence(Duration::from_millis(30));
    gate.open();
    assert!(!client.read_to_end().1, "a reset is no orderly end");
    origin.wait_for_completed(1);
}

#[test]
fn echoes_say_their_name() {
    let echo = tcp::named_echo("one");
    let mut client = Client::connect(&echo);
    assert_eq!(client.read_exactly(4), b"one\n");
    client.send("ping");
    assert_eq!(client.read_exactly(4), b"ping");
    client.half_close();
    client.expect_closed();
}

#[test]
fn tls_sessions_resume_only_when_asked() {
    let cert = Certificate::p256(&["localhost"]);
    let origin = Origin::tls(&cert, |c| c.keep_answering(200, &[], "ok"));
    let never = TlsOptions::trusting(&cert);
    let remembers = TlsOptions::trusting(&cert).resuming();
    for (options, kind) in [(&never, "Full"), (&never, "Full"), (&remembers, "Full"), (&remembers, "Resumed")]
    {
        let mut client = Client::tls(&origin, options);
        client.get("/").expect_body("ok");
        assert_eq!(format!("{:?}", client.session().kind.unwrap()), kind);
        assert!(format!("{:?}", client.session().version.unwrap()).contains("1_3"));
    }
    let old = Client::tls(&origin, &never.only_tls12());
    assert!(format!("{:?}", old.session().version.unwrap()).contains("1_2"));
}

const NGINX: &str = "worker_processes 1; events {} http { access_log off;
    server { listen 127.0.0.1:{port}; location / { root {dir}/html; } location /up { proxy_pass http://ORIGIN; } }
    server { listen 127.0.0.1:{port_tls} ssl; ssl_certificate {dir}/site.crt; ssl_certificate_key {dir}/site.key; return 200 tls; } }";

#[test]
fn debian_nginx_is_driven() {
    let origin = Origin::named("one", "from one");
    let cert = Certificate::p256(&["localhost"]);
    let text = NGINX.replace("ORIGIN", &origin.to_string());
    let proxy = Proxy::nginx(&text).by_rival().file("html/a.txt", "hello").certificate("site", &cert).start();
    let mut client = Client::connect(&proxy);
    client.get("/a.txt").expect_status(200).expect_body("hello");
    client.get("/up").expect_header("X-Origin", "one").expect_body("from one");
    client.get("/missing").expect_status(404);
    Client::tls_trusting(proxy.port_of("port_tls"), &cert).get("/").expect_body("tls");
    let (code, text) = programs::curl(&[&format!("http://127.0.0.1:{}/a.txt", proxy.port())]);
    assert_eq!((code, text.as_str()), (0, "hello"));
    let (_, text) = programs::openssl_s_client(proxy.port_of("port_tls").number(), &["-brief"]);
    assert!(text.contains("CONNECTION ESTABLISHED"), "{text}");
    proxy.stop();
}

#[test]
fn a_broken_configuration_is_an_error_with_its_reason() {
    let started = Proxy::nginx("events {} http { nonsense; }").by_rival().try_start();
    let printed = started.err().expect("nginx refuses it");
    assert!(printed.contains("nonsense"), "{printed}");
}

#[test]
fn debian_haproxy_is_driven() {
    let origin = Origin::named("one", "from one");
    let proxy = Proxy::haproxy(&format!(
        "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
         frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\nbackend b\n server one {origin}\n"
    ))
    .by_rival()
    .start();
    Client::connect(&proxy).get("/").expect_body("from one");
    proxy.stop();
}

#[test]
fn load_counts_whom_it_met_and_what_failed() {
    let origin = Origin::named("one", "ok");
    let load = Load::to(&origin).connections(3).start();
    load.wait_for_more(100);
    let report = load.finish();
    report.expect_no_failure();
    assert_eq!(report.shares.get("one"), Some(&report.answered()));

    let bad = Origin::script(|c| c.expect("GET /").respond(500, ""));
    let load = Load::to(&bad).one_request_a_connection().connections(1).start();
    load.wait_for_more(3);
    let report = load.finish();
    assert!(report.failed >= 3 && report.answered() == 0);
}

#[test]
fn namespaces_are_joined() {
    let back = ["172.20.110.23/24", "172.20.110.28/24"];
    netns::isolated("namespaces_are_joined", &["172.20.110.1/24"], &back, |back| {
        let far = std::net::SocketAddr::from(([172, 20, 110, 28], 80));
        let _server = back.web_server(far, "far");
        Client::connect(far).get("/").expect_header("X-Origin", "172.20.110.28:80").expect_body("far");
    });
}
