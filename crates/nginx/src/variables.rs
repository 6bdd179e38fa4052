//! nginx's variables, as Weir's.
//!
//! Owns: the names of built-in variables of `http` and `stream`, and the syntax of `$name` in text.
//! Never: knows which variables a file defines; the caller says so.
//! Driven by: [`crate::take::Lowering::template`].

use std::sync::{Arc, OnceLock};

use weir_expr::settings::ContentCoding;
use weir_expr::{CertPart, DnPart, Peeked, ProxyTlv, TcpFigure};
use weir_model::{Var, Vocabulary};

/// What a built-in name stands for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Builtin {
    /// A variable.
    Var(Var),
    /// Always this text: features that Weir has not, whose absence nginx spells so.
    Text(&'static str),
    /// nginx has it, Weir not yet.
    NotYet,
}

/// The dialect of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dialect {
    #[default]
    Http,
    Stream,
}

/// Names that stand for a variable without parts, in both dialects unless a note says otherwise.
const COMMON: &[(&str, Var)] = &[
    ("binary_remote_addr", Var::ClientAddrBinary),
    ("bytes_sent", Var::BytesSent),
    ("connection", Var::ConnectionSerial),
    ("hostname", Var::Hostname),
    ("msec", Var::TimeSeconds),
    ("nginx_version", Var::NginxVersion),
    ("pid", Var::Pid),
    ("proxy_protocol_addr", Var::ProxyProtocolAddr),
    ("proxy_protocol_port", Var::ProxyProtocolPort),
    ("proxy_protocol_server_addr", Var::ProxyProtocolServerAddr),
    ("proxy_protocol_server_port", Var::ProxyProtocolServerPort),
    ("realip_remote_addr", Var::PeerAddr),
    ("realip_remote_port", Var::PeerPort),
    ("remote_addr", Var::ClientAddr),
    ("remote_port", Var::ClientPort),
    ("server_addr", Var::ServerAddr),
    ("server_port", Var::ServerPort),
    ("limit_conn_status", Var::LimitConnStatus),
    ("slice_range", Var::SliceRange),
    ("ssl_alpn_protocol", Var::TlsAlpn),
    ("ssl_cipher", Var::TlsCipher),
    ("ssl_ciphers", Var::TlsOfferedCiphers),
    ("ssl_client_cert", Var::TlsClientCert),
    ("ssl_client_raw_cert", Var::TlsClientCert),
    ("ssl_client_fingerprint", Var::TlsClientFingerprint),
    ("ssl_client_i_dn", Var::TlsClientIssuer),
    ("ssl_client_s_dn", Var::TlsClientSubject),
    ("ssl_client_i_dn_legacy", Var::TlsClientPart(CertPart::Issuer(DnPart::OneLine))),
    ("ssl_client_s_dn_legacy", Var::TlsClientPart(CertPart::Subject(DnPart::OneLine))),
    ("ssl_client_serial", Var::TlsClientSerial),
    ("ssl_client_v_end", Var::TlsClientPart(CertPart::EndsShown)),
    ("ssl_client_v_remain", Var::TlsClientPart(CertPart::DaysLeft)),
    ("ssl_client_v_start", Var::TlsClientPart(CertPart::BeginsShown)),
    ("ssl_client_verify", Var::TlsClientVerify),
    ("ssl_curve", Var::TlsCurve),
    ("ssl_curves", Var::TlsOfferedGroups),
    ("ssl_protocol", Var::TlsProtocol),
    ("ssl_server_name", Var::TlsServerName),
    ("ssl_session_id", Var::TlsSessionId),
    ("ssl_session_reused", Var::TlsResumed),
    ("time_iso8601", Var::TimeIso8601),
    ("time_local", Var::TimeLocal),
    ("upstream_addr", Var::UpstreamAddr),
    ("upstream_bytes_received", Var::UpstreamBytesReceived),
    ("upstream_bytes_sent", Var::UpstreamBytesSent),
    ("upstream_connect_time", Var::UpstreamConnectTime),
];

