//! Published figures, which stand beside the measured ones.
//!
//! Owns: the figures of `data/published.json`, and which of them belong to which scenario.
//! Never: changes one of them.
//! Driven by: plots, the tables of B1 and B6, the sizing guide.

use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// What was published of one scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The scenario that repeats it.
    pub scenario: String,
    /// What it says that it measured.
    pub what: String,
    /// Where it was published.
    pub source: Source,
    /// Its figures.
    pub curves: Vec<Curve>,
    /// Its knees.
    pub knees: Vec<Told>,
    /// From which rate on a server's CPUs had nothing left.
    #[serde(default)]
    pub saturated: Vec<Told>,
    /// What it states without figures of its own.
    pub statements: Vec<String>,
}

/// Where something was published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Its title.
    pub title: String,
    /// Its address, if one is known.
    pub url: Option<String>,
}

/// One published curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Of what.
    pub label: String,
    /// Of whom: `nginx`, `avi`.
    pub who: String,
    /// What its second values are.
    pub quantity: Quantity,
    /// What its first values are.
    pub by: By,
    /// The page, as scenarios name it; nothing if it does not matter.
    pub size: Option<String>,
    /// Whether by HTTPS; nothing if that is not said.
    pub encrypted: Option<bool>,
    /// Values.
    pub points: Vec<(f64, f64)>,
}

/// A published rate of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// Of what.
    pub label: String,
    /// Of whom.
    pub who: String,
    /// The page.
    pub size: String,
    /// Requests a second.
    pub rate: f64,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Requests a second on kept connections.
    Rps,
    /// Connections a second, a request on each.
    Cps,
    /// TLS transactions a second, as they were published: a new connection, a full handshake, a request, and its end.
    Tps,
    /// Full TLS handshakes a second, and nothing else: never compared with transactions.
    Handshakes,
    /// Gigabits a second received.
    Gbit,
    /// Mean response time, milliseconds.
    MeanMs,
    /// 95th percentile of response times, milliseconds.
    P95Ms,
}

/// What a quantity is measured against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Workers of the server, or CPUs.
    Workers,
    /// Requests a second.
    Rate,
    /// One run after the other.
    Run,
}

static ALL: LazyLock<Vec<Published>> = LazyLock::new(|| {
    // A test reads it: what is shipped can be read.
    serde_json::from_str(include_str!("../../data/published.json")).unwrap_or_default()
});

/// What was published of a scenario.
#[must_use]
pub fn published(scenario: &str) -> Option<&'static Published> {
    ALL.iter().find(|p| p.scenario == scenario)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped_can_be_read() {
        let ids: Vec<&str> = ALL.iter().map(|p| p.scenario.as_str()).collect();
        assert_eq!(ids, ["B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8"]);
        for curve in ALL.iter().flat_map(|p| &p.curves) {
            assert!(
                curve.points.len() >= 4 && curve.points.iter().all(|p| p.0 > 0.0 && p.1 > 0.0),
                "{curve:?}"
            );
            assert!(curve.points.is_sorted_by(|a, b| a.0 < b.0), "{curve:?}");
        }
    }
}
