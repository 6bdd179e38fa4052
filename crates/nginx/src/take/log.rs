//! Words about logs.

use std::path::PathBuf;
use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_model::settings::{LogEscape, LogLevel, SyslogForm};
use weir_model::{AccessLog, ErrorLog, LogTarget, SyslogServer, Template};

use super::state::Format;
use super::{Lowering, Scope};
use crate::lexer::{Quote, Word};
use crate::tree::Directive;
use crate::value;
use crate::variables::Dialect;

/// nginx's predefined format.
const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";

/// Starts the table of formats for `http` or `stream`.
pub(crate) fn begin_formats(lo: &mut Lowering<'_>) {
    lo.formats.clear();
    if lo.dialect == Dialect::Http {
        let format = combined(lo);
        lo.formats.insert("combined".into(), format);
    }
}

fn combined(lo: &mut Lowering<'_>) -> Format {
    let span = weir_diag::Span { source: weir_diag::SourceId(0), start: 0, end: 0 };
    let word = Word { text: COMBINED.to_owned(), span, quote: Some(Quote::Single) };
    Format { line: Arc::new(lo.log_template(COMBINED, &word)), escape: LogEscape::Default }
}

/// The access log where none is written.
pub(crate) fn default_access_log(lo: &mut Lowering<'_>) -> AccessLog {
    let format = combined(lo);
    let target = LogTarget::File(lo.options.access_log.clone());
    plain(target, &format)
}

fn plain(target: LogTarget, format: &Format) -> AccessLog {
    AccessLog {
        target,
        format: format.line.clone(),
        escape: format.escape,
        condition: None,
        only: None,
        buffer: None,
        flush: None,
        gzip: None,
        sample: None,
    }
}

/// `log_format name [escape=default|json|none] string …`.
pub(crate) fn log_format(lo: &mut Lowering<'_>, d: &Directive) {
    let name = d.arg(0).to_owned();
    let mut escape = LogEscape::Default;
    let mut first = 1;
    if let Some(word) = d.arg(1).strip_prefix("escape=") {
        escape = match word {
            "default" => LogEscape::Default,
            "json" => LogEscape::Json,
            "none" => LogEscape::None,
            _ => return lo.bad_value(d, 1, "`escape=default`, `escape=json` or `escape=none`"),
        };
        first = 2;
    }
    let mut line = Template::default();
    for word in &d.args[first.min(d.args.len())..] {
        let part = lo.log_template(&word.text, word);
        for piece in part.pieces {
            match piece {
                weir_expr::Piece::Literal(text) => line.push_literal(&text),
                piece => line.pieces.push(piece),
            }
        }
    }
    if lo.formats.insert(name.clone(), Format { line: Arc::new(line), escape }).is_some() {
        let text = format!("the log format `{name}` is defined twice");
        lo.report(Diagnostic::error("nginx::duplicate", text).at(d.span));
    }
}

/// `access_log` of `http`.
pub(crate) fn access_log(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    if d.arg(0) == "off" && d.args.len() == 1 {
        return s.access_logs.clear(s.level);
    }
    if let Some(log) = parse_access_log(lo, d) {
        s.access_logs.push(s.level, log);
    }
}

/// `access_log path [format [buffer=size] [gzip[=level]] [flush=time] [if=condition]]`.
pub(crate) fn parse_access_log(lo: &mut Lowering<'_>, d: &Directive) -> Option<AccessLog> {
    let target = access_target(lo, d)?;
    let mut named = None;
    let options = |text: &str| text == "gzip" || text.contains('=');
    if let Some(word) = d.args.get(1).filter(|word| !options(&word.text)) {
        named = Some((word.text.clone(), word.span));
    }
    let format = find_format(lo, d, named.as_ref().map(|(name, span)| (name.as_str(), *span)))?;
    let mut log = plain(target, &format);
    for n in 1 + usize::from(named.is_some())..d.args.len() {
        access_option(lo, d, n, &mut log)?;
    }
    Some(log)
}

