//! From an action's target to something that can be connected to.
//!
//! Owns: reading computed targets (`scheme://host:port/path`).
//! Driven by: proxy and FastCGI actions.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use weir_control::{EndpointKey, PoolId};
use weir_plan::{Address, PoolIx, ProxyTarget, Reuse, Template, UpstreamKeepalive};

use crate::eval::place::split_port;
use crate::eval::text;
use crate::exchange::Traffic;
use crate::worker::Installed;

/// To whom.
pub(crate) enum Destination {
    /// A pool of the plan.
    Pool(PoolIx),
    /// One or several addresses that the request itself named.
    Addresses(Box<Named>),
}

impl Destination {
    /// Settings for kept connections.
    pub(crate) fn keepalive<'p>(&self, installed: &'p Installed) -> Cow<'p, UpstreamKeepalive> {
        match self {
            Self::Pool(pool) => Cow::Borrowed(&installed.plan.pool(*pool).keepalive),
            // Targets that requests name are countless: few connections, for a short time.
            Self::Addresses(_) => Cow::Owned(UpstreamKeepalive {
                idle: 0,
                requests: None,
                time: None,
                timeout: Duration::from_secs(5),
                reuse: Reuse::Never,
            }),
        }
    }
}

/// A destination that the request named.
pub(crate) struct Named {
    /// `host:port` as named; what logs and `$proxy_host` show.
    pub(crate) host: String,
    /// Addresses in order.
    pub(crate) addresses: Vec<Address>,
}

impl Named {
    /// Under which kept connections are kept.
    pub(crate) fn pool_id(&self) -> PoolId {
        PoolId::from_name(&format!("computed:{}", self.host))
    }

    /// The key of an address.
    pub(crate) fn endpoint_key(&self, address: &Address) -> EndpointKey {
        EndpointKey::of(self.pool_id(), &address.to_string())
    }
}

/// A target that was found out.
pub(crate) struct Resolved {
    /// To whom.
    pub(crate) destination: Destination,
    /// Over TLS; `None`: the action says.
    pub(crate) secure: Option<bool>,
    /// Path (and query) that a computed target carries.
    pub(crate) path: Option<Vec<u8>>,
    /// Host for the name in TLS and `$proxy_host`.
    pub(crate) host: Option<String>,
}

/// Finds out the target. `Err`: the text for the log; the status is 500 for a malformed target, 502 for a name that
/// does not resolve.
pub(crate) async fn resolve(
    exchange: &impl Traffic,
    installed: &Installed,
    target: &ProxyTarget,
) -> Result<Resolved, (u16, String)> {
    match target {
        ProxyTarget::Pool(pool) => {
            Ok(Resolved { destination: Destination::Pool(*pool), secure: None, path: None, host: None })
        }
        ProxyTarget::Computed(template) => Box::pin(computed(exchange, installed, template)).await,
    }
}

async fn computed(
    exchange: &impl Traffic,
    installed: &Installed,
    template: &Template,
) -> Result<Resolved, (u16, String)> {
    let value = text(exchange, template);
    if let Some(why) = exchange.slots.take_doubt() {
        return Err((500, why.to_string()));
    }
    let value = String::from_utf8(value).map_err(|_| (500, "the proxy target is not text".to_owned()))?;
    let (secure, rest) = match value.split_once("://") {
        None => (None, &*value),
        Some(("https" | "grpcs" | "suwsgi", rest)) => (Some(true), rest),
        Some(("http" | "grpc" | "uwsgi", rest)) => (Some(false), rest),
        Some(_) => return Err((500, format!("invalid URL prefix in \"{value}\""))),
    };
    if let Some(unix) = rest.strip_prefix("unix:") {
        // `unix:/path/of/socket:/uri`
        let (socket, path) = unix.split_once(':').unwrap_or((unix, ""));
        let named = Named { host: format!("unix:{socket}"), addresses: vec![Address::Unix(socket.into())] };
        return Ok(Resolved {
            destination: Destination::Addresses(Box::new(named)),
            secure,
            path: (!path.is_empty()).then(|| path.as_bytes().to_vec()),
            host: Some("localhost".into()),
        });
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    if host.is_empty() {
        return Err((500, format!("no host in upstream \"{value}\"")));
    }
    let path =
        (!path.is_empty()).then(|| if path.starts_with('?') { format!("/{path}") } else { path.to_owned() });
    let path = path.map(String::into_bytes);
    if let Some(pool) = installed.plan.pool_by_name(host) {
        return Ok(Resolved {
            destination: Destination::Pool(pool),
            secure,
            path,
            host: Some(host.to_owned()),
        });
    }
    let default = if secure == Some(true) { 443 } else { 80 };
    let (name, port) =
        split_port(host, default).ok_or_else(|| (500, format!("invalid port in \"{value}\"")))?;
    if name.is_empty() {
        return Err((500, format!("no host in upstream \"{host}\"")));
    }
    let addresses = match name.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(ip) => vec![Address::Tcp(SocketAddr::new(ip, port))],
        Err(_) => {
            let found = crate::worker::dns::lookup(&exchange.worker, exchange.resolver(), name).await;
            let mut ips = found.map_err(|error| (502, format!("{name} could not be resolved ({error})")))?;
            // As in nginx each request begins at one of them by chance: they share the load.
            let first = exchange.worker.random() % ips.len().max(1) as u64;
            ips.rotate_left(first as usize);
            ips.into_iter().map(|ip| Address::Tcp(SocketAddr::new(ip, port))).collect()
        }
    };
    let named = Named { host: host.to_owned(), addresses };
    Ok(Resolved {
        destination: Destination::Addresses(Box::new(named)),
        secure,
        path,
        host: Some(name.to_owned()),
    })
}
