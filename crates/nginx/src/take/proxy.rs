//! Words about proxying, and the action they make.

use std::sync::Arc;

use weir_diag::{Diagnostic, Span};
use weir_model::settings::{CookieFlags, SameSite};
use weir_model::{
    Action, CookieAttribute, CookieRewrite, Proxy, ProxyTarget, RedirectRewrite, Template, TextMatch,
    UpstreamTls, UpstreamUri, Var,
};

use super::parts::{ActionSpec, PlaceKind, ProxySpec};
use super::scope::{Level, List, ProxyScope, RedirectSpec};
use super::target::{Authority, authority};
use super::{Lowering, Place, Scope, health};
use crate::lexer::Word;
use crate::tree::Directive;

/// Response fields that nginx does not pass unless told to.
const HIDDEN: [&str; 3] = ["date", "server", "x-pad"];

/// Those that no protocol passes: they are meant for nginx.
const X_ACCEL: [&str; 5] =
    ["x-accel-expires", "x-accel-redirect", "x-accel-limit-rate", "x-accel-buffering", "x-accel-charset"];

/// `proxy_pass URL`.
pub(crate) fn pass(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    let text = d.arg(0);
    let spec = if text.contains('$') { computed(lo, &d.args[0]) } else { fixed(lo, place, d, text) };
    if let Some(spec) = spec {
        place.set_action(lo, ActionSpec::Proxy(Arc::new(spec)), d.span);
    }
}

fn computed(lo: &mut Lowering<'_>, word: &Word) -> Option<ProxySpec> {
    let text = &word.text;
    // A scheme that is not written may still come out of a variable.
    let (http, https) = (starts(text, "http://"), starts(text, "https://"));
    if !http && !https && !text.starts_with('$') {
        bad_url(lo, word.span);
        return None;
    }
    let target = ProxyTarget::Computed(lo.template(word));
    Some(ProxySpec { target, tls: !http, host: String::new(), uri: None, url: None })
}

fn starts(text: &str, scheme: &str) -> bool {
    text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
}

fn bad_url(lo: &mut Lowering<'_>, span: Span) {
    let found = Diagnostic::error(
        "nginx::bad-url",
        "`proxy_pass` needs a URL that begins with `http://` or `https://`",
    );
    lo.report(found.at(span));
}

fn fixed(lo: &mut Lowering<'_>, place: &Place, d: &Directive, text: &str) -> Option<ProxySpec> {
    let tls = starts(text, "https://");
    let rest = if tls {
        &text[8..]
    } else if starts(text, "http://") {
        &text[7..]
    } else {
        bad_url(lo, d.arg_span(0));
        return None;
    };
    let Some((authority, uri)) = authority(rest) else {
        lo.bad_value(d, 0, "a URL with a host, such as `http://10.0.0.1:8080`");
        return None;
    };
    let default_port = if tls { 443 } else { 80 };
    let pool = lo.pool_of(&authority, Some(default_port), d.arg_span(0))?;
    if uri.is_some() && !place.kind.takes_uri() {
        lo.report(
            Diagnostic::error(
                "nginx::uri-not-allowed",
                format!("`proxy_pass` cannot have a path {}", place.kind.words()),
            )
            .labelled(d.arg_span(0), "has a path")
            .help("remove what follows the host, or use `rewrite … break` to change the path"),
        );
        return None;
    }
    Some(ProxySpec {
        target: ProxyTarget::Pool(pool),
        tls,
        host: host_field(&authority, default_port),
        uri: uri.map(|uri| if uri.starts_with('?') { format!("/{uri}") } else { uri.to_owned() }),
        url: Some(text.to_owned()),
    })
}

/// `$proxy_host`: the default port is left out; unix sockets are `localhost`.
pub(crate) fn host_field(authority: &Authority, default_port: u16) -> String {
    match authority {
        Authority::Unix(_) => "localhost".into(),
        Authority::Host { host, port } => {
            let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
            match port {
                Some(port) if *port != default_port => format!("{host}:{port}"),
                _ => host,
            }
        }
    }
}

