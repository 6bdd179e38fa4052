//! HTTP/2, generator and servers: against each other, and against curl, nghttp2's programs and nginx.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;
use std::time::Duration;

use weir_loadgen::report::{Figures, Report, Work};
use weir_loadgen::serve::{ServeOptions, Server};
use weir_loadgen::{IoChoice, Options, Rate, RunError, run, text};
use weir_testkit::deadline::eventually;
use weir_testkit::port::{Port, is_listening};
use weir_testkit::programs::{self, curl};
use weir_testkit::{Certificate, Io, Proxy, both_drivers};
use weir_wire::h2::{self, Connection, Event, Fields, Reason, Role};

fn driver(io: Io) -> IoChoice {
    match io.possible() {
        Io::Epoll => IoChoice::Epoll,
        Io::Uring => IoChoice::Uring,
        Io::Auto => IoChoice::Auto,
    }
}

/// Two connections with eight streams each.
fn options(io: Io, url: impl std::fmt::Display) -> Options {
    Options {
        urls: vec![url.to_string()],
        threads: 1,
        connections: 2,
        duration: Duration::from_millis(500),
        h2: Some(8),
        io: driver(io),
        ..Options::default()
    }
}

fn at_rate(rate: f64) -> Vec<Rate> {
    vec![Rate { from: rate, to: rate }]
}

fn server(io: Io, change: impl FnOnce(&mut ServeOptions)) -> Server {
    let any = || vec!["127.0.0.1:0".parse().unwrap()];
    let mut options = ServeOptions { http: any(), https: any(), io: driver(io), ..ServeOptions::default() };
    options.sizes = vec![0, 1024, 100 << 10, 1 << 20];
    change(&mut options);
    Server::start(options).unwrap()
}

fn good(options: Options) -> Report {
    run(options, &mut ()).unwrap()
}

#[track_caller]
fn expect_no_error(figures: &Figures) {
    assert_eq!(figures.errors.sum(), 0, "{:?}", figures.errors);
    assert!(figures.requests > 0, "{figures:?}");
    assert!(figures.status.codes.keys().all(|&code| code == 200), "{:?}", figures.status);
}

