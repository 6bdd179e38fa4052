//! HTTP/2 from outside: h2spec, over TLS and by prior knowledge, and nghttp2's clients.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use weir_testkit::{Certificate, Client, Io, Origin, Proxy, Request, Running, both_drivers, programs};

/// A server that asks an origin for a body of many windows: no answer is over before h2spec has said what it wants to say.
fn start(io: Io, origin: &Origin, more: &str) -> Running {
    Proxy::nginx(&format!(
        "worker_processes 1; error_log {{dir}}/error.log; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}} {more}
         http2 on; location / {{ proxy_pass http://{origin}; }} }} }}"
    ))
    .io(io)
    .certificate("a", &Certificate::p256(&["a.test"]))
    .start()
}

fn origin() -> Origin {
    Origin::named("large", vec![b'x'; 300_000])
}

/// Runs h2spec, strict, and gives what it says of tests that failed.
fn h2spec(proxy: &Running, more: &[&str]) -> (String, usize) {
    let mut command = Command::new(programs::peer("h2spec"));
    command.args(["--strict", "--timeout", "5", "--path", "/", "--host", "127.0.0.1", "--port"]);
    command.arg(proxy.port().number().to_string()).args(more);
    let (_, text) = programs::run(command);
    let last = text.lines().rev().find(|line| line.contains(" tests, ")).unwrap_or_else(|| panic!("{text}"));
    let words: Vec<usize> = last.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    let [all, passed, skipped, failed] = words[..] else { panic!("{last}") };
    assert_eq!((all, skipped, passed + failed), (146, 0, 146), "{last}");
    let failures = text.split_once("Failures:").map_or("", |(_, failures)| failures).to_owned();
    (failures, failed)
}

both_drivers! {
    fn h2spec_passes_over_tls(io: Io) {
        let origin = origin();
        let proxy = start(io, &origin, "ssl; ssl_certificate {dir}/a.crt; ssl_certificate_key {dir}/a.key;");
        let (failures, failed) = h2spec(&proxy, &["--tls", "--insecure"]);
        assert_eq!(failed, 0, "{failures}");
        let _ = origin.take_failures();
    }

    fn h2spec_passes_by_prior_knowledge(io: Io) {
        let origin = origin();
        let proxy = start(io, &origin, ";");
        let (failures, failed) = h2spec(&proxy, &[]);
        // The port speaks HTTP/1.1, too: what is no preface is a request of that, and a bad one.
        assert!(failed == 1 && failures.contains("Sends invalid connection preface"), "{failures}");
        let mut client = Client::connect(&proxy);
        client.send("INVALID CONNECTION PREFACE\r\n\r\n");
        client.read().expect_status(400);
        client.expect_closed();
        let _ = origin.take_failures();
    }

    fn trailers_of_requests_reach_an_http1_origin_and_come_back(io: Io) {
        for buffering in ["on", "off"] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let origin = listener.local_addr().unwrap();
            let served = std::thread::spawn(move || {
                let (mut conn, _) = listener.accept().unwrap();
                conn.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"x-after: 1\r\n\r\n") {
                    let mut piece = [0; 4096];
                    let read = conn.read(&mut piece).unwrap();
                    assert!(read > 0, "the end came before the trailers: {}", request.escape_ascii());
                    request.extend_from_slice(&piece[..read]);
                }
                let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Last: 2\r\n\r\n";
                conn.write_all(answer).unwrap();
                String::from_utf8(request).unwrap()
            });
            let proxy = Proxy::nginx(&format!(
                "worker_processes 1; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}}; http2 on;
                 location / {{ proxy_pass http://{origin}; proxy_request_buffering {buffering}; }} }} }}"
            )).io(io).file("body", "body").start();
            let mut command = Command::new("nghttp");
            let body = proxy.dir().join("body");
            command.args(["--verbose", "--trailer", "x-after: 1", "--data"]).arg(body);
            command.arg(format!("http://127.0.0.1:{}/t", proxy.port().number()));
            let (code, text) = programs::run(command);
            assert_eq!(code, 0, "{text}");
            assert!(text.contains(":status: 200") && text.contains("x-last: 2"), "buffering {buffering}: {text}");
            let request = served.join().unwrap();
            assert!(request.starts_with("POST /t HTTP/1.1\r\n") && request.contains("\r\nbody\r\n0\r\n"), "{request}");
        }
    }

    fn h2load_loses_nothing(io: Io) {
        let origin = Origin::named("small", "small");
        let proxy = start(io, &origin, ";");
        let mut command = Command::new("h2load");
        command.args(["-n", "2000", "-c", "4", "-m", "20"]).arg(format!("http://127.0.0.1:{}/", proxy.port().number()));
        let (code, text) = programs::run(command);
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("2000 succeeded, 0 failed, 0 errored, 0 timeout"), "{text}");
        Client::connect(&proxy).request(&Request::get("/")).expect_body("small");
    }
}
