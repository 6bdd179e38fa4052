//! The report in a browser: whole, drawn, and without the network.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::browser::{check, opened};
use common::{Shown, fill, settings};
use weir_lab::contender::Contender;
use weir_lab::prices::Prices;
use weir_lab::rate::Rate;
use weir_lab::report::{self, Report, knee::Where, run_page};
use weir_lab::scenario::Point;
use weir_loadgen::report::{
    Errors, Figures, Latency, Model, Moment, Report as LoadReport, Status, Url, empty_histogram,
};

const WORKERS: &str = "\
id: B3
title: a web server
about: for a test
contenders: [weir, nginx]
modes: [files-http, files-https]
keepalive: [true]
sizes: [1k, 10k]
workers: [1, 2, 4, 64]
connections: 50
plots: [workers]
full: { runs: 9, seconds: 20, warmup: 2 }
quick: { runs: 3, seconds: 1, warmup: 0.1 }
";

const PROXIES: &str = "\
id: B8
title: \"a proxy <b>in the middle</b> & more\"
about: for a test
contenders: [direct, weir, nginx, haproxy]
modes: [http, https, tcp-https]
keepalive: [true, false]
sizes: [1k, 10k, 100k]
connections: 50
plots: [bars, distribution]
full: { runs: 9, seconds: 20, warmup: 2 }
quick: { runs: 3, seconds: 1, warmup: 0.1 }
";

const RATES: &str = "\
id: B1
title: latency against rate
about: for a test
contenders: [weir, nginx, haproxy]
modes: [https]
keepalive: [true]
sizes: [10k]
connections: 50
rates: [max, 5000, 10000, 20000, 30000, 40000, 50000, 60000, 70000]
full: { runs: 9, seconds: 20, warmup: 2 }
quick: { runs: 3, seconds: 1, warmup: 0.1 }
";

const BURST: &str = "\
id: B2
title: run by run
about: for a test
contenders: [weir, nginx]
modes: [https]
keepalive: [true]
sizes: [1k]
connections: 50
rates: [max, 2500]
full: { runs: 20, seconds: 20, warmup: 2 }
quick: { runs: 20, seconds: 1, warmup: 0.1 }
";

const SIZING: &str = "\
id: B6
title: a reverse proxy
about: for a test
contenders: [weir, nginx, haproxy]
modes: [http, handshake-rsa2048]
keepalive: [true]
sizes: ['128']
workers: [1, 2, 4, 8]
connections: 50
full: { runs: 9, seconds: 20, warmup: 2 }
quick: { runs: 3, seconds: 1, warmup: 0.1 }
";

const THROUGHPUT: &str = "\
id: B5
title: throughput
about: for a test
contenders: [weir, nginx]
modes: [files-http]
keepalive: [true]
sizes: [100k, 1m]
workers: [1, 2]
connections: 50
full: { runs: 9, seconds: 20, warmup: 2 }
quick: { runs: 3, seconds: 1, warmup: 0.1 }
";

/// A plausible machine: each contender has a speed, pages cost by their size, and runs differ a little.
fn shown(who: Contender, point: &Point, run: u32) -> Option<Shown> {
    let speed = match who {
        Contender::Direct => 4.0,
        Contender::Weir => 1.5,
        Contender::Nginx => 1.0,
        Contender::Haproxy => 0.9,
        other => panic!("{other:?} takes no part"),
    };
    let bytes = weir_lab::scenario::bytes(&point.size).unwrap() as f64;
    let each = (20.0 + bytes / 2000.0) * if point.keepalive { 1.0 } else { 3.0 } / speed;
    let noise = 1.0 + f64::from(run) * 0.02;
    let most = f64::from(point.workers) * 1e6 / each * noise;
    let Some(Rate::PerSecond(wanted)) = point.rate else {
        return Some(Shown { rate: most, us: 50e6 / most, cpu_us: each * noise });
    };
    // Beyond the most, or when credits are spent, the queue grows as long as the run lasts.
    let spent = wanted == 2500.0 && run >= 16;
    let us = if wanted > most || spent { 3e5 } else { 500.0 + 100.0 * wanted / most };
    Some(Shown { rate: wanted.min(most), us, cpu_us: each * noise })
}

#[test]
fn every_plot_is_drawn_and_nothing_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let settings = settings("A Processor", 4);
    fill(&out, &settings, WORKERS, &shown);
    for scenario in [PROXIES, RATES, BURST, SIZING, THROUGHPUT] {
        fill(&out, &settings, scenario, &shown);
    }
    let made = report::make(&out, &Prices::read(None).unwrap()).unwrap();
    what_it_found(&made);
    check(&out.join("report.html"), 100);
}

