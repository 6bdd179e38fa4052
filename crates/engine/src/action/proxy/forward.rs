//! An endpoint's answer, from its head on.
//!
//! Owns: what becomes of the head, and whether the answer goes on, as a body or as a tunnel, or another takes its place.
//! Never: carries the body; `relay` does.
//! Driven by: the proxy action, once an endpoint answered.

use std::sync::Arc;

use weir_http::Framing;
use weir_plan::{Program, Proxy};
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
use crate::upstream::{Answered, Attempts, LeaseEnd, stick, sticky};
use crate::worker::count::Attempting;
use crate::worker::idle::Kept;
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
        goes = head.judged(exchange, down, attempts, proxy);
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
    let method = exchange.upstream_method();
    let response = answered.link.response();
    let status = response.status();
    let reusable = response.reusable(method) && !asked.close;
    exchange.response.status = status;
    if let Some(attempt) = exchange.attempts.last_mut() {
        attempt.protocol = Some(response.version().as_str());
    }
    crate::exchange::sticks::answered(exchange, status);
    exchange.response.upstream_fields.load(answered.link.head_bytes(), response.headers());
    let reason = response.reason();
    if reason != exchange.phrases().reason(status).as_bytes() {
        exchange.response.reason = Some(reason.into());
    }
    let head = Head { answered, reusable };
    if exchange.caching.is_some() && keep::seen(exchange, &proxy.ignore_headers) {
        head.refuse(exchange, attempts);
        return Goes::Over(Next::Done);
    }
    rewrite::take_fields(exchange, proxy);
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
    head.judged(exchange, down, attempts, proxy)
}

/// An answer whose head is here.
pub(super) struct Head {
    answered: Answered<Box<ClientConnection>>,
    /// Its connection may be kept.
    reusable: bool,
}

impl Head {
    /// Goes on with an answer that rules let pass.
    fn judged<'a, D: Downstream>(
        self,
        exchange: &mut Exchange,
        down: &mut D,
        attempts: &Attempts<'a>,
        proxy: &Proxy,
    ) -> Goes<'a> {
        let installed = attempts.installed;
        let method = exchange.upstream_method();
        sticky::set(exchange, installed, &self.answered.picked);
        stick::learn(exchange, installed, &self.answered.picked);
        let response = self.answered.link.response();
        let (status, framing) = (response.status(), response.framing(method));
        if status == 101 {
            let Answered { link, mut counted, lease, .. } = self.answered;
            counted.answered(status);
            return Goes::Tunnel(link, counted, lease);
        }
        let redirected = rewrite::accelerated(exchange, installed, proxy);
        let intercepted = settle::intercepts(exchange, &proxy.settings, status);
        if let Some(instead) = settle::instead(exchange, redirected, intercepted, &proxy.ignore_headers) {
            self.refuse(exchange, attempts);
            return Goes::Over(instead);
        }
        let Self { answered, reusable } = self;
        let Answered { link: mut conn, key, history, picked, destination, lease, counted } = answered;
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

    /// Another answer takes its place. What little of its body is here is read, so that the connection may be kept.
    fn refuse(self, exchange: &mut Exchange, attempts: &Attempts<'_>) {
        let Self { answered, reusable } = self;
        let Answered { link: mut conn, key, history, picked, destination, mut counted, .. } = answered;
        let (method, status) = (exchange.upstream_method(), conn.response().status());
        conn.begin_body(method);
        if reusable && conn.incoming.rest_is_here() && drained(&mut conn) && conn.is_clean() {
            let bounds = destination.keepalive(attempts.installed);
            let kept = (Kept { conn, history }, counted.keeps());
            exchange.worker.park(picked.pool, &bounds, key, kept);
        }
        counted.end(AttemptEnd::Answer(status), exchange);
        settle::forget_fields(exchange);
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

fn drained(conn: &mut ClientConnection) -> bool {
    loop {
        match conn.incoming.step() {
            Ok(Step::Piece(..)) => {}
            Ok(Step::End) => return true,
            Ok(Step::Wait) | Err(_) => return false,
        }
    }
}
