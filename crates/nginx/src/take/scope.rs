//! Settings that inner blocks inherit.
//!
//! Owns: the fields, and nginx's two rules of inheritance: a plain setting holds until it is written again further
//! in; a list holds only where none of its words is written at the level itself.
//! Never: reports, or resolves a name.
//! Driven by: the entries of the table, then `build`, which reads a finished scope.
//! Why: groups are shared by `Arc` until one changes, since 100,000 locations are a normal size.

use std::sync::Arc;
use std::time::Duration;

use weir_diag::Span;
use weir_expr::FileAccess;
use weir_model::settings::{
    BodySettings, CacheSettings, CacheValid, ClientSettings, ClientVerify, CompressionSettings,
    ContentCoding, GzipProxied, LogLevel, Mirrors, OldBrowsers, Quic, TlsVersion, UpstreamSettings,
};
use weir_model::{
    Access, AccessLog, AccessRule, AcmeCertificate, BodyFilters, CacheZoneUse, CookieRewrite, Dav, ErrorLog,
    Expires, FastCgiParam, HeaderEdit, IfModifiedSince, LimitConn, LimitReq, Listing, ListingFormat,
    MimeTypes, Pem, RealIp, RealIpSource, RedirectRewrite, Resolver, StaticFiles, Symlinks, Template,
    Tracing, UpstreamTls, Who,
};

use super::acme_parts::Auto;
use super::fact_parts::FactParts;
use super::filter_parts::FilterParts;
pub(crate) use super::inherit::{Level, List};
use super::token_parts::TokenParts;
use crate::lexer::Word;

/// The most issuers between a certificate and its authority where nothing else is written.
pub(crate) const VERIFY_DEPTH: usize = 1;

/// How a list is inherited (`add_header_inherit`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Inheritance {
    /// As a whole, where none of its words is written.
    #[default]
    Usual,
    /// Not at all.
    Off,
    /// Behind the words that are written.
    Merge,
}

/// A list with a word about how it is inherited, which may be written before the list or behind it.
#[derive(Clone, Debug)]
pub(crate) struct Ruled<T> {
    list: List<T>,
    /// What was inherited, where the list is begun anew.
    outer: Arc<Vec<T>>,
    pub rule: Inheritance,
}

impl<T> Default for Ruled<T> {
    fn default() -> Self {
        Self { list: List::default(), outer: Arc::default(), rule: Inheritance::default() }
    }
}

impl<T: Clone> Ruled<T> {
    pub(crate) fn push(&mut self, level: Level, item: T) {
        if self.list.level() != level {
            self.outer = self.list.items().clone();
        }
        self.list.push(level, item);
    }

    /// Whether the rule changes what the level has.
    fn unsettled(&self, level: Level) -> bool {
        let begun = self.list.level() == level;
        match self.rule {
            Inheritance::Usual => false,
            Inheritance::Off => !begun && !self.list.items().is_empty(),
            Inheritance::Merge => begun && !self.outer.is_empty(),
        }
    }

    /// Applies the rule, once all words of the level were read.
    fn settle(&mut self, level: Level) {
        if !self.unsettled(level) {
            return;
        }
        match self.rule {
            Inheritance::Usual => {}
            Inheritance::Off => self.list.clear(level),
            Inheritance::Merge => {
                self.list.extend(self.outer.iter().cloned());
                self.outer = Arc::default();
            }
        }
    }

    pub(crate) fn items(&self) -> &Arc<Vec<T>> {
        self.list.items()
    }
}

/// An error page whose name is looked up once the server is known.
#[derive(Clone, Debug)]
pub(crate) struct ErrorPageSpec {
    pub statuses: Vec<u16>,
    pub answer: Option<Option<u16>>,
    pub target: String,
    pub span: Span,
}

/// What `limit_req` and `limit_conn` say beside the zone.
#[derive(Clone, Debug)]
pub(crate) struct LimitSettings {
    pub status: u16,
    pub log_level: LogLevel,
    pub dry_run: bool,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self { status: 503, log_level: LogLevel::Error, dry_run: false }
    }
}

/// Settings of a whole site that nginx lets stand further in as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SiteSettings {
    pub server_header: Option<String>,
    pub server_name_in_redirect: bool,
    pub port_in_redirect: bool,
    pub absolute_redirect: bool,
    pub http2: bool,
    pub http3: bool,
    pub quic: Quic,
}

