//! The endpoints of a pool: those that a configuration writes, and those that there are.
//!
//! Owns: [`EndpointSet`], and the making of one out of another: once the addresses of its names are known, or out of
//! endpoints that were given while running.
//! Never: looks a name up, keeps state: that is under the endpoints' keys.
//! Driven by: `lower` for the written set; the engine, which replaces the set of one pool under live traffic.
//! Why: endpoints change by themselves, more often than configurations. A set stands beside the plan and is replaced
//! alone, without a new plan, new TLS settings or a cut connection.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use sha2::Sha256;
use weir_control::changes::NewEndpoint;
use weir_control::{EndpointKey, PoolId, Spot};
use weir_expr::check::{AgentCheck, Cuts};
use weir_expr::settings::{ProxyProtocol, Spread};
use weir_policy::pool::{EndpointConfig, PoolConfig};

use crate::pool::{HealthCheck, HostPort, Resolver, show_config};
use crate::{Address, UpstreamTlsUse};

/// Endpoints, and how one of them is chosen. Immutable: a change is another set.
#[derive(Clone, Debug, Serialize)]
pub struct EndpointSet {
    /// Method, weights, limits of failures; what `policy` chooses by. Its endpoints are `endpoints`, in order.
    #[serde(serialize_with = "show_config")]
    pub config: Arc<PoolConfig>,
    /// In the order of `config`. A name with several addresses became several.
    pub endpoints: Vec<Endpoint>,
    /// What endpoints that are given while running have where nothing else is said; `None`: what the first one has.
    #[serde(skip)]
    pub fresh: Option<Arc<Fresh>>,
    /// Makes the cookies of endpoints that were given none.
    #[serde(skip)]
    pub cookies: Option<Arc<CookieKey>>,
}

/// Makes values of cookies of endpoints' keys. Without the secret they tell nothing: neither an address, nor whether two files mean
/// the same endpoint.
pub struct CookieKey(Hmac<Sha256>);

impl std::fmt::Debug for CookieKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CookieKey")
    }
}

impl CookieKey {
    /// Of a secret of any length.
    pub fn new(secret: &[u8]) -> Option<Self> {
        Hmac::new_from_slice(secret).ok().map(Self)
    }

    /// The value for an endpoint: 96 bits in 24 hexadecimal digits.
    pub fn value(&self, key: EndpointKey) -> Box<str> {
        let sum = self.0.clone().chain_update(key.0.to_be_bytes()).finalize().into_bytes();
        sum[..12].iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
    }
}

/// What endpoints that are given while running have where nothing else is said.
#[derive(Clone, Debug)]
pub struct Fresh {
    /// Weight, limits.
    pub config: EndpointConfig,
    /// The rest.
    pub endpoint: Endpoint,
    /// Who is asked for names.
    pub resolver: Option<Arc<Resolver>>,
}

/// One endpoint.
#[derive(Clone, Debug, Serialize)]
pub struct Endpoint {
    /// Stable key, from the pool's name, the endpoint's name and (where the name became several) the address.
    pub key: EndpointKey,
    /// For people, metrics and HAProxy's `%s`: as written.
    pub name: Box<str>,
    /// Where it is; `None`: its name did not resolve, and it is down until it does.
    pub address: Option<Address>,
    /// What of its address is the client's to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follows: Option<weir_expr::Follows>,
    /// Connections to it go through a proxy of SOCKS 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socks: Option<weir_expr::Socks>,
    /// The name it came from, if it was a name.
    pub host: Option<HostPort>,
    /// Its name is looked up while running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolve: Option<Arc<Resolve>>,
    /// Exchanges that may wait for this endpoint.
    pub max_queue: Option<u32>,
    /// TLS to this endpoint.
    pub tls: Option<UpstreamTlsUse>,
    /// PROXY header sent first.
    pub send_proxy: Option<ProxyProtocol>,
    /// Active checks.
    pub check: Option<Arc<HealthCheck>>,
    /// Further ones: it is up while all of them have it up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub more_checks: Vec<Arc<HealthCheck>>,
    /// A program beside it that says how it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Arc<AgentCheck>>,
    /// The endpoint whose health is its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracks: Option<EndpointKey>,
    /// What is cut when it goes up or down.
    #[serde(skip_serializing_if = "Cuts::are_none")]
    pub cuts: Cuts,
    /// Value of the sticky cookie.
    pub cookie: Option<Box<str>>,
    /// What was asked of it before this process began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begins: Option<weir_expr::settings::Begins>,
}

