//! Groups of settings that hold neither names nor templates, so that they mean the same as written, as meant and as run.
//!
//! Times are [`Duration`]s, sizes are bytes in `u64`. `None` means "no limit" unless a field says otherwise.

mod acme;
mod browsers;
mod cache;
mod conduct;
mod control;
mod files;
mod gateway;
mod identity;
mod lists;
mod logs;
mod pool;
mod rewrite;
mod session;
mod socket;
mod tracing;
mod user_ids;

pub use acme::*;
pub use browsers::{Browsers, KnownBrowser, OldBrowsers, browser_version};
pub use cache::*;
pub use conduct::*;
pub use control::*;
pub use files::*;
pub use gateway::*;
pub use identity::*;
pub use lists::*;
pub use logs::*;
pub use pool::*;
pub use rewrite::*;
pub use session::*;
pub use socket::*;
pub use tracing::*;
pub use user_ids::*;

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Limits and times of a client connection and of the heads it sends.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClientSettings {
    /// From the first byte (or accept) to the end of a request head (`client_header_timeout`, `timeout http-request`).
    pub header_timeout: Duration,
    /// Longest request line in bytes; longer is 414 (`large_client_header_buffers` size).
    pub max_request_line: u64,
    /// Longest single field line in bytes; longer is 431.
    pub max_header_line: u64,
    /// All field lines together, in bytes; more is 431.
    pub max_headers: u64,
    /// Most field lines; more is 431.
    pub max_header_count: u32,
    /// Most streams that an HTTP/2 connection may have open (`http2_max_concurrent_streams`).
    pub http2_streams: u32,
    /// Idle time between requests; `None` closes after each response (`keepalive_timeout 0`).
    pub keepalive_timeout: Option<Duration>,
    /// Value of a `Keep-Alive: timeout=` response field, where one is sent.
    pub keepalive_header: Option<Duration>,
    /// Requests served on one connection before it is closed (`keepalive_requests`); `None`: no limit.
    pub keepalive_requests: Option<u64>,
    /// Longest life of a connection (`keepalive_time`).
    pub keepalive_time: Option<Duration>,
    /// Time between two successful writes to the client (`send_timeout`, HAProxy `timeout client`).
    pub send_timeout: Duration,
    /// Least bytes a second that the client takes of an answer, averaged over `send_timeout`, while there are some that it
    /// has not taken; 0: none. Answers that are not buffered, event streams and tunnels have none.
    pub min_send_rate: u64,
    /// Drop fields whose name holds `_` (nginx `underscores_in_headers off`).
    pub drop_underscores: bool,
    /// Drop fields with invalid names instead of answering 400 (nginx `ignore_invalid_headers on`). Names that could
    /// make a message read two ways are refused all the same.
    pub ignore_invalid_headers: bool,
    /// What breaks the grammar of a head without leaving two readings is mended, not refused: a fragment is cut off the target,
    /// a field whose name is no token is left out.
    pub mends_heads: bool,
    /// Of names with odd characters, which are kept otherwise, drop those that are the name of a field that decides
    /// but for `_` in place of `-`: behind a gateway the two are one.
    pub drop_lookalikes: bool,
    /// How rules see paths, and how they are passed on.
    pub paths: PathReading,
    /// Merge adjacent slashes in paths (`merge_slashes`).
    pub merge_slashes: bool,
    /// Forward TRACE, whose answer shows what scripts are not to see, instead of refusing it with 405.
    pub forward_trace: bool,
    /// Where nothing says which protocols a client may change to, pass on any that it offers, not only those in use
    /// through proxies.
    pub forward_any_upgrade: bool,
    /// Disable Nagle's algorithm.
    pub tcp_nodelay: bool,
    /// Send heads and file bodies in full packets (TCP_CORK).
    pub tcp_nopush: bool,
    /// Close timed-out connections with a reset (`reset_timedout_connection`).
    pub reset_timed_out: bool,
    /// Read and drop what a client still sends after an early answer: total time and time between reads (`lingering_*`).
    pub lingering_time: Duration,
    /// See `lingering_time`.
    pub lingering_timeout: Duration,
    /// What is done for browsers that misread answers.
    #[serde(skip_serializing_if = "OldBrowsers::is_none")]
    pub old_browsers: OldBrowsers,
}

