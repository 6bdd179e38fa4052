//! Certificates from an authority, by ACME (RFC 8555): had, kept and renewed.
//!
//! Owns: the protocol, accounts, the folder in which all of it outlives the process, and when to order.
//! Never: runs on a worker's thread, opens a port, knows a configuration; a [`Desk`] says what answers challenges, and
//! whoever has a port asks it.
//! Driven by: the binary, with what a plan wants; see `crates/weir/src/issuing.rs`.
//! Why: docs/decisions/acme.md.

#![forbid(unsafe_code)]

mod account;
mod client;
mod desk;
mod folder;
mod make;
mod order;
mod side;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use weir_expr::settings::{AcmeChallenge, AcmeProfile, KeyKind};
use weir_fetch::Trust;

pub use account::{External, external_key};
pub use desk::Desk;
pub use side::{Host, Side};

use client::Problem;
use folder::Folder;

/// Who makes certificates, and how that is asked.
#[derive(Clone, PartialEq, Eq)]
pub struct Issuer {
    /// Its name in the configuration.
    pub name: String,
    /// Where it says what it offers.
    pub directory: String,
    /// URLs by which it reaches us.
    pub contact: Vec<String>,
    /// The key of our account.
    pub account_key: AccountKeyFrom,
    /// How names are shown to be ours.
    pub challenge: AcmeChallenge,
    /// What binds our account to one that it has already.
    pub external: Option<External>,
    /// The name of who is at the top of the chain that is taken, if there are several.
    pub preferred_chain: Option<String>,
    /// What certificates are to be like.
    pub profile: Option<AcmeProfile>,
    /// Authorities that vouch for its server, in PEM; empty: the system's.
    pub authorities: Vec<u8>,
    /// Its server has to be vouched for.
    pub verify: bool,
    /// Where all of it is kept; `None`: in memory only.
    pub state: Option<PathBuf>,
    /// Its terms are accepted.
    pub terms: bool,
    /// The pause after the first failure, which doubles with each further one.
    pub retry: Duration,
}

impl Issuer {
    fn trust(&self) -> Trust {
        match self.verify {
            true => Trust::Authorities { pem: self.authorities.clone(), identity: None },
            false => Trust::Anybody,
        }
    }
}

/// Where the key of an account comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum AccountKeyFrom {
    /// Made once, of this kind.
    Made(KeyKind),
    /// Given, in PEM.
    Given(Vec<u8>),
}

/// A certificate that is wanted.
#[derive(Clone, PartialEq, Eq)]
pub struct Wanted {
    /// What a plan calls it.
    pub name: String,
    /// Who is to make it.
    pub issuer: Arc<Issuer>,
    /// The names that it is for, in lower case.
    pub names: Vec<String>,
    /// The kind of its key.
    pub key: KeyKind,
}

impl Wanted {
    fn folder(&self) -> Option<Folder> {
        self.issuer.state.as_deref().map(Folder::new)
    }

    /// What its files are called: one that is for other names, or of another authority, is another.
    fn stem(&self) -> String {
        let text = format!("{}\n{}\n{}", self.issuer.directory, self.key, self.names.join("\n"));
        let hash = digest(&SHA256, text.as_bytes());
        let hash: String = hash.as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let first: String = self.names.first().map_or("", String::as_str).chars().take(100).collect();
        format!("{first}-{hash}")
    }

    fn file(&self) -> String {
        format!("{}.pem", self.stem())
    }

    fn order_file(&self) -> String {
        format!("{}.order", self.stem())
    }

    fn wait_file(&self) -> String {
        format!("{}.wait", self.stem())
    }
}

/// Why there is no certificate.
#[derive(Debug)]
enum Error {
    /// There is no answer.
    Fetch(weir_fetch::Error),
    /// The authority does not want to.
    Refused { problem: Problem, wait: Option<Duration> },
    /// It does not find that a name is ours.
    Name { name: String, why: String },
    /// It answered something else.
    Unexpected(String),
    /// The configuration cannot work.
    Setup(String),
    /// What is kept cannot be read or written.
    Folder(String),
}

impl Error {
    fn folder(folder: &Folder, error: &std::io::Error) -> Self {
        Self::Folder(format!("{}: {error}", folder.path().display()))
    }

    /// How long the authority wants to be left alone.
    fn wait(&self) -> Option<Duration> {
        match self {
            Self::Refused { wait, .. } => *wait,
            _ => None,
        }
    }

    /// Whether an order that ended so is over: otherwise it is taken up again.
    fn is_final(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Name { .. } | Self::Setup(_) | Self::Unexpected(_))
    }
}

impl From<weir_fetch::Error> for Error {
    fn from(error: weir_fetch::Error) -> Self {
        Self::Fetch(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fetch(error) => write!(f, "{error}"),
            Self::Refused { problem, .. } => write!(f, "the authority refuses: {}", problem.text()),
            Self::Name { name, why } => write!(f, "the authority does not find that {name} is ours: {why}"),
            Self::Unexpected(what) => write!(f, "the authority answers with {what}"),
            Self::Setup(why) | Self::Folder(why) => f.write_str(why),
        }
    }
}
