//! Waiting for a slot of a full pool: HAProxy's queues for `maxconn`.
//!
//! Owns: who waits, in which order, for which endpoint or for any.
//! Never: keeps time; a place is a future, and the caller bounds it (`timeout queue`).
//! Driven by: the exchange, on `Choice::AllBusy`; leases, which call the next when they end; changes of state, which
//! call everybody.
//! Why: a slot freed on one worker may be awaited on another, so the queue is the process's. It costs an exchange
//! nothing unless its endpoint has a `max_conns`, and then one load.
//!
//! Order of calls: `PoolShared::join` → loop { await the place; `Selection::queued`; `Pool::choose`; an endpoint:
//! `Place::seated`, done; busy: `Place::again` }.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicUsize, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use weir_control::EndpointKey;

use super::shared::EndpointShared;

/// The queue of one pool. Survives plans.
#[derive(Debug, Default)]
pub(super) struct SlotQueue {
    /// All who wait; read without the lock by leases that end.
    waiting: AtomicUsize,
    /// Of those, who would take any endpoint.
    for_any: AtomicUsize,
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    next: u64,
    peak: usize,
    waiters: BTreeMap<Ticket, Waiter>,
}

/// Where somebody stands: the least is served first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// Whoever has a lower class is served before.
    pub class: i16,
    /// Within a class: when it came, in milliseconds, sooner or later by what it was granted.
    pub due: i64,
}

/// A turn, and who came first of those that have the same.
type Ticket = (Turn, u64);

#[derive(Debug)]
struct Waiter {
    wanted: Option<EndpointKey>,
    waker: Option<Waker>,
    call: Call,
    /// A slot came free while it was already called.
    missed: bool,
}

/// What a waiter was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// Nothing yet.
    None,
    /// Look for yourself: it is first in line, or something changed.
    Look,
    /// This endpoint has a slot.
    Free(EndpointKey),
}

/// A place in the queue of a pool; dropped, it is given up, and a call it had got passes to the next.
#[derive(Debug)]
pub struct Place {
    queue: Arc<SlotQueue>,
    wanted: Option<Arc<EndpointShared>>,
    ticket: Ticket,
    seated: bool,
}

impl SlotQueue {
    pub(super) fn len(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    pub(super) fn peak(&self) -> usize {
        self.line().peak
    }

    pub(super) fn clear_peak(&self) {
        let mut line = self.line();
        line.peak = line.waiters.len();
    }

    /// True if somebody waits for any endpoint, so that a newcomer has to stand behind.
    pub(super) fn someone_for_any(&self) -> bool {
        self.for_any.load(Relaxed) > 0
    }

    pub(super) fn join(
        self: &Arc<Self>,
        wanted: Option<Arc<EndpointShared>>,
        most: usize,
        turn: Turn,
    ) -> Option<Place> {
        let key = wanted.as_ref().map(|endpoint| endpoint.key());
        let mut line = self.line();
        if most > 0 && line.waiters.len() >= most {
            return None;
        }
        let behind = line.waiters.values().any(|other| other.wanted.is_none() || other.wanted == key);
        // First in line: a slot may have come free since it was refused one, when nobody was there to be called.
        let call = if behind { Call::None } else { Call::Look };
        let ticket = (turn, line.next);
        line.next += 1;
        line.waiters.insert(ticket, Waiter { wanted: key, waker: None, call, missed: false });
        line.peak = line.peak.max(line.waiters.len());
        self.waiting.fetch_add(1, SeqCst);
        match &wanted {
            Some(endpoint) => {
                endpoint.pending().fetch_add(1, Relaxed);
            }
            None => {
                self.for_any.fetch_add(1, Relaxed);
            }
        }
        drop(line);
        // With the fence in `slot_freed`: either its lease sees us waiting, or we see its slot free.
        fence(SeqCst);
        Some(Place { queue: Arc::clone(self), wanted, ticket, seated: false })
    }

    /// A slot of `key` came free: calls the first who may use it.
    pub(super) fn slot_freed(&self, key: EndpointKey) {
        fence(SeqCst);
        if self.waiting.load(SeqCst) == 0 {
            return;
        }
        let mut line = self.line();
        let fits = |waiter: &Waiter| waiter.wanted.is_none_or(|wanted| wanted == key);
        let waker = match line.waiters.values_mut().find(|w| w.call == Call::None && fits(w)) {
            Some(waiter) => {
                waiter.call = Call::Free(key);
                waiter.waker.take()
            }
            None => {
                // All are called already; whoever of them finds nothing has to look once more.
                line.waiters.values_mut().filter(|w| fits(w)).for_each(|waiter| waiter.missed = true);
                None
            }
        };
        drop(line);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Endpoints or weights changed: everybody looks again.
    pub(super) fn call_all(&self) {
        if self.waiting.load(SeqCst) == 0 {
            return;
        }
        let mut wakers = Vec::new();
        for waiter in self.line().waiters.values_mut() {
            if waiter.call == Call::None {
                waiter.call = Call::Look;
            }
            wakers.extend(waiter.waker.take());
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    fn leave(&self, ticket: Ticket, wanted: Option<&EndpointShared>) -> Call {
        let call = self.line().waiters.remove(&ticket).map_or(Call::None, |waiter| waiter.call);
        self.waiting.fetch_sub(1, SeqCst);
        match wanted {
            Some(endpoint) => drop(endpoint.pending().fetch_sub(1, Relaxed)),
            None => drop(self.for_any.fetch_sub(1, Relaxed)),
        }
        call
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        // Each change is one step: a panic cannot have left the line inconsistent.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// It got its endpoint.
    pub fn seated(mut self) {
        self.seated = true;
    }

    /// It was called, and another was faster: wait again, at the same place.
    pub fn again(&mut self) {
        if let Some(waiter) = self.queue.line().waiters.get_mut(&self.ticket) {
            waiter.call = if std::mem::take(&mut waiter.missed) { Call::Look } else { Call::None };
        }
    }

    /// How many stand before it.
    pub fn position(&self) -> usize {
        self.queue.line().waiters.range(..self.ticket).count()
    }
}

/// Ready when it is worth choosing again.
impl Future for Place {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut line = self.queue.line();
        let Some(waiter) = line.waiters.get_mut(&self.ticket) else { return Poll::Ready(()) };
        if waiter.call != Call::None {
            return Poll::Ready(());
        }
        match &mut waiter.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let call = self.queue.leave(self.ticket, self.wanted.as_deref());
        if let (Call::Free(key), false) = (call, self.seated) {
            self.queue.slot_freed(key);
        }
    }
}
