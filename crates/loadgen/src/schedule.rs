//! When each request of a run is due.
//!
//! Owns: the phases of a run (warm-up, steps, ramps) and the arithmetic of their rates.
//! Never: reads a clock: times are nanoseconds since load began.
//! Driven by: `worker`, once a request.
//! Why one numbering for all connections: request `n` of the run is due at a moment fixed beforehand, and belongs to
//! connection `n mod connections`. So arrivals are evenly spread over all connections and threads, each connection
//! keeps its own pace as wrk2's do, and a stalled server is met by what was due meanwhile.

use std::time::Duration;

const SECOND: f64 = 1e9;

/// A stretch of time with one course of the rate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Phase {
    /// First nanosecond, and the first one behind it.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Requests a second at the start and at the end.
    from: f64,
    to: f64,
    /// Number of the first request, and of the first one behind it.
    first: u64,
    behind: u64,
    /// The step whose figures it counts for; none for warm-ups.
    pub(crate) step: Option<usize>,
}

/// One step of a run: a rate, or a ramp between two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Course {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Course {
    pub(crate) fn constant(rate: f64) -> Self {
        Self { from: rate, to: rate }
    }

    pub(crate) fn mean(self) -> f64 {
        (self.from + self.to) / 2.0
    }
}

/// All phases of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Schedule {
    phases: Vec<Phase>,
    open: bool,
}

/// Where a connection stands in the schedule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Number of its next request.
    pub(crate) next: u64,
    /// The phase that this falls into; a hint, moved forward only.
    phase: usize,
}

impl Place {
    /// That of the connection whose first request is number `next`.
    pub(crate) fn first(next: u64) -> Self {
        Self { next, phase: 0 }
    }
}

impl Schedule {
    /// As fast as connections allow: one step.
    pub(crate) fn closed(warmup: Duration, duration: Duration) -> Self {
        Self::of(&[Course::constant(0.0)], warmup, duration, false)
    }

    /// At the rates of `steps` in turn, each after a warm-up at its first rate.
    pub(crate) fn open(steps: &[Course], warmup: Duration, duration: Duration) -> Self {
        Self::of(steps, warmup, duration, true)
    }

    fn of(steps: &[Course], warmup: Duration, duration: Duration, open: bool) -> Self {
        let mut phases: Vec<Phase> = Vec::new();
        let mut add = |course: Course, length: Duration, step| {
            let start = phases.last().map_or(0, |phase| phase.end);
            let end = start.saturating_add(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX));
            let first = phases.last().map_or(0, |phase| phase.behind);
            let requests = course.mean() * (end - start) as f64 / SECOND;
            let behind = first.saturating_add(requests.ceil() as u64);
            phases.push(Phase { start, end, from: course.from, to: course.to, first, behind, step });
        };
        for (at, &course) in steps.iter().enumerate() {
            if !warmup.is_zero() {
                add(Course::constant(course.from), warmup, None);
            }
            add(course, duration, Some(at));
        }
        Self { phases, open }
    }

    /// Whether requests are due at moments of their own.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// The phases in turn; at least one.
    pub(crate) fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// When it is over.
    pub(crate) fn end(&self) -> u64 {
        self.phases.last().map_or(0, |phase| phase.end)
    }

    /// When the request at `place` is due, and in which phase; `None` when the run is over before.
    pub(crate) fn due(&self, place: &mut Place) -> Option<(u64, usize)> {
        while self.phases.get(place.phase)?.behind <= place.next {
            place.phase += 1;
        }
        let phase = self.phases.get(place.phase)?;
        Some((phase.due(place.next), place.phase))
    }

    /// Moves `place`, one of `stride` connections, to its first request in `phase`; how many it left out.
    pub(crate) fn skip_to(&self, place: &mut Place, phase: usize, stride: u64) -> u64 {
        let first = self.phases.get(phase).map_or(u64::MAX, |phase| phase.first);
        let skipped = first.saturating_sub(place.next).div_ceil(stride.max(1));
        place.next += skipped * stride;
        place.phase = place.phase.max(phase);
        skipped
    }

    /// How many requests from `place` on are due before `end`.
    pub(crate) fn left(&self, place: Place, stride: u64, end: u64) -> u64 {
        let last = if self.open { self.phases.get(self.phase_at(end.saturating_sub(1), 0)) } else { None };
        let behind = last.map_or(0, |phase| phase.behind_at(end));
        behind.saturating_sub(place.next).div_ceil(stride.max(1))
    }

    /// The phase at `now`, given the one at an earlier time.
    pub(crate) fn phase_at(&self, now: u64, mut from: usize) -> usize {
        while from + 1 < self.phases.len() && self.phases[from].end <= now {
            from += 1;
        }
        from
    }
}

impl Phase {
    /// When its `n`-th request of the run is due: where the area under the rate has reached `n`.
    fn due(&self, n: u64) -> u64 {
        let count = (n - self.first) as f64;
        let length = (self.end - self.start) as f64 / SECOND;
        let slope = (self.to - self.from) / length;
        let seconds = if slope.abs() < 1e-9 {
            count / self.from
        } else {
            // from·t + slope·t²/2 = count, solved for the smaller positive t.
            let root = (self.from * self.from + 2.0 * slope * count).max(0.0).sqrt();
            2.0 * count / (self.from + root).max(f64::MIN_POSITIVE)
        };
        self.start + (seconds * SECOND) as u64
    }

