//! Entries of stick tables that are tracked: by a connection, by a request or a session.
//!
//! Owns: which counter tracks what, and what counts when: connections, sessions, requests, errors, bytes.
//! Never: looks at traffic of configurations without stick tables: there is nothing to look through.
//! Driven by: rules (`eval::sticks`), answers of endpoints, the end of an exchange.
//! Why: as in HAProxy a counter of the request comes before the connection's of the same number, and each event counts
//! in one of them.

use std::cell::RefCell;

use weir_expr::StickData;
use weir_policy::Millis;
use weir_policy::limit::Tracked;

use super::core::Core;

/// What is tracked, by the numbers of counters.
#[derive(Default)]
pub(crate) struct Sticks(Vec<Counter>);

struct Counter {
    number: u8,
    tracked: Tracked,
    /// The session was counted.
    session: bool,
}

/// Those of a connection: they change behind a shared reference.
pub(crate) type ConnectionSticks = Box<RefCell<Sticks>>;

impl Sticks {
    /// What a counter tracks.
    pub(crate) fn find(&self, number: u8) -> Option<&Tracked> {
        self.0.iter().find(|one| one.number == number).map(|one| &one.tracked)
    }

    /// A counter tracks an entry. One that tracks something already keeps it.
    pub(crate) fn put(&mut self, number: u8, tracked: Tracked) {
        if self.find(number).is_none() {
            self.0.push(Counter { number, tracked, session: false });
        }
    }

    /// The session is accepted: it counts once.
    pub(crate) fn count_session(&mut self, now: Millis) {
        for counter in self.0.iter_mut().filter(|counter| !counter.session) {
            counter.session = true;
            add(&counter.tracked, now, 1, StickData::SessCnt, StickData::SessRate);
        }
    }

    fn end(self, now: Millis) {
        self.0.into_iter().for_each(|counter| counter.tracked.end(now));
    }
}

fn add(tracked: &Tracked, now: Millis, by: u64, count: StickData, rate: StickData) {
    tracked.add(count, now, by);
    tracked.add(rate, now, by);
}

/// Calls with all that is tracked: of a number that both have the request's own, not the connection's.
fn each(traffic: &Core, mut call: impl FnMut(&Tracked)) {
    let own = traffic.sticks.as_deref();
    own.into_iter().flat_map(|own| &own.0).for_each(|counter| call(&counter.tracked));
    if let Some(connection) = traffic.client.sticks.get() {
        let connection = connection.borrow();
        let others = connection.0.iter().filter(|one| own.is_none_or(|own| own.find(one.number).is_none()));
        others.for_each(|counter| call(&counter.tracked));
    }
}

/// Whether anything is tracked.
#[inline]
pub(crate) fn tracks(traffic: &Core) -> bool {
    traffic.sticks.is_some() || traffic.client.sticks.get().is_some()
}

/// Calls with what a counter tracks.
pub(crate) fn with<T>(traffic: &Core, number: u8, call: impl FnOnce(&Tracked) -> T) -> Option<T> {
    if let Some(tracked) = traffic.sticks.as_deref().and_then(|own| own.find(number)) {
        return Some(call(tracked));
    }
    traffic.client.sticks.get()?.borrow().find(number).map(call)
}

/// A request has come.
pub(crate) fn count_request(traffic: &Core) {
    let now = traffic.worker.millis();
    each(traffic, |tracked| add(tracked, now, 1, StickData::HttpReqCnt, StickData::HttpReqRate));
}

/// Weir refuses a request, or cannot read it.
#[inline]
pub(crate) fn refused(traffic: &Core) {
    if tracks(traffic) {
        count_error(traffic);
    }
}

#[cold]
fn count_error(traffic: &Core) {
    let now = traffic.worker.millis();
    each(traffic, |tracked| add(tracked, now, 1, StickData::HttpErrCnt, StickData::HttpErrRate));
}

/// An endpoint answers.
#[inline]
pub(crate) fn answered(traffic: &Core, status: u16) {
    if status >= 400 && tracks(traffic) {
        count_status(traffic, status);
    }
}

#[cold]
fn count_status(traffic: &Core, status: u16) {
    let now = traffic.worker.millis();
    match status {
        400..=499 => count_error(traffic),
        // What a server does not do at all is no failure of it.
        501 | 505 => {}
        _ => each(traffic, |tracked| add(tracked, now, 1, StickData::HttpFailCnt, StickData::HttpFailRate)),
    }
}

/// It is over: its bytes count, and what it tracks goes. `unread`: it was a request that could not be read.
#[cold]
pub(crate) fn end(traffic: &mut Core, (received, sent): (u64, u64), unread: bool) {
    let now = traffic.worker.millis();
    if unread {
        count_request(traffic);
        count_error(traffic);
    }
    each(traffic, |tracked| {
        add(tracked, now, received, StickData::BytesInCnt, StickData::BytesInRate);
        add(tracked, now, sent, StickData::BytesOutCnt, StickData::BytesOutRate);
    });
    if let Some(own) = traffic.sticks.take() {
        own.end(now);
    }
}
