//! The slowest that a peer may send a request body.
//!
//! Owns: the time that the peer kept us waiting, and the bytes that came in it.
//! Never: counts time in which we, or the other side, were the slow ones.
//! Driven by: the exchange: `wait` when it starts to wait for body bytes and has nothing else to do with it, `receive`
//! when some came, `pause` when it stops asking; `poll_timeout` bounds the wait.
//! Why: ten bytes a second hold a connection for good in nginx and HAProxy. 500 bytes a second over 30 s of waiting,
//! after 10 s of grace, stops that and touches nobody on a poor line.

use std::time::Duration;

use crate::time::{Millis, millis};

/// Slices of the window; the average moves by one slice at a time.
const SLICES: usize = 6;

/// What is asked of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyRateConfig {
    /// Bytes a second; zero is no minimum.
    pub bytes_per_second: u32,
    /// Averaged over this much waiting.
    pub window: Duration,
    /// Waiting that is not judged, from the start of the body.
    pub grace: Duration,
}

impl Default for BodyRateConfig {
    fn default() -> Self {
        Self { bytes_per_second: 500, window: Duration::from_secs(30), grace: Duration::from_secs(10) }
    }
}

/// The rate of one body.
#[derive(Clone, Debug)]
pub struct BodyRate {
    config: BodyRateConfig,
    /// Waited so far, the present wait excluded, in milliseconds.
    waited: u64,
    since: Option<Millis>,
    slices: [u32; SLICES],
    /// The slice, counted from the end of the grace, that `slices[slice % SLICES]` holds.
    slice: u64,
    slow: bool,
}

impl BodyRate {
    /// A body of which nothing was asked yet.
    pub fn new(config: BodyRateConfig) -> Self {
        Self { config, waited: 0, since: None, slices: [0; SLICES], slice: 0, slow: false }
    }

    /// From now on the peer is the one delaying.
    pub fn wait(&mut self, now: Millis) {
        self.since.get_or_insert(now);
    }

    /// It no longer is: its bytes are not asked for.
    pub fn pause(&mut self, now: Millis) {
        if let Some(since) = self.since.take() {
            self.waited += now.since(since);
        }
    }

    /// Bytes came. Waiting goes on if it was on.
    pub fn receive(&mut self, now: Millis, bytes: usize) {
        self.advance(now);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let place = self.place();
        let slice = &mut self.slices[place];
        *slice = slice.saturating_add(bytes);
    }

    /// When to look again: the verdict cannot become "too slow" before. `None` while the peer is not waited for, or
    /// no minimum is set.
    pub fn poll_timeout(&self) -> Option<Millis> {
        let since = self.since.filter(|_| self.config.bytes_per_second > 0)?;
        if self.slow {
            return Some(since);
        }
        let first = millis(self.config.grace).saturating_add(self.window());
        let next_slice = millis(self.config.grace).saturating_add((self.slice + 1) * self.slice_len());
        Some(Millis(since.0.saturating_add(first.max(next_slice).saturating_sub(self.waited))))
    }

    /// True if a full window of waiting brought too little. Ask when `poll_timeout` passed.
    pub fn too_slow(&mut self, now: Millis) -> bool {
        self.advance(now);
        self.slow
    }

    fn window(&self) -> u64 {
        self.slice_len() * SLICES as u64
    }

    fn slice_len(&self) -> u64 {
        (millis(self.config.window) / SLICES as u64).max(1)
    }

    fn slice_at(&self, now: Millis) -> u64 {
        let waited = self.waited + self.since.map_or(0, |since| now.since(since));
        waited.saturating_sub(millis(self.config.grace)) / self.slice_len()
    }

    /// Where the slice at hand is kept.
    fn place(&self) -> usize {
        usize::try_from(self.slice % SLICES as u64).unwrap_or_default()
    }

    /// Moves to the slice of `now`, judging the window at the end of each one left behind.
    fn advance(&mut self, now: Millis) {
        let target = self.slice_at(now);
        for _ in 0..SLICES.min(usize::try_from(target - self.slice.min(target)).unwrap_or(SLICES)) {
            self.slow |= self.slice + 1 >= SLICES as u64 && self.poor();
            self.slice += 1;
            let place = self.place();
            self.slices[place] = 0;
        }
        // Slices beyond a whole window of silence were empty: the verdict has fallen.
        self.slow |= self.slice < target && self.config.bytes_per_second > 0;
        self.slice = self.slice.max(target);
    }

    fn poor(&self) -> bool {
        let sum: u64 = self.slices.iter().map(|&n| u64::from(n)).sum();
        sum * 1000 < u64::from(self.config.bytes_per_second) * self.window()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `bytes` every `every` ms while waited for; the moment it was found too slow, if within `until`.
    fn feed(bytes: usize, every: u64, until: u64) -> Option<u64> {
        let mut rate = BodyRate::new(BodyRateConfig::default());
        rate.wait(Millis(0));
        for now in 1..until {
            if now % every == 0 {
                rate.receive(Millis(now), bytes);
            }
            if rate.poll_timeout().is_some_and(|at| at <= Millis(now)) && rate.too_slow(Millis(now)) {
                return Some(now);
            }
        }
        None
    }

    #[test]
    fn too_little_is_found_after_grace_and_window() {
        assert_eq!(feed(10, 1000, 100_000), Some(40_000));
        assert_eq!(feed(480, 1000, 100_000), Some(45_000), "what came in the grace helps the first window");
        assert_eq!(feed(0, 1, 100_000), Some(40_000));
    }

    #[test]
    fn enough_goes_on_for_ever() {
        assert_eq!(feed(510, 1000, 600_000), None);
        assert_eq!(feed(1, 1, 300_000), None);
        assert_eq!(feed(5100, 10_000, 600_000), None, "in bursts too");
    }

    #[test]
    fn a_peer_that_stops_later_is_found_a_window_later() {
        let mut rate = BodyRate::new(BodyRateConfig::default());
        rate.wait(Millis(0));
        for second in 1..=60u64 {
            rate.receive(Millis(second * 1000), 1000);
            assert!(!rate.too_slow(Millis(second * 1000)));
        }
        let found = (60_001..200_000).find(|&now| rate.too_slow(Millis(now)));
        assert!(found.is_some_and(|at| (75_000..=90_000).contains(&at)), "{found:?}");
    }

    #[test]
    fn our_own_delay_does_not_count() {
        let mut rate = BodyRate::new(BodyRateConfig::default());
        for round in 0..100u64 {
            let start = round * 60_000;
            rate.wait(Millis(start));
            rate.receive(Millis(start + 50), 64);
            rate.pause(Millis(start + 50));
            assert_eq!(rate.poll_timeout(), None);
            assert!(!rate.too_slow(Millis(start + 59_000)));
        }
    }

    #[test]
    fn one_late_look_finds_it_too() {
        let mut rate = BodyRate::new(BodyRateConfig::default());
        rate.wait(Millis(1000));
        assert_eq!(rate.poll_timeout(), Some(Millis(41_000)));
        assert!(rate.too_slow(Millis(90_000)));
        let mut none = BodyRate::new(BodyRateConfig { bytes_per_second: 0, ..BodyRateConfig::default() });
        none.wait(Millis(1000));
        assert_eq!(none.poll_timeout(), None);
        assert!(!none.too_slow(Millis(900_000)));
    }
}
