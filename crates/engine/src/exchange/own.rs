//! What rules set for one exchange alone.
//!
//! Owns: times in the place of the configured ones, and the address of a name that a rule looked up.
//! Driven by: programs; actions ask for the time that holds.
//! Why: behind one pointer, which is null for exchanges without such rules.

use std::net::IpAddr;
use std::time::Duration;

use weir_expr::OwnTimeout;
use weir_expr::settings::UpstreamSettings;
use weir_plan::Action;
use weir_policy::retry::{RetryOn, RetryPolicy};

use super::Exchange;

/// What rules set.
#[derive(Default)]
pub(crate) struct Own {
    /// Instead of the time between two reads from the endpoint, or two writes to it.
    pub(crate) endpoint: Option<Duration>,
    /// Instead of the time between two reads in a tunnel.
    pub(crate) tunnel: Option<Duration>,
    /// Instead of the time between two writes to the client.
    pub(crate) client: Option<Duration>,
    /// Attempts that may follow the first, instead of the configured number.
    pub(crate) retries: Option<u32>,
    /// Only failures to connect are tried again.
    pub(crate) connect_only: bool,
    /// Before whom it is served where it has to wait: a class, and milliseconds sooner or later.
    pub(crate) priority: (i16, i32),
    /// The address of the name that was looked up last.
    pub(crate) resolved: Option<IpAddr>,
}

impl Exchange {
    fn own_time(&self, of: impl FnOnce(&Own) -> Option<Duration>) -> Option<Duration> {
        self.own.as_deref().and_then(of)
    }

    /// Longest time between two reads from the endpoint.
    pub(crate) fn read_timeout(&self, settings: &UpstreamSettings) -> Duration {
        self.own_time(|own| own.endpoint).unwrap_or(settings.read_timeout)
    }

    /// Longest time between two writes to it.
    pub(crate) fn write_timeout(&self, settings: &UpstreamSettings) -> Duration {
        self.own_time(|own| own.endpoint).unwrap_or(settings.send_timeout)
    }

    /// Longest time between two reads in a tunnel.
    pub(crate) fn tunnel_timeout(&self, settings: &UpstreamSettings) -> Duration {
        let own = self.own_time(|own| own.tunnel);
        own.or(settings.tunnel_timeout).unwrap_or_else(|| self.read_timeout(settings))
    }

    /// The rules for failed attempts.
    pub(crate) fn retry(&self, configured: RetryPolicy) -> RetryPolicy {
        let Some(own) = self.own.as_deref() else { return configured };
        let on = if own.connect_only { configured.on & RetryOn::CONNECT } else { configured.on };
        let attempts = own.retries.map_or(configured.attempts, |retries| retries.saturating_add(1));
        RetryPolicy { on, attempts, ..configured }
    }

    /// Settings of the action's upstream; `None`: it has none.
    pub(crate) fn upstream_settings(&self) -> Option<&UpstreamSettings> {
        match &self.route().action {
            Action::Proxy(proxy) | Action::Http2(proxy) => Some(&proxy.settings),
            Action::FastCgi(fastcgi) => Some(&fastcgi.settings),
            _ => None,
        }
    }

    /// The time that holds; `None`: there is no endpoint to be.
    pub(crate) fn timeout_of(&self, of: OwnTimeout) -> Option<Duration> {
        let settings = self.upstream_settings();
        match of {
            OwnTimeout::Client => Some(self.client_timeout()),
            OwnTimeout::Endpoint => settings.map(|settings| self.read_timeout(settings)),
            OwnTimeout::Tunnel => settings.map(|settings| {
                let own = self.own_time(|own| own.tunnel);
                own.or(settings.tunnel_timeout).unwrap_or_default()
            }),
        }
    }

    /// Longest time between two writes to the client.
    pub(crate) fn client_timeout(&self) -> Duration {
        let own = self.own_time(|own| own.client);
        own.unwrap_or_else(|| self.route().settings.client.send_timeout)
    }
}
