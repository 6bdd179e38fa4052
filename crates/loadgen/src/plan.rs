//! A run, as asked for and as it will be.
//!
//! Owns: [`Options`], the checks on them, and the [`Plan`] that all workers share: origins with their addresses and
//! prebuilt requests, which slot uses which, and the schedule.
//! Never: opens a connection of the run.
//! Driven by: the command line (options), `run` (plan).

use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_expr::ciphers;
use weir_rt::{CertKey, ClientTls, ClientTlsConfig, IoChoice, TlsVersion};

use weir_wire::h2::ALPN;

use crate::dial::{self, ConnectTo, Peer};
use crate::report::Work;
use crate::schedule::{Course, Schedule};
use crate::shot::{self, Request, Shot, StreamShot, cycle};
use crate::target::{Scheme, Target};
use crate::targets::Asked;

/// What a command line asks for. The defaults are wrk's.
#[derive(Debug, Clone)]
pub struct Options {
    /// Addresses, each `[WEIGHT@]scheme://host[:port][/path]`.
    pub urls: Vec<String>,
    /// Requests with methods, fields and bodies of their own, besides `urls`.
    pub targets: Vec<Asked>,
    /// How many requests there are in all, failed ones among them; `None`: as many as fit into the time.
    pub requests: Option<u64>,
    /// Worker threads.
    pub threads: u32,
    /// Connections in all.
    pub connections: u32,
    /// Measured time, of each step.
    pub duration: Duration,
    /// Time left out before it, of each step.
    pub warmup: Duration,
    /// Rates in turn; empty: as fast as connections allow.
    pub rates: Vec<Rate>,
    /// Fields of every request.
    pub headers: Vec<(String, String)>,
    /// The method; `None`: GET, or POST with a body.
    pub method: Option<String>,
    /// The body.
    pub body: Option<Vec<u8>>,
    /// A request is late after this; so is connecting.
    pub timeout: Duration,
    /// What a unit of work is; TCP targets make `Requests` into `Echo`.
    pub work: Work,
    /// Record a latency for each batch of pipelined requests, not for each request.
    pub batch: bool,
    /// Speak HTTP/2, with so many streams at a time on each connection; by prior knowledge where there is no TLS.
    pub h2: Option<u32>,
    /// Bodies are gRPC messages, encoded: one call a request, whose grpc-status counts. With `h2` alone.
    pub grpc: bool,
    /// Any WebSocket message is an answer, not only one like that which was sent.
    pub any_reply: bool,
    /// Where connections go, instead of the URL's host and port.
    pub connect_to: Vec<ConnectTo>,
    /// The unix socket that all connections go to.
    pub unix_socket: Option<PathBuf>,
    /// What is shown to servers that ask for a certificate.
    pub certificate: Option<Identity>,
    /// Resume TLS sessions.
    pub resume: bool,
    /// The only TLS version.
    pub tls_version: Option<TlsVersion>,
    /// Cipher suites, OpenSSL's names joined by colons.
    pub suites: Option<String>,
    /// Key exchange groups, joined by colons.
    pub curves: Option<String>,
    /// The name asked for, instead of the URL's host.
    pub server_name: Option<String>,
    /// Local addresses.
    pub sources: Vec<std::net::IpAddr>,
    /// Bytes of an echoed message, where no body is given.
    pub echo_bytes: usize,
    /// The Lua script.
    pub script: Option<ScriptFile>,
    /// What stands behind `--` on the command line.
    pub script_args: Vec<String>,
    /// The I/O driver.
    pub io: IoChoice,
}

/// A client's certificate chain and its key, PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The chain, own certificate first.
    pub chain_pem: Vec<u8>,
    /// The key.
    pub key_pem: Vec<u8>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity(…)")
    }
}

/// A Lua script, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptFile {
    /// Its path, for messages.
    pub name: String,
    /// Its text.
    pub text: Vec<u8>,
}

