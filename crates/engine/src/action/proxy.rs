//! The proxy action: HTTP/1 to an endpoint of a pool.
//!
//! Owns: attempts, the forwarding of heads and bodies both ways, what a failure means to the client.
//! Never: chooses endpoints (`upstream::picker`), frames (`wire`), or decides on retries (`policy::retry`).
//! Driven by: the walk.
//!
//! ```text
//!   body in ── pick ── connect ── send ── head ──┬─ 1xx: forwarded, next head
//!     ^          ^_______failed, may retry_______|─ 101: tunnel
//!                                                └─ final: body out, connection kept
//! ```

use std::time::Duration;

use weir_http::{Framing, HeadRules, UnusualNames};
use weir_plan::{Proxy, Reuse};
use weir_policy::idle::History;
use weir_policy::retry::{Failure, Retry};
use weir_rt::{LARGE, PeerClosed, Timer};
use weir_telemetry::AttemptEnd;
use weir_wire::{ClientConnection, Heard, ResponseFailure, SendError, SendFraming, Step};

use super::lasting;
use super::later::{self, Later};
use super::proxied::{Rest, relayed_to};
use super::relay::{Keeping, ReadAhead, Relayed, Source, relay};
use super::upstream_head::{self, Asked, UpstreamBody};
use crate::answer::respond;
use crate::eval::program::Verdict;
use crate::exchange::errors;
use crate::exchange::fields::Fields;
use crate::exchange::{BodyPiece, BodySize, Downstream, Ending, Exchange, Next, Phase, intake};
use crate::upstream::{
    ConnectFailure, ConnectSettings, Picked, Picker, Refusal, local_address, open, resolve,
};
use crate::worker::Installed;
use crate::worker::count::{Attempting, CountedIdle};
use crate::worker::idle::{IdleKey, Kept, TlsKey};
use crate::worker::race::{Either, race};
use crate::worker::watch::{Ends, Watch};

/// Most interim heads before an answer.
const MAX_INTERIMS: u32 = 16;

/// Why an attempt gave no answer.
struct Failed {
    failure: Failure,
    /// Bytes of the request may have reached the endpoint.
    sent: bool,
    why: String,
}

/// An attempt that cannot be made up for by another endpoint.
enum Stop {
    /// The endpoint failed; another may be tried.
    Endpoint(Failed),
    /// The client sent nonsense: answer with this status.
    Client(u16),
    /// The client went away: there is nobody to answer.
    Gone,
    /// Our own fault.
    Own(String),
}

impl From<Failed> for Stop {
    fn from(failed: Failed) -> Self {
        Self::Endpoint(failed)
    }
}

/// What an attempt knows beside the exchange.
struct Attempt<'a> {
    installed: &'a Installed,
    proxy: &'a Proxy,
    target: &'a [u8],
    body: UpstreamBody,
    asked: Asked,
    /// The body comes from the client while it is sent.
    streaming: bool,
    tls_name: &'a str,
    /// What the scheme of a computed target says.
    secure: Option<bool>,
    timer: &'a Timer,
    /// Over the client.
    watch: &'a Watch,
}

/// One try of it.
struct Once<'a> {
    picker: &'a Picker,
    picked: &'a Picked,
    counted: &'a Attempting,
    /// On a connection that nobody used before.
    fresh: bool,
}

/// A connection with an answer's head on it.
struct Answered {
    conn: Box<ClientConnection>,
    key: IdleKey,
    history: History,
}

