//! Words about FastCGI, uwsgi, SCGI and memcached, and the action they make.

use std::sync::Arc;

use weir_diag::{Diagnostic, Span};
use weir_expr::Piece;
use weir_expr::check::ApplicationCheck;
use weir_model::settings::Spoken;
use weir_model::{Action, FastCgi, FastCgiParam, ProxyTarget, Template, Var};

use super::health;
use super::parts::{ActionSpec, Application, HealthSpec};
use super::scope::FastCgiScope;
use super::target::authority;
use super::{Lowering, Place, Scope};
use crate::tree::Directive;

/// Response fields that nginx does not pass from FastCGI unless told to.
const HIDDEN: [&str; 1] = ["status"];

/// `fastcgi_pass address`.
pub(crate) fn pass(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    if let Some(target) = target(lo, d, d.arg(0), 0) {
        place.set_action(lo, ActionSpec::FastCgi(Application::FastCgi, target), d.span);
    }
}

/// `uwsgi_pass [protocol://]address`, with `uwsgi` or `suwsgi` (over TLS).
pub(crate) fn uwsgi_pass(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    let (tls, rest) = match d.arg(0).split_once("://") {
        None => (false, d.arg(0)),
        Some(("uwsgi", rest)) => (false, rest),
        Some(("suwsgi", rest)) => (true, rest),
        Some(_) => return lo.bad_value(d, 0, "an address, perhaps after `uwsgi://` or `suwsgi://`"),
    };
    let skipped = d.arg(0).len() - rest.len();
    if let Some(target) = target(lo, d, rest, skipped) {
        place.set_action(lo, ActionSpec::FastCgi(Application::Uwsgi { tls }, target), d.span);
    }
}

/// `scgi_pass address`.
pub(crate) fn scgi_pass(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    if let Some(target) = target(lo, d, d.arg(0), 0) {
        place.set_action(lo, ActionSpec::FastCgi(Application::Scgi, target), d.span);
    }
}

/// `memcached_pass address`.
pub(crate) fn memcached_pass(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    if let Some(target) = target(lo, d, d.arg(0), 0) {
        place.set_action(lo, ActionSpec::FastCgi(Application::Memcached, target), d.span);
    }
}

/// The address that a word names.
fn target(lo: &mut Lowering<'_>, d: &Directive, text: &str, skipped: usize) -> Option<ProxyTarget> {
    if text.contains('$') {
        let word = &d.args[0];
        return Some(ProxyTarget::Computed(lo.template_of(&word.text[skipped..], word)));
    }
    let Some((authority, None)) = authority(text) else {
        lo.bad_value(d, 0, "an address such as `127.0.0.1:9000` or `unix:/run/php/php-fpm.sock`");
        return None;
    };
    lo.pool_of(&authority, None, d.arg_span(0)).map(ProxyTarget::Pool)
}

/// `fastcgi_param name value [if_not_empty]`.
pub(crate) fn param(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let level = s.level;
    if let Some(param) = parse_param(lo, d) {
        s.fastcgi_mut().params.push(level, param);
    }
}

/// The same of another gateway.
pub(crate) fn parse_param(lo: &mut Lowering<'_>, d: &Directive) -> Option<FastCgiParam> {
    let if_not_empty = d.args.len() == 3;
    if if_not_empty && d.arg(2) != "if_not_empty" {
        lo.bad_value(d, 2, "`if_not_empty`");
        return None;
    }
    Some(FastCgiParam { name: d.arg(0).to_owned(), value: lo.template(&d.args[1]), if_not_empty })
}

/// `uwsgi_modifier1 number`.
pub(crate) fn modifier(lo: &mut Lowering<'_>, d: &Directive) -> Option<u8> {
    let number = crate::value::number(d.arg(0)).and_then(|number| u8::try_from(number).ok());
    if number.is_none() {
        lo.bad_value(d, 0, "a number from 0 to 255");
    }
    number
}

/// `fastcgi_split_path_info regex`, with two groups.
pub(crate) fn split_path_info(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let pattern = lo.pattern(d.arg(0), false, &d.args[0]);
    let groups = pattern.source.matches('(').count() - pattern.source.matches(r"\(").count();
    if groups < 2 {
        let text = "the pattern of `fastcgi_split_path_info` needs two groups: script, and path info";
        return lo.report(Diagnostic::error("nginx::bad-pattern", text).at(d.arg_span(0)));
    }
    s.fastcgi_mut().split = Some(pattern);
}

