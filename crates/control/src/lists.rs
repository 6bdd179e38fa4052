//! Lists of keys, perhaps with values, that change while running (HAProxy's maps, and the lists of its ACLs).
//!
//! Owns: the entries of a list, their versions, and what changed lately.
//! Never: compares a value with a key: whoever looks things up keeps an index of its own and asks what changed.
//! Driven by: commands and rules, which change it; indexes of workers, by [`List::since`].
//! Why: a look-up must not lock. It reads one number that says whether there is anything to take up.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most entries that a list grows to while running, of all versions together.
pub const MOST_ENTRIES: usize = 1_000_000;

/// The most bytes of keys and values that a list grows to while running.
pub const MOST_BYTES: usize = 256 << 20;

/// Changes that are kept for indexes to take up one by one; an index that lags further behind begins anew.
const MOST_CHANGES: usize = 4096;

/// Keys and values as a file has them.
pub type Written = [(Arc<str>, Arc<str>)];

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number in the list, never used again.
    pub id: u64,
    /// Its key.
    pub key: Arc<str>,
    /// Its value; empty where the list has none.
    pub value: Arc<str>,
}

/// A change of what a list holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// There is a further entry.
    Added(Entry),
    /// An entry has another value.
    Changed(Entry),
    /// It is gone.
    Gone(Entry),
}

/// What is new in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// These changes, in order.
    Some(Vec<Delta>),
    /// So much that these are all of its entries now.
    All(Vec<Entry>),
}

/// Which entries are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// All of this key.
    Key(&'a str),
    /// The one of this number.
    Id(u64),
}

/// Why a list was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such entry.
    Missing,
    /// There is no such version, or none that this could be done to.
    Version,
    /// It would be larger than lists may be.
    Full,
}

/// What is told of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The version that is looked up.
    pub current: u32,
    /// The newest version.
    pub newest: u32,
    /// Entries of all versions.
    pub entries: usize,
    /// It is not as its file has it.
    pub changed: bool,
}

/// A list.
#[derive(Debug)]
pub struct List {
    written: Arc<Written>,
    /// Counts changes of what is looked up. Read by each look-up.
    generation: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<u64, (u32, Entry)>,
    /// Of the current version, in order.
    by_key: HashMap<Arc<str>, Vec<u64>>,
    next: u64,
    current: u32,
    newest: u32,
    bytes: usize,
    changed: bool,
    /// The last of them made the generation what it is.
    changes: VecDeque<Delta>,
}

impl List {
    /// A list as a file begins it.
    pub fn new(written: Arc<Written>) -> Self {
        let mut state = State::default();
        for (key, value) in &*written {
            state.put(0, key.clone(), value.clone());
        }
        Self { written, generation: AtomicU64::new(0), state: Mutex::new(state) }
    }

    /// What the file had.
    pub fn written(&self) -> &Arc<Written> {
        &self.written
    }

    /// A number that is another after each change of what is looked up.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// What is new since a generation, and the generation now. `None` is before the first.
    pub fn since(&self, seen: Option<u64>) -> (News, u64) {
        let state = self.state();
        let now = self.generation.load(Ordering::Relaxed);
        let behind = seen.and_then(|seen| usize::try_from(now.wrapping_sub(seen)).ok());
        let news = match behind.and_then(|behind| state.changes.len().checked_sub(behind)) {
            Some(from) => News::Some(state.changes.range(from..).cloned().collect()),
            None => News::All(state.of(state.current)),
        };
        (news, now)
    }

    /// Entries of a version; `None`: of the current one.
    pub fn entries(&self, version: Option<u32>) -> Vec<Entry> {
        let state = self.state();
        state.of(version.unwrap_or(state.current))
    }

    /// What is told of it.
    pub fn figures(&self) -> Figures {
        let state = self.state();
        let (current, newest) = (state.current, state.newest);
        Figures { current, newest, entries: state.entries.len(), changed: state.changed }
    }

    /// Adds an entry, to the current version or to another; there may be others of its key.
    ///
    /// # Errors
    /// There is no such version, or too much in the list.
    pub fn add(&self, version: Option<u32>, key: &str, value: &str) -> Result<(), Refused> {
        self.state().add(&self.generation, version, key, value)
    }

    /// Gives entries of the current version another value.
    ///
    /// # Errors
    /// There are none, or too much in the list.
    pub fn set(&self, which: Named<'_>, value: &str) -> Result<(), Refused> {
        self.state().set(&self.generation, which, value)
    }