const HTTP: &[(&str, Var)] = &[
    ("ancient_browser", Var::AncientBrowser),
    ("args", Var::Query),
    ("body_bytes_sent", Var::BodyBytesSent),
    ("connections_active", Var::ConnectionsActive),
    ("connections_reading", Var::ConnectionsReading),
    ("connections_waiting", Var::ConnectionsWaiting),
    ("connections_writing", Var::ConnectionsWriting),
    ("connection_requests", Var::ConnectionRequests),
    ("connection_time", Var::ConnectionTime),
    ("content_length", Var::ContentLength),
    ("content_type", Var::ContentType),
    ("date_gmt", Var::PageDateGmt),
    ("date_local", Var::PageDateLocal),
    ("document_root", Var::DocumentRoot),
    ("document_uri", Var::Path),
    ("fastcgi_path_info", Var::FastcgiPathInfo),
    ("fastcgi_script_name", Var::FastcgiScriptName),
    ("brotli_ratio", Var::CompressionRatio(ContentCoding::Brotli)),
    ("gzip_ratio", Var::CompressionRatio(ContentCoding::Gzip)),
    ("zstd_ratio", Var::CompressionRatio(ContentCoding::Zstandard)),
    ("host", Var::Host),
    ("http2", Var::Http2),
    ("http3", Var::Http3),
    ("https", Var::HttpsOn),
    ("invalid_referer", Var::InvalidReferer),
    ("is_args", Var::IsArgs),
    ("is_request_port", Var::IsRequestPort),
    ("jwt_payload", Var::TokenPayload),
    ("limit_rate", Var::LimitRate),
    ("limit_req_status", Var::LimitReqStatus),
    ("modern_browser", Var::ModernBrowser),
    ("msie", Var::Msie),
    ("otel_parent_id", Var::TraceParentId),
    ("otel_parent_sampled", Var::TraceParentSampled),
    ("otel_span_id", Var::SpanId),
    ("otel_trace_id", Var::TraceId),
    ("pipe", Var::Pipelined),
    ("proxy_add_x_forwarded_for", Var::ForwardedFor),
    ("proxy_host", Var::ProxyHost),
    ("proxy_port", Var::ProxyPort),
    ("query_string", Var::Query),
    ("realpath_root", Var::RealRoot),
    ("remote_user", Var::RemoteUser),
    ("request", Var::RequestLine),
    ("request_body", Var::RequestBody),
    ("request_body_file", Var::RequestBodyFile),
    ("request_completion", Var::RequestCompletion),
    ("request_filename", Var::Filename),
    ("request_id", Var::RequestId),
    ("request_length", Var::RequestLength),
    ("request_method", Var::Method),
    ("request_port", Var::HostPort),
    ("request_time", Var::RequestTime),
    ("request_uri", Var::Target),
    ("scheme", Var::Scheme),
    ("secure_link", Var::SecureLink),
    ("secure_link_expires", Var::SecureLinkExpires),
    ("server_name", Var::ServerName),
    ("server_protocol", Var::Protocol),
    ("ssl_client_escaped_cert", Var::TlsClientCertEscaped),
    ("ssl_early_data", Var::TlsEarlyData),
    ("status", Var::Status),
    ("tcpinfo_rcv_space", Var::TcpFigure(TcpFigure::ReceiveSpace)),
    ("tcpinfo_rtt", Var::TcpFigure(TcpFigure::RoundTrip)),
    ("tcpinfo_rttvar", Var::TcpFigure(TcpFigure::RoundTripVariation)),
    ("tcpinfo_snd_cwnd", Var::TcpFigure(TcpFigure::CongestionWindow)),
    ("upstream_cache_etag", Var::UpstreamCacheETag),
    ("upstream_cache_last_modified", Var::UpstreamCacheLastModified),
    ("upstream_cache_status", Var::UpstreamCacheStatus),
    ("upstream_header_time", Var::UpstreamHeaderTime),
    ("upstream_response_length", Var::UpstreamResponseLength),
    ("upstream_response_time", Var::UpstreamResponseTime),
    ("upstream_status", Var::UpstreamStatus),
    ("uid_got", Var::UserIdGot),
    ("uid_set", Var::UserIdSet),
    ("uri", Var::Path),
];

