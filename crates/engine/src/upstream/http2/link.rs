//! A connection to an endpoint that speaks HTTP/2, while it carries one request.
//!
//! Owns: the transport, the protocol's state, what arrived of the answer, what is still to be sent of the request.
//! Never: waits for one direction while the other could go on: a turn reads, writes and sends what there is.
//! Driven by: [`Http2`](super::Http2) until the answer's head is here, `action::http2` from then on.
//! Why one request at a time on a connection: choosing, counting, retrying and keeping are then those of every protocol, one
//! slow reader holds up nobody else, and what an endpoint may cost is bounded by its connections, as in nginx.
//!
//! ```text
//!   client ── piece ──> wire::h2 ── output ──> endpoint      as the endpoint's windows allow
//!   client <── arrived ── wire::h2 <── input ── endpoint     at most a window that the client has not taken
//! ```

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_http::HeaderId;
use weir_policy::retry::Failure;
use weir_rt::{Buf, MEDIUM, Timer};
use weir_wire::h2::{self, Allowance, Config, Connection, Event, Gone, HeadKind, Reason, Role, StreamKey};
use weir_wire::{ClientConnection, Conn};

use super::MAX_INTERIMS;
use crate::exchange::fields::Fields;
use crate::exchange::{BodyPiece, Downstream, Exchange, errors, intake};
use crate::upstream::attempt::{Failed, Opened, Stop};
use crate::upstream::fastcgi::Keeping;
use crate::worker::count::Attempting;
use crate::worker::idle::Kept;

/// What an endpoint may send of one answer before the client takes it.
const WINDOW: u32 = 128 << 10;

/// Bytes of a body that is passed on as it comes, and kept for another attempt as long as there are no more of them.
const MOST_KEPT: usize = 16 << 10;

/// A connection, with one request.
pub(crate) struct Link {
    conn: Conn,
    pub(super) wire: Box<Connection>,
    pub(super) key: Option<StreamKey>,
    input: Buf,
    output: Buf,
    /// It carried a request before.
    pub(super) reused: bool,
    pub(super) upload: Upload,
    /// The final head: its status, its fields, and the length that it tells.
    pub(super) status: Option<u16>,
    /// The head was told of.
    pub(super) taken: bool,
    pub(crate) fields: Fields,
    pub(crate) length: Option<u64>,
    /// Interim heads that were not passed on yet.
    pub(super) interims: Vec<(u16, Fields)>,
    told: u32,
    /// Payload that was not taken yet.
    pub(crate) arrived: Buf,
    pub(crate) trailers: Fields,
    /// The answer is here whole.
    pub(crate) ended: bool,
    /// There will be no more of it.
    lost: Option<Failed>,
    /// How long the endpoint had been silent when the answer was parted from its plan.
    pub(crate) silent: Duration,
    /// What the connection is kept under, if it is.
    pub(crate) keeping: Option<Box<Keeping>>,
    pub(super) sent: u64,
    pub(crate) received: u64,
    pub(crate) passed: u64,
}

/// What is still to be sent of a request's body.
#[derive(Default)]
pub(super) struct Upload {
    /// Where in the body the next piece begins.
    at: u64,
    piece: Buf,
    /// Nothing follows the piece.
    last: bool,
    /// All was sent, or none of it is wanted any more.
    pub(super) done: bool,
    /// It comes from the client while it is sent.
    pub(super) streams: bool,
    /// The most bytes that the route lets a body have.
    pub(super) most: Option<u64>,
}

/// What ends a turn.
pub(crate) enum Turn {
    /// Something of the answer is here.
    News,
    /// Nothing moved in either direction for as long as there was.
    Silence,
}

impl Link {
    pub(super) fn new(opened: Opened, max_head: u64) -> Self {
        let reused = matches!(opened, Opened::Kept(_));
        let (conn, wire) = match opened {
            Opened::New(conn) => (conn, None),
            Opened::Kept(mut kept) => (kept.io().clone(), kept.http2.take()),
        };
        Self {
            conn,
            wire: wire.unwrap_or_else(|| Box::new(Connection::new(Role::Client, config(max_head)))),
            key: None,
            input: Buf::new(),
            output: Buf::new(),
            reused,
            upload: Upload::default(),
            status: None,
            taken: false,
            fields: Fields::default(),
            length: None,
            interims: Vec::new(),
            told: 0,
            arrived: Buf::new(),
            trailers: Fields::default(),
            ended: false,
            lost: None,
            silent: Duration::ZERO,
            keeping: None,
            sent: 0,
            received: 0,
            passed: 0,
        }
    }

