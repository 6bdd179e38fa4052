//! Sites.

use std::sync::Arc;

use serde::Serialize;
use weir_control::{SiteId, ZoneId};
use weir_expr::settings::{ClientSettings, Conduct, KeepAliveMode};
use weir_http::HeadRules;

use crate::{PathIndex, Program, RouteIx};

/// A virtual host or a HAProxy frontend in mode http.
#[derive(Clone, Debug, Serialize)]
pub struct Site {
    /// Stable id, from the name and the addresses: what counters are kept under.
    pub id: SiteId,
    /// Name for people, metrics and `$server_name`.
    pub name: Box<str>,
    /// Limits and times of client connections. Until the host is known the default site's hold.
    pub client: Arc<ClientSettings>,
    /// What a request's head may measure, by `client`.
    #[serde(serialize_with = "crate::show::debug")]
    pub heads: HeadRules,
    /// Runs before a route is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<Arc<Program>>,
    /// Routes at the top level; ask [`crate::Plan::find`].
    pub paths: PathIndex,
    /// Routes that are entered by name (`@name`). A name belongs to its site, wherever it is looked up.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub named: Box<[(Box<str>, RouteIx)]>,
    /// Answers when no route matches, and holds the settings used before and without a route.
    pub fallback: RouteIx,
    /// What is kept alive after an answer.
    pub keepalive_mode: KeepAliveMode,
    /// What it does where standards leave it open.
    #[serde(skip_serializing_if = "Conduct::is_default")]
    pub conduct: Conduct,
    /// `Server:` field on answers; `None`: left as the upstream sent it.
    pub server_header: Option<Box<str>>,
    /// Connections beyond which new ones wait in the accept queue.
    pub max_connections: Option<u64>,
    /// Sessions that begin in a second, beyond which new connections wait in the accept queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_rate: Option<u32>,
    /// Redirects name the site's first name instead of the request's host.
    pub server_name_in_redirect: bool,
    /// Redirects that Weir makes carry the port.
    pub port_in_redirect: bool,
    /// Redirects that Weir makes are absolute.
    pub absolute_redirect: bool,
    /// Log connections that ended without a byte.
    pub log_empty_connections: bool,
    /// A connection on which nothing ever came gets a 408 (HAProxy without `http-ignore-probes`).
    pub answer_silence: bool,
    /// Its requests are counted in this zone, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<ZoneId>,
}

impl Site {
    /// The route of this name, `@` included.
    pub fn named_route(&self, name: &[u8]) -> Option<RouteIx> {
        self.named.iter().find(|(known, _)| known.as_bytes() == name).map(|&(_, route)| route)
    }
}