/// Proxies a request.
pub(crate) async fn serve<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
    proxy: &Proxy,
) -> Next<Later> {
    if intake::declared_too_large(exchange) {
        return Next::Status(413);
    }
    if !upstream_head::spend_hop(exchange) {
        Box::pin(respond::last_hop(exchange, down)).await;
        return Next::Done;
    }
    let resolved = match resolve(exchange, installed, &proxy.target).await {
        Ok(resolved) => resolved,
        Err((status, why)) => {
            errors::upstream_error(exchange, &why);
            return Next::Status(status);
        }
    };
    let asked = upstream_head::asks(exchange, proxy);
    let body = match take_body(exchange, down, proxy, asked).await {
        Ok(body) => body,
        Err(status) => return Next::Status(status),
    };
    let mut target = Vec::with_capacity(exchange.request.raw_path.len() + exchange.request.query.len() + 16);
    upstream_head::target(exchange, proxy, resolved.path.as_deref(), &mut target);
    let streaming = body != UpstreamBody::None && !exchange.body.complete && proxy.body.is_none();
    let timer = Timer::new();
    let watch = Watch::new(down.watched(), Ends::unanswered(proxy.settings.client_abort));
    let tls_name = resolved.host.as_deref().unwrap_or(&proxy.host);
    let attempt = Attempt {
        installed,
        proxy,
        target: &target,
        body,
        asked,
        streaming,
        tls_name,
        secure: resolved.secure,
        timer: &timer,
        watch: &watch,
    };
    let mut picker = Picker::new(exchange, resolved.destination, &proxy.settings.retry);
    let mut fresh = false;
    // One session of an endpoint, however often it is tried again there.
    let mut held = None;
    loop {
        let asked_at = exchange.worker.now();
        let picked = match watch.over(picker.next(exchange, installed)).await {
            Ok(Ok(picked)) => picked,
            Ok(Err(Refusal { status, why })) => return refused(exchange, status, why),
            Err(how) => {
                exchange.times.queued = Some(exchange.worker.now().saturating_duration_since(asked_at));
                return left(exchange, down, Phase::Queue, &how);
            }
        };
        let counters = &exchange.worker.counters;
        let mut counted: Attempting =
            held.take().unwrap_or_else(|| counters.attempt(picked.pool, picked.key, exchange.worker.now()));
        let outcome = {
            let once = Once { picker: &picker, picked: &picked, counted: &counted, fresh };
            watch.reading(attempt.streaming);
            watch.over(try_once(exchange, down, &attempt, &once)).await
        };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(how) => {
                counted.end(AttemptEnd::ClientAbort, exchange);
                let phase = phase_reached(exchange);
                return left(exchange, down, phase, &how);
            }
        };
        fresh = false;
        let replayable = !exchange.body.streamed;
        let failed = match outcome {
            Ok(answered) => {
                let status = answered.conn.response().status();
                if !picker.intercepts(exchange, installed, status, replayable) {
                    return forward(exchange, down, &attempt, &mut picker, &picked, answered, counted).await;
                }
                note_status(exchange, status);
                Failed {
                    failure: Failure::Status(status),
                    sent: true,
                    why: format!("upstream answered {status}"),
                }
            }
            Err(Stop::Client(status)) => {
                counted.end(AttemptEnd::ClientAbort, exchange);
                return Next::Status(status);
            }
            Err(Stop::Gone) => {
                counted.end(AttemptEnd::ClientAbort, exchange);
                return Next::Done;
            }
            Err(Stop::Own(why)) => {
                counted.own_fault();
                errors::server_error(exchange, &why);
                return Next::Status(500);
            }
            Err(Stop::Endpoint(failed)) => failed,
        };
        let retry = picker.failed(exchange, installed, failed.failure, failed.sent, replayable);
        match (retry, failed.failure) {
            (Retry::Same, _) => {}
            (_, Failure::StaleConnection) => counted.cancel(),
            (_, failure) => counted.end(end_of(failure), exchange),
        }
        note_failure(exchange, &failed, retry);
        match retry {
            Retry::No => return gave_up(exchange, failed.failure),
            Retry::Fresh => fresh = true,
            Retry::Next => counted.retried(false),
            Retry::Same => {
                counted.retried(true);
                // HAProxy gives a server that refused connections time to come back.
                if failed.failure == Failure::Connect {
                    let pause = Duration::from_secs(1).min(proxy.settings.connect_timeout);
                    if let Err(how) = watch.over(weir_rt::sleep(pause)).await {
                        counted.end(AttemptEnd::ClientAbort, exchange);
                        return left(exchange, down, Phase::Connect, &how);
                    }
                }
                held = Some(counted);
            }
        }
    }
}

fn host_without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