impl ScriptFile {
    /// Reads it.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let name = path.display().to_string();
        let text = std::fs::read(path).map_err(|error| format!("cannot read {name}: {error}"))?;
        Ok(Self { name, text })
    }
}

/// A rate, or a ramp between two: requests a second over all connections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// At the beginning.
    pub from: f64,
    /// At the end.
    pub to: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            targets: Vec::new(),
            requests: None,
            threads: 2,
            connections: 10,
            duration: Duration::from_secs(10),
            warmup: Duration::ZERO,
            rates: Vec::new(),
            headers: Vec::new(),
            method: None,
            body: None,
            timeout: Duration::from_secs(2),
            work: Work::Requests,
            batch: false,
            h2: None,
            grpc: false,
            any_reply: false,
            connect_to: Vec::new(),
            unix_socket: None,
            certificate: None,
            resume: false,
            tls_version: None,
            suites: None,
            curves: None,
            server_name: None,
            sources: Vec::new(),
            echo_bytes: 1024,
            script: None,
            script_args: Vec::new(),
            io: IoChoice::Auto,
        }
    }
}

/// Reads `--rates`: `1000..10000/1000` (steps), `1000..10000` (a ramp), `500,1000,2k` (a list).
///
/// # Errors
/// A sentence that says what was expected.
pub fn rates(text: &str) -> Result<Vec<Rate>, String> {
    let constant = |rate: f64| Rate { from: rate, to: rate };
    let Some((from, rest)) = text.split_once("..") else {
        return text.split(',').map(|one| crate::units::rate(one).map(constant)).collect();
    };
    let from = crate::units::rate(from)?;
    let Some((to, step)) = rest.split_once('/') else {
        return Ok(vec![Rate { from, to: crate::units::rate(rest)? }]);
    };
    let (to, step) = (crate::units::rate(to)?, crate::units::rate(step)?);
    if step <= 0.0 || (to - from).abs() / step > 10_000.0 {
        return Err(format!("`{text}`: a step is more than 0, and 10000 steps are the most"));
    }
    let count = ((to - from).abs() / step + 1e-9).floor() as u32;
    let signed = if to < from { -step } else { step };
    Ok((0..=count).map(|n| constant(from + signed * f64::from(n))).collect())
}

/// Where connections of some slots go.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) target: Target,
    pub(crate) peers: Vec<Peer>,
    pub(crate) server_name: String,
    /// What is sent, made once.
    pub(crate) shots: Vec<Shot>,
    /// The same for HTTP/2, where that is spoken.
    pub(crate) streams: Vec<StreamShot>,
    /// The order in which `shots` are sent.
    pub(crate) cycle: Vec<usize>,
}

/// A run, checked.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) options: Options,
    pub(crate) work: Work,
    pub(crate) origins: Vec<Origin>,
    /// The origin of each slot.
    pub(crate) slots: Vec<usize>,
    pub(crate) schedule: Schedule,
    pub(crate) method: String,
}

