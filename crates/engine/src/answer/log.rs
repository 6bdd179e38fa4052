//! What is said about an exchange when it is over.
//!
//! Owns: which access logs get a line, the making of lines.
//! Never: writes; `logs` carries lines away.
//! Driven by: connections (`exchange_ended`), TCP sessions (`session_ended`).
//! Why: a line is made only if a log wants it, in a buffer that is used again, so that it costs no allocation.

use std::os::unix::ffi::OsStrExt as _;

use weir_expr::settings::LogEscape;
use weir_http::scan::is_quotable;
use weir_plan::{AccessLog, CommonValue, Filter, LogFormat, LogStep, Template, Var};
use weir_telemetry::log::{escape_default, escape_json};

use crate::eval::{apply, condition, text, vars};
use crate::exchange::{Ending, Exchange, Phase, Session, Traffic, errors, sticks};
use crate::worker::count::SessionTotals;
use crate::worker::zones::Ended;

/// Counts and logs an exchange that is over.
pub(crate) fn exchange_ended(exchange: &mut Exchange) {
    settle_status(exchange);
    if exchange.response.status == 0 && exchange.ending == Ending::Normal {
        // A connection that ended between requests is no request; one that never had any may be worth a line.
        if exchange.site().log_empty_connections && exchange.client.requests.get() == 0 {
            (exchange.response.status, exchange.ending) = (400, Ending::ClientAborted(Phase::Request));
            access(exchange);
        }
        return;
    }
    let unread = exchange.times.head.is_none();
    if unread {
        // A head that was refused is a request all the same.
        exchange.client.requests.set(exchange.client.requests.get() + 1);
        exchange.worker.counters.request();
    }
    let zone = exchange.zone.take();
    exchange.worker.counters.exchange(exchange, zone);
    exchange.leave_flight();
    access(exchange);
    if exchange.own.is_some() {
        super::spans::ended(exchange);
    }
    release(exchange, unread);
}

/// Counts and logs a session of a TCP service that is over.
pub(crate) fn session_ended(session: &mut Session) {
    let installed = session.installed.clone();
    let service = installed.plan.tcp_service(session.tcp);
    let totals = SessionTotals {
        listener: session.client.listener,
        received: session.received,
        sent: session.sent,
        status: session.status,
        duration: session.now().saturating_duration_since(session.client.accepted),
    };
    session.worker.counters.session(service.id, &totals);
    session.leave_flight();
    if let Some(zone) =
        session.zone.take().or_else(|| Some(session.worker.counters.enter_zone(service.zone?)))
    {
        let ended = Ended {
            status: session.status,
            silent: false,
            received: session.received,
            sent: session.sent,
            took: totals.duration,
        };
        zone.end(&ended);
    }
    if !session.unlogged && (session.received > 0 || service.log_empty_connections) {
        write_all(session, &service.access_logs);
    }
    release(session, false);
}

/// Ends what it tracks in stick tables.
fn release(traffic: &mut impl Traffic, unread: bool) {
    if sticks::tracks(traffic) {
        let bytes = (traffic.received(), traffic.sent());
        sticks::end(traffic, bytes, unread);
    }
}

/// A client that left before the answer leaves the status that the site names.
fn settle_status(exchange: &mut Exchange) {
    let left = matches!(exchange.ending, Ending::ClientAborted(phase) if phase != Phase::Request);
    if !left || exchange.response.head_sent {
        return;
    }
    exchange.response.status = exchange.site().conduct.left_status;
}

fn access(exchange: &mut Exchange) {
    if exchange.unlogged || exchange.route().settings.access_logs.is_empty() {
        return;
    }
    let installed = exchange.installed.clone();
    write_all(exchange, &installed.plan.route(exchange.route).settings.access_logs);
}

fn write_all(exchange: &mut impl Traffic, logs: &[AccessLog]) {
    for log in logs {
        if !wanted(exchange, log) {
            continue;
        }
        let mut line = exchange.worker.take_text();
        write_line(exchange, &log.format, log.escape, &mut line);
        let worker = &exchange.worker;
        worker.logs.line(
            &worker.shared.logs,
            worker.millis(),
            &exchange.installed.prepared.logs,
            log.log,
            &line,
            |path| file_name(exchange, path),
        );
        worker.give_text(line);
    }
}

