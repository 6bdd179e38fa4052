//! Log lines on their way through memory, and to several servers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::SyslogForm;

/// Lines kept in memory, shown on request and passed on to servers (HAProxy's `ring`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogRing {
    /// Name.
    pub name: String,
    /// What is shown beside it.
    pub description: String,
    /// How lines begin.
    pub form: SyslogForm,
    /// Bytes that it holds.
    pub size: u64,
    /// Most bytes of a line; it is cut to this.
    pub max_length: u64,
    /// How long a connection to a server may take to come about.
    pub connect_timeout: Duration,
    /// How long a server may take nothing.
    pub send_timeout: Duration,
    /// Who the lines are passed on to.
    pub servers: Vec<LogServer>,
}

/// Servers that share log lines among them (HAProxy's backends in `mode log`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogPool {
    /// Name.
    pub name: String,
    /// How one is chosen for a line.
    pub balance: LogBalance,
    /// How long a connection to a server may take to come about.
    pub connect_timeout: Duration,
    /// How long a server may take nothing.
    pub send_timeout: Duration,
    /// They.
    pub servers: Vec<LogServer>,
}

/// A server that takes log lines.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogServer {
    /// Name.
    pub name: String,
    /// Where it is.
    pub address: LogAddress,
    /// On a stream each message stands behind its length (RFC 6587, 3.4.1); otherwise it ends with a newline.
    pub octet_count: bool,
    /// Used only if no other can be had.
    pub backup: bool,
    /// Bytes that wait for it, in a pool.
    pub buffer: u64,
}

/// Where log lines are sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// TCP to a name, resolved at start.
    TcpName(String, u16),
    /// A unix stream socket.
    Stream(PathBuf),
    /// UDP.
    Udp(SocketAddr),
    /// UDP to a name, resolved at start.
    UdpName(String, u16),
    /// A unix datagram socket.
    Datagrams(PathBuf),
}

impl LogAddress {
    /// The name that is to be resolved, and its port.
    pub fn unresolved(&self) -> Option<(&str, u16)> {
        match self {
            Self::TcpName(host, port) | Self::UdpName(host, port) => Some((host, *port)),
            _ => None,
        }
    }
}

/// How the server of a line is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogBalance {
    /// In turn.
    #[default]
    RoundRobin,
    /// Any.
    Random,
    /// The same one as long as it can be had.
    Sticky,
    /// By what these steps leave of a line.
    Hash(Vec<LogKeyStep>),
}

/// What is taken of a line before it is hashed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogKeyStep {
    /// The part at a place that counts from 1, or from the end if negative, between any of the delimiters.
    Field(i32, String),
    /// The same, where empty parts do not count.
    Word(i32, String),
    /// Bytes from a place, so many or all.
    Bytes(u64, Option<u64>),
    /// In lower case.
    Lower,
    /// In upper case.
    Upper,
}

/// Of each so many lines those at these places, counted from 1 (HAProxy's `sample`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogSample {
    /// First and last place of each range.
    pub ranges: Vec<(u32, u32)>,
    /// How many lines make a round.
    pub of: u32,
}

impl LogSample {
    /// Whether the line at this place of the count from 0 is one of them.
    pub fn takes(&self, at: u32) -> bool {
        let place = at % self.of.max(1) + 1;
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_takes_its_places_of_each_round() {
        let sample = LogSample { ranges: vec![(1, 1), (3, 4)], of: 5 };
        let taken: Vec<u32> = (0..10).filter(|at| sample.takes(*at)).collect();
        assert_eq!(taken, [0, 2, 3, 5, 7, 8]);
    }
}
