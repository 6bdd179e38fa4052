//! The methods: which of the endpoints that may be chosen is chosen.
//!
//! Owns: nginx's and HAProxy's algorithms, step for step.
//! Never: decides who may be chosen (`Members::judge`), nor keeps anything beyond the selection and the turns.
//! Driven by: `Pool::choose`, once for each tier it tries.
//! Why: side by side in one file, what they share and where they differ can be seen.

use std::net::IpAddr;

use super::Key;
use super::config::{Balance, KeyHash};
use super::members::{Members, RAMP_STEPS, Tables, Verdict};
use super::rotation::Rotation;
use super::selection::Selection;
use crate::hash::{Crc32, avalanche, crc32};
use crate::rng::SplitMix;
use crate::time::Millis;

/// What a method came to.
pub(super) enum Pick {
    One(u32),
    Nobody,
    /// HAProxy's hashes: the key names this one, and it is full.
    Wait(u32),
}

impl From<Option<u32>> for Pick {
    fn from(found: Option<u32>) -> Self {
        found.map_or(Pick::Nobody, Pick::One)
    }
}

/// One run of the pool's method over one tier.
pub(super) struct Method<'a> {
    pub(super) members: &'a Members,
    pub(super) tables: &'a Tables,
    pub(super) rng: &'a mut SplitMix,
    pub(super) tier: usize,
    pub(super) now: Millis,
}