fn find_format(
    lo: &mut Lowering<'_>,
    d: &Directive,
    named: Option<(&str, weir_diag::Span)>,
) -> Option<Format> {
    let (name, span) = named.unwrap_or(("combined", d.span));
    if let Some(format) = lo.formats.get(name) {
        return Some(format.clone());
    }
    let known: Vec<String> = lo.formats.keys().cloned().collect();
    let mut found =
        Diagnostic::error("nginx::unknown-format", format!("no `log_format` defines `{name}`")).at(span);
    if let Some(near) = weir_diag::nearest(name, known.iter().map(String::as_str)) {
        found = found.help(format!("did you mean `{near}`?"));
    }
    lo.report(found);
    None
}

fn access_option(lo: &mut Lowering<'_>, d: &Directive, n: usize, log: &mut AccessLog) -> Option<()> {
    let word = &d.args[n];
    let problem = match word.text.split_once('=') {
        Some(("buffer", size)) => {
            log.buffer = value::size(size);
            log.buffer.is_none().then_some("`buffer=` with a size such as `32k`")
        }
        Some(("flush", time)) => {
            log.flush = value::time(time);
            log.flush.is_none().then_some("`flush=` with a time such as `5s`")
        }
        Some(("gzip", level)) => {
            log.gzip = value::number(level).filter(|level| (1..=9).contains(level)).map(|level| level as u8);
            log.gzip.is_none().then_some("`gzip=` with a number from 1 to 9")
        }
        Some(("if", condition)) => {
            log.condition = Some(lo.template_of(condition, word));
            None
        }
        None if word.text == "gzip" => {
            log.gzip = Some(1);
            None
        }
        _ => Some("`buffer=`, `flush=`, `gzip`, `gzip=` or `if=`"),
    };
    match problem {
        Some(expected) => {
            lo.bad_value(d, n, expected);
            None
        }
        None => Some(()),
    }
}

fn access_target(lo: &mut Lowering<'_>, d: &Directive) -> Option<LogTarget> {
    let word = &d.args[0];
    if let Some(parameters) = word.text.strip_prefix("syslog:") {
        return syslog(lo, d, parameters, LogLevel::Info);
    }
    if word.text.contains('$') {
        let text = lo.path(&word.text).to_string_lossy().into_owned();
        return Some(LogTarget::FileTemplate(lo.template_of(&text, word)));
    }
    Some(file_target(lo.path(&word.text)))
}

fn file_target(path: PathBuf) -> LogTarget {
    match path.to_str() {
        Some("/dev/stdout" | "/proc/self/fd/1") => LogTarget::Stdout,
        Some("/dev/stderr" | "/proc/self/fd/2") => LogTarget::Stderr,
        _ => LogTarget::File(path),
    }
}

/// `server=address[,facility=f][,tag=t][,severity=s][,nohostname]`.
fn syslog(lo: &mut Lowering<'_>, d: &Directive, parameters: &str, severity: LogLevel) -> Option<LogTarget> {
    let mut server = None;
    let (mut facility, mut tag) = ("local7".to_owned(), "nginx".to_owned());
    let (mut severity, mut no_hostname) = (severity, false);
    for parameter in parameters.split(',') {
        let fine = match parameter.split_once('=') {
            Some(("server", address)) => {
                server = syslog_server(address);
                server.is_some()
            }
            Some(("facility", word)) => {
                facility = word.to_ascii_lowercase();
                is_facility(&facility)
            }
            Some(("severity", word)) => {
                let found = level(word);
                severity = found.unwrap_or(severity);
                found.is_some()
            }
            Some(("tag", word)) => {
                tag = word.to_owned();
                !word.is_empty()
                    && word.len() <= 32
                    && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            }
            None if parameter == "nohostname" => {
                no_hostname = true;
                true
            }
            _ => false,
        };
        if !fine {
            let text = format!("`{parameter}` is no valid parameter of a syslog target");
            let help = "they are server=, facility=, severity=, tag= (letters, digits, `_`) and nohostname";
            lo.report(Diagnostic::error("nginx::bad-value", text).at(d.arg_span(0)).help(help));
            return None;
        }
    }
    let Some(server) = server else {
        lo.bad_value(d, 0, "a syslog target with `server=`");
        return None;
    };
    Some(LogTarget::Syslog {
        form: SyslogForm::Rfc3164,
        host: None,
        server,
        facility,
        severity,
        tag,
        no_hostname,
        max_length: None,
        min_severity: LogLevel::Emerg,
        pid: false,
        newline: false,
    })
}

