//! The variables of an exchange.
//!
//! Each is computed when asked for. Names in the printed form are Weir's own; the documentation names the word of
//! the language a variable comes from.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::settings::ContentCoding;
use crate::{OwnTimeout, StickAsk};

macro_rules! variables {
    ($(
        $(#[$about:meta])*
        $family:ident as $view:ident [$($life:tt)*] {
            $($(#[$doc:meta])* $name:ident $(($($field:ident: $kind:ty),+))? => $printed:literal;)*
        }
    )*) => {
        /// A value that an exchange, its connection or the process can give. `S` refers to user-defined variables.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Var<S> {
            $($($(#[$doc])* $name $(($($kind),+))?,)*)*
            /// A variable defined by the configuration: set, mapped, or captured by name.
            User(S),
        }

        $(
            $(#[$about])*
            #[derive(Clone, Copy, Debug)]
            pub enum $view $($life)* {
                $($(#[$doc])* $name $(($(&'v $kind),+))?,)*
            }
        )*

        /// A variable by its family.
        #[derive(Clone, Copy, Debug)]
        pub enum Family<'v, S> {
            $($(#[$about])* $family($view $($life)*),)*
            /// A variable defined by the configuration.
            User(&'v S),
        }

        impl<S> Var<S> {
            /// The variable as one of its family.
            #[inline]
            pub fn family<'v>(&'v self) -> Family<'v, S> {
                match self {
                    Var::User(name) => Family::User(name),
                    $($(Var::$name $(($($field),+))? => Family::$family($view::$name $(($($field),+))?),)*)*
                }
            }

            /// The same variable with another way to refer to user-defined ones.
            pub fn try_map<T, E>(&self, resolve: &mut impl FnMut(&S) -> Result<T, E>) -> Result<Var<T>, E> {
                Ok(match self {
                    Var::User(name) => Var::User(resolve(name)?),
                    $($(Var::$name $(($($field),+))? => Var::$name $(($(Clone::clone($field)),+))?,)*)*
                })
            }
        }

        /// Each variable's name in this enumeration, and how it is printed.
        pub(crate) const PRINTED: &[(&str, &str)] = &[
            ("User", "user.{name}"),
            $($((stringify!($name), $printed),)*)*
        ];

        impl<S: fmt::Display> fmt::Display for Var<S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Var::User(name) => write!(f, "user.{name}"),
                    $($(Var::$name $(($($field),+))? => write!(f, $printed),)*)*
                }
            }
        }
    };
}

// One line for each variable: what it is, its name, what it is asked with, its name in print. By family: what they are read
// from, so that whoever computes them does so family by family, and none is forgotten.
variables! {
    /// The request as received and as rewritten. A session of a TCP service has none.
    Request as RequestVar [<'v>] {
        /// Request method (nginx `$request_method`).
        Method => "method";
        /// The request target as received, with its query (`$request_uri`). Never changes.
        Target => "target";
        /// The path part of the target as received, not decoded (HAProxy `path`); changes by `SetPath`.
        RawPath => "raw_path";
        /// The current path: decoded, dots resolved, slashes merged as the site asks; changes by rewrites (`$uri`, `$document_uri`).
        Path => "path";
        /// The current query without `?` (`$args`, `$query_string`); changes by rewrites and assignment.
        Query => "query";
        /// `?` if the query is not empty (`$is_args`).
        IsArgs => "is_args";
        /// One query argument, not decoded, name compared without case (`$arg_NAME`).
        Arg(name: String) => "arg.{name}";
        /// The whole request line as received (`$request`).
        RequestLine => "request_line";
        /// `HTTP/1.0`, `HTTP/1.1`, `HTTP/2.0` (`$server_protocol`).
        Protocol => "protocol";
        /// `h2` over TLS and `h2c` without, for requests of HTTP/2; none for others (`$http2`).
        Http2 => "http2";
        /// `h3` for requests of HTTP/3; none for others (`$http3`).
        Http3 => "http3";
        /// Host of the target or of the Host field, lower case, no port; else the site's first name (`$host`).
        Host => "host";
        /// Port named by the target or the Host field; empty if none (`$request_port`).
        HostPort => "host_port";
        /// `:` if a port is named by the request (`$is_request_port`).
        IsRequestPort => "is_request_port";
        /// A request field; several lines are joined by `, ` (cookies by `; `). The name is lower case with dashes (`$http_NAME`).
        Header(name: String) => "header.{name}";
        /// The n-th comma-separated value of a request field; 1 is the first, -1 the last (HAProxy `req.hdr(name,n)`).
        HeaderNth(name: String, nth: i16) => "header.{name}[{nth}]";
        /// A request field whose lower-case name, dashes as `_`, is this (nginx `$http_x_y` matches `X-Y` and `X_Y`).
        HeaderUnderscored(name: String) => "header_by_variable.{name}";
        /// One request cookie (`$cookie_NAME`).
        Cookie(name: String) => "cookie.{name}";
        /// Content-Length of the request as received (`$content_length`).
        ContentLength => "content_length";
        /// Content-Type of the request (`$content_type`).
        ContentType => "content_type";
        /// A time that holds for this exchange, in milliseconds (HAProxy `cur_server_timeout` and its kin).
        CurrentTimeout(of: OwnTimeout) => "current_timeout.{of:?}";
        /// The request body where it is held in memory, else empty (`$request_body`).
        RequestBody => "request_body";
        /// The file that holds the request body, else empty (`$request_body_file`).
        RequestBodyFile => "request_body_file";
        /// `OK` if the exchange completed, else empty (`$request_completion`).
        RequestCompletion => "request_completion";
        /// A request trailer field (nginx `$http_trailer_…`, HAProxy none).
        Trailer(name: String) => "trailer.{name}";
        /// `p` if the request was pipelined, else `.` (`$pipe`).
        Pipelined => "pipelined";
        /// User name of Basic authentication (`$remote_user`).
        RemoteUser => "user";
        /// X-Forwarded-For as received with the client's address appended (`$proxy_add_x_forwarded_for`).
        ForwardedFor => "forwarded_for";
        /// Bytes a second to the client; 0 is no limit (`$limit_rate`).
        LimitRate => "limit_rate";
        /// `PASSED`, `DELAYED`, `REJECTED` … (`$limit_req_status`).
        LimitReqStatus => "limit_req_status";
        /// A line of a request field, whole: 1 is the first, -1 the last (HAProxy `req.fhdr`).
        HeaderLine(name: String, nth: i16) => "header_line.{name}[{nth}]";
        /// How many values a request field has; comma-separated ones each, or whole lines.
        HeaderCount(name: String, counted: Counted) => "header_count.{name}{counted}";
        /// A part of the head or body of the request, as HAProxy's `req.hdrs` and their kin give it.
        RequestPart(part: MessagePart) => "request_part.{part:?}";
        /// An argument of a query or a part of the path that separators part (HAProxy `url_param(name,delim)`).
        ArgAfter(name: String, delimiter: u8) => "arg.{name}[{delimiter}]";
        /// A field of a form in the body (HAProxy `req.body_param`).
        BodyArg(name: String) => "body_arg.{name}";
        /// How many cookies of a name the request has; of an empty one, all (HAProxy `req.cook_cnt`).
        CookieCount(name: String) => "cookie_count.{name}";
        /// Parts of what the request authenticates with (HAProxy `http_auth_type` and their kin).
        Authorization(part: AuthPart) => "authorization.{part:?}";
        /// A request field kept by a capture rule (HAProxy `capture.req.hdr(n)`).
        CapturedRequestHeader(slot: u16) => "captured_request_header.{slot}";
    }
    /// The request as settings of its route judge it.
    Judged as JudgedVar [] {
        /// What the link of a request is worth: empty, `0` if its time is over, `1`; or the link itself (`$secure_link`).
        SecureLink => "secure_link";
        /// The time until which a link holds, in seconds since 1970 (`$secure_link_expires`).
        SecureLinkExpires => "secure_link_expires";
        /// `1` if the page that the request comes from may not refer here, else empty (`$invalid_referer`).
        InvalidReferer => "invalid_referer";
        /// A value of the configuration if the browser is a modern one (`$modern_browser`).
        ModernBrowser => "modern_browser";
        /// A value of the configuration if the browser is an ancient one (`$ancient_browser`).
        AncientBrowser => "ancient_browser";
        /// `1` if the browser is an MSIE (`$msie`).
        Msie => "msie";
        /// The number by which the client tells that it is known (`$uid_got`).
        UserIdGot => "user_id_got";
        /// The number by which it is to be known from now on (`$uid_set`).
        UserIdSet => "user_id_set";
    }
    /// Who sends the request, as a token or a session of its route says.
    Identity as IdentityVar [<'v>] {
        /// A part of the header of the token, by the names that lead to it (`$jwt_header_NAME`).
        TokenHeader(path: Vec<String>) => "token.header.{path:?}";
        /// A claim of the token, by the names that lead to it (`$jwt_claim_NAME`).
        TokenClaim(path: Vec<String>) => "token.claim.{path:?}";
        /// The claims as JSON; of a nested token what is signed in it (`$jwt_payload`).
        TokenPayload => "token.payload";
    }
    /// The client's connection.
    Client as ClientVar [<'v>] {
        /// `http` or `https` (`$scheme`).
        Scheme => "scheme";
        /// `on` over TLS, else empty (`$https`).
        HttpsOn => "https";
        /// The client's address, after real-IP rules (`$remote_addr`, HAProxy `src`).
        ClientAddr => "client_addr";
        /// The same in 4 or 16 bytes (`$binary_remote_addr`).
        ClientAddrBinary => "client_addr_binary";
        /// The client's port (`$remote_port`).
        ClientPort => "client_port";
        /// The peer's address before real-IP rules (`$realip_remote_addr`).
        PeerAddr => "peer_addr";
        /// The peer's port before real-IP rules (`$realip_remote_port`).
        PeerPort => "peer_port";
        /// Source address of the PROXY header (`$proxy_protocol_addr`).
        ProxyProtocolAddr => "proxy_protocol_addr";
        /// Source port of the PROXY header.
        ProxyProtocolPort => "proxy_protocol_port";
        /// Destination address of the PROXY header.
        ProxyProtocolServerAddr => "proxy_protocol_server_addr";
        /// Destination port of the PROXY header.
        ProxyProtocolServerPort => "proxy_protocol_server_port";
        /// A field of a PROXY header of version 2 (`$proxy_protocol_tlv_NAME`).
        ProxyProtocolTlv(which: ProxyTlv) => "proxy_protocol_tlv.{which:?}";
        /// Local address of the connection (`$server_addr`, HAProxy `dst`).
        ServerAddr => "server_addr";
        /// Local port of the connection (`$server_port`, HAProxy `dst_port`).
        ServerPort => "server_port";
        /// Address of the connection's far end, whatever a PROXY header told (HAProxy `fc_src`).
        SocketPeerAddr => "socket.peer_addr";
        /// Its port (HAProxy `fc_src_port`).
        SocketPeerPort => "socket.peer_port";
        /// Address of the connection's own end (HAProxy `fc_dst`).
        SocketLocalAddr => "socket.local_addr";
        /// Its port (HAProxy `fc_dst_port`).
        SocketLocalPort => "socket.local_port";
        /// Name of the listener that accepted the connection (HAProxy `so_name`).
        ListenerName => "listener";
        /// Serial number of the connection (`$connection`).
        ConnectionSerial => "connection";
        /// Number of this request on its connection, from 1 (`$connection_requests`).
        ConnectionRequests => "connection_requests";
        /// Age of the connection in seconds with milliseconds (`$connection_time`).
        ConnectionTime => "connection_time";
        /// What the kernel knows of the connection (`$tcpinfo_NAME`). No value where it is no TCP.
        TcpFigure(which: TcpFigure) => "tcp.{which:?}";
        /// `21/Nov/2026:02:45:31.123` local time of the accept (HAProxy `%t`).
        AcceptDate => "accept_date";
    }
    /// TLS with the client.
    Tls as TlsVar [<'v>] {
        /// `TLSv1.2`, `TLSv1.3`, or empty (`$ssl_protocol`).
        TlsProtocol => "tls.protocol";
        /// Suite in OpenSSL's spelling (`$ssl_cipher`).
        TlsCipher => "tls.cipher";
        /// Key-exchange group (`$ssl_curve`).
        TlsCurve => "tls.curve";
        /// The suites that the client offers (`$ssl_ciphers`).
        TlsOfferedCiphers => "tls.offered.ciphers";
        /// The groups that the client offers (`$ssl_curves`).
        TlsOfferedGroups => "tls.offered.groups";
        /// SNI as sent (`$ssl_server_name`, HAProxy `ssl_fc_sni`).
        TlsServerName => "tls.server_name";
        /// Negotiated application protocol (`$ssl_alpn_protocol`).
        TlsAlpn => "tls.alpn";
        /// `r` if the session was resumed, else `.` (`$ssl_session_reused`).
        TlsResumed => "tls.resumed";
        /// Session id in hexadecimal, where there is one (`$ssl_session_id`).
        TlsSessionId => "tls.session_id";
        /// `1` while early data is used (`$ssl_early_data`).
        TlsEarlyData => "tls.early_data";
        /// `SUCCESS`, `FAILED:reason`, `NONE` (`$ssl_client_verify`).
        TlsClientVerify => "tls.client.verify";
        /// Subject DN of the client's certificate, RFC 2253 (`$ssl_client_s_dn`).
        TlsClientSubject => "tls.client.subject";
        /// Issuer DN, RFC 2253 (`$ssl_client_i_dn`).
        TlsClientIssuer => "tls.client.issuer";
        /// Serial number in hexadecimal (`$ssl_client_serial`).
        TlsClientSerial => "tls.client.serial";
        /// SHA-1 of the certificate in hexadecimal (`$ssl_client_fingerprint`).
        TlsClientFingerprint => "tls.client.fingerprint";
        /// The certificate in PEM, lines after the first begin with a tab (`$ssl_client_cert`).
        TlsClientCert => "tls.client.cert";
        /// The certificate in PEM, percent-encoded (`$ssl_client_escaped_cert`).
        TlsClientCertEscaped => "tls.client.cert_escaped";
        /// A part of the client's certificate, in HAProxy's form (`ssl_c_s_dn` and its kin).
        TlsClientPart(part: CertPart) => "tls.client.{part:?}";
        /// A part of the certificate that the client was shown (HAProxy `ssl_f_serial` and its kin).
        TlsOwnPart(part: CertPart) => "tls.own.{part:?}";
        /// OpenSSL's number for what became of the client's certificate; 0: nothing is wrong (HAProxy `ssl_c_verify`).
        TlsVerifyCode => "tls.client.verify_code";
        /// Bits of the symmetric key (HAProxy `ssl_fc_use_keysize`).
        TlsKeyBits => "tls.key_bits";
    }
    /// Where a request leads.
    Place as PlaceVar [] {
        /// First name of the site (`$server_name`).
        ServerName => "server_name";
        /// Root or alias of the route (`$document_root`).
        DocumentRoot => "document_root";
        /// The same with symbolic links resolved (`$realpath_root`).
        RealRoot => "real_root";
        /// File that the path maps to (`$request_filename`).
        Filename => "filename";
        /// Host and port named by the proxy action (`$proxy_host`).
        ProxyHost => "proxy_host";
        /// Port named by the proxy action, or the scheme's (`$proxy_port`).
        ProxyPort => "proxy_port";
        /// The path, or its script part after a path-info split (`$fastcgi_script_name`).
        FastcgiScriptName => "fastcgi_script_name";
        /// The rest after the script part (`$fastcgi_path_info`).
        FastcgiPathInfo => "fastcgi_path_info";
        /// The slice that is asked of the upstream, as a Range field has it (`$slice_range`).
        SliceRange => "slice_range";
    }
    /// The response to a request.
    Response as ResponseVar [<'v>] {
        /// Status of the response in three digits; `000` while there is none (`$status`).
        Status => "status";
        /// The same as a number; `-1` while there is none (HAProxy `%ST`, `status`).
        StatusCode => "status_code";
        /// Bytes of body sent (`$body_bytes_sent`).
        BodyBytesSent => "body_bytes_sent";
        /// A response field as sent (`$sent_http_NAME`).
        SentHeader(name: String) => "sent_header.{name}";
        /// A response trailer as sent (`$sent_trailer_NAME`).
        SentTrailer(name: String) => "sent_trailer.{name}";
        /// The n-th comma-separated value of a response field (HAProxy `res.hdr(name,n)`).
        ResponseHeaderNth(name: String, nth: i16) => "response_header.{name}[{nth}]";
        /// A line of a response field, whole: 1 is the first, -1 the last (HAProxy `res.fhdr`).
        ResponseHeaderLine(name: String, nth: i16) => "response_header_line.{name}[{nth}]";
        /// How many values a response field has; comma-separated ones each, or whole lines.
        ResponseHeaderCount(name: String, counted: Counted) => "response_header_count.{name}{counted}";
        /// A part of the head of the response (HAProxy `res.hdrs` and their kin).
        ResponsePart(part: MessagePart) => "response_part.{part:?}";
        /// How many cookies of a name the response sets; of an empty one, all (HAProxy `res.cook_cnt`).
        SetCookieCount(name: String) => "set_cookie_count.{name}";
        /// The coding that the response was compressed with here (HAProxy `res.comp_algo`).
        CompressedBy => "compressed_by";
        /// Ratio of compression by a coding with two decimals (`$gzip_ratio`, `$brotli_ratio`).
        CompressionRatio(coding: ContentCoding) => "compression_ratio.{coding:?}";
        /// A field of the last upstream response (`$upstream_http_NAME`).
        UpstreamHeader(name: String) => "upstream.header.{name}";
        /// A cookie set by the last upstream response (`$upstream_cookie_NAME`).
        UpstreamCookie(name: String) => "upstream.cookie.{name}";
        /// A trailer of the last upstream response (`$upstream_trailer_NAME`).
        UpstreamTrailer(name: String) => "upstream.trailer.{name}";
        /// `HIT`, `MISS` … (`$upstream_cache_status`); empty without a cache.
        UpstreamCacheStatus => "upstream.cache_status";
        /// `Last-Modified` of the object that an old one is asked about with (`$upstream_cache_last_modified`).
        UpstreamCacheLastModified => "upstream.cache_last_modified";
        /// `ETag` of that object (`$upstream_cache_etag`).
        UpstreamCacheETag => "upstream.cache_etag";
        /// `1` if the response is from a cache that rules look things up in (HAProxy `res.cache_hit`), else `0`.
        MemoryCacheHit => "memory_cache.hit";
        /// Name of that cache (HAProxy `res.cache_name`).
        MemoryCacheName => "memory_cache.name";
        /// The local time in the form that a page's commands ask for (`$date_local`).
        PageDateLocal => "page_date_local";
        /// The same in GMT (`$date_gmt`).
        PageDateGmt => "page_date_gmt";
        /// A response field kept by a capture rule.
        CapturedResponseHeader(slot: u16) => "captured_response_header.{slot}";
    }
    /// The pool, and the endpoints that were tried.
    Upstream as UpstreamVar [<'v>] {
        /// Name of the pool chosen (HAProxy `%b`; `<NOSRV>` forms are the log format's).
        PoolName => "pool";
        /// Name of the endpoint chosen (HAProxy `%s`).
        EndpointName => "endpoint";
        /// Addresses of the endpoints tried, separated by `, ` (and ` : ` between groups) (`$upstream_addr`).
        UpstreamAddr => "upstream.addr";
        /// Their status codes (`$upstream_status`).
        UpstreamStatus => "upstream.status";
        /// Their times to connect (`$upstream_connect_time`).
        UpstreamConnectTime => "upstream.connect_time";
        /// Their times to the response head (`$upstream_header_time`).
        UpstreamHeaderTime => "upstream.header_time";
        /// Their times to the end of the response (`$upstream_response_time`).
        UpstreamResponseTime => "upstream.response_time";
        /// Their body lengths (`$upstream_response_length`).
        UpstreamResponseLength => "upstream.response_length";
        /// Bytes sent to them (`$upstream_bytes_sent`).
        UpstreamBytesSent => "upstream.bytes_sent";
        /// Bytes received from them (`$upstream_bytes_received`).
        UpstreamBytesReceived => "upstream.bytes_received";
        /// TCP service: time to the first upstream byte (`$upstream_first_byte_time`).
        UpstreamFirstByteTime => "upstream.first_byte_time";
        /// TCP service: time of the upstream session (`$upstream_session_time`).
        UpstreamSessionTime => "upstream.session_time";
        /// A count of a pool named here, rather than of the exchange's own (HAProxy `nbsrv(NAME)`).
        PoolCount(pool: String, count: Count) => "pool.{pool}.{count:?}";
        /// A figure of an endpoint named here (HAProxy `srv_conn(POOL/NAME)`).
        EndpointCount(pool: String, endpoint: String, which: EndpointFigure) => "pool.{pool}.{endpoint}.{which:?}";
        /// What TLS with the endpoint that was tried last is like (HAProxy `ssl_bc_cipher`, `ssl_s_serial` and their kin).
        EndpointTls(part: EndpointTls) => "endpoint_tls.{part:?}";
        /// Number of the endpoint that was tried last, as written or counted (HAProxy `srv_id`).
        EndpointNumber => "endpoint_number";
        /// Status of the response of the endpoint that was tried last (HAProxy `server_status`).
        EndpointStatus => "endpoint_status";
        /// `1` if the connection to it carried a request before, else `0` (HAProxy `bc_reused`).
        EndpointReused => "endpoint_reused";
        /// The version of HTTP that its answer came by (HAProxy `res.ver`, `bc_http_major`).
        EndpointProtocol => "endpoint_protocol";
        /// Address of our own end of the connection to it (HAProxy `bc_src`, `%bi`).
        EndpointLocalAddr => "endpoint_local.addr";
        /// The port of our own end (HAProxy `bc_src_port`, `%bp`).
        EndpointLocalPort => "endpoint_local.port";
        /// Address of the endpoint that was tried last (HAProxy `bc_dst`).
        EndpointAddr => "endpoint_addr";
        /// Its port (HAProxy `bc_dst_port`).
        EndpointPort => "endpoint_port";
    }
    /// How a request or a session went.
    Course as CourseVar [<'v>] {
        /// Seconds with milliseconds since the first byte of the request (`$request_time`).
        RequestTime => "request_time";
        /// Bytes of the request: line, fields, body (`$request_length`).
        RequestLength => "request_length";
        /// What became of a persistence cookie, in two letters: the request's, the response's (HAProxy `%tsc`).
        PersistenceState => "persistence_state";
        /// 32 hexadecimal digits, random for each request (`$request_id`).
        RequestId => "request_id";
        /// The trace that it belongs to, 32 hexadecimal digits (`$otel_trace_id`).
        TraceId => "trace_id";
        /// Its own span in it, 16 hexadecimal digits (`$otel_span_id`).
        SpanId => "span_id";
        /// The span of whoever asked (`$otel_parent_id`).
        TraceParentId => "trace_parent_id";
        /// `1` if that span is recorded (`$otel_parent_sampled`).
        TraceParentSampled => "trace_parent_sampled";
        /// When it began, whole seconds since 1970 (HAProxy `%Ts`).
        RequestSeconds => "request_seconds";
        /// Milliseconds of that second, three digits (HAProxy `%ms`).
        RequestMillis => "request_millis";
        /// A number that no other request of this process has, in the order of asking (HAProxy `%rt`).
        RequestSerial => "request_serial";
        /// `PASSED`, `REJECTED` … (`$limit_conn_status`).
        LimitConnStatus => "limit_conn_status";
        /// Name of the site or frontend for people (HAProxy `%f`).
        SiteLabel => "site";
        /// Bytes sent to the client (`$bytes_sent`).
        BytesSent => "bytes_sent";
        /// Bytes received from the client on a TCP service (`$bytes_received`).
        BytesReceived => "bytes_received";
        /// How the exchange ended, two letters of HAProxy's `%ts` (four for `%tsc`).
        TerminationState => "termination_state";
        /// A phase of the exchange in milliseconds, -1 if it was not reached (HAProxy `%Tq` …).
        Timer(timer: Timer) => "timer.{timer:?}";
        /// A value that rules keep for longer than one exchange (HAProxy's variables of the scopes `sess` and `proc`).
        Kept(of: KeptIn, name: String) => "kept.{of:?}.{name}";
        /// Events of a site or TCP service in the last second, by all workers (HAProxy `fe_sess_rate`, `fe_req_rate`).
        SiteRate(name: String, of: RateOf) => "site.{name}.{of:?}";
        /// The moment it began or was accepted, in microseconds since 1970 (HAProxy `request_date`, `accept_date`).
        Moment(of: Moment) => "moment.{of:?}";
        /// `1` if it was sent to another endpoint than the first, else `0` (HAProxy `txn.redispatched`).
        Redispatched => "redispatched";
        /// The address that a rule found for a name last (HAProxy `do-resolve`).
        Resolved => "resolved";
        /// The class or place in queues that rules gave it (HAProxy `prio_class`, `prio_offset`).
        Priority(of: PriorityOf) => "priority.{of:?}";
        /// `1` if an address is one of this machine's, else `0` (HAProxy `src_is_local` and its kin).
        IsLocal(of: LocalOf) => "is_local.{of:?}";
        /// A gauge at the end of the exchange (HAProxy `%ac/%fc/%bc/%sc/%rc`).
        Count(count: Count) => "count.{count:?}";
        /// The same for the request's first byte (HAProxy `%tr`).
        RequestDate => "request_date";
        /// The n-th group of the last pattern that matched (`$1`…`$9`).
        Capture(group: u8) => "capture.{group}";
    }
    /// A session of a TCP service alone.
    Session as SessionVar [<'v>] {
        /// What a session's first bytes say, read ahead (HAProxy `req.ssl_sni`, `$ssl_preread_server_name` and their kin).
        Peeked(what: Peeked) => "peeked.{what:?}";
        /// Duration of the session in seconds with milliseconds (`$session_time`).
        SessionTime => "session_time";
        /// `TCP` or `UDP` (stream `$protocol`).
        TransportProtocol => "transport";
        /// nginx's stream `$status`: 200, 400, 403, 500, 502, 503.
        SessionStatus => "session_status";
    }
    /// Stick tables.
    Stick as StickVar [<'v>] {
        /// What an entry of a stick table, or a table itself, says (HAProxy `sc_http_req_rate` and its kin).
        Stick(ask: Box<StickAsk>) => "stick.{ask}";
    }
    /// Time and process.
    Process as ProcessVar [] {
        /// Common log format (`$time_local`).
        TimeLocal => "time_local";
        /// ISO 8601 (`$time_iso8601`).
        TimeIso8601 => "time_iso8601";
        /// Unix time in microseconds (HAProxy `date`).
        TimeMicros => "time_micros";
        /// A random number of 32 bits (HAProxy `rand`).
        Random => "random";
        /// A random UUID (HAProxy `uuid`).
        Uuid => "uuid";
        /// How many workers there are (HAProxy `nbthread`).
        Workers => "workers";
        /// The number of this worker, from 0 (HAProxy `thread`).
        Worker => "worker";
        /// `1` while the process is leaving, else `0` (HAProxy `stopping`).
        Stopping => "stopping";
        /// Unix time with milliseconds (`$msec`).
        TimeSeconds => "time_msec";
        /// Name of the machine (`$hostname`).
        Hostname => "hostname";
        /// Process id of the data plane (`$pid`).
        Pid => "pid";
        /// The nginx version whose language is read (`$nginx_version`).
        NginxVersion => "nginx_version";
        /// Connections of clients (`$connections_active`).
        ConnectionsActive => "connections_active";
        /// Those of which a request is read (`$connections_reading`).
        ConnectionsReading => "connections_reading";
        /// Those to which a response is written (`$connections_writing`).
        ConnectionsWriting => "connections_writing";
        /// Those that wait for a request (`$connections_waiting`).
        ConnectionsWaiting => "connections_waiting";
    }
}

impl<S: Clone> Var<S> {
    /// The same variable of another name, if it is one of a field, a cookie or an argument: what names that are known
    /// only while running stand for.
    #[must_use]
    pub fn renamed(&self, name: &str) -> Self {
        let name = || name.to_owned();
        match self {
            Self::Arg(_) => Self::Arg(name()),
            Self::Cookie(_) => Self::Cookie(name()),
            Self::Header(_) => Self::Header(name()),
            Self::HeaderUnderscored(_) => Self::HeaderUnderscored(name()),
            Self::SentHeader(_) => Self::SentHeader(name()),
            Self::TokenClaim(_) => Self::TokenClaim(vec![name()]),
            Self::TokenHeader(_) => Self::TokenHeader(vec![name()]),
            Self::SentTrailer(_) => Self::SentTrailer(name()),
            Self::UpstreamCookie(_) => Self::UpstreamCookie(name()),
            Self::UpstreamHeader(_) => Self::UpstreamHeader(name()),
            Self::UpstreamTrailer(_) => Self::UpstreamTrailer(name()),
            other => other.clone(),
        }
    }
}

/// A part of a certificate, as HAProxy shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CertPart {
    /// All of it, DER.
    Der,
    /// Its subject.
    Subject(DnPart),
    /// Its issuer.
    Issuer(DnPart),
    /// Its serial number, as bytes.
    Serial,
    /// SHA-1 of its DER form, as bytes.
    Sha1,
    /// Start of validity, `YYMMDDhhmmssZ`.
    NotBefore,
    /// End of validity.
    NotAfter,
    /// When its validity begins, as `openssl x509` shows it (nginx `$ssl_client_v_start`).
    BeginsShown,
    /// When its validity ends, likewise (`$ssl_client_v_end`).
    EndsShown,
    /// Whole days until then; 0 where it is over (`$ssl_client_v_remain`).
    DaysLeft,
    /// The algorithm of its key, as OpenSSL calls it.
    KeyAlgorithm,
    /// The algorithm of its signature.
    SignatureAlgorithm,
    /// Its version, from 1.
    Version,
}

/// Parts of TLS with an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointTls {
    /// `1` over TLS, else `0`.
    Used,
    /// `1` if a session was resumed, else `0`.
    Resumed,
    /// `TLSv1.2`, `TLSv1.3`.
    Protocol,
    /// Suite in OpenSSL's spelling.
    Cipher,
    /// Bits of the symmetric key.
    KeyBits,
    /// Negotiated application protocol.
    Alpn,
    /// A part of the endpoint's certificate.
    Certificate(CertPart),
}

/// How a name of a certificate is shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DnPart {
    /// `/C=…/CN=…`.
    OneLine,
    /// As RFC 2253 writes it.
    Rfc2253,
    /// The value of an attribute: its n-th from the start, or from the end if below 0.
    Attribute(String, i64),
}

/// Parts of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessagePart {
    /// All fields, a line each, with a blank line at the end.
    Fields,
    /// All fields, lengths before names and values.
    BinaryFields,
    /// The names of the fields, in order, with this between them.
    Names(String),
    /// The names of the cookies, with this between them.
    CookieNames(String),
    /// Bytes of the body that have arrived.
    BodyLength,
    /// Bytes that the body is announced to have.
    BodySize,
}

/// Parts of a request's credentials.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthPart {
    /// The scheme.
    Scheme,
    /// The user, unchecked.
    User,
    /// The password.
    Password,
    /// The token of the scheme Bearer, in this field.
    Bearer(String),
}

