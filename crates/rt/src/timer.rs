//! Timers: a hashed wheel per worker, with lazily re-armed entries.
//!
//! Owns: the wheel, `Timer`, `timeout`, `sleep_until`.
//! Never: makes a system call; fires early; allocates for each arming.
//! Driven by: the runtime's loop (`Wheel::advance` after each wait, `Wheel::next` before).
//! Why: every request re-arms its connection's timeout, nearly none fires. Arming later than the entry's place in
//! the wheel only stores the new deadline; when the old place comes up, the entry is moved. So a re-armed timeout
//! costs a store, and a wake-up in half a minute. So does a timer that is made for a request: the entry of one that was
//! dropped stays in its place, and is the next one's.
//!
//! ```text
//!   tick = 2^23 ns ≈ 8.4 ms      4096 buckets ≈ 34 s a turn; later deadlines are moved once a turn
//! ```

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::{Instant, nanos_of};
use crate::paged::Paged;
use crate::worker::Worker;

const TICK_SHIFT: u32 = 23;
const BUCKETS: usize = 4096;
const NIL: u32 = u32::MAX;
const DISARMED: u64 = u64::MAX;

struct Entry {
    /// When it is due, in ticks; `DISARMED` when it is not.
    due: u64,
    /// The tick whose bucket links it; `DISARMED` when none does.
    linked: u64,
    prev: u32,
    next: u32,
    fired: bool,
    waker: Option<Waker>,
}

