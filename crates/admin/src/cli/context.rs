//! What commands are given: who asks, what there is to show, and what makes changes.
//!
//! Owns: [`Runtime`], the seam to what runs; levels; what commands change of their session.
//! Never: knows a command.

use std::sync::Arc;
use std::time::Duration;

use weir_control::Change;
use weir_control::changes::KeyPair;
use weir_control::lists::{Entry, List};
use weir_control::memory::MemoryCache;
use weir_control::sessions::ClientSession;
use weir_control::snapshot::Snapshot;
use weir_telemetry::log::Ring;

use super::peers::PeerSection;
use super::sticks::StickTable;

/// Who a client is. Each may what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Sees figures, no sessions or addresses of clients.
    User,
    /// Sees everything, and changes nothing that lasts.
    Operator,
    /// Does everything.
    Admin,
}

impl Level {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// Whether messages begin with how grave they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Severity {
    /// They do not.
    #[default]
    None,
    /// By number, as syslog has it: `[3]: `.
    Number,
    /// By word: `[err]: `.
    Text,
}

/// What may begin in a second in the whole process; zero is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Connections of clients.
    pub connections: u32,
    /// Of those, the ones that rules on connections let pass.
    pub sessions: u32,
    /// Connections to listeners with TLS.
    pub tls: u32,
}

/// Something that the process has open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Its number.
    pub number: u32,
    /// What it is: `l.st=RDY fam=ipv4 lport=80`, `/var/log/x.log`, `anon_inode:[eventpoll]`.
    pub about: String,
}

/// A socket that answers commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    /// As the configuration names it: `unix@/run/x.sock`, `ipv4@127.0.0.1:9999`.
    pub name: String,
    /// What those who connect to it may.
    pub level: Level,
}

/// What commands act on.
pub trait Runtime {
    /// The process at this moment.
    fn snapshot(&self) -> Snapshot;
    /// Makes a change, or says why it cannot be made.
    ///
    /// # Errors
    /// One line.
    fn change(&self, change: Change) -> Result<(), String>;
    /// Takes the health of an endpoint for this, until a check says otherwise.
    ///
    /// # Errors
    /// One line.
    fn judge(&self, pool: &str, endpoint: &str, healthy: bool) -> Result<(), String>;
    /// Ends what is under way at an endpoint.
    ///
    /// # Errors
    /// One line.
    fn cut(&self, pool: &str, endpoint: &str) -> Result<(), String>;
    /// Bounds what goes on at an endpoint at once, until the next reload; 0: not at all.
    ///
    /// # Errors
    /// One line.
    fn bound_endpoint(&self, pool: &str, endpoint: &str, most: u32) -> Result<(), String>;

    /// Has the health checks of an endpoint made or not, until the next reload. False: it has none.
    ///
    /// # Errors
    /// One line.
    fn switch_checks(&self, pool: &str, endpoint: &str, on: bool) -> Result<bool, String>;

    /// As [`Runtime::switch_checks`], of the asking of its agent.
    ///
    /// # Errors
    /// One line.
    fn switch_agent(&self, pool: &str, endpoint: &str, on: bool) -> Result<bool, String>;

    /// Forgets the most that there ever was of anything; with `all`, what was counted, too.
    fn clear_counters(&self, all: bool);

    /// The connections of clients.
    fn sessions(&self) -> Vec<ClientSession>;

    /// Ends a client's connection. False: there is none of this number.
    fn end_session(&self, number: u64) -> bool;

    /// Other processes that stick tables are shared with.
    fn peers(&self) -> Vec<PeerSection>;

    /// What may begin in a second.
    fn paces(&self) -> Rates;

    /// Changes that, until the next reload.
    fn set_paces(&self, paces: Rates);

    /// Bounds client connections of the process, until the next reload.
    fn bound_connections(&self, most: u64);
    /// Has a frontend accept nothing, or go on, until the next reload. False: it was so already.
    ///
    /// # Errors
    /// There is no such frontend.
    fn hold(&self, site: &str, held: bool) -> Result<bool, String>;
    /// Bounds client connections of a frontend, until the next reload; 0: not at all.
    ///
    /// # Errors
    /// There is no such frontend.
    fn bound_site(&self, site: &str, most: u64) -> Result<(), String>;
    /// Certificates in use, by the path of their file.
    fn certificates(&self) -> Vec<Certificate>;
    /// The chain of a certificate in use, PEM.
    fn chain_of(&self, name: &str) -> Option<Vec<u8>>;
    /// Authorities and lists of revocations in use.
    fn trust(&self) -> Vec<Trust>;
    /// What the certificates of a PEM text say; `None`: there is none, or one that cannot be read.
    fn describe(&self, pem: &[u8]) -> Option<Vec<CertificateFacts>>;
    /// The same of lists of revocations.
    fn describe_lists(&self, pem: &[u8]) -> Option<Vec<ListFacts>>;
    /// Files that certificates were listed in.
    fn certificate_lists(&self) -> Vec<CertificateList>;
    /// What was sent of TLS and waits for its commit, or for somebody who uses it, for all sessions.
    fn waiting(&self) -> &std::sync::Mutex<Waiting>;
    /// Lists of keys that change while running.
    fn lists(&self) -> Vec<KeyList>;
    /// Whether the list of a number may have this key, however it is used.
    ///
    /// # Errors
    /// One line.
    fn check_key(&self, list: u32, key: &str) -> Result<(), String>;
    /// What each use of a list finds for a value.
    fn look_up(&self, list: u32, value: &str) -> Vec<Found>;
    /// A list changed as a whole: what is looked up in is made anew now.
    fn refresh_list(&self, list: u32);
    /// Stick tables, by name.
    fn stick_tables(&self) -> Vec<Box<dyn StickTable>>;
    /// A value that rules keep in the process: its text, and whether it is a number.
    fn kept(&self, name: &str) -> Option<(Vec<u8>, bool)>;
    /// Sets such a value.
    fn keep(&self, name: &str, text: &[u8], number: bool);
    /// Caches in memory, as the configuration has them.
    fn memory_caches(&self) -> Vec<MemoryCache>;
    /// Log lines that are kept in memory.
    fn rings(&self) -> Vec<Arc<Ring>>;
    /// Names and values of the environment.
    fn environment(&self) -> Vec<(String, String)>;
    /// All sockets that answer commands.
    fn sockets(&self) -> Vec<Socket>;
    /// Files, sockets and what else the process has open.
    fn descriptors(&self) -> Vec<Descriptor>;
    /// Share of time, in a hundred, in which the process had nothing to do since its start.
    fn idle_percent(&self) -> u64;
}