both_drivers! {
    fn pages_of_all_sizes_plain_and_in_tls(io: Io) {
        let server = server(io, |_| {});
        for base in [format!("http://{}", server.http[0]), format!("https://{}", server.https[0])] {
            for (page, bytes) in [("/0", 0), ("/1k", 1 << 10), ("/100k", 100 << 10), ("/1m", 1 << 20)] {
                let report = good(options(io, format!("{base}{page}")));
                expect_no_error(&report.total);
                assert_eq!(report.settings.h2_streams, Some(8));
                let each = report.total.bytes.received as f64 / report.total.requests as f64;
                // Heads, and what was on its way at the end.
                assert!(each >= f64::from(bytes), "{base}{page}: {each} bytes an answer");
                assert_eq!(report.total.connections.closed_by_server, 0);
            }
        }
    }

    fn a_rate_is_kept_and_streams_are_used_together(io: Io) {
        // 40 ms each: one stream at a time would do 25 a second.
        let server = server(io, |options| options.delay = Duration::from_millis(40));
        let url = format!("http://{}/1k", server.http[0]);
        let open = |streams| Options {
            connections: 1,
            duration: Duration::from_secs(1),
            rates: at_rate(100.0),
            h2: Some(streams),
            ..options(io, &url)
        };
        let report = good(open(16));
        expect_no_error(&report.total);
        let total = &report.total;
        assert_eq!(total.requests + total.unfinished + total.unsent, 100);
        assert!(total.requests >= 90, "{total:?}");
        assert!(total.latency.at(50.0).unwrap() >= 40_000.0, "{:?}", total.latency);
        // What waits for a stream is measured from when it was due.
        let report = good(open(1));
        let total = &report.total;
        assert!((15..=26).contains(&total.requests), "{total:?}");
        assert_eq!(total.requests + total.unfinished + total.unsent, 100);
        assert!(total.latency.max_us > 300_000.0, "{:?}", total.latency);
        assert!(total.uncorrected.as_ref().unwrap().max_us < 300_000.0);
    }

    fn a_server_that_goes_is_followed(io: Io) {
        let server = server(io, |options| (options.close_rate, options.error_rate) = (0.02, 0.1));
        let report = good(options(io, format!("http://{}/1k", server.http[0])));
        let total = &report.total;
        assert_eq!(total.errors.sum(), 0, "{:?}", total.errors);
        assert!(total.connections.closed_by_server > 3 && total.requests > 100, "{total:?}");
        let busy = total.status.codes[&503] as f64 / total.requests as f64;
        assert!((0.05..0.15).contains(&busy), "{busy}");
    }

    fn bodies_larger_than_windows_are_sent(io: Io) {
        let server = server(io, |_| {});
        for url in [format!("http://{}/1k", server.http[0]), format!("https://{}/1k", server.https[0])] {
            let report = good(Options { body: Some(vec![b'b'; 500_000]), ..options(io, url) });
            expect_no_error(&report.total);
            assert_eq!(report.settings.method, "POST");
            assert!(report.total.bytes.sent >= report.total.requests * 500_000, "{:?}", report.total.bytes);
        }
    }

    fn a_connection_for_each_request(io: Io) {
        let server = server(io, |_| {});
        for url in [format!("http://{}/1k", server.http[0]), format!("https://{}/1k", server.https[0])] {
            let report = good(Options { work: Work::NewConnections, h2: Some(1), ..options(io, url) });
            expect_no_error(&report.total);
            let (requests, opened) = (report.total.requests, report.total.connections.opened);
            assert!(opened.abs_diff(requests) <= 4, "{requests} requests, {opened} connections");
        }
    }

    fn nghttpd_and_nginx_are_loaded(io: Io) {
        let certificate = Certificate::p256(&["localhost"]);
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("1k"), [b'x'; 1024]).unwrap();
        let port = Port::lease();
        let mut command = Command::new("nghttpd");
        command.args(["--no-tls", "--address=127.0.0.1", "-d"]).arg(dir.path()).arg(port.number().to_string());
        let _nghttpd = programs::server(command);
        eventually("nghttpd listens", || is_listening(port.number()).then_some(()));
        let report = good(options(io, format!("http://127.0.0.1:{}/1k", port.number())));
        expect_no_error(&report.total);
        // nginx says goodbye after a hundred requests.
        let nginx = Proxy::nginx(
            "worker_processes 1; events {} http { access_log off; keepalive_requests 100; server { \
             listen 127.0.0.1:{port} http2; listen 127.0.0.1:{port_tls} ssl http2; \
             ssl_certificate {dir}/site.crt; ssl_certificate_key {dir}/site.key; root {dir}/html; } }",
        )
        .by_rival()
        .file("html/1k", [b'x'; 1024])
        .certificate("site", &certificate)
        .start();
        for (scheme, port) in [("http", nginx.port().number()), ("https", nginx.port_of("port_tls").number())] {
            let report = good(options(io, format!("{scheme}://127.0.0.1:{port}/1k")));
            expect_no_error(&report.total);
            let closed = report.total.connections.closed_by_server;
            assert!(closed > 0 && closed <= report.total.requests / 90, "{:?}", report.total);
        }
    }

    fn curl_and_nghttp2_are_served(io: Io) {
        let server = server(io, |_| {});
        let (http, https) = (format!("http://{}", server.http[0]), format!("https://{}", server.https[0]));
        let told = "%{http_version} %{http_code} %{size_download} %{size_upload}";
        let ask = |words: &[&str]| curl(&[&["-k", "-o", "/dev/null", "-w", told], words].concat());
        let body = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(body.path(), vec![b'b'; 2 << 20]).unwrap();
        let post = format!("@{}", body.path().display());
        for (words, answer) in [
            (&["--http2-prior-knowledge", &format!("{http}/1k")][..], "2 200 1024 0"),
            (&["--http2", &format!("{https}/1m")], "2 200 1048576 0"),
            (&["--http1.1", &format!("{https}/1k")], "1.1 200 1024 0"),
            (&[&format!("{http}/1k")], "1.1 200 1024 0"),
            (&["--http2", "-I", &format!("{https}/1m")], "2 200 0 0"),
            (&["--http2", &format!("{https}/nothing")], "2 404 0 0"),
            (&["--http2-prior-knowledge", "--data-binary", &post, &format!("{http}/1k")], "2 200 1024 2097152"),
        ] {
            assert_eq!(ask(words), (0, answer.to_owned()), "{words:?}");
        }
        for url in [format!("{http}/1k"), format!("{https}/100k")] {
            let mut command = Command::new("h2load");
            command.args(["-n", "2000", "-c", "4", "-m", "20", &url]);
            let (code, text) = programs::run(command);
            assert!(code == 0 && text.contains("2000 succeeded, 0 failed, 0 errored"), "{text}");
        }
    }
}

