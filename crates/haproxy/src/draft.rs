//! Sections taken in, before they become a model.
//!
//! Owns: what each section says once its words are understood, `defaults` already handed down.
//! Never: refers to the model; names are still names, conditions still words.
//! Driven by: `take` fills it, `build` reads it.
//! Why: a `defaults` may stand anywhere and speaks to later sections only, ACLs and rules may name what comes later;
//! so lines are taken in first, and made into a model when all are known.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use weir_diag::Span;
use weir_expr::settings::{
    AcmeChallenge, AcmeProfile, KeyKind, LogPool, LogRing, LogSample, MemoryCache, NameHolds, Paces,
    PeerForm, SyslogForm,
};

use weir_expr::StickTableConfig;

use crate::read::{Line, Word};

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct At<T> {
    /// The value.
    pub(crate) value: T,
    /// Where.
    pub(crate) span: Span,
}

impl<T> At<T> {
    /// A value written here.
    pub(crate) fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }
}

/// The configuration, taken in.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// All `global` sections together.
    pub(crate) global: Global,
    /// Frontends, backends and listens, in order.
    pub(crate) proxies: Vec<Proxy>,
    /// Sections of users by name.
    pub(crate) userlists: BTreeMap<String, Userlist>,
    /// Sections of name servers by name.
    pub(crate) resolvers: BTreeMap<String, Resolvers>,
    pub(crate) peers: Vec<Peers>,
    /// `fcgi-app` sections, in order.
    pub(crate) applications: Vec<Application>,
    /// `acme` sections, in order.
    pub(crate) issuers: Vec<Issuer>,
    /// Certificates of all `crt-store` sections, in order.
    pub(crate) stored: Vec<StoredCertificate>,
    /// Sections of error pages by name.
    pub(crate) http_errors: BTreeMap<String, BTreeMap<u16, ErrorAnswer>>,
    /// Caches, in order.
    pub(crate) caches: Vec<MemoryCache>,
    pub(crate) log_rings: Vec<LogRing>,
    /// Backends in `mode log`.
    pub(crate) log_pools: Vec<LogPool>,
}

/// `global`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Global {
    pub(crate) maxconn: Option<At<u64>>,
    pub(crate) paces: Paces,
    /// `localpeer`.
    pub(crate) local_peer: Option<String>,
    pub(crate) ulimit: Option<At<u64>>,
    pub(crate) nbthread: Option<At<u64>>,
    pub(crate) user: Option<At<String>>,
    pub(crate) group: Option<At<String>>,
    pub(crate) master_worker: bool,
    pub(crate) chroot: Option<PathBuf>,
    pub(crate) daemon: bool,
    pub(crate) pidfile: Option<PathBuf>,
    pub(crate) logs: Vec<LogTarget>,
    pub(crate) log_tag: Option<String>,
    pub(crate) send_hostname: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) node: Option<String>,
    pub(crate) hard_stop_after: Option<Duration>,
    pub(crate) ca_base: Option<PathBuf>,
    pub(crate) crt_base: Option<PathBuf>,
    pub(crate) key_base: Option<PathBuf>,
    /// `server-state-base`.
    pub(crate) state_base: Option<String>,
    /// `server-state-file`.
    pub(crate) state_file: Option<String>,
    /// `ssl-default-…` lines by keyword; the last counts.
    pub(crate) ssl_defaults: BTreeMap<String, Line>,
    /// `ssl-server-verify none`.
    pub(crate) no_server_verify: bool,
    /// Relative paths start here (`default-path origin`).
    pub(crate) base: Option<PathBuf>,
    /// Relative paths start beside the configuration (`default-path config`), written here.
    pub(crate) base_is_config: Option<Span>,
    /// `httpclient.ssl.ca-file`, `httpclient.ssl.verify`.
    pub(crate) client_ca: Option<Word>,
    pub(crate) client_verifies: Option<bool>,
    /// `unix-bind` words.
    pub(crate) unix_bind: Vec<Word>,
    /// `stats socket` lines.
    pub(crate) stats_sockets: Vec<Line>,
    pub(crate) stats_timeout: Option<Duration>,
    pub(crate) stats_maxconn: Option<u64>,
    /// `set-var` and `set-var-fmt`, in order.
    pub(crate) variables: Vec<Line>,
}

