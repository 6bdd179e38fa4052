//! Routes: what is done with the requests of a path.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_diag::Origin;
use weir_expr::settings::{
    BodySettings, CompressionSettings, LogEscape, LogLevel, LogSample, Mirrors, SyslogForm,
};

use crate::{Action, Condition, HeaderEdit, Op, Pattern, RouteId, StaticFiles, Template};

/// A location, an `if` block's implicit location, or a HAProxy frontend's or backend's rules.
///
/// Groups are shared (`Arc`) where inheritance shares them; 100,000 routes are a normal size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Route {
    /// For people: `/images/`, `~ \.php$`, `@fallback`, a backend's name.
    pub name: String,
    /// Where it was written.
    #[serde(skip_serializing, default)]
    pub origin: Origin,
    /// When it is chosen.
    pub matching: RouteMatch,
    /// Routes tried inside this one (nested locations); chosen by the same rules.
    pub children: Vec<RouteId>,
    /// Only internal redirects reach it; others get 404.
    pub internal: bool,
    /// Runs once the route is chosen.
    pub program: Vec<Op>,
    /// Request-rate limits, checked in order before access.
    pub limit_req: Arc<Vec<LimitReq>>,
    /// Concurrency limits.
    pub limit_conn: Arc<Vec<LimitConn>>,
    /// Who may pass.
    pub access: Arc<Access>,
    /// Client addresses taken from trusted proxies.
    pub real_ip: Option<Arc<RealIp>>,
    /// Routes that get a copy of each request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirrors: Option<Arc<Mirrors>>,
    /// What is requested of the same site once a request has ended (`post_action`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub afterwards: Option<Afterwards>,
    /// Candidates tried before the action (`try_files`).
    pub try_files: Option<TryFiles>,
    /// Files under this route, also what `$document_root` and `$request_filename` speak of.
    pub files: Arc<StaticFiles>,
    /// What answers.
    pub action: Action,
    /// Pages for statuses.
    pub error_pages: Arc<Vec<ErrorPage>>,
    /// Nested error pages are followed (`recursive_error_pages`).
    pub recursive_error_pages: bool,
    /// Edits of every response of this route, in order (add_header, http-response rules).
    pub response_edits: Arc<Vec<HeaderEdit>>,
    /// Edits of every request of this route, before its action (headers-more).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub request_edits: Arc<Vec<HeaderEdit>>,
    /// Runs on every response of an endpoint, before `response_edits` (HAProxy `http-response`).
    pub response_program: Vec<Op>,
    /// `Expires` and `Cache-Control: max-age`.
    pub expires: Option<Arc<Expires>>,
    /// Compression.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compression: Vec<Arc<CompressionSettings>>,
    /// Other filters of bodies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filters: Option<Arc<crate::BodyFilters>>,
    /// Settings of variables that judge a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<Arc<crate::Facts>>,
    /// Access logs.
    pub access_logs: Arc<Vec<AccessLog>>,
    /// Error logs, if other than the process's.
    pub error_logs: Option<Arc<Vec<crate::ErrorLog>>>,
    /// Write "file not found" to the error log.
    pub log_not_found: bool,
    /// How request bodies are taken.
    pub body: Arc<BodySettings>,
    /// Client settings that hold once the route is known (keep-alive, send timeout …).
    pub client: Arc<weir_expr::settings::ClientSettings>,
    /// Bytes a second to the client; `None`: no limit. (`limit_rate`; the variable form is a `Set` of `$limit_rate`.)
    pub limit_rate: Option<u64>,
    /// Bytes sent before the rate limit holds.
    pub limit_rate_after: u64,
    /// Bytes of the slices in which responses are asked for of upstreams; `None`: they are asked for whole (`slice`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<NonZeroU64>,
    /// Answers of unknown length may be chunked (`chunked_transfer_encoding`).
    pub chunked: bool,
    /// 103 responses of endpoints are passed on if one of these is neither empty nor `0`; without any, always.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub early_hints: Arc<Vec<Template>>,
    /// Its requests are traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Arc<Tracing>>,
    /// Name servers, if other than the model's.
    pub resolver: Option<Arc<crate::Resolver>>,
    /// Its requests are counted under this name, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Arc<str>>,
}

