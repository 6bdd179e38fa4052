//! Passive ejection: endpoints that do worse than is bearable, by what traffic meets there.
//!
//! Owns: what was counted of each endpoint when it was looked at last, who is out and until when.
//! Never: counts, reads a clock, or takes an endpoint out itself.
//! Driven by: the health thread, once an interval: `handle_samples`, and its changes are published.
//! Why: checks ask what an endpoint says of itself; traffic meets what it does. Beside `max_fails`, which sees failures in a row
//! at once, this sees an endpoint that fails now and then, or is slow.
//!
//! ```text
//!   totals ── minus those of the last look ── share of failures, mean time ── out of bounds? ── ejected, for longer each time
//! ```

use std::time::Duration;

use hashbrown::HashMap;
use weir_control::EndpointKey;
use weir_expr::settings::Outliers;

use crate::time::Millis;

/// What was counted of an endpoint since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Exchanges that ended.
    pub exchanges: u64,
    /// Of those, failed: no connection, no answer, or one of 500 to 599.
    pub failures: u64,
    /// Answers whose time to the head is known.
    pub timed: u64,
    /// The sum of these times in microseconds.
    pub time_us: u64,
}

impl Sample {
    /// What came since an earlier one. Counters that began anew count from zero.
    fn since(self, before: Sample) -> Sample {
        let left = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now);
        Sample {
            exchanges: left(self.exchanges, before.exchanges),
            failures: left(self.failures, before.failures),
            timed: left(self.timed, before.timed),
            time_us: left(self.time_us, before.time_us),
        }
    }

    fn mean_us(self) -> u64 {
        self.time_us.checked_div(self.timed).unwrap_or(0)
    }
}

/// What becomes of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is to be left out, for so long.
    Ejected(Why, Duration),
    /// It may be chosen again.
    Returned,
}

/// Why it is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// So many of so many exchanges failed.
    Failures {
        /// Failed.
        failures: u64,
        /// Of these.
        of: u64,
    },
    /// Its mean time to the head of an answer, and that of the middle one of its peers, in microseconds.
    Slow {
        /// Its own.
        own_us: u64,
        /// Of the middle one.
        median_us: u64,
    },
}

/// The state of one pool.
#[derive(Debug)]
pub struct Detector {
    settings: Outliers,
    known: HashMap<EndpointKey, Known, ahash::RandomState>,
}

#[derive(Debug, Default)]
struct Known {
    last: Sample,
    /// Until when it is out.
    until: Option<Millis>,
    /// Ejections that were not worked off yet: each makes the next one longer.
    times: u32,
}

/// Ejections beyond this do not get longer.
const LONGEST: u32 = 10;

impl Detector {
    /// Nobody is out, and nothing was counted.
    pub fn new(settings: Outliers) -> Self {
        Self { settings, known: HashMap::default() }
    }

    /// Takes what was counted of all endpoints of the pool, with whether each takes work now (checks and operators having their
    /// say); what changes. The first call only begins.
    pub fn handle_samples(
        &mut self,
        now: Millis,
        samples: &[(EndpointKey, Sample, bool)],
    ) -> Vec<(EndpointKey, Verdict)> {
        self.known.retain(|key, _| samples.iter().any(|(one, ..)| one == key));
        let mut verdicts = Vec::new();
        let mut news = Vec::new();
        for (key, sample, takes_work) in samples {
            let fresh = !self.known.contains_key(key);
            let known = self.known.entry(*key).or_default();
            let new = sample.since(known.last);
            known.last = *sample;
            match known.until {
                Some(until) if now >= until => {
                    known.until = None;
                    verdicts.push((*key, Verdict::Returned));
                }
                Some(_) => {}
                // What was counted before it was looked at for the first time says nothing of now.
                None if !fresh && *takes_work => news.push((*key, new)),
                None => {}
            }
        }
        let enough: Vec<_> =
            news.into_iter().filter(|(_, new)| new.exchanges >= u64::from(self.settings.requests)).collect();
        let median = median(enough.iter().filter(|(_, new)| new.timed > 0).map(|(_, new)| new.mean_us()));
        let mut judged: Vec<_> =
            enough.into_iter().map(|(key, new)| (key, new, self.fault(new, median))).collect();
        // The worst first: there is a bound on how many may be out.
        judged.sort_by_key(|(_, new, _)| std::cmp::Reverse(new.failures * 1000 / new.exchanges.max(1)));
        let mut out = self.known.values().filter(|known| known.until.is_some()).count();
        let most = samples.len() * usize::from(self.settings.most_percent) / 100;
        for (key, _, fault) in judged {
            let Some(known) = self.known.get_mut(&key) else { continue };
            let Some(why) = fault else {
                known.times = known.times.saturating_sub(1);
                continue;
            };
            // One may always be out, but never the last.
            if out >= most.max(1) || out + 1 >= samples.len() {
                continue;
            }
            known.times = (known.times + 1).min(LONGEST);
            let time = self.settings.ejection * known.times;
            known.until = Some(now.plus(time));
            out += 1;
            verdicts.push((key, Verdict::Ejected(why, time)));
        }
        verdicts
    }

