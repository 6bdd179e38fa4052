//! The variables of an exchange.
//!
//! Each is computed when asked for. Names in the printed form are Weir's own; the documentation names the word of
//! the language a variable comes from.

use std::fmt;

/// A value that an exchange, its connection or the process can give. `S` refers to user-defined variables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Var<S> {
    // The request as received and as rewritten.
    /// Request method (nginx `$request_method`).
    Method,
    /// The request target as received, with its query (`$request_uri`). Never changes.
    Target,
    /// The path part of the target as received, not decoded (HAProxy `path`); changes by `SetPath`.
    RawPath,
    /// The current path: decoded, dots resolved, slashes merged as the site asks; changes by rewrites (`$uri`, `$document_uri`).
    Path,
    /// The current query without `?` (`$args`, `$query_string`); changes by rewrites and assignment.
    Query,
    /// `?` if the query is not empty (`$is_args`).
    IsArgs,
    /// One query argument, not decoded, name compared without case (`$arg_NAME`).
    Arg(String),
    /// The whole request line as received (`$request`).
    RequestLine,
    /// `HTTP/1.0`, `HTTP/1.1`, `HTTP/2.0` (`$server_protocol`).
    Protocol,
    /// `http` or `https` (`$scheme`).
    Scheme,
    /// `on` over TLS, else empty (`$https`).
    HttpsOn,
    /// Host of the target or of the Host field, lower case, no port; else the site's first name (`$host`).
    Host,
    /// Port named by the target or the Host field; empty if none (`$request_port`).
    HostPort,
    /// `:` if a port is named by the request (`$is_request_port`).
    IsRequestPort,
    /// A request field; several lines are joined by `, ` (cookies by `; `). The name is lower case with dashes (`$http_NAME`).
    Header(String),
    /// The n-th comma-separated value of a request field; 1 is the first, -1 the last (HAProxy `req.hdr(name,n)`).
    HeaderNth(String, i16),
    /// A request field whose lower-case name, dashes as `_`, is this (nginx `$http_x_y` matches `X-Y` and `X_Y`).
    HeaderUnderscored(String),
    /// One request cookie (`$cookie_NAME`).
    Cookie(String),
    /// Content-Length of the request as received (`$content_length`).
    ContentLength,
    /// Content-Type of the request (`$content_type`).
    ContentType,
    /// The request body where it is held in memory, else empty (`$request_body`).
    RequestBody,
    /// The file that holds the request body, else empty (`$request_body_file`).
    RequestBodyFile,
    /// Bytes of the request: line, fields, body (`$request_length`).
    RequestLength,
    /// Seconds with milliseconds since the first byte of the request (`$request_time`).
    RequestTime,
    /// 32 hexadecimal digits, random for each request (`$request_id`).
    RequestId,
    /// `OK` if the exchange completed, else empty (`$request_completion`).
    RequestCompletion,
    /// A request trailer field (nginx `$http_trailer_…`, HAProxy none).
    Trailer(String),
    // The client's connection.
    /// The client's address, after real-IP rules (`$remote_addr`, HAProxy `src`).
    ClientAddr,
    /// The same in 4 or 16 bytes (`$binary_remote_addr`).
    ClientAddrBinary,
    /// The client's port (`$remote_port`).
    ClientPort,
    /// The peer's address before real-IP rules (`$realip_remote_addr`).
    PeerAddr,
    /// The peer's port before real-IP rules (`$realip_remote_port`).
    PeerPort,
    /// Source address of the PROXY header (`$proxy_protocol_addr`).
    ProxyProtocolAddr,
    /// Source port of the PROXY header.
    ProxyProtocolPort,
    /// Destination address of the PROXY header.
    ProxyProtocolServerAddr,
    /// Destination port of the PROXY header.
    ProxyProtocolServerPort,
    /// Local address of the connection (`$server_addr`, HAProxy `dst`).
    ServerAddr,
    /// Local port of the connection (`$server_port`, HAProxy `dst_port`).
    ServerPort,
    /// First name of the site (`$server_name`).
    ServerName,
    /// Serial number of the connection (`$connection`).
    ConnectionSerial,
    /// Number of this request on its connection, from 1 (`$connection_requests`).
    ConnectionRequests,
    /// Age of the connection in seconds with milliseconds (`$connection_time`).
    ConnectionTime,
    /// `p` if the request was pipelined, else `.` (`$pipe`).
    Pipelined,
    // TLS with the client.
    /// `TLSv1.2`, `TLSv1.3`, or empty (`$ssl_protocol`).
    TlsProtocol,
    /// Suite in OpenSSL's spelling (`$ssl_cipher`).
    TlsCipher,
    /// Key-exchange group (`$ssl_curve`).
    TlsCurve,
    /// SNI as sent (`$ssl_server_name`, HAProxy `ssl_fc_sni`).
    TlsServerName,
    /// Negotiated application protocol (`$ssl_alpn_protocol`).
    TlsAlpn,
    /// `r` if the session was resumed, else `.` (`$ssl_session_reused`).
    TlsResumed,
    /// Session id in hexadecimal, where there is one (`$ssl_session_id`).
    TlsSessionId,
    /// `1` while early data is used (`$ssl_early_data`).
    TlsEarlyData,
    /// `SUCCESS`, `FAILED:reason`, `NONE` (`$ssl_client_verify`).
    TlsClientVerify,
    /// Subject DN of the client's certificate, RFC 2253 (`$ssl_client_s_dn`).
    TlsClientSubject,
    /// Issuer DN, RFC 2253 (`$ssl_client_i_dn`).
    TlsClientIssuer,
    /// Serial number in hexadecimal (`$ssl_client_serial`).
    TlsClientSerial,
    /// SHA-1 of the certificate in hexadecimal (`$ssl_client_fingerprint`).
    TlsClientFingerprint,
    /// The certificate in PEM, lines after the first begin with a tab (`$ssl_client_cert`).
    TlsClientCert,
    /// The certificate in PEM, percent-encoded (`$ssl_client_escaped_cert`).
    TlsClientCertEscaped,
    // Where the request went.
    /// Root or alias of the route (`$document_root`).
    DocumentRoot,
    /// The same with symbolic links resolved (`$realpath_root`).
    RealRoot,
    /// File that the path maps to (`$request_filename`).
    Filename,
    /// User name of Basic authentication (`$remote_user`).
    RemoteUser,
    /// Host and port named by the proxy action (`$proxy_host`).
    ProxyHost,
    /// Port named by the proxy action, or the scheme's (`$proxy_port`).
    ProxyPort,
    /// X-Forwarded-For as received with the client's address appended (`$proxy_add_x_forwarded_for`).
    ForwardedFor,
    /// The path, or its script part after a path-info split (`$fastcgi_script_name`).
    FastcgiScriptName,
    /// The rest after the script part (`$fastcgi_path_info`).
    FastcgiPathInfo,
    /// `PASSED`, `DELAYED`, `REJECTED` … (`$limit_req_status`).
    LimitReqStatus,
    /// `PASSED`, `REJECTED` … (`$limit_conn_status`).
    LimitConnStatus,
    /// Name of the site or frontend for people (HAProxy `%f`).
    SiteLabel,
    /// Name of the pool chosen (HAProxy `%b`; `<NOSRV>` forms are the log format's).
    PoolName,
    /// Name of the endpoint chosen (HAProxy `%s`).
    EndpointName,
    // The response.
    /// Status code sent (`$status`).
    Status,
    /// Bytes sent to the client (`$bytes_sent`).
    BytesSent,
    /// Bytes of body sent (`$body_bytes_sent`).
    BodyBytesSent,
    /// Bytes received from the client on a TCP service (`$bytes_received`).
    BytesReceived,
    /// A response field as sent (`$sent_http_NAME`).
    SentHeader(String),
    /// A response trailer as sent (`$sent_trailer_NAME`).
    SentTrailer(String),
    /// The n-th comma-separated value of a response field (HAProxy `res.hdr(name,n)`).
    ResponseHeaderNth(String, i16),
    /// Ratio of compression with two decimals (`$gzip_ratio`).
    GzipRatio,
    /// Addresses of the endpoints tried, separated by `, ` (and ` : ` between groups) (`$upstream_addr`).
    UpstreamAddr,
    /// Their status codes (`$upstream_status`).
    UpstreamStatus,
    /// Their times to connect (`$upstream_connect_time`).
    UpstreamConnectTime,
    /// Their times to the response head (`$upstream_header_time`).
    UpstreamHeaderTime,
    /// Their times to the end of the response (`$upstream_response_time`).
    UpstreamResponseTime,
    /// Their body lengths (`$upstream_response_length`).
    UpstreamResponseLength,
    /// Bytes sent to them (`$upstream_bytes_sent`).
    UpstreamBytesSent,
    /// Bytes received from them (`$upstream_bytes_received`).
    UpstreamBytesReceived,
    /// A field of the last upstream response (`$upstream_http_NAME`).
    UpstreamHeader(String),
    /// A cookie set by the last upstream response (`$upstream_cookie_NAME`).
    UpstreamCookie(String),
    /// A trailer of the last upstream response (`$upstream_trailer_NAME`).
    UpstreamTrailer(String),
    /// `HIT`, `MISS` … (`$upstream_cache_status`); empty without a cache.
    UpstreamCacheStatus,
    /// TCP service: time to the first upstream byte (`$upstream_first_byte_time`).
    UpstreamFirstByteTime,
    /// TCP service: time of the upstream session (`$upstream_session_time`).
    UpstreamSessionTime,
    /// What became of a persistence cookie, in two letters: the request's, the response's (HAProxy `%tsc`).
    PersistenceState,
    /// What a session's first bytes say, read ahead (HAProxy `req.ssl_sni` and its kin).
    Peeked(Peeked),
    /// A line of a request field, whole: 1 is the first, -1 the last (HAProxy `req.fhdr`).
    HeaderLine(String, i16),
    /// How many values a request field has; comma-separated ones each, or whole lines.
    HeaderCount(String, bool),
    /// A count of a pool named here, rather than of the exchange's own (HAProxy `nbsrv(NAME)`).
    PoolCount(String, Count),
    /// How the exchange ended, two letters of HAProxy's `%ts` (four for `%tsc`).
    TerminationState,
    /// A phase of the exchange in milliseconds, -1 if it was not reached (HAProxy `%Tq` …).
    Timer(Timer),
    /// A gauge at the end of the exchange (HAProxy `%ac/%fc/%bc/%sc/%rc`).
    Count(Count),
    // TCP services.
    /// Duration of the session in seconds with milliseconds (`$session_time`).
    SessionTime,
    /// `TCP` or `UDP` (stream `$protocol`).
    TransportProtocol,
    /// nginx's stream `$status`: 200, 400, 403, 500, 502, 503.
    SessionStatus,
    // Time and process.
    /// Common log format (`$time_local`).
    TimeLocal,
    /// ISO 8601 (`$time_iso8601`).
    TimeIso8601,
    /// Unix time with milliseconds (`$msec`).
    TimeSeconds,
    /// `21/Nov/2026:02:45:31.123` local time of the accept (HAProxy `%t`).
    AcceptDate,
    /// The same for the request's first byte (HAProxy `%tr`).
    RequestDate,
    /// Name of the machine (`$hostname`).
    Hostname,
    /// Process id of the data plane (`$pid`).
    Pid,
    /// The nginx version whose language is read (`$nginx_version`).
    NginxVersion,
    // Captures and user variables.
    /// The n-th group of the last pattern that matched (`$1`…`$9`).
    Capture(u8),
    /// A request field kept by a capture rule (HAProxy `capture.req.hdr(n)`).
    CapturedRequestHeader(u16),
    /// A response field kept by a capture rule.
    CapturedResponseHeader(u16),
    /// A variable defined by the configuration: set, mapped, or captured by name.
    User(S),
}

