//! How an exchange ended, in two letters.
//!
//! Owns: who ended it, and in which phase.
//! Why: HAProxy's termination state (configuration manual, "Session state at disconnection") is the shortest answer to
//! "who hung up, and when"; every dialect's log can show it.

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
    /// Sending the last bytes to the client.
    Last,
    /// Normal end.
    Done,
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
    /// The proxy itself answered or refused: rules, limits, bad requests.
    Proxy(Phase),
    /// A resource was exhausted.
    Resource(Phase),
    /// Answered here: statistics, files, redirects.
    Local,
    /// Killed by an operator or at shutdown.
    Killed(Phase),
}

impl Ending {
    /// HAProxy's two letters.
    pub(crate) fn letters(self) -> &'static str {
        use Phase as P;
        let at = |table: [&'static str; 7], phase: Phase| table[phase as usize];
        match self {
            Self::Normal => "--",
            Self::Local => "LR",
            Self::ClientAborted(p) => at(["CR", "CQ", "CC", "CH", "CD", "CL", "--"], p),
            Self::ClientTimeout(p) => at(["cR", "cQ", "cC", "cH", "cD", "cL", "--"], p),
            Self::ServerAborted(p) => at(["SR", "SQ", "SC", "SH", "SD", "SL", "--"], p),
            Self::ServerTimeout(p) => at(["sR", "sQ", "sC", "sH", "sD", "sL", "--"], p),
            Self::Proxy(p) => at(["PR", "PQ", "PC", "PH", "PD", "PL", "--"], p),
            Self::Resource(p) => at(["RR", "RQ", "RC", "RH", "RD", "RL", "--"], p),
            Self::Killed(p) => at(["KR", "KQ", "KC", "KH", "KD", "KL", "--"], p),
        }
    }

    /// True for the endings that logs of errors care about.
    pub(crate) fn is_failure(self) -> bool {
        !matches!(self, Self::Normal | Self::Local)
    }
}
