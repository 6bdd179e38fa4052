//! Scenarios: what is measured, as data.
//!
//! Owns: the form of a scenario file, the scenarios that come with the program, the points that one spans.
//! Never: starts anything.
//! Driven by: `run`, `report`, `weir lab list`.
//! Why: a person who wants another size, rate or suite writes a file, not a program. The files that come with the program
//! are the examples: `crates/lab/scenarios`.

mod check;

use crate::burst::Burstable;
pub use crate::contender::Contender;
pub use crate::mode::{Mode, takes_part};
use crate::rate::{Rate, Word};
use crate::scope::Scope;
pub use crate::sizes::bytes;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The scenarios that come with the program.
const BUILT_IN: &[(&str, &str)] = &[
    ("B1", include_str!("../scenarios/b1.yaml")),
    ("B1-burst", include_str!("../scenarios/b1-burst.yaml")),
    ("B2", include_str!("../scenarios/b2.yaml")),
    ("B3", include_str!("../scenarios/b3.yaml")),
    ("B4", include_str!("../scenarios/b4.yaml")),
    ("B5", include_str!("../scenarios/b5.yaml")),
    ("B6", include_str!("../scenarios/b6.yaml")),
    ("B7", include_str!("../scenarios/b7.yaml")),
    ("B8", include_str!("../scenarios/b8.yaml")),
    ("changes", include_str!("../scenarios/changes.yaml")),
    ("packed", include_str!("../scenarios/packed.yaml")),
    ("soak", include_str!("../scenarios/soak.yaml")),
];

/// One scenario file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its short name: letters, digits, `-` and `_`.
    pub id: String,
    /// A line.
    pub title: String,
    /// What was published, how it is repeated, and where that departs.
    pub about: String,
    /// Who is measured, in this order.
    pub contenders: Vec<Contender>,
    /// What they do.
    #[serde(default)]
    pub modes: Vec<Mode>,
    /// Whether connections are kept for the next request.
    #[serde(default)]
    pub keepalive: Vec<bool>,
    /// Page sizes: `0`, `128`, `10k`, `1m`.
    #[serde(default)]
    pub sizes: Vec<String>,
    /// Points one by one, where not every combination of the above is wanted.
    #[serde(default)]
    pub points: Vec<Single>,
    /// Worker threads or processes of each server.
    #[serde(default = "one_worker")]
    pub workers: Vec<u16>,
    /// Connections of the generator, all together.
    pub connections: u32,
    /// Requests a second, of each point in turn: a list for all sizes, or one for each.
    #[serde(default)]
    pub rates: Rates,
    /// Generators that share the connections, as machines of a test laboratory do.
    #[serde(default = "one")]
    pub clients: u16,
    /// Origins behind a load balancer.
    #[serde(default = "one")]
    pub servers: u16,
    /// What makes the load.
    #[serde(default)]
    pub generator: Generator,
    /// What the origin behind a load balancer is.
    #[serde(default)]
    pub origin: Origin,
    /// Connections that wait, in the modes that have them.
    #[serde(default = "idle")]
    pub idle: u32,
    /// Sites, in the mode that has many.
    #[serde(default = "sites")]
    pub sites: u32,
    /// Locations of each of them.
    #[serde(default = "locations")]
    pub locations: u32,
    /// What points with targets are held to together.
    pub targets: Option<Targets>,
    /// Instructions are counted too, in full runs: by the processor, or by callgrind, which takes its time.
    #[serde(default)]
    pub instructions: bool,
    /// The server's CPU time is rationed as on a burstable machine, at points that have a rate.
    pub burstable: Option<Burstable>,
    /// One server for the whole scenario, loaded by rate after rate, and again from the first in the next run: what grows or
    /// slows down shows. Full speed is measured before, with a server of its own.
    #[serde(default)]
    pub soak: bool,
    /// The configuration changes so many times in each run at a rate: an endpoint goes, and comes back.
    pub changes: Option<u32>,
    /// Contenders are the ingress controllers of a cluster.
    pub kubernetes: Option<Kubernetes>,
    /// How HTTPS is spoken.
    #[serde(default)]
    pub tls: Tls,
    /// Which CPUs server and generator have.
    #[serde(default)]
    pub placement: Placement,
    /// What is drawn.
    #[serde(default)]
    pub plots: Vec<Plot>,
    /// How long a full run is.
    pub full: Effort,
    /// How long a quick one is, and what it leaves out.
    pub quick: Quick,
    /// Published figures, drawn beside the measured ones; those of the scenarios that come along are in `data/published.json`.
    #[serde(default)]
    pub published: Vec<Published>,
    /// The file's text.
    #[serde(skip)]
    pub text: String,
    /// The part of it that is wanted.
    #[serde(skip)]
    scope: Scope,
}

