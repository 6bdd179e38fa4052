//! What held a server at its knee, and from which rate on its CPUs had nothing left.
//!
//! Owns: the reasons, their order, the thresholds.
//! Never: names a reason that the rows do not show: what is neither CPU time nor the generator is said to be elsewhere.
//! Driven by: `chapter`, `findings` and `tables`.

use super::figures::Row;
use crate::stats::median;
use serde::{Deserialize, Serialize};

/// CPUs that are this busy have nothing left to speak of: the rest is what the kernel needs to change between tasks.
const FULL: f64 = 0.95;
/// A machine that is held to its baseline, or robbed by its host, for this share of the time is so for good.
const HELD: f64 = 0.5;
const ROBBED: f64 = 0.1;

/// What a server could not get more of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The generator: how much the server can do is not known.
    Generator,
    /// Credits of a burstable machine: it was held to its baseline for this share of the time.
    Credits(f64),
    /// CPU time that the host took away, this share of it.
    Host(f64),
    /// Its CPUs, busy to this share.
    Cpu(f64),
    /// CPUs that it shares with the generator: which of the two needed more cannot be told.
    Shared,
    /// None of these: its CPUs were busy to this share only. The link, or what it waits for.
    Elsewhere(f64),
}

impl Limit {
    /// Of a row beyond the knee; nothing where its CPU time was not seen.
    pub(super) fn of(row: &Row, packed: bool) -> Option<Self> {
        let in_most = |doubt: &str| row.doubts.get(doubt).is_some_and(|runs| runs * 2 >= row.runs);
        if ["generator-saturated", "generator-late", "throttled"].into_iter().any(in_most) {
            return Some(Self::Generator);
        }
        let middle = |of: fn(&super::figures::Each) -> Option<f64>| {
            let all: Vec<f64> = row.each.iter().filter_map(of).collect();
            (!all.is_empty()).then(|| median(&all))
        };
        if let Some(held) = middle(|e| e.limited).filter(|share| *share >= HELD) {
            return Some(Self::Credits(held));
        }
        if let Some(taken) = middle(|e| Some(e.steal)).filter(|share| *share >= ROBBED) {
            return Some(Self::Host(taken));
        }
        let busy = busy(row)?;
        if busy >= FULL {
            return Some(Self::Cpu(busy));
        }
        Some(if packed || row.shared_cpus { Self::Shared } else { Self::Elsewhere(busy) })
    }

    /// In words that follow a figure.
    pub(super) fn told(self) -> String {
        // Rounded down: 94.9% is not the 95 that count as full.
        let percent = |share: f64| format!("{:.0}", (share * 100.0).floor());
        match self {
            Self::Generator => "limited by the generator".into(),
            Self::Credits(share) => {
                format!("limited by credits: held to the baseline {}% of the time", percent(share))
            }
            Self::Host(share) => {
                format!("limited by the host, which took {}% of the CPU time", percent(share))
            }
            Self::Cpu(share) => format!("limited by its CPUs, {}% busy", percent(share)),
            Self::Shared => "limited by the CPUs that it shares with the generator".into(),
            Self::Elsewhere(share) => {
                format!(
                    "limited by neither CPU nor generator, its CPUs {}% busy: the link, or what it waits for",
                    percent(share)
                )
            }
        }
    }
}

/// How busy the CPUs of a row's server were, as a share; nothing where that was not seen.
fn busy(row: &Row) -> Option<f64> {
    let cpus = row.cpus.median;
    let known = cpus > 0.0 && row.point.workers > 0 && !row.point.hyper_threading;
    known.then(|| (cpus / f64::from(row.point.workers)).min(1.0))
}

/// The lowest of the rates wanted at which the CPUs of the server had nothing left.
pub(super) fn full_from<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<f64> {
    rows.filter(|row| busy(row).is_some_and(|share| share >= FULL))
        .filter_map(|row| row.rate_wanted)
        .min_by(f64::total_cmp)
}
