//! FastCGI, uwsgi and SCGI towards an application server: parameters and body, and the head of its CGI answer.
//!
//! Owns: what one attempt says and hears; logging of what the application says on stderr.
//! Never: chooses parameters (`cgi`), parses records (`weir_http::fastcgi`), judges what a failure means (`attempt`), or carries the answer's body.
//! Driven by: [`Attempts`](super::Attempts); the action, which reads on where the head ended.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use weir_control::PoolId;
use weir_http::fastcgi::{self, CgiError, CgiHead, Decoder, FastCgiEvent};
use weir_http::gateway;
use weir_http::{HeadRules, Method, Parsed, UnusualNames};
use weir_plan::settings::Spoken;
use weir_plan::{FastCgi, UpstreamKeepalive};
use weir_policy::idle::History;
use weir_policy::retry::Failure;
use weir_rt::{Buf, LARGE, Timer};
use weir_wire::{ClientConnection, Conn};

use super::attempt::{Failed, Opened, Protocol, Stop};
use super::cgi;
use crate::exchange::{BodyPiece, Exchange, errors};
use crate::worker::count::Attempting;
use crate::worker::idle::{IdleKey, Kept};

/// One request to application servers.
pub(crate) struct Application<'a> {
    /// The action.
    pub(crate) fastcgi: &'a FastCgi,
    /// Over the server.
    pub(crate) timer: &'a Timer,
    /// The connection carried a request before.
    pub(crate) reused: bool,
}

/// Most bytes of an application's stderr that are logged for one request.
const MOST_STDERR: usize = 32 << 10;

/// What a connection is kept under when its answer is whole.
pub(crate) struct Keeping {
    /// Its pool.
    pub(crate) pool: PoolId,
    /// How many are kept, and for how long.
    pub(crate) bounds: Cow<'static, UpstreamKeepalive>,
    /// What another request must have the same.
    pub(crate) key: IdleKey,
    /// What it did so far.
    pub(crate) history: History,
}

/// The answer as far as it was read: the connection, the decoder, the head, and what follows it.
pub(crate) struct Answer {
    pub(super) conn: Conn,
    pub(super) framing: Framing,
    /// What was read and not decoded.
    pub(crate) input: Buf,
    /// The head, once it is whole.
    pub(crate) head: CgiHead,
    /// What came on stdout: with the head in front until that is taken off.
    pub(crate) text: Vec<u8>,
    /// Bytes of the head.
    pub(crate) head_len: usize,
    /// The application is done.
    pub(crate) ended: bool,
    /// Payload that may still be passed on, where its length was announced.
    pub(crate) room: Option<u64>,
    /// How long the application had been silent when the answer was parted from its plan.
    pub(crate) silent: Duration,
    /// Bytes of the body that went on.
    pub(crate) passed: u64,
    /// Bytes received.
    pub(crate) received: u64,
    /// What the connection is kept under, if it is.
    pub(crate) keeping: Option<Box<Keeping>>,
    pub(super) sent: u64,
    /// What the application may still say to the log.
    stderr_left: usize,
    reused: bool,
}

/// How an answer is framed.
pub(super) enum Framing {
    /// In records of FastCGI.
    Records(Box<Decoder>),
    /// All that comes until the connection ends, or so many bytes, once that is known.
    Plain(Option<u64>),
    /// So many bytes, and what ends a value of memcached.
    Value(u64),
}

