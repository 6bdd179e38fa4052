//! The FastCGI action: parameters and body to an application server, its CGI answer to the client.
//!
//! Owns: parameters, attempts, relaying of stdout, logging of stderr.
//! Never: parses records (`weir_http::fastcgi`) or chooses endpoints (`upstream::picker`).
//! Driven by: the walk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_expr::settings::UpstreamSettings;
use weir_http::fastcgi::{self, CgiHead, Decoder, FastCgiEvent};
use weir_http::{HeadRules, HeaderId, Parsed, UnusualNames};
use weir_plan::FastCgi;
use weir_policy::retry::{Failure, Retry};
use weir_rt::{Buf, LARGE, Timer};
use weir_telemetry::AttemptEnd;
use weir_wire::{Conn, SendError};

use super::lasting;
use super::relay::Relayed;
use crate::answer::respond;
use crate::exchange::errors;
use crate::exchange::fields::Fields;
use crate::exchange::{BodyPiece, BodySize, Downstream, Ending, Exchange, Next, Phase, intake};
use crate::upstream::{ConnectFailure, ConnectSettings, Picker, open, resolve};
use crate::worker::Installed;
use crate::worker::count::Attempting;
use crate::worker::watch::{Ends, Watch};

/// How one attempt failed.
struct Failed {
    failure: Failure,
    sent: bool,
    why: String,
}

enum Stop {
    Endpoint(Failed),
    Own(String),
}

/// The answer as far as it was read: the connection, the decoder, the head, and what follows it.
struct Answer {
    conn: Conn,
    decoder: Decoder,
    input: Buf,
    head: CgiHead,
    text: Vec<u8>,
    head_len: usize,
    ended: bool,
    /// How long the application had been silent when the answer was parted from its plan.
    silent: Duration,
}

/// Serves a request from an application server.
pub(crate) async fn serve<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
    fastcgi: &FastCgi,
) -> Next<Box<Rest>> {
    if intake::declared_too_large(exchange) {
        return Next::Status(413);
    }
    let resolved = match resolve(exchange, installed, &fastcgi.target).await {
        Ok(resolved) => resolved,
        Err((status, why)) => {
            errors::upstream_error(exchange, &why);
            return Next::Status(status);
        }
    };
    // CGI wants CONTENT_LENGTH beforehand, and a retry wants the body again: it is always taken in first.
    if exchange.request.has_body()
        && fastcgi.pass_request_body
        && let Err(status) = intake::buffer(exchange, down).await
    {
        return Next::Status(status);
    }
    let timer = Timer::new();
    let watch = Watch::new(down.watched(), Ends::unanswered(fastcgi.settings.client_abort));
    let mut picker = Picker::new(exchange, resolved.destination, &fastcgi.settings.retry);
    loop {
        let picked = match picker.next(exchange, installed).await {
            Ok(picked) => picked,
            Err(refusal) => {
                errors::upstream_error(exchange, refusal.why);
                exchange.ending = Ending::ServerAborted(Phase::Connect);
                return Next::Status(refusal.status);
            }
        };
        let mut counted = exchange.worker.counters.attempt(picked.pool, picked.key, exchange.worker.now());
        counted.connecting();
        let tried = match watch.over(attempt(exchange, fastcgi, &picked.address, &timer)).await {
            Ok(tried) => tried,
            Err(how) => {
                counted.end(AttemptEnd::ClientAbort, exchange);
                let phase = super::proxy::phase_reached(exchange);
                return super::proxy::left(exchange, down, phase, &how);
            }
        };
        let failed = match tried {
            Ok(answer) => {
                let status = answer.head.status();
                if !picker.intercepts(exchange, installed, status, true) {
                    if let Some(lease) = picker.succeeded() {
                        lease.succeed();
                    }
                    watch.change(Ends::answering(fastcgi.settings.client_abort));
                    let waits = (&timer, &watch);
                    return forward(exchange, down, installed, fastcgi, (answer, counted), waits).await;
                }
                Failed {
                    failure: Failure::Status(status),
                    sent: true,
                    why: format!("upstream answered {status}"),
                }
            }
            Err(Stop::Own(why)) => {
                errors::server_error(exchange, &why);
                return Next::Status(500);
            }
            Err(Stop::Endpoint(failed)) => failed,
        };
        counted.end(AttemptEnd::ResponseError, exchange);
        let elapsed = exchange.elapsed();
        if let Some(record) = exchange.response.attempts.last_mut() {
            record.response = Some(elapsed);
            record.status = failed.failure.status();
        }
        errors::upstream_error(exchange, &failed.why);
        if picker.failed(exchange, installed, failed.failure, failed.sent, true) == Retry::No {
            exchange.ending = match failed.failure {
                Failure::Timeout | Failure::ConnectTimeout => Ending::ServerTimeout(Phase::Headers),
                _ => Ending::ServerAborted(Phase::Headers),
            };
            return Next::Status(failed.failure.status());
        }
    }
}

