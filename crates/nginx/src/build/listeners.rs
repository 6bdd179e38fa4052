//! From the addresses of all servers to listeners.
//!
//! Owns: which server is an address's default, options written once, names claimed twice, identities by SNI.
//! Driven by: the building of `http`, once all servers are known.

use std::collections::HashMap;
use std::sync::Arc;

use weir_diag::{Diagnostic, Span};
use weir_model::settings::TlsVersion;
use weir_model::{Address, Listener, ListenerTls, NamePattern, Service, SiteId, SocketOptions, TlsIdentity};

use super::identities;
use super::server::Lowered;
use crate::take::parts::ListenSpec;
use crate::take::scope::TlsScope;
use crate::take::{Lowering, tls};

/// One address while servers are gathered.
struct Gathered {
    address: Address,
    span: Span,
    /// Servers in order, by their place in the list.
    servers: Vec<usize>,
    default: Option<(usize, Span)>,
    tls: Option<Span>,
    proxy_protocol: bool,
    /// `http2` was written as a parameter of `listen`, which holds for all servers of the address.
    http2: bool,
    quic: bool,
    socket: SocketOptions,
    options: Option<Span>,
}

/// Makes the listeners of `http`.
pub(crate) fn build(lo: &mut Lowering<'_>, servers: &[Lowered]) {
    for gathered in gather(lo, servers) {
        if let Some(first) = lo.listened_at(&gathered.address) {
            let text = "this address is listened on by a `stream` server already";
            let mut found = Diagnostic::error("nginx::duplicate-listen", text).at(gathered.span);
            if let Some(first) = first {
                found = found.also(first, "here");
            }
            lo.report(found);
            continue;
        }
        let listener = listener(lo, servers, gathered);
        lo.listen(listener);
    }
}

fn gather(lo: &mut Lowering<'_>, servers: &[Lowered]) -> Vec<Gathered> {
    let mut all: Vec<Gathered> = Vec::new();
    let mut by_address: HashMap<Address, usize> = HashMap::new();
    for (n, server) in servers.iter().enumerate() {
        for spec in &server.listens {
            let at = *by_address.entry(spec.address.clone()).or_insert_with(|| {
                all.push(Gathered {
                    address: spec.address.clone(),
                    span: spec.span,
                    servers: Vec::new(),
                    default: None,
                    tls: None,
                    proxy_protocol: false,
                    http2: false,
                    quic: false,
                    socket: SocketOptions::default(),
                    options: None,
                });
                all.len() - 1
            });
            add(lo, &mut all[at], n, server, spec);
        }
    }
    all
}

fn add(lo: &mut Lowering<'_>, gathered: &mut Gathered, n: usize, server: &Lowered, spec: &ListenSpec) {
    gathered.servers.push(n);
    gathered.quic |= spec.quic;
    if spec.tls || spec.quic || server.ssl_on {
        gathered.tls.get_or_insert(spec.span);
    }
    gathered.proxy_protocol |= spec.proxy_protocol;
    gathered.http2 |= spec.http2;
    if spec.default_server {
        match gathered.default {
            None => gathered.default = Some((n, spec.span)),
            Some((_, first)) => lo.report(
                Diagnostic::error("nginx::two-defaults", "this address has two default servers")
                    .at(spec.span)
                    .also(first, "first here"),
            ),
        }
    }
    if spec.has_options {
        match gathered.options {
            None => {
                gathered.options = Some(spec.span);
                gathered.socket = spec.socket.clone();
            }
            Some(_) if gathered.socket == spec.socket => {}
            Some(first) => lo.report(
                Diagnostic::error(
                    "nginx::duplicate-listen",
                    "socket options of this address are written twice",
                )
                .at(spec.span)
                .also(first, "first here")
                .help("write them in one `listen` of the address; they hold for all its servers"),
            ),
        }
    }
}