impl Plan {
    /// Checks options, resolves names, and builds requests.
    pub(crate) fn new(options: Options) -> Result<Self, String> {
        let plain = |url: &String| Asked { url: url.clone(), ..Asked::default() };
        let asked: Vec<Asked> =
            options.urls.iter().map(plain).chain(options.targets.iter().cloned()).collect();
        let targets: Vec<Target> =
            asked.iter().map(|one| Target::parse(&one.url)).collect::<Result<_, _>>()?;
        check(&options, &targets)?;
        let work = match targets.first().map(|target| target.scheme) {
            Some(Scheme::Tcp) => Work::Echo,
            Some(Scheme::Ws | Scheme::Wss) => Work::Messages,
            _ => options.work,
        };
        let mut origins: Vec<Origin> = Vec::new();
        let mut weights: Vec<Vec<u32>> = Vec::new();
        for (target, asked) in targets.iter().zip(&asked) {
            let parts = Parts::of(&options, work, asked, target)?;
            let stream = options.h2.map(|_| parts.request(work, target).stream(target.scheme.name()));
            let shot = parts.shot(&options, work, target);
            match origins.iter().position(|origin| origin.target.same_origin(target)) {
                Some(at) => {
                    origins[at].shots.push(shot);
                    origins[at].streams.extend(stream);
                    weights[at].push(target.weight);
                }
                None => {
                    if origins.len() >= options.connections as usize {
                        return Err(too_few(origins.len() + 1, options.connections));
                    }
                    let server_name = options.server_name.clone().unwrap_or_else(|| target.host.clone());
                    origins.push(Origin {
                        target: target.clone(),
                        peers: dial::peers(target, &options)?,
                        server_name,
                        shots: vec![shot],
                        streams: stream.into_iter().collect(),
                        cycle: Vec::new(),
                    });
                    weights.push(vec![target.weight]);
                }
            }
        }
        let method = method(&options, &Asked::default(), work);
        if let Some(sum) = weights.iter().map(|all| cycle_cost(all)).find(|&cost| cost > MOST_TURNS) {
            return Err(format!("weights of so many URLs are too uneven: {sum} turns to share out"));
        }
        for (origin, weights) in origins.iter_mut().zip(&weights) {
            origin.cycle = cycle(weights);
        }
        let sums: Vec<u32> = weights.iter().map(|weights| weights.iter().sum()).collect();
        let slots = share_out(options.connections, &sums)?;
        if targets.iter().any(|target| target.scheme.is_encrypted()) {
            tls(&options)?;
        }
        let courses: Vec<Course> =
            options.rates.iter().map(|rate| Course { from: rate.from, to: rate.to }).collect();
        let schedule = if courses.is_empty() {
            Schedule::closed(options.warmup, options.duration)
        } else {
            Schedule::open(&courses, options.warmup, options.duration)
        };
        Ok(Self { options, work, origins, slots, schedule, method })
    }

    /// Number of steps.
    pub(crate) fn steps(&self) -> usize {
        self.options.rates.len().max(1)
    }

    /// The TLS client of one worker; plans have been checked, so it can be built.
    pub(crate) fn tls(&self) -> Option<ClientTls> {
        let wanted = self.origins.iter().any(|origin| origin.target.scheme.is_encrypted());
        wanted.then(|| tls(&self.options).ok()).flatten()
    }
}

fn check(options: &Options, targets: &[Target]) -> Result<(), String> {
    if targets.is_empty() {
        return Err("no URL was given".into());
    }
    if options.threads == 0 || options.threads > 1024 {
        return Err("threads are 1 to 1024".into());
    }
    if options.connections < options.threads {
        return Err(format!(
            "{} connections are fewer than {} threads: each thread needs one at least",
            options.connections, options.threads
        ));
    }
    if options.connections > 1_000_000 {
        return Err("connections are 1000000 at most".into());
    }
    if options.duration.is_zero() {
        return Err("a duration is more than 0".into());
    }
    for rate in &options.rates {
        let highest = rate.from.max(rate.to);
        if rate.from < 0.0 || rate.to < 0.0 || highest <= 0.0 || highest > 1e9 {
            return Err("a rate is more than 0, and 1G at most".into());
        }
    }
    let kinds: [fn(Scheme) -> bool; 2] = [|scheme| scheme == Scheme::Tcp, Scheme::is_websocket];
    for kind in kinds {
        let some = targets.iter().filter(|target| kind(target.scheme)).count();
        if some > 0 && some < targets.len() {
            let name = if kind(Scheme::Tcp) { "tcp://" } else { "ws://" };
            return Err(format!("{name} and http:// do not go together in one run"));
        }
    }
    let messages = targets.iter().any(|target| target.scheme == Scheme::Tcp || target.scheme.is_websocket());
    if messages && !matches!(options.work, Work::Requests | Work::Echo | Work::Messages) {
        return Err(
            "tcp:// and ws:// targets are for messages: --new-connections and --handshakes need http:// or https://"
                .into(),
        );
    }
    if options.work == Work::Handshakes && targets.iter().any(|target| target.scheme != Scheme::Https) {
        return Err("--handshakes needs https:// URLs".into());
    }
    if options.script.is_some() && (targets.len() > 1 || messages || options.work == Work::Handshakes) {
        return Err("a script goes with one http:// or https:// URL".into());
    }
    if let Some(requests) = options.requests {
        if requests == 0 {
            return Err("--requests is 1 at least".into());
        }
        if options.rates.len() > 1 || options.rates.iter().any(|rate| rate.from != rate.to) {
            return Err("--requests goes with one rate: the steps of --rates have a time each".into());
        }
        if !options.warmup.is_zero() {
            return Err("--requests counts from the first: it does not go with --warmup".into());
        }
    }
    if options.grpc && options.h2.is_none() {
        return Err("gRPC is spoken over HTTP/2".into());
    }
    if let Some(streams) = options.h2 {
        check_h2(options, streams, messages)?;
    }
    Ok(())
}

