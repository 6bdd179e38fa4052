//! Words that all gateways have, whatever protocol they hand requests on by: each is declared once, and takes a prefix.
//!
//! Owns: the words of `proxy_*` and `fastcgi_*` that mean the same.
//! Never: holds a word that only one gateway has; that stands in its own table.
//! Why: uwsgi, SCGI, gRPC and memcached have the same words. Building one of them is one line here for all of those.

use super::entry::Kind::{Flag, Number, Size, Text, Time};
use super::entry::places::{H, HSL};
use super::entry::{Entry, MANY};
use crate::take::Scope;
use crate::take::args::{bytes, count, limit, on, time};
use crate::take::cache;
use crate::take::scope::GatewayScope;
use crate::take::store;
use crate::take::upstream_settings as settings;

const ALWAYS: &str = "Weir forwards bytes as they come";

/// Words of every gateway: times, retries, response fields. `$of` is the accessor of the gateway's settings.
macro_rules! basic {
    ($prefix:literal, $of:ident) => {
        &[
            Entry::one(concat!($prefix, "hide_header"), HSL, Text, "", "Response fields not passed.")
                .repeats()
                .scope(|_, s, d| {
                    let level = s.level;
                    s.$of().hide.push(level, d.arg(0).to_ascii_lowercase());
                }),
            Entry::one(
                concat!($prefix, "pass_header"),
                HSL,
                Text,
                "",
                "Response fields passed all the same.",
            )
            .repeats()
            .scope(|_, s, d| {
                let level = s.level;
                s.$of().pass.push(level, d.arg(0).to_ascii_lowercase());
            }),
            Entry::new(concat!($prefix, "ignore_headers"), HSL, (1, MANY), "", "Response fields not obeyed.")
                .scope(|_, s, d| {
                    let level = s.level;
                    d.args.iter().for_each(|a| s.$of().ignore.push(level, a.text.to_ascii_lowercase()));
                }),
            Entry::one(concat!($prefix, "connect_timeout"), HSL, Time, "60s", "Time to connect.")
                .scope(|_, s, d| s.$of().upstream().connect_timeout = time(d)),
            Entry::one(concat!($prefix, "send_timeout"), HSL, Time, "60s", "Time between two writes.")
                .scope(|_, s, d| s.$of().upstream().send_timeout = time(d)),
            Entry::one(concat!($prefix, "read_timeout"), HSL, Time, "60s", "Time between two reads.")
                .scope(|_, s, d| s.$of().upstream().read_timeout = time(d)),
            Entry::one(concat!($prefix, "buffer_size"), HSL, Size, "4k|8k", "Longest response head.")
                .scope(|_, s, d| s.$of().upstream().max_response_head = bytes(d)),
            Entry::one(
                concat!($prefix, "intercept_errors"),
                HSL,
                Flag,
                "off",
                "Error pages replace upstreams' errors.",
            )
            .scope(|_, s, d| s.$of().upstream().intercept_errors = on(d)),
            Entry::one(concat!($prefix, "socket_keepalive"), HSL, Flag, "off", "Keep-alive probes.")
                .scope(|_, s, d| s.$of().upstream().socket_keepalive = on(d)),
            Entry::new(
                concat!($prefix, "next_upstream"),
                HSL,
                (1, MANY),
                "error timeout",
                "When another endpoint is tried.",
            )
            .scope(|lo, s, d| settings::next_upstream(lo, s.$of().upstream(), d)),
            Entry::one(concat!($prefix, "next_upstream_tries"), HSL, Number, "0", "Most attempts.")
                .scope(|_, s, d| s.$of().upstream().retry.tries = count(d).min(u64::from(u32::MAX)) as u32),
            Entry::one(concat!($prefix, "next_upstream_timeout"), HSL, Time, "0", "Time for attempts.")
                .scope(|_, s, d| s.$of().upstream().retry.timeout = limit(time(d))),
        ]
    };
}

