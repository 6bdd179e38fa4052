//! Frontends, backends and listens: listeners, sites, routes, pools, TCP services.
//!
//! Owns: which proxy refers to which, and the model nodes each becomes.
//! Never: reads rules; `rules` does.
//! Why: a backend becomes one pool, and one route for each frontend that enters it, because logs, captures and error
//! pages are the frontend's while the rest is the backend's.
//!
//! ```text
//! frontend  → site.program      tcp rules, monitor-uri, http-request rules, response edits
//!           → fallback.program  stats, redirects, use_backend → Enter(route of the pair)
//! backend   → pool
//!           → route of the pair: http-request rules, stats, redirects, forwardfor; action: proxy to the pool
//! ```

use std::collections::{BTreeMap, BTreeSet};

use weir_diag::Diagnostic;
use weir_model::{Listener, Model, Service};

use super::bind::{Binder, Bound};
use super::context::{Context, Surroundings, mode};
use super::{pool, route, tcp};
use crate::draft::{Draft, Mode, Proxy, RuleList};
use crate::findings::Findings;
use crate::read::Word;

/// Builds all proxies.
pub(crate) fn proxies(draft: &Draft, around: Surroundings<'_>, model: &mut Model, findings: &mut Findings) {
    let named = draft.proxies.iter().enumerate().rev().filter(|(_, proxy)| proxy.kind.is_backend());
    let by_name = named.map(|(index, proxy)| (proxy.name.as_str(), index)).collect();
    let mut context = Context { draft, around, by_name, model, findings, pools: BTreeSet::new() };
    let bound: BTreeMap<usize, Vec<Bound>> = binds(&mut context);
    backends(&mut context, &bound);
    for (index, proxy) in draft.proxies.iter().enumerate() {
        let Some(bound) = bound.get(&index) else { continue };
        if proxy.settings.disabled {
            context
                .findings
                .ignored(proxy.name.span, format!("`{}` is disabled and does not listen", proxy.name.text));
            continue;
        }
        timeouts(proxy, context.findings);
        let tls: Vec<bool> = bound.iter().map(|bound| bound.tls.is_some()).collect();
        let service = match mode(proxy) {
            Mode::Http => {
                let early = bound.iter().any(Bound::takes_early_data);
                let site = route::site(&mut context, proxy, &tls, early);
                Service::Http { sites: vec![site], default: site }
            }
            Mode::Tcp => match tcp::service(&mut context, proxy, &tls) {
                Some(id) => Service::Tcp(id),
                None => continue,
            },
        };
        listeners(&mut context, proxy, bound, &service);
    }
    context.model.memory_caches = draft.caches.clone();
    context.model.stick_tables = super::sticks::tables(draft);
    super::stickiness::with_server_ids(draft, &mut context.model.stick_tables);
    context.model.roster = super::roster::roster(draft);
}

/// Addresses of all frontends, by the proxy's place.
fn binds(context: &mut Context<'_>) -> BTreeMap<usize, Vec<Bound>> {
    let mut all = BTreeMap::new();
    for (index, proxy) in
        context.draft.proxies.iter().enumerate().filter(|(_, proxy)| proxy.kind.is_frontend())
    {
        let (draft, files, base) = (context.draft, context.around.files, context.around.base.clone());
        let bound = Binder { draft, proxy: Some(proxy), files, base, findings: context.findings }.all();
        if proxy.binds.is_empty() {
            let kind = proxy.kind.name();
            context.findings.ignored(
                proxy.name.span,
                format!("{kind} `{}` has no `bind` and takes no connections", proxy.name.text),
            );
        }
        all.insert(index, bound);
    }
    all
}

/// Every backend's pool.
fn backends(context: &mut Context<'_>, bound: &BTreeMap<usize, Vec<Bound>>) {
    let draft = context.draft;
    let entered = client_ports(draft, bound);
    for proxy in draft.proxies.iter().filter(|proxy| proxy.kind.is_backend()) {
        let scope = context.scope(proxy);
        let ports = entered.of(&proxy.name.text);
        if let Some(pool) = pool::pool(scope, context.around.base.clone(), &ports, context.findings) {
            // The second of two backends with one name was reported.
            if context.pools.insert(pool.name.clone()) {
                context.model.pools.push(pool);
            }
        }
        if !proxy.kind.is_frontend() {
            timeouts(proxy, context.findings);
        }
    }
}

