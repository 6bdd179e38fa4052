//! Runs against scripted servers: what is measured, what is counted, what is never done.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::at_rate;
use weir_loadgen::report::{Figures, Model, Report, WarningCode, Work};
use weir_loadgen::serve::{ServeOptions, Server};
use weir_loadgen::{Options, Rate, RunError, run};
use weir_testkit::{Io, Origin, Port, both_drivers};

fn options(io: Io, url: impl std::fmt::Display) -> Options {
    common::options(io, url, Duration::from_secs(1))
}

fn good(options: Options) -> Report {
    run(options, &mut ()).unwrap()
}

fn expect_no_error(figures: &Figures) {
    assert_eq!(figures.errors.sum(), 0, "{:?}", figures.errors);
    assert!(figures.requests > 0, "{figures:?}");
    assert!(figures.status.codes.keys().all(|&code| code == 200), "{:?}", figures.status);
}

/// Servers of the generator's own, which do not mind when the end of a run cuts their connections.
fn server(sizes: &[u64]) -> Server {
    let any = || vec!["127.0.0.1:0".parse().unwrap()];
    let (http, https, echo) = (any(), any(), any());
    Server::start(ServeOptions { http, https, echo, sizes: sizes.to_vec(), ..ServeOptions::default() })
        .unwrap()
}

fn ms(us: Option<f64>) -> f64 {
    us.unwrap() / 1e3
}

const STALL: Duration = Duration::from_millis(600);

