//! Verifying dear passwords beside the workers.
//!
//! Owns: the threads that verify, their queue, and what they found, under keys that tell nothing.
//! Never: reads password files; keeps a password longer than it waits here, or a result longer than [`MATCH_LASTS`].
//! Driven by: `eval::users` (what is known), `eval::program` and `admission::access` ([`verify`], awaited).
//! Why: hashes are slow on purpose. Verified in a worker, one request would keep all its other connections waiting for up
//! to half a second; these threads give way to workers, and whoever sends passwords fast waits for them alone.
//!
//! ```text
//!   worker: own results ──miss──> process: results ──miss──> queue ──> threads ──> both
//! ```

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;
use weir_rt::Instant;

/// Most threads; there are no more than half as many as processors.
const THREADS: usize = 4;
/// Most verifications that wait.
const QUEUE: usize = 256;
/// Of these, most of one client: who floods the queue leaves room for others.
const OF_ONE_CLIENT: usize = 64;
/// The longest wait for a verification.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a match is remembered.
const MATCH_LASTS: Duration = Duration::from_secs(300);
/// How long a mismatch is remembered: for clients that try the same again and again.
const MISMATCH_LASTS: Duration = Duration::from_secs(30);
/// Most matches, and most mismatches, remembered in one place.
const REMEMBERED: usize = 4096;
/// The threads' place behind the workers (nice(2)).
const NICENESS: i32 = 5;

/// Stands for user, password and stored form together. Made with a secret of the process, so that it tells nothing.
pub(crate) type Key = [u8; 16];

/// A password to be verified.
pub(crate) struct Question {
    /// What the result is remembered under.
    pub(crate) key: Key,
    /// The stored form.
    pub(crate) stored: Box<str>,
    /// The password given.
    pub(crate) password: Box<[u8]>,
    /// Whether a match is one. The name of nobody is verified like any other, against somebody's stored form, so that
    /// time does not tell which names there are.
    pub(crate) counts: bool,
    /// Who asks.
    pub(crate) client: Option<IpAddr>,
}

/// What was found lately.
#[derive(Default)]
pub(crate) struct Results {
    matches: HashMap<Key, Instant>,
    mismatches: HashMap<Key, Instant>,
}

impl Results {
    fn find(&self, key: &Key, now: Instant) -> Option<bool> {
        let holds = |until: Option<&Instant>| until.is_some_and(|until| *until > now);
        match (holds(self.matches.get(key)), holds(self.mismatches.get(key))) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    fn insert(&mut self, key: Key, matched: bool, now: Instant) {
        // Apart, so that guesses push no match out.
        let (map, lasts) = match matched {
            true => (&mut self.matches, MATCH_LASTS),
            false => (&mut self.mismatches, MISMATCH_LASTS),
        };
        if map.len() >= REMEMBERED {
            map.retain(|_, until| *until > now);
        }
        if map.len() >= REMEMBERED {
            map.clear();
        }
        map.insert(key, now + lasts);
    }
}

/// What was verified lately for one worker's clients.
#[derive(Default)]
pub(crate) struct Known(RefCell<Results>);

impl Known {
    /// What a verification came to, if that is known.
    pub(crate) fn find(&self, key: &Key, now: Instant) -> Option<bool> {
        self.0.borrow().find(key, now)
    }
}

/// Awaits a verification, and remembers it in `known`. `None`: there are too many, or it took too long.
pub(crate) async fn verify(process: &Passwords, known: &Known, question: Question) -> Option<bool> {
    let (key, now) = (question.key, weir_rt::now());
    let matched = match process.ask(question, now) {
        Asked::Known(matched) => matched,
        Asked::Waits(found) => weir_rt::timeout(now + PATIENCE, found).await.ok()?.ok()?,
        Asked::Full => return None,
    };
    known.0.borrow_mut().insert(key, matched, weir_rt::now());
    Some(matched)
}

/// The threads of a process, and what they know.
pub(crate) struct Passwords {
    secret: [u8; 32],
    most_threads: usize,
    desk: Arc<Desk>,
}

/// Where workers and threads meet.
#[derive(Default)]
struct Desk {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    results: Results,
    queue: VecDeque<Key>,
    /// What waits or is being verified: whoever asks the same meanwhile waits for the same.
    open: HashMap<Key, Open>,
    threads: usize,
    idle: usize,
    closed: bool,
}

struct Open {
    /// `None` while it is being verified.
    question: Option<Question>,
    client: Option<IpAddr>,
    waiting: Vec<oneshot::Sender<bool>>,
}

enum Asked {
    Known(bool),
    Waits(oneshot::Receiver<bool>),
    Full,
}

impl Default for Passwords {
    fn default() -> Self {
        // Keyed with 128 bits of the system's randomness.
        let random = RandomState::new();
        let mut secret = [0; 32];
        for (at, part) in secret.chunks_mut(8).enumerate() {
            part.copy_from_slice(&random.hash_one(at).to_ne_bytes());
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self { secret, most_threads: (processors / 2).clamp(1, THREADS), desk: Arc::default() }
    }
}

impl Passwords {
    /// The key of a verification.
    pub(crate) fn key(&self, user: &[u8], password: &[u8], stored: &str, counts: bool) -> Key {
        let mut digest = Sha256::new_with_prefix(self.secret);
        for part in [user, password, stored.as_bytes()] {
            digest.update((part.len() as u64).to_ne_bytes());
            digest.update(part);
        }
        digest.update([u8::from(counts)]);
        let mut key = Key::default();
        key.copy_from_slice(&digest.finalize()[..16]);
        key
    }

