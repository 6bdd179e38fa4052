//! An endpoint's body on its way to the client.
//!
//! Owns: sending what has come, and reading ahead within bounds while the client makes the sender wait; giving the
//! endpoint's connection back the moment that its answer is here whole.
//! Never: judges what a failure means, or writes a log.
//! Driven by: `forward`, once the answer's head is begun.
//! Why: a slow client must not hold an endpoint, nor a fast one cost a copy. So nothing is read ahead unless a send
//! waits; a piece is then parted from its connection, which is read on.
//!
//! ```text
//!   endpoint ── input ── piece ──────────────────────────> client      as fast as it comes
//!                 └───── parts (memory, then file) ──────> client      while a send waits
//! ```

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use weir_control::PoolId;
use weir_expr::settings::UpstreamSettings;
use weir_http::HeaderId;
use weir_plan::UpstreamKeepalive;
use weir_policy::idle::History;
use weir_rt::{Buf, Instant, MEDIUM, PIECE, Timer};
use weir_wire::{ClientConnection, Incoming, Lent, ReceiveError, SendError, Step};

use crate::action::lasting;
use crate::answer::respond;
use crate::exchange::fields::Fields;
use crate::exchange::{Downstream, Exchange, Then, create_spool_file};
use crate::upstream::LeaseEnd;
use crate::worker::Worker;
use crate::worker::count::Attempting;
use crate::worker::idle::{IdleKey, Kept};
use crate::worker::watch::Watch;

/// Reads and steps taken ahead before others of the worker have their turn.
const ROUNDS: usize = 16;

/// Whose fault it is that a body was cut.
pub(crate) enum Relay {
    /// The client went away, or is too slow.
    Client(SendError),
    /// The endpoint cut its answer.
    Endpoint(ReceiveError),
    /// What was spooled cannot be read back.
    Own(io::Error),
}

/// What a connection is kept under, if it may be kept after this answer.
pub(crate) struct Keeping<'a> {
    pub(crate) pool: PoolId,
    pub(crate) bounds: Cow<'a, UpstreamKeepalive>,
    pub(crate) key: IdleKey,
    pub(crate) history: History,
}

/// Where an answer comes from: a connection, until its last byte is here.
pub(crate) struct Source<'a> {
    conn: Option<Box<ClientConnection>>,
    worker: Rc<Worker>,
    keeping: Option<Keeping<'a>>,
    counted: Attempting,
    lease: Option<LeaseEnd>,
    trailers: Fields,
    /// Bytes of the body and of the head before it, and when the last of them came.
    ended: (u64, usize, Option<Instant>),
}

impl Source<'_> {
    /// The same, without what it borrowed.
    pub(crate) fn owned(self) -> Source<'static> {
        let keeping = self
            .keeping
            .map(|keeping| Keeping { bounds: Cow::Owned(keeping.bounds.into_owned()), ..keeping });
        Source { keeping, ..self }
    }
}

impl<'a> Source<'a> {
    /// A connection whose body has begun. `keeping`: it may carry another request afterwards.
    pub(crate) fn new(
        exchange: &mut Exchange,
        conn: Box<ClientConnection>,
        keeping: Option<Keeping<'a>>,
        counted: Attempting,
        lease: LeaseEnd,
    ) -> Self {
        Self {
            conn: Some(conn),
            worker: exchange.worker.clone(),
            keeping,
            counted,
            lease: Some(lease),
            trailers: std::mem::take(&mut exchange.response.upstream_trailers),
            ended: (0, 0, None),
        }
    }

    /// The answer is here whole: the endpoint can serve others.
    fn release(&mut self) {
        let Some(conn) = self.conn.take() else { return };
        if let Some(received) = conn.incoming.trailers() {
            for (id, name, value) in received.headers().iter() {
                if id != HeaderId::Connection {
                    self.trailers.push_known(id, name, value);
                }
            }
        }
        self.ended = (conn.incoming.received(), conn.head_len_seen(), Some(self.worker.now()));
        let clean = conn.is_clean();
        if let Some(Keeping { pool, bounds, key, history }) = self.keeping.take().filter(|_| clean) {
            let kept = (Kept { conn, history }, self.counted.keeps());
            self.worker.park(pool, &bounds, key, kept);
        }
        self.lease = None;
    }

