//! Words about HTTP connections, servers and locations (nginx.org, ngx_http_core_module).

use std::sync::Arc;

use super::entry::Kind::{Flag, Number, Offset, OneOf, Seconds, Size, Text, Time};
use super::entry::places::{H, HS, HSL, HSLI, L, S, SL};
use super::entry::{Entry, MANY};
use crate::take::args::{bytes, count, on, time};
use crate::take::{client, geoip2, health, listen, location, maps, mirror, server};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::new("server", H, (0, 0), "", "A site.").block().repeats(),
    Entry::new("location", SL, (1, 2), "", "What is done with the requests of a path.").block().repeats(),
    Entry::new("upstream", H, (1, 1), "", "A pool of endpoints.").block().repeats(),
    Entry::new("map", H, (2, 2), "", "A variable computed from another by a table.")
        .block()
        .repeats()
        .shared(maps::map),
    Entry::new("geo", H, (1, 2), "", "A variable computed from an address.")
        .block()
        .repeats()
        .shared(maps::geo),
    Entry::new("geoip2", H, (1, 1), "", "Variables from a database of networks (MaxMind DB).")
        .block()
        .repeats()
        .shared(geoip2::block),
    Entry::one("geoip2_proxy", H, Text, "", "Peers whose X-Forwarded-For is believed.")
        .repeats()
        .shared(geoip2::proxy),
    Entry::one("geoip2_proxy_recursive", H, Flag, "off", "Passes over believed peers in that field.")
        .shared(geoip2::recursive),
    Entry::new("match", H, (1, 1), "", "What a response to a health check must be.")
        .block()
        .repeats()
        .shared(health::matching),
    Entry::new("health_check", L, (0, MANY), "", "Checks the servers of the location's upstream.")
        .place(health::of_location),
    Entry::new("split_clients", H, (2, 2), "", "A variable that splits clients into shares.")
        .block()
        .repeats()
        .shared(maps::split_clients),
    Entry::new("limit_except", L, (1, MANY), "", "Rules for all methods but these.").block().repeats(),
    Entry::new("listen", S, (1, MANY), "*:80 | *:8000", "An address where the site is reached.")
        .repeats()
        .server(listen::listen),
    Entry::new("server_name", S, (1, MANY), "\"\"", "Hosts that the site answers for.")
        .repeats()
        .server(server::names),
    // Client connections.
    Entry::one("client_header_timeout", HS, Time, "60s", "Time for a request head.")
        .scope(|_, s, d| Arc::make_mut(&mut s.client).header_timeout = time(d)),
    Entry::new("large_client_header_buffers", HS, (2, 2), "4 8k", "Longest request line and fields.")
        .scope(client::large_header_buffers),
    Entry::one("client_header_buffer_size", HS, Size, "1k", "First buffer of a request head.")
        .tuning("Weir reads heads into buffers that all connections share"),
    Entry::one("max_headers", HS, Number, "1000", "Most request fields.")
        .scope(|_, s, d| Arc::make_mut(&mut s.client).max_header_count = count(d).min(100_000) as u32),
    Entry::one(
        "ignore_invalid_headers",
        HS,
        Flag,
        "on",
        "Drops fields with odd names instead of answering 400.",
    )
    .scope(|_, s, d| Arc::make_mut(&mut s.client).ignore_invalid_headers = on(d)),
    Entry::one("underscores_in_headers", HS, Flag, "off", "Allows `_` in field names.")
        .scope(|_, s, d| Arc::make_mut(&mut s.client).drop_underscores = !on(d)),
    Entry::one("merge_slashes", HS, Flag, "on", "Takes several slashes in a path for one.")
        .scope(|_, s, d| Arc::make_mut(&mut s.client).merge_slashes = on(d)),
    Entry::new("keepalive_timeout", HSL, (1, 2), "75s", "Idle time between requests; 0 closes after each.")
        .scope(client::keepalive_timeout),
    Entry::one("keepalive_requests", HSL, Number, "1000", "Requests on one connection.")
        .scope(|_, s, d| Arc::make_mut(&mut s.client).keepalive_requests = Some(count(d))),
    Entry::one("keepalive_time", HSL, Time, "1h", "Longest life of a connection.")
        .scope(|_, s, d| Arc::make_mut(&mut s.client).keepalive_time = Some(time(d))),
    Entry::one("keepalive_min_timeout", HSL, Time, "0", "Idle connections are kept at least this long.")
        .tuning("Weir closes no idle connection before its time"),
    Entry::new("keepalive_disable", HSL, (1, 3), "msie6", "Browsers whose connections are not kept.")
        .scope(client::keepalive_disable),
    Entry::one("send_timeout", HSL, Time, "60s", "Time between two writes to the client.")
        .scope(|_, s, d| Arc::make_mut(&mut s.client).send_timeout = time(d)),
    Entry::one("weir_min_send_rate", HSL, Size, "500", "Least bytes a second that a client takes; 0: none.")
        .scope(|_, s, d| Arc::make_mut(&mut s.client).min_send_rate = bytes(d)),
    Entry::one("tcp_nodelay", HSL, Flag, "on", "Sends small packets at once.")
        .scope(|_, s, d| Arc::make_mut(&mut s.client).tcp_nodelay = on(d)),
    Entry::one("tcp_nopush", HSL, Flag, "off", "Sends full packets.")
        .scope(|_, s, d| Arc::make_mut(&mut s.client).tcp_nopush = on(d)),
    Entry::one("reset_timedout_connection", HSL, Flag, "off", "Resets connections that timed out.")
        .scope(|_, s, d| Arc::make_mut(&mut s.client).reset_timed_out = on(d)),
    Entry::one(
        "lingering_close",
        HSL,
        OneOf(&["off", "on", "always"]),
        "on",
        "Reads what a client still sends before closing.",
    )
    .scope(client::lingering_close),
    Entry::one("lingering_time", HSL, Time, "30s", "Longest time of it.")
        .scope(|_, s, d| Arc::make_mut(&mut s.client).lingering_time = time(d)),
    Entry::one("lingering_timeout", HSL, Time, "5s", "Longest pause of it.")
        .scope(|_, s, d| Arc::make_mut(&mut s.client).lingering_timeout = time(d)),
    Entry::one("limit_rate", HSLI, Text, "0", "Bytes a second to the client.").scope(client::limit_rate),
    Entry::one("slice", HSL, Size, "0", "Asks upstreams for responses in parts of this size.")
        .scope(|_, s, d| s.slice = bytes(d)),
    Entry::one("limit_rate_after", HSLI, Text, "0", "Bytes sent before that.")
        .scope(client::limit_rate_after),
    // Request bodies.
    Entry::one("client_max_body_size", HSL, Offset, "1m", "Largest request body; 0: no limit.")
        .scope(|_, s, d| Arc::make_mut(&mut s.body).max_size = Some(bytes(d)).filter(|&n| n > 0)),
    Entry::one("client_body_timeout", HSL, Time, "60s", "Time between two reads of the body.")
        .scope(|_, s, d| Arc::make_mut(&mut s.body).timeout = time(d)),
    Entry::one("weir_min_body_rate", HSL, Size, "500", "Least bytes a second of a body; 0: none.")
        .scope(|_, s, d| Arc::make_mut(&mut s.body).min_rate = bytes(d)),
    Entry::one("client_body_buffer_size", HSL, Size, "16k", "Bytes of a body held in memory.")
        .scope(|_, s, d| Arc::make_mut(&mut s.body).memory = bytes(d)),
    Entry::new("client_body_temp_path", HSL, (1, 4), "client_body_temp", "Folder for larger bodies.")
        .scope(|lo, s, d| Arc::make_mut(&mut s.body).temp_path = lo.path(d.arg(0))),
    Entry::one(
        "client_body_in_file_only",
        HSL,
        OneOf(&["off", "on", "clean"]),
        "off",
        "Keeps bodies in files.",
    )
    .scope(client::body_in_file),
    Entry::one("client_body_in_single_buffer", HSL, Flag, "off", "Keeps a body in one buffer.")
        .tuning("`$request_body` is one piece in any case"),
    // Locations.
    Entry::one("post_action", HSL, Text, "", "What is requested once a request has ended.")
        .scope(location::post_action),
    Entry::new("internal", L, (0, 0), "", "Only internal redirects get here.")
        .place(|_, place, _| place.internal = true),
    Entry::new("error_page", HSLI, (2, MANY), "", "A page for statuses.")
        .repeats()
        .scope(location::error_page),
    Entry::one("recursive_error_pages", HSL, Flag, "off", "Follows error pages of error pages.")
        .scope(|_, s, d| s.recursive_error_pages = on(d)),
    Entry::one("chunked_transfer_encoding", HSL, Flag, "on", "Allows chunked answers.")
        .scope(|_, s, d| s.chunked = on(d)),
    Entry::one("mirror", HSL, Text, "off", "Sends copies of requests to another location.")
        .repeats()
        .scope(mirror::mirror),
    Entry::one("mirror_request_body", HSL, Flag, "on", "Sends the body with them, and reads it first.")
        .scope(|_, s, d| s.parts().mirror_body = on(d)),
    Entry::new("resolver", HSL, (1, MANY), "", "Name servers.").scope(client::resolver),
    Entry::one("resolver_timeout", HSL, Time, "30s", "Time of a look-up.").scope(|_, s, d| {
        s.parts().resolver_timeout = time(d);
    }),
    // Redirects and names.
    Entry::one("server_tokens", HSL, Text, "on", "`Server` field with or without version.")
        .scope(client::server_tokens),
    Entry::one("server_name_in_redirect", HSL, Flag, "off", "Redirects name the site, not the Host.")
        .scope(|_, s, d| Arc::make_mut(&mut s.site).server_name_in_redirect = on(d)),
    Entry::one("port_in_redirect", HSL, Flag, "on", "Redirects carry the port.")
        .scope(|_, s, d| Arc::make_mut(&mut s.site).port_in_redirect = on(d)),
    Entry::one("absolute_redirect", HSL, Flag, "on", "Redirects are absolute.")
        .scope(|_, s, d| Arc::make_mut(&mut s.site).absolute_redirect = on(d)),
    // Tuning.
    Entry::one("variables_hash_max_size", H, Number, "1024", "Size of a table.").tuning(TABLES),
    Entry::one("variables_hash_bucket_size", H, Number, "64", "Size of a table.").tuning(TABLES),
    Entry::one("server_names_hash_max_size", H, Number, "512", "Size of a table.").tuning(TABLES),
    Entry::one("server_names_hash_bucket_size", H, Number, "64", "Size of a table.").tuning(TABLES),
    Entry::one("map_hash_max_size", H, Number, "2048", "Size of a table.").tuning(TABLES),
    Entry::one("map_hash_bucket_size", H, Number, "64", "Size of a table.").tuning(TABLES),
    Entry::one("types_hash_max_size", HSL, Number, "1024", "Size of a table.").tuning(TABLES),
    Entry::one("types_hash_bucket_size", HSL, Number, "64", "Size of a table.").tuning(TABLES),
    Entry::one("connection_pool_size", HS, Size, "512", "Memory of a connection.").tuning(MEMORY),
    Entry::one("request_pool_size", HS, Size, "4k", "Memory of a request.").tuning(MEMORY),
    Entry::one("output_buffers", HSL, Text, "2 32k", "Buffers of file reads.").two().tuning(MEMORY),
    Entry::one("postpone_output", HSL, Size, "1460", "Least bytes of a write.")
        .tuning("Weir writes once a wake-up"),
    Entry::one("send_lowat", HSL, Size, "0", "Low-water mark of sockets.")
        .tuning("it has no effect on Linux"),
    Entry::one("msie_padding", HSL, Flag, "on", "Pads error pages for MSIE and Chrome.")
        .scope(|_, s, d| Arc::make_mut(&mut s.client).old_browsers.pads_errors = on(d)),
    Entry::one("msie_refresh", HSL, Flag, "off", "Refresh instead of redirects for MSIE.")
        .scope(|_, s, d| Arc::make_mut(&mut s.client).old_browsers.refreshes = on(d)),
    Entry::one("auth_delay", HSL, Time, "0s", "Delays 401 answers.")
        .scope(|_, s, d| s.parts().auth_delay = time(d)),
    Entry::one("http2", HS, Flag, "off", "Offers HTTP/2.").scope(client::http2),
    Entry::one("http2_max_concurrent_streams", HS, Number, "128", "Streams at once.")
        .scope(client::http2_streams),
    Entry::one("http2_chunk_size", HSL, Size, "8k", "Size of frames.").tuning(NO_HTTP2),
    Entry::one("http2_body_preread_size", HS, Size, "64k", "Body bytes read early.").tuning(NO_HTTP2),
    Entry::one("http2_recv_buffer_size", H, Size, "256k", "Buffer of a worker.").tuning(NO_HTTP2),
    Entry::one("http2_pool_size", HS, Size, "4k", "Memory of a stream.").tuning(NO_HTTP2),
    Entry::one("http2_streams_index_size", HS, Number, "32", "Size of a table.").tuning(NO_HTTP2),
    Entry::one("http2_max_field_size", HS, Size, "4k", "Longest field.")
        .tuning("nginx ignores it since 1.19.7; `large_client_header_buffers` holds"),
    Entry::one("http2_max_header_size", HS, Size, "16k", "All fields.")
        .tuning("nginx ignores it since 1.19.7; `large_client_header_buffers` holds"),
    Entry::one("http2_max_requests", HS, Number, "1000", "Requests on a connection.")
        .tuning("nginx ignores it since 1.19.7; `keepalive_requests` holds"),
    Entry::one("http2_recv_timeout", HS, Seconds, "30s", "Idle time.")
        .tuning("nginx ignores it since 1.19.7; `client_header_timeout` holds"),
    Entry::one("http2_idle_timeout", HS, Seconds, "3m", "Idle time.")
        .tuning("nginx ignores it since 1.19.7; `keepalive_timeout` holds"),
    Entry::one("http2_max_concurrent_pushes", HS, Number, "10", "Pushes at once.")
        .tuning("nginx dropped server push in 1.25.1"),
    Entry::one("http2_push", HSL, Text, "off", "Server push.")
        .repeats()
        .tuning("nginx dropped server push in 1.25.1"),
    Entry::one("http2_push_preload", HSL, Flag, "off", "Server push.")
        .tuning("nginx dropped server push in 1.25.1"),
    Entry::one("http3", HS, Flag, "on", "Offers HTTP/3 on `quic` listeners.").scope(client::http3),
    Entry::one("http3_hq", HS, Flag, "off", "HTTP/0.9 over QUIC.")
        .tuning("HTTP/0.9 over QUIC is for tests of interoperation; HTTP/3 is spoken"),
    Entry::one("http3_max_concurrent_streams", HS, Number, "128", "Streams at once.")
        .scope(client::http3_streams),
    Entry::one("http3_stream_buffer_size", HS, Size, "64k", "Buffer of a stream.")
        .scope(client::http3_stream_buffer),
    Entry::one("quic_active_connection_id_limit", HS, Number, "2", "Connection ids.")
        .tuning("Weir keeps as many ids of a client as its QUIC library does"),
    Entry::one("quic_bpf", super::entry::places::M, Flag, "off", "Steers packets to workers.")
        .tuning("Weir's workers hand packets to one another by their connection ids"),
    Entry::one("quic_gso", HS, Flag, "off", "Sends in batches.").scope(client::quic_gso),
    Entry::one("quic_host_key", HS, Text, "", "Key of tokens.")
        .tuning("tokens are made with a key of the process, and hold until it restarts"),
    Entry::one("quic_retry", HS, Flag, "off", "Validates addresses.").scope(client::quic_retry),
];

const TABLES: &str = "Weir sizes its tables by itself";
const MEMORY: &str = "Weir sizes its buffers by itself";
const NO_HTTP2: &str = "Weir sizes the frames and buffers of HTTP/2 by itself";

impl Entry {
    /// Two arguments instead of one.
    const fn two(mut self) -> Self {
        self.arity = (2, 2);
        self
    }
}
