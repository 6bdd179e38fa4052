//! Origins: servers behind Weir that do exactly what a test wants.
//!
//! Owns: a listening socket, a thread a connection, and what happened on them.
//! Never: forgives: a step that could not be played fails the test when the origin is dropped.
//! Driven by: tests.

use crate::cert::Certificate;
use crate::deadline::Deadline;
use crate::port::Address;
use crate::script::{self, Outcome, Received, Script};
use crate::tls;
use crate::wire::Wire;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A scripted server on a loopback port. It prints as `127.0.0.1:PORT`, ready for a configuration.
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    log: Mutex<Log>,
    changed: Condvar,
    stopping: AtomicBool,
}

#[derive(Default)]
struct Log {
    connections: usize,
    completed: usize,
    requests: Vec<Received>,
    failures: Vec<String>,
}

/// Which script the n-th connection gets.
enum Plan {
    Each(Script),
    Sequence(Vec<Script>),
}

impl Plan {
    fn of(&self, nth: usize) -> Option<&Script> {
        match self {
            Self::Each(script) => Some(script),
            Self::Sequence(scripts) => scripts.get(nth),
        }
    }
}

impl Origin {
    /// Plays the same script afresh on every connection.
    #[must_use]
    pub fn script(steps: impl FnOnce(Script) -> Script) -> Self {
        Self::start(Plan::Each(steps(Script::new())), None)
    }

    /// Plays one script a connection, in the order they are accepted; one connection too many fails the test.
    #[must_use]
    pub fn sequence(scripts: impl IntoIterator<Item = Script>) -> Self {
        Self::start(Plan::Sequence(scripts.into_iter().collect()), None)
    }

    /// Plays the script on every connection, inside TLS.
    #[must_use]
    pub fn tls(certificate: &Certificate, steps: impl FnOnce(Script) -> Script) -> Self {
        Self::start(Plan::Each(steps(Script::new())), Some(certificate))
    }

    /// A well-behaved server: 200, `body`, kept alive, and its name in `X-Origin`.
    #[must_use]
    pub fn named(name: &str, body: impl AsRef<[u8]>) -> Self {
        Self::script(|c| c.keep_answering(200, &[("X-Origin", name)], body))
    }

    /// An origin that accepts in the kernel only and never says anything: its backlog takes connections, nobody reads.
    #[must_use]
    pub fn silent() -> Self {
        Self::script(Script::until_closed)
    }

    fn start(plan: Plan, certificate: Option<&Certificate>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared::default());
        let tls = certificate.map(tls::server_config);
        let theirs = Arc::clone(&shared);
        std::thread::spawn(move || accept_all(&listener, &Arc::new(plan), tls.as_ref(), &theirs));
        Self { address, shared }
    }

    /// The port number.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Connections accepted so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.lock().connections
    }

    /// Requests read so far, in the order they were read.
    #[must_use]
    pub fn requests(&self) -> Vec<Received> {
        self.shared.lock().requests.clone()
    }

    /// Waits until `n` requests have been read, and gives all of them.
    ///
    /// # Panics
    /// When fewer come before the deadline.
    #[track_caller]
    pub fn wait_for_requests(&self, n: usize) -> Vec<Received> {
        self.wait(&format!("{n} requests"), |log| log.requests.len() >= n);
        self.requests()
    }

    /// Waits until `n` connections have been accepted.
    ///
    /// # Panics
    /// When fewer come before the deadline.
    #[track_caller]
    pub fn wait_for_connections(&self, n: usize) {
        self.wait(&format!("{n} connections"), |log| log.connections >= n);
    }

    /// Waits until `n` connections have played their script to its end.
    ///
    /// # Panics
    /// When fewer do before the deadline.
    #[track_caller]
    pub fn wait_for_completed(&self, n: usize) {
        self.wait(&format!("{n} scripts played to the end"), |log| log.completed >= n);
    }

    #[track_caller]
    fn wait(&self, what: &str, enough: impl Fn(&Log) -> bool) {
        let deadline = Deadline::standard();
        let mut log = self.shared.lock();
        while !enough(&log) {
            let Some(left) = deadline.left() else {
                panic!(
                    "origin {self} waited in vain for {what}: {} connections, {} requests, failures {:?}",
                    log.connections,
                    log.requests.len(),
                    log.failures
                );
            };
            (log, _) = self.shared.changed.wait_timeout(log, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes the failures noted so far, so that dropping the origin does not fail the test: for peers that are cut on purpose.
    #[must_use]
    pub fn take_failures(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.lock().failures)
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, change: impl FnOnce(&mut Log)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

fn accept_all(
    listener: &TcpListener,
    plan: &Arc<Plan>,
    tls: Option<&Arc<rustls::ServerConfig>>,
    shared: &Arc<Shared>,
) {
    for (nth, tcp) in listener.incoming().enumerate() {
        let Ok(tcp) = tcp else { continue };
        if shared.stopping.load(Ordering::Acquire) {
            return;
        }
        shared.note(|log| log.connections += 1);
        let (plan, tls, shared) = (Arc::clone(plan), tls.cloned(), Arc::clone(shared));
        std::thread::spawn(move || {
            let (outcome, wire) = match plan.of(nth) {
                Some(script) => serve(script, tcp, tls, &shared),
                None => {
                    let why = format!("connection {} was not expected", nth + 1);
                    (Outcome::Failed(why), Wire::plain(tcp).ok())
                }
            };
            // Who waits for the end of a script finds its connection closed; a failure is noted before its peer can see the end.
            let _open_until_noted = wire.filter(|_| !matches!(outcome, Outcome::Done));
            shared.note(|log| match outcome {
                Outcome::Done => log.completed += 1,
                Outcome::Idle => {}
                Outcome::Failed(why) => log.failures.push(why),
            });
        });
    }
}

fn serve(
    script: &Script,
    tcp: TcpStream,
    tls: Option<Arc<rustls::ServerConfig>>,
    shared: &Shared,
) -> (Outcome, Option<Wire>) {
    let wire: io::Result<Wire> = match tls {
        None => Wire::plain(tcp),
        Some(config) => tls::accept(tcp, config),
    };
    match wire {
        Ok(wire) => script::play(script, wire, |r| shared.note(|log| log.requests.push(r))),
        Err(e) => (Outcome::Failed(format!("no TLS with the proxy: {e}")), None),
    }
}

impl Address for Origin {
    fn address(&self) -> SocketAddr {
        self.address
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        // Wakes the accepting thread, which then sees the flag and lets the port go.
        let _ = TcpStream::connect(self.address);
        let failures = std::mem::take(&mut self.shared.lock().failures);
        if !failures.is_empty() && !std::thread::panicking() {
            panic!("origin {}: {}", self.address, failures.join("\n"));
        }
    }
}
