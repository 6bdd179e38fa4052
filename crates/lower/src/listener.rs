//! Listeners, sites, and the index from hosts to sites.

use ahash::{HashMap, HashSet};
use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_expr::settings::ClientSettings;
use weir_http::{HeadRules, UnusualNames};
use weir_model as model;
use weir_plan as plan;
use weir_plan::{HostIndex, ListenerId, NameIndex, RouteIx, Service, SiteId, SiteIx, TcpIx};

use crate::context::Cx;

/// Indices by what they were made of: listeners of one site set share theirs.
pub(crate) type HostIndices<'m> = HashMap<(&'m [model::SiteId], model::SiteId), Arc<HostIndex>>;

impl<'m> Cx<'m> {
    pub(crate) fn listener(
        &mut self,
        listener: &'m model::Listener,
        indices: &mut HostIndices<'m>,
    ) -> plan::Listener {
        let (heads, heads_differ) = self.heads_before_site(&listener.service);
        let http = matches!(listener.service, model::Service::Http { .. });
        let address = listener.address.clone();
        plan::Listener {
            id: ListenerId::from_name(&named(listener)),
            name: listener.name.as_str().into(),
            address,
            proxy_protocol: listener.proxy_protocol,
            proxy_header_names_client: listener.proxy_header_names_client,
            http2: listener.http2,
            quic: listener.quic,
            tls: listener.tls.as_ref().map(|tls| self.listener_tls(tls, http)),
            max_connections: listener.max_connections,
            gate: self.program(&listener.gate),
            services: self.services(listener),
            service: self.service(&listener.service, indices),
            heads,
            heads_differ,
        }
    }

    /// Rules for heads before the site is known, which let pass whatever one of the sites does; and whether sites differ
    /// in theirs. First lines are the default site's business.
    fn heads_before_site(&self, service: &model::Service) -> (HeadRules, bool) {
        let model::Service::Http { sites, default } = service else { return (HeadRules::default(), false) };
        let site = |id: &model::SiteId| self.model.sites.get(id.0 as usize).map(|site| &*site.client);
        let Some(first) = site(default) else { return (HeadRules::default(), false) };
        let mut widest = first.clone();
        for client in sites.iter().filter_map(site) {
            widest.max_header_line = widest.max_header_line.max(client.max_header_line);
            widest.max_headers = widest.max_headers.max(client.max_headers);
            widest.max_header_count = widest.max_header_count.max(client.max_header_count);
            widest.drop_underscores &= client.drop_underscores;
            widest.ignore_invalid_headers &= client.ignore_invalid_headers;
            widest.drop_lookalikes &= client.drop_lookalikes;
        }
        let differs = sites.iter().filter_map(site).any(|client| !same_heads(client, first));
        (request_heads(&widest), differs)
    }

    fn service(&mut self, service: &'m model::Service, indices: &mut HostIndices<'m>) -> Service {
        match service {
            model::Service::Tcp(id) => {
                if id.0 as usize >= self.model.tcp.len() {
                    self.dangling("TCP service", id.0);
                }
                Service::Tcp(TcpIx(id.0))
            }
            model::Service::Http { sites, default } => {
                let key = (sites.as_slice(), *default);
                let index = match indices.get(&key) {
                    Some(known) => known.clone(),
                    None => {
                        let built = Arc::new(self.host_index(sites, *default));
                        indices.insert(key, built.clone());
                        built
                    }
                };
                Service::Http(index)
            }
        }
    }

    /// TCP services by name.
    fn services(&mut self, listener: &'m model::Listener) -> Option<Arc<NameIndex<TcpIx>>> {
        let model::Service::Tcp(default) = listener.service else { return None };
        if listener.services.is_empty() {
            return None;
        }
        let mut index = NameIndex::new(TcpIx(default.0));
        for (names, id) in &listener.services {
            for name in names {
                self.add_name(&mut index, name, TcpIx(id.0));
            }
        }
        Some(Arc::new(index))
    }

    fn dangling(&mut self, what: &str, id: u32) {
        let title = format!("a listener refers to {what} {id}, which does not exist");
        let finding = Diagnostic::error("listener::dangling", title);
        self.report(finding.help("this is a mistake in the front end that read the file, not in the file"));
    }

    fn host_index(&mut self, sites: &'m [model::SiteId], default: model::SiteId) -> HostIndex {
        if default.0 as usize >= self.model.sites.len() {
            self.dangling("site", default.0);
        }
        let mut index = HostIndex::new(SiteIx(default.0));
        for id in sites {
            let Some(site) = self.model.sites.get(id.0 as usize) else {
                self.dangling("site", id.0);
                continue;
            };
            self.at(site.origin, |cx| {
                for name in &site.names {
                    // Of a name that two sites have, the first stands; front ends warn, in the words of their language.
                    cx.add_name(&mut index, name, SiteIx(id.0));
                }
            });
        }
        index
    }