fn check_h2(options: &Options, streams: u32, messages: bool) -> Result<(), String> {
    if messages {
        return Err("tcp:// and ws:// targets are for messages: --h2 needs http:// or https://".into());
    }
    if options.script.is_some() {
        return Err("scripts write HTTP/1.1, and do not go with --h2".into());
    }
    if streams == 0 || streams > 10_000 {
        return Err("streams are 1 to 10000".into());
    }
    if options.work != Work::Requests && streams > 1 {
        return Err(
            "--new-connections and --handshakes have one request a connection at most: no --streams".into()
        );
    }
    let slots = u64::from(options.connections) * u64::from(streams);
    if slots > 10_000_000 {
        return Err(format!("{slots} streams in all are too many: 10000000 are the most"));
    }
    Ok(())
}

/// What a cycle of requests may take to be laid out.
const MOST_TURNS: u64 = 100_000_000;

/// Steps that [`cycle`] takes.
fn cycle_cost(weights: &[u32]) -> u64 {
    if weights.iter().all(|weight| Some(weight) == weights.first()) {
        return 0;
    }
    weights.iter().map(|&weight| u64::from(weight)).sum::<u64>() * weights.len() as u64
}

fn too_few(servers: usize, connections: u32) -> String {
    format!("{servers} servers need a connection each; -c is {connections}")
}

/// The method of one of the requests.
fn method(options: &Options, asked: &Asked, work: Work) -> String {
    let has_body = asked.body.is_some() || options.body.is_some();
    let posts = options.grpc || (has_body && !matches!(work, Work::Echo | Work::Messages));
    let named = asked.method.as_ref().or(options.method.as_ref());
    named.map_or_else(|| if posts { "POST" } else { "GET" }.to_owned(), Clone::clone)
}

/// What one of the requests is made of.
struct Parts {
    method: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Parts {
    fn of(options: &Options, work: Work, asked: &Asked, target: &Target) -> Result<Self, String> {
        let own = |name: &str| asked.headers.iter().any(|(its, _)| its.eq_ignore_ascii_case(name));
        let mut headers: Vec<(String, String)> =
            options.headers.iter().filter(|(name, _)| !own(name)).cloned().collect();
        headers.extend(asked.headers.iter().cloned());
        let mut body = asked.body.clone().or_else(|| options.body.clone());
        if options.grpc {
            shot::grpc(&target.path, &mut headers, &mut body)?;
        }
        let method = method(options, asked, work);
        if method.is_empty() || !method.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-') {
            return Err(format!("`{method}` is no method"));
        }
        Ok(Self { method, headers, body })
    }

    fn request<'a>(&'a self, work: Work, target: &'a Target) -> Request<'a> {
        Request {
            method: &self.method,
            path: &target.path,
            authority: &target.authority,
            headers: &self.headers,
            body: self.body.as_deref(),
            close: work == Work::NewConnections,
        }
    }

