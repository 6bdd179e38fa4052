//! What callgrind wrote down.
//!
//! Owns: the reading of its dumps (valgrind's manual, "Callgrind Format Specification").
//! Driven by: `count`.
//! Why the own cost of each function by file: code that was inlined keeps the file it was written in, so a phase is
//! found whatever the compiler made of its functions.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::Path;

/// Instructions by function and by the file that they were written in.
#[derive(Debug, Default)]
pub(super) struct Profile {
    costs: BTreeMap<Place, u64>,
    calls: BTreeMap<String, u64>,
}

/// Where instructions are spent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The function as it was compiled, with what was inlined into it.
    pub(super) function: String,
    /// The file where that function begins.
    pub(super) home: String,
    /// The file of the lines themselves.
    pub(super) file: String,
}

impl Profile {
    /// Reads the dump in a folder, and removes it.
    pub(super) fn take(dir: &Path) -> Result<Self> {
        let dumps: Vec<_> = std::fs::read_dir(dir)?
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("counted."))
            .collect();
        ensure!(dumps.len() == 1, "callgrind left {} dumps", dumps.len());
        let path = dumps[0].path();
        let text = std::fs::read_to_string(&path).context("callgrind's dump")?;
        std::fs::remove_file(path)?;
        Self::read(&text)
    }

    fn read(text: &str) -> Result<Self> {
        let mut profile = Self::default();
        let (mut home, mut file, mut function, mut called) = ("", "", "", "");
        let mut inclusive = false;
        for line in text.lines() {
            if let Some((key, value)) = line.split_once('=') {
                match key {
                    "fl" => (home, file) = (value, value),
                    "fi" | "fe" => file = value,
                    "fn" => (function, file) = (value, home),
                    "cfn" => called = value,
                    "calls" => {
                        let count = value.split(' ').next().unwrap_or_default();
                        *profile.calls.entry(called.to_owned()).or_default() += count.parse::<u64>()?;
                        // The next line is what the callee cost, which counts there.
                        inclusive = true;
                    }
                    _ => {}
                }
            } else if line.starts_with(|c: char| c.is_ascii_digit()) && !std::mem::take(&mut inclusive) {
                let cost = line.split(' ').nth(1).context("a line of cost has two numbers")?;
                let place =
                    Place { function: function.to_owned(), home: home.to_owned(), file: file.to_owned() };
                *profile.costs.entry(place).or_default() += cost.parse::<u64>()?;
            }
        }
        Ok(profile)
    }

    pub(super) fn costs(&self) -> impl Iterator<Item = (&Place, u64)> {
        self.costs.iter().map(|(place, cost)| (place, *cost))
    }

    /// The functions that cost most by themselves: instructions, calls, name.
    pub(super) fn dearest(&self, most: usize) -> Vec<(u64, u64, &str)> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (place, cost) in &self.costs {
            *sums.entry(&place.function).or_default() += cost;
        }
        let calls = |name: &str| self.calls.get(name).copied().unwrap_or_default();
        let mut all: Vec<_> = sums.into_iter().map(|(name, cost)| (cost, calls(name), name)).collect();
        all.sort_by(|a, b| b.cmp(a));
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_costs_are_told_from_those_of_callees() {
        let text = "events: Ir\nfl=a.rs\nfn=one\n10 5\nfi=b.rs\n3 2\nfe=a.rs\n11 1\ncfi=c.rs\ncfn=two\ncalls=4 7\n12 400\n13 1\n\nfl=c.rs\nfn=two\n7 400\ntotals: 409\n";
        let profile = Profile::read(text).unwrap();
        assert_eq!(profile.dearest(9), [(400, 4, "two"), (9, 0, "one")]);
        let of =
            |file: &str| profile.costs().filter(|(place, _)| place.file == file).map(|c| c.1).sum::<u64>();
        assert_eq!((of("a.rs"), of("b.rs"), of("c.rs")), (7, 2, 400));
    }
}
