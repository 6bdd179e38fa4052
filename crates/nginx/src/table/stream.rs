//! Words about TCP services (nginx.org, ngx_stream_*).

use super::entry::Kind::{Flag, Number, OneOf, Seconds, Size, Text, Time};
use super::entry::places::{T, TS, TSRV};
use super::entry::{Entry, MANY};
use crate::take::args::{bytes, count, limit, on, time};
use crate::take::tls::{at_directive, pem_file};
use crate::take::{geoip2, health, listen, maps, server, stream, stream_proxy as proxy, stream_tls};

const TABLES: &str = "Weir sizes its tables by itself";

pub(super) const ENTRIES: &[Entry] = &[
    Entry::new("server", T, (0, 0), "", "A TCP service.").block().repeats(),
    Entry::new("upstream", T, (1, 1), "", "A pool of endpoints.").block().repeats(),
    Entry::new("map", T, (2, 2), "", "A variable computed from another by a table.")
        .block()
        .repeats()
        .shared(maps::map),
    Entry::new("geo", T, (1, 2), "", "A variable computed from an address.")
        .block()
        .repeats()
        .shared(maps::geo),
    Entry::new("geoip2", T, (1, 1), "", "Variables from a database of networks (MaxMind DB).")
        .block()
        .repeats()
        .shared(geoip2::block),
    Entry::new("split_clients", T, (2, 2), "", "A variable that splits clients into shares.")
        .block()
        .repeats()
        .shared(maps::split_clients),
    Entry::new("log_format", T, (2, MANY), "", "A format of access logs.")
        .repeats()
        .shared(crate::take::log::log_format),
    Entry::new("limit_conn_zone", T, (2, 2), "", "A zone of concurrent connections.")
        .repeats()
        .shared(crate::take::access::limit_conn_zone),
    Entry::new("listen", TSRV, (1, MANY), "", "An address of the service.").repeats().server(listen::listen),
    Entry::new("server_name", TSRV, (1, MANY), "", "Names told apart by SNI.")
        .repeats()
        .server(server::names),
    Entry::new("match", T, (1, 1), "", "What is sent for a health check, and what is to come.")
        .block()
        .repeats()
        .shared(health::matching),
    Entry::new("health_check", TSRV, (0, MANY), "", "Checks the servers of the upstream.")
        .stream(health::of_service),
    Entry::one("health_check_timeout", TS, Time, "5s", "One check's time.")
        .stream(|_, s, d| s.health_timeout = time(d)),
    Entry::one("proxy_pass", TSRV, Text, "", "Carries connections to a pool.").stream(proxy::pass),
    Entry::new("set", TSRV, (2, 2), "", "Assigns a variable.").repeats().stream(stream::set),
    Entry::one("return", TSRV, Text, "", "Sends a text and closes.").stream(stream::respond),
    Entry::new("access_log", TS, (1, MANY), "off", "Where sessions are logged.")
        .repeats()
        .stream(stream::access_log),
    Entry::new("error_log", TS, (1, 2), "stderr error", "Where errors are logged.")
        .repeats()
        .stream(stream::error_log),
    Entry::one("allow", TS, Text, "", "Lets clients in.").repeats().stream(stream::access_rule),
    Entry::one("deny", TS, Text, "", "Keeps clients out.").repeats().stream(stream::access_rule),
    Entry::one("set_real_ip_from", TS, Text, "", "Proxies that are believed.")
        .repeats()
        .stream(stream::real_ip_from),
    Entry::new("limit_conn", TS, (2, 2), "", "Limits concurrent connections.")
        .repeats()
        .stream(stream::limit_conn),
    Entry::one(
        "limit_conn_log_level",
        TS,
        OneOf(&["info", "notice", "warn", "error"]),
        "error",
        "Severity of log lines.",
    )
    .stream(|_, s, d| s.limit_level = crate::take::log::level(d.arg(0)).unwrap_or_default()),
    Entry::one("limit_conn_dry_run", TS, Flag, "off", "Counts, but lets pass.")
        .stream(|_, s, d| s.limit_dry_run = on(d)),
    Entry::new("resolver", TS, (1, MANY), "", "Name servers.").stream(stream::resolver),
    Entry::one("resolver_timeout", TS, Time, "30s", "Time of a look-up.")
        .stream(|_, s, d| s.resolver_timeout = time(d)),
    Entry::one("tcp_nodelay", TS, Flag, "on", "Sends small packets at once.")
        .stream(|_, s, d| s.tcp_nodelay = on(d)),
    Entry::one("proxy_protocol_timeout", TS, Time, "30s", "Time for a PROXY header.")
        .stream(|_, s, d| s.proxy_protocol_timeout = Some(time(d))),
    // Reading ahead.
    Entry::one("ssl_preread", TS, Flag, "off", "Reads the ClientHello of connections that are carried.")
        .stream(|_, s, d| s.preread = on(d)),
    Entry::one("preread_buffer_size", TS, Size, "16k", "Most bytes of a preread.")
        .stream(|_, s, d| s.inspect.most = bytes(d)),
    Entry::one("preread_timeout", TS, Time, "30s", "Time of a preread.")
        .stream(|_, s, d| s.inspect.time = time(d)),
    // Carrying.
    Entry::one("proxy_connect_timeout", TS, Time, "60s", "Time to connect.")
        .stream(|_, s, d| s.connect_timeout = time(d)),
    Entry::one("proxy_timeout", TS, Time, "10m", "Time between two bytes, either way.")
        .stream(|_, s, d| s.idle_timeout = time(d)),
    Entry::one("proxy_buffer_size", TS, Size, "16k", "Bytes of buffer each way.")
        .stream(|_, s, d| s.buffer = bytes(d)),
    Entry::one("proxy_protocol", TS, Flag, "off", "Sends a PROXY header.")
        .stream(|_, s, d| s.send_proxy = on(d)),
    Entry::one("proxy_protocol_version", TS, OneOf(&["1", "2"]), "1", "Its version.")
        .stream(|_, s, d| s.send_proxy_v2 = d.arg(0) == "2"),
    Entry::one("proxy_next_upstream", TS, Flag, "on", "Tries another endpoint.")
        .stream(|_, s, d| s.retry_mut().on_error = on(d)),
    Entry::one("proxy_next_upstream_tries", TS, Number, "0", "Most attempts.")
        .stream(|_, s, d| s.retry_mut().tries = count(d).min(u64::from(u32::MAX)) as u32),
    Entry::one("proxy_next_upstream_timeout", TS, Time, "0", "Time for attempts.")
        .stream(|_, s, d| s.retry_mut().timeout = limit(time(d))),
    Entry::one("proxy_upload_rate", TS, Text, "0", "Bytes a second from the client.")
        .stream(proxy::upload_rate),
    Entry::one("proxy_download_rate", TS, Text, "0", "Bytes a second to the client.")
        .stream(proxy::download_rate),
    Entry::one("proxy_socket_keepalive", TS, Flag, "off", "Keep-alive probes.")
        .stream(|_, s, d| s.socket_keepalive = on(d)),
    Entry::new("proxy_bind", TS, (1, 2), "", "Local address towards upstreams.").stream(proxy::bind),
    Entry::one("proxy_half_close", TS, Flag, "off", "Closes each direction by itself.")
        .stream(|_, s, d| s.half_close = on(d)),
    Entry::one("proxy_downstream_buffer", TS, Size, "16k", "Old form of proxy_buffer_size.")
        .tuning("nginx dropped it; `proxy_buffer_size` holds"),
    Entry::one("proxy_upstream_buffer", TS, Size, "16k", "Old form of proxy_buffer_size.")
        .tuning("nginx dropped it; `proxy_buffer_size` holds"),
    Entry::one("proxy_requests", TS, Number, "0", "Datagrams of a client after which a session is new.")
        .stream(|_, s, d| s.datagrams.requests = Some(count(d)).filter(|&most| most > 0)),
    Entry::one("proxy_responses", TS, Number, "", "Datagrams that answer one of a client's.")
        .stream(|_, s, d| s.datagrams.responses = Some(count(d))),
    Entry::one("proxy_session_drop", TS, Flag, "off", "Ends sessions of removed endpoints.")
        .tuning("sessions live on"),
    Entry::one("proxy_ssl", TS, Flag, "off", "TLS to upstreams.").stream(|_, s, d| s.upstream_tls_on = on(d)),
    Entry::one("proxy_ssl_verify", TS, Flag, "off", "Verifies upstreams' certificates.")
        .stream(|_, s, d| s.upstream_tls().tls.verify = on(d)),
    Entry::one("proxy_ssl_trusted_certificate", TS, Text, "", "Trusted CAs.")
        .stream(|lo, s, d| s.upstream_tls().tls.ca = pem_file(lo, d)),
    Entry::one("proxy_ssl_crl", TS, Text, "", "Revoked certificates.")
        .stream(|lo, s, d| s.upstream_tls().tls.crl = pem_file(lo, d)),
    Entry::one("proxy_ssl_server_name", TS, Flag, "off", "Sends SNI.")
        .stream(|_, s, d| s.upstream_tls().tls.send_name = on(d)),
    Entry::one("proxy_ssl_name", TS, Text, "", "Name for SNI and verification.")
        .stream(|lo, s, d| s.upstream_tls().tls.name = Some(lo.template(&d.args[0]))),
    Entry::one("proxy_ssl_certificate", TS, Text, "", "Certificate shown to upstreams.")
        .stream(|_, s, d| s.upstream_tls().certificate = Some(at_directive(d, 0))),
    Entry::one("proxy_ssl_certificate_key", TS, Text, "", "Its key.")
        .stream(|_, s, d| s.upstream_tls().key = Some(at_directive(d, 0))),
    Entry::one("proxy_ssl_session_reuse", TS, Flag, "on", "Resumes sessions.")
        .stream(|_, s, d| s.upstream_tls().tls.session_reuse = on(d)),
    Entry::new("proxy_ssl_protocols", TS, (1, MANY), "TLSv1.2 TLSv1.3", "Versions offered.")
        .stream(stream_tls::upstream_protocols),
    Entry::one("proxy_ssl_ciphers", TS, Text, "DEFAULT", "Suites offered.")
        .stream(stream_tls::upstream_ciphers),
    Entry::one("proxy_ssl_verify_depth", TS, Number, "1", "Most issuers in a chain.")
        .stream(|_, s, d| s.upstream_tls().tls.depth = Some(count(d) as usize)),
    Entry::one("proxy_ssl_password_file", TS, Text, "", "Pass phrases of keys.")
        .stream(|lo, s, d| s.upstream_tls().passwords = pem_file(lo, d)),
    Entry::new("proxy_ssl_conf_command", TS, (2, 2), "", "OpenSSL settings.")
        .repeats()
        .stream(stream_tls::upstream_conf_command),
    // TLS with clients.
    Entry::one("ssl_certificate", TS, Text, "", "A certificate chain.")
        .repeats()
        .stream(stream_tls::certificate),
    Entry::one("ssl_certificate_key", TS, Text, "", "Its key.").repeats().stream(stream_tls::certificate_key),
    Entry::new("ssl_protocols", TS, (1, MANY), "TLSv1.2 TLSv1.3", "Versions offered.")
        .stream(stream_tls::protocols),
    Entry::one("ssl_ciphers", TS, Text, "HIGH:!aNULL:!MD5", "Suites offered.").stream(stream_tls::ciphers),
    Entry::one("ssl_ecdh_curve", TS, Text, "auto", "Key-exchange groups.").stream(stream_tls::curves),
    Entry::one(
        "ssl_verify_client",
        TS,
        OneOf(&["on", "off", "optional", "optional_no_ca"]),
        "off",
        "Asks for client certificates.",
    )
    .stream(stream_tls::verify_client),
    Entry::one("ssl_client_certificate", TS, Text, "", "CAs of client certificates.")
        .stream(|lo, s, d| s.tls_mut().client_ca = pem_file(lo, d)),
    Entry::one("ssl_trusted_certificate", TS, Text, "", "Further CAs.")
        .stream(|lo, s, d| s.tls_mut().trusted_ca = pem_file(lo, d)),
    Entry::one("ssl_crl", TS, Text, "", "Revoked certificates.")
        .stream(|lo, s, d| s.tls_mut().client_crl = pem_file(lo, d)),
    Entry::new("ssl_session_cache", TS, (1, 2), "none", "Keeps sessions.").stream(stream_tls::session_cache),
    Entry::one("ssl_session_tickets", TS, Flag, "on", "Gives session tickets.")
        .stream(|_, s, d| s.tls_mut().tickets = on(d)),
    Entry::one("ssl_session_timeout", TS, Seconds, "5m", "How long a session can be resumed.")
        .stream(stream_tls::session_timeout),
    Entry::one("ssl_handshake_timeout", TS, Time, "60s", "Time for a handshake.")
        .stream(|_, s, d| s.handshake_timeout = time(d)),
    Entry::new("ssl_alpn", TS, (1, MANY), "", "Protocols offered.")
        .stream(|_, s, d| s.alpn = d.args.iter().map(|a| a.text.clone()).collect()),
    Entry::new("ssl_conf_command", TS, (2, 2), "", "OpenSSL settings.")
        .repeats()
        .stream(stream_tls::conf_command),
    Entry::one("ssl_prefer_server_ciphers", TS, Flag, "off", "The server's order counts.")
        .stream(|_, s, d| s.tls_mut().prefer_server_order = on(d)),
    Entry::one("ssl_dhparam", TS, Text, "", "Parameters of DHE suites.")
        .tuning("Weir has no DHE suites; ECDHE is used"),
    Entry::one("ssl_session_ticket_key", TS, Text, "", "Keys of tickets; the first makes them.")
        .repeats()
        .stream(|lo, s, d| {
            let level = s.level;
            crate::take::tls::ticket_key(lo, s.tls_mut(), level, d);
        }),
    Entry::one("ssl_verify_depth", TS, Number, "1", "Most issuers in a chain.")
        .stream(|_, s, d| s.tls_mut().verify_depth = count(d) as usize),
    Entry::one("ssl_password_file", TS, Text, "", "Pass phrases of keys.")
        .stream(|lo, s, d| s.tls_mut().passwords = pem_file(lo, d)),
    Entry::one("ssl_stapling", TS, Flag, "off", "Staples OCSP responses.")
        .stream(|_, s, d| s.tls_mut().stapling = on(d)),
    Entry::one("ssl_stapling_file", TS, Text, "", "The response (DER).")
        .stream(|lo, s, d| s.tls_mut().staple = pem_file(lo, d)),
    Entry::one("ssl_stapling_responder", TS, Text, "", "Who is asked.")
        .stream(|lo, s, d| crate::take::tls::stapling_responder(lo, s.tls_mut(), d)),
    Entry::one("ssl_stapling_verify", TS, Flag, "off", "Verifies responses.")
        .stream(|_, s, d| s.tls_mut().stapling_verify = on(d)),
    Entry::one("ssl_certificate_compression", TS, Flag, "off", "Compresses certificates.")
        .stream(|_, s, d| s.tls_mut().compress_certificates = on(d)),
    Entry::one("ssl_ech_file", TS, Text, "", "Keys of Encrypted ClientHello.")
        .repeats()
        .not_yet("Encrypted ClientHello is not built"),
    Entry::one("ssl_ocsp", TS, Text, "off", "Checks client certificates by OCSP.")
        .not_yet("OCSP checks of client certificates are not built"),
    Entry::one("ssl_reject_handshake", TS, Flag, "off", "Refuses handshakes.")
        .stream(|_, s, d| s.tls_mut().reject = on(d)),
    Entry::one("pass", TSRV, Text, "", "Hands connections to another listener.").stream(stream::pass),
    Entry::one("variables_hash_max_size", T, Number, "1024", "Size of a table.").tuning(TABLES),
    Entry::one("variables_hash_bucket_size", T, Number, "64", "Size of a table.").tuning(TABLES),
    Entry::one("map_hash_max_size", T, Number, "2048", "Size of a table.").tuning(TABLES),
    Entry::one("map_hash_bucket_size", T, Number, "64", "Size of a table.").tuning(TABLES),
    Entry::one("server_names_hash_max_size", T, Number, "512", "Size of a table.").tuning(TABLES),
    Entry::one("server_names_hash_bucket_size", T, Number, "64", "Size of a table.").tuning(TABLES),
    Entry::new("open_log_file_cache", TS, (1, 4), "off", "Keeps log files open.")
        .tuning("log files stay open until they are reopened"),
];
