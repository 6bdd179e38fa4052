//! Lists of keys that change while running: how a value finds its key, and what a rule does to one.

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