impl Endpoint {
    /// Whether somebody asks how it is.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.check.is_some() || self.agent.is_some()
    }

    /// Its active checks, in order.
    pub fn checks(&self) -> impl Iterator<Item = &Arc<HealthCheck>> {
        self.check.iter().chain(&self.more_checks)
    }
}

/// A name that is looked up while running.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Resolve {
    /// The name.
    pub host: Box<str>,
    /// The port at each of its addresses.
    pub port: u16,
    /// Whom to ask.
    pub resolver: Arc<Resolver>,
    /// What becomes of several addresses.
    pub spread: Spread,
    /// Its service records (RFC 2782) are asked for, which say the ports.
    pub services: bool,
    /// It is out of service by the configuration.
    pub down: bool,
}

impl Resolve {
    /// The name and who is asked for it, in words: what was learnt of it is worth as much as those are trusted.
    pub fn described(&self) -> String {
        let Resolver { servers, ipv4, ipv6, .. } = &*self.resolver;
        let families = match (ipv4, ipv6) {
            (true, false) => " ipv4",
            (false, true) => " ipv6",
            _ => "",
        };
        let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
        let servers = if servers.is_empty() { "the system".to_owned() } else { servers.join(",") };
        let services = if self.services { " services" } else { "" };
        format!("{} by {servers}{families}{services}", self.host.to_ascii_lowercase())
    }
}

impl Endpoint {
    /// Under what its connections are kept: one that carried requests to an address never serves another, though the
    /// endpoint, a server with a name, is the same.
    pub fn link(&self) -> EndpointKey {
        match &self.address {
            Some(address) => EndpointKey::of(PoolId(self.key.0), &address.to_string()),
            None => self.key,
        }
    }
}

/// Weight, limits and number as they were given, where they were.
fn given_settings(config: &mut EndpointConfig, given: &NewEndpoint) {
    let ms = std::time::Duration::from_millis;
    let weight = given.weight.or(config.drains).unwrap_or(config.weight);
    let drain = given.drain.unwrap_or(config.drains.is_some());
    (config.weight, config.drains) = if drain { (0, Some(weight)) } else { (weight, None) };
    config.backup = given.backup.unwrap_or(config.backup);
    config.id = given.id.unwrap_or(config.id);
    config.max_conns = given.max_connections.unwrap_or(config.max_conns);
    config.max_fails = given.max_fails.unwrap_or(config.max_fails);
    config.fail_timeout = given.fail_timeout_ms.map_or(config.fail_timeout, ms);
    config.slow_start = given.slow_start_ms.map_or(config.slow_start, ms);
}

/// Where an endpoint is, and the weight that it has for that.
#[derive(Clone, Copy)]
struct Taken {
    address: SocketAddr,
    weight: Option<u32>,
}

impl EndpointSet {
    /// The index of the endpoint with this key.
    pub fn index_of(&self, key: EndpointKey) -> Option<usize> {
        self.endpoints.iter().position(|endpoint| endpoint.key == key)
    }

