//! One connection that speaks HTTP/2.
//!
//! Owns: which page is on which stream, answers that are held back.
//! Never: makes a task of a stream; keeps a body that arrives.
//! Driven by: `connection`; `wire::h2` has the protocol.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use weir_rt::{Buf, Conn, LARGE, Timer};
use weir_wire::h2::{Config, Connection, Event, Reason, Role, StreamKey};

use super::connection::{IDLE, Number, farewell};
use super::page::{Page, Pages};

/// A load generator may well want more streams than a browser.
const STREAMS: u32 = 1024;
/// Reads in a row, before other connections have their turn.
const ROUNDS: usize = 16;

/// What a stream is answered with.
#[derive(Clone, Copy)]
struct Answer<'a> {
    key: StreamKey,
    page: &'a Page,
    to_head: bool,
    /// Bytes of the body that were sent.
    sent: usize,
}

struct Session<'a> {
    number: &'a Number,
    io: &'a Conn,
    wire: Connection,
    /// By the place of the stream: those that are still asking, and those that are not all sent.
    answers: Vec<Option<Answer<'a>>>,
    /// Answers that are held back, with their moments; all by the same time, so in order.
    held: VecDeque<(u64, Answer<'a>)>,
    /// Whether the first of them is waited for.
    armed: bool,
    /// Bytes that were read and could not be used yet.
    input: Buf,
    writing: bool,
}

/// Answers until the client goes, or is silent for too long.
pub(super) async fn serve(number: &Number, timer: &Timer, io: Conn, input: Buf) -> io::Result<()> {
    let config = Config { max_streams: STREAMS, ..Config::default() };
    let mut session = Session {
        number,
        io: &io,
        wire: Connection::new(Role::Server, config),
        answers: Vec::new(),
        held: VecDeque::new(),
        armed: false,
        input,
        writing: true,
    };
    session.take_in();
    let end = loop {
        timer.arm(IDLE);
        match timer.run(poll_fn(|cx| session.poll(cx))).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => break Ok(true),
            Ok(Err(error)) => break Err(error),
            Err(_) => break Ok(false),
        }
    };
    // The moment that was waited for belongs to this connection's number: the next one with it must not meet it.
    if let (true, Some(pace)) = (session.armed, &number.shared.pace) {
        poll_fn(|cx| pace.poll(number.number, cx)).await;
    }
    drop(session);
    if end? { farewell(timer, &io).await } else { Ok(()) }
}

impl<'a> Session<'a> {
    /// Ready when something was done; false at the end of the connection.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        for round in 0..ROUNDS {
            self.let_go(cx);
            self.send_bodies();
            self.write(cx)?;
            if self.wire.is_over() && !self.wire.has_output() && !self.writing {
                return Poll::Ready(Ok(false));
            }
            if self.wire.is_congested() || self.io.poll_readable(cx).is_pending() {
                return if round > 0 { Poll::Ready(Ok(true)) } else { Poll::Pending };
            }
            let limit = LARGE - self.input.len().min(LARGE - 1);
            match self.io.try_read_up_to(&mut self.input, limit)? {
                // Not ready after all; the next look at it leaves the waker.
                None => continue,
                Some(0) => return Poll::Ready(Ok(false)),
                Some(_) => self.take_in(),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Ready(Ok(true))
    }

    /// Takes in what was read. A fault of the client's ends the connection once it was told.
    fn take_in(&mut self) {
        let now = weir_rt::now();
        let mut at = 0;
        while let Ok(received) = self.wire.receive(&self.input[at..], now) {
            at += received.used;
            match received.event {
                Some(event) => self.take(event),
                None => break,
            }
        }
        self.input.consume(at);
        if self.input.is_empty() {
            self.input.release();
        }
    }

