//! What was changed since the configuration was read.
//!
//! Owns: the addresses that names were found at, under the name and whom it was asked of.
//! Never: decides what endpoints follow from it; opens a file (the binary keeps it, if it is told where).
//! Driven by: the thread that follows names, which writes; each new plan, which begins with what is here.
//! Why: a configuration says how things begin. What was learnt or asked for while running belongs to the process: a reload
//! that forgot it would open a gap until it is learnt again, and so would a restart.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// All that was changed, as it is kept in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// Addresses of names, by what describes the name and its name servers.
    pub names: BTreeMap<String, Vec<IpAddr>>,
}

/// What was changed, shared by the threads of a process.
#[derive(Debug, Default)]
pub struct Changes {
    kept: Mutex<Kept>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    record: Record,
    revision: u64,
}

impl Changes {
    /// Begins with what an earlier process had.
    pub fn new(record: Record) -> Self {
        Self { kept: Mutex::new(Kept { record, revision: 0 }), changed: Condvar::new() }
    }

    /// The addresses of a name, if it was ever found.
    pub fn addresses(&self, name: &str) -> Option<Vec<IpAddr>> {
        self.kept().record.names.get(name).cloned()
    }

    /// Notes the addresses of a name.
    pub fn set_addresses(&self, name: &str, addresses: Vec<IpAddr>) {
        self.change(|record| {
            if record.names.get(name) == Some(&addresses) {
                return false;
            }
            record.names.insert(name.to_owned(), addresses);
            true
        });
    }

    /// Forgets names that nobody asks for any more, so that they never pile up.
    pub fn keep_names(&self, keep: impl Fn(&str) -> bool) {
        self.change(|record| {
            let before = record.names.len();
            record.names.retain(|name, _| keep(name));
            record.names.len() != before
        });
    }

    /// All of it, once it differs from revision `seen`, or `patience` has passed; with its own revision.
    pub fn wait(&self, seen: u64, patience: Duration) -> (u64, Record) {
        let kept = self.kept();
        let waited = self.changed.wait_timeout_while(kept, patience, |kept| kept.revision == seen);
        let (kept, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (kept.revision, kept.record.clone())
    }

    fn change(&self, change: impl FnOnce(&mut Record) -> bool) {
        let mut kept = self.kept();
        if change(&mut kept.record) {
            kept.revision += 1;
            self.changed.notify_all();
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Each change is one step on one map.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learnt_goes_through_a_file_and_back() {
        let changes = Changes::default();
        changes.set_addresses("app.test", vec![[192, 0, 2, 1].into()]);
        let (revision, record) = changes.wait(0, Duration::ZERO);
        assert_eq!(revision, 1);
        changes.set_addresses("app.test", vec![[192, 0, 2, 1].into()]);
        assert_eq!(changes.wait(1, Duration::ZERO).0, 1, "nothing new");
        let text = serde_json::to_string(&record).unwrap();
        let again = Changes::new(serde_json::from_str(&text).unwrap());
        assert_eq!(again.addresses("app.test"), Some(vec![[192, 0, 2, 1].into()]));
        again.keep_names(|name| name != "app.test");
        assert_eq!(again.addresses("app.test"), None);
        // A file of another version lacks what this one has, or has more.
        assert_eq!(serde_json::from_str::<Record>("{\"later\":1}").unwrap(), Record::default());
    }
}
