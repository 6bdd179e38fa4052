//! `weir load …`: the command line of the load generator.
//!
//! Owns: its words, wrk2's among them, and where figures go.
//! Never: measures; `weir_loadgen` does.

use std::io::{IsTerminal, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use weir_lab::report::run_page;
use weir_loadgen::agent::{Agency, LeadWatch, lead};
use weir_loadgen::hdr_log::HdrLog;
use weir_loadgen::live::{Live, Show};
use weir_loadgen::report::{Report, Work};
use weir_loadgen::verdict::{self, Condition};
use weir_loadgen::{
    ConnectTo, Identity, Interval, Options, Rate, RunError, ScriptFile, TlsVersion, Watch, shot, targets,
    text, units,
};

use super::load_helpers;
use super::load_metrics::{Metrics, Sinks};
use super::values::{IoWord, TlsWord};

pub(super) const HELP: &str = "\
Two load models:
  with -R     requests come at a rate that the server cannot slow down. Each is due at a moment, and
              its latency begins then: a stall is felt by all requests that fell into it (no
              coordinated omission). -U shows beside it what a client sees that waits its turn.
  without -R  as fast as the connections allow: how much can it do? Its latencies say little.

Examples:
  weir load -t1 -c50 -d180s -R2000 --latency https://host/1k.bin     as wrk2, same words, same text
  weir load -t2 -c100 -d30s http://host/                             as wrk
  weir load -c50 -d20s --rates 1k..10k/1k --warmup 5s http://host/   ten rates: where is the knee?
  weir load -c64 -d10s --new-connections http://host/                connections a second
  weir load -c64 -d10s --handshakes --tls 1.2 https://host/          full TLS handshakes a second
  weir load -c10 --h2 --streams 32 -d10s https://host/               HTTP/2, 32 requests at a time each
  weir load --channels 50 -d30s http://host/10m.bin                  throughput in Gbit/s
  weir load -c8 -d10s -R5000 tcp://host:7                            messages echoed over TCP
  weir load -c20 -R500 3@http://host/a 1@http://host/b               three of four to the first
  weir load -c10 -s login.lua https://host/ -- joe                   wrk's Lua scripts
  weir load -c400 -R40k --agents one,two,three https://host/         three machines (see `agent`)
  weir load serve --http 127.0.0.1:8080                              something to be loaded
  weir load hold -c8000 https://host/0                               idle connections (see `hold`)
  weir load -R2000 --json --hdr run.hlog https://host/ > run.json    for programs
  weir load -R1k --fail-if 'p99>50ms' --fail-if 'rate<990' http://host/   a test of a pipeline
  weir load -R2000 --report run.html http://host/                    a page with plots
  weir load --compare before.json after.json --report both.html      two runs side by side
  weir load -n 10k -c20 --targets requests.txt                       ten thousand requests of a file
  weir load -c10 -R500 --grpc --body-file call.pb http://host:50051/pkg.Service/Method   gRPC
  weir load -c100 -R1k --body hello wss://host/chat                  WebSocket messages that come back
  weir load -c10 --connect-to ::10.0.0.7:443 https://host/           another server, the same names

Numbers take k, M and G; times us, ms, s (the default), m and h; sizes k, m and g (of 1024).
What speaks against the figures (generator too slow, rate not reached, CPU stolen) is said on
standard error. Ctrl-C stops a run and prints what was measured by then; again, it ends at once.

Exit status: 0 when all went well; 1 when there are no figures; 2 when the command line is wrong; 3 when
fewer requests succeeded than --success wants; 4 when a condition of --fail-if is met; 130 after Ctrl-C.";

/// Put a server under load, and measure it.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(group = ArgGroup::new("paced").args(["rate", "rates"]).multiple(true))]
pub(super) struct Load {
    /// What is asked: `[WEIGHT@]http://…`, `https://…`; `ws://…`, `wss://…` for WebSocket messages; `tcp://host:port` for
    /// echoes. URLs of one server share its connections.
    #[arg(value_name = "URL", required_unless_present_any = ["targets", "compare"])]
    urls: Vec<String>,
    /// A file of requests: `[WEIGHT@][METHOD ]URL` a line, below each its own header fields, and `@FILE` for its body.
    #[arg(long, value_name = "FILE")]
    targets: Option<PathBuf>,
    #[command(subcommand)]
    helper: Option<Helper>,
    /// Machines that run `weir load agent` and share the load: HOST or HOST:PORT, joined by commas.
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', requires = "token", conflicts_with_all = ["source", "cert"])]
    agents: Vec<String>,
    /// What agents know us by; better given as WEIR_LOAD_TOKEN.
    #[arg(long, env = "WEIR_LOAD_TOKEN", hide_env_values = true, value_name = "WORD")]
    token: Option<String>,
    /// Threads.
    #[arg(short, long, value_name = "N", value_parser = units::count, default_value = "2")]
    threads: u64,
    /// Connections, all threads together [default: 10]
    #[arg(short, long, value_name = "N", value_parser = units::count)]
    connections: Option<u64>,
    /// How long is measured; of each step, with --rates [default: 10s, or 1h with --requests]
    #[arg(short, long, value_name = "T", value_parser = units::time)]
    duration: Option<Duration>,
    /// End after so many requests, failed ones among them, or after --duration.
    #[arg(short = 'n', long, value_name = "N", value_parser = units::count, conflicts_with_all = ["rates", "warmup"])]
    requests: Option<u64>,
    /// Requests a second, all connections together: constant, whatever the server does.
    #[arg(short = 'R', long, value_name = "N", value_parser = units::rate)]
    rate: Option<f64>,
    /// Rates in one run: `1k..10k/1k` steps, `1k..10k` one ramp, `500,1k,5k` a list.
    #[arg(long, value_name = "RATES", value_parser = rate_list, conflicts_with = "rate")]
    rates: Option<RateList>,
    /// Time before measuring that is left out; of each step, with --rates.
    #[arg(long, value_name = "T", value_parser = units::time, default_value = "0")]
    warmup: Duration,
    /// A field of every request, such as `Accept: */*`; may be repeated.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = shot::header)]
    headers: Vec<(String, String)>,
    /// A Lua script as wrk has them: setup, init, delay, request, response, done.
    #[arg(short, long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// What the script's `init` is given.
    #[arg(last = true, value_name = "ARGS", requires = "script")]
    script_args: Vec<String>,
    /// Print percentiles and the detailed spectrum of latencies.
    #[arg(short = 'L', long)]
    latency: bool,
    /// Print latencies from the moment of sending as well.
    #[arg(short = 'U', long = "uncorrected", alias = "u_latency", requires = "paced")]
    uncorrected: bool,
    /// Record the latency of whole batches of pipelined requests.
    #[arg(short = 'B', long, alias = "batch_latency", requires = "script")]
    batch: bool,
    /// Requests that take longer are counted as timed out, and are still waited for.
    #[arg(long, value_name = "T", value_parser = units::time, default_value = "2s")]
    timeout: Duration,
    /// The method [default: GET, or POST with a body]
    #[arg(short = 'X', long, value_name = "WORD")]
    method: Option<String>,
    /// The body of every request, or the message to be echoed.
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    body: Option<String>,
    /// A file with the body.
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
    /// Bytes of a message (tcp://, ws://), where no body is given [default: 1k]
    #[arg(long, value_name = "SIZE", value_parser = units::size, conflicts_with_all = ["body", "body_file"])]
    echo_size: Option<u64>,
    /// Take any WebSocket message for an answer, not only one like that which was sent.
    #[arg(long)]
    any_reply: bool,
    /// A connection for each request: measures connections a second.
    #[arg(long, conflicts_with = "handshakes")]
    new_connections: bool,
    /// TLS handshakes and no requests: measures handshakes a second, full ones unless --resume.
    #[arg(long, conflicts_with_all = ["method", "headers", "body", "body_file", "script", "targets"])]
    handshakes: bool,
    /// So many connections, each loading as fast as it can: measures throughput in Gbit/s.
    #[arg(long, value_name = "N", value_parser = units::count, conflicts_with_all = ["connections", "rate", "rates"])]
    channels: Option<u64>,
    /// Speak HTTP/2: agreed on in TLS, or taken for granted on http:// (h2c).
    #[arg(long, conflicts_with = "script")]
    h2: bool,
    /// Requests at a time on each HTTP/2 connection [default: 1]
    #[arg(short = 'm', long, value_name = "N", value_parser = units::count)]
    streams: Option<u64>,
    /// Make gRPC calls, over HTTP/2: the URL's path is /package.Service/Method, the body an encoded message.
    #[arg(long, conflicts_with_all = ["script", "method", "handshakes"])]
    grpc: bool,
    /// Resume TLS sessions. Without it every handshake is a full one, and one that is not is an error.
    #[arg(long)]
    resume: bool,
    /// The only TLS version.
    #[arg(long, value_name = "VERSION", value_enum)]
    tls: Option<TlsWord>,
    /// TLS suites by OpenSSL's names, such as ECDHE-ECDSA-AES256-GCM-SHA384 or TLS_AES_128_GCM_SHA256.
    #[arg(long, alias = "suites", value_name = "NAMES")]
    suite: Option<String>,
    /// Key exchange groups: X25519, P-256, P-384, X25519MLKEM768.
    #[arg(long, alias = "curves", value_name = "NAMES")]
    curve: Option<String>,
    /// The server name asked for in TLS, instead of the URL's host.
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,
    /// A client certificate (its chain), PEM.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Connect to HOST2:PORT2 for requests to HOST1:PORT1, as curl does; each part may be empty. May be repeated.
    #[arg(long, value_name = "HOST1:PORT1:HOST2:PORT2")]
    connect_to: Vec<ConnectTo>,
    /// Connect to this unix socket; the URL tells what is asked for.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["connect_to", "source", "agents"])]
    unix_socket: Option<PathBuf>,
    /// Local addresses that connections come from in turn; may be repeated.
    #[arg(long, value_name = "IP", value_delimiter = ',')]
    source: Vec<IpAddr>,
    /// Print the report as JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Write a page with plots, for a browser: of the run, of its steps, or of two runs (--compare).
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Compare two reports of --json instead of measuring: a table of ratios, and a page with --report.
    #[arg(long, num_args = 2, value_names = ["A.json", "B.json"], conflicts_with_all = ["urls", "targets", "agents"])]
    compare: Vec<PathBuf>,
    /// Write an HdrHistogram interval log, a line a second.
    #[arg(long, value_name = "FILE", conflicts_with = "agents")]
    hdr: Option<PathBuf>,
    /// What is shown while the run goes on.
    #[arg(long, value_name = "WHAT", value_enum, default_value = "auto")]
    progress: ProgressWord,
    #[command(flatten)]
    metrics: Metrics,
    /// The share of requests that must succeed: answered, and below 400. Less is exit status 3.
    #[arg(long, value_name = "SHARE", value_parser = units::share, default_value = "99%")]
    success: f64,
    /// A condition under which the run has failed, such as 'p99>50ms', 'errors>0.1%' or 'rate<990'; may be repeated. One
    /// that is met, in any step, is exit status 4.
    #[arg(long, value_name = "CONDITION", value_parser = Condition::parse)]
    fail_if: Vec<Condition>,
    /// How sockets are driven.
    #[arg(long, value_enum, env = "WEIR_IO", default_value = "auto")]
    io: IoWord,
    /// Print the version.
    #[arg(short = 'v', long = "version", action = clap::ArgAction::Version)]
    version: Option<bool>,
}

/// What is shown, by name.
#[derive(Clone, Copy, ValueEnum)]
enum ProgressWord {
    /// A view on a terminal; else a line every ten seconds.
    Auto,
    /// A plain line every second.
    Lines,
    /// Nothing.
    Off,
}

impl From<ProgressWord> for Show {
    fn from(word: ProgressWord) -> Self {
        match word {
            ProgressWord::Auto => Self::Auto,
            ProgressWord::Lines => Self::Lines,
            ProgressWord::Off => Self::Off,
        }
    }
}

#[derive(Subcommand)]
enum Helper {
    /// Serve pages of given sizes from memory, to be loaded.
    #[command(after_help = load_helpers::SERVE_HELP)]
    Serve(load_helpers::Serve),
    /// Wait for orders, and take part in a run of several machines.
    #[command(after_help = load_helpers::AGENT_HELP)]
    Agent(load_helpers::Agent),
    /// Open connections, use each once, and keep them idle until standard input ends.
    #[command(after_help = load_helpers::HOLD_HELP)]
    Hold(load_helpers::Hold),
}

/// A list that clap takes as one value.
#[derive(Clone)]
struct RateList(Vec<Rate>);

fn rate_list(text: &str) -> Result<RateList, String> {
    weir_loadgen::rates(text).map(RateList)
}

/// Exit status of a command line that is wrong, as clap has it.
const USAGE: u8 = 2;
/// How long a run of so many requests may take, unless told.
const LONGEST: Duration = Duration::from_secs(3600);
/// Exit status after Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;

/// Obeys: exit 0 with figures, 1 without; others as [`judged`] says.
pub(super) fn run(load: Load) -> ExitCode {
    let done = match load.helper {
        Some(Helper::Serve(serve)) => load_helpers::serve(serve).map(|()| ExitCode::SUCCESS),
        Some(Helper::Agent(agent)) => load_helpers::agent(agent).map(|()| ExitCode::SUCCESS),
        Some(Helper::Hold(hold)) => load_helpers::hold(hold).map(|()| ExitCode::SUCCESS),
        None => measure(load),
    };
    done.unwrap_or_else(|why| {
        errln!("{why}");
        ExitCode::FAILURE
    })
}

/// The exit status that a run deserves; what is wrong with it is told.
fn judged(report: &Report, least: f64, conditions: &[Condition]) -> ExitCode {
    let met: Vec<String> = conditions.iter().flat_map(|condition| condition.failures(report)).collect();
    for met in &met {
        errln!("failed if {met}");
    }
    if report.interrupted {
        return ExitCode::from(INTERRUPTED);
    }
    let share = verdict::success(report);
    if share < least {
        // Rounded down, so that it does not say what is wanted.
        let share = (share * 1e5).floor() / 1e3;
        errln!("{share}% of requests succeeded; --success wants {}%", least * 100.0);
        return ExitCode::from(verdict::TOO_FEW);
    }
    if met.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(verdict::FAILED_IF) }
}

