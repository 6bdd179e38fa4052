//! Lines of the error logs about an exchange.
//!
//! Owns: nginx's form of error lines, and which level a cause has.
//! Never: writes; the logs' threads do. Never: access lines; `answer::log` makes them.
//! Driven by: whoever meets an error while serving an exchange.
//! Why: what is lowest names nobody above it, and everybody may have something to say.

use std::fmt::Write as _;
use std::sync::Arc;

use weir_control::ConnectionId;
use weir_expr::settings::LogLevel;
use weir_telemetry::Level;

use super::{Attempt, Core, Exchange, Kind, Session, Traffic};
use crate::logging::level;

/// The client did something wrong: nginx's `info`.
pub(crate) fn client_error(exchange: &impl Traffic, message: &str) {
    at(exchange, LogLevel::Info, message);
}

/// The request cannot be served as asked: nginx's `error`.
pub(crate) fn error(exchange: &impl Traffic, message: &str) {
    at(exchange, LogLevel::Error, message);
}

/// The system's number and words for an error, as nginx shows them: `111: Connection refused`.
pub(crate) fn system(error: &std::io::Error) -> String {
    let words = error.to_string();
    match error.raw_os_error() {
        Some(number) => format!("{number}: {}", words.split(" (os error").next().unwrap_or_default()),
        None => words,
    }
}

/// A head of an answer is longer than the settings allow, in nginx's words.
pub(crate) const TOO_BIG_HEADER: &str =
    "upstream sent too big header while reading response header from upstream";

/// An endpoint failed: nginx's `error`.
pub(crate) fn upstream_error(exchange: &impl Traffic, message: &str) {
    at(exchange, LogLevel::Error, message);
}

/// What an application says itself, whichever of our own lines are wanted.
pub(crate) fn told(exchange: &impl Traffic, message: &str) {
    line(exchange, LogLevel::Error, message);
}

/// A fault of our own or of our system: nginx's `crit`.
pub(crate) fn server_error(exchange: &impl Traffic, message: &str) {
    at(exchange, LogLevel::Crit, message);
}

/// A path that may not become a file's name: nginx's words.
pub(crate) fn unsafe_uri(exchange: &Exchange, path: &[u8]) {
    error(exchange, &format!("unsafe URI \"{}\" was detected", path.escape_ascii()));
}

/// A pattern gave up, and the exchange is refused because of it: nginx's `alert`.
#[cold]
pub(crate) fn undecided(exchange: &impl Traffic, why: &weir_plan::MatchFailed) {
    at(exchange, LogLevel::Alert, &why.to_string());
}

/// Failures have taken an endpoint out for a while.
pub(crate) fn endpoint_disabled(exchange: &impl Traffic) {
    at(exchange, LogLevel::Warn, "upstream server temporarily disabled");
}

/// Writes a line about an exchange or a session to the error logs that want its level.
///
/// A site may say that its traffic lines tell all, and that what reads them would stumble over others.
pub(crate) fn at(traffic: &impl Traffic, severity: LogLevel, message: &str) {
    if severity >= traffic.error_lines() {
        line(traffic, severity, message);
    }
}

fn line(traffic: &impl Traffic, severity: LogLevel, message: &str) {
    write_error(traffic, traffic.error_logs(), severity, || {
        let mut line = String::with_capacity(256);
        line.push_str(message);
        match traffic.kind() {
            Kind::Request(exchange) => describe(exchange, &mut line),
            Kind::Session(session) => describe_session(session, &mut line),
        }
        line
    });
}

