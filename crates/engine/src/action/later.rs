//! What is left of an answer, carried without the plan that it began with.
//!
//! Owns: the list of what may be left.
//! Never: begins an answer.
//! Driven by: the walk, which hands it to the connection and ends; `http::connection`, which carries it once the walk
//! and its hold on the plan are gone.

use std::convert::Infallible;

use super::cached::{deliver, memory};
use super::{carried, files, proxy, tunnel};
use crate::exchange::{Downstream, Exchange};
use crate::upstream::fastcgi::Answer;
use crate::upstream::http2::Link;

/// What is left of an answer.
pub(crate) enum Later {
    /// The answer was 101 and is sent; bytes follow both ways.
    Tunnel(Box<tunnel::Upgraded>),
    /// More of its body is to come.
    Rest(Rest),
}

impl Later {
    /// Of a file.
    pub(crate) fn file(rest: Box<files::FileRest>) -> Self {
        Self::Rest(Rest::File(rest))
    }

    /// Of an object of the cache.
    pub(crate) fn cached(rest: Box<deliver::CachedRest>) -> Self {
        Self::Rest(Rest::Cached(rest))
    }

    /// Of a response from a cache in memory.
    pub(crate) fn memory(rest: Box<memory::MemoryRest>) -> Self {
        Self::Rest(Rest::Memory(rest))
    }

    /// Of an application server's answer.
    pub(crate) fn fast_cgi(rest: Box<carried::Rest<Answer>>) -> Self {
        Self::Rest(Rest::FastCgi(rest))
    }

    /// Of an exchange over HTTP/2.
    pub(crate) fn http2(rest: Box<carried::Rest<Link>>) -> Self {
        Self::Rest(Rest::Http2(rest))
    }

    /// Of an answer that leaves nothing.
    pub(crate) fn never(never: Infallible) -> Self {
        match never {}
    }
}

/// The rest of a body, by where it comes from.
pub(crate) enum Rest {
    /// An endpoint.
    Proxied(Box<proxy::ProxiedRest>),
    /// An application server.
    FastCgi(Box<carried::Rest<Answer>>),
    /// An endpoint, over HTTP/2.
    Http2(Box<carried::Rest<Link>>),
    /// A file.
    File(Box<files::FileRest>),
    /// An object of the cache.
    Cached(Box<deliver::CachedRest>),
    /// A response from a cache in memory.
    Memory(Box<memory::MemoryRest>),
}

impl Rest {
    /// Carries it to its end. The exchange holds on to no plan meanwhile.
    pub(crate) async fn carry<D: Downstream>(self, exchange: &mut Exchange, down: &mut D) {
        crate::exchange::detach::exchange(exchange);
        match self {
            Self::Proxied(rest) => rest.carry(exchange, down).await,
            Self::FastCgi(rest) => rest.carry(exchange, down).await,
            Self::Http2(rest) => rest.carry(exchange, down).await,
            Self::File(rest) => rest.carry(exchange, down).await,
            Self::Cached(rest) => rest.carry(exchange, down).await,
            Self::Memory(rest) => rest.carry(exchange, down).await,
        }
    }
}