impl Protocol for Application<'_> {
    type Traffic = Exchange;
    type Link = Answer;

    fn take_up(&mut self, opened: Opened) -> Answer {
        self.reused = matches!(opened, Opened::Kept(_));
        let framing = match self.fastcgi.spoken {
            Spoken::Uwsgi(..) | Spoken::Scgi => Framing::Plain(None),
            Spoken::FastCgi | Spoken::Memcached { .. } => Framing::Records(Box::default()),
        };
        let mut answer = Answer::new(opened, framing);
        if self.fastcgi.silent {
            answer.stderr_left = 0;
        }
        answer
    }

    async fn send(&mut self, exchange: &mut Exchange, answer: &mut Answer) -> Result<(), Stop> {
        let mut out = Vec::with_capacity(2048);
        let records = self.fastcgi.spoken == Spoken::FastCgi;
        cgi::write_head(exchange, self.fastcgi, &mut out)
            .map_err(|gateway::TooLong| Stop::Own("the parameters are too long for uwsgi".into()))?;
        if let Some(why) = exchange.slots.take_doubt() {
            return Err(Stop::Own(why.to_string()));
        }
        let mut offset = 0;
        loop {
            match exchange.body.piece(offset) {
                // A body may be here that the application is not to get.
                _ if !self.fastcgi.pass_request_body => break,
                Ok(BodyPiece::End) => break,
                Ok(BodyPiece::Data(piece)) => {
                    offset += piece.len() as u64;
                    if records {
                        fastcgi::stdin(&mut out, &piece);
                    } else {
                        out.extend_from_slice(&piece);
                    }
                }
                Err(error) => return Err(Stop::Own(format!("cannot read a request body back: {error}"))),
            }
            if out.len() >= LARGE {
                answer.write(&out, self.timer, self.fastcgi.settings.send_timeout).await?;
                out.clear();
            }
        }
        if records {
            fastcgi::end_stream(&mut out);
        }
        answer.write(&out, self.timer, self.fastcgi.settings.send_timeout).await
    }

    /// Reads records until the CGI head is whole. As in nginx the time is for all of it, whatever else is said meanwhile.
    async fn head(&mut self, exchange: &mut Exchange, answer: &mut Answer) -> Result<Option<u16>, Stop> {
        let settings = &self.fastcgi.settings;
        let most = settings.max_response_head as usize;
        let rules = HeadRules {
            first_line: most,
            field_line: most,
            head: most,
            fields: 1000,
            unusual_names: UnusualNames::Keep,
            mends: false,
        };
        self.timer.arm(settings.read_timeout);
        loop {
            let before = answer.text.len();
            answer.next(exchange, self.timer, None).await?;
            if answer.text.len() > before || answer.ended {
                let malformed = |why: &str| {
                    Stop::from(Failed::malformed(format!("upstream sent an invalid answer: {why}")))
                };
                match answer.head.parse(&answer.text, &rules) {
                    Ok(Parsed::Whole(length)) => {
                        answer.head_len = length;
                        answer.bound(exchange.request.method == Method::Head);
                        return Ok(Some(answer.head.status()));
                    }
                    Ok(Parsed::NeedMore) if answer.ended => {
                        return Err(malformed("it ended before its head did"));
                    }
                    Ok(Parsed::NeedMore) => {}
                    Err(CgiError::Line(error)) if error.is_size() => {
                        return Err(Failed::malformed(errors::TOO_BIG_HEADER).into());
                    }
                    Err(error) => return Err(malformed(error.as_str())),
                }
            }
        }
    }

    fn sent(&self, answer: &Answer) -> u64 {
        answer.sent
    }
}

impl Answer {
    /// Nothing was read yet.
    pub(super) fn new(opened: Opened, framing: Framing) -> Self {
        let reused = matches!(opened, Opened::Kept(_));
        let conn = match opened {
            Opened::New(conn) => conn,
            Opened::Kept(kept) => kept.io().clone(),
        };
        let head =
            if matches!(framing, Framing::Plain(_)) { CgiHead::with_status_line() } else { CgiHead::new() };
        Self {
            conn,
            framing,
            input: Buf::new(),
            head,
            text: Vec::new(),
            head_len: 0,
            ended: false,
            room: None,
            silent: Duration::ZERO,
            passed: 0,
            received: 0,
            keeping: None,
            sent: 0,
            stderr_left: MOST_STDERR,
            reused,
        }
    }

    /// Sends a part of the request.
    pub(super) async fn write(&mut self, bytes: &[u8], timer: &Timer, timeout: Duration) -> Result<(), Stop> {
        for piece in bytes.chunks(LARGE) {
            timer.arm(timeout);
            let (failure, why) = match timer.run(self.conn.write_slice(piece)).await {
                Ok(Ok(())) => {
                    self.sent += piece.len() as u64;
                    continue;
                }
                Ok(Err(error)) => (
                    if self.reused { Failure::StaleConnection } else { Failure::Io },
                    format!("send() failed ({}) while sending request to upstream", errors::system(&error)),
                ),
                Err(_) => (Failure::Timeout, "upstream timed out while sending a request".to_owned()),
            };
            return Err(Stop::Endpoint(Failed { failure, sent: true, why }));
        }
        Ok(())
    }

    /// The head is whole: where no record tells the end, the length does, if there is one. What follows it is dropped.
    fn bound(&mut self, to_head: bool) {
        let Framing::Plain(left) = &mut self.framing else { return };
        let bodiless = to_head || matches!(self.head.status(), 204 | 304);
        let length = if bodiless { Some(0) } else { self.head.content_length() };
        let Some(length) = length else { return };
        let here = (self.text.len() - self.head_len) as u64;
        if here >= length {
            // At most what is here: it fits.
            self.text.truncate(self.head_len + length as usize);
            self.ended = true;
        }
        *left = Some(length.saturating_sub(here));
    }
    /// Keeps the connection if the answer is whole and nothing followed it.
    pub(crate) fn park(&mut self, exchange: &Exchange, counted: &Attempting) {
        let whole = self.ended && self.input.is_empty();
        if let Some(keeping) = self.keeping.take().filter(|_| whole) {
            let Keeping { pool, bounds, key, history } = *keeping;
            let conn = Box::new(ClientConnection::new(self.conn.clone()));
            exchange.worker.park(pool, &bounds, key, (Kept { conn, history }, counted.keeps()));
        }
    }

    /// What it is if the connection ends: on one that was kept it may have been closed before the request came.
    fn broken(&self) -> Failure {
        if self.reused && self.received == 0 { Failure::StaleConnection } else { Failure::Io }
    }

