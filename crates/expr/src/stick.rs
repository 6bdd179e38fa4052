//! The words of stick tables: what an entry holds, what can be asked of it, what rules do to it.
//!
//! Owns: the kinds of data by HAProxy's names, kinds of keys, questions, instructions.
//! Never: holds an entry; `policy` does.
//! Why: front ends, plan and engine mean the same by these words. Tables are named, not counted: what is tracked on a
//! connection lives on under another plan.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Template;

/// What an entry counts or remembers, by HAProxy's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are those of the Configuration Manual")]
pub enum StickData {
    ServerId,
    Gpt(u8),
    Gpc(u8),
    GpcRate(u8),
    ConnCnt,
    ConnRate,
    ConnCur,
    SessCnt,
    SessRate,
    HttpReqCnt,
    HttpReqRate,
    HttpErrCnt,
    HttpErrRate,
    BytesInCnt,
    BytesInRate,
    BytesOutCnt,
    BytesOutRate,
    HttpFailCnt,
    HttpFailRate,
}

use StickData::*;

/// All names, with the number of each in the protocol of peers. That of 19, the names of servers, is not stored.
const NAMED: [(&str, StickData, u8); 21] = [
    ("server_id", ServerId, 0),
    ("gpt0", Gpt(0), 1),
    ("gpc0", Gpc(0), 2),
    ("gpc0_rate", GpcRate(0), 3),
    ("conn_cnt", ConnCnt, 4),
    ("conn_rate", ConnRate, 5),
    ("conn_cur", ConnCur, 6),
    ("sess_cnt", SessCnt, 7),
    ("sess_rate", SessRate, 8),
    ("http_req_cnt", HttpReqCnt, 9),
    ("http_req_rate", HttpReqRate, 10),
    ("http_err_cnt", HttpErrCnt, 11),
    ("http_err_rate", HttpErrRate, 12),
    ("bytes_in_cnt", BytesInCnt, 13),
    ("bytes_in_rate", BytesInRate, 14),
    ("bytes_out_cnt", BytesOutCnt, 15),
    ("bytes_out_rate", BytesOutRate, 16),
    ("gpc1", Gpc(1), 17),
    ("gpc1_rate", GpcRate(1), 18),
    ("http_fail_cnt", HttpFailCnt, 20),
    ("http_fail_rate", HttpFailRate, 21),
];

impl StickData {
    /// The kind of a name.
    pub fn named(name: &str) -> Option<Self> {
        NAMED.iter().find(|(known, ..)| *known == name).map(|&(_, data, _)| data)
    }

    /// All names of kinds that are not one of several.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let single = |data: &StickData| !matches!(data, Gpt(_) | Gpc(_) | GpcRate(_));
        NAMED.iter().filter(move |(_, data, _)| single(data)).map(|&(name, ..)| name)
    }

    /// The kind of a number in the protocol of peers.
    pub fn numbered(number: u8) -> Option<Self> {
        NAMED.iter().find(|&&(.., known)| known == number).map(|&(_, data, _)| data)
    }

    /// Its number in the protocol of peers; `None`: it has one as a place of an array only.
    pub fn number(self) -> Option<u8> {
        NAMED.iter().find(|&&(_, data, _)| data == self).map(|&(.., number)| number)
    }

    /// True for those that are read over a period.
    pub fn is_rate(self) -> bool {
        matches!(
            self,
            GpcRate(_)
                | ConnRate
                | SessRate
                | HttpReqRate
                | HttpErrRate
                | HttpFailRate
                | BytesInRate
                | BytesOutRate
        )
    }
}

impl fmt::Display for StickData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gpt(n) => write!(f, "gpt{n}"),
            Gpc(n) => write!(f, "gpc{n}"),
            GpcRate(n) => write!(f, "gpc{n}_rate"),
            other => {
                let found = NAMED.iter().find(|(_, data, _)| data == other);
                f.write_str(found.map_or("", |(name, ..)| name))
            }
        }
    }
}

/// One word of `store`, with its period if it is a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stored {
    /// What is stored.
    pub data: StickData,
    /// Rates: over how long. Ignored otherwise.
    pub period: Duration,
}

/// What the keys of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StickKey {
    /// IPv4 addresses.
    Ip,
    /// IPv6 addresses, and those of IPv4 mapped into them.
    Ipv6,
    /// Numbers of 32 bits.
    Integer,
    /// Text, cut at so many bytes.
    Text(u32),
    /// So many bytes; shorter ones are filled up with zeros.
    Binary(u32),
}

