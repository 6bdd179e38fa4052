//! Requests and sessions that a worker serves now, and those that were slow or failed lately.
//!
//! Owns: the places in which they are noted, with their bounds.
//! Never: allocates for a request once its places are there; costs anything but a look at a flag while nobody is to be shown them.
//! Driven by: connections (a request begins), attempts (it reaches an endpoint), the log (it is over), `Command::Requests`.
//! Why places that are used again: a request writes some 100 bytes into memory that is its alone, and the page that asks reads them
//! on the same thread, so neither waits for the other.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use weir_control::requests::{Asked, Finished, InFlight, Requests, Stage};
use weir_control::{PoolId, SiteId};
use weir_rt::Instant;

/// Requests and sessions of a worker that are noted at once. More are served, and only counted.
const MOST: usize = 4096;
/// Bytes of method and target that are kept.
const MOST_TEXT: usize = 256;
/// Failed requests that are remembered.
const MOST_FAILED: usize = 64;
/// The slowest requests of a minute that are remembered.
const MOST_SLOW: usize = 16;
/// Minutes of which the slowest are remembered.
const MINUTES: usize = 5;

/// A client's address and port.
type Source = Option<(IpAddr, u16)>;

/// All of a worker.
#[derive(Default)]
pub(crate) struct Flights {
    /// Somebody is to be shown them.
    on: Cell<bool>,
    /// Served, and not noted.
    unseen: Cell<u64>,
    all: RefCell<Vec<Rc<Record>>>,
    free: RefCell<Vec<Rc<Record>>>,
    failed: RefCell<VecDeque<Note>>,
    slow: RefCell<[Slow; MINUTES]>,
    /// The minute since 1970 that slow requests are noted in, and how long a request of it must take at least to be noted.
    least: Cell<(u64, u64)>,
}

/// A request or session that is being served; no longer once this is dropped.
pub(crate) struct Flight {
    flights: Rc<Flights>,
    /// `None`: there was no place for it.
    record: Option<Rc<Record>>,
}

/// A place.
struct Record {
    active: Cell<bool>,
    began: Cell<Instant>,
    asked: RefCell<Text>,
    client: Cell<Source>,
    site: Cell<SiteId>,
    pool: Cell<Option<PoolId>>,
    endpoint: RefCell<Option<Rc<str>>>,
    stage: Cell<Stage>,
}

/// Method and target, one after the other.
#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    method: usize,
}

impl Text {
    fn set(&mut self, method: &[u8], target: &[u8]) {
        self.bytes.clear();
        let method = &method[..method.len().min(MOST_TEXT / 4)];
        self.method = method.len();
        self.bytes.extend_from_slice(method);
        self.bytes.extend_from_slice(&target[..target.len().min(MOST_TEXT - method.len())]);
    }

    fn take_over(&mut self, other: &Self) {
        self.bytes.clone_from(&other.bytes);
        self.method = other.method;
    }

    fn shown(&self) -> (String, String) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (method, target) = self.bytes.split_at(self.method);
        (text(method), text(target))
    }
}

/// What begins.
pub(crate) struct Begun<'a> {
    /// Its method and target; empty for sessions.
    pub(crate) method: &'a [u8],
    #[allow(missing_docs)]
    pub(crate) target: &'a [u8],
    /// Its client.
    pub(crate) client: Source,
    /// Its site, or its TCP service.
    pub(crate) site: SiteId,
    /// Its first byte.
    pub(crate) at: Instant,
}

/// What it came to.
pub(crate) struct CameTo {
    /// From its first byte to its end.
    pub(crate) took: Duration,
    /// Status; zero: none.
    pub(crate) status: u16,
    /// HAProxy's two letters.
    pub(crate) ending: &'static str,
    /// Neither the client nor a rule is why it ended so.
    pub(crate) failed: bool,
    /// How long it took tells of those that served it, not of the client alone.
    pub(crate) telling: bool,
    /// Attempts at endpoints.
    pub(crate) attempts: u32,
    /// Its client, as it is known at the end.
    pub(crate) client: Source,
}

