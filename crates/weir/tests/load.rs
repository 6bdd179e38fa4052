//! `weir load` as its users call it: wrk2's words, text that scripts read, files, helpers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::{Command, Output};

use regex::Regex;
use weir_loadgen::report::{Model, Report, Work};
use weir_testkit::programs::{WrkReport, wrk};
use weir_testkit::{Process, proxy::weir_binary};

/// `weir load serve` on free ports.
struct Pages {
    process: Process,
}

impl Pages {
    fn start() -> Self {
        let mut command = Command::new(weir_binary());
        command.args("load serve --http 127.0.0.1:0 --https 127.0.0.1:0 --echo 127.0.0.1:0".split(' '));
        let process = Process::spawn(command).unwrap();
        process.wait_for_output("serving tcp://");
        Self { process }
    }

    fn url(&self, scheme: &str) -> String {
        let printed = self.process.printed();
        let start = format!("serving {scheme}://");
        let line = printed.lines().find(|line| line.starts_with(&start)).unwrap();
        line.trim_start_matches("serving ").to_owned()
    }
}

fn load(words: &str) -> Output {
    let mut command = Command::new(weir_binary());
    command.arg("load").args(words.split(' ').filter(|word| !word.is_empty()));
    command.output().unwrap()
}

#[track_caller]
fn text(words: &str) -> String {
    let output = load(words);
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn numbers(text: &str, pattern: &str) -> Vec<f64> {
    let found = Regex::new(pattern).unwrap().captures(text);
    let found = found.unwrap_or_else(|| panic!("{pattern} is not in\n{text}"));
    found.iter().skip(1).flatten().filter_map(|group| group.as_str().parse().ok()).collect()
}

#[test]
fn a_published_command_line_and_the_patterns_of_published_plotters() {
    let pages = Pages::start();
    let url = pages.url("https");
    let text = text(&format!("-t1 -c50 -d1s -R500 --latency -U --timeout 2s {url}/1k.bin"));
    assert!(text.starts_with(&format!("Running 1s test @ {url}/1k.bin\n  1 threads and 50 connections\n")));
    let done = numbers(&text, r"(\d+) requests in +(\d+\.\d+)s, +\d+\.\d+[KMG]?B read");
    // On a busy machine the last answers come after the end.
    assert!((450.0..=500.0).contains(&done[0]) && done[1] == 1.0, "{done:?}");
    assert_eq!(numbers(&text, r"Requests/sec: +(\d+\.\d+)"), done[..1]);
    assert_eq!(numbers(&text, r"Transfer/sec: +(\d+\.\d+)[KMG]?B").len(), 1);
    assert_eq!(numbers(&text, r"Latency +(\d+\.\d+)\w+ +(\d+\.\d+)\w+ +(\d+\.\d+)\w+ +(\d+\.\d+)%").len(), 4);
    assert_eq!(numbers(&text, r"Req/Sec +(\d+\.\d+)\w* +(\d+\.\d+)\w* +(\d+\.\d+)\w* +(\d+\.\d+)%").len(), 4);
    for percentile in ["50.000", "75.000", "90.000", "99.000", "99.900", "99.990", "99.999", "100.000"] {
        numbers(&text, &format!(r"(?m)^ *{percentile}% +(\d+\.\d+)(?:us|ms|s|m|h) *$"));
    }
    numbers(&text, r"#\[Mean +=\s+(\d+\.\d+), StdDeviation +=\s+(\d+\.\d+)\]");
    assert_eq!(numbers(&text, r"#\[Max +=\s+\d+\.\d+, Total count +=\s+(\d+)\]"), done[..1]);
    // The spectrum: four columns, rising, up to 1.000000 and `inf`.
    let line = Regex::new(r"(?m)^ +(\d+\.\d{3}) +([01]\.\d{6}) +(\d+) +(\d+\.\d\d|inf)$").unwrap();
    let (recorded, uncorrected) = text.split_once("HdrHistogram - Uncorrected Latency").unwrap();
    for part in [recorded, uncorrected] {
        let rows: Vec<(f64, f64, u64)> = line
            .captures_iter(part)
            .map(|row| (row[1].parse().unwrap(), row[2].parse().unwrap(), row[3].parse().unwrap()))
            .collect();
        assert!(rows.len() > 10, "{part}");
        assert!(rows.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1 && a.2 <= b.2), "{rows:?}");
        assert_eq!(rows.last().map(|row| (row.1, row.2)), Some((1.0, done[0] as u64)));
    }
}

#[test]
fn figures_are_those_of_wrk_on_the_same_server() {
    let pages = Pages::start();
    let url = format!("{}/1k", pages.url("http"));
    let theirs = wrk(&["-t1", "-c20", "-d1s", "--latency", &url]);
    let text = text(&format!("-t1 -c20 -d1s {url}"));
    let ours = WrkReport::parse(&text).unwrap();
    assert_eq!((ours.errors(), theirs.errors()), (0, 0));
    // Loosely: tests beside this one take CPU from either.
    let ratio = ours.rate() / theirs.rate();
    assert!((0.25..4.0).contains(&ratio), "{} and {} requests a second", ours.rate(), theirs.rate());
    let bytes = numbers(&text, r"(\d+\.\d+)MB read")[0] * 1_048_576.0 / ours.requests as f64;
    assert!((1024.0..1400.0).contains(&bytes), "{bytes} bytes an answer");
}

