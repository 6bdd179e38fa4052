//! What is served: a request, or a session of a TCP service.
//!
//! Owns: the one question of which kind it is, and what both answer each in its way.
//! Never: is asked for what is common: that is the [`Core`] which both are.
//! Driven by: variables, conditions, programs, attempts, limits and logs.
//! Why: a type parameter, not a value: code for requests is compiled without a thought of sessions. What only requests
//! have can be had of an [`Exchange`] alone, so a session cannot be asked for it.

use std::ops::DerefMut;
use std::sync::Arc;

use weir_expr::settings::{ClientAbort, LogLevel};
use weir_plan::{Action, ErrorLog, Resolver};

use super::core::Core;
use super::{Exchange, Session};

/// A request or a session.
pub(crate) trait Traffic: DerefMut<Target = Core> {
    /// Which of them it is.
    fn kind(&self) -> Kind<'_>;

    /// The request, if it is one.
    fn exchange_mut(&mut self) -> Option<&mut Exchange>;

    /// The request, if it is one.
    #[inline]
    fn exchange(&self) -> Option<&Exchange> {
        match self.kind() {
            Kind::Request(exchange) => Some(exchange),
            Kind::Session(_) => None,
        }
    }

    /// Name of its site, or of its TCP service.
    fn label(&self) -> &str {
        match self.kind() {
            Kind::Request(exchange) => exchange.site_if_any().map_or("", |site| &site.name),
            Kind::Session(session) => &session.service().name,
        }
    }

    /// Name of the pool chosen, or of the one that the request's action names.
    fn pool_name(&self) -> Option<&str> {
        let pool = self.pool.or_else(|| self.exchange().and_then(Exchange::pool_of_action));
        pool.map(|pool| &*self.installed.plan.pool(pool).name)
    }

    /// Bytes from the client, so far.
    fn received(&self) -> u64 {
        match self.kind() {
            Kind::Request(exchange) => exchange.request.bytes + exchange.body.received(),
            Kind::Session(session) => session.received,
        }
    }

    /// Bytes to the client, so far.
    fn sent(&self) -> u64 {
        match self.kind() {
            Kind::Request(exchange) => exchange.response.bytes_sent,
            Kind::Session(session) => session.sent,
        }
    }

    /// Who resolves names that it comes to.
    fn resolver(&self) -> Option<&Resolver> {
        let own = match self.kind() {
            Kind::Request(exchange) => {
                exchange.route_if_any().and_then(|route| route.settings.resolver.as_deref())
            }
            Kind::Session(session) => session.service().resolver.as_deref(),
        };
        own.or(self.installed.plan.resolver.as_deref())
    }

    /// What becomes of the work for a client that goes away, by the route's action.
    fn client_abort(&self) -> ClientAbort {
        match self.exchange().and_then(Exchange::route_if_any).map(|route| &route.action) {
            Some(Action::Proxy(proxy) | Action::Http2(proxy)) => proxy.settings.client_abort,
            Some(Action::FastCgi(fastcgi)) => fastcgi.settings.client_abort,
            _ => ClientAbort::default(),
        }
    }

    /// The least severe line that error logs get about it.
    fn error_lines(&self) -> LogLevel {
        match self.kind() {
            Kind::Request(exchange) => {
                exchange.site_if_any().map_or(LogLevel::Debug, |site| site.conduct.error_lines)
            }
            Kind::Session(session) => session.service().error_lines,
        }
    }

    /// Its error logs, if it has any of its own.
    fn error_logs(&self) -> Option<&Arc<[ErrorLog]>> {
        match self.kind() {
            Kind::Request(exchange) => exchange.route_if_any().map(|route| &route.settings.error_logs),
            Kind::Session(session) => Some(&session.service().error_logs),
        }
    }
}

/// See [`Traffic::kind`].
pub(crate) enum Kind<'a> {
    /// A request.
    Request(&'a Exchange),
    /// A session.
    Session(&'a Session),
}

impl Traffic for Exchange {
    #[inline]
    fn kind(&self) -> Kind<'_> {
        Kind::Request(self)
    }

    #[inline]
    fn exchange_mut(&mut self) -> Option<&mut Exchange> {
        Some(self)
    }
}

impl Traffic for Session {
    #[inline]
    fn kind(&self) -> Kind<'_> {
        Kind::Session(self)
    }

    #[inline]
    fn exchange_mut(&mut self) -> Option<&mut Exchange> {
        None
    }
}
