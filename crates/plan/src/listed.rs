//! Lists of keys that change while running: what a plan says of them, and how a value finds its key.
//!
//! Owns: [`KeyIndex`], the look-up in the entries of a list; what a key must look like.
//! Never: holds the list: [`weir_control::lists::List`] does, beside the plan, and says what changed.
//! Driven by: `engine`, which keeps an index for each way in which a list is used, and takes up what changed.
//! Why: words, prefixes, suffixes and networks are found by hashes, one for each length in use, in lists of any size. What
//! is left is tried one by one, and has a bound for that reason.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use serde::{Serialize, Serializer};
use smallvec::SmallVec;
use weir_control::lists::{Delta, Entry, Written};
use weir_expr::settings::KeyMatch;

use crate::{KeyListIx, MatchFailed, Pattern, TextTest};

/// Keys that are tried one by one, at most.
pub const MOST_TRIED: usize = 20_000;

/// A list as a file begins it.
#[derive(Clone, Debug, Serialize)]
pub struct KeyListFile {
    /// The file.
    pub name: Box<str>,
    /// Keys have values.
    pub values: bool,
    /// What uses it.
    pub about: Box<str>,
    /// Its entries.
    #[serde(serialize_with = "entries")]
    pub written: Arc<Written>,
}

fn entries<S: Serializer>(written: &Arc<Written>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("<{} entries>", written.len()))
}

/// One way in which a list is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct KeyListUse {
    /// The list.
    pub list: KeyListIx,
    /// How a value and its keys compare.
    pub how: KeyMatch,
    /// Letters compare without regard to case.
    pub ignore_case: bool,
}

/// The entries of a list, for one way of comparing.
#[derive(Clone, Debug)]
pub struct KeyIndex {
    how: KeyMatch,
    ignore_case: bool,
    shape: Shape,
}

/// Entries of one key; the first stands.
type Same = SmallVec<[Entry; 1]>;

#[derive(Clone, Debug)]
enum Shape {
    Words(Words),
    Networks(BTreeMap<Width, HashMap<u128, Same, ahash::RandomState>>),
    Tried(Vec<(Tried, Entry)>),
}

/// A family and a length of prefixes.
type Width = (bool, u8);

#[derive(Clone, Debug, Default)]
struct Words {
    by_key: HashMap<Box<[u8]>, Same, ahash::RandomState>,
    /// How many keys there are of each length.
    lengths: BTreeMap<usize, usize>,
}

#[derive(Clone, Debug)]
enum Tried {
    Text(TextTest, Box<[u8]>),
    Pattern(Arc<Pattern>),
    Range(i64, i64),
}

/// A key, understood.
enum Key {
    Word(Box<[u8]>),
    Network(Width, u128),
    Tried(Tried),
}

impl KeyIndex {
    /// An index of nothing.
    pub fn new(how: KeyMatch, ignore_case: bool) -> Self {
        let shape = match how {
            KeyMatch::Equals | KeyMatch::Begins | KeyMatch::Ends => Shape::Words(Words::default()),
            KeyMatch::Network => Shape::Networks(BTreeMap::new()),
            _ => Shape::Tried(Vec::new()),
        };
        Self { how, ignore_case, shape }
    }

    /// An index of these entries. Patterns that this one has are not compiled again.
    pub fn of(&self, entries: Vec<Entry>) -> Self {
        let mut known: HashMap<Arc<str>, Arc<Pattern>> = HashMap::new();
        if let Shape::Tried(all) = &self.shape {
            known.extend(all.iter().filter_map(|(tried, entry)| match tried {
                Tried::Pattern(pattern) => Some((entry.key.clone(), pattern.clone())),
                _ => None,
            }));
        }
        let mut new = Self::new(self.how, self.ignore_case);
        for entry in entries {
            match known.get(&entry.key) {
                Some(pattern) => new.try_also(Tried::Pattern(pattern.clone()), entry),
                None => new.add(entry),
            }
        }
        new
    }

    /// Whether this may be a key.
    ///
    /// # Errors
    /// What is wrong with it, in HAProxy's words where it has some.
    pub fn check(&self, key: &str) -> Result<(), String> {
        let full = match &self.shape {
            Shape::Tried(all) => all.len() >= MOST_TRIED,
            _ => false,
        };
        match full {
            true => Err(format!("a list whose keys are tried one by one holds at most {MOST_TRIED}.")),
            false => self.key(key).map(drop),
        }
    }