    /// Whether the endpoint gave all of its answer.
    pub(crate) fn is_over(&self) -> bool {
        self.conn.is_none()
    }

    /// The attempt.
    pub(crate) fn counted(&mut self) -> &mut Attempting {
        &mut self.counted
    }

    /// Bytes of the body and of the head before it, and when the last of them came, if it has come.
    pub(crate) fn came(&self) -> (u64, usize, Option<Instant>) {
        self.conn.as_ref().map_or(self.ended, |conn| (conn.incoming.received(), conn.head_len_seen(), None))
    }
}

/// How far an answer was carried.
pub(crate) enum Relayed {
    /// To its end.
    Whole,
    /// It lasts; there is more to come.
    Lasting,
}

/// What was read before the client took it, in its order.
enum Part {
    Memory(Buf),
    /// A range of the file.
    Spooled(u64, u64),
}

/// Reading ahead of a client.
pub(crate) struct ReadAhead<'a> {
    on: bool,
    parts: VecDeque<Part>,
    /// Bytes in memory, those on their way included, and the most there may be.
    held: usize,
    most: usize,
    file: Option<File>,
    /// Bytes of the file in use, and the most there may be. It begins anew when all of it was sent.
    written: u64,
    most_written: u64,
    folder: Cow<'a, Path>,
    /// The piece on its way was parted from its connection.
    parted: bool,
    failed: Option<ReceiveError>,
    /// How long the endpoint had been silent when the answer was parted from its plan.
    silent: Duration,
}

impl<'a> ReadAhead<'a> {
    /// Reading ahead by these settings, if `on`.
    pub(crate) fn new(settings: &'a UpstreamSettings, on: bool) -> Self {
        Self {
            on,
            parts: VecDeque::new(),
            held: 0,
            most: usize::try_from(settings.buffer_bytes + settings.max_response_head).unwrap_or(usize::MAX),
            file: None,
            written: 0,
            most_written: settings.max_temp_file,
            folder: Cow::Borrowed(&settings.temp_path),
            parted: false,
            failed: None,
            silent: Duration::ZERO,
        }
    }

    /// The same, without what it borrowed.
    pub(crate) fn owned(self) -> ReadAhead<'static> {
        ReadAhead { folder: Cow::Owned(self.folder.into_owned()), ..self }
    }

    /// Bytes that may be read now.
    fn room(&self) -> usize {
        let memory = self.most.saturating_sub(self.held);
        let file = self.most_written.saturating_sub(self.written);
        if memory > 0 { memory.min(PIECE) } else { file.min(PIECE as u64) as usize }
    }

    /// Takes in what the endpoint has sent, while there is room.
    fn fill(&mut self, source: &mut Source<'_>, cx: &mut Context<'_>) {
        for _ in 0..ROUNDS {
            let Some(conn) = source.conn.as_mut().filter(|_| self.failed.is_none()) else { return };
            let step = match conn.incoming.step() {
                Ok(Step::Wait) => {
                    let room = self.room();
                    if room == 0 || conn.io().poll_readable(cx).is_pending() {
                        return;
                    }
                    conn.incoming.fill_ready(room).map(|_| Step::Wait)
                }
                step => step,
            };
            match step {
                Ok(Step::Piece(start, end)) => self.push(&mut conn.incoming, start, end),
                Ok(Step::Wait) => {}
                Ok(Step::End) => return source.release(),
                Err(error) => self.failed = Some(error),
            }
        }
        cx.waker().wake_by_ref();
    }

    /// Keeps a piece: in memory if there is room, else in the file. What the file does not take stays in memory, and
    /// no more is read then.
    fn push(&mut self, incoming: &mut Incoming, start: usize, end: usize) {
        let length = end - start;
        if self.held + length > self.most
            && self.written + length as u64 <= self.most_written
            && self.spool(incoming.slice(start, end))
        {
            return;
        }
        self.held += length;
        match self.parts.back_mut() {
            Some(Part::Memory(last)) if last.spare() >= length => last.extend(incoming.slice(start, end)),
            _ if length < MEDIUM => {
                let mut part = Buf::with_capacity(MEDIUM);
                part.extend(incoming.slice(start, end));
                self.parts.push_back(Part::Memory(part));
            }
            _ => self.parts.push_back(Part::Memory(incoming.detach(start, end))),
        }
    }

    /// Appends to the file; false if that cannot be done.
    fn spool(&mut self, bytes: &[u8]) -> bool {
        if self.file.is_none() {
            self.file = create_spool_file(&self.folder).ok().map(|(file, _)| file);
        }
        let written = self.file.as_ref().is_some_and(|file| file.write_all_at(bytes, self.written).is_ok());
        if !written {
            // A full disk gets no better by trying with every piece.
            self.most_written = 0;
            return false;
        }
        let length = bytes.len() as u64;
        match self.parts.back_mut() {
            Some(Part::Spooled(from, last)) if *from + *last == self.written => *last += length,
            _ => self.parts.push_back(Part::Spooled(self.written, length)),
        }
        self.written += length;
        true
    }

    /// The next part to be sent. [`ReadAhead::sent`] is told of it afterwards.
    fn next(&mut self) -> io::Result<Option<Buf>> {
        let part = match self.parts.front_mut() {
            None => return Ok(None),
            Some(Part::Memory(part)) => part.take(),
            Some(Part::Spooled(from, length)) => {
                let mut part = Buf::new();
                let Some(file) = &self.file else { return Err(io::ErrorKind::NotFound.into()) };
                let wanted = usize::try_from(*length).unwrap_or(PIECE).min(PIECE);
                let read = weir_rt::pread_into(file, *from, &mut part, wanted)?;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                *from += read as u64;
                *length -= read as u64;
                self.held += read;
                if *length > 0 {
                    return Ok(Some(part));
                }
                part
            }
        };
        self.parts.pop_front();
        if !self.parts.iter().any(|part| matches!(part, Part::Spooled(..))) {
            self.written = 0;
        }
        Ok(Some(part))
    }

    fn sent(&mut self, length: usize) {
        self.held = self.held.saturating_sub(length);
    }
}

