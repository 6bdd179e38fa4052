//! Where log lines go, and what they look like.
//!
//! Owns: targets, HAProxy's own formats, the user variables those read.
//! Never: writes a line.
//! Why: HAProxy's traffic lines have the level `info`; a target that asks for `notice` or worse gets events only, and
//! becomes an error log.

use std::sync::Arc;

use weir_diag::{Diagnostic, Span};
use weir_expr::settings::{LogEscape, LogLevel, SyslogForm};
use weir_model::{
    AccessLog, Condition, Definition, ErrorLog, LogTarget as Target, MapTable, Model, Subject, SyslogServer,
    Template, Test, Var, Variable,
};

use super::format::{BACKEND_OR_FRONTEND, CACHE_OR_NONE, Formatter, LogScope, SERVER_OR_NONE, TLS_MARK};
use super::rules::capture_kind;
use super::scope::Scope;
use crate::draft::{Draft, Global, LogFormat, LogTarget, Mode, Proxy, RuleList};
use crate::findings::Findings;
use crate::read::Word;
use crate::read::formats::{CLF, HTTP, HTTPS_TAIL, TCP};
use crate::values::{Host, Port, address};

/// Syslog severities 0–7 as error-log levels.
const LEVELS: [LogLevel; 8] = [
    LogLevel::Emerg,
    LogLevel::Alert,
    LogLevel::Crit,
    LogLevel::Error,
    LogLevel::Warn,
    LogLevel::Notice,
    LogLevel::Info,
    LogLevel::Debug,
];
const INFO: u8 = 6;

/// A target with its level, once it is known where it is; `None` where nothing can be sent (reported).
fn target(log: &LogTarget, tag: &str, draft: &Draft, findings: &mut Findings) -> Option<Target> {
    let global = &draft.global;
    let (server, form) = match (place(log, draft, findings)?, log.form) {
        // Lines to streams have no head unless one is asked for.
        (SyslogServer::Stdout, None | Some(SyslogForm::Raw)) => return Some(Target::Stdout),
        (SyslogServer::Stderr, None | Some(SyslogForm::Raw)) => return Some(Target::Stderr),
        (SyslogServer::Ring(name), _) => {
            let form = draft.log_rings.iter().find(|ring| ring.name == name).map(|ring| ring.form);
            (SyslogServer::Ring(name), form)
        }
        (server, form) => (server, form),
    };
    let named = form == Some(SyslogForm::Rfc3164) && !log.local;
    Some(Target::Syslog {
        server,
        facility: log.facility.clone(),
        severity: LogLevel::Info,
        tag: tag.to_owned(),
        no_hostname: match form {
            Some(SyslogForm::Rfc3164) if named => false,
            // `local` is that form without a host, whatever `log-send-hostname` says.
            Some(SyslogForm::Rfc3164) if log.local => true,
            Some(SyslogForm::Rfc3164 | SyslogForm::Rfc5424) | None => global.send_hostname.is_none(),
            Some(_) => true,
        },
        host: match &global.send_hostname {
            // Who wants a host named and does not say which gets this one.
            None => named.then(|| "localhost".to_owned()),
            Some(name) => Some(name.clone()).filter(|name| !name.is_empty()),
        },
        form: form.unwrap_or_default(),
        max_length: Some(log.max_length),
        min_severity: LEVELS[usize::from(log.min_level.min(7))],
        pid: true,
        newline: true,
    })
}

/// Where a `log` line sends to.
fn place(log: &LogTarget, draft: &Draft, findings: &mut Findings) -> Option<SyslogServer> {
    let word = &log.address;
    match word.as_str() {
        "stdout" | "fd@1" => return Some(SyslogServer::Stdout),
        "stderr" | "fd@2" => return Some(SyslogServer::Stderr),
        text if text.starts_with("fd@") => {
            findings.tuning(word.span, text, "log lines meant for it go nowhere");
            return None;
        }
        _ => {}
    }
    if let Some(name) = word.text.strip_prefix("ring@") {
        let names = draft.log_rings.iter().map(|ring| ring.name.as_str());
        return named(word, name, "ring", names, findings).map(SyslogServer::Ring);
    }
    if let Some(name) = word.text.strip_prefix("backend@") {
        let names = draft.log_pools.iter().map(|pool| pool.name.as_str());
        return named(word, name, "backend in `mode log`", names, findings).map(SyslogServer::Pool);
    }
    let text =
        word.text.strip_prefix("udp@").or_else(|| word.text.strip_prefix("udp4@")).unwrap_or(word.as_str());
    let parsed = findings.value(&Word { text: text.to_owned(), span: word.span }, address::parse)?;
    let port = match parsed.port {
        Port::One(port) => port,
        _ => 514,
    };
    Some(match parsed.host {
        Host::Any => SyslogServer::Udp((std::net::Ipv4Addr::LOCALHOST, port).into()),
        Host::Ip(ip) => SyslogServer::Udp((ip, port).into()),
        Host::Name(name, _) => SyslogServer::Name(name, port),
        Host::Unix(path) => SyslogServer::Unix(path.into()),
        Host::Abstract(name) => SyslogServer::Unix(format!("@{name}").into()),
        Host::Fd(_) | Host::Other(_) => {
            findings.tuning(word.span, word.as_str(), "log lines meant for it go nowhere");
            return None;
        }
    })
}