#[test]
fn programs_get_json_and_a_log_and_no_noise() {
    let pages = Pages::start();
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("run.hlog");
    let words = format!(
        "-c4 -d2s --rates 100,200 --warmup 300ms --json --hdr {} {}/1k",
        log.display(),
        pages.url("http")
    );
    let output = load(&words);
    assert!(output.status.success());
    assert!(!String::from_utf8_lossy(&output.stderr).contains('\r'), "the live line is for terminals");
    let report = Report::from_json(std::str::from_utf8(&output.stdout).unwrap()).unwrap();
    assert_eq!((report.settings.model, report.settings.work), (Model::Open, Work::Requests));
    assert_eq!(report.settings.rates, [100.0, 200.0]);
    assert_eq!(report.steps.len(), 2);
    assert!((590..=600).contains(&report.total.requests), "{}", report.total.requests);
    assert_eq!(report.total.latency.decode().unwrap().len(), report.total.requests);
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.starts_with("#[Histogram log format version"), "{log}");
    let lines = log.lines().filter(|line| !line.starts_with('#')).count();
    let tagged = log.lines().filter(|line| line.starts_with("Tag=uncorrected,")).count();
    assert!(tagged >= 4 && lines == 2 * tagged, "{lines} lines, {tagged} of them uncorrected");
}

#[test]
fn each_kind_of_work_has_its_line() {
    let pages = Pages::start();
    let (http, https, tcp) = (pages.url("http"), pages.url("https"), pages.url("tcp"));
    let short = "-t1 -c4 -d500ms";
    assert!(
        numbers(&text(&format!("{short} --new-connections {http}/128")), r"Connections/sec: +(\d+\.\d+)")[0]
            > 0.0
    );
    let told = text(&format!("{short} --handshakes --tls 1.2 --curve P-256 --sni example.org {https}/"));
    assert!(numbers(&told, r"Handshakes/sec: +(\d+\.\d+)")[0] > 0.0);
    assert_eq!(numbers(&told, r"Handshakes: \d+ full, (\d+) resumed"), [0.0]);
    let told = text(&format!("{short} --handshakes --resume {https}/"));
    assert!(numbers(&told, r"Handshakes: \d+ full, (\d+) resumed")[0] > 0.0);
    assert!(
        numbers(&text(&format!("-t1 -d500ms --channels 2 {http}/1m")), r"Throughput: (\d+\.\d+) Gbit/s")[0]
            > 0.0
    );
    assert!(numbers(&text(&format!("{short} --echo-size 4k {tcp}")), r"(\d+) requests in")[0] > 0.0);
    for url in [&http, &https] {
        let told = text(&format!("{short} --h2 -m 8 {url}/1k"));
        assert!(numbers(&told, r"Requests/sec: +(\d+\.\d+)")[0] > 0.0 && !told.contains("errors"), "{told}");
    }
    let refused = load(&format!("{short} --h2 -s any.lua {http}/"));
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--h2"));
    let told = text(&format!("{short} 3@{http}/128 {http}/nothing --success 0"));
    let [found, missing] = numbers(&told, r"Status codes: 200 (\d+), 404 (\d+)")[..] else {
        panic!("{told}")
    };
    assert!((2.5..3.5).contains(&(found / missing)), "{told}");
}

#[test]
fn a_script_speaks_after_the_figures() {
    let pages = Pages::start();
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("report.lua");
    let lines = "init = function(args) wrk.path = '/' .. args[1] end\n\
                 done = function(summary, latency) io.write('p99 ', latency:percentile(99.0), ' of ', summary.requests, '\\n') end";
    std::fs::write(&script, lines).unwrap();
    let text = text(&format!("-t1 -c2 -d500ms -s {} {} -- 128", script.display(), pages.url("http")));
    let answered = numbers(&text, r"(\d+) requests in")[0];
    assert_eq!(numbers(&text, r"(?s)Transfer/sec.*\np99 [\d.]+ of (\d+)\n$"), [answered]);
    assert!(!text.contains("Non-2xx"), "the path came from the argument");
}

#[test]
fn mistakes_are_told_in_a_sentence() {
    let told = |words: &str| {
        let output = load(words);
        assert!(!output.status.success(), "{words}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(told("http://127.0.0.1:1/ -d1s").contains("unable to connect to 127.0.0.1:1: "));
    assert!(told("-c2 -t1 -d1s localhost").contains("http://, https:// or tcp://"));
    assert!(told("-R many http://127.0.0.1/").contains("is no number such as 100, 10k, 1.5M"));
    assert!(told("--agents a http://127.0.0.1/").contains("--token"));
    assert!(told("").contains("URL"));
    let help = text("--help");
    for word in ["coordinated omission", "Examples:", "--handshakes", "-R", "serve", "agent"] {
        assert!(help.contains(word), "{word} is not in\n{help}");
    }
    assert!(text("-v").starts_with("weir"));
}