pub(crate) struct Wheel {
    entries: Paged<Entry>,
    /// Entries of timers that were dropped, some of them still in a bucket.
    free: Vec<u32>,
    heads: Box<[u32]>,
    occupied: [u64; BUCKETS / 64],
    /// The last tick whose bucket was emptied.
    current: u64,
    /// The tick of the next bucket that holds anything, so that a wake-up between two of them costs a comparison;
    /// `DISARMED`: none does. `None`: it has to be looked for.
    soonest: Option<u64>,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Self {
            entries: Paged::new(),
            free: Vec::new(),
            heads: vec![NIL; BUCKETS].into_boxed_slice(),
            occupied: [0; BUCKETS / 64],
            current: 0,
            soonest: Some(DISARMED),
        }
    }

    fn insert(&mut self) -> u32 {
        if let Some(index) = self.free.pop() {
            return index;
        }
        let entry =
            Entry { due: DISARMED, linked: DISARMED, prev: NIL, next: NIL, fired: false, waker: None };
        self.entries.insert(entry)
    }

    fn remove(&mut self, index: u32) -> Option<Waker> {
        let entry = self.entries.get_mut(index)?;
        entry.due = DISARMED;
        entry.fired = false;
        let waker = entry.waker.take();
        self.free.push(index);
        waker
    }

    #[inline]
    fn arm(&mut self, index: u32, due: u64) {
        let entry = &mut self.entries[index];
        entry.fired = false;
        entry.due = due;
        if entry.linked <= due {
            return;
        }
        self.unlink(index);
        self.link(index);
    }

    fn link(&mut self, index: u32) {
        let entry = &mut self.entries[index];
        let tick = entry.due.clamp(self.current + 1, self.current + BUCKETS as u64 - 1);
        let bucket = tick as usize % BUCKETS;
        entry.linked = tick;
        entry.prev = NIL;
        entry.next = self.heads[bucket];
        let next = entry.next;
        if next != NIL {
            self.entries[next].prev = index;
        }
        self.heads[bucket] = index;
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
        self.soonest = self.soonest.map(|soonest| soonest.min(tick));
    }

    fn unlink(&mut self, index: u32) {
        let entry = &mut self.entries[index];
        if entry.linked == DISARMED {
            return;
        }
        let bucket = entry.linked as usize % BUCKETS;
        entry.linked = DISARMED;
        let (prev, next) = (entry.prev, entry.next);
        if next != NIL {
            self.entries[next].prev = prev;
        }
        if prev != NIL {
            self.entries[prev].next = next;
        } else {
            self.heads[bucket] = next;
            if next == NIL {
                self.occupied[bucket / 64] &= !(1 << (bucket % 64));
                self.soonest = None;
            }
        }
    }

    /// The tick of the next bucket that holds anything.
    fn next_tick(&mut self) -> Option<u64> {
        let soonest = match self.soonest {
            Some(soonest) => soonest,
            None => self.find_next_tick().unwrap_or(DISARMED),
        };
        self.soonest = Some(soonest);
        (soonest != DISARMED).then_some(soonest)
    }

    fn find_next_tick(&self) -> Option<u64> {
        let first = (self.current + 1) as usize % BUCKETS;
        let words = self.occupied.len();
        for step in 0..=words {
            let word = (first / 64 + step) % words;
            let mut bits = self.occupied[word];
            if step == 0 {
                bits &= u64::MAX << (first % 64);
            } else if step == words {
                bits &= !(u64::MAX << (first % 64));
            }
            if bits != 0 {
                let bucket = word * 64 + bits.trailing_zeros() as usize;
                let ahead = (bucket + BUCKETS - first) % BUCKETS;
                return Some(self.current + 1 + ahead as u64);
            }
        }
        None
    }

    /// Nanoseconds (of the worker's clock) at which the wheel wants to be advanced.
    pub(crate) fn next_nanos(&mut self) -> Option<u64> {
        self.next_tick().map(|tick| tick << TICK_SHIFT)
    }

    /// Fires what is due at `nanos`; the wakers of those who wait go to `woken`.
    pub(crate) fn advance(&mut self, nanos: u64, woken: &mut Vec<Waker>) {
        let now = nanos >> TICK_SHIFT;
        while let Some(tick) = self.next_tick().filter(|&tick| tick <= now) {
            self.current = tick - 1;
            self.empty_bucket(tick, now, woken);
            self.current = tick;
        }
        self.current = self.current.max(now);
    }

    fn empty_bucket(&mut self, tick: u64, now: u64, woken: &mut Vec<Waker>) {
        let bucket = tick as usize % BUCKETS;
        let mut index = std::mem::replace(&mut self.heads[bucket], NIL);
        self.occupied[bucket / 64] &= !(1 << (bucket % 64));
        self.soonest = None;
        // Relinked entries must land behind this bucket.
        self.current = tick;
        while index != NIL {
            let entry = &mut self.entries[index];
            let next = entry.next;
            entry.linked = DISARMED;
            if entry.due <= now {
                entry.due = DISARMED;
                entry.fired = true;
                woken.extend(entry.waker.take());
            } else if entry.due != DISARMED {
                self.link(index);
            }
            index = next;
        }
    }
}

/// One timeout that can be armed again and again at the price of a store.
///
/// Keep one per connection. Resolution about 8 ms, never early. Dropping it cancels it.
///
/// ```no_run
/// # async fn example(stream: weir_rt::Stream) -> std::io::Result<()> {
/// let timer = weir_rt::Timer::new();
/// let mut buf = weir_rt::Buf::new();
/// loop {
///     timer.arm(std::time::Duration::from_secs(60));
///     match timer.run(stream.read(&mut buf)).await {
///         Ok(read) => drop(read?),
///         Err(weir_rt::Elapsed) => return Ok(()),
///     }
/// }
/// # }
/// ```
pub struct Timer {
    worker: Rc<Worker>,
    index: u32,
}

/// The deadline passed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the deadline has passed")
    }
}

impl std::error::Error for Elapsed {}

