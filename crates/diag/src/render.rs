//! Drawing diagnostics: for a terminal, and as JSON lines.

use std::fmt::Write as _;

use serde::Serialize;

use crate::{Diagnostic, Label, ObjectField, Severity, Sources};

/// Draws one finding for people. `color` adds ANSI colours.
///
/// ```text
/// error[nginx::unknown-directive]: unknown directive `lisen`
///   ┌ nginx.conf:3:5
/// 3 │     lisen 80;
///   │     ^^^^^
/// help: did you mean `listen`?
/// ```
pub fn render_terminal(diagnostic: &Diagnostic, sources: &Sources, color: bool) -> String {
    let mut out = String::new();
    let (word, paint) = match diagnostic.severity {
        Severity::Error => ("error", "\x1b[1;31m"),
        Severity::Warning => ("warning", "\x1b[1;33m"),
        Severity::Note => ("note", "\x1b[1;36m"),
    };
    let (paint, bold, reset) = if color { (paint, "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
    let _ = writeln!(out, "{paint}{word}[{}]{reset}{bold}: {}{reset}", diagnostic.code, diagnostic.title);
    if let Some(label) = &diagnostic.primary {
        draw_label(&mut out, label, '^', sources);
    }
    if let Some(place) = &diagnostic.object {
        let _ = writeln!(out, "  ┌ {}", crate::readable(format!("{}, {}", place.object, place.field)));
    }
    for label in &diagnostic.secondary {
        draw_label(&mut out, label, '-', sources);
    }
    for help in &diagnostic.help {
        let _ = writeln!(out, "help: {help}");
    }
    out
}

/// Most characters of a line that are shown.
const WIDEST: usize = 400;

fn draw_label(out: &mut String, label: &Label, mark: char, sources: &Sources) {
    let Label { span, text } = label;
    let from = sources.position(span.source, span.start);
    let to = sources.position(span.source, span.end.max(span.start));
    let whole = sources.line(span.source, from.line);
    // Of a line that is very long, the part around the mark: a file may be one line of megabytes.
    let skipped = if from.column > WIDEST { from.column - WIDEST / 2 } else { 0 };
    let mut part = whole.chars().skip(skipped);
    // What a file holds must not move the cursor of whoever reads about it.
    let shown = |c: char| if c.is_control() && c != '\t' { '\u{fffd}' } else { c };
    let mut line: String = part.by_ref().take(WIDEST).map(shown).collect();
    let is_cut = part.next().is_some();
    let (before, after) = (if skipped > 0 { "…" } else { "" }, if is_cut { "…" } else { "" });
    let gutter = from.line.to_string().len();
    let width = if to.line == from.line {
        to.column.saturating_sub(from.column)
    } else {
        (skipped + line.chars().count() + 1).saturating_sub(from.column)
    };
    let width = width.min((skipped + WIDEST + 1).saturating_sub(from.column));
    // Tabs are kept in the indent, so that the mark stands below its text whatever the terminal's tab width.
    let indent: String =
        line.chars().take(from.column - 1 - skipped).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let indent = if skipped > 0 { format!(" {indent}") } else { indent };
    line.insert_str(0, before);
    line.push_str(after);
    let marks: String = std::iter::repeat_n(mark, width.max(1)).collect();
    let space = if text.is_empty() { "" } else { " " };
    let _ = writeln!(
        out,
        "{:gutter$} ┌ {}:{}:{}",
        "",
        sources.name(span.source).display(),
        from.line,
        from.column
    );
    let _ = writeln!(out, "{} │ {line}", from.line);
    let _ = writeln!(out, "{:gutter$} │ {indent}{marks}{space}{text}", "");
}

#[derive(Serialize)]
struct JsonDiagnostic<'a> {
    code: &'a str,
    severity: Severity,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    primary: Option<JsonLabel<'a>>,
    #[serde(flatten)]
    object: Option<&'a ObjectField>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    secondary: Vec<JsonLabel<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    help: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<JsonFix<'a>>,
}

#[derive(Serialize)]
struct JsonLabel<'a> {
    file: String,
    line: usize,
    column: usize,
    start: u32,
    end: u32,
    #[serde(skip_serializing_if = "str::is_empty")]
    text: &'a str,
}

#[derive(Serialize)]
struct JsonFix<'a> {
    file: String,
    start: u32,
    end: u32,
    replacement: &'a str,
}

