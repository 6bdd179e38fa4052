//! An HTTP/1 connection from its first byte to its close.
//!
//! Owns: waiting for requests, turning heads into exchanges, keep-alive, the answers to what is no request.
//! Never: routes or answers requests; `walk` does.
//! Driven by: `accept`.
//! Why: while a connection is idle it holds neither buffer nor plan nor exchange; all of that lives in [`requests`],
//! whose future exists only while a request does.

use std::rc::Rc;
use std::time::Duration;

use weir_expr::settings::ClientSettings;
use weir_http::{RequestError, TargetForm};
use weir_plan::{ListenerIx, Service};
use weir_rt::{Buf, Timer};
use weir_wire::{Conn, HeadFailure, ServerConnection};

use super::h1::H1;
use super::h2;
use super::head::{self, Asked};
use crate::action::Later;
use crate::action::later::Rest;
use crate::action::tunnel::{Upgraded, carry_upgraded};
use crate::answer::log;
use crate::answer::respond;
use crate::exchange::errors;
use crate::exchange::{Client, Ending, Exchange, Phase};
use crate::walk;
use crate::worker::connection_counts::CountedConnection;
use crate::worker::race::{Either, race};
use crate::worker::{Installed, Worker};

/// Most bytes of an unread request body that are read and dropped to keep a connection.
const MAX_SKIPPED: u64 = 1 << 20;

/// How long a worker that leaves waits for the first request of a connection: who has just connected is about to ask.
const JUST_COME: Duration = Duration::from_secs(2);

/// Serves a connection until it closes. `ahead` is what was read beyond a PROXY header.
// An `async` block that captures: an `async fn` would hold each argument twice, in every idle connection.
pub(crate) fn serve(
    worker: Rc<Worker>,
    counted: CountedConnection,
    conn: Conn,
    client: Rc<Client>,
    timer: Timer,
    ahead: Buf,
) -> impl Future<Output = ()> {
    let mut input = ahead;
    async move {
        let mut wait = first_wait(&worker, &client);
        let mut ended = worker.now();
        let mut may_be_h2 = speaks_h2(&worker, &client);
        // The first request has often arrived with the connection: trying costs less than waiting for what is there.
        let _ = conn.try_read_up_to(&mut input, weir_rt::SMALL);
        let mut draining = worker.draining.place();
        loop {
            if input.is_empty() {
                let waiting = worker.counters.waiting();
                timer.arm_at(ended + wait);
                let arrived = race(timer.run(conn.readable()), draining.wait()).await;
                drop(waiting);
                match arrived {
                    Either::Left(Ok(())) => {
                        // Read here, where no future has to be had for it. An end or a failure is seen again, and told,
                        // by who waits for the head.
                        if let Ok(None) = conn.try_read_up_to(&mut input, weir_rt::MEDIUM) {
                            // News of what was read before, or TLS records without data: the connection is as idle as it was.
                            continue;
                        }
                    }
                    Either::Left(Err(_)) => {
                        if client.requests.get() == 0 {
                            Box::pin(too_late(&worker, &conn, &client, &timer)).await;
                        }
                        return;
                    }
                    // A request may be on its way: what has arrived is served, with `Connection: close`.
                    Either::Right(()) => match conn.try_read_up_to(&mut input, weir_rt::MEDIUM) {
                        Ok(Some(read)) if read > 0 => {}
                        Ok(None) if client.requests.get() == 0 => {
                            timer.arm_at((ended + wait).min(worker.now() + JUST_COME));
                            if !Box::pin(asks_yet(&conn, &timer, &mut input)).await {
                                return;
                            }
                        }
                        _ => return,
                    },
                }
            }
            if std::mem::take(&mut may_be_h2) {
                if input.is_empty() {
                    let _ = conn.try_read_up_to(&mut input, weir_rt::SMALL);
                }
                if h2::is_preface(&input) {
                    return Box::pin(h2::serve(worker.clone(), counted, conn, client, timer, input)).await;
                }
            }
            let idle = worker.now().saturating_duration_since(ended);
            let ahead = input.take();
            match weir_rt::boxed(|| requests(&worker, &conn, &client, &timer, ahead, idle)).await {
                Served::Keep(keep) => wait = keep,
                Served::Close => return,
                Served::Tunnel(exchange, upgraded) => {
                    counted.release_plan();
                    return Box::pin(tunnel(&worker, exchange, *upgraded)).await;
                }
                Served::Lasting(..) => return,
            }
            ended = worker.now();
        }
    }
}

