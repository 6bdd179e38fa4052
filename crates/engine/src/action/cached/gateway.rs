//! The action behind a cache, whichever it is.
//!
//! Owns: what the cache asks of it.
//! Driven by: the cache.

use weir_plan::{FastCgi, Proxy, ProxyTarget, Template};

use crate::action::later::Later;
use crate::action::{fastcgi, http2, proxy, rewrite, settle};
use crate::eval::text;
use crate::exchange::{Downstream, Exchange, Next};
use crate::upstream::request;
use crate::worker::Installed;

/// The action behind the cache.
#[derive(Clone, Copy)]
pub(crate) enum Gateway<'g> {
    /// HTTP/1.
    Proxy(&'g Proxy),
    /// HTTP/2.
    Http2(&'g Proxy),
    /// FastCGI.
    FastCgi(&'g FastCgi),
}

impl Gateway<'_> {
    /// Times and buffers.
    pub(super) fn settings(&self) -> &weir_expr::settings::UpstreamSettings {
        match self {
            Self::Proxy(proxy) | Self::Http2(proxy) => &proxy.settings,
            Self::FastCgi(fastcgi) => &fastcgi.settings,
        }
    }

    /// Fills the answer's fields from those of the upstream, or of an object.
    pub(super) fn pass_fields(&self, exchange: &mut Exchange) {
        match self {
            Self::Proxy(proxy) | Self::Http2(proxy) => rewrite::take_fields(exchange, proxy),
            Self::FastCgi(fastcgi) => rewrite::pass_fields(exchange, &fastcgi.hide_headers),
        }
    }

    /// Obeys `X-Accel-*`.
    pub(super) fn accelerated(&self, exchange: &mut Exchange, installed: &Installed) -> Option<Next<Later>> {
        match self {
            Self::Proxy(proxy) | Self::Http2(proxy) => rewrite::accelerated(exchange, installed, proxy),
            Self::FastCgi(fastcgi) => rewrite::obey(exchange, installed, &fastcgi.ignore_headers),
        }
    }

    /// Asks the upstream.
    pub(super) async fn ask<D: Downstream>(
        &self,
        exchange: &mut Exchange,
        down: &mut D,
        installed: &Installed,
    ) -> Next<Later> {
        match self {
            Self::Proxy(proxy) => Box::pin(proxy::serve(exchange, down, installed, proxy)).await,
            Self::Http2(proxy) => {
                Box::pin(http2::serve(exchange, down, installed, proxy)).await.wrap(Later::http2)
            }
            Self::FastCgi(fastcgi) => {
                Box::pin(fastcgi::serve(exchange, down, installed, fastcgi)).await.wrap(Later::fast_cgi)
            }
        }
    }

    /// What all objects of a request's name have the same.
    pub(super) fn name(&self, exchange: &Exchange, key: Option<&Template>) -> Vec<u8> {
        if let Some(key) = key {
            return text(exchange, key);
        }
        let mut name = Vec::new();
        if let Self::Proxy(proxy) | Self::Http2(proxy) = self {
            match &proxy.target {
                ProxyTarget::Pool(_) => {
                    name.extend_from_slice(if proxy.tls.is_some() { b"https://" } else { b"http://" });
                    name.extend_from_slice(proxy.host.as_bytes());
                }
                ProxyTarget::Computed(target) => {
                    name = text(exchange, target);
                    // What follows may be a part of what was computed: nothing that both make is made in another way.
                    name.push(b' ');
                }
            }
            request::target(exchange, proxy, None, &mut name);
        }
        name
    }

    /// Whether an error page is shown in the place of an object with this status.
    pub(super) fn intercepts(&self, exchange: &Exchange, status: u16) -> bool {
        settle::intercepts(exchange, self.settings(), status)
    }
}