impl Route {
    /// A route with nothing but these. What a language has no word for stays as it is here.
    pub fn new(name: String, matching: RouteMatch, files: Arc<StaticFiles>, action: Action) -> Self {
        Self {
            name,
            origin: None,
            matching,
            children: Vec::new(),
            internal: false,
            program: Vec::new(),
            limit_req: Arc::default(),
            limit_conn: Arc::default(),
            access: Arc::default(),
            real_ip: None,
            mirrors: None,
            afterwards: None,
            try_files: None,
            files,
            action,
            error_pages: Arc::default(),
            recursive_error_pages: false,
            response_edits: Arc::default(),
            request_edits: Arc::default(),
            response_program: Vec::new(),
            expires: None,
            compression: Vec::new(),
            filters: None,
            facts: None,
            access_logs: Arc::default(),
            error_logs: None,
            log_not_found: true,
            body: Arc::default(),
            client: Arc::default(),
            limit_rate: None,
            limit_rate_after: 0,
            slice: None,
            chunked: true,
            early_hints: Arc::default(),
            tracing: None,
            resolver: None,
            zone: None,
        }
    }
}

/// How the requests of a route are traced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tracing {
    /// A request is sampled if this is `on` or `1`; `None`: none is.
    pub when: Option<Template>,
    /// What becomes of the context that requests bring.
    pub context: weir_expr::settings::TraceContext,
    /// The name of spans; `None`: the route's.
    pub name: Option<Template>,
    /// Attributes of spans.
    pub attributes: Vec<(String, Template)>,
}

/// When a route is chosen among its siblings: an exact match at once; else the longest prefix is kept; if it does not
/// stop patterns, the first pattern that matches wins over it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteMatch {
    /// The path is this.
    Exact(String),
    /// The path begins with this.
    Prefix {
        /// The prefix.
        path: String,
        /// Patterns are not tried if this is the longest (`^~`).
        stop: bool,
        /// Ends with `/` and proxies: the path without the slash is redirected to it with 301.
        auto_redirect: bool,
    },
    /// The pattern matches the path. Its captures hold in the route.
    Regex(Pattern),
    /// Only by name (`@name`).
    Named(String),
    /// Only by reference (an `if` block, a backend).
    Referred,
}

/// Who may pass: network rules in order, then user and password.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Access {
    /// The first rule that matches decides; none: allowed.
    pub rules: Vec<AccessRule>,
    /// Basic authentication.
    pub basic: Option<BasicAuth>,
    /// Another route of the site is asked, after the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<AuthRequest>,
    /// A token has to be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Arc<TokenAuth>>,
    /// What has to hold in any case, once the others let pass.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<Requirement>,
    /// One of `rules`, `basic`, `ask` and `token` suffices (`satisfy any`).
    pub any: bool,
    /// How long a refusal with 401 waits before it is told (`auth_delay`).
    #[serde(skip_serializing_if = "std::time::Duration::is_zero")]
    pub delay: std::time::Duration,
}

/// A request of Weir's own to another path of the site, whose status decides (nginx `auth_request`): 2xx lets pass, 401
/// and 403 refuse, everything else is an error.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuthRequest {
    /// Path.
    pub path: String,
    /// Variables that are assigned from that answer.
    pub set: Vec<(String, Template)>,
}

/// A token that a request has to show (RFC 7519; nginx's auth_jwt module).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TokenAuth {
    /// Realm.
    pub realm: Template,
    /// Where the token is; `None`: in the field Authorization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Template>,
    /// It is read for variables alone: nothing has to be shown, nothing is verified.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
    /// What kind of token is expected.
    pub kind: weir_expr::settings::TokenKind,
    /// By which keys it holds.
    pub keys: Vec<TokenKeys>,
    /// How long keys are kept; zero: they are looked at for each request.
    pub cache: std::time::Duration,
    /// By how much clocks may differ.
    pub leeway: std::time::Duration,
    /// What has to hold beside.
    pub require: Vec<Requirement>,
}

/// Where keys of tokens are: JSON Web Key sets (RFC 7517).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenKeys {
    /// In a file; it is read again when it changes.
    File(Template),
    /// In the answer to a request to this path of the same site.
    Request(Template),
}

/// Texts of which none may be empty or `0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Requirement {
    /// The texts.
    pub values: Vec<Template>,
    /// The status to refuse with.
    pub status: u16,
}