fn one_worker() -> Vec<u16> {
    vec![1]
}

fn one() -> u16 {
    1
}

fn idle() -> u32 {
    8000
}

fn sites() -> u32 {
    10_000
}

fn locations() -> u32 {
    10
}

/// What makes the load of requests; handshakes and idle connections are always `weir load`'s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Generator {
    /// `weir load`.
    #[default]
    WeirLoad,
    /// `wrk`: knows no warm-up (each server has a run that does not count) and whole seconds only.
    Wrk,
}

/// What stands behind a load balancer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// `weir load serve`, from memory.
    #[default]
    WeirLoad,
    /// The nginx of this machine, from files that it keeps open.
    Nginx,
}

/// What the points of a scenario are held to together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Targets {
    /// The geometric mean of the ratios of CPU time to the best rival.
    pub mean: f64,
    /// What would be better still.
    pub stretch: f64,
    /// What none of these ratios is to exceed.
    pub ceiling: f64,
}

/// One point, for all workers and rates.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Single {
    /// What is done.
    pub mode: Mode,
    /// The page.
    pub size: String,
    /// Whether connections are kept.
    #[serde(default = "yes")]
    pub keepalive: bool,
    /// A short name: letters, digits, `-` and `_`. Points that have one are rows of the table of ratios.
    pub id: Option<String>,
    /// What people call it.
    pub title: Option<String>,
    /// Whose row it is. Points that differ in this alone are measured in the same rounds.
    #[serde(default = "weir")]
    pub by: Contender,
    /// Whom it is compared with, instead of the best rival.
    pub against: Option<Contender>,
    /// Contenders that take no part here.
    #[serde(default)]
    pub without: Vec<Contender>,
    /// No more runs than these, where more would tell nothing.
    pub runs: Option<u32>,
    /// Requests under way at a time on a connection of HTTP/2.
    pub streams: Option<u32>,
    /// Connections to the servers behind a load balancer end with each request.
    #[serde(default)]
    pub closes_behind: bool,
    /// Workers on both threads of each core, where the machine's cores have two.
    #[serde(default)]
    pub hyper_threading: bool,
    /// It has no part in the mean and the ceiling, which stay what they are when a row is added.
    #[serde(default)]
    pub apart: bool,
    /// What the ratio is held to.
    pub target: Option<f64>,
    /// What would be better still.
    pub stretch: Option<f64>,
}

impl Single {
    fn unnamed(mode: Mode, size: &str, keepalive: bool) -> Self {
        Self {
            mode,
            size: size.to_owned(),
            keepalive,
            id: None,
            title: None,
            by: Contender::Weir,
            against: None,
            without: Vec::new(),
            runs: None,
            streams: None,
            closes_behind: false,
            hyper_threading: false,
            apart: false,
            target: None,
            stretch: None,
        }
    }
}

fn weir() -> Contender {
    Contender::Weir
}

/// A point that has a name, and what it is held to.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// Its short name.
    pub id: String,
    /// What people call it.
    pub title: String,
    /// Where.
    pub point: Point,
    /// Whose.
    pub by: Contender,
    /// Whom it is compared with, instead of the best rival.
    pub against: Option<Contender>,
    /// It has no part in the mean and the ceiling.
    pub apart: bool,
    /// What the ratio is held to.
    pub target: Option<f64>,
    /// What would be better still.
    pub stretch: Option<f64>,
}

impl Goal {
    fn of((single, point): (Single, Point)) -> Option<Self> {
        let Single { id, title, by, against, apart, target, stretch, .. } = single;
        let id = id?;
        Some(Self {
            title: title.unwrap_or_else(|| id.clone()),
            id,
            point,
            by,
            against,
            apart,
            target,
            stretch,
        })
    }

    /// Whether its ratio is one of Weir's CPU time to the best rival's: these have a mean and a ceiling.
    #[must_use]
    pub fn counts(&self) -> bool {
        let of_cpu = !self.point.mode.is_idle() && self.against.is_none();
        self.by == Contender::Weir && of_cpu && !self.apart
    }
}

