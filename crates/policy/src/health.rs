//! Active health of one endpoint: how results of checks add up.
//!
//! Owns: the counter between down and up, and the time of the next check.
//! Never: sends a check, reads a clock.
//! Driven by: the health threads: `poll_timeout` → run a check → `handle_result`, and publish the change with
//! `PoolShared::set_health`.
//! Why: HAProxy's counter (`rise`, `fall`) also gives its intermediate states, which its statistics show.
//!
//! ```text
//!   0 ── 1 … rise-1 │ rise … rise+fall-1
//!   DOWN   going up │ going down       UP
//! ```

use std::fmt;
use std::time::Duration;

use weir_expr::check::{FirstState, OnErrors};

use crate::rng::SplitMix;
use crate::time::Millis;

/// How often to check, and how many results decide. HAProxy: `inter`, `fastinter`, `downinter`, `rise`, `fall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthConfig {
    /// Between checks while settled up. Default 2 s.
    pub inter: Duration,
    /// Each check is put off by a random part of this. Default none.
    pub jitter: Duration,
    /// Between checks while changing; default `inter`.
    pub fast_inter: Option<Duration>,
    /// Between checks while settled down; default `inter`.
    pub down_inter: Option<Duration>,
    /// Good results in a row that bring it up. At least one; default 2.
    pub rise: u32,
    /// Bad results in a row that bring it down. At least one; default 3.
    pub fall: u32,
}

impl Default for HealthConfig {
    fn default() -> Self {
        Self {
            inter: Duration::from_secs(2),
            jitter: Duration::ZERO,
            fast_inter: None,
            down_inter: None,
            rise: 2,
            fall: 3,
        }
    }
}

/// What a result changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// Nothing that balancing sees.
    None,
    /// It came up.
    WentUp,
    /// It went down.
    WentDown,
}

/// The state of one endpoint's checks.
///
/// It starts up, one failure from down (HAProxy): a start needs no warm-up, and a dead endpoint is found at once.
#[derive(Clone, Debug)]
pub struct Health {
    config: HealthConfig,
    /// Below `rise`: down.
    level: u32,
    next: Millis,
    changed: Millis,
    checks: u64,
    bad: u64,
    failures: u64,
    errors: u64,
    transitions_down: u64,
    down_total: u64,
    /// For the jitter.
    random: SplitMix,
}

impl Health {
    /// Health before the first check. `spread` delays it, so that many endpoints are not checked in one burst.
    pub fn new(config: HealthConfig, now: Millis, spread: Duration) -> Self {
        let config = HealthConfig { rise: config.rise.max(1), fall: config.fall.max(1), ..config };
        Self {
            level: config.rise,
            config,
            next: now.plus(spread),
            changed: now,
            checks: 0,
            bad: 0,
            failures: 0,
            errors: 0,
            transitions_down: 0,
            down_total: 0,
            random: SplitMix::new(0),
        }
    }

