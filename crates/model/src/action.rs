//! What answers a request.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_diag::Origin;
use weir_expr::settings::{ContentCoding, Spoken, UpstreamSettings};

use crate::{
    CookieAttribute, Dav, IfModifiedSince, Listing, Pattern, Respond, Symlinks, Template, UpstreamTls,
};

/// What a route does with a request that reached it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Files of [`crate::Route::files`].
    Static,
    /// HTTP to a pool.
    Proxy(Arc<Proxy>),
    /// FastCGI, or one of its kin, to a pool.
    FastCgi(Arc<FastCgi>),
    /// A fixed answer.
    Respond(Respond),
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

/// Files served from folders.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StaticFiles {
    /// Folder.
    pub root: Template,
    /// `alias`: `root` stands for the part of the path that the route matched (the whole path if it is a pattern).
    pub alias: bool,
    /// Tried in order for paths that end with `/`; one that begins with `/` is an internal redirect if last.
    pub index: Vec<Template>,
    /// Listing of folders.
    pub listing: Option<Listing>,
    /// Media types by extension.
    pub types: Arc<MimeTypes>,
    /// For other extensions.
    pub default_type: String,
    /// Charset appended to text types; `None`: none.
    pub charset: Option<String>,
    /// Media types that get the charset.
    pub charset_types: Arc<Vec<String>>,
    /// Send `ETag`.
    pub etag: bool,
    /// How If-Modified-Since is compared.
    pub if_modified_since: IfModifiedSince,
    /// Most ranges in one answer; 0: ranges are off; `None`: no limit.
    pub max_ranges: Option<u32>,
    /// Serve `file.br`, `file.gz` and the like where they exist and are wanted (`gzip_static`); true: always.
    pub precompressed: Vec<(ContentCoding, bool)>,
    /// `sendfile` was asked for. Weir chooses by size; kept for `explain`.
    pub sendfile: bool,
    /// Symbolic links: refused altogether, or if their owner differs (`disable_symlinks`).
    pub symlinks: Symlinks,
    /// A folder is answered with one of its files, whichever (`random_index`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub random_index: bool,
    /// Videos may be begun in their middle (`mp4`, `flv`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub video: Option<weir_expr::settings::Video>,
    /// What requests may do to them (`dav_methods`); nothing without a method.
    #[serde(skip_serializing_if = "has_no_methods")]
    pub dav: Dav,
}

fn has_no_methods(dav: &Dav) -> bool {
    !dav.methods.any()
}

/// Media types by extension, lower case, without the dot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MimeTypes {
    /// Sorted by extension.
    pub by_extension: std::collections::BTreeMap<String, String>,
}

/// HTTP to a pool or to a computed address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proxy {
    /// To whom.
    pub target: ProxyTarget,
    /// TLS to endpoints, for `https`. An endpoint's own TLS comes before.
    pub tls: Option<UpstreamTls>,
    /// Host and port as named by the action (`$proxy_host`); empty for computed targets.
    pub host: String,
    /// The path sent.
    pub uri: UpstreamUri,
    /// Method sent, if another.
    pub method: Option<Template>,
    /// Version sent: true for HTTP/1.1.
    pub http_1_1: bool,
    /// HTTP/2 is spoken instead.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub http2: bool,
    /// What is asked and answered is gRPC: `te: trailers` is sent, and nothing is held back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub grpc: bool,
    /// `Connection: close` is asked for (HAProxy `http-server-close`, `httpclose`).
    pub announce_close: bool,
    /// Fields set, in order; they replace the client's of that name; an empty value omits the field.
    #[serde(serialize_with = "crate::redact::fields")]
    pub request_headers: Arc<Vec<(String, Template)>>,
    /// The client's other fields are passed.
    pub pass_request_headers: bool,
    /// The body is passed.
    pub pass_request_body: bool,
    /// Body sent instead of the client's.
    pub body: Option<Template>,
    /// Times, buffers, retries.
    pub settings: Arc<UpstreamSettings>,
    /// Response fields not passed (lower case), beyond those a gateway must drop.
    pub hide_headers: Arc<Vec<String>>,
    /// `Location` and `Refresh` rewrites, the first that matches.
    pub redirects: Arc<Vec<RedirectRewrite>>,
    /// `Set-Cookie` domain and path rewrites.
    pub cookie_rewrites: Arc<Vec<CookieRewrite>>,
    /// `X-Accel-*` fields are obeyed, but those named here (lower case).
    pub ignore_headers: Arc<Vec<String>>,
    /// Obey `X-Accel-Redirect` and its kin at all (nginx).
    pub accel: bool,
    /// Local address of upstream connections.
    pub bind: Option<Template>,
    /// `bind` may be an address of another machine (IP_TRANSPARENT).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub transparent: bool,
    /// The cache before it.
    pub cache: Option<Arc<Caching>>,
    /// Responses are kept as files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<Arc<StoreFiles>>,
}