/// What [`Var::HeaderCount`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// Values: lines are split at commas.
    Values,
    /// Lines, whole.
    Lines,
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Values => "",
            Self::Lines => ".lines",
        })
    }
}

/// Phases of an exchange or session, as HAProxy times them (configuration manual, "Timing events").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

/// Fields of a PROXY header of version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProxyTlv {
    /// The field of this type.
    Field(u8),
    /// The field of this type inside the one about TLS.
    Tls(u8),
    /// Whether the client's certificate verified, a number: 0 if so.
    TlsVerify,
}

/// Figures that the kernel keeps of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TcpFigure {
    /// Smoothed round-trip time in microseconds (`$tcpinfo_rtt`).
    RoundTrip,
    /// How much it varies, in microseconds (`$tcpinfo_rttvar`).
    RoundTripVariation,
    /// The congestion window in segments (`$tcpinfo_snd_cwnd`).
    CongestionWindow,
    /// Bytes that are free to be received into (`$tcpinfo_rcv_space`).
    ReceiveSpace,
}

/// What rules say about an exchange in queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PriorityOf {
    /// Lower classes are served first.
    Class,
    /// Milliseconds by which it is moved.
    Offset,
}

/// Ends of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalOf {
    /// The client, as rules see it.
    Source,
    /// Where it came to, as rules see it.
    Destination,
    /// The connection's far end.
    SocketPeer,
    /// The connection's own end.
    SocketLocal,
}

