//! Other instruments on the same servers say the same, within the noise of a machine that runs other tests meanwhile.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;
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

/// Loosely: tests beside this one take CPU from either.
#[track_caller]
fn expect_alike(ours: f64, theirs: f64, factor: f64) {
    assert!(theirs > 0.0 && (1.0 / factor..factor).contains(&(ours / theirs)), "{ours} here, {theirs} there");
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
    let server = server();
    for url in [format!("http://{}/1k", server.http[0]), format!("https://{}/10k", server.https[0])] {
        let theirs = programs::wrk(&["-t1", "-c20", "-d1s", &url]);
        assert_eq!(theirs.errors(), 0, "{}", theirs.text);
        expect_alike(figures(&url, |_| {}).rate, theirs.rate(), 4.0);
    }
}

#[test]
fn h2load() {
    let server = server();
    for url in [format!("http://{}/1k", server.http[0]), format!("https://{}/10k", server.https[0])] {
        let mut command = Command::new("h2load");
        command.args(["-t1", "-c20", "-m10", "-D1", &url]);
        let (code, text) = programs::run(command);
        assert!(code == 0 && text.contains(" 0 failed"), "{text}");
        let ours = figures(&url, |options| options.h2 = Some(10));
        expect_alike(ours.rate, before(&text, " req/s"), 4.0);
        // "traffic: 20.05MB (21020296) total": the same answers are as long to either.
        let bytes = before(text.split_once("traffic:").unwrap().1, ") total") / before(&text, " 2xx");
        expect_alike(ours.bytes.received as f64 / ours.requests as f64, bytes, 1.25);
    }
}

#[test]
fn openssl_s_time() {
    let server = server();
    let address = server.https[0].to_string();
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
    expect_alike(ours.rate, theirs, 5.0);
}
