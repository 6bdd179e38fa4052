//! The task of a connection: it polls the transport, and begins requests.
//!
//! Owns: streams of one direction, the timers of the connection; which requests begin, and when the connection ends.
//! Never: answers a request; each has a task of its own.
//! Driven by: `entry::quic`, for each connection that a client begins.

use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_http::Version;
use weir_plan::Service;
use weir_rt::{Buf, Instant, MEDIUM, QuicConnection, QuicEvent, QuicRead, Timer};
use weir_wire::h3::{self, Code, Fault, Item, OneWay, Opened};

use super::half::{Half, Mux};
use super::lane::H3Lane;
use crate::exchange::Client;
use crate::http::idle::Idle;
use crate::http::stream::{self, Stream};
use crate::http::{head, request};
use crate::worker::Worker;
use crate::worker::connection_counts::CountedConnection;
use crate::worker::race::{Either, race};

/// So long a client has to hear that the connection will end.
const NOTICE: Duration = Duration::from_secs(1);
/// A stream that no client opens: all before it are answered.
const LAST_STREAM: u64 = (1 << 62) - 4;
/// What a client may do that leads to nothing, at once and each second: streams that it takes back, streams and frames that
/// nobody knows.
const IDLE_WORK: (u32, u32) = (200, 20);

/// Serves a connection whose handshake is complete, until it is over.
pub(crate) async fn serve(
    worker: Rc<Worker>,
    counted: CountedConnection,
    quic: QuicConnection,
    client: Rc<Client>,
    timer: Timer,
) {
    let Some(mut carrier) = Carrier::new(&worker, quic, client, timer) else { return };
    let mut leaving = false;
    loop {
        let turn = poll_fn(|cx| carrier.poll(cx));
        if leaving {
            turn.await;
            break;
        }
        match race(turn, worker.draining.wait()).await {
            Either::Left(()) => break,
            Either::Right(()) => {
                leaving = true;
                carrier.announce_end();
            }
        }
    }
    drop(carrier);
    drop(counted);
}

struct Carrier {
    worker: Rc<Worker>,
    client: Rc<Client>,
    mux: Rc<Mux>,
    timer: Timer,
    /// Streams of one direction, with what of them is not whole yet.
    one_way: HashMap<u64, (OneWay, Buf)>,
    opened: Opened,
    /// Our control stream.
    own_stream: Option<u64>,
    max_list: usize,
    /// The stream behind the last one that was begun.
    next_stream: u64,
    idle: Option<Idle>,
    last_call: Option<Instant>,
    /// Streams from here on are not looked at.
    refused_from: Option<u64>,
    idle_work: (u32, Option<Instant>),
    closed: bool,
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.mux.lose_all();
    }
}

