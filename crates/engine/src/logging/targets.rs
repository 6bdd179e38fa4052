//! What one plan logs to.
//!
//! Owns: the open targets of a plan by index, and its error logs by target and level.
//! Never: changes after it was made.
//! Driven by: `Prepared::new`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use weir_expr::settings::{self, LogAddress, LogKeyStep, LogPool, LogRing, LogSample, LogServer};
use weir_plan::{Log, LogIx, LogTarget, Plan, Syslog, SyslogServer, Template};
use weir_telemetry::log::{
    Facility, HashStep, LogBalance, PoolServer, PoolSpec, PoolWay, RingServer, RingSpec, StreamAddress,
    SyslogAddress, SyslogForm, SyslogHeader,
};
use weir_telemetry::{BufferOptions, ErrorLog, LogBuffer, TargetSpec};

use super::{Logs, level};

/// How standard output is opened.
pub(super) const STDOUT: &str = "/dev/stdout";

/// What a plan logs to.
pub(crate) struct Targets {
    /// Unlike that of any other plan.
    pub(super) serial: u64,
    by_log: Vec<Target>,
    errors: HashMap<weir_plan::ErrorLog, ErrorLog>,
    pub(super) process: Arc<[ErrorLog]>,
    /// Rings, held open even where nothing is written to them.
    _rings: Arc<[Arc<weir_telemetry::LogTarget>]>,
}

/// One target.
#[derive(Clone)]
pub(super) enum Target {
    /// Lines to one place.
    Lines(Lines),
    /// Lines to files whose names are computed.
    Template {
        /// Their path.
        path: Template,
        /// Their batching.
        options: BufferOptions,
    },
    /// A server whose name did not resolve: lines are dropped and counted.
    Nowhere,
}

/// An open target with its batching.
#[derive(Clone)]
pub(super) struct Lines {
    target: Arc<weir_telemetry::LogTarget>,
    options: BufferOptions,
    syslog: Option<(SyslogHeader, weir_telemetry::log::Severity)>,
    gzip: Option<u8>,
    /// Only these of the lines, and how many there were.
    pub(super) sample: Option<Arc<(LogSample, AtomicU32)>>,
    /// Most bytes of text in a line.
    pub(super) longest: Option<usize>,
}

impl Lines {
    /// A buffer for a worker.
    pub(super) fn buffer(&self) -> LogBuffer {
        match (&self.syslog, self.gzip) {
            (Some((header, severity)), _) => {
                LogBuffer::syslog(self.target.clone(), self.options, header.clone(), *severity)
            }
            (None, Some(level)) => LogBuffer::gzip(self.target.clone(), self.options, level),
            (None, None) => LogBuffer::new(self.target.clone(), self.options),
        }
    }
}

impl Targets {
    pub(super) fn open(logs: &Logs, plan: &Plan) -> Result<Self, String> {
        let by_log = plan.logs.iter().map(|log| target(logs, log)).collect::<Result<Vec<_>, _>>()?;
        let mut errors = HashMap::new();
        let routes = plan.routes.iter().flat_map(|route| route.settings.error_logs.iter());
        let services = plan.tcp.iter().flat_map(|tcp| tcp.error_logs.iter());
        for log in plan.process.error_logs.iter().chain(routes).chain(services) {
            if !errors.contains_key(log)
                && let Some(open) = error_log(logs, plan, *log)?
            {
                errors.insert(*log, open);
            }
        }
        let process = plan.process.error_logs.iter().filter_map(|log| errors.get(log).cloned()).collect();
        let rings = plan.process.log_rings.iter().map(|ring| open(logs, TargetSpec::Ring(ring_spec(ring))));
        let rings = rings.collect::<Result<_, _>>()?;
        let serial = logs.next_serial.fetch_add(1, Ordering::Relaxed);
        Ok(Self { serial, by_log, errors, process, _rings: rings })
    }

