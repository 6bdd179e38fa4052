//! Questions about stick tables.
//!
//! Owns: which entry is meant, what a question is answered with.
//! Never: tracks an entry; `eval::stick_rules` does.
//! Driven by: variables, steps of conversions.
//! Why: as in HAProxy a counter that tracks nothing has no value, an address without an entry has zeros, and what a table
//! does not store has no value either.

use std::io::Write as _;
use std::sync::Arc;

use weir_expr::{StickAsk, StickData, StickWhat, StickWhom};
use weir_policy::Millis;
use weir_policy::limit::{StickTable, Tracked};

use crate::exchange::Traffic;
use crate::exchange::sticks;

/// A table by its name.
pub(super) fn table_of(traffic: &impl Traffic, name: &str) -> Option<Arc<StickTable>> {
    traffic.installed.prepared.sticks.get(name).cloned()
}

/// Appends the answer to a question; false if there is none.
pub(super) fn append(traffic: &impl Traffic, ask: &StickAsk, out: &mut Vec<u8>) -> bool {
    let now = traffic.worker.millis();
    let answer = match &ask.whom {
        StickWhom::Counter(number, None) => match ask.what {
            StickWhat::Tracked => Some(u64::from(sticks::with(traffic, *number, |_| ()).is_some())),
            what => sticks::with(traffic, *number, |tracked| of_tracked(tracked, what, now)).flatten(),
        },
        StickWhom::Counter(number, Some(table)) => table_of(traffic, table).and_then(|table| {
            // What is tracked there is a key here.
            let key = sticks::with(traffic, *number, Tracked::key);
            match (ask.what, key) {
                (StickWhat::Tracked, None) => Some(0),
                (what, key) => of_key(&table, &key?, what, now),
            }
        }),
        StickWhom::Client(table) => table_of(traffic, table).and_then(|table| {
            let (address, _) = traffic.client_source()?;
            of_key(&table, &table.key_of_address(address)?, ask.what, now)
        }),
        StickWhom::Table(table) => table_of(traffic, table).and_then(|table| {
            let entries = table.len() as u64;
            match ask.what {
                StickWhat::Entries => Some(entries),
                StickWhat::Available => Some(table.config().size.saturating_sub(entries)),
                _ => None,
            }
        }),
    };
    answer.is_some_and(|answer| write!(out, "{answer}").is_ok())
}

fn of_tracked(tracked: &Tracked, what: StickWhat, now: Millis) -> Option<u64> {
    match what {
        StickWhat::Value(data) => tracked.read(data, now),
        StickWhat::Kilobytes(data) => tracked.read(data, now).map(|bytes| bytes >> 10),
        StickWhat::Increase(n) => {
            let rate = tracked.add(StickData::GpcRate(n), now, 1);
            // As in HAProxy the rate is what there is if the counter is not stored.
            tracked.add(StickData::Gpc(n), now, 1).or(rate)
        }
        StickWhat::Clear(n) => tracked.set(StickData::Gpc(n), now, 0),
        StickWhat::Seen => tracked.add(StickData::ConnCnt, now, 1),
        StickWhat::Trackers => Some(u64::from(tracked.users())),
        StickWhat::Expire => Some(tracked.expires_in(now)),
        StickWhat::Idle => Some(0),
        StickWhat::Tracked | StickWhat::Entries | StickWhat::Available => None,
    }
}

/// What a table says of a key, be there an entry or not.
fn of_key(table: &StickTable, key: &[u8], what: StickWhat, now: Millis) -> Option<u64> {
    // Where there is no entry, not even what is not stored is missed.
    let value =
        |data: StickData| table.read(key, data, now).or_else(|| (!table.contains(key, now)).then_some(0));
    match what {
        StickWhat::Value(data) => value(data),
        StickWhat::Kilobytes(data) => value(data).map(|bytes| bytes >> 10),
        StickWhat::Increase(n) => {
            let rate = table.add(key, StickData::GpcRate(n), now, 1);
            table.add(key, StickData::Gpc(n), now, 1).or(rate)
        }
        StickWhat::Clear(n) => {
            let before = table.zero(key, StickData::Gpc(n), now);
            before.or_else(|| (!table.contains(key, now)).then_some(0))
        }
        StickWhat::Seen => table.add(key, StickData::ConnCnt, now, 1),
        StickWhat::Tracked => Some(u64::from(table.contains(key, now))),
        StickWhat::Trackers => Some(table.users(key, now).map_or(0, u64::from)),
        StickWhat::Expire => table.expires_in(key, now),
        StickWhat::Idle => {
            let expire = weir_policy::millis(table.config().expire?);
            table.expires_in(key, now).map(|left| expire.saturating_sub(left))
        }
        StickWhat::Entries | StickWhat::Available => None,
    }
}

/// A converter: what a table says of a value as a key.
pub(super) fn of_value(
    traffic: &impl Traffic,
    table: &str,
    what: StickWhat,
    value: &[u8],
) -> Option<Vec<u8>> {
    let table = table_of(traffic, table)?;
    let answer = of_key(&table, &table.key_of(value)?, what, traffic.worker.millis())?;
    Some(answer.to_string().into_bytes())
}
