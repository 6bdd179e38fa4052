//! Where and how it was measured.
//!
//! Owns: the names and values of the environment, as the report shows them.
//! Driven by: `tables`, `html`, `verdict`.

use super::figures::Report;
use super::words::{date, number, unique};

/// Names and values of the environment.
pub(super) fn environment(report: &Report) -> Vec<(String, String)> {
    let e = &report.environment;
    let mut lines = vec![
        ("processor".to_owned(), format!("{}, {} CPUs", e.processor, e.cpus)),
        ("memory".to_owned(), format!("{} GB", number(e.memory as f64 / f64::from(1 << 30)))),
        ("kernel".to_owned(), e.kernel.clone()),
    ];
    let none = |text: &str| if text.is_empty() { "none seen".to_owned() } else { text.to_owned() };
    lines.push(("virtualisation".to_owned(), none(&e.virtualisation)));
    lines.push(("CPU limit".to_owned(), none(&e.cpu_limit)));
    lines.push((
        "hyper-threading".to_owned(),
        if e.hyper_threading { "on" } else { "off or none" }.to_owned(),
    ));
    lines.extend(e.versions.iter().map(|(name, version)| match e.tls_libraries.get(name) {
        Some(library) => (name.clone(), format!("{version}; TLS by {library}")),
        None => (name.clone(), version.clone()),
    }));
    if !e.commit.is_empty() {
        lines.push(("commit of weir".to_owned(), e.commit.clone()));
    }
    if !e.instructions.is_empty() {
        lines.push(("instructions".to_owned(), e.instructions.clone()));
    }
    if let Some(driver) = report.driver {
        lines.push(("driver of weir".to_owned(), driver.word().to_owned()));
    }
    lines.push(("build of weir".to_owned(), if report.debug_build { "debug" } else { "release" }.to_owned()));
    lines.push(("runs".to_owned(), if report.quick { "quick" } else { "full" }.to_owned()));
    if let Some((first, last)) = report.measured {
        lines.push(("measured".to_owned(), format!("{} to {}", date(first), date(last))));
    }
    let rows = || report.scenarios.iter().flat_map(|c| c.rows.iter());
    let steal = rows().flat_map(|r| r.each.iter().map(|e| e.steal)).fold(0.0, f64::max);
    lines.push(("steal".to_owned(), format!("{}% of CPU time in the worst run", number(steal * 100.0))));
    let tls = unique(rows().filter_map(|r| r.tls.clone()));
    if !tls.is_empty() {
        lines.push(("TLS agreed on".to_owned(), tls.join("; ")));
    }
    lines
}
