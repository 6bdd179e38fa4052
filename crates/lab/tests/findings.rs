//! What the report says of figures: no more than they show, and what speaks against them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Shown, fill, settings};
use weir_lab::contender::Contender;
use weir_lab::prices::Prices;
use weir_lab::report::{self, Report};
use weir_lab::scenario::{Mode, Point};

const SCENARIO: &str = "\
id: own
title: something of one's own
about: for a test
contenders: [weir, nginx, haproxy]
modes: [http, https, tcp-http]
keepalive: [true]
sizes: [1k]
workers: [1, 64]
connections: 50
full: { runs: 9, seconds: 20, warmup: 2 }
quick: { runs: 6, seconds: 1, warmup: 0.1 }
";

fn made(
    shown: &dyn Fn(Contender, &Point, u32) -> Option<Shown>,
    debug_build: bool,
) -> (Report, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let mut settings = settings("p", 2);
    settings.debug_build = debug_build;
    fill(&out, &settings, SCENARIO, shown);
    let report = report::make(&out, &Prices::read(None).unwrap()).unwrap();
    let text = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    assert!(text("report.md").contains("| own | HTTP | 2.0"), "{}", text("report.md"));
    let (page, json) = (text("report.html"), text("report.json"));
    (report, page, json)
}

/// Weir is clearly faster over HTTP, clearly slower over HTTPS, and as fast as its noise over TCP.
fn mixed(who: Contender, point: &Point, run: u32) -> Option<Shown> {
    let run = f64::from(run);
    let rate = match (who, point.mode) {
        (Contender::Weir, Mode::Http) => 200.0 + run,
        (Contender::Weir, Mode::Https) => 50.0 + run / 10.0,
        (Contender::Weir, _) => 80.0 + 10.0 * run,
        (Contender::Haproxy, Mode::TcpHttp) if run == 5.0 => return None,
        _ => 100.0 + run / 10.0,
    };
    Some(Shown { rate: rate * 1000.0, us: 500.0, cpu_us: 1e3 / rate })
}

#[test]
fn a_difference_is_one_only_where_the_interval_shows_it() {
    let (report, page, _) = made(&mixed, false);
    let findings = &report.scenarios[0].findings;
    let rate = findings.iter().find(|f| f.starts_with("Rate, Weir ÷ nginx")).unwrap();
    assert!(rate.contains("higher for HTTP 2.0"), "{rate}");
    assert!(rate.contains("lower for HTTPS 0.50"), "{rate}");
    assert!(rate.contains("no clear difference for TCP pass-through of HTTP"), "{rate}");
    assert!(!page.contains("Debug build") && page.contains("Short runs"));
}

#[test]
fn a_ratio_is_shown_as_it_is_where_there_are_too_few_runs() {
    let few = |who: Contender, point: &Point, run: u32| mixed(who, point, run).filter(|_| run < 2);
    let (report, page, json) = made(&few, false);
    let rate = report.scenarios[0].findings.iter().find(|f| f.starts_with("Rate, Weir ÷ nginx")).unwrap();
    assert!(
        rate.contains("too few runs to tell a difference for HTTP 2.00 (2.00, 2.01), HTTPS 0.50"),
        "{rate}"
    );
    assert!(!rate.contains("higher") && !rate.contains("lower") && !json.contains("\"low\": 2"), "{rate}");
    assert!(page.contains("too few runs: 2.00, 2.01") && !page.contains("class=\"n good\""));
}

#[test]
fn what_is_missing_is_told_each_reason_once() {
    let (report, page, _) = made(&mixed, false);
    let all = page.split("Without figures").nth(1).unwrap();
    assert!(all.contains("haproxy at tcp-http-kept-1k-w1: 5 of 6 runs done"), "{all}");
    assert_eq!(all.matches("64 workers want 64 CPUs").count(), 1, "{all}");
    assert!(all.contains("http-kept-1k-w64, https-kept-1k-w64, tcp-http-kept-1k-w64"), "{all}");
    assert!(report.scenarios[0].findings.iter().any(|f| f.contains("4 points have no figures")));
}

#[test]
fn a_debug_build_is_told_before_anything_else() {
    let (report, page, _) = made(&mixed, true);
    assert!(report.debug_build);
    assert!(page.find("Debug build").unwrap() < page.find("<table").unwrap());
}

#[test]
fn json_has_every_run_unrounded() {
    let (report, _, json) = made(&mixed, false);
    let read: Report = serde_json::from_str(&json).unwrap();
    for (a, b) in report.scenarios[0].rows.iter().zip(&read.scenarios[0].rows) {
        assert_eq!(a.each, b.each);
        assert_eq!((a.rate, a.cpu_us), (b.rate, b.cpu_us));
    }
    let weir = read.scenarios[0]
        .rows
        .iter()
        .find(|r| r.contender == Contender::Weir && r.point.mode == Mode::Https)
        .unwrap();
    let rates: Vec<f64> = weir.each.iter().map(|e| e.rate).collect();
    assert_eq!(rates, [50_000.0, 50_100.0, 50_200.0, 50_300.0, 50_400.0, 50_500.0]);
}