/// Words of the gateways that buffer, store and cache.
macro_rules! buffered {
    ($prefix:literal, $of:ident, $key:literal) => {
        &[
            Entry::one(
                concat!($prefix, "pass_request_headers"),
                HSL,
                Flag,
                "on",
                "Passes the client's fields.",
            )
            .scope(|_, s, d| s.$of().pass_request_headers = on(d)),
            Entry::one(concat!($prefix, "pass_request_body"), HSL, Flag, "on", "Passes the client's body.")
                .scope(|_, s, d| s.$of().pass_request_body = on(d)),
            Entry::one(concat!($prefix, "buffering"), HSL, Flag, "on", "Reads answers as fast as they come.")
                .scope(|_, s, d| s.$of().upstream().buffering = on(d)),
            Entry::one(concat!($prefix, "request_buffering"), HSL, Flag, "on", "Reads whole requests first.")
                .scope(|_, s, d| s.$of().upstream().request_buffering = on(d)),
            Entry::new(
                concat!($prefix, "buffers"),
                HSL,
                (2, 2),
                "8 4k|8k",
                "Bytes of an answer held in memory.",
            )
            .scope(|lo, s, d| settings::buffers(lo, s.$of().upstream(), d)),
            Entry::one(
                concat!($prefix, "max_temp_file_size"),
                HSL,
                Size,
                "1024m",
                "Bytes of an answer spooled to disk.",
            )
            .scope(|_, s, d| s.$of().upstream().max_temp_file = bytes(d)),
            Entry::new(
                concat!($prefix, "temp_path"),
                HSL,
                (1, 4),
                concat!($prefix, "temp"),
                "Folder of spooled answers.",
            )
            .scope(|lo, s, d| s.$of().upstream().temp_path = lo.path(d.arg(0))),
            Entry::one(
                concat!($prefix, "ignore_client_abort"),
                HSL,
                Flag,
                "off",
                "Goes on when the client has gone.",
            )
            .scope(|_, s, d| s.$of().upstream().client_abort = settings::client_abort(d)),
            Entry::one(concat!($prefix, "limit_rate"), HSL, Text, "0", "Bytes a second from the upstream.")
                .scope(|lo, s, d| settings::limit_rate(lo, s.$of().upstream(), d)),
            Entry::one(
                concat!($prefix, "busy_buffers_size"),
                HSL,
                Size,
                "8k|16k",
                "Bytes on their way to the client.",
            )
            .tuning(ALWAYS),
            Entry::one(
                concat!($prefix, "temp_file_write_size"),
                HSL,
                Size,
                "8k|16k",
                "Bytes of a write to disk.",
            )
            .tuning(ALWAYS),
            Entry::one(concat!($prefix, "force_ranges"), HSL, Flag, "off", "Gives parts of all responses.")
                .scope(|_, s, d| s.$of().upstream().force_ranges = on(d)),
            Entry::one(concat!($prefix, "store"), HSL, Text, "off", "Stores answers as files.")
                .scope(|lo, s, d| store::store(lo, s.$of(), d)),
            Entry::new(concat!($prefix, "store_access"), HSL, (1, 3), "user:rw", "Modes of those files.")
                .scope(|lo, s, d| store::access(lo, s.$of(), d)),
            // The cache.
            Entry::one(concat!($prefix, "cache"), HSL, Text, "off", "A zone of the cache.")
                .scope(|lo, s, d| cache::zone(lo, s.$of(), d)),
            Entry::new(concat!($prefix, "cache_path"), H, (2, MANY), "", "A zone of the cache.")
                .repeats()
                .shared(cache::path),
            Entry::one(concat!($prefix, "cache_key"), HSL, Text, $key, "Key of the cache.")
                .scope(|lo, s, d| s.$of().cache().key = Some(lo.template(&d.args[0]))),
            Entry::new(concat!($prefix, "cache_bypass"), HSL, (1, MANY), "", "When the cache is not asked.")
                .repeats()
                .scope(|lo, s, d| {
                    let level = s.level;
                    d.args.iter().for_each(|a| s.$of().cache().bypass.push(level, lo.template(a)));
                }),
            Entry::new(concat!($prefix, "no_cache"), HSL, (1, MANY), "", "When answers are not kept.")
                .repeats()
                .scope(|lo, s, d| {
                    let level = s.level;
                    d.args.iter().for_each(|a| s.$of().cache().no_store.push(level, lo.template(a)));
                }),
            Entry::new(concat!($prefix, "cache_valid"), HSL, (1, MANY), "", "How long answers are kept.")
                .repeats()
                .scope(|lo, s, d| {
                    let level = s.level;
                    cache::valid(lo, s.$of(), level, d);
                }),
            Entry::one(
                concat!($prefix, "cache_min_uses"),
                HSL,
                Number,
                "1",
                "Requests before an answer is kept.",
            )
            .scope(|_, s, d| s.$of().cache().settings.min_uses = count(d)),
            Entry::one(concat!($prefix, "cache_max_range_offset"), HSL, Size, "", "Ranges past the cache.")
                .scope(|_, s, d| s.$of().cache().settings.max_range_offset = Some(bytes(d))),
            Entry::new(
                concat!($prefix, "cache_use_stale"),
                HSL,
                (1, MANY),
                "off",
                "When old answers are used.",
            )
            .scope(|lo, s, d| cache::use_stale(lo, s.$of(), d)),
            Entry::new(
                concat!($prefix, "cache_methods"),
                HSL,
                (1, MANY),
                "GET HEAD",
                "Methods that are cached.",
            )
            .scope(|lo, s, d| cache::methods(lo, s.$of(), d)),
            Entry::one(concat!($prefix, "cache_lock"), HSL, Flag, "off", "One request fills an entry.")
                .scope(|_, s, d| s.$of().cache().settings.lock = on(d)),
            Entry::one(concat!($prefix, "cache_lock_timeout"), HSL, Time, "5s", "Wait for it.")
                .scope(|_, s, d| s.$of().cache().settings.lock_timeout = time(d)),
            Entry::one(concat!($prefix, "cache_lock_age"), HSL, Time, "5s", "Time for it.")
                .scope(|_, s, d| s.$of().cache().settings.lock_age = time(d)),
            Entry::one(concat!($prefix, "cache_revalidate"), HSL, Flag, "off", "Revalidates entries.")
                .scope(|_, s, d| s.$of().cache().settings.revalidate = on(d)),
            Entry::one(
                concat!($prefix, "cache_background_update"),
                HSL,
                Flag,
                "off",
                "Updates old entries aside.",
            )
            .scope(|_, s, d| s.$of().cache().settings.background_update = on(d)),
            Entry::new(
                concat!($prefix, "cache_purge"),
                HSL,
                (1, MANY),
                "",
                "When a request removes entries.",
            )
            .repeats()
            .scope(|lo, s, d| {
                let level = s.level;
                d.args.iter().for_each(|a| s.$of().cache().purge.push(level, lo.template(a)));
            }),
        ]
    };
}

