//! Endpoints that rules of the pool name.
//!
//! Owns: which rule holds, and taking its endpoint.
//! Never: waits: a rule whose endpoint cannot be used is as one that does not hold.
//! Driven by: `upstream::picker`, before cookies and stick tables are asked.

use std::cell::RefCell;
use std::rc::Rc;

use weir_control::EndpointKey;
use weir_plan::Pool;
use weir_policy::pool::{Lease, Selection};

use crate::eval::{condition, text};
use crate::exchange::Traffic;
use crate::worker::endpoints::{Member, WorkerPool};

/// The endpoint of the first rule that holds and whose endpoint can be used.
#[cold]
pub(super) fn taken(
    traffic: &mut impl Traffic,
    pool: &Pool,
    members: &RefCell<WorkerPool>,
    selection: &mut Selection,
) -> Option<(Lease, Rc<Member>)> {
    for rule in &pool.assigned {
        if let Some(condition) = &rule.condition
            && !condition::holds(traffic, condition).unwrap_or(false)
        {
            continue;
        }
        let name = text(traffic, &rule.endpoint);
        let now = traffic.worker.millis();
        let mut members = members.borrow_mut();
        let of_name = members.members().iter().map(|member| member.endpoint());
        let keys: Vec<EndpointKey> =
            of_name.filter(|one| one.name.as_bytes() == &*name).map(|one| one.key).collect();
        if let Some(taken) = keys.into_iter().find_map(|key| members.take(key, now, selection)) {
            return Some(taken);
        }
    }
    None
}
