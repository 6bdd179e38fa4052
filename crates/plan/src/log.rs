//! Logs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use weir_expr::settings::{LogEscape, LogLevel, LogPool, LogRing, LogSample, SyslogForm};

use crate::{Condition, LogFormat, LogIx, Template};

/// A log target with its batching. Each is opened once, whoever writes to it; equal targets are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Log {
    /// Where lines go.
    pub target: LogTarget,
    /// Bytes gathered before a write; `None`: a small default batch.
    pub buffer: Option<u64>,
    /// Oldest line kept in the buffer.
    pub flush: Option<Duration>,
    /// Compression level of the file; `None`: plain.
    pub gzip: Option<u8>,
    /// Only these of the lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<LogSample>,
}

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogTarget {
    /// A file, appended to; reopened on request.
    File(PathBuf),
    /// A file whose name holds variables; opened for each line, with a small cache.
    FileTemplate(Template),
    /// Standard error.
    Stderr,
    /// Standard output.
    Stdout,
    /// Syslog datagrams, RFC 3164.
    Syslog(Syslog),
}

/// A syslog server and how it is written to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Syslog {
    /// Where.
    pub server: SyslogServer,
    /// Facility word: `local0` …
    pub facility: String,
    /// Severity of the lines.
    pub severity: LogLevel,
    /// Tag.
    pub tag: String,
    /// How messages begin.
    pub form: SyslogForm,
    /// The host name, if other than the machine's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Leave out the host name.
    pub no_hostname: bool,
    /// Most bytes of a message, header and all; `None`: nothing is cut.
    pub max_length: Option<usize>,
    /// Most severe level sent; lines above it are sent as this.
    pub min_severity: LogLevel,
    /// The process id stands behind the tag.
    pub pid: bool,
    /// A message ends with a newline.
    pub newline: bool,
}

/// Address of a syslog server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SyslogServer {
    /// UDP.
    Udp(SocketAddr),
    /// Unix datagram socket.
    Unix(PathBuf),
    /// A ring.
    Ring(Box<LogRing>),
    /// Servers that share the lines.
    Pool(Box<LogPool>),
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A name that did not resolve: lines are dropped and counted.
    Unresolved(String, u16),
}

/// One access log of a route.
#[derive(Clone, Debug, Serialize)]
pub struct AccessLog {
    /// Target.
    pub log: LogIx,
    /// A line, without its end.
    pub format: Arc<LogFormat>,
    /// Escaping of values.
    pub escape: LogEscape,
    /// Written only if this is neither empty nor `0`.
    pub condition: Option<Template>,
    /// Written only if this holds.
    pub only: Option<Condition>,
    /// It may ask for fields of the answer.
    #[serde(skip)]
    pub asks_for_answer: bool,
}

/// One error log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ErrorLog {
    /// Target.
    pub log: LogIx,
    /// Least severity written.
    pub level: LogLevel,
}