/// What the first bytes of a TCP session say, if they are a TLS hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Peeked {
    /// The server name asked for.
    ServerName,
    /// The same, empty where there is none (`$ssl_preread_server_name`).
    Name,
    /// The first protocol offered by ALPN.
    Alpn,
    /// All protocols offered by ALPN, with commas between them (`$ssl_preread_alpn_protocols`).
    AlpnProtocols,
    /// The newest version of TLS offered (`$ssl_preread_protocol`).
    Protocol,
    /// Type of the handshake message: 1 for a hello.
    HelloType,
    /// Bytes that were read.
    Length,
    /// Those bytes (HAProxy `req.payload` and its kin).
    Bytes,
    /// How many bytes of the endpoint had come when rules looked at them (`res.len`).
    AnswerLength,
    /// Those bytes (`res.payload`).
    AnswerBytes,
}

/// Where rules keep values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptIn {
    /// The client's connection.
    Connection,
    /// The process.
    Process,
}

/// A value that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptValue {
    /// As text.
    #[serde(with = "crate::form::bytes")]
    pub text: Vec<u8>,
    /// It is a number.
    pub number: bool,
}

/// Events whose rate is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateOf {
    /// Connections of clients.
    Sessions,
    /// Requests.
    Requests,
}

/// Moments in the life of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Its connection was accepted.
    Accepted,
    /// Its first byte came.
    Begun,
}

/// Gauges that log lines show, read when the line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// Requests that wait, for each endpoint that can be used (HAProxy `avg_queue`).
    AverageQueue,
    /// Exchanges that its endpoints may carry beside those they do; -1: any number (HAProxy `be_conn_free`).
    FreeSlots,
    /// Those, and requests that may wait beside those that do; -1: any number (HAProxy `connslots`).
    FreePlaces,
    /// Exchanges that began with the pool in the last second (HAProxy `be_sess_rate`).
    SessionRate,
    /// Further attempts of this exchange, without a mark (HAProxy `txn.conn_retries`).
    Attempts,
}

/// Figures of one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointFigure {
    /// 1 if it is up (HAProxy `srv_is_up`).
    Up,
    /// Exchanges it carries (`srv_conn`).
    InFlight,
    /// Exchanges it may carry beside them; -1: any number (`srv_conn_free`).
    Free,
    /// Requests that wait for it (`srv_queue`).
    Waiting,
    /// Its weight now (`srv_weight`).
    Weight,
    /// Its weight by the configuration (`srv_iweight`).
    ConfiguredWeight,
    /// Exchanges that began with it in the last second (`srv_sess_rate`).
    SessionRate,
}
