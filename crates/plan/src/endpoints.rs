//! The endpoints of a pool: those that a configuration writes, and those that there are.
//!
//! Owns: [`EndpointSet`], [`Endpoint`].
//! Never: looks a name up, keeps state: that is under the endpoints' keys.
//! Driven by: `lower` for the written set; the engine, which replaces the set of one pool under live traffic.
//! Why: endpoints change by themselves, more often than configurations. A set stands beside the plan and is replaced
//! alone, without a new plan, new TLS settings or a cut connection.

use std::sync::Arc;

use serde::Serialize;
use weir_control::{EndpointKey, PoolId};
use weir_expr::settings::ProxyProtocol;
use weir_policy::pool::PoolConfig;

use crate::pool::{HealthCheck, HostPort, show_config};
use crate::{Address, UpstreamTlsUse};

/// Endpoints, and how one of them is chosen. Immutable: a change is another set.
#[derive(Clone, Debug, Serialize)]
pub struct EndpointSet {
    /// Method, weights, limits of failures; what `policy` chooses by. Its endpoints are `endpoints`, in order.
    #[serde(serialize_with = "show_config")]
    pub config: Arc<PoolConfig>,
    /// In the order of `config`. A name with several addresses became several.
    pub endpoints: Vec<Endpoint>,
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
    /// The name it came from, if it was a name.
    pub host: Option<HostPort>,
    /// The name is looked up again while running.
    pub resolve: bool,
    /// Exchanges that may wait for this endpoint.
    pub max_queue: Option<u32>,
    /// TLS to this endpoint.
    pub tls: Option<UpstreamTlsUse>,
    /// PROXY header sent first.
    pub send_proxy: Option<ProxyProtocol>,
    /// Active checks.
    pub check: Option<Arc<HealthCheck>>,
    /// Value of the sticky cookie.
    pub cookie: Option<Box<str>>,
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

impl EndpointSet {
    /// The index of the endpoint with this key.
    pub fn index_of(&self, key: EndpointKey) -> Option<usize> {
        self.endpoints.iter().position(|endpoint| endpoint.key == key)
    }
}
