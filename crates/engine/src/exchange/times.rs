//! Which times hold for an exchange: its own ones, or those configured.
//!
//! Driven by: actions and logs.

use std::time::Duration;

use weir_expr::OwnTimeout;
use weir_expr::settings::UpstreamSettings;
use weir_plan::Action;

use super::Exchange;
use super::own::Own;

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
