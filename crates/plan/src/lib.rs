//! Configuration as run: immutable, indices instead of names, compiled matchers, templates, pools.
//!
//! Owns: the [`Plan`] and pure look-ups on it.
//! Never: knows the model or a configuration language, changes after it is built, holds counters, health or sockets.
//! Driven by: `lower` builds it; an `Arc<Plan>` is shared by all workers and read on every request.
//! Why: what a request needs is decided once, at load. State that outlives a plan is kept elsewhere, under the stable
//! ids that the plan carries ([`PoolId`], [`EndpointKey`], [`SiteId`], [`ListenerId`], names of zones).
//!
//! # How an exchange walks the plan
//!
//! ```text
//! plan.listener(ix).service ─ Http(index) ── index.lookup(host) ── plan.site(ix).program
//!    └→ plan.find(site, path) → Found { route, matched_len, matches, redirect_slash }
//!         └→ route.program (path changed: plan.find again, at most 10 times)
//!              └→ route.settings.limit_* → .access → route.try_files → route.action
//! ```
//!
//! [`Route::features`] says in one word which of these steps there is anything to do for.

#![forbid(unsafe_code)]

mod access;
mod acme;
mod action;
mod charset;
mod database;
mod endpoints;
mod facts;
mod features;
mod files;
mod filters;
mod head;
mod header;
mod host;
mod identity;
mod limit;
mod line;
mod listed;
mod listener;
mod log;
mod net;
mod part;
mod path;
mod pattern;
mod pool;
mod process;
mod program;
mod raw;
mod route;
mod show;
mod site;
mod tcp;
mod tls;
mod variable;
mod words;

pub use access::*;
pub use acme::*;
pub use action::*;
pub use charset::*;
pub use database::{Database, DatabaseError};
pub use endpoints::*;
pub use facts::*;
pub use features::*;
pub use files::*;
pub use filters::*;
pub use head::*;
pub use header::*;
pub use host::*;
pub use limit::*;
pub use line::*;
pub use listed::*;
pub use listener::*;
pub use log::*;
pub use net::*;
pub use part::*;
pub use path::*;
pub use pattern::*;
pub use pool::*;
pub use process::*;
pub use program::*;
pub use raw::whole_response;
pub use route::*;
pub use site::*;
pub use tcp::*;
pub use tls::*;
pub use variable::*;
pub use words::*;

pub use weir_control::{EndpointKey, ListenerId, PoolId, SiteId, ZoneId};
pub use weir_expr::settings;
pub use weir_expr::settings::{
    Address, Cause, CookieAttribute, FileKind, IfModifiedSince, KeyMatch, ListEdit, Listing, ListingFormat,
    Queue, Reuse, RewriteFlag, StickyMode, Symlinks, TargetPart, UpstreamKeepalive,
};
pub use weir_expr::{Dav, Filter, Piece, Slot, Source};

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::Serialize;

/// Text with variables, user variables by [`Slot`].
pub type Template = weir_expr::Template<Slot>;
/// A variable, user variables by [`Slot`].
pub type Var = weir_expr::Var<Slot>;

