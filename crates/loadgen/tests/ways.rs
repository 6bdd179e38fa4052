//! What is sent, and where: numbers of requests, files of them, unix sockets, other addresses, certificates, WebSocket
//! messages, gRPC calls; and receivers of figures.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use common::at_rate;
use weir_loadgen::report::{Report, Work};
use weir_loadgen::serve::{ServeOptions, Server};
use weir_loadgen::targets::Asked;
use weir_loadgen::{Identity, Options, RemoteWrite, RunError, Watch, run};
use weir_testkit::{Certificate, Io, Origin, Proxy, both_drivers, eventually, programs};

fn options(io: Io, url: impl std::fmt::Display) -> Options {
    common::options(io, url, Duration::from_millis(500))
}

/// So many requests, for as long as they take.
fn numbered(io: Io, n: u64, url: impl std::fmt::Display) -> Options {
    Options { requests: Some(n), duration: Duration::from_secs(60), ..options(io, url) }
}

#[track_caller]
fn good(options: Options) -> Report {
    let report = run(options, &mut ()).unwrap();
    assert!(report.total.requests > 0 && report.total.errors.sum() == 0, "{:?}", report.total);
    assert_eq!(report.total.failed(), 0, "{:?}", report.total);
    report
}

both_drivers! {
    fn a_number_of_requests_ends_a_run(io: Io) {
        let origin = Origin::named("a", "hello");
        let url = format!("http://{origin}/");
        let report = good(Options { threads: 2, ..numbered(io, 101, &url) });
        assert_eq!((report.total.requests, origin.requests().len()), (101, 101));
        assert!(report.total.elapsed_s < 30.0 && report.settings.requests == Some(101), "{:?}", report.total);
        // At a rate as well, and to the last one's answer.
        let report = good(Options { threads: 3, rates: at_rate(400.0), ..numbered(io, 103, &url) });
        assert_eq!((report.total.requests, origin.requests().len()), (103, 204));
        assert!((0.25..20.0).contains(&report.total.elapsed_s), "{}", report.total.elapsed_s);
        assert_eq!((report.total.unsent, report.total.unfinished), (0, 0));
        assert_eq!(report.timeline.iter().map(|moment| moment.requests).sum::<u64>(), 103);
        // Fewer than connections.
        assert_eq!(good(numbered(io, 1, &url)).total.requests, 1);
        let server = Server::start(ServeOptions {
            http: vec!["127.0.0.1:0".parse().unwrap()],
            ..ServeOptions::default()
        })
        .unwrap();
        let h2 = |n| Options { h2: Some(7), threads: 2, ..numbered(io, n, format!("http://{}/1k", server.http[0])) };
        assert_eq!(good(h2(1000)).total.requests, 1000);
        assert_eq!(good(h2(3)).total.requests, 3);
        assert_eq!(good(Options { rates: at_rate(2000.0), ..h2(500) }).total.requests, 500);
    }

    fn requests_that_find_nobody_are_counted_too(io: Io) {
        for (h2, work) in [(None, Work::Requests), (None, Work::NewConnections), (Some(3), Work::Requests)] {
            // It takes as many connections as are opened before load begins, drops them, and listens no more.
            let first = if work == Work::NewConnections { 1 } else { 4 };
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let gone = std::thread::spawn(move || {
                let all: Vec<TcpStream> = (0..first).map(|_| listener.accept().unwrap().0).collect();
                drop(listener);
                drop(all);
            });
            let report =
                run(Options { h2, work, ..numbered(io, 12, format!("http://{address}/")) }, &mut ()).unwrap();
            gone.join().unwrap();
            assert_eq!(report.total.requests, 0);
            let failed = report.total.errors.sum();
            assert!((8..=16).contains(&failed) && report.total.elapsed_s < 30.0, "{h2:?} {work:?}: {:?}", report.total);
        }
    }

    fn requests_of_a_file_have_their_own_parts(io: Io) {
        let origin = Origin::named("a", "");
        let post = Asked {
            url: format!("2@http://{origin}/b"),
            method: Some("POST".into()),
            headers: vec![("X-Own".into(), "1".into())],
            body: Some(b"the body".to_vec()),
        };
        good(Options { targets: vec![post], ..numbered(io, 30, format!("http://{origin}/a")) });
        let all = origin.requests();
        let posts: Vec<_> = all.iter().filter(|r| r.line() == "POST /b").collect();
        assert!((18..=22).contains(&posts.len()) && all.len() == 30, "{} of {}", posts.len(), all.len());
        assert!(posts.iter().all(|r| r.header("x-own") == Some("1") && r.body == b"the body"));
        assert!(all.iter().filter(|r| r.line() == "GET /a").all(|r| r.body.is_empty()));
    }

    fn other_addresses_and_unix_sockets_are_connected_to(io: Io) {
        let origin = Origin::named("a", "");
        let rule = format!("no.such.name.test:80:127.0.0.1:{}", origin.port());
        good(Options {
            connect_to: vec![rule.parse().unwrap()],
            ..numbered(io, 5, "http://no.such.name.test/x")
        });
        assert!(origin.requests().iter().all(|r| r.header("host") == Some("no.such.name.test")));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.sock");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut bytes = [0; 4096];
                    while matches!(stream.read(&mut bytes), Ok(n) if n > 0) {
                        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
                    }
                });
            }
        });
        let report = good(Options { unix_socket: Some(path.clone()), ..numbered(io, 50, "http://app/") });
        assert_eq!(report.total.status.codes.get(&204), Some(&50));
        let nowhere = Options { unix_socket: Some(dir.path().join("none")), ..options(io, "http://app/") };
        match run(nowhere, &mut ()) {
            Err(RunError::Connect(why)) => assert!(why.contains("unix:") && why.contains("none"), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    fn websocket_messages_come_back(io: Io) {
        let address = echoes(|message| Some(message.to_vec()));
        let ws = |io| options(io, format!("ws://{address}/chat"));
        let report = good(ws(io));
        assert_eq!((report.settings.work, report.total.latency.count), (Work::Messages, report.total.requests));
        // Longer than socket buffers, and not text.
        good(Options { body: Some(vec![0xff; 3 << 20]), ..numbered(io, 3, format!("ws://{address}/")) });
        let report = good(Options { rates: at_rate(200.0), ..numbered(io, 60, format!("ws://{address}/")) });
        assert_eq!(report.total.requests, 60);
    }

    fn other_messages_are_answers_only_if_any_will_do(io: Io) {
        let address = echoes(|_| Some(b"news".to_vec()));
        let report = run(options(io, format!("ws://{address}/")), &mut ()).unwrap();
        assert!(report.total.requests == 0 && report.total.errors.malformed > 0, "{:?}", report.total);
        good(Options { any_reply: true, ..options(io, format!("ws://{address}/")) });
        // A server that closes after a message is one that closes a kept connection.
        let address = echoes(|message| (message != b"last").then(|| message.to_vec()));
        let closing = Options { body: Some(b"last".to_vec()), ..options(io, format!("ws://{address}/")) };
        let report = run(closing, &mut ()).unwrap();
        assert!(report.total.errors.causes.closed_early > 0, "{:?}", report.total);
    }

    fn grpc_calls_are_judged_by_their_code(io: Io) {
        let server = programs::server({
            let mut command = Command::new(programs::peer("grpc"));
            command.arg("serve");
            command
        });
        let port: u16 = eventually("the port of grpc-go", || server.printed().lines().next()?.trim().parse().ok());
        let call = |method: &str, body: Option<&[u8]>| Options {
            grpc: true,
            h2: Some(5),
            body: body.map(<[u8]>::to_vec),
            ..numbered(io, 200, format!("http://127.0.0.1:{port}/grpc.testing.TestService/{method}"))
        };
        let report = good(call("EmptyCall", None));
        assert_eq!(report.total.grpc.iter().collect::<Vec<_>>(), [(&0, &200)]);
        // SimpleRequest { response_size: 1000 }
        let report = good(call("UnaryCall", Some(&[0x10, 0xe8, 0x07])));
        assert!(report.total.bytes.received > 200 * 1000, "{:?}", report.total.bytes);
        // Codes that are no OK: one that the server does not know, and one that is asked for.
        let report = run(call("NoSuchCall", None), &mut ()).unwrap();
        assert_eq!(report.total.grpc.iter().collect::<Vec<_>>(), [(&12, &200)]);
        assert_eq!((report.total.failed(), report.total.goodput, report.total.errors.sum()), (200, 0.0, 0));
        // SimpleRequest { response_status: { code: 7 } }
        let report = run(call("UnaryCall", Some(&[0x3a, 2, 8, 7])), &mut ()).unwrap();
        assert_eq!(report.total.grpc.iter().collect::<Vec<_>>(), [(&7, &200)]);
    }
}

#[test]
fn who_is_no_websocket_is_told() {
    let origin = Origin::named("a", "no");
    match run(options(Io::Auto, format!("ws://{origin}/")), &mut ()) {
        Err(RunError::Connect(why)) => assert!(why.contains("the server answered 200"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_certificate_is_shown() {
    let (site, own) = (Certificate::p256(&["localhost"]), Certificate::p256(&["client"]));
    let nginx = Proxy::nginx(
        "worker_processes 1; events {} http { access_log off; server { listen 127.0.0.1:{port} ssl; \
         ssl_certificate {dir}/site.crt; ssl_certificate_key {dir}/site.key; ssl_verify_client on; \
         ssl_client_certificate {dir}/own.pem; return 204; } }",
    )
    .by_rival()
    .certificate("site", &site)
    .file("own.pem", own.root_pem())
    .start();
    let url = format!("https://127.0.0.1:{}/", nginx.port().number());
    let identity = Identity {
        chain_pem: own.chain_pem().as_bytes().to_vec(),
        key_pem: own.key_pem().as_bytes().to_vec(),
    };
    let report = good(Options { certificate: Some(identity.clone()), ..numbered(Io::Auto, 20, &url) });
    assert_eq!(report.total.status.codes.get(&204), Some(&20));
    // nginx answers 400 without one.
    let report = run(numbered(Io::Auto, 20, &url), &mut ()).unwrap();
    assert_eq!(report.total.status.codes.get(&400), Some(&20));
    let torn = Identity { key_pem: site.key_pem().as_bytes().to_vec(), ..identity };
    match run(Options { certificate: Some(torn), ..numbered(Io::Auto, 1, &url) }, &mut ()) {
        Err(RunError::Usage(why)) => assert!(why.contains("TLS settings"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn figures_are_sent_while_they_are_measured() {
    let (told, heard) = channel();
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = receiver.local_addr().unwrap();
    std::thread::spawn(move || {
        // The first one meets a receiver in trouble, and is sent again.
        let mut status = "503 Busy";
        for mut stream in receiver.incoming().flatten() {
            while let Some((head, body)) = read_request(&mut stream) {
                let _ = told.send((head, body, status));
                let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                status = "204 No Content";
            }
        }
    });
    let origin = Origin::named("a", "hello");
    let url = format!("http://user:word@{address}/api/v1/write?x=y");
    let label = ("stage".to_owned(), "test".to_owned());
    let mut remote =
        RemoteWrite::start(&url, None, vec![("X-Scope".into(), "me".into())], vec![label]).unwrap();
    let options = Options {
        rates: at_rate(100.0),
        duration: Duration::from_secs(1),
        ..options(Io::Auto, format!("http://{origin}/"))
    };
    struct Only<'a>(&'a mut RemoteWrite);
    impl Watch for Only<'_> {
        fn interval(&mut self, interval: &weir_loadgen::Interval<'_>) {
            self.0.interval(interval);
        }
        fn finished(&mut self, report: &Report) {
            self.0.finished(report);
        }
    }
    let report = run(options, &mut Only(&mut remote)).unwrap();
    remote.finish().unwrap();
    let all: Vec<_> = heard.try_iter().collect();
    assert_eq!(all.len(), 3, "a second, again, and the end");
    assert_eq!(all[0].1, all[1].1, "what was refused is sent again as it was");
    let (head, body, _) = &all[2];
    assert!(head.starts_with("POST /api/v1/write?x=y HTTP/1.1\r\n"), "{head}");
    for line in [
        "Content-Encoding: snappy",
        "X-Prometheus-Remote-Write-Version: 0.1.0",
        "Authorization: Basic dXNlcjp3b3Jk",
        "X-Scope: me",
    ] {
        assert!(head.contains(line), "{line} is not in {head}");
    }
    // One literal: the length, the tag, and the message itself.
    let text = String::from_utf8_lossy(body);
    for name in ["weir_load_requests_total", "weir_load_latency_seconds", "quantile", "stage", "test"] {
        assert!(text.contains(name), "{name}");
    }
    let count = (report.total.requests as f64).to_le_bytes();
    assert!(body.windows(8).any(|eight| eight == count), "the number of requests is in it");
}

#[test]
fn a_receiver_that_refuses_is_told_of_and_stops_nothing() {
    let receiver = Origin::script(|c| c.keep_answering(400, &[], "out of order sample"));
    let mut remote =
        RemoteWrite::start(&format!("http://{receiver}/"), None, Vec::new(), Vec::new()).unwrap();
    remote.finished(&Report::default());
    let why = remote.finish().unwrap_err();
    assert!(why.contains("did not take 1 of 1") && why.contains("400 out of order sample"), "{why}");
}

fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length =
        head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// A WebSocket server: `answer` makes of each message the one that is sent back, after a ping; or closes.
fn echoes(answer: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || converse(stream, &answer));
        }
    });
    address
}

fn converse(mut stream: TcpStream, answer: &dyn Fn(&[u8]) -> Option<Vec<u8>>) -> Option<()> {
    let (head, _) = read_request(&mut stream)?;
    let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "))?;
    let hash =
        digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11").as_bytes());
    let accept = BASE64_STANDARD.encode(hash);
    write!(
        stream,
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
    )
    .ok()?;
    loop {
        let (opcode, message) = frame(&mut stream)?;
        if opcode == 10 {
            assert_eq!(message, b"there?");
            continue;
        }
        let Some(reply) = answer(&message) else {
            stream.write_all(&[0x88, 2, 3, 0xe8]).ok()?;
            return None;
        };
        // A ping within a message of two frames.
        let (one, two) = reply.split_at(reply.len() / 2);
        let mut out = piece(opcode, one);
        out.extend([0x89, 6]);
        out.extend(b"there?");
        out.extend(piece(0x80, two));
        stream.write_all(&out).ok()?;
    }
}

fn piece(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![first, 127];
    out.extend((payload.len() as u64).to_be_bytes());
    out.extend(payload);
    out
}

/// A client's frame; it must be masked and whole.
fn frame(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut two = [0; 2];
    stream.read_exact(&mut two).ok()?;
    assert!(two[0] & 0x80 != 0 && two[1] & 0x80 != 0, "{two:?}");
    let length = match two[1] & 0x7f {
        126 => {
            let mut more = [0; 2];
            stream.read_exact(&mut more).ok()?;
            u64::from(u16::from_be_bytes(more))
        }
        127 => {
            let mut more = [0; 8];
            stream.read_exact(&mut more).ok()?;
            u64::from_be_bytes(more)
        }
        short => u64::from(short),
    };
    let mut key = [0; 4];
    stream.read_exact(&mut key).ok()?;
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).ok()?;
    payload.iter_mut().zip(key.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Some((two[0] & 0x0f, payload))
}
