//! What the report says of figures: no more than they show, and what speaks against them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Shown, fill, settings};
use weir_lab::contender::Contender;
use weir_lab::prices::Prices;
use weir_lab::rate::Rate;
use weir_lab::report::{self, Report};
use weir_lab::scenario::{Mode, Point, Scenario};
use weir_lab::scope::Scope;

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

const SOAK: &str = "\
id: own
title: something of one's own
about: for a test
contenders: [weir]
modes: [http]
keepalive: [true]
sizes: [1k]
workers: [1]
connections: 50
rates: [max, 100, 200]
soak: true
full: { runs: 3, seconds: 20, warmup: 2 }
quick: { runs: 3, seconds: 1, warmup: 0.1 }
";

#[test]
fn a_soak_is_told_by_its_ramps() {
    let shown = |_: Contender, point: &Point, run: u32| {
        let rate = if let Some(Rate::PerSecond(rate)) = point.rate { rate } else { 1000.0 };
        Some(Shown { rate, us: 500.0, cpu_us: 100.0 * (1.0 + f64::from(run) / 4.0) })
    };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    fill(&out, &settings("p", 2), SOAK, &shown);
    let report = report::make(&out, &Prices::read(None).unwrap()).unwrap();
    let findings = &report.scenarios[0].findings;
    let wanted = "weir, the last of 3 ramps ÷ the first, geometric means over 2 rates: 95th percentile 1.00, CPU time each 1.50; \
                  memory 10.0 MB after the first, 12.0 MB after the last.";
    assert!(findings.iter().any(|f| f == wanted), "{findings:#?}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    for wanted in ["memory, ramp after ramp", "rate over time", "CPU of the server over time"] {
        assert!(page.contains(wanted), "{wanted}");
    }
    assert!(!page.contains("errors over time"), "there were none");
    let two_sizes = SOAK.replace("[1k]", "[1k, 10k]");
    assert!(Scenario::parse(&two_sizes).unwrap_err().to_string().contains("soak: one mode"));
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

#[test]
fn a_share_of_the_most_takes_the_most_with_it() {
    let scenario =
        Scenario::parse(&SCENARIO.replace("workers: [1, 64]", "workers: [1]\nrates: [max, 50%, 1000]"))
            .unwrap();
    let of = |words: &[&str]| {
        let points = words.iter().map(|word| (*word).to_owned()).collect();
        let part = scenario.clone().narrowed(&Scope { points, ..Scope::default() }, true).unwrap();
        part.points(true).iter().map(Point::name).collect::<Vec<_>>()
    };
    assert_eq!(of(&["http-kept-1k-w1-r50pct"]), ["http-kept-1k-w1", "http-kept-1k-w1-r50pct"]);
    assert_eq!(of(&["http-kept-1k-w1-r1000"]), ["http-kept-1k-w1-r1000"], "a number needs no other");
}

/// All did what was wanted at 1 KB; at 10 KB haproxy did not.
fn carried(who: Contender, point: &Point, _: u32) -> Option<Shown> {
    let most = if point.size == "10k" && who == Contender::Haproxy { 300.0 } else { 1000.0 };
    let wanted = match point.rate {
        Some(Rate::PerSecond(rate)) => rate,
        _ => most,
    };
    Some(Shown { rate: wanted.min(most), us: 500.0, cpu_us: 10.0 })
}

#[test]
fn titles_hold_for_all_that_a_plot_shows() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let rates = "workers: [1]\nrates: { 1k: [max, 800], 10k: [max, 400] }";
    let scenario = SCENARIO
        .replace("workers: [1, 64]", rates)
        .replace("sizes: [1k]", "sizes: [1k, 10k]")
        .replace("modes: [http, https, tcp-http]", "modes: [http]");
    fill(&out, &settings("p", 2), &scenario, &carried);
    report::make(&out, &Prices::read(None).unwrap()).unwrap();
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    let after = |heading: &str| {
        let rest =
            page.split(&format!("<h3>{heading}</h3>")).nth(1).unwrap_or_else(|| panic!("{heading}: {page}"));
        rest.split("<h3>").next().unwrap().to_owned()
    };
    let all = after("At a rate that all can carry");
    assert!(all.contains("1 KB") && !all.contains("10 KB"), "only what all did stands there");
    assert!(after("At a rate that not all could carry").contains("10 KB"));
    // One plot with bars of two rates would name both at the bars, none in its title.
    let titles = |part: &str| {
        part.split("<figcaption><b>")
            .skip(1)
            .map(|f| f.split("</b>").next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert!(titles(&all).iter().all(|title| title.contains("800/s")), "{:?}", titles(&all));
}

/// A line of the CSV by the names of its columns.
fn lines_of(csv: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines
        .map(|line| names.iter().map(ToString::to_string).zip(line.split(',').map(str::to_owned)).collect())
        .collect()
}

#[test]
fn what_the_findings_say_follows_from_the_csv() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    // One point of each kind: the mean over its points is the point's own.
    fill(&out, &settings("p", 2), SCENARIO, &mixed);
    let report = report::make(&out, &Prices::read(None).unwrap()).unwrap();
    let rows = lines_of(&std::fs::read_to_string(out.join("report.csv")).unwrap());
    for (what, column) in [("Rate", "weir_over_this"), ("CPU time each", "weir_cpu_over_this")] {
        for rival in ["nginx", "haproxy"] {
            let mut told: [Vec<String>; 4] = Default::default();
            for row in rows.iter().filter(|row| row["contender"] == rival) {
                let value = |end: &str| row[&format!("{column}{end}")].parse::<f64>().ok();
                let title = match row["mode"].as_str() {
                    "http" => "HTTP",
                    "https" => "HTTPS",
                    _ => "TCP pass-through of HTTP",
                };
                let place = match (value("_low"), value("_high")) {
                    (Some(low), _) if low > 1.0 => 0,
                    (_, Some(high)) if high < 1.0 => 1,
                    (Some(_), Some(_)) => 2,
                    _ => 3,
                };
                // As many digits as it takes not to look like 1.
                let median = value("").unwrap();
                let form = |digits: usize| format!("{median:.digits$}");
                let digits = (2..6).find(|digits| form(*digits) != format!("{:.digits$}", 1.0)).unwrap_or(6);
                told[place].push(format!("{title} {}", form(digits)));
            }
            let start = format!("{what}, Weir ÷ {rival}: ");
            let line = report.scenarios[0].findings.iter().find(|line| line.starts_with(&start)).unwrap();
            let words = [
                "higher for",
                "lower for",
                "no clear difference for",
                "too few runs to tell a difference for",
            ];
            let parts: Vec<&str> = line[start.len()..].trim_end_matches('.').split("; ").collect();
            assert_eq!(parts.len(), told.iter().filter(|all| !all.is_empty()).count(), "{line}: {told:?}");
            for (word, all) in words.iter().zip(&told).filter(|(_, all)| !all.is_empty()) {
                let part = parts
                    .iter()
                    .find(|part| part.starts_with(word))
                    .unwrap_or_else(|| panic!("{word}: {line}"));
                assert!(all.iter().all(|ratio| part.contains(ratio.as_str())), "{part}: {all:?}");
            }
        }
    }
    let sum = |column: &str| rows.iter().map(|row| row[column].parse::<u64>().unwrap()).sum::<u64>();
    let errors = format!("{} errors among", sum("errors") + sum("bad_status"));
    assert!(report.scenarios[0].findings.iter().any(|line| line.starts_with(&errors)), "{errors}");
}

#[test]
fn a_knee_says_what_held_it() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = SCENARIO
        .replace("id: own", "id: B1")
        .replace("[http, https, tcp-http]", "[https]")
        .replace("sizes: [1k]", "sizes: [10k]")
        .replace("workers: [1, 64]", "workers: [1]\nrates: [1000, 2000, 3000, 4000]");
    // All keep up with 2,000; from 3,000 on nginx has no CPU left, HAProxy waits for something else, and Weir keeps up.
    let shown = |who: Contender, point: &Point, _: u32| {
        let Some(Rate::PerSecond(rate)) = point.rate else { return None };
        let late = rate > 2500.0 && who != Contender::Weir;
        let busy = match who {
            Contender::Nginx if late => 0.99,
            Contender::Weir => 0.5,
            _ => 0.2,
        };
        let us = if late { 1e6 } else { 500.0 };
        Some(Shown { rate, us, cpu_us: busy * 1e6 / rate })
    };
    fill(dir.path(), &settings("p", 4), &scenario, &shown);
    let report = report::make(dir.path(), &Prices::read(None).unwrap()).unwrap();
    let findings = report.scenarios[0].findings.join("\n");
    for wanted in [
        "weir above 4,000, the highest rate measured, nginx",
        "(limited by its CPUs, 99% busy), haproxy",
        "(limited by neither CPU nor generator, its CPUs 20% busy: the link, or what it waits for).",
        "10 KB: CPUs have nothing left, requests/s: weir at none of the rates measured, nginx at 3,000, haproxy at none of the \
         rates measured. Published: NGINX Plus at 8,000, Avi Vantage at 5,000.",
    ] {
        assert!(findings.contains(wanted), "{wanted}\n{findings}");
    }
    let page = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(page.contains("published: its CPUs are 100% busy at 8,000 requests/s"), "{page}");
}
