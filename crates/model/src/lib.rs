//! Configuration as meant: typed, explicit, each node knowing where it was written.
//!
//! Owns: the [`Model`] and its nodes.
//! Never: holds compiled matchers, sockets, counters, or a word of a foreign language (server block, backend).
//! Driven by: front ends write it with all inheritance done; `lower` compiles it; `weir explain` prints it.
//! Why: one engine speaks several languages because they all end here, and nowhere else.
//!
//! # How an exchange walks the model
//!
//! ```text
//! listener ── TLS identity by SNI ── site by Host ── site.program
//!     └→ route by path (site.routes) ── route.program ──(path changed: route by path again, at most 10 times)
//!          └→ limits → access → try_files → action
//! ```
//!
//! Pools, variables, limit zones and MIME tables are referred to by name; routes by [`RouteId`], an index into
//! [`Model::routes`], because most have no name a person gave them.

#![forbid(unsafe_code)]

mod acme;
mod action;
mod charset;
mod facts;
mod filters;
mod listed;
mod listener;
mod pool;
mod process;
mod program;
mod redact;
mod references;
mod route;
mod site;
mod stick;
mod tcp;
mod tls;
mod variable;

pub use acme::*;
pub use action::*;
pub use charset::*;
pub use facts::*;
pub use filters::*;
pub use listed::*;
pub use listener::*;
pub use pool::*;
pub use process::*;
pub use program::*;
pub use references::*;
pub use route::*;
pub use site::*;
pub use stick::*;
pub use tcp::*;
pub use tls::*;
pub use variable::*;

pub use weir_diag::Origin;
pub use weir_expr::settings;
pub use weir_expr::settings::{
    Address, CookieAttribute, FileKind, IfModifiedSince, KeyMatch, ListEdit, Listing, ListingFormat, Queue,
    Reuse, RewriteFlag, StickyMode, Symlinks, TargetPart, TcpKeepalive, UpstreamKeepalive,
};
pub use weir_expr::{Dav, DavMethods, FileAccess};

use serde::{Deserialize, Serialize};

/// Text with variables, user variables by name.
pub type Template = weir_expr::Template<weir_expr::Named>;
/// A variable, user variables by name.
pub type Var = weir_expr::Var<weir_expr::Named>;

/// The whole of one configuration.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Model {
    /// The process: workers, user, limits, error logs.
    pub process: Process,
    /// Where connections arrive.
    pub listeners: Vec<Listener>,
    /// HTTP sites by [`SiteId`].
    pub sites: Vec<Site>,
    /// Routes of all sites by [`RouteId`]. A route may be reached from several sites (a HAProxy backend).
    pub routes: Vec<Route>,
    /// TCP services by [`TcpId`].
    pub tcp: Vec<TcpService>,
    /// Pools; their names are unique.
    pub pools: Vec<Pool>,
    /// Proxies as statistics list them, in order; empty: sites, then pools.
    pub roster: Vec<weir_expr::settings::Listed>,
    /// User variables; their names are unique.
    pub variables: Vec<Variable>,
    /// Zones of request-rate limits.
    pub limit_req_zones: Vec<LimitReqZone>,
    /// Zones of concurrency limits.
    pub limit_conn_zones: Vec<LimitConnZone>,
    /// Stick tables; their names are unique.
    pub stick_tables: Vec<StickTable>,
    /// Zones of the cache.
    pub cache_zones: Vec<weir_expr::settings::CacheZone>,
    /// Caches in memory, by [`MemoryCacheId`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory_caches: Vec<weir_expr::settings::MemoryCache>,
    /// Lists of keys that change while running, by [`KeyListId`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub key_lists: Vec<KeyList>,
    /// Stores of keys and values that are set while running.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keyvals: Vec<weir_expr::settings::KeyvalZone>,
    /// Who issues certificates while running; their names are unique.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acme: Vec<AcmeIssuer>,
    /// Name servers for names looked up while running; a site or route may name its own.
    pub resolver: Option<Resolver>,
}

/// Index into [`Model::sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SiteId(pub u32);

/// Index into [`Model::routes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RouteId(pub u32);

/// Index into [`Model::memory_caches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MemoryCacheId(pub u32);

/// Index into [`Model::key_lists`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeyListId(pub u32);

/// Index into [`Model::tcp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TcpId(pub u32);

impl Model {
    /// The process and its listeners alone: what somebody remembers who does not serve.
    pub fn outline(&self) -> Self {
        Self { process: self.process.clone(), listeners: self.listeners.clone(), ..Self::default() }
    }

    /// Whether connections to endpoints may come from addresses of other machines, which is a right of its own.
    pub fn is_transparent(&self) -> bool {
        let routes = self.routes.iter().any(|route| match &route.action {
            Action::Proxy(proxy) => proxy.transparent,
            Action::FastCgi(fastcgi) => fastcgi.transparent,
            _ => false,
        });
        routes || self.tcp.iter().any(|service| service.action.is_transparent())
    }

    /// Adds a route and names it.
    pub fn add_route(&mut self, route: Route) -> RouteId {
        self.routes.push(route);
        RouteId(self.routes.len() as u32 - 1)
    }

    /// Adds a site and names it.
    pub fn add_site(&mut self, site: Site) -> SiteId {
        self.sites.push(site);
        SiteId(self.sites.len() as u32 - 1)
    }
}
