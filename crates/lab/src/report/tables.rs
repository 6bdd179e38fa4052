//! The report as CSV and as Markdown.
//!
//! Owns: the columns of both.
//! Never: rounds in CSV.
//! Driven by: `report`.

use super::{Chapter, Report, Row, number, with_interval};
use std::fmt::Write;

/// One line a row, figures in full.
pub(super) fn csv(report: &Report) -> String {
    let mut out = String::from(
        "scenario,mode,keepalive,bytes,workers,contender,runs,requests,rate,rate_low,rate_high,gbit_s,mean_us,p50_us,p95_us,\
         p99_us,p99_low,p99_high,cpu_us,cpu_low,cpu_high,switches,memory_peak,errors,bad_status,shared_cpus,weir_over_this,doubts\n",
    );
    for (chapter, row) in report.scenarios.iter().flat_map(|c| c.rows.iter().map(move |r| (c, r))) {
        let doubts: Vec<&str> = row.doubts.keys().map(String::as_str).collect();
        let ratio = row.weir_over_this.map_or_else(String::new, |r| r.median.to_string());
        let _ = writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{ratio},{}",
            chapter.id,
            row.point.mode.name(),
            row.point.keepalive,
            row.bytes,
            row.point.workers,
            row.contender.name(),
            row.runs,
            row.requests,
            row.rate.median,
            row.rate.low,
            row.rate.high,
            row.gbit_s,
            row.mean_us.median,
            row.p50_us.median,
            row.p95_us.median,
            row.p99_us.median,
            row.p99_us.low,
            row.p99_us.high,
            row.cpu_us.median,
            row.cpu_us.low,
            row.cpu_us.high,
            row.switches,
            row.memory_peak,
            row.errors,
            row.bad_status,
            row.shared_cpus,
            doubts.join(" ")
        );
    }
    out
}

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
    lines.extend(e.versions.iter().map(|(name, version)| (name.clone(), version.clone())));
    lines.push(("runs".to_owned(), if report.quick { "quick" } else { "full" }.to_owned()));
    lines
}

/// The head of the table of rows.
pub(super) const HEAD: [&str; 12] = [
    "mode",
    "connections",
    "size",
    "workers",
    "contender",
    "requests/s",
    "p50 ms",
    "p99 ms",
    "CPU µs/request",
    "memory MB",
    "errors",
    "Weir ÷ this",
];

/// The cells of a row.
pub(super) fn cells(row: &Row) -> [String; 12] {
    let marks = [(row.shared_cpus, " ¹"), (!row.doubts.is_empty(), " ²")];
    let marks: String = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
    [
        row.point.mode.title().to_owned(),
        if row.point.keepalive { "kept" } else { "one a request" }.to_owned(),
        row.point.size.clone(),
        row.point.workers.to_string(),
        row.contender.name().to_owned(),
        with_interval(&row.rate, 1.0) + &marks,
        with_interval(&row.p50_us, 1e-3),
        with_interval(&row.p99_us, 1e-3),
        with_interval(&row.cpu_us, 1.0),
        number(row.memory_peak as f64 / f64::from(1 << 20)),
        number((row.errors + row.bad_status) as f64),
        row.weir_over_this.map_or_else(String::new, |r| with_interval(&r, 1.0)),
    ]
}

/// What the marks mean, and how figures are made.
pub(super) fn legend(chapter: &Chapter) -> String {
    format!(
        "Medians of {} runs of {} s, in brackets the 95% interval of the bootstrap. Errors are failed and timed-out requests and \
         answers of 400 and above. ¹ The generator shared the server's CPUs. ² The generator warned that the figures are to be \
         doubted; report.json says of what.",
        chapter.runs, chapter.seconds
    )
}

/// For READMEs.
pub(super) fn markdown(report: &Report) -> String {
    let mut out = String::from("# weir lab\n\n");
    for (name, value) in environment(report) {
        let _ = writeln!(out, "- {name}: {value}");
    }
    for chapter in &report.scenarios {
        let _ = writeln!(out, "\n## {}: {}\n\n{}\n", chapter.id, chapter.title, chapter.about);
        for finding in &chapter.findings {
            let _ = writeln!(out, "- {finding}");
        }
        let _ = writeln!(out, "\n| {} |\n|{}", HEAD.join(" | "), "---|".repeat(HEAD.len()));
        for row in &chapter.rows {
            let _ = writeln!(out, "| {} |", cells(row).join(" | "));
        }
        let _ = writeln!(out, "\n{}", legend(chapter));
        for missing in &chapter.missing {
            let who = missing.contender.map_or("everybody", |w| w.name());
            let why = missing.why.replace(['\n', '\r'], " ");
            let _ = writeln!(out, "\n- without figures: {} at {}: {why}", who, missing.point.name());
        }
    }
    out
}