const STREAM: &[(&str, Var)] = &[
    ("bytes_received", Var::BytesReceived),
    ("protocol", Var::TransportProtocol),
    ("session_time", Var::SessionTime),
    ("ssl_preread_alpn_protocols", Var::Peeked(Peeked::AlpnProtocols)),
    ("ssl_preread_protocol", Var::Peeked(Peeked::Protocol)),
    ("ssl_preread_server_name", Var::Peeked(Peeked::Name)),
    ("status", Var::SessionStatus),
    ("upstream_first_byte_time", Var::UpstreamFirstByteTime),
    ("upstream_session_time", Var::UpstreamSessionTime),
];

/// Names whose value is empty without the feature behind them.
const EMPTY: &[&str] = &["memcached_key", "quic_connection", "slice_range", "uid_reset"];

/// Names that nginx or a well-known module has, and Weir not.
const NOT_YET: &[&str] = &[
    "geoip_area_code",
    "geoip_city",
    "geoip_city_continent_code",
    "geoip_city_country_code",
    "geoip_city_country_name",
    "geoip_country_code",
    "geoip_country_code3",
    "geoip_country_name",
    "geoip_latitude",
    "geoip_longitude",
    "geoip_org",
    "geoip_postal_code",
    "geoip_region",
    "geoip_region_name",
    "proxy_internal_body_length",
    "ssl_client_sigalg",
    "ssl_ech_outer_server_name",
    "ssl_ech_status",
    "ssl_sigalg",
    "ssl_server_cert_type",
    "time_msec",
    "upstream_queue_time",
];

/// Makes a variable of the part of its name after the prefix.
type Make = fn(String) -> Var;

/// Prefixes of names with a part of their own, longest first where one begins another.
const PREFIXES: &[(&str, Make)] = &[
    ("arg_", Var::Arg),
    ("cookie_", Var::Cookie),
    ("http_", |name| Var::Header(dashes(&name))),
    ("jwt_claim_", |name| Var::TokenClaim(vec![name])),
    ("jwt_header_", |name| Var::TokenHeader(vec![name])),
    ("sent_http_", |name| Var::SentHeader(dashes(&name))),
    ("sent_trailer_", |name| Var::SentTrailer(dashes(&name))),
    ("upstream_cookie_", Var::UpstreamCookie),
    ("upstream_http_", |name| Var::UpstreamHeader(dashes(&name))),
    ("upstream_trailer_", |name| Var::UpstreamTrailer(dashes(&name))),
];

fn dashes(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

/// Prefixes of names that known, unbuilt modules define.
const NOT_YET_PREFIXES: &[&str] = &["geoip2_", "oidc_claim_"];

/// Looks a built-in name up. `underscores`: fields with `_` in their name may arrive, so `$http_x_y` stands for both.
pub(crate) fn builtin(dialect: Dialect, name: &str, underscores: bool) -> Option<Builtin> {
    let own = if dialect == Dialect::Http { HTTP } else { STREAM };
    if let Some((_, var)) = COMMON.iter().chain(own).find(|(known, _)| *known == name) {
        return Some(Builtin::Var(var.clone()));
    }
    if let Some(which) = name.strip_prefix("proxy_protocol_tlv_") {
        return proxy_tlv(which).map(|which| Builtin::Var(Var::ProxyProtocolTlv(which)));
    }
    if EMPTY.contains(&name) {
        return Some(Builtin::Text(""));
    }
    if NOT_YET.contains(&name) || NOT_YET_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Some(Builtin::NotYet);
    }
    if dialect == Dialect::Stream {
        return None;
    }
    let (prefix, make) = PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix))?;
    let part = &name[prefix.len()..];
    Some(Builtin::Var(match *prefix {
        _ if part.is_empty() => return None,
        "http_" if underscores && part.contains('_') => Var::HeaderUnderscored(part.to_ascii_lowercase()),
        _ => make(part.to_owned()),
    }))
}