/// A name that there is; an unknown one is reported.
fn named<'a>(
    word: &Word,
    name: &str,
    what: &str,
    mut names: impl Iterator<Item = &'a str> + Clone,
    findings: &mut Findings,
) -> Option<String> {
    if names.clone().any(|known| known == name) {
        return Some(name.to_owned());
    }
    let title = format!("there is no {what} named `{name}`");
    let found = Diagnostic::error("haproxy::unknown-name", title).at(word.span);
    findings.push(found.suggest(name, word.span, names.by_ref()));
    None
}

/// The process's error logs: every target of `global`.
pub(crate) fn error_logs(
    targets: &[LogTarget],
    tag: &str,
    draft: &Draft,
    findings: &mut Findings,
) -> Vec<ErrorLog> {
    let mut logs: Vec<ErrorLog> = Vec::new();
    for log in targets {
        let level = LEVELS[usize::from(log.level.min(7))];
        let Some(mut target) = target(log, tag, draft, findings) else { continue };
        if let Target::Syslog { severity, .. } = &mut target {
            *severity = LogLevel::Notice;
        }
        let log = ErrorLog { target, level };
        if !logs.contains(&log) {
            logs.push(log);
        }
    }
    logs
}

/// The tag of a proxy's lines.
pub(crate) fn tag(proxy: Option<&Proxy>, global: &Global) -> String {
    let own = proxy.and_then(|proxy| proxy.settings.log_tag.clone());
    own.or_else(|| global.log_tag.clone()).unwrap_or_else(|| "haproxy".into())
}

/// All targets of a proxy: its own, and the process's under `log global`.
pub(crate) fn targets<'a>(proxy: &'a Proxy, global: &'a Global) -> impl Iterator<Item = &'a LogTarget> {
    let global = global.logs.iter().filter(|_| proxy.settings.logs.global);
    global.chain(&proxy.settings.logs.own)
}

/// The access logs of a frontend.
pub(crate) fn access_logs(scope: &Scope<'_>, log: &LogScope, findings: &mut Findings) -> Vec<AccessLog> {
    let (proxy, global) = (scope.proxy, &scope.draft.global);
    let tag = tag(Some(proxy), global);
    let wanted: Vec<&LogTarget> = targets(proxy, global).filter(|log| log.level >= INFO).collect();
    // Read even where no line is written: a mistake in it is one.
    let format = line_format(scope, log, findings);
    let Some(format) = format.filter(|_| !wanted.is_empty()) else { return Vec::new() };
    let structured = Arc::new(structured_format(scope, log, &format, findings));
    let format = Arc::new(format);
    let only = only(proxy);
    let mut logs: Vec<AccessLog> = Vec::new();
    for one in wanted {
        let Some(target) = target(one, &tag, scope.draft, findings) else { continue };
        let format = match form_of(&target) {
            Some(SyslogForm::Rfc5424) => structured.clone(),
            _ => format.clone(),
        };
        let log = AccessLog {
            target,
            format,
            escape: LogEscape::Hash,
            condition: None,
            only: only.clone(),
            buffer: None,
            flush: None,
            gzip: None,
            sample: one.sample.clone(),
        };
        if !logs.contains(&log) {
            logs.push(log);
        }
    }
    logs
}

fn form_of(target: &Target) -> Option<SyslogForm> {
    match target {
        Target::Syslog { form, .. } => Some(*form),
        _ => None,
    }
}

/// `option dontlog-normal`, and `monitor-uri`, whose requests are never logged.
fn only(proxy: &Proxy) -> Option<Condition> {
    let mut all = Vec::new();
    if proxy.settings.flag("dontlog-normal") {
        let subject = Subject::Value(Template::var(Var::StatusCode));
        all.push(Condition::Test { subject, test: Test::Number(vec![(i64::MIN, 0), (500, i64::MAX)]) });
    }
    if let Some(uri) = proxy.settings.monitor_uri.as_ref().filter(|_| is_http(proxy)) {
        all.push(Condition::Not(Box::new(super::rules::target_is(uri))));
    }
    match all.len() {
        0 => None,
        1 => all.pop(),
        _ => Some(Condition::All(all)),
    }
}

/// True for proxies in mode http.
pub(crate) fn is_http(proxy: &Proxy) -> bool {
    proxy.settings.mode.as_ref().is_some_and(|mode| mode.value == Mode::Http)
}

