//! The tree of endpoints: which there are, since which version, and what they take.

use serde_json::{Map, Value, json};
use weir_control::snapshot::Snapshot;

use super::fault::Fault;
use super::fields::Fields;
use super::request::{Answer, Backend, NEWEST, Request};
use super::reset::Resets;
use super::servers::Servers;
use super::{figures, keyvals, peers};

/// Endpoints below the version, with the version that brought them.
const ROOT: [(&str, u8); 9] = [
    ("nginx", 1),
    ("processes", 1),
    ("connections", 1),
    ("slabs", 1),
    ("http", 1),
    ("stream", 1),
    ("resolvers", 5),
    ("ssl", 1),
    ("workers", 9),
];

/// Those below `http`.
const HTTP: [(&str, u8); 8] = [
    ("requests", 1),
    ("server_zones", 1),
    ("location_zones", 5),
    ("caches", 1),
    ("limit_conns", 6),
    ("limit_reqs", 6),
    ("keyvals", 1),
    ("upstreams", 1),
];

/// Those below `stream`.
const STREAM: [(&str, u8); 4] = [("server_zones", 1), ("limit_conns", 6), ("keyvals", 2), ("upstreams", 1)];

/// What a request is answered from.
struct Walk<'a> {
    request: &'a Request<'a>,
    snapshot: &'a Snapshot,
    backend: &'a dyn Backend,
    resets: &'a Resets,
    version: u8,
    fields: Fields,
}

/// Answers a request; `version` becomes that of its path.
pub(super) fn walk(
    request: &Request<'_>,
    snapshot: &Snapshot,
    backend: &dyn Backend,
    resets: &Resets,
    version: &mut u8,
) -> Result<Answer, Fault> {
    let request =
        &Request { method: if request.method == "HEAD" { "GET" } else { request.method }, ..*request };
    let parts: Vec<&str> = request.path.split('/').filter(|part| !part.is_empty()).collect();
    let reads = request.method == "GET";
    let Some((named, rest)) = parts.split_first() else {
        let versions: Vec<u8> = (1..=NEWEST).collect();
        return if reads { Ok(Answer::Object(json!(versions))) } else { Err(Fault::method()) };
    };
    let known =
        named.parse::<u8>().ok().filter(|known| (1..=NEWEST).contains(known) && *named == known.to_string());
    *version = known.ok_or_else(|| Fault::missing("UnknownVersion", "unknown version"))?;
    if !reads && !request.writes {
        return Err(Fault::method());
    }
    let fields = Fields::of(request.query);
    let mut walk = Walk { request, snapshot, backend, resets, version: *version, fields };
    let answer = walk.root(rest)?;
    Ok(match answer {
        // Where it is, for whoever made it: below the path by which the client came.
        Answer::Created(Some((path, object))) => {
            Answer::Created(Some((format!("{}/{}/{path}", request.base, walk.version), object)))
        }
        other => other,
    })
}