fn refused(exchange: &mut Exchange, status: u16, why: &str) -> Next<Later> {
    if exchange.ending == Ending::Normal {
        exchange.ending = Ending::ServerAborted(Phase::Connect);
    }
    errors::upstream_error(exchange, why);
    if exchange.site().manner == weir_plan::Manner::Nginx
        && let Some(pool) = exchange.pool_name()
    {
        // nginx logs the upstream's name where none of its servers could be tried.
        let name: std::rc::Rc<str> = pool.into();
        let mut attempt = crate::exchange::Attempt::new(name.clone(), name);
        attempt.status = status;
        attempt.response = Some(Duration::ZERO);
        exchange.response.attempts.push(attempt);
    }
    Next::Status(status)
}

/// How far the last attempt had come before there was an answer.
pub(super) fn phase_reached(exchange: &Exchange) -> Phase {
    let connected = exchange.response.attempts.last().is_some_and(|last| last.connect.is_some());
    if connected { Phase::Headers } else { Phase::Connect }
}

/// The client went away before there was an answer: what was done for it has ended, and is noted.
pub(super) fn left<D: Downstream, L>(
    exchange: &mut Exchange,
    down: &mut D,
    phase: Phase,
    how: &PeerClosed,
) -> Next<L> {
    let haproxy = exchange.site().manner == weir_plan::Manner::Haproxy;
    let reset = matches!(how, PeerClosed::Failed(_));
    // So HAProxy tells the two apart.
    let told = if haproxy && reset && phase == Phase::Headers { Phase::Data } else { phase };
    exchange.ending = Ending::ClientAborted(told);
    let doing = match phase {
        Phase::Queue => "waiting for an upstream",
        Phase::Connect => "connecting to upstream",
        _ => "reading response header from upstream",
    };
    let cause = match how {
        PeerClosed::Failed(error) => format!(" ({})", errors::system(error)),
        PeerClosed::Finished => String::new(),
    };
    errors::client_error(
        exchange,
        &format!(
            "client prematurely closed connection, so upstream connection is closed too{cause} while {doing}"
        ),
    );
    let elapsed = exchange.elapsed();
    if let Some(attempt) = exchange.response.attempts.last_mut() {
        attempt.response.get_or_insert(elapsed);
    }
    if haproxy && !reset && phase == Phase::Headers {
        // It may have ended its half only, and is told.
        exchange.close_after = true;
        return Next::Status(400);
    }
    down.cut();
    Next::Done
}

fn end_of(failure: Failure) -> AttemptEnd {
    match failure {
        Failure::Connect | Failure::ConnectTimeout => AttemptEnd::ConnectError,
        Failure::Status(status) => AttemptEnd::Answer(status),
        _ => AttemptEnd::ResponseError,
    }
}

/// Keeps the record of a failed attempt for the log.
fn note_failure(exchange: &mut Exchange, failed: &Failed, retry: Retry) {
    if retry == Retry::Fresh {
        // A lost race with an idle timeout is nobody's failure, and no attempt.
        exchange.response.attempts.pop();
        return;
    }
    let elapsed = exchange.elapsed();
    if let Some(attempt) = exchange.response.attempts.last_mut() {
        attempt.response = Some(elapsed);
        if attempt.status == 0 {
            attempt.status = failed.failure.status();
        }
    }
    errors::upstream_error(exchange, &failed.why);
}

fn gave_up(exchange: &mut Exchange, failure: Failure) -> Next<Later> {
    exchange.ending = match failure {
        Failure::Connect => Ending::ServerAborted(Phase::Connect),
        Failure::ConnectTimeout => Ending::ServerTimeout(Phase::Connect),
        Failure::Timeout => Ending::ServerTimeout(Phase::Headers),
        Failure::InvalidHeader => Ending::Proxy(Phase::Headers),
        _ => Ending::ServerAborted(Phase::Headers),
    };
    let unreachable = matches!(failure, Failure::Connect | Failure::ConnectTimeout);
    let haproxy = exchange.site().manner == weir_plan::Manner::Haproxy;
    // HAProxy's 503 is for servers that cannot be reached, its 502 for those that answer badly.
    Next::Status(if haproxy && unreachable { 503 } else { failure.status() })
}