    /// The first request of the run that is not due before `end`.
    fn behind_at(&self, end: u64) -> u64 {
        if end >= self.end {
            return self.behind;
        }
        let passed = end.saturating_sub(self.start) as f64 / SECOND;
        let requests = (self.from + self.rate_at(end)) / 2.0 * passed;
        self.first.saturating_add(requests.ceil() as u64).min(self.behind)
    }

    /// Its length in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        (self.end - self.start) as f64 / SECOND
    }

    /// The rate at `now`, within its time.
    pub(crate) fn rate_at(&self, now: u64) -> f64 {
        let part = now.clamp(self.start, self.end) - self.start;
        self.from + (self.to - self.from) * part as f64 / ((self.end - self.start) as f64).max(1.0)
    }

    /// Its mean rate.
    pub(crate) fn rate(&self) -> f64 {
        (self.from + self.to) / 2.0
    }

    /// What is left of it when the run ends at `end`; `None` if it had not begun.
    pub(crate) fn until(&self, end: u64) -> Option<Self> {
        match end {
            end if end <= self.start => None,
            end if end >= self.end => Some(self.clone()),
            end => Some(Self { end, to: self.rate_at(end), behind: self.behind_at(end), ..self.clone() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn seconds(n: f64) -> Duration {
        Duration::from_secs_f64(n)
    }

    fn all(schedule: &Schedule, connection: u64, stride: u64) -> Vec<u64> {
        let mut place = Place { next: connection, ..Place::default() };
        let mut dues = Vec::new();
        while let Some((due, _)) = schedule.due(&mut place) {
            dues.push(due / MS);
            place.next += stride;
        }
        dues
    }

    #[test]
    fn a_constant_rate_is_spread_over_connections() {
        let schedule = Schedule::open(&[Course::constant(100.0)], Duration::ZERO, seconds(0.1));
        assert_eq!(all(&schedule, 0, 2), [0, 20, 40, 60, 80]);
        assert_eq!(all(&schedule, 1, 2), [10, 30, 50, 70, 90]);
        assert_eq!(schedule.left(Place { next: 4, phase: 0 }, 2, schedule.end()), 3);
    }

    #[test]
    fn a_run_that_stops_early_is_as_long_as_it_was() {
        let rates = [Course::constant(100.0), Course { from: 0.0, to: 200.0 }];
        let schedule = Schedule::open(&rates, Duration::ZERO, seconds(1.0));
        let end = 1500 * MS;
        // All hundred of the first step, and of the ramp as many as lie below it by then.
        assert_eq!(schedule.left(Place::first(0), 1, end), 125);
        assert_eq!(schedule.left(Place::first(0), 1, 250 * MS), 25);
        let cut: Vec<_> = schedule.phases().iter().filter_map(|phase| phase.until(end)).collect();
        assert_eq!(
            cut.iter().map(|phase| (phase.seconds(), phase.rate())).collect::<Vec<_>>(),
            [(1.0, 100.0), (0.5, 50.0)]
        );
        assert_eq!(schedule.phases().iter().filter_map(|phase| phase.until(end / 2)).count(), 1);
    }

    #[test]
    fn steps_follow_each_other_with_their_warm_ups() {
        let rates = [Course::constant(10.0), Course::constant(100.0)];
        let schedule = Schedule::open(&rates, seconds(0.1), seconds(0.2));
        let phases: Vec<_> = schedule.phases().iter().map(|p| (p.start / MS, p.end / MS, p.step)).collect();
        assert_eq!(phases, [(0, 100, None), (100, 300, Some(0)), (300, 400, None), (400, 600, Some(1))]);
        let dues = all(&schedule, 0, 1);
        assert_eq!(dues[..4], [0, 100, 200, 300]);
        assert_eq!(dues.len(), 1 + 2 + 10 + 20);
        assert_eq!(schedule.phase_at(350 * MS, 0), 2);
    }

    #[test]
    fn a_backlog_can_be_left_behind() {
        let rates = [Course::constant(100.0), Course::constant(10.0)];
        let schedule = Schedule::open(&rates, Duration::ZERO, seconds(1.0));
        let mut place = Place { next: 30, phase: 0 };
        assert_eq!(schedule.skip_to(&mut place, 1, 10), 7);
        assert_eq!(schedule.due(&mut place), Some((1000 * MS, 1)));
        assert_eq!(schedule.skip_to(&mut place, 1, 10), 0);
    }

    #[test]
    fn a_ramp_reaches_its_rate() {
        let schedule = Schedule::open(&[Course { from: 0.0, to: 100.0 }], Duration::ZERO, seconds(2.0));
        let dues = all(&schedule, 0, 1);
        assert_eq!(dues.len(), 100);
        assert!(dues.is_sorted());
        // A quarter of them in the first half of the time.
        let early = dues.iter().filter(|&&due| due < 1000).count();
        assert!((25..=26).contains(&early), "{early}");
        let down = Schedule::open(&[Course { from: 100.0, to: 0.0 }], Duration::ZERO, seconds(2.0));
        assert_eq!(all(&down, 0, 1).iter().filter(|&&due| due < 1000).count(), 75);
    }
}