/// The finished action.
pub(crate) fn action(lo: &mut Lowering<'_>, proxy: &ProxyScope, place: &Place, spec: &ProxySpec) -> Action {
    let uri = match &spec.uri {
        Some(uri) => UpstreamUri::Replace(uri.clone()),
        None => UpstreamUri::Pass,
    };
    let cache = super::cache::caching(lo, &proxy.gateway.cache, "proxy_cache", true);
    let store = super::store::finish(lo, &proxy.gateway, cache.is_some());
    let tls = spec.tls.then(|| super::upstream_tls::finish(lo, &proxy.tls));
    if let Some(health) = &place.health {
        let timeout = proxy.gateway.settings.read_timeout;
        let spoken = match proxy.http2 {
            true => health::Spoken::Http2 {
                host: &spec.host,
                grpc: matches!(place.action, Some(ActionSpec::Grpc(_))),
            },
            false => health::Spoken::Http(&spec.host),
        };
        let checked = health::Checked { target: &spec.target, spoken, tls: tls.as_ref(), timeout };
        health::attach(lo, health, &checked);
    }
    Action::Proxy(Arc::new(Proxy {
        target: spec.target.clone(),
        tls: tls.map(|tls| match proxy.http2 {
            true => UpstreamTls { alpn: vec!["h2".to_owned()], ..tls },
            false => tls,
        }),
        host: spec.host.clone(),
        uri,
        method: proxy.method.clone(),
        http_1_1: proxy.http_1_1,
        http2: proxy.http2,
        grpc: false,
        announce_close: false,
        request_headers: request_fields(lo, proxy),
        pass_request_headers: proxy.gateway.pass_request_headers,
        pass_request_body: proxy.gateway.pass_request_body,
        body: proxy.body.clone(),
        settings: proxy.gateway.settings.clone(),
        hide_headers: lo.hidden(&HIDDEN, proxy.gateway.hide.items(), proxy.gateway.pass.items()),
        redirects: redirects(lo, proxy, place, spec),
        cookie_rewrites: cookies(proxy),
        ignore_headers: proxy.gateway.ignore.items().clone(),
        accel: true,
        bind: proxy.bind.clone(),
        transparent: proxy.transparent,
        cache,
        store,
    }))
}

impl Lowering<'_> {
    /// Fields not passed: those hidden by default and by the file, without those passed by the file.
    pub(crate) fn hidden(
        &mut self,
        default: &'static [&'static str],
        hide: &Arc<Vec<String>>,
        pass: &Arc<Vec<String>>,
    ) -> Arc<Vec<String>> {
        let key = (default, Arc::as_ptr(hide) as usize, Arc::as_ptr(pass) as usize);
        if let Some((_, _, known)) = self.hide.get(&key) {
            return known.clone();
        }
        let own = default.iter().chain(&X_ACCEL).map(|name| (*name).to_owned());
        let all = own.chain(hide.iter().cloned());
        let mut out: Vec<String> = all.filter(|name| !pass.contains(name)).collect();
        out.sort_unstable();
        out.dedup();
        let out = Arc::new(out);
        self.hide.insert(key, (hide.clone(), pass.clone(), out.clone()));
        out
    }
}

/// The fields written, and nginx's own for those that are not.
fn request_fields(lo: &mut Lowering<'_>, proxy: &ProxyScope) -> Arc<Vec<(String, Template)>> {
    let written = proxy.headers.items();
    let key = (Arc::as_ptr(written) as usize, proxy.http_1_1);
    if let Some((_, fields)) = lo.fields.get(&key) {
        return fields.clone();
    }
    let has = |name: &str| written.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    let mut fields = Vec::new();
    if !has("host") {
        fields.push(("Host".to_owned(), Template::var(Var::ProxyHost)));
    }
    if !has("connection") {
        let value = if proxy.http_1_1 { "" } else { "close" };
        fields.push(("Connection".to_owned(), Template::literal(value)));
    }
    fields.extend(written.iter().cloned());
    let fields = Arc::new(fields);
    lo.fields.insert(key, (written.clone(), fields.clone()));
    fields
}

