//! What a proxied request needs before an endpoint is asked, whatever version of HTTP the endpoint speaks.
//!
//! Owns: the body and the target that the configuration writes, and how endpoints are reached.
//! Driven by: `proxy`, `http2`.

use weir_expr::settings::{BodyFiles, BodySettings};
use weir_plan::{Proxy, Template};

use crate::eval;
use crate::exchange::Exchange;
use crate::upstream::request::{self, UpstreamBody};
use crate::upstream::{Reach, Resolved};

/// Sets kept connections apart from those of other protocols.
const OF_HTTP1: u64 = 0;

/// Puts the body that the configuration has into the place of the client's.
pub(super) fn own_body(exchange: &mut Exchange, template: &Template) -> Result<UpstreamBody, u16> {
    let text = eval::text(exchange, template);
    exchange.body.clear();
    let mut settings = BodySettings::clone(&exchange.route().settings.body);
    (settings.memory, settings.files) = (u64::MAX, BodyFiles::WhereNeeded);
    exchange.body.keep(&text, &settings).map_err(|_| 500_u16)?;
    exchange.body.complete = true;
    Ok(UpstreamBody::Length(text.len() as u64))
}

/// Writes the target of the request to the endpoint.
pub(super) fn target(exchange: &mut Exchange, proxy: &Proxy, resolved: &Resolved) {
    let mut target = std::mem::take(&mut exchange.response.upstream_target);
    target.clear();
    request::target(exchange, proxy, resolved.path.as_deref(), &mut target);
    exchange.response.upstream_target = target;
}

/// How endpoints are reached, over connections that a request of HTTP/1 may use.
///
/// `secure` and `host` are what a computed target says.
pub(super) fn reach<'a>(proxy: &'a Proxy, secure: Option<bool>, host: Option<&'a str>) -> Reach<'a> {
    Reach {
        timeout: proxy.settings.connect_timeout,
        keepalive: proxy.settings.socket_keepalive,
        bind: proxy.bind.as_ref(),
        transparent: proxy.transparent,
        tls: proxy.tls.as_deref(),
        secure,
        host: Some(host.unwrap_or(&proxy.host)),
        send_proxy: None,
        reuse: true,
        spoken: OF_HTTP1,
    }
}
