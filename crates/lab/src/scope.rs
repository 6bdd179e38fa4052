//! The part of a scenario that is wanted: some of its points, other numbers of runs and seconds.
//!
//! Owns: what the command line says of that, and that a folder's parts fit together.
//! Never: knows a point; the scenario does.
//! Driven by: `run`, which notes it in the results; `report`, which reads it there.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// A part of a scenario. The default is all of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scope {
    /// Beginnings of the names of points; none: all points.
    #[serde(default)]
    pub points: Vec<String>,
    /// Runs of each contender, instead of the scenario's.
    #[serde(default)]
    pub runs: Option<u32>,
    /// Measured seconds of each run, instead of the scenario's.
    #[serde(default)]
    pub seconds: Option<f64>,
}

impl Scope {
    /// What a folder holds that had this scope, and to which another one is added.
    ///
    /// # Errors
    /// Their runs are not of one length.
    pub fn joined(self, other: &Self) -> Result<Self> {
        ensure!(
            self.seconds == other.seconds,
            "it holds runs of another length (--seconds): continue with the same, or take another folder with --out"
        );
        let mut points = self.points;
        if points.is_empty() || other.points.is_empty() {
            points.clear();
        } else {
            let more: Vec<String> = other.points.iter().filter(|p| !points.contains(p)).cloned().collect();
            points.extend(more);
        }
        // Of more runs those that are there are the first.
        let runs = match (self.runs, other.runs) {
            (Some(a), Some(b)) => Some(a.max(b)),
            _ => None,
        };
        Ok(Self { points, runs, seconds: self.seconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(points: &[&str], runs: Option<u32>, seconds: Option<f64>) -> Scope {
        Scope { points: points.iter().map(|p| (*p).to_owned()).collect(), runs, seconds }
    }

    #[test]
    fn parts_are_joined() {
        let one = scope(&["static"], Some(3), Some(2.0));
        let more = one.clone().joined(&scope(&["proxy", "static"], Some(9), Some(2.0))).unwrap();
        assert_eq!(more, scope(&["static", "proxy"], Some(9), Some(2.0)));
        assert_eq!(one.clone().joined(&scope(&[], None, Some(2.0))).unwrap(), scope(&[], None, Some(2.0)));
        let other = one.joined(&scope(&["static"], Some(3), None)).unwrap_err().to_string();
        assert!(other.contains("--seconds") && other.contains("--out"), "{other}");
    }
}