    /// Takes a change up.
    pub fn take_up(&mut self, delta: Delta) {
        match delta {
            Delta::Added(entry) => self.add(entry),
            Delta::Gone(entry) => self.remove(&entry),
            Delta::Changed(entry) => self.change(entry),
        }
    }

    /// The entry whose key a value matches.
    ///
    /// # Errors
    /// A pattern gave up.
    pub fn find(&self, value: &[u8]) -> Result<Option<&Entry>, MatchFailed> {
        let folded;
        let value = match self.ignore_case && value.iter().any(u8::is_ascii_uppercase) {
            true => {
                folded = value.to_ascii_lowercase();
                &folded[..]
            }
            false => value,
        };
        Ok(match &self.shape {
            Shape::Words(words) => match self.how {
                KeyMatch::Begins => words.longest(value),
                KeyMatch::Ends => words.first_end(value),
                _ => words.get(value),
            },
            Shape::Networks(widths) => address(value).and_then(|ip| narrowest(widths, ip)),
            Shape::Tried(all) => {
                let number = match self.how {
                    KeyMatch::Number => number(value),
                    _ => i64::try_from(value.len()).ok(),
                };
                for (tried, entry) in all {
                    let found = match tried {
                        Tried::Text(test, word) => test.holds(value, word),
                        Tried::Pattern(pattern) => pattern.is_match(value)?,
                        Tried::Range(low, high) => number.is_some_and(|n| (*low..=*high).contains(&n)),
                    };
                    if found {
                        return Ok(Some(entry));
                    }
                }
                None
            }
        })
    }

    fn key(&self, text: &str) -> Result<Key, String> {
        let word = || match self.ignore_case {
            true => text.to_ascii_lowercase().into_bytes().into_boxed_slice(),
            false => text.as_bytes().into(),
        };
        let tried = |test| Ok(Key::Tried(Tried::Text(test, word())));
        match self.how {
            KeyMatch::Equals | KeyMatch::Begins | KeyMatch::Ends => Ok(Key::Word(word())),
            KeyMatch::Contains => tried(TextTest::Contains),
            KeyMatch::Segment => tried(TextTest::Segment),
            KeyMatch::Label => tried(TextTest::Label),
            KeyMatch::Network => {
                let net = network(text).ok_or(format!("'{text}' is not a valid IPv4 or IPv6 address."))?;
                let (width, bits) = bits(net);
                Ok(Key::Network(width, bits))
            }
            KeyMatch::Number | KeyMatch::Length => {
                let (low, high) = range(text).ok_or(format!("'{text}' is not a number"))?;
                Ok(Key::Tried(Tried::Range(low, high)))
            }
            KeyMatch::Pattern => match Pattern::new(text, self.ignore_case, |_| None) {
                Ok(pattern) => Ok(Key::Tried(Tried::Pattern(Arc::new(pattern)))),
                Err(error) => Err(format!("regex '{text}' is invalid: {}", error.message)),
            },
        }
    }

    /// A key that is none finds nothing: it was checked before it came into the list.
    fn add(&mut self, entry: Entry) {
        match self.key(&entry.key) {
            Ok(Key::Tried(tried)) => self.try_also(tried, entry),
            Ok(key) => self.same(&key, |same| same.push(entry)),
            Err(_) => {}
        }
    }

    fn try_also(&mut self, tried: Tried, entry: Entry) {
        if let Shape::Tried(all) = &mut self.shape {
            all.push((tried, entry));
        }
    }

    fn remove(&mut self, gone: &Entry) {
        match &mut self.shape {
            Shape::Tried(all) => all.retain(|(_, entry)| entry.id != gone.id),
            _ => {
                if let Ok(key) = self.key(&gone.key) {
                    self.same(&key, |same| same.retain(|entry| entry.id != gone.id));
                }
            }
        }
    }

    fn change(&mut self, changed: Entry) {
        match &mut self.shape {
            Shape::Tried(all) => {
                let found = all.iter_mut().find(|(_, entry)| entry.id == changed.id);
                found.into_iter().for_each(|(_, entry)| *entry = changed.clone());
            }
            _ => {
                if let Ok(key) = self.key(&changed.key) {
                    self.same(&key, |same| {
                        let found = same.iter_mut().find(|entry| entry.id == changed.id);
                        found.into_iter().for_each(|entry| *entry = changed.clone());
                    });
                }
            }
        }
    }

