//! The proxy action over HTTP/2, gRPC among it: requests and answers pass at the same time.
//!
//! Owns: what is asked of endpoints, what becomes of the answer's head, and both bodies once they are under way.
//! Never: tries (`upstream::attempt`), or speaks (`upstream::http2`).
//! Driven by: the walk; `action::later`, for what lasts.
//! Why beside the proxy of HTTP/1 and not in it: there an answer follows its request, and its path is kept short.

use std::borrow::Cow;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::task::Poll;

use weir_expr::settings::UpstreamSettings;
use weir_plan::Proxy;
use weir_policy::retry::Failure;
use weir_rt::Timer;
use weir_wire::SendError;

use super::cached::keep;
use super::carried::{self, Came, Carried, Relay, Relayed, Rest, Waits, of_client};
use super::{lasting, prepare, rewrite, rules, settle};
use crate::answer::respond;
use crate::exchange::{BodySize, Downstream, Exchange, Next, errors, intake};
use crate::upstream::fastcgi::Keeping;
use crate::upstream::http2::{Http2, Link, Turn};
use crate::upstream::request::{self, UpstreamBody};
use crate::upstream::{Answered, Attempts, Failed, Reach, Stop, resolve, stick, sticky};
use crate::worker::Installed;
use crate::worker::count::Attempting;
use crate::worker::watch::{Ends, Watch};

/// Sets kept connections apart from those of other protocols.
const OF_HTTP2: u64 = 6;

/// Proxies a request.
pub(crate) async fn serve<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
    proxy: &Proxy,
) -> Next<Box<Rest<Link>>> {
    if intake::declared_too_large(exchange) {
        return Next::Status(413);
    }
    if !request::spend_hop(exchange) {
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
    let (body, streaming) = match take_body(exchange, down, proxy).await {
        Ok(body) => body,
        Err(status) => return Next::Status(status),
    };
    prepare::target(exchange, proxy, &resolved);
    let timer = Timer::new();
    let watch = Watch::new(
        down.watched(),
        Ends::unanswered(keep::client_abort(exchange, proxy.settings.client_abort)),
    );
    let secure = proxy.tls.is_some() && resolved.secure != Some(false);
    let attempts = Attempts {
        installed,
        retry: proxy.retry,
        reach: Reach { spoken: OF_HTTP2, ..prepare::reach(proxy, resolved.secure, resolved.host.as_deref()) },
        timer: &timer,
        watch: &watch,
    };
    let mut http2 = Http2 { down: &mut *down, proxy, secure, body, streaming, timer: &timer, watch: &watch };
    match attempts.run(exchange, &mut http2, resolved.destination).await {
        Ok(answered) => forward(exchange, down, &attempts, proxy, answered).await,
        Err(unanswered) => unanswered.end(down),
    }
}

/// Takes the body in as the settings say, and tells how it goes on, and whether it comes while it is sent.
async fn take_body<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    proxy: &Proxy,
) -> Result<(UpstreamBody, bool), u16> {
    if let Some(template) = &proxy.body {
        return Ok((prepare::own_body(exchange, template)?, false));
    }
    if !exchange.request.has_body() || !proxy.pass_request_body {
        if intake::is_for_file(exchange) {
            intake::buffer(exchange, down).await?;
        }
        return Ok((UpstreamBody::None, false));
    }
    if !exchange.body.complete && !proxy.settings.request_buffering {
        let length = exchange.request.content_length.filter(|_| !exchange.request.chunked);
        return Ok((length.map_or(UpstreamBody::Chunked, UpstreamBody::Length), true));
    }
    intake::buffer(exchange, down).await?;
    Ok((UpstreamBody::Length(exchange.body.buffered()), false))
}