/// A certificate in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The path of its file.
    pub name: String,
    /// It was given while running.
    pub replaced: bool,
}

/// Authorities, or a list of revocations, in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The path of the file.
    pub name: String,
    /// It is a list of revocations.
    pub list: bool,
    /// PEM.
    pub pem: Vec<u8>,
}

/// What a certificate says, in OpenSSL's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Its serial number, in hexadecimal.
    pub serial: String,
    /// When its validity begins.
    pub not_before: String,
    /// When it ends.
    pub not_after: String,
    /// Alternative names: `DNS:a.test`.
    pub names: Vec<String>,
    /// Kind and bits of its key: `RSA2048`.
    pub key: String,
    /// SHA-1 of its DER form, in hexadecimal.
    pub sha1: String,
    /// Whom it is about: `/C=…/CN=…`.
    pub subject: String,
    /// Who signed it.
    pub issuer: String,
}

/// What a list of revocations says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFacts {
    /// Its version.
    pub version: u32,
    /// The algorithm of its signature.
    pub algorithm: String,
    /// Who made it.
    pub issuer: String,
    /// When it was made.
    pub made: String,
    /// When the next one comes.
    pub next: Option<String>,
    /// Serial numbers, and when each was revoked.
    pub revoked: Vec<(String, String)>,
}

/// A file that certificates were listed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateList {
    /// The path of the file.
    pub name: String,
    /// Certificate, number of its line, options, names.
    pub entries: Vec<(String, u32, String, Vec<String>)>,
}

/// What was sent of TLS and waits.
#[derive(Debug, Default)]
pub struct Waiting {
    /// Certificates that wait for their commit.
    pub certificates: Vec<(String, KeyPair)>,
    /// Certificates that nothing uses yet; `None`: empty.
    pub made: Vec<(String, Option<KeyPair>)>,
    /// Authorities, and lists of revocations.
    pub trust: [WaitingTrust; 2],
}

/// Of authorities, or of lists of revocations.
#[derive(Debug, Default)]
pub struct WaitingTrust {
    /// What waits for its commit: its name, PEM.
    pub open: Option<(String, String)>,
    /// What nothing uses yet.
    pub made: Vec<(String, String)>,
}

/// A list of keys that changes while running.
#[derive(Clone, Debug)]
pub struct KeyList {
    /// Its number in the configuration.
    pub number: u32,
    /// Its file.
    pub name: String,
    /// Its keys have values: it is a map.
    pub values: bool,
    /// What uses it.
    pub about: String,
    /// The list.
    pub list: std::sync::Arc<List>,
}

/// What one use of a list finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// How it compares, in HAProxy's word.
    pub how: &'static str,
    /// Without regard to case.
    pub ignore_case: bool,
    /// Keys are tried one by one.
    pub tried: bool,
    /// What it finds.
    pub entry: Option<Entry>,
}

/// What a command is given.
pub struct Cx<'a> {
    pub(super) runtime: &'a dyn Runtime,
    /// Words after the command's own.
    pub(super) arguments: &'a [String],
    pub(super) payload: Option<&'a str>,
    pub(super) state: &'a mut State,
}

impl Cx<'_> {
    /// An argument; empty where there is none.
    pub(super) fn argument(&self, at: usize) -> &str {
        self.arguments.get(at).map_or("", String::as_str)
    }
}

/// Lines of a ring from a place on.
#[derive(Clone, Debug)]
pub struct Follow {
    /// The ring.
    pub ring: Arc<Ring>,
    /// The number of the next line.
    pub from: u64,
}

impl PartialEq for Follow {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.ring, &other.ring) && self.from == other.from
    }
}

impl Eq for Follow {}

/// What commands change of their session.
pub(super) struct State {
    pub(super) level: Level,
    pub(super) prompt: bool,
    pub(super) severity: Severity,
    pub(super) expert: bool,
    pub(super) experimental: bool,
    /// Idle time after which the connection ends.
    pub(super) timeout: Duration,
    pub(super) quit: bool,
    pub(super) wait: Option<Duration>,
    pub(super) follow: Option<Follow>,
    /// What is waited for at most so long: that a server, `backend/server`, may be removed.
    pub(super) until: Option<(String, Duration)>,
}