/// Waits for bytes of a client that has sent none, until the timer ends it. False if there will be none.
#[cold]
async fn asks_yet(conn: &Conn, timer: &Timer, input: &mut Buf) -> bool {
    while timer.run(conn.readable()).await.is_ok() {
        match conn.try_read_up_to(input, weir_rt::MEDIUM) {
            // TLS records without data, or news of what was read before.
            Ok(None) => {}
            read => return matches!(read, Ok(Some(bytes)) if bytes > 0),
        }
    }
    false
}

/// Serves what a wake-up brought: a request, and those that came behind it.
async fn requests(
    worker: &Rc<Worker>,
    conn: &Conn,
    client: &Rc<Client>,
    timer: &Timer,
    input: Buf,
    idle: Duration,
) -> Served {
    let mut h1 = H1::new(ServerConnection::new(conn.clone(), input, worker.take_head()), timer);
    let mut idle = idle;
    let served = loop {
        let served = match one(worker, &mut h1, client, idle).await {
            Served::Lasting(exchange, left) => Box::pin(rest(worker, &mut h1, exchange, left)).await,
            served => served,
        };
        if !matches!(served, Served::Keep(_)) || !h1.conn.has_input() {
            break served;
        }
        idle = Duration::ZERO;
        // Requests that came together are answered one by one, and without a wait.
        weir_rt::fair().await;
    };
    worker.give_head(h1.conn.into_head());
    served
}

/// Whether a connection without TLS may begin with HTTP/2's preface.
fn speaks_h2(worker: &Rc<Worker>, client: &Client) -> bool {
    let listens = |(installed, ix, _): (Rc<Installed>, ListenerIx, bool)| installed.plan.listener(ix).http2;
    client.tls.is_none() && !client.speaks_plain && worker.for_listener(client.listener).is_some_and(listens)
}

/// How long the first request may take to begin.
fn first_wait(worker: &Rc<Worker>, client: &Client) -> Duration {
    let Some((installed, ix, _)) = worker.for_listener(client.listener) else { return Duration::ZERO };
    match &installed.plan.listener(ix).service {
        Service::Http(hosts) => installed.plan.site(hosts.default_value()).client.header_timeout,
        Service::Tcp(_) => Duration::ZERO,
    }
}

/// How the connection goes on after a request.
enum Served {
    /// It waits so long for the next.
    Keep(Duration),
    /// It does not.
    Close,
    /// As a tunnel.
    Tunnel(Box<Exchange>, Box<Upgraded>),
    /// The answer is not over.
    Lasting(Box<Exchange>, Rest),
}

/// The first request never began. HAProxy says so before it closes.
async fn too_late(worker: &Rc<Worker>, conn: &Conn, client: &Rc<Client>, timer: &Timer) {
    let Some((installed, ix, _)) = worker.for_listener(client.listener) else { return };
    let Service::Http(hosts) = &installed.plan.listener(ix).service else { return };
    let site = installed.plan.site(hosts.default_value());
    if !site.answer_silence {
        return;
    }
    let mut exchange = head::begin(worker, &installed, hosts, client);
    exchange.started = client.accepted;
    exchange.unlogged = !site.log_empty_connections;
    let mut h1 = H1::new(ServerConnection::new(conn.clone(), Buf::new(), worker.take_head()), timer);
    refuse(&mut h1, &mut exchange, HeadFailure::Timeout).await;
    end(exchange);
}

