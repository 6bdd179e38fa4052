//! Running state of endpoints that outlives a plan, and may be seen by every worker.
//!
//! Owns: in-flight counts, failures, administrative and health state, weight set at run time, the shared turn.
//! Never: chooses; never frees state while an exchange holds a lease on it.
//! Driven by: `Pool` and `Lease` on workers; health checks and the admin API on side threads.
//! Why: everything is an atomic under a stable key, so a reload hands the same `Arc` to the new plan and nothing is
//! copied, lost or counted twice.
//!
//! ```text
//! PoolShared ─ members[i] ─ Arc<EndpointShared>   one per key, shared by all workers and all plan versions
//!            │                ├ admin, health, weight      written by side threads, then `epoch` grows
//!            │                └ load: Arc<EndpointLoad>    counts of the process (placement Process)
//!            ├ epoch        workers refresh their view of the members when it differs from theirs
//!            └ rotation     turns of the process (placement Process)
//! ```

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use weir_control::snapshot::Reason;
use weir_control::{AdminState, EndpointKey};

use super::EndpointIndex;
use super::config::{EndpointConfig, PoolConfig};
use super::queue::{Place, SlotQueue, Turn};
use super::rotation::Rotation;
use crate::budget::Pressure;
use crate::time::{Millis, millis};

fn admin_state(value: u8) -> AdminState {
    match value {
        1 => AdminState::Ready,
        2 => AdminState::Drain,
        3 => AdminState::Maintenance,
        _ => AdminState::AsConfigured,
    }
}

/// Counts of one endpoint: those of the process, or those of one worker.
#[derive(Debug, Default)]
pub struct EndpointLoad {
    /// One writer only: counts change by load and store, without a locked instruction.
    exclusive: bool,
    in_flight: AtomicU32,
    /// The most that were.
    peak: AtomicU32,
    fails: AtomicU32,
    /// Taken off the weight by failures (nginx's effective weight is weight − penalty); one comes back a turn.
    penalty: AtomicU32,
    /// Last failure.
    accessed: AtomicU64,
    /// Last failure, or the choice that began a new window.
    checked: AtomicU64,
    /// Average time of what is measured, in microseconds; zero: nothing was measured yet.
    average: AtomicU64,
    /// When the average was taken, where peaks are measured.
    measured: AtomicU64,
    /// When those in flight began, in milliseconds, all added up. Kept only where that is measured.
    began: AtomicU64,
}

impl EndpointLoad {
    /// Counts that only one thread will change.
    pub(super) fn exclusive() -> Self {
        Self { exclusive: true, ..Self::default() }
    }

    /// Exchanges in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// The most that were in flight at once.
    pub fn peak(&self) -> u32 {
        self.peak.load(Relaxed)
    }

    /// The most is what is in flight now.
    fn clear_peak(&self) {
        self.peak.store(self.in_flight(), Relaxed);
    }

    /// Notes how many are in flight now. Mostly a comparison.
    fn note(&self, now: u32) {
        if now > self.peak() {
            self.peak.fetch_max(now, Relaxed);
        }
    }

    /// Failures counted against `max_fails` now.
    pub fn fails(&self) -> u32 {
        self.fails.load(Relaxed)
    }

    /// The average time of what is measured, in microseconds; zero: nothing was measured yet.
    pub fn average(&self) -> u64 {
        self.average.load(Relaxed)
    }

    /// Takes a time into the average, of which it becomes an eighth. A lost race loses one of many times: harmless.
    pub(super) fn measure(&self, micros: u64) {
        let before = self.average();
        let after = if before == 0 { micros } else { before - before / 8 + micros / 8 };
        self.average.store(after.max(1), Relaxed);
    }

