//! Stores of keys and values that are set while running.
//!
//! Owns: the stores of the process under their names, taken over from plan to plan; their files.
//! Never: lets a file that is missing, broken or not writable keep anything from running.
//! Driven by: `Prepared`, for each plan; `eval`, which looks up; [`crate::Engine`], for whoever sets.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use weir_control::keyvals::{KeyKind, KeyvalPair, KeyvalRefused, KeyvalStore};
use weir_plan::Plan;
use weir_plan::settings::{KeyvalKind, KeyvalZone};

/// The largest file that is read.
const MOST: u64 = 256 << 20;

/// State files of nginx's words may be read by whom the umask lets.
pub(super) const FILE_MODE: u32 = 0o666;

/// By whether they are for sessions, and by name.
type ByName = HashMap<(bool, Box<str>), Arc<Keyval>>;

/// The stores of the process.
#[derive(Default)]
pub(crate) struct Keyvals(Mutex<ByName>);

/// A store with its file.
pub struct Keyval {
    /// As it was written.
    pub zone: KeyvalZone,
    store: Arc<KeyvalStore>,
    /// One at a time writes the file. How many changes there were, and how many of them are in it.
    file: Arc<Mutex<[u64; 2]>>,
}

impl Keyvals {
    /// The stores of a plan's zones, by index. One that stays has its pairs; a new one those of its file. What is wrong with
    /// a file is told.
    pub(crate) fn of(&self, plan: &Plan, tell: &dyn Fn(&str)) -> Vec<Arc<Keyval>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let made: Vec<_> = plan
            .keyvals
            .iter()
            .map(|zone| {
                let name = (zone.tcp, Box::from(&*zone.name));
                let keyval = match all.get(&name).filter(|old| old.zone.kind == zone.kind) {
                    Some(old) => old.taken_over(zone),
                    None => Keyval::new(zone, tell),
                };
                (name, Arc::new(keyval))
            })
            .collect();
        *all = made.iter().cloned().collect();
        made.into_iter().map(|(_, keyval)| keyval).collect()
    }
}

impl Keyval {
    fn new(zone: &KeyvalZone, tell: &dyn Fn(&str)) -> Self {
        let kind = match zone.kind {
            KeyvalKind::String => KeyKind::Text,
            KeyvalKind::Ip => KeyKind::Network,
            KeyvalKind::Prefix => KeyKind::Prefix,
        };
        let store = KeyvalStore::new(kind, zone.bytes, timeout(zone));
        if let Some(path) = &zone.state
            && let Err(error) = begin(&store, path)
        {
            let path = path.display();
            tell(&format!("{path}: {error}; the zone \"{}\" begins without it", zone.name));
        }
        Self { zone: zone.clone(), store: Arc::new(store), file: Arc::default() }
    }

    fn taken_over(&self, zone: &KeyvalZone) -> Self {
        self.store.tune(zone.bytes, timeout(zone));
        Self { zone: zone.clone(), store: self.store.clone(), file: self.file.clone() }
    }

    /// Appends the value for what is looked up. False: there is none.
    pub(crate) fn look_up(&self, what: &[u8], out: &mut Vec<u8>) -> bool {
        self.store.look_up(what, now(), |value| out.extend_from_slice(value.as_bytes())).is_some()
    }

    /// All pairs, by key.
    pub fn all(&self) -> Vec<KeyvalPair> {
        self.store.all(now())
    }

    /// The pair of this very key.
    pub fn get(&self, key: &str) -> Option<KeyvalPair> {
        self.store.get(key, now())
    }

    /// How many pairs it has.
    pub fn pairs(&self) -> u64 {
        self.store.size().0
    }

    /// Sets a pair; `lasts`: for so many milliseconds, in place of the zone's own time.
    ///
    /// # Errors
    /// It is not kept.
    pub fn set(&self, key: &str, value: &str, lasts: Option<u64>) -> Result<(), KeyvalRefused> {
        self.store.set(key, value, lasts, now())?;
        self.write();
        Ok(())
    }

    /// Removes a pair. False: there was none.
    pub fn remove(&self, key: &str) -> bool {
        let was = self.store.remove(key, now());
        self.write();
        was
    }

    /// Removes all pairs.
    pub fn clear(&self) {
        self.store.clear();
        self.write();
    }

    /// Has what it has in its file. Of several that change at once the last writes what all of them did.
    fn write(&self) {
        let Some(path) = &self.zone.state else { return };
        let file = || self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let own = {
            let mut file = file();
            file[0] += 1;
            file[0]
        };
        let mut file = file();
        if file[1] >= own {
            return;
        }
        let all = file[0];
        if write(path, &self.store.all(now())).is_ok() {
            file[1] = all;
        }
    }
}

/// Takes in a file: an object of keys, each with its value, or with its value and its end.
fn begin(store: &KeyvalStore, path: &Path) -> std::io::Result<()> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    if file.take(MOST + 1).read_to_end(&mut bytes)? as u64 > MOST {
        return Err(std::io::Error::other(format!("it has more than {MOST} bytes")));
    }
    let now = now();
    let all: serde_json::Map<String, Value> = serde_json::from_slice(&bytes)?;
    for (key, written) in all {
        let value = written.as_str().or_else(|| written["value"].as_str());
        let value = value.ok_or_else(|| std::io::Error::other(format!("`{key}` has no value")))?.to_owned();
        let until = written["expire"].as_u64();
        if until.is_none_or(|until| until > now) && store.put(KeyvalPair { key, value, until }, now).is_err()
        {
            return Err(std::io::Error::other("it has keys of another kind, or more than there is room for"));
        }
    }
    Ok(())
}

fn write(path: &Path, pairs: &[KeyvalPair]) -> std::io::Result<()> {
    let written = |pair: &KeyvalPair| match pair.until {
        None => json!(pair.value),
        Some(until) => json!({ "value": pair.value, "expire": until }),
    };
    let all = pairs.iter().map(|pair| (pair.key.clone(), written(pair)));
    weir_rt::replace_file(path, Value::Object(all.collect()).to_string().as_bytes(), FILE_MODE)
}

fn timeout(zone: &KeyvalZone) -> Option<u64> {
    zone.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Milliseconds since 1970.
fn now() -> u64 {
    u64::try_from(weir_rt::unix_now().as_millis()).unwrap_or(u64::MAX)
}
