//! How runs of `weir load` end: exit statuses, conditions, Ctrl-C, and what is said of errors.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use weir_loadgen::agent::{AgentOptions, Agents};
use weir_loadgen::report::{Causes, Report, WarningCode};
use weir_loadgen::serve::{ServeOptions, Server};
use weir_testkit::deadline::Deadline;
use weir_testkit::{Origin, Process, proxy::weir_binary};

fn command(words: &str) -> Command {
    let mut command = Command::new(weir_binary());
    command.arg("load").args(words.split(' ').filter(|word| !word.is_empty()));
    command
}

/// Runs until `begun` returns, then until Ctrl-C has ended it; its report.
fn stopped(dir: &Path, words: &str, token: &str, begun: impl FnOnce()) -> Report {
    let report = dir.join("report.json");
    // Both outputs of a process are one text for the tests; a report is not to have warnings between its lines.
    let mut command = Command::new("sh");
    command.args(["-c", "weir=$1; to=$2; shift 2; exec \"$weir\" load --json \"$@\" > \"$to\"", "sh"]);
    command.arg(weir_binary()).arg(&report).args(words.split(' ')).env("WEIR_LOAD_TOKEN", token);
    let mut run = Process::spawn(command).unwrap();
    begun();
    run.signal(Signal::INT);
    let status = run.wait(Deadline::after(Duration::from_secs(20))).expect("it ends");
    assert_eq!(status.code(), Some(130), "{}", run.printed());
    Report::from_json(&std::fs::read_to_string(report).unwrap()).unwrap()
}

