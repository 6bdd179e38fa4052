//! The connection of one slot.
//!
//! Owns: opening it, again after a failure with growing pauses, and closing it without leaving TIME-WAIT behind.
//! Never: spins: after a failure it waits 10 ms, doubled each time, up to a second.
//! Driven by: `slot` and `h2`.

use std::time::Duration;

use weir_rt::{Buf, Conn, MEDIUM, Timer, TlsStream};

use weir_wire::h2::ALPN;

use super::messages::{Socket, upgrade};
use super::state::Worker;
use crate::answer::Reader;
use crate::dial::{Peer, dial};
use crate::plan::Origin;
use crate::report::{Cause, Work};

/// Why `--h2` cannot go on.
const NO_H2: &str = "the server does not agree on HTTP/2 (ALPN h2)";
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long a server may take to close a connection that is done.
const FAREWELL: Duration = Duration::from_secs(1);

/// One slot's connection, and what is known of its past.
pub(super) struct Link {
    /// The slot in this worker, and in the run.
    pub(super) local: u32,
    pub(super) slot: u32,
    origin: usize,
    pub(super) conn: Option<Conn>,
    pub(super) reader: Reader,
    /// The WebSocket on it, where messages are exchanged.
    pub(super) socket: Option<Box<Socket>>,
    /// Units done on this connection.
    pub(super) served: u64,
    /// Failures since the last success.
    failures: u32,
    /// Place in the origin's cycle of requests.
    turn: usize,
    timer: Timer,
}

impl Link {
    pub(super) fn new(worker: &Worker, local: u32, slot: u32, collect: bool) -> Self {
        let origin = worker.plan.slots.get(slot as usize).copied().unwrap_or_default();
        Self {
            local,
            slot,
            origin,
            conn: None,
            reader: Reader::new(collect),
            socket: None,
            served: 0,
            failures: 0,
            turn: slot as usize,
            timer: Timer::new(),
        }
    }

