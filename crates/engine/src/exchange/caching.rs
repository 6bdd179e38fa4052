//! What an exchange has to do with the cache.
//!
//! Owns: the object that it is about, what became of looking for it, what is to become of the upstream's answer.
//! Never: looks, judges or stores; `action::cached` does.
//! Driven by: `action::cached`, and by the actions whose upstreams are cached.
//! Why: behind one pointer, which is null for everything that is not cached.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use weir_cache::{Fill, Key, Store};
use weir_http::{HeaderId, Method};

use super::Exchange;
use crate::files::Held;
pub(crate) use crate::worker::zones::{CACHE_STATUSES, CacheStatus};

/// Fields of requests that an upstream of a cache is not to see: it is asked for the whole.
pub(crate) const PARTIAL: u128 = HeaderId::IfMatch.bit()
    | HeaderId::IfNoneMatch.bit()
    | HeaderId::IfModifiedSince.bit()
    | HeaderId::IfUnmodifiedSince.bit()
    | HeaderId::IfRange.bit()
    | HeaderId::Range.bit();

/// What an exchange has to do with the cache.
pub(crate) struct Caching {
    /// The settings.
    pub(crate) settings: Arc<weir_plan::Caching>,
    /// The zone's store.
    pub(crate) store: Arc<Store>,
    /// What all objects of its name have the same.
    pub(crate) name: Vec<u8>,
    /// The name says which slice of a response the object is.
    pub(crate) names_slice: bool,
    /// Of the name.
    pub(crate) main: Key,
    /// Of the variant that the request gets, where the name's object varies.
    pub(crate) key: Key,
    /// What became of looking; `None`: nobody looked, since the method is not cached.
    pub(crate) status: Option<CacheStatus>,
    /// The right to fetch.
    pub(crate) fill: Option<Fill>,
    /// The object that is too old, and may be used all the same or asked about.
    pub(crate) old: Option<Rc<Held>>,
    /// The object of the name, whatever its variant: which fields it varies by.
    pub(crate) first: Option<Rc<Held>>,
    /// The object that takes the place of the upstream's answer.
    pub(crate) instead: Option<Rc<Held>>,
    /// Bytes of the response that were written to the cache.
    pub(crate) written: Rc<Cell<Option<u64>>>,
    /// What the upstream answers may be stored.
    pub(crate) stores: bool,
    /// The upstream is asked for the whole, whatever part the client wants.
    pub(crate) whole: bool,
    /// The upstream is asked whether `old` still holds good.
    pub(crate) asks: bool,
    /// The upstream is asked with GET for a client that asked with HEAD.
    pub(crate) as_get: bool,
    /// The upstream answered.
    pub(crate) answered: bool,
    /// A good answer makes what is stored invalid: its method is not safe.
    pub(crate) invalidates: bool,
    /// When the upstream was asked.
    pub(crate) began: Instant,
}

impl Caching {
    /// The exchange has no more to do with the cache; what became of looking stays, for logs.
    pub(crate) fn part(&mut self) {
        (self.stores, self.whole, self.asks) = (false, false, false);
        (self.as_get, self.invalidates) = (false, false);
        (self.fill, self.old, self.first, self.instead) = (None, None, None, None);
    }
}

impl Exchange {
    /// The method that the upstream is asked with.
    pub(crate) fn upstream_method(&self) -> Method {
        match &self.caching {
            Some(caching) if caching.as_get => Method::Get,
            _ => self.request.method,
        }
    }

    /// The same, spelled.
    pub(crate) fn upstream_method_text(&self) -> &[u8] {
        match &self.caching {
            Some(caching) if caching.as_get => b"GET",
            _ => &self.request.method_text,
        }
    }

    /// Fields of the client's request that the upstream is not to see.
    pub(crate) fn kept_from_upstream(&self) -> u128 {
        match &self.caching {
            Some(caching) if caching.whole => PARTIAL,
            _ => 0,
        }
    }

    /// Whether what the upstream answers may be stored, so that the client's leaving is no reason to stop.
    pub(crate) fn may_be_stored(&self) -> bool {
        self.caching.as_ref().is_some_and(|caching| caching.stores)
    }

    /// The conditions that the upstream is asked with: the validators of an old object.
    pub(crate) fn conditions(&self) -> [(HeaderId, Option<&[u8]>); 2] {
        let old =
            self.caching.as_ref().filter(|caching| caching.asks).and_then(|caching| caching.old.as_ref());
        let value = |id| old.and_then(|old| old.head().1.headers().value(id));
        [
            (HeaderId::IfNoneMatch, value(HeaderId::ETag)),
            (HeaderId::IfModifiedSince, value(HeaderId::LastModified)),
        ]
    }
}