fn syslog_server(address: &str) -> Option<SyslogServer> {
    if let Some(path) = address.strip_prefix("unix:") {
        return (!path.is_empty()).then(|| SyslogServer::Unix(path.into()));
    }
    let (host, port) = super::target::host_port(address, 514)?;
    Some(match host.parse() {
        Ok(ip) => SyslogServer::Udp(std::net::SocketAddr::new(ip, port)),
        Err(_) => SyslogServer::Name(host, port),
    })
}

fn is_facility(word: &str) -> bool {
    const WORDS: &str = "kern user mail daemon auth intern lpr news uucp clock authpriv ftp ntp audit alert cron local0 local1 local2 local3 local4 local5 local6 local7";
    WORDS.split(' ').any(|known| known == word)
}

/// A severity word.
pub(crate) fn level(word: &str) -> Option<LogLevel> {
    Some(match word {
        "debug" | "debug_core" | "debug_alloc" | "debug_event" | "debug_http" | "debug_stream" => {
            LogLevel::Debug
        }
        "info" => LogLevel::Info,
        "notice" => LogLevel::Notice,
        "warn" => LogLevel::Warn,
        "error" => LogLevel::Error,
        "crit" => LogLevel::Crit,
        "alert" => LogLevel::Alert,
        "emerg" => LogLevel::Emerg,
        _ => return None,
    })
}

/// `error_log` of the process.
pub(crate) fn process_error_log(lo: &mut Lowering<'_>, d: &Directive) {
    if let Some(log) = parse_error_log(lo, d) {
        lo.model.process.error_logs.push(log);
    }
}

/// `error_log` of `http` and inside it.
pub(crate) fn error_log(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    if let Some(log) = parse_error_log(lo, d) {
        let level = s.level;
        s.parts().error_logs.push(level, log);
    }
}

/// `error_log file | stderr | syslog:… | memory:… [level]`.
pub(crate) fn parse_error_log(lo: &mut Lowering<'_>, d: &Directive) -> Option<ErrorLog> {
    let level = match d.args.get(1) {
        None => LogLevel::Error,
        Some(word) => match level(&word.text) {
            Some(level) => level,
            None => {
                lo.bad_value(
                    d,
                    1,
                    "one of `debug`, `info`, `notice`, `warn`, `error`, `crit`, `alert`, `emerg`",
                );
                return None;
            }
        },
    };
    let target = match d.arg(0) {
        "stderr" => LogTarget::Stderr,
        text if text.starts_with("syslog:") => syslog(lo, d, &text["syslog:".len()..], LogLevel::Error)?,
        text if text.starts_with("memory:") => {
            let text = "logs in memory have no effect";
            lo.report(Diagnostic::warning("nginx::no-effect", text).at(d.span));
            return None;
        }
        "off" => {
            let found =
                Diagnostic::warning("nginx::error-log-off", "`error_log off` writes to a file called `off`");
            lo.report(found.at(d.span).help("to log only the worst, write `error_log /dev/null emerg`"));
            file_target(lo.path("off"))
        }
        text => file_target(lo.path(text)),
    };
    Some(ErrorLog { target, level })
}
