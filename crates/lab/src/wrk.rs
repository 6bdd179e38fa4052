//! `wrk` as the generator, for scenarios that name it.
//!
//! Owns: its command line, and its figures as a report of `weir load`.
//! Never: has it shake hands: it resumes TLS sessions.
//! Driven by: `generator`.
//! Why: targets that were found with wrk are held to with wrk. Its figures come from the `done` function of a script, which
//! gives them whole; its text rounds them.

use crate::programs::search;
use crate::scenario::{Effort, Mode, Point, Scenario};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_loadgen::report::{
    Bytes, Errors, Figures, Latency, Model, Percentile, Report, SCHEMA, Settings, Status, Url, Work,
};

/// The beginning of the line that our script prints.
const MARK: &str = "weir-lab ";

/// Prints the figures in a line of JSON.
pub(crate) const DONE: &str = r#"
function done(summary, latency, requests)
 local e = summary.errors
 io.write(string.format('weir-lab {"us":%.0f,"requests":%.0f,"bytes":%.0f,"connect":%.0f,"read":%.0f,"write":%.0f,"timeout":%.0f,"status":%.0f,',
  summary.duration, summary.requests, summary.bytes, e.connect, e.read, e.write, e.timeout, e.status))
 io.write(string.format('"min":%.1f,"mean":%.1f,"stdev":%.1f,"max":%.1f,"p50":%.1f,"p95":%.1f,"p99":%.1f}\n',
  latency.min, latency.mean, latency.stdev, latency.max,
  latency:percentile(50), latency:percentile(95), latency:percentile(99)))
end
"#;

/// What that line holds: counts, and times in microseconds.
#[derive(Deserialize)]
struct Told {
    us: f64,
    requests: u64,
    bytes: u64,
    connect: u64,
    read: u64,
    write: u64,
    timeout: u64,
    status: u64,
    min: f64,
    mean: f64,
    stdev: f64,
    max: f64,
    p50: f64,
    p95: f64,
    p99: f64,
}

/// Where wrk is.
///
/// # Errors
/// It is not on this machine.
pub(crate) fn find() -> Result<PathBuf> {
    search("wrk").context(
        "wrk is not on this machine: install it, or leave out `generator: wrk` in a copy of the scenario",
    )
}

/// The command line.
pub(crate) fn command(
    program: &Path,
    (scenario, point): (&Scenario, &Point),
    effort: Effort,
    threads: usize,
    script: &Path,
    url: &str,
) -> Command {
    let mut command = Command::new(program);
    command.args([format!("-t{threads}"), format!("-c{}", scenario.connections)]);
    command.args([format!("-d{}s", effort.seconds), "--timeout=10s".into()]).arg("-s").arg(script);
    if !point.keepalive {
        command.args(["-H", "Connection: close"]);
    }
    if point.mode == Mode::Gzip {
        command.args(["-H", "Accept-Encoding: gzip"]);
    }
    command.arg(url);
    command
}

/// What it printed, as a report. Answers outside 2xx and 3xx are counted as 400: wrk does not tell which they were.
pub(crate) fn report(
    printed: &str,
    started_unix_s: f64,
    (scenario, point): (&Scenario, &Point),
    threads: usize,
    url: &str,
) -> Result<Report> {
    let line = printed.lines().find_map(|line| line.strip_prefix(MARK));
    let Some(line) = line else { bail!("wrk told no figures: {}", printed.trim()) };
    let told: Told = serde_json::from_str(line).with_context(|| format!("wrk's figures: {line}"))?;
    ensure!(told.us > 0.0, "wrk measured no time");
    let elapsed_s = told.us / 1e6;
    let mut status = Status::default();
    status.add(200, told.requests.saturating_sub(told.status));
    status.add(400, told.status);
    let percentile = |percentile, us| Percentile { percentile, us };
    let percentiles =
        vec![percentile(50.0, told.p50), percentile(95.0, told.p95), percentile(99.0, told.p99)];
    let mut total = Figures {
        elapsed_s,
        requests: told.requests,
        bytes: Bytes { received: told.bytes, sent: 0 },
        status,
        errors: Errors {
            connect: told.connect,
            read: told.read,
            write: told.write,
            timeout: told.timeout,
            ..Errors::default()
        },
        latency: Latency {
            count: told.requests,
            min_us: told.min,
            mean_us: told.mean,
            stdev_us: told.stdev,
            max_us: told.max,
            percentiles,
            histogram: String::new(),
        },
        ..Figures::default()
    };
    total.rates();
    Ok(Report {
        schema: SCHEMA.into(),
        version: "wrk".into(),
        started_unix_s,
        settings: Settings {
            urls: vec![Url { url: url.into(), weight: 1 }],
            work: if point.keepalive { Work::Requests } else { Work::NewConnections },
            model: Model::Closed,
            threads: threads as u32,
            connections: scenario.connections,
            duration_s: elapsed_s,
            timeout_s: 10.0,
            method: "GET".into(),
            ..Settings::default()
        },
        total,
        ..Report::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_script() {
        let scenario = Scenario::built_in().unwrap().into_iter().find(|s| s.id == "packed").unwrap();
        let point = scenario.points(false).remove(0);
        let text = "Running 1s test\n  10 requests in 1.00s\nweir-lab {\"us\":2000000,\"requests\":10,\"bytes\":5000,\"connect\":0,\
                    \"read\":1,\"write\":0,\"timeout\":2,\"status\":3,\"min\":1.0,\"mean\":2.5,\"stdev\":0.5,\"max\":9.0,\"p50\":2.0,\
                    \"p95\":8.0,\"p99\":9.0}\n";
        let report = |text: &str| report(text, 5.0, (&scenario, &point), 1, "http://h/");
        let load = report(text).unwrap();
        assert_eq!((load.total.requests, load.total.rate, load.total.goodput), (10, 5.0, 3.5));
        assert_eq!((load.total.errors.sum(), load.total.status.failed()), (3, 3));
        assert_eq!(load.total.latency.at(95.0), Some(8.0));
        assert!(report("unable to connect").unwrap_err().to_string().contains("unable to connect"));
    }
}
