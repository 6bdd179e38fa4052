//! A burstable machine: CPU time from an account of credits.
//!
//! Owns: the account, and what the server may use while it stands as it stands.
//! Never: touches a control group: `cgroup` does.
//! Driven by: `generator`, at each reading of the server's accounts.
//! Why: cloud machines of this kind are fast until their credits are spent. That a benchmark of a few minutes does not show.

use serde::{Deserialize, Serialize};

/// A credit is a minute of one CPU.
const CREDIT_S: f64 = 60.0;

/// What a burstable machine grants, for each of its CPUs. A server has as many CPUs as workers.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burstable {
    /// The share of a CPU that is earned all the time, and all that is left when no credits are.
    pub baseline: f64,
    /// Credits that it begins with.
    pub launch_credits: f64,
    /// Credits that it can save up.
    pub most_credits: f64,
}

/// What a run found in the account and left there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Credits at its beginning.
    pub before: f64,
    /// Credits at its end.
    pub after: f64,
    /// Share of its time in which the server was held to the baseline.
    pub limited: f64,
    /// Whether it was at its end.
    pub held: bool,
    /// Seconds of the simulated machine that passed in a second of the run.
    pub scale: f64,
}

/// The account of one server, in credits of all its CPUs.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    credits: f64,
    most: f64,
    /// CPUs earned, all together.
    earned: f64,
    /// CPUs that may be used while there are credits.
    cpus: f64,
    scale: f64,
    held: bool,
}

impl Bucket {
    /// Of a server of so many workers. A second of a run stands for `scale` seconds of the machine.
    #[must_use]
    pub fn new(machine: Burstable, workers: u16, scale: f64) -> Self {
        let cpus = f64::from(workers);
        Self {
            credits: machine.launch_credits * cpus,
            most: machine.most_credits * cpus,
            earned: machine.baseline * cpus,
            cpus,
            scale,
            held: false,
        }
    }

    /// The same as a run before has left it.
    #[must_use]
    pub fn after(self, run: Account) -> Self {
        Self { credits: run.after, held: run.held, ..self }
    }

    /// Credits that are left.
    #[must_use]
    pub fn credits(&self) -> f64 {
        self.credits
    }

    /// How fast its time passes.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Books what was used in a time, both in seconds of the run.
    pub fn book(&mut self, used_s: f64, elapsed_s: f64) {
        let change = (self.earned * elapsed_s - used_s) * self.scale / CREDIT_S;
        self.credits = (self.credits + change).clamp(0.0, self.most);
        // Who has spent everything is free again with a credit for each CPU: else it would be so for moments all the time.
        self.held = self.credits <= 0.0 || (self.held && self.credits < self.cpus);
    }

    /// Whether nothing but the baseline is left.
    #[must_use]
    pub fn limited(&self) -> bool {
        self.held
    }

    /// CPUs that may be used now.
    #[must_use]
    pub fn allowance(&self) -> f64 {
        if self.limited() { self.earned } else { self.cpus }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EC2's t2.medium has two CPUs, earns 24 credits an hour, begins with 60, and keeps 576 at most.
    const T2: Burstable = Burstable { baseline: 0.2, launch_credits: 30.0, most_credits: 288.0 };

    #[test]
    fn a_t2_medium_lasts_as_long_as_the_published_one() {
        let mut bucket = Bucket::new(T2, 2, 1.0);
        assert_eq!((bucket.credits(), bucket.allowance()), (60.0, 2.0));
        // 1.65 of two CPUs: runs of three minutes, and in the sixteenth to eighteenth it is over.
        let runs = (1..).find(|_| {
            bucket.book(1.65 * 180.0, 180.0);
            bucket.limited()
        });
        assert_eq!(runs, Some(16));
        assert_eq!(bucket.allowance(), 0.4);
    }

    #[test]
    fn idle_machines_save_up_to_their_most() {
        let spent = Account { held: true, ..Account::default() };
        let mut bucket = Bucket::new(T2, 2, 1.0).after(spent);
        bucket.book(0.0, 240.0);
        assert!(bucket.limited(), "1.6 credits are less than one for each CPU");
        bucket.book(0.0, 3360.0);
        assert!((bucket.credits() - 24.0).abs() < 1e-9 && !bucket.limited());
        bucket.book(0.0, 1e6);
        assert_eq!(bucket.credits(), 576.0);
    }

    #[test]
    fn scaled_time_spends_as_much_in_less() {
        let (mut real, mut scaled) = (Bucket::new(T2, 1, 1.0), Bucket::new(T2, 1, 120.0));
        real.book(0.8 * 180.0, 180.0);
        scaled.book(0.8 * 1.5, 1.5);
        assert!((real.credits() - scaled.credits()).abs() < 1e-9);
    }
}