#[test]
fn a_page_that_fetches_or_complains_would_be_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("bad.html");
    std::fs::write(&page, "<img src=\"http://example.invalid/a.png\"><script>nonsense.member</script>")
        .unwrap();
    let (said, wanted) = opened(&page);
    assert!(said.contains("CONSOLE") && said.contains("nonsense"), "{said}");
    assert!(wanted.iter().any(|u| u == "http://example.invalid/a.png"), "{wanted:?}");
}

/// What was put into the folder is what the report says of it.
fn what_it_found(report: &Report) {
    let chapter = |id: &str| report.scenarios.iter().find(|c| c.id == id).unwrap();
    // 25.1 µs a request ÷ 1.5, 1 and 0.9: 59,700, 39,800 and 35,800 requests a second, and 2% more in each further run.
    let b1 = chapter("B1");
    for (who, low, high) in [
        (Contender::Weir, 50_000.0, 70_000.0),
        (Contender::Nginx, 30_000.0, 50_000.0),
        (Contender::Haproxy, 30_000.0, 40_000.0),
    ] {
        let knee = b1.knees.iter().find(|k| k.contender == who).unwrap().knee;
        assert_eq!(knee.place, Where::Found);
        assert!(low < knee.rate.median && knee.rate.median < high, "{who:?}: {knee:?}");
        let (low, high) = knee.rate.span();
        assert!(low <= knee.rate.median && knee.rate.median <= high);
    }
    let found = |id: &str| chapter(id).findings.join("\n");
    assert!(found("B1").contains("HTTPS, 10 KB: knees"), "{}", found("B1"));
    assert!(
        found("B1").contains(
            "Rate, Weir ÷ nginx: too few runs to tell a difference for HTTPS 1.50 (1.50, 1.50, 1.50)"
        ),
        "{}",
        found("B1")
    );
    assert!(found("B2").contains("from run 17 of 20 on, the 95th percentile of weir"), "{}", found("B2"));
    assert!(found("B6").contains("published: 48,000 (NGINX, bare metal)"), "{}", found("B6"));
    assert!(found("B5").contains("Gbit/s here; published: 13.0"), "{}", found("B5"));
    assert!(found("B3").contains("points have no figures"), "64 workers: {}", found("B3"));
}

/// A run of `weir load` that no machine made: `steps` rates, of which the last was too high.
fn loaded(steps: usize, scale: u64) -> LoadReport {
    let figures = |n: usize| {
        let mut histogram = empty_histogram();
        (1..=20_000_u64).for_each(|i| histogram.saturating_record(i * i * scale * (n as u64 + 1)));
        let wanted = 1000.0 * (n + 1) as f64;
        let rate = if n + 1 == steps && steps > 1 { wanted / 2.0 } else { wanted };
        let mut status = Status::default();
        status.add(200, 20_000);
        status.add(503, 7);
        Figures {
            elapsed_s: 10.0,
            requests: 20_007,
            rate_wanted: Some(wanted),
            rate,
            status,
            errors: Errors { timeout: 3, ..Errors::default() },
            latency: Latency::of(&histogram),
            ..Figures::default()
        }
    };
    let mut report = LoadReport {
        schema: weir_loadgen::report::SCHEMA.into(),
        total: figures(0),
        ..LoadReport::default()
    };
    report.settings.model = Model::Open;
    report.settings.urls = vec![Url { url: "https://host.example/<b>&?".into(), weight: 1 }];
    report.total.errors.causes.timed_out = 3;
    if steps > 1 {
        report.steps = (0..steps).map(figures).collect();
    }
    report.timeline = (1..=30_u32)
        .map(|n| Moment {
            at_s: f64::from(n),
            length_s: 1.0,
            step: Some(0),
            rate_wanted: Some(1000.0),
            requests: 1000 - u64::from(n % 7),
            errors: u64::from(n % 5 == 0),
            p50_us: Some(400.0 + f64::from(n)),
            p99_us: Some(4000.0 * (1.0 + f64::from(n % 3))),
            cpus: 0.3,
            ..Moment::default()
        })
        .collect();
    report
}

#[test]
fn pages_of_runs_of_steps_and_of_two_runs_are_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let (one, steps, other) = (loaded(1, 10), loaded(9, 10), loaded(1, 20));
    for (name, page, least) in [
        ("run.html", run_page::page(&one), 5),
        ("steps.html", run_page::page(&steps), 7),
        ("both.html", run_page::comparison(("before.json", &one), ("after <2>.json", &other)), 5),
    ] {
        let file = dir.path().join(name);
        std::fs::write(&file, page).unwrap();
        check(&file, least);
    }
}
