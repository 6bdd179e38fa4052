//! The client's half of an exchange on a stream.
//!
//! Owns: the answer's head until it leaves, what the announced length leaves to be sent, how the stream ends.
//! Never: writes to the connection; the carrier does.
//! Driven by: actions and the responder, through [`Downstream`]; [`serve`] by the carriers of `h2` and `h3`, for each stream.
//! Why the head is held until something follows it: an answer that turns out to be another one can be taken back, and one
//! without a body is a single frame.

use std::fs::File;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_http::HeaderId;
use weir_http::scan::{is_field_value, is_token};
use weir_rt::{Buf, LARGE, Timer};
use weir_wire::h2;
use weir_wire::{Pace, ReceiveError, SendError};

use super::lane::{Lane, Lost};
use crate::action::Later;
use crate::answer::{log, respond};
use crate::exchange::fields::{Field, Fields};
use crate::exchange::{BodySize, Downstream, Ending, Exchange, Phase};
use crate::http::h1::least_rate;
use crate::http::pace::BodyPace;
use crate::walk;
use crate::worker::Worker;
use crate::worker::watch::Watched;

/// Answers a request, to its end. `verdict`: the status to refuse it with.
pub(super) async fn serve<L: Lane>(
    worker: Rc<Worker>,
    mut exchange: Box<Exchange>,
    mut stream: Stream<L>,
    verdict: Result<(), u16>,
) {
    let writing = worker.counters.writing();
    match verdict {
        Ok(()) => {
            exchange.enter_flight();
            assert!(!worker.takes_injected_panic(), "a test asked for this panic");
            if worker.shared.memory.is_short() {
                respond::shed(&mut exchange, &mut stream).await;
            } else {
                // What is left is carried once the walk, and its hold on the plan, are gone.
                let later = walk::run(&mut exchange, &mut stream).await;
                if let Some(Later::Rest(rest)) = later {
                    rest.carry(&mut exchange, &mut stream).await;
                }
            }
        }
        Err(status) => {
            exchange.ending = Ending::Proxy(Phase::Request);
            match status {
                405 => respond::not_allowed(&mut exchange, &mut stream).await,
                _ => walk::refuse(&mut exchange, &mut stream, status).await,
            }
        }
    }
    drop(writing);
    (exchange.response.bytes_sent, exchange.response.body_bytes_sent) = stream.sent();
    drop(stream);
    log::exchange_ended(&mut exchange);
    walk::afterwards(&exchange);
    exchange.give();
}

/// The client's half on a stream.
pub(super) struct Stream<L: Lane> {
    lane: L,
    timer: Timer,
    /// The piece of the request's body that was given out last.
    piece: Buf,
    pace: BodyPace,
    continue_due: bool,
    /// The answer's head.
    head: h2::Fields,
    /// It was begun and has not left.
    held: bool,
    /// Payload that is still to come, where the length is known.
    left: Option<u64>,
    /// More than the payload may follow: the end is said once all of it is known.
    ends_apart: bool,
    /// Our side has ended.
    ended: bool,
    /// A part of a piece did not fit, and since then nothing did.
    stuck: bool,
    least: Option<Pace>,
    sent: u64,
    payload: u64,
}

impl<L: Lane> Stream<L> {
    /// A stream that has begun.
    pub(super) fn new(lane: L, continue_due: bool) -> Self {
        Self {
            lane,
            timer: Timer::new(),
            piece: Buf::new(),
            pace: BodyPace::default(),
            continue_due,
            head: h2::Fields::new(),
            held: false,
            left: None,
            ends_apart: false,
            ended: false,
            stuck: false,
            least: None,
            sent: 0,
            payload: 0,
        }
    }

    fn send_timeout(exchange: &Exchange) -> Duration {
        exchange.client_timeout()
    }

    /// Sends a head or trailers.
    fn send_list(&mut self, list: &h2::Fields, end: bool) -> Result<(), SendError> {
        self.sent += self.lane.send_list(list, end).map_err(|Lost| gone())?;
        self.ended |= end;
        Ok(())
    }

    /// Sends the head, if it was held back.
    fn open(&mut self, end: bool) -> Result<(), SendError> {
        if !std::mem::take(&mut self.held) {
            return Ok(());
        }
        let head = std::mem::take(&mut self.head);
        let sent = self.send_list(&head, end);
        self.head = head;
        sent
    }

    /// Sends payload: as much as fits now, and the rest as room comes.
    async fn payload(&mut self, timeout: Duration, data: &[u8], end: bool) -> Result<(), SendError> {
        let mut rest = data;
        loop {
            let n = self.lane.send_data(rest, end).map_err(|Lost| gone())?;
            self.lane.call();
            rest = &rest[n..];
            self.payload += n as u64;
            self.sent += n as u64 + L::FRAME_HEAD;
            if rest.is_empty() {
                self.ended |= end;
                return Ok(());
            }
            let began = weir_rt::now();
            self.timer.arm(timeout);
            self.timer.run(poll_fn(|cx| self.lane.poll_room(cx))).await?.map_err(|Lost| gone())?;
            if let Some(least) = &mut self.least {
                least.count(weir_rt::now().saturating_duration_since(began), self.payload)?;
            }
        }
    }

