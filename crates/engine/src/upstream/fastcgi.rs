//! FastCGI towards an application server: parameters and body, and the head of its CGI answer.
//!
//! Owns: what one attempt says and hears; logging of what the application says on stderr.
//! Never: parses records (`weir_http::fastcgi`), judges what a failure means (`attempt`), or carries the answer's body.
//! Driven by: [`Attempts`](super::Attempts); the action, which reads on where the head ended.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use weir_control::PoolId;
use weir_http::fastcgi::{self, CgiError, CgiHead, Decoder, FastCgiEvent};
use weir_http::{HeadRules, HeaderId, Parsed, UnusualNames};
use weir_plan::{FastCgi, UpstreamKeepalive};
use weir_policy::idle::History;
use weir_policy::retry::Failure;
use weir_rt::{Buf, LARGE, Timer};
use weir_wire::{ClientConnection, Conn};

use super::attempt::{Failed, Opened, Protocol, Stop};
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
    conn: Conn,
    decoder: Decoder,
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
    /// How long the application had been silent when the answer was parted from its plan.
    pub(crate) silent: Duration,
    /// Bytes of the body that went on.
    pub(crate) passed: u64,
    /// Bytes received.
    pub(crate) received: u64,
    /// What the connection is kept under, if it is.
    pub(crate) keeping: Option<Box<Keeping>>,
    sent: u64,
    /// What the application may still say to the log.
    stderr_left: usize,
    reused: bool,
}

impl Protocol for Application<'_> {
    type Traffic = Exchange;
    type Link = Answer;

    fn take_up(&mut self, opened: Opened) -> Answer {
        self.reused = matches!(opened, Opened::Kept(_));
        let conn = match opened {
            Opened::New(conn) => conn,
            Opened::Kept(kept) => kept.io().clone(),
        };
        Answer {
            conn,
            decoder: Decoder::new(),
            input: Buf::new(),
            head: CgiHead::new(),
            text: Vec::new(),
            head_len: 0,
            ended: false,
            silent: Duration::ZERO,
            passed: 0,
            received: 0,
            keeping: None,
            sent: 0,
            stderr_left: MOST_STDERR,
            reused: self.reused,
        }
    }

    async fn send(&mut self, exchange: &mut Exchange, answer: &mut Answer) -> Result<(), Stop> {
        let mut out = Vec::with_capacity(2048);
        fastcgi::begin_request(&mut out, self.fastcgi.keep_connection);
        fastcgi::params(&mut out, &parameters(exchange, self.fastcgi));
        if let Some(why) = exchange.slots.take_doubt() {
            return Err(Stop::Own(why.to_string()));
        }
        let mut offset = 0;
        loop {
            match exchange.body.piece(offset) {
                Ok(BodyPiece::End) => break,
                Ok(BodyPiece::Data(piece)) => {
                    offset += piece.len() as u64;
                    fastcgi::stdin(&mut out, &piece);
                }
                Err(error) => return Err(Stop::Own(format!("cannot read a request body back: {error}"))),
            }
            if out.len() >= LARGE {
                self.write(answer, &out).await?;
                out.clear();
            }
        }
        fastcgi::end_stream(&mut out);
        self.write(answer, &out).await
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

impl Application<'_> {
    async fn write(&self, answer: &mut Answer, bytes: &[u8]) -> Result<(), Stop> {
        for piece in bytes.chunks(LARGE) {
            self.timer.arm(self.fastcgi.settings.send_timeout);
            let (failure, why) = match self.timer.run(answer.conn.write_slice(piece)).await {
                Ok(Ok(())) => {
                    answer.sent += piece.len() as u64;
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
}

/// Parameters as pairs, in the order configured; the client's fields follow as `HTTP_*`.
fn parameters(exchange: &Exchange, fastcgi: &FastCgi) -> Vec<u8> {
    let mut pairs = Vec::with_capacity(1024);
    for parameter in &fastcgi.params {
        let value = crate::eval::text(exchange, &parameter.value);
        if !(parameter.if_not_empty && value.is_empty()) {
            fastcgi::param(&mut pairs, parameter.name.as_bytes(), &value);
        }
    }
    if fastcgi.pass_request_headers {
        let set = |name: &[u8]| fastcgi.params.iter().any(|parameter| parameter.name.as_bytes() == name);
        let mut seen: Vec<Vec<u8>> = Vec::new();
        for field in exchange.request.fields.iter() {
            // `Proxy` would become HTTP_PROXY, which programs take for a setting of their own.
            let own = matches!(
                field.id,
                HeaderId::ContentLength | HeaderId::ContentType | HeaderId::ProxyAuthorization
            ) || field.name.eq_ignore_ascii_case(b"proxy")
                || field.hop_by_hop;
            let mut name = b"HTTP_".to_vec();
            name.extend(field.name.iter().map(|&b| if b == b'-' { b'_' } else { b.to_ascii_uppercase() }));
            if own || seen.contains(&name) || set(&name) {
                continue;
            }
            let mut value = Vec::new();
            let separator: &[u8] = if field.id == HeaderId::Cookie { b"; " } else { b", " };
            exchange.request.fields.join(
                crate::exchange::fields::FieldName::new(field.name),
                separator,
                &mut value,
            );
            fastcgi::param(&mut pairs, &name, &value);
            seen.push(name);
        }
    }
    pairs
}

impl Answer {
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
        errors::upstream_error(exchange, &line);
        if self.stderr_left == 0 {
            let line = format!(
                "FastCGI sent more than {MOST_STDERR} bytes in stderr, the rest is not logged while {doing}"
            );
            errors::upstream_error(exchange, &line);
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
            let event = self.decoder.next(&self.input).map_err(|error| Failed {
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
                    self.input.consume(consumed);
                    let (failure, why) = match timer.run(self.conn.read_up_to(&mut self.input, LARGE)).await {
                        Ok(Ok(read)) if read > 0 => {
                            self.received += read as u64;
                            continue;
                        }
                        Ok(Ok(_)) => (
                            self.broken(),
                            format!("upstream prematurely closed FastCGI connection while {}", self.doing()),
                        ),
                        Ok(Err(error)) => (
                            self.broken(),
                            format!("recv() failed ({}) while {}", errors::system(&error), self.doing()),
                        ),
                        Err(_) => (
                            Failure::Timeout,
                            format!("upstream timed out (110: Connection timed out) while {}", self.doing()),
                        ),
                    };
                    return Err(Failed { failure, sent: true, why });
                }
            }
        }
    }
}
