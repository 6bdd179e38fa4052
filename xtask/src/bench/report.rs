//! What a run found: on the terminal, as JSON, as a table for the documents.
//!
//! Owns: the verdict on each row, and how it is written.
//! Never: hides a row that fell short or failed.
//! Driven by: `bench::run`.

use super::rows::{CPU_CEILING, MEAN_STRETCH, MEAN_TARGET, Row, counts_for_mean};
use serde_json::{Value, json};
use weir_lab::stats::{Estimate, estimate, geometric_mean, median};

/// The samples of one contender in one row: CPU microseconds a request, or bytes a connection.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    pub(super) name: String,
    pub(super) costs: Vec<f64>,
    /// Requests a second in each run; empty where none are made.
    pub(super) rates: Vec<f64>,
}

impl Samples {
    fn json(&self) -> Value {
        json!({ "name": self.name, "median": median(&self.costs), "costs": self.costs, "rate": median(&self.rates) })
    }
}

/// A row that was measured, or why it was not.
pub(super) struct Finding {
    pub(super) row: &'static Row,
    pub(super) outcome: Result<Measured, String>,
}

pub(super) struct Measured {
    pub(super) weir: Samples,
    pub(super) rivals: Vec<Samples>,
    /// The rival with the lowest median, and the paired ratios to it.
    best: usize,
    pub(super) ratio: Estimate,
}

impl Measured {
    /// Judges `weir` against the best of `rivals`; `None` if there is none.
    pub(super) fn judge(weir: Samples, rivals: Vec<Samples>) -> Option<Self> {
        let cost = |i: &usize| median(&rivals[*i].costs);
        let best = (0..rivals.len()).min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
        let ratios: Vec<f64> = weir.costs.iter().zip(&rivals[best].costs).map(|(w, r)| w / r).collect();
        if ratios.is_empty() {
            return None;
        }
        Some(Self { ratio: estimate(&ratios), weir, rivals, best })
    }

    fn best(&self) -> &Samples {
        &self.rivals[self.best]
    }
}

fn met(ratio: Estimate, target: f64) -> bool {
    ratio.low <= target
}

const HEAD: [&str; 8] = ["work", "Weir", "best rival", "ratio", "95%", "target", "met", "req/s (rival)"];

impl Finding {
    /// The row's cells, in the order of [`HEAD`].
    fn cells(&self) -> [String; 8] {
        let title = self.row.title.to_owned();
        let target = format!("{:.2}", self.row.target);
        match &self.outcome {
            Err(why) => {
                let why = why.lines().next().unwrap_or("failed").chars().take(80).collect();
                [title, why, String::new(), String::new(), String::new(), target, "no".into(), String::new()]
            }
            Ok(m) => {
                let rates = match (median(&m.weir.rates), median(&m.best().rates)) {
                    (0.0, _) => String::new(),
                    (ours, theirs) => format!("{ours:.0} ({theirs:.0})"),
                };
                [
                    title,
                    figure(median(&m.weir.costs)),
                    format!("{} {}", figure(median(&m.best().costs)), m.best().name),
                    format!("{:.2}", m.ratio.median),
                    format!("{:.2}–{:.2}", m.ratio.low, m.ratio.high),
                    target,
                    if met(m.ratio, self.row.target) { "yes".into() } else { "no".into() },
                    rates,
                ]
            }
        }
    }

    /// One line for the terminal.
    pub(super) fn line(&self) -> String {
        pad(&self.cells())
    }

    fn json(&self) -> Value {
        let row = self.row;
        let mut value =
            json!({ "id": row.id, "work": row.title, "target": row.target, "stretch": row.stretch });
        match &self.outcome {
            Err(why) => value["error"] = json!(why),
            Ok(m) => {
                value["weir"] = m.weir.json();
                value["rivals"] = m.rivals.iter().map(Samples::json).collect();
                value["best"] = json!(m.best().name);
                value["ratio"] =
                    json!({ "median": m.ratio.median, "low": m.ratio.low, "high": m.ratio.high });
                value["met"] = json!(met(m.ratio, row.target));
            }
        }
        value
    }
}