/// Takes the body in as the settings say, and tells how it goes on.
async fn take_body<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    proxy: &Proxy,
    asked: Asked,
) -> Result<UpstreamBody, u16> {
    if let Some(template) = &proxy.body {
        let text = crate::eval::text(exchange, template);
        exchange.body.clear();
        let folder = exchange.route().settings.body.temp_path.clone();
        exchange.body.keep(&text, usize::MAX, &folder).map_err(|_| 500_u16)?;
        exchange.body.complete = true;
        return Ok(UpstreamBody::Length(text.len() as u64));
    }
    if !exchange.request.has_body() || !proxy.pass_request_body {
        return Ok(UpstreamBody::None);
    }
    // HTTP/1.0 has no chunked coding: the length must be known first.
    let must_know = exchange.request.chunked && !proxy.http_1_1;
    if !exchange.body.complete && !must_know && (!proxy.settings.request_buffering || asked.upgrade) {
        return Ok(match exchange.request.content_length {
            Some(length) if !exchange.request.chunked => UpstreamBody::Length(length),
            _ => UpstreamBody::Chunked,
        });
    }
    intake::buffer(exchange, down).await?;
    if !exchange.request_trailers.is_empty() && proxy.http_1_1 {
        return Ok(UpstreamBody::Chunked);
    }
    Ok(UpstreamBody::Length(exchange.body.buffered()))
}

/// One attempt: a connection, the request, the answer's head.
async fn try_once<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    attempt: &Attempt<'_>,
    once: &Once<'_>,
) -> Result<Answered, Stop> {
    let began = exchange.worker.now();
    let (mut conn, key, mut history, reused) = connection(exchange, attempt, once).await?;
    let connected = exchange.worker.now().saturating_duration_since(began);
    if let Some(record) = exchange.response.attempts.last_mut() {
        record.connect = Some(connected);
    }
    history.requests += 1;
    let asked = Asked { close: attempt.asked.close, ..attempt.asked };
    let mut head = exchange.worker.take_text();
    let written =
        upstream_head::write(exchange, attempt.proxy, attempt.target, attempt.body, asked, &mut head);
    conn.outgoing.reset_counts();
    conn.outgoing.buffer().extend(&head);
    exchange.worker.give_text(head);
    written.map_err(|why| Stop::Own(why.to_owned()))?;
    let mut interims = 0;
    send_request(exchange, down, attempt, &mut conn, reused, &mut interims).await?;
    attempt.watch.reading(false);
    let result = receive_head(exchange, down, attempt, &mut conn, reused, &mut interims).await;
    let header = exchange.worker.now().saturating_duration_since(began);
    if let Some(record) = exchange.response.attempts.last_mut() {
        record.sent = conn.outgoing.sent();
        if result.is_ok() {
            record.header = Some(header);
        }
    }
    result?;
    Ok(Answered { conn, key, history })
}

