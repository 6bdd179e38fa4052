//! What was changed since the configuration was read.
//!
//! Owns: the layer of changes over a configuration: endpoints, weights, administrative states and certificates, under the
//! names that the configuration gives; and the addresses that names were found at.
//! Never: decides what follows from a change, or whether it can be made; opens a file (the binary keeps it, if it is told where).
//! Driven by: the engine, which makes a [`Change`] and notes it here; the thread that follows names; each new plan, which
//! begins with what is here.
//! Why: a configuration says how things begin. What was learnt or asked for while running belongs to the process: a reload
//! that forgot it would take back what somebody asked for, or open a gap until it is learnt again, and so would a restart.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Spot;

/// The format of [`Record`]. A record of a later one is not understood.
pub const FORMAT: u32 = 2;

/// The most bytes of names, addresses and certificates that all changes may have.
const MOST: usize = 16 << 20;

/// One change of what a configuration says. Things are named as the configuration names them; `None` takes a change back.
///
/// Lists that files begin, HAProxy's maps among them, are no kind of it: see [`crate::lists`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The endpoints of a pool, in place of those of the configuration.
    Endpoints {
        /// The pool.
        pool: String,
        /// All of its endpoints.
        endpoints: Option<Vec<NewEndpoint>>,
    },
    /// The weight of an endpoint; of several that have one name, of each.
    Weight {
        /// Its pool.
        pool: String,
        /// The endpoint.
        endpoint: String,
        /// Its share; 0: no new exchanges.
        weight: Option<u32>,
    },
    /// Whether an endpoint is in service; of several that have one name, whether each is.
    State {
        /// Its pool.
        pool: String,
        /// The endpoint.
        endpoint: String,
        /// [`AdminState::AsConfigured`] takes it back.
        state: AdminState,
    },
    /// A certificate with its key, wherever the configuration uses the one of this name.
    Certificate {
        /// Where the configuration has it from: the path of the chain's file.
        name: String,
        /// Chain and key.
        certificate: Option<KeyPair>,
    },
    /// Authorities, or a list of revocations, wherever the configuration uses those of this name.
    Trust {
        /// Where the configuration has them from: the path of the file.
        name: String,
        /// PEM.
        pem: Option<String>,
    },
}

impl Change {
    /// Whether the configuration decides again.
    fn takes_back(&self) -> bool {
        match self {
            Self::Endpoints { endpoints, .. } => endpoints.is_none(),
            Self::Weight { weight, .. } => weight.is_none(),
            Self::State { state, .. } => *state == AdminState::AsConfigured,
            Self::Certificate { certificate, .. } => certificate.is_none(),
            Self::Trust { pem, .. } => pem.is_none(),
        }
    }

    fn size(&self) -> usize {
        let mut record = Record::default();
        record.take_in(self.clone());
        record.size()
    }
}

/// An endpoint as it is given while running. What is not said is as the configuration has it for the endpoint of this name;
/// a new one has weight 1, and otherwise what the pool's first endpoint has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewEndpoint {
    /// Its name, unique in the pool.
    pub name: String,
    /// `192.0.2.1:80`, `[2001:db8::1]:80` or `unix:/run/app`.
    pub address: String,
    /// Its share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Used only when the others are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<bool>,
    /// Its name for people, where that is not unique in the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    /// Its number in the pool. None that another endpoint of the pool ever had is given again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// Exchanges at once; 0: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
    /// Failures within `fail_timeout_ms` that make it unavailable; 0: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_fails: Option<u32>,
    /// Window of failures, and how long it then is unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail_timeout_ms: Option<u64>,
    /// Its weight rises over this time after recovery; 0: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_start_ms: Option<u64>,
    /// Out of service. Not said: in service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<bool>,
    /// Only for exchanges that persistence binds to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<bool>,
    /// What persistence calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// Its address is `name:port`, and the name is looked up while running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolve: Option<bool>,
}

/// What an operator asked of an endpoint at run time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum AdminState {
    /// Nothing: the configuration decides.
    #[default]
    AsConfigured = 0,
    /// In service, even if configured `down` or `disabled`.
    Ready = 1,
    /// Takes only exchanges that persistence binds to it.
    Drain = 2,
    /// Takes nothing.
    Maintenance = 3,
}