macro_rules! index {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// As an index into its list.
            #[inline]
            pub const fn at(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

index! {
    /// Index into [`Plan::listeners`].
    ListenerIx;
    /// Index into [`Plan::sites`].
    SiteIx;
    /// Index into [`Plan::routes`].
    RouteIx;
    /// Index into [`Plan::tcp`].
    TcpIx;
    /// Index into [`Plan::pools`].
    PoolIx;
    /// Index into [`Plan::req_zones`].
    ReqZoneIx;
    /// Index into [`Plan::conn_zones`].
    ConnZoneIx;
    /// Index into [`Plan::cache_zones`].
    CacheZoneIx;
    /// Index into [`Plan::logs`].
    LogIx;
    /// Index into [`Plan::memory_caches`].
    MemoryCacheIx;
    /// Index into [`Plan::key_lists`].
    KeyListIx;
    /// Index into [`Plan::key_list_uses`].
    KeyUseIx;
    /// Index into [`Plan::keyvals`].
    KeyvalIx;
    /// Index into [`Plan::tls`].
    TlsIx;
    /// Index into [`Plan::upstream_tls`].
    UpstreamTlsIx;
}

/// The whole of one configuration, ready to run. Every index in it is valid for its list.
#[derive(Debug, Default, Serialize)]
pub struct Plan {
    /// The process.
    pub process: Process,
    /// Where connections arrive.
    pub listeners: Vec<Listener>,
    /// HTTP sites.
    pub sites: Vec<Site>,
    /// Routes of all sites.
    pub routes: Vec<Route>,
    /// TCP services.
    pub tcp: Vec<TcpService>,
    /// Pools.
    pub pools: Vec<Pool>,
    /// Proxies as statistics list them, in order; empty: sites, then pools.
    pub roster: Vec<settings::Listed>,
    /// Pools by id, for targets that are computed.
    #[serde(skip)]
    pub pools_by_id: std::collections::HashMap<PoolId, PoolIx, ahash::RandomState>,
    /// User variables by [`Slot`].
    pub variables: Vec<Variable>,
    /// Zones of request-rate limits.
    pub req_zones: Vec<ReqZone>,
    /// Zones of concurrency limits.
    pub conn_zones: Vec<ConnZone>,
    /// Stick tables.
    pub stick_tables: Vec<StickTable>,
    /// Zones of the cache.
    pub cache_zones: Vec<settings::CacheZone>,
    /// Caches in memory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory_caches: Vec<settings::MemoryCache>,
    /// Lists of keys that change while running.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub key_lists: Vec<KeyListFile>,
    /// The ways in which they are used, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub key_list_uses: Vec<KeyListUse>,
    /// Stores of keys and values that are set while running.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keyvals: Vec<settings::KeyvalZone>,
    /// Log targets, each once.
    pub logs: Vec<Log>,
    /// TLS identities of listeners, each once.
    pub tls: Vec<TlsIdentity>,
    /// Certificates that authorities issue while running.
    #[serde(skip_serializing_if = "Acme::is_empty")]
    pub acme: Acme,
    /// TLS configurations towards endpoints, each once.
    pub upstream_tls: Vec<UpstreamTls>,
    /// Name servers for names looked up while running.
    pub resolver: Option<std::sync::Arc<Resolver>>,
    /// What counts apart under a name, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<CountedZone>,
    /// Somebody asks what TLS with endpoints is like; otherwise it is not noted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub notes_endpoint_tls: bool,
    /// Somebody asks what clients offer as they begin TLS; otherwise it is not noted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub notes_offers: bool,
    /// Somebody asks for our own ends of connections to endpoints; otherwise they are not noted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub notes_local_ends: bool,
    /// Somebody asks for what limits, caches and endpoints do in detail; otherwise it is not counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub counts_details: bool,
}

macro_rules! look_up {
    ($($(#[$doc:meta])* $name:ident($index:ty) -> $list:ident: $item:ty;)*) => {
        impl Plan {$(
            $(#[$doc])*
            #[inline]
            pub fn $name(&self, ix: $index) -> &$item {
                &self.$list[ix.at()]
            }
        )*}
    };
}

look_up! {
    /// A listener.
    listener(ListenerIx) -> listeners: Listener;
    /// A site.
    site(SiteIx) -> sites: Site;
    /// A route.
    route(RouteIx) -> routes: Route;
    /// A TCP service.
    tcp_service(TcpIx) -> tcp: TcpService;
    /// A pool.
    pool(PoolIx) -> pools: Pool;
    /// A zone of request rates.
    req_zone(ReqZoneIx) -> req_zones: ReqZone;
    /// A zone of concurrency.
    conn_zone(ConnZoneIx) -> conn_zones: ConnZone;
    /// A log target.
    log(LogIx) -> logs: Log;
    /// A TLS identity.
    tls_identity(TlsIx) -> tls: TlsIdentity;
    /// A TLS configuration towards endpoints.
    upstream_tls(UpstreamTlsIx) -> upstream_tls: UpstreamTls;
}

impl Plan {
    /// The listener of an address for connections: the one that is bound to it, else one to all addresses with its port.
    pub fn listener_at(&self, address: &Address) -> Option<&Listener> {
        let is_at = |address: &Address| self.listeners.iter().find(|listener| listener.address == *address);
        is_at(address).or_else(|| match address {
            Address::Tcp(SocketAddr::V4(at)) => {
                is_at(&Address::Tcp((Ipv4Addr::UNSPECIFIED, at.port()).into()))
            }
            Address::Tcp(SocketAddr::V6(at)) => {
                is_at(&Address::Tcp((Ipv6Addr::UNSPECIFIED, at.port()).into()))
            }
            _ => None,
        })
    }

    /// The route for a path of a site: decoded, dots resolved, slashes merged as the site asks.
    ///
    /// # Errors
    /// A pattern gave up before the route was certain.
    #[inline]
    pub fn find<'p>(&'p self, site: &'p Site, path: &[u8]) -> Result<Found<'p>, MatchFailed> {
        site.paths.lookup(path, &self.routes, site.fallback)
    }

    /// A pool by the name that a computed proxy target evaluated to.
    pub fn pool_by_name(&self, name: &str) -> Option<PoolIx> {
        // Ids are hashes: the name is compared, too, because this one may come from a client.
        let ix = *self.pools_by_id.get(&PoolId::from_name(name))?;
        (*self.pool(ix).name == *name).then_some(ix)
    }
}

// An `Arc<Plan>` goes to every worker.
const _: fn() = || {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Plan>();
};