    /// With random numbers of its own: endpoints of one seed would be checked in one burst.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Self {
        Self { random: SplitMix::new(seed), ..self }
    }

    /// When the next check is due after what happened `now`.
    fn after(&mut self, now: Millis) -> Millis {
        let jitter = u32::try_from(self.config.jitter.as_millis()).unwrap_or(u32::MAX);
        let delay = if jitter == 0 { 0 } else { self.random.below(jitter.saturating_add(1)) };
        now.plus(self.interval() + Duration::from_millis(delay.into()))
    }

    /// In another state before its first check.
    #[must_use]
    pub fn beginning(mut self, first: FirstState) -> Self {
        let HealthConfig { rise, fall, .. } = self.config;
        self.level = match first {
            FirstState::Up => rise,
            FirstState::FullyUp => rise + fall - 1,
            FirstState::Down => rise - 1,
            FirstState::FullyDown => 0,
        };
        self
    }

    /// Leaves a check out: the next one is due an interval from `now`.
    pub fn put_off(&mut self, now: Millis) {
        self.next = self.after(now);
    }

    /// The same endpoint under new settings: whether it is up, and since when, goes on.
    pub fn reconfigured(&self, config: HealthConfig) -> Self {
        let config = HealthConfig { rise: config.rise.max(1), fall: config.fall.max(1), ..config };
        let level = match (self.is_up(), self.settled()) {
            (true, true) => config.rise + config.fall - 1,
            (true, false) => config.rise,
            (false, _) => self.level.min(config.rise - 1),
        };
        Self { config, level, ..self.clone() }
    }

    /// True if it may be given work.
    pub fn is_up(&self) -> bool {
        self.level >= self.config.rise
    }

    /// When the next check is due.
    pub fn poll_timeout(&self) -> Millis {
        self.next
    }

    /// Takes the result of a check that ended at `now`, and sets the time of the next.
    pub fn handle_result(&mut self, now: Millis, ok: bool) -> Transition {
        let was_up = self.is_up();
        self.checks += 1;
        self.bad += u64::from(!ok);
        let top = self.config.rise + self.config.fall - 1;
        if ok {
            self.level = if self.level + 1 >= self.config.rise { top } else { self.level + 1 };
        } else {
            self.failures += u64::from(was_up);
            let stays_up = self.level > self.config.rise;
            self.level = if stays_up { self.level - 1 } else { 0 };
        }
        self.next = self.after(now);
        match (was_up, self.is_up()) {
            (false, true) => {
                self.down_total += now.since(self.changed);
                self.changed = now;
                Transition::WentUp
            }
            (true, false) => {
                self.transitions_down += 1;
                self.changed = now;
                Transition::WentDown
            }
            _ => Transition::None,
        }
    }

    /// Takes errors in a row that traffic met at `now` (HAProxy's `on-error`). A check that is due sooner stays so.
    pub fn handle_errors(&mut self, now: Millis, then: OnErrors) -> Transition {
        let due = self.next;
        let HealthConfig { rise, fast_inter, .. } = self.config;
        match then {
            OnErrors::SuddenDeath => self.level = self.level.min(rise + 1),
            OnErrors::MarkDown => self.level = self.level.min(rise),
            OnErrors::CheckSooner | OnErrors::FailCheck => {}
        }
        let transition = match then {
            OnErrors::CheckSooner => Transition::None,
            _ => {
                let results = self.results();
                let transition = self.handle_result(now, false);
                // What traffic met is no check.
                [self.checks, self.bad] = results;
                transition
            }
        };
        self.next = fast_inter.map_or(due, |soon| due.min(now.plus(soon)));
        self.errors += 1;
        transition
    }

    /// The time between checks in the present state.
    pub fn interval(&self) -> Duration {
        let HealthConfig { inter, fast_inter, down_inter, .. } = self.config;
        match self.level {
            0 => down_inter.unwrap_or(inter),
            _ if self.settled() => inter,
            _ => fast_inter.unwrap_or(inter),
        }
    }

    /// When it last went up or down; at first, when it was made.
    pub fn changed(&self) -> Millis {
        self.changed
    }

    /// Checks made, and those of them that failed.
    pub fn results(&self) -> [u64; 2] {
        [self.checks, self.bad]
    }

    /// Checks that failed while it was up (HAProxy's `chkfail`).
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Times that errors in a row were taken (`hanafail`).
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// Times it went down (`chkdown`).
    pub fn transitions_down(&self) -> u64 {
        self.transitions_down
    }

    /// Time spent down so far (`downtime`).
    pub fn downtime(&self, now: Millis) -> Duration {
        let present = if self.is_up() { 0 } else { now.since(self.changed) };
        Duration::from_millis(self.down_total + present)
    }

    /// `rise`, `fall` and the counter, as HAProxy's `check_rise`, `check_fall` and `check_health`.
    pub fn counters(&self) -> (u32, u32, u32) {
        (self.config.rise, self.config.fall, self.level)
    }

    fn settled(&self) -> bool {
        self.level == 0 || self.level == self.config.rise + self.config.fall - 1
    }
}

