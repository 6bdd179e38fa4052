//! Diagnostics and log lines in the form that a manner's users (and their scripts) know.
//!
//! Owns: the forms. `weir` draws findings like a compiler; `nginx` and `haproxy` begin with the line that those
//! programs print, and the drawing follows it.
//! Never: decides what is an error.
//! Driven by: `cli`, `life`.

use std::io::IsTerminal;
use std::path::Path;

use weir_diag::{Diagnostic, Severity, Sources, render_terminal};
use weir_expr::settings::LogLevel;

use crate::launch::Manner;

/// Prints findings on standard error; `quiet` leaves out all but errors. In nginx's manner those that nobody will notice
/// take one line together, for nginx says nothing of the words that they are about.
pub(crate) fn print(manner: Manner, diagnostics: &[Diagnostic], sources: &Sources, quiet: bool) {
    let shown = diagnostics.iter().filter(|found| !quiet || found.severity == Severity::Error);
    let (minor, shown): (Vec<_>, Vec<_>) =
        shown.partition(|found| manner == Manner::Nginx && weir_nginx::is_minor(found));
    let text: String = shown.into_iter().map(|found| render(manner, found, sources)).collect();
    err!("{text}{}", told_together(&minor, sources));
}

fn told_together(minor: &[&Diagnostic], sources: &Sources) -> String {
    let flag = Path::new("-g");
    let file = sources.ids().map(|id| sources.name(id)).find(|name| *name != flag).unwrap_or(flag);
    let words = match minor.len() {
        0 => return String::new(),
        1 => "1 directive has".to_owned(),
        count => format!("{count} directives have"),
    };
    format!(
        "nginx: [notice] {words} no effect in Weir, or less; `weir check {}` names them\n",
        file.display()
    )
}

/// One finding, with its drawing.
pub(crate) fn render(manner: Manner, found: &Diagnostic, sources: &Sources) -> String {
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let drawing = render_terminal(found, sources, color && manner == Manner::Weir);
    if manner == Manner::Weir {
        return drawing;
    }
    // The first line of the drawing says what the manner's own line says.
    let details = drawing.split_once('\n').map_or("", |(_, rest)| rest);
    format!("{}{details}", own_line(manner, found, sources))
}

fn own_line(manner: Manner, found: &Diagnostic, sources: &Sources) -> String {
    let place = found.primary.as_ref().map(|label| {
        let at = sources.position(label.span.source, label.span.start);
        format!("{}:{}", sources.name(label.span.source).display(), at.line)
    });
    let title = &found.title;
    match (manner, place) {
        (Manner::Haproxy, Some(place)) => {
            format!("{} config : parsing [{place}] : {title}\n", haproxy_head(found.severity))
        }
        (Manner::Haproxy, None) => format!("{} config : {title}\n", haproxy_head(found.severity)),
        (_, Some(place)) => format!("nginx: [{}] {title} in {place}\n", nginx_word(found.severity)),
        (_, None) => format!("nginx: [{}] {title}\n", nginx_word(found.severity)),
    }
}

fn nginx_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "emerg",
        Severity::Warning => "warn",
        Severity::Note => "notice",
    }
}

fn haproxy_head(severity: Severity) -> String {
    let word = match severity {
        Severity::Error => "ALERT",
        Severity::Warning => "WARNING",
        Severity::Note => "NOTICE",
    };
    haproxy_prefix(word)
}

/// `[ALERT]    (1234) :` with HAProxy's column.
pub(crate) fn haproxy_prefix(word: &str) -> String {
    format!("{:<10} ({}) :", format!("[{word}]"), std::process::id())
}

/// One finding on one line, for logs.
pub(crate) fn one_line(found: &Diagnostic, sources: &Sources) -> String {
    let mut line = found.title.clone();
    if let Some(label) = &found.primary {
        let at = sources.position(label.span.source, label.span.start);
        line += &format!(" in {}:{}:{}", sources.name(label.span.source).display(), at.line, at.column);
    }
    for help in &found.help {
        line += "; ";
        line += help;
    }
    line.replace('\n', " ")
}

/// `text` with its control characters escaped: one line stays one line, and a terminal that shows it stays what it is.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out
}

/// One line of an error log, with its end.
pub(crate) fn log_line(manner: Manner, level: LogLevel, text: &str) -> String {
    let text = printable(text);
    let pid = std::process::id();
    if manner == Manner::Haproxy {
        let word = match level {
            LogLevel::Emerg | LogLevel::Alert | LogLevel::Crit | LogLevel::Error => "ALERT",
            LogLevel::Warn => "WARNING",
            _ => "NOTICE",
        };
        return format!("{} {text}\n", haproxy_prefix(word));
    }
    let now = jiff::Zoned::now().strftime("%Y/%m/%d %H:%M:%S");
    format!("{now} [{}] {pid}#{pid}: {text}\n", level_word(level))
}

fn level_word(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Notice => "notice",
        LogLevel::Warn => "warn",
        LogLevel::Error => "error",
        LogLevel::Crit => "crit",
        LogLevel::Alert => "alert",
        LogLevel::Emerg => "emerg",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_diag::Span;

    #[test]
    fn each_manner_begins_with_its_own_line() {
        let mut sources = Sources::default();
        let source = sources.add("/etc/x.conf", "a\nbnd :80\n");
        let found =
            Diagnostic::error("x::y", "unknown word").at(Span { source, start: 2, end: 5 }).help("do so");
        let text = render(Manner::Nginx, &found, &sources);
        assert!(text.starts_with("nginx: [emerg] unknown word in /etc/x.conf:2\n"), "{text}");
        assert!(text.ends_with("help: do so\n"), "{text}");
        let text = render(Manner::Haproxy, &found, &sources);
        let head = format!(
            "[ALERT]    ({}) : config : parsing [/etc/x.conf:2] : unknown word\n",
            std::process::id()
        );
        assert!(text.starts_with(&head), "{text}");
    }
}