    pub(super) fn origin<'a>(&self, worker: &'a Worker) -> &'a Origin {
        &worker.plan.origins[self.origin]
    }

    /// Which of the origin's requests is next.
    pub(super) fn next_shot(&mut self, worker: &Worker) -> usize {
        let cycle = &self.origin(worker).cycle;
        let shot = cycle[self.turn % cycle.len()];
        self.turn = self.turn.wrapping_add(1);
        shot
    }

    /// A unit ended well.
    pub(super) fn succeeded(&mut self) {
        self.served += 1;
        self.failures = 0;
    }

    /// A unit failed: the connection is no good, and the next one waits.
    pub(super) fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.drop_conn();
    }

    /// Closes at once.
    pub(super) fn drop_conn(&mut self) {
        self.conn = None;
        self.socket = None;
        self.served = 0;
    }

    /// Makes sure that there is a connection: one attempt.
    pub(super) async fn open(&mut self, worker: &Worker) -> bool {
        if self.conn.is_some() {
            return true;
        }
        let begun = weir_rt::now();
        match self.attempt(worker).await {
            Ok((conn, socket)) => {
                let took = weir_rt::now() - begun;
                let handshake = conn.tls().map(TlsStream::resumed);
                worker.count(|tally| {
                    tally.connected(took.as_nanos() as u64);
                    match handshake {
                        Some(true) => tally.connections.resumed_handshakes += 1,
                        Some(false) => tally.connections.full_handshakes += 1,
                        None => {}
                    }
                    tally.errors.not_as_asked += u64::from(handshake == Some(true) && worker.wants_full());
                });
                self.conn = Some(conn);
                self.socket = socket;
                self.served = 0;
                true
            }
            Err(()) => {
                self.failures = self.failures.saturating_add(1);
                false
            }
        }
    }

    /// After failures, waits before the next attempt to open a connection.
    pub(super) async fn pause(&self) {
        if self.failures > 0 && self.conn.is_none() {
            let pause = FIRST_PAUSE * (1 << (self.failures - 1).min(7));
            // A few milliseconds apart, so that a server that comes back is not met by all at once.
            let apart = Duration::from_millis(u64::from(self.slot % 16));
            weir_rt::sleep(pause.min(LONGEST_PAUSE) + apart).await;
        }
    }

    async fn attempt(&self, worker: &Worker) -> Result<(Conn, Option<Box<Socket>>), ()> {
        let conn = self.connect(worker).await?;
        if worker.plan.work != Work::Messages {
            return Ok((conn, None));
        }
        self.timer.arm(worker.plan.options.timeout.max(FAREWELL));
        let upgraded = self.timer.run(upgrade(&conn, self.origin(worker), &worker.plan.options));
        let (cause, why) = match upgraded.await {
            Ok(Ok(socket)) => return Ok((conn, Some(Box::new(socket)))),
            Ok(Err(failure)) => failure,
            Err(_) => (Cause::TimedOut, "no WebSocket: no answer in time".to_owned()),
        };
        worker.error(cause, |errors| &mut errors.connect);
        worker.setup_failure(|| why);
        Err(())
    }

    async fn connect(&self, worker: &Worker) -> Result<Conn, ()> {
        let origin = self.origin(worker);
        let options = &worker.plan.options;
        let chosen = worker.script.as_ref().and_then(|script| script.control.addr()).map(Peer::Ip);
        let addr = chosen.as_ref().unwrap_or_else(|| {
            &origin.peers[(self.slot as usize + self.failures as usize) % origin.peers.len()]
        });
        self.timer.arm(options.timeout.max(FAREWELL));
        let stream = match self.timer.run(dial(addr, &options.sources, self.slot as usize)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                worker.error(Cause::of(&error), |errors| &mut errors.connect);
                worker.setup_failure(|| format!("unable to connect to {addr}: {error}"));
                return Err(());
            }
            Err(_) => {
                worker.error(Cause::TimedOut, |errors| &mut errors.connect);
                worker.setup_failure(|| format!("unable to connect to {addr}: no answer in time"));
                return Err(());
            }
        };
        let Some(tls) = worker.tls.as_ref().filter(|_| origin.target.scheme.is_encrypted()) else {
            return Ok(Conn::Plain(stream));
        };
        let (cause, failure) = match self.timer.run(tls.connect(stream, &origin.server_name)).await {
            Ok(Ok(tls)) if worker.plan.options.h2.is_some() && !tls.alpn_is(ALPN) => {
                (Cause::Other, NO_H2.to_owned())
            }
            Ok(Ok(tls)) => {
                let mut negotiated = worker.negotiated.borrow_mut();
                if negotiated.is_none() {
                    *negotiated = Some((tls.version().name().into(), tls.cipher().into(), tls.group()));
                }
                return Ok(Conn::Tls(tls));
            }
            // A server that knows ALPN says so itself.
            Ok(Err(error)) if error.to_string().contains("NoApplicationProtocol") => {
                (Cause::of(&error), format!("{NO_H2}: {error}"))
            }
            Ok(Err(error)) => (Cause::of(&error), error.to_string()),
            Err(_) => (Cause::TimedOut, "no answer in time".to_owned()),
        };
        worker.error(cause, |errors| &mut errors.tls);
        worker.setup_failure(|| format!("TLS handshake with {addr} failed: {failure}"));
        Err(())
    }

    /// Closes when the server has: whoever closes first keeps the TIME-WAIT state, and a generator would soon run out of
    /// ports. A server that does not close gets a RST in the end.
    pub(super) async fn farewell(&mut self) {
        let Some(conn) = self.conn.take() else { return };
        self.socket = None;
        self.served = 0;
        self.timer.arm(FAREWELL);
        let closed = self.timer.run(async {
            if let Conn::Tls(tls) = &conn
                && tls.close_notify().await.is_err()
            {
                return;
            }
            let mut rest = Buf::new();
            // Tickets and the like; an end, a reset or a missing close_notify are all the same here.
            while matches!(conn.read_up_to(&mut rest, MEDIUM).await, Ok(n) if n > 0) {
                rest.clear();
            }
        });
        if closed.await.is_err() {
            conn.abort();
        }
    }
}