pin_project! {
    /// Sends, and reads ahead while that has to wait.
    struct Sending<'s, 'a, F> {
        #[pin]
        send: F,
        ahead: &'s mut ReadAhead<'a>,
        source: &'s mut Source<'a>,
        // The piece that is sent, if it still belongs to the connection.
        lent: Option<&'s Lent>,
    }
}

impl<F: Future> Future for Sending<'_, '_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if let Poll::Ready(sent) = this.send.poll(cx) {
            return Poll::Ready(sent);
        }
        if this.ahead.on {
            if let (Some(lent), Some(conn)) = (this.lent.take(), &mut this.source.conn) {
                conn.incoming.part_with(lent);
                this.ahead.parted = true;
                this.ahead.held += lent.piece().len();
            }
            this.ahead.fill(this.source, cx);
        }
        Poll::Pending
    }
}

/// Carries the body to the client. What the endpoint has ready is gathered into one send; before waiting for more, what
/// there is goes out, so that an answer that trickles is seen as it comes. While the client makes a send wait, the
/// endpoint is read on, as far as `ahead` goes. Once it is `due` there is a stop between two pieces, where the rest can be
/// carried by another call.
pub(crate) async fn relay<'a, D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    patience: Duration,
    (timer, watch, due): (&Timer, &Watch, Option<Instant>),
    ahead: &mut ReadAhead<'a>,
    source: &mut Source<'a>,
) -> Result<Relayed, Relay> {
    loop {
        if !ahead.parts.is_empty() {
            Box::pin(send_parts(exchange, down, ahead, source, due)).await?;
        }
        if lasting::is_due(due) {
            return Ok(Relayed::Lasting);
        }
        if let Some(error) = ahead.failed.take() {
            return Err(Relay::Endpoint(error));
        }
        let Some(conn) = &mut source.conn else { break };
        match conn.incoming.step().map_err(Relay::Endpoint)? {
            Step::Piece(start, end) => {
                let lent = conn.incoming.lend(start, end);
                let send = respond::data(exchange, down, lent.piece());
                let sending = Sending { send, ahead: &mut *ahead, source: &mut *source, lent: Some(&lent) };
                let sent = sending.await;
                if std::mem::take(&mut ahead.parted) {
                    ahead.sent(lent.piece().len());
                } else if let Some(conn) = &mut source.conn {
                    conn.incoming.take_back(lent);
                }
                sent.map_err(Relay::Client)?;
            }
            Step::End => source.release(),
            Step::Wait => {
                let send = respond::flush(exchange, down);
                let sending = Sending { send, ahead: &mut *ahead, source: &mut *source, lent: None };
                sending.await.map_err(Relay::Client)?;
                // What came meanwhile goes first.
                let idle = ahead.parts.is_empty() && ahead.failed.is_none();
                let Some(conn) = source.conn.as_mut().filter(|_| idle) else { continue };
                let (patience, wait) = lasting::wait(patience, &mut ahead.silent, due);
                let filled = watch.over(conn.incoming.fill(timer, wait, PIECE)).await.map_err(|_| gone())?;
                match filled {
                    Err(ReceiveError::Timeout) if wait < patience => ahead.silent = wait,
                    filled => filled.map_err(Relay::Endpoint)?,
                }
            }
        }
    }
    end(exchange, down, source).await.map(|()| Relayed::Whole)
}