fn listener(lo: &mut Lowering<'_>, servers: &[Lowered], gathered: Gathered) -> Listener {
    let default = gathered.default.map_or(gathered.servers[0], |(n, _)| n);
    check_names(lo, servers, &gathered);
    let tls = gathered.tls.and_then(|span| tls(lo, servers, &gathered, default, span));
    let name = gathered.address.to_string();
    let sites: Vec<SiteId> = gathered.servers.iter().map(|&n| servers[n].site).collect();
    Listener {
        name,
        origin: Some(gathered.span),
        address: gathered.address,
        share: 0,
        socket: gathered.socket,
        proxy_protocol: gathered.proxy_protocol,
        proxy_header_names_client: false,
        http2: gathered.http2 || servers[default].http2,
        quic: gathered.quic.then_some(servers[default].quic),
        tls,
        max_connections: None,
        gate: Vec::new(),
        services: Vec::new(),
        service: Service::Http { sites, default: servers[default].site },
    }
}

/// Warns of names that several servers of one address claim; the first has them.
fn check_names(lo: &mut Lowering<'_>, servers: &[Lowered], gathered: &Gathered) {
    let mut seen: HashMap<&NamePattern, Option<Span>> = HashMap::new();
    let mut found = Vec::new();
    for &n in &gathered.servers {
        let server = &servers[n];
        for name in server.names.iter().filter(|name| !matches!(name, NamePattern::Regex(_))) {
            match seen.get(name) {
                None => {
                    seen.insert(name, server.origin);
                }
                Some(first) => found.push((name.clone(), server.origin, *first)),
            }
        }
    }
    for (name, here, first) in found {
        let name = match name {
            NamePattern::Exact(name) | NamePattern::Prefix(name) | NamePattern::Suffix(name) => name,
            NamePattern::Regex(pattern) => pattern.source,
        };
        let text = format!("several servers of this address are called `{name}`; the first one answers");
        let mut warning = Diagnostic::warning("nginx::conflicting-name", text);
        if let Some(span) = here {
            warning = warning.at(span);
        }
        if let Some(span) = first {
            warning = warning.also(span, "this one has the name");
        }
        lo.report(warning);
    }
}

fn tls(
    lo: &mut Lowering<'_>,
    servers: &[Lowered],
    gathered: &Gathered,
    default: usize,
    span: Span,
) -> Option<ListenerTls> {
    let settings: Arc<TlsScope> = servers[default].tls.clone();
    let protocols = |n: usize| match (gathered.quic, servers[n].http3) {
        (true, true) => vec!["h3".to_owned()],
        // Nothing is agreed on: the connection ends with the handshake.
        (true, false) => Vec::new(),
        _ => offered(gathered.http2 || servers[n].http2),
    };
    let identity = identities::of_default(lo, &settings, protocols(default), span)?;
    if gathered.quic && !identity.versions.contains(&TlsVersion::V1_3) {
        let text = "QUIC is spoken with TLS 1.3, which this address does not offer";
        let found = Diagnostic::error("nginx::bad-value", text).at(span);
        lo.report(found.help("add `TLSv1.3` to `ssl_protocols` of its default server"));
        return None;
    }
    let mut by_name: Vec<(Vec<NamePattern>, TlsIdentity)> = Vec::new();
    for &n in gathered.servers.iter().filter(|&&n| !servers[n].names.is_empty()) {
        // A server without a certificate answers with the default's, as in nginx; what it asks of clients still holds.
        let own = tls::identity(lo, &servers[n].tls, protocols(n));
        if let Some(own) = own.or_else(|| tls::asking(lo, &identity, &servers[n].tls))
            && (own != identity || n != default)
        {
            by_name.push((servers[n].names.clone(), own));
        }
    }
    if gathered.quic
        && std::iter::once(&identity)
            .chain(by_name.iter().map(|(_, one)| one))
            .any(|one| !one.named.is_empty())
    {
        let text = "certificates named by variables are not supported with QUIC yet";
        lo.report(Diagnostic::error("nginx::not-built", text).at(span));
    }
    let tls = identities::of_address(&settings, identity, by_name);
    Some(ListenerTls { answer_bad_certificates: true, ..tls })
}

/// What ALPN offers, best first.
fn offered(http2: bool) -> Vec<String> {
    let http1 = "http/1.1".to_owned();
    if http2 { vec!["h2".to_owned(), http1] } else { vec![http1] }
}
