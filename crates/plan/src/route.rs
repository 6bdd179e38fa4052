//! Routes: what is done with the requests of a path.

use std::num::NonZeroU64;
use std::sync::Arc;

use serde::Serialize;
use weir_expr::settings::{BodySettings, ClientSettings, CompressionSettings, Mirrors};

use crate::{
    Access, AccessLog, Action, BodyFilters, ErrorLog, Facts, HeaderEdit, LimitConn, LimitReq, PathIndex,
    Pattern, Program, RealIp, Resolver, RouteFeatures, RouteIx, StaticFiles, Template,
};

/// A route. What many routes have in common is behind [`Route::settings`] and shared.
#[derive(Clone, Debug, Serialize)]
pub struct Route {
    /// For people: `/images/`, `~ \.php$`, `@fallback`, a backend's name.
    pub name: Arc<str>,
    /// The pool that answers of our own count for, where no endpoint was asked (HAProxy: its backend).
    pub counts_for: Option<crate::PoolId>,
    /// What there is to do besides the action, in one word.
    #[serde(serialize_with = "crate::show::debug")]
    pub features: RouteFeatures,
    /// Only internal redirects reach it; others get 404.
    pub internal: bool,
    /// The matched prefix or exact text, `/` if there is none: what `alias` and upstream URIs replace, and what a
    /// missing slash is redirected to.
    #[serde(serialize_with = "crate::show::bytes")]
    pub prefix: Arc<[u8]>,
    /// Routes tried inside this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children: Option<Box<PathIndex>>,
    /// Runs once the route is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<Arc<Program>>,
    /// Candidates tried before the action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub try_files: Option<Arc<TryFiles>>,
    /// Files under this route.
    pub files: Arc<StaticFiles>,
    /// Runs on every response of an endpoint, before the edits of responses.
    pub response_program: Option<Arc<Program>>,
    /// What answers.
    pub action: Action,
    /// The rest.
    pub settings: Arc<RouteSettings>,
}

crate::identity::identified! {
    /// Settings that routes inherit and share.
    #[derive(Clone, Debug, Default, Serialize)]
    pub struct RouteSettings {
        /// Request-rate limits, checked in order before access.
        pub limit_req: Arc<[LimitReq]>,
        /// Concurrency limits.
        pub limit_conn: Arc<[LimitConn]>,
        /// Who may pass.
        pub access: Arc<Access>,
        /// Client addresses taken from trusted proxies.
        pub real_ip: Option<Arc<RealIp>>,
        /// Routes that get a copy of each request.
        pub mirrors: Option<Arc<Mirrors>>,
        /// What is requested of the same site once a request has ended.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub afterwards: Option<Afterwards>,
        /// Pages for statuses.
        pub error_pages: Arc<ErrorPages>,
        /// Nested error pages are followed.
        pub recursive_error_pages: bool,
        /// Edits of every response of this route, in order.
        pub response_edits: Arc<[HeaderEdit]>,
        /// Edits of every request of this route, in order.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        pub request_edits: Arc<[HeaderEdit]>,
        /// `Expires` and `Cache-Control: max-age`.
        pub expires: Option<Arc<Expires>>,
        /// Compression, by what is preferred first.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        pub compression: Box<[Arc<Compression>]>,
        /// Other filters of bodies.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub filters: Option<Arc<BodyFilters>>,
        /// Settings of variables that judge a request.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub facts: Option<Arc<Facts>>,
        /// Access logs.
        pub access_logs: Arc<[AccessLog]>,
        /// Error logs; the process's if the route names none.
        pub error_logs: Arc<[ErrorLog]>,
        /// Write "file not found" to the error log.
        pub log_not_found: bool,
        /// How request bodies are taken.
        pub body: Arc<BodySettings>,
        /// Client settings that hold once the route is known.
        pub client: Arc<ClientSettings>,
        /// Bytes a second to the client; `None`: no limit.
        pub limit_rate: Option<u64>,
        /// Bytes sent before the rate limit holds.
        pub limit_rate_after: u64,
        /// Bytes of the slices in which responses are asked for of upstreams; `None`: they are asked for whole.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub slice: Option<NonZeroU64>,
        /// Answers of unknown length may be chunked.
        pub chunked: bool,
        /// 103 responses of endpoints are passed on if one of these is neither empty nor `0`; without any, always.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        pub early_hints: Box<[Template]>,
        /// Its requests are traced.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tracing: Option<Box<Tracing>>,
        /// Name servers; the plan's if the route names none.
        pub resolver: Option<Arc<Resolver>>,
        /// Its requests are counted in this zone, too.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub zone: Option<weir_control::ZoneId>,
    }
}

