//! A small lab, end to end: measured, resumed, reported; and what it says when it cannot.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use weir_lab::report::Report;
use weir_lab::results::Record;
use weir_lab::stats::median;

const SCENARIO: &str = "\
id: tiny
title: a tiny scenario
about: for a test
contenders: [direct, weir, nginx, haproxy]
modes: [http, tcp-https]
keepalive: [true, false]
sizes: [1k, 10k]
connections: 4
plots: [bars, distribution, workers]
full: { runs: 9, seconds: 20, warmup: 2 }
quick: { runs: 2, seconds: 0.08, warmup: 0.02, sizes: [1k] }
";

fn lab(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).arg("lab").args(words).current_dir(dir).output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tiny.yaml"), SCENARIO).unwrap();
    dir
}

fn records(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for point in std::fs::read_dir(dir.join("out/tiny")).unwrap().flatten().filter(|e| e.path().is_dir()) {
        let files = std::fs::read_dir(point.path()).unwrap().flatten().map(|e| e.path());
        found.extend(files.filter(|f| f.extension().is_some_and(|e| e == "json")));
    }
    found
}

#[test]
fn a_run_is_measured_resumed_and_reported() {
    let dir = folder();
    let run = ["run", "--quick", "--out", "out", "tiny.yaml"];
    let first = lab(dir.path(), &run);
    assert!(first.status.success(), "{}", printed(&first));
    let all = records(dir.path());
    // Four contenders at the two points of HTTP, three at the two of TCP, twice each.
    assert_eq!(all.len(), (4 + 4 + 3 + 3) * 2);

    // Stopped and begun again: what is there stays, what is missing is measured.
    let (gone, kept) = (&all[3], &all[4]);
    let before = std::fs::read(kept).unwrap();
    std::fs::remove_file(gone).unwrap();
    let second = lab(dir.path(), &run);
    assert!(second.status.success(), "{}", printed(&second));
    assert!(printed(&second).contains("1 points measured"), "{}", printed(&second));
    assert!(gone.is_file());
    assert_eq!(std::fs::read(kept).unwrap(), before);

    // Results of other settings do not mix.
    let full = lab(dir.path(), &["run", "--out", "out", "tiny.yaml"]);
    assert!(!full.status.success());
    assert!(printed(&full).contains("--quick") && printed(&full).contains("--out"), "{}", printed(&full));

    let made = lab(dir.path(), &["report", "out"]);
    assert!(made.status.success(), "{}", printed(&made));
    reports_agree(&dir.path().join("out"), &records(dir.path()));
}

fn reports_agree(out: &Path, files: &[PathBuf]) {
    let text = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let report: Report = serde_json::from_str(&text("report.json")).unwrap();
    let all: Vec<Record> =
        files.iter().map(|f| serde_json::from_str(&std::fs::read_to_string(f).unwrap()).unwrap()).collect();
    let chapter = &report.scenarios[0];
    assert_eq!(chapter.rows.len(), 14);
    assert!(chapter.missing.is_empty(), "{:?}", chapter.missing);
    assert!(report.environment.versions.len() == 3 && !report.environment.kernel.is_empty());
    let csv = text("report.csv");
    assert_eq!(csv.lines().count(), 15);
    let columns: BTreeSet<usize> = csv.lines().map(|l| l.split(',').count()).collect();
    assert_eq!(columns.len(), 1, "{csv}");
    for row in &chapter.rows {
        let of_row: Vec<&Record> =
            all.iter().filter(|r| r.point == row.point && r.contender == row.contender).collect();
        let rates: Vec<f64> = of_row.iter().map(|r| r.load.total.rate).collect();
        assert_eq!(row.rate.median, median(&rates));
        assert!(row.rate.low <= row.rate.median && row.rate.median <= row.rate.high);
        assert_eq!(row.requests, of_row.iter().map(|r| r.load.total.requests).sum::<u64>());
        assert_eq!((row.errors, row.bad_status), (0, 0), "{row:?}");
        assert!(row.memory_peak > 1 << 20 && row.cpu_us.median > 0.0, "{row:?}");
        let times: Vec<f64> = row.distribution.iter().map(|d| d.0).collect();
        assert!(times.len() > 100 && times.is_sorted(), "{times:?}");
        assert!(csv.contains(&row.rate.median.to_string()), "{csv}");
        assert_eq!(row.weir_over_this.is_some(), row.contender.name() != "weir");
    }
    let page = text("report.html");
    // Two modes, kept and closed: bars and distributions for four points each, and lines over workers.
    assert_eq!(page.matches("<svg ").count(), 4 + 4 + 4);
    assert!(!page.contains("NaN"));
    let fetched = ["src=", "href=", "<script", "@import", "url("].iter().find(|f| page.contains(**f));
    assert_eq!(fetched, None, "it needs no network");
    assert_eq!(page.matches("<tr class=").count(), 14);
    assert_eq!(page.matches("<svg ").count(), page.matches("</svg>").count());
    assert!(text("report.md").contains("| requests/s |"));
}

#[test]
fn a_missing_rival_is_named_and_can_be_left_out() {
    let dir = folder();
    let missing = lab(dir.path(), &["run", "--quick", "--nginx", "/nowhere/nginx", "tiny.yaml"]);
    assert!(!missing.status.success());
    assert!(
        printed(&missing).contains("--nginx /nowhere/nginx: there is no such program"),
        "{}",
        printed(&missing)
    );
    let wrong = lab(dir.path(), &["run", "--quick", "--haproxy", "/bin/true", "tiny.yaml"]);
    assert!(printed(&wrong).contains("/bin/true is no haproxy"), "{}", printed(&wrong));
    let nothing = lab(dir.path(), &["report", "nowhere"]);
    assert!(
        !nothing.status.success() && printed(&nothing).contains("holds no results"),
        "{}",
        printed(&nothing)
    );
    let unknown = lab(dir.path(), &["run", "B77"]);
    assert!(printed(&unknown).contains("no scenario `B77`"), "{}", printed(&unknown));
}

#[test]
fn a_used_port_is_named() {
    let dir = folder();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port().to_string();
    let used = lab(dir.path(), &["run", "--quick", "--port", &port, "tiny.yaml"]);
    assert!(!used.status.success());
    let said = printed(&used);
    assert!(said.contains(&format!("port {port} cannot be had")) && said.contains("--port"), "{said}");
}

#[test]
fn a_rival_that_dies_is_named_with_what_it_said() {
    let dir = folder();
    let script = dir.path().join("nginx");
    // Tells its version as nginx does, and ends as soon as it should serve.
    std::fs::write(&script, "#!/bin/sh\ncase $1 in -v|-V) echo 'nginx version: nginx/0' >&2;; *) echo no luck today >&2; exit 3;; esac\n")
        .unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let text =
        SCENARIO.replace("modes: [http, tcp-https]", "modes: [http]").replace("[true, false]", "[true]");
    std::fs::write(dir.path().join("tiny.yaml"), text).unwrap();
    let words =
        ["run", "--quick", "--out", "out", "--without", "haproxy,direct", "--nginx", "./nginx", "tiny.yaml"];
    let run = lab(dir.path(), &words);
    assert!(!run.status.success());
    assert!(printed(&run).contains("nginx ended (exit status: 3): no luck today"), "{}", printed(&run));
    assert_eq!(records(dir.path()).len(), 2, "Weir has its figures");
    let made = lab(dir.path(), &["report", "out"]);
    assert!(made.status.success(), "{}", printed(&made));
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).unwrap();
    assert!(page.contains("no luck today"));
}
