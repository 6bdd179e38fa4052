//! The static table (RFC 7541 appendix A), and a dynamic one.
//!
//! Owns: entries and their places. Never: grows beyond its size.
//! Driven by: `decode`, `encode`, one table each.

use std::collections::VecDeque;

/// Entries of the static table; places begin at 1.
pub(super) const STATIC: [(&[u8], &[u8]); 61] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
];

/// What an entry costs besides its bytes (RFC 7541 §4.1).
pub(super) const OVERHEAD: usize = 32;

/// One entry: name and value in one allocation.
struct Entry {
    bytes: Box<[u8]>,
    name_len: usize,
}

/// The dynamic table of one direction.
pub(super) struct Table {
    /// Newest first.
    entries: VecDeque<Entry>,
    size: usize,
    max: usize,
    /// Entries ever put in: while it stands, places mean what they meant.
    generation: u64,
}

impl Table {
    pub(super) fn new(max: usize) -> Self {
        Self { entries: VecDeque::new(), size: 0, max, generation: 0 }
    }

    /// Changes whenever a place may have come to mean something else.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Bytes that it may hold.
    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// Sets how much it may hold, and drops what is too much.
    pub(super) fn resize(&mut self, max: usize) {
        self.max = max;
        self.generation += 1;
        self.evict(0);
    }

    /// The entry at `place` of both tables together, from 1.
    pub(super) fn get(&self, place: usize) -> Option<(&[u8], &[u8])> {
        let place = place.checked_sub(1)?;
        match STATIC.get(place) {
            Some(&entry) => Some(entry),
            None => {
                let entry = self.entries.get(place - STATIC.len())?;
                Some(entry.bytes.split_at(entry.name_len))
            }
        }
    }

    /// The place of a dynamic entry with this name and value, or at least with this name.
    pub(super) fn find(&self, name: &[u8], value: &[u8]) -> (Option<usize>, Option<usize>) {
        let mut named = None;
        for (at, entry) in self.entries.iter().enumerate() {
            let (its, text) = entry.bytes.split_at(entry.name_len);
            if its == name {
                let place = at + STATIC.len() + 1;
                if text == value {
                    return (Some(place), Some(place));
                }
                named = named.or(Some(place));
            }
        }
        (None, named)
    }

    /// Puts an entry in; one that is larger than the table empties it (RFC 7541 §4.4).
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let cost = name.len() + value.len() + OVERHEAD;
        self.generation += 1;
        self.evict(cost);
        if cost <= self.max {
            let mut bytes = Vec::with_capacity(name.len() + value.len());
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(value);
            self.size += cost;
            self.entries.push_front(Entry { bytes: bytes.into_boxed_slice(), name_len: name.len() });
        }
    }

    /// Makes room for `cost` more.
    fn evict(&mut self, cost: usize) {
        while self.size + cost > self.max
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= oldest.bytes.len() + OVERHEAD;
        }
    }
}

/// The place of a static entry: with name and value, or the first one with this name.
pub(super) fn find_static(name: &[u8], value: &[u8]) -> (Option<usize>, Option<usize>) {
    let Some(first) = first_place(name) else { return (None, None) };
    let same = (first..)
        .take_while(|&place| STATIC.get(place - 1).is_some_and(|entry| entry.0 == name))
        .find(|&place| STATIC[place - 1].1 == value);
    // An entry without a value is one to take names from.
    let whole = same.filter(|_| !value.is_empty());
    (whole, Some(first))
}

fn first_place(name: &[u8]) -> Option<usize> {
    // Few names have the same length and first byte, so few are compared.
    let first = *name.first()?;
    let range = match first {
        b':' => 1..15,
        b'a'..=b'b' => 15..24,
        b'c' => 24..33,
        b'd'..=b'h' => 33..39,
        b'i' => 39..44,
        _ => 44..62,
    };
    let mut places = range.into_iter();
    places.find(|&place| STATIC[place - 1].0 == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_static_name_is_found() {
        for (at, (name, value)) in STATIC.iter().enumerate() {
            let (whole, named) = find_static(name, value);
            assert_eq!(whole, (!value.is_empty()).then_some(at + 1), "{name:?}");
            assert!(named.is_some_and(|place| STATIC[place - 1].0 == *name));
        }
        assert_eq!(find_static(b"x-other", b""), (None, None));
        assert_eq!(find_static(b":status", b"503"), (None, Some(8)));
    }

    #[test]
    fn it_keeps_to_its_size() {
        let mut table = Table::new(100);
        table.insert(b"a", b"1");
        table.insert(b"b", b"2");
        assert_eq!(table.get(62), Some((&b"b"[..], &b"2"[..])));
        assert_eq!(table.find(b"a", b"1"), (Some(63), Some(63)));
        table.insert(b"c", b"3");
        assert_eq!(table.get(64), None);
        assert_eq!(table.find(b"a", b"1"), (None, None));
        table.insert(b"large", &[b'x'; 100]);
        assert_eq!((table.get(62), table.size), (None, 0));
        assert_eq!(table.get(0), None);
    }
}
