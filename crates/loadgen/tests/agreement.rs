//! Other instruments on the same servers say the same, within the noise of a machine that runs other tests meanwhile.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use weir_loadgen::report::{Figures, Work};
use weir_loadgen::serve::{ServeOptions, Server};
use weir_loadgen::{Options, run};
use weir_testkit::programs;

fn server() -> Server {
    let any = || vec!["127.0.0.1:0".parse().unwrap()];
    Server::start(ServeOptions { http: any(), https: any(), ..ServeOptions::default() }).unwrap()
}

/// What a second at full speed gives on twenty connections.
fn figures(url: &str, change: impl FnOnce(&mut Options)) -> Figures {
    let mut options = Options {
        urls: vec![url.to_owned()],
        threads: 1,
        connections: 20,
        duration: Duration::from_secs(1),
        ..Options::default()
    };
    change(&mut options);
    let figures = run(options, &mut ()).unwrap().total;
    assert_eq!(figures.errors.sum(), 0, "{:?}", figures.errors);
    figures
}

/// The instruments take turns here: beside one another they would measure one another.
static TURN: Mutex<()> = Mutex::new(());

/// Whether two figures are alike, loosely: tests of other programs take CPU from either.
fn are_alike(ours: f64, theirs: f64, factor: f64) -> bool {
    theirs > 0.0 && (1.0 / factor..factor).contains(&(ours / theirs))
}

/// Measures with both until they are alike: what disturbs one of them passes, what one of them has wrong stays.
#[track_caller]
fn expect_alike(factor: f64, mut both: impl FnMut() -> (f64, f64)) {
    let mut seen = Vec::new();
    while seen.len() < 6 {
        let (ours, theirs) = both();
        seen.push((ours, theirs));
        if are_alike(ours, theirs, factor) {
            return;
        }
    }
    panic!("never within a factor of {factor}, here and there: {seen:?}");
}

/// The number that stands before `word`.
#[track_caller]
fn before(text: &str, word: &str) -> f64 {
    let (rest, _) = text.split_once(word).unwrap_or_else(|| panic!("no `{word}` in\n{text}"));
    let number = rest.trim_end().rsplit(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap();
    number.parse().unwrap_or_else(|_| panic!("no number before `{word}` in\n{text}"))
}

#[test]
fn wrk() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = server();
    for url in [format!("http://{}/1k", server.http[0]), format!("https://{}/10k", server.https[0])] {
        expect_alike(4.0, || {
            let theirs = programs::wrk(&["-t1", "-c20", "-d1s", &url]);
            assert_eq!(theirs.errors(), 0, "{}", theirs.text);
            (figures(&url, |_| {}).rate, theirs.rate())
        });
    }
}

#[test]
fn h2load() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = server();
    for url in [format!("http://{}/1k", server.http[0]), format!("https://{}/10k", server.https[0])] {
        expect_alike(4.0, || {
            let mut command = Command::new("h2load");
            command.args(["-t1", "-c20", "-m10", "-D1", &url]);
            let (code, text) = programs::run(command);
            assert!(code == 0 && text.contains(" 0 failed"), "{text}");
            let ours = figures(&url, |options| options.h2 = Some(10));
            // "traffic: 20.05MB (21020296) total": the same answers are as long to either.
            let theirs = before(text.split_once("traffic:").unwrap().1, ") total") / before(&text, " 2xx");
            let bytes = ours.bytes.received as f64 / ours.requests as f64;
            assert!(are_alike(bytes, theirs, 1.25), "{bytes} bytes an answer here, {theirs} there");
            (ours.rate, before(&text, " req/s"))
        });
    }
}

#[test]
fn openssl_s_time() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = server();
    let address = server.https[0].to_string();
    expect_alike(5.0, || {
        let mut command = Command::new("openssl");
        command.args(["s_time", "-connect", &address, "-new", "-time", "1"]);
        let (code, text) = programs::run(command);
        assert_eq!(code, 0, "{text}");
        // "4096 connections in 2 real seconds, 0 bytes read per connection"
        let line = text.lines().find(|line| line.contains("real seconds")).unwrap();
        let theirs = before(line, " connections in") / before(line, " real seconds");
        let ours = figures(&format!("https://{address}/"), |options| {
            (options.work, options.connections) = (Work::Handshakes, 1);
        });
        assert_eq!(ours.connections.resumed_handshakes, 0);
        (ours.rate, theirs)
    });
}