/// Set by the first Ctrl-C, or the first SIGTERM; the second ends the process.
fn interruption() -> Result<Arc<AtomicBool>, String> {
    let halt = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let end = signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED.into(), halt.clone());
        let set = end.and_then(|_| signal_hook::flag::register(signal, halt.clone()));
        set.map_err(|error| format!("cannot take signals: {error}"))?;
    }
    Ok(halt)
}

/// Reads two reports and sets them side by side.
fn compare(one: &Path, two: &Path, page: Option<&Path>) -> Result<(), String> {
    let report = |path: &Path| {
        let text = read(path)?;
        let report = Report::from_json(&String::from_utf8_lossy(&text));
        report.map_err(|bad| format!("{}: {bad}", path.display()))
    };
    let name = |path: &Path| path.display().to_string();
    let (a, b) = (report(one)?, report(two)?);
    let (a, b) = ((name(one), &a), (name(two), &b));
    let (a, b) = ((a.0.as_str(), a.1), (b.0.as_str(), b.1));
    if let Some(path) = page {
        write_page(path, &run_page::comparison(a, b))?;
    }
    out!("{}", run_page::comparison_text(a, b));
    Ok(())
}

fn write_page(path: &Path, page: &str) -> Result<(), String> {
    std::fs::write(path, page).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn measure(load: Load) -> Result<ExitCode, String> {
    if let [one, two] = &load.compare[..] {
        return compare(one, two, load.report.as_deref()).map(|()| ExitCode::SUCCESS);
    }
    let parts = text::Parts {
        latency: load.latency,
        uncorrected: load.uncorrected,
        throughput: load.channels.is_some(),
    };
    let (json, hdr) = (load.json, load.hdr.clone());
    let agency = (!load.agents.is_empty())
        .then(|| Agency { agents: load.agents.clone(), token: load.token.clone().unwrap_or_default() });
    let (least, conditions, show_live) = (load.success, load.fail_if.clone(), load.progress.into());
    let (metrics, page) = (load.metrics.clone(), load.report.clone());
    let page =
        |report: &Report| page.as_ref().map_or(Ok(()), |path| write_page(path, &run_page::page(report)));
    let file = load.targets.as_ref().map(|path| path.display().to_string());
    let options = match options(load) {
        Ok(options) => options,
        Err(why) => return Ok(refused(&why)),
    };
    let header = (!json).then(|| {
        let steps = options.rates.len().max(1) as f64;
        let seconds = (options.duration + options.warmup).as_secs_f64() * steps;
        let asked: Vec<&str> = options.urls.iter().map(String::as_str).chain(file.as_deref()).collect();
        text::header(seconds, options.requests, &asked.join(" "), options.threads, options.connections)
    });
    let halt = interruption()?;
    let mut sinks = metrics.start()?;
    if let Some(agency) = agency {
        let mut screen = Leading { live: Live::new(show_live), header, halt };
        let report = lead(&options, &agency, &mut screen);
        screen.live.clear();
        return match report {
            Err(error) => failed(&error),
            Ok(report) => {
                sinks.finished(&report);
                show(&report, json, parts)?;
                page(&report)?;
                sinks.finish()?;
                Ok(judged(&report, least, &conditions))
            }
        };
    }
    let log = match &hdr {
        Some(path) => {
            Some(HdrLog::create(path).map_err(|error| format!("cannot create {}: {error}", path.display()))?)
        }
        None => None,
    };
    let mut screen =
        Screen { live: Live::new(show_live), log, sinks, header, halt, json, parts, shown: Ok(()) };
    let result = weir_loadgen::run(options, &mut screen);
    screen.live.clear();
    let report = match result {
        Err(error) => return failed(&error),
        Ok(report) => report,
    };
    if let (Some(log), Some(path)) = (screen.log, &hdr) {
        log.finish().map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    page(&report)?;
    screen.sinks.finish()?;
    screen.shown?;
    Ok(judged(&report, least, &conditions))
}

/// There is no report.
fn failed(error: &RunError) -> Result<ExitCode, String> {
    match error {
        RunError::Interrupted => Ok(interrupted()),
        RunError::Usage(why) => Ok(refused(why)),
        other => Err(other.to_string()),
    }
}

/// What is wrong with the command line.
fn refused(why: &str) -> ExitCode {
    errln!("weir load: {why}");
    ExitCode::from(USAGE)
}

/// Stopped before there were any figures.
fn interrupted() -> ExitCode {
    errln!("{}", RunError::Interrupted);
    ExitCode::from(INTERRUPTED)
}

/// Printed once the checks are over.
fn print_header(header: Option<String>) {
    if let Some(header) = header {
        out!("{header}");
        let _ = std::io::stdout().flush();
    }
}

fn show(report: &Report, json: bool, parts: text::Parts) -> Result<(), String> {
    let text = if json {
        report.to_json() + "\n"
    } else {
        text::results(report, parts).map_err(|error| error.to_string())?
    };
    // A reader that went away is told by the exit status.
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| format!("cannot print: {error}"))?;
    let bold = std::io::stderr().is_terminal();
    for warning in &report.warnings {
        let (on, off) = if bold { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        errln!("{on}warning:{off} {}", warning.text);
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Refuses words that would mean nothing with these URLs.
fn fitting(load: &Load, asked: &[targets::Asked]) -> Result<(), String> {
    let scheme = |url: &str| {
        let url = url.split_once('@').map_or(url, |(weight, rest)| {
            if weight.bytes().all(|b| b.is_ascii_digit()) { rest } else { url }
        });
        url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase()).unwrap_or_default()
    };
    let schemes: Vec<String> = load
        .urls
        .iter()
        .map(String::as_str)
        .chain(asked.iter().map(|one| one.url.as_str()))
        .map(scheme)
        .collect();
    let any = |wanted: &[&str]| schemes.iter().any(|scheme| wanted.contains(&scheme.as_str()));
    let encrypted = any(&["https", "wss"]);
    let (websocket, http) = (any(&["ws", "wss"]), any(&["http", "https"]));
    let messages = websocket || any(&["tcp"]);
    let needs = [
        ("--tls", load.tls.is_some(), encrypted, "https:// or wss://"),
        ("--suite", load.suite.is_some(), encrypted, "https:// or wss://"),
        ("--curve", load.curve.is_some(), encrypted, "https:// or wss://"),
        ("--sni", load.sni.is_some(), encrypted, "https:// or wss://"),
        ("--resume", load.resume, encrypted, "https:// or wss://"),
        ("--cert", load.cert.is_some(), encrypted, "https:// or wss://"),
        ("--echo-size", load.echo_size.is_some(), messages, "tcp:// or ws://"),
        ("--any-reply", load.any_reply, websocket, "ws:// or wss://"),
        ("--header", !load.headers.is_empty(), http || websocket, "http://, https:// or ws://"),
        ("--method", load.method.is_some(), http, "http:// or https://"),
        ("--grpc", load.grpc, http, "http:// or https://"),
    ];
    // What is no URL at all is told of by who reads it.
    let known = schemes.iter().all(|scheme| !scheme.is_empty());
    match needs.into_iter().find(|(_, given, fits, _)| known && *given && !fits) {
        Some((name, _, _, wanted)) => Err(format!("{name} means nothing here: it needs a {wanted} URL")),
        None if load.streams.is_some() && !load.h2 && !load.grpc => {
            Err("--streams means nothing here: it needs --h2 or --grpc".into())
        }
        None => Ok(()),
    }
}

fn options(load: Load) -> Result<Options, String> {
    let small = |n: u64| u32::try_from(n).map_err(|_| format!("{n} is too many"));
    let asked = load.targets.as_deref().map(targets::read).transpose()?.unwrap_or_default();
    fitting(&load, &asked)?;
    load.metrics.check()?;
    let body = match (&load.body, &load.body_file) {
        (Some(text), _) => Some(text.clone().into_bytes()),
        (None, Some(path)) => Some(read(path)?),
        (None, None) => None,
    };
    let certificate = match (&load.cert, &load.key) {
        (Some(cert), Some(key)) => Some(Identity { chain_pem: read(cert)?, key_pem: read(key)? }),
        _ => None,
    };
    let usual = if load.requests.is_some() { LONGEST } else { Duration::from_secs(10) };
    let rates = match (load.rate, load.rates) {
        (Some(rate), _) => vec![Rate { from: rate, to: rate }],
        (None, Some(list)) => list.0,
        (None, None) => Vec::new(),
    };
    Ok(Options {
        urls: load.urls,
        targets: asked,
        requests: load.requests,
        threads: small(load.threads.min(load.channels.or(load.connections).unwrap_or(10)))?,
        connections: small(load.channels.or(load.connections).unwrap_or(10))?,
        duration: load.duration.unwrap_or(usual),
        warmup: load.warmup,
        rates,
        headers: load.headers,
        method: load.method,
        body,
        timeout: load.timeout,
        work: match (load.new_connections, load.handshakes) {
            (true, _) => Work::NewConnections,
            (_, true) => Work::Handshakes,
            _ => Work::Requests,
        },
        batch: load.batch,
        h2: if load.h2 || load.grpc { Some(small(load.streams.unwrap_or(1))?) } else { None },
        grpc: load.grpc,
        any_reply: load.any_reply,
        connect_to: load.connect_to,
        unix_socket: load.unix_socket,
        certificate,
        resume: load.resume,
        tls_version: load.tls.map(TlsVersion::from),
        suites: load.suite,
        curves: load.curve,
        server_name: load.sni,
        sources: load.source,
        echo_bytes: usize::try_from(load.echo_size.unwrap_or(1024)).map_err(|error| error.to_string())?,
        script: load.script.as_deref().map(ScriptFile::read).transpose()?,
        script_args: load.script_args,
        io: load.io.into(),
    })
}

/// Who watches a run of several machines.
struct Leading {
    live: Live,
    header: Option<String>,
    halt: Arc<AtomicBool>,
}

impl LeadWatch for Leading {
    fn begins(&mut self) {
        print_header(self.header.take());
    }

    fn second(&mut self, at_s: f64, run_s: f64, requests: u64, errors: u64) {
        self.live.line(at_s, &format!("{at_s:.0}s/{run_s:.0}s  {requests} req/s  errors {errors}"));
    }

    fn halt(&self) -> Option<Arc<AtomicBool>> {
        Some(self.halt.clone())
    }
}

/// Everybody who watches.
struct Screen {
    live: Live,
    log: Option<HdrLog>,
    sinks: Sinks,
    header: Option<String>,
    halt: Arc<AtomicBool>,
    json: bool,
    parts: text::Parts,
    /// Whether the report could be printed.
    shown: Result<(), String>,
}

impl Watch for Screen {
    fn checked(&mut self) {
        print_header(self.header.take());
    }

    fn halt(&self) -> Option<Arc<AtomicBool>> {
        Some(self.halt.clone())
    }

    fn begun(&mut self, unix: Duration) {
        if let Some(log) = &mut self.log {
            log.begun(unix);
        }
    }

    fn finished(&mut self, report: &Report) {
        self.live.clear();
        self.sinks.finished(report);
        self.shown = show(report, self.json, self.parts);
    }

    fn interval(&mut self, interval: &Interval<'_>) {
        self.live.interval(interval);
        self.sinks.interval(interval);
        if let Some(log) = &mut self.log {
            log.interval(interval);
        }
    }
}