impl Default for ClientSettings {
    /// nginx's documented defaults.
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(60),
            max_request_line: 8 << 10,
            max_header_line: 8 << 10,
            max_headers: 32 << 10,
            max_header_count: 1000,
            http2_streams: 128,
            keepalive_timeout: Some(Duration::from_secs(75)),
            keepalive_header: None,
            keepalive_requests: Some(1000),
            keepalive_time: Some(Duration::from_secs(3600)),
            send_timeout: Duration::from_secs(60),
            min_send_rate: 500,
            drop_underscores: true,
            ignore_invalid_headers: true,
            mends_heads: true,
            drop_lookalikes: false,
            paths: PathReading::Decoded,
            merge_slashes: true,
            forward_trace: false,
            forward_any_upgrade: false,
            tcp_nodelay: true,
            tcp_nopush: false,
            reset_timed_out: false,
            lingering_time: Duration::from_secs(30),
            lingering_timeout: Duration::from_secs(5),
            old_browsers: OldBrowsers::default(),
        }
    }
}

/// What rules see of a path, and what is passed on of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathReading {
    /// nginx's: everything is decoded and resolved; what cannot be is refused. Passed on as it was sent.
    #[default]
    Decoded,
    /// Rules see dot segments resolved and unreserved characters decoded (RFC 3986 §6.2.2); passed on with dot segments
    /// resolved, in the encoding that it was sent in.
    Resolved,
    /// Seen and passed on as it was sent. Danger: `/public/../admin` passes by a rule for `/admin`.
    Raw,
}

/// Whose names Prometheus metrics have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exposition {
    /// Weir's.
    #[default]
    Own,
    /// Those of HAProxy's exporter, with its parameters, and Weir's beside them.
    Haproxy,
}

/// Weir's dashboard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dashboard {
    /// Whoever sees it may drain endpoints, take them out and change their weights.
    pub write: bool,
}

/// How a request body is taken in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BodySettings {
    /// Largest body in bytes; larger is 413 (`client_max_body_size`; 0 as written is `None` here).
    pub max_size: Option<u64>,
    /// Time between two reads of the body (`client_body_timeout`).
    pub timeout: Duration,
    /// Bytes held in memory before a file is used (`client_body_buffer_size`).
    pub memory: u64,
    /// Folder of the files for larger bodies (`client_body_temp_path`).
    pub temp_path: std::path::PathBuf,
    /// Least bytes a second, averaged over 30 s after 10 s of grace, while the client is the one delaying; 0: none.
    pub min_rate: u64,
    /// Whether bodies are in files whatever their size (`client_body_in_file_only`).
    #[serde(skip_serializing_if = "BodyFiles::is_default")]
    pub files: BodyFiles,
}

/// Where buffered request bodies are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyFiles {
    /// In memory, and in files without a name where they are larger.
    #[default]
    WhereNeeded,
    /// Each in a file that has a name as long as the request lasts.
    Named,
    /// Each in a file that stays.
    Kept,
}

impl BodyFiles {
    /// True if it is what holds where nobody says otherwise.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for BodySettings {
    fn default() -> Self {
        Self {
            max_size: Some(1 << 20),
            timeout: Duration::from_secs(60),
            memory: 16 << 10,
            temp_path: "/var/lib/nginx/body".into(),
            min_rate: 500,
            files: BodyFiles::default(),
        }
    }
}

/// Other routes of the site that get a copy of each request, and whose responses nobody reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mirrors {
    /// Their paths.
    pub paths: Vec<String>,
    /// With the request's body, which is read before anything is sent on.
    pub body: bool,
}

/// Times, buffers and limits of an upstream exchange (proxies and application servers).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UpstreamSettings {
    /// Time to connect, one attempt.
    pub connect_timeout: Duration,
    /// Time between two writes.
    pub send_timeout: Duration,
    /// Time between two reads; for HAProxy `timeout server`.
    pub read_timeout: Duration,
    /// Time between two bytes of an upgraded connection, either way; `None`: read and send timeouts.
    pub tunnel_timeout: Option<Duration>,
    /// While the client makes a send wait, read the answer on, up to `buffer_bytes` and `max_response_head` together
    /// (`proxy_buffering`).
    pub buffering: bool,
    /// Read the whole request body before an endpoint is chosen (`proxy_request_buffering`).
    pub request_buffering: bool,
    /// Longest response head in bytes; longer is 502 (`proxy_buffer_size`).
    pub max_response_head: u64,
    /// Bytes of an answer held in memory (`proxy_buffers`, n × size).
    pub buffer_bytes: u64,
    /// Bytes of an answer that may be spooled to disk; 0 unless the file asks for it.
    pub max_temp_file: u64,
    /// Folder for spooled answers.
    pub temp_path: std::path::PathBuf,
    /// What becomes of the work for a client that goes away (`proxy_ignore_client_abort`, `option abortonclose`).
    pub client_abort: ClientAbort,
    /// Answers of 300 and more are replaced by the route's error pages (`proxy_intercept_errors`).
    pub intercept_errors: bool,
    /// Parts are given of answers that do not offer them (`proxy_force_ranges`).
    pub force_ranges: bool,
    /// When another endpoint is tried.
    pub retry: RetrySettings,
    /// Bytes a second to the client from this upstream (`proxy_limit_rate`).
    pub limit_rate: Option<u64>,
    /// Keep TCP keep-alive probes on upstream sockets (`proxy_socket_keepalive`).
    pub socket_keepalive: bool,
}