impl Default for SiteSettings {
    fn default() -> Self {
        Self {
            server_header: Some(concat!("weir/", env!("CARGO_PKG_VERSION")).to_owned()),
            server_name_in_redirect: false,
            port_in_redirect: true,
            absolute_redirect: true,
            http2: false,
            http3: true,
            quic: Quic::default(),
        }
    }
}

/// One `proxy_redirect`.
#[derive(Clone, Debug)]
pub(crate) enum RedirectSpec {
    Default(Span),
    Rewrite(RedirectRewrite),
}

/// TLS towards upstreams.
#[derive(Clone, Debug, Default)]
pub(crate) struct UpstreamTlsScope {
    pub tls: UpstreamTls,
    pub certificate: Option<Word>,
    pub key: Option<Word>,
    pub passwords: Option<Pem>,
}

impl UpstreamTlsScope {
    /// nginx's defaults of `…_ssl_*`.
    pub(crate) fn of_upstream() -> Self {
        let tls = UpstreamTls { session_reuse: true, depth: Some(VERIFY_DEPTH), ..UpstreamTls::default() };
        Self { tls, ..Self::default() }
    }
}

/// Settings that every gateway has (`proxy_*`, `fastcgi_*`).
#[derive(Clone, Debug)]
pub(crate) struct GatewayScope {
    pub settings: Arc<UpstreamSettings>,
    pub hide: List<String>,
    pub pass: List<String>,
    pub ignore: List<String>,
    pub pass_request_headers: bool,
    pub pass_request_body: bool,
    pub cache: Arc<CacheScope>,
    /// `…_store`: where it was written, and the file if that is not the request's own.
    pub store: Option<(Span, Option<Template>)>,
    pub store_access: FileAccess,
}

/// Settings of `…_cache*`.
#[derive(Clone, Debug, Default)]
pub(crate) struct CacheScope {
    pub zone: Option<(CacheZoneUse, Span)>,
    pub key: Option<Template>,
    pub purge: List<Template>,
    pub bypass: List<Template>,
    pub no_store: List<Template>,
    pub valid: List<CacheValid>,
    pub settings: CacheSettings,
}

impl Default for GatewayScope {
    fn default() -> Self {
        Self {
            settings: Arc::default(),
            hide: List::default(),
            pass: List::default(),
            ignore: List::default(),
            pass_request_headers: true,
            pass_request_body: true,
            cache: Arc::default(),
            store: None,
            store_access: FileAccess(0o600),
        }
    }
}

impl GatewayScope {
    /// Times, buffers, retries, for a change.
    pub(crate) fn upstream(&mut self) -> &mut UpstreamSettings {
        Arc::make_mut(&mut self.settings)
    }

    /// The cache, for a change.
    pub(crate) fn cache(&mut self) -> &mut CacheScope {
        Arc::make_mut(&mut self.cache)
    }
}

/// Settings of `proxy_*`.
#[derive(Clone, Debug)]
pub(crate) struct ProxyScope {
    pub gateway: GatewayScope,
    pub headers: List<(String, Template)>,
    pub redirects: List<RedirectSpec>,
    /// `proxy_redirect off` was written at the level of `redirects`.
    pub redirects_off: bool,
    /// Of domains, of paths, of flags: each is inherited by itself.
    pub cookies: [List<CookieRewrite>; 3],
    pub http_1_1: bool,
    pub http2: bool,
    pub method: Option<Template>,
    pub body: Option<Template>,
    pub bind: Option<Template>,
    /// It may be another machine's.
    pub transparent: bool,
    pub tls: Arc<UpstreamTlsScope>,
}

impl Default for ProxyScope {
    fn default() -> Self {
        Self {
            gateway: GatewayScope::default(),
            headers: List::default(),
            redirects: List::default(),
            redirects_off: false,
            cookies: Default::default(),
            http_1_1: true,
            http2: false,
            method: None,
            body: None,
            bind: None,
            transparent: false,
            tls: Arc::new(UpstreamTlsScope::of_upstream()),
        }
    }
}

