//! Stick tables against a model that is a queue of keys.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use weir_expr::{StickKey, Stored};

use super::*;

fn table(size: u64, expire: Option<u64>, nopurge: bool, store: &[StickData]) -> Arc<StickTable> {
    let stored = |&data: &StickData| Stored { data, period: Duration::from_secs(10) };
    let expire = expire.map(Duration::from_millis);
    let store = store.iter().map(stored).collect();
    let config = StickTableConfig { key: StickKey::Text(32), size, expire, nopurge, store };
    Arc::new(StickTable::new(&config, 1))
}

#[test]
fn each_kind_of_data_keeps_to_itself() {
    use StickData::*;
    let all = [
        ServerId,
        Gpc(0),
        Gpc(1),
        GpcRate(0),
        Gpt(0),
        ConnCnt,
        ConnCur,
        ConnRate,
        SessCnt,
        SessRate,
        HttpReqCnt,
        HttpReqRate,
        HttpErrCnt,
        HttpErrRate,
        HttpFailCnt,
        HttpFailRate,
        BytesInCnt,
        BytesInRate,
        BytesOutCnt,
        BytesOutRate,
    ];
    let table = table(10, None, false, &all);
    for (n, &data) in all.iter().enumerate() {
        assert_eq!(table.add(b"k", data, Millis(5), n as u64 + 1), Some(n as u64 + 1));
    }
    for (n, &data) in all.iter().enumerate() {
        assert_eq!(table.read(b"k", data, Millis(5)), Some(n as u64 + 1), "{data:?}");
    }
    assert_eq!(table.add(b"k", BytesInCnt, Millis(5), 1 << 40), Some((1 << 40) + 17), "bytes take 64 bits");
    assert_eq!(table.add(b"k", Gpc(2), Millis(5), 1), None, "not stored");
}

#[test]
fn what_is_tracked_neither_expires_nor_is_purged() {
    let table = table(2, Some(100), false, &[StickData::ConnCur, StickData::Gpc(0)]);
    let held = table.track(b"a", Millis(1)).unwrap();
    for n in 0..9u8 {
        table.add(&[n], StickData::Gpc(0), Millis(500), 1);
    }
    assert_eq!((table.len(), held.read(StickData::ConnCur, Millis(500))), (2, Some(1)));
    assert!(!table.clear(b"a"), "in use");
    let second = table.track(b"b", Millis(500)).unwrap();
    assert!(table.track(b"c", Millis(500)).is_none(), "full of entries in use");
    held.end(Millis(501));
    drop(second);
    assert_eq!(table.read(b"a", StickData::ConnCur, Millis(501)), Some(0));
    assert!(table.track(b"c", Millis(501)).is_some());
    assert!(
        table.contains(b"a", Millis(501)) && !table.contains(b"b", Millis(501)),
        "the one used last stays"
    );
    assert!(!table.contains(b"a", Millis(601)), "expired");
}

#[test]
fn nopurge_refuses_new_keys_until_old_ones_expire() {
    let table = table(1, Some(100), true, &[StickData::Gpc(0)]);
    assert!(table.set(b"a", StickData::Gpc(0), Millis(1), 7));
    assert!(!table.set(b"b", StickData::Gpc(0), Millis(100), 7));
    assert!(table.set(b"b", StickData::Gpc(0), Millis(101), 8));
    assert_eq!(table.read(b"b", StickData::Gpc(0), Millis(101)), Some(8));
    assert!(table.clear(b"b") && table.is_empty());
}

#[test]
fn counts_of_all_threads_add_up() {
    let table = table(100_000, None, false, &[StickData::HttpReqCnt]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..5000u32 {
                    let held = table.track(&(n % 7).to_be_bytes(), Millis(1)).unwrap();
                    held.add(StickData::HttpReqCnt, Millis(1), 1);
                }
            });
        }
    });
    let count = |n: u32| table.read(&n.to_be_bytes(), StickData::HttpReqCnt, Millis(1)).unwrap();
    assert_eq!((0..7).map(count).sum::<u64>(), 20_000);
}

proptest! {
    /// Against a queue of (key, count, used at), oldest use first.
    #[test]
    fn behaves_as_a_queue_of_counts(
        size in 1u64..6,
        nopurge: bool,
        actions in prop::collection::vec((0u8..3, 0u8..8, 0u64..40), 0..200),
    ) {
        let table = table(size, Some(100), nopurge, &[StickData::Gpc(0)]);
        let mut shadow: VecDeque<(u8, u64, u64)> = VecDeque::new();
        let mut now = 1;
        for (action, key, later) in actions {
            now += later;
            shadow.retain(|&(_, _, used)| used + 100 > now);
            let known = shadow.iter().position(|&(k, _, _)| k == key);
            match action {
                0 => {
                    let expected = match known {
                        None if shadow.len() as u64 == size && nopurge => None,
                        _ => Some(known.map_or(0, |at| shadow[at].1) + 1),
                    };
                    prop_assert_eq!(table.add(&[key], StickData::Gpc(0), Millis(now), 1), expected);
                    if let Some(count) = expected {
                        known.map(|at| shadow.remove(at));
                        if shadow.len() as u64 == size {
                            shadow.pop_front();
                        }
                        shadow.push_back((key, count, now));
                    }
                }
                1 => {
                    prop_assert!(table.clear(&[key]));
                    known.map(|at| shadow.remove(at));
                }
                _ => {
                    let expected = known.map(|at| shadow[at].1);
                    prop_assert_eq!(table.read(&[key], StickData::Gpc(0), Millis(now)), expected);
                }
            }
            prop_assert!(table.len() as u64 <= size);
        }
    }
}

