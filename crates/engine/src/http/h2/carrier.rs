//! The task of a connection: it reads and writes for all streams.
//!
//! Owns: the socket, its buffers, the timers of the connection; which requests begin, and when the connection ends.
//! Never: answers a request; each has a task of its own.
//! Driven by: `entry::accept` where ALPN agreed on `h2`, [`crate::http::connection`] where a connection begins with the preface.
//! Why one task for both directions: what is read makes output (windows, acknowledgements), and a client that does not read is
//! not listened to either.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_http::Version;
use weir_plan::Service;
use weir_rt::{Buf, Instant, MEDIUM, Timer};
use weir_wire::Conn;
use weir_wire::h2::{Config, Connection, Event, HeadKind, Reason, Role, StreamKey};

use super::lane::H2Lane;
use super::mux::Mux;
use crate::exchange::{Client, Exchange};
use crate::http::head;
use crate::http::idle::Idle;
use crate::http::request;
use crate::http::stream::{self, Stream};
use crate::worker::connection_counts::CountedConnection;
use crate::worker::race::{Either, race};
use crate::worker::{Installed, Worker};

/// So long a client has to hear that the connection will end, and to answer that it has.
const NOTICE: Duration = Duration::from_secs(1);

/// What is read and dropped at the end lasts no longer.
const LINGER: Duration = Duration::from_secs(2);

/// Serves a connection until it closes. `ahead` is what was read of it already.
pub(crate) async fn serve(
    worker: Rc<Worker>,
    counted: CountedConnection,
    conn: Conn,
    client: Rc<Client>,
    timer: Timer,
    ahead: Buf,
) {
    let Some(mut carrier) = Carrier::new(&worker, conn, client, timer, ahead) else { return };
    let mut leaving = false;
    let end = loop {
        let turn = poll_fn(|cx| carrier.poll(cx));
        if leaving {
            break turn.await;
        }
        match race(turn, worker.draining.wait()).await {
            Either::Left(end) => break end,
            Either::Right(()) => {
                leaving = true;
                carrier.announce_end();
            }
        }
    };
    carrier.mux.lose_all();
    if end == End::Said {
        carrier.linger().await;
    }
    drop(counted);
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// All that was to be said was written.
    Said,
    /// The client closed, failed, or takes nothing.
    Broken,
}

struct Carrier {
    worker: Rc<Worker>,
    client: Rc<Client>,
    mux: Rc<Mux>,
    conn: Conn,
    timer: Timer,
    input: Buf,
    /// Whether there may be whole frames in it.
    untaken: bool,
    /// Being written.
    output: Buf,
    /// Since when the client takes nothing of it.
    stuck: Option<Instant>,
    send_timeout: Duration,
    /// Since when no stream lives.
    idle: Option<Idle>,
    /// When streams that begin are not answered any more, once that was announced.
    last_call: Option<Instant>,
}

/// What an end was announced with.
const END_TOKEN: u64 = u64::from_be_bytes(*b"weir-end");

impl Carrier {
    fn new(worker: &Rc<Worker>, conn: Conn, client: Rc<Client>, timer: Timer, ahead: Buf) -> Option<Self> {
        let (installed, ix, _) = worker.for_listener(client.listener)?;
        let listener = installed.plan.listener(ix);
        let Service::Http(hosts) = &listener.service else { return None };
        let site = installed.plan.site(hosts.default_value());
        let settings = &site.client;
        let config = Config {
            max_streams: settings.http2_streams,
            max_head: u32::try_from(head::most_of_list(listener)).unwrap_or(u32::MAX),
            tells_malformed: site.conduct.answers_malformed,
            ..Config::default()
        };
        let idle = Idle::new(worker, settings.header_timeout);
        Some(Self {
            worker: worker.clone(),
            mux: Rc::new(Mux::new(Connection::new(Role::Server, config))),
            client,
            conn,
            timer,
            untaken: !ahead.is_empty(),
            input: ahead,
            output: Buf::new(),
            stuck: None,
            send_timeout: settings.send_timeout,
            idle: Some(idle),
            last_call: None,
        })
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        self.mux.carried_now();
        loop {
            let Ok(wrote) = self.write(cx) else { return Poll::Ready(End::Broken) };
            let read = match self.read(cx) {
                Ok(read) => read,
                Err(end) => return Poll::Ready(end),
            };
            if wrote || read {
                continue;
            }
            let said = self.output.is_empty() && !self.mux.wire.borrow().has_output();
            if said && self.mux.wire.borrow().is_over() {
                return Poll::Ready(End::Said);
            }
            self.note_idle();
            match self.poll_due(cx) {
                Poll::Ready(None) => {}
                Poll::Ready(Some(end)) => return Poll::Ready(end),
                Poll::Pending => {
                    self.mux.carried_by(cx.waker());
                    return Poll::Pending;
                }
            }
        }
    }

