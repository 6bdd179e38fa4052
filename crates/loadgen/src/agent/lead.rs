//! The leader of several machines.
//!
//! Owns: their common beginning, the sum of their reports, and the name of each that fails.
//! Never: begins while one of them cannot; loses the figures of the others when one is lost later.
//! Driven by: `weir load --agents`.

use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::PORT;
use super::wire::{self, Answer, Command, Hello, Job, Order, Tick, VERSION};
use crate::judge;
use crate::plan::Options;
use crate::report::{self, Figures, Generator, Report, Settings, Spread};
use crate::run::RunError;

const CONNECTING: Duration = Duration::from_secs(5);
/// Opening many connections may take an agent a while.
const SETTING_UP: Duration = Duration::from_secs(120);
/// Agents speak once a second.
const SILENCE: Duration = Duration::from_secs(15);
/// How often it is looked whether the run is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// The agents of a run.
#[derive(Debug, Clone)]
pub struct Agency {
    /// `HOST` or `HOST:PORT`.
    pub agents: Vec<String>,
    /// Their token.
    pub token: String,
}

/// What threads that talk to one agent tell.
enum News {
    Ready,
    Tick(usize, Tick),
    Report(usize, Box<Report>),
    Failed(usize, String),
}

/// Is told what happens to a run of several machines.
pub trait LeadWatch {
    /// All agents have opened their connections: load begins.
    fn begins(&mut self) {}

    /// A second has passed, of so many.
    fn second(&mut self, _at_s: f64, _run_s: f64, _requests: u64, _errors: u64) {}

    /// A flag that stops the run on all agents when it is set. What was measured by then is reported.
    fn halt(&self) -> Option<Arc<AtomicBool>> {
        None
    }
}

/// Nobody watches.
impl LeadWatch for () {}

/// Runs `options` on all agents together and sums up their reports.
///
/// # Errors
/// An agent cannot be reached or cannot begin: its name and why. Or all of them failed.
pub fn lead(options: &Options, agency: &Agency, watch: &mut dyn LeadWatch) -> Result<Report, RunError> {
    let count = agency.agents.len() as u32;
    if count == 0 || options.connections < count {
        return Err(RunError::Usage("each agent needs a connection at least".into()));
    }
    let of_one = [
        ("--source", !options.sources.is_empty()),
        ("--unix-socket", options.unix_socket.is_some()),
        ("--cert", options.certificate.is_some()),
    ];
    if let Some((name, _)) = of_one.into_iter().find(|(_, given)| *given) {
        return Err(RunError::Usage(format!("{name} is of one machine, and does not go with --agents")));
    }
    if options.requests.is_some_and(|requests| requests < u64::from(count)) {
        return Err(RunError::Usage("--requests is one for each agent at least".into()));
    }
    let halt = watch.halt();
    let is_halted = || halt.as_ref().is_some_and(|halt| halt.load(Ordering::Relaxed));
    let (sender, news) = channel();
    let mut leads = Vec::new();
    for (at, agent) in agency.agents.iter().enumerate() {
        let job = Job::share(options, at as u32, count);
        let begun = open(agent, &agency.token, &job).and_then(|stream| {
            let talk = stream.try_clone().map_err(|error| error.to_string())?;
            let sender = sender.clone();
            std::thread::Builder::new()
                .spawn(move || listen(at, &talk, &sender))
                .map_err(|error| error.to_string())?;
            Ok(stream)
        });
        leads.push(begun.map_err(|why| RunError::Failed(format!("{agent}: {why}")))?);
    }
    drop(sender);
    let mut ready = 0;
    while ready < leads.len() {
        match news.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) if is_halted() => return Err(RunError::Interrupted),
            Err(RecvTimeoutError::Timeout) => {}
            Ok(News::Ready) => ready += 1,
            Ok(News::Failed(at, why)) => {
                return Err(RunError::Failed(format!("{}: {why}", agency.agents[at])));
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(RunError::Failed("the agents are gone".into()));
            }
        }
    }
    watch.begins();
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    for stream in &leads {
        // One that is gone shows in what it does not report.
        let _ = wire::send(stream, &Command::Go);
    }
    let outcomes = gather(&news, &agency.agents, &leads, watch, is_halted);
    let mut report = sum(outcomes)?;
    report.started_unix_s = started.as_secs_f64();
    report.warnings = judge::warnings(&report);
    Ok(report)
}

fn open(agent: &str, token: &str, job: &Job) -> Result<TcpStream, String> {
    let named = if agent.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        agent.to_owned()
    } else {
        format!("{agent}:{PORT}")
    };
    let addr =
        named.to_socket_addrs().map_err(|error| error.to_string())?.next().ok_or("it has no address")?;
    let stream =
        TcpStream::connect_timeout(&addr, CONNECTING).map_err(|error| format!("cannot connect: {error}"))?;
    let fault = |error: std::io::Error| format!("it is no agent of this version, or gone: {error}");
    stream.set_read_timeout(Some(CONNECTING)).map_err(fault)?;
    stream.set_write_timeout(Some(CONNECTING)).map_err(fault)?;
    let _ = stream.set_nodelay(true);
    let hello: Hello = wire::receive_up_to(&stream, 4096).map_err(fault)?;
    if hello.weir_load_agent != VERSION {
        return Err(format!("it speaks version {}, this program version {VERSION}", hello.weir_load_agent));
    }
    let job = serde_json::to_string(job).map_err(|error| error.to_string())?;
    let proof = wire::proof(token, &hello.nonce, &job);
    wire::send(&stream, &Order { job, proof }).map_err(fault)?;
    stream.set_read_timeout(Some(SETTING_UP)).map_err(fault)?;
    Ok(stream)
}

