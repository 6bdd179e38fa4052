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

#[test]
fn words_that_exclude_one_another_are_refused_by_name() {
    let cases = [
        ("-n 5 --rates 1..3/1 http://127.0.0.1:1/", ["--requests", "--rates"]),
        ("-n 5 --warmup 1s http://127.0.0.1:1/", ["--requests", "--warmup"]),
        ("--unix-socket /x --connect-to ::a: http://127.0.0.1:1/", ["--unix-socket", "--connect-to"]),
        ("--handshakes --body x https://127.0.0.1:1/", ["--handshakes", "--body"]),
        ("--suite AES256-SHA http://127.0.0.1:1/", ["--suite", "https://"]),
        ("--cert a http://127.0.0.1:1/", ["--key", "--cert"]),
        ("--echo-size 5 --body x tcp://127.0.0.1:1", ["--echo-size", "--body"]),
        ("--echo-size 5 http://127.0.0.1:1/", ["--echo-size", "tcp://"]),
        ("--streams 5 http://127.0.0.1:1/", ["--streams", "--h2"]),
        ("--any-reply http://127.0.0.1:1/", ["--any-reply", "ws://"]),
        ("-U http://127.0.0.1:1/", ["--rate", "--rates"]),
        ("--label a=b http://127.0.0.1:1/", ["--label", "--prometheus"]),
        ("--grpc http://127.0.0.1:1/", ["--grpc", "/package.Service/Method"]),
        ("--grpc -X PUT http://127.0.0.1:1/a/b", ["--grpc", "--method"]),
        ("--connect-to a:b http://127.0.0.1:1/", ["--connect-to", "HOST1:PORT1:HOST2:PORT2"]),
        ("--targets /no/such/file", ["/no/such/file", "cannot read"]),
        ("-c1 -t1 ws://127.0.0.1:1/ http://127.0.0.1:1/", ["ws://", "http://"]),
    ];
    for (words, named) in cases {
        let (status, text, said) = load(words);
        assert_eq!((status, text.as_str()), (Some(2), ""), "{words}: {said}");
        assert!(named.iter().all(|name| said.contains(name)), "{words}: {said}");
    }
}

#[test]
fn so_many_requests_of_a_file() {
    let origin = Origin::named("a", "hello");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("body.json"), "{}").unwrap();
    let file = dir.path().join("requests.txt");
    let text = format!("http://{origin}/one\nPOST http://{origin}/two\nX-Own: 1\n@body.json\n");
    std::fs::write(&file, text).unwrap();
    let prom = dir.path().join("run.prom");
    let (status, text, said) = load(&format!(
        "-t1 -c2 -n 60 --prometheus {} --label stage=test --targets {}",
        prom.display(),
        file.display()
    ));
    assert_eq!(status, Some(0), "{said}");
    assert!(text.starts_with(&format!("Running 60 requests @ {}\n", file.display())), "{text}");
    assert!(text.contains("  60 requests in "), "{text}{said}");
    let all = origin.requests();
    let posts: Vec<_> = all.iter().filter(|r| r.line() == "POST /two").collect();
    assert_eq!((all.len(), posts.len()), (60, 30));
    assert!(posts.iter().all(|r| r.body == b"{}" && r.header("x-own") == Some("1")));
    let figures = std::fs::read_to_string(prom).unwrap();
    assert!(figures.contains("weir_load_requests_total{stage=\"test\"} 60\n"), "{figures}");
}

#[test]
fn where_there_is_no_terminal_lines_are_plain() {
    let origin = Origin::named("a", "hello");
    let url = format!("http://{origin}/");
    let (_, text, said) = load(&format!("-t1 -c2 -d2s -R100 --progress lines {url}"));
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("req/s")).collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with("1s/2s  ") && lines[1].contains("of 100.00 req/s  p50 "), "{said}");
    assert!(!said.contains('\x1b') && !text.contains("req/s"), "{said}");
    let (_, _, said) = load(&format!("-t1 -c2 -d1s -R100 {url}"));
    assert!(!said.contains("req/s"), "a line every ten seconds, not of a short run: {said}");
}

