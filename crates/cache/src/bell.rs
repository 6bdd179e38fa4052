//! What wakes the manager of a store.
//!
//! Owns: whether there is something to do, and which files are to be removed.
//! Driven by: whoever stores, removes or closes.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::key::Key;

/// Wakes the manager.
#[derive(Default)]
pub(crate) struct Bell {
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Default)]
struct State {
    rung: bool,
    closed: bool,
    /// Names that left the index, whose files are to be removed.
    gone: Vec<Key>,
}

impl Bell {
    /// There is something to do.
    pub(crate) fn ring(&self) {
        self.state().rung = true;
        self.rung.notify_all();
    }

    /// The file of a name is to be removed.
    pub(crate) fn remove(&self, key: Key) {
        self.state().gone.push(key);
        self.rung.notify_all();
    }

    /// The store is no more.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.rung.notify_all();
    }

    /// Waits at most so long; false at the end.
    pub(crate) fn wait(&self, most: Duration) -> bool {
        let idle = |state: &mut State| !state.rung && !state.closed && state.gone.is_empty();
        let waited = self.rung.wait_timeout_while(self.state(), most, idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.rung = false;
        !state.closed
    }

    /// Takes the names whose files are to be removed.
    pub(crate) fn take_gone(&self) -> Vec<Key> {
        std::mem::take(&mut self.state().gone)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
