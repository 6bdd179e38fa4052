//! Scenarios: what is measured, as data.
//!
//! Owns: the form of a scenario file, the scenarios that come with the program, the points that one spans.
//! Never: starts anything.
//! Driven by: `run`, `report`, `weir lab list`.
//! Why: a person who wants another size, rate or suite writes a file, not a program. The files that come with the program
//! are the examples: `crates/lab/scenarios`.

use crate::burst::Burstable;
use crate::rate::{Rate, Word};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The scenarios that come with the program.
const BUILT_IN: &[(&str, &str)] = &[
    ("B1", include_str!("../scenarios/b1.yaml")),
    ("B2", include_str!("../scenarios/b2.yaml")),
    ("B3", include_str!("../scenarios/b3.yaml")),
    ("B4", include_str!("../scenarios/b4.yaml")),
    ("B5", include_str!("../scenarios/b5.yaml")),
    ("B6", include_str!("../scenarios/b6.yaml")),
    ("B7", include_str!("../scenarios/b7.yaml")),
    ("B8", include_str!("../scenarios/b8.yaml")),
    ("packed", include_str!("../scenarios/packed.yaml")),
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
    pub contenders: Vec<Who>,
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
    /// Instructions are counted too, in full runs: by the processor, or by callgrind, which takes its time.
    #[serde(default)]
    pub instructions: bool,
    /// The server's CPU time is rationed as on a burstable machine, at points that have a rate.
    pub burstable: Option<Burstable>,
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
}

fn one_worker() -> Vec<u16> {
    vec![1]
}

fn one() -> u16 {
    1
}

/// One point, for all workers and rates.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Single {
    /// What is done.
    pub mode: Mode,
    /// The page.
    pub size: String,
    /// Whether connections are kept.
    #[serde(default = "yes")]
    pub keepalive: bool,
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

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Who {
    /// Nobody between generator and origin.
    Direct,
    /// This program.
    Weir,
    /// The nginx of this machine.
    Nginx,
    /// The haproxy of this machine.
    Haproxy,
}

impl Who {
    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Weir => "weir",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
        }
    }
}

/// What a server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Serves a file over HTTP.
    FilesHttp,
    /// Serves a file over HTTPS.
    FilesHttps,
    /// Passes HTTP requests on.
    Http,
    /// Ends TLS, and passes HTTP requests on.
    Https,
    /// Passes the bytes of HTTP on.
    TcpHttp,
    /// Passes the bytes of HTTPS on.
    TcpHttps,
    /// Shakes hands in full, with an RSA key of 2,048 bits; nothing is requested.
    HandshakeRsa2048,
    /// The same with an ECDSA key on P-256.
    HandshakeP256,
}