    /// Takes a time into the average as a peak: a longer one counts at once, a shorter one by how long ago the last was. A lost race
    /// loses one of many times: harmless.
    #[expect(clippy::cast_possible_truncation, reason = "between two times that are bounded")]
    pub(super) fn measure_peak(&self, micros: u64, now: Millis, decay: Duration) {
        // No answer takes more than an hour, as far as choices are concerned.
        let micros = micros.clamp(1, 3_600_000_000);
        let kept = self.kept(now, decay);
        let before = self.average() as f64;
        let after = if micros as f64 >= before * kept {
            micros
        } else {
            before.mul_add(kept, micros as f64 * (1.0 - kept)) as u64
        };
        self.average.store(after.max(1), Relaxed);
        self.measured.store(now.0, Relaxed);
    }

    /// The average of peaks, less what was forgotten since it was taken.
    #[expect(clippy::cast_possible_truncation, reason = "a share of what was a u64")]
    pub(super) fn decayed(&self, now: Millis, decay: Duration) -> u64 {
        (self.average() as f64 * self.kept(now, decay)) as u64
    }

    /// The share of the average that is not forgotten yet.
    fn kept(&self, now: Millis, decay: Duration) -> f64 {
        let since = now.since(Millis(self.measured.load(Relaxed))) as f64;
        (-since / millis(decay).max(1) as f64).exp()
    }

    /// One more, or one less, is in flight since then.
    pub(super) fn count_began(&self, began: Millis, more: bool) {
        let change = if more { u64::wrapping_add } else { u64::wrapping_sub };
        match self.exclusive {
            true => self.began.store(change(self.began.load(Relaxed), began.0), Relaxed),
            false if more => drop(self.began.fetch_add(began.0, Relaxed)),
            false => drop(self.began.fetch_sub(began.0, Relaxed)),
        }
    }

    /// How long those in flight have taken so far, on average, in microseconds.
    pub(super) fn waiting_for(&self, now: Millis) -> u64 {
        let count = u64::from(self.in_flight());
        // Between the two counts a sum may be another moment's: it is never taken for more than an hour.
        let all = (now.0.wrapping_mul(count)).wrapping_sub(self.began.load(Relaxed));
        let mean = all.checked_div(count).unwrap_or(0);
        if mean > 3_600_000 { 0 } else { mean * 1000 }
    }

    pub(super) fn penalty(&self) -> u32 {
        self.penalty.load(Relaxed)
    }

    pub(super) fn forgive_one(&self) {
        // A lost race leaves the penalty one higher for a turn: harmless.
        self.penalty.store(self.penalty().saturating_sub(1), Relaxed);
    }

    /// Takes a slot, unless `max` (zero: none) are taken.
    pub(super) fn enter(&self, max: u32) -> bool {
        if self.exclusive {
            let now = self.in_flight();
            let free = max == 0 || now < max;
            self.in_flight.store(now + u32::from(free), Relaxed);
            self.note(now + u32::from(free));
            return free;
        }
        let before = if max == 0 {
            Ok(self.in_flight.fetch_add(1, AcqRel))
        } else {
            self.in_flight.fetch_update(AcqRel, Relaxed, |n| (n < max).then_some(n + 1))
        };
        if let Ok(before) = before {
            self.note(before.saturating_add(1));
        }
        before.is_ok()
    }

    pub(super) fn leave(&self) {
        if self.exclusive {
            self.in_flight.store(self.in_flight().saturating_sub(1), Relaxed);
        } else {
            self.in_flight.fetch_sub(1, AcqRel);
        }
    }

    /// Unavailable through failures, at `now`.
    pub(super) fn failed(&self, max_fails: u32, fail_timeout: u64, now: Millis) -> bool {
        max_fails > 0
            && self.fails() >= max_fails
            && now.since(Millis(self.checked.load(Relaxed))) <= fail_timeout
    }

