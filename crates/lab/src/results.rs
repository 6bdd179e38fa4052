//! The results folder: what was measured, a file a run, so that a run that was stopped goes on.
//!
//! Owns: the form of records, where they lie, and that results of different settings never mix.
//! Never: measures, or sums up.
//! Driven by: `run`, which writes; `report`, which reads.
//!
//! ```text
//! DIR/lab.json                            settings and environment of the folder
//! DIR/B8/scenario.yaml                    the scenario as it was run
//! DIR/B8/scope.json                       which part of it, if not all
//! DIR/B8/http-kept-1k-w1/weir-0.json      one run: a Record
//! DIR/B8/http-kept-1k-w1/weir.failed      why a contender has no figures here
//! DIR/B7/skipped                          why this machine cannot run a scenario
//! ```

use crate::changes::Changes;
use crate::contender::{Contender, Driver, Kind};
use crate::idle::Idle;
use crate::machine::Environment;
use crate::scenario::{Point, Scenario};
use crate::scope::Scope;
use crate::servers::Start;
use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The name and number of this form of results.
pub const SCHEMA: &str = "weir-lab/1";

/// What holds for a whole folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// [`SCHEMA`].
    pub schema: String,
    /// Whether runs are the quick ones.
    pub quick: bool,
    /// Whether Weir was built without optimisation: its figures are no measure of it then.
    #[serde(default)]
    pub debug_build: bool,
    /// How Weir's sockets were driven, if it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<Driver>,
    /// Rivals besides those that scenarios name: what kind of program each is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rivals: BTreeMap<Contender, Kind>,
    /// The machine and its programs.
    pub environment: Environment,
}

impl Settings {
    /// The further rivals.
    #[must_use]
    pub fn more(&self) -> Vec<Contender> {
        self.rivals.keys().copied().collect()
    }

    /// The kind of a contender's program; nothing for one that nobody has told of.
    #[must_use]
    pub fn kind(&self, who: Contender) -> Option<Kind> {
        who.kind().or_else(|| self.rivals.get(&who).copied())
    }
}

/// One run of one contender at one point.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Where.
    pub point: Point,
    /// Who.
    pub contender: Contender,
    /// Which of its runs, from 0.
    pub run: u32,
    /// Whether the generator had the server's CPUs too.
    pub shared_cpus: bool,
    /// CPU time of the server while measured, microseconds a request.
    pub cpu_us_per_request: f64,
    /// Context switches of the server while measured, a request.
    pub switches_per_request: f64,
    /// The most memory that its processes have had so far, each at its own peak, bytes.
    pub memory_peak: u64,
    /// Instructions of the server, a request: while measured, where the processor counts them; by callgrind, without the
    /// kernel's, where the scenario asks for them; else nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions_per_request: Option<f64>,
    /// On a burstable machine: its account of credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<crate::burst::Account>,
    /// How the server began that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// What waiting connections cost it, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Idle>,
    /// What came of changes of the configuration, where there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// What the server used, second by second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub course: Vec<Used>,
    /// What the generator reports.
    pub load: weir_loadgen::report::Report,
}

/// What a server used in about a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// The second's end, since 1970-01-01 UTC.
    pub until_unix_s: f64,
    /// CPUs that it kept busy.
    pub cpus: f64,
    /// Its memory at that moment, each of its processes by itself, bytes.
    pub memory: u64,
}

/// A folder of results.
pub struct Results {
    dir: PathBuf,
}

impl Results {
    /// Opens `dir` for more results, or makes it.
    ///
    /// # Errors
    /// It holds results of other settings or another machine; it cannot be written.
    pub fn open(dir: &Path, settings: &Settings) -> Result<Self> {
        let results = Self { dir: dir.to_owned() };
        let file = dir.join("lab.json");
        if file.exists() {
            let there: Settings = read(&file)?;
            if let Some(what) = difference(&there, settings) {
                bail!(
                    "{} holds results of another {what}: continue with the same, or take another folder with --out",
                    dir.display()
                );
            }
            // Programs that were not wanted before.
            let mut both = there.clone();
            both.rivals.extend(settings.rivals.clone());
            both.environment.versions.extend(settings.environment.versions.clone());
            both.environment.tls_libraries.extend(settings.environment.tls_libraries.clone());
            if both != there {
                write(&file, &serde_json::to_string_pretty(&both)?)?;
            }
            return Ok(results);
        }
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        write(&file, &serde_json::to_string_pretty(settings)?)?;
        Ok(results)
    }

    /// Opens what a run has left.
    ///
    /// # Errors
    /// There is nothing of that kind.
    pub fn read(dir: &Path) -> Result<(Self, Settings)> {
        let file = dir.join("lab.json");
        if !file.is_file() {
            bail!("{} holds no results: `weir lab run --out {0} SCENARIO` makes some", dir.display());
        }
        let settings: Settings = read(&file)?;
        if settings.schema != SCHEMA {
            bail!("{} is of the form `{}`; this program reads `{SCHEMA}`", file.display(), settings.schema);
        }
        Ok((Self { dir: dir.to_owned() }, settings))
    }

    /// Notes the scenario that is run, and which part of it; parts that were run before are kept.
    ///
    /// # Errors
    /// The folder holds results of another text of it, or of runs that do not go together with these.
    pub fn begin(&self, scenario: &Scenario, scope: &Scope) -> Result<()> {
        let dir = self.dir.join(&scenario.id);
        let file = dir.join("scenario.yaml");
        let there = fs::read_to_string(&file).ok();
        if there.as_ref().is_some_and(|text| *text != scenario.text) {
            bail!("{} is not the scenario that is run now: take another folder with --out", file.display());
        }
        let before = match self.scope(&scenario.id)? {
            Some(before) => before,
            // A folder from before there were parts holds all.
            None if there.is_some() => Scope::default(),
            None => scope.clone(),
        };
        let both = before.joined(scope).with_context(|| dir.display().to_string())?;
        fs::create_dir_all(&dir)?;
        write(&dir.join("scope.json"), &serde_json::to_string_pretty(&both)?)?;
        if there.is_none() { write(&file, &scenario.text) } else { Ok(()) }
    }

