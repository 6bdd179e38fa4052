//! Pools and endpoints.

use ahash::HashSet;
use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_expr::settings::{Measured, Spread, Ties, Times};
use weir_model as model;
use weir_plan as plan;
use weir_plan::{BalanceKey, EndpointKey, HostPort, PoolId, UpstreamTlsUse};
use weir_policy::hash::HashFunction;
use weir_policy::pool::{Balance, EndpointConfig, KeyHash, Placement, PoolConfig, PoolOptions};

use crate::context::Cx;

/// An endpoint of the model at one of its addresses.
struct Place {
    name: String,
    address: Option<plan::Address>,
}

impl<'m> Cx<'m> {
    pub(crate) fn pool(&mut self, pool: &'m model::Pool) -> plan::Pool {
        let id = PoolId::from_name(&pool.name);
        let (balance, key) = self.balance(&pool.balance);
        let (mut configs, mut endpoints) = (Vec::new(), Vec::new());
        let mut taken = HashSet::default();
        for (at, endpoint) in (1u32..).zip(&pool.endpoints) {
            self.at(endpoint.origin, |cx| {
                for place in cx.places(endpoint) {
                    let key = unique_key(id, &place.name, &mut taken);
                    // Whoever changes a pool names endpoints by number, from zero: each has one of its own.
                    let number = pool.group.as_ref().map_or(at, |_| configs.len() as u32);
                    configs.push(endpoint_config(pool, endpoint, key, number, place.address.is_none()));
                    endpoints.push(cx.endpoint(pool, endpoint, key, place.address));
                }
            });
        }
        let cookies = pool.sticky.as_ref().and_then(|sticky| sticky.key.as_deref());
        let cookies = cookies.and_then(|key| plan::CookieKey::new(key.as_bytes())).map(Arc::new);
        if let Some(cookies) = &cookies {
            for endpoint in endpoints.iter_mut().filter(|endpoint| endpoint.cookie.is_none()) {
                endpoint.cookie = Some(cookies.value(endpoint.key));
            }
        }
        plan::Pool {
            id,
            name: pool.name.as_str().into(),
            set: Arc::new(plan::EndpointSet {
                config: Arc::new(PoolConfig::new(balance, Self::pool_options(pool), configs)),
                endpoints,
                fresh: pool.fresh.as_deref().map(|fresh| Arc::new(self.fresh(pool, fresh))),
                cookies,
            }),
            key,
            keepalive: pool.keepalive.clone(),
            queue: pool.queue,
            persistence: pool.persistence.iter().map(|rule| self.persistence_rule(rule)).collect(),
            assigned: pool.assigned.iter().map(|rule| self.endpoint_rule(rule)).collect(),
            sticky: pool.sticky.as_ref().map(|sticky| self.sticky(sticky)),
            stickiness: pool.stickiness.as_ref().map(|one| Box::new(self.stickiness(one))),
            unavailable: pool.unavailable,
            outliers: pool.outliers,
            guards: guards(pool),
            group: pool.group.clone().map(Box::new),
        }
    }

    /// What endpoints have that are given while running.
    fn fresh(&mut self, pool: &'m model::Pool, fresh: &'m model::Endpoint) -> plan::Fresh {
        let key = EndpointKey::of(PoolId::from_name(&pool.name), "");
        plan::Fresh {
            config: endpoint_config(pool, fresh, key, 0, false),
            endpoint: self.endpoint(pool, fresh, key, None),
            resolver: pool.resolver.as_ref().map(|resolver| self.resolver(resolver)),
        }
    }

    fn persistence_rule(&mut self, rule: &'m model::PersistenceRule) -> plan::PersistenceRule {
        let condition = rule.condition.as_ref().map(|condition| self.condition(condition));
        plan::PersistenceRule { force: rule.force, condition }
    }

    fn endpoint_rule(&mut self, rule: &'m model::EndpointRule) -> plan::EndpointRule {
        plan::EndpointRule {
            endpoint: self.template(&rule.endpoint),
            condition: rule.condition.as_ref().map(|condition| self.condition(condition)),
        }
    }

    fn stickiness(&mut self, stickiness: &'m model::Stickiness) -> plan::Stickiness {
        let rules = stickiness.rules.iter().map(|rule| plan::StickRule {
            table: rule.table.as_str().into(),
            key: self.template(&rule.key),
            condition: rule.condition.as_ref().map(|condition| self.condition(condition)),
            matches: rule.matches,
            stores: rule.stores,
            response: rule.response,
        });
        plan::Stickiness {
            rules: rules.collect(),
            never: stickiness.never.clone().into(),
            by_name: stickiness.by_name,
        }
    }

