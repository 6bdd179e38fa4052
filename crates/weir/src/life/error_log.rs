//! Lines about the life of the process itself, in the error logs that the configuration names.
//!
//! Owns: the form of those lines and where they go: standard error until the configuration's logs are open.
//! Never: logs an exchange; that is the data plane's.
//! Driven by: `life::master`, `keeper`.

use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

use weir_diag::{Diagnostic, Severity, Sources};
use weir_expr::settings::LogLevel;
use weir_model::{LogTarget, Model, SyslogServer};

use super::daemon;
use super::logs::LogFiles;
use crate::launch::Manner;
use crate::report;

/// Where control messages go.
pub(crate) struct ErrorLog {
    manner: Manner,
    targets: Vec<(Target, LogLevel)>,
}

enum Target {
    Stderr,
    File(Arc<File>),
    Syslog { server: SyslogServer, facility: u8, tag: String },
}

impl ErrorLog {
    /// To standard error, before a configuration is known.
    pub(crate) fn early(manner: Manner) -> Self {
        Self { manner, targets: vec![(Target::Stderr, LogLevel::Notice)] }
    }

    /// To where `model` says.
    pub(crate) fn of(manner: Manner, model: &Model, files: &LogFiles) -> Self {
        let targets = model.process.error_logs.iter().filter_map(|log| {
            let target = match &log.target {
                LogTarget::File(path) => Target::File(files.file(path)?),
                LogTarget::Syslog { server: SyslogServer::Stdout | SyslogServer::Stderr, .. } => {
                    Target::Stderr
                }
                LogTarget::Syslog { server, facility, tag, .. } => Target::Syslog {
                    server: server.clone(),
                    facility: facility_code(facility),
                    tag: tag.clone(),
                },
                LogTarget::Off => return None,
                LogTarget::Stderr | LogTarget::Stdout | LogTarget::FileTemplate(_) => Target::Stderr,
            };
            Some((target, log.level))
        });
        let mut targets: Vec<_> = targets.collect();
        if model.process.error_logs.is_empty() {
            targets.push((Target::Stderr, LogLevel::Notice));
        }
        Self { manner, targets }
    }

    /// Writes a line to every log that takes its level. A log that cannot be written to is skipped: there is
    /// nowhere to say so.
    pub(crate) fn line(&self, level: LogLevel, text: &str) {
        for (target, least) in &self.targets {
            // Reloads and restarts are what operators look for in a log of level `error`, nginx's default; nginx
            // writes them at `notice`, so this keeps its thresholds.
            if level >= *least {
                self.write(target, level, text);
            }
        }
    }

    /// One line for each diagnostic.
    pub(crate) fn diagnostics(&self, diagnostics: &[Diagnostic], sources: &Sources) {
        for found in diagnostics {
            let level = match found.severity {
                Severity::Error => LogLevel::Emerg,
                Severity::Warning => LogLevel::Warn,
                Severity::Note => LogLevel::Notice,
            };
            self.line(level, &report::one_line(found, sources));
        }
    }

    fn write(&self, target: &Target, level: LogLevel, text: &str) {
        let line = report::log_line(self.manner, level, text);
        // One write for each line, so that lines of several writers never mix.
        let _ = match target {
            Target::Stderr => std::io::stderr().write_all(line.as_bytes()),
            Target::File(file) => (&**file).write_all(line.as_bytes()),
            Target::Syslog { server, facility, tag } => send_syslog(server, *facility, tag, level, text),
        };
    }
}

/// What standard error is for a process in the background: the first error log that is a file, as nginx has it; what it
/// was (`None`) where the configuration logs to standard error itself; else nothing, and in HAProxy's manner always.
pub(crate) fn stderr_in_background(
    manner: Manner,
    model: &Model,
    files: &LogFiles,
) -> std::io::Result<Option<Arc<File>>> {
    let logs = model.process.error_logs.iter().filter(|_| manner != Manner::Haproxy);
    for log in logs {
        match &log.target {
            LogTarget::Stderr => return Ok(None),
            LogTarget::File(path) if files.file(path).is_some() => return Ok(files.file(path)),
            _ => {}
        }
    }
    daemon::nowhere().map(|file| Some(Arc::new(file)))
}

/// RFC 3164, without the host name: the local daemon adds it.
fn send_syslog(
    server: &SyslogServer,
    facility: u8,
    tag: &str,
    level: LogLevel,
    text: &str,
) -> std::io::Result<()> {
    let now = jiff::Zoned::now().strftime("%b %e %H:%M:%S").to_string();
    let priority = u32::from(facility) * 8 + severity_code(level);
    let packet = format!("<{priority}>{now} {tag}[{}]: {text}", std::process::id());
    match server {
        SyslogServer::Udp(to) => send_udp(*to, packet.as_bytes()),
        SyslogServer::Unix(path) => {
            let socket = UnixDatagram::unbound()?;
            // A daemon that does not read costs the line, never the keeper's attention.
            socket.set_nonblocking(true)?;
            socket.send_to(packet.as_bytes(), path).map(drop)
        }
        // Looked up by the data plane, and its memory; a keeper does not speak to name servers.
        _ => Ok(()),
    }
}

fn send_udp(to: SocketAddr, packet: &[u8]) -> std::io::Result<()> {
    let from: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    UdpSocket::bind(from)?.send_to(packet, to).map(drop)
}

/// RFC 5424 section 6.2.1, table 2.
fn severity_code(level: LogLevel) -> u32 {
    match level {
        LogLevel::Emerg => 0,
        LogLevel::Alert => 1,
        LogLevel::Crit => 2,
        LogLevel::Error => 3,
        LogLevel::Warn => 4,
        LogLevel::Notice => 5,
        LogLevel::Info => 6,
        LogLevel::Debug => 7,
    }
}

/// RFC 5424 section 6.2.1, table 1, by the words of syslog(3); `daemon` for words that are none.
fn facility_code(word: &str) -> u8 {
    const WORDS: [&str; 24] = [
        "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
        "ntp", "audit", "alert", "cron2", "local0", "local1", "local2", "local3", "local4", "local5",
        "local6", "local7",
    ];
    WORDS.iter().position(|known| *known == word).unwrap_or(3) as u8
}