/// One request.
async fn one(worker: &Rc<Worker>, h1: &mut H1<'_>, client: &Rc<Client>, idle: Duration) -> Served {
    let Some(mut found) = worker.for_listener(client.listener) else { return Served::Close };
    let began = worker.now();
    let received = {
        let (installed, ix, _) = &found;
        let listener = installed.plan.listener(*ix);
        let Service::Http(hosts) = &listener.service else { return Served::Close };
        let timeout = installed.plan.site(hosts.default_value()).client.header_timeout;
        let _reading = worker.counters.reading();
        // Which site's rules hold is known once Host is; until then what any of them lets pass does.
        h1.conn.receive_head(&listener.heads, h1.timer, timeout).await
    };
    // Judged by the plan of now: the one that it began to arrive under may trust whom today's does not.
    if !worker.is_newest(&found.0) {
        match worker.for_listener(client.listener) {
            Some(newer) => found = newer,
            None => return Served::Close,
        }
    }
    let (installed, ix, last) = found;
    let listener = installed.plan.listener(ix);
    let Service::Http(hosts) = &listener.service else { return Served::Close };
    let mut exchange = head::begin(worker, &installed, hosts, client);
    (exchange.started, exchange.times.idle) = (began, idle);
    if let Err(failure) = received {
        Box::pin(refuse(h1, &mut exchange, failure)).await;
        end(exchange);
        return Served::Close;
    }
    exchange.times.head = Some(exchange.elapsed());
    client.requests.set(client.requests.get() + 1);
    exchange.close_after |= last || worker.is_leaving();
    let writing = worker.counters.writing();
    match take_request(&mut exchange, h1, hosts, listener.heads_differ) {
        Ok(()) => {
            assert!(!worker.takes_injected_panic(), "a test asked for this panic");
            h1.begin_exchange(&exchange);
            exchange.enter_flight();
            if worker.shared.memory.is_short() {
                Box::pin(respond::shed(&mut exchange, h1)).await;
                drop(writing);
                let _ = after(&mut exchange, h1).await;
                end(exchange);
                return Served::Close;
            }
            if client.speaks_plain {
                exchange.handshake_refusal = Some(497);
            } else if let Some(tls) = &listener.tls {
                exchange.handshake_refusal = crate::admission::access::certificate(&exchange, ix, tls);
                // Another connection is another handshake: this one has nothing more to give.
                exchange.close_after |= exchange.handshake_refusal == Some(421);
            }
            match walk::run(&mut exchange, h1).await {
                None => {}
                Some(Later::Tunnel(upgraded)) => {
                    (exchange.response.bytes_sent, exchange.response.body_bytes_sent) = h1.counts();
                    return Served::Tunnel(exchange, upgraded);
                }
                Some(Later::Rest(rest)) => return Served::Lasting(exchange, rest),
            }
        }
        Err(status) => {
            h1.conn.begin_body();
            exchange.close_after = true;
            exchange.ending = Ending::Proxy(Phase::Request);
            if status == 405 {
                Box::pin(respond::not_allowed(&mut exchange, h1)).await;
            } else {
                Box::pin(walk::refuse(&mut exchange, h1, status)).await;
            }
        }
    }
    drop(writing);
    let keep = after(&mut exchange, h1).await;
    end(exchange);
    keep.map_or(Served::Close, Served::Keep)
}

/// What was a request goes on as a tunnel, to its end. Nothing that holds the plan lives here.
async fn tunnel(worker: &Rc<Worker>, mut exchange: Box<Exchange>, upgraded: Upgraded) {
    let _writing = worker.counters.tunnelling();
    carry_upgraded(&mut exchange, upgraded).await;
    end(exchange);
}

/// Carries what is left of an answer. Nothing that holds the plan it began with lives here.
async fn rest(worker: &Rc<Worker>, h1: &mut H1<'_>, mut exchange: Box<Exchange>, rest: Rest) -> Served {
    let writing = worker.counters.writing();
    rest.carry(&mut exchange, h1).await;
    drop(writing);
    let keep = after(&mut exchange, h1).await;
    end(exchange);
    keep.map_or(Served::Close, Served::Keep)
}

/// Whether a connection ends by RST, which frees what is queued on it at once: nginx's `reset_timedout_connection`.
fn is_reset(exchange: &Exchange) -> bool {
    let closed = exchange.response.status == 444 && !exchange.response.head_sent;
    let timed_out = closed || matches!(exchange.ending, Ending::ClientTimeout(_));
    timed_out && exchange.route().settings.client.reset_timed_out
}

/// Whether and how the connection goes on after an answer.
async fn after(exchange: &mut Exchange, h1: &mut H1<'_>) -> Option<Duration> {
    (exchange.response.bytes_sent, exchange.response.body_bytes_sent) = h1.counts();
    exchange.request.bytes += h1.conn.incoming.framing();
    let installed = exchange.installed.clone();
    let settings = &installed.plan.route(exchange.route).settings.client;
    if is_reset(exchange) {
        h1.conn.io().clone().abort();
        return None;
    }
    if h1.is_cut() {
        return None;
    }
    let mut keeps = h1.keeps_alive();
    if keeps && !h1.conn.incoming.is_done() {
        let (total, each) = (settings.lingering_time, settings.lingering_timeout);
        keeps = Box::pin(h1.conn.skip_body(MAX_SKIPPED, h1.timer, total.max(each), each)).await;
    }
    if !keeps {
        Box::pin(close(h1, settings)).await;
        return None;
    }
    settings.keepalive_timeout
}

/// Waits until the client has had a chance to take the answer, before its connection closes.
async fn close(h1: &mut H1<'_>, settings: &ClientSettings) {
    if h1.conn.delivered(h1.timer, settings.send_timeout).await
        && (!h1.conn.incoming.is_done() || h1.conn.has_input())
    {
        h1.conn.linger(h1.timer, settings.lingering_time, settings.lingering_timeout).await;
    }
}

fn end(mut exchange: Box<Exchange>) {
    log::exchange_ended(&mut exchange);
    walk::afterwards(&exchange);
    exchange.give();
}