    /// Does something with the entries of a key, and keeps no place for none.
    fn same(&mut self, key: &Key, act: impl FnOnce(&mut Same)) {
        match (&mut self.shape, key) {
            (Shape::Words(words), Key::Word(word)) => words.same(word, act),
            (Shape::Networks(widths), Key::Network(width, bits)) => {
                let networks = widths.entry(*width).or_default();
                let same = networks.entry(*bits).or_default();
                act(same);
                if same.is_empty() {
                    networks.remove(bits);
                }
                if networks.is_empty() {
                    widths.remove(width);
                }
            }
            _ => {}
        }
    }
}

impl Words {
    fn same(&mut self, word: &[u8], act: impl FnOnce(&mut Same)) {
        if !self.by_key.contains_key(word) {
            self.by_key.insert(word.into(), Same::new());
            *self.lengths.entry(word.len()).or_default() += 1;
        }
        let Some(same) = self.by_key.get_mut(word) else { return };
        act(same);
        if same.is_empty() {
            self.by_key.remove(word);
            let left = self.lengths.get_mut(&word.len()).map_or(0, |count| {
                *count -= 1;
                *count
            });
            if left == 0 {
                self.lengths.remove(&word.len());
            }
        }
    }

    fn get(&self, word: &[u8]) -> Option<&Entry> {
        self.by_key.get(word)?.first()
    }

    fn longest(&self, value: &[u8]) -> Option<&Entry> {
        self.lengths.range(..=value.len()).rev().find_map(|(length, _)| self.get(&value[..*length]))
    }

    /// Of the keys that a value ends with, the first of the list.
    fn first_end(&self, value: &[u8]) -> Option<&Entry> {
        let ends = self.lengths.range(..=value.len());
        let found = ends.filter_map(|(length, _)| self.get(&value[value.len() - length..]));
        found.min_by_key(|entry| entry.id)
    }
}

fn narrowest(
    widths: &BTreeMap<Width, HashMap<u128, Same, ahash::RandomState>>,
    address: IpAddr,
) -> Option<&Entry> {
    let (six, whole) = match address.to_canonical() {
        IpAddr::V4(four) => (false, u128::from(u32::from(four)) << 96),
        IpAddr::V6(six) => (true, u128::from(six)),
    };
    let of_family = widths.range((six, 0)..=(six, 128)).rev();
    let mut found =
        of_family.filter_map(|((_, width), networks)| networks.get(&masked(whole, *width))?.first());
    found.next()
}

/// The first bits of an address; those of IPv4 stand first.
fn masked(bits: u128, width: u8) -> u128 {
    match width {
        0 => 0,
        width => bits & (u128::MAX << (128 - u32::from(width.min(128)))),
    }
}

fn bits(net: IpNet) -> (Width, u128) {
    match crate::net::canonical(net) {
        IpNet::V4(net) => ((false, net.prefix_len()), u128::from(u32::from(net.network())) << 96),
        IpNet::V6(net) => ((true, net.prefix_len()), u128::from(net.network())),
    }
}

/// `10.0.0.0/8`, `10.0.0.0/255.0.0.0`, an address.
fn network(text: &str) -> Option<IpNet> {
    let Some((address, rest)) = text.split_once('/') else {
        return text.parse::<IpAddr>().ok().map(IpNet::from);
    };
    let address: IpAddr = address.parse().ok()?;
    match rest.parse::<u8>() {
        Ok(length) => IpNet::new(address, length).ok(),
        Err(_) => IpNet::with_netmask(address, rest.parse().ok()?).ok(),
    }
}

/// `80`, `80:90`, `:90`, `80:`.
fn range(text: &str) -> Option<(i64, i64)> {
    let Some((low, high)) = text.split_once(':') else {
        let number = text.parse().ok()?;
        return Some((number, number));
    };
    let bound = |text: &str, open| if text.is_empty() { Some(open) } else { text.parse().ok() };
    Some((bound(low, i64::MIN)?, bound(high, i64::MAX)?))
}

