//! `server` blocks of `http`.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weir_diag::{Diagnostic, Origin, Span};
use weir_model::settings::{Conduct, KeepAliveMode};
use weir_model::{Address, NamePattern, Site, SiteId};

use super::listen::ListenSpec;
use super::location::{self, Place, PlaceKind};
use super::scope::TlsScope;
use super::{Lowering, Scope, program};
use crate::lexer::Word;
use crate::table::{Contexts, Lower};
use crate::tree::Directive;

/// A server while its block is read.
#[derive(Default)]
pub(crate) struct ServerParts {
    pub listens: Vec<ListenSpec>,
    /// Where each address of theirs was written.
    pub listened: HashMap<Address, Span>,
    /// A `listen` was written that binds nothing.
    pub skipped_listen: bool,
    pub names: Vec<NamePattern>,
    /// The first name as `$server_name` shows it.
    pub first_name: Option<String>,
}

/// A server whose site is in the model.
pub(crate) struct Lowered {
    pub site: SiteId,
    pub origin: Origin,
    pub listens: Vec<ListenSpec>,
    pub names: Vec<NamePattern>,
    pub tls: Arc<TlsScope>,
    pub ssl_on: bool,
}

/// Lowers one block.
pub(crate) fn lower(lo: &mut Lowering<'_>, http: &Scope, d: &Directive) -> Lowered {
    let words = lo.admit(d.children(), Contexts::SERVER);
    let mut scope = http.child(lo.next_level());
    lo.apply(&words, &mut scope);
    let mut parts = ServerParts::default();
    for word in &words {
        if let Lower::Server(f) = word.entry.lower {
            f(lo, &mut parts, word.directive);
        }
    }
    if parts.listens.is_empty() && !parts.skipped_listen {
        parts.listens.push(ListenSpec::plain(implicit_address(lo), d.name.span));
    }
    lo.pages.clear();
    location::reserve_named(lo, &scope, d);
    let mut place = Place::new(PlaceKind::Server);
    location::apply_place(lo, &words, &mut place);
    let program = program::server(lo, &words);
    let routes = location::lower_all(lo, &words, &scope, &place);
    let name = parts.first_name.clone().unwrap_or_default();
    let fallback = location::fallback(lo, &scope, &place, d);
    let site = Site {
        name,
        origin: Some(d.name.span),
        names: parts.names.clone(),
        client: scope.client.clone(),
        program,
        routes,
        fallback,
        keepalive_mode: KeepAliveMode::Keep,
        conduct: Conduct::default(),
        server_header: scope.site.server_header.clone(),
        max_connections: None,
        server_name_in_redirect: scope.site.server_name_in_redirect,
        port_in_redirect: scope.site.port_in_redirect,
        absolute_redirect: scope.site.absolute_redirect,
        log_empty_connections: false,
        answer_silence: false,
    };
    Lowered {
        site: lo.model.add_site(site),
        origin: Some(d.name.span),
        listens: parts.listens,
        names: parts.names,
        tls: scope.tls.clone(),
        ssl_on: scope.ssl_on,
    }
}

/// `*:80` for root, else `*:8000`, as nginx documents it.
fn implicit_address(lo: &Lowering<'_>) -> Address {
    let port = if lo.options.privileged { 80 } else { 8000 };
    Address::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port))
}

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