    /// A place among `count`, the same for a name each time, and nobody's to foretell.
    pub(crate) fn place_of(&self, name: &[u8], count: usize) -> usize {
        let [a, b, c, d, ..] = self.key(name, b"", "", false);
        u32::from_ne_bytes([a, b, c, d]) as usize % count.max(1)
    }

    fn ask(&self, question: Question, now: Instant) -> Asked {
        let mut state = self.desk.state();
        if let Some(matched) = state.results.find(&question.key, now) {
            return Asked::Known(matched);
        }
        let (tell, found) = oneshot::channel();
        if let Some(open) = state.open.get_mut(&question.key) {
            // As many as there may be connections: no more than those wait.
            open.waiting.push(tell);
            return Asked::Waits(found);
        }
        let client = question.client.map(network);
        let of_client = state.open.values().filter(|open| open.client == client).count();
        if state.open.len() >= QUEUE || of_client >= OF_ONE_CLIENT {
            return Asked::Full;
        }
        if state.idle == 0 && state.threads < self.most_threads {
            let desk = self.desk.clone();
            let builder = std::thread::Builder::new().name("weir-passwords".into());
            state.threads += usize::from(builder.spawn(move || desk.serve()).is_ok());
        }
        if state.threads == 0 {
            return Asked::Full;
        }
        let key = question.key;
        state.open.insert(key, Open { question: Some(question), client, waiting: vec![tell] });
        state.queue.push_back(key);
        drop(state);
        self.desk.work.notify_one();
        Asked::Waits(found)
    }
}

impl Drop for Passwords {
    fn drop(&mut self) {
        self.desk.state().closed = true;
        self.desk.work.notify_all();
    }
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing inside the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread's life.
    fn serve(&self) {
        // Workers first. A kernel that refuses changes nothing but that.
        let _ = rustix::process::nice(NICENESS);
        while let Some(question) = self.next() {
            let found = catch_unwind(AssertUnwindSafe(|| {
                weir_password::verify(&question.stored, &question.password) && question.counts
            }));
            let mut state = self.state();
            let open = state.open.remove(&question.key);
            // Whoever waits for what cannot be verified is told by the end of his channel.
            let (Some(open), Ok(matched)) = (open, found) else { continue };
            state.results.insert(question.key, matched, Instant::now());
            drop(state);
            for waiting in open.waiting {
                let _ = waiting.send(matched);
            }
        }
    }

