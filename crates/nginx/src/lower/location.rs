//! Locations, and the implicit ones of servers, `if` and `limit_except`.

use std::collections::HashMap;
use std::sync::Arc;

use weir_diag::{Diagnostic, Span};
use weir_expr::settings::Exposition;
use weir_model::{
    Action, ErrorPage, ErrorTarget, ProxyTarget, Route, RouteId, RouteMatch, StaticFiles, Template, TryFiles,
    TryLast,
};

use super::admit::Admitted;
use super::proxy::ProxySpec;
use super::scope::ErrorPageSpec;
use super::{Lowering, Scope, access, fastcgi, program, proxy};
use crate::lexer::Word;
use crate::table::{Contexts, Lower};
use crate::tree::Directive;

/// Finished error pages by the address of the list they were made of, which is kept alive beside.
pub(crate) type PageMemo = HashMap<usize, (Arc<Vec<ErrorPageSpec>>, Arc<Vec<ErrorPage>>)>;

/// What kind of place words stand in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlaceKind {
    Server,
    Prefix(String),
    Exact(String),
    Regex,
    Named,
    If,
    LimitExcept,
}

impl PlaceKind {
    /// True where `proxy_pass` may have a path: the part of the path it replaces is known.
    pub(crate) fn takes_uri(&self) -> bool {
        matches!(self, Self::Prefix(_) | Self::Exact(_))
    }

    /// "… in a location given by a pattern".
    pub(crate) fn words(&self) -> &'static str {
        match self {
            Self::Regex => "in a location given by a pattern",
            Self::Named => "in a named location",
            Self::If => "inside `if`",
            Self::LimitExcept => "inside `limit_except`",
            Self::Server | Self::Prefix(_) | Self::Exact(_) => "here",
        }
    }
}

/// What answers, as written; finished once all settings are known.
#[derive(Clone, Debug)]
pub(crate) enum ActionSpec {
    Proxy(Arc<ProxySpec>),
    FastCgi(ProxyTarget),
    StubStatus,
    Metrics,
}

/// Words of one place that inner ones do not inherit.
pub(crate) struct Place {
    pub kind: PlaceKind,
    pub internal: bool,
    pub alias: Option<(Template, Span)>,
    pub try_files: Option<TryFiles>,
    pub action: Option<ActionSpec>,
    action_span: Option<Span>,
}

impl Place {
    pub(crate) fn new(kind: PlaceKind) -> Self {
        Self { kind, internal: false, alias: None, try_files: None, action: None, action_span: None }
    }

    /// Sets what answers; two answers are a mistake that nginx meets by taking the last.
    pub(crate) fn set_action(&mut self, lo: &mut Lowering<'_>, action: ActionSpec, span: Span) {
        if let Some(first) = self.action_span.replace(span) {
            lo.report(
                Diagnostic::warning(
                    "nginx::two-actions",
                    "two words say what answers here; the last one holds",
                )
                .at(span)
                .also(first, "first here"),
            );
        }
        self.action = Some(action);
    }
}

/// Applies the words of a place.
pub(crate) fn apply_place(lo: &mut Lowering<'_>, words: &[Admitted<'_>], place: &mut Place) {
    for word in words {
        if let Lower::Place(f) = word.entry.lower {
            f(lo, place, word.directive);
        }
    }
}

/// `stub_status`; old files write `stub_status on`.
pub(crate) fn stub_status(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    place.set_action(lo, ActionSpec::StubStatus, d.span);
}

/// `weir_metrics`: a word of Weir's own.
pub(crate) fn metrics(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    place.set_action(lo, ActionSpec::Metrics, d.span);
}

/// Gives every named location of a server its id, since words above may refer to it. Until it is lowered, a route
/// with the server's settings holds the place.
pub(crate) fn reserve_named(lo: &mut Lowering<'_>, scope: &Scope, server: &Directive) {
    lo.named.clear();
    for d in server.children().iter().filter(|d| d.name() == "location" && d.arg(0).starts_with('@')) {
        if lo.named.contains_key(d.arg(0)) {
            continue;
        }
        let place = Place::new(PlaceKind::Named);
        let name = d.arg(0).to_owned();
        let holder = route(lo, &bare(scope), &place, name.clone(), d.span, RouteMatch::Named(name.clone()));
        let id = lo.add_route(holder, None);
        lo.named.insert(name, id);
    }
}

/// A scope whose error pages, which may name locations not reserved yet, are left out.
fn bare(scope: &Scope) -> Scope {
    Scope { error_pages: super::scope::List::default(), ..scope.clone() }
}

