//! User instructions per request, counted by callgrind.
//!
//! Owns: the rows, the run of the server under valgrind, the budgets, the table in docs/performance.md.
//! Never: measures time: a counted program runs fifty times slower, and its count is the same on any machine.
//! Driven by: `cargo xtask count`, `make count`.
//! Why the build of the tests by default: a count of it is half as large again as that of the build that is released, and
//! goes up and down with it, at no further cost in building. Why at all: what is left to win is user code spread over many places, and CPU time on a shared machine hides a difference of
//! less than 15%. A count shows ten instructions, so a budget can hold later work to what was reached.

mod phases;
mod profile;
mod traffic;

use crate::{build, deps, dist, listening};
use anyhow::{Context, Result, bail, ensure};
use phases::Phases;
use profile::Profile;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use traffic::{Origin, get};
use weir_testkit::process::UnixSignal;
use weir_testkit::{Deadline, Port, Process};

/// What is counted.
const ROWS: [Row; 6] = [
    Row { name: "static 1 KB", listener: Listener::Plain, path: "/1k" },
    Row { name: "static 1 KB, logged", listener: Listener::Logged, path: "/1k" },
    Row { name: "proxied 1 KB", listener: Listener::Plain, path: "/api/1k" },
    Row { name: "proxied 1 KB, logged", listener: Listener::Logged, path: "/api/1k" },
    Row { name: ONE_SITE, listener: Listener::OneSite, path: "/e/1k" },
    Row { name: MANY_SITES, listener: Listener::ManySites, path: "/e/1k" },
];

const ONE_SITE: &str = "one site of 10 locations";
const MANY_SITES: &str = "1,000 sites of 10 locations";

/// A request to one of many sites may cost so much more than to the only one, in percent: the goal is 5, and counts of one
/// program move by one from run to run.
const SITES_SLACK: u64 = 6;

/// How many sites are many: a file of ten thousand is read for a minute under valgrind, and its table is no other.
const SITES: u32 = 1000;

struct Row {
    name: &'static str,
    listener: Listener,
    path: &'static str,
}

/// Listeners of the server that is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listener {
    /// One site, of files and a proxied location.
    Plain,
    /// The same with an access log.
    Logged,
    /// One site of ten locations.
    OneSite,
    /// Many of them; requests go to each in turn.
    ManySites,
}

impl Listener {
    const ALL: [Self; 4] = [Self::Plain, Self::Logged, Self::OneSite, Self::ManySites];

    /// The sites that requests name.
    fn sites(self) -> u32 {
        match self {
            Self::Plain | Self::Logged => 0,
            Self::OneSite => 1,
            Self::ManySites => SITES,
        }
    }

    /// Its sites in the configuration, but for those that stand there.
    fn text(self, port: u16) -> String {
        let locations: String = ('a'..='j').map(|name| format!(" location /{name}/ {{ }}")).collect();
        let site = |n| {
            format!(
                "server {{ listen 127.0.0.1:{port}; server_name {}; root html;{locations} }}\n",
                traffic::site(n)
            )
        };
        (0..self.sites()).map(site).collect()
    }
}

/// Requests before the counters are set to zero: pools are filled, connections kept, tables grown.
const WARM_UP: u32 = 800;
/// When Weir believes that a file will not change without a sign.
const SETTLED: Duration = Duration::from_millis(2100);

/// A row may cost so much more than its budget, in percent: compilers and allocators move a little.
const SLACK: u64 = 3;

const BUDGETS: &str = "xtask/src/count/budgets.json";

/// How it counts.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only rows whose name begins with one of these, separated by commas
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Which build is counted, and to whose budgets it is held
    #[arg(long, value_enum, default_value = "dev")]
    build: Build,
    /// A `weir` of that build that exists, instead of making one
    #[arg(long)]
    weir: Option<PathBuf>,
    /// Requests that are counted
    #[arg(long, default_value_t = 4000)]
    requests: u32,
    /// Prints so many of the functions that cost most, for each row
    #[arg(long, default_value_t = 0)]
    functions: usize,
    /// Takes what was counted as the new budgets
    #[arg(long)]
    accept: bool,
    /// Writes the table into docs/performance.md, between its marks
    #[arg(long)]
    docs: bool,
}

/// The builds that can be counted.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Build {
    /// What tests run: it is there anyway, and shows what a change costs as well as any
    Dev,
    /// Optimised, each crate by itself
    Release,
    /// What is measured and released (`make dist`)
    Guided,
}

impl Build {
    /// Its name among the budgets.
    fn name(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Release => "release",
            Self::Guided => "guided",
        }
    }

    fn weir(self) -> Result<PathBuf> {
        match self {
            Self::Guided => dist::weir(),
            plain => build::weir(plain.name()),
        }
    }
}

/// Counts, prints, and fails if a row is over its budget.
pub(crate) fn run(options: &Options) -> Result<()> {
    deps::have("valgrind", "valgrind")?;
    let weir = match &options.weir {
        Some(path) => path.canonicalize().with_context(|| path.display().to_string())?,
        None => options.build.weir()?,
    };
    let wanted = |row: &&Row| options.rows.is_empty() || options.rows.iter().any(|w| row.name.starts_with(w));
    let rows: Vec<&Row> = ROWS.iter().filter(wanted).collect();
    let counted = count(&weir, &rows, options.requests)?;
    let columns: Vec<(&str, Phases)> =
        counted.iter().map(|(row, profile)| (row.name, Phases::of(profile, options.requests))).collect();
    let table = phases::table(&columns);
    println!("{table}");
    for (row, profile) in &counted {
        for (instructions, calls, name) in profile.dearest(options.functions) {
            let per = |n: u64| n as f64 / f64::from(options.requests);
            println!("{:<20} {:>9.1} {:>7.2} {name}", row.name, per(instructions), per(calls));
        }
    }
    let kind = options.build.name();
    if options.docs {
        let path = build::root().join("docs/performance.md");
        let document = std::fs::read_to_string(&path).context("docs/performance.md")?;
        let new = crate::bench::spliced(&document, "count", &table);
        std::fs::write(path, new.context("docs/performance.md has no marks for the count")?)?;
    }
    if options.accept {
        return accept(kind, &columns);
    }
    hold(kind, &columns)
}

