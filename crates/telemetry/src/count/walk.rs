//! Going through the counters of a set of cells.
//!
//! Owns: what can be done with all of them, whatever they count.
//! Never: knows a counter by name: each kind of cells lists its own, by taking itself apart, so that none is forgotten.
//! Driven by: `clear` (all begin anew), `kept` (all outlive the process).

use super::cell::Counter;
use super::codes::Codes;
use super::histogram::Distribution;

/// Is shown a counter: its name, and its number from one where several have that name (else zero).
pub(super) type Show<'a> = dyn FnMut(&'static str, usize, &Counter) + 'a;

/// Counts of one worker for one thing.
pub(super) trait Cells: Default {
    /// Shows each counter.
    fn counters(&self, show: &mut Show<'_>);

    /// Its distributions, by name.
    fn distributions(&self) -> Vec<(&'static str, &Distribution)> {
        Vec::new()
    }

    /// Its counts by status.
    fn codes(&self) -> Option<&Codes> {
        None
    }
}

/// All that was counted is forgotten.
pub(super) fn clear_all<C: Cells>(cells: &C) {
    cells.counters(&mut |_, _, counter| counter.set(0));
    cells.distributions().into_iter().for_each(|(_, distribution)| distribution.clear());
    if let Some(codes) = cells.codes() {
        codes.clear();
    }
}

/// Shows counters under the names of their variables.
macro_rules! show_each {
    ($show:ident: $($name:ident),*) => { $( $show(stringify!($name), 0, $name); )* };
}
pub(super) use show_each;

/// Shows lists of counters under the names of their variables.
macro_rules! show_list {
    ($show:ident: $($name:ident),*) => {
        $( for (at, counter) in (1..).zip($name) { $show(stringify!($name), at, counter); } )*
    };
}
pub(super) use show_list;