    /// Writes what there is. True: something was written, and more may be.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, ()> {
        if self.output.is_empty() {
            self.output = self.mux.wire.borrow_mut().output().take();
            if self.output.is_empty() {
                return Ok(false);
            }
        }
        let before = self.output.len();
        match self.conn.poll_write_all(cx, &mut self.output) {
            Poll::Ready(Ok(())) => {
                self.output.clear();
                self.stuck = None;
                self.mux.tell_room();
                Ok(true)
            }
            Poll::Ready(Err(_)) => Err(()),
            Poll::Pending => {
                if self.output.len() < before || self.stuck.is_none() {
                    self.stuck = Some(self.worker.now());
                }
                Ok(false)
            }
        }
    }

    /// Reads what there is. True: something was read, and there may be more.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        {
            let wire = self.mux.wire.borrow();
            if wire.is_congested() || wire.is_over() {
                return Ok(false);
            }
        }
        if !self.untaken {
            match self.conn.poll_read(cx, &mut self.input, MEDIUM) {
                Poll::Ready(Ok(0) | Err(_)) => return Err(End::Broken),
                Poll::Ready(Ok(_)) => self.untaken = true,
                Poll::Pending => return Ok(false),
            }
        }
        let turn = pin!(weir_rt::fair()).poll(cx);
        if turn.is_ready() {
            self.take_in(cx);
        }
        Ok(turn.is_ready())
    }

    /// Hands out what was read, as long as it is this task's turn and what it leads to can be written: requests begin when
    /// they can be answered, and use the memory of those before.
    fn take_in(&mut self, cx: &mut Context<'_>) {
        let now = self.worker.now();
        self.untaken = false;
        loop {
            if self.mux.wire.borrow().is_congested() || pin!(weir_rt::fair()).poll(cx).is_pending() {
                self.untaken = true;
                break;
            }
            let received = self.mux.wire.borrow_mut().receive(&self.input, now);
            // After a fault of the client's the output says why, and the connection is over.
            let Ok(received) = received else { return self.input.clear() };
            match received.event {
                Some(event) => self.handle(event),
                None => {
                    self.input.consume(received.used);
                    break;
                }
            }
            self.input.consume(received.used);
        }
        self.mux.tell_room();
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Head { stream, kind: HeadKind::Request, end } => self.begin(stream, end, None),
            Event::TooLarge { stream, end } => self.begin(stream, end, Some(431)),
            Event::Malformed { stream, end } => self.begin(stream, end, Some(400)),
            Event::Data { stream, range, end } => self.mux.put(stream, &self.input[range], end),
            Event::Trailers { stream } => self.mux.put_trailers(stream),
            Event::Reset { stream, .. } => self.mux.lose(stream),
            Event::Pong(END_TOKEN) => self.mux.wire.borrow_mut().go_away(Reason::NO_ERROR),
            Event::Head { .. } | Event::Settings | Event::GoAway { .. } | Event::Pong(_) => {}
        }
    }

    /// Begins a request, whose head may have been refused with a status.
    fn begin(&mut self, key: StreamKey, end: bool, refused: Option<u16>) {
        self.idle = None;
        let found = self.worker.for_listener(self.client.listener);
        let Some((installed, ix, last)) = found else {
            return self.mux.reset(key, Reason::REFUSED_STREAM);
        };
        let listener = installed.plan.listener(ix);
        let Service::Http(hosts) = &listener.service else {
            return self.mux.reset(key, Reason::REFUSED_STREAM);
        };
        let mut exchange = head::begin(&self.worker, &installed, hosts, &self.client);
        exchange.times.head = Some(Duration::ZERO);
        exchange.request.version = Version::Http2;
        self.client.requests.set(self.client.requests.get() + 1);
        let verdict = {
            let wire = self.mux.wire.borrow();
            let rules = (&listener.heads, listener.heads_differ);
            match refused {
                Some(status) => Err(status),
                None => request::take(&mut exchange, Version::Http2, wire.head(), end, hosts, rules),
            }
        };
        // As nginx counts it: what arrived, not what it stands for.
        exchange.request.bytes = self.mux.wire.borrow().block_length() as u64;
        if let Some(tls) = &listener.tls {
            exchange.handshake_refusal = crate::admission::access::certificate(&exchange, ix, tls);
        }
        // Another connection is another handshake: this one has nothing more to give.
        let unwelcome = exchange.handshake_refusal == Some(421);
        if unwelcome {
            self.mux.wire.borrow_mut().go_away(Reason::NO_ERROR);
        } else if last || self.is_last(&installed, &exchange) {
            self.announce_end();
        }
        let inbox = self.mux.begin(key, end);
        let stream = Stream::new(H2Lane { mux: self.mux.clone(), inbox }, exchange.request.expects_continue);
        // Most answers are made without a wait: each then uses the memory that the one before has left.
        let worker = self.worker.clone();
        weir_rt::start(|| stream::serve(worker, exchange, stream, verdict));
    }

    /// Whether the connection has served its time with this request.
    fn is_last(&self, installed: &Installed, exchange: &Exchange) -> bool {
        let settings = &installed.plan.site(exchange.site).client;
        self.client.has_served_its_time(settings, self.worker.now()) || self.worker.is_leaving()
    }

    /// Says that the connection will end: what the client has sent before it hears is answered.
    fn announce_end(&mut self) {
        let wire = &mut *self.mux.wire.borrow_mut();
        if !wire.is_ending() {
            wire.announce_end();
            wire.ping(END_TOKEN);
            self.last_call = Some(self.worker.now() + NOTICE);
        }
    }

    /// Notes whether the connection has become idle.
    fn note_idle(&mut self) {
        if self.idle.is_some() || self.mux.wire.borrow().streams() > 0 {
            return;
        }
        self.idle = Some(Idle::between(&self.worker, &self.client));
        self.mux.wire.borrow_mut().idle();
        if self.input.is_empty() {
            self.input.release();
        }
        if self.output.is_empty() {
            self.output.release();
        }
    }

    /// Waits for what is due next, and does it: an end, or `None` and the output has grown.
    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<Option<End>> {
        let stuck = self.stuck.map(|since| since + self.send_timeout);
        let idle = self.idle.as_ref().map(Idle::due);
        let Some(due) = [stuck, idle, self.last_call].into_iter().flatten().min() else {
            self.timer.disarm();
            return Poll::Pending;
        };
        let now = self.worker.now();
        if due > now {
            self.timer.arm_at(due);
            if self.timer.poll_expired(cx).is_pending() {
                return Poll::Pending;
            }
        }
        if stuck.is_some_and(|at| at <= now) {
            return Poll::Ready(Some(End::Broken));
        }
        if idle.is_some_and(|at| at <= now) || self.last_call.is_some_and(|at| at <= now) {
            self.last_call = None;
            if let Some(idle) = &mut self.idle {
                // It is ending now; what the client takes of that is measured by the time for writing.
                idle.wait = self.send_timeout;
                idle.since = now;
            }
            self.mux.wire.borrow_mut().go_away(Reason::NO_ERROR);
        }
        Poll::Ready(None)
    }

    /// Sends FIN, then reads and drops what the client still sends, so that what was said is not lost to a reset.
    async fn linger(&mut self) {
        self.timer.arm(LINGER);
        let (conn, input, timer) = (&self.conn, &mut self.input, &self.timer);
        let dropped = async {
            if conn.shutdown_write().await.is_err() {
                return;
            }
            loop {
                input.clear();
                match conn.read_up_to(input, MEDIUM).await {
                    Ok(read) if read > 0 => {}
                    _ => return,
                }
            }
        };
        let _ = timer.run(dropped).await;
    }
}
