//! `weir lab …`: the command line of the laboratory.
//!
//! Owns: its words, and how much it says.
//! Never: measures; `weir_lab` does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use weir_lab::cluster::Address;
use weir_lab::prices::Prices;
use weir_lab::report;
use weir_lab::run::{self, Options};
use weir_lab::scenario::{Scenario, Who};
use weir_lab::servers::Ports;

pub(super) const HELP: &str = "\
Examples:
  weir lab list                       the scenarios that come along, and how long they take
  weir lab run --quick B8             minutes instead of hours
  weir lab run --out results all      everything; Ctrl-C stops it, the same command goes on
  weir lab run mine.yaml              a scenario of your own (docs/lab.md)
  weir lab report results             report.html, report.md, report.csv, report.json";

/// Where results go, unless told.
const OUT: &str = "weir-lab";

/// Repeat published benchmarks on this machine.
#[derive(Args)]
pub(super) struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the scenarios that come along, and how long they take.
    List,
    /// Measure scenarios: Weir beside the nginx and haproxy of this machine.
    Run(Run),
    /// Sum up what was measured: HTML, Markdown, CSV and JSON in the same folder.
    Report {
        /// The folder of results.
        #[arg(value_name = "DIR", default_value = OUT)]
        dir: PathBuf,
        /// Prices of your own for the price column (`weir lab size --show-prices` prints the form).
        #[arg(long, value_name = "FILE")]
        prices: Option<PathBuf>,
    },
}

#[derive(Args)]
struct Run {
    /// Scenarios: names that `weir lab list` shows, files, or `all`.
    #[arg(value_name = "SCENARIO", required = true)]
    scenarios: Vec<String>,
    /// Short runs: a look, not a verdict.
    #[arg(long)]
    quick: bool,
    /// Where results go; what is there already is not measured again.
    #[arg(long, value_name = "DIR", default_value = OUT)]
    out: PathBuf,
    /// The weir to measure, instead of this program; it is the generator too.
    #[arg(long, value_name = "PROGRAM")]
    weir: Option<PathBuf>,
    /// The nginx to compare with, instead of the one on PATH.
    #[arg(long, value_name = "PROGRAM")]
    nginx: Option<PathBuf>,
    /// The haproxy to compare with, instead of the one on PATH.
    #[arg(long, value_name = "PROGRAM")]
    haproxy: Option<PathBuf>,
    /// Leave a contender out; may be repeated.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    without: Vec<Rival>,
    /// The first port that servers listen on; the next ones follow [default: whatever is free]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Where an ingress controller answers, if its Ingress does not say: NAME=HOST[:HTTP[:HTTPS]]; may be repeated (B7).
    #[arg(long, value_name = "WHERE", value_delimiter = ',')]
    ingress: Vec<String>,
}

fn ingress(word: &str) -> Result<(Who, Address), anyhow::Error> {
    let (name, address) = word.split_once('=').context("--ingress NAME=HOST[:HTTP[:HTTPS]]")?;
    let known = [Who::Weir, Who::Nginx, Who::Haproxy].into_iter().find(|who| who.name() == name);
    let who = known.with_context(|| format!("--ingress {name}: there are weir, nginx and haproxy"))?;
    Ok((who, Address::parse(address).context("--ingress")?))
}

#[derive(Clone, Copy, ValueEnum)]
enum Rival {
    Nginx,
    Haproxy,
    Direct,
}

/// Obeys: exit 0 if everything was measured.
pub(super) fn run(lab: Lab) -> ExitCode {
    let done = match lab.command {
        Command::List => list(),
        Command::Run(words) => measure(words),
        Command::Report { dir, prices } => sum_up(&dir, prices.as_deref()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("weir lab: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn sum_up(dir: &Path, prices: Option<&Path>) -> Result<(), anyhow::Error> {
    let made = report::make(dir, &Prices::read(prices)?)?;
    for (id, finding) in made.scenarios.iter().flat_map(|c| c.findings.iter().map(move |f| (&c.id, f))) {
        println!("{id}: {finding}");
    }
    println!("written: {}", dir.join("report.{html,md,csv,json}").display());
    Ok(())
}

fn list() -> Result<(), anyhow::Error> {
    let cpus = weir_lab::machine::cpus()?.len();
    for scenario in Scenario::built_in()? {
        println!(
            "{:<8}{}\n        {} quick, {} in full on {cpus} CPUs",
            scenario.id,
            scenario.title,
            weir_lab::time(scenario.seconds(true, cpus)),
            weir_lab::time(scenario.seconds(false, cpus))
        );
    }
    Ok(())
}

fn measure(words: Run) -> Result<(), anyhow::Error> {
    let told = [(Who::Nginx, words.nginx), (Who::Haproxy, words.haproxy)];
    let programs: BTreeMap<Who, PathBuf> =
        told.into_iter().filter_map(|(who, path)| Some((who, path?))).collect();
    let out = words.out.clone();
    run::run(Options {
        scenarios: Scenario::choose(&words.scenarios)?,
        quick: words.quick,
        out: words.out,
        weir: match words.weir {
            Some(path) => path.canonicalize().with_context(|| format!("--weir {}", path.display()))?,
            None => std::env::current_exe()?,
        },
        programs,
        without: words
            .without
            .iter()
            .map(|rival| match rival {
                Rival::Nginx => Who::Nginx,
                Rival::Haproxy => Who::Haproxy,
                Rival::Direct => Who::Direct,
            })
            .collect(),
        ports: words.port.map_or(Ports::Any, Ports::From),
        ingresses: words.ingress.iter().map(|word| ingress(word)).collect::<Result<_, _>>()?,
    })?;
    println!("next: weir lab report {}", out.display());
    Ok(())
}
