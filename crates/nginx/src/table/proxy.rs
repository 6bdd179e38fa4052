//! Words about proxying (nginx.org, ngx_http_proxy_module).

use std::sync::Arc;

use super::entry::Kind::{Flag, Number, OneOf, Size, Text, Time};
use super::entry::places::{H, HSL, LIX};
use super::entry::{Entry, MANY};
use crate::lower::args::{bytes, count, limit, on, time};
use crate::lower::{proxy, upstream_settings as settings, upstream_tls};

const CACHE: &str = "caching is not built yet; every request goes to the upstream";
const STORE: &str = "storing answers as files is not built";
const ALWAYS: &str = "Weir forwards bytes as they come";

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
    .scope(proxy::set_header),
    Entry::one(
        "proxy_http_version",
        HSL,
        OneOf(&["1.0", "1.1", "2", "2.0"]),
        "1.1",
        "Version towards upstreams.",
    )
    .scope(proxy::http_version),
    Entry::one("proxy_method", HSL, Text, "", "Method of upstream requests.").scope(|lo, s, d| {
        s.proxy_mut().method = Some(lo.template(&d.args[0]));
    }),
    Entry::one("proxy_set_body", HSL, Text, "", "Body of upstream requests.").scope(|lo, s, d| {
        s.proxy_mut().body = Some(lo.template(&d.args[0]));
    }),
    Entry::one("proxy_pass_request_headers", HSL, Flag, "on", "Passes the client's fields.")
        .scope(|_, s, d| s.proxy_mut().pass_request_headers = on(d)),
    Entry::one("proxy_pass_request_body", HSL, Flag, "on", "Passes the client's body.")
        .scope(|_, s, d| s.proxy_mut().pass_request_body = on(d)),
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
        .not_yet("changing cookies' flags is not built"),
    Entry::one("proxy_hide_header", HSL, Text, "", "Response fields not passed.").repeats().scope(
        |_, s, d| {
            let level = s.level;
            s.proxy_mut().hide.push(level, d.arg(0).to_ascii_lowercase());
        },
    ),
    Entry::one("proxy_pass_header", HSL, Text, "", "Response fields passed all the same.").repeats().scope(
        |_, s, d| {
            let level = s.level;
            s.proxy_mut().pass.push(level, d.arg(0).to_ascii_lowercase());
        },
    ),
    Entry::new("proxy_ignore_headers", HSL, (1, MANY), "", "Response fields not obeyed.").scope(|_, s, d| {
        let level = s.level;
        d.args.iter().for_each(|a| s.proxy_mut().ignore.push(level, a.text.to_ascii_lowercase()));
    }),
    // Times, buffers, retries.
    Entry::one("proxy_connect_timeout", HSL, Time, "60s", "Time to connect.")
        .scope(|_, s, d| s.proxying().connect_timeout = time(d)),
    Entry::one("proxy_send_timeout", HSL, Time, "60s", "Time between two writes.")
        .scope(|_, s, d| s.proxying().send_timeout = time(d)),
    Entry::one("proxy_read_timeout", HSL, Time, "60s", "Time between two reads.")
        .scope(|_, s, d| s.proxying().read_timeout = time(d)),
    Entry::one("proxy_buffering", HSL, Flag, "on", "Reads answers as fast as they come.")
        .scope(|_, s, d| s.proxying().buffering = on(d)),
    Entry::one("proxy_request_buffering", HSL, Flag, "on", "Reads whole requests first.")
        .scope(|_, s, d| s.proxying().request_buffering = on(d)),
    Entry::one("proxy_buffer_size", HSL, Size, "4k|8k", "Longest response head.")
        .scope(|_, s, d| s.proxying().max_response_head = bytes(d)),
    Entry::new("proxy_buffers", HSL, (2, 2), "8 4k|8k", "Bytes of an answer held in memory.")
        .scope(|lo, s, d| settings::buffers(lo, s.proxying(), d)),
    Entry::one("proxy_max_temp_file_size", HSL, Size, "1024m", "Bytes of an answer spooled to disk.")
        .scope(|_, s, d| s.proxying().max_temp_file = bytes(d)),
    Entry::new("proxy_temp_path", HSL, (1, 4), "proxy_temp", "Folder of spooled answers.")
        .scope(|lo, s, d| s.proxying().temp_path = lo.path(d.arg(0))),
    Entry::one("proxy_ignore_client_abort", HSL, Flag, "off", "Goes on when the client has gone.")
        .scope(|_, s, d| s.proxying().client_abort = settings::client_abort(d)),
    Entry::one("proxy_intercept_errors", HSL, Flag, "off", "Error pages replace upstreams' errors.")
        .scope(|_, s, d| s.proxying().intercept_errors = on(d)),
    Entry::one("proxy_limit_rate", HSL, Text, "0", "Bytes a second from the upstream.")
        .scope(|lo, s, d| settings::limit_rate(lo, s.proxying(), d)),
    Entry::one("proxy_socket_keepalive", HSL, Flag, "off", "Keep-alive probes.")
        .scope(|_, s, d| s.proxying().socket_keepalive = on(d)),
    Entry::new("proxy_next_upstream", HSL, (1, MANY), "error timeout", "When another endpoint is tried.")
        .scope(|lo, s, d| settings::next_upstream(lo, s.proxying(), d)),
    Entry::one("proxy_next_upstream_tries", HSL, Number, "0", "Most attempts.")
        .scope(|_, s, d| s.proxying().retry.tries = count(d).min(u64::from(u32::MAX)) as u32),
    Entry::one("proxy_next_upstream_timeout", HSL, Time, "0", "Time for attempts.")
        .scope(|_, s, d| s.proxying().retry.timeout = limit(time(d))),
    Entry::new("proxy_bind", HSL, (1, 2), "", "Local address towards upstreams.").scope(proxy::bind),
    // TLS to upstreams.
    Entry::one("proxy_ssl_verify", HSL, Flag, "off", "Verifies upstreams' certificates.")
        .scope(|_, s, d| s.proxy_tls().tls.verify = on(d)),
    Entry::one("proxy_ssl_trusted_certificate", HSL, Text, "", "Trusted CAs.")
        .scope(|lo, s, d| s.proxy_tls().tls.ca = Some(lo.conf_path(d.arg(0)))),
    Entry::one("proxy_ssl_crl", HSL, Text, "", "Revoked certificates.")
        .scope(|lo, s, d| s.proxy_tls().tls.crl = Some(lo.conf_path(d.arg(0)))),
    Entry::one("proxy_ssl_server_name", HSL, Flag, "off", "Sends SNI.")
        .scope(|_, s, d| s.proxy_tls().tls.send_name = on(d)),
    Entry::one("proxy_ssl_name", HSL, Text, "$proxy_host", "Name for SNI and verification.")
        .scope(|lo, s, d| s.proxy_tls().tls.name = Some(lo.template(&d.args[0]))),
    Entry::one("proxy_ssl_certificate", HSL, Text, "", "Certificate shown to upstreams.")
        .scope(|_, s, d| s.proxy_tls().certificate = Some((d.arg(0).to_owned(), d.span))),
    Entry::one("proxy_ssl_certificate_key", HSL, Text, "", "Its key.")
        .scope(|_, s, d| s.proxy_tls().key = Some(d.arg(0).to_owned())),
    Entry::one("proxy_ssl_session_reuse", HSL, Flag, "on", "Resumes sessions.")
        .scope(|_, s, d| s.proxy_tls().tls.session_reuse = on(d)),
    Entry::new("proxy_ssl_protocols", HSL, (1, MANY), "TLSv1.2 TLSv1.3", "Versions offered.")
        .scope(upstream_tls::protocols),
    Entry::one("proxy_ssl_ciphers", HSL, Text, "DEFAULT", "Suites offered.").scope(upstream_tls::ciphers),
    Entry::one("proxy_ssl_verify_depth", HSL, Number, "1", "Most issuers in a chain.")
        .scope(|_, s, d| s.proxy_tls().tls.depth = Some(count(d) as usize)),
    Entry::one("proxy_ssl_password_file", HSL, Text, "", "Pass phrases of keys.")
        .not_yet("encrypted keys are not built; decrypt the key with `openssl pkey`"),
    Entry::new("proxy_ssl_conf_command", HSL, (2, 2), "", "OpenSSL settings.")
        .repeats()
        .not_yet("Weir uses no OpenSSL"),
    Entry::one("proxy_ssl_key_log", HSL, Text, "", "Logs session keys.")
        .tuning("session keys are never logged"),
    Entry::one("proxy_ssl_alpn", HSL, Text, "", "Protocols offered.")
        .tuning("`http/1.1` is what Weir speaks to upstreams"),
    Entry::new("proxy_ssl_certificate_cache", HSL, (1, MANY), "off", "Keeps certificates.")
        .tuning("certificates are read when the configuration is loaded"),
    // Tuning.
    Entry::one("proxy_busy_buffers_size", HSL, Size, "8k|16k", "Bytes on their way to the client.")
        .tuning(ALWAYS),
    Entry::one("proxy_temp_file_write_size", HSL, Size, "8k|16k", "Bytes of a write to disk.").tuning(ALWAYS),
    Entry::one("proxy_send_lowat", HSL, Size, "0", "Low-water mark of sockets.")
        .tuning("it has no effect on Linux"),
    Entry::one("proxy_headers_hash_max_size", HSL, Number, "512", "Size of a table.")
        .tuning("Weir sizes its tables by itself"),
    Entry::one("proxy_headers_hash_bucket_size", HSL, Number, "64", "Size of a table.")
        .tuning("Weir sizes its tables by itself"),
    Entry::one("proxy_force_ranges", HSL, Flag, "off", "Ranges of upstreams' answers.")
        .tuning("ranges are the upstream's to give; whole answers are passed whole"),
    Entry::one("proxy_pass_trailers", HSL, Flag, "off", "Passes trailers.")
        .tuning("trailers are always passed to clients that take them"),
    Entry::new("proxy_allow_upstream", HSL, (1, MANY), "", "Upstreams that may be reached.")
        .not_yet("limiting computed upstreams is not built"),
    Entry::new("proxy_bind_dynamic", HSL, (1, 1), "off", "Binds anew for each connection.")
        .tuning("local addresses with variables are computed for each connection"),
    Entry::one("proxy_store", HSL, Text, "off", "Stores answers as files.").not_yet(STORE),
    Entry::new("proxy_store_access", HSL, (1, 3), "user:rw", "Modes of those files.").tuning(STORE),
    // The cache.
    Entry::one("proxy_cache", HSL, Text, "off", "A zone of the cache.").tuning(CACHE),
    Entry::new("proxy_cache_path", H, (2, MANY), "", "A zone of the cache.").repeats().tuning(CACHE),
    Entry::one("proxy_cache_key", HSL, Text, "$scheme$proxy_host$request_uri", "Key of the cache.")
        .tuning(CACHE),
    Entry::new("proxy_cache_bypass", HSL, (1, MANY), "", "When the cache is not asked.")
        .repeats()
        .tuning(CACHE),
    Entry::new("proxy_no_cache", HSL, (1, MANY), "", "When answers are not kept.").repeats().tuning(CACHE),
    Entry::new("proxy_cache_valid", HSL, (1, MANY), "", "How long answers are kept.").repeats().tuning(CACHE),
    Entry::one("proxy_cache_min_uses", HSL, Number, "1", "Requests before an answer is kept.").tuning(CACHE),
    Entry::one("proxy_cache_max_range_offset", HSL, Text, "", "Ranges past the cache.").tuning(CACHE),
    Entry::new("proxy_cache_use_stale", HSL, (1, MANY), "off", "When old answers are used.").tuning(CACHE),
    Entry::new("proxy_cache_methods", HSL, (1, MANY), "GET HEAD", "Methods that are cached.").tuning(CACHE),
    Entry::one("proxy_cache_lock", HSL, Flag, "off", "One request fills an entry.").tuning(CACHE),
    Entry::one("proxy_cache_lock_timeout", HSL, Time, "5s", "Wait for it.").tuning(CACHE),
    Entry::one("proxy_cache_lock_age", HSL, Time, "5s", "Time for it.").tuning(CACHE),
    Entry::one("proxy_cache_revalidate", HSL, Flag, "off", "Revalidates entries.").tuning(CACHE),
    Entry::one("proxy_cache_convert_head", HSL, Flag, "on", "Turns HEAD into GET.").tuning(CACHE),
    Entry::one("proxy_cache_background_update", HSL, Flag, "off", "Updates old entries aside.").tuning(CACHE),
    Entry::new("proxy_cache_purge", HSL, (1, MANY), "", "Removes entries.").not_yet(CACHE),
];

use crate::lower::Scope;
use crate::lower::scope::{ProxyScope, UpstreamTlsScope};
use weir_model::settings::UpstreamSettings;

impl Scope {
    pub(crate) fn proxy_mut(&mut self) -> &mut ProxyScope {
        Arc::make_mut(&mut self.proxy)
    }

    pub(crate) fn proxying(&mut self) -> &mut UpstreamSettings {
        Arc::make_mut(&mut self.proxy_mut().settings)
    }

    pub(crate) fn proxy_tls(&mut self) -> &mut UpstreamTlsScope {
        Arc::make_mut(&mut self.proxy_mut().tls)
    }
}
