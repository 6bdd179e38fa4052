//! FastCGI towards an application server: parameters and body, and the head of its CGI answer.
//!
//! Owns: what one attempt says and hears; logging of what the application says on stderr.
//! Never: parses records (`weir_http::fastcgi`), judges what a failure means (`attempt`), or carries the answer's body.
//! Driven by: [`Attempts`](super::Attempts); the action, which reads on where the head ended.

use std::time::Duration;

use weir_http::fastcgi::{self, CgiHead, Decoder, FastCgiEvent};
use weir_http::{HeadRules, HeaderId, Parsed, UnusualNames};
use weir_plan::FastCgi;
use weir_policy::retry::Failure;
use weir_rt::{Buf, LARGE, Timer};
use weir_wire::Conn;

use super::attempt::{Failed, Opened, Protocol, Stop};
use crate::exchange::{BodyPiece, Exchange, errors};

/// One request to application servers.
pub(crate) struct Application<'a> {
    /// The action.
    pub(crate) fastcgi: &'a FastCgi,
    /// Over the server.
    pub(crate) timer: &'a Timer,
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
    sent: u64,
}

impl Protocol for Application<'_> {
    type Link = Answer;

    fn take_up(&mut self, opened: Opened) -> Answer {
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
            sent: 0,
        }
    }

    async fn send(&mut self, exchange: &mut Exchange, answer: &mut Answer) -> Result<(), Stop> {
        let mut out = Vec::with_capacity(2048);
        fastcgi::begin_request(&mut out, false);
        fastcgi::params(&mut out, &parameters(exchange, self.fastcgi));
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

    /// Reads records until the CGI head is whole.
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
        loop {
            let before = answer.text.len();
            answer.next(exchange, self.timer, settings.read_timeout).await?;
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
                    Failure::Io,
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
    /// The next event: stdout is appended to `text`, stderr is logged.
    pub(crate) async fn next(
        &mut self,
        exchange: &Exchange,
        timer: &Timer,
        timeout: Duration,
    ) -> Result<(), Failed> {
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
                    let said = String::from_utf8_lossy(&self.input[range.clone()]).trim_end().to_owned();
                    self.input.consume(range.end);
                    errors::upstream_error(
                        exchange,
                        &format!(
                            "FastCGI sent in stderr: \"{said}\" while reading response header from upstream"
                        ),
                    );
                }
                FastCgiEvent::End { consumed, .. } => {
                    self.input.consume(consumed);
                    self.ended = true;
                    return Ok(());
                }
                FastCgiEvent::NeedMore(consumed) => {
                    self.input.consume(consumed);
                    timer.arm(timeout);
                    let (failure, why) = match timer.run(self.conn.read_up_to(&mut self.input, LARGE)).await {
                        Ok(Ok(read)) if read > 0 => {
                            self.received += read as u64;
                            continue;
                        }
                        Ok(Ok(_)) => (
                            Failure::Io,
                            "upstream prematurely closed FastCGI connection while reading upstream"
                                .to_owned(),
                        ),
                        Ok(Err(error)) => (
                            Failure::Io,
                            format!("recv() failed ({}) while reading upstream", errors::system(&error)),
                        ),
                        Err(_) => (
                            Failure::Timeout,
                            "upstream timed out (110: Connection timed out) while reading upstream"
                                .to_owned(),
                        ),
                    };
                    return Err(Failed { failure, sent: true, why });
                }
            }
        }
    }
}