/// Lowers the locations among the words of a block, in order.
pub(crate) fn lower_all(
    lo: &mut Lowering<'_>,
    words: &[Admitted<'_>],
    scope: &Scope,
    parent: &Place,
) -> Vec<RouteId> {
    let mut seen: HashMap<RouteMatch, Span> = HashMap::new();
    let mut out = Vec::new();
    for word in words.iter().filter(|word| word.entry.name == "location") {
        let Some((kind, matching)) = matching(lo, word.directive) else { continue };
        if !nesting_is_right(lo, word.directive, parent, &kind) {
            continue;
        }
        let key = duplicate_key(&matching);
        if let Some(first) = seen.insert(key, word.directive.span) {
            let text =
                format!("the location `{}` stands twice", word.directive.arg(word.directive.args.len() - 1));
            let found =
                Diagnostic::error("nginx::duplicate", text).at(word.directive.span).also(first, "first here");
            lo.report(found);
            continue;
        }
        out.push(lower_one(lo, word.directive, scope, kind, matching));
    }
    out
}

/// What makes two locations the same: `^~ /x` and `/x` are.
fn duplicate_key(matching: &RouteMatch) -> RouteMatch {
    match matching {
        RouteMatch::Prefix { path, .. } => {
            RouteMatch::Prefix { path: path.clone(), stop: false, auto_redirect: false }
        }
        other => other.clone(),
    }
}

/// What a location's words say about when it is chosen.
fn matching(lo: &mut Lowering<'_>, d: &Directive) -> Option<(PlaceKind, RouteMatch)> {
    let (modifier, word) = match d.args.as_slice() {
        [path] => glued(path),
        [modifier, path] => (modifier.text.clone(), path.clone()),
        _ => return None,
    };
    let path = word.text.clone();
    let prefix = |stop| RouteMatch::Prefix { path: path.clone(), stop, auto_redirect: false };
    Some(match modifier.as_str() {
        "" if path.starts_with('@') => (PlaceKind::Named, RouteMatch::Named(path)),
        "" => (PlaceKind::Prefix(path.clone()), prefix(false)),
        "^~" => (PlaceKind::Prefix(path.clone()), prefix(true)),
        "=" => (PlaceKind::Exact(path.clone()), RouteMatch::Exact(path)),
        "~" => (PlaceKind::Regex, RouteMatch::Regex(lo.pattern(&path, false, &word))),
        "~*" => (PlaceKind::Regex, RouteMatch::Regex(lo.pattern(&path, true, &word))),
        _ => {
            lo.bad_value(d, 0, "one of `=`, `^~`, `~`, `~*` before a path");
            return None;
        }
    })
}

/// A modifier written without a blank before its path.
fn glued(word: &Word) -> (String, Word) {
    for modifier in ["^~", "~*", "=", "~"] {
        if let Some(rest) = word.text.strip_prefix(modifier) {
            return (modifier.to_owned(), Word { text: rest.to_owned(), ..word.clone() });
        }
    }
    (String::new(), word.clone())
}

fn nesting_is_right(lo: &mut Lowering<'_>, d: &Directive, parent: &Place, kind: &PlaceKind) -> bool {
    let problem = match (&parent.kind, kind) {
        (PlaceKind::Server, _) => None,
        (_, PlaceKind::Named) => Some("a named location can only stand in a server".to_owned()),
        (PlaceKind::Exact(path), _) => {
            Some(format!("a location cannot stand inside the exact location `{path}`"))
        }
        (PlaceKind::Named, _) => Some("a location cannot stand inside a named location".to_owned()),
        (PlaceKind::Prefix(outer), PlaceKind::Prefix(inner) | PlaceKind::Exact(inner))
            if !inner.starts_with(outer.as_str()) =>
        {
            Some(format!("the location `{inner}` is outside of the location `{outer}` around it"))
        }
        _ => None,
    };
    match problem {
        None => true,
        Some(text) => {
            lo.report(Diagnostic::error("nginx::location-nesting", text).at(d.span));
            false
        }
    }
}

fn lower_one(
    lo: &mut Lowering<'_>,
    d: &Directive,
    parent: &Scope,
    kind: PlaceKind,
    matching: RouteMatch,
) -> RouteId {
    let words = lo.admit(d.children(), Contexts::LOCATION);
    let mut scope = parent.child(lo.next_level());
    lo.apply(&words, &mut scope);
    let mut place = Place::new(kind);
    apply_place(lo, &words, &mut place);
    apply_alias(lo, &mut scope, &place, &words);
    warn_site_settings(lo, parent, &scope, d);
    let program = program::location(lo, &scope, &place, &words);
    let children = lower_all(lo, &words, &scope, &place);
    let name = d.args.iter().map(Word::as_str).collect::<Vec<_>>().join(" ");
    let matching = with_auto_redirect(matching, &place);
    let named = lo.named.get(d.arg(0)).copied().filter(|_| matches!(matching, RouteMatch::Named(_)));
    let mut route = route(lo, &scope, &place, name, d.span, matching);
    route.program = program;
    route.children = children;
    lo.add_route(route, named)
}

/// Prefixes that end with `/` and are handed on redirect the path without the slash.
fn with_auto_redirect(matching: RouteMatch, place: &Place) -> RouteMatch {
    let handed_on = matches!(place.action, Some(ActionSpec::Proxy(_) | ActionSpec::FastCgi(_)));
    match matching {
        RouteMatch::Prefix { path, stop, .. } => {
            let auto_redirect = handed_on && path.ends_with('/');
            RouteMatch::Prefix { path, stop, auto_redirect }
        }
        other => other,
    }
}

fn apply_alias(lo: &mut Lowering<'_>, scope: &mut Scope, place: &Place, words: &[Admitted<'_>]) {
    let Some((alias, span)) = &place.alias else { return };
    if let Some(root) = words.iter().find(|word| word.entry.name == "root") {
        let text = "`alias` and `root` cannot both stand in one location";
        lo.report(
            Diagnostic::error("nginx::duplicate", text).at(*span).also(root.directive.span, "`root` is here"),
        );
        return;
    }
    if place.kind == PlaceKind::Named {
        let text = "`alias` cannot stand in a named location: there is no path that it stands for";
        return lo.report(Diagnostic::error("nginx::bad-alias", text).at(*span));
    }
    let files: &mut StaticFiles = Arc::make_mut(&mut scope.files);
    files.root = alias.clone();
    files.alias = true;
}