    fn pool_options(pool: &model::Pool) -> PoolOptions {
        let placement = if pool.shared { Placement::Process } else { Placement::Worker };
        let times = match pool.balance {
            model::Balance::LeastTime(times) => Some(times),
            model::Balance::Random { times, .. } => times,
            model::Balance::PeakEwma { .. } => Some(Times { of: Measured::First, in_flight: true }),
            _ => None,
        };
        PoolOptions {
            backups: pool.backups,
            counts: placement,
            rotation: placement,
            times,
            panic_percent: pool.panic_percent,
            load_percent: pool.load_percent,
            near_percent: pool.locality.as_ref().map(|locality| locality.least_percent),
        }
    }

    fn balance(&mut self, balance: &model::Balance) -> (Balance, BalanceKey) {
        match balance {
            model::Balance::RoundRobin => (Balance::RoundRobin, BalanceKey::None),
            model::Balance::StaticRoundRobin => (Balance::StaticRoundRobin, BalanceKey::None),
            model::Balance::First => (Balance::First, BalanceKey::None),
            model::Balance::LeastConnections(Ties::LongestUnused) => {
                (Balance::LeastConnOldest, BalanceKey::None)
            }
            model::Balance::LeastConnections(Ties::Turns) => (Balance::LeastConn, BalanceKey::None),
            model::Balance::LeastTime(_) => (Balance::LeastTime, BalanceKey::None),
            model::Balance::Random { two, .. } => {
                (Balance::Random(if *two { 2 } else { 1 }), BalanceKey::None)
            }
            model::Balance::IpHash => (Balance::IpHash, BalanceKey::Client),
            model::Balance::Hash { key, consistent } => {
                let method = if *consistent { Balance::HashKetama } else { Balance::HashModulo };
                (method, BalanceKey::Text(self.template(key)))
            }
            model::Balance::Maglev { key } => (Balance::Maglev, BalanceKey::TextOrTurns(self.template(key))),
            model::Balance::PeakEwma { decay } => (Balance::PeakEwma(*decay), BalanceKey::None),
            model::Balance::KeyHash { key, consistent, function, avalanche } => {
                let hash = KeyHash { function: self.hash_function(*function), avalanche: *avalanche };
                let method = if *consistent { Balance::Ring(hash) } else { Balance::Map(hash) };
                (method, self.balance_key(key))
            }
        }
    }

    /// A key that is the client's address alone is hashed as an address (HAProxy `balance source`).
    fn balance_key(&mut self, key: &model::Template) -> BalanceKey {
        use weir_expr::{Piece, Var};
        match key.pieces.as_slice() {
            [Piece::Var(Var::ClientAddr | Var::ClientAddrBinary, filters)] if filters.is_empty() => {
                BalanceKey::Client
            }
            _ => BalanceKey::TextOrTurns(self.template(key)),
        }
    }

    fn hash_function(&mut self, function: model::HashFunction) -> HashFunction {
        match function {
            model::HashFunction::Sdbm => HashFunction::Sdbm,
            model::HashFunction::Djb2 => HashFunction::Djb2,
            model::HashFunction::Crc32 => HashFunction::Crc32,
            model::HashFunction::Wt6 => HashFunction::Wt6,
            model::HashFunction::None => {
                let title = "keys that are numbers already (`hash-type … none`) cannot be balanced by yet";
                self.report(
                    Diagnostic::error("pool::hash-unsupported", title).help("name a hash function instead"),
                );
                HashFunction::default()
            }
        }
    }

    /// The addresses of an endpoint. One whose name does not resolve keeps its place without an address.
    fn places(&mut self, endpoint: &model::Endpoint) -> Vec<Place> {
        let name = endpoint.name.clone();
        let (host, port, all) = match &endpoint.address {
            model::EndpointAddress::Ip(address) => {
                return vec![Place { name, address: Some(plan::Address::Tcp(*address)) }];
            }
            model::EndpointAddress::Unix(path) => {
                return vec![Place { name, address: Some(plan::Address::Unix(path.clone())) }];
            }
            model::EndpointAddress::Name { host, port, all_addresses } => (host, *port, *all_addresses),
        };
        let (first, resolving) = (endpoint.initially, endpoint.resolve.as_ref());
        if resolving.is_some_and(|resolving| resolving.spread == Spread::Each || resolving.services) {
            return vec![Place { name, address: None }];
        }
        let mut found = if first.look_up { self.resources.addresses(host) } else { Vec::new() };
        if found.is_empty() {
            found.extend(first.otherwise);
        }
        if found.is_empty() && first.may_lack {
            return vec![Place { name, address: None }];
        }
        if found.is_empty() {
            let title = format!("`{host}` did not resolve: endpoint `{}` starts as down", endpoint.name);
            let finding = Diagnostic::warning("pool::name-unresolved", title);
            let advice = if endpoint.resolve.is_some() {
                "the rest runs; it is used once the name resolves"
            } else {
                "the rest runs; it is used once the name resolves and the configuration is loaded again"
            };
            self.report(finding.help(advice));
            return vec![Place { name, address: None }];
        }
        let kept = if all { found.len() } else { 1 };
        let addresses = found.into_iter().take(kept).map(|ip| plan::Address::Tcp((ip, port).into()));
        // The address is part of the name where several may come, so that state follows addresses and not their order.
        let named = |address: &plan::Address| if all { format!("{name}@{address}") } else { name.clone() };
        addresses.map(|address| Place { name: named(&address), address: Some(address) }).collect()
    }