    /// Whether all of the request was sent.
    pub(super) fn is_sent(&self) -> bool {
        self.upload.done
    }

    /// Goes on in both directions until something of the answer is here, or nothing moved for so long.
    ///
    /// # Errors
    /// The client failed; or there will be no more of the answer, and all of it that came was taken.
    pub(crate) async fn turn<D: Downstream>(
        &mut self,
        exchange: &mut Exchange,
        down: &mut D,
        timer: &Timer,
        wait: Duration,
    ) -> Result<Turn, Stop> {
        timer.arm(wait);
        poll_fn(|cx| {
            if self.poll_pass(cx, exchange, down)? {
                timer.arm(wait);
            }
            if self.has_news() {
                return Poll::Ready(Ok(Turn::News));
            }
            if let Some(lost) = self.lost.take() {
                return Poll::Ready(Err(lost.into()));
            }
            timer.poll_expired(cx).map(|()| Ok(Turn::Silence))
        })
        .await
    }

    fn has_news(&self) -> bool {
        let head_is_new = self.status.is_some() && !self.taken;
        head_is_new || !self.interims.is_empty() || !self.arrived.is_empty() || self.ended
    }

    /// Moves what can be moved now. True: something was.
    ///
    /// # Errors
    /// The client failed.
    pub(crate) fn poll_pass<D: Downstream>(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        down: &mut D,
    ) -> Result<bool, Stop> {
        let mut moved = false;
        loop {
            let before = self.sent;
            self.poll_upload(cx, exchange, down)?;
            let transported = self.poll_transport(cx);
            if self.sent == before && !transported {
                return Ok(moved);
            }
            moved = true;
        }
    }

    /// Takes pieces of the request's body, and sends them as the endpoint's windows allow.
    fn poll_upload<D: Downstream>(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        down: &mut D,
    ) -> Result<(), Stop> {
        let Some(key) = self.key else { return Ok(()) };
        while !self.upload.done {
            if self.upload.piece.is_empty() && !self.upload.last && !self.next_piece(cx, exchange, down)? {
                return Ok(());
            }
            let upload = &mut self.upload;
            let trailers = upload.last && !exchange.request_trailers.is_empty();
            match self.wire.send_data(key, &upload.piece, upload.last && !trailers) {
                Ok(n) => {
                    upload.piece.consume(n);
                    self.sent += n as u64;
                    if !upload.piece.is_empty() {
                        return Ok(());
                    }
                }
                // It wants no more of it: its answer tells why.
                Err(Gone) => upload.last = true,
            }
            if upload.last {
                upload.done = true;
                if trailers {
                    let mut list = h2::Fields::new();
                    for field in exchange.request_trailers.iter().filter(|field| !field.hop_by_hop) {
                        super::put(&mut list, field.name, field.value);
                    }
                    let _ = self.wire.send_head(key, &list, true);
                }
            }
        }
        Ok(())
    }

