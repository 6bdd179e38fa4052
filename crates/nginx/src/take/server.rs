//! Words of `server` blocks of `http`.

use weir_diag::Diagnostic;
use weir_model::NamePattern;

use super::{Lowering, ServerParts};
use crate::lexer::Word;
use crate::tree::Directive;

/// `server_name name …`.
pub(crate) fn names(lo: &mut Lowering<'_>, parts: &mut ServerParts, d: &Directive) {
    for word in &d.args {
        name(lo, parts, word);
    }
}

fn name(lo: &mut Lowering<'_>, parts: &mut ServerParts, word: &Word) {
    let text = word.text.as_str();
    if let Some(pattern) = text.strip_prefix('~') {
        if pattern.is_empty() {
            return bad_name(lo, word);
        }
        // Names are matched in lower case, so a pattern's own case must not count.
        let pattern = lo.pattern(pattern, true, word);
        parts.first_name.get_or_insert_with(|| text.to_owned());
        return parts.names.push(NamePattern::Regex(pattern));
    }
    let lower = match text {
        "$hostname" => lo.options.hostname.to_lowercase(),
        _ => text.to_lowercase(),
    };
    if text.contains('/') {
        lo.report(
            Diagnostic::warning(
                "nginx::odd-name",
                format!("`{text}` is no host name; no request will name it"),
            )
            .at(word.span)
            .help("write the name alone, without scheme or path"),
        );
    }
    let shown = lower.strip_prefix('.').unwrap_or(&lower).to_owned();
    parts.first_name.get_or_insert(shown);
    match () {
        () if lower.starts_with("*.") && !lower[2..].contains('*') && lower.len() > 2 => {
            parts.names.push(NamePattern::Suffix(lower[2..].to_owned()));
        }
        () if lower.ends_with(".*") && !lower[..lower.len() - 2].contains('*') && lower.len() > 2 => {
            parts.names.push(NamePattern::Prefix(lower[..lower.len() - 2].to_owned()));
        }
        () if lower.starts_with('.') && lower.len() > 1 && !lower.contains('*') => {
            parts.names.push(NamePattern::Exact(lower[1..].to_owned()));
            parts.names.push(NamePattern::Suffix(lower[1..].to_owned()));
        }
        () if lower.contains('\0') || lower == "*" => bad_name(lo, word),
        () if lower.contains('*') => {
            odd_wildcard(lo, word);
            parts.names.push(NamePattern::Exact(lower));
        }
        () => parts.names.push(NamePattern::Exact(lower)),
    }
}

/// nginx takes such a name letter by letter, without a word.
fn odd_wildcard(lo: &mut Lowering<'_>, word: &Word) {
    let text = format!("the `*` of `{}` is taken as a letter; no request will name this", word.text);
    lo.report(Diagnostic::warning("nginx::odd-name", text).at(word.span).help(
        "`*` may only stand for the first or the last part of a name: `*.example.org`, `www.example.*`",
    ));
}

fn bad_name(lo: &mut Lowering<'_>, word: &Word) {
    let text = format!("`{}` is no server name", word.text);
    lo.report(Diagnostic::error("nginx::bad-value", text).at(word.span).help(
        "`*` may only stand for the first or the last part of a name: `*.example.org`, `www.example.*`",
    ));
}