/// Passes on what one agent says, to its end.
fn listen(at: usize, stream: &TcpStream, news: &Sender<News>) {
    loop {
        let told = match wire::receive::<Answer>(stream) {
            Ok(Answer::Ready) => {
                // From here on it is the others that may take their time, then it speaks once a second.
                let _ = stream.set_read_timeout(Some(SETTING_UP));
                News::Ready
            }
            Ok(Answer::Tick(tick)) => {
                let _ = stream.set_read_timeout(Some(SILENCE));
                News::Tick(at, tick)
            }
            Ok(Answer::Report(report)) => News::Report(at, report),
            Ok(Answer::Failed(why)) => News::Failed(at, why),
            Err(error) => News::Failed(at, format!("lost: {error}")),
        };
        let over = matches!(told, News::Report(..) | News::Failed(..));
        if news.send(told).is_err() || over {
            return;
        }
    }
}

fn gather(
    news: &Receiver<News>,
    agents: &[String],
    leads: &[TcpStream],
    watch: &mut dyn LeadWatch,
    is_halted: impl Fn() -> bool,
) -> Vec<report::Agent> {
    let named = |agent: &String| report::Agent { address: agent.clone(), ..report::Agent::default() };
    let mut outcomes: Vec<report::Agent> = agents.iter().map(named).collect();
    let (mut open, mut ticks) = (agents.len(), vec![Tick::default(); agents.len()]);
    let mut halted = false;
    while open > 0 {
        if !halted && is_halted() {
            halted = true;
            for stream in leads {
                // An agent that hears no more of its leader stops, and says how far it came.
                let _ = stream.shutdown(Shutdown::Write);
            }
        }
        let told = match news.recv_timeout(LOOK) {
            Ok(told) => told,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        match told {
            News::Ready => {}
            News::Tick(at, tick) => {
                ticks[at] = tick;
                // Told once a second: with the first agent's word.
                if at == 0 {
                    let requests = ticks.iter().map(|tick| tick.requests).sum();
                    let errors = ticks.iter().map(|tick| tick.errors).sum();
                    watch.second(tick.at_s, tick.run_s, requests, errors);
                }
            }
            News::Report(at, report) => {
                outcomes[at].report = Some(report);
                open -= 1;
            }
            News::Failed(at, why) => {
                outcomes[at].failure = Some(why);
                open -= 1;
            }
        }
    }
    outcomes
}

/// The sum of what agents report.
fn sum(agents: Vec<report::Agent>) -> Result<Report, RunError> {
    let fault = |error: report::BadHistogram| RunError::Failed(error.to_string());
    let mut sum: Option<Report> = None;
    for its in agents.iter().filter_map(|agent| agent.report.as_deref()) {
        let Some(all) = &mut sum else {
            sum = Some(Report { warnings: Vec::new(), timeline: Vec::new(), ..its.clone() });
            continue;
        };
        all.total.merge(&its.total).map_err(fault)?;
        merge_steps(&mut all.steps, &its.steps).map_err(fault)?;
        all.interrupted |= its.interrupted;
        all.setup_s = all.setup_s.max(its.setup_s);
        all.thread_rate = merge_rates(&all.thread_rate, &all.settings, &its.thread_rate, &its.settings);
        merge_settings(&mut all.settings, &its.settings);
        merge_generators(&mut all.generator, &its.generator);
    }
    let Some(mut sum) = sum else {
        let why: Vec<String> = agents
            .iter()
            .map(|agent| format!("{}: {}", agent.address, agent.failure.as_deref().unwrap_or("no word")))
            .collect();
        return Err(RunError::Failed(why.join("\n")));
    };
    if sum.total.requests > 0 {
        sum.generator.cpu_us_per_request = sum.generator.cpu_s * 1e6 / sum.total.requests as f64;
    }
    sum.agents = agents;
    Ok(sum)
}

fn merge_steps(all: &mut [Figures], its: &[Figures]) -> Result<(), report::BadHistogram> {
    all.iter_mut().zip(its).try_for_each(|(mine, its)| mine.merge(its))
}

fn merge_rates(mine: &Spread, my: &Settings, its: &Spread, its_settings: &Settings) -> Spread {
    let (a, b) = (f64::from(my.threads), f64::from(its_settings.threads));
    let mean = |mine: f64, its: f64| (mine * a + its * b) / (a + b).max(1.0);
    Spread {
        mean: mean(mine.mean, its.mean),
        stdev: mean(mine.stdev.powi(2), its.stdev.powi(2)).sqrt(),
        max: mine.max.max(its.max),
        within_stdev_pct: mean(mine.within_stdev_pct, its.within_stdev_pct),
    }
}

fn merge_settings(all: &mut Settings, its: &Settings) {
    all.threads += its.threads;
    all.connections += its.connections;
    all.requests = all.requests.zip(its.requests).map(|(mine, its)| mine + its);
    for (mine, its) in all.rates.iter_mut().zip(&its.rates) {
        *mine += its;
    }
}

fn merge_generators(all: &mut Generator, its: &Generator) {
    all.cpu_s += its.cpu_s;
    all.busiest_thread = all.busiest_thread.max(its.busiest_thread);
    all.run_delay_s += its.run_delay_s;
    all.steal = all.steal.max(its.steal);
    all.throttled_s += its.throttled_s;
    all.late_mean_us = all.late_mean_us.max(its.late_mean_us);
    all.late_max_us = all.late_max_us.max(its.late_max_us);
    all.cpus += its.cpus;
}
