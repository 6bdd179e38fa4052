//! Keys and values that are set while running, and that variables look up.
//!
//! Owns: a store's pairs, their ends, its bound.
//! Never: reads a clock (it is given milliseconds since 1970), opens a file.
//! Driven by: workers, which look up; an API, which sets; the engine, which keeps a store over plans under its name.
//! Why: look-ups are many and changes few, so a look-up takes a lock that readers share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde::Serialize;

/// What keys are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyKind {
    /// Text that is equal to what is looked up.
    #[default]
    Text,
    /// Addresses and networks: the smallest that an address is in.
    Network,
    /// Text that what is looked up begins with: the longest.
    Prefix,
}

/// Bytes that a pair takes beside key and value.
const OF_PAIR: u64 = 128;

/// A pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyvalPair {
    /// As it was given.
    pub key: String,
    /// Value.
    pub value: String,
    /// It ends then, in milliseconds since 1970; `None`: never.
    pub until: Option<u64>,
}

/// Why a pair is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyvalRefused {
    /// The key is none of the store's kind.
    Key,
    /// There is no room for it.
    Full,
}

/// A store of keys and values.
#[derive(Debug, Default)]
pub struct KeyvalStore {
    kind: KeyKind,
    pairs: RwLock<Pairs>,
}

#[derive(Debug, Default)]
struct Pairs {
    /// By the key as it is compared.
    by_key: HashMap<Box<[u8]>, Held>,
    /// How many keys have this length (of networks: of the prefix, with the family), so that only those are tried.
    lengths: BTreeMap<u16, usize>,
    /// Those that end, by when.
    ends: BTreeSet<(u64, Box<[u8]>)>,
    bytes: u64,
    most: u64,
    /// How long a pair holds where nothing else is said, in milliseconds.
    timeout: Option<u64>,
}

/// A pair, and the length under which its key is tried.
#[derive(Debug)]
struct Held {
    pair: KeyvalPair,
    length: u16,
}

impl KeyvalStore {
    /// An empty one of `most` bytes; `timeout`: how long a pair holds where nothing else is said, in milliseconds.
    pub fn new(kind: KeyKind, most: u64, timeout: Option<u64>) -> Self {
        let pairs = Pairs { most, timeout, ..Pairs::default() };
        Self { kind, pairs: RwLock::new(pairs) }
    }

    /// What keys are.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Gives it another bound and another time; pairs stay as they are.
    pub fn tune(&self, most: u64, timeout: Option<u64>) {
        let mut pairs = self.write();
        (pairs.most, pairs.timeout) = (most, timeout);
    }

    /// Finds the value for what is looked up, at `now`.
    pub fn look_up<T>(&self, what: &[u8], now: u64, take: impl FnOnce(&str) -> T) -> Option<T> {
        let pairs = self.read();
        let lives = |held: &&Held| alive(&held.pair, now);
        let found = match self.kind {
            KeyKind::Text => pairs.by_key.get(what).filter(lives),
            KeyKind::Prefix => {
                let lengths = pairs.lengths.keys().rev().map(|length| usize::from(*length));
                let mut fitting = lengths.filter_map(|length| pairs.by_key.get(what.get(..length)?));
                fitting.find(lives)
            }
            KeyKind::Network => {
                let ip = address(what)?;
                let family = u16::from(ip.is_ipv6()) << 8;
                let lengths = pairs.lengths.range(family..family + 256).rev();
                let mut fitting = lengths
                    .filter_map(|(length, _)| pairs.by_key.get(&network(ip, (length & 255) as u8)[..]));
                fitting.find(lives)
            }
        };
        found.map(|held| take(&held.pair.value))
    }

    /// The pair of this very key, at `now`.
    pub fn get(&self, key: &str, now: u64) -> Option<KeyvalPair> {
        let key = self.compared(key)?.0;
        self.read().by_key.get(&key).map(|held| &held.pair).filter(|pair| alive(pair, now)).cloned()
    }

    /// Sets a pair at `now`; `lasts`: for so many milliseconds, in place of the store's own time.
    ///
    /// # Errors
    /// It is not kept; nothing has changed then but that pairs which had ended are gone.
    pub fn set(&self, key: &str, value: &str, lasts: Option<u64>, now: u64) -> Result<(), KeyvalRefused> {
        let until = {
            let timeout = self.read().timeout;
            // A store without a time keeps what it has for good.
            timeout.map(|timeout| now.saturating_add(lasts.unwrap_or(timeout)))
        };
        self.put(KeyvalPair { key: key.to_owned(), value: value.to_owned(), until }, now)
    }

