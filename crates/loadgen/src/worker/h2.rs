//! A connection that speaks HTTP/2, with several requests under way.
//!
//! Owns: which unit is on which stream, what a server's resets and farewells mean for them.
//! Never: makes a task of a stream: one task a connection does what its streams do, so that requests that become possible
//! in one wake-up leave in one write.
//! Driven by: the runtime, as one task a slot; `wire::h2` has the protocol.
//!
//! ```text
//!   bytes read ─> events ─> units done ─> streams free ─> units due ─> requests ─> one write
//! ```

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use weir_rt::{Buf, Conn, LARGE};
use weir_wire::h2::{Allowance, Config, Connection, Event, HeadKind, Reason, Role, StreamKey};

use super::link::Link;
use super::state::Worker;
use super::unit::{self, Failure, Unit};
use crate::pace::NEVER;
use crate::plan::Origin;
use crate::report::{Cause, Work};

/// As h2load's: the generator is not to be what a download waits for.
const WINDOW: u32 = (1 << 30) - 1;
/// How often a unit that a server refuses is tried again at once, before it counts as reset.
const TRIES: u8 = 3;

/// Reads in a row, before other connections have their turn.
const ROUNDS: usize = 16;

/// What a generator allows: servers are not suspected of attacks, but nothing is without bound.
fn config() -> Config {
    Config {
        stream_window: WINDOW,
        connection_window: WINDOW,
        chatter: Allowance { burst: 100_000, per_second: 100_000 },
        ..Config::default()
    }
}

/// A unit on its stream.
struct Flight {
    key: StreamKey,
    unit: Unit,
    shot: usize,
    /// Bytes of its body that were sent.
    sent: usize,
    status: u16,
    /// The code of a gRPC call, once it is known.
    code: Option<u8>,
    tries: u8,
}

/// A unit that is to be sent, again perhaps.
struct Ready {
    unit: Unit,
    shot: usize,
    tries: u8,
}

/// Why a connection is no longer used.
enum End {
    /// It was agreed upon: nothing is lost.
    Agreed,
    /// All that was to be asked has been answered.
    Spent,
    /// It broke off, and took what was under way with it.
    Broken(Failure),
}

/// What outlives a connection.
struct Lane {
    link: Link,
    ready: VecDeque<Ready>,
    /// Whether the slot's moment is waited for.
    armed: bool,
}

/// One connection in use.
struct Session {
    io: Conn,
    wire: Connection,
    flights: Vec<Option<Flight>>,
    flying: usize,
    /// How many more requests it may take.
    left: u64,
    /// Bytes that were read and could not be used yet: a piece of a frame.
    carry: Buf,
    /// Whether something is on its way out that the socket did not take.
    writing: bool,
    /// Since when there is a free stream.
    free: u64,
}

/// The whole life of a slot.
pub(super) async fn run(worker: Rc<Worker>, local: u32, slot: u32) {
    let mut lane =
        Lane { link: Link::new(&worker, local, slot, false), ready: VecDeque::new(), armed: false };
    let keeps = worker.keeps_connections();
    let opened = (keeps || local == 0) && lane.link.open(&worker).await;
    if !keeps {
        lane.link.drop_conn();
    }
    worker.ready(opened).await;
    // The clock of the load begins with its first wake-up.
    worker.pace().wait(local, 1).await;
    let mut free = worker.now();
    loop {
        if !keeps {
            let Some(due) = unit::next(&worker, local, &mut free).await else { return worker.slot_ended() };
            let begun = worker.now();
            let (from, phase) = due.map_or((begun, None), |due| (due.at, Some(due.phase)));
            unit::set_since(&worker, local, from);
            lane.ready.push_back(Ready {
                unit: Unit { phase, from, sent: begun },
                shot: lane.link.next_shot(&worker),
                tries: 0,
            });
        }
        loop {
            lane.link.pause().await;
            if lane.link.open(&worker).await {
                break;
            }
            // Where requests are counted, one that finds nobody is one of them.
            if worker.counts_down() && give_up_one(&worker, &mut lane) {
                break;
            }
        }
        if worker.counts_down() && lane.link.conn.is_none() {
            if keeps {
                return worker.slot_ended();
            }
            unit::set_since(&worker, local, NEVER);
            continue;
        }
        let Some(io) = lane.link.conn.clone() else { continue };
        let mut session = Session::new(io, &worker);
        let end = poll_fn(|cx| session.poll(cx, &worker, &mut lane)).await;
        let lost = session.flying;
        let cut = session.land(&worker, local);
        drop(session);
        unit::set_since(&worker, local, NEVER);
        match end {
            End::Spent => return worker.slot_ended(),
            End::Agreed if keeps => {
                worker.count(|tally| tally.connections.closed_by_server += 1);
                lane.link.farewell().await;
            }
            // It was ours to close. Without a reset the ports would soon be used up by their last minutes.
            End::Agreed => {
                if let Some(conn) = lane.link.conn.take() {
                    conn.abort();
                }
                lane.link.drop_conn();
            }
            End::Broken(Failure::Read(_)) if lost == 0 => {
                worker.count(|tally| tally.connections.closed_by_server += 1);
                // One that never did anything is none to be opened again at once.
                if lane.link.served == 0 {
                    lane.link.failed();
                }
                lane.link.drop_conn();
            }
            End::Broken(failure) => {
                // Answers that had begun were cut.
                let cut = if failure == Failure::Read(Cause::ClosedEarly) { cut } else { 0 };
                for _ in 0..cut {
                    unit::count_failure(&worker, Failure::Read(Cause::Truncated));
                }
                for _ in cut..lost.max(1) {
                    unit::count_failure(&worker, failure);
                }
                lane.link.failed();
            }
        }
        free = worker.now();
    }
}