fn write_error(
    exchange: &Core,
    logs: Option<&Arc<[weir_plan::ErrorLog]>>,
    severity: LogLevel,
    compose: impl FnOnce() -> String,
) {
    let process = &exchange.installed.plan.process.error_logs;
    let logs = logs.filter(|logs| !logs.is_empty()).unwrap_or(process);
    if !logs.iter().any(|log| severity >= log.level) {
        return;
    }
    let line = compose();
    let severity: Level = level(severity);
    let unix = u64::try_from(weir_rt::unix_now().as_millis()).unwrap_or(u64::MAX);
    let connection = Some(ConnectionId(exchange.client.serial));
    for log in logs.iter() {
        if let Some(open) = exchange.installed.prepared.logs.error_log(log) {
            open.log(unix, severity, connection, format_args!("{line}"));
        }
    }
}

/// Appends what nginx appends to a line about a request.
fn describe(exchange: &Exchange, line: &mut String) {
    // Writing to a `String` cannot fail.
    describe_client(exchange, "client", line);
    if let Some(site) = exchange.site_if_any() {
        let _ = write!(line, ", server: {}", site.name);
    }
    let request = &exchange.request;
    if !request.line.is_empty() {
        let _ = write!(line, ", request: \"{}\"", String::from_utf8_lossy(&request.line));
    }
    if exchange.asked_for.is_some() {
        let _ = write!(line, ", subrequest: \"{}\"", String::from_utf8_lossy(&request.path));
    }
    if let Some(attempt) = exchange.attempts.last() {
        let (scheme, place) = (upstream_scheme(exchange), upstream_place(attempt));
        // An application server has no targets, as nginx sees it.
        let target: &[u8] = if is_application(exchange) { b"" } else { &exchange.response.upstream_target };
        // So nginx ends the path of a socket.
        let end = if place.starts_with("unix:") && !target.is_empty() { ":" } else { "" };
        let target = String::from_utf8_lossy(target);
        let _ = write!(line, ", upstream: \"{scheme}{place}{end}{target}\"");
    }
    let mut field = |label: &str, id: weir_http::HeaderId| {
        if let Some(value) = request.fields.first(id) {
            let _ = write!(line, ", {label}: \"{}\"", String::from_utf8_lossy(value));
        }
    };
    field("host", weir_http::HeaderId::Host);
    field("referrer", weir_http::HeaderId::Referer);
}

fn describe_session(session: &Session, line: &mut String) {
    describe_client(session, if session.datagrams { "udp client" } else { "client" }, line);
    if let Some((ip, port)) = session.client.destination() {
        let _ = write!(line, ", server: {}", std::net::SocketAddr::new(ip, port));
    }
    let last = session.attempts.last();
    if let Some(attempt) = last {
        let _ = write!(line, ", upstream: \"{}\"", upstream_place(attempt));
    }
    let (received, sent) = (session.received, session.sent);
    let _ = write!(line, ", bytes from/to client:{received}/{sent}");
    let (back, on) = last.map_or((0, 0), |attempt| (attempt.received, attempt.sent));
    let _ = write!(line, ", bytes from/to upstream:{back}/{on}");
}

fn describe_client(traffic: &Core, label: &str, line: &mut String) {
    let _ = match traffic.client_source() {
        Some((ip, _)) => write!(line, ", {label}: {ip}"),
        None => write!(line, ", {label}: unix:"),
    };
}

fn upstream_place(attempt: &Attempt) -> &str {
    &attempt.address
}

fn is_application(exchange: &Exchange) -> bool {
    matches!(exchange.route_if_any().map(|route| &route.action), Some(weir_plan::Action::FastCgi(_)))
}

fn upstream_scheme(exchange: &Exchange) -> &'static str {
    match exchange.route_if_any().map(|route| &route.action) {
        Some(weir_plan::Action::FastCgi(gateway)) => gateway.spoken.scheme(),
        Some(weir_plan::Action::Http2(proxy)) if proxy.grpc => match proxy.tls.is_some() {
            true => "grpcs://",
            false => "grpc://",
        },
        Some(weir_plan::Action::Proxy(proxy) | weir_plan::Action::Http2(proxy)) if proxy.tls.is_some() => {
            "https://"
        }
        _ => "http://",
    }
}