impl Default for UpstreamSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(60),
            send_timeout: Duration::from_secs(60),
            read_timeout: Duration::from_secs(60),
            tunnel_timeout: None,
            buffering: true,
            request_buffering: true,
            max_response_head: 8 << 10,
            buffer_bytes: 64 << 10,
            max_temp_file: 0,
            temp_path: "/var/lib/nginx/proxy".into(),
            client_abort: ClientAbort::default(),
            intercept_errors: false,
            force_ranges: false,
            retry: RetrySettings::default(),
            limit_rate: None,
            socket_keepalive: false,
        }
    }
}

/// What becomes of the work for a client that goes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAbort {
    /// It ends, in the queue and on the endpoint, also where the client only said that it will send no more (nginx).
    #[default]
    Cancel,
    /// The same, but a client that only said so while an endpoint was at work is answered 400 (HAProxy with `option
    /// abortonclose`).
    Refuse,
    /// It is done to its end unless sending to the client fails (`proxy_ignore_client_abort on`).
    Ignore,
    /// It is done until there is an answer, and one under way ends with a connection that failed: HAProxy by itself.
    Finish,
}

/// When and how often another endpoint (or the same one) is tried.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RetrySettings {
    /// Connection could not be made, or broke before a response head (`error`).
    pub on_error: bool,
    /// Timed out connecting, writing or waiting for the head (`timeout`).
    pub on_timeout: bool,
    /// Connection could not be made, or not in time; nothing of the request was sent (HAProxy `conn-failure`).
    pub on_connect: bool,
    /// Malformed or empty response (`invalid_header`).
    pub on_invalid_response: bool,
    /// Response status codes that count as failures (`http_500` …).
    pub on_status: Vec<u16>,
    /// Also once bytes of a non-idempotent request were sent (`non_idempotent`).
    pub non_idempotent: bool,
    /// Attempts altogether; 0: as many as there are endpoints (`proxy_next_upstream_tries`).
    pub tries: u32,
    /// Time in which another attempt may begin (`proxy_next_upstream_timeout`).
    pub timeout: Option<Duration>,
    /// Where HAProxy's next attempt goes; nginx always moves on.
    pub redispatch: Redispatch,
}

/// When a retry goes to another endpoint (HAProxy `option redispatch`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Redispatch {
    /// Each time (nginx).
    #[default]
    Always,
    /// Never: the same one is tried again.
    Never,
    /// Each so many retries.
    Every(u32),
    /// At the last retry; at once where endpoints take turns and no cookie names one.
    Last {
        /// Endpoints take turns, and there is more than one.
        turns: bool,
    },
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            on_error: true,
            on_timeout: true,
            on_connect: false,
            on_invalid_response: false,
            on_status: Vec::new(),
            non_idempotent: false,
            tries: 0,
            timeout: None,
            redispatch: Redispatch::Always,
        }
    }
}

/// A proxy as HAProxy's statistics list it, beside what its site and its pool tell.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Listed {
    /// Its name: that of its site or TCP service, and of its pool.
    pub name: String,
    /// Its number (`iid`).
    pub number: u32,
    /// It speaks HTTP.
    pub http: bool,
    /// It takes connections in.
    pub front: bool,
    /// It sends them on, be it to nobody.
    pub back: Option<ListedBackend>,
}

/// How much of a backend's work counts as full (`fullconn`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ListedBackend {
    /// As configured.
    pub full: Option<u64>,
    /// Numbers of the frontends that enter it: without `full`, a tenth of their bounds.
    pub feeders: Vec<u32>,
}

/// Why an answer is made here rather than by an endpoint: what logs and counters say of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It is the content: a page, a redirect, a question for credentials.
    #[default]
    Content,
    /// A rule refused the request or the response.
    Refusal,
    /// No pool was chosen.
    NoPool,
}