/// A chain of certificates and its key, PEM. The key is not printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyPair {
    /// The chain, own certificate first.
    pub chain: String,
    /// The private key, not encrypted.
    pub key: String,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of certificates and a key", self.chain.len())
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What was changed of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoolChanges {
    /// Its endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Vec<NewEndpoint>>,
    /// A number that no endpoint that was given ever had, while any are given.
    #[serde(skip_serializing_if = "is_zero")]
    pub next_id: u32,
    /// Weights, by the endpoint's name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
    /// Administrative states, by the endpoint's name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub states: BTreeMap<String, AdminState>,
}

impl PoolChanges {
    fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    fn size(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let given =
            self.endpoints.iter().flatten().map(|one| {
                96 + one.name.len() + one.address.len() + length(&one.shown) + length(&one.cookie)
            });
        let weights = self.weights.keys().map(|name| 32 + name.len());
        given.chain(weights).chain(self.states.keys().map(|name| 32 + name.len())).sum()
    }
}

/// All that was changed, as it is kept in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Record {
    /// [`FORMAT`].
    pub format: u32,
    /// Addresses of names, by what describes the name and its name servers.
    pub names: BTreeMap<String, Vec<Spot>>,
    /// Changes of pools, by name.
    pub pools: BTreeMap<String, PoolChanges>,
    /// Certificates, by name.
    pub certificates: BTreeMap<String, KeyPair>,
    /// Authorities and lists of revocations, PEM, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub trust: BTreeMap<String, String>,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            format: FORMAT,
            names: BTreeMap::new(),
            pools: BTreeMap::new(),
            certificates: BTreeMap::new(),
            trust: BTreeMap::new(),
        }
    }
}

impl Record {
    /// Takes a change in. False: it was so already.
    fn take_in(&mut self, change: Change) -> bool {
        match change {
            Change::Endpoints { pool, endpoints } => self.of_pool(pool, |changed| {
                let ids = endpoints.iter().flatten().filter_map(|one| one.id);
                let next = ids.max().map_or(0, |id| id.saturating_add(1));
                changed.next_id = if endpoints.is_some() { changed.next_id.max(next) } else { 0 };
                std::mem::replace(&mut changed.endpoints, endpoints.clone()) != endpoints
            }),
            Change::Weight { pool, endpoint, weight } => {
                self.of_pool(pool, |changed| put(&mut changed.weights, endpoint, weight))
            }
            Change::State { pool, endpoint, state } => {
                let state = (state != AdminState::AsConfigured).then_some(state);
                self.of_pool(pool, |changed| put(&mut changed.states, endpoint, state))
            }
            Change::Certificate { name, certificate } => put(&mut self.certificates, name, certificate),
            Change::Trust { name, pem } => put(&mut self.trust, name, pem),
        }
    }

    fn of_pool(&mut self, pool: String, change: impl FnOnce(&mut PoolChanges) -> bool) -> bool {
        let changed = self.pools.entry(pool.clone()).or_default();
        let differs = change(changed);
        if changed.is_empty() {
            self.pools.remove(&pool);
        }
        differs
    }

    fn size(&self) -> usize {
        let pools = self.pools.iter().map(|(name, changed)| 32 + name.len() + changed.size());
        let certificates =
            self.certificates.iter().map(|(name, pair)| 32 + name.len() + pair.chain.len() + pair.key.len());
        let trust = self.trust.iter().map(|(name, pem)| 32 + name.len() + pem.len());
        pools.chain(certificates).chain(trust).sum()
    }
}

fn put<T: PartialEq>(map: &mut BTreeMap<String, T>, name: String, value: Option<T>) -> bool {
    match value {
        Some(value) if map.get(&name) == Some(&value) => false,
        Some(value) => {
            map.insert(name, value);
            true
        }
        None => map.remove(&name).is_some(),
    }
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
    /// The last revision that is in a file, or cannot be.
    in_file: u64,
}

impl Changes {
    /// Begins with what an earlier process had.
    pub fn new(record: Record) -> Self {
        Self { kept: Mutex::new(Kept { record, ..Kept::default() }), changed: Condvar::new() }
    }

    /// The addresses of a name, if it was ever found.
    pub fn addresses(&self, name: &str) -> Option<Vec<Spot>> {
        self.kept().record.names.get(name).cloned()
    }