    fn endpoint(
        &mut self,
        pool: &'m model::Pool,
        endpoint: &'m model::Endpoint,
        key: EndpointKey,
        address: Option<plan::Address>,
    ) -> plan::Endpoint {
        let host = match &endpoint.address {
            model::EndpointAddress::Name { host, port, .. } => {
                Some(HostPort { host: host.as_str().into(), port: *port })
            }
            model::EndpointAddress::Ip(_) | model::EndpointAddress::Unix(_) => None,
        };
        let resolve = endpoint.resolve.as_ref().zip(host.as_ref());
        let resolve = resolve.and_then(|(resolving, host)| {
            let Some(resolver) = resolving.resolver.as_ref().or(pool.resolver.as_ref()) else {
                let title = format!("nobody is named who could be asked for `{}`", host.host);
                self.report(Diagnostic::error("pool::no-resolver", title).help("name a resolver"));
                return None;
            };
            if resolving.services && resolver.servers.is_empty() && resolver.named_servers.is_empty() {
                let title = format!("the system is not asked for service records, as of `{}`", host.host);
                self.report(
                    Diagnostic::error("pool::no-resolver", title).help("name the servers of a resolver"),
                );
                return None;
            }
            Some(Arc::new(plan::Resolve {
                host: host.host.clone(),
                port: host.port,
                resolver: self.resolver(resolver),
                spread: resolving.spread,
                services: resolving.services,
                down: endpoint.down,
            }))
        });
        plan::Endpoint {
            key,
            name: endpoint.name.as_str().into(),
            address,
            follows: endpoint.follows,
            socks: endpoint.socks,
            host,
            resolve,
            max_queue: endpoint.max_queue,
            tls: endpoint.tls.as_ref().map(|tls| self.upstream_tls(tls)),
            send_proxy: endpoint.send_proxy,
            check: endpoint.check.as_ref().map(|check| Arc::new(self.health_check(check))),
            more_checks: endpoint
                .more_checks
                .iter()
                .map(|check| Arc::new(self.health_check(check)))
                .collect(),
            agent: endpoint.agent.clone().map(Arc::new),
            tracks: endpoint.tracks.as_ref().map(|tracked| self.tracked(tracked)),
            cuts: endpoint.cuts,
            cookie: endpoint.cookie.as_deref().map(Box::from),
            begins: endpoint.begins,
        }
    }

    fn sticky(&mut self, sticky: &'m model::Sticky) -> plan::Sticky {
        let mut attributes = String::from("; path=/");
        for domain in &sticky.domains {
            attributes.push_str("; domain=");
            attributes.push_str(domain);
        }
        if sticky.http_only {
            attributes.push_str("; HttpOnly");
        }
        if sticky.secure {
            attributes.push_str("; Secure");
        }
        for attribute in &sticky.attributes {
            attributes.push_str("; ");
            attributes.push_str(attribute);
        }
        plan::Sticky {
            cookie: sticky.cookie.as_str().into(),
            route: sticky.route.iter().map(|template| self.template(template)).collect(),
            mode: sticky.mode,
            indirect: sticky.indirect,
            no_cache: sticky.no_cache,
            post_only: sticky.post_only,
            max_idle: sticky.max_idle,
            max_life: sticky.max_life,
            preserve: sticky.preserve,
            attributes: attributes.into(),
        }
    }

    /// The endpoint at the end of a chain of those that take their health from one another.
    fn tracked(&self, first: &(String, String)) -> EndpointKey {
        let pools = &self.model.pools;
        let next = |(pool, name): &(String, String)| {
            let pool = pools.iter().find(|one| one.name == *pool)?;
            pool.endpoints.iter().find(|one| one.name == *name)?.tracks.clone()
        };
        let all: usize = pools.iter().map(|pool| pool.endpoints.len()).sum();
        // A circle ends somewhere, too.
        let chain = std::iter::successors(Some(first.clone()), next).take(all.max(1));
        let (pool, name) = chain.last().unwrap_or_else(|| first.clone());
        EndpointKey::of(PoolId::from_name(&pool), &name)
    }