    /// Begins a window if the last has passed. False: another worker began it first, and this one has lost the
    /// probe of an endpoint that is down.
    pub(super) fn begin_window(&self, max_fails: u32, fail_timeout: u64, now: Millis) -> bool {
        let checked = self.checked.load(Relaxed);
        if now.since(Millis(checked)) <= fail_timeout {
            return true;
        }
        let won = self.checked.compare_exchange(checked, now.0, AcqRel, Relaxed).is_ok();
        won || max_fails == 0 || self.fails() < max_fails
    }

    /// Counts a failure; true if it is the one that makes the endpoint unavailable.
    pub(super) fn fail(&self, weight: u32, max_fails: u32, now: Millis) -> bool {
        let fails = self.fails.fetch_add(1, AcqRel) + 1;
        self.accessed.store(now.0, Relaxed);
        self.checked.store(now.0, Relaxed);
        if let Some(cut) = weight.checked_div(max_fails) {
            self.penalty.store(self.penalty().saturating_add(cut).min(weight), Relaxed);
        }
        max_fails > 0 && fails == max_fails
    }

    /// Counts a success; true if it brought a failed endpoint back.
    pub(super) fn succeed(&self, max_fails: u32) -> bool {
        let fails = self.fails();
        if fails == 0 || self.accessed.load(Relaxed) >= self.checked.load(Relaxed) {
            return false;
        }
        self.fails.store(0, Relaxed);
        max_fails > 0 && fails >= max_fails
    }
}

/// One endpoint of the process.
#[derive(Debug)]
pub struct EndpointShared {
    key: EndpointKey,
    admin: AtomicU8,
    healthy: AtomicBool,
    /// What its agent says.
    agreed: AtomicBool,
    /// Left out for what traffic met there.
    ejected: AtomicBool,
    /// Checks say that nothing new is to be given to it.
    draining: AtomicBool,
    /// Weight set at run time; `u32::MAX` is "as configured".
    weight: AtomicU32,
    /// Exchanges at once, set at run time; `u32::MAX` is "as configured".
    max_conns: AtomicU32,
    /// Checks are not to be made, and its agent is not to be asked, for now.
    unchecked: AtomicBool,
    unasked: AtomicBool,
    /// When it last came up; slow start counts from here. Zero: it was never down.
    up_since: AtomicU64,
    /// Waiting for this very endpoint.
    pending: AtomicU32,
    /// Errors in a row that traffic met, where that is watched.
    errors: AtomicU32,
    /// Times that they were too many, which nobody took yet.
    too_many: AtomicU32,
    load: Arc<EndpointLoad>,
}

impl EndpointShared {
    fn new(key: EndpointKey) -> Self {
        Self {
            key,
            admin: AtomicU8::new(AdminState::AsConfigured as u8),
            healthy: AtomicBool::new(true),
            agreed: AtomicBool::new(true),
            ejected: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            weight: AtomicU32::new(u32::MAX),
            max_conns: AtomicU32::new(u32::MAX),
            unchecked: AtomicBool::new(false),
            unasked: AtomicBool::new(false),
            up_since: AtomicU64::new(0),
            pending: AtomicU32::new(0),
            errors: AtomicU32::new(0),
            too_many: AtomicU32::new(0),
            load: Arc::default(),
        }
    }

    /// Its stable name.
    pub fn key(&self) -> EndpointKey {
        self.key
    }

    /// What an operator asked of it.
    pub fn admin(&self) -> AdminState {
        admin_state(self.admin.load(Relaxed))
    }

    /// What health checks, its agent and traffic say; true until one says otherwise.
    pub fn healthy(&self) -> bool {
        self.down_for().is_none()
    }

    /// Who has it down, if anybody has.
    pub fn down_for(&self) -> Option<Reason> {
        let says_no = |word: &AtomicBool| !word.load(Relaxed);
        match () {
            () if says_no(&self.healthy) => Some(Reason::Check),
            () if says_no(&self.agreed) => Some(Reason::Agent),
            () if self.ejected.load(Relaxed) => Some(Reason::Traffic),
            () => None,
        }
    }