async fn attempt(
    exchange: &mut Exchange,
    fastcgi: &FastCgi,
    address: &weir_plan::Address,
    timer: &Timer,
) -> Result<Answer, Stop> {
    let settings = &*fastcgi.settings;
    let began = exchange.worker.now();
    let connect = ConnectSettings {
        timeout: settings.connect_timeout,
        local: None,
        keepalive: settings.socket_keepalive,
        proxy: None,
        tls: None,
    };
    let conn = open(address, &connect, timer).await.map_err(|failure| match failure {
        ConnectFailure::Timeout => Stop::Endpoint(Failed {
            failure: Failure::ConnectTimeout,
            sent: false,
            why: "upstream timed out (110: Connection timed out) while connecting to upstream".into(),
        }),
        ConnectFailure::Failed(why) => Stop::Endpoint(Failed {
            failure: Failure::Connect,
            sent: false,
            why: format!("{why} while connecting to upstream"),
        }),
        ConnectFailure::Resources(why) => Stop::Own(format!("cannot connect to an endpoint: {why}")),
    })?;
    let connected = exchange.worker.now().saturating_duration_since(began);
    if let Some(record) = exchange.response.attempts.last_mut() {
        record.connect = Some(connected);
    }
    send_request(exchange, fastcgi, &conn, timer).await?;
    let answer = receive_head(exchange, fastcgi, conn, timer).await.map_err(Stop::Endpoint)?;
    let header = exchange.worker.now().saturating_duration_since(began);
    if let Some(record) = exchange.response.attempts.last_mut() {
        record.header = Some(header);
        record.status = answer.head.status();
    }
    Ok(answer)
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

async fn send_request(
    exchange: &Exchange,
    fastcgi: &FastCgi,
    conn: &Conn,
    timer: &Timer,
) -> Result<(), Stop> {
    let timeout = fastcgi.settings.send_timeout;
    let mut out = Vec::with_capacity(2048);
    fastcgi::begin_request(&mut out, false);
    fastcgi::params(&mut out, &parameters(exchange, fastcgi));
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
            write(conn, &out, timer, timeout).await?;
            out.clear();
        }
    }
    fastcgi::end_stream(&mut out);
    write(conn, &out, timer, timeout).await
}