impl Walk<'_> {
    fn reads(&self) -> bool {
        self.request.method == "GET"
    }

    fn names(&self, all: &[(&str, u8)]) -> Result<Answer, Fault> {
        if !self.reads() {
            return Err(Fault::method());
        }
        let there = |name: &str| name != "stream" || self.has_stream();
        let names = all.iter().filter(|(name, since)| *since <= self.version && there(name));
        Ok(Answer::Object(names.map(|(name, _)| *name).collect()))
    }

    /// Whether anything of stream is configured.
    fn has_stream(&self) -> bool {
        self.snapshot.sites.iter().any(|site| site.mode == "tcp")
            || peers::groups(self.snapshot, true).next().is_some()
            || self.backend.keyvals().iter().any(|store| store.tcp())
    }

    fn root(&mut self, rest: &[&str]) -> Result<Answer, Fault> {
        let Some((first, rest)) = rest.split_first() else { return self.names(&ROOT) };
        let since = ROOT.iter().chain(&[("license", 9)]).find(|(name, _)| name == first);
        if since.is_none_or(|(_, since)| *since > self.version) {
            return Err(Fault::path());
        }
        let snapshot = self.snapshot;
        match (*first, rest) {
            ("nginx", []) => self.plain(figures::instance(self.request, snapshot)),
            ("license", []) => self.plain(figures::license()),
            ("processes", []) => {
                self.counted("processes", json!({ "respawned": snapshot.process.worker_deaths }))
            }
            ("connections", []) => {
                self.counted("connections", figures::connections(&snapshot.process.connections))
            }
            ("ssl", []) => self.counted("ssl", figures::tls(&snapshot.process.tls)),
            ("slabs", rest) => self.map(
                "slabs",
                rest,
                figures::slabs(snapshot, &self.backend.keyvals()),
                ("SlabNotFound", "slab not found"),
            ),
            ("resolvers", rest) => {
                let all = snapshot.zones.resolvers.iter();
                let all = all.map(|zone| (zone.name.clone(), figures::resolver(zone))).collect();
                self.map("resolvers", rest, all, ("ResolverZoneNotFound", "resolver zone not found"))
            }
            ("workers", rest) => self.workers(rest),
            ("http", rest) => self.http(rest),
            ("stream", rest) if self.has_stream() => self.stream(rest),
            _ => Err(Fault::path()),
        }
    }

    fn http(&mut self, rest: &[&str]) -> Result<Answer, Fault> {
        let Some((first, rest)) = rest.split_first() else { return self.names(&HTTP) };
        if HTTP.iter().find(|(name, _)| name == first).is_none_or(|(_, since)| *since > self.version) {
            return Err(Fault::path());
        }
        let (zones, version) = (&self.snapshot.zones, self.version);
        match (*first, rest) {
            ("requests", []) => self.counted("http/requests", figures::requests(self.snapshot)),
            ("server_zones", rest) => {
                let all =
                    zones.sites.iter().map(|zone| (zone.name.clone(), figures::site_zone(zone, version)));
                self.map("http/server_zones", rest, all.collect(), SERVER_ZONE)
            }
            ("location_zones", rest) => {
                let all =
                    zones.routes.iter().map(|zone| (zone.name.clone(), figures::route_zone(zone, version)));
                let missing = ("LocationZoneNotFound", "location zone not found");
                self.map("http/location_zones", rest, all.collect(), missing)
            }
            ("caches", rest) => {
                let all = zones.caches.iter().map(|zone| (zone.name.clone(), figures::cache(zone)));
                self.map("http/caches", rest, all.collect(), ("CacheNotFound", "cache not found"))
            }
            ("limit_reqs", rest) => {
                let all = zones.rates.iter().map(|zone| (zone.name.clone(), figures::rate_zone(zone)));
                self.map("http/limit_reqs", rest, all.collect(), ("LimitReqNotFound", "limit_req not found"))
            }
            ("limit_conns", rest) => self.concurrency(rest, false),
            ("keyvals", rest) => keyvals::answer(self.request, rest, false, version, self.backend),
            ("upstreams", rest) => self.upstreams(rest, false),
            _ => Err(Fault::path()),
        }
    }

    fn stream(&mut self, rest: &[&str]) -> Result<Answer, Fault> {
        let Some((first, rest)) = rest.split_first() else { return self.names(&STREAM) };
        if STREAM.iter().find(|(name, _)| name == first).is_none_or(|(_, since)| *since > self.version) {
            return Err(Fault::path());
        }
        let (zones, version) = (&self.snapshot.zones, self.version);
        match (*first, rest) {
            ("server_zones", rest) => {
                let all = zones
                    .services
                    .iter()
                    .map(|zone| (zone.name.clone(), figures::service_zone(zone, version)));
                self.map("stream/server_zones", rest, all.collect(), SERVER_ZONE)
            }
            ("limit_conns", rest) => self.concurrency(rest, true),
            ("keyvals", rest) => keyvals::answer(self.request, rest, true, version, self.backend),
            ("upstreams", rest) => self.upstreams(rest, true),
            _ => Err(Fault::path()),
        }
    }

    fn concurrency(&mut self, rest: &[&str], tcp: bool) -> Result<Answer, Fault> {
        let all = self.snapshot.zones.concurrency.iter().filter(|zone| zone.tcp == tcp);
        let all = all.map(|zone| (zone.name.clone(), figures::concurrency_zone(zone))).collect();
        let kind = if tcp { "stream/limit_conns" } else { "http/limit_conns" };
        self.map(kind, rest, all, ("LimitConnNotFound", "limit_conn not found"))
    }

    /// Workers are a list; one that left is missing in it.
    fn workers(&mut self, rest: &[&str]) -> Result<Answer, Fault> {
        let name_of = |id: u16| format!("workers/{id}");
        let all = self.snapshot.zones.workers.iter();
        let all: Vec<(u16, Value)> =
            all.map(|one| (one.id, figures::worker(one, self.snapshot.process.pid))).collect();
        let wanted: Vec<(u16, Value)> = match rest {
            [] => all,
            [id] => all.into_iter().filter(|(known, _)| known.to_string() == **id).collect(),
            _ => return Err(Fault::path()),
        };
        if wanted.is_empty() {
            return Err(Fault::missing("WorkerNotFound", "worker not found"));
        }
        if self.request.method == "DELETE" {
            wanted.into_iter().for_each(|(id, object)| self.resets.reset(&name_of(id), object));
            return Ok(Answer::Done);
        }
        if !self.reads() {
            return Err(Fault::method());
        }
        let mut shown = wanted.into_iter().map(|(id, object)| self.resets.since(&name_of(id), object));
        Ok(Answer::Object(match rest {
            [] => self.fields.list(shown.collect()),
            _ => self.fields.one(shown.next().unwrap_or_default()),
        }))
    }

    fn upstreams(&mut self, rest: &[&str], tcp: bool) -> Result<Answer, Fault> {
        let (snapshot, version) = (self.snapshot, self.version);
        let Some((name, rest)) = rest.split_first() else {
            if !self.reads() {
                return Err(Fault::method());
            }
            return Ok(Answer::Object(self.fields.all(peers::all(snapshot, tcp, self.resets, version))));
        };
        let found = peers::groups(snapshot, tcp).find(|(_, group)| group.name == *name);
        let Some((pool, group)) = found else {
            // Those without a zone cannot be looked into.
            let is_static =
                snapshot.pools.iter().any(|pool| pool.name == *name && (pool.mode == "tcp") == tcp);
            return Err(match is_static {
                true => Fault::bad("UpstreamStatic", "upstream is static"),
                false => Fault::missing("UpstreamNotFound", "upstream not found"),
            });
        };
        match (rest, self.request.method) {
            ([], "GET") => {
                let object = peers::upstream(snapshot, pool, group, self.resets, version);
                Ok(Answer::Object(self.fields.one(object)))
            }
            ([], "DELETE") => {
                peers::reset(pool, group, self.resets);
                Ok(Answer::Done)
            }
            ([], _) => Err(Fault::method()),
            (["servers"], _) => self.servers(pool, group).answer(self.request, None),
            (["servers", id], _) => self.servers(pool, group).answer(self.request, Some(id)),
            _ => Err(Fault::path()),
        }
    }

    fn servers<'p>(
        &'p self,
        pool: &'p weir_control::snapshot::Pool,
        group: &'p weir_control::snapshot::Group,
    ) -> Servers<'p> {
        Servers { pool, group, version: self.version, backend: self.backend }
    }

    /// An object that is only looked at.
    fn plain(&self, object: Value) -> Result<Answer, Fault> {
        if self.reads() { Ok(Answer::Object(self.fields.one(object))) } else { Err(Fault::method()) }
    }

    /// An object whose counters can be reset.
    fn counted(&self, name: &str, object: Value) -> Result<Answer, Fault> {
        match self.request.method {
            "GET" => Ok(Answer::Object(self.fields.one(self.resets.since(name, object)))),
            "DELETE" => {
                self.resets.reset(name, object);
                Ok(Answer::Done)
            }
            _ => Err(Fault::method()),
        }
    }

    /// Objects by name, whose counters can be reset one by one. `missing`: code and text where there is none.
    fn map(
        &self,
        kind: &str,
        rest: &[&str],
        mut all: Map<String, Value>,
        (code, text): (&'static str, &'static str),
    ) -> Result<Answer, Fault> {
        let name_of = |name: &str| format!("{kind}/{name}");
        match rest {
            [] if !self.reads() => Err(Fault::method()),
            [] => {
                let since = |(name, object): (String, Value)| {
                    let object = self.resets.since(&name_of(&name), object);
                    (name, object)
                };
                Ok(Answer::Object(self.fields.all(all.into_iter().map(since).collect())))
            }
            [name] => {
                let object = all.remove(*name).ok_or_else(|| Fault::missing(code, text))?;
                self.counted(&name_of(name), object)
            }
            _ => Err(Fault::path()),
        }
    }
}

/// There is no such zone of servers.
const SERVER_ZONE: (&str, &str) = ("ServerZoneNotFound", "server zone not found");