    /// Whether any name of it is looked up while running.
    pub fn resolves(&self) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.resolve.is_some())
    }

    /// These endpoints, given while running, in place of those of this set, which was written. One that is written under the
    /// same name keeps its settings where no others are given; a new one has those of the first endpoint, but for its share.
    ///
    /// # Errors
    /// An address that is none; a name that is none, or used twice; a name to look up where nobody is to be asked.
    pub fn replaced_by(&self, pool: PoolId, given: &[NewEndpoint]) -> Result<EndpointSet, String> {
        let mut taken: HashSet<EndpointKey> = HashSet::new();
        let (mut configs, mut endpoints) = (Vec::new(), Vec::new());
        let mut next_id = self.config.endpoints().iter().map(|config| config.id).max().unwrap_or(0);
        for one in given {
            let key = EndpointKey::of(pool, &one.name);
            if one.name.is_empty() || !taken.insert(key) {
                return Err(format!("`{}` is no name of an endpoint, or that of two", one.name));
            }
            let written = self.endpoints.iter().zip(self.config.endpoints());
            let mut written = written.map(|(endpoint, config)| (config, endpoint));
            let same = written.find(|(config, _)| config.key == key);
            let fresh = self.fresh.as_deref().map(|fresh| (&fresh.config, &fresh.endpoint));
            let like =
                same.or(fresh).or_else(|| Some((self.config.endpoints().first()?, self.endpoints.first()?)));
            let mut config =
                like.map_or_else(|| EndpointConfig::new(key, &one.name), |(config, _)| config.clone());
            if same.is_none() {
                next_id += 1;
                config = EndpointConfig {
                    name: one.shown.as_deref().unwrap_or(&one.name).into(),
                    id: next_id,
                    weight: 1,
                    drains: None,
                    backup: false,
                    ..config
                };
            }
            // It is given to be used, where nothing else is said; draining it is another change.
            config = EndpointConfig { key, down: one.down.unwrap_or(false), ..config };
            given_settings(&mut config, one);
            let like = like.map(|(_, endpoint)| endpoint);
            endpoints.push(self.like(like, same.is_some(), (key, config.down), one)?);
            configs.push(config);
        }
        let config = PoolConfig::new(self.config.balance(), self.config.options(), configs);
        Ok(EndpointSet { config: Arc::new(config), endpoints, ..self.clone() })
    }

    /// An endpoint that was given, with the settings of the one that it is `like`.
    fn like(
        &self,
        like: Option<&Endpoint>,
        same: bool,
        (key, down): (EndpointKey, bool),
        given: &NewEndpoint,
    ) -> Result<Endpoint, String> {
        // Clients stay at one endpoint, so each has a cookie of its own, if any has one.
        let cookie = like.and_then(|like| like.cookie.as_ref()).map(|cookie| match (same, &self.cookies) {
            (true, _) => cookie.clone(),
            (false, Some(cookies)) => cookies.value(key),
            (false, None) => format!("{:016x}", key.0).into(),
        });
        let cookie = given.cookie.as_deref().map(Box::from).or(cookie);
        let named = (given.resolve == Some(true)).then(|| self.named(given, down)).transpose()?;
        let address = match named {
            Some(_) => None,
            None => Some(given.address.parse().map_err(|error| format!("{}: {error}", given.name))?),
        };
        Ok(Endpoint {
            begins: like.filter(|_| same).and_then(|like| like.begins),
            key,
            name: given.shown.as_deref().unwrap_or(&given.name).into(),
            follows: like
                .filter(|like| same && address.is_some() && like.address == address)
                .and_then(|like| like.follows),
            address,
            host: named.as_ref().map(|one| HostPort { host: one.host.clone(), port: one.port }),
            resolve: named.map(Arc::new),
            max_queue: like.and_then(|like| like.max_queue),
            tls: like.and_then(|like| like.tls.clone()),
            socks: like.and_then(|like| like.socks),
            send_proxy: like.and_then(|like| like.send_proxy),
            check: like.and_then(|like| like.check.clone()),
            more_checks: like.map(|like| like.more_checks.clone()).unwrap_or_default(),
            agent: like.and_then(|like| like.agent.clone()),
            tracks: like.and_then(|like| like.tracks),
            cuts: like.map(|like| like.cuts).unwrap_or_default(),
            cookie,
        })
    }

    /// The name that an endpoint was given by.
    fn named(&self, given: &NewEndpoint, down: bool) -> Result<Resolve, String> {
        let written = self.endpoints.iter().find_map(|one| Some(one.resolve.as_ref()?.resolver.clone()));
        let resolver = self.fresh.as_ref().and_then(|fresh| fresh.resolver.clone()).or(written);
        let Some(resolver) = resolver else {
            return Err(format!("no resolver defined to resolve {}", given.address));
        };
        let (host, port) = given.address.rsplit_once(':').unwrap_or((&given.address, ""));
        let port = port.parse().map_err(|_| format!("{}: `{}` has no port", given.name, given.address))?;
        Ok(Resolve { host: host.into(), port, resolver, spread: Spread::Each, services: false, down })
    }

    /// These endpoints as they would be given, with all that is known of them.
    pub fn as_given(&self, pool: PoolId) -> Vec<NewEndpoint> {
        let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let one = |(endpoint, config): (&Endpoint, &EndpointConfig)| {
            let address = endpoint.address.as_ref().map(ToString::to_string);
            let named = endpoint.resolve.as_ref().map(|one| format!("{}:{}", one.host, one.port));
            let address = named.clone().or(address).unwrap_or_default();
            // What is unique is the key: that of the name, or of the name and the address.
            let long = format!("{}@{address}", endpoint.name);
            let name = match EndpointKey::of(pool, &endpoint.name) == endpoint.key {
                true => endpoint.name.to_string(),
                false if EndpointKey::of(pool, &long) == endpoint.key => long,
                false => format!("{}#{}", endpoint.name, config.id),
            };
            NewEndpoint {
                shown: (name != *endpoint.name).then(|| endpoint.name.to_string()),
                name,
                address,
                weight: Some(config.drains.unwrap_or(config.weight)),
                backup: Some(config.backup),
                id: Some(config.id),
                max_connections: Some(config.max_conns),
                max_fails: Some(config.max_fails),
                fail_timeout_ms: Some(ms(config.fail_timeout)),
                slow_start_ms: Some(ms(config.slow_start)),
                down: Some(endpoint.resolve.as_ref().map_or(config.down, |one| one.down)),
                drain: Some(config.drains.is_some()),
                cookie: endpoint.cookie.as_deref().map(str::to_owned),
                resolve: Some(named.is_some()),
            }
        };
        self.endpoints.iter().zip(self.config.endpoints()).map(one).collect()
    }

    /// This set, as it was written, with its names at the addresses that they have now. `found` says `None` of a name that
    /// nothing is known of. `now`: the set in use, whose endpoints keep their address where they can.
    #[must_use]
    pub fn at(
        &self,
        pool: PoolId,
        now: &EndpointSet,
        found: impl Fn(&Resolve) -> Option<Vec<Spot>>,
    ) -> EndpointSet {
        let mut taken: HashSet<EndpointKey> = HashSet::new();
        let (mut configs, mut endpoints) = (Vec::new(), Vec::new());
        let mut places = self.places(now, &found).into_iter();
        for (config, endpoint) in self.config.endpoints().iter().zip(&self.endpoints) {
            let place: Option<Taken> = places.next().flatten();
            let Some(resolve) = &endpoint.resolve else {
                taken.insert(endpoint.key);
                configs.push(config.clone());
                endpoints.push(endpoint.clone());
                continue;
            };
            if let Spread::One(_) = resolve.spread {
                let down = resolve.down || place.is_none();
                let weight = place.and_then(|place| place.weight).unwrap_or(config.weight);
                configs.push(EndpointConfig { down, weight, ..config.clone() });
                let address = place.map(|place| Address::Tcp(place.address));
                endpoints.push(Endpoint { address, ..endpoint.clone() });
                continue;
            }
            for spot in found(resolve).unwrap_or_default() {
                let address = Address::Tcp((spot.ip(), spot.port().unwrap_or(resolve.port)).into());
                // A line that is a backup has no backups of its own.
                if spot.is_backup() && config.backup {
                    continue;
                }
                let key = EndpointKey::of(pool, &format!("{}@{address}", endpoint.name));
                if !taken.insert(key) {
                    continue;
                }
                // One cookie for each, so that clients stay at an address and not at a name.
                let cookie = endpoint.cookie.as_ref().map(|own| match &self.cookies {
                    Some(cookies) => cookies.value(key),
                    None => format!("{own}{:08x}", key.0 >> 32).into(),
                });
                // nginx's: a weight that is written stands above the records'.
                let told = spot.weight().map(|weight| u32::from(weight).max(1));
                let weight = told.filter(|_| config.weight == 1).unwrap_or(config.weight);
                let backup = config.backup || spot.is_backup();
                configs.push(EndpointConfig { key, down: resolve.down, weight, backup, ..config.clone() });
                endpoints.push(Endpoint { key, address: Some(address), cookie, ..endpoint.clone() });
            }
        }
        let config = PoolConfig::new(self.config.balance(), self.config.options(), configs);
        EndpointSet { config: Arc::new(config), endpoints, ..self.clone() }
    }

    /// Where each endpoint is that has one address of its name, HAProxy's way: the better family first, then the address that it
    /// has, and none that another endpoint of the same name has.
    fn places(&self, now: &EndpointSet, found: impl Fn(&Resolve) -> Option<Vec<Spot>>) -> Vec<Option<Taken>> {
        let current = |endpoint: &Endpoint| {
            let known = now.index_of(endpoint.key).map_or(endpoint, |at| &now.endpoints[at]);
            match &known.address {
                Some(Address::Tcp(address)) => Some(Taken { address: *address, weight: None }),
                _ => None,
            }
        };
        let mut places: Vec<Option<Taken>> = self.endpoints.iter().map(current).collect();
        for at in 0..places.len() {
            let Some(resolve) = &self.endpoints[at].resolve else { continue };
            let Spread::One(choice) = resolve.spread else { continue };
            let Some(ips) = found(resolve) else { continue };
            let own = places[at].map(|own| own.address);
            let others = |place: SocketAddr| {
                let before = self.endpoints[..at].iter().zip(&places);
                // Those behind keep theirs too, but for one that is ours by right of coming first.
                let behind = self.endpoints[at + 1..].iter().zip(&places[at + 1..]);
                let behind = behind.filter(|_| own != Some(place));
                let same =
                    |one: &Endpoint| one.resolve.as_ref().is_some_and(|other| other.host == resolve.host);
                before
                    .chain(behind)
                    .any(|(one, other)| same(one) && other.is_some_and(|other| other.address == place))
            };
            let candidates = ips.iter().map(|spot| Taken {
                address: SocketAddr::new(spot.ip(), spot.port().unwrap_or(resolve.port)),
                // HAProxy's weights go to 256.
                weight: spot
                    .weight()
                    .filter(|_| !choice.own_weight)
                    .map(|weight| u32::from(weight) / 256 + 1),
            });
            let free = candidates.filter(|place| choice.share || !others(place.address));
            // Of equals the first.
            let best = free.min_by_key(|place| {
                (place.address.is_ipv4() != choice.ipv4_first, own != Some(place.address))
            });
            places[at] = best;
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use weir_expr::settings::AddressChoice;
    use weir_policy::pool::{Balance, PoolOptions};

    use super::*;

    const POOL: PoolId = PoolId(7);

    fn ips(list: &[&str]) -> Vec<Spot> {
        list.iter().map(|ip| Spot::Address(ip.parse().unwrap())).collect()
    }

    fn written(lines: &[(&str, Option<Spread>)]) -> EndpointSet {
        let (mut configs, mut endpoints) = (Vec::new(), Vec::new());
        for (name, spread) in lines {
            let key = EndpointKey::of(POOL, name);
            let weight = configs.len() as u32 + 1;
            let down = spread.is_some();
            configs.push(EndpointConfig { weight, down, ..EndpointConfig::new(key, name) });
            let resolver = Arc::new(Resolver {
                servers: Vec::new(),
                valid: None,
                timeout: std::time::Duration::from_secs(1),
                ipv4: true,
                ipv6: true,
                zone: None,
                attempts: 2,
                again: std::time::Duration::from_secs(1),
                holds: None,
            });
            let resolve = spread.map(|spread| {
                Arc::new(Resolve {
                    host: "app.test".into(),
                    port: 80,
                    resolver,
                    spread,
                    services: false,
                    down: false,
                })
            });
            endpoints.push(Endpoint {
                begins: None,
                follows: None,
                socks: None,
                key,
                name: (*name).into(),
                address: resolve.is_none().then(|| Address::Tcp(([192, 0, 2, 1], 80).into())),
                host: None,
                resolve,
                max_queue: None,
                tls: None,
                send_proxy: None,
                check: None,
                more_checks: Vec::new(),
                agent: None,
                tracks: None,
                cuts: Cuts::default(),
                cookie: None,
            });
        }
        let config = PoolConfig::new(Balance::RoundRobin, PoolOptions::default(), configs);
        EndpointSet { config: Arc::new(config), endpoints, fresh: None, cookies: None }
    }

    fn shown(set: &EndpointSet) -> Vec<(String, String, u32, bool)> {
        let configs = set.config.endpoints().iter();
        let each = set.endpoints.iter().zip(configs).map(|(one, config)| {
            assert_eq!(one.key, config.key);
            let address = one.address.as_ref().map_or_else(String::new, ToString::to_string);
            (one.name.to_string(), address, config.weight, config.down)
        });
        each.collect()
    }

    #[test]
    fn each_address_of_a_line_is_an_endpoint_with_its_weight() {
        let written = written(&[("fixed", None), ("app.test", Some(Spread::Each))]);
        let nothing = written.at(POOL, &written, |_| None);
        assert_eq!(shown(&nothing), [("fixed".into(), "192.0.2.1:80".into(), 1, false)]);
        let two = written.at(POOL, &nothing, |_| Some(ips(&["192.0.2.8", "2001:db8::1", "192.0.2.8"])));
        assert_eq!(
            shown(&two)[1..],
            [
                ("app.test".into(), "192.0.2.8:80".into(), 2, false),
                ("app.test".into(), "[2001:db8::1]:80".into(), 2, false)
            ]
        );
        let moved = written.at(POOL, &two, |_| Some(ips(&["192.0.2.9", "192.0.2.8"])));
        assert_eq!(moved.endpoints[2].key, two.endpoints[1].key, "state follows the address");
        assert_ne!(moved.endpoints[1].key, two.endpoints[1].key);
    }

    fn service(last: u8, port: u16, weight: u16, backup: bool) -> Spot {
        Spot::Service { ip: [192, 0, 2, last].into(), port, weight, backup }
    }

    #[test]
    fn service_records_say_ports_weights_and_who_stands_behind() {
        let records =
            || Some(vec![service(8, 8080, 5, false), service(8, 8081, 0, false), service(9, 8080, 7, true)]);
        let facts = |set: &EndpointSet| -> Vec<(String, u32, bool)> {
            let places = shown(set).into_iter().map(|one| one.1);
            let configs = set.config.endpoints().iter().map(|config| (config.weight, config.backup));
            places.zip(configs).map(|(place, (weight, backup))| (place, weight, backup)).collect()
        };
        let each = written(&[("app.test", Some(Spread::Each))]);
        let expected =
            [("192.0.2.8:8080", 5, false), ("192.0.2.8:8081", 1, false), ("192.0.2.9:8080", 7, true)];
        let expected = expected.map(|(place, weight, backup)| (place.to_owned(), weight, backup));
        assert_eq!(facts(&each.at(POOL, &each, |_| records())), expected);
        // The second line has a weight of its own, here 2.
        let heavy = written(&[("fixed", None), ("app.test", Some(Spread::Each))]);
        assert!(facts(&heavy.at(POOL, &heavy, |_| records()))[1..].iter().all(|one| one.1 == 2));
        let one = Some(Spread::One(AddressChoice::default()));
        let slots = written(&[("s1", one), ("s2", one), ("s3", one), ("s4", one)]);
        let set =
            slots.at(POOL, &slots, |_| Some(vec![service(8, 8080, 512, false), service(8, 8081, 0, false)]));
        assert_eq!(
            facts(&set)[..2],
            [("192.0.2.8:8080".to_owned(), 3, false), ("192.0.2.8:8081".to_owned(), 1, false)]
        );
        assert_eq!(facts(&set)[2].0, "");
    }

    #[test]
    fn servers_of_one_name_share_its_addresses_out() {
        let one = Some(Spread::One(AddressChoice::default()));
        let written = written(&[("s1", one), ("s2", one), ("s3", one)]);
        let places = |set: &EndpointSet| -> Vec<String> { shown(set).into_iter().map(|one| one.1).collect() };
        let unknown = written.at(POOL, &written, |_| None);
        assert!(
            shown(&unknown).iter().all(|one| one.1.is_empty() && one.3),
            "down until there is an address"
        );
        let two = unknown.at(POOL, &unknown, |_| Some(ips(&["192.0.2.8", "192.0.2.9"])));
        assert_eq!(places(&two), ["192.0.2.8:80", "192.0.2.9:80", ""]);
        assert_eq!(shown(&two).iter().map(|one| one.3).collect::<Vec<_>>(), [false, false, true]);
        // The order of an answer moves nobody; an address that left is replaced by one that nobody has.
        let three = written.at(POOL, &two, |_| Some(ips(&["192.0.2.7", "192.0.2.9"])));
        assert_eq!(places(&three), ["192.0.2.7:80", "192.0.2.9:80", ""]);
        assert_eq!(three.endpoints[0].key, two.endpoints[0].key, "a server is its name");
        assert_ne!(
            three.endpoints[0].link(),
            two.endpoints[0].link(),
            "and its connections are of an address"
        );
        let gone = written.at(POOL, &three, |_| Some(Vec::new()));
        assert_eq!(places(&gone), ["", "", ""]);
    }

    #[test]
    fn families_are_preferred_and_addresses_shared_as_told() {
        let choice = AddressChoice { ipv4_first: true, share: true, own_weight: false };
        let written = written(&[("s1", Some(Spread::One(choice))), ("s2", Some(Spread::One(choice)))]);
        let set = written.at(POOL, &written, |_| Some(ips(&["2001:db8::1", "192.0.2.8"])));
        assert!(shown(&set).iter().all(|one| one.1 == "192.0.2.8:80"));
        let six = Some(Spread::One(AddressChoice::default()));
        let written = self::written(&[("s1", six)]);
        let set = written.at(POOL, &written, |_| Some(ips(&["192.0.2.8", "2001:db8::1"])));
        assert_eq!(shown(&set)[0].1, "[2001:db8::1]:80");
    }

    #[test]
    fn endpoints_that_are_given_take_the_settings_of_those_that_are_written() {
        let written = written(&[("s1", None), ("s2", None)]);
        let given = |name: &str, address: &str, weight| NewEndpoint {
            name: name.into(),
            address: address.into(),
            weight,
            ..NewEndpoint::default()
        };
        let set = written
            .replaced_by(
                POOL,
                &[
                    given("s2", "192.0.2.9:80", None),
                    given("s3", "unix:/run/s3", None),
                    given("s4", "[2001:db8::1]:8080", Some(7)),
                ],
            )
            .unwrap();
        assert_eq!(
            shown(&set),
            [
                ("s2".into(), "192.0.2.9:80".into(), 2, false),
                ("s3".into(), "unix:/run/s3".into(), 1, false),
                ("s4".into(), "[2001:db8::1]:8080".into(), 7, false),
            ]
        );
        assert_eq!(set.endpoints[0].key, written.endpoints[1].key, "its state goes on");
        for wrong in
            [given("", "192.0.2.9:80", None), given("s9", "192.0.2.9", None), given("s9", "unix:", None)]
        {
            assert!(written.replaced_by(POOL, &[wrong]).is_err());
        }
        let twice = given("s9", "192.0.2.9:80", None);
        assert!(written.replaced_by(POOL, &[twice.clone(), twice]).is_err());
        assert!(written.replaced_by(POOL, &[]).unwrap().endpoints.is_empty());
    }
}
