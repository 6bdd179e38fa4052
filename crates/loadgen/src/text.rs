//! The text of wrk2, which scripts and plotters read.
//!
//! Owns: its layout, line by line.
//! Never: puts a line of its own between those of wrk2; what wrk2 does not know stands at the end.
//! Driven by: the binary.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use crate::report::{BadHistogram, Figures, Latency, Report, Spread, Work};
use crate::units::{binary, metric, micros, whole_seconds};

/// Which parts are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    /// Percentiles and spectrum (`-L`).
    pub latency: bool,
    /// Those from the moment of sending (`-U`).
    pub uncorrected: bool,
    /// Throughput in Gbit/s (`--channels`).
    pub throughput: bool,
}

const LINE: &str = "----------------------------------------------------------";

/// What is said before load begins; `requests` where their number ends the run.
#[must_use]
pub fn header(seconds: f64, requests: Option<u64>, url: &str, threads: u32, connections: u32) -> String {
    let length = match requests {
        Some(requests) => format!("{requests} requests"),
        None => format!("{} test", whole_seconds(seconds)),
    };
    format!("Running {length} @ {url}\n  {threads} threads and {connections} connections\n")
}

/// What is said at the end.
///
/// # Errors
/// A histogram of the report is spoiled.
pub fn results(report: &Report, parts: Parts) -> Result<String, BadHistogram> {
    let mut out = String::new();
    let total = &report.total;
    let histogram = total.latency.decode()?;
    out += "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n";
    out += &stats("Latency", &latency_spread(&total.latency, &histogram), micros);
    out += &stats("Req/Sec", &report.thread_rate, metric);
    if parts.latency {
        out += &distribution("Recorded Latency", &histogram);
        let _ = writeln!(out, "{LINE}");
    }
    if parts.uncorrected
        && let Some(uncorrected) = &total.uncorrected
    {
        out += "\n";
        out += &distribution(
            "Uncorrected Latency (measured without taking delayed starts into account)",
            &uncorrected.decode()?,
        );
        let _ = writeln!(out, "{LINE}");
    }
    out += &summary(total);
    out += &more(report, parts);
    Ok(out)
}

fn summary(total: &Figures) -> String {
    let mut out = format!(
        "  {} requests in {}, {} read\n",
        total.requests,
        micros(total.elapsed_s * 1e6),
        binary(total.bytes.received as f64)
    );
    let errors = &total.errors;
    // wrk knows these four; what it does not know is part of `connect` (TLS) and `read` (nonsense) here.
    let (connect, read) = (errors.connect + errors.tls, errors.read + errors.malformed);
    if connect + read + errors.write + errors.timeout > 0 {
        let _ = writeln!(
            out,
            "  Socket errors: connect {connect}, read {read}, write {}, timeout {}",
            errors.write, errors.timeout
        );
    }
    let bad = total.status.failed();
    if bad > 0 {
        let _ = writeln!(out, "  Non-2xx or 3xx responses: {bad}");
    }
    let per_second = if total.elapsed_s > 0.0 { total.bytes.received as f64 / total.elapsed_s } else { 0.0 };
    let _ = writeln!(out, "Requests/sec: {:9.2}", total.rate);
    let _ = writeln!(out, "Transfer/sec: {:>11}", binary(per_second));
    out
}