/// A kept connection, or a new one.
async fn connection(
    exchange: &mut Exchange,
    attempt: &Attempt<'_>,
    &Once { picker, picked, counted, fresh }: &Once<'_>,
) -> Result<(Box<ClientConnection>, IdleKey, History, bool), Stop> {
    let endpoint = picker.endpoint(attempt.installed, picked);
    let of_action = attempt.proxy.tls.as_deref().filter(|_| attempt.secure != Some(false));
    let tls_use = endpoint.and_then(|endpoint| endpoint.tls.as_ref()).or(of_action);
    if attempt.secure == Some(true) && tls_use.is_none() {
        return Err(Stop::Own("the computed target is https, but this action has no TLS settings".into()));
    }
    let tls_name = match tls_use {
        Some(tls) => match &tls.name {
            Some(template) => String::from_utf8_lossy(&crate::eval::text(exchange, template)).into_owned(),
            None => host_without_port(attempt.tls_name).to_owned(),
        },
        None => String::new(),
    };
    let tls = tls_use.map(|tls| attempt.installed.prepared.client_tls(tls.config));
    let local = attempt.proxy.bind.as_ref().map(|template| crate::eval::text(exchange, template));
    let key = IdleKey {
        endpoint: picked.key,
        tls: tls.map(|tls| TlsKey::new(tls.digest(), &tls_name)),
        local: local.as_ref().map_or(0, |local| crate::eval::hash(local) | 1),
    };
    let bounds = picker.keepalive(attempt.installed);
    let proxy_header = endpoint.and_then(|endpoint| endpoint.send_proxy);
    let may_reuse = !fresh
        && proxy_header.is_none()
        && !attempt.asked.upgrade
        && match bounds.reuse {
            Reuse::Never => false,
            Reuse::Always => true,
            // The first request of a client goes on a connection of its own, unless it may be sent twice.
            Reuse::Safe | Reuse::Aggressive => {
                exchange.client.requests.get() > 1 || exchange.request.method.is_idempotent()
            }
        };
    if may_reuse {
        // A request that must not be sent twice gets a connection that was looked at first.
        let careful = !exchange.request.method.is_idempotent();
        while let Some(Kept { mut conn, history }) =
            exchange.worker.idle.take(exchange.worker.millis(), picked.pool, &key)
        {
            if conn.was_silent(careful) {
                counted.reused();
                return Ok((conn, key, history, true));
            }
        }
    }
    let settings = ConnectSettings {
        timeout: attempt.proxy.settings.connect_timeout,
        local: local.as_deref().and_then(local_address),
        keepalive: attempt.proxy.settings.socket_keepalive,
        proxy: proxy_header.map(|version| (version, &*exchange.client, exchange.client_source())),
        tls: tls.map(|tls| (tls, tls_name.as_str())),
    };
    counted.connecting();
    match open(&picked.address, &settings, attempt.timer).await {
        Ok(conn) => {
            let history = History { opened: exchange.worker.millis(), requests: 0 };
            Ok((Box::new(ClientConnection::new(conn)), key, history, false))
        }
        Err(ConnectFailure::Timeout) => Err(Stop::Endpoint(Failed {
            failure: Failure::ConnectTimeout,
            sent: false,
            why: "upstream timed out (110: Connection timed out) while connecting to upstream".into(),
        })),
        Err(ConnectFailure::Failed(why)) => Err(Stop::Endpoint(Failed {
            failure: Failure::Connect,
            sent: false,
            why: format!("{why} while connecting to upstream"),
        })),
        Err(ConnectFailure::Resources(why)) => {
            Err(Stop::Own(format!("cannot connect to an endpoint: {why}")))
        }
    }
}

/// Sends what stands in the buffer, and the body.
async fn send_request<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    attempt: &Attempt<'_>,
    conn: &mut ClientConnection,
    reused: bool,
    interims: &mut u32,
) -> Result<(), Stop> {
    let (timer, timeout) = (attempt.timer, attempt.proxy.settings.send_timeout);
    conn.outgoing.begin(match attempt.body {
        UpstreamBody::None => SendFraming::None,
        UpstreamBody::Length(length) => SendFraming::Length(length),
        UpstreamBody::Chunked => SendFraming::Chunked,
    });
    let failed = |error: SendError| Failed {
        failure: match error {
            SendError::Timeout => Failure::Timeout,
            _ if reused => Failure::StaleConnection,
            _ => Failure::Io,
        },
        sent: true,
        why: match &error {
            SendError::Timeout => {
                "upstream timed out (110: Connection timed out) while sending request to upstream".to_owned()
            }
            SendError::Io(error) => {
                format!("send() failed ({}) while sending request to upstream", errors::system(error))
            }
            error => format!("{error} while sending request to upstream"),
        },
    };
    if attempt.streaming {
        return stream_body(exchange, down, attempt, conn, interims, failed).await;
    }
    if attempt.body != UpstreamBody::None {
        let rules = response_rules(attempt.proxy);
        let mut offset = 0;
        loop {
            match exchange.body.piece(offset) {
                Ok(BodyPiece::End) => break,
                Ok(BodyPiece::Data(piece)) => {
                    offset += piece.len() as u64;
                    match conn.send_unless_refused(&piece, &rules, timer, timeout).await {
                        Ok(true) => {}
                        Ok(false) => return Ok(()),
                        // An endpoint that refuses a body early answers and closes: its answer counts.
                        Err(_) if conn.incoming.fill_ready(LARGE).unwrap_or(false) => return Ok(()),
                        Err(error) => return Err(failed(error).into()),
                    }
                }
                Err(error) => return Err(Stop::Own(format!("cannot read a request body back: {error}"))),
            }
        }
    }
    let trailers = trailer_lines(&exchange.request_trailers);
    conn.outgoing.finish(&trailers, timer, timeout).await.map_err(|error| failed(error).into())
}