/// The finished action.
pub(crate) fn action(
    lo: &mut Lowering<'_>,
    s: &Scope,
    place: &Place,
    (application, target): (Application, &ProxyTarget),
    span: Span,
) -> Action {
    let (scope, spoken) = match application {
        Application::FastCgi => (&s.fastcgi, Spoken::FastCgi),
        Application::Uwsgi { .. } => (&s.uwsgi, Spoken::Uwsgi(s.uwsgi.modifiers.0, s.uwsgi.modifiers.1)),
        Application::Scgi => (&s.scgi, Spoken::Scgi),
        Application::Memcached => (&s.memcached, Spoken::Memcached { gzip_flag: s.memcached.gzip_flag }),
    };
    let memcached = application == Application::Memcached;
    let tls = application == Application::Uwsgi { tls: true };
    let (word, cached) = match application {
        Application::FastCgi => ("fastcgi_cache", &s.fastcgi),
        Application::Uwsgi { .. } => ("uwsgi_cache", &s.uwsgi),
        Application::Scgi => ("scgi_cache", &s.scgi),
        Application::Memcached => ("memcached_cache", &s.memcached),
    };
    let cache = super::cache::caching(lo, &cached.gateway.cache, word, false);
    let store = super::store::finish(lo, &cached.gateway, cache.is_some());
    let upstream_tls = tls.then(|| super::upstream_tls::finish(lo, &scope.tls));
    if let Some(spec) = &place.health {
        let asked = application_check(s, scope, spoken, spec);
        let checked = health::Checked {
            target,
            spoken: health::Spoken::Application(asked),
            tls: upstream_tls.as_ref(),
            timeout: scope.gateway.settings.read_timeout,
        };
        health::attach(lo, spec, &checked);
    }
    Action::FastCgi(Arc::new(FastCgi {
        spoken,
        target: target.clone(),
        tls: upstream_tls,
        bind: scope.bind.clone(),
        transparent: scope.transparent,
        key: memcached.then(|| memcached_key(lo, span)),
        params: scope.params.items().clone(),
        index: scope.index.clone(),
        split_path_info: scope.split.clone(),
        pass_request_headers: scope.gateway.pass_request_headers,
        usual_names: false,
        silent: false,
        pass_request_body: scope.gateway.pass_request_body && !memcached,
        keep_connection: scope.keep_connection || memcached,
        settings: scope.gateway.settings.clone(),
        hide_headers: lo.hidden(&HIDDEN, scope.gateway.hide.items(), scope.gateway.pass.items()),
        ignore_headers: scope.gateway.ignore.items().clone(),
        cache,
        store,
    }))
}

/// The request of a health check: what an application is told of a request for the check's URI, as far as that is known
/// without a client. With memcached the key is the URI.
fn application_check(s: &Scope, scope: &FastCgiScope, spoken: Spoken, spec: &HealthSpec) -> ApplicationCheck {
    if let Spoken::Memcached { .. } = spoken {
        return ApplicationCheck { spoken, params: Vec::new(), key: spec.uri.clone() };
    }
    let (path, query) = spec.uri.split_once('?').unwrap_or((&spec.uri, ""));
    let usual = [
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_URI", spec.uri.as_str()),
        ("DOCUMENT_URI", path),
        ("SCRIPT_NAME", path),
        ("QUERY_STRING", query),
        ("SERVER_PROTOCOL", "HTTP/1.0"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("REMOTE_ADDR", "127.0.0.1"),
    ];
    let text = |template: &Template| -> String {
        let piece = |piece: &Piece<weir_expr::Named>| match piece {
            Piece::Literal(text) => text.clone(),
            Piece::Var(variable, _) => match variable {
                Var::Method => "GET".to_owned(),
                Var::Target => spec.uri.clone(),
                Var::Path | Var::RawPath | Var::FastcgiScriptName => path.to_owned(),
                Var::Query => query.to_owned(),
                Var::Protocol => "HTTP/1.0".to_owned(),
                Var::Scheme => "http".to_owned(),
                Var::DocumentRoot | Var::RealRoot => s.files.root.as_literal().unwrap_or_default().to_owned(),
                Var::ClientAddr => "127.0.0.1".to_owned(),
                // It is of a client, of its connection or of a server's name, and a check has none.
                _ => String::new(),
            },
        };
        template.pieces.iter().map(piece).collect()
    };
    let own: Vec<(String, String)> =
        scope.params.items().iter().map(|param| (param.name.clone(), text(&param.value))).collect();
    let unset = |(name, _): &(&str, &str)| !own.iter().any(|(set, _)| set == name);
    let mut params: Vec<(String, String)> =
        usual.into_iter().filter(unset).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    params.extend(own);
    ApplicationCheck { spoken, params, key: String::new() }
}

/// `$memcached_key`, which the file has to set.
fn memcached_key(lo: &mut Lowering<'_>, span: Span) -> Template {
    let name = "memcached_key";
    if !lo.declared.contains(name) {
        let text = "`memcached_pass` needs `$memcached_key`, which nothing sets";
        let found = Diagnostic::error("nginx::no-key", text).at(span);
        lo.report(found.help("write `set $memcached_key \"$uri\";` beside it"));
        return Template::default();
    }
    Template::var(Var::User(name.to_owned()))
}
