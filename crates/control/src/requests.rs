//! Requests that are being served, and those of the last minutes that were slow or failed.
//!
//! Owns: the figures that the dashboard shows of single requests.
//! Never: holds a field or a body: the request line and who asked are all that is kept.
//! Driven by: workers, each of which tells its own; whoever asks all of them joins the answers.
//! Why: counters say that something is wrong; an operator then wants to see which requests it is about.

use std::cmp::Reverse;

use serde::Serialize;

use crate::ids::{PoolId, SiteId};

/// What workers know of single requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// Being served now, the oldest first; no more than were asked for.
    pub in_flight: Vec<InFlight>,
    /// So many are being served, shown or not.
    pub total: u64,
    /// Those that took longest, the longest first.
    pub slowest: Vec<Finished>,
    /// Those that failed, the last first.
    pub failed: Vec<Finished>,
    /// Workers that were too busy to answer.
    pub silent: u64,
}

/// What was asked, by whom, of whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// Method; empty for sessions of TCP and UDP.
    pub method: String,
    /// Path with query as received, cut where it is long.
    pub target: String,
    /// The client's address and port, after real-IP rules; empty on unix sockets.
    pub client: String,
    /// The site, or the TCP service.
    pub site: SiteId,
    /// The pool of the last attempt.
    pub pool: Option<PoolId>,
    /// The endpoint's address; empty before an endpoint was chosen.
    pub endpoint: String,
}

/// A request that is being served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InFlight {
    /// The worker, counted from zero.
    pub worker: u16,
    /// What it is.
    pub asked: Asked,
    /// Microseconds since its first byte.
    pub age_us: u64,
    /// How far it is.
    pub stage: Stage,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// No endpoint was chosen (yet): rules, queues, files.
    #[default]
    Here,
    /// An endpoint was chosen, and is being connected to.
    Connecting,
    /// It was asked, and the head of its answer is awaited.
    Waiting,
    /// The answer is carried.
    Transferring,
}

/// A request that is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Finished {
    /// What it was.
    pub asked: Asked,
    /// Its end, in milliseconds since 1970.
    pub ended_unix_ms: u64,
    /// From its first byte to its end, in microseconds.
    pub took_us: u64,
    /// Status; zero: none was sent.
    pub status: u16,
    /// HAProxy's termination state: who ended it, and when (configuration manual, "Session state at disconnection").
    pub ending: &'static str,
    /// Attempts at endpoints.
    pub attempts: u32,
}

impl Requests {
    /// Joins what another worker tells; of each list no more than `most` stay.
    pub fn join(&mut self, other: Self, most: usize) {
        self.in_flight.extend(other.in_flight);
        self.slowest.extend(other.slowest);
        self.failed.extend(other.failed);
        self.total += other.total;
        self.silent += other.silent;
        self.settle(most);
    }

    /// Puts each list in its order, and leaves no more than `most` in it.
    pub fn settle(&mut self, most: usize) {
        self.in_flight.sort_by_key(|one| Reverse(one.age_us));
        self.slowest.sort_by_key(|one| Reverse(one.took_us));
        self.failed.sort_by_key(|one| Reverse(one.ended_unix_ms));
        self.in_flight.truncate(most);
        self.slowest.truncate(most);
        self.failed.truncate(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(ages: &[u64], took: &[u64]) -> Requests {
        let finished = |&took_us: &u64| Finished { took_us, ended_unix_ms: took_us, ..Finished::default() };
        Requests {
            in_flight: ages.iter().map(|&age_us| InFlight { age_us, ..InFlight::default() }).collect(),
            total: ages.len() as u64,
            slowest: took.iter().map(finished).collect(),
            failed: took.iter().map(finished).collect(),
            silent: 1,
        }
    }

    #[test]
    fn what_matters_most_stays() {
        let mut all = worker(&[5, 1], &[10, 30]);
        all.join(worker(&[9, 3], &[20]), 3);
        assert_eq!(all.in_flight.iter().map(|one| one.age_us).collect::<Vec<_>>(), [9, 5, 3]);
        assert_eq!(all.slowest.iter().map(|one| one.took_us).collect::<Vec<_>>(), [30, 20, 10]);
        assert_eq!(all.failed.len(), 3);
        assert_eq!((all.total, all.silent), (4, 2));
    }
}