    /// Keeps a pair with its end.
    ///
    /// # Errors
    /// As [`KeyvalStore::set`].
    pub fn put(&self, pair: KeyvalPair, now: u64) -> Result<(), KeyvalRefused> {
        let (key, length) = self.compared(&pair.key).ok_or(KeyvalRefused::Key)?;
        let mut pairs = self.write();
        pairs.end(now);
        let before = pairs.by_key.get(&key).map_or(0, |held| size(&held.pair));
        if pairs.bytes - before + size(&pair) > pairs.most {
            return Err(KeyvalRefused::Full);
        }
        pairs.take(&key);
        pairs.bytes += size(&pair);
        *pairs.lengths.entry(length).or_default() += 1;
        if let Some(until) = pair.until {
            pairs.ends.insert((until, key.clone()));
        }
        pairs.by_key.insert(key, Held { pair, length });
        Ok(())
    }

    /// Removes a pair. False: there was none.
    pub fn remove(&self, key: &str, now: u64) -> bool {
        let Some((key, _)) = self.compared(key) else { return false };
        let mut pairs = self.write();
        pairs.end(now);
        pairs.take(&key)
    }

    /// Removes all pairs.
    pub fn clear(&self) {
        let mut pairs = self.write();
        let (most, timeout) = (pairs.most, pairs.timeout);
        *pairs = Pairs { most, timeout, ..Pairs::default() };
    }

    /// All pairs at `now`, by key.
    pub fn all(&self, now: u64) -> Vec<KeyvalPair> {
        let pairs = self.read();
        let held = pairs.by_key.values().map(|held| &held.pair);
        let mut all: Vec<KeyvalPair> = held.filter(|pair| alive(pair, now)).cloned().collect();
        all.sort_by(|one, other| one.key.cmp(&other.key));
        all
    }

    /// How many pairs it has, those that ended lately included, and their bytes.
    pub fn size(&self) -> (u64, u64) {
        let pairs = self.read();
        (pairs.by_key.len() as u64, pairs.bytes)
    }