    /// Gives a key this value, be it there or not.
    ///
    /// # Errors
    /// There is too much in the list.
    pub fn put(&self, key: &str, value: &str) -> Result<(), Refused> {
        let mut state = self.state();
        match state.set(&self.generation, Named::Key(key), value) {
            Err(Refused::Missing) => state.add(&self.generation, None, key, value),
            other => other,
        }
    }

    /// Takes entries of the current version out.
    ///
    /// # Errors
    /// There are none.
    pub fn remove(&self, which: Named<'_>) -> Result<(), Refused> {
        let mut state = self.state();
        let ids = state.named(which);
        for id in &ids {
            if let Some(entry) = state.take(*id) {
                state.note(&self.generation, Delta::Gone(entry));
            }
        }
        if ids.is_empty() { Err(Refused::Missing) } else { Ok(()) }
    }

    /// Empties a version.
    pub fn clear(&self, version: Option<u32>) {
        let mut state = self.state();
        let version = version.unwrap_or(state.current);
        state.drop_all(|of| of == version);
        if version == state.current {
            state.begin_anew(&self.generation);
        }
    }

    /// A new version, which nobody looks up before its commit.
    pub fn prepare(&self) -> u32 {
        let mut state = self.state();
        state.newest = state.newest.wrapping_add(1);
        state.newest
    }