impl ProxyScope {
    /// nginx's defaults of `grpc_*`: nothing is held back.
    pub(crate) fn grpc() -> Self {
        let mut scope = Self { http2: true, ..Self::default() };
        let settings = scope.gateway.upstream();
        (settings.request_buffering, settings.buffering) = (false, false);
        scope
    }
}

/// Settings of `fastcgi_*`, `uwsgi_*`, `scgi_*` or `memcached_*`.
#[derive(Clone, Debug)]
pub(crate) struct FastCgiScope {
    pub gateway: GatewayScope,
    pub bind: Option<Template>,
    /// It may be another machine's.
    pub transparent: bool,
    pub tls: Arc<UpstreamTlsScope>,
    /// uwsgi's.
    pub modifiers: (u8, u8),
    /// Memcached's.
    pub gzip_flag: u32,
    pub params: List<FastCgiParam>,
    pub index: Option<String>,
    pub split: Option<weir_model::Pattern>,
    pub keep_connection: bool,
}

impl Default for FastCgiScope {
    fn default() -> Self {
        Self::with_folder("fastcgi")
    }
}

impl FastCgiScope {
    /// Nothing was said; answers are spooled in this folder of nginx's.
    pub(crate) fn with_folder(name: &str) -> Self {
        let temp_path = std::path::Path::new("/var/lib/nginx").join(name);
        let settings = UpstreamSettings { temp_path, ..UpstreamSettings::default() };
        Self {
            gateway: GatewayScope { settings: Arc::new(settings), ..GatewayScope::default() },
            bind: None,
            transparent: false,
            tls: Arc::new(UpstreamTlsScope::of_upstream()),
            modifiers: (0, 0),
            gzip_flag: 0,
            params: List::default(),
            index: None,
            split: None,
            keep_connection: false,
        }
    }
}

/// Settings of `ssl_*`.
#[derive(Clone, Debug)]
pub(crate) struct TlsScope {
    pub certificates: List<Word>,
    pub keys: List<Word>,
    /// `ssl_conf_command Certificate`, in place of those.
    pub own_certificate: Option<Word>,
    pub own_key: Option<Word>,
    pub versions: Option<Vec<TlsVersion>>,
    pub suites: Vec<String>,
    pub suites13: Vec<String>,
    pub curves: Vec<String>,
    pub verify: ClientVerify,
    pub verify_span: Option<Span>,
    /// A certificate or key was written that cannot be used, which was told.
    pub broken: bool,
    pub client_ca: Option<Pem>,
    pub trusted_ca: Option<Pem>,
    pub client_crl: Option<Pem>,
    pub passwords: Option<Pem>,
    pub prefer_server_order: bool,
    pub verify_depth: usize,
    pub reject: bool,
    pub tickets: bool,
    pub ticket_keys: List<Pem>,
    pub early_data: bool,
    pub stapling: bool,
    pub stapling_responder: Option<String>,
    pub stapling_verify: bool,
    pub compress_certificates: bool,
    pub staple: Option<Pem>,
    pub session_cache: usize,
    pub session_timeout: u64,
    pub record_size: Option<u64>,
    /// `auto_certificate`.
    pub auto: Option<Arc<Auto>>,
    /// What it comes to for the server.
    pub auto_issued: Option<AcmeCertificate>,
    /// What `$acme_certificate` is in the server.
    pub acme: Option<AcmeCertificate>,
}

impl Default for TlsScope {
    fn default() -> Self {
        Self {
            certificates: List::default(),
            keys: List::default(),
            own_certificate: None,
            own_key: None,
            versions: None,
            suites: Vec::new(),
            suites13: Vec::new(),
            curves: Vec::new(),
            verify: ClientVerify::Off,
            verify_span: None,
            broken: false,
            client_ca: None,
            trusted_ca: None,
            client_crl: None,
            passwords: None,
            prefer_server_order: false,
            verify_depth: VERIFY_DEPTH,
            reject: false,
            tickets: true,
            ticket_keys: List::default(),
            early_data: false,
            stapling: false,
            stapling_responder: None,
            stapling_verify: false,
            compress_certificates: false,
            staple: None,
            session_cache: 0,
            session_timeout: 300,
            record_size: None,
            auto: None,
            auto_issued: None,
            acme: None,
        }
    }
}