/// One that is over.
#[derive(Default)]
struct Note {
    asked: Text,
    client: Source,
    site: SiteId,
    pool: Option<PoolId>,
    endpoint: Option<Rc<str>>,
    ended: Duration,
    took: u64,
    status: u16,
    ending: &'static str,
    attempts: u32,
}

/// The slowest of a minute.
#[derive(Default)]
struct Slow {
    minute: u64,
    notes: Vec<Note>,
    used: usize,
}

impl Flights {
    /// Whether requests are noted. What was noted before is forgotten once they are not.
    pub(crate) fn set(&self, on: bool) {
        if !on && self.on.get() {
            self.failed.take();
            self.slow.take();
            self.least.take();
        }
        self.on.set(on);
    }

    /// Whether requests are noted.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Notes a request or session that begins, until what this returns is dropped.
    pub(crate) fn enter(self: &Rc<Self>, begun: &Begun<'_>) -> Flight {
        let record = self.free.borrow_mut().pop().or_else(|| self.another());
        match &record {
            Some(record) => record.begin(begun),
            None => self.unseen.set(self.unseen.get() + 1),
        }
        Flight { flights: self.clone(), record }
    }

    /// A place that was not there before, if there may be more.
    #[cold]
    fn another(&self) -> Option<Rc<Record>> {
        let mut all = self.all.borrow_mut();
        if all.len() == MOST {
            return None;
        }
        let record = Rc::new(Record {
            active: Cell::new(false),
            began: Cell::new(weir_rt::now()),
            asked: RefCell::default(),
            client: Cell::default(),
            site: Cell::new(SiteId(0)),
            pool: Cell::default(),
            endpoint: RefCell::default(),
            stage: Cell::default(),
        });
        all.push(record.clone());
        Some(record)
    }

    /// All that is noted; of each list at most so many.
    pub(crate) fn show(&self, worker: u16, most: usize) -> Requests {
        let now = weir_rt::now();
        let all = self.all.borrow();
        let mut oldest: Vec<&Rc<Record>> = all.iter().filter(|record| record.active.get()).collect();
        let total = oldest.len() as u64 + self.unseen.get();
        oldest.sort_by_key(|record| record.began.get());
        oldest.truncate(most);
        let minute = minute_of(weir_rt::unix_now());
        let slow = self.slow.borrow();
        let recent = slow.iter().filter(|slow| slow.minute + MINUTES as u64 > minute);
        let mut requests = Requests {
            in_flight: oldest.into_iter().map(|record| record.show(worker, now)).collect(),
            total,
            slowest: recent.flat_map(|slow| slow.notes[..slow.used].iter().map(Note::show)).collect(),
            failed: self.failed.borrow().iter().map(Note::show).collect(),
            silent: 0,
        };
        requests.settle(most);
        requests
    }

    /// Whether a request that took so long is among the slowest of its minute so far.
    #[inline]
    fn is_slow(&self, now: Duration, took: u64) -> bool {
        let (minute, least) = self.least.get();
        took > least || minute_of(now) != minute
    }

    #[cold]
    fn note_failed(&self, fill: impl FnOnce(&mut Note)) {
        let mut failed = self.failed.borrow_mut();
        let mut note =
            if failed.len() < MOST_FAILED { Note::default() } else { failed.pop_front().unwrap_or_default() };
        fill(&mut note);
        failed.push_back(note);
    }

    #[cold]
    fn note_slow(&self, now: Duration, fill: impl FnOnce(&mut Note)) {
        let minute = minute_of(now);
        let mut all = self.slow.borrow_mut();
        let slow = &mut all[minute as usize % MINUTES];
        if slow.minute != minute {
            (slow.minute, slow.used) = (minute, 0);
        }
        let at = if slow.used < MOST_SLOW {
            if slow.used == slow.notes.len() {
                slow.notes.push(Note::default());
            }
            slow.used += 1;
            slow.used - 1
        } else {
            slow.least().0
        };
        fill(&mut slow.notes[at]);
        // Until there are so many, each is among them.
        let least = if slow.used < MOST_SLOW { 0 } else { slow.least().1 };
        self.least.set((minute, least));
    }
}

