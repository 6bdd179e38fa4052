//! Locations, and the implicit one of a server.
//!
//! Owns: which locations there are, how they nest, which of them have names.
//! Driven by: `server`.

use std::collections::HashMap;
use std::sync::Arc;

use weir_diag::{Diagnostic, Span};
use weir_model::{RouteId, RouteMatch, StaticFiles};

use super::admit::Admitted;
use super::program;
use super::route::{apply_place, route};
use crate::lexer::Word;
use crate::table::Contexts;
use crate::take::parts::{ActionSpec, PlaceKind};
use crate::take::scope::List;
use crate::take::{Lowering, Place, Scope};
use crate::tree::Directive;

/// Gives every named location of a server its id, since words above may refer to it. Until it is built, a route
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

/// Lowers the locations among the words of a block, in order.
pub(crate) fn build_all(
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
        out.push(build_one(lo, word.directive, scope, kind, matching));
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

fn build_one(
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
    let children = build_all(lo, &words, &scope, &place);
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
    let handed_on =
        matches!(place.action, Some(ActionSpec::Proxy(_) | ActionSpec::Grpc(_) | ActionSpec::FastCgi(..)));
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

/// A scope whose error pages, which may name locations not reserved yet, are left out.
fn bare(scope: &Scope) -> Scope {
    Scope { error_pages: List::default(), ..scope.clone() }
}