fn yes() -> bool {
    true
}

/// What serves pages in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kubernetes {
    /// An image that serves a folder on port 80.
    pub image: String,
    /// The folder.
    pub folder: String,
    /// How many of them.
    pub replicas: u16,
}

/// Rates as they are written: `max` is as fast as the connections allow, and what is meant without any.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Rates {
    /// For all sizes.
    All(Vec<Word>),
    /// For each size.
    BySize(BTreeMap<String, Vec<Word>>),
}

impl Default for Rates {
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

impl Rates {
    /// Those of a size, full speed first: shares are of what it shows.
    fn of(&self, size: &str) -> Result<Vec<Option<Rate>>> {
        let words = match self {
            Self::All(words) => words,
            Self::BySize(sizes) => sizes.get(size).with_context(|| format!("rates: none for size {size}"))?,
        };
        let mut rates: Vec<Option<Rate>> = words.iter().map(Word::rate).collect::<Result<_>>()?;
        if rates.is_empty() {
            rates.push(None);
        }
        rates.sort_by_key(Option::is_some);
        let share = rates.iter().flatten().find(|r| r.is_share());
        if let (Some(share), Some(Some(_))) = (share, rates.first()) {
            bail!("the rate `{share}` needs `max` among the rates: that measures what it is a share of");
        }
        Ok(rates)
    }
}

/// Which CPUs who has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// One for each worker of the server; generator and origin share the others.
    #[default]
    Split,
    /// All share one: requests a second say little then, CPU time a request is at its most stable.
    Packed,
}

/// How HTTPS is spoken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// `1.2` or `1.3`; else what both sides like best.
    pub version: Option<String>,
    /// The only suite, by OpenSSL's name.
    pub suite: Option<String>,
    /// The only group for the exchange of keys: `X25519`, `P-256`.
    pub curve: Option<String>,
    /// The kind of the server's key.
    #[serde(default)]
    pub key: Key,
}

/// The kind of a server's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Key {
    /// ECDSA on P-256.
    #[default]
    P256,
    /// RSA with 2,048 bits.
    Rsa2048,
}

impl Key {
    /// A part of a file's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::P256 => "p256",
            Self::Rsa2048 => "rsa2048",
        }
    }
}

/// What the report draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plot {
    /// Requests a second by contender: a bar each.
    Bars,
    /// Requests a second by workers.
    Workers,
    /// The distribution of response times.
    Distribution,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effort {
    /// Runs of each contender at each point.
    pub runs: u32,
    /// Measured seconds of each.
    pub seconds: f64,
    /// Seconds before them that are left out.
    pub warmup: f64,
}

impl Effort {
    /// About how long a run takes with all that belongs to it, seconds.
    #[must_use]
    pub fn whole(self) -> f64 {
        self.seconds + self.warmup + 0.25
    }
}

/// The quick form.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// Runs of each contender at each point.
    pub runs: u32,
    /// Measured seconds of each.
    pub seconds: f64,
    /// Seconds before them that are left out.
    pub warmup: f64,
    /// Instead of all modes.
    pub modes: Option<Vec<Mode>>,
    /// Instead of both.
    pub keepalive: Option<Vec<bool>>,
    /// Instead of all sizes.
    pub sizes: Option<Vec<String>>,
    /// Instead of all workers.
    pub workers: Option<Vec<u16>>,
    /// Instead of all rates.
    pub rates: Option<Rates>,
    /// Instead of all connections that wait.
    pub idle: Option<u32>,
    /// Instead of all sites.
    pub sites: Option<u32>,
    /// Instead of all changes.
    pub changes: Option<u32>,
}

/// A published curve: requests a second by workers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Of whom.
    pub label: String,
    /// At what.
    pub mode: Mode,
    /// At which size.
    pub size: String,
    /// Workers (or CPUs), requests a second.
    pub points: Vec<(f64, f64)>,
}

/// One combination of what varies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// What is done.
    pub mode: Mode,
    /// Whether connections are kept.
    pub keepalive: bool,
    /// The page's name: its size.
    pub size: String,
    /// Workers of the server.
    pub workers: u16,
    /// Requests a second; nothing for as fast as the connections allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Requests under way at a time on a connection of HTTP/2; nothing where there is one at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    /// Whether connections to the servers behind a load balancer end with each request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closes_behind: bool,
    /// Whether a core counts with all its threads, each with a worker: `workers` are then cores. Else each worker has a core.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hyper_threading: bool,
}