/// One target of `log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogTarget {
    pub(crate) form: Option<SyslogForm>,
    /// The form is `local`: the host is named only if `log-send-hostname` says so.
    pub(crate) local: bool,
    pub(crate) address: Word,
    pub(crate) max_length: usize,
    pub(crate) sample: Option<LogSample>,
    pub(crate) facility: String,
    /// Index into syslog's severities: 0 `emerg` to 7 `debug`.
    pub(crate) level: u8,
    pub(crate) min_level: u8,
}

/// Where a proxy's lines go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Logs {
    /// `log global`.
    pub(crate) global: bool,
    /// Its own.
    pub(crate) own: Vec<LogTarget>,
}

/// What a proxy's lines look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// `option tcplog`.
    Tcp,
    /// `option httplog`.
    Http,
    /// `option httplog clf`.
    Clf,
    /// `option httpslog`.
    Https,
    /// `log-format`.
    Custom(Word),
}

/// `mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Bytes.
    Tcp,
    /// Requests.
    Http,
}

/// What becomes of connections after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Connection {
    /// Kept on both sides.
    Keep,
    /// Closed towards servers.
    ServerClose,
    /// Closed on both sides.
    Close,
}

/// `option forwardfor` and `option originalto`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddressHeader {
    pub(crate) name: String,
    pub(crate) except: Option<Word>,
    pub(crate) if_none: bool,
}

/// An answer for a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ErrorAnswer {
    /// A complete response in a file.
    File(PathBuf),
    /// A redirect to a place, with a status.
    Redirect(String, u16),
}

/// The statistics page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    pub(crate) enabled: Option<Span>,
    pub(crate) uri: Option<String>,
    pub(crate) realm: Option<String>,
    pub(crate) users: Vec<(String, String)>,
    pub(crate) hide_version: bool,
    pub(crate) refresh: Option<u64>,
    pub(crate) scope: Vec<String>,
    pub(crate) show_legends: bool,
    pub(crate) description: Option<String>,
    pub(crate) node: Option<String>,
    /// `stats admin`: its condition.
    pub(crate) admin: Vec<Word>,
}

/// `compression …`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compression {
    pub(crate) gzip: bool,
    pub(crate) types: Vec<String>,
    pub(crate) min_size: u64,
}

/// Which kind of health check was asked for last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// `option httpchk` with its words.
    Http(Vec<Word>),
    /// `option tcp-check`.
    Tcp,
    /// One of a particular protocol, with its words.
    Known(&'static str, Vec<Word>),
}

/// What `defaults` hands down to later proxies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) mode: Option<At<Mode>>,
    /// `mode log`.
    pub(crate) carries_logs: bool,
    /// By the word after `timeout`.
    pub(crate) timeouts: BTreeMap<&'static str, At<Duration>>,
    pub(crate) maxconn: Option<u64>,
    pub(crate) session_rate: Option<u32>,
    pub(crate) min_send_rate: Option<u64>,
    pub(crate) min_body_rate: Option<u64>,
    pub(crate) fullconn: Option<u64>,
    pub(crate) backlog: Option<u32>,
    /// `tcp-request inspect-delay`.
    pub(crate) inspect: Option<Duration>,
    /// `log-format-sd`.
    pub(crate) log_format_sd: Option<Word>,
    /// `dynamic-cookie-key`.
    pub(crate) cookie_key: Option<String>,
    /// `load-server-state-from-file`.
    pub(crate) states: Option<(StatesFrom, Span)>,
    /// `server-state-file-name`; empty: the backend's own name.
    pub(crate) state_file: Option<String>,
    /// `tcp-response inspect-delay`.
    pub(crate) inspect_answer: Option<Duration>,
    pub(crate) retries: Option<u64>,
    pub(crate) retry_on: Vec<Word>,
    /// `option redispatch`, with its interval.
    pub(crate) redispatch: Option<i32>,
    pub(crate) connection: Option<Connection>,
    pub(crate) logs: Logs,
    pub(crate) log_format: Option<At<LogFormat>>,
    pub(crate) log_tag: Option<String>,
    pub(crate) forwardfor: Option<AddressHeader>,
    pub(crate) originalto: Option<AddressHeader>,
    pub(crate) forwarded: bool,
    pub(crate) balance: Option<Line>,
    pub(crate) hash_type: Option<Line>,
    pub(crate) hash_balance: Option<Word>,
    pub(crate) check: Option<Check>,
    pub(crate) http_check: Vec<Line>,
    pub(crate) tcp_check: Vec<Line>,
    pub(crate) cookie: Option<Line>,
    pub(crate) default_backend: Option<Word>,
    pub(crate) errors: BTreeMap<u16, ErrorAnswer>,
    pub(crate) errorfiles: Vec<Line>,
    pub(crate) monitor_uri: Option<String>,
    pub(crate) stats: Stats,
    pub(crate) default_server: Vec<Line>,
    pub(crate) compression: Compression,
    /// `filter bwlim-in` and `bwlim-out`, and whether they limit anything here.
    pub(crate) bandwidth: Vec<(Line, bool)>,
    pub(crate) http_reuse: Option<At<String>>,
    pub(crate) source: Option<Line>,
    pub(crate) unique_id_header: Option<Word>,
    /// The field that tells servers their name.
    pub(crate) name_header: Option<String>,
    /// `use-fcgi-app`.
    pub(crate) application: Option<Word>,
    pub(crate) unique_id_format: Option<Word>,
    pub(crate) disabled: bool,
    /// Options that are only on or off, by name.
    pub(crate) flags: BTreeMap<String, bool>,
    pub(crate) acls: Vec<Line>,
    pub(crate) rules: Vec<Rule>,
}