    /// Those of a part of the plan, by the part's indices.
    pub(crate) fn part(&self, logs: &Logs, part: &weir_plan::Part) -> Self {
        let by_log = part.logs.iter().filter_map(|log| self.target(*log).cloned()).collect();
        let renumbered = |log: &weir_plan::ErrorLog| {
            let at = part.logs.iter().position(|known| *known == log.log)?;
            Some(weir_plan::ErrorLog { log: LogIx(at as u32), level: log.level })
        };
        let errors = self.errors.iter().filter_map(|(log, open)| Some((renumbered(log)?, open.clone())));
        let serial = logs.next_serial.fetch_add(1, Ordering::Relaxed);
        Self {
            serial,
            by_log,
            errors: errors.collect(),
            process: self.process.clone(),
            _rings: self._rings.clone(),
        }
    }

    pub(super) fn target(&self, log: LogIx) -> Option<&Target> {
        self.by_log.get(log.at())
    }

    /// The open error log for one of the plan's.
    pub(crate) fn error_log(&self, log: &weir_plan::ErrorLog) -> Option<&ErrorLog> {
        self.errors.get(log)
    }
}

impl Logs {
    /// The error logs of the process alone, before anything else of a plan is opened.
    pub(super) fn process_logs(&self, plan: &Plan) -> Result<Arc<[ErrorLog]>, String> {
        let logs = plan.process.error_logs.iter();
        let open: Result<Vec<_>, String> = logs.map(|log| error_log(self, plan, *log)).collect();
        Ok(open?.into_iter().flatten().collect())
    }
}

fn target(logs: &Logs, log: &Log) -> Result<Target, String> {
    let standard = BufferOptions::default();
    let options = BufferOptions {
        bytes: log.buffer.map_or(standard.bytes, |bytes| bytes as usize),
        // nginx keeps a buffer without `flush=` until it is full; a minute is as long as anybody should wait for it.
        age: log.flush.unwrap_or(if log.buffer.is_some() { Duration::from_secs(60) } else { standard.age }),
    };
    let spec = match &log.target {
        LogTarget::FileTemplate(path) => return Ok(Target::Template { path: path.clone(), options }),
        other => match spec(other) {
            Some(spec) => spec,
            None => return Ok(Target::Nowhere),
        },
    };
    let (mut syslog, mut longest) = (None, None);
    if let LogTarget::Syslog(syslog_settings) = &log.target {
        let header = header(logs, syslog_settings);
        // HAProxy cuts what goes to a ring before the head stands in front of it.
        let head = if matches!(syslog_settings.server, SyslogServer::Ring(_)) { 0 } else { header.length() };
        longest = syslog_settings.max_length.map(|most| most.saturating_sub(head));
        let severity = syslog_settings.severity.min(syslog_settings.min_severity);
        syslog = Some((header, level(severity).severity()));
    }
    let sample = log.sample.as_ref().map(|sample| Arc::new((sample.clone(), AtomicU32::new(0))));
    Ok(Target::Lines(Lines { target: open(logs, spec)?, options, syslog, gzip: log.gzip, sample, longest }))
}

fn error_log(logs: &Logs, plan: &Plan, log: weir_plan::ErrorLog) -> Result<Option<ErrorLog>, String> {
    let target = &plan.log(log.log).target;
    let Some(spec) = spec(target) else { return Ok(None) };
    let header = match target {
        LogTarget::Syslog(syslog) => Some(header(logs, syslog)),
        _ => None,
    };
    Ok(Some(ErrorLog::new(open(logs, spec)?, level(log.level), header, logs.clock.another())))
}

fn open(logs: &Logs, spec: TargetSpec) -> Result<Arc<weir_telemetry::LogTarget>, String> {
    let name = spec.to_string();
    logs.hub.target(spec).map_err(|error| format!("cannot open the log \"{name}\": {error}"))
}

/// `None` for targets that have no fixed place.
fn spec(target: &LogTarget) -> Option<TargetSpec> {
    Some(match target {
        LogTarget::File(path) => TargetSpec::File(path.clone()),
        LogTarget::Stderr => TargetSpec::Stderr,
        LogTarget::Stdout => TargetSpec::File(Path::new(STDOUT).to_owned()),
        LogTarget::Syslog(syslog) => match &syslog.server {
            SyslogServer::Udp(address) => TargetSpec::Syslog(SyslogAddress::Udp(*address)),
            SyslogServer::Unix(path) => TargetSpec::Syslog(SyslogAddress::Unix(path.clone())),
            SyslogServer::Ring(ring) => TargetSpec::Ring(ring_spec(ring)),
            SyslogServer::Pool(pool) => TargetSpec::Pool(pool_spec(pool)),
            SyslogServer::Stdout => TargetSpec::File(Path::new(STDOUT).to_owned()),
            SyslogServer::Stderr => TargetSpec::Stderr,
            SyslogServer::Unresolved(..) => return None,
        },
        LogTarget::FileTemplate(_) => return None,
    })
}