impl Point {
    /// A name that can be a file's.
    #[must_use]
    pub fn name(&self) -> String {
        let kept = if self.keepalive { "kept" } else { "closed" };
        let name = match self.mode.handshakes() {
            Some(_) => format!("{}-w{}", self.mode.name(), self.workers),
            None => format!("{}-{kept}-{}-w{}", self.mode.name(), self.size, self.workers),
        };
        let name = self.streams.map_or(name.clone(), |streams| format!("{name}-s{streams}"));
        let name = if self.closes_behind { name + "-closed-behind" } else { name };
        let name = if self.hyper_threading { name + "-threads" } else { name };
        self.rate.map_or(name.clone(), |rate| format!("{name}-{}", rate.name()))
    }

    /// The same at full speed.
    #[must_use]
    pub fn at_full_speed(&self) -> Self {
        Self { rate: None, ..self.clone() }
    }
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// It is none: the message names the line.
    pub fn parse(text: &str) -> Result<Self> {
        let mut scenario: Self = serde_norway::from_str(text)?;
        text.clone_into(&mut scenario.text);
        ensure!(is_name(&scenario.id), "id `{}`: letters, digits, - and _ only", scenario.id);
        scenario.check()?;
        Ok(scenario)
    }

    /// The part of it that `scope` names.
    ///
    /// # Errors
    /// There is no such point; it wants what cannot be.
    pub fn narrowed(mut self, scope: &Scope, quick: bool) -> Result<Self> {
        scope.clone_into(&mut self.scope);
        let names =
            || self.all_points(quick).into_iter().map(|(single, point)| single.id.unwrap_or(point.name()));
        for word in &self.scope.points {
            let any = |(single, point): (Single, Point)| begins(word, single.id.as_deref(), &point);
            ensure!(
                self.all_points(quick).into_iter().any(any),
                "{}: no point's name begins with `{word}`: there are {}",
                self.id,
                names().collect::<Vec<_>>().join(", ")
            );
        }
        self.check_effort(quick)?;
        Ok(self)
    }

    /// Those that come with the program.
    ///
    /// # Errors
    /// None that a test would not have found.
    pub fn built_in() -> Result<Vec<Self>> {
        BUILT_IN.iter().map(|(id, text)| Self::parse(text).context(*id)).collect()
    }

    /// The scenarios of these words: ids, paths of files, or `all`.
    ///
    /// # Errors
    /// A word is neither; a file is no scenario; two have one id.
    pub fn choose(words: &[String]) -> Result<Vec<Self>> {
        let mut chosen: Vec<Self> = Vec::new();
        for word in words {
            let found = if word == "all" { Self::built_in()? } else { vec![Self::one(word)?] };
            for scenario in found {
                match chosen.iter().find(|c| c.id == scenario.id) {
                    Some(same) if same.text == scenario.text => {}
                    Some(_) => bail!("two scenarios have the id {}", scenario.id),
                    None => chosen.push(scenario),
                }
            }
        }
        Ok(chosen)
    }

    fn one(word: &str) -> Result<Self> {
        let known = Self::built_in()?;
        if let Some(scenario) = known.iter().find(|s| s.id.eq_ignore_ascii_case(word)) {
            return Ok(scenario.clone());
        }
        let path = Path::new(word);
        if path.exists() {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {word}"))?;
            return Self::parse(&text).with_context(|| format!("{word} is no scenario"));
        }
        let ids: Vec<&str> = known.iter().map(|s| s.id.as_str()).collect();
        bail!("no scenario `{word}`: there are {}, `all`, and files that you write", ids.join(", "))
    }

    /// All points that are wanted, in the order in which they are measured.
    #[must_use]
    pub fn points(&self, quick: bool) -> Vec<Point> {
        let mut points: Vec<Point> = Vec::new();
        for (_, point) in self.wanted(quick) {
            if !points.contains(&point) {
                points.push(point);
            }
        }
        points
    }

    /// The points that have names and are wanted, in their order.
    #[must_use]
    pub fn goals(&self, quick: bool) -> Vec<Goal> {
        self.wanted(quick).into_iter().filter_map(Goal::of).collect()
    }