    /// Adds a name to an index; the first of equals stands.
    pub(crate) fn add_name<T: Copy>(
        &mut self,
        index: &mut NameIndex<T>,
        name: &'m model::NamePattern,
        value: T,
    ) {
        match name {
            model::NamePattern::Exact(name) => _ = index.add_exact(name, value),
            model::NamePattern::Suffix(name) => _ = index.add_suffix(name, value),
            model::NamePattern::Prefix(name) => _ = index.add_prefix(name, value),
            model::NamePattern::Regex(pattern) => {
                let compiled = self.pattern(pattern);
                index.add_pattern(compiled, value);
            }
        }
    }

    pub(crate) fn site(&mut self, site: &'m model::Site, id: SiteId) -> plan::Site {
        plan::Site {
            id,
            name: site.name.as_str().into(),
            client: self.client_settings(&site.client),
            heads: request_heads(&site.client),
            program: self.program(&site.program),
            paths: self.path_index(&site.routes),
            named: self.named_routes(&site.routes),
            fallback: RouteIx(self.route_ix(site.fallback).0),
            keepalive_mode: site.keepalive_mode,
            conduct: site.conduct,
            server_header: site.server_header.as_deref().map(Box::from),
            max_connections: site.max_connections,
            session_rate: site.session_rate,
            server_name_in_redirect: site.server_name_in_redirect,
            port_in_redirect: site.port_in_redirect,
            absolute_redirect: site.absolute_redirect,
            log_empty_connections: site.log_empty_connections,
            answer_silence: site.answer_silence,
            zone: site.zone.as_deref().map(|name| self.counted(name, plan::CountedKind::Sites)),
        }
    }
}

/// What a request's head may measure under these settings.
fn request_heads(settings: &ClientSettings) -> HeadRules {
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    HeadRules {
        first_line: bytes(settings.max_request_line),
        field_line: bytes(settings.max_header_line),
        head: bytes(settings.max_headers.saturating_add(settings.max_request_line)),
        fields: bytes(u64::from(settings.max_header_count)),
        unusual_names: match (settings.ignore_invalid_headers, settings.drop_underscores) {
            (false, _) if settings.drop_lookalikes => UnusualNames::DropLookalikes,
            (false, _) => UnusualNames::Keep,
            (true, false) => UnusualNames::DropExceptUnderscores,
            (true, true) => UnusualNames::Drop,
        },
        mends: settings.mends_heads,
    }
}

fn same_heads(a: &ClientSettings, b: &ClientSettings) -> bool {
    let rules = |client: &ClientSettings| {
        let limits = (client.max_header_line, client.max_headers, client.max_header_count);
        (limits, client.drop_underscores, client.ignore_invalid_headers, client.drop_lookalikes)
    };
    rules(a) == rules(b)
}

/// Stable ids of sites. A name that several sites have (one for port 80, one for 443) is told apart by the addresses.
pub(crate) fn site_ids(model: &model::Model) -> Vec<SiteId> {
    let mut uses: HashMap<&str, u32> = HashMap::default();
    for site in &model.sites {
        *uses.entry(&site.name).or_default() += 1;
    }
    let mut addresses = vec![String::new(); model.sites.len()];
    for listener in &model.listeners {
        if let model::Service::Http { sites, .. } = &listener.service {
            for id in sites {
                if let Some(list) = addresses.get_mut(id.0 as usize) {
                    list.push('@');
                    list.push_str(&named(listener));
                }
            }
        }
    }
    let mut taken = HashSet::default();
    let ids = model.sites.iter().zip(&addresses).map(|(site, addresses)| {
        let name = if uses[site.name.as_str()] == 1 {
            site.name.clone()
        } else {
            format!("{}{addresses}", site.name)
        };
        unique_site_id(&name, &mut taken)
    });
    ids.collect()
}

/// The id of a name, or of the name with a number if it is taken.
pub(crate) fn unique_site_id(name: &str, taken: &mut HashSet<SiteId>) -> SiteId {
    let mut id = SiteId::from_name(name);
    let mut copy = 2;
    while !taken.insert(id) {
        id = SiteId::from_name(&format!("{name}#{copy}"));
        copy += 1;
    }
    id
}

/// What tells a listener from the others: its address, and which of those that share it this is.
fn named(listener: &model::Listener) -> String {
    let address = canonical(&listener.address);
    if listener.share == 0 { address } else { format!("{address}#{}", listener.share) }
}

fn canonical(address: &plan::Address) -> String {
    match address {
        plan::Address::Tcp(address) => format!("tcp:{address}"),
        plan::Address::Udp(address) => format!("udp:{address}"),
        plan::Address::Unix(path) => format!("unix:{}", path.display()),
        plan::Address::Inherited(number) => format!("fd:{number}"),
    }
}