/// Ports that clients may have come to, by the backend they end in.
#[derive(Default)]
struct Entered<'a> {
    by_backend: BTreeMap<&'a str, BTreeSet<u16>>,
    /// Ports of frontends that compute the name of their backend.
    any: BTreeSet<u16>,
}

impl Entered<'_> {
    fn of(&self, backend: &str) -> Vec<u16> {
        let own = self.by_backend.get(backend);
        own.into_iter().flatten().chain(&self.any).copied().collect::<BTreeSet<_>>().into_iter().collect()
    }
}

fn client_ports<'a>(draft: &'a Draft, bound: &BTreeMap<usize, Vec<Bound>>) -> Entered<'a> {
    let mut entered = Entered::default();
    for (index, bound) in bound {
        let Some(proxy) = draft.proxies.get(*index) else { continue };
        let ports: BTreeSet<u16> = bound.iter().filter_map(Bound::port).collect();
        let uses = proxy.settings.rules.iter().filter(|rule| rule.list == RuleList::UseBackend);
        let names = uses.map(|rule| rule.line.text(rule.from));
        let default = proxy.settings.default_backend.as_ref().map(Word::as_str);
        for name in names.chain(default).chain(std::iter::once(proxy.name.as_str())) {
            if name.contains('%') {
                entered.any.extend(&ports);
            } else {
                entered.by_backend.entry(name).or_default().extend(&ports);
            }
        }
    }
    entered
}

/// Says, as HAProxy does, which times are not set; Weir's own hold then.
fn timeouts(proxy: &Proxy, findings: &mut Findings) {
    let mut missing = Vec::new();
    if proxy.kind.is_frontend() && proxy.settings.timeout("client").is_none() {
        missing.push("timeout client");
    }
    let serves = proxy.kind.is_backend() && !proxy.servers.is_empty();
    for name in ["connect", "server"] {
        if serves && proxy.settings.timeout(name).is_none() {
            missing.push(if name == "connect" { "timeout connect" } else { "timeout server" });
        }
    }
    if missing.is_empty() {
        return;
    }
    let kind = proxy.kind.name();
    let title = format!("{kind} `{}` sets no {}", proxy.name.text, crate::findings::list(&missing));
    findings.push(
        Diagnostic::warning("haproxy::missing-timeout", title)
            .at(proxy.name.span)
            .help("where HAProxy would wait for ever, Weir waits 60 seconds; set the times in `defaults`"),
    );
}

fn listeners<'a>(context: &mut Context<'a>, proxy: &'a Proxy, bound: &[Bound], service: &Service) {
    let gate = tcp::gate(context, proxy);
    for one in bound {
        let same: Vec<&Listener> =
            context.model.listeners.iter().filter(|listener| listener.address == one.address).collect();
        let share = same.len() as u32;
        if let Some(first) = same.first() {
            let title = format!("{} is bound twice: the kernel spreads its connections", one.text);
            let found = Diagnostic::note("haproxy::same-address", title).at(one.span);
            context.findings.push(match first.origin {
                Some(span) => found.also(span, "first here"),
                None => found,
            });
        }
        let name = one
            .name
            .clone()
            .filter(|name| context.model.listeners.iter().all(|listener| listener.name != *name));
        if let (Some(tls), true) = (&one.tls, matches!(service, Service::Tcp(_)))
            && tls.default.alpn.iter().any(|protocol| protocol.starts_with("http/"))
        {
            context.findings.ignored(
                one.span,
                format!("`{}` is a TCP proxy: what ALPN agrees on is not read", proxy.name.text),
            );
        }
        context.model.listeners.push(Listener {
            name: name.unwrap_or_else(|| one.text.clone()),
            origin: Some(one.span),
            address: one.address.clone(),
            share,
            socket: one.socket.clone(),
            proxy_protocol: one.proxy_protocol,
            proxy_header_names_client: true,
            // A preface is enough, as with HAProxy.
            http2: matches!(service, Service::Http { .. }),
            quic: None,
            tls: one.tls.clone(),
            max_connections: one.max_connections,
            gate: gate.clone(),
            services: Vec::new(),
            service: service.clone(),
        });
    }
}