    /// Takes the next piece. False: there is none yet.
    fn next_piece<D: Downstream>(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        down: &mut D,
    ) -> Result<bool, Stop> {
        let upload = &mut self.upload;
        if upload.at < exchange.body.buffered() || !upload.streams {
            match exchange.body.piece(upload.at) {
                Ok(BodyPiece::Data(piece)) => {
                    upload.at += piece.len() as u64;
                    upload.piece = piece;
                }
                Ok(BodyPiece::End) => {}
                Err(error) => return Err(Stop::Own(format!("cannot read a request body back: {error}"))),
            }
            let all_here = !upload.streams || exchange.body.complete;
            upload.last = all_here && upload.at >= exchange.body.buffered();
            return Ok(true);
        }
        if exchange.body.complete {
            upload.last = true;
            return Ok(true);
        }
        let length = match down.poll_piece(cx, exchange) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Ok(None)) => 0,
            Poll::Ready(Ok(Some(piece))) => {
                upload.piece.extend(piece);
                piece.len()
            }
            Poll::Ready(Err(error)) => return Err(Stop::Client(intake::failed(exchange, &error))),
        };
        upload.at += length as u64;
        upload.last = length == 0 || down.body_done();
        exchange.body.pass_on(&upload.piece, MOST_KEPT);
        if upload.most.is_some_and(|most| exchange.body.received() > most) {
            let next = length as u64;
            intake::log_too_large(exchange, exchange.body.received().saturating_sub(next), next);
            return Err(Stop::Client(413));
        }
        if upload.last {
            exchange.body.complete = !exchange.body.streamed;
            let mut trailers = std::mem::take(&mut exchange.request_trailers);
            down.trailers(&mut trailers);
            exchange.request_trailers = trailers;
        }
        Ok(true)
    }

    /// Writes and reads. True: something was written or read. A failure is noted, and what came before it is kept.
    fn poll_transport(&mut self, cx: &mut Context<'_>) -> bool {
        if self.lost.is_some() {
            return false;
        }
        let mut moved = false;
        if self.output.is_empty() {
            self.output = self.wire.output().take();
        }
        if !self.output.is_empty() {
            let before = self.output.len();
            match self.conn.poll_write_all(cx, &mut self.output) {
                Poll::Ready(Ok(())) => {
                    self.output.clear();
                    moved = true;
                    // Streams that waited for room in the output: there is one.
                    while self.wire.next_writable().is_some() {}
                }
                // What it said before it closed counts, and is read below.
                Poll::Ready(Err(_)) => self.output.clear(),
                Poll::Pending => moved = self.output.len() < before,
            }
        }
        if self.wire.is_congested() {
            return moved;
        }
        match self.conn.poll_read(cx, &mut self.input, MEDIUM) {
            Poll::Pending => return moved,
            Poll::Ready(Ok(0)) => {
                if !self.ended {
                    let doing = self.doing();
                    self.lose(self.broken(), format!("upstream prematurely closed connection while {doing}"));
                }
            }
            Poll::Ready(Ok(read)) => {
                self.received += read as u64;
                self.take_in();
            }
            Poll::Ready(Err(error)) => {
                if !self.ended {
                    let why = format!("recv() failed ({}) while {}", errors::system(&error), self.doing());
                    self.lose(self.broken(), why);
                }
            }
        }
        true
    }

    /// What it is if the connection ends: one that was kept may have been closed before the request came.
    fn broken(&self) -> Failure {
        if self.reused && self.received == 0 { Failure::StaleConnection } else { Failure::Io }
    }

    fn doing(&self) -> &'static str {
        match self.status {
            None => "reading response header from upstream",
            Some(_) => "reading upstream",
        }
    }

    fn lose(&mut self, failure: Failure, why: String) {
        self.lost.get_or_insert(Failed { failure, sent: true, why });
    }

    /// Takes the events of what was read.
    fn take_in(&mut self) {
        let now = weir_rt::now();
        loop {
            let received = match self.wire.receive(&self.input, now) {
                Ok(received) => received,
                Err(fault) => {
                    self.input.clear();
                    if !self.ended {
                        let why = format!("upstream sent invalid HTTP/2 ({fault}) while {}", self.doing());
                        self.lose(Failure::InvalidHeader, why);
                    }
                    return;
                }
            };
            let done = received.event.is_none();
            if let Some(event) = received.event {
                self.handle(event);
            }
            self.input.consume(received.used);
            if done {
                break;
            }
        }
        while self.wire.next_writable().is_some() {}
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Head { kind: HeadKind::Interim, .. } => {
                self.told += 1;
                if self.told > MAX_INTERIMS {
                    return self
                        .lose(Failure::InvalidHeader, "upstream sent too many interim responses".to_owned());
                }
                let fields = fields_of(self.wire.head());
                self.interims.push((self.wire.head().status(), fields));
            }
            Event::Head { end, .. } => {
                let head = self.wire.head();
                self.status = Some(head.status());
                self.fields = fields_of(head);
                self.length = head.length();
                self.ended |= end;
            }
            Event::Data { range, end, .. } => {
                self.arrived.extend(&self.input[range]);
                self.ended |= end;
            }
            Event::Trailers { .. } => {
                self.trailers = fields_of(self.wire.head());
                self.ended = true;
            }
            Event::Reset { reason, by_peer, .. } if !self.ended => self.was_reset(reason, by_peer),
            _ => {}
        }
    }

    /// The stream ended before the answer did.
    fn was_reset(&mut self, reason: Reason, by_peer: bool) {
        let doing = self.doing();
        let failed = match (reason, by_peer) {
            // It has done nothing (RFC 9113 §8.7): this may be said again, whatever it asks for.
            (Reason::REFUSED_STREAM, true) => Failed {
                failure: if self.reused { Failure::StaleConnection } else { Failure::Io },
                sent: false,
                why: format!("upstream refused the request while {doing}"),
            },
            (reason, true) => Failed {
                failure: Failure::InvalidHeader,
                sent: true,
                why: format!("upstream rejected request with error {reason} while {doing}"),
            },
            (reason, false) => {
                Failed::malformed(format!("upstream sent an invalid response ({reason}) while {doing}"))
            }
        };
        self.lost.get_or_insert(failed);
    }

    /// Takes what arrived. [`Link::give_back`] is to follow.
    pub(crate) fn take_arrived(&mut self) -> Buf {
        self.arrived.take()
    }

    /// So much of what was taken is out of the way: as much more may come.
    pub(crate) fn give_back(&mut self, n: usize) {
        self.passed += n as u64;
        if let Some(key) = self.key {
            self.wire.release(key, n);
        }
    }

    /// Keeps the connection if request and answer are through, and it says nothing else.
    pub(crate) fn park(&mut self, exchange: &Exchange, counted: &Attempting) {
        let whole = self.ended && self.upload.done && self.lost.is_none();
        let quiet = self.input.is_empty() && self.arrived.is_empty() && self.output.is_empty();
        let lasts = !self.wire.is_ending() && self.wire.streams() == 0;
        let Some(keeping) = self.keeping.take().filter(|_| whole && quiet && lasts) else { return };
        let Keeping { pool, bounds, key, history } = *keeping;
        let mut conn = Box::new(ClientConnection::new(self.conn.clone()));
        self.wire.idle();
        let fresh = Box::new(Connection::new(Role::Client, Config::default()));
        conn.http2 = Some(std::mem::replace(&mut self.wire, fresh));
        exchange.worker.park(pool, &bounds, key, (Kept { conn, history }, counted.keeps()));
    }
}

