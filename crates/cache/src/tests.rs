//! The store as a whole: what is written is read back, and what is broken never is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::*;

fn settings(path: &Path) -> Settings {
    let pace = Pace { files: 100, threshold: Duration::from_millis(200), sleep: Duration::from_millis(1) };
    Settings {
        path: path.to_owned(),
        levels: Levels::parse("1:2").unwrap(),
        keys: 100_000,
        max_size: None,
        min_free: 0,
        inactive: Duration::from_secs(600),
        manager: pace,
        loader: None,
        purger: None,
    }
}

fn open(settings: Settings) -> Arc<Store> {
    let store = Store::open(settings, |told| eprintln!("{told}"));
    until("the folder is read", || !store.is_cold());
    store
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "not in time: {what}");
        std::thread::yield_now();
    }
}

fn meta(stored: u64) -> Meta {
    Meta { status: 200, stored, fresh_until: stored + 60, ..Meta::default() }
}

fn put(store: &Arc<Store>, name: &str, body: &[u8], meta: Meta) -> Key {
    let key = Key::of(name.as_bytes());
    let texts = (name.as_bytes(), &b"accept"[..], &b"head"[..]);
    let mut writer = Writer::new(store, key, texts, Instant::now()).unwrap();
    body.chunks(10_000).for_each(|piece| assert!(writer.push(piece)));
    writer.finish(meta);
    until("it is written", || !store.is_being_written(&key));
    key
}

fn load(store: &Arc<Store>, name: &str) -> Option<Box<Object>> {
    let (tell, told) = channel();
    let key = Key::of(name.as_bytes());
    assert!(store.load(key, name.into(), move |loaded| tell.send(loaded).unwrap()));
    match told.recv_timeout(Duration::from_secs(20)).unwrap() {
        Loaded::Object(object) => Some(object),
        Loaded::Missing => None,
    }
}

fn body(object: &Object) -> Vec<u8> {
    use std::os::unix::fs::FileExt as _;
    match &object.body {
        Body::Memory(bytes) => bytes.to_vec(),
        Body::File(file, at) => {
            let mut bytes = vec![0; object.length as usize];
            file.read_exact_at(&mut bytes, *at).unwrap();
            bytes
        }
    }
}

fn is_stored(store: &Store, key: &Key) -> bool {
    matches!(store.look_up(key, 1, false), Lookup::Stored { .. })
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.path() {
            path if path.is_dir() => out.extend(files(&path)),
            path => out.push(path),
        }
    }
    out
}

#[test]
fn uses_are_counted_while_the_folder_is_still_read() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody reads its folder.
    let store = Store::new(settings(folder.path()), |told| eprintln!("{told}"));
    let key = Key::of(b"a");
    let asked: Vec<Lookup> = (0..3)
        .map(|_| {
            let found = store.look_up(&key, 1, true);
            // As whoever asks does: its file may be there.
            assert!(load(&store, "a").is_none());
            found
        })
        .collect();
    assert_eq!(asked, [1, 2, 3].map(|uses| Lookup::Unknown { uses }));
}

#[test]
fn objects_are_read_back_now_and_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(settings(folder.path()));
    let large: Vec<u8> = (0..300_000_u32).map(|n| n as u8).collect();
    let a = put(&store, "a", b"small", meta(5));
    put(&store, "b", &large, meta(7));
    put(&store, "empty", b"", meta(7));
    assert!(load(&store, "none").is_none());
    let check = |store: &Arc<Store>| {
        let found = load(store, "a").unwrap();
        assert_eq!((&*found.head, &*found.vary, &found.meta), (&b"head"[..], &b"accept"[..], &meta(5)));
        assert!(matches!(&found.body, Body::Memory(bytes) if **bytes == *b"small"));
        let found = load(store, "b").unwrap();
        assert!(matches!(found.body, Body::File(..)));
        assert_eq!(body(&found), large);
        assert_eq!(load(store, "empty").unwrap().length, 0);
        assert_eq!(store.entries(), 3);
        assert_eq!(store.size(), 4096 * (1 + 74 + 1));
    };
    check(&store);
    let before = store.look_up(&a, 1, false);
    put(&store, "a", b"small", meta(5));
    assert_ne!(store.look_up(&a, 1, false), before, "what a worker holds is not current any more");
    drop(store);
    check(&open(settings(folder.path())));
    assert_eq!(files(folder.path()).len(), 3);
}