/// The computed name of a log file. A request whose folder of files does not exist names none: this is how nginx keeps
/// made-up hosts from making logs. Empty: no log.
fn file_name(traffic: &impl Traffic, path: &Template) -> Vec<u8> {
    if let Some(exchange) = traffic.exchange() {
        let mut root = Vec::new();
        exchange.append_root(&mut root);
        let folder = std::path::Path::new(std::ffi::OsStr::from_bytes(&root));
        if let Err(problem) = std::fs::metadata(folder) {
            let problem = errors::system(&problem);
            errors::error(
                exchange,
                &format!("testing \"{}\" existence failed ({problem})", folder.display()),
            );
            return Vec::new();
        }
    }
    text(traffic, path)
}

fn wanted(exchange: &mut impl Traffic, log: &AccessLog) -> bool {
    let truthy =
        log.condition.as_ref().is_none_or(|template| condition::is_truthy(&text(exchange, template)));
    // Where that is not known a line too many does less harm than one that is missing.
    truthy && log.only.as_ref().is_none_or(|only| condition::holds(exchange, only).unwrap_or(true))
}

/// Appends a line, without its end.
fn write_line(traffic: &impl Traffic, format: &LogFormat, escape: LogEscape, out: &mut Vec<u8>) {
    for step in format.steps() {
        match step {
            LogStep::Short(text, length) => vars::short(out, text, usize::from(*length)),
            LogStep::Text(text) => out.extend_from_slice(text),
            LogStep::Common(CommonValue::RequestLine) if escape == LogEscape::Hash => {
                write_value(traffic, &Var::RequestLine, &[], escape, out);
            }
            LogStep::Common(value) => {
                let start = out.len();
                let has_value = vars::append_common(traffic, *value, out);
                if matches!(value, CommonValue::RemoteUser | CommonValue::RequestLine) {
                    escape_value(escape, is_control, out, start);
                }
                dash_if_none(escape, has_value, out);
            }
            LogStep::Field(id) => {
                let start = out.len();
                let has_value =
                    traffic.exchange().is_some_and(|exchange| exchange.request.fields.join(*id, b", ", out));
                if has_value {
                    escape_value(escape, is_control, out, start);
                }
                dash_if_none(escape, has_value, out);
            }
            LogStep::Var(value) => write_value(traffic, &value.0, &value.1, escape, out),
        }
    }
}

/// Appends the value of any variable.
fn write_value(traffic: &impl Traffic, var: &Var, filters: &[Filter], escape: LogEscape, out: &mut Vec<u8>) {
    let start = out.len();
    if escape == LogEscape::Hash && *var == Var::RequestLine && traffic.times.head.is_none() {
        out.extend_from_slice(b"<BADREQ>");
    } else {
        let has_value = vars::append(traffic, var, out) || is_found_empty(var);
        if !is_plain(var) {
            escape_value(escape, hashed(var), out, start);
        }
        dash_if_none(escape, has_value, out);
    }
    apply(filters, out, start);
}

/// nginx shows what is not there as a dash, unless it writes for programs.
#[inline]
fn dash_if_none(escape: LogEscape, has_value: bool, out: &mut Vec<u8>) {
    if escape == LogEscape::Default && !has_value {
        out.push(b'-');
    }
}

/// Variables that nginx regards as found when they are empty, and so shows as nothing rather than `-`.
fn is_found_empty(var: &Var) -> bool {
    matches!(
        var,
        Var::IsArgs
            | Var::HttpsOn
            | Var::IsRequestPort
            | Var::RequestCompletion
            | Var::DocumentRoot
            | Var::ServerName
            | Var::User(_)
    )
}