fn trailer_lines(trailers: &Fields) -> Vec<u8> {
    let mut lines = Vec::new();
    if !trailers.is_empty() {
        let mut head = weir_http::HeadWriter::resume(&mut lines);
        for field in trailers.iter() {
            let _ = head.field(field.name, field.value);
        }
    }
    lines
}

/// Passes the body on as it arrives. An answer that comes early ends it; interim ones do not (RFC 9110 §15.2).
async fn stream_body<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    attempt: &Attempt<'_>,
    conn: &mut ClientConnection,
    interims: &mut u32,
    failed: impl Fn(SendError) -> Failed,
) -> Result<(), Stop> {
    let (timer, timeout) = (attempt.timer, attempt.proxy.settings.send_timeout);
    let most = exchange.route().settings.body.max_size;
    let rules = response_rules(attempt.proxy);
    conn.outgoing.flush(timer, timeout).await.map_err(&failed)?;
    loop {
        let io = conn.io().clone();
        let piece = match race(down.body_piece(exchange), io.readable()).await {
            Either::Left(piece) => piece,
            Either::Right(()) => {
                let mut heard = conn.hear(&rules);
                while heard == Heard::Interim {
                    // Whole already: this does not wait.
                    let received = conn.receive_head(&rules, timer, timeout).await;
                    received.map_err(|failure| head_failed(failure, false))?;
                    forward_interim(exchange, down, conn, interims).await?;
                    heard = conn.hear(&rules);
                }
                if heard == Heard::Nothing {
                    continue;
                }
                exchange.close_after = true;
                return Ok(());
            }
        };
        match piece {
            Ok(Some(piece)) => {
                let length = piece.len();
                conn.outgoing.send(piece, timer, timeout).await.map_err(&failed)?;
                exchange.body.count_streamed(length);
                if most.is_some_and(|most| exchange.body.received() > most) {
                    return Err(Stop::Client(413));
                }
                conn.outgoing.flush(timer, timeout).await.map_err(&failed)?;
            }
            Ok(None) => break,
            Err(error) => {
                let status = intake::failed(exchange, &error);
                return Err(Stop::Client(status));
            }
        }
    }
    let mut trailers = std::mem::take(&mut exchange.request_trailers);
    down.trailers(&mut trailers);
    let lines = trailer_lines(&trailers);
    exchange.request_trailers = trailers;
    conn.outgoing.finish(&lines, timer, timeout).await.map_err(|error| failed(error).into())
}

/// What an upstream head may measure.
fn response_rules(proxy: &Proxy) -> HeadRules {
    let most = proxy.settings.max_response_head as usize;
    HeadRules {
        first_line: most,
        field_line: most,
        head: most,
        fields: 1000,
        unusual_names: UnusualNames::Keep,
    }
}

/// Waits for the final head. Interim ones are forwarded.
async fn receive_head<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    attempt: &Attempt<'_>,
    conn: &mut ClientConnection,
    reused: bool,
    interims: &mut u32,
) -> Result<(), Stop> {
    let rules = response_rules(attempt.proxy);
    let timeout = attempt.proxy.settings.read_timeout;
    loop {
        if let Err(failure) = conn.receive_head(&rules, attempt.timer, timeout).await {
            return Err(head_failed(failure, reused && *interims == 0).into());
        }
        let response = conn.response();
        let status = response.status();
        if status == 101 {
            let to = response.upgrade().filter(|_| response.is_tunnel(exchange.request.method));
            if attempt.asked.upgrade
                && to.is_some_and(|to| upstream_head::was_offered(exchange, attempt.proxy, to))
            {
                return Ok(());
            }
            return Err(malformed("upstream changed protocols unasked").into());
        }
        if !response.is_interim() {
            return Ok(());
        }
        forward_interim(exchange, down, conn, interims).await?;
    }
}