    fn scope(&self, id: &str) -> Result<Option<Scope>> {
        let file = self.dir.join(id).join("scope.json");
        if file.is_file() { read(&file).map(Some) } else { Ok(None) }
    }

    /// The scenarios that have been run, by their names; of each the part that was.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn scenarios(&self, quick: bool) -> Result<Vec<Scenario>> {
        let mut files: Vec<PathBuf> = fs::read_dir(&self.dir)?
            .flatten()
            .map(|e| e.path().join("scenario.yaml"))
            .filter(|p| p.is_file())
            .collect();
        files.sort();
        let parse = |file: &PathBuf| {
            let scenario = Scenario::parse(&fs::read_to_string(file)?)?;
            match self.scope(&scenario.id)? {
                Some(scope) => scenario.narrowed(&scope, quick),
                None => Ok(scenario),
            }
        };
        let parse = |file: &PathBuf| parse(file).with_context(|| file.display().to_string());
        files.iter().map(parse).collect()
    }

    fn file(&self, scenario: &Scenario, point: &Point, name: &str) -> PathBuf {
        self.dir.join(&scenario.id).join(point.name()).join(name)
    }

    fn record_file(&self, scenario: &Scenario, point: &Point, who: Contender, run: u32) -> PathBuf {
        self.file(scenario, point, &format!("{}-{run}.json", who.name()))
    }

    /// Whether a run has been done.
    #[must_use]
    pub fn has(&self, scenario: &Scenario, point: &Point, who: Contender, run: u32) -> bool {
        self.record_file(scenario, point, who, run).is_file()
    }

    /// Keeps a run.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn keep(&self, scenario: &Scenario, record: &Record) -> Result<()> {
        let file = self.record_file(scenario, &record.point, record.contender, record.run);
        if let Some(dir) = file.parent() {
            fs::create_dir_all(dir)?;
        }
        write(&file, &serde_json::to_string_pretty(record)?)
    }

    /// The runs of a contender at a point, in their order; what has not been run is missing.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn records(
        &self,
        scenario: &Scenario,
        point: &Point,
        who: Contender,
        runs: u32,
    ) -> Result<Vec<Record>> {
        let files = (0..runs).map(|run| self.record_file(scenario, point, who, run));
        files.filter(|f| f.is_file()).map(|f| read(&f)).collect()
    }

    /// Notes why a contender has no figures at a point; `None`: it has now.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn failed(
        &self,
        scenario: &Scenario,
        point: &Point,
        who: Contender,
        why: Option<&str>,
    ) -> Result<()> {
        note(&self.file(scenario, point, &format!("{}.failed", who.name())), why)
    }

    /// Notes why this machine cannot run a scenario; `None`: it can now.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn skip(&self, scenario: &Scenario, why: Option<&str>) -> Result<()> {
        note(&self.dir.join(&scenario.id).join("skipped"), why)
    }

    /// Why this machine could not run a scenario, if that was noted.
    #[must_use]
    pub fn skipped(&self, scenario: &Scenario) -> Option<String> {
        fs::read_to_string(self.dir.join(&scenario.id).join("skipped")).ok()
    }

    /// Why a contender has no figures at a point, if that was noted.
    #[must_use]
    pub fn failure(&self, scenario: &Scenario, point: &Point, who: Contender) -> Option<String> {
        fs::read_to_string(self.file(scenario, point, &format!("{}.failed", who.name()))).ok()
    }
}

/// What is noted of a contender that does not do what a point asks for.
#[must_use]
pub(crate) fn not_done(who: Contender) -> String {
    format!("{} does not do this", who.name())
}

/// Keeps a reason in a file; `None` takes it away.
fn note(file: &Path, why: Option<&str>) -> Result<()> {
    match why {
        Some(why) => {
            if let Some(dir) = file.parent() {
                fs::create_dir_all(dir)?;
            }
            write(file, why)
        }
        None => match fs::remove_file(file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        },
    }
}

fn difference(there: &Settings, now: &Settings) -> Option<&'static str> {
    if there.schema != now.schema {
        return Some("version of the lab");
    }
    if there.quick != now.quick {
        return Some("length of runs (--quick)");
    }
    if there.debug_build != now.debug_build {
        return Some("build of weir (debug or release)");
    }
    if there.driver != now.driver {
        return Some("driver of weir (--io)");
    }
    if there.rivals.iter().any(|(who, kind)| now.rivals.get(who).is_some_and(|k| k != kind)) {
        return Some("kind of a rival (--rival)");
    }
    let (there, now) = (&there.environment, &now.environment);
    if (&there.processor, there.cpus, &there.kernel) != (&now.processor, now.cpus, &now.kernel) {
        return Some("machine");
    }
    // A scenario may want fewer programs than the one before it.
    let changed = |(name, version): (&String, &String)| now.versions.get(name).is_some_and(|v| v != version);
    there.versions.iter().any(changed).then_some("version of a program")
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<T> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is damaged", file.display()))
}

/// Whole or not at all: a run that is stopped leaves no half of a record.
pub(crate) fn write(file: &Path, text: &str) -> Result<()> {
    let part = file.with_extension("part");
    fs::write(&part, text).with_context(|| format!("cannot write {}", part.display()))?;
    fs::rename(&part, file).with_context(|| format!("cannot write {}", file.display()))
}