    /// The next verification that somebody waits for; `None` at the end.
    fn next(&self) -> Option<Question> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            let Some(key) = state.queue.pop_front() else {
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            let Some(open) = state.open.get_mut(&key) else { continue };
            if open.waiting.iter().any(|waiting| !waiting.is_closed())
                && let Some(question) = open.question.take()
            {
                return Some(question);
            }
            state.open.remove(&key);
        }
    }
}

/// Whom an address belongs to: of IPv6, a customer has at least a /64.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) & !u128::from(u64::MAX)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `secret`, by `openssl passwd -1 -salt abcdefgh`.
    const STORED: &str = "$1$abcdefgh$cHJi5PXp/ki/ktXzqlk6I1";

    fn question(passwords: &Passwords, user: &str, password: &str, counts: bool) -> Question {
        Question {
            key: passwords.key(user.as_bytes(), password.as_bytes(), STORED, counts),
            stored: STORED.into(),
            password: password.as_bytes().into(),
            counts,
            client: Some(IpAddr::from([127, 0, 0, 1])),
        }
    }

    fn asked(passwords: &Passwords, user: &str, password: &str, counts: bool) -> Option<bool> {
        match passwords.ask(question(passwords, user, password, counts), Instant::now()) {
            Asked::Known(matched) => Some(matched),
            Asked::Waits(found) => found.blocking_recv().ok(),
            Asked::Full => None,
        }
    }

    #[test]
    fn somebody_elses_stored_form_lets_nobody_in() {
        let passwords = Passwords::default();
        assert_eq!(asked(&passwords, "ann", "secret", false), Some(false));
        assert_eq!(asked(&passwords, "ann", "secret", true), Some(true), "results are kept apart");
        assert_eq!(asked(&passwords, "ann", "Secret", true), Some(false));
    }

    #[test]
    fn the_queue_is_bounded_for_all_and_for_each() {
        let mut passwords = Passwords::default();
        passwords.most_threads = 0;
        let full = |user: &str| asked(&passwords, user, "x", true).is_none();
        assert!(full("ann"), "without a thread nobody waits for one");
        // As if there were one that is busy.
        passwords.desk.state().threads = 1;
        let mut waiting = Vec::new();
        let mut ask = |user: usize, client: [u8; 4]| {
            let question = Question {
                client: Some(client.into()),
                ..question(&passwords, &user.to_string(), "x", true)
            };
            let asked = passwords.ask(question, Instant::now());
            let waits = matches!(asked, Asked::Waits(_));
            waiting.push(asked);
            waits
        };
        assert!((0..OF_ONE_CLIENT).all(|user| ask(user, [10, 0, 0, 1])));
        assert!(!ask(1000, [10, 0, 0, 1]), "one client has its part");
        assert!(ask(0, [10, 0, 0, 1]), "what is asked already may be asked by more");
        let places = (0..QUEUE).filter(|&user| ask(2000 + user, [10, 0, 1, (user / 50) as u8])).count();
        assert_eq!(places, QUEUE - OF_ONE_CLIENT);
        // What nobody waits for any more is not worth the work.
        waiting.truncate(1);
        assert!(
            passwords
                .desk
                .next()
                .is_some_and(|question| question.key == passwords.key(b"0", b"x", STORED, true))
        );
        passwords.desk.state().closed = true;
        assert!(passwords.desk.next().is_none());
    }

    #[test]
    fn results_expire_and_guesses_push_no_match_out() {
        let mut results = Results::default();
        let now = Instant::now();
        results.insert([1; 16], true, now);
        for at in 0..3 * REMEMBERED as u64 {
            let mut key = Key::default();
            key[..8].copy_from_slice(&at.to_ne_bytes());
            results.insert(key, false, now);
        }
        assert!(results.mismatches.len() <= REMEMBERED);
        assert_eq!(results.find(&[1; 16], now), Some(true));
        assert_eq!(results.find(&[1; 16], now + MATCH_LASTS), None);
    }

    #[test]
    fn keys_tell_parts_apart() {
        let passwords = Passwords::default();
        let key = |user: &[u8], password: &[u8]| passwords.key(user, password, "s", true);
        assert_ne!(key(b"ab", b"c"), key(b"a", b"bc"));
        assert_ne!(
            key(b"a", b"b"),
            Passwords::default().key(b"a", b"b", "s", true),
            "a secret of the process"
        );
    }
}