    /// The weight set at run time, if any.
    pub fn weight(&self) -> Option<u32> {
        let weight = self.weight.load(Relaxed);
        (weight != u32::MAX).then_some(weight)
    }

    /// Exchanges at once, set at run time, if any; zero is no bound.
    pub fn max_conns(&self) -> Option<u32> {
        let most = self.max_conns.load(Relaxed);
        (most != u32::MAX).then_some(most)
    }

    /// Whether checks are to be made.
    pub fn is_checked(&self) -> bool {
        !self.unchecked.load(Relaxed)
    }

    /// Whether its agent is to be asked.
    pub fn is_asked(&self) -> bool {
        !self.unasked.load(Relaxed)
    }

    /// Has checks made or not.
    pub fn check(&self, checked: bool) {
        self.unchecked.store(!checked, Relaxed);
    }

    /// Has its agent asked or not.
    pub fn ask(&self, asked: bool) {
        self.unasked.store(!asked, Relaxed);
    }

    /// Counts of the process. Stays at zero where counts are each worker's own.
    pub fn load(&self) -> &Arc<EndpointLoad> {
        &self.load
    }

    /// Exchanges waiting for this very endpoint (HAProxy's `qcur` of a server).
    pub fn waiting(&self) -> u32 {
        self.pending.load(Relaxed)
    }

    /// Traffic went well: errors before it are forgotten.
    pub fn went_well(&self) {
        if self.errors.load(Relaxed) != 0 {
            self.errors.store(0, Relaxed);
        }
    }

    /// Traffic met an error. True: `limit` in a row were reached, and whoever calls [`EndpointShared::take_errors`] is to be told.
    pub fn went_wrong(&self, limit: u32) -> bool {
        if self.errors.fetch_add(1, Relaxed) + 1 < limit {
            return false;
        }
        self.errors.store(0, Relaxed);
        self.too_many.fetch_add(1, AcqRel) == 0
    }

    /// How often errors were too many since this was asked last.
    pub fn take_errors(&self) -> u32 {
        self.too_many.swap(0, AcqRel)
    }

    pub(super) fn pending(&self) -> &AtomicU32 {
        &self.pending
    }

    pub(super) fn up_since(&self) -> Millis {
        Millis(self.up_since.load(Relaxed))
    }
}

/// Where an endpoint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// May be chosen.
    Up,
    /// Only exchanges that persistence binds to it: drained, or weight zero.
    Draining,
    /// Health checks say it is down.
    Down,
    /// Out of service by configuration or operator.
    Maintenance,
}

/// Running state of a pool, one for the process.
#[derive(Debug)]
pub struct PoolShared {
    members: Box<[Arc<EndpointShared>]>,
    /// Handed on from one set of endpoints to the next, so that whoever still holds the old one is heard.
    epoch: Arc<AtomicU64>,
    rotation: Mutex<Rotation>,
    queue: Arc<SlotQueue>,
    pressure: Arc<Pressure>,
}

impl PoolShared {
    /// State for `config`, taking over from `old` whatever has the same key: counts, health, drains, turns.
    pub fn new(config: &PoolConfig, old: Option<&PoolShared>) -> Self {
        let mut known: HashMap<EndpointKey, &Arc<EndpointShared>, ahash::RandomState> = HashMap::default();
        known.extend(old.into_iter().flat_map(|old| old.members.iter().map(|m| (m.key, m))));
        let take = |e: &EndpointConfig| {
            known.get(&e.key).map_or_else(|| Arc::new(EndpointShared::new(e.key)), |m| Arc::clone(m))
        };
        let members: Box<[_]> = config.endpoints().iter().map(take).collect();
        let turns = match old {
            Some(old) => old.rotation().rekeyed(&old.keys(), &keys(config)),
            None => Rotation::new(members.len()),
        };
        let queue = old.map(|old| Arc::clone(&old.queue)).unwrap_or_default();
        let pressure = old.map(|old| Arc::clone(&old.pressure)).unwrap_or_default();
        let epoch = old.map_or_else(|| Arc::new(AtomicU64::new(1)), |old| Arc::clone(&old.epoch));
        // Whoever waits looks again, under the new plan's numbers.
        queue.call_all();
        Self { members, epoch, rotation: Mutex::new(turns), queue, pressure }
    }

