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
use weir_lab::contender::{Contender, Driver, Rival};
use weir_lab::prices::{self, Prices};
use weir_lab::report::{self, guide, verdict};
use weir_lab::run::{self, Options};
use weir_lab::scenario::{Mode, Scenario, bytes};
use weir_lab::scope::Scope;
use weir_lab::servers::Ports;
use weir_lab::size::{self, Demand};

use super::values::IoWord;

pub(super) const HELP: &str = "\
Examples:
  weir lab list                       the scenarios that come along, and how long they take
  weir lab run --quick B8             minutes instead of hours: figures, and no verdict
  weir lab run --verdict B8           nine short rounds, which tell a difference from noise
  weir lab run --out results all      everything; Ctrl-C stops it, the same command goes on
  weir lab run mine.yaml              a scenario of your own (docs/lab.md)
  weir lab list packed                its points
  weir lab run --points proxy,static-1k --runs 5 --rival old=weir:/tmp/weir packed
                                      some points, beside another build too
  weir lab report results             report.html, report.md, report.csv, report.json
  weir lab merge --out guide metal=r1 vm=r2    one sizing guide of several machines
  weir lab size --rps 200000 --tps 5000 --page 10k    cores and machines for a load, from what was measured";

/// Runs of `--verdict`.
const VERDICT_RUNS: u32 = verdict::PAIRS;

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
    /// Show the scenarios that come along, and how long they take; or the points of one.
    List {
        /// The scenario whose points are shown: a name, or a file.
        #[arg(value_name = "SCENARIO")]
        scenario: Option<String>,
    },
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
    /// Join the results of several machines into one sizing guide.
    Merge(Merge),
    /// Say how many cores, and which machines, a load needs: from measured curves.
    Size(Size),
}

