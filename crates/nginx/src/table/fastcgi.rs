//! Words about FastCGI (nginx.org, ngx_http_fastcgi_module).

use std::sync::Arc;

use super::entry::Kind::{Flag, Number, Size, Text, Time};
use super::entry::places::{H, HSL, LI};
use super::entry::{Entry, MANY};
use crate::lower::Scope;
use crate::lower::args::{bytes, count, limit, on, time};
use crate::lower::scope::FastCgiScope;
use crate::lower::{fastcgi, upstream_settings as settings};
use weir_model::settings::UpstreamSettings;

const CACHE: &str = "caching is not built yet; every request goes to the upstream";
const STORE: &str = "storing answers as files is not built";
const ALWAYS: &str = "Weir forwards bytes as they come";

pub(super) const ENTRIES: &[Entry] = &[
    Entry::one("fastcgi_pass", LI, Text, "", "Sends requests to a FastCGI server.").place(fastcgi::pass),
    Entry::new("fastcgi_param", HSL, (2, 3), "", "A parameter.").repeats().scope(fastcgi::param),
    Entry::one("fastcgi_index", HSL, Text, "", "Appended to paths that end with `/`.")
        .scope(|_, s, d| s.fastcgi_mut().index = Some(d.arg(0).to_owned())),
    Entry::one("fastcgi_split_path_info", HSL, Text, "", "Splits script and path info.")
        .scope(fastcgi::split_path_info),
    Entry::one("fastcgi_keep_conn", HSL, Flag, "off", "Keeps connections.")
        .scope(|_, s, d| s.fastcgi_mut().keep_connection = on(d)),
    Entry::one("fastcgi_pass_request_headers", HSL, Flag, "on", "Passes the client's fields.")
        .scope(|_, s, d| s.fastcgi_mut().pass_request_headers = on(d)),
    Entry::one("fastcgi_pass_request_body", HSL, Flag, "on", "Passes the client's body.")
        .scope(|_, s, d| s.fastcgi_mut().pass_request_body = on(d)),
    Entry::one("fastcgi_hide_header", HSL, Text, "", "Response fields not passed.").repeats().scope(
        |_, s, d| {
            let level = s.level;
            s.fastcgi_mut().hide.push(level, d.arg(0).to_ascii_lowercase());
        },
    ),
    Entry::one("fastcgi_pass_header", HSL, Text, "", "Response fields passed all the same.").repeats().scope(
        |_, s, d| {
            let level = s.level;
            s.fastcgi_mut().pass.push(level, d.arg(0).to_ascii_lowercase());
        },
    ),
    Entry::new("fastcgi_ignore_headers", HSL, (1, MANY), "", "Response fields not obeyed.").scope(
        |_, s, d| {
            let level = s.level;
            d.args.iter().for_each(|a| s.fastcgi_mut().ignore.push(level, a.text.to_ascii_lowercase()));
        },
    ),
    Entry::one("fastcgi_connect_timeout", HSL, Time, "60s", "Time to connect.")
        .scope(|_, s, d| s.fastcgiing().connect_timeout = time(d)),
    Entry::one("fastcgi_send_timeout", HSL, Time, "60s", "Time between two writes.")
        .scope(|_, s, d| s.fastcgiing().send_timeout = time(d)),
    Entry::one("fastcgi_read_timeout", HSL, Time, "60s", "Time between two reads.")
        .scope(|_, s, d| s.fastcgiing().read_timeout = time(d)),
    Entry::one("fastcgi_buffering", HSL, Flag, "on", "Reads answers as fast as they come.")
        .scope(|_, s, d| s.fastcgiing().buffering = on(d)),
    Entry::one("fastcgi_request_buffering", HSL, Flag, "on", "Reads whole requests first.")
        .scope(|_, s, d| s.fastcgiing().request_buffering = on(d)),
    Entry::one("fastcgi_buffer_size", HSL, Size, "4k|8k", "Longest response head.")
        .scope(|_, s, d| s.fastcgiing().max_response_head = bytes(d)),
    Entry::new("fastcgi_buffers", HSL, (2, 2), "8 4k|8k", "Bytes of an answer held in memory.")
        .scope(|lo, s, d| settings::buffers(lo, s.fastcgiing(), d)),
    Entry::one("fastcgi_max_temp_file_size", HSL, Size, "1024m", "Bytes of an answer spooled to disk.")
        .scope(|_, s, d| s.fastcgiing().max_temp_file = bytes(d)),
    Entry::new("fastcgi_temp_path", HSL, (1, 4), "fastcgi_temp", "Folder of spooled answers.")
        .scope(|lo, s, d| s.fastcgiing().temp_path = lo.path(d.arg(0))),
    Entry::one("fastcgi_ignore_client_abort", HSL, Flag, "off", "Goes on when the client has gone.")
        .scope(|_, s, d| s.fastcgiing().client_abort = settings::client_abort(d)),
    Entry::one("fastcgi_intercept_errors", HSL, Flag, "off", "Error pages replace upstreams' errors.")
        .scope(|_, s, d| s.fastcgiing().intercept_errors = on(d)),
    Entry::one("fastcgi_limit_rate", HSL, Text, "0", "Bytes a second from the upstream.")
        .scope(|lo, s, d| settings::limit_rate(lo, s.fastcgiing(), d)),
    Entry::one("fastcgi_socket_keepalive", HSL, Flag, "off", "Keep-alive probes.")
        .scope(|_, s, d| s.fastcgiing().socket_keepalive = on(d)),
    Entry::new("fastcgi_next_upstream", HSL, (1, MANY), "error timeout", "When another endpoint is tried.")
        .scope(|lo, s, d| settings::next_upstream(lo, s.fastcgiing(), d)),
    Entry::one("fastcgi_next_upstream_tries", HSL, Number, "0", "Most attempts.")
        .scope(|_, s, d| s.fastcgiing().retry.tries = count(d).min(u64::from(u32::MAX)) as u32),
    Entry::one("fastcgi_next_upstream_timeout", HSL, Time, "0", "Time for attempts.")
        .scope(|_, s, d| s.fastcgiing().retry.timeout = limit(time(d))),
    Entry::new("fastcgi_bind", HSL, (1, 2), "", "Local address towards upstreams.")
        .not_yet("local addresses towards FastCGI servers are not built"),
    Entry::one("fastcgi_catch_stderr", HSL, Text, "", "Treats texts on standard error as failures.")
        .repeats()
        .not_yet("standard error of FastCGI servers is only logged"),
    Entry::one("fastcgi_busy_buffers_size", HSL, Size, "8k|16k", "Bytes on their way to the client.")
        .tuning(ALWAYS),
    Entry::one("fastcgi_temp_file_write_size", HSL, Size, "8k|16k", "Bytes of a write to disk.")
        .tuning(ALWAYS),
    Entry::one("fastcgi_send_lowat", HSL, Size, "0", "Low-water mark of sockets.")
        .tuning("it has no effect on Linux"),
    Entry::one("fastcgi_force_ranges", HSL, Flag, "off", "Ranges of upstreams' answers.")
        .tuning("whole answers are passed whole"),
    Entry::one("fastcgi_store", HSL, Text, "off", "Stores answers as files.").not_yet(STORE),
    Entry::new("fastcgi_store_access", HSL, (1, 3), "user:rw", "Modes of those files.").tuning(STORE),
    Entry::one("fastcgi_cache", HSL, Text, "off", "A zone of the cache.").tuning(CACHE),
    Entry::new("fastcgi_cache_path", H, (2, MANY), "", "A zone of the cache.").repeats().tuning(CACHE),
    Entry::one("fastcgi_cache_key", HSL, Text, "", "Key of the cache.").tuning(CACHE),
    Entry::new("fastcgi_cache_bypass", HSL, (1, MANY), "", "When the cache is not asked.")
        .repeats()
        .tuning(CACHE),
    Entry::new("fastcgi_no_cache", HSL, (1, MANY), "", "When answers are not kept.").repeats().tuning(CACHE),
    Entry::new("fastcgi_cache_valid", HSL, (1, MANY), "", "How long answers are kept.")
        .repeats()
        .tuning(CACHE),
    Entry::one("fastcgi_cache_min_uses", HSL, Number, "1", "Requests before an answer is kept.")
        .tuning(CACHE),
    Entry::one("fastcgi_cache_max_range_offset", HSL, Text, "", "Ranges past the cache.").tuning(CACHE),
    Entry::new("fastcgi_cache_use_stale", HSL, (1, MANY), "off", "When old answers are used.").tuning(CACHE),
    Entry::new("fastcgi_cache_methods", HSL, (1, MANY), "GET HEAD", "Methods that are cached.").tuning(CACHE),
    Entry::one("fastcgi_cache_lock", HSL, Flag, "off", "One request fills an entry.").tuning(CACHE),
    Entry::one("fastcgi_cache_lock_timeout", HSL, Time, "5s", "Wait for it.").tuning(CACHE),
    Entry::one("fastcgi_cache_lock_age", HSL, Time, "5s", "Time for it.").tuning(CACHE),
    Entry::one("fastcgi_cache_revalidate", HSL, Flag, "off", "Revalidates entries.").tuning(CACHE),
    Entry::one("fastcgi_cache_background_update", HSL, Flag, "off", "Updates old entries aside.")
        .tuning(CACHE),
    Entry::new("fastcgi_cache_purge", HSL, (1, MANY), "", "Removes entries.").not_yet(CACHE),
];

impl Scope {
    pub(crate) fn fastcgi_mut(&mut self) -> &mut FastCgiScope {
        Arc::make_mut(&mut self.fastcgi)
    }

    pub(crate) fn fastcgiing(&mut self) -> &mut UpstreamSettings {
        Arc::make_mut(&mut self.fastcgi_mut().settings)
    }
}
