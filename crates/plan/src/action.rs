//! What answers a request.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use weir_expr::settings::{Spoken, UpstreamSettings};
use weir_http::HeadRules;
use weir_policy::retry::RetryPolicy;

use crate::{
    CacheZoneIx, CookieAttribute, HeadTemplate, HeaderSet, Pattern, PoolIx, Respond, Template, UpstreamTlsUse,
};

/// What a route does with a request that reached it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Files of [`crate::Route::files`].
    Static,
    /// HTTP/1 to a pool.
    Proxy(Arc<Proxy>),
    /// HTTP/2 to a pool, gRPC among it.
    Http2(Arc<Proxy>),
    /// FastCGI, or one of its kin, to a pool.
    FastCgi(Arc<FastCgi>),
    /// A fixed answer.
    Respond(Arc<Respond>),
    /// nginx's counters in text.
    StubStatus,
    /// A transparent image of one pixel (nginx `empty_gif`).
    EmptyGif,
    /// HAProxy's statistics page.
    Stats(Arc<StatsPage>),
    /// Prometheus exposition.
    Metrics(weir_expr::settings::Exposition),
    /// Weir's dashboard.
    Dashboard(weir_expr::settings::Dashboard),
    /// nginx's API; true: it may be told to change things.
    Api(bool),
}

impl Action {
    /// The proxy that it is, whatever version is spoken.
    pub fn proxy(&self) -> Option<&Arc<Proxy>> {
        match self {
            Self::Proxy(proxy) | Self::Http2(proxy) => Some(proxy),
            _ => None,
        }
    }
}

/// HTTP to a pool or to a computed address.
#[derive(Clone, Debug, Serialize)]
pub struct Proxy {
    /// To whom.
    pub target: ProxyTarget,
    /// TLS to endpoints, for `https`. An endpoint's own TLS comes before.
    pub tls: Option<Box<UpstreamTlsUse>>,
    /// Host and port as named by the action (`$proxy_host`); empty for computed targets.
    pub host: Box<str>,
    /// The path sent.
    pub uri: UpstreamUri,
    /// Method sent, if another.
    pub method: Option<Template>,
    /// Version sent: true for HTTP/1.1.
    pub http_1_1: bool,
    /// What is asked and answered is gRPC.
    pub grpc: bool,
    /// `Connection: close` is asked for (HAProxy `http-server-close`, `httpclose`).
    pub announce_close: bool,
    /// Fields set, compiled.
    pub head: Arc<HeadTemplate>,
    /// The client's other fields are passed.
    pub pass_request_headers: bool,
    /// The body is passed.
    pub pass_request_body: bool,
    /// Body sent instead of the client's.
    pub body: Option<Template>,
    /// Times and buffers.
    pub settings: Arc<UpstreamSettings>,
    /// When another endpoint is tried.
    #[serde(serialize_with = "crate::show::debug")]
    pub retry: RetryPolicy,
    /// What the head of a response may measure.
    #[serde(serialize_with = "crate::show::debug")]
    pub heads: HeadRules,
    /// Response fields not passed, beyond those a gateway must drop.
    pub hide_headers: Arc<HeaderSet>,
    /// `Location` and `Refresh` rewrites, the first that matches.
    pub redirects: Arc<[RedirectRewrite]>,
    /// `Set-Cookie` domain and path rewrites.
    pub cookie_rewrites: Arc<[CookieRewrite]>,
    /// `X-Accel-*` fields (and their kin) that are not obeyed.
    pub ignore_headers: Arc<HeaderSet>,
    /// Obey `X-Accel-Redirect` and its kin at all.
    pub accel: bool,
    /// Local address of upstream connections.
    pub bind: Option<Template>,
    /// It may be an address of another machine (IP_TRANSPARENT).
    pub transparent: bool,
    /// The cache before it.
    pub cache: Option<Arc<Caching>>,
    /// Responses are kept as files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<Arc<StoreFiles>>,
}

/// Responses that are kept as files (`proxy_store`).
#[derive(Clone, Debug, Serialize)]
pub struct StoreFiles {
    /// The file; `None`: the one that the request's path maps to.
    pub path: Option<Template>,
    /// Its rights, from which those of new folders follow.
    pub access: weir_expr::FileAccess,
}

/// A cache before an upstream.
#[derive(Clone, Debug, Serialize)]
pub struct Caching {
    /// Under which it counts what becomes of requests.
    pub counts_as: weir_control::ZoneId,
    /// Zone.
    pub zone: CacheZoneUse,
    /// What one object has the same; `None`: the URL that is asked of the upstream.
    pub key: Option<Template>,
    /// Requests with different credentials have different keys.
    pub key_has_credentials: bool,
    /// The client's credentials do not go to the upstream: the configuration puts others in their place, or none.
    pub hides_credentials: bool,
    /// The cache is not asked if one of these is neither empty nor `0`.
    pub bypass: Box<[Template]>,
    /// An answer is not stored if one of these is neither empty nor `0`.
    pub no_store: Box<[Template]>,
    /// A request removes what is stored under its key if one of these is neither empty nor `0`.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub purge: Box<[Template]>,
    /// The rest.
    pub settings: weir_expr::settings::CacheSettings,
}