/// Small figures with a decimal, large ones without.
fn figure(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

const WIDTHS: [usize; 8] = [32, 9, 18, 7, 12, 8, 5, 18];

fn pad<S: AsRef<str>>(cells: &[S]) -> String {
    let padded = cells.iter().zip(WIDTHS).map(|(c, w)| {
        let gap = w.saturating_sub(c.as_ref().chars().count()).max(1);
        format!("{}{}", c.as_ref(), " ".repeat(gap))
    });
    padded.collect::<String>().trim_end().to_owned()
}

/// The table's head, for the terminal.
pub(super) fn head() -> String {
    format!(
        "{}\n{}",
        pad(&HEAD),
        "CPU microseconds a request of the server; bytes a connection where it is idle"
    )
}

/// The last lines: geometric mean, ceiling, and what fell short.
pub(super) fn summary(findings: &[Finding]) -> String {
    let ratios: Vec<f64> = cpu_ratios(findings).map(|(_, e)| e.median).collect();
    let mean = geometric_mean(&ratios).map_or("none".into(), |m| {
        let verdict = if m <= MEAN_TARGET { "met" } else { "missed" };
        format!("{m:.3} over {} rows (target {MEAN_TARGET} {verdict}, stretch {MEAN_STRETCH})", ratios.len())
    });
    let above = names(cpu_ratios(findings).filter(|(_, e)| e.low > CPU_CEILING).map(|(f, _)| f));
    let short =
        names(findings.iter().filter(|f| !f.outcome.as_ref().is_ok_and(|m| met(m.ratio, f.row.target))));
    format!(
        "geometric mean of the CPU ratios: {mean}\nCPU rows above {CPU_CEILING:.2}: {above}\nrows that fall short: {short}"
    )
}

fn cpu_ratios(findings: &[Finding]) -> impl Iterator<Item = (&Finding, Estimate)> {
    findings
        .iter()
        .filter(|f| counts_for_mean(f.row))
        .filter_map(|f| Some((f, f.outcome.as_ref().ok()?.ratio)))
}

fn names<'a>(findings: impl Iterator<Item = &'a Finding>) -> String {
    let names: Vec<&str> = findings.map(|f| f.row.title).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// The whole run as one JSON record.
pub(super) fn record(environment: &Value, findings: &[Finding], notes: &[String]) -> Value {
    let ratios: Vec<f64> = cpu_ratios(findings).map(|(_, e)| e.median).collect();
    json!({
        "environment": environment,
        "rows": findings.iter().map(Finding::json).collect::<Vec<_>>(),
        "notes": notes,
        "geometric_mean": geometric_mean(&ratios),
    })
}

/// The run as Markdown: environment, table, summary, notes.
pub(super) fn markdown(environment: &Value, findings: &[Finding], notes: &[String]) -> String {
    let mut out = String::new();
    for (key, value) in environment.as_object().into_iter().flatten() {
        out += &format!("- {key}: {}\n", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    out += &format!("\n| {} |\n|{}\n", HEAD.join(" | "), "---|".repeat(HEAD.len()));
    for finding in findings {
        out += &format!("| {} |\n", finding.cells().map(|c| c.replace('|', "/")).join(" | "));
    }
    for line in summary(findings).lines().chain(notes.iter().map(String::as_str)) {
        out += &format!("\n{line}\n");
    }
    out
}

const BEGIN: &str = "<!-- bench:begin -->";
const END: &str = "<!-- bench:end -->";

/// `document` with `table` between its two marks; `None` if it has none.
pub(super) fn spliced(document: &str, table: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", table.trim()))
}

#[cfg(test)]
mod tests {
    use super::super::rows::ROWS;
    use super::*;

    fn samples(name: &str, costs: &[f64]) -> Samples {
        Samples { name: name.into(), costs: costs.to_vec(), rates: vec![1000.0] }
    }

    fn finding() -> Finding {
        let rivals = vec![samples("slow", &[20.0; 3]), samples("fast", &[10.0; 3])];
        Finding {
            row: &ROWS[0],
            outcome: Measured::judge(samples("weir", &[5.0, 6.0, 7.0]), rivals).ok_or("none".into()),
        }
    }

    #[test]
    fn the_best_rival_is_the_measure() {
        let finding = finding();
        let m = finding.outcome.as_ref().unwrap();
        assert_eq!((m.best().name.as_str(), m.ratio.median), ("fast", 0.6));
        assert!(finding.line().contains("yes"));
        assert!(summary(&[finding]).contains("0.600 over 1 rows"));
    }

    #[test]
    fn a_failed_row_falls_short_and_is_shown() {
        let failed = Finding { row: &ROWS[1], outcome: Err("it did not start".into()) };
        assert!(failed.line().contains("it did not start"));
        assert!(summary(&[failed]).contains("fall short: static 1 KB"));
    }

    #[test]
    fn documents_take_the_table_between_their_marks() {
        let document = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let new = spliced(&document, "new").unwrap();
        assert!(
            new.contains("new") && !new.contains("old") && new.starts_with("a\n") && new.ends_with("b\n")
        );
        assert!(spliced("no marks", "new").is_none());
    }
}
