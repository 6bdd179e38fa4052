//! Who may be chosen, as one worker sees it.
//!
//! Owns: the view of each endpoint's standing, tables over those that are up, this worker's counts.
//! Never: chooses.
//! Driven by: `Pool`, which refreshes it when an endpoint's state changed; the methods, which ask `judge`.
//! Why: availability is judged in one place, so that every method agrees on it.

use std::sync::Arc;
use std::time::Duration;

use super::EndpointIndex;
use super::config::{BackupUse, Balance, Placement, PoolConfig};
use super::lease::Lease;
use super::selection::Selection;
use super::shared::{EndpointLoad, PoolShared, Standing};
use super::table::{NearRing, RoundMap, Spread, common_divisor};
use crate::time::{Millis, millis};

/// While any endpoint of a pool can ramp up, weights are multiplied by this, so that weight one has steps to climb.
pub(super) const RAMP_STEPS: u64 = 64;

/// What an endpoint costs that has work and never answered yet, in microseconds: more than any that did.
const UNKNOWN: u64 = 1_000_000_000;

/// Everything that judging an endpoint needs.
#[derive(Debug)]
pub(super) struct Members {
    pub(super) config: Arc<PoolConfig>,
    pub(super) shared: Arc<PoolShared>,
    pub(super) loads: Box<[Arc<EndpointLoad>]>,
    pub(super) view: Box<[View]>,
    pub(super) epoch: u64,
    /// By tier: enough of those that are near are up to be preferred.
    pub(super) prefers_near: [bool; 2],
    /// For the choice at hand only those that are near are there.
    pub(super) narrow: bool,
}

/// What a worker last saw of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) standing: Standing,
    pub(super) weight: u32,
    /// Exchanges at once; zero: no bound.
    pub(super) max_conns: u32,
    pub(super) up_since: Millis,
}

/// Exchanges that all endpoints of a tier may have in flight, and what they share them by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    slots: u64,
    weights: u64,
}

/// Lookup tables over the endpoints that are up; rebuilt with the view.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// The tier that `ring` and `map` were built for.
    pub(super) tier: usize,
    /// For the random methods, by tier.
    pub(super) spread: [Spread; 2],
    pub(super) ring: NearRing,
    pub(super) map: RoundMap,
}

/// Whether an endpoint may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Free,
    Tried,
    Unavailable,
    Full,
}

impl Tables {
    pub(super) fn refill(&mut self, members: &Members) {
        let config = &members.config;
        let tier = usize::from(!members.any_up(0));
        self.tier = tier;
        match config.balance {
            Balance::Random(_) | Balance::PeakEwma(_) => {
                for (tier, spread) in self.spread.iter_mut().enumerate() {
                    spread.refill(members.up(tier).map(|i| (i, members.view[i as usize].weight)));
                }
            }
            Balance::Ring(_) => {
                let point = |i: u32| (i, config.endpoints[i as usize].id, members.view[i as usize].weight);
                self.ring.refill(members.up(tier).map(point));
            }
            Balance::Map(_) | Balance::StaticRoundRobin => {
                let up: Vec<_> = members.up(tier).map(|i| (i, members.view[i as usize].weight)).collect();
                let divisor = common_divisor(config.endpoints.iter().map(|e| e.weight));
                self.map.refill(&up, divisor);
            }
            _ => {}
        }
    }
}

impl Members {
    /// What the endpoints of a tier that are up may have in flight, where that is bounded by the load of all.
    pub(super) fn room(&self, tier: usize) -> Option<Room> {
        let percent = u64::from(self.config.options.load_percent);
        if percent == 0 {
            return None;
        }
        let sum =
            |of: &dyn Fn(u32) -> u64| self.up(tier).filter(|&i| self.is_reached(i)).map(of).sum::<u64>();
        // The one that is about to begin counts.
        let slots = ((sum(&|i| self.in_flight(i)) + 1) * percent).div_ceil(100);
        Some(Room { slots, weights: sum(&|i| self.weight(i)).max(1) })
    }

