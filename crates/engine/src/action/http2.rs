//! The proxy action over HTTP/2, gRPC among it: requests and answers pass at the same time.
//!
//! Owns: what is asked of endpoints, what becomes of the answer's head, and both bodies once they are under way.
//! Never: tries (`upstream::attempt`), or speaks (`upstream::http2`).
//! Driven by: the walk; `action::later`, for what lasts.
//! Why beside the proxy of HTTP/1 and not in it: there an answer follows its request, and its path is kept short.

use std::borrow::Cow;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::sync::Arc;
use std::task::Poll;

use weir_expr::settings::UpstreamSettings;
use weir_plan::Proxy;
use weir_policy::retry::Failure;
use weir_rt::{Instant, Timer};
use weir_telemetry::AttemptEnd;
use weir_wire::SendError;

use super::cached::keep;
use super::carried::{self, Came, Relay, Relayed, of_client};
use super::{lasting, rewrite};
use crate::answer::respond;
use crate::exchange::{BodySize, Downstream, Exchange, Next, errors, intake};
use crate::upstream::fastcgi::Keeping;
use crate::upstream::http2::{Http2, Link, Turn};
use crate::upstream::request::{self, UpstreamBody};
use crate::upstream::{Answered, Attempts, Failed, LeaseEnd, Reach, Stop, resolve, sticky};
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
) -> Next<Box<Http2Rest>> {
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
    let mut target = std::mem::take(&mut exchange.response.upstream_target);
    target.clear();
    request::target(exchange, proxy, resolved.path.as_deref(), &mut target);
    exchange.response.upstream_target = target;
    let timer = Timer::new();
    let watch = Watch::new(
        down.watched(),
        Ends::unanswered(keep::client_abort(exchange, proxy.settings.client_abort)),
    );
    let secure = proxy.tls.is_some() && resolved.secure != Some(false);
    let attempts = Attempts {
        installed,
        retry: proxy.retry,
        reach: Reach {
            timeout: proxy.settings.connect_timeout,
            keepalive: proxy.settings.socket_keepalive,
            bind: proxy.bind.as_ref(),
            tls: proxy.tls.as_deref(),
            secure: resolved.secure,
            host: Some(resolved.host.as_deref().unwrap_or(&proxy.host)),
            send_proxy: None,
            reuse: true,
            spoken: OF_HTTP2,
        },
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
        let text = crate::eval::text(exchange, template);
        exchange.body.clear();
        let folder = exchange.route().settings.body.temp_path.clone();
        exchange.body.keep(&text, usize::MAX, &folder).map_err(|_| 500_u16)?;
        exchange.body.complete = true;
        return Ok((UpstreamBody::Length(text.len() as u64), false));
    }
    if !exchange.request.has_body() || !proxy.pass_request_body {
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
) -> Next<Box<Http2Rest>> {
    let Answered { mut link, lease, mut counted, key, history, picked, destination } = answered;
    let bounds = Cow::Owned(destination.keepalive(attempts.installed).into_owned());
    link.keeping = Some(Box::new(Keeping { pool: picked.pool, bounds, key, history }));
    let status = exchange.attempts.last().map_or(0, |attempt| attempt.status);
    exchange.response.status = status;
    exchange.response.upstream_fields = std::mem::take(&mut link.fields);
    if exchange.caching.is_some() && keep::seen(exchange, &proxy.ignore_headers) {
        link.park(exchange, &counted);
        counted.end(AttemptEnd::Answer(status), exchange);
        return Next::Done;
    }
    rewrite::take_fields(exchange, proxy);
    sticky::set(exchange, attempts.installed, &picked);
    let redirected = rewrite::accelerated(exchange, attempts.installed, proxy);
    let intercepted = proxy.settings.intercept_errors
        && status >= 300
        && exchange.route().settings.error_pages.find(status).is_some();
    if redirected.is_some() || intercepted {
        if exchange.caching.is_some() && redirected.is_none() {
            keep::intercepted(exchange, &proxy.ignore_headers);
        }
        exchange.response.fields.clear();
        link.park(exchange, &counted);
        counted.end(AttemptEnd::Answer(status), exchange);
        return redirected.unwrap_or(Next::Status(status));
    }
    let size = match link.length {
        _ if respond::is_bodiless(exchange) => BodySize::Bodiless,
        Some(length) => BodySize::Known(length),
        None if link.ended && !proxy.grpc => BodySize::Known(link.arrived.len() as u64),
        None => BodySize::Unknown,
    };
    exchange.response.unbuffered = proxy.grpc || !rewrite::buffering(exchange, proxy);
    let size = match &exchange.caching {
        Some(_) => keep::begin_storing(exchange, &proxy.ignore_headers, size),
        None => size,
    };
    respond::start(exchange, down, size);
    let settings = &proxy.settings;
    attempts.watch.reading(false);
    attempts.watch.change(Ends::answering(keep::client_abort(exchange, settings.client_abort)));
    let waits = (attempts.timer, attempts.watch, lasting::due(exchange));
    let relayed = relay(exchange, down, &mut link, settings, waits).await;
    let rest = Http2Rest { link, counted, lease, settings: settings.clone(), status };
    match relayed {
        Ok(Relayed::Lasting) => Next::Later(Box::new(rest)),
        relayed => rest.ended(exchange, down, relayed.map(drop)),
    }
}

/// What is left of an exchange, and what its end is noted in.
pub(crate) struct Http2Rest {
    link: Link,
    counted: Attempting,
    lease: LeaseEnd,
    settings: Arc<UpstreamSettings>,
    status: u16,
}

impl Http2Rest {
    /// Carries it to its end.
    pub(super) async fn carry<D: Downstream>(mut self, exchange: &mut Exchange, down: &mut D) {
        let timer = Timer::new();
        let watch = Watch::new(down.watched(), Ends::answering(self.settings.client_abort));
        let settings = self.settings.clone();
        let relayed = relay(exchange, down, &mut self.link, &settings, (&timer, &watch, None)).await;
        // Something of it was sent long ago: nothing else can be answered.
        let _: Next<Infallible> = self.ended(exchange, down, relayed.map(drop));
    }

    /// Notes how it ended.
    fn ended<D: Downstream, L>(
        self,
        exchange: &mut Exchange,
        down: &mut D,
        relayed: Result<(), Relay>,
    ) -> Next<L> {
        let Self { mut link, counted, lease, status, .. } = self;
        drop(lease);
        if relayed.is_ok() {
            link.park(exchange, &counted);
        }
        let (passed, received, over) = (link.passed, link.received, link.ended);
        carried::ended(exchange, down, counted, &Came { status, passed, received, over }, relayed)
    }
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

/// Carries both bodies on, until the answer has ended.
async fn relay<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    link: &mut Link,
    settings: &UpstreamSettings,
    (timer, watch, due): (&Timer, &Watch, Option<Instant>),
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