/// HAProxy's words: `UP`, `UP 1/3` (on its way down), `DOWN`, `DOWN 1/2` (on its way up).
impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HealthConfig { rise, fall, .. } = self.config;
        match (self.is_up(), self.level) {
            (true, _) if self.settled() => f.write_str("UP"),
            (true, level) => write!(f, "UP {}/{fall}", level - rise + 1),
            (false, 0) => f.write_str("DOWN"),
            (false, level) => write!(f, "DOWN {level}/{rise}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(results: &str) -> Vec<String> {
        let mut health = Health::new(HealthConfig::default(), Millis(1), Duration::ZERO);
        let mut now = 1;
        let mut step = |result| {
            now += 1000;
            health.handle_result(Millis(now), result == '+');
            health.to_string()
        };
        results.chars().map(&mut step).collect()
    }

    #[test]
    fn counts_as_haproxy_does() {
        assert_eq!(run("-"), ["DOWN"], "at start one failure is enough");
        assert_eq!(run("+---"), ["UP", "UP 2/3", "UP 1/3", "DOWN"]);
        assert_eq!(run("+--+"), ["UP", "UP 2/3", "UP 1/3", "UP"], "one success forgives all");
        assert_eq!(run("-+-++"), ["DOWN", "DOWN 1/2", "DOWN", "DOWN 1/2", "UP"]);
    }

    #[test]
    fn intervals_follow_the_state() {
        let config = HealthConfig {
            fast_inter: Some(Duration::from_millis(500)),
            down_inter: Some(Duration::from_secs(10)),
            ..HealthConfig::default()
        };
        let mut health = Health::new(config, Millis(1), Duration::ZERO);
        assert_eq!(health.poll_timeout(), Millis(1));
        health.handle_result(Millis(10), true);
        assert_eq!(health.poll_timeout(), Millis(2010));
        health.handle_result(Millis(20), false);
        assert_eq!(health.poll_timeout(), Millis(520));
        health.handle_result(Millis(30), false);
        assert_eq!(health.handle_result(Millis(40), false), Transition::WentDown);
        assert_eq!(health.poll_timeout(), Millis(10_040));
        assert_eq!(health.downtime(Millis(1040)), Duration::from_secs(1));
        health.handle_result(Millis(1040), true);
        assert_eq!(health.handle_result(Millis(2040), true), Transition::WentUp);
        assert_eq!(health.downtime(Millis(9000)), Duration::from_secs(2));
        assert_eq!((health.failures(), health.transitions_down()), (3, 1));
    }

    #[test]
    fn jitter_puts_checks_off_by_no_more_than_it_is() {
        let config = HealthConfig { jitter: Duration::from_millis(500), ..HealthConfig::default() };
        let delays = |seed| {
            let mut health = Health::new(config, Millis(1), Duration::ZERO).seeded(seed);
            let mut delays = Vec::new();
            for at in 0..200 {
                let now = Millis(1 + at * 10_000);
                health.handle_result(now, true);
                delays.push(health.poll_timeout().since(now) - 2000);
            }
            delays
        };
        let one = delays(1);
        assert!(one.iter().all(|delay| *delay <= 500), "{one:?}");
        assert!(one.iter().any(|delay| *delay < 100) && one.iter().any(|delay| *delay > 400), "{one:?}");
        assert_ne!(one, delays(2), "two endpoints are not put off alike");
    }

    #[test]
    fn new_settings_keep_the_state() {
        let mut health = Health::new(HealthConfig::default(), Millis(1), Duration::ZERO);
        health.handle_result(Millis(2), false);
        let config = HealthConfig { rise: 5, fall: 1, ..HealthConfig::default() };
        let mut next = health.reconfigured(config);
        assert!(!next.is_up());
        for at in 0..4 {
            assert_eq!(next.handle_result(Millis(3 + at), true), Transition::None);
        }
        assert_eq!(next.handle_result(Millis(9), true), Transition::WentUp);
    }
}
