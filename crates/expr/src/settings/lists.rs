//! Lists of keys that change while running: how a value finds its key, and what a rule does to one.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a value and the keys of a list compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyMatch {
    /// It is the key.
    Equals,
    /// It begins with the key; of several the longest.
    Begins,
    /// It ends with the key.
    Ends,
    /// It contains the key.
    Contains,
    /// The key is a whole part of it between `/` (HAProxy `-m dir`).
    Segment,
    /// The key is a whole part of it between `.` (HAProxy `-m dom`).
    Label,
    /// The key is a pattern.
    Pattern,
    /// The key is a network; of several the narrowest.
    Network,
    /// The key is a number, or two with `:` between them.
    Number,
    /// As [`KeyMatch::Number`], of its length.
    Length,
}

impl KeyMatch {
    /// Keys are tried one by one: there is no order in which to find one.
    pub fn is_tried(self) -> bool {
        !matches!(self, Self::Equals | Self::Begins | Self::Ends | Self::Network)
    }

    /// HAProxy's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Equals => "str",
            Self::Begins => "beg",
            Self::Ends => "end",
            Self::Contains => "sub",
            Self::Segment => "dir",
            Self::Label => "dom",
            Self::Pattern => "reg",
            Self::Network => "ip",
            Self::Number => "int",
            Self::Length => "len",
        }
    }
}

/// A file that lists certificates (HAProxy `crt-list`), as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CertificateList {
    /// As the configuration names it.
    pub name: String,
    /// Its lines.
    pub entries: Vec<CertificateListEntry>,
}

/// A line of such a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CertificateListEntry {
    /// The certificate, as written.
    pub certificate: String,
    /// Its number.
    pub line: u32,
    /// What stands in brackets.
    pub options: String,
    /// Names, wildcards and exceptions.
    pub names: Vec<String>,
}

/// What a rule does to a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListEdit {
    /// The key has this value from now on, be it there or not.
    Set,
    /// The key is there from now on.
    Add,
    /// It is there no more.
    Remove,
}

/// A store of keys and values that are set while running, and that variables look up (nginx `keyval_zone`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyvalZone {
    /// Its name. A store for requests and one for sessions may have the same.
    pub name: String,
    /// It is for sessions.
    pub tcp: bool,
    /// What keys are.
    pub kind: KeyvalKind,
    /// Most bytes of pairs.
    pub bytes: u64,
    /// How long a pair holds; `None`: for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// The file that it is in, so that it outlives the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<PathBuf>,
}

/// What the keys of a store are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyvalKind {
    /// Text that is equal to what is looked up.
    #[default]
    String,
    /// Addresses and networks: the smallest that an address is in.
    Ip,
    /// Text that what is looked up begins with: the longest.
    Prefix,
}
