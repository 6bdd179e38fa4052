//! `server` blocks of `http`.
//!
//! Owns: the site of a server.
//! Driven by: `http`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weir_diag::Origin;
use weir_model::settings::{Conduct, KeepAliveMode, Quic};
use weir_model::{Address, NamePattern, Site, SiteId};

use super::route::apply_place;
use super::{location, program};
use crate::table::{Contexts, Taker};
use crate::take::parts::{ListenSpec, PlaceKind};
use crate::take::scope::TlsScope;
use crate::take::{Lowering, Place, Scope, ServerParts, acme};
use crate::tree::Directive;

/// A server whose site is in the model.
pub(crate) struct Lowered {
    pub site: SiteId,
    pub origin: Origin,
    pub listens: Vec<ListenSpec>,
    pub names: Vec<NamePattern>,
    pub tls: Arc<TlsScope>,
    pub ssl_on: bool,
    pub http2: bool,
    pub http3: bool,
    pub quic: Quic,
}

/// Lowers one block.
pub(crate) fn build(lo: &mut Lowering<'_>, http: &Scope, d: &Directive) -> Lowered {
    let words = lo.admit(d.children(), Contexts::SERVER);
    let mut scope = http.child(lo.next_level());
    lo.apply(&words, &mut scope);
    let mut parts = ServerParts::default();
    for word in &words {
        if let Taker::Server(f) = word.entry.taker {
            f(lo, &mut parts, word.directive);
        }
    }
    acme::of_server(lo, &mut scope, &parts);
    if parts.listens.is_empty() && !parts.skipped_listen {
        parts.listens.push(ListenSpec::plain(implicit_address(lo), d.name.span));
    }
    lo.pages.clear();
    lo.server_names.clone_from(&parts.names);
    location::reserve_named(lo, &scope, d);
    let mut place = Place::new(PlaceKind::Server);
    apply_place(lo, &words, &mut place);
    let program = program::server(lo, &words);
    let routes = location::build_all(lo, &words, &scope, &place);
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
        session_rate: None,
        server_name_in_redirect: scope.site.server_name_in_redirect,
        port_in_redirect: scope.site.port_in_redirect,
        absolute_redirect: scope.site.absolute_redirect,
        log_empty_connections: false,
        answer_silence: false,
        zone: parts.zone.clone(),
    };
    Lowered {
        site: lo.model.add_site(site),
        origin: Some(d.name.span),
        listens: parts.listens,
        names: parts.names,
        tls: scope.tls.clone(),
        ssl_on: scope.ssl_on,
        http2: scope.site.http2,
        http3: scope.site.http3,
        quic: scope.site.quic,
    }
}

/// `*:80` for root, else `*:8000`, as nginx documents it.
fn implicit_address(lo: &Lowering<'_>) -> Address {
    let port = if lo.options.privileged { 80 } else { 8000 };
    Address::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port))
}
