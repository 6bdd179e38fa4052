//! What a run of the lab says: medians with intervals, ratios, knees, findings.
//!
//! Owns: reading the results, and writing the four files that tell them.
//! Never: measures; rounds before it prints; leaves out a failure.
//! Driven by: `weir lab report`; `merge` and `size` read the same figures.
//! Why: JSON, CSV, Markdown and HTML are written from one value, so they cannot disagree.

mod chapter;
mod courses;
mod environment;
mod figures;
mod findings;
pub mod guide;
mod html;
pub mod knee;
pub mod limit;
mod plot;
mod plots;
pub mod published;
pub mod run_page;
mod statements;
mod table;
mod tables;
pub mod verdict;
mod words;

pub use figures::{
    Against, Beginning, Chapter, Each, Judged, KneeOf, Mean, Missing, Report, Row, Unit, Verdict, Waiting,
};
pub use words::date;
pub(crate) use words::number;

use crate::prices::Prices;
use crate::results::{Results, Settings, write};
use anyhow::Result;
use std::path::Path;

/// Reads the results in `dir` and writes `report.json`, `report.csv`, `report.md` and `report.html` there.
///
/// # Errors
/// There are no results, or files cannot be read or written.
pub fn make(dir: &Path, prices: &Prices) -> Result<Report> {
    let report = read(dir)?;
    write(&dir.join("report.json"), &serde_json::to_string_pretty(&report)?)?;
    write(&dir.join("report.csv"), &tables::csv(&report))?;
    write(&dir.join("report.md"), &tables::markdown(&report, prices))?;
    write(&dir.join("report.html"), &html::page(&report, prices))?;
    Ok(report)
}

/// The report of the results in `dir`; writes nothing.
///
/// # Errors
/// There are no results, or they cannot be read.
pub fn read(dir: &Path) -> Result<Report> {
    let (results, settings) = Results::read(dir)?;
    let mut span = None;
    let chapters = results
        .scenarios(settings.quick)?
        .iter()
        .map(|scenario| chapter::of(&results, scenario, &settings, &mut span))
        .collect::<Result<_>>()?;
    let Settings { schema, quick, debug_build, driver, environment, .. } = settings;
    Ok(Report { schema, quick, debug_build, driver, measured: span, environment, scenarios: chapters })
}
