//! An endpoint's answer, from its head on.
//!
//! Owns: what becomes of the head, and whether the answer goes on, as a body or as a tunnel, or another takes its place.
//! Never: carries the body; `relay` does.
//! Driven by: the proxy action, once an endpoint answered.

use std::sync::Arc;

use weir_http::Framing;
use weir_plan::{Program, Proxy};
use weir_policy::idle::History;
use weir_telemetry::AttemptEnd;
use weir_wire::{ClientConnection, Step};

use super::ending::{ProxiedRest, relayed_to};
use super::relay::{self, Keeping, ReadAhead, Relay, Relayed, Source, relay};
use crate::action::cached::keep;
use crate::action::later::{self, Later};
use crate::action::rules::Judged;
use crate::action::{lasting, rewrite, rules, settle, tunnel};
use crate::answer::respond;
use crate::exchange::{BodySize, Downstream, Exchange, Next};
use crate::upstream::request::Asked;
use crate::upstream::{Answered, Attempts, Destination, LeaseEnd, Picked, stick, sticky};
use crate::worker::count::Attempting;
use crate::worker::idle::{IdleKey, Kept};
use crate::worker::watch::Ends;

/// How an answer goes on behind its head.
pub(super) enum Goes<'a> {
    /// It is over, or another takes its place.
    Over(Next<Later>),
    /// Rules about it have to wait.
    Judged(Box<Head>, Arc<Program>),
    /// As a tunnel.
    Tunnel(Box<ClientConnection>, Attempting, LeaseEnd),
    /// As a body that has to be waited for.
    Body(Box<Body<'a>>),
}

/// A body that is under way.
pub(super) struct Body<'a> {
    source: Source<'a>,
    /// The status of the endpoint's answer.
    status: u16,
    /// All of it is queued.
    queued: bool,
}

/// Forwards the rest of an answer that was begun.
pub(super) async fn go_on<'a, D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    attempts: &Attempts<'a>,
    proxy: &Proxy,
    mut goes: Goes<'a>,
) -> Next<Later> {
    if let Goes::Judged(head, program) = goes {
        if let Some(instead) = rules::go_on(exchange, down, &program).await {
            head.refuse(exchange, attempts);
            return instead;
        }
        goes = judged(exchange, down, attempts, proxy, *head);
    }
    match goes {
        // Rules were waited for.
        Goes::Judged(..) => Next::Status(500),
        Goes::Over(next) => next,
        Goes::Tunnel(conn, counted, lease) => {
            let upgraded = tunnel::upgraded(exchange, down, proxy, conn, counted, lease).await;
            upgraded.map_or(Next::Done, |tunnel| Next::Later(Later::Tunnel(tunnel)))
        }
        Goes::Body(body) => carry(exchange, down, attempts, proxy, *body).await,
    }
}

/// Begins to forward an answer whose head has arrived, and ends it where its body is here whole and small.
pub(super) fn begin<'a, D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    attempts: &Attempts<'a>,
    proxy: &Proxy,
    asked: Asked,
    answered: Answered<Box<ClientConnection>>,
) -> Goes<'a> {
    let installed = attempts.installed;
    let Answered { link: conn, key, history, picked, destination, lease, counted } = answered;
    let method = exchange.upstream_method();
    let response = conn.response();
    let status = response.status();
    let reusable = response.reusable(method) && !asked.close;
    exchange.response.status = status;
    if let Some(attempt) = exchange.attempts.last_mut() {
        attempt.protocol = Some(response.version().as_str());
    }
    crate::exchange::sticks::answered(exchange, status);
    exchange.response.upstream_fields.load(conn.head_bytes(), response.headers());
    let reason = response.reason();
    if reason != exchange.phrases().reason(status).as_bytes() {
        exchange.response.reason = Some(reason.into());
    }
    if exchange.caching.is_some() && keep::seen(exchange, &proxy.ignore_headers) {
        let unwanted = Unwanted { conn, key, history, picked: &picked, destination: &destination, reusable };
        unwanted.end(exchange, attempts, counted);
        return Goes::Over(Next::Done);
    }
    rewrite::take_fields(exchange, proxy);
    let head = Head { conn, key, history, picked, destination, lease, counted, reusable, status };
    if let Some(program) = &installed.plan.route(exchange.route).response_program {
        match rules::judge(exchange, program) {
            Judged::Passed => {}
            Judged::Instead(instead) => {
                head.refuse(exchange, attempts);
                return Goes::Over(instead);
            }
            Judged::Waits => return Goes::Judged(Box::new(head), program.clone()),
        }
    }
    judged(exchange, down, attempts, proxy, head)
}

/// The head of an answer that rules judge.
pub(super) struct Head {
    conn: Box<ClientConnection>,
    key: IdleKey,
    history: History,
    picked: Picked,
    destination: Destination,
    lease: LeaseEnd,
    counted: Attempting,
    reusable: bool,
    status: u16,
}