impl Method<'_> {
    pub(super) fn pick(mut self, turns: &mut Rotation, key: Key<'_>, selection: &mut Selection) -> Pick {
        // nginx's modulo hashes know primaries only; backups, reached when they gave up, take turns.
        let first_tier = self.tier == 0;
        match self.members.config.balance {
            Balance::RoundRobin => self.round_robin(turns, selection).into(),
            Balance::StaticRoundRobin | Balance::Map(_) | Balance::Ring(_)
                if self.tier != self.tables.tier =>
            {
                self.round_robin(turns, selection).into()
            }
            Balance::StaticRoundRobin => self.map_turn(turns, selection).into(),
            Balance::LeastConn => self.least_conn(turns, selection).into(),
            Balance::LeastTime => self.least_time(turns, selection).into(),
            Balance::LeastConnOldest => self.least_conn_oldest(turns, selection).into(),
            Balance::First => self.members.free(self.tier, self.now, selection).next().into(),
            Balance::IpHash if first_tier => self.ip_hash(turns, key, selection).into(),
            Balance::HashModulo if first_tier => self.hash_modulo(turns, key, selection).into(),
            Balance::HashKetama if first_tier => self.ketama(turns, key, selection).into(),
            Balance::Maglev if first_tier => self.maglev(turns, key, selection).into(),
            Balance::IpHash | Balance::HashModulo | Balance::HashKetama | Balance::Maglev => {
                self.round_robin(turns, selection).into()
            }
            Balance::Random(draws) => self.random(draws, turns, selection).into(),
            Balance::PeakEwma(_) => self.random(2, turns, selection).into(),
            Balance::Map(hash) => self.map_hash(hash, turns, key, selection),
            Balance::Ring(hash) => self.ring_hash(hash, turns, key, selection),
        }
    }

    fn verdict(&self, index: u32, selection: &Selection) -> Verdict {
        self.members.judge(index, self.now, selection)
    }

    fn round_robin(&self, turns: &mut Rotation, selection: &Selection) -> Option<u32> {
        let free = self.members.free(self.tier, self.now, selection);
        turns.smooth(free.map(|i| (i, self.members.turn_weight(i, self.now))))
    }

    fn least_conn(&self, turns: &mut Rotation, selection: &Selection) -> Option<u32> {
        let (members, now) = (self.members, self.now);
        let free = members.free(self.tier, now, selection);
        // a/wa against b/wb without division.
        let load = |i: u32, other: u32| members.in_flight(i) * members.weight(other).max(1);
        let best = free.clone().reduce(|best, i| if load(i, best) < load(best, i) { i } else { best })?;
        let mut equal = free.filter(|&i| load(i, best) == load(best, i));
        if equal.clone().nth(1).is_none() {
            return equal.next();
        }
        turns.smooth(equal.map(|i| (i, members.turn_weight(i, now))))
    }

    fn least_time(&self, turns: &mut Rotation, selection: &Selection) -> Option<u32> {
        let (members, now) = (self.members, self.now);
        let free = members.free(self.tier, now, selection);
        let cost = |i: u32, other: u32| members.time(i, now) * members.weight(other).max(1);
        let best = free.clone().reduce(|best, i| if cost(i, best) < cost(best, i) { i } else { best })?;
        let equal = free.filter(|&i| cost(i, best) == cost(best, i));
        turns.smooth(equal.map(|i| (i, members.turn_weight(i, now))))
    }

    fn least_conn_oldest(&self, turns: &mut Rotation, selection: &Selection) -> Option<u32> {
        let members = self.members;
        let cost = |i: u32| {
            let weight = members.ramped(i, members.weight(i), self.now).max(1);
            match members.in_flight(i) {
                0 => 0,
                // Scaled as HAProxy does, in integers, so that near equals are equal.
                busy => (busy + 1) * 256 * if members.config.ramps { RAMP_STEPS } else { 1 } / weight,
            }
        };
        turns.cheapest(members.free(self.tier, self.now, selection).map(|i| (i, cost(i))))
    }

    fn ip_hash(&self, turns: &mut Rotation, key: Key<'_>, selection: &mut Selection) -> Option<u32> {
        let spread = &self.members.config.spread;
        if self.members.config.lone() || spread.total() == 0 {
            return self.round_robin(turns, selection);
        }
        let (bytes, len) = ip_hash_bytes(key);
        if !selection.placed {
            (selection.hash, selection.placed) = (89, true);
        }
        while !selection.exhausted() {
            for &byte in &bytes[..len] {
                selection.hash = (selection.hash * 113 + u32::from(byte)) % 6271;
            }
            let index = spread.at(selection.hash % spread.total())?;
            if self.verdict(index, selection) == Verdict::Free {
                return Some(index);
            }
            selection.missed();
        }
        self.round_robin(turns, selection)
    }

    fn hash_modulo(&self, turns: &mut Rotation, key: Key<'_>, selection: &mut Selection) -> Option<u32> {
        let spread = &self.members.config.spread;
        let bytes = key_bytes(&key);
        if self.members.config.lone() || spread.total() == 0 || bytes.is_empty() {
            return self.round_robin(turns, selection);
        }
        while !selection.exhausted() {
            let mut sum = Crc32::new();
            if selection.rehash > 0 {
                sum = sum.update(decimal(selection.rehash, &mut [0; 10]));
            }
            let hash = (sum.update(bytes).finish() >> 16) & 0x7fff;
            selection.hash = selection.hash.wrapping_add(hash);
            selection.rehash += 1;
            let index = spread.at(selection.hash % spread.total())?;
            if self.verdict(index, selection) == Verdict::Free {
                return Some(index);
            }
            selection.missed();
        }
        self.round_robin(turns, selection)
    }

    fn ketama(&self, turns: &mut Rotation, key: Key<'_>, selection: &mut Selection) -> Option<u32> {
        let config = &self.members.config;
        let bytes = key_bytes(&key);
        let Some(ring) = config.ketama.as_ref().filter(|_| !config.lone() && !bytes.is_empty()) else {
            return self.round_robin(turns, selection);
        };
        if !selection.placed {
            (selection.hash, selection.placed) = (ring.place(crc32(bytes)), true);
        }
        let room = self.members.room(self.tier);
        while !selection.exhausted() {
            let group = ring.group(selection.hash)?;
            let free = self.members.free(self.tier, self.now, selection);
            let of_group = free.filter(|&i| config.groups.of(i) == group && self.members.fits(i, room));
            let found = turns.smooth(of_group.map(|i| (i, self.members.turn_weight(i, self.now))));
            if found.is_some() {
                return found;
            }
            selection.hash = selection.hash.wrapping_add(1);
            selection.missed();
        }
        self.round_robin(turns, selection)
    }

    fn maglev(&self, turns: &mut Rotation, key: Key<'_>, selection: &mut Selection) -> Option<u32> {
        let config = &self.members.config;
        let bytes = key_bytes(&key);
        let Some(table) = config.maglev.as_ref().filter(|_| !config.lone() && !bytes.is_empty()) else {
            return self.round_robin(turns, selection);
        };
        if !selection.placed {
            (selection.hash, selection.placed) = (table.place(bytes), true);
        }
        let room = self.members.room(self.tier);
        while !selection.exhausted() {
            let index = table.at(selection.hash)?;
            if self.verdict(index, selection) == Verdict::Free && self.members.fits(index, room) {
                return Some(index);
            }
            selection.hash = selection.hash.wrapping_add(1);
            selection.missed();
        }
        self.round_robin(turns, selection)
    }

    fn random(&mut self, draws: u8, turns: &mut Rotation, selection: &mut Selection) -> Option<u32> {
        let members = self.members;
        let spread = &self.tables.spread[self.tier];
        if spread.total() == 0 || members.config.lone() {
            return self.round_robin(turns, selection);
        }
        let mut best: Option<u32> = None;
        let mut wanted = draws.max(1);
        while wanted > 0 && !selection.exhausted() {
            let drawn = spread.at(self.rng.below(spread.total()))?;
            if Some(drawn) == best || self.verdict(drawn, selection) != Verdict::Free {
                selection.missed();
                continue;
            }
            wanted -= 1;
            let of = |i: u32| match (members.config.balance, members.config.options.times) {
                (Balance::PeakEwma(decay), _) => members.peak(i, self.now, decay),
                (_, None) => members.in_flight(i),
                (_, Some(_)) => members.time(i, self.now),
            };
            let load = |i: u32, other: u32| of(i) * members.weight(other).max(1);
            let keep = |held: u32| if load(drawn, held) > load(held, drawn) { held } else { drawn };
            best = Some(best.map_or(drawn, keep));
        }
        best.or_else(|| self.round_robin(turns, selection))
    }

    /// The next slot of HAProxy's map that is free.
    fn map_turn(&self, turns: &mut Rotation, selection: &Selection) -> Option<u32> {
        let slots = self.tables.map.slots();
        let start = if turns.cursor < slots.len() { turns.cursor } else { 0 };
        let order = (start..slots.len()).chain(0..start);
        let at = order.into_iter().find(|&at| self.verdict(slots[at], selection) == Verdict::Free)?;
        turns.cursor = at + 1;
        Some(slots[at])
    }

    fn map_hash(&self, hash: KeyHash, turns: &mut Rotation, key: Key<'_>, selection: &Selection) -> Pick {
        let slots = self.tables.map.slots();
        let (Some(number), false) = (key_number(hash, key), slots.is_empty()) else {
            return self.map_turn(turns, selection).into();
        };
        let index = slots[number as usize % slots.len()];
        match self.verdict(index, selection) {
            Verdict::Free => Pick::One(index),
            Verdict::Full => Pick::Wait(index),
            Verdict::Tried | Verdict::Unavailable => self.map_turn(turns, selection).into(),
        }
    }

    fn ring_hash(
        &mut self,
        hash: KeyHash,
        turns: &mut Rotation,
        key: Key<'_>,
        selection: &Selection,
    ) -> Pick {
        let Some(number) = key_number(hash, key) else {
            return self.round_robin(turns, selection).into();
        };
        let room = self.members.room(self.tier);
        for index in self.tables.ring.from(number) {
            match self.verdict(index, selection) {
                Verdict::Free if !self.members.fits(index, room) => {}
                Verdict::Free => return Pick::One(index),
                Verdict::Full => return Pick::Wait(index),
                Verdict::Tried | Verdict::Unavailable => {}
            }
        }
        // Those that fit were tried, or are out: a bound on load is no reason to refuse.
        if room.is_some() { self.round_robin(turns, selection).into() } else { Pick::Nobody }
    }
}