impl Carrier {
    fn new(worker: &Rc<Worker>, quic: QuicConnection, client: Rc<Client>, timer: Timer) -> Option<Self> {
        let (installed, ix, _) = worker.for_listener(client.listener)?;
        let listener = installed.plan.listener(ix);
        let Service::Http(hosts) = &listener.service else { return None };
        let settings = &installed.plan.site(hosts.default_value()).client;
        let max_list = head::most_of_list(listener);
        let own_stream = quic.open_one_way();
        if let Some(control) = own_stream {
            let mut bytes = Vec::new();
            h3::settings(&mut bytes, max_list as u64);
            let _ = quic.write(control, &bytes);
        }
        Some(Self {
            worker: worker.clone(),
            mux: Rc::new(Mux { quic, halves: Default::default(), live: Default::default() }),
            client,
            timer,
            one_way: HashMap::new(),
            opened: Opened::default(),
            own_stream,
            max_list,
            next_stream: 0,
            idle: Some(Idle::new(worker, settings.header_timeout)),
            last_call: None,
            refused_from: None,
            idle_work: (IDLE_WORK.0, None),
            closed: false,
        })
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            while let Poll::Ready(event) = self.mux.quic.poll(cx) {
                match event {
                    QuicEvent::Over => return Poll::Ready(()),
                    QuicEvent::Lost(_) => {
                        self.closed = true;
                        self.mux.lose_all();
                    }
                    event if !self.closed => self.handle(event),
                    _ => {}
                }
            }
            if self.closed {
                return Poll::Pending;
            }
            self.note_idle();
            match self.poll_due(cx) {
                Poll::Pending => return Poll::Pending,
                // Something was said: it is to be sent.
                Poll::Ready(()) => {}
            }
        }
    }

    fn handle(&mut self, event: QuicEvent) {
        match event {
            QuicEvent::Opened(0) => {
                while let Some(id) = self.mux.quic.accept_request() {
                    self.open(id);
                }
            }
            QuicEvent::Opened(_) => {
                while let Some(id) = self.mux.quic.accept_one_way() {
                    self.one_way.insert(id, (OneWay::default(), Buf::new()));
                    self.read_one_way(id);
                }
            }
            // The second bit: of one direction (RFC 9000 §2.1).
            QuicEvent::Readable(id) if id & 2 != 0 => self.read_one_way(id),
            QuicEvent::Readable(id) => {
                if let Some(half) = self.find(id) {
                    match half.begun.get() {
                        true => half.wake(),
                        false => self.read_head(half),
                    }
                }
            }
            QuicEvent::Writable(id) => {
                if let Some(half) = self.find(id) {
                    // Whoever waits notices what is wrong.
                    let _ = half.flush(&self.mux);
                    half.wake();
                }
            }
            QuicEvent::Stopped(id) => {
                self.count_idle_work();
                self.mux.quic.reset(id, Code::NO_ERROR.0);
                if Some(id) == self.own_stream {
                    return self.close(Code::CLOSED_CRITICAL_STREAM);
                }
                if let Some(half) = self.find(id) {
                    half.lose();
                    self.forget(&half);
                }
            }
            QuicEvent::Finished(id) => {
                if let Some(half) = self.find(id) {
                    self.forget(&half);
                }
            }
            QuicEvent::Connected | QuicEvent::Lost(_) | QuicEvent::Over => {}
        }
    }

    fn find(&self, id: u64) -> Option<Rc<Half>> {
        self.mux.halves.borrow().get(&id).cloned()
    }

    /// Nothing more happens to a stream, unless its exchange is still under way.
    fn forget(&self, half: &Half) {
        if half.closed.get() {
            self.mux.halves.borrow_mut().remove(&half.id);
        }
    }

    /// Counts what leads to nothing; too much of it ends the connection.
    fn count_idle_work(&mut self) {
        let now = self.worker.now();
        let (left, at) = &mut self.idle_work;
        let passed = at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at)).as_secs();
        if passed > 0 || at.is_none() {
            let earned = u32::try_from(passed).unwrap_or(u32::MAX).saturating_mul(IDLE_WORK.1);
            *left = left.saturating_add(earned).min(IDLE_WORK.0);
            *at = Some(now);
        }
        match left.checked_sub(1) {
            Some(rest) => *left = rest,
            None => self.close(Code::EXCESSIVE_LOAD),
        }
    }

    fn close(&mut self, code: Code) {
        self.closed = true;
        self.mux.quic.close(code.0, "");
        self.mux.lose_all();
    }

    fn read_one_way(&mut self, id: u64) {
        // Taken out while it is read: what it says may end the connection.
        let Some((mut stream, mut input)) = self.one_way.remove(&id) else { return };
        while !self.closed {
            let told = match self.mux.quic.read(id, &mut input, MEDIUM) {
                Ok(QuicRead::Some(_)) => stream.read(&mut input, &mut self.opened),
                Ok(QuicRead::Nothing) => {
                    self.one_way.insert(id, (stream, input));
                    return;
                }
                Ok(QuicRead::End(_)) | Err(_) => {
                    // Its kind may stand in what was read just now.
                    if let Err(fault) = stream.read(&mut input, &mut self.opened) {
                        return self.fault(id, fault);
                    }
                    return match stream.end() {
                        Ok(()) => self.count_idle_work(),
                        Err(fault) => self.fault(id, fault),
                    };
                }
            };
            match told {
                Err(fault) => return self.fault(id, fault),
                Ok(frames) if frames.unknown => {
                    self.mux.quic.stop(id, Code::STREAM_CREATION_ERROR.0);
                    return self.count_idle_work();
                }
                // Settings and a few priorities are what every client sends.
                Ok(frames) => {
                    for _ in 0..frames.count.min(IDLE_WORK.0 + 1) {
                        if !self.closed {
                            self.count_idle_work();
                        }
                    }
                }
            }
        }
    }

    fn fault(&mut self, id: u64, fault: Fault) {
        match fault {
            Fault::Connection(code) => self.close(code),
            Fault::Stream(_) => self.mux.fault(id, fault),
        }
    }

    fn open(&mut self, id: u64) {
        if self.refused_from.is_some_and(|from| id >= from) {
            return self.mux.fault(id, Fault::Stream(Code::REQUEST_REJECTED));
        }
        self.next_stream = self.next_stream.max(id + 4);
        let half = Rc::new(Half::new(id, self.max_list));
        self.mux.halves.borrow_mut().insert(id, half.clone());
        self.read_head(half);
    }

    /// Reads the head of a request, and begins it once it is whole.
    fn read_head(&mut self, half: Rc<Half>) {
        let mut body = Buf::new();
        match half.read(&self.mux, &mut body) {
            Ok(Some(Item::TooLarge)) => self.begin(half, true),
            Ok(Some(_)) => self.begin(half, false),
            Ok(None) => {}
            Err(_) => {
                half.closed.set(true);
                self.forget(&half);
                // Taken back, or malformed: our side ends as well.
                self.mux.quic.reset(half.id, Code::REQUEST_INCOMPLETE.0);
                self.count_idle_work();
            }
        }
    }

    /// Begins a request.
    fn begin(&mut self, half: Rc<Half>, too_large: bool) {
        self.idle = None;
        let found = self.worker.for_listener(self.client.listener);
        let Some((installed, ix, last)) = found else {
            return self.mux.fault(half.id, Fault::Stream(Code::REQUEST_REJECTED));
        };
        let listener = installed.plan.listener(ix);
        let Service::Http(hosts) = &listener.service else {
            return self.mux.fault(half.id, Fault::Stream(Code::REQUEST_REJECTED));
        };
        let mut exchange = head::begin(&self.worker, &installed, hosts, &self.client);
        exchange.times.head = Some(Duration::ZERO);
        self.client.requests.set(self.client.requests.get() + 1);
        let verdict = match too_large {
            true => Err(431),
            false => {
                let end = half.has_no_body(&self.mux);
                let reader = half.reader.borrow();
                let rules = (&listener.heads, listener.heads_differ);
                request::take(&mut exchange, Version::Http3, reader.head(), end, hosts, rules)
            }
        };
        if let Some(tls) = &listener.tls {
            exchange.handshake_refusal = crate::admission::access::certificate(&exchange, ix, tls);
        }
        let settings = &installed.plan.site(exchange.site).client;
        let served = self.client.has_served_its_time(settings, self.worker.now());
        // Another connection is another handshake: this one has nothing more to give.
        if last || served || self.worker.is_leaving() || exchange.handshake_refusal == Some(421) {
            self.announce_end();
        }
        let stream = Stream::new(H3Lane::new(&self.mux, half), exchange.request.expects_continue);
        let worker = self.worker.clone();
        weir_rt::start(|| stream::serve(worker, exchange, stream, verdict));
    }

    /// Says that the connection will end: what the client has sent before it hears is answered.
    fn announce_end(&mut self) {
        if self.last_call.is_none() && self.refused_from.is_none() {
            self.go_away(LAST_STREAM);
            self.last_call = Some(self.worker.now() + NOTICE);
        }
    }

    fn go_away(&self, stream: u64) {
        let Some(control) = self.own_stream else { return };
        let mut bytes = Vec::new();
        h3::goaway(&mut bytes, stream);
        let _ = self.mux.quic.write(control, &bytes);
        self.mux.quic.call();
    }

    /// Notes whether the connection has become idle.
    fn note_idle(&mut self) {
        if self.idle.is_some() || self.mux.live.get() > 0 {
            return;
        }
        self.idle = Some(Idle::between(&self.worker, &self.client));
    }

    /// Waits for what is due next, and does it.
    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // What was answered is to arrive before the connection ends.
        let quiet = self.mux.live.get() == 0 && self.mux.halves.borrow().is_empty();
        if quiet && self.refused_from.is_some() {
            self.close(Code::NO_ERROR);
            return Poll::Ready(());
        }
        let idle = self.idle.as_ref().map(Idle::due);
        let Some(due) = [idle, self.last_call].into_iter().flatten().min() else {
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
        if self.last_call.is_some_and(|at| at <= now) {
            self.last_call = None;
            self.refused_from = Some(self.next_stream);
            self.go_away(self.next_stream);
        }
        if idle.is_some_and(|at| at <= now) {
            self.go_away(self.next_stream);
            self.close(Code::NO_ERROR);
        }
        Poll::Ready(())
    }
}
