//! Keeping keys at their endpoint by stick tables.
//!
//! Owns: looking a key up before a choice, learning the endpoint that serves.
//! Never: chooses: an endpoint that is known and cannot be used is as one that is not.
//! Driven by: `upstream::picker`, `action::proxy`, `tcp`.

use std::cell::RefCell;

use weir_control::EndpointKey;
use weir_expr::StickData;
use weir_plan::{Pool, StickRule, Stickiness};
use weir_policy::limit::StickTableKey;

use super::picker::Picked;
use crate::eval::{condition, stick_rules};
use crate::exchange::Traffic;
use crate::worker::Installed;
use crate::worker::endpoints::{Member, WorkerPool};

/// The endpoint that the first rule which knows its key names.
#[cold]
pub(super) fn wanted(
    traffic: &mut impl Traffic,
    pool: &Pool,
    members: &RefCell<WorkerPool>,
) -> Option<EndpointKey> {
    let stickiness = pool.stickiness.as_deref()?;
    for rule in stickiness.rules.iter().filter(|rule| rule.matches) {
        let Some(key) = key(traffic, stickiness, rule) else { continue };
        let now = traffic.worker.millis();
        let Some(table) = traffic.installed.prepared.sticks.get(&*rule.table).cloned() else { continue };
        let number = table.read(&key, StickData::ServerId, now).filter(|number| *number > 0);
        let Some(number) = number else { continue };
        table.touch(&key, now);
        let members = members.borrow();
        let found = members.members().iter().find(|member| token(stickiness, member) == number);
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
    if stickiness.never.contains(&member.number()) {
        return;
    }
    for rule in stickiness.rules.iter().filter(|rule| rule.stores) {
        let Some(key) = key(traffic, stickiness, rule) else { continue };
        let now = traffic.worker.millis();
        if let Some(table) = installed.prepared.sticks.get(&*rule.table) {
            table.set(&key, StickData::ServerId, now, token(stickiness, member));
        }
    }
}

/// What an entry holds of an endpoint; never zero.
fn token(stickiness: &Stickiness, member: &Member) -> u64 {
    match stickiness.by_name {
        // Names come and go with the addresses behind them; what is held has room for 32 bits.
        true => member.endpoint().key.0 & 0xffff_ffff | 1,
        false => u64::from(member.number()),
    }
}

/// A rule's key, if the rule holds and there is one.
fn key(traffic: &mut impl Traffic, stickiness: &Stickiness, rule: &StickRule) -> Option<StickTableKey> {
    if let Some(condition) = &rule.condition
        && !condition::holds(traffic, condition).unwrap_or(false)
    {
        return None;
    }
    let value = stick_rules::value(traffic, &rule.key)?;
    if stickiness.by_name && value.is_empty() {
        return None;
    }
    traffic.installed.prepared.sticks.get(&*rule.table)?.key_of(&value)
}