impl Head {
    /// Another answer takes its place.
    fn refuse(self, exchange: &mut Exchange, attempts: &Attempts<'_>) {
        let Self { conn, key, history, picked, destination, counted, reusable, .. } = self;
        let unwanted = Unwanted { conn, key, history, picked: &picked, destination: &destination, reusable };
        unwanted.end(exchange, attempts, counted);
    }
}

/// Goes on with an answer that rules let pass.
fn judged<'a, D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    attempts: &Attempts<'a>,
    proxy: &Proxy,
    head: Head,
) -> Goes<'a> {
    let installed = attempts.installed;
    let Head { mut conn, key, history, picked, destination, lease, mut counted, reusable, status } = head;
    let method = exchange.upstream_method();
    sticky::set(exchange, installed, &picked);
    stick::learn(exchange, installed, &picked);
    if status == 101 {
        counted.answered(status);
        return Goes::Tunnel(conn, counted, lease);
    }
    let framing = conn.response().framing(method);
    let redirected = rewrite::accelerated(exchange, installed, proxy);
    let intercepted = settle::intercepts(exchange, &proxy.settings, status);
    if let Some(instead) = settle::instead(exchange, redirected, intercepted, &proxy.ignore_headers) {
        let unwanted = Unwanted { conn, key, history, picked: &picked, destination: &destination, reusable };
        unwanted.end(exchange, attempts, counted);
        return Goes::Over(instead);
    }
    conn.begin_body(method);
    let size = match framing {
        Framing::Length(length) => BodySize::Known(length),
        Framing::None if respond::is_bodiless(exchange) => BodySize::Bodiless,
        Framing::None => BodySize::Known(0),
        Framing::Chunked | Framing::UntilClose => BodySize::Unknown,
    };
    exchange.response.unbuffered = !rewrite::buffering(exchange, proxy);
    settle::start(exchange, down, size, (&proxy.ignore_headers, &proxy.settings, proxy.store.as_deref()));
    let queued = relay::at_once(exchange, down, &mut conn);
    let keeping = reusable.then(|| Keeping {
        pool: picked.pool,
        bounds: destination.keepalive(installed),
        key,
        history,
    });
    let mut source = Source::new(exchange, conn, keeping, counted, lease);
    let (queued, ended) = match queued {
        Ok(true) => (true, relay::end_now(exchange, down, &mut source)),
        other => (false, other),
    };
    match ended {
        Ok(false) => Goes::Body(Box::new(Body { source, status, queued })),
        ended => Goes::Over(relayed_to(exchange, down, &mut source, status, ended.map(drop))),
    }
}

/// Carries a body.
async fn carry<'a, D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    attempts: &Attempts<'a>,
    proxy: &Proxy,
    Body { mut source, status, queued }: Body<'a>,
) -> Next<Later> {
    if queued {
        let ended = relay::end(exchange, down, &mut source).await;
        return relayed_to(exchange, down, &mut source, status, ended);
    }
    let settings = &proxy.settings;
    attempts.watch.change(Ends::answering(keep::client_abort(exchange, settings.client_abort)));
    let waits = (attempts.timer, attempts.watch, lasting::due(exchange));
    let mut ahead = ReadAhead::new(settings, !exchange.response.unbuffered);
    let rest_of = |source: Source<'_>, ahead: ReadAhead<'_>| ProxiedRest {
        source: source.owned(),
        ahead: ahead.owned(),
        settings: settings.clone(),
        status,
    };
    let patience = exchange.read_timeout(settings);
    match relay(exchange, down, patience, waits, &mut ahead, &mut source).await {
        Ok(Relayed::Lasting) => {
            Next::Later(Later::Rest(later::Rest::Proxied(Box::new(rest_of(source, ahead)))))
        }
        Err(Relay::Client(error)) if exchange.may_be_stored() => {
            let mut rest = rest_of(source, ahead);
            let stored = Box::pin(rest.store(exchange, down, attempts.timer, error)).await;
            rest.ended(exchange, down, stored)
        }
        relayed => relayed_to(exchange, down, &mut source, status, relayed.map(drop)),
    }
}

/// An endpoint's answer that another takes the place of.
struct Unwanted<'a> {
    conn: Box<ClientConnection>,
    key: IdleKey,
    history: History,
    picked: &'a Picked,
    destination: &'a Destination,
    reusable: bool,
}

impl Unwanted<'_> {
    /// What little of its body is here is read, so that the connection may be kept.
    fn end(self, exchange: &mut Exchange, attempts: &Attempts<'_>, mut counted: Attempting) {
        let Self { mut conn, key, history, picked, destination, reusable } = self;
        let (method, status) = (exchange.upstream_method(), conn.response().status());
        conn.begin_body(method);
        if reusable && conn.incoming.rest_is_here() && drained(&mut conn) && conn.is_clean() {
            let bounds = destination.keepalive(attempts.installed);
            let kept = (Kept { conn, history }, counted.keeps());
            exchange.worker.park(picked.pool, &bounds, key, kept);
        }
        counted.end(AttemptEnd::Answer(status), exchange);
        crate::action::settle::forget_fields(exchange);
    }
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