impl TlsScope {
    /// The files of certificates.
    pub(crate) fn certificates(&self) -> &[Word] {
        self.own_certificate.as_ref().map_or(self.certificates.items(), std::slice::from_ref)
    }

    /// Those of their keys.
    pub(crate) fn keys(&self) -> &[Word] {
        self.own_key.as_ref().map_or(self.keys.items(), std::slice::from_ref)
    }

    /// Certificates and keys as they were written.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&Word, &Word)> {
        self.certificates().iter().zip(self.keys())
    }
}

/// Settings of which several make one group of a location ([`Built`]).
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub error_logs: List<ErrorLog>,
    pub limit_req: List<LimitReq>,
    pub limit_req_settings: LimitSettings,
    pub limit_conn: List<LimitConn>,
    pub limit_conn_settings: LimitSettings,
    pub access_rules: List<AccessRule>,
    pub realm: Option<(Template, Span)>,
    pub user_file: Option<Template>,
    pub satisfy_any: bool,
    pub auth_delay: Duration,
    /// `auth_request`.
    pub ask: Option<String>,
    /// `auth_request_set`.
    pub ask_set: List<(String, Template)>,
    /// `auth_jwt` and its kin, `auth_require`.
    pub token: TokenParts,
    /// `mirror`.
    pub mirrors: List<String>,
    pub mirror_body: bool,
    /// `post_action`, and where it was written.
    pub post_action: Option<(String, Span)>,
    /// `mp4_max_buffer_size`, `mp4_start_key_frame`.
    pub mp4_most: u64,
    pub mp4_from_key_frame: bool,
    pub filters: FilterParts,
    pub facts: FactParts,
    pub real_ip_from: List<Who>,
    pub real_ip_source: RealIpSource,
    pub real_ip_recursive: bool,
    pub resolver: Option<Resolver>,
    pub resolver_timeout: Duration,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            error_logs: List::default(),
            limit_req: List::default(),
            limit_req_settings: LimitSettings::default(),
            limit_conn: List::default(),
            limit_conn_settings: LimitSettings::default(),
            access_rules: List::default(),
            realm: None,
            user_file: None,
            satisfy_any: false,
            auth_delay: Duration::ZERO,
            ask: None,
            ask_set: List::default(),
            token: TokenParts::default(),
            mirrors: List::default(),
            mirror_body: true,
            post_action: None,
            mp4_most: 10 << 20,
            mp4_from_key_frame: false,
            filters: FilterParts::default(),
            facts: FactParts::default(),
            real_ip_from: List::default(),
            real_ip_source: RealIpSource::Header("x-real-ip".into()),
            real_ip_recursive: false,
            resolver: None,
            resolver_timeout: Duration::from_secs(30),
        }
    }
}

/// What is computed from several settings, kept while none of them changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Built {
    pub access: Arc<Access>,
    pub limit_req: Arc<Vec<LimitReq>>,
    pub limit_conn: Arc<Vec<LimitConn>>,
    pub real_ip: Option<Arc<RealIp>>,
    pub mirrors: Option<Arc<Mirrors>>,
    pub filters: Option<Arc<BodyFilters>>,
    pub resolver: Option<Arc<Resolver>>,
    pub error_logs: Option<Arc<Vec<ErrorLog>>>,
}

impl Parts {
    fn build(&self) -> Built {
        let timeout = self.resolver_timeout;
        let logs = self.error_logs.items();
        Built {
            access: Arc::new(self.access()),
            limit_req: Arc::new(self.limit_req.items().iter().map(|l| self.req(l)).collect()),
            limit_conn: Arc::new(self.limit_conn.items().iter().map(|l| self.conn(l)).collect()),
            real_ip: (!self.real_ip_from.items().is_empty()).then(|| Arc::new(self.real_ip())),
            mirrors: (!self.mirrors.items().is_empty())
                .then(|| Arc::new(Mirrors { paths: self.mirrors.items().to_vec(), body: self.mirror_body })),
            filters: self.filters.build(),
            resolver: self.resolver.clone().map(|r| Arc::new(Resolver { timeout, again: timeout, ..r })),
            error_logs: (!logs.is_empty()).then(|| logs.clone()),
        }
    }