/// Escapes what stands behind `start`. Most values need nothing, and are only looked at. `hashed`: what HAProxy escapes of it.
#[inline]
fn escape_value(escape: LogEscape, hashed: fn(u8) -> bool, out: &mut Vec<u8>, start: usize) {
    let value = &out[start..];
    let needs = match escape {
        LogEscape::None => false,
        LogEscape::Default => !is_quotable(value),
        LogEscape::Json => any(value, |byte| (byte < 0x20) | (byte == b'"') | (byte == b'\\')),
        LogEscape::Hash => any(value, hashed),
    };
    if needs {
        escape_behind(escape, hashed, out, start);
    }
}

#[cold]
fn escape_behind(escape: LogEscape, hashed: fn(u8) -> bool, out: &mut Vec<u8>, start: usize) {
    let plain = out.split_off(start);
    match escape {
        LogEscape::None => {}
        LogEscape::Default => escape_default(out, &plain),
        LogEscape::Json => escape_json(out, &plain),
        LogEscape::Hash => escape_hash(out, &plain, hashed),
    }
}

/// Whether what a variable says is made here, of digits and a few letters: no dialect escapes any of it.
fn is_plain(var: &Var) -> bool {
    matches!(
        var,
        Var::ClientAddr
            | Var::ClientPort
            | Var::TimeLocal
            | Var::TimeIso8601
            | Var::TimeSeconds
            | Var::Status
            | Var::BytesSent
            | Var::BodyBytesSent
            | Var::RequestTime
            | Var::RequestLength
            | Var::Timer(_)
            | Var::Count(_)
            | Var::AcceptDate
            | Var::RequestDate
            | Var::TerminationState
    )
}

/// Whether a test holds for any byte. Sixteen at a time, all of them: that compiles to vector instructions.
fn any(text: &[u8], test: impl Fn(u8) -> bool) -> bool {
    let (blocks, rest) = text.as_chunks::<16>();
    blocks.iter().any(|block| block.iter().fold(false, |found, &byte| found | test(byte)))
        || rest.iter().any(|&byte| test(byte))
}

/// Bytes that HAProxy writes as `#XX`: controls and high bytes, and what would end the place where the value stands.
fn hashed(var: &Var) -> fn(u8) -> bool {
    match var {
        Var::CapturedRequestHeader(_) | Var::CapturedResponseHeader(_) => {
            |byte| !(0x20..0x7f).contains(&byte) || matches!(byte, b'"' | b'#' | b'{' | b'|' | b'}')
        }
        Var::RequestLine | Var::Target | Var::RawPath | Var::Query | Var::Method => {
            |byte| !(0x20..0x7f).contains(&byte) || matches!(byte, b'"' | b'#')
        }
        _ => is_control,
    }
}

fn is_control(byte: u8) -> bool {
    byte < 0x20 || byte == 0x7f
}

fn escape_hash(out: &mut Vec<u8>, text: &[u8], needs: fn(u8) -> bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        if needs(byte) {
            out.extend_from_slice(&[b'#', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        } else {
            out.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(how: LogEscape, var: &Var, text: &[u8]) -> String {
        let mut out = b"before ".to_vec();
        out.extend_from_slice(text);
        escape_value(how, hashed(var), &mut out, 7);
        String::from_utf8(out.split_off(7)).unwrap()
    }

    #[test]
    fn values_cannot_break_a_line_of_nginx() {
        assert_eq!(escaped(LogEscape::Default, &Var::RequestLine, b"a\"b\\c\x7f"), "a\\x22b\\x5Cc\\x7F");
        assert_eq!(escaped(LogEscape::Json, &Var::RequestLine, b"a\"b\n"), "a\\\"b\\n");
        assert_eq!(escaped(LogEscape::Default, &Var::RequestLine, b"GET / HTTP/1.1"), "GET / HTTP/1.1");
    }

    #[test]
    fn values_cannot_break_a_line_of_haproxy() {
        assert_eq!(escaped(LogEscape::Hash, &Var::RequestLine, b"GET /\"{#\xe9 X"), "GET /#22{#23#E9 X");
        assert_eq!(escaped(LogEscape::Hash, &Var::CapturedRequestHeader(0), b"a|{b}\x01"), "a#7C#7Bb#7D#01");
        assert_eq!(escaped(LogEscape::Hash, &Var::Host, b"a#b\n"), "a#b#0A");
    }
}