fn line_format(scope: &Scope<'_>, log: &LogScope, findings: &mut Findings) -> Option<Template> {
    let proxy = scope.proxy;
    let at = proxy.settings.log_format.as_ref();
    let span = at.map_or(proxy.name.span, |at| at.span);
    let http = is_http(proxy);
    let format = at.map(|at| &at.value);
    let text = match format {
        None => format!("Connect from %ci:%cp to %fi:%fp (%f/{})", if http { "HTTP" } else { "TCP" }),
        Some(LogFormat::Tcp) => TCP.into(),
        Some(LogFormat::Http | LogFormat::Clf | LogFormat::Https) if !http => {
            findings.ignored(
                span,
                "a TCP proxy has no requests to log; its lines have the form of `option tcplog`",
            );
            TCP.into()
        }
        Some(LogFormat::Http) => HTTP.into(),
        Some(LogFormat::Clf) => CLF.into(),
        Some(LogFormat::Https) => return https(scope, log, span, findings),
        Some(LogFormat::Custom(word)) => word.text.clone(),
    };
    Formatter { scope: *scope, log: Some(log), groups: false, span, findings }.template(&text)
}

/// A line behind its structured data (RFC 5424 section 6.3): those of `log-format-sd`, or none.
fn structured_format(
    scope: &Scope<'_>,
    log: &LogScope,
    format: &Template,
    findings: &mut Findings,
) -> Template {
    let data = scope.proxy.settings.log_format_sd.as_ref().and_then(|word| {
        Formatter { scope: *scope, log: Some(log), groups: false, span: word.span, findings }
            .template(&word.text)
    });
    let mut whole = data.unwrap_or_else(|| Template::literal("-"));
    whole.push_literal(" ");
    whole.pieces.extend(format.pieces.iter().cloned());
    whole
}

fn https(scope: &Scope<'_>, log: &LogScope, span: Span, findings: &mut Findings) -> Option<Template> {
    let tail = HTTPS_TAIL.replace("%[ssl_fc_is_resumed_number]", "0");
    Formatter { scope: *scope, log: Some(log), groups: false, span, findings }
        .template(&format!("{HTTP}{tail}"))
}

/// What log lines know of a frontend. `tls` tells for each of its listeners whether it speaks TLS.
pub(crate) fn log_scope(proxy: &Proxy, tls: &[bool]) -> LogScope {
    let tls_mark = match (tls.contains(&true), tls.contains(&false)) {
        (false, _) => Template::default(),
        (true, false) => Template::literal("~"),
        (true, true) => Template::var(Var::User(TLS_MARK.into())),
    };
    let count = |what: &str| {
        let captures = proxy.captures.iter().filter(|line| capture_kind(line) == what).count();
        u16::try_from(captures).unwrap_or(u16::MAX)
    };
    LogScope {
        frontend: proxy.name.text.clone(),
        tls_mark,
        backend: None,
        server: None,
        cookies: proxy.captures.iter().any(|line| capture_kind(line) == "cookie"),
        request_captures: count("request").saturating_add(rule_captures(proxy)),
        response_captures: count("response"),
    }
}

/// `http-request capture` rules: they take the places after those of `capture request header`.
fn rule_captures(proxy: &Proxy) -> u16 {
    let rules = proxy.settings.rules.iter().filter(|rule| rule.list == RuleList::HttpRequest);
    u16::try_from(
        rules
            .filter(|rule| rule.line.text(rule.from) == "capture" && rule.line.text(rule.from + 2) == "len")
            .count(),
    )
    .unwrap_or(u16::MAX)
}

/// Defines the variables that HAProxy's lines read, where they are read.
pub(crate) fn define(name: &str, model: &mut Model) -> bool {
    let (source, from, to, default) = match name {
        BACKEND_OR_FRONTEND => {
            (Var::PoolName, "", Template::var(Var::SiteLabel), Template::var(Var::PoolName))
        }
        SERVER_OR_NONE => {
            let caches = !model.memory_caches.is_empty() && define(CACHE_OR_NONE, model);
            let nobody = match caches {
                true => Template::var(Var::User(CACHE_OR_NONE.into())),
                false => Template::literal("<NOSRV>"),
            };
            (Var::EndpointName, "", nobody, Template::var(Var::EndpointName))
        }
        CACHE_OR_NONE => {
            (Var::MemoryCacheHit, "1", Template::literal("<CACHE>"), Template::literal("<NOSRV>"))
        }
        TLS_MARK => (Var::HttpsOn, "on", Template::literal("~"), Template::default()),
        _ => return false,
    };
    let table = MapTable {
        source: Template::var(source),
        exact: vec![(from.to_owned(), to)],
        suffixes: Vec::new(),
        prefixes: Vec::new(),
        patterns: Vec::new(),
        default,
        hostnames: false,
        // The pool and endpoint are not known yet when a rule might read these.
        volatile: true,
    };
    model.variables.push(Variable {
        name: name.to_owned(),
        origin: None,
        definition: Definition::Map(table),
    });
    true
}