/// What wrk2 has no words for.
fn more(report: &Report, parts: Parts) -> String {
    let mut out = String::new();
    let total = &report.total;
    match report.settings.work {
        Work::NewConnections => {
            let _ = writeln!(out, "Connections/sec: {:6.2}", total.rate);
        }
        Work::Handshakes => {
            let _ = writeln!(out, "Handshakes/sec: {:7.2}", total.rate);
        }
        Work::Messages => {
            let _ = writeln!(out, "Messages/sec: {:9.2}", total.rate);
        }
        Work::Requests | Work::Echo => {}
    }
    if !total.grpc.is_empty() {
        let all: Vec<String> =
            total.grpc.iter().map(|(code, n)| format!("{code} {} {n}", grpc_code(*code))).collect();
        let _ = writeln!(out, "gRPC status: {}", all.join(", "));
    }
    let handshakes = &total.connections;
    if handshakes.full_handshakes + handshakes.resumed_handshakes > 0 {
        let _ = writeln!(
            out,
            "Handshakes: {} full, {} resumed{}",
            handshakes.full_handshakes,
            handshakes.resumed_handshakes,
            if total.errors.not_as_asked > 0 { " (NOT as asked for)" } else { "" }
        );
    }
    if total.errors.reset > 0 {
        let _ = writeln!(out, "Streams reset by the server: {}", total.errors.reset);
    }
    let causes = total.errors.causes.named().into_iter().filter(|(_, count)| *count > 0);
    let causes: Vec<String> = causes.map(|(name, count)| format!("{name} {count}")).collect();
    if !causes.is_empty() {
        let _ = writeln!(out, "Causes of errors: {}", causes.join(", "));
    }
    if parts.throughput {
        let _ = writeln!(out, "Throughput: {:.3} Gbit/s", total.gbit_s);
    }
    let codes = &total.status.codes;
    if codes.len() > 1 || total.status.failed() > 0 {
        let all: Vec<String> = codes.iter().map(|(code, n)| format!("{code} {n}")).collect();
        let _ = writeln!(out, "Status codes: {}", all.join(", "));
    }
    if handshakes.closed_by_server > 0 && report.settings.work != Work::NewConnections {
        let _ = writeln!(out, "Connections closed by the server: {}", handshakes.closed_by_server);
    }
    out += &steps(&report.steps);
    out
}

/// The name of a gRPC code ("Status codes and their use in gRPC").
fn grpc_code(code: u8) -> &'static str {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    NAMES.get(usize::from(code)).copied().unwrap_or("UNKNOWN")
}

fn steps(steps: &[Figures]) -> String {
    if steps.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "\n   Wanted/s  Reached/s       Mean        p50        p95        p99      p99.9        Max   Errors\n",
    );
    for step in steps {
        let at = |percentile| micros(step.latency.at(percentile).unwrap_or_default());
        let _ = writeln!(
            out,
            "{:>11.1}{:>11.1}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}{:>9}",
            step.rate_wanted.unwrap_or_default(),
            step.rate,
            micros(step.latency.mean_us),
            at(50.0),
            at(95.0),
            at(99.0),
            at(99.9),
            micros(step.latency.max_us),
            step.errors.sum() + step.failed()
        );
    }
    out
}

/// A number with its unit, right-aligned so that digits stand below digits, as wrk does it.
fn units(text: &str, width: usize) -> String {
    let letters = text.chars().rev().take_while(char::is_ascii_alphabetic).count().min(2);
    let pad = 2 - letters;
    let width = width.saturating_sub(pad);
    format!("{text:>width$}{}", " ".repeat(pad))
}

fn stats(name: &str, spread: &Spread, form: fn(f64) -> String) -> String {
    format!(
        "    {name:<10}{}{}{}{:8.2}%\n",
        units(&form(spread.mean), 8),
        units(&form(spread.stdev), 10),
        units(&form(spread.max), 9),
        spread.within_stdev_pct
    )
}

fn latency_spread(latency: &Latency, histogram: &Histogram<u64>) -> Spread {
    let (mean, stdev) = (latency.mean_us * 1e3, latency.stdev_us * 1e3);
    let within: u64 = histogram
        .iter_recorded()
        .filter(|bucket| (bucket.value_iterated_to() as f64 - mean).abs() <= stdev)
        .map(|bucket| bucket.count_at_value())
        .sum();
    let share = if histogram.is_empty() { 0.0 } else { within as f64 / histogram.len() as f64 * 100.0 };
    Spread { mean: latency.mean_us, stdev: latency.stdev_us, max: latency.max_us, within_stdev_pct: share }
}

fn distribution(title: &str, histogram: &Histogram<u64>) -> String {
    let mut out = format!("  Latency Distribution (HdrHistogram - {title})\n");
    for percentile in [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0] {
        let us = histogram.value_at_percentile(percentile) as f64 / 1e3;
        let _ = writeln!(out, "{percentile:7.3}%{}", units(&micros(us), 10));
    }
    out += "\n  Detailed Percentile spectrum:\n";
    out += &spectrum(histogram);
    out
}