/// A field of a PROXY header, by name or by number.
fn proxy_tlv(name: &str) -> Option<ProxyTlv> {
    let number = |text: &str| u8::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let named = |names: &[(&str, u8)], text| names.iter().find(|(known, _)| *known == text).map(|one| one.1);
    const FIELDS: &[(&str, u8)] =
        &[("alpn", 0x01), ("authority", 0x02), ("unique_id", 0x05), ("ssl", 0x20), ("netns", 0x30)];
    const OF_TLS: &[(&str, u8)] =
        &[("version", 0x21), ("cn", 0x22), ("cipher", 0x23), ("sig_alg", 0x24), ("key_alg", 0x25)];
    match name.strip_prefix("ssl_") {
        Some("verify") => Some(ProxyTlv::TlsVerify),
        Some(name) => named(OF_TLS, name).or_else(|| number(name)).map(ProxyTlv::Tls),
        None => named(FIELDS, name).or_else(|| number(name)).map(ProxyTlv::Field),
    }
}

/// All built-in names without parts, for suggestions.
pub(crate) fn names(dialect: Dialect) -> impl Iterator<Item = &'static str> {
    let own = if dialect == Dialect::Http { HTTP } else { STREAM };
    COMMON.iter().chain(own).map(|(name, _)| *name)
}

/// Every variable by its name, and whether it is built; a name that ends with `_` stands for all that begin so.
pub fn listed() -> Vec<(String, bool)> {
    let built = COMMON.iter().chain(HTTP).chain(STREAM).map(|(name, _)| (*name).to_owned());
    let empty = EMPTY.iter().map(|name| (*name).to_owned());
    let prefixes =
        PREFIXES.iter().map(|(prefix, _)| *prefix).chain(["proxy_protocol_tlv_"]).map(str::to_owned);
    let built: std::collections::BTreeSet<String> = built.chain(empty).chain(prefixes).collect();
    let absent = NOT_YET.iter().chain(NOT_YET_PREFIXES).map(|name| (*name).to_owned());
    let absent: Vec<_> = absent.filter(|name| !built.contains(name)).map(|name| (name, false)).collect();
    built.into_iter().map(|name| (name, true)).chain(absent).collect()
}

/// All names of `http` that stand for a variable, for texts that are read only while running.
pub(crate) fn vocabulary() -> Arc<Vocabulary> {
    static ALL: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    let made = || {
        let whole = COMMON.iter().chain(HTTP).map(|(name, var)| ((*name).to_owned(), var.clone()));
        let prefixes = PREFIXES.iter().map(|(prefix, make)| {
            let var =
                if *prefix == "http_" { Var::HeaderUnderscored(String::new()) } else { make(String::new()) };
            ((*prefix).to_owned(), var)
        });
        Arc::new(Vocabulary { whole: whole.collect(), prefixes: prefixes.collect() })
    };
    ALL.get_or_init(made).clone()
}

/// One part of a text with variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Text(&'a str),
    Name(&'a str),
    Capture(u8),
    /// A `$` that begins no name.
    Bad,
}

/// Splits a text at its variables, as nginx's scripts do: `$name`, `${name}`, `$1`…`$9`.
pub(crate) fn parts(text: &str) -> Vec<Part<'_>> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        if at > 0 {
            out.push(Part::Text(&rest[..at]));
        }
        let (part, length) = variable(&rest[at + 1..]);
        out.push(part);
        rest = &rest[at + 1 + length..];
    }
    if !rest.is_empty() {
        out.push(Part::Text(rest));
    }
    out
}