impl Timer {
    /// A timer of the calling thread's runtime, not armed.
    ///
    /// # Panics
    /// Outside a runtime.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let worker = Worker::current();
        let index = worker.wheel.borrow_mut().insert();
        Self { worker, index }
    }

    /// Arms it to fire `after` from now (the cached clock).
    pub fn arm(&self, after: Duration) {
        self.arm_nanos(self.worker.clock.now_nanos().saturating_add(nanos_of(after)));
    }

    /// Arms it to fire at `deadline`, replacing any earlier deadline.
    pub fn arm_at(&self, deadline: Instant) {
        self.arm_nanos(self.worker.clock.nanos(deadline));
    }

    #[inline]
    fn arm_nanos(&self, nanos: u64) {
        // Rounded up: a timer never fires early.
        let tick = (nanos >> TICK_SHIFT) + 1;
        self.worker.wheel.borrow_mut().arm(self.index, tick);
    }

    /// Makes it never fire, until armed again.
    pub fn disarm(&self) {
        let mut wheel = self.worker.wheel.borrow_mut();
        let entry = &mut wheel.entries[self.index];
        entry.due = DISARMED;
        entry.fired = false;
    }

    /// Whether it fired since it was armed.
    pub fn expired(&self) -> bool {
        self.worker.wheel.borrow().entries[self.index].fired
    }

    /// Ready when it has fired; otherwise the task is woken when it does.
    pub fn poll_expired(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut wheel = self.worker.wheel.borrow_mut();
        let entry = &mut wheel.entries[self.index];
        if entry.fired {
            return Poll::Ready(());
        }
        match &mut entry.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            slot => *slot = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Waits until it fires.
    pub async fn wait(&self) {
        std::future::poll_fn(|cx| self.poll_expired(cx)).await;
    }

    /// As [`Timer::run`], for a future that mostly ends at once: only when it has to wait the timer is armed, for the time
    /// that `after` holds, which is taken then. `None`: it was armed before.
    pub fn within<'a, F: Future>(&'a self, after: &'a mut Option<Duration>, future: F) -> Within<'a, F> {
        Within { after, run: self.run(future) }
    }

    /// Runs `future` until it ends or this timer fires. The future is tried first, and is dropped when time is up.
    pub fn run<F: Future>(&self, future: F) -> Run<'_, F> {
        Run { timer: self, future }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let waker = self.worker.wheel.borrow_mut().remove(self.index);
        // Dropped outside the borrow: a waker may be the last owner of anything.
        drop(waker);
    }
}

/// The future of [`Timer::run`].
pub struct Run<'a, F> {
    timer: &'a Timer,
    future: F,
}

impl<F: Future> Future for Run<'_, F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `future` is pinned with `self`: it is never moved out, `Run` has no Drop and no other access.
        let (timer, future) = unsafe {
            let this = self.get_unchecked_mut();
            (this.timer, Pin::new_unchecked(&mut this.future))
        };
        if let Poll::Ready(output) = future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        timer.poll_expired(cx).map(|()| Err(Elapsed))
    }
}

/// The future of [`Timer::within`].
pub struct Within<'a, F> {
    after: &'a mut Option<Duration>,
    run: Run<'a, F>,
}

impl<F: Future> Future for Within<'_, F> {
    type Output = Result<F::Output, Elapsed>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `run` is pinned with `self`: it is never moved out, `Within` has no Drop and no other access to it; `after`
        // is not pinned.
        let (after, timer, future) = unsafe {
            let this = self.get_unchecked_mut();
            (&mut *this.after, this.run.timer, Pin::new_unchecked(&mut this.run.future))
        };
        if let Poll::Ready(output) = future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        if let Some(after) = after.take() {
            timer.arm(after);
        }
        timer.poll_expired(cx).map(|()| Err(Elapsed))
    }
}

/// Runs `future` until it ends or `deadline` passes. For timeouts that come again, keep a [`Timer`] instead.
pub async fn timeout<F: Future>(deadline: Instant, future: F) -> Result<F::Output, Elapsed> {
    let timer = Timer::new();
    timer.arm_at(deadline);
    timer.run(future).await
}

/// Waits until `deadline` (resolution about 8 ms, never early).
pub async fn sleep_until(deadline: Instant) {
    let timer = Timer::new();
    timer.arm_at(deadline);
    timer.wait().await;
}