#[test]
fn what_was_not_finished_is_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(settings(folder.path()));
    let key = Key::of(b"a");
    let mut writer = Writer::new(&store, key, (b"a", b"", b"head"), Instant::now()).unwrap();
    assert!(writer.push(&[b'x'; 200_000]));
    until("some of it is written", || !files(folder.path()).is_empty());
    drop(writer);
    until("it is removed", || files(folder.path()).is_empty());
    assert!(!is_stored(&store, &key));
    // A process that was killed: its lock is gone, its files are there.
    let left = folder.path().join(".weir-1");
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("7"), "half an object").unwrap();
    let other = open(settings(folder.path()));
    assert!(!left.exists(), "what it left is removed");
    // A process that lives: nobody touches its files.
    let mut writer = Writer::new(&store, key, (b"a", b"", b"head"), Instant::now()).unwrap();
    assert!(writer.push(&[b'x'; 200_000]));
    until("some of it is written", || !files(folder.path()).is_empty());
    drop(other);
    drop(open(settings(folder.path())));
    writer.finish(meta(1));
    until("it is written", || is_stored(&store, &key));
    assert_eq!(load(&store, "a").unwrap().length, 200_000);
}

#[test]
fn broken_files_are_dropped_and_never_served() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(settings(folder.path()));
    type Damage = (&'static str, fn(&mut Vec<u8>));
    let breaks: [Damage; 7] = [
        ("empty", |bytes| bytes.clear()),
        ("cut", |bytes| bytes.truncate(bytes.len() - 1)),
        ("longer", |bytes| bytes.push(0)),
        ("times", |bytes| bytes[50] ^= 1),
        ("name", |bytes| bytes[128] ^= 1),
        ("head", |bytes| bytes[128 + 1 + 6] ^= 1),
        ("body", |bytes| *bytes.last_mut().unwrap() ^= 1),
    ];
    for (what, damage) in breaks {
        let key = put(&store, "a", b"the body", meta(1));
        let path = folder.path().join(format!("{}", key)).parent().unwrap().to_owned();
        let [file] = files(&path).try_into().unwrap();
        let mut bytes = std::fs::read(&file).unwrap();
        damage(&mut bytes);
        std::fs::write(&file, bytes).unwrap();
        assert!(load(&store, "a").is_none(), "{what}");
        assert!(!is_stored(&store, &key) && !file.exists(), "{what}");
    }
    assert_eq!((store.size(), store.entries()), (0, 0));
    // A file of another name in this one's place: two names with one digest.
    let (a, b) = (put(&store, "a", b"of a", meta(1)), Key::of(b"b"));
    let at = |key: &Key| Levels::parse("1:2").unwrap().path(folder.path(), key);
    std::fs::create_dir_all(at(&b).parent().unwrap()).unwrap();
    std::fs::rename(at(&a), at(&b)).unwrap();
    let again = open(settings(folder.path()));
    assert!(is_stored(&again, &b) && load(&again, "b").is_none() && !at(&b).exists());
    // Removed by hand.
    assert!(load(&store, "a").is_none() && !is_stored(&store, &a));
    // A link leads nowhere.
    std::fs::write(folder.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink(folder.path().join("secret"), at(&a)).unwrap();
    let again = open(settings(folder.path()));
    assert!(!is_stored(&again, &a) && load(&again, "a").is_none());
    assert!(folder.path().join("secret").exists(), "what is not ours stays");
}

#[test]
fn the_manager_keeps_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(Settings { max_size: Some(10 * 4096), ..settings(folder.path()) });
    for n in 0..100 {
        put(&store, &format!("{n}"), b"body", meta(1));
        // The first is used again and again, and stays.
        load(&store, "0");
        store.look_up(&Key::of(b"0"), u64::from(u32::MAX), false);
    }
    until("there are as many as have room", || store.size() <= 10 * 4096);
    until("files go, too", || files(folder.path()).len() <= 10);
    assert!(is_stored(&store, &Key::of(b"0")));
    store.tune(Settings { max_size: None, min_free: u64::MAX, ..settings(folder.path()) });
    until("nothing is left where no space is enough", || store.entries() == 0);
    store.tune(Settings { inactive: Duration::from_secs(1), ..settings(folder.path()) });
    put(&store, "old", b"body", meta(1));
    until("what is not used leaves", || store.entries() == 0 && files(folder.path()).is_empty());
    // A small zone holds few names, stored or not.
    store.tune(Settings { keys: 64, ..settings(folder.path()) });
    for n in 0..1000_u32 {
        store.look_up(&Key::of(&n.to_le_bytes()), 1, true);
    }
    assert!(store.entries() <= 64, "{}", store.entries());
}