impl Slow {
    /// Which took the least, and how long.
    fn least(&self) -> (usize, u64) {
        let took = self.notes[..self.used].iter().map(|note| note.took).enumerate();
        took.min_by_key(|&(_, took)| took).unwrap_or_default()
    }
}

impl Flight {
    /// An endpoint was chosen for it.
    #[inline]
    pub(crate) fn reach(&self, pool: Option<PoolId>, endpoint: &Rc<str>, client: Source) {
        let Some(record) = &self.record else { return };
        record.pool.set(pool);
        record.client.set(client);
        record.endpoint.replace(Some(endpoint.clone()));
        record.stage.set(Stage::Connecting);
    }

    /// It has come so far.
    #[inline]
    pub(crate) fn stage(&self, stage: Stage) {
        if let Some(record) = &self.record {
            record.stage.set(stage);
        }
    }

    /// It is over.
    pub(crate) fn end(self, came_to: &CameTo) {
        let Some(record) = &self.record else { return };
        let took = crate::worker::count::micros(came_to.took);
        let now = weir_rt::unix_now();
        let fill = |note: &mut Note| {
            note.asked.take_over(&record.asked.borrow());
            note.client = came_to.client;
            (note.site, note.pool) = (record.site.get(), record.pool.get());
            note.endpoint.clone_from(&record.endpoint.borrow());
            (note.ended, note.took) = (now, took);
            (note.status, note.ending, note.attempts) = (came_to.status, came_to.ending, came_to.attempts);
        };
        if came_to.failed {
            self.flights.note_failed(fill);
        }
        if came_to.telling && self.flights.is_slow(now, took) {
            self.flights.note_slow(now, fill);
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        match self.record.take() {
            Some(record) => {
                record.active.set(false);
                record.endpoint.take();
                self.flights.free.borrow_mut().push(record);
            }
            None => self.flights.unseen.set(self.flights.unseen.get() - 1),
        }
    }
}

impl Record {
    fn begin(&self, begun: &Begun<'_>) {
        self.asked.borrow_mut().set(begun.method, begun.target);
        self.began.set(begun.at);
        self.client.set(begun.client);
        self.site.set(begun.site);
        self.pool.set(None);
        self.stage.set(Stage::Here);
        self.active.set(true);
    }

    fn show(&self, worker: u16, now: Instant) -> InFlight {
        let age = now.saturating_duration_since(self.began.get());
        let (asked, endpoint) = (self.asked.borrow(), self.endpoint.borrow());
        InFlight {
            worker,
            asked: show(&asked, self.client.get(), self.site.get(), self.pool.get(), endpoint.as_deref()),
            age_us: crate::worker::count::micros(age),
            stage: self.stage.get(),
        }
    }
}

impl Note {
    fn show(&self) -> Finished {
        Finished {
            asked: show(&self.asked, self.client, self.site, self.pool, self.endpoint.as_deref()),
            ended_unix_ms: u64::try_from(self.ended.as_millis()).unwrap_or(u64::MAX),
            took_us: self.took,
            status: self.status,
            ending: self.ending,
            attempts: self.attempts,
        }
    }
}

fn show(text: &Text, client: Source, site: SiteId, pool: Option<PoolId>, endpoint: Option<&str>) -> Asked {
    let (method, target) = text.shown();
    Asked {
        method,
        target,
        client: client.map(|(ip, port)| std::net::SocketAddr::new(ip, port).to_string()).unwrap_or_default(),
        site,
        pool,
        endpoint: endpoint.unwrap_or_default().to_owned(),
    }
}

fn minute_of(unix: Duration) -> u64 {
    unix.as_secs() / 60
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(target: &str) -> Begun<'_> {
        Begun { method: b"GET", target: target.as_bytes(), client: None, site: SiteId(1), at: weir_rt::now() }
    }