    /// Sends as much payload as fits now.
    fn send_some(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &Exchange,
        data: &[u8],
    ) -> Poll<Result<usize, SendError>> {
        let most = data.len() as u64;
        if self.left.is_some_and(|left| left < most) {
            return Poll::Ready(Err(SendError::Length));
        }
        self.open(false)?;
        let end = self.left == Some(most) && !self.ends_apart;
        let n = self.lane.send_data(data, end).map_err(|Lost| gone())?;
        self.lane.call();
        if n > 0 || data.is_empty() {
            self.stuck = false;
            self.left = self.left.map(|left| left - n as u64);
            self.payload += n as u64;
            self.sent += n as u64 + L::FRAME_HEAD;
            self.ended |= end && n == data.len();
            return Poll::Ready(Ok(n));
        }
        if !std::mem::replace(&mut self.stuck, true) {
            self.timer.arm(Self::send_timeout(exchange));
        }
        match self.lane.poll_room(cx) {
            Poll::Ready(Ok(())) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Ready(Err(Lost)) => Poll::Ready(Err(gone())),
            Poll::Pending => self.timer.poll_expired(cx).map(|()| Err(SendError::Timeout)),
        }
    }

    /// Counts payload that is to be sent. True: it is the last of what was announced.
    fn count(&mut self, length: usize) -> Result<bool, SendError> {
        let Some(left) = self.left else { return Ok(false) };
        let left = left.checked_sub(length as u64).ok_or(SendError::Length)?;
        self.left = Some(left);
        Ok(left == 0 && !self.ends_apart)
    }

    /// Gives the client room for what was given out last.
    fn release(&mut self) {
        if !self.piece.is_empty() {
            self.lane.release(self.piece.len());
            self.piece.clear();
        }
    }
}

impl<L: Lane> Drop for Stream<L> {
    /// Whatever way the exchange went.
    fn drop(&mut self) {
        self.lane.close(self.ended, self.piece.len());
    }
}

fn gone() -> SendError {
    SendError::Io(ErrorKind::ConnectionReset.into())
}

/// Appends a field of ours, in lower case. What a variable brought in may hold what must not stand there: it is left out.
fn put(list: &mut h2::Fields, field: Field<'_>) {
    let (name, value) = (field.name.to_ascii_lowercase(), field.value.trim_ascii());
    if is_token(&name) && is_field_value(value) {
        list.push(&name, value);
    }
}

/// Whether a field is about the connection, which HTTP/2 and HTTP/3 have no words for (RFC 9113 §8.2.2).
fn is_of_connection(field: &Field<'_>) -> bool {
    field.hop_by_hop
        || matches!(
            field.id,
            HeaderId::Connection
                | HeaderId::KeepAlive
                | HeaderId::ProxyConnection
                | HeaderId::TransferEncoding
                | HeaderId::Upgrade
        )
}

impl<L: Lane> Downstream for Stream<L> {
    async fn body_piece(&mut self, exchange: &Exchange) -> Result<Option<&[u8]>, ReceiveError> {
        self.release();
        if self.continue_due && !self.lane.is_done() {
            self.interim(100, &Fields::default()).await.map_err(|_| ReceiveError::Closed)?;
        }
        let timeout = exchange.route().settings.body.timeout;
        loop {
            let patience = self.pace.wait(exchange, timeout);
            self.timer.arm(patience);
            let (lane, piece) = (&self.lane, &mut self.piece);
            let arrived = self.timer.run(poll_fn(|cx| lane.poll_data(cx, piece))).await;
            let too_slow = self.pace.took(exchange, self.piece.len());
            return match arrived {
                Ok(Ok(true)) => Ok(Some(&self.piece)),
                Ok(Ok(false)) => Ok(None),
                Ok(Err(Lost)) => Err(ReceiveError::Closed),
                Err(_) if patience < timeout && !too_slow => continue,
                Err(elapsed) => Err(elapsed.into()),
            };
        }
    }