    /// Whether an endpoint has less than its share.
    pub(super) fn fits(&self, index: u32, room: Option<Room>) -> bool {
        room.is_none_or(|Room { slots, weights }| {
            self.in_flight(index) < (slots * self.weight(index)).div_ceil(weights)
        })
    }

    /// Has those that are down chosen as well, by tier, while too few others are left.
    pub(super) fn panic(&mut self) {
        let percent = u64::from(self.config.options.panic_percent);
        if percent == 0 {
            return;
        }
        for tier in &self.config.tiers {
            let count = |wanted: Standing| {
                tier.iter().filter(|&&i| self.view[i as usize].standing == wanted).count() as u64
            };
            let (up, down) = (count(Standing::Up), count(Standing::Down));
            if up * 100 >= (up + down) * percent {
                continue;
            }
            for &index in tier {
                let view = &mut self.view[index as usize];
                if view.standing == Standing::Down {
                    view.standing = Standing::Up;
                }
            }
        }
    }

    /// Finds out, by tier, whether those that are near are enough to be preferred.
    pub(super) fn find_near(&mut self) {
        let Some(percent) = self.config.options.near_percent else { return };
        self.prefers_near = [0, 1].map(|tier: usize| {
            let (mut up, mut all) = (0, 0);
            for &index in self.config.tiers[tier].iter().filter(|&&i| self.config.endpoints[i as usize].near)
            {
                let weight = self.weight(index);
                match self.view[index as usize].standing {
                    Standing::Up => (up, all) = (up + weight, all + weight),
                    Standing::Down => all += weight,
                    Standing::Draining | Standing::Maintenance => {}
                }
            }
            up > 0 && up * 100 >= all * u64::from(percent)
        });
    }

    /// Whether the choice at hand may be this one, by where it is.
    fn is_reached(&self, index: u32) -> bool {
        !self.narrow || self.config.endpoints[index as usize].near
    }

