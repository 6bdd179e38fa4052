//! The rewrite module: words whose order counts.
//!
//! Owns: `rewrite`, `return`, `set`, `break`, `if`, and what must run before them (`limit_except`, `limit_rate` made
//! of variables).
//! Driven by: `server`, `location`.

use weir_model::{
    Condition, Op, Respond, RespondBody, RewriteFlag, RouteId, RouteMatch, Subject, Template, Test, Var,
    Words,
};

use super::admit::Admitted;
use super::route::{apply_place, route};
use crate::lexer::Word;
use crate::table::Contexts;
use crate::take::client;
use crate::take::condition::condition;
use crate::take::declare::{is_name, not_settable};
use crate::take::parts::PlaceKind;
use crate::take::{Lowering, Place, Scope};
use crate::tree::Directive;
use crate::variables::builtin;

/// The program of a server.
pub(crate) fn server(lo: &mut Lowering<'_>, words: &[Admitted<'_>]) -> Vec<Op> {
    let mut out = Vec::new();
    for word in words {
        if word.entry.name == "if" {
            server_if(lo, word.directive, &mut out);
        } else {
            simple(lo, word, &mut out);
        }
    }
    out
}

fn server_if(lo: &mut Lowering<'_>, d: &Directive, out: &mut Vec<Op>) {
    let condition = condition(lo, d);
    let mut then = Vec::new();
    for word in lo.admit(d.children(), Contexts::SERVER_IF) {
        simple(lo, &word, &mut then);
    }
    if let Some(condition) = condition {
        out.push(Op::When { condition, then, otherwise: Vec::new() });
    }
}

