//! User variables.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_diag::Origin;
use weir_expr::networks::DatabasePart;

use crate::{KeyUse, Pattern, Template};

/// A variable defined by the configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Variable {
    /// Unique name without `$`.
    pub name: String,
    /// Where it was first written.
    #[serde(skip_serializing, default)]
    pub origin: Origin,
    /// How its value comes about.
    pub definition: Definition,
}

/// How a user variable gets its value.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Definition {
    /// By `Set` or a named group; empty before.
    Assigned,
    /// By a table (nginx `map`), computed at first use and kept for the request unless `volatile`.
    Map(MapTable),
    /// By the client's address (nginx `geo`), or another variable that holds one.
    Geo {
        /// The address; `None`: the client's.
        source: Option<Template>,
        /// Peers whose X-Forwarded-For is believed instead.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        proxies: Vec<IpNet>,
        /// Of the addresses there, all are passed over that are such peers themselves.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        recursive: bool,
        /// Longest prefix wins.
        networks: Vec<(IpNet, Template)>,
        /// Otherwise.
        default: Template,
    },
    /// By a database of networks (MaxMind DB, nginx `geoip2`).
    Database(Box<NetworkDatabase>),
    /// By a hash of a key (nginx `split_clients`, MurmurHash2): upper bounds of shares of 2^32, in order.
    Split {
        /// Key.
        key: Template,
        /// `(bound, value)`; a last bound of `u32::MAX` takes the rest.
        shares: Vec<(u32, Template)>,
    },
    /// By a number: a table of numbers, then of ranges, both ends included, of which the first holds.
    Numbers {
        /// The number.
        source: Template,
        /// Single numbers.
        exact: Vec<(i64, Template)>,
        /// Ranges in order.
        ranges: Vec<(i64, i64, Template)>,
        /// Otherwise, and for what is no number.
        default: Template,
        /// Computed anew at each use.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        volatile: bool,
    },
    /// By a list of keys and values that changes while running. Computed anew at each use.
    Listed {
        /// What is looked up.
        source: Template,
        /// In which list, and how.
        list: KeyUse,
        /// Otherwise.
        default: Template,
    },
    /// By a store of keys and values that are set while running. Computed anew at each use; none where there is no value.
    Keyval {
        /// What is looked up.
        key: Template,
        /// The name of the store.
        zone: String,
        /// It is one for sessions.
        tcp: bool,
    },
    /// A value through steps, computed at each use; none where there is no value.
    Converted {
        /// What goes in.
        source: Template,
        /// In order.
        steps: Vec<Step>,
    },
}

/// What a variable takes from a database of networks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NetworkDatabase {
    /// The file.
    pub file: PathBuf,
    /// How often it is looked whether there is a newer one; `None`: when the configuration is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reload: Option<Duration>,
    /// What is wanted of it.
    pub part: DatabasePart,
    /// The address; `None`: the client's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Template>,
    /// Peers whose X-Forwarded-For is believed instead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proxies: Vec<IpNet>,
    /// Of the addresses there, all are passed over that are such peers themselves.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recursive: bool,
    /// Where it says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// One step of a conversion.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// A pure change.
    Convert(weir_expr::Convert),
    /// A coding or a hash.
    Coding(weir_expr::Coding),
    /// What the pattern matches becomes this, once or wherever it matches.
    Replace {
        /// Tried on the value.
        pattern: Pattern,
        /// Substitute; groups are [`weir_expr::Var::Capture`].
        with: Template,
        /// Wherever it matches.
        all: bool,
    },
    /// What a stick table says about the value as a key; none where there is no such key.
    Stick {
        /// The table.
        table: String,
        /// What is asked.
        what: weir_expr::StickWhat,
    },
    /// Text after the value.
    Append(Template),
    /// What the engine does by arguments.
    Call {
        /// What.
        routine: weir_expr::Routine,
        /// Its arguments, in order.
        arguments: Vec<Template>,
    },
    /// The value becomes that of a variable as well.
    Note(String),
    /// So many bytes at the end become a variable, in Base64, and are cut off (HAProxy `aes_gcm_enc`).
    NoteEnd(String, usize),
    /// The value is kept for longer than the exchange as well.
    Keep {
        /// Where.
        of: weir_expr::KeptIn,
        /// Its name.
        name: String,
        /// It is a number.
        number: bool,
    },
    /// Takes the value of a variable away; the value that goes through stays.
    Forget(String),
    /// The same of one that is kept for longer.
    ForgetKept {
        /// Where.
        of: weir_expr::KeptIn,
        /// Its name.
        name: String,
    },
}

impl Step {
    /// The variable that it writes to.
    pub fn written(&self) -> Option<&str> {
        match self {
            Self::Note(name) | Self::NoteEnd(name, _) | Self::Forget(name) => Some(name),
            _ => None,
        }
    }

    /// The templates in it.
    pub fn templates(&self) -> &[Template] {
        match self {
            Self::Convert(_)
            | Self::Coding(_)
            | Self::Stick { .. }
            | Self::Note(_)
            | Self::NoteEnd(..)
            | Self::Keep { .. }
            | Self::Forget(_)
            | Self::ForgetKept { .. } => &[],
            Self::Replace { with: text, .. } | Self::Append(text) => std::slice::from_ref(text),
            Self::Call { arguments, .. } => arguments,
        }
    }
}

/// A table from text to text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MapTable {
    /// What is looked up. Compared without regard to case, but by patterns as they say.
    pub source: Template,
    /// Exact keys in lower case; the first stands.
    pub exact: Vec<(String, Template)>,
    /// With `hostnames`: `*.example.org` as `example.org`; longest first.
    pub suffixes: Vec<(String, Template)>,
    /// With `hostnames`: `mail.*` as `mail`; longest first.
    pub prefixes: Vec<(String, Template)>,
    /// Patterns in order.
    pub patterns: Vec<(Pattern, Template)>,
    /// Otherwise.
    pub default: Template,
    /// Host names: exact keys also match with a trailing dot cut.
    pub hostnames: bool,
    /// Computed anew at each use.
    pub volatile: bool,
}