/// What nginx's `ip_hash` folds in: a /24 of IPv4, all of IPv6, zeros for a client without address.
fn ip_hash_bytes(key: Key<'_>) -> ([u8; 16], usize) {
    let mut bytes = [0; 16];
    match key {
        Key::Client(IpAddr::V4(address)) => {
            bytes[..4].copy_from_slice(&address.octets());
            (bytes, 3)
        }
        Key::Client(IpAddr::V6(address)) => (address.octets(), 16),
        Key::None | Key::Bytes(_) => (bytes, 3),
    }
}

fn key_bytes<'a>(key: &Key<'a>) -> &'a [u8] {
    match key {
        Key::Bytes(bytes) => bytes,
        Key::None | Key::Client(_) => &[],
    }
}

/// HAProxy's number for a key: addresses fold their words by exclusive or, strings go through the function.
fn key_number(hash: KeyHash, key: Key<'_>) -> Option<u32> {
    let fold = |octets: &[u8]| {
        octets
            .chunks_exact(4)
            .fold(0, |sum, word| sum ^ u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
    };
    let number = match key {
        Key::None => return None,
        Key::Client(IpAddr::V4(address)) => fold(&address.octets()),
        Key::Client(IpAddr::V6(address)) => fold(&address.octets()),
        Key::Bytes(bytes) => hash.function.hash(bytes),
    };
    Some(if hash.avalanche { avalanche(number) } else { number })
}

/// `number` in decimal, without allocating.
fn decimal(mut number: u32, room: &mut [u8; 10]) -> &[u8] {
    let mut at = room.len();
    loop {
        at -= 1;
        room[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &room[at..];
        }
    }
}
