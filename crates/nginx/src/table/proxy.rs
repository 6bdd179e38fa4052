//! Words about proxying (nginx.org, ngx_http_proxy_module).

use std::sync::Arc;

use super::entry::Kind::{Flag, Number, OneOf, Size, Text};
use super::entry::places::{HSL, LIX};
use super::entry::{Entry, MANY};
use crate::take::args::on;
use crate::take::proxy;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::one("proxy_pass", LIX, Text, "", "Sends requests to a pool.").place(proxy::pass),
    Entry::new(
        "proxy_set_header",
        HSL,
        (2, 2),
        "Host $proxy_host; Connection \"\"",
        "Sets a field of upstream requests.",
    )
    .repeats()
    .scope(|lo, s, d| proxy::set_header(lo, s.level, s.proxy_mut(), d)),
    Entry::one(
        "proxy_http_version",
        HSL,
        OneOf(&["1.0", "1.1", "2", "2.0"]),
        "1.1",
        "Version towards upstreams.",
    )
    .scope(|_, s, d| proxy::http_version(s, d)),
    Entry::one("proxy_method", HSL, Text, "", "Method of upstream requests.").scope(|lo, s, d| {
        s.proxy_mut().method = Some(lo.template(&d.args[0]));
    }),
    Entry::one("proxy_set_body", HSL, Text, "", "Body of upstream requests.").scope(|lo, s, d| {
        s.proxy_mut().body = Some(lo.template(&d.args[0]));
    }),
    Entry::new("proxy_redirect", HSL, (1, 2), "default", "Rewrites `Location` and `Refresh`.")
        .repeats()
        .scope(proxy::redirect),
    Entry::new("proxy_cookie_domain", HSL, (1, 2), "off", "Rewrites cookies' domains.")
        .repeats()
        .scope(proxy::cookie_domain),
    Entry::new("proxy_cookie_path", HSL, (1, 2), "off", "Rewrites cookies' paths.")
        .repeats()
        .scope(proxy::cookie_path),
    Entry::new("proxy_cookie_flags", HSL, (1, 4), "off", "Changes cookies' flags.")
        .repeats()
        .scope(proxy::cookie_flags),
    // Times, buffers, retries.
    Entry::new("proxy_bind", HSL, (1, 2), "", "Local address towards upstreams.").scope(proxy::bind),
    Entry::one("proxy_ssl_alpn", HSL, Text, "", "Protocols offered.")
        .tuning("`http/1.1` is what Weir speaks to upstreams"),
    // Tuning.
    Entry::one("proxy_send_lowat", HSL, Size, "0", "Low-water mark of sockets.")
        .tuning("it has no effect on Linux"),
    Entry::one("proxy_headers_hash_max_size", HSL, Number, "512", "Size of a table.")
        .tuning("Weir sizes its tables by itself"),
    Entry::one("proxy_headers_hash_bucket_size", HSL, Number, "64", "Size of a table.")
        .tuning("Weir sizes its tables by itself"),
    Entry::one("proxy_pass_trailers", HSL, Flag, "off", "Passes trailers.")
        .tuning("trailers are always passed to clients that take them"),
    Entry::new("proxy_allow_upstream", HSL, (1, MANY), "", "Upstreams that may be reached.")
        .not_yet("limiting computed upstreams is not built"),
    Entry::new("proxy_bind_dynamic", HSL, (1, 1), "off", "Binds anew for each connection.")
        .tuning("local addresses with variables are computed for each connection"),
    // The cache.
    Entry::one("proxy_cache_convert_head", HSL, Flag, "on", "Turns HEAD into GET.")
        .scope(|_, s, d| s.proxy_mut().gateway.cache().settings.convert_head = on(d)),
];

use crate::take::Scope;
use crate::take::scope::{ProxyScope, UpstreamTlsScope};

impl Scope {
    pub(crate) fn proxy_mut(&mut self) -> &mut ProxyScope {
        Arc::make_mut(&mut self.proxy)
    }

    pub(crate) fn proxy_tls(&mut self) -> &mut UpstreamTlsScope {
        Arc::make_mut(&mut self.proxy_mut().tls)
    }
}