#[derive(Args)]
struct Merge {
    /// Folders of results, or of guides. NAME=DIR names the machine; else it is what it looks like: bare metal, hypervisor.
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<String>,
    /// Where guide.html, guide.md, guide.csv and guide.json go.
    #[arg(long, value_name = "DIR", default_value = "weir-lab-guide")]
    out: PathBuf,
    /// Prices of your own (`weir lab size --show-prices` prints the form).
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

#[derive(Args)]
struct Size {
    /// Requests a second: 200000, 200k, 1.5M.
    #[arg(long, value_name = "RATE", value_parser = size::number_of, default_value = "0", hide_default_value = true)]
    rps: f64,
    /// New TLS connections a second, each with a full handshake.
    #[arg(long, value_name = "RATE", value_parser = size::number_of, default_value = "0", hide_default_value = true)]
    tps: f64,
    /// The page: 128, 10k, 1m.
    #[arg(long, value_name = "SIZE", default_value = "1k")]
    page: String,
    /// What requests are [default: https with --tps, else http]
    #[arg(long, value_name = "MODE")]
    mode: Option<Serves>,
    /// Percent of the CPUs that is to stay free.
    #[arg(long, value_name = "PERCENT", default_value_t = 30.0)]
    headroom: f64,
    /// The folder of results, or of a merged guide.
    #[arg(long, value_name = "DIR", default_value = OUT)]
    from: PathBuf,
    /// Prices of your own.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Print the list of prices that comes along, to be edited, and do nothing else.
    #[arg(long)]
    show_prices: bool,
    /// Print the answers as JSON.
    #[arg(long)]
    json: bool,
}

/// Work whose requests can be sized.
#[derive(Clone, Copy, ValueEnum)]
enum Serves {
    /// A reverse proxy of HTTP.
    Http,
    /// A reverse proxy that ends TLS.
    Https,
    /// A web server over HTTP.
    FilesHttp,
    /// A web server over HTTPS.
    FilesHttps,
    /// TCP pass-through of HTTP.
    TcpHttp,
    /// TCP pass-through of HTTPS.
    TcpHttps,
}

impl From<Serves> for Mode {
    fn from(serves: Serves) -> Self {
        match serves {
            Serves::Http => Self::Http,
            Serves::Https => Self::Https,
            Serves::FilesHttp => Self::FilesHttp,
            Serves::FilesHttps => Self::FilesHttps,
            Serves::TcpHttp => Self::TcpHttp,
            Serves::TcpHttps => Self::TcpHttps,
        }
    }
}

#[derive(Args)]
struct Run {
    /// Scenarios: names that `weir lab list` shows, files, or `all`.
    #[arg(value_name = "SCENARIO", required = true)]
    scenarios: Vec<String>,
    /// Few short runs: figures and ratios, and no verdict on any difference.
    #[arg(long)]
    quick: bool,
    /// Nine short runs: enough to tell a difference from noise.
    #[arg(long, conflicts_with_all = ["quick", "runs", "seconds"])]
    verdict: bool,
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
    /// A further rival: NAME=KIND:PROGRAM, KIND is nginx, haproxy or weir (another build); may be repeated.
    #[arg(
        long = "rival",
        value_name = "NAME=KIND:PROGRAM",
        value_delimiter = ',',
        env = "WEIR_RIVALS",
        hide_env_values = true
    )]
    rivals: Vec<String>,
    /// Leave a contender out; may be repeated.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    without: Vec<Left>,
    /// Only points whose name begins with one of these (`weir lab list SCENARIO` shows them).
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    points: Vec<String>,
    /// Runs of each contender at each point, instead of what the scenario says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Measured seconds of each run, instead of what the scenario says.
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// How the Weir that is measured drives its sockets (its epoll rows are epoll's anyway).
    #[arg(long, value_name = "DRIVER", value_enum)]
    io: Option<IoWord>,
    /// Count no instructions where the scenario asks for it: callgrind takes its time.
    #[arg(long)]
    no_instructions: bool,
    /// The first port that servers listen on; the next ones follow [default: whatever is free]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Where an ingress controller answers, if its Ingress does not say: NAME=HOST:HTTP:HTTPS, ports may be left out; may be repeated (B7).
    #[arg(long, value_name = "WHERE", value_delimiter = ',')]
    ingress: Vec<String>,
}

fn ingress(word: &str) -> Result<(Contender, Address), anyhow::Error> {
    let (name, address) = word.split_once('=').context("--ingress NAME=HOST[:HTTP[:HTTPS]]")?;
    let known =
        [Contender::Weir, Contender::Nginx, Contender::Haproxy].into_iter().find(|who| who.name() == name);
    let who = known.with_context(|| format!("--ingress {name}: there are weir, nginx and haproxy"))?;
    Ok((who, Address::parse(address).context("--ingress")?))
}

#[derive(Clone, Copy, ValueEnum)]
enum Left {
    Nginx,
    Haproxy,
    Direct,
}

impl From<Left> for Contender {
    fn from(left: Left) -> Self {
        match left {
            Left::Nginx => Self::Nginx,
            Left::Haproxy => Self::Haproxy,
            Left::Direct => Self::Direct,
        }
    }
}