/// `proxy_set_header name value`.
pub(crate) fn set_header(lo: &mut Lowering<'_>, level: Level, scope: &mut ProxyScope, d: &Directive) {
    if !super::headers::is_field_name(d.arg(0)) {
        return lo.bad_value(d, 0, "a field name");
    }
    let field = (d.arg(0).to_owned(), lo.template(&d.args[1]));
    scope.headers.push(level, field);
}

/// `proxy_http_version`.
pub(crate) fn http_version(s: &mut Scope, d: &Directive) {
    let proxy = s.proxy_mut();
    proxy.http_1_1 = d.arg(0) != "1.0";
    proxy.http2 = d.arg(0).starts_with('2');
}

/// `proxy_bind address [transparent] | off`.
pub(crate) fn bind(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    if let Some(bind) = parse_bind(lo, d) {
        let proxy = s.proxy_mut();
        (proxy.bind, proxy.transparent) = bind;
    }
}

/// The address of `proxy_bind`, and whether it may be another machine's; `None` if it is wrong, which was told.
pub(crate) fn parse_bind(lo: &mut Lowering<'_>, d: &Directive) -> Option<(Option<Template>, bool)> {
    let is_transparent = d.args.len() == 2;
    if is_transparent && d.arg(1) != "transparent" {
        lo.bad_value(d, 1, "`transparent`");
        return None;
    }
    let address = (d.arg(0) != "off").then(|| lo.template(&d.args[0]));
    let is_transparent = is_transparent && address.is_some();
    Some((address, is_transparent))
}

/// Text to look for: a prefix, or a pattern after `~` or `~*`.
fn text_match(lo: &mut Lowering<'_>, word: &Word) -> TextMatch {
    match word.text.strip_prefix('~') {
        Some(pattern) => match pattern.strip_prefix('*') {
            Some(pattern) => TextMatch::Regex(lo.pattern(pattern, true, word)),
            None => TextMatch::Regex(lo.pattern(pattern, false, word)),
        },
        None => TextMatch::Prefix(lo.template(word)),
    }
}

/// `proxy_redirect off | default | from to`.
pub(crate) fn redirect(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let level = s.level;
    let spec = match (d.args.len(), d.arg(0)) {
        (1, "off") => {
            let proxy = s.proxy_mut();
            proxy.redirects.clear(level);
            proxy.redirects_off = true;
            return;
        }
        (1, "default") => RedirectSpec::Default(d.span),
        (1, _) => return lo.bad_value(d, 0, "`off`, `default`, or followed by a replacement"),
        _ => RedirectSpec::Rewrite(RedirectRewrite {
            from: text_match(lo, &d.args[0]),
            to: lo.template(&d.args[1]),
        }),
    };
    let proxy = s.proxy_mut();
    proxy.redirects.push(level, spec);
    proxy.redirects_off = false;
}

/// Rewrites of `Location`; without any word the default holds, which undoes what `proxy_pass` did to the path.
fn redirects(
    lo: &mut Lowering<'_>,
    proxy: &ProxyScope,
    place: &Place,
    spec: &ProxySpec,
) -> Arc<Vec<RedirectRewrite>> {
    let written = proxy.redirects.items();
    if written.is_empty() {
        let default = if proxy.redirects_off { None } else { default_redirect(place, spec) };
        return Arc::new(default.into_iter().collect());
    }
    let mut out = Vec::with_capacity(written.len());
    for redirect in written.iter() {
        match redirect {
            RedirectSpec::Rewrite(rewrite) => out.push(rewrite.clone()),
            RedirectSpec::Default(span) => match default_redirect(place, spec) {
                Some(rewrite) => out.push(rewrite),
                None => lo.report(
                    Diagnostic::error(
                        "nginx::redirect-default",
                        "`proxy_redirect default` needs a `proxy_pass` without variables",
                    )
                    .at(*span),
                ),
            },
        }
    }
    Arc::new(out)
}