/// What stands on a terminal of so many columns at the end of each write, as a terminal shows it.
fn on_a_terminal(columns: u16, rows: u16, words: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("typescript");
    let inner = format!("stty cols {columns} rows {rows}; exec {} load {words}", weir_binary().display());
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &inner]).arg(&log);
    command.env("TERM", "xterm").env("LC_ALL", "C.UTF-8").stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    std::fs::read_to_string(log).unwrap()
}

#[test]
fn a_terminal_is_drawn_upon_and_no_line_wraps() {
    let origin = Origin::named("a", "hello");
    let words = format!("-t1 -c2 -d3s -R100 http://{origin}/");
    let shown = on_a_terminal(90, 24, &words);
    let drawn: Vec<&str> = shown.split("\x1b[J").filter(|part| part.contains("latency     p50")).collect();
    assert!(drawn.len() >= 2, "{shown:?}");
    for line in drawn.iter().flat_map(|view| view.split("\r\n")).filter(|line| !line.contains("Running")) {
        assert!(line.chars().count() < 90 || line.contains("Thread Stats"), "{line:?}");
    }
    assert!(drawn[1].contains("of 100.00 req/s") && drawn[1].contains("errors      0"), "{:?}", drawn[1]);
    // It goes back as many lines as it wrote, and takes all away before the figures.
    assert!(shown.contains("\x1b[6A\x1b[J") && shown.contains("\x1b[J  Thread Stats"), "{shown:?}");
    // One line where there is little room.
    let shown = on_a_terminal(40, 24, &words);
    let drawn: Vec<&str> = shown.split("\r\x1b[J").skip(1).collect();
    assert!(drawn.len() >= 2 && !shown.contains("\x1b[6A"), "{shown:?}");
    assert!(drawn[0].contains("req/s") && drawn[0].chars().count() < 40, "{drawn:?}");
}

#[test]
fn runs_have_pages_and_two_of_them_are_set_side_by_side() {
    let pages = pages();
    let url = format!("http://{}/1k", pages.http[0]);
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let mut reports = Vec::new();
    for (name, rate) in [("a", 100), ("b", 300)] {
        let (status, text, said) =
            load(&format!("-t1 -c2 -d2s -R{rate} --json --report {} {url}", file("run.html")));
        assert_eq!(status, Some(0), "{said}");
        let json = file(&format!("{name}.json"));
        std::fs::write(&json, &text).unwrap();
        assert_eq!(Report::from_json(&text).unwrap().timeline.len(), 2);
        reports.push(json);
    }
    let page = std::fs::read_to_string(file("run.html")).unwrap();
    for words in ["of 300 per second wanted were completed", "Rate over time", "Response times by percentile"]
    {
        assert!(page.contains(words), "{words}");
    }
    let (status, text, said) =
        load(&format!("--compare {} {} --report {}", reports[0], reports[1], file("both.html")));
    assert_eq!(status, Some(0), "{said}");
    let rate = text.lines().find(|line| line.starts_with("completed per second")).unwrap();
    let ratio: f64 = rate.rsplit(' ').next().unwrap().parse().unwrap();
    assert!((2.8..3.2).contains(&ratio), "{text}");
    assert!(text.contains("rates 100 and 300"), "what was asked for differs: {text}");
    assert!(std::fs::read_to_string(file("both.html")).unwrap().contains("They were not asked for the same"));
    let (status, _, said) = load(&format!("--compare {} {}", reports[0], file("none.json")));
    assert!(status == Some(1) && said.contains("none.json"), "{said}");
    let (status, _, said) = load(&format!("--compare {} {} {url}", reports[0], reports[1]));
    assert!(status == Some(2) && said.contains("--compare"), "{said}");
}