/// A variable after its `$`, and how many bytes it takes.
fn variable(rest: &str) -> (Part<'_>, usize) {
    if let Some(digit @ b'1'..=b'9') = rest.as_bytes().first() {
        return (Part::Capture(digit - b'0'), 1);
    }
    let (braced, inner) = match rest.strip_prefix('{') {
        Some(inner) => (true, inner),
        None => (false, rest),
    };
    let length = inner.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    let name = &inner[..length];
    if !braced {
        return if name.is_empty() { (Part::Bad, 0) } else { (Part::Name(name), length) };
    }
    if inner.as_bytes().get(length) != Some(&b'}') || name.is_empty() {
        return (Part::Bad, 0);
    }
    match name.as_bytes() {
        [digit @ b'1'..=b'9'] => (Part::Capture(digit - b'0'), 3),
        _ => (Part::Name(name), length + 2),
    }
}

/// Names of the groups of a pattern: `(?<name>`, `(?P<name>`, `(?'name'`.
pub(crate) fn named_groups(pattern: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(found) = pattern[at..].find("(?") {
        let start = at + found;
        at = start + 2;
        // An odd number of backslashes before it makes the parenthesis a letter.
        let escapes = pattern[..start].bytes().rev().take_while(|&b| b == b'\\').count();
        if escapes % 2 == 1 {
            continue;
        }
        let rest = &pattern[at..];
        let (rest, end) = match rest.as_bytes() {
            [b'P', b'<', ..] => (&rest[2..], '>'),
            [b'<', next, ..] if *next != b'=' && *next != b'!' => (&rest[1..], '>'),
            [b'\'', ..] => (&rest[1..], '\''),
            _ => continue,
        };
        if let Some(length) = rest.find(end)
            && length > 0
        {
            out.push(&rest[..length]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_at_their_variables() {
        use Part::{Bad, Capture, Name, Text};
        let table: &[(&str, &[Part<'_>])] = &[
            ("http://$host/a", &[Text("http://"), Name("host"), Text("/a")]),
            ("${scheme}s", &[Name("scheme"), Text("s")]),
            ("/$1$2", &[Text("/"), Capture(1), Capture(2)]),
            ("$10", &[Capture(1), Text("0")]),
            ("a$", &[Text("a"), Bad]),
            ("${x", &[Bad, Text("{x")]),
            ("", &[]),
        ];
        for (text, expected) in table {
            assert_eq!(&parts(text), expected, "{text}");
        }
    }

    #[test]
    fn groups_are_found() {
        assert_eq!(named_groups(r"^(?<a>x)(?P<b>y)(?'c'z)(?<=d)(?:e)\(?<f>"), ["a", "b", "c"]);
        assert!(named_groups("(?").is_empty());
    }

    #[test]
    fn builtins() {
        let find = |name| builtin(Dialect::Http, name, false);
        assert_eq!(find("host"), Some(Builtin::Var(Var::Host)));
        assert_eq!(find("http_user_agent"), Some(Builtin::Var(Var::Header("user-agent".into()))));
        assert_eq!(find("arg_x_y"), Some(Builtin::Var(Var::Arg("x_y".into()))));
        let preread = builtin(Dialect::Stream, "ssl_preread_protocol", false);
        assert_eq!(preread, Some(Builtin::Var(Var::Peeked(Peeked::Protocol))));
        assert_eq!(find("ssl_preread_protocol"), None);
        for (name, which) in [
            ("alpn", Some(ProxyTlv::Field(1))),
            ("0xEA", Some(ProxyTlv::Field(0xea))),
            ("ssl_cn", Some(ProxyTlv::Tls(0x22))),
            ("ssl_0x21", Some(ProxyTlv::Tls(0x21))),
            ("ssl_verify", Some(ProxyTlv::TlsVerify)),
            ("nonsense", None),
        ] {
            let expected = which.map(|which| Builtin::Var(Var::ProxyProtocolTlv(which)));
            let name = format!("proxy_protocol_tlv_{name}");
            assert_eq!(builtin(Dialect::Http, &name, false), expected, "{name}");
        }
        assert_eq!(find("hsot"), None);
        assert_eq!(builtin(Dialect::Stream, "http_host", false), None);
    }
}