impl<S> Var<S> {
    /// The same variable with user variables referred to otherwise.
    pub fn try_map<T, E>(&self, resolve: &mut impl FnMut(&S) -> Result<T, E>) -> Result<Var<T>, E> {
        Ok(match self {
            Var::User(name) => Var::User(resolve(name)?),
            Var::Method => Var::Method,
            Var::Target => Var::Target,
            Var::RawPath => Var::RawPath,
            Var::Path => Var::Path,
            Var::Query => Var::Query,
            Var::IsArgs => Var::IsArgs,
            Var::Arg(a) => Var::Arg(a.clone()),
            Var::RequestLine => Var::RequestLine,
            Var::Protocol => Var::Protocol,
            Var::Scheme => Var::Scheme,
            Var::HttpsOn => Var::HttpsOn,
            Var::Host => Var::Host,
            Var::HostPort => Var::HostPort,
            Var::IsRequestPort => Var::IsRequestPort,
            Var::Header(a) => Var::Header(a.clone()),
            Var::HeaderNth(a, b) => Var::HeaderNth(a.clone(), *b),
            Var::HeaderUnderscored(a) => Var::HeaderUnderscored(a.clone()),
            Var::Cookie(a) => Var::Cookie(a.clone()),
            Var::ContentLength => Var::ContentLength,
            Var::ContentType => Var::ContentType,
            Var::RequestBody => Var::RequestBody,
            Var::RequestBodyFile => Var::RequestBodyFile,
            Var::RequestLength => Var::RequestLength,
            Var::RequestTime => Var::RequestTime,
            Var::RequestId => Var::RequestId,
            Var::RequestCompletion => Var::RequestCompletion,
            Var::Trailer(a) => Var::Trailer(a.clone()),
            Var::ClientAddr => Var::ClientAddr,
            Var::ClientAddrBinary => Var::ClientAddrBinary,
            Var::ClientPort => Var::ClientPort,
            Var::PeerAddr => Var::PeerAddr,
            Var::PeerPort => Var::PeerPort,
            Var::ProxyProtocolAddr => Var::ProxyProtocolAddr,
            Var::ProxyProtocolPort => Var::ProxyProtocolPort,
            Var::ProxyProtocolServerAddr => Var::ProxyProtocolServerAddr,
            Var::ProxyProtocolServerPort => Var::ProxyProtocolServerPort,
            Var::ServerAddr => Var::ServerAddr,
            Var::ServerPort => Var::ServerPort,
            Var::ServerName => Var::ServerName,
            Var::ConnectionSerial => Var::ConnectionSerial,
            Var::ConnectionRequests => Var::ConnectionRequests,
            Var::ConnectionTime => Var::ConnectionTime,
            Var::Pipelined => Var::Pipelined,
            Var::TlsProtocol => Var::TlsProtocol,
            Var::TlsCipher => Var::TlsCipher,
            Var::TlsCurve => Var::TlsCurve,
            Var::TlsServerName => Var::TlsServerName,
            Var::TlsAlpn => Var::TlsAlpn,
            Var::TlsResumed => Var::TlsResumed,
            Var::TlsSessionId => Var::TlsSessionId,
            Var::TlsEarlyData => Var::TlsEarlyData,
            Var::TlsClientVerify => Var::TlsClientVerify,
            Var::TlsClientSubject => Var::TlsClientSubject,
            Var::TlsClientIssuer => Var::TlsClientIssuer,
            Var::TlsClientSerial => Var::TlsClientSerial,
            Var::TlsClientFingerprint => Var::TlsClientFingerprint,
            Var::TlsClientCert => Var::TlsClientCert,
            Var::TlsClientCertEscaped => Var::TlsClientCertEscaped,
            Var::DocumentRoot => Var::DocumentRoot,
            Var::RealRoot => Var::RealRoot,
            Var::Filename => Var::Filename,
            Var::RemoteUser => Var::RemoteUser,
            Var::ProxyHost => Var::ProxyHost,
            Var::ProxyPort => Var::ProxyPort,
            Var::ForwardedFor => Var::ForwardedFor,
            Var::FastcgiScriptName => Var::FastcgiScriptName,
            Var::FastcgiPathInfo => Var::FastcgiPathInfo,
            Var::LimitReqStatus => Var::LimitReqStatus,
            Var::LimitConnStatus => Var::LimitConnStatus,
            Var::SiteLabel => Var::SiteLabel,
            Var::PoolName => Var::PoolName,
            Var::EndpointName => Var::EndpointName,
            Var::Status => Var::Status,
            Var::BytesSent => Var::BytesSent,
            Var::BodyBytesSent => Var::BodyBytesSent,
            Var::BytesReceived => Var::BytesReceived,
            Var::SentHeader(a) => Var::SentHeader(a.clone()),
            Var::SentTrailer(a) => Var::SentTrailer(a.clone()),
            Var::ResponseHeaderNth(a, b) => Var::ResponseHeaderNth(a.clone(), *b),
            Var::GzipRatio => Var::GzipRatio,
            Var::UpstreamAddr => Var::UpstreamAddr,
            Var::UpstreamStatus => Var::UpstreamStatus,
            Var::UpstreamConnectTime => Var::UpstreamConnectTime,
            Var::UpstreamHeaderTime => Var::UpstreamHeaderTime,
            Var::UpstreamResponseTime => Var::UpstreamResponseTime,
            Var::UpstreamResponseLength => Var::UpstreamResponseLength,
            Var::UpstreamBytesSent => Var::UpstreamBytesSent,
            Var::UpstreamBytesReceived => Var::UpstreamBytesReceived,
            Var::UpstreamHeader(a) => Var::UpstreamHeader(a.clone()),
            Var::UpstreamCookie(a) => Var::UpstreamCookie(a.clone()),
            Var::UpstreamTrailer(a) => Var::UpstreamTrailer(a.clone()),
            Var::UpstreamCacheStatus => Var::UpstreamCacheStatus,
            Var::UpstreamFirstByteTime => Var::UpstreamFirstByteTime,
            Var::UpstreamSessionTime => Var::UpstreamSessionTime,
            Var::TerminationState => Var::TerminationState,
            Var::PersistenceState => Var::PersistenceState,
            Var::Peeked(a) => Var::Peeked(*a),
            Var::HeaderLine(a, b) => Var::HeaderLine(a.clone(), *b),
            Var::HeaderCount(a, b) => Var::HeaderCount(a.clone(), *b),
            Var::PoolCount(a, b) => Var::PoolCount(a.clone(), *b),
            Var::Timer(a) => Var::Timer(*a),
            Var::Count(a) => Var::Count(*a),
            Var::SessionTime => Var::SessionTime,
            Var::TransportProtocol => Var::TransportProtocol,
            Var::SessionStatus => Var::SessionStatus,
            Var::TimeLocal => Var::TimeLocal,
            Var::TimeIso8601 => Var::TimeIso8601,
            Var::TimeSeconds => Var::TimeSeconds,
            Var::AcceptDate => Var::AcceptDate,
            Var::RequestDate => Var::RequestDate,
            Var::Hostname => Var::Hostname,
            Var::Pid => Var::Pid,
            Var::NginxVersion => Var::NginxVersion,
            Var::Capture(a) => Var::Capture(*a),
            Var::CapturedRequestHeader(a) => Var::CapturedRequestHeader(*a),
            Var::CapturedResponseHeader(a) => Var::CapturedResponseHeader(*a),
        })
    }
}