/// Passes an interim head on that was received, and leaves it behind. `interims` counts those of this attempt.
async fn forward_interim<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    conn: &mut ClientConnection,
    interims: &mut u32,
) -> Result<(), Stop> {
    *interims += 1;
    if *interims > MAX_INTERIMS {
        return Err(malformed("upstream sent too many interim responses").into());
    }
    let response = conn.response();
    let status = response.status();
    let mut fields = Fields::default();
    for (id, name, value) in response.headers().end_to_end() {
        fields.push_known(id, name, value);
    }
    conn.skip_head();
    if let Err(error) = down.interim(status, &fields).await {
        down.fail(exchange, &error);
        return Err(Stop::Gone);
    }
    Ok(())
}

fn malformed(why: &str) -> Failed {
    Failed { failure: Failure::InvalidHeader, sent: true, why: why.to_owned() }
}

fn head_failed(failure: ResponseFailure, reused: bool) -> Failed {
    let (failure, why) = match failure {
        ResponseFailure::ClosedUnanswered if reused => {
            (Failure::StaleConnection, "upstream closed a kept connection".to_owned())
        }
        ResponseFailure::ClosedUnanswered | ResponseFailure::Closed => (
            Failure::Io,
            "upstream prematurely closed connection while reading response header from upstream".to_owned(),
        ),
        ResponseFailure::Timeout => {
            let why =
                "upstream timed out (110: Connection timed out) while reading response header from upstream";
            (Failure::Timeout, why.to_owned())
        }
        ResponseFailure::Malformed(error) => (
            Failure::InvalidHeader,
            format!("upstream sent invalid header ({error}) while reading response header from upstream"),
        ),
        ResponseFailure::Io(error) => {
            let why = errors::system(&error);
            (Failure::Io, format!("recv() failed ({why}) while reading response header from upstream"))
        }
    };
    Failed { failure, sent: true, why }
}

fn note_status(exchange: &mut Exchange, status: u16) {
    if let Some(record) = exchange.response.attempts.last_mut() {
        record.status = status;
    }
}

/// Forwards an answer whose head has arrived.
async fn forward<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    attempt: &Attempt<'_>,
    picker: &mut Picker,
    picked: &Picked,
    answered: Answered,
    mut counted: Attempting,
) -> Next<Later> {
    let Answered { mut conn, key, history } = answered;
    let method = exchange.request.method;
    let response = conn.response();
    let status = response.status();
    let reusable = response.reusable(method) && !attempt.asked.close;
    note_status(exchange, status);
    exchange.response.status = status;
    exchange.response.upstream_fields.load(conn.head_bytes(), response.headers());
    let lease = LeaseEnd(picker.succeeded());
    let endpoint = picker.endpoint(attempt.installed, picked);
    let reason = response.reason();
    if reason != weir_http::Phrases::default().reason(status).as_bytes() {
        exchange.response.reason = Some(reason.into());
    }
    super::rewrite::take_fields(exchange, attempt.proxy);
    if let Some(program) = &attempt.installed.plan.route(exchange.route).response_program
        && let Some(instead) = run_rules(exchange, program)
    {
        let connection = (conn, key, history);
        return replaced(exchange, attempt, picker, picked, connection, counted, instead, reusable);
    }
    if let Some(endpoint) = endpoint {
        crate::upstream::sticky::set(exchange, attempt.installed, picked, endpoint);
    }
    if status == 101 {
        counted.answered(status);
        let upgraded = super::tunnel::upgraded(exchange, down, attempt.proxy, conn, counted, lease).await;
        return upgraded.map_or(Next::Done, |tunnel| Next::Later(Later::Tunnel(tunnel)));
    }
    let framing = response_framing(&conn, method);
    let redirected = super::rewrite::accelerated(exchange, attempt.installed, attempt.proxy);
    let intercepted = attempt.proxy.settings.intercept_errors
        && status >= 300
        && exchange.route().settings.error_pages.find(status).is_some();
    if redirected.is_some() || intercepted {
        let (connection, instead) = ((conn, key, history), redirected.unwrap_or(Next::Status(status)));
        return replaced(exchange, attempt, picker, picked, connection, counted, instead, reusable);
    }
    conn.begin_body(method);
    let size = match framing {
        Framing::Length(length) => BodySize::Known(length),
        Framing::None if respond::is_bodiless(exchange) => BodySize::Bodiless,
        Framing::None => BodySize::Known(0),
        Framing::Chunked | Framing::UntilClose => BodySize::Unknown,
    };
    respond::start(exchange, down, size);
    let buffering = super::rewrite::buffering(exchange, attempt.proxy);
    let keeping = reusable.then(|| Keeping {
        pool: picked.pool,
        bounds: picker.keepalive(attempt.installed),
        key,
        history,
    });
    let mut source = Source::new(exchange, conn, keeping, counted, lease);
    let settings = &attempt.proxy.settings;
    attempt.watch.change(Ends::answering(settings.client_abort));
    let waits = (attempt.timer, attempt.watch, lasting::due(exchange));
    let mut ahead = ReadAhead::new(settings, buffering);
    match relay(exchange, down, settings.read_timeout, waits, &mut ahead, &mut source).await {
        Ok(Relayed::Lasting) => {
            let rest =
                Rest { source: source.owned(), ahead: ahead.owned(), settings: settings.clone(), status };
            Next::Later(Later::Rest(later::Rest::Proxied(Box::new(rest))))
        }
        relayed => relayed_to(exchange, down, source, status, relayed.map(drop)),
    }
}

