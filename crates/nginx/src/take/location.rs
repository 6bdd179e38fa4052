//! Words about what answers in a location, and about its error pages.

use weir_diag::{Diagnostic, Span};
use weir_expr::settings::Dashboard;
use weir_model::{RouteId, TryFiles, TryLast};

use super::parts::{ActionSpec, PlaceKind, VideoKind};
use super::scope::ErrorPageSpec;
use super::{Lowering, Place, Scope};
use crate::tree::Directive;

/// `stub_status`; old files write `stub_status on`.
pub(crate) fn stub_status(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    place.set_action(lo, ActionSpec::StubStatus, d.span);
}

/// `empty_gif`.
pub(crate) fn empty_gif(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    place.set_action(lo, ActionSpec::EmptyGif, d.span);
}

/// `mp4`.
pub(crate) fn mp4(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    place.set_action(lo, ActionSpec::Video(VideoKind::Mp4), d.span);
}

/// `flv`.
pub(crate) fn flv(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    place.set_action(lo, ActionSpec::Video(VideoKind::Flv), d.span);
}

/// `weir_metrics`: a word of Weir's own.
pub(crate) fn metrics(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    place.set_action(lo, ActionSpec::Metrics, d.span);
}

/// `weir_dashboard [write=on|off]`: a word of Weir's own.
pub(crate) fn dashboard(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    let write = match d.args.first().map(|word| word.text.as_str()) {
        None | Some("write=off") => false,
        Some("write=on") => true,
        Some(_) => return lo.bad_value(d, 0, "`write=on` or `write=off`"),
    };
    if matches!(place.kind, PlaceKind::Exact(_)) {
        let title = "the dashboard has pages below this path, which an exact location keeps from it";
        lo.report(
            Diagnostic::error("nginx::dashboard-needs-prefix", title)
                .at(d.span)
                .help("leave out the `=` of the location"),
        );
    }
    place.set_action(lo, ActionSpec::Dashboard(Dashboard { write }), d.span);
}

/// `try_files candidate … last`.
pub(crate) fn try_files(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    let (last, candidates) = match d.args.split_last() {
        Some(split) => split,
        None => return,
    };
    let candidates = candidates.iter().map(|word| lo.template(word)).collect();
    let last = if let Some(code) = last.text.strip_prefix('=') {
        match code.parse::<u16>() {
            Ok(code @ 100..=999) => TryLast::Status(code),
            _ => return lo.bad_value(d, d.args.len() - 1, "`=` with a status code"),
        }
    } else if last.text.starts_with('@') {
        match named(lo, &last.text, last.span) {
            Some(id) => TryLast::Named(id),
            // As nginx, which finds out with the first request.
            None => TryLast::Status(500),
        }
    } else {
        TryLast::Uri(lo.template(last))
    };
    place.try_files = Some(TryFiles { candidates, last });
}

/// A named location; told if there is none, once for a place.
pub(crate) fn named(lo: &mut Lowering<'_>, name: &str, span: Span) -> Option<RouteId> {
    if let Some(id) = lo.named.get(name) {
        return Some(*id);
    }
    let known: Vec<String> = lo.named.keys().cloned().collect();
    let text = format!("this server has no location `{name}`; requests sent there get 500");
    let mut found = Diagnostic::warning("nginx::unknown-location", text).at(span);
    if let Some(near) = weir_diag::nearest(name, known.iter().map(String::as_str)) {
        found = found.help(format!("did you mean `{near}`?"));
    }
    if !lo.diagnostics.contains(&found) {
        lo.report(found);
    }
    None
}

/// `error_page code … [=[code]] target`.
pub(crate) fn error_page(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let last = d.args.len() - 1;
    let mut answer = None;
    let mut statuses = Vec::new();
    for n in 0..last {
        let text = d.arg(n);
        if let Some(code) = text.strip_prefix('=') {
            if n != last - 1 || statuses.is_empty() {
                return lo.bad_value(d, n, "in its place: `=` stands between the codes and the page");
            }
            answer = match (code, code.parse::<u16>()) {
                ("", _) => Some(None),
                (_, Ok(code @ 100..=999)) => Some(Some(code)),
                _ => return lo.bad_value(d, n, "`=` with a status code"),
            };
            continue;
        }
        match text.parse::<u16>() {
            Ok(499) => return lo.bad_value(d, n, "a status that can be answered: the client has gone"),
            Ok(code @ 300..=599) => statuses.push(code),
            _ => return lo.bad_value(d, n, "a status code from 300 to 599"),
        }
    }
    if !d.arg(last).starts_with('@') {
        // Only to find its mistakes; the page is built for each server.
        lo.template(&d.args[last]);
    }
    let spec = ErrorPageSpec { statuses, answer, target: d.arg(last).to_owned(), span: d.arg_span(last) };
    s.error_pages.push(s.level, spec);
}

/// `post_action uri | @name | off`.
pub(crate) fn post_action(_: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    s.parts().post_action = match d.arg(0) {
        "off" | "" => None,
        target => Some((target.to_owned(), d.arg_span(0))),
    };
}