    /// What the pool bears at the moment.
    pub fn pressure(&self) -> &Arc<Pressure> {
        &self.pressure
    }

    /// Has all who wait look again: a worker took up other endpoints.
    pub fn call_waiting(&self) {
        self.queue.call_all();
    }

    /// The endpoints, in the order of the configuration.
    pub fn members(&self) -> &[Arc<EndpointShared>] {
        &self.members
    }

    /// The index of the endpoint with this key.
    pub fn index_of(&self, key: EndpointKey) -> Option<usize> {
        self.members.iter().position(|m| m.key == key)
    }

    /// Sets what an operator asks of endpoint `index`. Workers see it at their next choice.
    pub fn set_admin(&self, index: usize, state: AdminState, now: Millis) {
        let Some(member) = self.members.get(index) else { return };
        let before = admin_state(member.admin.swap(state as u8, AcqRel));
        if before != state && matches!(state, AdminState::Ready | AdminState::AsConfigured) {
            member.up_since.store(now.0, Relaxed);
        }
        self.changed();
    }

    /// Sets what health checks say of endpoint `index`.
    pub fn set_health(&self, index: usize, healthy: bool, now: Millis) {
        self.set_word(index, healthy, now, |member| &member.healthy);
    }

    /// Sets what the agent of endpoint `index` says. True if that is news.
    pub fn set_agent(&self, index: usize, up: bool, now: Millis) -> bool {
        self.set_word(index, up, now, |member| &member.agreed)
    }

    /// Sets whether endpoint `index` is left out for what traffic met there. True if that is news.
    pub fn set_ejected(&self, index: usize, ejected: bool, now: Millis) -> bool {
        let Some(member) = self.members.get(index) else { return false };
        if member.ejected.swap(ejected, AcqRel) == ejected {
            return false;
        }
        if member.healthy() {
            member.up_since.store(now.0, Relaxed);
        }
        self.changed();
        true
    }

    /// Why endpoint `index` of `config` takes no work, or not all that it could.
    pub fn reason(&self, config: &PoolConfig, index: usize) -> Option<Reason> {
        let (member, configured) = (self.members.get(index)?, config.endpoints().get(index)?);
        match member.admin() {
            AdminState::Maintenance => Some(Reason::Operator),
            AdminState::AsConfigured if configured.down => Some(Reason::Configured),
            admin => member.down_for().or_else(|| match admin {
                AdminState::Drain => Some(Reason::Operator),
                _ if member.draining.load(Relaxed) => Some(Reason::Check),
                _ if member.weight().is_some_and(|weight| weight == 0) => Some(Reason::Operator),
                _ if member.weight().is_none() && configured.weight == 0 => Some(Reason::Configured),
                _ => None,
            }),
        }
    }

    fn set_word(
        &self,
        index: usize,
        up: bool,
        now: Millis,
        word: impl Fn(&EndpointShared) -> &AtomicBool,
    ) -> bool {
        let Some(member) = self.members.get(index) else { return false };
        if word(member).swap(up, AcqRel) == up {
            return false;
        }
        if member.healthy() {
            member.up_since.store(now.0, Relaxed);
        }
        self.changed();
        true
    }

    /// Sets whether health checks want nothing new to be given to endpoint `index`.
    pub fn set_draining(&self, index: usize, draining: bool) {
        let Some(member) = self.members.get(index) else { return };
        if member.draining.swap(draining, AcqRel) != draining {
            self.changed();
        }
    }