fn json_label<'a>(label: &'a Label, sources: &Sources) -> JsonLabel<'a> {
    let at = sources.position(label.span.source, label.span.start);
    JsonLabel {
        file: sources.name(label.span.source).display().to_string(),
        line: at.line,
        column: at.column,
        start: label.span.start,
        end: label.span.end,
        text: &label.text,
    }
}

/// One finding as one line of JSON.
pub fn render_json(diagnostic: &Diagnostic, sources: &Sources) -> String {
    let value = JsonDiagnostic {
        code: diagnostic.code,
        severity: diagnostic.severity,
        message: &diagnostic.title,
        primary: diagnostic.primary.as_ref().map(|label| json_label(label, sources)),
        object: diagnostic.object.as_ref(),
        secondary: diagnostic.secondary.iter().map(|label| json_label(label, sources)).collect(),
        help: &diagnostic.help,
        fix: diagnostic.fix.as_ref().map(|fix| JsonFix {
            file: sources.name(fix.span.source).display().to_string(),
            start: fix.span.start,
            end: fix.span.end,
            replacement: &fix.replacement,
        }),
    };
    serde_json::to_string(&value).unwrap_or_else(|error| format!("{{\"message\":\"{error}\"}}"))
}

/// "2 errors, 1 warning", or "no errors".
pub fn summary(diagnostics: &[Diagnostic]) -> String {
    let count = |severity| diagnostics.iter().filter(|d| d.severity == severity).count();
    let phrase = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    match (count(Severity::Error), count(Severity::Warning)) {
        (0, 0) => "no errors".into(),
        (0, w) => format!("no errors, {}", phrase(w, "warning")),
        (e, 0) => phrase(e, "error"),
        (e, w) => format!("{}, {}", phrase(e, "error"), phrase(w, "warning")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;

    fn sample() -> (Sources, Diagnostic) {
        let mut sources = Sources::default();
        let source = sources.add("nginx.conf", "http {\n\tlisen 80;\n}\n");
        let span = Span { source, start: 8, end: 13 };
        let found = Diagnostic::error("nginx::unknown-directive", "unknown directive `lisen`")
            .labelled(span, "here")
            .suggest("lisen", span, ["listen"]);
        (sources, found)
    }

    #[test]
    fn the_mark_stands_below_the_word() {
        let (sources, found) = sample();
        let expected = "error[nginx::unknown-directive]: unknown directive `lisen`\n  ┌ nginx.conf:2:2\n2 │ \tlisen 80;\n  │ \t^^^^^ here\nhelp: did you mean `listen`?\n";
        assert_eq!(render_terminal(&found, &sources, false), expected);
    }

    #[test]
    fn long_lines_are_cut_and_control_characters_are_not_shown() {
        let mut sources = Sources::default();
        let source = sources.add("a", format!("{}\x1b[2J{}", "x".repeat(1000), "y".repeat(1_000_000)));
        let at = |start, end| Diagnostic::error("a::b", "c").at(Span { source, start, end });
        for (start, end) in
            [(0, 3), (1000, 1001), (500_000, 1_000_000), (0, 1_000_000), (1_000_003, 1_000_004)]
        {
            let drawn = render_terminal(&at(start, end), &sources, false);
            assert!(drawn.len() < 3000, "{} bytes", drawn.len());
            assert!(!drawn.contains('\x1b'), "{drawn}");
        }
        let drawn = render_terminal(&at(1000, 1001), &sources, false);
        let lines: Vec<&str> = drawn.lines().collect();
        let under = lines[3].chars().position(|c| c == '^').and_then(|at| lines[2].chars().nth(at));
        assert_eq!(under, Some('\u{fffd}'), "{drawn}");
    }

    #[test]
    fn what_came_from_an_object_is_placed_there() {
        let found =
            Diagnostic::error("tls::bad-key", "it holds no key").of_field("Secret shop/tls", "data[tls.key]");
        let drawn = render_terminal(&found, &Sources::default(), false);
        assert_eq!(drawn, "error[tls::bad-key]: it holds no key\n  ┌ Secret shop/tls, data[tls.key]\n");
        let json = render_json(&found, &Sources::default());
        assert!(json.contains(r#""object":"Secret shop/tls","field":"data[tls.key]""#), "{json}");
    }

    #[test]
    fn json_has_position_and_fix() {
        let (sources, found) = sample();
        let json = render_json(&found, &sources);
        assert!(json.contains(r#""line":2,"column":2"#), "{json}");
        assert!(json.contains(r#""replacement":"listen""#), "{json}");
    }
}