#[test]
fn uses_are_counted_only_where_somebody_asks_how_many() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(settings(folder.path()));
    let key = Key::of(b"a");
    assert_eq!(store.look_up(&key, 1, false), Lookup::Missing { uses: 1 });
    assert_eq!(store.entries(), 0);
    assert_eq!(store.look_up(&key, 1, true), Lookup::Missing { uses: 1 });
    assert_eq!(store.look_up(&key, 1, true), Lookup::Missing { uses: 2 });
}

#[test]
fn one_fetches_and_its_right_ends() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(settings(folder.path()));
    let (key, now, age) = (Key::of(b"a"), Instant::now(), Duration::from_secs(5));
    let first = store.claim(&key, None, age, now).unwrap();
    assert!(store.claim(&key, None, age, now).is_none() && store.is_being_fetched(&key));
    let second = store.claim(&key, None, age, now + age).unwrap();
    drop(first);
    assert!(store.is_being_fetched(&key), "it was another's by then");
    drop(second);
    assert!(!store.is_being_fetched(&key) && store.claim(&key, None, age, now).is_some());
    put(&store, "a", b"body", meta(1));
    assert!(store.claim(&key, None, age, now).is_none(), "it is there by now");
    let Lookup::Stored { version } = store.look_up(&key, 1, false) else { unreachable!("it is there") };
    assert!(store.claim(&key, Some(version), age, now).is_some());
}

#[test]
fn what_is_removed_stays_away() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(settings(folder.path()));
    let key = put(&store, "a", b"old", meta(1));
    let mut writer = Writer::new(&store, key, (b"a", b"", b"head"), Instant::now()).unwrap();
    writer.push(b"fetched before it was removed");
    store.remove(&key, Instant::now());
    assert!(!is_stored(&store, &key));
    writer.finish(meta(2));
    until("it is dropped", || !store.is_being_written(&key) && files(folder.path()).is_empty());
    assert!(!is_stored(&store, &key) && store.size() == 0);
    put(&store, "a", b"new", meta(3));
    assert_eq!(body(&load(&store, "a").unwrap()), b"new");
}

#[test]
fn times_change_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(settings(folder.path()));
    let key = put(&store, "a", b"body", meta(1));
    let before = store.look_up(&key, 1, false);
    let refresh = |was: Meta, new: Meta| {
        store.refresh(key, b"a".to_vec(), was, new);
        until("it is written", || !store.is_being_written(&key));
    };
    refresh(meta(1), meta(50));
    assert_ne!(store.look_up(&key, 1, false), before);
    refresh(meta(1), meta(90));
    let found = load(&store, "a").unwrap();
    assert_eq!(
        (&found.meta, body(&found)),
        (&meta(50), b"body".to_vec()),
        "the second was not about this one"
    );
    assert_eq!(store.size(), 4096);
}

#[test]
fn many_workers_at_once_see_whole_objects() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(Settings { max_size: Some(40 * 4096), ..settings(folder.path()) });
    std::thread::scope(|scope| {
        for worker in 0..4_usize {
            let store = &store;
            scope.spawn(move || {
                for round in 0..300_usize {
                    let name = format!("{}", (worker * 7 + round * 13) % 60);
                    let key = Key::of(name.as_bytes());
                    match (worker + round) % 4 {
                        0 => store.remove(&key, Instant::now()),
                        1 | 2 => {
                            // Whoever writes it, all of its bytes are one letter, as many as its length says.
                            let letter = b'a' + (round % 20) as u8;
                            let texts = (name.as_bytes(), &b""[..], &b"head"[..]);
                            let mut writer = Writer::new(store, key, texts, Instant::now()).unwrap();
                            writer.push(&vec![letter; 1000 + usize::from(letter)]);
                            writer.finish(meta(u64::from(letter)));
                        }
                        _ => {
                            if let Some(found) = load(store, &name) {
                                let bytes = body(&found);
                                let letter = found.meta.stored as u8;
                                assert_eq!(bytes, vec![letter; 1000 + usize::from(letter)]);
                            }
                        }
                    }
                }
            });
        }
    });
    until("everything has come to rest", || {
        (0..60).all(|n| !store.is_being_written(&Key::of(format!("{n}").as_bytes())))
    });
    until("bounds hold", || store.size() <= 40 * 4096);
    until("index and folder agree", || files(folder.path()).len() == store.entries());
    assert_eq!(store.size(), store.entries() as u64 * 4096);
}
