//! How an exchange ended, in two letters.
//!
//! Owns: who ended it, and in which phase.
//! Why: HAProxy's termination state (configuration manual, "Session state at disconnection") is the shortest answer to
//! "who hung up, and when"; every dialect's log can show it.

use crate::worker::links::Cut;

/// Phase in which an exchange ended early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Waiting for the whole request.
    #[default]
    Request,
    /// In a queue.
    Queue,
    /// Connecting to an endpoint.
    Connect,
    /// Waiting for the answer's head.
    Headers,
    /// Carrying the answer.
    Data,
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It has not, or it ended well.
    #[default]
    Normal,
    /// The client went away.
    ClientAborted(Phase),
    /// The client was too slow.
    ClientTimeout(Phase),
    /// The endpoint broke off or refused.
    ServerAborted(Phase),
    /// The endpoint was too slow.
    ServerTimeout(Phase),
    /// Its connection to the endpoint was cut. A tunnel is in no phase then.
    Cut(Cut, Option<Phase>),
    /// The proxy itself answered or refused: rules, limits, bad requests.
    Proxy(Phase),
    /// A resource was exhausted.
    Resource(Phase),
    /// Answered here: statistics, files, redirects.
    Local,
    /// A rule for responses answered instead of the endpoint.
    LocalHeaders,
    /// Held for a while, then refused (HAProxy `tarpit`).
    Tarpitted,
}

impl Ending {
    /// HAProxy's two letters.
    pub(crate) fn letters(self) -> &'static str {
        let at = |table: [&'static str; 5], phase: Phase| table[phase as usize];
        match self {
            Self::Normal => "--",
            Self::Local => "LR",
            Self::LocalHeaders => "LH",
            Self::Tarpitted => "PT",
            Self::ClientAborted(p) => at(["CR", "CQ", "CC", "CH", "CD"], p),
            Self::ClientTimeout(p) => at(["cR", "cQ", "cC", "cH", "cD"], p),
            Self::ServerAborted(p) => at(["SR", "SQ", "SC", "SH", "SD"], p),
            Self::Cut(Cut::Down, p) => p.map_or("D-", |p| at(["DR", "DQ", "DC", "DH", "DD"], p)),
            Self::Cut(Cut::Up, p) => p.map_or("U-", |p| at(["UR", "UQ", "UC", "UH", "UD"], p)),
            Self::Cut(Cut::Killed, p) => p.map_or("K-", |p| at(["KR", "KQ", "KC", "KH", "KD"], p)),
            Self::ServerTimeout(p) => at(["sR", "sQ", "sC", "sH", "sD"], p),
            Self::Proxy(p) => at(["PR", "PQ", "PC", "PH", "PD"], p),
            Self::Resource(p) => at(["RR", "RQ", "RC", "RH", "RD"], p),
        }
    }
}