/// Runs the rules for responses. `Some`: the answer that takes the place of the endpoint's.
fn run_rules(exchange: &mut Exchange, program: &weir_plan::Program) -> Option<Next<Later>> {
    match crate::eval::program::run(exchange, program) {
        Verdict::Respond(respond) => {
            exchange.ending = Ending::LocalHeaders;
            exchange.note_cause(respond.cause, Phase::Headers);
            Some(Next::Respond(respond))
        }
        Verdict::Close => Some(Next::Close),
        _ => None,
    }
}

/// The endpoint's answer is not wanted; what little of its body is here is read, so that the connection may be kept.
#[allow(clippy::too_many_arguments, reason = "all that an attempt holds ends here")]
fn replaced(
    exchange: &mut Exchange,
    attempt: &Attempt<'_>,
    picker: &Picker,
    picked: &Picked,
    (mut conn, key, history): (Box<ClientConnection>, IdleKey, History),
    mut counted: Attempting,
    instead: Next<Later>,
    reusable: bool,
) -> Next<Later> {
    let (method, status) = (exchange.request.method, conn.response().status());
    conn.begin_body(method);
    if reusable && conn.incoming.rest_is_here() && drained(&mut conn) && conn.is_clean() {
        keep(exchange, attempt, picker, picked, key, (Kept { conn, history }, counted.keeps()));
    }
    counted.end(AttemptEnd::Answer(status), exchange);
    exchange.response.fields.clear();
    instead
}

/// Says that the endpoint did well, when the answer is through.
pub(crate) struct LeaseEnd(Option<weir_policy::pool::Lease>);

impl Drop for LeaseEnd {
    fn drop(&mut self) {
        if let Some(lease) = self.0.take() {
            lease.succeed();
        }
    }
}

fn response_framing(conn: &ClientConnection, method: weir_http::Method) -> Framing {
    conn.response().framing(method)
}

fn drained(conn: &mut ClientConnection) -> bool {
    loop {
        match conn.incoming.step() {
            Ok(Step::Piece(..)) => {}
            Ok(Step::End) => return true,
            Ok(Step::Wait) | Err(_) => return false,
        }
    }
}

fn keep(
    exchange: &Exchange,
    attempt: &Attempt<'_>,
    picker: &Picker,
    picked: &Picked,
    key: IdleKey,
    kept: (Kept, CountedIdle),
) {
    let bounds = picker.keepalive(attempt.installed);
    exchange.worker.park(picked.pool, &bounds, key, kept);
}