/// One unit of a slot fails, because no connection could be opened; whether the slot need not try again for the next.
fn give_up_one(worker: &Worker, lane: &mut Lane) -> bool {
    if lane.ready.pop_front().is_some() {
        return lane.ready.is_empty() && (!worker.keeps_connections() || worker.is_spent(lane.link.local));
    }
    if worker.plan.schedule.is_open() {
        unit::advance(worker, lane.link.local);
    } else {
        worker.take_one();
    }
    worker.is_spent(lane.link.local)
}

impl Session {
    fn new(io: Conn, worker: &Worker) -> Self {
        let keeps = worker.keeps_connections();
        Self {
            io,
            wire: Connection::new(Role::Client, config()),
            flights: (0..worker.streams()).map(|_| None).collect(),
            flying: 0,
            left: if keeps { u64::MAX } else { 1 },
            carry: Buf::new(),
            writing: true,
            free: worker.now(),
        }
    }

    /// Does what can be done, and waits for the socket or for the slot's next moment.
    fn poll(&mut self, cx: &mut Context<'_>, worker: &Worker, lane: &mut Lane) -> Poll<End> {
        for _ in 0..ROUNDS {
            let read = match self.read(cx, worker, lane) {
                Ok(read) => read,
                Err(failure) => {
                    // What is to be said is said as far as the socket takes it at once.
                    let _ = self.write(cx, worker);
                    return Poll::Ready(End::Broken(failure));
                }
            };
            self.fill(worker, lane);
            self.send_bodies(lane.link.origin(worker));
            if let Err(error) = self.write(cx, worker) {
                return Poll::Ready(End::Broken(Failure::Write(Cause::of(&error))));
            }
            if self.flying == 0 && (self.wire.is_over() || (self.left == 0 && lane.ready.is_empty())) {
                return Poll::Ready(End::Agreed);
            }
            if self.flying == 0
                && worker.counts_down()
                && worker.keeps_connections()
                && lane.ready.is_empty()
                && worker.is_spent(lane.link.local)
            {
                return Poll::Ready(End::Spent);
            }
            if !read && !self.is_due(cx, worker, lane) {
                return Poll::Pending;
            }
        }
        // Others of this thread have their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether the slot's next moment has come; if not, it is waited for. Only where a stream is free.
    fn is_due(&self, cx: &mut Context<'_>, worker: &Worker, lane: &mut Lane) -> bool {
        if !worker.plan.schedule.is_open() || !self.has_room(worker) || self.left == 0 {
            return false;
        }
        let local = lane.link.local;
        if !lane.armed {
            let Some(due) = unit::upcoming(worker, local) else { return false };
            if due.at <= worker.now() {
                return true;
            }
            worker.pace().begin(local, due.at);
            lane.armed = true;
        }
        let over = worker.pace().poll(local, cx).is_ready();
        lane.armed = !over;
        over
    }

    fn has_room(&self, worker: &Worker) -> bool {
        self.flying < worker.streams() && self.wire.may_open() > 0
    }

    /// Reads once, and takes it in; whether there may be more.
    fn read(&mut self, cx: &mut Context<'_>, worker: &Worker, lane: &mut Lane) -> Result<bool, Failure> {
        if self.wire.is_congested() || self.io.poll_readable(cx).is_pending() {
            return Ok(false);
        }
        let mut carry = self.carry.take();
        let mut scratch = worker.scratch.borrow_mut();
        scratch.clear();
        let buf = if carry.is_empty() { &mut *scratch } else { &mut carry };
        let before = buf.len();
        match self.io.try_read_up_to(buf, LARGE - before) {
            Ok(None) => {
                self.carry = carry;
                // Not ready after all; the next look at it leaves the waker.
                return Ok(true);
            }
            Ok(Some(0)) => return Err(Failure::Read(Cause::ClosedEarly)),
            Err(error) => return Err(Failure::Read(Cause::of(&error))),
            Ok(Some(read)) => worker.count(|tally| tally.bytes.received += read as u64),
        }
        let taken = self.take_in(buf, worker, lane);
        let used = taken?;
        if carry.is_empty() {
            let rest = &scratch[used..];
            if !rest.is_empty() {
                self.carry.extend(rest);
            }
        } else {
            carry.consume(used);
            if carry.is_empty() {
                carry.release();
            }
            self.carry = carry;
        }
        Ok(true)
    }

    /// How many of the bytes are done with.
    fn take_in(&mut self, bytes: &[u8], worker: &Worker, lane: &mut Lane) -> Result<usize, Failure> {
        let now = weir_rt::now();
        let mut at = 0;
        loop {
            let received = self.wire.receive(&bytes[at..], now).map_err(|_| Failure::Malformed)?;
            at += received.used;
            match received.event {
                None => return Ok(at),
                Some(event) => self.take(event, worker, lane),
            }
        }
    }

    fn take(&mut self, event: Event, worker: &Worker, lane: &mut Lane) {
        match event {
            Event::Head { stream, kind, end } => {
                let status = self.wire.head().status();
                if kind == HeadKind::Response
                    && let Some(flight) = self.flight(stream)
                {
                    flight.status = status;
                }
                self.note_code(stream, worker);
                if end {
                    self.answered(stream, worker, lane);
                }
            }
            Event::Data { stream, range, end } => {
                self.wire.release(stream, range.len());
                if end {
                    self.answered(stream, worker, lane);
                }
            }
            Event::Trailers { stream } => {
                self.note_code(stream, worker);
                self.answered(stream, worker, lane);
            }
            Event::Reset { stream, reason, by_peer } => self.was_reset(stream, reason, by_peer, worker, lane),
            Event::Settings
            | Event::GoAway { .. }
            | Event::Pong(_)
            | Event::Malformed { .. }
            | Event::TooLarge { .. } => {}
        }
    }

    /// Notes the code of a gRPC call, if the head or the trailers at hand have it.
    fn note_code(&mut self, stream: StreamKey, worker: &Worker) {
        if !worker.plan.options.grpc {
            return;
        }
        let code = |value: &[u8]| std::str::from_utf8(value).ok()?.trim().parse::<u8>().ok();
        let found = self.wire.head().fields().find(|field| field.name == b"grpc-status");
        let found = found.and_then(|field| code(field.value));
        if let Some(flight) = self.flight(stream) {
            flight.code = found.or(flight.code);
        }
    }

    fn flight(&mut self, key: StreamKey) -> Option<&mut Flight> {
        self.flights.get_mut(key.slot())?.as_mut().filter(|flight| flight.key == key)
    }

    /// Takes the unit off its stream.
    fn end_flight(&mut self, key: StreamKey, worker: &Worker, lane: &Lane) -> Option<Flight> {
        self.flight(key)?;
        if !self.has_room(worker) {
            self.free = worker.now();
        }
        self.flying -= 1;
        worker.set_flight(lane.link.local, key.slot(), NEVER);
        self.flights.get_mut(key.slot())?.take()
    }

    fn answered(&mut self, key: StreamKey, worker: &Worker, lane: &mut Lane) {
        let Some(flight) = self.end_flight(key, worker, lane) else { return };
        if worker.plan.options.grpc {
            flight.unit.called(worker, flight.status, flight.code);
        } else {
            flight.unit.answered(worker, flight.status, true, None);
        }
        lane.link.succeeded();
        // The answer came before all of the body was sent: what is left of it is of no use (RFC 9113 §8.1).
        if self.wire.is_alive(key) {
            self.wire.reset(key, Reason::NO_ERROR);
        }
    }

    fn was_reset(&mut self, key: StreamKey, reason: Reason, by_peer: bool, worker: &Worker, lane: &mut Lane) {
        let Some(flight) = self.end_flight(key, worker, lane) else { return };
        if reason == Reason::REFUSED_STREAM && by_peer && flight.tries < TRIES {
            let Flight { unit, shot, tries, .. } = flight;
            // A farewell is no refusal: it says that another connection will do.
            let tries = tries + u8::from(!self.wire.is_ending());
            return lane.ready.push_back(Ready { unit, shot, tries });
        }
        if by_peer {
            worker.error(Cause::Reset, |errors| &mut errors.reset);
        } else {
            worker.error(Cause::NotHttp, |errors| &mut errors.malformed);
        }
    }

    /// Sends what is due, as long as streams are free.
    fn fill(&mut self, worker: &Worker, lane: &mut Lane) {
        while self.has_room(worker) && self.left > 0 {
            let now = worker.now();
            let ready = match lane.ready.pop_front() {
                Some(ready) => Some(ready),
                None if !worker.keeps_connections() => None,
                None => self.next_unit(worker, lane, now),
            };
            let Some(Ready { mut unit, shot, tries }) = ready else { return };
            if worker.keeps_connections() {
                unit.sent = now;
            }
            let what = &lane.link.origin(worker).streams[shot];
            let Ok(key) = self.wire.open(&what.fields, what.body.is_empty(), what.head) else {
                return lane.ready.push_front(Ready { unit, shot, tries });
            };
            worker.set_flight(lane.link.local, key.slot(), unit.from);
            self.flying += 1;
            self.left -= 1;
            let flight = Flight { key, unit, shot, sent: 0, status: 0, code: None, tries };
            if let Some(place) = self.flights.get_mut(key.slot()) {
                *place = Some(flight);
            }
            if !what.body.is_empty() {
                self.send_body(key, &what.body);
            }
        }
    }

    /// The next unit of the load, if its moment has come.
    fn next_unit(&self, worker: &Worker, lane: &mut Lane, now: u64) -> Option<Ready> {
        let schedule = &worker.plan.schedule;
        let unit = if schedule.is_open() {
            let local = lane.link.local;
            let due = unit::upcoming(worker, local).filter(|due| due.at <= now)?;
            unit::advance(worker, local);
            // What is late although a stream was free is the generator's own fault.
            let late = now.saturating_sub(due.at.max(self.free));
            worker.count_in(due.phase, |tally| tally.late(late));
            Unit { phase: Some(due.phase), from: due.at, sent: now }
        } else {
            if now >= schedule.end() || !worker.take_one() {
                return None;
            }
            Unit { phase: None, from: now, sent: now }
        };
        Some(Ready { unit, shot: lane.link.next_shot(worker), tries: 0 })
    }

    fn send_body(&mut self, key: StreamKey, body: &[u8]) {
        let Some(sent) = self.flight(key).map(|flight| flight.sent) else { return };
        if let Ok(more) = self.wire.send_data(key, &body[sent..], true)
            && let Some(flight) = self.flight(key)
        {
            flight.sent += more;
        }
    }

    /// Goes on with bodies that did not fit.
    fn send_bodies(&mut self, origin: &Origin) {
        while let Some(key) = self.wire.next_writable() {
            let Some(shot) = self.flight(key).map(|flight| flight.shot) else { continue };
            self.send_body(key, &origin.streams[shot].body);
        }
    }

    /// Writes what there is, as far as the socket takes it.
    fn write(&mut self, cx: &mut Context<'_>, worker: &Worker) -> io::Result<()> {
        while self.wire.has_output() || self.writing {
            let out = self.wire.output();
            let before = out.len();
            let written = self.io.poll_write_all(cx, out);
            let sent = (before - out.len()) as u64;
            worker.count(|tally| tally.bytes.sent += sent);
            self.writing = written.is_pending();
            match written {
                Poll::Pending => return Ok(()),
                Poll::Ready(result) => result?,
            }
        }
        Ok(())
    }

    /// Notes that nothing is under way any more; how many answers had begun.
    fn land(&mut self, worker: &Worker, local: u32) -> usize {
        let mut begun = 0;
        for flight in self.flights.iter_mut().filter_map(Option::take) {
            worker.set_flight(local, flight.key.slot(), NEVER);
            begun += usize::from(flight.status > 0);
        }
        self.flying = 0;
        begun
    }
}

impl Worker {
    /// Streams at a time on each connection.
    fn streams(&self) -> usize {
        self.plan.options.h2.unwrap_or(1) as usize
    }

    /// Notes when the unit on a stream of a slot was due; `NEVER`: there is none.
    fn set_flight(&self, local: u32, stream: usize, since: u64) {
        // While a connection is its unit's own, the slot's standing tells.
        if self.plan.work == Work::NewConnections {
            return;
        }
        if let Some(flight) = self.flights.borrow_mut().get_mut(local as usize * self.streams() + stream) {
            *flight = since;
        }
    }
}