    /// The bytes of a request, or a message.
    fn shot(&self, options: &Options, work: Work, target: &Target) -> Shot {
        if matches!(work, Work::Echo | Work::Messages) {
            let pattern = || (b'a'..=b'z').cycle().take(options.echo_bytes.max(1)).collect();
            let bytes = self.body.clone().filter(|body| !body.is_empty()).unwrap_or_else(pattern);
            return Shot { bytes, answers: 1, head: false };
        }
        self.request(work, target).build()
    }
}

/// The TLS settings of the options.
fn tls(options: &Options) -> Result<ClientTls, String> {
    let (mut suites12, mut suites13) = (None, None);
    if let Some(list) = &options.suites {
        let ciphers::Selection { suites: old, suites13: new, .. } = ciphers::select(list);
        if old.is_empty() && new.is_empty() {
            return Err(format!("`{list}` names no suite that can be used here"));
        }
        // Naming a suite of one version alone leaves out the other version.
        suites12 = Some(old);
        suites13 = Some(new);
    }
    let groups = match &options.curves {
        None => None,
        Some(list) => {
            let known = |name: &str| {
                ciphers::group(name).map(str::to_owned).ok_or_else(|| {
                    format!("`{name}` is no curve that can be used here: X25519, P-256, P-384 are")
                })
            };
            let names = list.split([':', ',', ' ']).filter(|name| !name.is_empty());
            Some(names.map(known).collect::<Result<Vec<_>, _>>()?)
        }
    };
    ClientTls::new(ClientTlsConfig {
        sessions: if options.resume { 4096 } else { 0 },
        min_version: options.tls_version.unwrap_or(TlsVersion::Tls12),
        max_version: options.tls_version.unwrap_or(TlsVersion::Tls13),
        suites12,
        suites13,
        groups,
        certificate: options.certificate.as_ref().map(|own| CertKey {
            chain_pem: own.chain_pem.clone(),
            key_pem: own.key_pem.clone(),
            passwords: Vec::new(),
            names: Vec::new(),
            default: true,
            staple: None,
        }),
        alpn: if options.h2.is_some() { vec![ALPN.to_vec()] } else { Vec::new() },
        ..ClientTlsConfig::default()
    })
    .map_err(|error| format!("cannot use these TLS settings: {error}"))
}