    fn access(&self) -> Access {
        let basic = match (&self.realm, &self.user_file) {
            (Some((realm, span)), Some(file)) => Some(weir_model::BasicAuth {
                realm: realm.clone(),
                users: weir_model::Users::File(file.clone()),
                origin: Some(*span),
            }),
            _ => None,
        };
        let ask = self
            .ask
            .as_ref()
            .map(|path| weir_model::AuthRequest { path: path.clone(), set: self.ask_set.items().to_vec() });
        Access {
            rules: self.access_rules.items().to_vec(),
            basic,
            ask,
            token: self.token.build(),
            require: self.token.always.items().to_vec(),
            any: self.satisfy_any,
            delay: self.auth_delay,
        }
    }

    fn req(&self, limit: &LimitReq) -> LimitReq {
        let LimitSettings { status, log_level, dry_run } = self.limit_req_settings;
        LimitReq { status, log_level, dry_run, ..limit.clone() }
    }

    fn conn(&self, limit: &LimitConn) -> LimitConn {
        let LimitSettings { status, log_level, dry_run } = self.limit_conn_settings;
        LimitConn { status, log_level, dry_run, ..limit.clone() }
    }

    fn real_ip(&self) -> RealIp {
        RealIp {
            from: self.real_ip_from.items().to_vec(),
            source: self.real_ip_source.clone(),
            recursive: self.real_ip_recursive,
        }
    }
}

/// nginx's defaults of words about clients.
fn client_settings() -> ClientSettings {
    let old_browsers = OldBrowsers { msie_posts_close: true, pads_errors: true, ..OldBrowsers::default() };
    ClientSettings { old_browsers, ..ClientSettings::default() }
}

/// Everything that a location inherits.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub level: Level,
    pub client: Arc<ClientSettings>,
    pub body: Arc<BodySettings>,
    pub files: Arc<StaticFiles>,
    pub index_level: Level,
    pub types_level: Level,
    /// Parts of the listing, inherited even while it is off.
    pub listing: Listing,
    /// `ssl on` was written: all listeners of the server speak TLS.
    pub ssl_on: bool,
    pub site: Arc<SiteSettings>,
    pub error_pages: List<ErrorPageSpec>,
    pub recursive_error_pages: bool,
    pub add_headers: Ruled<HeaderEdit>,
    /// `more_set_headers` and its kin: outer levels first, then inner ones.
    pub more_headers: Arc<Vec<HeaderEdit>>,
    pub more_input_headers: Arc<Vec<HeaderEdit>>,
    pub expires: Option<Arc<Expires>>,
    pub gzip_on: bool,
    pub gzip: Arc<CompressionSettings>,
    pub brotli_on: bool,
    pub brotli: Arc<CompressionSettings>,
    pub zstd_on: bool,
    pub zstd: Arc<CompressionSettings>,
    pub gunzip: bool,
    pub access_logs: List<AccessLog>,
    pub log_not_found: bool,
    pub limit_rate: Option<u64>,
    pub limit_rate_template: Option<Template>,
    pub limit_rate_after: u64,
    pub slice: u64,
    /// `status_zone` of a location.
    pub zone: Option<Arc<str>>,
    pub chunked: bool,
    pub early_hints: List<Template>,
    pub tracing: Option<Arc<Tracing>>,
    pub otel_attributes: List<(String, Template)>,
    pub proxy: Arc<ProxyScope>,
    pub grpc: Arc<ProxyScope>,
    pub fastcgi: Arc<FastCgiScope>,
    pub uwsgi: Arc<FastCgiScope>,
    pub scgi: Arc<FastCgiScope>,
    pub memcached: Arc<FastCgiScope>,
    pub tls: Arc<TlsScope>,
    pub parts: Arc<Parts>,
    pub built: Built,
    /// The parts that `built` was made of.
    pub built_of: Option<Arc<Parts>>,
}

impl Scope {
    /// The scope of a block inside this one's.
    pub(crate) fn child(&self, level: Level) -> Self {
        Self { level, ..self.clone() }
    }

    /// The parts of finished groups, for a change.
    pub(crate) fn parts(&mut self) -> &mut Parts {
        Arc::make_mut(&mut self.parts)
    }

