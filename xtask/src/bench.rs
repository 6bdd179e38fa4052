//! Weir's CPU per request beside its rivals': the lab's scenario of this project's targets, with a Weir built for it.
//!
//! Owns: which build is measured, where results go, the table in docs/performance.md.
//! Never: measures or judges (`weir_lab` does); is a timed test: nothing fails because a machine is slow.
//! Driven by: `make bench`.

use crate::{build, dist};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weir_lab::contender::{Driver, Rival};
use weir_lab::prices::Prices;
use weir_lab::report::{self, verdict};
use weir_lab::run;
use weir_lab::scenario::Scenario;
use weir_lab::scope::Scope;
use weir_lab::servers::Ports;

/// The scenario.
const SCENARIO: &str = "packed";

/// How the benchmark runs.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only rows whose id begins with one of these (`static`, `proxy-1k`, …), separated by commas
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Three pairs of a second, fewer idle connections and sites: a look, not a verdict
    #[arg(long)]
    quick: bool,
    /// Pairs a row, instead of what the scenario says
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Whole seconds of each measurement, instead of what the scenario says
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
    /// A `weir` that is built already; otherwise one is built as `make dist` does
    #[arg(long)]
    weir: Option<PathBuf>,
    /// A further rival, NAME=KIND:PROGRAM; KIND is nginx, haproxy, or weir for another build
    #[arg(long = "rival", value_delimiter = ',', env = "WEIR_RIVALS")]
    rivals: Vec<String>,
    /// The driver of the rows that are not epoll's own
    #[arg(long, value_enum, default_value = "uring")]
    io: Io,
    /// Where results go; a folder of a run that was stopped goes on [default: a new one in .bench]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Writes the table into docs/performance.md, between its marks
    #[arg(long)]
    docs: bool,
    /// Lists the rows and ends
    #[arg(long)]
    list: bool,
}

/// The words of `--io`.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Io {
    Auto,
    Uring,
    Epoll,
}

impl From<Io> for Driver {
    fn from(io: Io) -> Self {
        match io {
            Io::Auto => Self::Auto,
            Io::Uring => Self::Uring,
            Io::Epoll => Self::Epoll,
        }
    }
}

/// Measures the rows asked for, prints and writes what came of them.
pub(crate) fn run(options: &Options) -> Result<()> {
    let scenarios = Scenario::choose(&[SCENARIO.to_owned()])?;
    if options.list {
        for goal in scenarios.iter().flat_map(|s| s.goals(false)) {
            println!("{:<20}{}", goal.id, goal.title);
        }
        return Ok(());
    }
    let rivals = options.rivals.iter().filter(|word| !word.is_empty());
    let rivals = rivals.map(|word| Rival::parse(word)).collect::<Result<Vec<_>>>()?;
    let weir = match &options.weir {
        Some(path) => path.canonicalize().with_context(|| path.display().to_string())?,
        None => dist::weir()?,
    };
    let out = match &options.out {
        Some(out) => out.clone(),
        None => build::root().join(".bench").join(stamp()?),
    };
    let failures = run::run(run::Options {
        scenarios,
        quick: options.quick,
        scope: Scope {
            points: options.rows.clone(),
            runs: options.runs,
            seconds: options.seconds.map(f64::from),
        },
        out: out.clone(),
        weir,
        programs: BTreeMap::new(),
        rivals,
        without: Vec::new(),
        driver: Some(options.io.into()),
        // `weir lab run packed` counts them.
        instructions: false,
        ports: Ports::Any,
        ingresses: BTreeMap::new(),
    })?;
    let made = report::make(&out, &Prices::read(None)?)?;
    print!("{}", verdict::text(&made));
    println!("\nwritten: {}", out.join("report.{html,md,csv,json}").display());
    if options.out.is_none() {
        point_to(&out)?;
    }
    if options.docs {
        let path = build::root().join("docs/performance.md");
        let document = std::fs::read_to_string(&path).context("docs/performance.md")?;
        let new = spliced(&document, "bench", &verdict::markdown(&made));
        std::fs::write(path, new.context("docs/performance.md has no marks for the table")?)?;
    }
    ensure!(failures == 0, "{failures} contenders failed, as told above");
    Ok(())
}

/// The name of a new folder: the time.
fn stamp() -> Result<String> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let told = report::date(since.as_secs_f64());
    Ok(format!("{}-{:02}", told.replace(" UTC", "").replace(':', "").replace(' ', "T"), since.as_secs() % 60))
}

/// `.bench/latest` is the last run's folder.
fn point_to(out: &Path) -> Result<()> {
    let link = build::root().join(".bench/latest");
    if link.symlink_metadata().is_ok() {
        std::fs::remove_file(&link).with_context(|| link.display().to_string())?;
    }
    let name = out.file_name().context("a folder has a name")?;
    std::os::unix::fs::symlink(name, &link).with_context(|| link.display().to_string())
}

/// `document` with `table` between the two marks of this name; `None` if it has none.
pub(crate) fn spliced(document: &str, name: &str, table: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {name}:begin -->"), format!("<!-- {name}:end -->"));
    let (before, rest) = document.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n\n{}\n\n{end}{after}", table.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_take_the_table_between_their_marks() {
        let document = "a\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nb\n";
        let new = spliced(document, "bench", "new").unwrap();
        assert!(
            new.contains("new") && !new.contains("old") && new.starts_with("a\n") && new.ends_with("b\n")
        );
        assert!(spliced("no marks", "bench", "new").is_none());
        let real = std::fs::read_to_string(build::root().join("docs/performance.md")).unwrap();
        for name in ["bench", "count"] {
            assert!(spliced(&real, name, "new").is_some(), "docs/performance.md has its marks");
        }
    }
}