both_drivers! {
    fn a_stall_is_felt_by_all_that_were_due_in_it(io: Io) {
        // One connection at 500 a second; after 200 answers the server thinks for 600 ms.
        let origin = Origin::script(|mut c| {
            for _ in 0..200 {
                c = c.expect("GET /").respond(200, "x");
            }
            c.expect("GET /").pause(STALL).respond(200, "x").keep_answering(200, &[], "x")
        });
        let report = good(Options {
            connections: 1,
            duration: Duration::from_millis(1500),
            rates: at_rate(500.0),
            ..options(io, format!("http://{origin}/"))
        });
        assert_eq!(report.settings.model, Model::Open);
        expect_no_error(&report.total);
        let (corrected, sent) = (&report.total.latency, report.total.uncorrected.as_ref().unwrap());
        // 300 of 750 were due in the stall, and waited for 300 ms on average.
        assert!(ms(corrected.at(75.0)) > 100.0, "{corrected:?}");
        assert!(ms(corrected.at(90.0)) > 300.0, "{corrected:?}");
        assert!(corrected.max_us >= STALL.as_micros() as f64 * 0.99, "{corrected:?}");
        // One request was under way in it: who only looks at what was sent sees one slow answer of 750.
        assert!(ms(sent.at(99.0)) < 100.0, "{sent:?}");
        assert!(sent.max_us >= STALL.as_micros() as f64 * 0.99, "{sent:?}");
        assert!((740..=750).contains(&report.total.requests), "{}", report.total.requests);
    }

    fn a_rate_is_kept_to_the_request(io: Io) {
        let origin = Origin::named("a", "hello");
        let report = good(Options { threads: 2, rates: at_rate(400.0), ..options(io, format!("http://{origin}/")) });
        expect_no_error(&report.total);
        assert!((396..=400).contains(&report.total.requests), "{}", report.total.requests);
        assert_eq!(report.total.rate_wanted, Some(400.0));
        assert_eq!(origin.connections(), 4);
    }

    fn without_a_rate_it_goes_as_fast_as_answers_come(io: Io) {
        let origin = Origin::named("a", "hello");
        let report = good(options(io, format!("http://{origin}/")));
        expect_no_error(&report.total);
        assert_eq!((report.settings.model, report.total.rate_wanted), (Model::Closed, None));
        assert!(report.total.uncorrected.is_none());
        let answered = report.total.requests as usize;
        // What the server read is what was counted, but for what was under way at the end.
        assert!(origin.requests().len() - answered <= 4 + report.total.unfinished as usize);
        assert!(report.generator.cpu_s > 0.0 && report.generator.cpu_us_per_request > 0.0);
    }

    fn warm_ups_are_left_out_and_steps_are_told_apart(io: Io) {
        let origin = Origin::named("a", "hello");
        let report = good(Options {
            rates: [100.0, 300.0].map(|rate| Rate { from: rate, to: rate }).to_vec(),
            duration: Duration::from_millis(500),
            warmup: Duration::from_millis(300),
            ..options(io, format!("http://{origin}/"))
        });
        let counts: Vec<u64> = report.steps.iter().map(|step| step.requests).collect();
        assert!((49..=50).contains(&counts[0]) && (148..=150).contains(&counts[1]), "{counts:?}");
        assert_eq!(report.total.requests, counts[0] + counts[1]);
        assert!(origin.requests().len() >= 200 + 30 + 90 - 4, "the warm-ups were loaded too");
    }

    fn statuses_and_cut_answers_are_counted_apart(io: Io) {
        let bad = Origin::script(|c| c.keep_answering(503, &[], "busy"));
        let report = good(options(io, format!("http://{bad}/")));
        assert_eq!(report.total.status.failed(), report.total.requests);
        assert_eq!((report.total.errors.sum(), report.total.goodput), (0, 0.0));
        let cut = Origin::script(|c| c.expect("GET /").send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut").close());
        let report = good(options(io, format!("http://{cut}/")));
        assert_eq!(report.total.requests, 0);
        assert!(report.total.errors.read > 0);
        assert!(report.warnings.iter().any(|warning| warning.code == WarningCode::NothingMeasured));
        let nonsense = Origin::script(|c| c.expect("GET /").send("SSH-2.0-server\r\n").until_closed());
        assert!(good(options(io, format!("http://{nonsense}/"))).total.errors.malformed > 0);
    }

    fn a_close_after_an_answer_is_no_error(io: Io) {
        // Announced.
        let polite = Origin::script(|c| {
            c.expect("GET /").respond(200, "1").expect("GET /").respond_with(200, &[("Connection", "close")], "2").close()
        });
        let report = good(options(io, format!("http://{polite}/")));
        expect_no_error(&report.total);
        assert!(report.total.connections.closed_by_server > 10, "{:?}", report.total.connections);
        // Not announced: the next request finds the connection closed, and is sent on a new one.
        let sudden = Origin::script(|c| c.expect("GET /").respond(200, "1").close());
        let report = good(options(io, format!("http://{sudden}/")));
        expect_no_error(&report.total);
        assert!(report.total.connections.opened > 10, "{:?}", report.total.connections);
    }

    fn who_is_always_hung_up_on_does_not_spin(io: Io) {
        let accepted = Arc::new(AtomicUsize::new(0));
        let address = hang_up_on_all(&accepted);
        let report = good(Options { duration: Duration::from_secs(2), ..options(io, format!("http://{address}/")) });
        assert_eq!(report.total.requests, 0);
        let tries = accepted.load(Ordering::Relaxed);
        // 10 ms, doubled up to a second: eight tries a connection in two seconds, not thousands.
        assert!((8..=60).contains(&tries), "{tries} connections were opened");
        assert!(report.generator.cpu_s < 0.5, "{:?}", report.generator);
        assert!(report.total.errors.sum() > 0);
    }

    fn bodies_of_all_framings_and_sizes_are_read_to_their_end(io: Io) {
        const BIG: u64 = 3 << 20;
        let server = server(&[BIG]);
        let report = good(options(io, format!("http://{}/", server.http[0])));
        expect_no_error(&report.total);
        let total = &report.total;
        assert!(total.bytes.received >= total.requests * BIG);
        assert!(total.gbit_s > 0.0);
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
        let chunks = answering(&[chunked, chunked, "HTTP/1.1 200 OK\r\n\r\nto the end"]);
        let report = good(options(io, format!("http://{chunks}/")));
        expect_no_error(&report.total);
        assert!(report.total.requests >= 3);
    }

    fn requests_are_what_was_asked_for(io: Io) {
        let origin = Origin::named("a", "");
        good(Options {
            headers: vec![("X-Test".into(), "yes".into())],
            method: Some("PUT".into()),
            body: Some(b"the body".to_vec()),
            rates: at_rate(50.0),
            ..options(io, format!("http://{origin}/where?and=what"))
        });
        let all = origin.requests();
        assert!(all.iter().all(|r| r.line() == "PUT /where?and=what"), "{}", all[0].line());
        assert_eq!(all[0].header("x-test"), Some("yes"));
        assert_eq!(all[0].header("host"), Some(origin.to_string().as_str()));
        assert_eq!(all[0].header("content-length"), Some("8"));
        assert_eq!(all[0].body, b"the body");
    }

    fn urls_come_by_their_weights(io: Io) {
        let (one, two) = (Origin::named("1", ""), Origin::named("2", ""));
        let urls = vec![format!("3@http://{one}/a"), format!("http://{one}/b"), format!("4@http://{two}/c")];
        good(Options { urls, rates: at_rate(400.0), connections: 8, ..options(io, "") });
        let count = |origin: &Origin, path: &str| {
            origin.requests().iter().filter(|r| r.line() == format!("GET {path}")).count()
        };
        let near = |n: usize, wanted: usize| n.abs_diff(wanted) <= 8;
        let counts = [count(&one, "/a"), count(&one, "/b"), count(&two, "/c")];
        assert!(near(counts[0], 150) && near(counts[1], 50) && near(counts[2], 200), "{counts:?}");
    }

    fn a_connection_a_request(io: Io) {
        let origin = Origin::script(|c| c.expect("GET /").respond_with(200, &[("Connection", "close")], "x").close());
        let report = good(Options { work: Work::NewConnections, ..options(io, format!("http://{origin}/")) });
        expect_no_error(&report.total);
        assert_eq!(origin.requests()[0].header("connection"), Some("close"));
        let total = &report.total;
        assert!(total.connections.opened.abs_diff(total.requests) <= 4, "{:?}", total.connections);
        assert!(total.connect.as_ref().unwrap().count > 0);
    }

    fn handshakes_are_full_unless_asked_otherwise(io: Io) {
        let server = server(&[0]);
        let base = Options { work: Work::Handshakes, ..options(io, format!("https://{}/", server.https[0])) };
        let report = good(Options { suites: Some("ECDHE-ECDSA-AES256-GCM-SHA384".into()), curves: Some("P-256".into()), ..base.clone() });
        let connections = report.total.connections;
        assert!(connections.full_handshakes >= report.total.requests && report.total.requests > 0);
        assert_eq!((connections.resumed_handshakes, report.total.errors.sum()), (0, 0), "{:?}", report.total.errors);
        let tls = report.settings.tls.unwrap();
        assert_eq!(tls.suite.as_deref(), Some("ECDHE-ECDSA-AES256-GCM-SHA384"));
        assert_eq!((tls.version.as_deref(), tls.group.as_deref()), (Some("TLSv1.2"), Some("secp256r1")));
        let report = good(Options { resume: true, ..base });
        assert!(report.total.connections.resumed_handshakes > 0, "{:?}", report.total.connections);
    }

    fn requests_over_tls(io: Io) {
        let server = server(&[100_000]);
        let report = good(options(io, format!("https://{}/", server.https[0])));
        expect_no_error(&report.total);
        assert!(report.total.bytes.received > report.total.requests * 100_000);
    }

    fn echoes_of_any_size_come_back(io: Io) {
        let server = server(&[]);
        let url = format!("tcp://{}", server.echo[0]);
        let report = good(Options { echo_bytes: 4 << 20, connections: 2, ..options(io, &url) });
        assert_eq!((report.settings.work, report.total.errors.sum()), (Work::Echo, 0));
        assert!(report.total.requests > 0);
        let report = good(Options { rates: at_rate(200.0), ..options(io, &url) });
        assert!((198..=200).contains(&report.total.requests), "{}", report.total.requests);
    }

    fn what_is_unfinished_is_said(io: Io) {
        let origin = Origin::script(|c| c.expect("GET /").until_closed());
        let report = good(Options { rates: at_rate(100.0), timeout: Duration::from_millis(300), ..options(io, format!("http://{origin}/")) });
        assert_eq!((report.total.requests, report.total.unfinished, report.total.unsent), (0, 4, 96));
        assert!(ms(Some(report.total.oldest_unfinished_us)) > 900.0);
        assert_eq!(report.total.errors.timeout, 4);
        assert!(report.warnings.iter().any(|warning| warning.code == WarningCode::Unfinished));
    }
}

/// Answers the requests of each connection with `answers` in turn, then closes it.
fn answering(answers: &[&'static str]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answers = answers.to_vec();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answers = answers.clone();
            std::thread::spawn(move || {
                for answer in answers {
                    let mut request = Vec::new();
                    while !request.ends_with(b"\r\n\r\n") {
                        let mut piece = [0; 1024];
                        match stream.read(&mut piece) {
                            Ok(n) if n > 0 => request.extend_from_slice(&piece[..n]),
                            _ => return,
                        }
                    }
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Accepts, reads a little and closes, for ever.
fn hang_up_on_all(accepted: &Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = accepted.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            accepted.fetch_add(1, Ordering::Relaxed);
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.flush();
        }
    });
    address
}

#[test]
fn nobody_there_is_an_error_that_names_the_address() {
    let port = Port::lease();
    let gone = format!("127.0.0.1:{port}");
    match run(options(Io::Epoll, format!("http://{gone}/")), &mut ()) {
        Err(RunError::Connect(why)) => assert!(why.contains(&gone), "{why}"),
        other => panic!("{other:?}"),
    }
}

/// Connections come from the given addresses in turn.
#[test]
fn sources_are_used_in_turn() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let peers = std::thread::spawn(move || {
        let mut peers = Vec::new();
        for stream in listener.incoming().take(6) {
            let mut stream = stream.unwrap();
            peers.push(stream.peer_addr().unwrap().ip().to_string());
            std::thread::spawn(move || {
                let mut request = [0; 1024];
                while matches!(stream.read(&mut request), Ok(n) if n > 0) {
                    if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                        return;
                    }
                }
            });
        }
        peers.sort();
        peers
    });
    let report = good(Options {
        connections: 6,
        duration: Duration::from_millis(500),
        rates: at_rate(200.0),
        sources: ["127.0.0.2", "127.0.0.3", "127.0.0.4"].map(|ip| ip.parse().unwrap()).into(),
        ..options(Io::Auto, format!("http://{address}/"))
    });
    expect_no_error(&report.total);
    // The last of them may still be under way on a busy machine.
    let total = &report.total;
    assert_eq!(total.requests + total.unfinished + total.unsent, 100);
    assert_eq!(
        peers.join().unwrap(),
        ["127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3", "127.0.0.4", "127.0.0.4"]
    );
    assert_eq!(report.settings.sources, ["127.0.0.2", "127.0.0.3", "127.0.0.4"]);
    // An address of no machine here: nobody is reached, and why is told.
    let elsewhere = run(
        Options {
            sources: vec!["192.0.2.1".parse().unwrap()],
            ..options(Io::Auto, format!("http://{address}/"))
        },
        &mut (),
    );
    assert!(matches!(elsewhere, Err(RunError::Connect(_))), "{elsewhere:?}");
}