    fn doing(&self) -> &'static str {
        if self.head_len == 0 { "reading response header from upstream" } else { "reading upstream" }
    }

    /// Logs what the application said of its errors, as long as it does not say too much.
    fn log_stderr(&mut self, exchange: &Exchange, said: Range<usize>) {
        if self.stderr_left == 0 {
            return;
        }
        let doing = self.doing();
        let kept = said.len().min(self.stderr_left);
        self.stderr_left -= kept;
        let text = String::from_utf8_lossy(&self.input[said.start..said.start + kept]);
        let line = format!("FastCGI sent in stderr: \"{}\" while {doing}", text.trim_end());
        errors::told(exchange, &line);
        if self.stderr_left == 0 {
            let line = format!(
                "FastCGI sent more than {MOST_STDERR} bytes in stderr, the rest is not logged while {doing}"
            );
            errors::told(exchange, &line);
        }
    }

    /// The next event: stdout is appended to `text`, stderr is logged. `timeout` begins anew with whatever the application
    /// says, but not with padding and empty records; without one the timer runs as it is.
    pub(crate) async fn next(
        &mut self,
        exchange: &Exchange,
        timer: &Timer,
        timeout: Option<Duration>,
    ) -> Result<(), Failed> {
        let restart = || timeout.into_iter().for_each(|timeout| timer.arm(timeout));
        restart();
        loop {
            let decoder = match &mut self.framing {
                Framing::Records(decoder) => decoder,
                Framing::Plain(left) => {
                    if !self.input.is_empty() {
                        let n = left.map_or(self.input.len(), |left| {
                            usize::try_from(left).unwrap_or(usize::MAX).min(self.input.len())
                        });
                        self.text.extend_from_slice(&self.input[..n]);
                        self.input.clear();
                        if let Some(left) = left {
                            *left -= n as u64;
                            self.ended = *left == 0;
                        }
                        return Ok(());
                    }
                    let whole = left.is_none() && self.head_len > 0;
                    match self.read(timer).await {
                        Err(failed) if failed.why.is_empty() && whole => {
                            self.ended = true;
                            return Ok(());
                        }
                        read => read.map_err(|failed| self.explained(failed))?,
                    }
                    continue;
                }
                Framing::Value(left) => {
                    if *left > 0 && !self.input.is_empty() {
                        let n = usize::try_from(*left).unwrap_or(usize::MAX).min(self.input.len());
                        self.text.extend_from_slice(&self.input[..n]);
                        self.input.consume(n);
                        *left -= n as u64;
                        return Ok(());
                    }
                    if *left == 0 && self.input.len() >= gateway::MEMCACHED_END.len() {
                        if !self.input.starts_with(gateway::MEMCACHED_END) {
                            return Err(Failed::malformed("memcached sent invalid trailer"));
                        }
                        self.input.consume(gateway::MEMCACHED_END.len());
                        self.ended = true;
                        return Ok(());
                    }
                    self.read(timer).await.map_err(|failed| self.explained(failed))?;
                    continue;
                }
            };
            let event = decoder.next(&self.input).map_err(|error| Failed {
                failure: Failure::InvalidHeader,
                sent: true,
                why: format!("upstream sent bad FastCGI records: {}", error.as_str()),
            })?;
            match event {
                FastCgiEvent::Stdout(range) => {
                    self.text.extend_from_slice(&self.input[range.clone()]);
                    self.input.consume(range.end);
                    return Ok(());
                }
                FastCgiEvent::Stderr(range) => {
                    self.log_stderr(exchange, range.clone());
                    self.input.consume(range.end);
                    restart();
                }
                FastCgiEvent::End { consumed, .. } => {
                    self.input.consume(consumed);
                    self.ended = true;
                    return Ok(());
                }
                FastCgiEvent::NeedMore(consumed) => {
                    let over = decoder.stdout_is_over() && self.head_len > 0;
                    self.input.consume(consumed);
                    match self.read(timer).await {
                        // Without END_REQUEST, but everything was said.
                        Err(failed) if failed.why.is_empty() && over => {
                            (self.ended, self.keeping) = (true, None);
                            return Ok(());
                        }
                        read => read.map_err(|failed| self.explained(failed))?,
                    }
                }
            }
        }
    }

    /// Reads on. An end of the connection is a failure without words.
    pub(super) async fn read(&mut self, timer: &Timer) -> Result<(), Failed> {
        let (failure, why) = match timer.run(self.conn.read_up_to(&mut self.input, LARGE)).await {
            Ok(Ok(read)) if read > 0 => {
                self.received += read as u64;
                return Ok(());
            }
            Ok(Ok(_)) => (self.broken(), String::new()),
            Ok(Err(error)) => {
                (self.broken(), format!("recv() failed ({}) while {}", errors::system(&error), self.doing()))
            }
            Err(_) => (
                Failure::Timeout,
                format!("upstream timed out (110: Connection timed out) while {}", self.doing()),
            ),
        };
        Err(Failed { failure, sent: true, why })
    }

    /// A failure with words.
    pub(super) fn explained(&self, failed: Failed) -> Failed {
        let what =
            if matches!(self.framing, Framing::Records(_)) { "FastCGI connection" } else { "connection" };
        let why = match failed.why.is_empty() {
            true => format!("upstream prematurely closed {what} while {}", self.doing()),
            false => failed.why,
        };
        Failed { why, ..failed }
    }
}