impl Settings {
    /// An option that is only on or off.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.flags.get(name).copied().unwrap_or(false)
    }

    /// A time.
    pub(crate) fn timeout(&self, name: &str) -> Option<Duration> {
        self.timeouts.get(name).map(|time| time.value)
    }
}

/// What a proxy section is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyKind {
    /// `defaults`.
    Defaults,
    /// `frontend`.
    Frontend,
    /// `backend`.
    Backend,
    /// `listen`.
    Listen,
}

impl ProxyKind {
    /// It takes connections in.
    pub(crate) fn is_frontend(self) -> bool {
        matches!(self, ProxyKind::Frontend | ProxyKind::Listen)
    }

    /// It sends them on.
    pub(crate) fn is_backend(self) -> bool {
        matches!(self, ProxyKind::Backend | ProxyKind::Listen)
    }

    /// The word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ProxyKind::Defaults => "defaults",
            ProxyKind::Frontend => "frontend",
            ProxyKind::Backend => "backend",
            ProxyKind::Listen => "listen",
        }
    }
}

/// A `defaults`, `frontend`, `backend` or `listen` section.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    pub(crate) kind: ProxyKind,
    pub(crate) name: Word,
    pub(crate) settings: Settings,
    /// `bind` lines; for the old form, one made of the section's own line.
    pub(crate) binds: Vec<Line>,
    pub(crate) servers: Vec<ServerLine>,
    pub(crate) description: Option<String>,
    /// `id`.
    pub(crate) number: Option<u32>,
    /// Request and response fields kept for the log, in order.
    pub(crate) captures: Vec<Line>,
    /// A filter that only names what is built otherwise was seen.
    pub(crate) dispatch: Option<Word>,
    pub(crate) stick_table: Option<StickTableConfig>,
    /// How it is shared.
    pub(crate) stick_peers: Option<SharedTable>,
    /// `stick …` rules, in order.
    pub(crate) stick_rules: Vec<Line>,
    /// `use-server` rules, in order.
    pub(crate) server_rules: Vec<Line>,
    /// `force-persist` and `ignore-persist`, in order.
    pub(crate) persistence: Vec<Line>,
}

/// A `server` line with the `default-server` lines that hold for it.
#[derive(Clone, Debug)]
pub(crate) struct ServerLine {
    pub(crate) line: Line,
    pub(crate) defaults: Vec<Line>,
    /// From `server-template`: how many, and the address is the fourth word.
    pub(crate) template: Option<u32>,
}

impl ServerLine {
    /// The last value of a parameter, in the line or in the defaults that hold for it.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let value = |line: &'_ Line, from: usize| {
            let at = line.from(from).iter().rposition(|word| word.text == name)?;
            Some(from + at + 1)
        };
        match value(&self.line, 3) {
            Some(at) => Some(self.line.text(at)),
            None => self.defaults.iter().rev().find_map(|line| value(line, 1).map(|at| line.text(at))),
        }
    }

    /// Requests are sent to it by HTTP/2, without asking.
    pub(crate) fn speaks_http2(&self) -> bool {
        self.parameter("proto") == Some("h2")
    }

    /// Whether a server of this line has the name.
    pub(crate) fn names(&self, name: &str) -> bool {
        let written = self.line.text(1);
        match self.template {
            None => written == name,
            Some(_) => name.strip_prefix(written).is_some_and(|number| number.parse::<u32>().is_ok()),
        }
    }
}