/// One network rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AccessRule {
    /// Allow, or deny with 403.
    pub allow: bool,
    /// Who.
    pub who: Who,
}

/// Clients that a rule speaks of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// Everyone.
    All,
    /// Those of a network.
    Net(IpNet),
    /// Those of unix sockets.
    Unix,
}

/// Basic authentication (RFC 7617).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BasicAuth {
    /// Realm.
    pub realm: Template,
    /// Who may pass.
    pub users: Users,
    /// Turned off if the realm evaluates to `off`.
    #[serde(skip_serializing, default)]
    pub origin: Origin,
}

/// A set of users.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Users {
    /// htpasswd file: crypt(3), apr1, SSHA, SHA, PLAIN; read again when it changes.
    File(Template),
    /// Users in the configuration.
    List(#[serde(serialize_with = "crate::redact::users")] Vec<(String, Password)>),
}

/// A password in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Password {
    /// As it is.
    Plain(String),
    /// crypt(3) text.
    Crypt(String),
}

/// Client addresses from a trusted proxy (realip).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RealIp {
    /// Peers that are believed.
    pub from: Vec<Who>,
    /// Where the address is read.
    pub source: RealIpSource,
    /// Walk the list from the right over all trusted addresses.
    pub recursive: bool,
}

/// Source of a real client address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RealIpSource {
    /// A request field, lower case (`x-real-ip`, `x-forwarded-for`).
    Header(String),
    /// The PROXY header.
    ProxyProtocol,
}

/// Candidates tried in order; the first that exists is served by the action, else the last is done.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TryFiles {
    /// Paths relative to the root; one that ends with `/` names a folder.
    pub candidates: Vec<Template>,
    /// If none exists.
    pub last: TryLast,
}

/// The last word of `try_files`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TryLast {
    /// Internal redirect.
    Uri(Template),
    /// Named route.
    Named(RouteId),
    /// Status code.
    Status(u16),
}

/// A page for statuses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ErrorPage {
    /// Which statuses.
    pub statuses: Vec<u16>,
    /// Status to answer with: `None` keeps, `Some(None)` takes that of the page (`=`), `Some(Some(n))` is `=n`.
    #[serde(default, with = "answer")]
    pub answer: Option<Option<u16>>,
    /// Where the page is.
    pub target: ErrorTarget,
}

/// The status of an error page: a number, or `page` for the page's own.
mod answer {
    use std::fmt;

    use serde::de::{Error, Visitor};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    struct Answer(Option<u16>);

    impl Serialize for Answer {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match self.0 {
                Some(status) => serializer.serialize_u16(status),
                None => serializer.serialize_str("page"),
            }
        }
    }

    impl<'de> Deserialize<'de> for Answer {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Either;
            impl Visitor<'_> for Either {
                type Value = Answer;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a status, or `page`")
                }

                fn visit_u64<E: Error>(self, status: u64) -> Result<Answer, E> {
                    let wrong = || E::custom(format!("{status} is no status"));
                    u16::try_from(status).map(|status| Answer(Some(status))).map_err(|_| wrong())
                }

                fn visit_str<E: Error>(self, text: &str) -> Result<Answer, E> {
                    match text {
                        "page" => Ok(Answer(None)),
                        text => {
                            let status = text
                                .parse()
                                .map_err(|_| E::custom(format!("`{text}` is neither a status nor `page`")));
                            status.map(|status| Answer(Some(status)))
                        }
                    }
                }
            }
            deserializer.deserialize_any(Either)
        }
    }

    #[expect(clippy::ref_option, clippy::option_option, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(
        answer: &Option<Option<u16>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        answer.map(Answer).serialize(serializer)
    }

    #[expect(clippy::option_option, reason = "serde calls it so")]
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Option<u16>>, D::Error> {
        Ok(Option::<Answer>::deserialize(deserializer)?.map(|answer| answer.0))
    }
}

/// Where an error page is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorTarget {
    /// Internal redirect to a path, as GET.
    Uri(Template),
    /// Named route; method and path stay.
    Named(RouteId),
    /// Redirect of the client (302 unless `answer` is another redirect).
    Redirect(Template),
    /// A complete HTTP response read from a file at load (HAProxy `errorfile`).
    RawFile(PathBuf),
}