/// The program of a location.
pub(crate) fn location(
    lo: &mut Lowering<'_>,
    scope: &Scope,
    place: &Place,
    words: &[Admitted<'_>],
) -> Vec<Op> {
    let mut out = Vec::new();
    if let Some(rate) = &scope.limit_rate_template {
        out.push(Op::Set { variable: "limit_rate".into(), value: rate.clone() });
    }
    let mut own = Vec::new();
    let ifs = || words.iter().filter(|word| word.entry.name == "if");
    let switches =
        ifs().any(|word| !word.directive.children().iter().all(|inner| is_rewriting(inner.name())));
    for word in words {
        if word.entry.name == "if" {
            location_if(lo, word.directive, (scope, place, switches), &mut own);
        } else {
            simple(lo, word, &mut own);
        }
    }
    for word in words.iter().filter(|word| word.entry.name == "limit_except") {
        own = limit_except(lo, word.directive, scope, place, own);
    }
    out.append(&mut own);
    out
}

/// One word of the module that is no block.
fn simple(lo: &mut Lowering<'_>, word: &Admitted<'_>, out: &mut Vec<Op>) {
    let op = match word.entry.name {
        "rewrite" => rewrite(lo, word.directive),
        "return" => respond(lo, word.directive),
        "set" => set(lo, word.directive),
        "break" => Some(Op::Stop),
        _ => None,
    };
    out.extend(op);
}

/// True for the words of the module itself.
fn is_rewriting(name: &str) -> bool {
    matches!(name, "rewrite" | "return" | "set" | "break")
}

/// An `if` of a location: a location of its own, whose settings and action hold once the condition does. The last one whose
/// condition holds counts, be it one without settings: `switches` says that there is another one with some.
///
/// nginx's implicit location has no `try_files` of its own, so a mere `set` inside an `if` switches it off there;
/// nobody means that. Here `try_files` goes on to hold unless the `if` names another action.
fn location_if(
    lo: &mut Lowering<'_>,
    d: &Directive,
    (outer, place, switches): (&Scope, &Place, bool),
    out: &mut Vec<Op>,
) {
    let condition = condition(lo, d);
    let words = lo.admit(d.children(), Contexts::LOCATION_IF);
    let mut then = Vec::new();
    if switches || !words.iter().all(|word| is_rewriting(word.entry.name)) {
        let route = implicit(lo, d, outer, place, &words, PlaceKind::If);
        then.push(Op::Adopt(route));
        if words.iter().any(|word| word.entry.name == "limit_rate") {
            then.extend(limit_rate(lo, d, outer));
        }
    }
    for word in &words {
        simple(lo, word, &mut then);
    }
    if let Some(condition) = condition {
        out.push(Op::When { condition, then, otherwise: Vec::new() });
    }
}

/// The assignment that a `limit_rate` made of variables inside an `if` comes to.
fn limit_rate(lo: &mut Lowering<'_>, d: &Directive, outer: &Scope) -> Option<Op> {
    let written = d.children().iter().rev().find(|word| word.name() == "limit_rate")?;
    if !written.arg(0).contains('$') {
        return None;
    }
    let mut scope = outer.child(outer.level);
    client::limit_rate(lo, &mut scope, written);
    scope.limit_rate_template.map(|value| Op::Set { variable: "limit_rate".into(), value })
}

/// The route of a block inside a location.
fn implicit(
    lo: &mut Lowering<'_>,
    d: &Directive,
    outer: &Scope,
    place: &Place,
    words: &[Admitted<'_>],
    kind: PlaceKind,
) -> RouteId {
    let mut scope = outer.child(lo.next_level());
    lo.apply(words, &mut scope);
    let mut own = Place::new(kind);
    own.internal = place.internal;
    apply_place(lo, words, &mut own);
    if own.action.is_none() {
        // The outer action keeps its own meaning, path part included.
        own.action.clone_from(&place.action);
        own.try_files.clone_from(&place.try_files);
        own.kind = place.kind.clone();
    }
    let name = d.args.iter().map(Word::as_str).collect::<Vec<_>>().join(" ");
    let route = route(lo, &scope, &own, format!("{} {name}", d.name()), d.span, RouteMatch::Referred);
    lo.add_route(route, None)
}

/// `limit_except method … { … }`: other settings for all methods but these, for which alone the location's program runs. GET
/// stands for HEAD as well.
fn limit_except(
    lo: &mut Lowering<'_>,
    d: &Directive,
    outer: &Scope,
    place: &Place,
    program: Vec<Op>,
) -> Vec<Op> {
    let mut methods: Vec<Template> = Vec::new();
    for (n, word) in d.args.iter().enumerate() {
        let method = word.text.to_ascii_uppercase();
        if !method.bytes().all(|b| b.is_ascii_uppercase()) {
            lo.bad_value(d, n, "a method");
            return program;
        }
        if method == "GET" {
            methods.push(Template::literal("HEAD"));
        }
        methods.push(Template::literal(method));
    }
    let words = lo.admit(d.children(), Contexts::LIMIT_EXCEPT);
    let route = implicit(lo, d, outer, place, &words, PlaceKind::LimitExcept);
    let test = Test::Equals(Words { any_of: methods, ignore_case: false });
    let listed = Condition::Test { subject: Subject::Value(Template::var(Var::Method)), test };
    let condition = Condition::Not(Box::new(listed));
    vec![Op::When { condition, then: vec![Op::Adopt(route)], otherwise: program }]
}

/// True for texts that are redirects of the client.
fn is_absolute(text: &str) -> bool {
    ["http://", "https://", "$scheme"].iter().any(|start| text.starts_with(start))
}

/// `rewrite pattern replacement [flag]`.
fn rewrite(lo: &mut Lowering<'_>, d: &Directive) -> Option<Op> {
    let pattern = lo.pattern(d.arg(0), false, &d.args[0]);
    let absolute = is_absolute(d.arg(1));
    let flag = match d.arg(2) {
        "" | "last" | "break" if absolute => RewriteFlag::Redirect,
        "" => RewriteFlag::Continue,
        "last" => RewriteFlag::Last,
        "break" => RewriteFlag::Break,
        "redirect" => RewriteFlag::Redirect,
        "permanent" => RewriteFlag::Permanent,
        _ => {
            lo.bad_value(d, 2, "one of `last`, `break`, `redirect`, `permanent`");
            return None;
        }
    };
    let (text, keep_query) = match d.arg(1).strip_suffix('?') {
        Some(text) => (text, false),
        None => (d.arg(1), true),
    };
    let replacement = lo.template_of(text, &d.args[1]);
    Some(Op::Rewrite { pattern, replacement, keep_query, flag })
}

/// `return code [text]`, `return code URL`, `return URL`.
fn respond(lo: &mut Lowering<'_>, d: &Directive) -> Option<Op> {
    let code = d.arg(0).parse::<u16>().ok().filter(|code| *code <= 999);
    let (status, text) = match (code, d.args.len()) {
        (Some(code), 1) => (code, None),
        (Some(code), _) => (code, Some(&d.args[1])),
        (None, 1) if is_absolute(d.arg(0)) => (302, Some(&d.args[0])),
        (None, _) => {
            lo.bad_value(d, 0, "a status code, or a URL that begins with `http://`, `https://` or `$scheme`");
            return None;
        }
    };
    // Without a text these close the connection, whatever page there is.
    if matches!(status, 408 | 444 | 499) && text.is_none() {
        return Some(Op::Close(Some(status)));
    }
    if status < 100 {
        lo.bad_value(d, 0, "a status code from 100 to 999");
        return None;
    }
    let redirect = matches!(status, 301 | 302 | 303 | 307 | 308);
    let body = match text.map(|word| lo.template(word)) {
        Some(target) if redirect => RespondBody::Redirect(target),
        Some(text) => RespondBody::Text(text),
        // nginx sends an empty body where it has no page for a status.
        None if status < 300 => RespondBody::Text(Template::default()),
        None => RespondBody::Standard,
    };
    // An error without text is one like any other: its page applies.
    let error_pages = redirect || status >= 400 && text.is_none_or(|word| word.text.is_empty());
    let body = if error_pages && status >= 400 { RespondBody::Standard } else { body };
    let cause = weir_model::settings::Cause::Content;
    Some(Op::Respond(Respond { status, body, content_type: None, headers: Vec::new(), error_pages, cause }))
}

/// `set $variable value`.
fn set(lo: &mut Lowering<'_>, d: &Directive) -> Option<Op> {
    let Some(name) = d.arg(0).strip_prefix('$').filter(|name| is_name(name)) else {
        lo.bad_value(d, 0, "a variable such as `$name`");
        return None;
    };
    let name = name.to_owned();
    let value = lo.template(&d.args[1]);
    match name.as_str() {
        "args" => return Some(Op::SetQuery(value)),
        "limit_rate" => return Some(Op::Set { variable: name, value }),
        _ => {}
    }
    let changeable =
        ["http_", "arg_", "cookie_", "sent_http_", "upstream_http_"].iter().any(|p| name.starts_with(p));
    if !changeable && builtin(lo.dialect, &name, false).is_some() && !is_mere_name(&name) {
        not_settable(lo, &name, d.arg_span(0));
        return None;
    }
    Some(Op::Set { variable: name, value })
}

/// Names of modules' variables that a file may use for itself where the module is not built.
fn is_mere_name(name: &str) -> bool {
    matches!(name, "memcached_key" | "msie" | "modern_browser" | "ancient_browser" | "uid_reset")
        || name.starts_with("geoip")
}