/// Heap bytes a million entries take beside their keys of four bytes, with four counters, two of them rates.
#[test]
fn a_million_entries_stay_small() {
    use StickData::*;
    let table = table(1_000_000, None, false, &[ConnCur, ConnRate, HttpReqRate, Gpc(0)]);
    for n in 0..1_000_000u32 {
        table.add(&n.to_be_bytes(), Gpc(0), Millis(1), 1);
    }
    let bytes: usize = table
        .shards
        .iter()
        .map(|shard| {
            let shard = lock(shard);
            shard.words.capacity() * 4 + shard.entries.heap_bytes()
        })
        .sum();
    let each = bytes / table.len() - 4;
    assert!(table.len() > 980_000 && each <= 120, "{each} bytes for each of {}", table.len());
}

/// What is passed on arrives as it was, each entry once, and is no change of those who learnt it.
#[test]
fn changes_are_passed_on() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let kinds = [StickData::ConnCur, StickData::HttpReqCnt, StickData::HttpReqRate];
    let (here, there) = (table(100, Some(1000), false, &kinds), table(100, Some(1000), false, &kinds));
    let told = std::sync::Arc::new(AtomicUsize::new(0));
    here.add(b"early", StickData::HttpReqCnt, Millis(1), 1);
    let tell = told.clone();
    here.follow(|| panic!("another one follows"));
    here.follow(move || {
        tell.fetch_add(1, Ordering::Relaxed);
    });
    there.follow(|| ());
    for at in 1..=3 {
        here.add(b"a", StickData::HttpReqCnt, Millis(at), 1);
    }
    here.add(b"b", StickData::HttpReqRate, Millis(10), 7);
    here.add(b"gone", StickData::HttpReqCnt, Millis(10), 1);
    here.clear(b"gone");
    assert_eq!(told.load(Ordering::Relaxed), 1, "told once until it looks");
    let (changed, last) = here.changed(0, 0, 10, Millis(20));
    let keys: Vec<&[u8]> = changed.iter().map(|entry| &entry.key[..]).collect();
    assert_eq!(keys, [b"a", b"b"]);
    assert_eq!(here.changed(0, last, 10, Millis(20)).0, []);
    assert_eq!(here.changed(0, 0, 1, Millis(20)).0.len(), 1);
    assert_eq!(here.entries(0, Millis(20)).0.len(), 3, "those that were there before, too");
    for entry in &changed {
        let values: Vec<_> = here.kinds().zip(entry.values.iter().copied()).collect();
        assert!(there.learn(&entry.key, entry.expires_in, &values, &[], Millis(500)));
    }
    assert_eq!(there.read(b"a", StickData::HttpReqCnt, Millis(500)), Some(3));
    assert_eq!(there.read(b"b", StickData::HttpReqRate, Millis(500)), Some(7));
    assert_eq!(there.expires_in(b"a", Millis(500)), Some(983), "the time that was left");
    assert_eq!(there.changed(0, 0, 10, Millis(500)).0, [], "what was learnt is not passed on");
    here.look();
    here.add(b"a", StickData::HttpReqCnt, Millis(30), 1);
    assert_eq!(told.load(Ordering::Relaxed), 2);
}

/// Of what somebody was told, what changed here since is newer than what he says of it.
#[test]
fn what_was_told_does_not_come_back_older() {
    let here = table(100, Some(1000), false, &[StickData::HttpReqCnt]);
    here.follow(|| ());
    here.add(b"told", StickData::HttpReqCnt, Millis(1), 3);
    here.add(b"same", StickData::HttpReqCnt, Millis(1), 3);
    let then = here.last_change();
    here.add(b"told", StickData::HttpReqCnt, Millis(2), 1);
    here.add(b"new", StickData::HttpReqCnt, Millis(2), 1);
    let learn = |key: &[u8], told: &[Option<u64>]| {
        here.learn(key, None, &[(StickData::HttpReqCnt, StickValue::Count(9))], told, Millis(3))
    };
    assert!(!learn(b"told", &[Some(then)]));
    assert!(learn(b"same", &[Some(then)]) && learn(b"new", &[Some(then)]) && learn(b"other", &[Some(then)]));
    let counts = [&b"told"[..], b"same", b"new"].map(|key| here.read(key, StickData::HttpReqCnt, Millis(3)));
    assert_eq!(counts, [Some(4), Some(9), Some(9)]);
    assert!(learn(b"told", &[None]), "nothing was told");
}