    /// Computes what depends on several settings; to be called once all words of the level were read. Parts that
    /// nothing changed since are those that `built` was made of: whoever changes them gets a copy of their own.
    pub(crate) fn finish(&mut self) {
        self.add_headers.settle(self.level);
        if self.parts.filters.trailers.unsettled(self.level) {
            let level = self.level;
            self.parts().filters.trailers.settle(level);
        }
        if self.built_of.as_ref().is_some_and(|of| Arc::ptr_eq(of, &self.parts)) {
            return;
        }
        self.built = self.parts.build();
        self.built_of = Some(self.parts.clone());
    }

    /// The outermost scope: nginx's defaults, with files under `root`.
    pub(crate) fn defaults(root: &str, access_log: AccessLog) -> Self {
        let mut access_logs = List::default();
        access_logs.push(Level::default(), access_log);
        Self {
            level: Level::default(),
            client: Arc::new(client_settings()),
            body: Arc::default(),
            files: Arc::new(file_defaults(root)),
            index_level: Level::default(),
            types_level: Level::default(),
            listing: Listing { format: ListingFormat::Html, exact_size: true, local_time: false },
            ssl_on: false,
            site: Arc::default(),
            error_pages: List::default(),
            recursive_error_pages: false,
            add_headers: Ruled::default(),
            more_headers: Arc::default(),
            more_input_headers: Arc::default(),
            expires: None,
            gzip_on: false,
            gzip: Arc::new(default_gzip()),
            brotli_on: false,
            brotli: Arc::new(default_of_module(ContentCoding::Brotli, 6)),
            zstd_on: false,
            zstd: Arc::new(default_of_module(ContentCoding::Zstandard, 1)),
            gunzip: false,
            access_logs,
            log_not_found: true,
            limit_rate: None,
            limit_rate_template: None,
            limit_rate_after: 0,
            slice: 0,
            zone: None,
            chunked: true,
            early_hints: List::default(),
            tracing: None,
            otel_attributes: List::default(),
            proxy: Arc::default(),
            grpc: Arc::new(ProxyScope::grpc()),
            fastcgi: Arc::default(),
            uwsgi: Arc::new(FastCgiScope::with_folder("uwsgi")),
            scgi: Arc::new(FastCgiScope::with_folder("scgi")),
            memcached: Arc::default(),
            tls: Arc::default(),
            parts: Arc::default(),
            built: Built::default(),
            built_of: None,
        }
    }
}

/// nginx's defaults of `gzip_*`.
fn default_gzip() -> CompressionSettings {
    CompressionSettings {
        coding: ContentCoding::Gzip,
        level: 1,
        window: 0,
        min_length: 20,
        types: vec!["text/html".into()],
        vary: false,
        http_1_0: false,
        proxied: Vec::new(),
        disable: Vec::new(),
    }
}

/// Defaults of the modules of other codings, which ask for no version and no proxy.
fn default_of_module(coding: ContentCoding, level: u8) -> CompressionSettings {
    CompressionSettings {
        coding,
        level,
        window: 19,
        http_1_0: true,
        proxied: vec![GzipProxied::Any],
        ..default_gzip()
    }
}

/// nginx's defaults about files.
fn file_defaults(root: &str) -> StaticFiles {
    let types = [("html", "text/html"), ("gif", "image/gif"), ("jpg", "image/jpeg")];
    let by_extension = types.map(|(extension, media)| (extension.to_owned(), media.to_owned())).into();
    StaticFiles {
        root: Template::literal(root),
        alias: false,
        index: vec![Template::literal("index.html")],
        listing: None,
        types: Arc::new(MimeTypes { by_extension }),
        default_type: "text/plain".into(),
        charset: None,
        charset_types: Arc::new(default_charset_types()),
        etag: true,
        if_modified_since: IfModifiedSince::Exact,
        max_ranges: None,
        precompressed: Vec::new(),
        sendfile: false,
        symlinks: Symlinks::Follow,
        random_index: false,
        video: None,
        dav: Dav::default(),
    }
}

/// Media types that get a charset.
pub(super) fn default_charset_types() -> Vec<String> {
    [
        "text/html",
        "text/xml",
        "text/plain",
        "text/vnd.wap.wml",
        "application/javascript",
        "application/rss+xml",
    ]
    .map(String::from)
    .to_vec()
}