    /// Notes the addresses of a name.
    pub fn set_addresses(&self, name: &str, addresses: Vec<Spot>) {
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

    /// Notes a change that was found possible.
    ///
    /// # Errors
    /// All changes together would be too many.
    pub fn note(&self, change: Change) -> Result<(), String> {
        let mut kept = self.kept();
        let size = kept.record.size() + change.size();
        if size > MOST && !change.takes_back() {
            return Err(format!("changes may have {MOST} bytes in all, and would have {size}"));
        }
        if kept.record.take_in(change) {
            kept.revision += 1;
            self.changed.notify_all();
        }
        Ok(())
    }

    /// What was changed of a pool.
    pub fn pool(&self, name: &str) -> PoolChanges {
        self.kept().record.pools.get(name).cloned().unwrap_or_default()
    }

    /// The certificate that was given under a name.
    pub fn certificate(&self, name: &str) -> Option<KeyPair> {
        self.kept().record.certificates.get(name).cloned()
    }

    /// The authorities, or the list of revocations, that were given under a name.
    pub fn trust(&self, name: &str) -> Option<String> {
        self.kept().record.trust.get(name).cloned()
    }

    /// All of it.
    pub fn record(&self) -> Record {
        self.kept().record.clone()
    }

    /// All of it, once it differs from revision `seen`, or `patience` has passed; with its own revision.
    pub fn wait(&self, seen: u64, patience: Duration) -> (u64, Record) {
        let kept = self.kept();
        let waited = self.changed.wait_timeout_while(kept, patience, |kept| kept.revision == seen);
        let (kept, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (kept.revision, kept.record.clone())
    }

    /// Notes that a revision is in a file, or cannot be.
    pub fn note_written(&self, revision: u64) {
        self.kept().in_file = revision;
        self.changed.notify_all();
    }

    /// Waits until all that was changed so far is in a file, or cannot be; at most for `patience`. Without anybody who
    /// writes, that is in vain.
    pub fn settle(&self, patience: Duration) {
        let waited =
            self.changed.wait_timeout_while(self.kept(), patience, |kept| kept.in_file < kept.revision);
        drop(waited);
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
    }

    #[test]
    fn a_change_is_kept_until_it_is_taken_back() {
        let changes = Changes::default();
        let weight = |weight| Change::Weight { pool: "p".into(), endpoint: "e".into(), weight };
        let state = |state| Change::State { pool: "p".into(), endpoint: "e".into(), state };
        let endpoint =
            NewEndpoint { name: "n".into(), address: "192.0.2.1:80".into(), ..NewEndpoint::default() };
        let endpoints = |endpoints| Change::Endpoints { pool: "p".into(), endpoints };
        let pair = KeyPair { chain: "chain".into(), key: "secret".into() };
        let certificate = |certificate| Change::Certificate { name: "c".into(), certificate };
        let trust = |pem| Change::Trust { name: "t".into(), pem };
        for change in [
            weight(Some(3)),
            state(AdminState::Drain),
            endpoints(Some(vec![endpoint])),
            certificate(Some(pair)),
            trust(Some("pem".into())),
        ] {
            changes.note(change.clone()).unwrap();
            let (revision, _) = changes.wait(0, Duration::ZERO);
            changes.note(change).unwrap();
            assert_eq!(changes.wait(0, Duration::ZERO).0, revision, "nothing new");
        }
        let text = serde_json::to_string(&changes.record()).unwrap();
        let read: Record = serde_json::from_str(&text).unwrap();
        assert_eq!(read, changes.record());
        assert!(!format!("{read:?}").contains("secret"));
        assert_eq!(read.pools["p"].states["e"], AdminState::Drain);
        let all =
            [weight(None), state(AdminState::AsConfigured), endpoints(None), certificate(None), trust(None)];
        for change in all {
            changes.note(change).unwrap();
        }
        assert_eq!(changes.record(), Record::default(), "nothing is left of it");
    }

    #[test]
    fn changes_have_a_bound_and_room_is_made_by_taking_back() {
        let changes = Changes::default();
        let of = |name: &str, bytes: usize| Change::Certificate {
            name: name.into(),
            certificate: Some(KeyPair { chain: "x".repeat(bytes), key: String::new() }),
        };
        changes.note(of("a", MOST - 1000)).unwrap();
        assert!(changes.note(of("b", 1000)).is_err());
        assert_eq!(changes.certificate("b"), None);
        changes.note(Change::Certificate { name: "a".into(), certificate: None }).unwrap();
        changes.note(of("b", 1000)).unwrap();
    }
}