    /// The points that have names, wanted or not.
    #[must_use]
    pub fn all_goals(&self, quick: bool) -> Vec<Goal> {
        self.all_points(quick).into_iter().filter_map(Goal::of).collect()
    }

    /// Who is measured at a point, in this order; `more` are rivals that the scenario does not know.
    #[must_use]
    pub fn contenders_at(&self, point: &Point, quick: bool, more: &[Contender]) -> Vec<Contender> {
        let mut all = self.contenders.clone();
        let goals = self.goals(quick);
        let here: Vec<&Goal> = goals.iter().filter(|g| &g.point == point).collect();
        // Where only the rows of other contenders are wanted, Weir's own is none of them.
        if !here.is_empty()
            && here.iter().all(|g| g.by != Contender::Weir && g.against != Some(Contender::Weir))
        {
            all.retain(|who| *who != Contender::Weir);
        }
        let after_weir = all.iter().position(|who| who.is_rival()).unwrap_or(all.len());
        for who in here.iter().flat_map(|g| [Some(g.by), g.against]).flatten() {
            if !all.contains(&who) {
                all.insert(after_weir, who);
            }
        }
        all.extend(more);
        let singles = self.wanted(quick).into_iter().filter(|(_, p)| p == point);
        let out: Vec<Contender> = singles.flat_map(|(single, _)| single.without).collect();
        all.retain(|who| takes_part(*who, point.mode) && !out.contains(who));
        all
    }

    fn wanted(&self, quick: bool) -> Vec<(Single, Point)> {
        let (all, words) = (self.all_points(quick), &self.scope.points);
        let named = |(single, point): &&(Single, Point)| {
            words.is_empty() || words.iter().any(|word| begins(word, single.id.as_deref(), point))
        };
        // A share of the most is not known without the most: that is measured too.
        let shares =
            all.iter().filter(named).map(|(_, point)| point).filter(|p| p.rate.is_some_and(Rate::is_share));
        let most: Vec<Point> = shares.map(Point::at_full_speed).collect();
        all.iter().filter(|one| named(one) || most.contains(&one.1)).cloned().collect()
    }

    fn all_points(&self, quick: bool) -> Vec<(Single, Point)> {
        let workers = self.quick.workers.as_ref().filter(|_| quick).unwrap_or(&self.workers);
        let mut points = Vec::new();
        for single in self.singles(quick) {
            for &workers in workers {
                // They were read when the scenario was: none fails here.
                for rate in self.rates(quick).of(&single.size).unwrap_or_default() {
                    let Single { mode, keepalive, size, streams, closes_behind, hyper_threading, .. } =
                        single.clone();
                    let point = match mode.handshakes() {
                        // Nothing is requested: there are no pages, and no next request.
                        Some(_) => Point {
                            mode,
                            keepalive: false,
                            size: "0".into(),
                            workers,
                            rate,
                            streams: None,
                            closes_behind: false,
                            hyper_threading,
                        },
                        None => Point {
                            mode,
                            keepalive,
                            size,
                            workers,
                            rate,
                            streams,
                            closes_behind,
                            hyper_threading,
                        },
                    };
                    points.push((single.clone(), point));
                }
            }
        }
        points
    }

    /// Every combination of what is done, and those that are named one by one.
    fn singles(&self, quick: bool) -> Vec<Single> {
        let modes = self.quick.modes.as_ref().filter(|_| quick).unwrap_or(&self.modes);
        let kept = self.quick.keepalive.as_ref().filter(|_| quick).unwrap_or(&self.keepalive);
        let sizes = self.quick.sizes.as_ref().filter(|_| quick).unwrap_or(&self.sizes);
        let mut singles = Vec::new();
        for &mode in modes {
            for &keepalive in kept {
                singles.extend(sizes.iter().map(|size| Single::unnamed(mode, size, keepalive)));
            }
        }
        singles.extend(self.points.iter().cloned());
        singles
    }

    /// The sizes of all pages that are asked for.
    #[must_use]
    pub fn pages(&self) -> Vec<String> {
        let mut pages: Vec<String> = self.points(false).into_iter().map(|point| point.size).collect();
        pages.sort();
        pages.dedup();
        pages
    }