    fn fault(&self, new: Sample, median: Option<u64>) -> Option<Why> {
        if let Some(percent) = self.settings.failures_percent
            && new.failures * 100 > new.exchanges * u64::from(percent)
        {
            return Some(Why::Failures { failures: new.failures, of: new.exchanges });
        }
        let (factor, median_us, own_us) = (self.settings.slower?, median?, new.mean_us());
        // Tenths of a millisecond are noise, whatever their ratio.
        let slow = own_us > median_us.saturating_mul(u64::from(factor)) && own_us > median_us + 1000;
        slow.then_some(Why::Slow { own_us, median_us })
    }
}

/// The middle one; of an even number the lower. Nothing of fewer than three: two have no middle to be far from.
fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    if values.len() < 3 { None } else { values.get((values.len() - 1) / 2).copied() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Outliers {
        Outliers {
            interval: Duration::from_secs(10),
            ejection: Duration::from_secs(30),
            most_percent: 50,
            failures_percent: Some(20),
            slower: Some(3),
            requests: 10,
        }
    }

    /// A pool whose endpoints do so and so many things in an interval.
    struct Scene {
        detector: Detector,
        totals: Vec<Sample>,
        now: u64,
        out: Vec<bool>,
    }

    impl Scene {
        fn new(count: usize, settings: Outliers) -> Self {
            let mut scene = Self {
                detector: Detector::new(settings),
                totals: vec![Sample::default(); count],
                now: 1,
                out: vec![false; count],
            };
            scene.step(&vec![(1000, 1000, 1); count]);
            scene
        }

        /// Each endpoint's exchanges, failures and mean milliseconds; the changes by index.
        fn step(&mut self, news: &[(u64, u64, u64)]) -> Vec<(u64, Verdict)> {
            for (total, (exchanges, failures, ms)) in self.totals.iter_mut().zip(news) {
                total.exchanges += exchanges;
                total.failures += failures;
                total.timed += exchanges;
                total.time_us += exchanges * ms * 1000;
            }
            let samples: Vec<_> = (0..)
                .zip(&self.totals)
                .map(|(at, total)| (EndpointKey(at), *total, !self.out[at as usize]))
                .collect();
            let found = self.detector.handle_samples(Millis(self.now), &samples);
            self.now += 10_000;
            for (key, verdict) in &found {
                self.out[key.0 as usize] = matches!(verdict, Verdict::Ejected(..));
            }
            found.into_iter().map(|(key, verdict)| (key.0, verdict)).collect()
        }
    }

    #[test]
    fn who_fails_is_out_for_longer_each_time_and_comes_back() {
        let mut scene = Scene::new(4, settings());
        let fine = (100, 20, 5);
        let bad = (100, 21, 5);
        assert_eq!(scene.step(&[fine; 4]), []);
        let why = Why::Failures { failures: 21, of: 100 };
        let ejected = |seconds| (2, Verdict::Ejected(why, Duration::from_secs(seconds)));
        assert_eq!(scene.step(&[fine, fine, bad, fine]), [ejected(30)]);
        // It gets nothing, which says nothing.
        let none = (0, 0, 0);
        assert_eq!(scene.step(&[fine, fine, none, fine]), []);
        assert_eq!(scene.step(&[fine, fine, none, fine]), []);
        assert_eq!(scene.step(&[fine, fine, none, fine]), [(2, Verdict::Returned)]);
        assert_eq!(scene.step(&[fine, fine, bad, fine]), [ejected(60)]);
        for _ in 0..5 {
            assert_eq!(scene.step(&[fine, fine, none, fine]), []);
        }
        assert_eq!(scene.step(&[fine, fine, none, fine]), [(2, Verdict::Returned)]);
        // Good intervals work it off.
        assert_eq!(scene.step(&[fine; 4]), []);
        assert_eq!(scene.step(&[fine; 4]), []);
        assert_eq!(scene.step(&[fine, fine, bad, fine]), [ejected(30)]);
    }

    #[test]
    fn few_exchanges_say_nothing_and_some_always_stay() {
        let mut scene = Scene::new(4, settings());
        assert_eq!(scene.step(&[(9, 9, 1), (100, 0, 1), (100, 0, 1), (100, 0, 1)]), []);
        let all = scene.step(&[(100, 50, 1), (100, 90, 1), (100, 60, 1), (100, 80, 1)]);
        let out: Vec<u64> = all.iter().map(|(at, _)| *at).collect();
        assert_eq!(out, [1, 3], "half of them may be out, the worst first");
        let mut scene = Scene::new(2, Outliers { most_percent: 100, ..settings() });
        assert_eq!(scene.step(&[(100, 50, 1), (100, 50, 1)]).len(), 1, "never the last one");
        let mut scene = Scene::new(1, settings());
        assert_eq!(scene.step(&[(100, 100, 1)]), []);
    }

    #[test]
    fn who_is_slow_is_measured_by_the_middle_one() {
        let mut scene = Scene::new(3, settings());
        let news = scene.step(&[(100, 0, 10), (100, 0, 31), (100, 0, 10)]);
        let why = Why::Slow { own_us: 31_000, median_us: 10_000 };
        assert_eq!(news, [(1, Verdict::Ejected(why, Duration::from_secs(30)))]);
        let mut two = Scene::new(2, settings());
        assert_eq!(two.step(&[(100, 0, 10), (100, 0, 100)]), [], "of two nobody knows which one is odd");
    }

    #[test]
    fn counters_that_begin_anew_are_no_flood() {
        let before = Sample { exchanges: 100, failures: 50, timed: 100, time_us: 5000 };
        let after = Sample { exchanges: 10, failures: 1, timed: 10, time_us: 100 };
        assert_eq!(after.since(before), after);
    }
}
