//! Load that runs beside a test, and notices every request that fails.
//!
//! Owns: client threads, their latencies, whom the answers came from.
//! Never: retries, or forgives a connection that was closed without notice.
//! Driven by: tests of reload and drain, and the demo.
//! Why: "no request fails during a reload" needs clients that count, and do not paper over. What it measures is honest but
//! not fast; the benchmark uses wrk.

use crate::client::{Client, Request};
use crate::deadline::{Deadline, patience};
use crate::port::Address;
use crate::response::Response;
use crate::tls::TlsOptions;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How many failures are kept word for word.
const FAILURES_TOLD: usize = 20;

/// What load to make.
#[derive(Clone)]
pub struct Load {
    to: SocketAddr,
    connections: usize,
    request: Request,
    tls: Option<TlsOptions>,
    one_each: bool,
    share_by: String,
}

impl Load {
    /// GET / on four kept-alive connections.
    #[must_use]
    pub fn to(address: impl Address) -> Self {
        Self {
            to: address.address(),
            connections: 4,
            request: Request::get("/"),
            tls: None,
            one_each: false,
            share_by: "X-Origin".into(),
        }
    }

    /// From this many connections (and threads).
    #[must_use]
    pub fn connections(mut self, n: usize) -> Self {
        self.connections = n;
        self
    }

    /// With this request.
    #[must_use]
    pub fn request(mut self, request: Request) -> Self {
        self.request = request;
        self
    }

    /// Over TLS.
    #[must_use]
    pub fn tls(mut self, options: &TlsOptions) -> Self {
        self.tls = Some(options.clone());
        self
    }

    /// On a new connection for each request.
    #[must_use]
    pub fn one_request_a_connection(mut self) -> Self {
        self.request = self.request.header("Connection", "close");
        self.one_each = true;
        self
    }

    /// Counts answers by the value of this field (`X-Origin` unless told otherwise).
    #[must_use]
    pub fn share_by(mut self, field: &str) -> Self {
        self.share_by = field.into();
        self
    }

    /// Begins, and goes on until [`RunningLoad::finish`].
    #[must_use]
    pub fn start(&self) -> RunningLoad {
        let shared = Arc::new(Shared::default());
        let threads = (0..self.connections)
            .map(|_| {
                let (load, shared) = (self.clone(), Arc::clone(&shared));
                std::thread::spawn(move || load.run(&shared))
            })
            .collect();
        RunningLoad { shared, threads, begun: Instant::now() }
    }

    /// Runs for a while and reports.
    #[must_use]
    pub fn run_for(&self, time: Duration) -> LoadReport {
        let load = self.start();
        std::thread::sleep(time);
        load.finish()
    }

    fn run(&self, shared: &Shared) -> Tally {
        let mut tally = Tally::default();
        let mut connection = None;
        while !shared.stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            match self.exchange(&mut connection) {
                Ok(response) => tally.answered(begun.elapsed(), &response, &self.share_by),
                Err(why) => {
                    connection = None;
                    tally.failed(why);
                    // A server that is gone would otherwise be asked a million times.
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
            shared.count();
        }
        tally
    }

    fn exchange(&self, kept: &mut Option<Client>) -> Result<Response, String> {
        let mut client = match kept.take() {
            Some(client) => client,
            None => self.open().map_err(|e| format!("cannot connect: {e}"))?,
        };
        let response = client.try_request(&self.request).map_err(|e| e.to_string())?;
        if response.status >= 400 {
            return Err(format!("status {}", response.status));
        }
        let closing = response.all("connection").any(|v| v.eq_ignore_ascii_case("close"));
        if !closing && !self.one_each {
            *kept = Some(client);
        }
        Ok(response)
    }

    fn open(&self) -> std::io::Result<Client> {
        match &self.tls {
            None => Client::try_connect(self.to),
            Some(options) => Client::try_tls(self.to, options),
        }
    }
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    done: AtomicU64,
    waited_for: Mutex<()>,
    changed: Condvar,
}

impl Shared {
    fn count(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_all();
    }
}

/// What one thread saw.
struct Tally {
    latencies: Histogram<u64>,
    shares: BTreeMap<String, u64>,
    bytes: u64,
    failures: u64,
    told: Vec<String>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            // One microsecond to a minute, to three digits.
            latencies: Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are in order"),
            shares: BTreeMap::new(),
            bytes: 0,
            failures: 0,
            told: Vec::new(),
        }
    }
}