    /// A key as it is compared, and the length under which it is tried; `None`: it is none.
    fn compared(&self, key: &str) -> Option<(Box<[u8]>, u16)> {
        match self.kind {
            KeyKind::Text => Some((key.as_bytes().into(), 0)),
            KeyKind::Prefix => Some((key.as_bytes().into(), u16::try_from(key.len()).ok()?)),
            KeyKind::Network => {
                let (ip, length) = match key.split_once('/') {
                    Some((ip, length)) => (ip.parse().ok()?, length.parse().ok()?),
                    None => {
                        let ip: IpAddr = key.parse().ok()?;
                        (ip, if ip.is_ipv6() { 128 } else { 32 })
                    }
                };
                let most = if ip.is_ipv6() { 128 } else { 32 };
                let family = u16::from(ip.is_ipv6()) << 8;
                (length <= most).then(|| (network(ip, length)[..].into(), family | u16::from(length)))
            }
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Pairs> {
        self.pairs.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Pairs> {
        // What can panic comes before what is changed.
        self.pairs.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pairs {
    /// Removes a pair with all that is noted of it.
    fn take(&mut self, key: &[u8]) -> bool {
        let Some(Held { pair, length }) = self.by_key.remove(key) else { return false };
        self.bytes -= size(&pair);
        if let Some(until) = pair.until {
            self.ends.remove(&(until, key.into()));
        }
        if let Some(count) = self.lengths.get_mut(&length) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&length);
            }
        }
        true
    }

    /// Removes what has ended.
    fn end(&mut self, now: u64) {
        while let Some((_, key)) = self.ends.first().filter(|(until, _)| *until <= now).cloned() {
            self.take(&key);
        }
    }
}

fn size(pair: &KeyvalPair) -> u64 {
    OF_PAIR + (pair.key.len() + pair.value.len()) as u64
}

fn alive(pair: &KeyvalPair, now: u64) -> bool {
    pair.until.is_none_or(|until| until > now)
}

/// An address: as text, or as the four or sixteen bytes of one.
fn address(what: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(what) {
        return Some(four.into());
    }
    if let Some(ip) = std::str::from_utf8(what).ok().and_then(|text| text.parse().ok()) {
        return Some(ip);
    }
    <[u8; 16]>::try_from(what).ok().map(IpAddr::from)
}

/// A network as it is compared: family, length, and the bits of the address that it has.
fn network(ip: IpAddr, length: u8) -> Vec<u8> {
    let (family, bits, bytes) = match ip {
        IpAddr::V4(v4) => (4, u128::from(u32::from(v4)) << 96, 4),
        IpAddr::V6(v6) => (6, u128::from(v6), 16),
    };
    let mask = if length == 0 { 0 } else { u128::MAX << (128 - u32::from(length)) };
    let mut key = vec![family, length];
    key.extend_from_slice(&(bits & mask).to_be_bytes()[..bytes]);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(store: &KeyvalStore, what: impl AsRef<[u8]>, now: u64) -> Option<String> {
        store.look_up(what.as_ref(), now, str::to_owned)
    }

    #[test]
    fn texts_are_equal_and_prefixes_the_longest() {
        let text = KeyvalStore::new(KeyKind::Text, 4096, None);
        let prefix = KeyvalStore::new(KeyKind::Prefix, 4096, None);
        for store in [&text, &prefix] {
            for (key, value) in [("/a", "one"), ("/a/b", "two"), ("", "rest")] {
                store.set(key, value, None, 0).unwrap();
            }
        }
        assert_eq!(found(&text, "/a/b", 0).as_deref(), Some("two"));
        assert_eq!(found(&text, "/a/b/c", 0), None);
        assert_eq!(found(&prefix, "/a/b/c", 0).as_deref(), Some("two"));
        assert_eq!(found(&prefix, "/a/", 0).as_deref(), Some("one"));
        assert_eq!(found(&prefix, "x", 0).as_deref(), Some("rest"));
        assert!(prefix.remove("", 0) && !prefix.remove("", 0));
        assert_eq!(found(&prefix, "x", 0), None);
    }

    #[test]
    fn addresses_are_in_the_smallest_network() {
        let store = KeyvalStore::new(KeyKind::Network, 4096, None);
        for (key, value) in [
            ("10.0.0.0/8", "ten"),
            ("10.1.0.0/16", "one"),
            ("10.1.2.3", "host"),
            ("2001:db8::/32", "six"),
            ("0.0.0.0/0", "all"),
        ] {
            store.set(key, value, None, 0).unwrap();
        }
        for (what, expected) in [
            ("10.1.2.3", "host"),
            ("10.1.9.9", "one"),
            ("10.9.9.9", "ten"),
            ("192.0.2.1", "all"),
            ("2001:db8::1", "six"),
        ] {
            assert_eq!(found(&store, what, 0).as_deref(), Some(expected), "{what}");
        }
        assert_eq!(found(&store, [10, 1, 9, 9], 0).as_deref(), Some("one"));
        for (what, expected) in [("2001:db9::1", None), ("nobody", None)] {
            assert_eq!(found(&store, what, 0), expected, "{what}");
        }
        for key in ["", "10.0.0.0/33", "10.0.0", "2001:db8::/129", "x/8"] {
            assert_eq!(store.set(key, "", None, 0), Err(KeyvalRefused::Key), "{key}");
        }
        // Another spelling is the same network.
        store.set("10.1.255.255/16", "again", None, 0).unwrap();
        assert_eq!(found(&store, "10.1.9.9", 0).as_deref(), Some("again"));
        assert_eq!(store.size().0, 5);
    }

    #[test]
    fn pairs_end_and_make_room() {
        let store = KeyvalStore::new(KeyKind::Text, 2 * (OF_PAIR + 2), Some(1000));
        store.set("a", "1", None, 0).unwrap();
        store.set("b", "1", Some(5000), 0).unwrap();
        assert_eq!(store.set("c", "1", None, 999), Err(KeyvalRefused::Full));
        assert_eq!(found(&store, "a", 999).as_deref(), Some("1"));
        assert_eq!((found(&store, "a", 1000), store.get("a", 1000)), (None, None));
        assert_eq!(store.all(1000).len(), 1);
        store.set("c", "1", None, 1000).unwrap();
        assert_eq!(store.size(), (2, 2 * (OF_PAIR + 2)));
        // The same key again takes no more room, and has another end.
        store.set("c", "2", Some(9000), 1000).unwrap();
        assert_eq!(found(&store, "c", 9_999).as_deref(), Some("2"));
        store.clear();
        assert_eq!((store.size(), store.all(0).len()), ((0, 0), 0));
        store.set("d", "1", None, 0).unwrap();
        assert_eq!(store.get("d", 0).unwrap().until, Some(1000), "its time is still its own");
    }

    #[test]
    fn a_store_without_a_time_keeps_for_good() {
        let store = KeyvalStore::new(KeyKind::Text, 4096, None);
        store.set("a", "1", Some(5), 0).unwrap();
        assert_eq!(found(&store, "a", u64::MAX).as_deref(), Some("1"));
    }
}