/// Fails if a row costs more than its budget and the slack.
fn hold(kind: &str, columns: &[(&str, Phases)]) -> Result<()> {
    let budgets = budgets()?;
    let Some(budgets) = budgets.get(kind) else {
        println!("{BUDGETS} has no budgets for the {kind} build; --accept takes these");
        return Ok(());
    };
    let mut over = Vec::new();
    for (name, phases) in columns {
        let Some(&budget) = budgets.get(*name) else { continue };
        if is_over(phases.total(), budget) {
            over.push(format!("{name}: {} instructions per request, budget {budget}", phases.total()));
        }
    }
    over.extend(sites_over(columns));
    ensure!(over.is_empty(), "{}", over.join("\n"));
    Ok(())
}

/// A request costs what it costs with one site, however many there are.
fn sites_over(columns: &[(&str, Phases)]) -> Option<String> {
    let of = |wanted| columns.iter().find(|(name, _)| *name == wanted).map(|(_, phases)| phases.total());
    let (one, many) = (of(ONE_SITE)?, of(MANY_SITES)?);
    let is_over = many * 100 > one * (100 + SITES_SLACK);
    is_over.then(|| format!("{MANY_SITES}: {many} instructions per request, with one site {one}"))
}

fn is_over(counted: u64, budget: u64) -> bool {
    counted * 100 > budget * (100 + SLACK)
}

type Budgets = BTreeMap<String, BTreeMap<String, u64>>;

fn budgets() -> Result<Budgets> {
    let text = std::fs::read_to_string(build::root().join(BUDGETS)).context(BUDGETS)?;
    serde_json::from_str(&text).context(BUDGETS)
}

fn accept(kind: &str, columns: &[(&str, Phases)]) -> Result<()> {
    let mut budgets = budgets()?;
    let rows = budgets.entry(kind.to_owned()).or_default();
    rows.extend(columns.iter().map(|(name, phases)| ((*name).to_owned(), phases.total())));
    let text = serde_json::to_string_pretty(&budgets)? + "\n";
    std::fs::write(build::root().join(BUDGETS), text).context(BUDGETS)
}

/// Runs `weir` under callgrind, and counts `requests` requests of each row.
fn count<'r>(weir: &Path, rows: &[&'r Row], requests: u32) -> Result<Vec<(&'r Row, Profile)>> {
    let dir = tempfile::Builder::new().prefix("weir-count-").tempdir()?;
    for folder in ["html", "html/e"] {
        std::fs::create_dir_all(dir.path().join(folder))?;
        std::fs::write(dir.path().join(folder).join("1k"), [b'x'; 1024])?;
    }
    let origin = Origin::start()?;
    let ports = Listener::ALL.map(|_| Port::lease());
    let port_of = |listener: Listener| ports[listener as usize].number();
    let text = include_str!("count.conf")
        .replace("{PORT}", &port_of(Listener::Plain).to_string())
        .replace("{LOGGED}", &port_of(Listener::Logged).to_string())
        .replace("{ORIGIN}", &origin.port().to_string())
        .replace("{SITES}", &Listener::ALL.map(|listener| listener.text(port_of(listener))).concat());
    std::fs::write(dir.path().join("count.conf"), text)?;
    let mut command = Command::new("valgrind");
    command.current_dir(dir.path()).args(["--quiet", "--tool=callgrind", "--callgrind-out-file=counted"]);
    command.args(["--compress-strings=no", "--compress-pos=no"]);
    command.arg(weir).args(["run", "--io", "epoll", "-c", "count.conf"]);
    let mut server = Process::spawn(command).context("cannot run valgrind")?;
    let slow = || Deadline::after(Duration::from_secs(60));
    let written = Instant::now();
    listening::wait(&mut server, "weir under valgrind", &Listener::ALL.map(port_of), slow())?;
    // A file that changed less than two seconds ago is read anew for each request.
    std::thread::sleep(SETTLED.saturating_sub(written.elapsed()));
    let mut counted = Vec::new();
    for row in rows {
        let get = |requests| get(port_of(row.listener), row.listener.sites(), row.path, requests);
        get(WARM_UP.max(2 * row.listener.sites()))?;
        control(&server, "--zero")?;
        get(requests)?;
        control(&server, "--dump")?;
        counted.push((*row, Profile::take(dir.path())?));
    }
    server.signal(UnixSignal::QUIT);
    if server.wait(slow()).is_none() {
        bail!("weir under valgrind does not end: {}", server.printed().trim());
    }
    Ok(counted)
}

fn control(server: &Process, what: &str) -> Result<()> {
    let output = Command::new("callgrind_control").arg(what).arg(server.pid().to_string()).output();
    let output = output.context("cannot run callgrind_control")?;
    let told =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && told.contains("OK"), "callgrind_control {what}: {}", told.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_may_cost_its_budget_and_a_little_more() {
        assert!(!is_over(10_000, 10_000) && !is_over(10_300, 10_000));
        assert!(is_over(10_301, 10_000));
    }

    #[test]
    fn every_row_has_budgets() {
        let budgets = budgets().unwrap();
        for row in &ROWS {
            assert!(budgets["dev"].contains_key(row.name), "{}", row.name);
        }
    }
}