/// `proxy_*`: what every gateway has.
pub(super) const PROXY_BASIC: &[Entry] = basic!("proxy_", proxy_gateway);
/// `proxy_*`: buffers, files, the cache.
pub(super) const PROXY_BUFFERED: &[Entry] =
    buffered!("proxy_", proxy_gateway, "$scheme$proxy_host$request_uri");
/// `fastcgi_*`: what every gateway has.
pub(super) const FASTCGI_BASIC: &[Entry] = basic!("fastcgi_", fastcgi_gateway);
/// `fastcgi_*`: buffers, files, the cache.
pub(super) const FASTCGI_BUFFERED: &[Entry] = buffered!("fastcgi_", fastcgi_gateway, "");
/// `uwsgi_*`.
pub(super) const UWSGI_BASIC: &[Entry] = basic!("uwsgi_", uwsgi_gateway);
/// `uwsgi_*`: buffers, files, the cache.
pub(super) const UWSGI_BUFFERED: &[Entry] = buffered!("uwsgi_", uwsgi_gateway, "");
/// `scgi_*`.
pub(super) const SCGI_BASIC: &[Entry] = basic!("scgi_", scgi_gateway);
/// `scgi_*`: buffers, files, the cache.
pub(super) const SCGI_BUFFERED: &[Entry] = buffered!("scgi_", scgi_gateway, "");
/// `memcached_*`.
pub(super) const MEMCACHED_BASIC: &[Entry] = basic!("memcached_", memcached_gateway);

/// `grpc_*`.
pub(super) const GRPC_BASIC: &[Entry] = basic!("grpc_", grpc_gateway);

/// Why words of a gateway that is not built do nothing.
pub(super) const IDLE: &str = "nothing is handed on this way until its `…_pass` is built";

impl Scope {
    fn proxy_gateway(&mut self) -> &mut GatewayScope {
        &mut self.proxy_mut().gateway
    }

    fn fastcgi_gateway(&mut self) -> &mut GatewayScope {
        &mut self.fastcgi_mut().gateway
    }

    fn uwsgi_gateway(&mut self) -> &mut GatewayScope {
        &mut self.uwsgi_mut().gateway
    }

    fn scgi_gateway(&mut self) -> &mut GatewayScope {
        &mut self.scgi_mut().gateway
    }

    fn grpc_gateway(&mut self) -> &mut GatewayScope {
        &mut self.grpc_mut().gateway
    }

    fn memcached_gateway(&mut self) -> &mut GatewayScope {
        &mut self.memcached_mut().gateway
    }
}
