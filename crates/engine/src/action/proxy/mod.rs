//! The proxy action: HTTP/1 to an endpoint of a pool.
//!
//! Owns: what is asked of endpoints, and how the body gets there.
//! Never: tries (`upstream::attempt`), speaks (`upstream::http1`), or carries the answer (`forward`, `relay`).
//! Driven by: the walk.

mod ending;
mod forward;
mod relay;

pub(crate) use ending::ProxiedRest;
use forward::Goes;

use weir_http::HeaderId;
use weir_plan::Proxy;
use weir_rt::Timer;

use super::cached::keep;
use super::later::Later;
use super::prepare;
use crate::answer::respond;
use crate::exchange::{Downstream, Exchange, Next, errors, intake};
use crate::upstream::http1::Http1;
use crate::upstream::request::{self, Asked, UpstreamBody};
use crate::upstream::{Attempts, Reach, resolve};
use crate::worker::Installed;
use crate::worker::watch::{Ends, Watch};

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
    let asked = request::asks(exchange, proxy);
    let body = match take_body(exchange, down, proxy, asked).await {
        Ok(body) => body,
        Err(status) => return Next::Status(status),
    };
    prepare::target(exchange, proxy, &resolved);
    let streaming = body != UpstreamBody::None && !exchange.body.complete && proxy.body.is_none();
    let timer = Timer::new();
    let watch = Watch::new(
        down.watched(),
        Ends::unanswered(keep::client_abort(exchange, proxy.settings.client_abort)),
    );
    watch.reading(streaming);
    let attempts = Attempts {
        installed,
        retry: proxy.retry,
        reach: Reach {
            reuse: !asked.upgrade,
            ..prepare::reach(proxy, resolved.secure, resolved.host.as_deref())
        },
        timer: &timer,
        watch: &watch,
    };
    let mut http1 = Http1 {
        down: &mut *down,
        proxy,
        body,
        asked,
        streaming,
        timer: &timer,
        watch: &watch,
        reused: false,
        interims: 0,
    };
    let answered = attempts.run(exchange, &mut http1, resolved.destination).await;
    let goes = match answered {
        Ok(answered) => forward::begin(exchange, down, &attempts, proxy, asked, answered),
        Err(unanswered) => return unanswered.end(down),
    };
    match goes {
        Goes::Over(next) => next,
        // What waits is boxed: most answers are over at once, and their future is small.
        goes => Box::pin(forward::go_on(exchange, down, &attempts, proxy, goes)).await,
    }
}

/// Takes the body in as the settings say, and tells how it goes on.
async fn take_body<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    proxy: &Proxy,
    asked: Asked,
) -> Result<UpstreamBody, u16> {
    if let Some(template) = &proxy.body {
        // It may show the client's.
        if exchange.request.has_body() && proxy.settings.request_buffering {
            Box::pin(intake::buffer(exchange, down)).await?;
        }
        return prepare::own_body(exchange, template);
    }
    if !exchange.request.has_body() || !proxy.pass_request_body {
        if intake::is_for_file(exchange) {
            Box::pin(intake::buffer(exchange, down)).await?;
        }
        return Ok(UpstreamBody::None);
    }
    // HTTP/1.0 has no chunked coding: the length must be known first.
    let must_know = exchange.request.chunked && !proxy.http_1_1;
    if !exchange.body.complete && !must_know && (!proxy.settings.request_buffering || asked.upgrade) {
        // Trailers that are announced have no place behind a length; those of HTTP/2 do.
        let trailers = exchange.request.fields.has(HeaderId::Trailer);
        return Ok(match exchange.request.content_length {
            Some(length) if !exchange.request.chunked && !trailers => UpstreamBody::Length(length),
            _ => UpstreamBody::Chunked,
        });
    }
    Box::pin(intake::buffer(exchange, down)).await?;
    if !exchange.request_trailers.is_empty() && proxy.http_1_1 {
        return Ok(UpstreamBody::Chunked);
    }
    Ok(UpstreamBody::Length(exchange.body.buffered()))
}