/// Obeys: exit 0 if everything was measured.
pub(super) fn run(lab: Lab) -> ExitCode {
    let done = match lab.command {
        Command::List { scenario: None } => list(),
        Command::List { scenario: Some(word) } => points(&word),
        Command::Run(words) => measure(words),
        Command::Report { dir, prices } => sum_up(&dir, prices.as_deref()),
        Command::Merge(words) => merge(&words),
        Command::Size(words) => size(&words),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            errln!("weir lab: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn sum_up(dir: &Path, prices: Option<&Path>) -> Result<(), anyhow::Error> {
    let made = report::make(dir, &Prices::read(prices)?)?;
    out!("{}", verdict::text(&made));
    for (id, finding) in made.scenarios.iter().flat_map(|c| c.findings.iter().map(move |f| (&c.id, f))) {
        outln!("{id}: {finding}");
    }
    outln!("written: {}", dir.join("report.{html,md,csv,json}").display());
    Ok(())
}

fn merge(words: &Merge) -> Result<(), anyhow::Error> {
    let guide = guide::merge(&words.folders, &words.out, &Prices::read(words.prices.as_deref())?)?;
    for conflict in &guide.conflicts {
        errln!("weir lab: conflict: {conflict}");
    }
    outln!("written: {}", words.out.join("guide.{html,md,csv,json}").display());
    Ok(())
}

fn size(words: &Size) -> Result<(), anyhow::Error> {
    if words.show_prices {
        out!("{}", prices::DEFAULT);
        return Ok(());
    }
    let prices = Prices::read(words.prices.as_deref())?;
    let demand = Demand {
        rps: words.rps,
        tps: words.tps,
        page: bytes(&words.page)?,
        mode: words.mode.map(Mode::from),
        headroom: words.headroom / 100.0,
    };
    let answers = size::answers(&words.from, &demand, &prices)?;
    if words.json {
        outln!("{}", serde_json::to_string_pretty(&answers)?);
    } else {
        out!("{}", size::told(&demand, &answers, &prices));
    }
    Ok(())
}

fn list() -> Result<(), anyhow::Error> {
    let cpus = weir_lab::machine::cpus()?.len();
    for scenario in Scenario::built_in()? {
        outln!(
            "{:<8}{}\n        {} quick, {} in full on {cpus} CPUs",
            scenario.id,
            scenario.title,
            weir_lab::time(scenario.seconds(true, cpus)),
            weir_lab::time(scenario.seconds(false, cpus))
        );
    }
    Ok(())
}

/// The points of a scenario: those that have names by these, the others by their folders'.
fn points(word: &str) -> Result<(), anyhow::Error> {
    for scenario in Scenario::choose(&[word.to_owned()])? {
        let goals = scenario.goals(false);
        for goal in &goals {
            outln!("{:<20}{}", goal.id, goal.title);
        }
        let unnamed = |point: &weir_lab::scenario::Point| goals.iter().all(|g| g.point != *point);
        for point in scenario.points(false).into_iter().filter(unnamed) {
            outln!("{}", point.name());
        }
    }
    Ok(())
}

fn measure(words: Run) -> Result<(), anyhow::Error> {
    let told = [(Contender::Nginx, words.nginx), (Contender::Haproxy, words.haproxy)];
    let programs: BTreeMap<Contender, PathBuf> =
        told.into_iter().filter_map(|(who, path)| Some((who, path?))).collect();
    let out = words.out.clone();
    let rivals = words.rivals.iter().filter(|word| !word.is_empty());
    let failures = run::run(Options {
        scenarios: Scenario::choose(&words.scenarios)?,
        quick: words.quick || words.verdict,
        scope: Scope {
            points: words.points,
            runs: words.verdict.then_some(VERDICT_RUNS).or(words.runs),
            seconds: words.seconds,
        },
        out: words.out,
        weir: match words.weir {
            Some(path) => path.canonicalize().with_context(|| format!("--weir {}", path.display()))?,
            None => std::env::current_exe()?,
        },
        programs,
        rivals: rivals.map(|word| Rival::parse(word)).collect::<Result<_, _>>()?,
        without: words.without.into_iter().map(Contender::from).collect(),
        driver: words.io.map(Driver::from),
        instructions: !words.no_instructions,
        ports: words.port.map_or(Ports::Any, Ports::From),
        ingresses: words.ingress.iter().map(|word| ingress(word)).collect::<Result<_, _>>()?,
    })?;
    out!("{}", verdict::text(&report::read(&out)?));
    anyhow::ensure!(
        failures == 0,
        "{failures} contenders failed, as told above; run again, and only they are measured"
    );
    outln!("next: weir lab report {}", out.display());
    Ok(())
}