/// Waits for `duration` from now.
pub async fn sleep(duration: Duration) {
    sleep_until(Worker::current().clock.now() + duration).await;
}

pub(crate) fn wheel() -> RefCell<Wheel> {
    RefCell::new(Wheel::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fired(wheel: &Wheel, index: u32) -> bool {
        wheel.entries[index].fired
    }

    #[test]
    fn later_arming_moves_lazily() {
        let mut wheel = Wheel::new();
        let index = wheel.insert();
        wheel.arm(index, 10);
        wheel.arm(index, 1000);
        assert_eq!(wheel.entries[index].linked, 10);
        wheel.advance(10 << TICK_SHIFT, &mut Vec::new());
        assert!(!fired(&wheel, index));
        assert_eq!(wheel.next_tick(), Some(1000));
        wheel.advance(1000 << TICK_SHIFT, &mut Vec::new());
        assert!(fired(&wheel, index));
        assert_eq!(wheel.next_tick(), None);
    }

    #[test]
    fn earlier_arming_moves_at_once_and_far_deadlines_wrap() {
        let mut wheel = Wheel::new();
        let index = wheel.insert();
        wheel.arm(index, 50_000);
        assert_eq!(wheel.next_tick(), Some(BUCKETS as u64 - 1));
        wheel.arm(index, 3);
        assert_eq!(wheel.next_tick(), Some(3));
        wheel.arm(index, 50_000);
        let mut rounds = 0;
        while !fired(&wheel, index) {
            let tick = wheel.next_tick().unwrap();
            wheel.advance(tick << TICK_SHIFT, &mut Vec::new());
            rounds += 1;
            assert!(rounds < 20);
        }
        assert!(wheel.current >= 50_000);
    }

    #[test]
    fn a_long_pause_fires_everything_due() {
        let mut wheel = Wheel::new();
        let all: Vec<u32> = (0..100).map(|_| wheel.insert()).collect();
        for (i, &index) in all.iter().enumerate() {
            wheel.arm(index, 1 + i as u64 * 97);
        }
        wheel.advance(20_000 << TICK_SHIFT, &mut Vec::new());
        assert!(all.iter().all(|&index| fired(&wheel, index)));
        assert!(wheel.remove(all[3]).is_none());
    }

    #[test]
    fn the_entry_of_a_dropped_timer_fires_for_its_next_owner_only() {
        let mut wheel = Wheel::new();
        let first = wheel.insert();
        wheel.arm(first, 10);
        assert!(wheel.remove(first).is_none());
        let next = wheel.insert();
        assert_eq!(next, first);
        wheel.advance(10 << TICK_SHIFT, &mut Vec::new());
        assert!(!fired(&wheel, next));
        assert_eq!(wheel.next_tick(), None);
        wheel.arm(next, 20);
        wheel.advance(20 << TICK_SHIFT, &mut Vec::new());
        assert!(fired(&wheel, next));
    }

    #[test]
    fn what_ends_at_once_arms_nothing_and_what_waits_has_its_time() {
        let runtime = crate::Runtime::new(crate::RuntimeConfig::default()).unwrap();
        runtime.block_on(async {
            let timer = Timer::new();
            let armed = || timer.worker.wheel.borrow().entries[timer.index].due != DISARMED;
            let mut after = Some(Duration::from_millis(1));
            assert_eq!(timer.within(&mut after, async { 7 }).await, Ok(7));
            assert!(after.is_some() && !armed());
            let began = crate::Instant::now();
            assert_eq!(timer.within(&mut after, std::future::pending::<()>()).await, Err(Elapsed));
            assert!(after.is_none() && began.elapsed() >= Duration::from_millis(1));
            // Armed before: the time goes on, whatever is waited for next.
            timer.arm(Duration::from_millis(1));
            assert_eq!(timer.within(&mut None, std::future::pending::<()>()).await, Err(Elapsed));
        });
    }
}