    /// Sets the weight of endpoint `index`; `None` returns to the configured one.
    pub fn set_weight(&self, index: usize, weight: Option<u32>) {
        let Some(member) = self.members.get(index) else { return };
        let weight = weight.map_or(u32::MAX, |w| w.min(super::config::MAX_WEIGHT));
        member.weight.store(weight, Relaxed);
        self.changed();
    }

    /// Bounds the exchanges of endpoint `index` at once; zero: not at all; `None` returns to the configured bound.
    pub fn set_max_conns(&self, index: usize, most: Option<u32>) {
        let Some(member) = self.members.get(index) else { return };
        let most = most.map_or(u32::MAX, |most| most.min(u32::MAX - 1));
        if member.max_conns.swap(most, Relaxed) != most {
            self.changed();
        }
    }

    /// Returns to the configured bounds, checks and agents.
    pub fn forget_bounds(&self) {
        for (index, member) in self.members.iter().enumerate() {
            self.set_max_conns(index, None);
            member.check(true);
            member.ask(true);
        }
    }

    /// The most that were in flight, or waited, is what there is now.
    pub fn clear_peaks(&self) {
        self.members.iter().for_each(|member| member.load.clear_peak());
        self.queue.clear_peak();
    }

    /// Where endpoint `index` of `config` stands, passive failures aside.
    pub fn standing(&self, config: &PoolConfig, index: usize) -> Standing {
        let (Some(member), Some(configured)) = (self.members.get(index), config.endpoints().get(index))
        else {
            return Standing::Maintenance;
        };
        let weight = member.weight().unwrap_or(configured.weight);
        match member.admin() {
            AdminState::Maintenance => Standing::Maintenance,
            AdminState::AsConfigured if configured.down => Standing::Maintenance,
            _ if !member.healthy() => Standing::Down,
            AdminState::Drain => Standing::Draining,
            _ if member.draining.load(Relaxed) => Standing::Draining,
            _ if weight == 0 => Standing::Draining,
            _ => Standing::Up,
        }
    }

    /// Whether failures of late make endpoint `index` of `config` unavailable at `now`. Only of counts of the process.
    pub fn is_failed(&self, config: &PoolConfig, index: usize, now: Millis) -> bool {
        let (Some(member), Some(configured)) = (self.members.get(index), config.endpoints().get(index))
        else {
            return false;
        };
        let timeout = config.fail_timeouts.get(index).copied().unwrap_or_default();
        !config.lone() && member.load.failed(configured.max_fails, timeout, now)
    }

    /// Takes a place in the queue: for the endpoint that `Choice::AllBusy` names, or for any. `None`: `most` (zero: no
    /// bound) wait already. Only pools with [`Placement::Process`](super::Placement) counts call those who wait.
    pub fn join(&self, wanted: Option<EndpointIndex>, most: usize, turn: Turn) -> Option<Place> {
        let wanted = wanted.and_then(|index| self.members.get(index.0 as usize)).map(Arc::clone);
        self.queue.join(wanted, most, turn)
    }

    /// Exchanges waiting, for any endpoint or a particular one (HAProxy's `qcur` of a backend).
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// The most that ever waited at once (`qmax`).
    pub fn waiting_peak(&self) -> usize {
        self.queue.peak()
    }

    pub(super) fn queue(&self) -> &Arc<SlotQueue> {
        &self.queue
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Acquire)
    }

    pub(super) fn rotation(&self) -> MutexGuard<'_, Rotation> {
        // A panic while it was held can at worst have skewed one turn.
        self.rotation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keys(&self) -> Vec<EndpointKey> {
        self.members.iter().map(|m| m.key).collect()
    }

    fn changed(&self) {
        self.epoch.fetch_add(1, Release);
        self.queue.call_all();
    }
}

pub(super) fn keys(config: &PoolConfig) -> Vec<EndpointKey> {
    config.endpoints().iter().map(|e| e.key).collect()
}