    fn came_to(took_ms: u64, failed: bool) -> CameTo {
        CameTo {
            took: Duration::from_millis(took_ms),
            status: if failed { 502 } else { 200 },
            ending: "--",
            failed,
            telling: true,
            attempts: 1,
            client: Some(([192, 0, 2, 1].into(), 5)),
        }
    }

    fn flights() -> Rc<Flights> {
        let flights = Rc::new(Flights::default());
        flights.set(true);
        flights
    }

    #[test]
    fn what_is_served_is_shown_until_it_ends() {
        let flights = flights();
        let one = flights.enter(&begun("/one"));
        let two = flights.enter(&begun("/two?x=1"));
        one.reach(Some(PoolId(7)), &"127.0.0.1:80".into(), Some(([192, 0, 2, 1].into(), 5)));
        one.stage(Stage::Waiting);
        let shown = flights.show(3, 10);
        assert_eq!((shown.total, shown.in_flight.len()), (2, 2));
        let first = shown.in_flight.iter().find(|one| one.asked.target == "/one").unwrap();
        assert_eq!((first.worker, first.stage, first.asked.pool), (3, Stage::Waiting, Some(PoolId(7))));
        assert_eq!((&*first.asked.endpoint, &*first.asked.client), ("127.0.0.1:80", "192.0.2.1:5"));
        drop(one);
        assert_eq!(flights.show(3, 10).in_flight[0].asked.target, "/two?x=1");
        drop(two);
        assert_eq!(flights.show(3, 10).total, 0);
        // The next one has nothing of the one that was in its place.
        let _three = flights.enter(&begun("/three"));
        let next = &flights.show(3, 10).in_flight[0];
        assert_eq!((&*next.asked.endpoint, next.asked.pool, next.stage), ("", None, Stage::Here));
    }

    #[test]
    fn there_is_a_bound_to_everything() {
        let flights = flights();
        let many: Vec<Flight> = (0..MOST + 5).map(|_| flights.enter(&begun("/"))).collect();
        let shown = flights.show(0, 10);
        assert_eq!((shown.total, shown.in_flight.len()), (MOST as u64 + 5, 10));
        drop(many);
        assert_eq!((flights.show(0, 10).total, flights.unseen.get()), (0, 0));
        let long = "/".repeat(10_000);
        let _long = flights.enter(&begun(&long));
        assert_eq!(flights.show(0, 1).in_flight[0].asked.target.len(), MOST_TEXT - 3);
        for at in 0..200 {
            flights.enter(&begun(&format!("/{at}"))).end(&came_to(at, true));
        }
        let shown = flights.show(0, 1000);
        assert_eq!(shown.failed.len(), MOST_FAILED);
        assert!(shown.failed.iter().all(|one| one.status == 502 && one.took_us >= 136_000), "the last ones");
        // The clock may have turned a minute between two of them.
        assert!(shown.slowest.len() <= 2 * MOST_SLOW, "{}", shown.slowest.len());
        assert_eq!(shown.slowest[0].took_us, 199_000);
    }

    #[test]
    fn the_slowest_stay() {
        let flights = flights();
        for took in [5, 900, 10].into_iter().chain(std::iter::repeat_n(1, 100)) {
            flights.enter(&begun(&format!("/{took}"))).end(&came_to(took, false));
        }
        let shown = flights.show(0, 3);
        let targets: Vec<_> = shown.slowest.iter().map(|one| one.asked.target.as_str()).collect();
        assert_eq!((targets, shown.failed.len()), (vec!["/900", "/10", "/5"], 0));
        flights.set(false);
        assert!(flights.show(0, 3).slowest.is_empty());
    }
}
