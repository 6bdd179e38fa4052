//! What a tunnel, or an answer that lasts, keeps of the plan it began with.
//!
//! Owns: the exchange of a whole plan for the part that the end needs: names, counters, logs, times.
//! Never: is asked for answers that are soon over.
//! Driven by: `action::tunnel` and `tcp`, once the endpoint is connected and only bytes are left to pass; `action::later`.
//! Why: tunnels live on through any number of changes, and pin no plan. Those of one route share one
//! part, so a thousand of them cost one, and none once they have ended.

use std::rc::{Rc, Weak};
use std::sync::Arc;

use weir_plan::{ListenerIx, PartOf, PoolIx, RouteIx, SiteIx, TcpIx};

use crate::exchange::{Core, Exchange, Session};
use crate::worker::Installed;

/// Lets go of the plan of an exchange that became a tunnel, or whose answer lasts.
pub(crate) fn exchange(exchange: &mut Exchange) {
    if exchange.route().settings.afterwards.is_some() {
        // A route of the plan is asked once it has ended.
        return;
    }
    let Some(listener) = exchange.installed.listener(exchange.client.listener) else { return };
    let of = PartOf { listener, http: Some((exchange.site, exchange.route)), tcp: None, pool: exchange.pool };
    reduce(exchange, of);
    exchange.site = SiteIx(0);
    exchange.route = RouteIx(0);
    exchange.after = Vec::new();
}

/// Lets go of the plan of a session.
pub(crate) fn session(session: &mut Session, listener: ListenerIx) {
    let of = PartOf { listener, http: None, tcp: Some(session.tcp), pool: session.pool };
    reduce(session, of);
    session.tcp = TcpIx(0);
}

fn reduce(exchange: &mut Core, of: PartOf) {
    let whole = exchange.installed.clone();
    let known = whole.parts.borrow().get(&of).and_then(Weak::upgrade);
    let part = known.unwrap_or_else(|| {
        let made = Rc::new(cut(exchange, &whole, of));
        let mut parts = whole.parts.borrow_mut();
        if parts.len().is_power_of_two() {
            parts.retain(|_, part| part.strong_count() > 0);
        }
        parts.insert(of, Rc::downgrade(&made));
        made
    });
    exchange.installed = part;
    exchange.pool = of.pool.map(|_| PoolIx(0));
}

fn cut(exchange: &Core, whole: &Installed, of: PartOf) -> Installed {
    let prepared = whole.prepared.of_part(&exchange.worker.shared, whole.plan.part(of), of.pool);
    let pool = of.pool.and_then(|pool| whole.pools.get(pool.at()));
    let pools = pool.map(|pool| pool.borrow().again()).into_iter().collect();
    Installed::of_part(Arc::new(prepared), pools, whole)
}