/// Lists of rules of a proxy, in the order they are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleList {
    TcpConnection,
    TcpContent,
    TcpAnswer,
    Block,
    HttpRequest,
    StatsRequest,
    Redirect,
    UseBackend,
    HttpResponse,
    HttpAfterResponse,
    MonitorFail,
}

/// Where servers' states are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatesFrom {
    /// Nowhere.
    None,
    /// The file of all backends.
    Global,
    /// A file of the backend's own.
    Local,
}

/// One rule: its list, and its line. Where the action begins, differs by list; see `build::rules`.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) list: RuleList,
    pub(crate) line: Line,
    /// Index of the first word of the action (`http-request deny …`: 1).
    pub(crate) from: usize,
}

/// What a table's own line says of sharing it.
#[derive(Clone, Debug)]
pub(crate) struct SharedTable {
    /// The `peers` section.
    pub(crate) section: Word,
    pub(crate) form: PeerForm,
    pub(crate) receive_only: bool,
    /// The table that is written, too.
    pub(crate) also_in: Option<Word>,
}

/// `peers`.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    pub(crate) name: Word,
    /// Names and addresses of `peer` and `server` lines.
    pub(crate) members: Vec<(Word, Option<Word>)>,
    /// The address of a `bind` line.
    pub(crate) bind: Option<Word>,
    /// Tables of its own: name, definition, and their form among peers.
    pub(crate) tables: Vec<(Word, StickTableConfig, PeerForm)>,
    pub(crate) disabled: bool,
}

/// `fcgi-app`.
#[derive(Clone, Debug)]
pub(crate) struct Application {
    /// Its name and its ACLs: what formats and conditions of the section are read in.
    pub(crate) scope: Proxy,
    pub(crate) docroot: Option<Word>,
    pub(crate) index: Option<Word>,
    pub(crate) path_info: Option<Word>,
    /// `set-param` lines.
    pub(crate) params: Vec<Line>,
    /// `pass-header` lines.
    pub(crate) passes: Vec<Line>,
    /// `option keep-conn`.
    pub(crate) keeps: bool,
    /// `log-stderr`.
    pub(crate) tells: bool,
    /// Its targets, but for `global`.
    pub(crate) logs: Vec<LogTarget>,
}

/// `acme`.
#[derive(Clone, Debug)]
pub(crate) struct Issuer {
    pub(crate) name: String,
    pub(crate) span: Span,
    pub(crate) directory: String,
    pub(crate) contact: Vec<String>,
    pub(crate) challenge: AcmeChallenge,
    pub(crate) profile: Option<AcmeProfile>,
    /// Where all of it is kept.
    pub(crate) state: Option<PathBuf>,
    /// The kind of keys, of the account and of certificates.
    pub(crate) key: KeyKind,
    /// Where the key of the account is, if there is one.
    pub(crate) account_key: Option<Word>,
}

/// `load` in a `crt-store`.
#[derive(Clone, Debug)]
pub(crate) struct StoredCertificate {
    /// The name of its store; empty: the one without a name.
    pub(crate) store: String,
    /// What it is called there, after a `/`.
    pub(crate) alias: Option<Word>,
    pub(crate) chain: Word,
    pub(crate) key: Option<Word>,
    /// An OCSP response (DER).
    pub(crate) ocsp: Option<Word>,
    /// Who issues it (`acme`), and for which names (`domains`).
    pub(crate) issued: Option<(Word, Option<Word>)>,
    /// Where relative chains and keys start, if the store says so itself.
    pub(crate) bases: (Option<PathBuf>, Option<PathBuf>),
}

/// `userlist`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Userlist {
    /// Name, password, whether it is a crypt(3) text, groups.
    pub(crate) users: Vec<(String, String, bool, Vec<String>)>,
    /// Groups with the users they name.
    pub(crate) groups: Vec<(String, Vec<String>)>,
}

/// `resolvers`.
#[derive(Clone, Debug)]
pub(crate) struct Resolvers {
    pub(crate) servers: Vec<Word>,
    /// Those of `/etc/resolv.conf`, too.
    pub(crate) system: bool,
    /// Questions until a look-up has failed.
    pub(crate) retries: u32,
    /// From a failed look-up to the next.
    pub(crate) resolve: Duration,
    /// From one question to the next.
    pub(crate) retry: Duration,
    /// From a look-up that succeeded to the next.
    pub(crate) valid: Duration,
    pub(crate) holds: NameHolds,
}

impl Default for Resolvers {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self {
            servers: Vec::new(),
            system: false,
            retries: 3,
            resolve: second,
            retry: second,
            valid: second * 10,
            holds: NameHolds::default(),
        }
    }
}