impl<S: fmt::Display> fmt::Display for Var<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Var::User(name) => write!(f, "user.{name}"),
            Var::Method => f.write_str("method"),
            Var::Target => f.write_str("target"),
            Var::RawPath => f.write_str("raw_path"),
            Var::Path => f.write_str("path"),
            Var::Query => f.write_str("query"),
            Var::IsArgs => f.write_str("is_args"),
            Var::Arg(a) => write!(f, "arg.{a}"),
            Var::RequestLine => f.write_str("request_line"),
            Var::Protocol => f.write_str("protocol"),
            Var::Scheme => f.write_str("scheme"),
            Var::HttpsOn => f.write_str("https"),
            Var::Host => f.write_str("host"),
            Var::HostPort => f.write_str("host_port"),
            Var::IsRequestPort => f.write_str("is_request_port"),
            Var::Header(a) => write!(f, "header.{a}"),
            Var::HeaderNth(a, b) => write!(f, "header.{a}[{b}]"),
            Var::HeaderUnderscored(a) => write!(f, "header_by_variable.{a}"),
            Var::Cookie(a) => write!(f, "cookie.{a}"),
            Var::ContentLength => f.write_str("content_length"),
            Var::ContentType => f.write_str("content_type"),
            Var::RequestBody => f.write_str("request_body"),
            Var::RequestBodyFile => f.write_str("request_body_file"),
            Var::RequestLength => f.write_str("request_length"),
            Var::RequestTime => f.write_str("request_time"),
            Var::RequestId => f.write_str("request_id"),
            Var::RequestCompletion => f.write_str("request_completion"),
            Var::Trailer(a) => write!(f, "trailer.{a}"),
            Var::ClientAddr => f.write_str("client_addr"),
            Var::ClientAddrBinary => f.write_str("client_addr_binary"),
            Var::ClientPort => f.write_str("client_port"),
            Var::PeerAddr => f.write_str("peer_addr"),
            Var::PeerPort => f.write_str("peer_port"),
            Var::ProxyProtocolAddr => f.write_str("proxy_protocol_addr"),
            Var::ProxyProtocolPort => f.write_str("proxy_protocol_port"),
            Var::ProxyProtocolServerAddr => f.write_str("proxy_protocol_server_addr"),
            Var::ProxyProtocolServerPort => f.write_str("proxy_protocol_server_port"),
            Var::ServerAddr => f.write_str("server_addr"),
            Var::ServerPort => f.write_str("server_port"),
            Var::ServerName => f.write_str("server_name"),
            Var::ConnectionSerial => f.write_str("connection"),
            Var::ConnectionRequests => f.write_str("connection_requests"),
            Var::ConnectionTime => f.write_str("connection_time"),
            Var::Pipelined => f.write_str("pipelined"),
            Var::TlsProtocol => f.write_str("tls.protocol"),
            Var::TlsCipher => f.write_str("tls.cipher"),
            Var::TlsCurve => f.write_str("tls.curve"),
            Var::TlsServerName => f.write_str("tls.server_name"),
            Var::TlsAlpn => f.write_str("tls.alpn"),
            Var::TlsResumed => f.write_str("tls.resumed"),
            Var::TlsSessionId => f.write_str("tls.session_id"),
            Var::TlsEarlyData => f.write_str("tls.early_data"),
            Var::TlsClientVerify => f.write_str("tls.client.verify"),
            Var::TlsClientSubject => f.write_str("tls.client.subject"),
            Var::TlsClientIssuer => f.write_str("tls.client.issuer"),
            Var::TlsClientSerial => f.write_str("tls.client.serial"),
            Var::TlsClientFingerprint => f.write_str("tls.client.fingerprint"),
            Var::TlsClientCert => f.write_str("tls.client.cert"),
            Var::TlsClientCertEscaped => f.write_str("tls.client.cert_escaped"),
            Var::DocumentRoot => f.write_str("document_root"),
            Var::RealRoot => f.write_str("real_root"),
            Var::Filename => f.write_str("filename"),
            Var::RemoteUser => f.write_str("user"),
            Var::ProxyHost => f.write_str("proxy_host"),
            Var::ProxyPort => f.write_str("proxy_port"),
            Var::ForwardedFor => f.write_str("forwarded_for"),
            Var::FastcgiScriptName => f.write_str("fastcgi_script_name"),
            Var::FastcgiPathInfo => f.write_str("fastcgi_path_info"),
            Var::LimitReqStatus => f.write_str("limit_req_status"),
            Var::LimitConnStatus => f.write_str("limit_conn_status"),
            Var::SiteLabel => f.write_str("site"),
            Var::PoolName => f.write_str("pool"),
            Var::EndpointName => f.write_str("endpoint"),
            Var::Status => f.write_str("status"),
            Var::BytesSent => f.write_str("bytes_sent"),
            Var::BodyBytesSent => f.write_str("body_bytes_sent"),
            Var::BytesReceived => f.write_str("bytes_received"),
            Var::SentHeader(a) => write!(f, "sent_header.{a}"),
            Var::SentTrailer(a) => write!(f, "sent_trailer.{a}"),
            Var::ResponseHeaderNth(a, b) => write!(f, "response_header.{a}[{b}]"),
            Var::GzipRatio => f.write_str("gzip_ratio"),
            Var::UpstreamAddr => f.write_str("upstream.addr"),
            Var::UpstreamStatus => f.write_str("upstream.status"),
            Var::UpstreamConnectTime => f.write_str("upstream.connect_time"),
            Var::UpstreamHeaderTime => f.write_str("upstream.header_time"),
            Var::UpstreamResponseTime => f.write_str("upstream.response_time"),
            Var::UpstreamResponseLength => f.write_str("upstream.response_length"),
            Var::UpstreamBytesSent => f.write_str("upstream.bytes_sent"),
            Var::UpstreamBytesReceived => f.write_str("upstream.bytes_received"),
            Var::UpstreamHeader(a) => write!(f, "upstream.header.{a}"),
            Var::UpstreamCookie(a) => write!(f, "upstream.cookie.{a}"),
            Var::UpstreamTrailer(a) => write!(f, "upstream.trailer.{a}"),
            Var::UpstreamCacheStatus => f.write_str("upstream.cache_status"),
            Var::UpstreamFirstByteTime => f.write_str("upstream.first_byte_time"),
            Var::UpstreamSessionTime => f.write_str("upstream.session_time"),
            Var::TerminationState => f.write_str("termination_state"),
            Var::PersistenceState => f.write_str("persistence_state"),
            Var::Peeked(a) => write!(f, "peeked.{a:?}"),
            Var::HeaderLine(a, b) => write!(f, "header_line.{a}[{b}]"),
            Var::HeaderCount(a, split) => write!(f, "header_count.{a}{}", if *split { "" } else { ".lines" }),
            Var::PoolCount(a, b) => write!(f, "pool.{a}.{b:?}"),
            Var::Timer(a) => write!(f, "timer.{a:?}"),
            Var::Count(a) => write!(f, "count.{a:?}"),
            Var::SessionTime => f.write_str("session_time"),
            Var::TransportProtocol => f.write_str("transport"),
            Var::SessionStatus => f.write_str("session_status"),
            Var::TimeLocal => f.write_str("time_local"),
            Var::TimeIso8601 => f.write_str("time_iso8601"),
            Var::TimeSeconds => f.write_str("time_msec"),
            Var::AcceptDate => f.write_str("accept_date"),
            Var::RequestDate => f.write_str("request_date"),
            Var::Hostname => f.write_str("hostname"),
            Var::Pid => f.write_str("pid"),
            Var::NginxVersion => f.write_str("nginx_version"),
            Var::Capture(a) => write!(f, "capture.{a}"),
            Var::CapturedRequestHeader(a) => write!(f, "captured_request_header.{a}"),
            Var::CapturedResponseHeader(a) => write!(f, "captured_response_header.{a}"),
        }
    }
}