    fn health_check(&mut self, check: &'m model::HealthCheck) -> plan::HealthCheck {
        plan::HealthCheck {
            steps: check.steps.iter().map(|step| step.map(&mut |pattern| self.pattern(pattern))).collect(),
            interval: check.interval,
            jitter: check.jitter,
            fast_interval: check.fast_interval,
            down_interval: check.down_interval,
            timeout: check.timeout,
            rise: check.rise,
            fall: check.fall,
            tls: check.tls.as_ref().map(|tls| self.upstream_tls(tls)),
            first: check.first,
            drains_on_404: check.drains_on_404,
            observe: check.observe,
        }
    }

    pub(crate) fn upstream_tls(&mut self, tls: &model::UpstreamTls) -> UpstreamTlsUse {
        let config = plan::UpstreamTls {
            verify: tls.verify,
            send_name: tls.send_name,
            any_name: tls.any_name,
            ca: tls.ca.as_ref().and_then(|pem| self.certificates("the CA file", pem)),
            crl: tls.crl.as_ref().and_then(|pem| self.pem("the revocation list", pem)),
            depth: tls.depth,
            certificate: tls.certificate.as_ref().and_then(|certificate| self.certificate(certificate)),
            versions: tls.versions.clone(),
            suites: tls.suites.clone(),
            suites13: tls.suites13.clone(),
            groups: tls.groups.clone(),
            session_reuse: tls.session_reuse,
            alpn: tls.alpn.clone(),
        };
        let (config, new) = self.upstream_tls_ix(config);
        if new {
            let faults = self.resources.client_tls_faults(self.plan.upstream_tls(config));
            self.report_faults(
                faults,
                &crate::tls::Written {
                    certificates: tls.certificate.as_slice(),
                    ca: tls.ca.as_slice(),
                    list: tls.crl.as_ref(),
                },
            );
        }
        let named = tls.named.as_ref().map(|one| Arc::new(self.named_certificate(one)));
        UpstreamTlsUse { config, name: self.optional_template(tls.name.as_ref()), named }
    }

    pub(crate) fn resolver(&mut self, resolver: &'m model::Resolver) -> Arc<plan::Resolver> {
        if let Some(known) = self.shared.resolver.find(resolver) {
            return known;
        }
        let mut servers = resolver.servers.clone();
        for (host, port) in &resolver.named_servers {
            let found = self.resources.addresses(host);
            if found.is_empty() {
                let title = format!("the name server `{host}` did not resolve and is not used");
                self.report_once(host, Diagnostic::warning("resolver::name-unresolved", title));
            }
            servers.extend(found.into_iter().map(|ip| std::net::SocketAddr::from((ip, *port))));
        }
        let compiled = plan::Resolver {
            servers,
            valid: resolver.valid,
            timeout: resolver.timeout,
            attempts: resolver.attempts,
            again: resolver.again,
            holds: resolver.holds,
            ipv4: resolver.ipv4,
            ipv6: resolver.ipv6,
            zone: resolver.zone.as_deref().map(|name| {
                self.counted(name, plan::CountedKind::Resolver);
                name.into()
            }),
        };
        self.shared.resolver.keep(resolver, Arc::new(compiled))
    }
}

/// Keys are unique in a pool even where a file names one server twice.
fn unique_key(pool: PoolId, name: &str, taken: &mut HashSet<EndpointKey>) -> EndpointKey {
    let mut key = EndpointKey::of(pool, name);
    let mut copy = 2;
    while !taken.insert(key) {
        key = EndpointKey::of(pool, &format!("{name}#{copy}"));
        copy += 1;
    }
    key
}

fn guards(pool: &model::Pool) -> Option<Box<plan::Guards>> {
    let guards = plan::Guards { max_pending: pool.max_pending.unwrap_or(0), retry_budget: pool.retry_budget };
    let none = guards.max_pending == 0 && guards.retry_budget.is_none();
    (!none).then(|| Box::new(guards))
}

fn endpoint_config(
    pool: &model::Pool,
    endpoint: &model::Endpoint,
    key: EndpointKey,
    at: u32,
    unresolved: bool,
) -> EndpointConfig {
    EndpointConfig {
        key,
        name: endpoint.name.as_str().into(),
        id: endpoint.id.unwrap_or(at),
        weight: if endpoint.drain { 0 } else { endpoint.weight },
        drains: endpoint.drain.then_some(endpoint.weight),
        backup: endpoint.backup,
        down: endpoint.down || unresolved,
        max_fails: endpoint.max_fails,
        fail_timeout: endpoint.fail_timeout,
        max_conns: endpoint.max_connections.unwrap_or(0),
        slow_start: endpoint.slow_start.unwrap_or_default(),
        near: pool.locality.as_ref().is_some_and(|here| endpoint.zone.as_ref() == Some(&here.zone)),
    }
}