    /// Has a version looked up from now on. Those before it are gone.
    ///
    /// # Errors
    /// It is none that was prepared after the current one.
    pub fn commit(&self, version: u32) -> Result<(), Refused> {
        let mut state = self.state();
        let (ahead, newest) = (version.wrapping_sub(state.current), state.newest.wrapping_sub(state.current));
        if ahead == 0 || ahead > newest {
            return Err(Refused::Version);
        }
        let old = state.current;
        state.current = version;
        state.drop_all(|of| of.wrapping_sub(old) < ahead);
        state.index();
        state.begin_anew(&self.generation);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn of(&self, version: u32) -> Vec<Entry> {
        let all = self.entries.values().filter(|(of, _)| *of == version);
        all.map(|(_, entry)| entry.clone()).collect()
    }

    fn put(&mut self, version: u32, key: Arc<str>, value: Arc<str>) -> Entry {
        self.next += 1;
        let entry = Entry { id: self.next, key, value };
        self.bytes += entry.key.len() + entry.value.len();
        if version == self.current {
            self.by_key.entry(entry.key.clone()).or_default().push(entry.id);
        }
        self.entries.insert(entry.id, (version, entry.clone()));
        entry
    }

    fn add(
        &mut self,
        generation: &AtomicU64,
        version: Option<u32>,
        key: &str,
        value: &str,
    ) -> Result<(), Refused> {
        let version = version.unwrap_or(self.current);
        if version.wrapping_sub(self.current) > self.newest.wrapping_sub(self.current) {
            return Err(Refused::Version);
        }
        if self.entries.len() >= MOST_ENTRIES || self.bytes + key.len() + value.len() > MOST_BYTES {
            return Err(Refused::Full);
        }
        let entry = self.put(version, key.into(), value.into());
        if version == self.current {
            self.note(generation, Delta::Added(entry));
        }
        Ok(())
    }

    fn set(&mut self, generation: &AtomicU64, which: Named<'_>, value: &str) -> Result<(), Refused> {
        let ids = self.named(which);
        if self.bytes + ids.len() * value.len() > MOST_BYTES {
            return Err(Refused::Full);
        }
        let value: Arc<str> = value.into();
        for id in &ids {
            let Some((_, entry)) = self.entries.get_mut(id).filter(|(_, entry)| entry.value != value) else {
                continue;
            };
            self.bytes = self.bytes + value.len() - entry.value.len();
            entry.value = value.clone();
            let entry = entry.clone();
            self.note(generation, Delta::Changed(entry));
        }
        if ids.is_empty() { Err(Refused::Missing) } else { Ok(()) }
    }

    fn named(&self, which: Named<'_>) -> Vec<u64> {
        match which {
            Named::Key(key) => self.by_key.get(key).cloned().unwrap_or_default(),
            Named::Id(id) => {
                let known = self.entries.get(&id).is_some_and(|(version, _)| *version == self.current);
                known.then_some(id).into_iter().collect()
            }
        }
    }

    /// Takes an entry of the current version out.
    fn take(&mut self, id: u64) -> Option<Entry> {
        let (_, entry) = self.entries.remove(&id)?;
        self.bytes -= entry.key.len() + entry.value.len();
        if let Some(ids) = self.by_key.get_mut(&entry.key) {
            ids.retain(|one| *one != id);
            if ids.is_empty() {
                self.by_key.remove(&entry.key);
            }
        }
        Some(entry)
    }

    fn drop_all(&mut self, goes: impl Fn(u32) -> bool) {
        self.entries.retain(|_, (version, _)| !goes(*version));
        self.bytes = self.entries.values().map(|(_, entry)| entry.key.len() + entry.value.len()).sum();
        self.index();
    }

    fn index(&mut self) {
        self.by_key = HashMap::new();
        for (id, (_, entry)) in self.entries.iter().filter(|(_, (version, _))| *version == self.current) {
            self.by_key.entry(entry.key.clone()).or_default().push(*id);
        }
    }

    fn note(&mut self, generation: &AtomicU64, delta: Delta) {
        self.changed = true;
        if self.changes.len() >= MOST_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(delta);
        generation.fetch_add(1, Ordering::Release);
    }

    /// No index can follow from what it has.
    fn begin_anew(&mut self, generation: &AtomicU64) {
        self.changed = true;
        self.changes.clear();
        generation.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &[(&str, &str)]) -> List {
        List::new(text.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect())
    }

    fn shown(entries: &[Entry]) -> String {
        entries.iter().map(|one| format!("{}={} ", one.key, one.value)).collect()
    }

    #[test]
    fn changes_are_told_one_by_one_to_whoever_keeps_up() {
        let list = list(&[("a", "1"), ("b", "2")]);
        let (all, seen) = list.since(None);
        assert!(matches!(all, News::All(all) if shown(&all) == "a=1 b=2 "));
        assert_eq!(list.since(Some(seen)), (News::Some(Vec::new()), seen));
        list.put("a", "3").unwrap();
        list.put("a", "3").unwrap();
        list.put("c", "4").unwrap();
        list.remove(Named::Key("b")).unwrap();
        let (news, now) = list.since(Some(seen));
        let News::Some(news) = news else { panic!("{news:?}") };
        assert!(
            matches!(&news[..], [Delta::Changed(a), Delta::Added(c), Delta::Gone(b)] if *a.value == *"3" && *c.key == *"c" && *b.key == *"b")
        );
        assert_eq!(now, list.generation());
        for _ in 0..=MOST_CHANGES / 2 {
            list.put("d", "1").unwrap();
            list.put("d", "2").unwrap();
        }
        assert!(matches!(list.since(Some(now)).0, News::All(_)), "it lags too far behind");
        let seen = list.generation();
        list.clear(None);
        assert!(matches!(list.since(Some(seen)).0, News::All(all) if all.is_empty()));
    }

    #[test]
    fn a_version_is_looked_up_once_it_is_committed() {
        let list = list(&[("a", "1")]);
        assert_eq!(list.add(Some(1), "x", ""), Err(Refused::Version));
        assert_eq!((list.prepare(), list.prepare()), (1, 2));
        let seen = list.generation();
        list.add(Some(2), "b", "2").unwrap();
        assert_eq!(list.generation(), seen, "nobody looks it up yet");
        assert_eq!(
            (shown(&list.entries(None)), shown(&list.entries(Some(2)))),
            ("a=1 ".into(), "b=2 ".into())
        );
        assert_eq!(list.remove(Named::Key("b")), Err(Refused::Missing));
        assert_eq!(list.commit(3), Err(Refused::Version));
        list.commit(2).unwrap();
        assert_eq!(list.commit(2), Err(Refused::Version));
        assert_eq!(list.commit(1), Err(Refused::Version));
        assert!(matches!(list.since(Some(seen)).0, News::All(all) if shown(&all) == "b=2 "));
        assert_eq!(list.figures(), Figures { current: 2, newest: 2, entries: 1, changed: true });
        list.set(Named::Key("b"), "3").unwrap();
        assert_eq!(shown(&list.entries(None)), "b=3 ");
    }

    #[test]
    fn what_has_one_key_goes_together_and_by_its_number_alone() {
        let list = list(&[("a", "1"), ("a", "2")]);
        let first = list.entries(None)[0].id;
        list.set(Named::Id(first), "3").unwrap();
        assert_eq!(shown(&list.entries(None)), "a=3 a=2 ");
        list.remove(Named::Id(first)).unwrap();
        assert_eq!(list.remove(Named::Id(first)), Err(Refused::Missing));
        list.remove(Named::Key("a")).unwrap();
        assert_eq!(list.set(Named::Key("a"), "1"), Err(Refused::Missing));
    }
}