/// Exit status, standard output, standard error.
fn load(words: &str) -> (Option<i32>, String, String) {
    let output = command(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn pages() -> Server {
    let any = || vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    Server::start(ServeOptions { http: any(), https: any(), ..ServeOptions::default() }).unwrap()
}

/// Gives each connection to `answer`, with its number from 0, one after the other; `after` so many it listens no more.
fn server(after: usize, answer: impl Fn(usize, TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().take(after).flatten().enumerate() {
            answer(n, stream);
        }
    });
    address
}

fn read_head(stream: &mut TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
}

#[test]
fn the_exit_status_says_whether_enough_succeeded() {
    let pages = pages();
    let url = format!("http://{}", pages.http[0]);
    let short = "-t1 -c2 -d200ms";
    assert_eq!(load(&format!("{short} {url}/1k")).0, Some(0));
    let (status, text, said) = load(&format!("{short} {url}/missing"));
    assert_eq!(status, Some(3));
    assert!(
        text.contains("Status codes: 404 ") && said.contains("0% of requests succeeded; --success wants 99%"),
        "{said}"
    );
    let (status, _, said) = load(&format!("{short} 9@{url}/1k {url}/missing"));
    assert!(status == Some(3) && said.contains("% of requests succeeded"), "{status:?} {said}");
    assert_eq!(load(&format!("{short} --success 80% 9@{url}/1k {url}/missing")).0, Some(0));
    assert_eq!(load(&format!("{short} --success 0 {url}/missing")).0, Some(0));
    let (status, _, said) = load(&format!("{short} --success 101% {url}/1k"));
    assert!(status == Some(2) && said.contains("more than all"), "{said}");
    // Nobody there: no figures, and not a word on the output that programs read.
    let (status, text, _) = load("-d200ms --json http://127.0.0.1:1/");
    assert_eq!((status, text.as_str()), (Some(1), ""));
    let (_, text, said) = load(&format!("{short} {}/", pages.http[0]));
    assert!(
        text.is_empty() && said.contains("http://, https:// or tcp://"),
        "checks come before the first line: {text}"
    );
}

#[test]
fn conditions_fail_a_run() {
    let pages = pages();
    let url = format!("http://{}/1k", pages.http[0]);
    let run = |conditions: &str| load(&format!("-t1 -c2 -d500ms -R100 {conditions} {url}"));
    assert_eq!(run("--fail-if p50>10s --fail-if errors>0.1% --fail-if rate<1").0, Some(0));
    let (status, text, said) = run("--fail-if p50>1us --fail-if rate<1 --fail-if goodput<100k");
    assert_eq!(status, Some(4));
    assert!(text.contains("Requests/sec:"), "the figures are printed all the same");
    assert!(
        said.contains("failed if p50>1us: it was ") && said.contains("failed if goodput<100k: it was "),
        "{said}"
    );
    assert!(!said.contains("rate<1"), "{said}");
    let (status, _, said) = run("--fail-if speed>1");
    assert!(status == Some(2) && said.contains("`speed` is no figure of a run"), "{said}");
}

#[test]
fn ctrl_c_prints_what_was_measured() {
    let origin = Origin::named("a", "hello");
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("run.hlog");
    let words = format!("-t2 -c4 -d60s --rates 400,500 --hdr {} http://{origin}/", log.display());
    let report = stopped(dir.path(), &words, "", || _ = origin.wait_for_requests(100));
    assert!(
        report.interrupted && report.steps.len() == 1,
        "the second step had not begun: {}",
        report.steps.len()
    );
    assert!(report.warnings.iter().any(|warning| warning.code == WarningCode::Interrupted));
    let total = &report.total;
    assert!(total.requests >= 90 && total.elapsed_s < 30.0, "{total:?}");
    assert_eq!(total.latency.count, total.requests);
    // The rate is that of the time that it ran, and what was due later is no burden.
    assert!((total.rate_wanted.unwrap() - 400.0).abs() < 1e-6);
    assert!(total.unsent + total.requests <= (400.0 * total.elapsed_s) as u64 + 4, "{total:?}");
    let log = std::fs::read_to_string(log).unwrap();
    let lines =
        log.lines().filter(|line| line.split(',').nth(1).is_some_and(|length| length.parse::<f64>().is_ok()));
    assert!(lines.count() > 0, "{log}");
}

#[test]
fn a_stalled_server_is_seen_after_ctrl_c() {
    let (told, heard) = std::sync::mpsc::channel();
    let kept = std::sync::Mutex::new(Vec::new());
    let addr = server(usize::MAX, move |_, mut stream| {
        read_head(&mut stream);
        kept.lock().unwrap().push(stream);
        let _ = told.send(());
    });
    let mut run = Process::spawn(command(&format!("-t1 -c1 -d60s --timeout 1ms http://{addr}/"))).unwrap();
    heard.recv_timeout(Duration::from_secs(20)).unwrap();
    run.signal(Signal::TERM);
    let status = run.wait(Deadline::after(Duration::from_secs(20))).expect("it ends");
    assert_eq!(status.code(), Some(130));
    let text = run.printed();
    assert!(text.contains("Running 1m test") && text.contains("timeout 1\n"), "{text}");
    assert!(text.contains("Causes of errors: timed out 1\n"), "{text}");
}

#[test]
fn ctrl_c_stops_agents_too_and_keeps_their_figures() {
    const TOKEN: &str = "a token of the test";
    let origin = Origin::named("a", "hello");
    let agent = || {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let agents = Agents::bind(AgentOptions { listen, token: TOKEN.into(), scripts: false }).unwrap();
        let address = agents.address().unwrap();
        std::thread::spawn(move || agents.serve(|_| {}));
        address
    };
    let dir = tempfile::tempdir().unwrap();
    let words = format!("-c4 -d60s -R200 --agents {},{} http://{origin}/", agent(), agent());
    let report = stopped(dir.path(), &words, TOKEN, || _ = origin.wait_for_requests(50));
    assert!(report.interrupted && report.total.requests >= 40, "{:?}", report.total);
    assert!(report.agents.iter().all(|agent| agent.report.as_ref().is_some_and(|its| its.interrupted)));
}

/// The causes of a second of load.
fn causes(words: &str) -> Causes {
    let (status, text, said) = load(&format!("-t1 -d500ms --json {words}"));
    assert_eq!(status, Some(3), "{said}");
    Report::from_json(&text).unwrap().total.errors.causes
}

#[test]
fn errors_have_causes() {
    let plain = |answer: &'static [u8]| {
        move |_, mut stream: TcpStream| {
            read_head(&mut stream);
            let _ = stream.write_all(answer);
        }
    };
    let cases: [(&str, SocketAddr); 5] = [
        ("refused", server(1, plain(b"HTTP/1.0 503 No\r\n\r\n"))),
        ("closed early", server(usize::MAX, plain(b""))),
        ("not HTTP", server(usize::MAX, plain(b"SSH-2.0-x\r\n"))),
        ("truncated", server(usize::MAX, plain(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"))),
        (
            "reset",
            server(usize::MAX, |_, mut stream| {
                read_head(&mut stream);
                rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
            }),
        ),
    ];
    for (cause, addr) in cases {
        let found = causes(&format!("-c1 http://{addr}/"));
        for (name, count) in found.named() {
            assert_eq!(count > 0, name == cause, "{cause}: {found:?}");
        }
    }
    // A name for each, in the text too.
    let (_, text, _) = load(&format!("-t1 -c1 -d300ms http://{}/", server(usize::MAX, plain(b""))));
    assert!(text.contains("Causes of errors: closed early "), "{text}");
}

#[test]
fn an_alert_is_no_lost_connection() {
    let pages = pages();
    let real = pages.https[0];
    // The first connection shows that somebody is there; later ones are refused in the handshake.
    let addr = server(usize::MAX, move |n, mut stream| {
        if n > 0 {
            let mut hello = [0; 512];
            let _ = stream.read(&mut hello);
            let _ = stream.write_all(&[21, 3, 3, 0, 2, 2, 40]);
            let _ = stream.shutdown(Shutdown::Write);
            // Bytes that were not read would make a reset of the end.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
            return;
        }
        let mut there = TcpStream::connect(real).unwrap();
        let (mut from, mut to) = (stream.try_clone().unwrap(), there.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        std::thread::spawn(move || std::io::copy(&mut there, &mut stream));
    });
    let found = causes(&format!("-c1 --handshakes https://{addr}/"));
    assert!(found.tls_alert > 0, "{found:?}");
    assert_eq!(found.named().iter().map(|(_, count)| count).sum::<u64>(), found.tls_alert, "{found:?}");
}
