//! The byte budget of the process.
//!
//! Owns: the measuring of memory in use, and the verdict whether it is short.
//! Never: is asked for more than one atomic load by a worker.
//! Driven by: a thread of its own; accept loops and connections ask.
//! Why: bounds hold for each connection, but their number times their bounds may be more than the machine has. What the
//! kernel would end this process for is measured, so that nothing that takes memory can be forgotten in a sum.
//!
//! ```text
//!   in use <= budget            all is served
//!   in use >  budget            accepting pauses; requests that begin get 503 and `close`; those under way go on
//!   in use <= 15/16 of budget   all is served again
//! ```

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::worker::lasting;
use crate::worker::shared::Shared;

/// Between two looks at the memory in use, while more than half of the budget is.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The same while there is plenty, so that an idle process hardly wakes up.
const LOOK_SELDOM: Duration = Duration::from_millis(500);

/// Looks between two trims of the heap, while memory is short.
const TRIM_EVERY: u64 = 10;

/// Whether memory is short.
#[derive(Default)]
pub(crate) struct Pressure {
    short: AtomicBool,
    /// Bytes; zero: no bound could be found.
    budget: AtomicU64,
    /// Requests refused for it.
    pub(crate) shed: AtomicU64,
}

impl Pressure {
    /// Whether nothing new is to be begun.
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Relaxed)
    }

    /// Sets the bound; `None`: half of what the machine or the control group grants.
    pub(crate) fn set_budget(&self, bytes: Option<u64>) {
        self.budget.store(bytes.or_else(default_budget).unwrap_or(0), Relaxed);
    }

    /// The bound in bytes; zero: none.
    pub(crate) fn budget(&self) -> u64 {
        self.budget.load(Relaxed)
    }

    /// Takes note of what is in use; true if that changed the verdict.
    fn note(&self, in_use: u64) -> bool {
        let budget = self.budget();
        let short = budget > 0 && in_use > if self.is_short() { budget / 16 * 15 } else { budget };
        self.short.swap(short, Relaxed) != short
    }
}

/// Starts the thread that measures. It ends with the process's engine.
pub(crate) fn watch(shared: &Arc<Shared>) -> std::io::Result<()> {
    let shared = Arc::downgrade(shared);
    let told = shared.clone();
    let note = move |payload: &(dyn std::any::Any + Send)| {
        if let Some(shared) = told.upgrade() {
            shared.note_panic("measuring memory", payload);
        }
    };
    lasting::thread("weir-memory", note, move || look_again(&shared))
}

fn look_again(shared: &Weak<Shared>) {
    for look in 0_u64.. {
        let Some(shared) = shared.upgrade() else { return };
        // What was let go of counts until the kernel has it back.
        if shared.memory.is_short() && look.is_multiple_of(TRIM_EVERY) {
            weir_rt::trim_heap();
        }
        let in_use = in_use();
        if shared.memory.note(in_use) {
            let (budget, mb) = (shared.memory.budget(), 1 << 20);
            let (now, most) = (in_use / mb, budget / mb);
            let message = match shared.memory.is_short() {
                true => format!("memory is short ({now} MB of {most} MB): nothing new is served for now"),
                false => format!("memory suffices again ({now} MB of {most} MB)"),
            };
            shared.logs.event(weir_telemetry::Level::Warn, &message);
        }
        let plenty = in_use < shared.memory.budget() / 2;
        drop(shared);
        std::thread::sleep(if plenty { LOOK_SELDOM } else { LOOK_EVERY });
    }
}

/// Bytes of memory that only this process's end would free: resident pages that no file backs (proc(5), statm:
/// the second number less the third, in pages).
pub(crate) fn in_use() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = statm.split(' ').skip(1).map(|word| word.parse::<u64>().unwrap_or(0));
    let (resident, shared) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    resident.saturating_sub(shared) * rustix::param::page_size() as u64
}

/// Half of the memory that this process may have.
fn default_budget() -> Option<u64> {
    let machine = machine_memory()?;
    Some(control_group_limit().map_or(machine, |limit| limit.min(machine)) / 2)
}

fn machine_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// The limit of the control group (cgroups(7)), version 2 or 1; `None`: there is none.
fn control_group_limit() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/").trim_end_matches('/');
    let places = [
        format!("/sys/fs/cgroup{own}/memory.max"),
        "/sys/fs/cgroup/memory.max".to_owned(),
        "/sys/fs/cgroup/memory/memory.limit_in_bytes".to_owned(),
    ];
    places.iter().find_map(|place| std::fs::read_to_string(place).ok()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_begins_above_the_budget_and_ends_well_below() {
        let pressure = Pressure::default();
        pressure.set_budget(Some(1600));
        assert!(!pressure.note(1600) && !pressure.is_short());
        assert!(pressure.note(1601) && pressure.is_short());
        assert!(!pressure.note(1501) && pressure.is_short());
        assert!(pressure.note(1500) && !pressure.is_short());
    }

    #[test]
    fn what_is_in_use_is_measured_and_has_a_default_bound() {
        // Other tests of this process take and let go of memory meanwhile: what is held here is a lower bound, whatever they do.
        let held = vec![1_u8; 256 << 20];
        let measured = in_use();
        assert!(measured >= held.len() as u64, "{measured}");
        assert!(default_budget().unwrap() > held.len() as u64);
    }
}
