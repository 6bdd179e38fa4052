//! A site: a set of names with routes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_diag::Origin;
use weir_expr::settings::{ClientSettings, Conduct, KeepAliveMode};

use crate::{Op, Pattern, RouteId};

/// A virtual host (nginx `server`) or a HAProxy frontend in mode http.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Site {
    /// Name for people, metrics and `$server_name`: the first server name, or the frontend's name.
    pub name: String,
    /// Where it was written.
    #[serde(skip_serializing, default)]
    pub origin: Origin,
    /// Hosts it answers for. Empty: only as a listener's default.
    pub names: Vec<NamePattern>,
    /// Limits and times of client connections. Until the host is known the default site's hold.
    pub client: Arc<ClientSettings>,
    /// Runs before a route is chosen (nginx's server-level rewrites, HAProxy's frontend rules before `use_backend`).
    pub program: Vec<Op>,
    /// Routes at the top level, in the order written; see [`crate::RouteMatch`] for how one is chosen.
    pub routes: Vec<RouteId>,
    /// Answers when no route matches, and holds the settings (logs, error pages) used before and without a route.
    pub fallback: RouteId,
    /// What `KeepAliveMode` says of both sides.
    pub keepalive_mode: KeepAliveMode,
    /// What it does where standards leave it open.
    #[serde(skip_serializing_if = "Conduct::is_default")]
    pub conduct: Conduct,
    /// `Server:` field on answers that Weir makes and (nginx) on proxied ones; `None`: left as the upstream sent it.
    pub server_header: Option<String>,
    /// Connections (HAProxy frontend `maxconn`) beyond which new ones wait in the accept queue.
    pub max_connections: Option<u64>,
    /// Sessions that begin in a second, beyond which new connections wait in the accept queue (HAProxy frontend `rate-limit sessions`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_rate: Option<u32>,
    /// Requests that arrive without Host in HTTP/1.0 are routed by the default; redirects name this host.
    pub server_name_in_redirect: bool,
    /// Redirects that Weir makes carry the port (`port_in_redirect`).
    pub port_in_redirect: bool,
    /// Redirects that Weir makes are absolute (`absolute_redirect`).
    pub absolute_redirect: bool,
    /// Do not log connections that ended without a byte (HAProxy `dontlognull`; nginx never logs them).
    pub log_empty_connections: bool,
    /// A connection on which nothing ever came gets a 408 (HAProxy without `http-ignore-probes`).
    pub answer_silence: bool,
    /// Its requests are counted under this name, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// A host name or pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NamePattern {
    /// The name in lower case; may be empty: requests without Host.
    Exact(String),
    /// `*.example.org` as `example.org`: any name that ends in `.example.org`. Longest wins.
    Suffix(String),
    /// `www.example.*` as `www.example`: any name that begins with `www.example.`. Longest wins, after suffixes.
    Prefix(String),
    /// A pattern; the first in order wins. Its named groups set user variables.
    Regex(Pattern),
}
