//! What must hold for any bytes of a server under test, and of a leader or an agent.
//!
//! Owns: the properties. Never: makes inputs; `cargo xtask fuzz` does.

use crate::answer;
use crate::dial::ConnectTo;
use crate::report::Report;
use crate::target::Target as Url;
use crate::verdict::Condition;
use crate::{prometheus, targets, text, units};

/// A target: a function that panics where a property does not hold.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("load_agent", crate::agent::fuzz),
    ("load_answer", answer::fuzz),
    ("load_url", url),
    ("load_report", report),
];

/// An URL, files of them, and the numbers, conditions, rules and labels of the command line.
fn url(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = Url::parse(&text);
    let _ = targets::parse(&text, &mut |_| Ok(Vec::new()));
    if let Ok(rule) = text.parse::<ConnectTo>() {
        assert_eq!(rule.to_string().parse(), Ok(rule), "a rule that was read is written as one");
    }
    let _ = prometheus::label(&text);
    let _ = (units::count(&text), units::rate(&text), units::size(&text), units::share(&text));
    if let Ok(condition) = Condition::parse(&text) {
        let _ = condition.failures(&Report::default());
    }
    if let Ok(time) = units::time(&text) {
        let _ = units::whole_seconds(time.as_secs_f64());
    }
}

/// A report of another run, on disk: what can be read can be shown.
fn report(data: &[u8]) {
    let Ok(report) = Report::from_json(&String::from_utf8_lossy(data)) else { return };
    let parts = text::Parts { latency: true, uncorrected: true, throughput: true };
    let _ = text::results(&report, parts);
    let _ = report.total.latency.merged(&report.total.latency);
    let _ = Report::from_json(&report.to_json());
}