/// Forwards an answer whose head is here.
async fn forward<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    attempts: &Attempts<'_>,
    proxy: &Proxy,
    answered: Answered<Link>,
) -> Next<Box<Rest<Link>>> {
    let Answered { mut link, lease, counted, key, history, picked, destination } = answered;
    let bounds = Cow::Owned(destination.keepalive(attempts.installed).into_owned());
    link.keeping = Some(Box::new(Keeping { pool: picked.pool, bounds, key, history }));
    let status = exchange.attempts.last().map_or(0, |attempt| attempt.status);
    exchange.response.status = status;
    crate::exchange::sticks::answered(exchange, status);
    if let Some(attempt) = exchange.attempts.last_mut() {
        attempt.protocol = Some("HTTP/2.0");
    }
    exchange.response.upstream_fields = std::mem::take(&mut link.fields);
    if exchange.caching.is_some() && keep::seen(exchange, &proxy.ignore_headers) {
        carried::drop_body(exchange, link, counted, status);
        return Next::Done;
    }
    rewrite::take_fields(exchange, proxy);
    if let Some(instead) = rules::run(exchange, down, attempts.installed).await {
        settle::forget_fields(exchange);
        carried::drop_body(exchange, link, counted, status);
        return instead;
    }
    sticky::set(exchange, attempts.installed, &picked);
    stick::learn(exchange, attempts.installed, &picked);
    let redirected = rewrite::accelerated(exchange, attempts.installed, proxy);
    let intercepted = settle::intercepts(exchange, &proxy.settings, status);
    if let Some(instead) = settle::instead(exchange, redirected, intercepted, &proxy.ignore_headers) {
        settle::forget_fields(exchange);
        carried::drop_body(exchange, link, counted, status);
        return instead;
    }
    let size = match link.length {
        _ if respond::is_bodiless(exchange) => BodySize::Bodiless,
        Some(length) => BodySize::Known(length),
        None if link.ended && !proxy.grpc => BodySize::Known(link.arrived.len() as u64),
        None => BodySize::Unknown,
    };
    exchange.response.unbuffered = proxy.grpc || !rewrite::buffering(exchange, proxy);
    settle::start(exchange, down, size, (&proxy.ignore_headers, &proxy.settings, proxy.store.as_deref()));
    attempts.watch.reading(false);
    attempts.watch.change(Ends::answering(keep::client_abort(exchange, proxy.settings.client_abort)));
    let rest = Rest { link, counted, lease, settings: proxy.settings.clone(), status };
    rest.begin(exchange, down, attempts).await
}

impl From<Stop> for Relay {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Endpoint(failed) => Self::Endpoint(failed),
            // Its answer is under way: what it sends can be refused by an end alone.
            Stop::Client(_) | Stop::Gone => gone(),
            Stop::Own(why) => Self::Endpoint(Failed { failure: Failure::Io, sent: true, why }),
        }
    }
}

fn gone() -> Relay {
    Relay::Client(SendError::Io(ErrorKind::ConnectionReset.into()))
}

impl Carried for Link {
    /// Carries both bodies on, until the answer has ended.
    async fn relay<D: Downstream>(
        &mut self,
        exchange: &mut Exchange,
        down: &mut D,
        settings: &UpstreamSettings,
        waits: Waits<'_>,
    ) -> Result<Relayed, Relay> {
        relay(exchange, down, self, settings, waits).await
    }

    fn park(&mut self, exchange: &Exchange, counted: &Attempting) {
        Self::park(self, exchange, counted);
    }

    fn came(&self) -> Came {
        Came { passed: self.passed, received: self.received, over: self.ended }
    }
}

async fn relay<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    link: &mut Link,
    settings: &UpstreamSettings,
    (timer, watch, due): Waits<'_>,
) -> Result<Relayed, Relay> {
    loop {
        if !link.arrived.is_empty() {
            let piece = link.take_arrived();
            if respond::is_changed(exchange) {
                respond::data(exchange, down, &piece).await.map_err(of_client)?;
            } else {
                pass(exchange, down, link, &piece).await?;
            }
            link.give_back(piece.len());
            continue;
        }
        if link.ended {
            let trailers = std::mem::take(&mut link.trailers);
            let ended = respond::end(exchange, down, &trailers).await;
            exchange.response.upstream_trailers = trailers;
            return ended.map(|()| Relayed::Whole).map_err(of_client);
        }
        if lasting::is_due(due) {
            return Ok(Relayed::Lasting);
        }
        respond::flush(exchange, down).await.map_err(Relay::Client)?;
        let (patience, wait) = lasting::wait(settings.read_timeout, &mut link.silent, due);
        let turned = watch.over(link.turn(exchange, down, timer, wait)).await;
        match turned.map_err(|_| gone())?? {
            Turn::News => {}
            Turn::Silence if wait < patience => link.silent = wait,
            Turn::Silence => {
                let why = "upstream timed out (110: Connection timed out) while reading upstream".to_owned();
                return Err(Relay::Endpoint(Failed { failure: Failure::Timeout, sent: true, why }));
            }
        }
    }
}

/// Sends a piece as it is. While the client takes none of it, what it sends itself still goes on to the endpoint.
async fn pass<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    link: &mut Link,
    piece: &[u8],
) -> Result<(), Relay> {
    let mut at = 0;
    while at < piece.len() {
        let sent = poll_fn(|cx| match down.poll_send(cx, exchange, &piece[at..]) {
            None => Poll::Ready(Ok(None)),
            Some(Poll::Ready(sent)) => Poll::Ready(sent.map(Some).map_err(of_client)),
            Some(Poll::Pending) => match link.poll_pass(cx, exchange, down) {
                Ok(_) => Poll::Pending,
                Err(stop) => Poll::Ready(Err(stop.into())),
            },
        });
        match sent.await? {
            Some(n) => at += n,
            None => {
                respond::data(exchange, down, &piece[at..]).await.map_err(of_client)?;
                return Ok(());
            }
        }
    }
    Ok(())
}