/// Responses that are kept as files (`proxy_store`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StoreFiles {
    /// The file; `None`: the one that the request's path maps to.
    pub path: Option<Template>,
    /// Its rights, from which those of new folders follow.
    pub access: weir_expr::FileAccess,
}

/// A cache before an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caching {
    /// The zone.
    pub zone: CacheZoneUse,
    /// What one object has the same; `None`: the URL that is asked of the upstream.
    pub key: Option<Template>,
    /// The cache is not asked if one of these is neither empty nor `0`.
    pub bypass: Vec<Template>,
    /// An answer is not stored if one of these is neither empty nor `0`.
    pub no_store: Vec<Template>,
    /// A request removes what is stored under its key if one of these is neither empty nor `0`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub purge: Vec<Template>,
    /// The rest.
    pub settings: weir_expr::settings::CacheSettings,
}

/// The zone of a cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheZoneUse {
    /// Whichever this names; none, where it is empty or `off`.
    Computed(Template),
    /// By its name.
    #[serde(untagged)]
    Named(String),
}

/// To whom a proxy action speaks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProxyTarget {
    /// A pool by name.
    Pool(String),
    /// Computed: `scheme://host:port[/path]`; a pool of that name comes first, then an address, then the resolver.
    Computed(Template),
}

/// Path of the upstream request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamUri {
    /// As received, or the current path escaped again if a rewrite changed it.
    Pass,
    /// The part of the path that the route matched is replaced by this.
    Replace(String),
    /// This, variables and all (a computed target's own path counts as this).
    Template(Template),
}

/// A rewrite of `Location`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RedirectRewrite {
    /// What is looked for.
    pub from: TextMatch,
    /// What it becomes.
    pub to: Template,
}

/// Text to look for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextMatch {
    /// A prefix.
    Prefix(Template),
    /// A pattern.
    Regex(Pattern),
}

/// A rewrite of cookies.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CookieRewrite {
    /// `domain` or `path`.
    pub attribute: CookieAttribute,
    /// What is looked for.
    pub from: TextMatch,
    /// What it becomes.
    pub to: Template,
}

/// FastCGI, or one of its kin, to a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FastCgi {
    /// Which of them.
    pub spoken: Spoken,
    /// To whom.
    pub target: ProxyTarget,
    /// TLS to endpoints. An endpoint's own TLS comes before.
    pub tls: Option<UpstreamTls>,
    /// Local address of connections.
    pub bind: Option<Template>,
    /// `bind` may be an address of another machine (IP_TRANSPARENT).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub transparent: bool,
    /// The key that memcached is asked for.
    pub key: Option<Template>,
    /// Parameters in order; `if_not_empty` leaves empty ones out.
    pub params: Arc<Vec<FastCgiParam>>,
    /// Appended to paths that end with `/`.
    pub index: Option<String>,
    /// Splits the path into script and path info: groups 1 and 2.
    pub split_path_info: Option<Pattern>,
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
    /// Connections are kept (`fastcgi_keep_conn`).
    pub keep_connection: bool,
    /// Times, buffers, retries.
    pub settings: Arc<UpstreamSettings>,
    /// Response fields not passed.
    pub hide_headers: Arc<Vec<String>>,
    /// `X-Accel-*` fields not obeyed.
    pub ignore_headers: Arc<Vec<String>>,
    /// The cache before it.
    pub cache: Option<Arc<Caching>>,
    /// Responses are kept as files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<Arc<StoreFiles>>,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FastCgiParam {
    /// Name.
    pub name: String,
    /// Value.
    pub value: Template,
    /// Left out if empty.
    pub if_not_empty: bool,
}

/// HAProxy's statistics page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatsPage {
    /// Path prefix; other paths are not answered by the page (503 where nothing else would).
    pub uri: String,
    /// Do not name product and version.
    pub hide_version: bool,
    /// Realm of `users`.
    pub realm: String,
    /// Users; empty: open.
    #[serde(serialize_with = "crate::redact::users")]
    pub users: Vec<(String, String)>,
    /// Seconds between refreshes of the page.
    pub refresh: Option<u64>,
    /// Show endpoints' addresses, the description, the node's name.
    pub show_legends: bool,
    /// Description shown.
    pub description: Option<String>,
    /// Node name shown.
    pub node: Option<String>,
    /// Only these proxies are shown (`stats scope`); empty: all.
    pub scope: Vec<String>,
    /// When whoever asks may change the states of endpoints; `None`: never (`stats admin`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin: Option<crate::Condition>,
    /// Where it was written.
    #[serde(skip_serializing, default)]
    pub origin: Origin,
}