/// Whether a kept connection can carry another request: it may have said that it will not.
pub(super) fn is_usable(kept: &mut ClientConnection, look: bool) -> bool {
    let io = kept.io().clone();
    let Some(wire) = &mut kept.http2 else { return false };
    if !look && !io.heard() {
        return true;
    }
    let mut input = Buf::new();
    loop {
        match io.try_read_up_to(&mut input, MEDIUM) {
            Ok(None) => break,
            Ok(Some(0)) | Err(_) => return false,
            // More than an idle connection has to say.
            Ok(Some(_)) if input.len() > MEDIUM => return false,
            Ok(Some(_)) => {}
        }
    }
    let now = weir_rt::now();
    loop {
        let Ok(received) = wire.receive(&input, now) else { return false };
        input.consume(received.used);
        if received.event.is_none() {
            return input.is_empty() && !wire.is_ending();
        }
    }
}

fn config(max_head: u64) -> Config {
    Config {
        max_streams: 1,
        stream_window: WINDOW,
        connection_window: WINDOW,
        // 32 bytes for each field beside its text (RFC 9113 §6.5.2).
        max_head: u32::try_from(max_head.saturating_add(32 * 100)).unwrap_or(u32::MAX).min(1 << 20),
        // Pings of a stream that lasts are no flood.
        chatter: Allowance { burst: 5_000, per_second: 500 },
        ..Config::default()
    }
}

fn fields_of(head: &h2::Head) -> Fields {
    let mut fields = Fields::default();
    for field in head.fields() {
        fields.push_known(HeaderId::of(field.name), field.name, field.value);
    }
    fields
}