/// The zone of a cache.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheZoneUse {
    /// Whichever this names; none, where it is empty or `off`.
    Computed(Template),
    /// This one.
    #[serde(untagged)]
    Known(CacheZoneIx),
}

/// To whom an action speaks.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProxyTarget {
    /// A pool.
    Pool(PoolIx),
    /// Computed: `scheme://host:port[/path]`; a pool of that name comes first ([`crate::Plan::pool_by_name`]), then an
    /// address, then the resolver.
    Computed(Template),
}

/// Path of the upstream request.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamUri {
    /// As received, or the current path escaped again if a rewrite changed it.
    Pass,
    /// The part of the path that the route matched is replaced by this.
    Replace(Box<str>),
    /// This, variables and all.
    Template(Template),
}

/// A rewrite of `Location`.
#[derive(Clone, Debug, Serialize)]
pub struct RedirectRewrite {
    /// What is looked for.
    pub from: TextMatch,
    /// What it becomes.
    pub to: Template,
}

/// Text to look for.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TextMatch {
    /// A prefix.
    Prefix(Template),
    /// A pattern.
    Regex(Arc<Pattern>),
}

/// A rewrite of cookies.
#[derive(Clone, Debug, Serialize)]
pub struct CookieRewrite {
    /// `domain` or `path`.
    pub attribute: CookieAttribute,
    /// What is looked for.
    pub from: TextMatch,
    /// What it becomes.
    pub to: Template,
}

/// FastCGI, or one of its kin, to a pool.
#[derive(Clone, Debug, Serialize)]
pub struct FastCgi {
    /// Which of them.
    pub spoken: Spoken,
    /// To whom.
    pub target: ProxyTarget,
    /// TLS to endpoints. An endpoint's own TLS comes before.
    pub tls: Option<Box<UpstreamTlsUse>>,
    /// Local address of connections.
    pub bind: Option<Template>,
    /// It may be an address of another machine (IP_TRANSPARENT).
    pub transparent: bool,
    /// The key that memcached is asked for.
    pub key: Option<Template>,
    /// Parameters in order.
    pub params: Box<[FastCgiParam]>,
    /// Appended to paths that end with `/`.
    pub index: Option<Box<str>>,
    /// Splits the path into script and path info: groups 1 and 2.
    pub split_path_info: Option<Arc<Pattern>>,
    /// The client's fields are passed as `HTTP_*`.
    pub pass_request_headers: bool,
    /// Only those whose names are letters, digits and dashes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub usual_names: bool,
    /// What applications say on stderr is not logged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
    /// The body is passed.
    pub pass_request_body: bool,
    /// Connections are kept.
    pub keep_connection: bool,
    /// Times and buffers.
    pub settings: Arc<UpstreamSettings>,
    /// When another endpoint is tried.
    #[serde(serialize_with = "crate::show::debug")]
    pub retry: RetryPolicy,
    /// Response fields not passed.
    pub hide_headers: Arc<HeaderSet>,
    /// `X-Accel-*` fields not obeyed.
    pub ignore_headers: Arc<HeaderSet>,
    /// The cache before it.
    pub cache: Option<Arc<Caching>>,
    /// Responses are kept as files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<Arc<StoreFiles>>,
}

/// One parameter.
#[derive(Clone, Debug, Serialize)]
pub struct FastCgiParam {
    /// Name.
    pub name: Box<str>,
    /// Value.
    pub value: Template,
    /// Left out if empty.
    pub if_not_empty: bool,
}

/// HAProxy's statistics page.
#[derive(Clone, Debug, Serialize)]
pub struct StatsPage {
    /// Path prefix.
    pub uri: Box<str>,
    /// Do not name product and version.
    pub hide_version: bool,
    /// Realm of `users`.
    pub realm: Box<str>,
    /// Users; empty: open.
    #[serde(serialize_with = "crate::show::names")]
    pub users: Vec<(String, Secret)>,
    /// Seconds between refreshes of the page.
    pub refresh: Option<u64>,
    /// Show endpoints' addresses, the description, the node's name.
    pub show_legends: bool,
    /// Description shown.
    pub description: Option<Box<str>>,
    /// Node name shown.
    pub node: Option<Box<str>>,
    /// Only these proxies are shown; empty: all.
    pub scope: Box<[String]>,
    /// When whoever asks may change the states of endpoints; `None`: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin: Option<crate::Condition>,
}

/// Text that is never printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps a text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text, for comparing.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("<redacted>")
    }
}