/// TLS versions that Weir speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TlsVersion {
    /// RFC 5246.
    #[serde(rename = "TLSv1.2")]
    V1_2,
    /// RFC 8446.
    #[serde(rename = "TLSv1.3")]
    V1_3,
}

/// What a client's certificate is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientVerify {
    /// None asked.
    #[default]
    Off,
    /// Asked, must verify if given (`optional`).
    Optional,
    /// Must be given and verify (`on`).
    Required,
    /// Asked; authorities may be unknown, and what else is wrong is not forgiven (`optional_no_ca`).
    OptionalNoCa,
}

/// PROXY protocol versions (haproxy.org, proxy-protocol.txt).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ProxyProtocol {
    /// One text line.
    V1,
    /// Binary.
    V2,
}

/// How log values are escaped (`log_format … escape=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogEscape {
    /// `"`, `\`, control and high bytes as `\xXX`; empty values as `-`.
    #[default]
    Default,
    /// As in JSON strings.
    Json,
    /// Not at all.
    None,
    /// Bytes that would break the line, or end the place where a value stands, as `#XX` (HAProxy). Formats name their
    /// own empty values.
    Hash,
}

/// How a syslog message begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyslogForm {
    /// `<134>Nov 21 02:45:31 host tag[123]: `, with or without the host (RFC 3164).
    #[default]
    Rfc3164,
    /// `<134>1 2026-11-21T02:45:31.123456+00:00 host tag 123 - ` (RFC 5424); structured data follow, or a dash.
    Rfc5424,
    /// By nothing.
    Raw,
    /// `<6>`.
    Short,
    /// `<6>2026-11-21T02:45:31.123456+00:00 `.
    Timed,
    /// `2026-11-21T02:45:31.123456+00:00 `.
    Iso,
    /// `<134>`.
    Priority,
}

/// Severity words of error logs, in nginx's spelling and order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// Routine events.
    Info,
    /// Notable.
    Notice,
    /// Something is off.
    Warn,
    /// A request failed.
    #[default]
    Error,
    /// Serious.
    Crit,
    /// Must be acted on.
    Alert,
    /// Unusable.
    Emerg,
}

/// How a connection to the client and to the endpoint is treated after an answer (HAProxy's modes; nginx keeps both).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepAliveMode {
    /// Kept on both sides.
    #[default]
    Keep,
    /// Kept with the client, closed towards the endpoint (`option http-server-close`).
    ServerClose,
    /// Closed on both sides (`option httpclose`).
    Close,
}

/// A content coding that bodies are compressed by: RFC 9110 section 8.4.1, RFC 7932, RFC 8878.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentCoding {
    /// `br`.
    Brotli,
    /// `zstd`.
    Zstandard,
    /// `gzip`.
    Gzip,
}

impl ContentCoding {
    /// Its name in header fields.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstandard => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// What the name of a file in it ends with.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Zstandard => ".zst",
            Self::Gzip => ".gz",
        }
    }
}

/// Compression of answers by one coding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CompressionSettings {
    /// The coding.
    pub coding: ContentCoding,
    /// How hard it tries: gzip 1 to 9, Brotli 0 to 11, Zstandard 1 to 22.
    pub level: u8,
    /// Of Brotli: the logarithm of the bytes that are looked back at, 10 to 24.
    pub window: u8,
    /// Shortest Content-Length compressed, in bytes.
    pub min_length: u64,
    /// Media types, lower case; `*` for all.
    pub types: Vec<String>,
    /// Send `Vary: Accept-Encoding`.
    pub vary: bool,
    /// Least request version compressed for: true for HTTP/1.0 too.
    pub http_1_0: bool,
    /// When requests that came through a proxy (with `Via`) are compressed.
    pub proxied: Vec<GzipProxied>,
    /// Patterns of User-Agent for which nothing is compressed (PCRE, no case).
    pub disable: Vec<String>,
}

/// Conditions of `gzip_proxied`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GzipProxied {
    /// Answer has an `Expires` that forbids caching.
    Expired,
    /// `Cache-Control: no-cache`.
    NoCache,
    /// `Cache-Control: no-store`.
    NoStore,
    /// `Cache-Control: private`.
    Private,
    /// No `Last-Modified`.
    NoLastModified,
    /// No `ETag`.
    NoEtag,
    /// Request has `Authorization`.
    Auth,
    /// Always.
    Any,
}