/// Gives each of `connections` slots an origin, in proportion to `weights`, at least one each, evenly mixed.
fn share_out(connections: u32, weights: &[u32]) -> Result<Vec<usize>, String> {
    if (connections as usize) < weights.len() {
        return Err(too_few(weights.len(), connections));
    }
    if weights.len() == 1 {
        return Ok(vec![0; connections as usize]);
    }
    // The whole part of each share, at least one; then one more or less for whoever is furthest from its share.
    let sum: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
    let share: Vec<f64> =
        weights.iter().map(|&weight| f64::from(connections) * f64::from(weight) / sum).collect();
    let mut counts: Vec<u32> = share.iter().map(|share| (share.floor() as u32).max(1)).collect();
    let over = |counts: &[u32], at: usize| f64::from(counts[at]) - share[at];
    while counts.iter().sum::<u32>() != connections {
        let all = 0..counts.len();
        if counts.iter().sum::<u32>() < connections {
            let least =
                all.min_by(|&a, &b| over(&counts, a).total_cmp(&over(&counts, b))).unwrap_or_default();
            counts[least] += 1;
        } else {
            let movable = all.filter(|&at| counts[at] > 1);
            let most =
                movable.max_by(|&a, &b| over(&counts, a).total_cmp(&over(&counts, b))).unwrap_or_default();
            counts[most] -= 1;
        }
    }
    Ok(cycle(&counts).into_iter().cycle().take(connections as usize).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(change: impl FnOnce(&mut Options)) -> Result<Plan, String> {
        let mut options = Options { urls: vec!["http://127.0.0.1:80/a".into()], ..Options::default() };
        change(&mut options);
        Plan::new(options)
    }

    #[test]
    fn rates_are_steps_ramps_or_lists() {
        let of = |text: &str| rates(text).map(|all| all.iter().map(|r| (r.from, r.to)).collect::<Vec<_>>());
        assert_eq!(of("1k..3k/1k"), Ok(vec![(1e3, 1e3), (2e3, 2e3), (3e3, 3e3)]));
        assert_eq!(of("30..10/10"), Ok(vec![(30.0, 30.0), (20.0, 20.0), (10.0, 10.0)]));
        assert_eq!(of("0..2k"), Ok(vec![(0.0, 2e3)]));
        assert_eq!(of("5,1k"), Ok(vec![(5.0, 5.0), (1e3, 1e3)]));
        assert!(of("1..5/0").is_err() && of("x").is_err() && of("1..").is_err());
    }

    #[test]
    fn urls_of_one_server_share_its_connections() {
        let plan = plan(|options| {
            options.urls = ["3@http://127.0.0.1:80/a", "http://127.0.0.1:80/b", "http://127.0.0.1:81/"]
                .map(str::to_owned)
                .to_vec();
        })
        .unwrap();
        assert_eq!(plan.origins.len(), 2);
        assert_eq!(plan.origins[0].cycle, [0, 0, 1, 0]);
        assert_eq!(plan.slots.iter().filter(|&&origin| origin == 1).count(), 2, "{:?}", plan.slots);
    }

    #[test]
    fn what_cannot_be_is_said() {
        let error = |change: fn(&mut Options)| plan(change).unwrap_err();
        assert!(error(|o| o.urls.clear()).contains("URL"));
        assert!(error(|o| o.threads = 11).contains("fewer than 11"));
        assert!(error(|o| o.work = Work::Handshakes).contains("https"));
        assert!(error(|o| o.rates = vec![Rate { from: 0.0, to: 0.0 }]).contains("rate"));
        let https = |o: &mut Options| o.urls = vec!["https://127.0.0.1/".into()];
        let suites = plan(|o| {
            https(o);
            o.suites = Some("AES256-SHA".into())
        })
        .unwrap_err();
        assert!(suites.contains("AES256-SHA"), "{suites}");
        let curve = plan(|o| {
            https(o);
            o.curves = Some("P-521".into())
        })
        .unwrap_err();
        assert!(curve.contains("P-521"), "{curve}");
        assert!(error(|o| o.urls.push("tcp://127.0.0.1:7".into())).contains("together"));
    }

    #[test]
    fn requests_of_a_file_are_their_own() {
        let plan = plan(|o| {
            o.headers = vec![("X-All".into(), "1".into()), ("X-Own".into(), "all".into())];
            o.targets = vec![Asked {
                url: "http://127.0.0.1:80/b".into(),
                method: Some("PUT".into()),
                headers: vec![("x-own".into(), "mine".into())],
                body: Some(b"xy".to_vec()),
            }];
        })
        .unwrap();
        assert_eq!(
            plan.origins[0].shots[1].bytes,
            b"PUT /b HTTP/1.1\r\nHost: 127.0.0.1:80\r\nX-All: 1\r\nx-own: mine\r\nContent-Length: 2\r\n\r\nxy"
        );
        assert!(plan.origins[0].shots[0].bytes.starts_with(b"GET /a "));
    }

    #[test]
    fn messages_and_requests_do_not_mix() {
        let error = |change: fn(&mut Options)| plan(change).unwrap_err();
        assert!(error(|o| o.urls.push("ws://127.0.0.1/".into())).contains("ws:// and http://"));
        assert!(
            error(|o| {
                o.requests = Some(5);
                o.rates = rates("1..5/1").unwrap()
            })
            .contains("one rate")
        );
        assert!(
            error(|o| {
                o.requests = Some(5);
                o.warmup = Duration::from_secs(1)
            })
            .contains("--warmup")
        );
    }

    #[test]
    fn a_body_makes_a_post() {
        let plan = plan(|options| options.body = Some(b"x".to_vec())).unwrap();
        assert!(plan.origins[0].shots[0].bytes.starts_with(b"POST /a HTTP/1.1\r\n"));
    }
}
