//! Folders of results that no machine measured, with figures that are known.
//!
//! Owns: how such a folder is made.
//! Never: goes around the lab's own way of keeping results.
//! Driven by: the tests of reports, merging and sizing.

#![allow(dead_code, reason = "each test takes what it needs")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub(crate) mod browser;

use std::path::Path;
use weir_lab::contender::Contender;
use weir_lab::machine::CpuSplit;
use weir_lab::rate::Rate;
use weir_lab::results::{Record, Results, SCHEMA, Settings};
use weir_lab::scenario::{Point, Scenario};
use weir_lab::scope::Scope;
use weir_loadgen::report::{Latency, Moment, Report, Work, empty_histogram};

/// What a run is to have shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    /// Requests a second.
    pub(crate) rate: f64,
    /// Median response time, microseconds; the others spread around it.
    pub(crate) us: f64,
    /// CPU time, microseconds a request; where connections wait, bytes of each.
    pub(crate) cpu_us: f64,
}

/// Settings of a machine that does not exist.
pub(crate) fn settings(processor: &str, cpus: usize) -> Settings {
    let mut settings = Settings { schema: SCHEMA.into(), quick: true, ..Settings::default() };
    settings.environment.processor = processor.into();
    settings.environment.cpus = cpus;
    settings.environment.kernel = "6.1.0".into();
    for (name, version) in [
        ("weir", "weir 0.1.0"),
        ("nginx", "nginx version: nginx/1.22.1"),
        ("haproxy", "HAProxy version 2.6.12-1"),
    ] {
        settings.environment.versions.insert(name.into(), version.into());
    }
    settings
}

/// Fills `dir` with the quick runs of a scenario; `shown` gives the figures of a run, or nothing if it was not made.
pub(crate) fn fill(
    dir: &Path,
    settings: &Settings,
    scenario: &str,
    shown: &dyn Fn(Contender, &Point, u32) -> Option<Shown>,
) {
    let results = Results::open(dir, settings).unwrap();
    let scenario = Scenario::parse(scenario).unwrap();
    results.begin(&scenario, &Scope::default()).unwrap();
    let cpus: Vec<usize> = (0..settings.environment.cpus).collect();
    let cores: Vec<Vec<usize>> =
        cpus.chunks(settings.environment.threads_per_core.max(1)).map(<[usize]>::to_vec).collect();
    let fits = |p: &Point| CpuSplit::divide(scenario.placement, p, &cores).is_ok();
    for point in scenario.points(true).into_iter().filter(fits) {
        let runs = scenario.effort_at(&point, true).runs;
        for who in scenario.contenders_at(&point, true, &settings.more()) {
            for run in 0..runs {
                if let Some(shown) = shown(who, &point, run) {
                    results.keep(&scenario, &record(who, &point, run, shown)).unwrap();
                }
            }
        }
    }
}

/// One record, by way of JSON: members that are added later have their defaults.
fn record(who: Contender, point: &Point, run: u32, shown: Shown) -> Record {
    let mut histogram = empty_histogram();
    // From a third of the median to six times it, most of them near it.
    (1..=1000_u32).for_each(|n| {
        let q = f64::from(n) / 1001.0;
        histogram
            .saturating_record((shown.us * 1e3 * (0.33 + 0.67 * q / (1.0 - q).max(0.03)).min(6.0)) as u64);
    });
    let mut load = Report { schema: weir_loadgen::report::SCHEMA.into(), ..Report::default() };
    load.started_unix_s = 1_795_310_603.0 + f64::from(run);
    load.total.elapsed_s = 10.0;
    load.total.rate = shown.rate;
    load.total.requests = (shown.rate * 10.0) as u64;
    load.total.gbit_s = shown.rate * weir_lab::scenario::bytes(&point.size).unwrap() as f64 * 8.0 / 1e9;
    load.total.status.add(200, load.total.requests);
    load.total.latency = Latency::of(&histogram);
    load.settings.work = match (point.mode.handshakes(), point.keepalive) {
        (Some(_), _) => Work::Handshakes,
        (None, false) => Work::NewConnections,
        (None, true) => Work::Requests,
    };
    load.timeline = (1..=10)
        .map(|second| Moment {
            at_s: f64::from(second),
            length_s: 1.0,
            requests: shown.rate as u64,
            p50_us: Some(shown.us),
            p99_us: Some(shown.us * 3.0),
            ..Moment::default()
        })
        .collect();
    if let Some(Rate::PerSecond(rate)) = point.rate {
        load.total.rate_wanted = Some(rate);
    }
    let idle = point.mode.is_idle();
    serde_json::from_value(serde_json::json!({
        "idle": idle.then(|| serde_json::json!({ "connections": 1000, "bytes_each": shown.cpu_us })),
        "start": { "seconds": 0.5, "memory": 100 << 20 },
        "point": point, "contender": who, "run": run, "shared_cpus": false, "cpu_us_per_request": shown.cpu_us,
        "switches_per_request": 0.1, "memory_peak": 20 << 20, "load": load,
        "course": (1..=10).map(|second| serde_json::json!({
            "until_unix_s": load.started_unix_s + f64::from(second), "cpus": shown.cpu_us * shown.rate / 1e6, "memory": (10 + run) << 20,
        })).collect::<Vec<_>>(),
    }))
    .unwrap()
}
