//! The error log.
//!
//! Owns: levels, nginx's line, the guard against floods of lines.
//! Never: waits; a line goes to the writer at once.
//! Driven by: whoever has something to report, on any thread.
//! Why: operators' tools (fail2ban among them) read nginx's error lines, so the form is kept. What would be the same
//! line hundreds of times a second is written a few times, and the rest is told as a number.

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use weir_control::ConnectionId;

use super::clock::LogClock;
use super::syslog::{Severity, SyslogHeader};
use super::target::{Batch, LogTarget};

/// How serious a line is: nginx's words, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// `debug`.
    Debug,
    /// `info`.
    Info,
    /// `notice`.
    Notice,
    /// `warn`.
    Warn,
    /// `error`, nginx's default.
    Error,
    /// `crit`.
    Crit,
    /// `alert`.
    Alert,
    /// `emerg`.
    Emerg,
}

impl Level {
    /// The level that a configuration calls `word`.
    pub fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "debug" => Self::Debug,
            "info" => Self::Info,
            "notice" => Self::Notice,
            "warn" => Self::Warn,
            "error" => Self::Error,
            "crit" => Self::Crit,
            "alert" => Self::Alert,
            "emerg" => Self::Emerg,
            _ => return None,
        })
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Crit => "crit",
            Self::Alert => "alert",
            Self::Emerg => "emerg",
        }
    }

    /// Syslog's severity for it.
    pub fn severity(self) -> Severity {
        match self {
            Self::Debug => Severity::Debug,
            Self::Info => Severity::Info,
            Self::Notice => Severity::Notice,
            Self::Warn => Severity::Warning,
            Self::Error => Severity::Error,
            Self::Crit => Severity::Crit,
            Self::Alert => Severity::Alert,
            Self::Emerg => Severity::Emerg,
        }
    }
}

/// The same text is written so often a second, and then counted.
const SAME_A_SECOND: u32 = 20;
/// So many lines a second in all.
const ALL_A_SECOND: u32 = 2_000;
/// Texts watched at a time.
const WATCHED: usize = 64;

/// An error log: one target and one level. Clones are handles to the same.
#[derive(Clone, Debug)]
pub struct ErrorLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    target: Arc<LogTarget>,
    level: Level,
    syslog: Option<SyslogHeader>,
    pid: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    clock: LogClock,
    guard: Guard,
}

impl ErrorLog {
    /// A log to `target` of lines at `level` and above. `syslog` is given where the target is one.
    pub fn new(target: Arc<LogTarget>, level: Level, syslog: Option<SyslogHeader>, clock: LogClock) -> Self {
        let state = Mutex::new(State { clock, guard: Guard::default() });
        Self(Arc::new(Inner { target, level, syslog, pid: std::process::id(), state }))
    }

    /// True if a line of this level would be written. Ask before composing a costly one.
    pub fn wants(&self, level: Level) -> bool {
        level >= self.0.level
    }

    /// Writes `2026/11/21 02:45:31 [error] 123#123: *45 text`, the moment being `unix_ms`; without a connection, no `*`.
    /// Control characters in the text become spaces, so that one call is one line.
    pub fn log(
        &self,
        unix_ms: u64,
        level: Level,
        connection: Option<ConnectionId>,
        text: fmt::Arguments<'_>,
    ) {
        if !self.wants(level) {
            return;
        }
        let mut body = Vec::with_capacity(160);
        // Writing to a `Vec` fails only if a `Display` says so: then the line ends there.
        let _ = body.write_fmt(text);
        for byte in &mut body {
            if *byte < 0x20 || *byte == 0x7f {
                *byte = b' ';
            }
        }
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { clock, guard } = &mut *state;
        let mut batch =
            Batch { bytes: Vec::with_capacity(body.len() + 96), ends: Vec::new(), heads: Vec::new() };
        if let Some(held) = guard.turn(unix_ms / 1000) {
            let told = format!("{held} lines like those of the second before were not written");
            self.compose(&mut batch, clock, unix_ms, Level::Notice.max(self.0.level), None, told.as_bytes());
        }
        // The guard looks at the text alone: the connection's number makes no line new.
        if level >= Level::Alert || guard.admits(&body) {
            self.compose(&mut batch, clock, unix_ms, level, connection, &body);
        }
        drop(state);
        if !batch.ends.is_empty() {
            self.0.target.submit(batch);
        }
    }

    fn compose(
        &self,
        batch: &mut Batch,
        clock: &mut LogClock,
        unix_ms: u64,
        level: Level,
        connection: Option<ConnectionId>,
        body: &[u8],
    ) {
        let stamp = clock.at(unix_ms);
        let out = &mut batch.bytes;
        if let Some(header) = &self.0.syslog {
            header.write(out, level.severity(), stamp);
        }
        // HAProxy's messages have no head of their own behind that of syslog.
        if self.0.syslog.as_ref().is_none_or(|header| header.pid.is_none()) {
            let pid = self.0.pid;
            let _ = write!(out, "{} [{}] {pid}#{}: ", stamp.error, level.word(), thread_number());
            if let Some(connection) = connection {
                let _ = write!(out, "*{connection} ");
            }
        }
        out.extend_from_slice(body);
        if self.0.syslog.as_ref().is_none_or(|header| header.newline) {
            out.push(b'\n');
        }
        let end = batch.bytes.len() as u32;
        batch.ends.push(end);
    }
}

/// nginx's second number is the thread; here it tells workers apart.
fn thread_number() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Counts lines by text within one second.
#[derive(Debug, Default)]
struct Guard {
    second: u64,
    all: u32,
    held: u64,
    texts: Vec<(u64, u32)>,
    hasher: ahash::RandomState,
}

impl Guard {
    /// Begins a new second; how many lines the last one held back.
    fn turn(&mut self, second: u64) -> Option<u64> {
        if second == self.second {
            return None;
        }
        self.second = second;
        self.all = 0;
        self.texts.clear();
        let held = std::mem::take(&mut self.held);
        (held > 0).then_some(held)
    }

    fn admits(&mut self, text: &[u8]) -> bool {
        let hash = self.hasher.hash_one(text);
        let same = match self.texts.iter_mut().find(|(known, _)| *known == hash) {
            Some((_, count)) => {
                *count += 1;
                *count
            }
            None => {
                if self.texts.len() < WATCHED {
                    self.texts.push((hash, 1));
                }
                1
            }
        };
        self.all += 1;
        let admitted = same <= SAME_A_SECOND && self.all <= ALL_A_SECOND;
        self.held += u64::from(!admitted);
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_and_named() {
        assert!(Level::Debug < Level::Warn && Level::Error < Level::Emerg);
        for word in ["debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"] {
            assert_eq!(Level::from_word(word).map(Level::word), Some(word));
        }
    }

    #[test]
    fn floods_of_one_text_are_counted() {
        let mut guard = Guard::default();
        guard.turn(1);
        let admitted = (0..100).filter(|_| guard.admits(b"same")).count();
        assert_eq!(admitted, 20);
        assert!(guard.admits(b"another"));
        assert_eq!(guard.turn(1), None);
        assert_eq!(guard.turn(2), Some(80));
        assert!(guard.admits(b"same"));
        let admitted = (0..5000).filter(|n| guard.admits(n.to_string().as_bytes())).count();
        assert_eq!(admitted, 1999);
    }
}