/// Turns the head into the exchange's request, and finds the site. `Err`: the status to refuse it with.
fn take_request(
    exchange: &mut Exchange,
    h1: &mut H1<'_>,
    hosts: &weir_plan::HostIndex,
    heads_differ: bool,
) -> Result<(), u16> {
    let head_len = h1.conn.head_len();
    let pipelined = h1.was_pipelined();
    let head = h1.conn.head_bytes();
    let view = h1.conn.request();
    let secured = exchange.client.tls.is_some();
    let request = &mut exchange.request;
    request.method = view.method();
    request.method_text.extend_from_slice(view.method_text());
    request.version = view.version();
    request.line.extend_from_slice(view.line());
    view.put_origin_target(&mut request.target);
    if let Some(query) = view.query() {
        request.query.extend_from_slice(query);
    }
    request.bytes = head_len as u64;
    request.pipelined = pipelined;
    request.content_length = view.framing().length().filter(|_| view.framing() != weir_http::Framing::None);
    request.chunked = view.framing() == weir_http::Framing::Chunked;
    request.upgrade = view.upgrade().is_some();
    request.expects_continue = view.expects_continue();
    request.fields.load(head, view.headers());
    if let Some(authority) = view.authority() {
        request.set_host(&authority);
    }
    let absolute = view.target_form() == TargetForm::Absolute;
    // RFC 9110 §7.4: what is asked of `https` is not answered over a connection that is not secured.
    let insecure = view.target_is_https() && !secured;
    if absolute && let Some(authority) = view.authority_text() {
        // RFC 9112 §3.2.2: the target's authority replaces the Host field, for everyone behind as well.
        let authority = authority.to_vec();
        request.fields.set(b"Host", &authority);
    }
    h1.client_keeps_alive(view_keeps_alive(&h1.conn));
    let view = h1.conn.request();
    let asked = Asked {
        path: view.path(),
        unknown_expectation: view.expects_unknown(),
        repeats_single: view.headers().repeated() & head::SINGLE != 0,
        insecure,
    };
    head::settle(exchange, hosts, heads_differ, &asked)?;
    h1.conn.begin_body();
    Ok(())
}

fn view_keeps_alive(conn: &ServerConnection) -> bool {
    conn.request().keep_alive()
}

/// Answers what is no request, where an answer is due.
async fn refuse(h1: &mut H1<'_>, exchange: &mut Exchange, failure: HeadFailure) {
    exchange.close_after = true;
    let status = match failure {
        HeadFailure::Idle => {
            h1.set_cut();
            return exchange.response.status = 0;
        }
        HeadFailure::Closed | HeadFailure::Io(_) => {
            exchange.ending = Ending::ClientAborted(Phase::Request);
            exchange.response.status = 400;
            keep_line(exchange, h1);
            h1.set_cut();
            return;
        }
        HeadFailure::Timeout => {
            exchange.ending = Ending::ClientTimeout(Phase::Request);
            keep_line(exchange, h1);
            errors::client_error(exchange, "client timed out while reading client request headers");
            if exchange.site().conduct.silent_timeouts {
                exchange.response.status = 408;
                h1.set_cut();
                if is_reset(exchange) {
                    h1.conn.io().clone().abort();
                }
                return;
            }
            408
        }
        HeadFailure::Refused(error) => {
            exchange.ending = Ending::Proxy(Phase::Request);
            note_refusal(exchange, h1, error);
            error.status()
        }
    };
    h1.abandon_input();
    if status == 408 {
        respond::status(exchange, h1, status).await;
    } else {
        walk::refuse(exchange, h1, status).await;
    }
    let settings: Rc<Installed> = exchange.installed.clone();
    let client = settings.plan.site(exchange.site).client.clone();
    (exchange.response.bytes_sent, exchange.response.body_bytes_sent) = h1.counts();
    if is_reset(exchange) {
        h1.conn.io().clone().abort();
    } else if !h1.is_cut() {
        h1.conn
            .linger(h1.timer, client.lingering_time.min(Duration::from_secs(2)), client.lingering_timeout)
            .await;
    }
}

/// Keeps the first line for the log, as far as it came.
fn keep_line(exchange: &mut Exchange, h1: &H1<'_>) {
    let input = h1.conn.incoming.pending();
    let end = input.iter().position(|&b| b == b'\r' || b == b'\n').unwrap_or(input.len()).min(256);
    exchange.request.line.extend_from_slice(&input[..end]);
    exchange.request.bytes = input.len() as u64;
}

fn note_refusal(exchange: &mut Exchange, h1: &H1, error: RequestError) {
    keep_line(exchange, h1);
    errors::client_error(
        exchange,
        &format!("client sent invalid request ({error}) while reading client request headers"),
    );
}
