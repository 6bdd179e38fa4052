//! Keeping keys at their endpoint by stick tables.
//!
//! Owns: looking a key up before a choice, learning the endpoint that serves.
//! Never: chooses: an endpoint that is known and cannot be used is as one that is not.
//! Driven by: `upstream::picker`, `action::proxy`, `tcp`.

use std::cell::RefCell;

use weir_control::EndpointKey;
use weir_expr::StickData;
use weir_plan::{Pool, StickRule};
use weir_policy::limit::StickTableKey;

use super::picker::Picked;
use crate::eval::{condition, stick_rules};
use crate::exchange::Traffic;
use crate::worker::Installed;
use crate::worker::endpoints::WorkerPool;

/// The endpoint that the first rule which knows its key names.
#[cold]
pub(super) fn wanted(
    traffic: &mut impl Traffic,
    pool: &Pool,
    members: &RefCell<WorkerPool>,
) -> Option<EndpointKey> {
    let rules = pool.stickiness.as_deref()?.rules.iter().filter(|rule| rule.matches);
    for rule in rules {
        let Some(key) = key(traffic, rule) else { continue };
        let now = traffic.worker.millis();
        let Some(table) = traffic.installed.prepared.sticks.get(&*rule.table).cloned() else { continue };
        let number = table.read(&key, StickData::ServerId, now).filter(|number| *number > 0);
        let Some(number) = number else { continue };
        table.touch(&key, now);
        let members = members.borrow();
        let found = members.members().iter().find(|member| u64::from(member.number()) == number);
        if let Some(found) = found {
            return Some(found.endpoint().key);
        }
    }
    None
}

/// An endpoint serves: rules learn it.
#[inline]
pub(crate) fn learn(traffic: &mut impl Traffic, installed: &Installed, picked: &Picked) {
    if let Some((pool, _)) = &picked.member
        && installed.plan.pool(*pool).stickiness.is_some()
    {
        store(traffic, installed, picked);
    }
}

#[cold]
fn store(traffic: &mut impl Traffic, installed: &Installed, picked: &Picked) {
    let Some((pool, member)) = &picked.member else { return };
    let Some(stickiness) = &installed.plan.pool(*pool).stickiness else { return };
    let number = member.number();
    if stickiness.never.contains(&number) {
        return;
    }
    for rule in stickiness.rules.iter().filter(|rule| rule.stores) {
        let Some(key) = key(traffic, rule) else { continue };
        let now = traffic.worker.millis();
        if let Some(table) = installed.prepared.sticks.get(&*rule.table) {
            table.set(&key, StickData::ServerId, now, u64::from(number));
        }
    }
}

/// A rule's key, if the rule holds and there is one.
fn key(traffic: &mut impl Traffic, rule: &StickRule) -> Option<StickTableKey> {
    if let Some(condition) = &rule.condition
        && !condition::holds(traffic, condition).unwrap_or(false)
    {
        return None;
    }
    let value = stick_rules::value(traffic, &rule.key)?;
    traffic.installed.prepared.sticks.get(&*rule.table)?.key_of(&value)
}