/// A table as configured.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StickTableConfig {
    /// What its keys are.
    pub key: StickKey,
    /// Entries at most.
    pub size: u64,
    /// Unused entries go after this long.
    pub expire: Option<Duration>,
    /// A full table takes no new key, where it otherwise purges the oldest.
    pub nopurge: bool,
    /// What each entry holds.
    pub store: Vec<Stored>,
}

/// Whose entry is asked about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StickWhom {
    /// The one that this counter tracks, or the one of the same key in another table.
    Counter(u8, Option<String>),
    /// That of the client's address in a table.
    Client(String),
    /// None: the table itself.
    Table(String),
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StickWhat {
    /// A value.
    Value(StickData),
    /// A count of bytes, in units of 1024.
    Kilobytes(StickData),
    /// A general counter after it was counted up.
    Increase(u8),
    /// A general counter before it was set to zero.
    Clear(u8),
    /// The count of connections after it was counted up (`src_updt_conn_cnt`).
    Seen,
    /// Whether there is an entry.
    Tracked,
    /// How many track it.
    Trackers,
    /// Milliseconds until it expires.
    Expire,
    /// Milliseconds since it was used.
    Idle,
    /// Entries in the table.
    Entries,
    /// Entries that it has room for.
    Available,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StickAsk {
    /// About whom.
    pub whom: StickWhom,
    /// What.
    pub what: StickWhat,
}

impl fmt::Display for StickAsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.whom {
            StickWhom::Counter(number, None) => write!(f, "sc{number}")?,
            StickWhom::Counter(number, Some(table)) => write!(f, "sc{number}({table})")?,
            StickWhom::Client(table) => write!(f, "src({table})")?,
            StickWhom::Table(table) => write!(f, "table({table})")?,
        }
        write!(f, ".{:?}", self.what)
    }
}

/// How long what a rule tracks is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StickSpan {
    /// As long as the client's connection.
    Connection,
    /// As long as the request, or the session of a TCP service.
    Stream,
}

/// What a rule does to entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", bound(deserialize = "Template<S>: Deserialize<'de>"))]
pub enum StickOp<S: fmt::Display> {
    /// A counter tracks an entry from now on, unless it tracks one already.
    Track {
        /// Which counter.
        counter: u8,
        /// The table.
        table: String,
        /// The key; nothing is tracked where it has no value.
        key: Template<S>,
        /// For how long.
        span: StickSpan,
        /// The request that is at hand counts.
        counts_request: bool,
    },
    /// Changes a value of the entry that a counter tracks.
    Change {
        /// Which counter.
        counter: u8,
        /// What.
        data: StickData,
        /// The number; one if `None`.
        by: Option<Template<S>>,
        /// It is added, rather than set.
        adds: bool,
    },
    /// The session is accepted: it counts for all that is tracked as long as its connection.
    CountSession,
    /// A request has come: it counts for all that is tracked.
    CountRequest,
    /// A request is in error: it counts for all that is tracked.
    CountError,
}

impl<S: fmt::Display> StickOp<S> {
    /// What it evaluates.
    pub fn template(&self) -> Option<&Template<S>> {
        match self {
            Self::Track { key, .. } => Some(key),
            Self::Change { by, .. } => by.as_ref(),
            Self::CountSession | Self::CountRequest | Self::CountError => None,
        }
    }

    /// The same with another way to refer to variables.
    pub fn map<T: fmt::Display>(&self, mut template: impl FnMut(&Template<S>) -> Template<T>) -> StickOp<T> {
        match self {
            Self::Track { counter, table, key, span, counts_request } => StickOp::Track {
                counter: *counter,
                table: table.clone(),
                key: template(key),
                span: *span,
                counts_request: *counts_request,
            },
            Self::Change { counter, data, by, adds } => {
                StickOp::Change { counter: *counter, data: *data, by: by.as_ref().map(template), adds: *adds }
            }
            Self::CountSession => StickOp::CountSession,
            Self::CountRequest => StickOp::CountRequest,
            Self::CountError => StickOp::CountError,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let numbered = ["gpt0", "gpc0", "gpc1", "gpc0_rate", "gpc1_rate"];
        for name in StickData::names().chain(numbered) {
            let data = StickData::named(name).unwrap();
            assert_eq!((data.to_string().as_str(), data.is_rate()), (name, name.ends_with("_rate")));
        }
        assert_eq!(StickData::named("gpc"), None);
    }
}