/// Settings that Weir takes from the server only.
fn warn_site_settings(lo: &mut Lowering<'_>, parent: &Scope, scope: &Scope, d: &Directive) {
    if parent.site != scope.site {
        let words = ["server_tokens", "server_name_in_redirect", "port_in_redirect", "absolute_redirect"];
        let span = d.children().iter().find(|d| words.contains(&d.name())).map_or(d.span, |d| d.span);
        let text = "this word has no effect in a location: Weir takes it from the server";
        lo.report(Diagnostic::warning("nginx::server-only", text).at(span));
    }
}

/// The route that answers where no location does.
pub(crate) fn fallback(lo: &mut Lowering<'_>, scope: &Scope, place: &Place, d: &Directive) -> RouteId {
    let route = route(lo, scope, place, "server".to_owned(), d.name.span, RouteMatch::Referred);
    lo.add_route(route, None)
}

/// A route without program and children.
pub(crate) fn route(
    lo: &mut Lowering<'_>,
    s: &Scope,
    place: &Place,
    name: String,
    span: Span,
    matching: RouteMatch,
) -> Route {
    access::check_realm(lo, s);
    let action = match &place.action {
        None => Action::Static,
        Some(ActionSpec::StubStatus) => Action::StubStatus,
        Some(ActionSpec::Metrics) => Action::Metrics(Exposition::Own),
        Some(ActionSpec::Proxy(spec)) => proxy::action(lo, s, place, spec),
        Some(ActionSpec::FastCgi(target)) => fastcgi::action(lo, s, target),
    };
    Route {
        name,
        origin: Some(span),
        matching,
        children: Vec::new(),
        internal: place.internal,
        program: Vec::new(),
        limit_req: s.built.limit_req.clone(),
        limit_conn: s.built.limit_conn.clone(),
        access: s.built.access.clone(),
        real_ip: s.built.real_ip.clone(),
        try_files: place.try_files.clone(),
        files: s.files.clone(),
        action,
        error_pages: error_pages(lo, s),
        recursive_error_pages: s.recursive_error_pages,
        response_edits: s.add_headers.items().clone(),
        response_program: Vec::new(),
        expires: s.expires.clone(),
        gzip: s.gzip_on.then(|| s.gzip.clone()),
        access_logs: s.access_logs.items().clone(),
        error_logs: s.built.error_logs.clone(),
        log_not_found: s.log_not_found,
        body: s.body.clone(),
        client: s.client.clone(),
        limit_rate: s.limit_rate,
        limit_rate_after: s.limit_rate_after,
        chunked: s.chunked,
        resolver: s.built.resolver.clone(),
    }
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
fn named(lo: &mut Lowering<'_>, name: &str, span: Span) -> Option<RouteId> {
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
        // Only to find its mistakes; the page is lowered for each server.
        lo.template(&d.args[last]);
    }
    let spec = ErrorPageSpec { statuses, answer, target: d.arg(last).to_owned(), span: d.arg_span(last) };
    s.error_pages.push(s.level, spec);
}

/// Error pages with their names resolved in the server at hand.
fn error_pages(lo: &mut Lowering<'_>, s: &Scope) -> Arc<Vec<ErrorPage>> {
    let specs = s.error_pages.items();
    let key = Arc::as_ptr(specs) as usize;
    if let Some((_, pages)) = lo.pages.get(&key) {
        return pages.clone();
    }
    let mut pages = Vec::with_capacity(specs.len());
    for spec in specs.iter() {
        let target = if spec.target.starts_with('@') {
            match named(lo, &spec.target, spec.span) {
                Some(id) => ErrorTarget::Named(id),
                None => continue,
            }
        } else {
            let word = Word { text: spec.target.clone(), span: spec.span, quote: None };
            // Its mistakes were told where it was read.
            let told = lo.diagnostics.len();
            let template = lo.template(&word);
            lo.diagnostics.truncate(told);
            let internal = spec.target.starts_with('/')
                || spec.target.starts_with('$') && !spec.target.starts_with("$scheme");
            if internal { ErrorTarget::Uri(template) } else { ErrorTarget::Redirect(template) }
        };
        pages.push(ErrorPage { statuses: spec.statuses.clone(), answer: spec.answer, target });
    }
    let pages = Arc::new(pages);
    lo.pages.insert(key, (specs.clone(), pages.clone()));
    pages
}