/// The classic text of HdrHistogram, in milliseconds, five lines each time the distance to 100% halves.
fn spectrum(histogram: &Histogram<u64>) -> String {
    let mut out =
        format!("{:>12} {:>12} {:>12} {:>12}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    let ms = |ns: f64| ns / 1e6;
    let mut count = 0;
    for step in histogram.iter_quantiles(5) {
        count += step.count_since_last_iteration();
        let (value, quantile) = (ms(step.value_iterated_to() as f64), step.quantile_iterated_to());
        if quantile < 1.0 {
            let _ = writeln!(out, "{value:12.3} {quantile:12.6} {count:12} {:12.2}", 1.0 / (1.0 - quantile));
        } else {
            let _ = writeln!(out, "{value:12.3} {quantile:12.6} {count:12}          inf");
            break;
        }
    }
    let _ = writeln!(
        out,
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]",
        ms(histogram.mean()),
        ms(histogram.stdev())
    );
    let _ = writeln!(
        out,
        "#[Max     = {:12.3}, Total count    = {:12}]",
        ms(histogram.max() as f64),
        histogram.len()
    );
    let _ = writeln!(out, "#[Buckets = {:12}, SubBuckets     = {:12}]", histogram.buckets(), 2048);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Bytes, Errors, Settings, Status, empty_histogram};

    fn report() -> Report {
        let mut histogram = empty_histogram();
        (1..=1000_u64).for_each(|n| histogram.saturating_record(n * 10_000));
        let mut status = Status::default();
        status.add(200, 990);
        status.add(503, 10);
        let mut total = Figures {
            elapsed_s: 10.0,
            requests: 1000,
            bytes: Bytes { received: 2_000_000, sent: 1 },
            status,
            errors: Errors { read: 2, timeout: 1, ..Errors::default() },
            latency: Latency::of(&histogram),
            uncorrected: Some(Latency::of(&histogram)),
            ..Figures::default()
        };
        total.rates();
        Report {
            settings: Settings::default(),
            total,
            thread_rate: Spread { mean: 1050.0, stdev: 1120.0, max: 2500.0, within_stdev_pct: 64.84 },
            ..Report::default()
        }
    }

    #[test]
    fn the_text_is_that_of_wrk2() {
        let parts = Parts { latency: true, uncorrected: true, throughput: false };
        let text = header(30.0, None, "http://127.0.0.1/", 2, 100) + &results(&report(), parts).unwrap();
        let expected_start = "Running 30s test @ http://127.0.0.1/
  2 threads and 100 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     5.01ms    2.89ms  10.00ms   57.70%
    Req/Sec     1.05k     1.12k    2.50k    64.84%
  Latency Distribution (HdrHistogram - Recorded Latency)
 50.000%    5.00ms
 75.000%    7.50ms
 90.000%    9.00ms
 99.000%    9.90ms
 99.900%   10.00ms
 99.990%   10.00ms
 99.999%   10.00ms
100.000%   10.00ms

  Detailed Percentile spectrum:
       Value   Percentile   TotalCount 1/(1-Percentile)

       0.010     0.000000            1         1.00
";
        assert!(text.starts_with(expected_start), "{text}");
        assert!(text.contains("\n      10.002     1.000000         1000          inf\n"), "{text}");
        assert!(text.contains("#[Max     =       10.002, Total count    =         1000]"), "{text}");
        assert!(text.contains("HdrHistogram - Uncorrected Latency (measured without"), "{text}");
        let expected_end = "  1000 requests in 10.00s, 1.91MB read
  Socket errors: connect 0, read 2, write 0, timeout 1
  Non-2xx or 3xx responses: 10
Requests/sec:    100.00
Transfer/sec:    195.31KB
Status codes: 200 990, 503 10
";
        assert!(text.ends_with(expected_end), "{text}");
    }

    #[test]
    fn nothing_measured_is_zeros_and_no_nan() {
        let parts = Parts { latency: true, uncorrected: true, throughput: true };
        let text = results(&Report::default(), parts).unwrap();
        assert!(!text.to_lowercase().contains("nan"), "{text}");
        assert!(text.contains("Requests/sec:      0.00"), "{text}");
    }
}
