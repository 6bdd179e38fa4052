//! Hand-made models.

#![allow(dead_code, reason = "each of its users uses a part")]

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_diag::{Diagnostic, SourceId, Span};
use weir_lower::{Options, Resources, lower};
use weir_model::settings::{BackupUse, Conduct, Unavailable};
use weir_model::*;
use weir_plan::Plan;

/// Files and names in memory.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) files: HashMap<PathBuf, Vec<u8>>,
    pub(crate) names: HashMap<String, Vec<IpAddr>>,
}

impl Memory {
    pub(crate) fn file(mut self, path: &str, content: &str) -> Self {
        self.files.insert(path.into(), content.into());
        self
    }

    pub(crate) fn name(mut self, host: &str, addresses: &[&str]) -> Self {
        self.names.insert(host.into(), addresses.iter().map(|text| text.parse().unwrap()).collect());
        self
    }
}

impl Resources for Memory {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn addresses(&self, host: &str) -> Vec<IpAddr> {
        self.names.get(host).cloned().unwrap_or_default()
    }
}

pub(crate) fn run(model: &Model, memory: &Memory) -> (Option<Plan>, Vec<Diagnostic>) {
    lower(model, memory, &Options::default())
}

/// The plan of a model without any finding.
pub(crate) fn plan(model: &Model) -> Plan {
    let (plan, findings) = run(model, &Memory::default());
    assert!(findings.is_empty(), "{findings:#?}");
    plan.unwrap()
}

/// A place in an imaginary text.
pub(crate) fn span(start: u32, end: u32) -> Option<Span> {
    Some(Span { source: SourceId(0), start, end })
}

pub(crate) fn pattern(source: &str) -> Pattern {
    Pattern { source: source.into(), ignore_case: false, origin: None }
}

pub(crate) fn prefix(path: &str) -> RouteMatch {
    RouteMatch::Prefix { path: path.into(), stop: false, auto_redirect: false }
}

pub(crate) fn route(name: &str, matching: RouteMatch, action: Action) -> Route {
    Route::new(name.into(), matching, files(), action)
}

pub(crate) fn files() -> Arc<StaticFiles> {
    let types = [("html", "text/html"), ("png", "image/png")];
    Arc::new(StaticFiles {
        root: Template::literal("/var/www"),
        alias: false,
        index: vec![Template::literal("index.html")],
        listing: None,
        types: Arc::new(MimeTypes {
            by_extension: types.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect(),
        }),
        default_type: "text/plain".into(),
        charset: None,
        charset_types: Arc::default(),
        etag: true,
        if_modified_since: IfModifiedSince::Exact,
        max_ranges: None,
        precompressed: Vec::new(),
        sendfile: true,
        symlinks: Symlinks::Follow,
        random_index: false,
        video: None,
        dav: weir_model::Dav::default(),
    })
}

pub(crate) fn site(name: &str, routes: Vec<RouteId>, fallback: RouteId) -> Site {
    Site {
        name: name.into(),
        origin: None,
        names: vec![NamePattern::Exact(name.into())],
        client: Arc::default(),
        program: Vec::new(),
        routes,
        fallback,
        keepalive_mode: Default::default(),
        conduct: Conduct::default(),
        server_header: Some("weir".into()),
        max_connections: None,
        session_rate: None,
        server_name_in_redirect: false,
        port_in_redirect: true,
        absolute_redirect: true,
        log_empty_connections: false,
        answer_silence: false,
        zone: None,
    }
}

pub(crate) fn listener(address: &str, sites: Vec<SiteId>) -> Listener {
    Listener {
        name: address.into(),
        origin: None,
        address: Address::Tcp(address.parse().unwrap()),
        socket: SocketOptions::default(),
        proxy_protocol: false,
        http2: false,
        quic: None,
        share: 0,
        proxy_header_names_client: false,
        tls: None,
        max_connections: None,
        gate: Vec::new(),
        services: Vec::new(),
        service: Service::Http { default: sites[0], sites },
    }
}

pub(crate) fn endpoint(address: &str) -> Endpoint {
    let place = match address.parse() {
        Ok(ip) => EndpointAddress::Ip(ip),
        Err(_) => {
            let (host, port) = address.rsplit_once(':').unwrap();
            EndpointAddress::Name { host: host.into(), port: port.parse().unwrap(), all_addresses: true }
        }
    };
    Endpoint {
        begins: None,
        follows: None,
        socks: None,
        name: address.into(),
        origin: None,
        address: place,
        weight: 1,
        max_connections: None,
        max_queue: None,
        max_fails: 1,
        fail_timeout: Duration::from_secs(10),
        backup: false,
        down: false,
        drain: false,
        slow_start: None,
        tls: None,
        send_proxy: None,
        check: None,
        more_checks: Vec::new(),
        agent: None,
        tracks: None,
        cuts: weir_expr::check::Cuts::default(),
        cookie: None,
        resolve: None,
        initially: weir_model::Initially::default(),
        id: None,
        zone: None,
    }
}

pub(crate) fn pool(name: &str, endpoints: &[&str]) -> Pool {
    Pool {
        name: name.into(),
        origin: None,
        balance: Balance::RoundRobin,
        endpoints: endpoints.iter().map(|address| endpoint(address)).collect(),
        keepalive: UpstreamKeepalive::default(),
        shared: false,
        queue: None,
        sticky: None,
        stickiness: None,
        assigned: Vec::new(),
        persistence: Vec::new(),
        resolver: None,
        backups: BackupUse::WhenNoneChosen,
        unavailable: Unavailable::default(),
        outliers: None,
        panic_percent: 0,
        load_percent: 0,
        locality: None,
        retry_budget: None,
        max_pending: None,
        may_be_empty: false,
        group: None,
        fresh: None,
    }
}

pub(crate) fn proxy(pool: &str, fields: &[(&str, Template)]) -> Action {
    Action::Proxy(Arc::new(Proxy {
        target: ProxyTarget::Pool(pool.into()),
        tls: None,
        host: pool.into(),
        uri: UpstreamUri::Pass,
        method: None,
        http_1_1: true,
        http2: false,
        grpc: false,
        announce_close: false,
        request_headers: Arc::new(
            fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        ),
        pass_request_headers: true,
        pass_request_body: true,
        body: None,
        settings: Arc::default(),
        hide_headers: Arc::new(vec!["date".into(), "server".into(), "x-pad".into()]),
        redirects: Arc::default(),
        cookie_rewrites: Arc::default(),
        ignore_headers: Arc::default(),
        accel: true,
        bind: None,
        transparent: false,
        cache: None,
        store: None,
    }))
}

/// One listener, one site, these routes; the first is the fallback, too.
pub(crate) fn single(routes: Vec<Route>) -> Model {
    let mut model = Model::default();
    let ids: Vec<RouteId> = routes.into_iter().map(|route| model.add_route(route)).collect();
    let site = model.add_site(site("example.org", ids.clone(), ids[0]));
    model.listeners.push(listener("127.0.0.1:8080", vec![site]));
    model
}

pub(crate) fn variable(name: &str) -> Variable {
    Variable { name: name.into(), origin: None, definition: Definition::Assigned }
}