    /// The endpoints of a tier that are up; one only, where the first backup takes all.
    pub(super) fn up(&self, tier: usize) -> impl Iterator<Item = u32> + '_ {
        let first_only = tier == 1 && self.config.options.backups == BackupUse::FirstWhenDown;
        let most = if first_only { 1 } else { usize::MAX };
        let tier = &self.config.tiers[tier];
        tier.iter().copied().filter(|&i| self.view[i as usize].standing == Standing::Up).take(most)
    }

    pub(super) fn any_up(&self, tier: usize) -> bool {
        self.up(tier).next().is_some()
    }

    pub(super) fn any_full(&self, now: Millis, tier: Option<usize>) -> bool {
        let nothing_tried = Selection::default();
        let full = |tier| self.up(tier).any(|i| self.judge(i, now, &nothing_tried) == Verdict::Full);
        tier.map_or_else(|| full(0) || full(1), full)
    }

    pub(super) fn failed(&self, index: u32, now: Millis) -> bool {
        let at = index as usize;
        self.loads[at].failed(self.config.endpoints[at].max_fails, self.config.fail_timeouts[at], now)
    }

    pub(super) fn judge(&self, index: u32, now: Millis, selection: &Selection) -> Verdict {
        let at = index as usize;
        let max_conns = self.view[at].max_conns;
        if selection.tried.contains(EndpointIndex(index)) {
            Verdict::Tried
        } else if self.view[at].standing != Standing::Up
            || !self.is_reached(index)
            || (!self.config.lone() && self.failed(index, now))
        {
            Verdict::Unavailable
        } else if max_conns > 0
            && (self.loads[at].in_flight() >= max_conns || self.others_wait(index, selection))
        {
            Verdict::Full
        } else {
            Verdict::Free
        }
    }

    /// A bound that holds for the process, so that there is a queue for it.
    pub(super) fn bounded(&self, index: u32) -> bool {
        self.config.options.counts == Placement::Process && self.view[index as usize].max_conns > 0
    }

    /// Those who wait come before newcomers.
    pub(super) fn others_wait(&self, index: u32, selection: &Selection) -> bool {
        let member = &self.shared.members()[index as usize];
        let waiting = || self.shared.queue().someone_for_any() || member.waiting() > 0;
        !selection.queued && self.bounded(index) && waiting()
    }

    pub(super) fn free<'a>(
        &'a self,
        tier: usize,
        now: Millis,
        selection: &'a Selection,
    ) -> impl Iterator<Item = u32> + Clone + 'a {
        let first_only = tier == 1 && self.config.options.backups == BackupUse::FirstWhenDown;
        let only = if first_only { self.up(1).next() } else { None };
        let wanted = move |&i: &u32| !first_only || Some(i) == only;
        let tier = self.config.tiers[tier].iter().copied();
        tier.filter(wanted).filter(move |&i| self.judge(i, now, selection) == Verdict::Free)
    }

    pub(super) fn in_flight(&self, index: u32) -> u64 {
        u64::from(self.loads[index as usize].in_flight())
    }

    /// What an endpoint costs by its times, in milliseconds times exchanges.
    pub(super) fn time(&self, index: u32, now: Millis) -> u64 {
        let load = &self.loads[index as usize];
        let waits = self.config.options.times.is_some_and(|times| times.in_flight);
        let micros = if waits { load.average().max(load.waiting_for(now)) } else { load.average() };
        // Whole milliseconds: what is less is chance, and equals take turns.
        (micros / 1000 + 1) * (u64::from(load.in_flight()) + 1)
    }

    /// What an endpoint costs by the peaks of its times, in microseconds times exchanges.
    pub(super) fn peak(&self, index: u32, now: Millis, decay: Duration) -> u64 {
        let load = &self.loads[index as usize];
        let busy = u64::from(load.in_flight());
        // Of one that never answered nothing is known: it gets one exchange, and no second one before it answers.
        let micros = match load.average() {
            0 if busy > 0 => UNKNOWN,
            _ => load.decayed(now, decay).max(load.waiting_for(now)),
        };
        micros.max(1) * (busy + 1)
    }

    pub(super) fn weight(&self, index: u32) -> u64 {
        u64::from(self.view[index as usize].weight)
    }

    /// The weight for one smooth turn: less what failures took, of which one comes back; growing after a slow start.
    pub(super) fn turn_weight(&self, index: u32, now: Millis) -> i64 {
        let load = &self.loads[index as usize];
        let penalty = load.penalty();
        if penalty > 0 {
            load.forgive_one();
        }
        let weight = self.weight(index).saturating_sub(u64::from(penalty));
        i64::try_from(self.ramped(index, weight, now)).unwrap_or(i64::MAX)
    }

    pub(super) fn ramped(&self, index: u32, weight: u64, now: Millis) -> u64 {
        if !self.config.ramps {
            return weight;
        }
        let full = millis(self.config.endpoints[index as usize].slow_start);
        let since = self.view[index as usize].up_since;
        let gone = if since == Millis(0) { full } else { now.since(since) };
        let steps = weight * RAMP_STEPS;
        if gone >= full { steps } else { (steps.saturating_mul(gone) / full).max(1) }
    }

    pub(super) fn lease(&self, index: u32, now: Millis) -> Option<Lease> {
        let at = index as usize;
        let (endpoint, load) = (&self.config.endpoints[at], &self.loads[at]);
        if !load.enter(self.view[at].max_conns) {
            return None;
        }
        let lease = Lease {
            index: EndpointIndex(index),
            key: endpoint.key,
            load: Arc::clone(load),
            weight: self.view[at].weight,
            max_fails: endpoint.max_fails,
            lone: self.config.lone(),
            queue: self.bounded(index).then(|| Arc::clone(self.shared.queue())),
            times: self.config.options.times,
            decay: match self.config.balance {
                Balance::PeakEwma(decay) => Some(decay),
                _ => None,
            },
            began: now,
        };
        if lease.times.is_some_and(|times| times.in_flight) {
            load.count_began(now, true);
        }
        let won = lease.lone || load.begin_window(endpoint.max_fails, self.config.fail_timeouts[at], now);
        won.then_some(lease)
    }
}