/// Queues a body that is here whole and small, and goes out as it is: there is nothing to wait for, and nothing to read
/// ahead. [`end`] follows. False: nothing was done.
pub(super) fn at_once<D: Downstream>(
    exchange: &Exchange,
    down: &mut D,
    conn: &mut ClientConnection,
) -> Result<bool, Relay> {
    if respond::is_changed(exchange) {
        return Ok(false);
    }
    let left = conn.incoming.remaining().and_then(|left| usize::try_from(left).ok());
    let Some(body) = left.and_then(|left| conn.incoming.pending().get(..left)) else { return Ok(false) };
    if !down.queue(body).map_err(Relay::Client)? {
        return Ok(false);
    }
    while let Step::Piece(..) = conn.incoming.step().map_err(Relay::Endpoint)? {}
    Ok(true)
}

/// As [`end`], where that needs no wait. False: [`end`] is to follow.
pub(super) fn end_now<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    source: &mut Source<'_>,
) -> Result<bool, Relay> {
    source.release();
    respond::end_now(exchange, down, &source.trailers).map_err(Relay::Client)
}

/// Gives the endpoint's connection back, whose answer is here whole, and ends the one to the client.
pub(super) async fn end<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    source: &mut Source<'_>,
) -> Result<(), Relay> {
    source.release();
    let ended = respond::end(exchange, down, &source.trailers).await.map_err(Relay::Client);
    exchange.response.upstream_trailers = std::mem::take(&mut source.trailers);
    ended
}

/// Takes in what is left of an answer whose client has gone, for the filter that stores it.
pub(crate) async fn absorb(
    exchange: &mut Exchange,
    patience: Duration,
    timer: &Timer,
    ahead: &mut ReadAhead<'_>,
    source: &mut Source<'_>,
) -> Result<(), Relay> {
    while let Some(part) = ahead.next().map_err(Relay::Own)? {
        respond::absorb(exchange, &part, Then::More).await;
        ahead.sent(part.len());
    }
    if let Some(error) = ahead.failed.take() {
        return Err(Relay::Endpoint(error));
    }
    while let Some(conn) = &mut source.conn {
        match conn.incoming.step().map_err(Relay::Endpoint)? {
            Step::Piece(start, end) => {
                respond::absorb(exchange, conn.incoming.slice(start, end), Then::More).await
            }
            Step::End => source.release(),
            Step::Wait => conn.incoming.fill(timer, patience, PIECE).await.map_err(Relay::Endpoint)?,
        }
    }
    respond::absorb(exchange, b"", Then::End).await;
    Ok(())
}

/// The client was seen to have gone.
fn gone() -> Relay {
    Relay::Client(SendError::Io(io::ErrorKind::ConnectionReset.into()))
}

/// Sends what was read ahead, and what is read meanwhile, until there is none or it is due.
async fn send_parts<'a, D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    ahead: &mut ReadAhead<'a>,
    source: &mut Source<'a>,
    due: Option<Instant>,
) -> Result<(), Relay> {
    while !lasting::is_due(due)
        && let Some(part) = ahead.next().map_err(Relay::Own)?
    {
        let send = respond::data(exchange, down, &part);
        Sending { send, ahead: &mut *ahead, source: &mut *source, lent: None }
            .await
            .map_err(Relay::Client)?;
        ahead.sent(part.len());
    }
    Ok(())
}