impl Tally {
    fn answered(&mut self, took: Duration, response: &Response, share_by: &str) {
        self.latencies.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        self.bytes += response.body.len() as u64;
        if let Some(who) = response.all(share_by).next() {
            match self.shares.get_mut(who) {
                Some(n) => *n += 1,
                None => drop(self.shares.insert(who.to_owned(), 1)),
            }
        }
    }

    fn failed(&mut self, why: String) {
        self.failures += 1;
        if self.told.len() < FAILURES_TOLD {
            self.told.push(why);
        }
    }
}

/// Load that is running.
pub struct RunningLoad {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Tally>>,
    begun: Instant,
}

impl RunningLoad {
    /// Waits until `n` more requests were tried: the way to have traffic before, during and after an event.
    ///
    /// # Panics
    /// When they are not, before the deadline.
    #[track_caller]
    pub fn wait_for_more(&self, n: u64) {
        let goal = self.shared.done.load(Ordering::Relaxed) + n;
        let deadline = Deadline::standard();
        let mut lock = self.shared.waited_for.lock().unwrap_or_else(PoisonError::into_inner);
        while self.shared.done.load(Ordering::Relaxed) < goal {
            let left = deadline.left();
            assert!(left.is_some(), "fewer than {n} requests in {:?}", patience());
            // Counting does not take the lock, so a wake-up can be missed: look again soon.
            let pause = left.unwrap_or_default().min(Duration::from_millis(5));
            (lock, _) = self.shared.changed.wait_timeout(lock, pause).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets requests under way end, and reports.
    ///
    /// # Panics
    /// When a client thread did.
    #[must_use]
    pub fn finish(self) -> LoadReport {
        self.shared.stop.store(true, Ordering::Relaxed);
        let elapsed = self.begun.elapsed();
        let mut sum = Tally::default();
        for thread in self.threads {
            let tally = thread.join().expect("client threads do not panic");
            sum.latencies.add(&tally.latencies).expect("all have the same bounds");
            sum.bytes += tally.bytes;
            sum.failures += tally.failures;
            sum.told.extend(tally.told);
            for (who, n) in tally.shares {
                *sum.shares.entry(who).or_default() += n;
            }
        }
        LoadReport {
            elapsed,
            latencies: sum.latencies,
            shares: sum.shares,
            bytes: sum.bytes,
            failed: sum.failures,
            failures: sum.told,
        }
    }
}

/// What became of the load.
pub struct LoadReport {
    /// How long it ran.
    pub elapsed: Duration,
    /// Latencies of answered requests, in microseconds; on a new connection they include connecting and TLS.
    pub latencies: Histogram<u64>,
    /// Answers by origin.
    pub shares: BTreeMap<String, u64>,
    /// Bytes of bodies.
    pub bytes: u64,
    /// Requests that failed.
    pub failed: u64,
    /// How the first of them did.
    pub failures: Vec<String>,
}

impl LoadReport {
    /// Requests answered.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.latencies.len()
    }

    /// Answered requests a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.answered() as f64 / self.elapsed.as_secs_f64()
    }

    /// Fails the test if any request failed, or none was answered.
    ///
    /// # Panics
    /// Then.
    #[track_caller]
    pub fn expect_no_failure(&self) {
        assert!(self.answered() > 0, "no request was answered; failures: {:?}", self.failures);
        assert_eq!(
            self.failed,
            0,
            "of {} requests some failed: {:?}",
            self.answered() + self.failed,
            self.failures
        );
    }
}