async fn write(conn: &Conn, bytes: &[u8], timer: &Timer, timeout: Duration) -> Result<(), Stop> {
    for piece in bytes.chunks(LARGE) {
        timer.arm(timeout);
        let (failure, why) = match timer.run(conn.write_slice(piece)).await {
            Ok(Ok(())) => continue,
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

/// Reads records until the CGI head is whole.
async fn receive_head(
    exchange: &Exchange,
    fastcgi: &FastCgi,
    conn: Conn,
    timer: &Timer,
) -> Result<Answer, Failed> {
    let most = fastcgi.settings.max_response_head as usize;
    let rules = HeadRules {
        first_line: most,
        field_line: most,
        head: most,
        fields: 1000,
        unusual_names: UnusualNames::Keep,
    };
    let mut answer = Answer {
        conn,
        decoder: Decoder::new(),
        input: Buf::new(),
        head: CgiHead::new(),
        text: Vec::new(),
        head_len: 0,
        ended: false,
        silent: Duration::ZERO,
    };
    loop {
        let before = answer.text.len();
        answer.next(exchange, timer, fastcgi.settings.read_timeout).await?;
        if answer.text.len() > before || answer.ended {
            let malformed = |why: &str| Failed {
                failure: Failure::InvalidHeader,
                sent: true,
                why: format!("upstream sent an invalid answer: {why}"),
            };
            match answer.head.parse(&answer.text, &rules) {
                Ok(Parsed::Whole(length)) => {
                    answer.head_len = length;
                    return Ok(answer);
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

impl Answer {
    /// The next event: stdout is appended to `text`, stderr is logged.
    async fn next(&mut self, exchange: &Exchange, timer: &Timer, timeout: Duration) -> Result<(), Failed> {
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
                        Ok(Ok(read)) if read > 0 => continue,
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

/// Forwards an answer whose head is whole.
async fn forward<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
    fastcgi: &FastCgi,
    (mut answer, mut counted): (Answer, Attempting),
    (timer, watch): (&Timer, &Watch),
) -> Next<Box<Rest>> {
    let status = answer.head.status();
    exchange.response.status = status;
    exchange.response.upstream_fields.clear();
    for (id, name, value) in answer.head.headers(&answer.text).end_to_end() {
        exchange.response.upstream_fields.push_known(id, name, value);
    }
    super::rewrite::pass_fields(exchange, &fastcgi.hide_headers);
    let length = answer.head.content_length();
    answer.text.drain(..answer.head_len);
    if let Some(next) = super::rewrite::obey(exchange, installed, &fastcgi.ignore_headers) {
        exchange.response.fields.clear();
        counted.end(AttemptEnd::Answer(status), exchange);
        return next;
    }
    let settings = &*fastcgi.settings;
    if settings.intercept_errors
        && status >= 300
        && exchange.route().settings.error_pages.find(status).is_some()
    {
        exchange.response.fields.clear();
        counted.end(AttemptEnd::Answer(status), exchange);
        return Next::Status(status);
    }
    // A CGI redirect without a scheme is asked for from us (RFC 3875 §6.2.2) only where it is a path of its own status.
    let size = match length {
        _ if respond::is_bodiless(exchange) => BodySize::Bodiless,
        Some(length) => BodySize::Known(length),
        None if answer.ended => BodySize::Known(answer.text.len() as u64),
        None => BodySize::Unknown,
    };
    respond::start(exchange, down, size);
    let waits = (timer, watch, lasting::due(exchange));
    match relay(exchange, down, &mut answer, settings.read_timeout, waits).await {
        Ok(Relayed::Lasting) => {
            let rest = Rest { answer, counted, settings: fastcgi.settings.clone(), status };
            Next::Later(Box::new(rest))
        }
        relayed => relayed_to(exchange, down, counted, status, relayed.map(drop)),
    }
}

/// What is left of an answer that lasts.
pub(crate) struct Rest {
    answer: Answer,
    counted: Attempting,
    settings: Arc<UpstreamSettings>,
    status: u16,
}

impl Rest {
    /// Carries it to its end.
    pub(super) async fn carry<D: Downstream>(mut self, exchange: &mut Exchange, down: &mut D) {
        let timer = Timer::new();
        let watch = Watch::new(down.watched(), Ends::answering(self.settings.client_abort));
        let waits = (&timer, &watch, None);
        let relayed = relay(exchange, down, &mut self.answer, self.settings.read_timeout, waits).await;
        // Something of it was sent long ago: nothing else can be answered.
        let _ = relayed_to(exchange, down, self.counted, self.status, relayed.map(drop));
    }
}

/// Notes how an answer ended.
fn relayed_to<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    mut counted: Attempting,
    status: u16,
    relayed: Result<(), Relay>,
) -> Next<Box<Rest>> {
    let mut next = Next::Done;
    match relayed {
        Ok(()) => {}
        Err(Relay::Client(error)) => down.fail(exchange, &error),
        Err(Relay::Endpoint(failed)) => {
            exchange.ending = match failed.failure {
                Failure::Timeout => Ending::ServerTimeout(Phase::Data),
                _ => Ending::ServerAborted(Phase::Data),
            };
            errors::upstream_error(exchange, &failed.why);
            if down.retract(exchange) {
                next = Next::Status(failed.failure.status());
            } else {
                down.cut();
            }
        }
    }
    let elapsed = exchange.elapsed();
    let sent = exchange.response.body_bytes_sent;
    if let Some(record) = exchange.response.attempts.last_mut() {
        record.response = Some(elapsed);
        record.length = sent;
    }
    counted.end(AttemptEnd::Answer(status), exchange);
    next
}

enum Relay {
    Client(SendError),
    Endpoint(Failed),
}

/// A body that is not as long as its script said is the endpoint's fault, the rest the client's.
fn of_client(error: SendError) -> Relay {
    match error {
        SendError::Length => Relay::Endpoint(Failed {
            failure: Failure::InvalidHeader,
            sent: true,
            why: "upstream sent a body of another length than its Content-Length".to_owned(),
        }),
        error => Relay::Client(error),
    }
}

async fn relay<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    answer: &mut Answer,
    patience: Duration,
    (timer, watch, due): (&Timer, &Watch, Option<Instant>),
) -> Result<Relayed, Relay> {
    loop {
        if !answer.text.is_empty() {
            let text = std::mem::take(&mut answer.text);
            respond::data(exchange, down, &text).await.map_err(of_client)?;
            answer.text = text;
            answer.text.clear();
        }
        if answer.ended {
            let ended = respond::end(exchange, down, &Fields::default()).await;
            return ended.map(|()| Relayed::Whole).map_err(of_client);
        }
        if lasting::is_due(due) {
            return Ok(Relayed::Lasting);
        }
        if answer.input.is_empty() {
            respond::flush(exchange, down).await.map_err(Relay::Client)?;
        }
        let (patience, wait) = lasting::wait(patience, &mut answer.silent, due);
        let gone = |_| Relay::Client(SendError::Io(std::io::ErrorKind::ConnectionReset.into()));
        match watch.over(answer.next(exchange, timer, wait)).await.map_err(gone)? {
            Err(failed) if failed.failure == Failure::Timeout && wait < patience => answer.silent = wait,
            read => read.map_err(Relay::Endpoint)?,
        }
    }
}