/// `expires`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expires {
    /// From now; negative: `no-cache`.
    After(i64),
    /// From the file's modification.
    AfterModified(i64),
    /// At a time of day (seconds since midnight).
    Daily(u32),
    /// 1970-01-01 00:00:01 and `no-cache`.
    Epoch,
    /// 2037-12-31 23:55:55 and ten years.
    Max,
    /// From a template that evaluates to one of the words.
    Template(Template),
}

/// One access log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AccessLog {
    /// Where lines go.
    pub target: LogTarget,
    /// A line, without its end.
    pub format: Arc<Template>,
    /// Escaping of values.
    pub escape: LogEscape,
    /// Written only if this is neither empty nor `0`.
    pub condition: Option<Template>,
    /// Written only if this holds (HAProxy `dontlog-normal` and its kin).
    pub only: Option<Condition>,
    /// Bytes gathered before a write; `None`: a small default batch.
    pub buffer: Option<u64>,
    /// Oldest line kept in the buffer.
    pub flush: Option<Duration>,
    /// Compression level of the file; `None`: plain.
    pub gzip: Option<u8>,
    /// Only these of the lines (HAProxy's `sample`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<LogSample>,
}

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogTarget {
    /// A file, appended to; reopened on request.
    File(PathBuf),
    /// A file whose name holds variables; opened for each line, with a small cache.
    FileTemplate(Template),
    /// Standard error.
    Stderr,
    /// Standard output.
    Stdout,
    /// Syslog datagrams, RFC 3164.
    Syslog {
        /// UDP `address:port` or the path of a unix datagram socket.
        server: SyslogServer,
        /// Facility word: `local0` …
        facility: String,
        /// Severity of the lines.
        severity: LogLevel,
        /// Tag; `weir` if none is given by the file (`nginx`, `haproxy` by their front ends).
        tag: String,
        /// How messages begin.
        form: SyslogForm,
        /// The host name, if other than the machine's.
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// Leave out the host name.
        no_hostname: bool,
        /// Most bytes of a message, header and all; what a line has beyond is cut. `None`: nothing is cut.
        max_length: Option<usize>,
        /// Most severe level sent (HAProxy's `minlevel`); lines above it are sent as this.
        min_severity: LogLevel,
        /// The process id stands behind the tag.
        pid: bool,
        /// A message ends with a newline.
        newline: bool,
    },
    /// Nowhere (`off`).
    Off,
}

/// Address of a syslog server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyslogServer {
    /// UDP.
    Udp(std::net::SocketAddr),
    /// UDP by name, resolved at start.
    Name(String, u16),
    /// Unix datagram socket.
    Unix(PathBuf),
    /// A ring of the process.
    Ring(String),
    /// A pool of log servers of the process.
    Pool(String),
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Use of a request-rate zone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LimitReq {
    /// Name of the zone.
    pub zone: String,
    /// Requests beyond the rate that may wait or pass.
    pub burst: u32,
    /// Requests of the burst that pass without delay; `None`: all (`nodelay`).
    pub delay: Option<u32>,
    /// Status of refusals.
    pub status: u16,
    /// Level of log lines about refusals; delays are one lower.
    pub log_level: LogLevel,
    /// Count, but let pass.
    pub dry_run: bool,
}

/// Use of a concurrency zone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LimitConn {
    /// Name of the zone.
    pub zone: String,
    /// Most at once.
    pub limit: u32,
    /// Status of refusals.
    pub status: u16,
    /// Level of log lines.
    pub log_level: LogLevel,
    /// Count, but let pass.
    pub dry_run: bool,
}

/// A zone of request rates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitReqZone {
    /// Name.
    pub name: String,
    /// Key; requests with an empty one are not counted.
    pub key: Template,
    /// Memory in bytes; bounds the number of keys.
    pub size: u64,
    /// Requests a second, in thousandths.
    pub rate_milli: u64,
}

/// A zone of concurrent requests or sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitConnZone {
    /// Name.
    pub name: String,
    /// Key; requests with an empty one are not counted.
    pub key: Template,
    /// Memory in bytes; bounds the number of keys.
    pub size: u64,
    /// It is for sessions, not for requests.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tcp: bool,
}

/// What is requested once a request has ended. Nobody gets the response.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Afterwards {
    /// A path.
    Path(String),
    /// A named route, for the path of the request.
    Named(RouteId),
}