fn ring_spec(ring: &LogRing) -> RingSpec {
    RingSpec {
        name: ring.name.clone(),
        description: ring.description.clone(),
        size: size(ring.size),
        longest: size(ring.max_length),
        connect: ring.connect_timeout,
        send: ring.send_timeout,
        servers: ring.servers.iter().filter_map(ring_server).collect(),
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// `None`: it is reached by datagrams, or by a name that did not resolve.
fn ring_server(server: &LogServer) -> Option<RingServer> {
    let address = match &server.address {
        LogAddress::Tcp(to) => StreamAddress::Tcp(*to),
        LogAddress::Stream(path) => StreamAddress::Unix(path.clone()),
        _ => return None,
    };
    Some(RingServer { address, octet_count: server.octet_count })
}

fn pool_spec(pool: &LogPool) -> PoolSpec {
    let server = |server: &LogServer| -> Option<PoolServer> {
        let way = match &server.address {
            LogAddress::Udp(to) => PoolWay::Udp(*to),
            LogAddress::Datagrams(path) => PoolWay::Unix(path.clone()),
            _ => PoolWay::Stream(RingSpec {
                name: format!("{}/{}", pool.name, server.name),
                description: format!("ring of server {}", server.name),
                size: size(server.buffer),
                longest: size(server.buffer),
                connect: pool.connect_timeout,
                send: pool.send_timeout,
                servers: vec![ring_server(server)?],
            }),
        };
        Some(PoolServer { backup: server.backup, way })
    };
    PoolSpec {
        name: pool.name.clone(),
        balance: match &pool.balance {
            settings::LogBalance::RoundRobin => LogBalance::RoundRobin,
            settings::LogBalance::Random => LogBalance::Random,
            settings::LogBalance::Sticky => LogBalance::Sticky,
            settings::LogBalance::Hash(steps) => LogBalance::Hash(steps.iter().map(hash_step).collect()),
        },
        servers: pool.servers.iter().filter_map(server).collect(),
    }
}

fn hash_step(step: &LogKeyStep) -> HashStep {
    let field =
        |at: i32, delimiters: &str, words| HashStep::Field { at, delimiters: delimiters.into(), words };
    match step {
        LogKeyStep::Field(at, delimiters) => field(*at, delimiters, false),
        LogKeyStep::Word(at, delimiters) => field(*at, delimiters, true),
        LogKeyStep::Bytes(from, most) => HashStep::Bytes(size(*from), most.map(size)),
        LogKeyStep::Lower => HashStep::Lower,
        LogKeyStep::Upper => HashStep::Upper,
    }
}

fn header(logs: &Logs, syslog: &Syslog) -> SyslogHeader {
    SyslogHeader {
        form: match syslog.form {
            settings::SyslogForm::Rfc3164 => SyslogForm::Rfc3164,
            settings::SyslogForm::Rfc5424 => SyslogForm::Rfc5424,
            settings::SyslogForm::Raw => SyslogForm::Raw,
            settings::SyslogForm::Short => SyslogForm::Short,
            settings::SyslogForm::Timed => SyslogForm::Timed,
            settings::SyslogForm::Iso => SyslogForm::Iso,
            settings::SyslogForm::Priority => SyslogForm::Priority,
        },
        facility: facility(&syslog.facility),
        host: (!syslog.no_hostname).then(|| syslog.host.clone().unwrap_or_else(|| logs.hostname.clone())),
        tag: syslog.tag.clone(),
        pid: syslog.pid.then(std::process::id),
        newline: syslog.newline,
    }
}

/// A facility by its word in either language; front ends refuse other words.
fn facility(word: &str) -> Facility {
    match word {
        "intern" => Facility::Syslog,
        "auth2" => Facility::Authpriv,
        "cron2" => Facility::Clock,
        word => Facility::from_word(word).unwrap_or(Facility::Local7),
    }
}
