//! Updating an old object beside the request that is answered with it.
//!
//! Owns: the request of our own for it.
//! Driven by: the cache, for `background_update`.
//! Why: it is the client's request once more, on the same route, with everything that the route's rules have made of it; so
//! it begins at the action, and is limited and logged no further.

use std::rc::Rc;
use std::time::Instant;

use weir_cache::Fill;
use weir_plan::Action;

use super::gateway::Gateway;
use crate::exchange::{CacheStatus, Caching, Exchange, Nobody, errors};
use crate::worker::Installed;

/// Fetches the object anew, by whoever has the right to.
#[cold]
pub(super) fn update(exchange: &Exchange, installed: &Installed, fill: Fill) {
    let Some(caching) = &exchange.caching else { return };
    let Some(counted) = exchange.worker.begin_beside() else {
        return errors::error(exchange, "too many updates of cached objects are under way: none is begun");
    };
    let mut copy = exchange.again();
    copy.caching = Some(Box::new(Caching {
        settings: caching.settings.clone(),
        store: caching.store.clone(),
        name: caching.name.clone(),
        main: caching.main,
        key: caching.key,
        status: Some(CacheStatus::Expired),
        fill: Some(fill),
        written: Rc::default(),
        old: caching.old.clone(),
        first: caching.first.clone(),
        instead: None,
        stores: true,
        whole: true,
        asks: caching.settings.settings.revalidate,
        names_slice: caching.names_slice,
        as_get: caching.as_get,
        answered: false,
        invalidates: false,
        began: Instant::now(),
    }));
    debug_assert!(std::ptr::eq(&*copy.installed, installed), "a copy is of the same plan");
    weir_rt::spawn(async move {
        let _counted = counted;
        let installed = copy.installed.clone();
        let route = installed.plan.route(copy.route);
        let gateway = match &route.action {
            Action::Proxy(proxy) => Gateway::Proxy(proxy),
            Action::Http2(proxy) => Gateway::Http2(proxy),
            Action::FastCgi(fastcgi) => Gateway::FastCgi(fastcgi),
            _ => return,
        };
        // What it answers nobody hears; what is old stays where it fails.
        let _ = gateway.ask(&mut copy, &mut Nobody::patient_half(), &installed).await;
        copy.give();
    });
}