    /// The keys that servers need.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.points(false).iter().filter_map(|p| p.mode.handshakes()).collect();
        keys.push(self.tls.key);
        keys.sort();
        keys.dedup();
        keys
    }

    fn rates(&self, quick: bool) -> &Rates {
        self.quick.rates.as_ref().filter(|_| quick).unwrap_or(&self.rates)
    }

    /// How much is measured at each.
    #[must_use]
    pub fn effort(&self, quick: bool) -> Effort {
        let effort = if quick {
            Effort { runs: self.quick.runs, seconds: self.quick.seconds, warmup: self.quick.warmup }
        } else {
            self.full
        };
        Effort {
            runs: self.scope.runs.unwrap_or(effort.runs),
            seconds: self.scope.seconds.unwrap_or(effort.seconds),
            ..effort
        }
    }

    /// How much is measured at one of them.
    #[must_use]
    pub fn effort_at(&self, point: &Point, quick: bool) -> Effort {
        let effort = self.effort(quick);
        let most =
            self.wanted(quick).into_iter().filter(|(_, p)| p == point).filter_map(|(s, _)| s.runs).min();
        Effort { runs: most.map_or(effort.runs, |most| most.min(effort.runs)), ..effort }
    }

    /// How many times the configuration changes in a run.
    #[must_use]
    pub fn changes(&self, quick: bool) -> u32 {
        self.quick.changes.filter(|_| quick).or(self.changes).unwrap_or(0)
    }

    /// How many connections wait.
    #[must_use]
    pub fn idle(&self, quick: bool) -> u32 {
        self.quick.idle.filter(|_| quick).unwrap_or(self.idle)
    }

    /// How many sites there are.
    #[must_use]
    pub fn sites(&self, quick: bool) -> u32 {
        self.quick.sites.filter(|_| quick).unwrap_or(self.sites)
    }

    /// About how long one run at a point takes with all that belongs to it, seconds.
    #[must_use]
    pub fn run_seconds(&self, point: &Point, quick: bool) -> f64 {
        // Handshakes are most of what opening takes.
        let opening = if point.mode.encrypted() { 0.002 } else { 0.0002 };
        if point.mode.is_idle() {
            return 1.5 + f64::from(self.idle(quick)) * opening;
        }
        let effort = self.effort_at(point, quick);
        match self.generator {
            Generator::WeirLoad => effort.whole(),
            // Once for each server, not for each run.
            Generator::Wrk => {
                Effort { warmup: effort.warmup / f64::from(effort.runs.max(1)), ..effort }.whole()
            }
        }
    }

    /// About how long it takes on so many CPUs, seconds.
    #[must_use]
    pub fn seconds(&self, quick: bool, cpus: usize) -> f64 {
        // Points of both threads of a core are few, and most machines have none.
        let fits = |point: &Point| {
            self.placement == Placement::Packed
                || (usize::from(point.workers) <= cpus && !point.hyper_threading)
        };
        let takes = |point: Point| {
            let runs = f64::from(self.effort_at(&point, quick).runs);
            self.contenders_at(&point, quick, &[]).len() as f64 * runs * self.run_seconds(&point, quick)
        };
        self.points(quick).into_iter().filter(fits).map(takes).sum()
    }
}

fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !text.is_empty() && text.chars().all(fits)
}

/// Whether the name of a point begins with `word`: its id, or what its folder is called.
fn begins(word: &str, id: Option<&str>, point: &Point) -> bool {
    id.is_some_and(|id| id.starts_with(word)) || point.name().starts_with(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_come_along_are_sound() {
        let all = Scenario::built_in().unwrap();
        for (scenario, (id, _)) in all.iter().zip(BUILT_IN) {
            assert_eq!(&scenario.id, id);
            let quick = scenario.seconds(true, 2);
            assert!(quick > 0.0 && quick < 900.0, "{id} is not quick: {quick} s");
            assert!(!scenario.points(false).is_empty(), "{id}");
        }
        let together: f64 = all.iter().map(|s| s.seconds(true, 2)).sum();
        assert!(together < 40.0 * 60.0, "all together are quick on two CPUs: {together} s");
        assert_eq!(Scenario::choose(&["all".into(), "b8".into()]).unwrap().len(), all.len());
    }

    #[test]
    fn mistakes_are_named() {
        let text = BUILT_IN[0].1;
        let wrong = Scenario::parse(&text.replace("connections:", "conections:")).unwrap_err();
        assert!(format!("{wrong:#}").contains("conections"), "{wrong:#}");
        let none = Scenario::choose(&["B99".into()]).unwrap_err().to_string();
        assert!(none.contains("B99") && none.contains("B8"), "{none}");
    }
}