#[test]
fn who_does_not_speak_it_is_told() {
    // A server of TLS that agrees on http/1.1 alone.
    let certificate = Certificate::p256(&["localhost"]);
    let nginx = Proxy::nginx(
        "worker_processes 1; events {} http { access_log off; server { \
         listen 127.0.0.1:{port} ssl; ssl_certificate {dir}/site.crt; ssl_certificate_key {dir}/site.key; return 204; } }",
    )
    .by_rival()
    .certificate("site", &certificate)
    .start();
    match run(options(Io::Auto, format!("https://127.0.0.1:{}/", nginx.port().number())), &mut ()) {
        Err(RunError::Connect(why)) => assert!(why.contains("does not agree on HTTP/2"), "{why}"),
        other => panic!("{other:?}"),
    }
    let usage = |change: fn(&mut Options)| {
        let mut options = options(Io::Auto, "http://127.0.0.1:1/");
        change(&mut options);
        match run(options, &mut ()) {
            Err(RunError::Usage(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    assert!(usage(|options| options.h2 = Some(0)).contains("streams"));
    assert!(usage(|options| options.work = Work::NewConnections).contains("--streams"));
    assert!(usage(|options| options.urls = vec!["tcp://127.0.0.1:1".into()]).contains("tcp://"));
}

/// Serves one connection: every tenth stream is refused, every tenth fails.
fn capricious(mut stream: std::net::TcpStream) -> std::io::Result<()> {
    use std::io::{Read, Write};
    let mut wire = Connection::new(Role::Server, h2::Config::default());
    let mut head = Fields::new();
    head.push(b":status", b"200");
    let (mut input, mut piece, mut n) = (Vec::new(), [0; 16 * 1024], 0);
    loop {
        stream.write_all(wire.output())?;
        wire.output().clear();
        let read = stream.read(&mut piece)?;
        if read == 0 {
            return Ok(());
        }
        input.extend_from_slice(&piece[..read]);
        loop {
            let received = wire.receive(&input, weir_rt::Instant::now()).map_err(std::io::Error::other)?;
            input.drain(..received.used);
            let Some(event) = received.event else { break };
            if let Event::Head { stream, .. } = event {
                n += 1;
                match n % 10 {
                    3 => wire.reset(stream, Reason::REFUSED_STREAM),
                    7 => wire.reset(stream, Reason::INTERNAL_ERROR),
                    _ => drop(wire.send_head(stream, &head, true)),
                }
            }
        }
    }
}

#[test]
fn refused_streams_are_sent_again_and_failed_ones_counted() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // How it ends is the generator's business.
            std::thread::spawn(move || drop(capricious(stream)));
        }
    });
    let rates = at_rate(400.0);
    let report = good(Options { rates, ..options(Io::Auto, format!("http://{address}/")) });
    let total = &report.total;
    assert_eq!(total.requests + total.errors.reset + total.unfinished + total.unsent, 200, "{total:?}");
    // One of nine that were not refused.
    assert!((15..=25).contains(&total.errors.reset), "{:?}", total.errors);
    assert_eq!(total.errors.sum(), total.errors.reset);
    assert_eq!(total.connections.closed_by_server, 0);
    let text = text::results(&report, text::Parts::default()).unwrap();
    assert!(text.contains(&format!("Streams reset by the server: {}", total.errors.reset)), "{text}");
}