    fn take(&mut self, event: Event) {
        let number: &'a Number = self.number;
        let pages: &'a Pages = &number.shared.pages;
        match event {
            Event::Head { stream, end, .. } => {
                let head = self.wire.head();
                let page = if number.shared.errors.hit() {
                    pages.busy()
                } else {
                    pages.find(head.path().unwrap_or_default())
                };
                let to_head = head.method() == b"HEAD";
                self.asked(Answer { key: stream, page, to_head, sent: 0 }, end);
            }
            Event::Malformed { stream, end } | Event::TooLarge { stream, end } => {
                self.asked(Answer { key: stream, page: pages.too_large(), to_head: false, sent: 0 }, end);
            }
            Event::Data { stream, range, end } => {
                self.wire.release(stream, range.len());
                if end {
                    self.asked_all(stream);
                }
            }
            Event::Trailers { stream } => self.asked_all(stream),
            Event::Reset { stream, .. } => {
                self.take_answer(stream);
            }
            Event::Settings | Event::GoAway { .. } | Event::Pong(_) => {}
        }
    }

    /// A request has begun, and is whole if `end`.
    fn asked(&mut self, answer: Answer<'a>, end: bool) {
        let slot = answer.key.slot();
        if slot >= self.answers.len() {
            self.answers.resize(slot + 1, None);
        }
        if end {
            return self.asked_whole(answer);
        }
        if let Some(place) = self.answers.get_mut(slot) {
            *place = Some(answer);
        }
    }

    fn asked_all(&mut self, key: StreamKey) {
        if let Some(answer) = self.take_answer(key) {
            self.asked_whole(answer);
        }
    }

    fn asked_whole(&mut self, answer: Answer<'a>) {
        let shared = &self.number.shared;
        if shared.delay == 0 {
            return self.answer(answer);
        }
        self.held.push_back((shared.now().saturating_add(shared.delay), answer));
    }

    fn take_answer(&mut self, key: StreamKey) -> Option<Answer<'a>> {
        let place = self.answers.get_mut(key.slot())?;
        place.take_if(|answer| answer.key == key)
    }

    fn answer(&mut self, answer: Answer<'a>) {
        let (fields, body) = answer.page.stream();
        let no_body = answer.to_head || body.is_empty();
        // A stream that was reset meanwhile has nobody to be told.
        if self.wire.send_head(answer.key, fields, no_body).is_ok() && !no_body {
            self.send(answer);
        }
        if self.number.shared.closes.hit() {
            self.wire.go_away(Reason::NO_ERROR);
        }
    }

    fn send(&mut self, mut answer: Answer<'a>) {
        let (_, body) = answer.page.stream();
        let Ok(sent) = self.wire.send_data(answer.key, &body[answer.sent..], true) else { return };
        answer.sent += sent;
        if answer.sent < body.len()
            && let Some(place) = self.answers.get_mut(answer.key.slot())
        {
            *place = Some(answer);
        }
    }

    /// Goes on with bodies that did not fit.
    fn send_bodies(&mut self) {
        while let Some(key) = self.wire.next_writable() {
            if let Some(answer) = self.take_answer(key) {
                self.send(answer);
            }
        }
    }

    /// Lets answers go whose moments have come, and waits for the next one.
    fn let_go(&mut self, cx: &mut Context<'_>) {
        let shared = &self.number.shared;
        let Some(pace) = &shared.pace else { return };
        loop {
            if self.armed {
                if pace.poll(self.number.number, cx).is_pending() {
                    return;
                }
                self.armed = false;
            }
            let now = shared.now();
            while let Some(&(due, answer)) = self.held.front()
                && due <= now
            {
                self.held.pop_front();
                self.answer(answer);
            }
            let Some(&(due, _)) = self.held.front() else { return };
            pace.begin(self.number.number, due);
            self.armed = true;
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.wire.has_output() || self.writing {
            let written = self.io.poll_write_all(cx, self.wire.output());
            self.writing = written.is_pending();
            match written {
                Poll::Pending => return Ok(()),
                Poll::Ready(result) => result?,
            }
            self.send_bodies();
        }
        Ok(())
    }
}