/// How the requests of a route are traced.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Tracing {
    /// A request is sampled if this is `on` or `1`; `None`: none is.
    pub when: Option<Template>,
    /// What becomes of the context that requests bring.
    pub context: weir_expr::settings::TraceContext,
    /// The name of spans; `None`: the route's.
    pub name: Option<Template>,
    /// Attributes of spans.
    pub attributes: Box<[(Box<str>, Template)]>,
}

/// What is requested once a request has ended. Nobody gets the response.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Afterwards {
    /// A path.
    Path(Box<str>),
    /// A named route, for the path of the request.
    Named(RouteIx),
}

/// Candidates tried in order; the first that exists is served by the action, else the last is done.
#[derive(Clone, Debug, Serialize)]
pub struct TryFiles {
    /// Paths relative to the root; `true`: it ends with `/` and names a folder.
    pub candidates: Box<[(Template, bool)]>,
    /// If none exists.
    pub last: TryLast,
}

/// The last word of `try_files`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TryLast {
    /// Internal redirect.
    Uri(Template),
    /// Named route.
    Named(RouteIx),
    /// Status code.
    Status(u16),
}

/// Error pages by status.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ErrorPages {
    /// `(status, index into pages)`, sorted.
    by_status: Box<[(u16, u16)]>,
    pages: Box<[ErrorPage]>,
}

impl ErrorPages {
    /// Indexes pages with their statuses; of several for one status the first stands.
    pub fn new(pages: Vec<(Vec<u16>, ErrorPage)>) -> Self {
        let mut by_status = Vec::new();
        for (at, (statuses, _)) in (0u16..).zip(&pages) {
            by_status.extend(statuses.iter().map(|&status| (status, at)));
        }
        by_status.sort_unstable();
        by_status.dedup_by_key(|entry| entry.0);
        Self { by_status: by_status.into(), pages: pages.into_iter().map(|entry| entry.1).collect() }
    }

    /// The page for a status.
    #[inline]
    pub fn find(&self, status: u16) -> Option<&ErrorPage> {
        if self.by_status.is_empty() {
            return None;
        }
        let at = self.by_status.binary_search_by_key(&status, |entry| entry.0).ok()?;
        self.pages.get(usize::from(self.by_status[at].1))
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.by_status.is_empty()
    }
}

/// A page.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorPage {
    /// Status to answer with: `None` keeps, `Some(None)` takes that of the page (`=`), `Some(Some(n))` is `=n`.
    pub answer: Option<Option<u16>>,
    /// Where the page is.
    pub target: ErrorTarget,
}

/// Where an error page is.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorTarget {
    /// Internal redirect to a path, as GET.
    Uri(Template),
    /// Named route; method and path stay.
    Named(RouteIx),
    /// Redirect of the client (302 unless `answer` is another redirect).
    Redirect(Template),
    /// A complete HTTP response, read at load.
    Whole(Arc<crate::Respond>),
}

/// `expires`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Expires {
    /// From now, in seconds; negative: `no-cache`.
    After(i64),
    /// From the file's modification, in seconds.
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

/// Compression of answers.
#[derive(Clone, Debug, Serialize)]
pub struct Compression {
    /// As configured.
    pub settings: Arc<CompressionSettings>,
    /// Media types in lower case, sorted.
    types: Box<[Box<str>]>,
    any_type: bool,
    /// User-Agents for which nothing is compressed.
    pub disable: Box<[Arc<Pattern>]>,
}

/// The rest is made of the settings.
impl PartialEq for Compression {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings
    }
}

impl Eq for Compression {}

impl std::hash::Hash for Compression {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.settings.hash(state);
    }
}

impl Compression {
    /// Prepares settings; `disable` are their patterns, compiled.
    pub fn new(settings: Arc<CompressionSettings>, disable: Vec<Arc<Pattern>>) -> Self {
        let any_type = settings.types.iter().any(|media_type| media_type == "*");
        let mut types: Vec<Box<str>> = settings.types.iter().map(|t| t.to_ascii_lowercase().into()).collect();
        types.sort_unstable();
        Self { settings, types: types.into(), any_type, disable: disable.into() }
    }

    /// True if answers of this Content-Type are compressed; parameters are not looked at.
    pub fn takes(&self, content_type: &str) -> bool {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        self.any_type || self.types.iter().any(|known| known.eq_ignore_ascii_case(essence))
    }
}
