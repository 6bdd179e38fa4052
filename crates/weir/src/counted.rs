//! The file by which what was counted outlives the process.
//!
//! Owns: reading it at the start, writing it anew every few seconds and at the end.
//! Never: lets a file that is missing, broken or not writable keep anything from running; holds up a worker.
//! Driven by: `adapter`, in the process that carries the traffic, with its rights.
//! Why: beside the file of changes and not in it: that one is written when an operator did something, and is worth reading.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use weir_control::Totals;
use weir_control::totals::FORMAT;
use weir_telemetry::Registry;

use crate::state;

/// How often it is written, if anything was counted: what `kill -9` loses is counted in this time, and in that of a write.
const INTERVAL: Duration = Duration::from_secs(4);

/// Counters with their file.
pub(crate) struct Counted {
    registry: Registry,
    path: PathBuf,
    kept: Mutex<Kept>,
    ends: Condvar,
}

#[derive(Default)]
struct Kept {
    /// Of the content that was written last.
    fingerprint: u64,
    /// It could not be written, which was said.
    failing: bool,
    ended: bool,
}

impl Counted {
    /// Lets `registry` begin with what the file beside the state file `state` has, and keeps it there from now on.
    pub(crate) fn keep(state: &Path, registry: Registry) -> Arc<Self> {
        let path = state::with_suffix(state, ".counters");
        match state::read_as::<Totals>(&path, FORMAT) {
            Ok(totals) => registry.inherit(&totals),
            Err(error) => errln!("weir: {}: {error}; counters begin at zero", path.display()),
        }
        let counted = Arc::new(Self { registry, path, kept: Mutex::default(), ends: Condvar::new() });
        let own = counted.clone();
        let spawned = std::thread::Builder::new().name("weir-counted".into()).spawn(move || own.follow());
        if let Err(error) = spawned {
            errln!("weir: no thread keeps counters: {error}");
        }
        counted
    }

    fn follow(&self) {
        loop {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.ends.wait_timeout_while(kept, INTERVAL, |kept| !kept.ended);
            let (kept, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if kept.ended {
                return;
            }
            drop(kept);
            self.write();
        }
    }

    /// Writes for the last time. Nothing is to be counted any more.
    pub(crate) fn end(&self) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.ends.notify_all();
        self.write();
    }

    fn write(&self) {
        let content = serde_json::to_vec(&self.registry.totals());
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let written = content.map_err(io::Error::other).and_then(|content| {
            let mut hasher = DefaultHasher::new();
            content.hash(&mut hasher);
            let fingerprint = hasher.finish();
            if fingerprint != kept.fingerprint {
                state::put(&self.path, &content)?;
                kept.fingerprint = fingerprint;
            }
            Ok(())
        });
        match written {
            Ok(()) => kept.failing = false,
            Err(error) => {
                if !std::mem::replace(&mut kept.failing, true) {
                    errln!(
                        "weir: {}: {error}; counters will begin anew at the next start",
                        self.path.display()
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_control::{SiteId, WorkerId};
    use weir_telemetry::FrontKey;

    use super::*;

    #[test]
    fn it_is_read_again_and_what_cannot_be_read_begins_at_zero() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let site = FrontKey::Site(SiteId(7));
        let next = || {
            let registry = Registry::new();
            (Counted::keep(&state, registry.clone()), registry)
        };
        let (counted, registry) = next();
        registry.worker(WorkerId(0));
        registry.front(WorkerId(0), site).opened.add(3);
        counted.end();
        let (counted, registry) = next();
        assert_eq!(registry.sum_front(site, 0, weir_telemetry::Detail::Quantiles).total, 3);
        counted.end();
        std::fs::write(dir.path().join("state.counters"), "{\"format\": 1, \"fronts\": 5}").unwrap();
        let (counted, registry) = next();
        assert_eq!(registry.sum_front(site, 0, weir_telemetry::Detail::Quantiles).total, 0);
        counted.end();
    }
}