    // A stream in both directions may be silent for as long as its endpoint may: there is no rate to keep.
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        _: &Exchange,
    ) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        self.release();
        if !self.lane.is_done() && std::mem::take(&mut self.continue_due) {
            let mut list = h2::Fields::new();
            list.push(b":status", b"100");
            self.send_list(&list, false).map_err(|_| ReceiveError::Closed)?;
            self.lane.call();
        }
        match self.lane.poll_data(cx, &mut self.piece) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(true)) => Poll::Ready(Ok(Some(&self.piece))),
            Poll::Ready(Ok(false)) => Poll::Ready(Ok(None)),
            Poll::Ready(Err(Lost)) => Poll::Ready(Err(ReceiveError::Closed)),
        }
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &Exchange,
        data: &[u8],
    ) -> Option<Poll<Result<usize, SendError>>> {
        Some(self.send_some(cx, exchange, data))
    }

    fn body_done(&self) -> bool {
        self.lane.is_done()
    }

    fn trailers(&self, into: &mut Fields) {
        self.lane.trailers(into);
    }

    async fn interim(&mut self, status: u16, fields: &Fields) -> Result<(), SendError> {
        // There is no upgrade (RFC 9113 §8.6), and nobody waits for what nobody asked for.
        if status == 101 || status == 100 && !std::mem::take(&mut self.continue_due) {
            return Ok(());
        }
        let mut list = h2::Fields::new();
        list.push(b":status", itoa::Buffer::new().format(status).as_bytes());
        for field in
            fields.iter().filter(|field| !is_of_connection(field) && field.id != HeaderId::ContentLength)
        {
            put(&mut list, field);
        }
        let sent = self.send_list(&list, false);
        self.lane.call();
        sent
    }

    fn begin(&mut self, exchange: &mut Exchange, size: BodySize) {
        let response = &exchange.response;
        self.head.clear();
        self.head.push(b":status", itoa::Buffer::new().format(response.status).as_bytes());
        let mut has_date = false;
        for field in response.fields.iter().filter(|field| !is_of_connection(field)) {
            has_date |= field.id == HeaderId::Date;
            // An answer without a body may still say how long it would have been; never 1xx and 204 (RFC 9110 §8.6).
            let is_ours = size != BodySize::Bodiless || matches!(response.status, 100..200 | 204);
            if field.id != HeaderId::ContentLength || !is_ours {
                put(&mut self.head, field);
            }
        }
        if let BodySize::Known(length) = size {
            self.head.push(b"content-length", itoa::Buffer::new().format(length).as_bytes());
        }
        if !has_date {
            exchange.worker.with_date(|date| self.head.push(b"date", date));
        }
        self.held = true;
        self.left = match size {
            BodySize::Known(length) => Some(length),
            BodySize::Bodiless => Some(0),
            BodySize::Unknown => None,
        };
        self.ends_apart = !exchange.filters.is_empty();
        self.least = least_rate(exchange, size).and_then(|least| Pace::new(least, self.payload));
        exchange.response.length = size.known();
        exchange.head_leaves();
    }

    async fn send(&mut self, exchange: &Exchange, data: &[u8]) -> Result<(), SendError> {
        if data.is_empty() {
            return Ok(());
        }
        let end = self.count(data.len())?;
        self.open(false)?;
        self.payload(Self::send_timeout(exchange), data, end).await
    }

    async fn send_file(
        &mut self,
        exchange: &Exchange,
        file: &File,
        offset: u64,
        length: u64,
    ) -> Result<(), SendError> {
        let mut piece = Buf::new();
        let (mut at, end) = (offset, offset + length);
        while at < end {
            weir_rt::fair().await;
            piece.clear();
            let want = usize::try_from(end - at).unwrap_or(usize::MAX).min(LARGE);
            // Shorter than its head says by now: the answer cannot be completed.
            if weir_rt::pread_into(file, at, &mut piece, want)? == 0 {
                return Err(SendError::Length);
            }
            at += piece.len() as u64;
            self.send(exchange, &piece).await?;
        }
        Ok(())
    }

    async fn flush(&mut self, _: &Exchange) -> Result<(), SendError> {
        let sent = self.open(false);
        self.lane.call();
        sent
    }

    async fn finish(&mut self, _: &Exchange, trailers: &Fields) -> Result<(), SendError> {
        if self.ended || self.left.is_some_and(|left| left > 0 || !self.ends_apart) || trailers.is_empty() {
            return self.finish_now().map(drop);
        }
        self.open(false)?;
        let mut list = h2::Fields::new();
        trailers.iter().filter(|field| !is_of_connection(field)).for_each(|field| put(&mut list, field));
        self.send_list(&list, true)?;
        self.lane.call();
        Ok(())
    }

    fn finish_now(&mut self) -> Result<bool, SendError> {
        if self.ended {
            return Ok(true);
        }
        if self.left.is_some_and(|left| left > 0) {
            return Err(SendError::Length);
        }
        if self.held {
            self.open(true)?;
        } else {
            // An end without payload needs no window.
            self.lane.send_data(b"", true).map_err(|Lost| gone())?;
            self.sent += L::FRAME_HEAD;
            self.ended = true;
        }
        self.lane.call();
        Ok(true)
    }

    fn cut(&mut self) {
        if !self.ended {
            self.ended = true;
            self.held = false;
            self.lane.cut();
        }
    }

    fn retract(&mut self, exchange: &mut Exchange) -> bool {
        if !std::mem::take(&mut self.held) {
            return false;
        }
        self.left = None;
        exchange.response.head_sent = false;
        exchange.filters.clear();
        true
    }

    fn sent(&self) -> (u64, u64) {
        (self.sent, self.payload)
    }

    fn watched(&self) -> Watched {
        Watched::Stream(self.lane.leaves())
    }

    fn take_tunnel(&mut self) -> Option<(weir_wire::Conn, Buf)> {
        None
    }
}