fn default_redirect(place: &Place, spec: &ProxySpec) -> Option<RedirectRewrite> {
    let url = spec.url.as_ref()?;
    let (from, to) = match (&spec.uri, &place.kind) {
        (Some(_), PlaceKind::Prefix(path) | PlaceKind::Exact(path)) => (url.clone(), path.clone()),
        _ => (format!("{url}/"), "/".to_owned()),
    };
    Some(RedirectRewrite { from: TextMatch::Prefix(Template::literal(from)), to: Template::literal(to) })
}

pub(crate) fn cookie_domain(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    cookie(lo, s, d, CookieAttribute::Domain, 0);
}

pub(crate) fn cookie_path(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    cookie(lo, s, d, CookieAttribute::Path, 1);
}

/// `proxy_cookie_domain off | from to`.
fn cookie(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive, attribute: CookieAttribute, list: usize) {
    let level = s.level;
    if d.args.len() == 1 {
        if d.arg(0) != "off" {
            return lo.bad_value(d, 0, "`off`, or followed by a replacement");
        }
        return s.proxy_mut().cookies[list].begin(level);
    }
    let rewrite = CookieRewrite { attribute, from: text_match(lo, &d.args[0]), to: lo.template(&d.args[1]) };
    s.proxy_mut().cookies[list].push(level, rewrite);
}

/// `proxy_cookie_flags off | cookie [flag …]`.
pub(crate) fn cookie_flags(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let level = s.level;
    if d.args.len() == 1 && d.arg(0) == "off" {
        return s.proxy_mut().cookies[2].begin(level);
    }
    let mut flags = CookieFlags::default();
    for (n, word) in d.args.iter().enumerate().skip(1) {
        match word.text.as_str() {
            "secure" => flags.secure = Some(true),
            "nosecure" => flags.secure = Some(false),
            "httponly" => flags.http_only = Some(true),
            "nohttponly" => flags.http_only = Some(false),
            "samesite=strict" => flags.same_site = Some(SameSite::Strict),
            "samesite=lax" => flags.same_site = Some(SameSite::Lax),
            "samesite=none" => flags.same_site = Some(SameSite::None),
            "nosamesite" => flags.same_site = Some(SameSite::Away),
            _ => {
                let known = "one of `secure`, `httponly`, `samesite=strict`, `samesite=lax`, `samesite=none`, or `no` before the name";
                return lo.bad_value(d, n, known);
            }
        }
    }
    let word = &d.args[0];
    let from = match word.text.strip_prefix('~') {
        // Names in patterns have no case, and `~*` is none of its forms.
        Some(pattern) => TextMatch::Regex(lo.pattern(pattern, true, word)),
        None => TextMatch::Prefix(lo.template(word)),
    };
    let rewrite = CookieRewrite { attribute: CookieAttribute::Flags(flags), from, to: Template::default() };
    s.proxy_mut().cookies[2].push(level, rewrite);
}

/// Rewrites of cookies of all kinds, in one list.
fn cookies(proxy: &ProxyScope) -> Arc<Vec<CookieRewrite>> {
    let mut written = proxy.cookies.iter().map(List::items).filter(|list| !list.is_empty());
    match (written.next(), written.next()) {
        (None, _) => Arc::default(),
        // Mostly the same for many locations.
        (Some(only), None) => only.clone(),
        (Some(_), Some(_)) => {
            Arc::new(proxy.cookies.iter().flat_map(|list| list.items().iter().cloned()).collect())
        }
    }
}