fn address(value: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

fn number(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_control::lists::{List, Named, News};

    fn list(keys: &[&str]) -> List {
        List::new(keys.iter().map(|key| ((*key).into(), format!("<{key}>").into())).collect())
    }

    fn found(index: &KeyIndex, value: &str) -> String {
        index.find(value.as_bytes()).unwrap().map_or_else(String::new, |entry| entry.key.to_string())
    }

    fn check(how: KeyMatch, ignore_case: bool, keys: &[&str], values: &[(&str, &str)]) {
        let (News::All(all), _) = list(keys).since(None) else { panic!("it is new") };
        let index = KeyIndex::new(how, ignore_case).of(all);
        for (value, wanted) in values {
            assert_eq!(found(&index, value), *wanted, "{how:?} {value}");
        }
    }

    #[test]
    fn each_way_of_comparing() {
        check(KeyMatch::Equals, false, &["a", "B"], &[("a", "a"), ("A", ""), ("b", "")]);
        check(KeyMatch::Equals, true, &["a", "B"], &[("A", "a"), ("b", "B")]);
        check(
            KeyMatch::Begins,
            false,
            &["/", "/api/", "/api"],
            &[("/api/x", "/api/"), ("/ap", "/"), ("x", "")],
        );
        check(KeyMatch::Ends, false, &[".org", ".a.org"], &[("x.a.org", ".org"), ("org", "")]);
        check(KeyMatch::Contains, false, &["ee"], &[("needle", "ee")]);
        check(KeyMatch::Segment, false, &["img"], &[("/a/img/b", "img"), ("/imgs", "")]);
        check(KeyMatch::Label, true, &["Example"], &[("www.example.org", "Example")]);
        check(
            KeyMatch::Pattern,
            false,
            &["^/a[0-9]+$", "^/a"],
            &[("/a12", "^/a[0-9]+$"), ("/ab", "^/a"), ("b", "")],
        );
        let nets = ["0.0.0.0/0", "10.0.0.0/255.0.0.0", "10.1.0.0/16", "2001:db8::/32"];
        let values = [
            ("10.1.2.3", "10.1.0.0/16"),
            ("10.2.0.1", "10.0.0.0/255.0.0.0"),
            ("::ffff:9.1.1.1", "0.0.0.0/0"),
            ("2001:db8::1", "2001:db8::/32"),
            ("::1", ""),
            ("x", ""),
        ];
        check(KeyMatch::Network, false, &nets, &values);
        check(
            KeyMatch::Number,
            false,
            &["5", "80:90", "1000:"],
            &[("5", "5"), ("85", "80:90"), ("91", ""), ("1001", "1000:"), ("x", "")],
        );
        check(KeyMatch::Length, false, &["2:3"], &[("abc", "2:3"), ("a", "")]);
    }

    #[test]
    fn an_index_that_takes_up_changes_is_as_one_made_anew() {
        for how in
            [KeyMatch::Equals, KeyMatch::Begins, KeyMatch::Contains, KeyMatch::Pattern, KeyMatch::Network]
        {
            let of = |n: u32| match how {
                KeyMatch::Network => format!("10.{n}.0.0/{}", 8 + n % 9),
                _ => format!("k{n}"),
            };
            let list = List::new((0..20).map(|n| (of(n).into(), "0".into())).collect());
            let (News::All(all), mut seen) = list.since(None) else { panic!("it is new") };
            let mut index = KeyIndex::new(how, false).of(all);
            for step in 0..400_u32 {
                let key = of(step.wrapping_mul(2_654_435_761) % 23);
                let _ = match step % 4 {
                    0 => list.add(None, &key, "1"),
                    1 => list.remove(Named::Key(&key)),
                    2 => list.put(&key, "2"),
                    _ => list.set(Named::Key(&key), "3"),
                };
                let (News::Some(news), now) = list.since(Some(seen)) else { panic!("it keeps up") };
                seen = now;
                news.into_iter().for_each(|delta| index.take_up(delta));
                let anew = index.of(list.entries(None));
                for n in 0..23 {
                    let value = if how == KeyMatch::Network { format!("10.{n}.0.1") } else { of(n) };
                    assert_eq!(
                        index.find(value.as_bytes()).unwrap(),
                        anew.find(value.as_bytes()).unwrap(),
                        "{how:?} {step} {value}"
                    );
                }
            }
        }
    }

    #[test]
    fn keys_are_told_from_what_is_none() {
        let wrong = |how, key: &str| KeyIndex::new(how, false).check(key).unwrap_err();
        assert_eq!(wrong(KeyMatch::Network, "1.2.3"), "'1.2.3' is not a valid IPv4 or IPv6 address.");
        assert!(wrong(KeyMatch::Pattern, "(").starts_with("regex '(' is invalid"));
        assert_eq!(wrong(KeyMatch::Number, "a:b"), "'a:b' is not a number");
        assert_eq!(KeyIndex::new(KeyMatch::Equals, false).check("("), Ok(()));
    }
}