impl Mode {
    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FilesHttp => "files-http",
            Self::FilesHttps => "files-https",
            Self::Http => "http",
            Self::Https => "https",
            Self::TcpHttp => "tcp-http",
            Self::TcpHttps => "tcp-https",
            Self::HandshakeRsa2048 => "handshake-rsa2048",
            Self::HandshakeP256 => "handshake-p256",
        }
    }

    /// Its name for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::FilesHttp => "web server, HTTP",
            Self::FilesHttps => "web server, HTTPS",
            Self::Http => "HTTP",
            Self::Https => "HTTPS",
            Self::TcpHttp => "TCP pass-through of HTTP",
            Self::TcpHttps => "TCP pass-through of HTTPS",
            Self::HandshakeRsa2048 => "full TLS handshakes, RSA-2048",
            Self::HandshakeP256 => "full TLS handshakes, ECDSA P-256",
        }
    }

    /// Whether the client speaks HTTPS.
    #[must_use]
    pub fn encrypted(self) -> bool {
        matches!(self, Self::FilesHttps | Self::Https | Self::TcpHttps) || self.handshakes().is_some()
    }

    /// The key of what only shakes hands.
    #[must_use]
    pub fn handshakes(self) -> Option<Key> {
        match self {
            Self::HandshakeRsa2048 => Some(Key::Rsa2048),
            Self::HandshakeP256 => Some(Key::P256),
            _ => None,
        }
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

/// Whether a contender has something to do in a mode.
#[must_use]
pub fn takes_part(who: Who, mode: Mode) -> bool {
    // Nobody between is the same whatever is passed through.
    who != Who::Direct || matches!(mode, Mode::Http | Mode::Https)
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
        let name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        ensure!(
            !scenario.id.is_empty() && scenario.id.chars().all(name),
            "id `{}`: letters, digits, - and _ only",
            scenario.id
        );
        for quick in [false, true] {
            for single in scenario.singles(quick) {
                scenario.rates(quick).of(&single.size)?;
            }
            let (points, effort) = (scenario.points(quick), scenario.effort(quick));
            ensure!(!points.is_empty() && !scenario.contenders.is_empty(), "nothing to measure");
            ensure!(
                effort.runs > 0 && effort.seconds > 0.0 && effort.warmup >= 0.0,
                "runs and seconds must be above 0"
            );
            for point in &points {
                bytes(&point.size)?;
                ensure!(point.workers > 0, "a server has at least one worker");
            }
        }
        ensure!(scenario.connections > 0, "connections must be above 0");
        ensure!(
            (1..=64).contains(&scenario.clients) && (1..=64).contains(&scenario.servers),
            "clients and servers: 1 to 64 of each"
        );
        ensure!(
            scenario.connections >= u32::from(scenario.clients),
            "each client needs a connection at least"
        );
        Ok(scenario)
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

    /// All points, in the order in which they are measured.
    #[must_use]
    pub fn points(&self, quick: bool) -> Vec<Point> {
        let workers = self.quick.workers.as_ref().filter(|_| quick).unwrap_or(&self.workers);
        let mut points: Vec<Point> = Vec::new();
        for Single { mode, size, keepalive } in self.singles(quick) {
            for &workers in workers {
                // They were read when the scenario was: none fails here.
                for rate in self.rates(quick).of(&size).unwrap_or_default() {
                    let point = match mode.handshakes() {
                        // Nothing is requested: there are no pages, and no next request.
                        Some(_) => Point { mode, keepalive: false, size: "0".into(), workers, rate },
                        None => Point { mode, keepalive, size: size.clone(), workers, rate },
                    };
                    if !points.contains(&point) {
                        points.push(point);
                    }
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
                singles.extend(sizes.iter().map(|size| Single { mode, size: size.clone(), keepalive }));
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
        if quick {
            Effort { runs: self.quick.runs, seconds: self.quick.seconds, warmup: self.quick.warmup }
        } else {
            self.full
        }
    }

    /// About how long it takes on so many CPUs, seconds.
    #[must_use]
    pub fn seconds(&self, quick: bool, cpus: usize) -> f64 {
        let effort = self.effort(quick);
        let fits = |point: &&Point| self.placement == Placement::Packed || usize::from(point.workers) <= cpus;
        let takes = |point: &Point| self.contenders.iter().filter(|w| takes_part(**w, point.mode)).count();
        let runs: usize = self.points(quick).iter().filter(fits).map(takes).sum();
        runs as f64 * f64::from(effort.runs) * effort.whole()
    }
}

/// The bytes of a size such as `10k`.
///
/// # Errors
/// It is none.
pub fn bytes(size: &str) -> Result<u64> {
    let (digits, unit) = match size.strip_suffix(['k', 'm']) {
        Some(digits) => (digits, if size.ends_with('k') { 1 << 10 } else { 1 << 20 }),
        None => (size, 1),
    };
    let number: u64 =
        digits.parse().ok().with_context(|| format!("`{size}` is no size such as 0, 128, 10k, 1m"))?;
    number.checked_mul(unit).filter(|n| *n <= 1 << 30).with_context(|| format!("{size} is above 1 GB"))
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

    #[test]
    fn sizes_are_read() {
        assert_eq!([bytes("0").unwrap(), bytes("128").unwrap(), bytes("10k").unwrap()], [0, 128, 10_240]);
        assert!(bytes("ten").is_err() && bytes("99999999999m").is_err() && bytes("").is_err());
    }
}