/// Phases of an exchange or session, as HAProxy times them (configuration manual, "Timing events").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// `%Th`: accept to end of handshakes.
    Handshake,
    /// `%Ti`: idle before the request.
    Idle,
    /// `%TR`: first byte of the request to the end of its head.
    Request,
    /// `%Tq`: accept to the end of the request head (Th + Ti + TR).
    Query,
    /// `%Tw`: in queues.
    Queue,
    /// `%Tc`: connecting to the endpoint.
    Connect,
    /// `%Tr`: endpoint's time to the response head.
    Response,
    /// `%Td`: transfer of the response body.
    Data,
    /// `%Ta`: first byte of the request to the last of the response.
    Active,
    /// `%Tt`: accept to close.
    Total,
    /// `%Tu`: Total without Idle.
    User,
}

/// What the first bytes of a TCP session say, if they are a TLS hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peeked {
    /// The server name asked for.
    ServerName,
    /// The first protocol offered by ALPN.
    Alpn,
    /// Type of the handshake message: 1 for a hello.
    HelloType,
    /// Bytes that were read.
    Length,
}

/// Gauges that log lines show, read when the line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Count {
    /// Connections of the process (`%ac`).
    Process,
    /// Connections of the site or listener (`%fc`).
    Site,
    /// Exchanges of the pool (`%bc`).
    Pool,
    /// Exchanges of the endpoint (`%sc`).
    Endpoint,
    /// Retries of this exchange (`%rc`).
    Retries,
    /// Requests before this one in the pool's queue (`%bq`).
    PoolQueue,
    /// Requests before this one in the endpoint's queue (`%sq`).
    EndpointQueue,
    /// Endpoints of the pool that can be used (HAProxy `nbsrv`).
    UsableEndpoints,
}
