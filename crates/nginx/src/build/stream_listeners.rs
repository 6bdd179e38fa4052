//! From the addresses of all servers of `stream` to listeners.
//!
//! Owns: which server is an address's default, options written once, who answers for which name.
//! Driven by: `stream`, once all servers are known.

use std::collections::HashMap;
use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_model::{Address, Listener, ListenerTls, NamePattern, Service, TcpId};

use super::identities;
use crate::take::parts::ListenSpec;
use crate::take::scope::TlsScope;
use crate::take::{Lowering, tls};

/// One `listen` of one server.
pub(super) struct Served {
    pub(super) spec: ListenSpec,
    pub(super) id: TcpId,
    pub(super) names: Vec<NamePattern>,
    /// Its server reads the ClientHello of what it carries.
    pub(super) preread: bool,
    pub(super) tls: Arc<TlsScope>,
    pub(super) alpn: Vec<String>,
}

/// Makes the listeners of `stream`.
pub(super) fn build(lo: &mut Lowering<'_>, all: Vec<Served>) {
    let mut gathered: Vec<Vec<Served>> = Vec::new();
    let mut by_address: HashMap<Address, usize> = HashMap::new();
    for served in all {
        let at = *by_address.entry(served.spec.address.clone()).or_insert_with(|| {
            gathered.push(Vec::new());
            gathered.len() - 1
        });
        gathered[at].push(served);
    }
    for servers in gathered {
        listener(lo, servers);
    }
}

/// The listener of one address, which has at least one server.
fn listener(lo: &mut Lowering<'_>, mut servers: Vec<Served>) {
    let address = servers[0].spec.address.clone();
    if let Some(first) = lo.listened_at(&address) {
        let text = "this address is listened on already";
        let mut found = Diagnostic::error("nginx::duplicate-listen", text).at(servers[0].spec.span);
        if let Some(first) = first {
            found = found.also(first, "here");
        }
        return lo.report(found.help("one address serves `stream` servers, or HTTP"));
    }
    let chosen = servers.iter().position(|served| served.spec.default_server).unwrap_or(0);
    let default = servers.remove(chosen);
    if !are_told_apart(lo, &default, &servers) {
        return;
    }
    let with_tls = std::iter::once(&default).chain(&servers).find(|served| served.spec.tls);
    let with_tls = with_tls.map(|served| served.spec.clone());
    let tls = with_tls.and_then(|spec| identities(lo, &spec, &default, &servers));
    let has_options = std::iter::once(&default).chain(&servers).find(|served| served.spec.has_options);
    let socket = has_options.unwrap_or(&default).spec.socket.clone();
    let proxy_protocol = default.spec.proxy_protocol || servers.iter().any(|one| one.spec.proxy_protocol);
    lo.listen(Listener {
        name: address.to_string(),
        origin: Some(default.spec.span),
        address,
        socket,
        proxy_protocol,
        http2: false,
        quic: None,
        share: 0,
        proxy_header_names_client: false,
        tls,
        max_connections: None,
        gate: Vec::new(),
        service: Service::Tcp(default.id),
        // The default's own names come first: a pattern of another must not take them.
        services: if servers.is_empty() {
            Vec::new()
        } else {
            std::iter::once(default).chain(servers).map(|served| (served.names, served.id)).collect()
        },
    });
}

/// Whether connections, or what they begin with, can say which of several servers is meant; told if not.
fn are_told_apart(lo: &mut Lowering<'_>, default: &Served, others: &[Served]) -> bool {
    let nameless = others.iter().find(|served| served.names.is_empty() || served.spec.udp);
    if let Some(served) = nameless {
        let text = "this address is listened on already";
        let found = Diagnostic::error("nginx::duplicate-listen", text).at(served.spec.span);
        let help = match served.spec.udp {
            true => "datagrams have no server names: one address serves one server",
            false => "only servers with a `server_name` may share an address",
        };
        lo.report(found.also(default.spec.span, "here").help(help));
        return false;
    }
    let mut all = std::iter::once(default).chain(others);
    if let Some(other) = others.first()
        && !default.preread
        && !all.any(|served| served.spec.tls)
    {
        let text = "nothing says which server of this address is meant: the first one serves all";
        let found = Diagnostic::warning("nginx::no-effect", text).at(other.spec.span);
        lo.report(
            found.also(default.spec.span, "this one").help("add `ssl` to the address, or `ssl_preread on`"),
        );
    }
    true
}

fn identities(
    lo: &mut Lowering<'_>,
    spec: &ListenSpec,
    default: &Served,
    others: &[Served],
) -> Option<ListenerTls> {
    let settings = &default.tls;
    let identity = identities::of_default(lo, settings, default.alpn.clone(), spec.span)?;
    let mut by_name = Vec::new();
    for served in others {
        // A server without a certificate answers with the default's; what it asks of clients still holds.
        let own = tls::identity(lo, &served.tls, served.alpn.clone());
        if let Some(own) = own.or_else(|| tls::asking(lo, &identity, &served.tls)) {
            by_name.push((served.names.clone(), own));
        }
    }
    if !by_name.is_empty() && !default.names.is_empty() {
        by_name.insert(0, (default.names.clone(), identity.clone()));
    }
    Some(identities::of_address(settings, identity, by_name))
}
