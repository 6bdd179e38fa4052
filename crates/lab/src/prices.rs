//! What hardware costs.
//!
//! Owns: the form of a price list, the one that comes along, the machine that suffices.
//! Never: knows what a machine can do; `size` and the report do.
//! Driven by: `size`, `merge`, the price column of the report.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The list that comes along, with its comments.
pub const DEFAULT: &str = include_str!("../data/prices.yaml");

/// A list of machines, from the smallest to the largest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Whose prices they are.
    pub source: String,
    /// What they are counted in.
    pub currency: String,
    /// The machines.
    pub machines: Vec<Machine>,
}

/// A class of machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Its cores.
    pub cores: u32,
    /// What one costs.
    pub price: f64,
}

impl Prices {
    /// The list of `file`, or the one that comes along.
    ///
    /// # Errors
    /// The file cannot be read, or is no such list: the message names the line.
    pub fn read(file: Option<&Path>) -> Result<Self> {
        let Some(file) = file else { return Self::parse(DEFAULT) };
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        Self::parse(&text).with_context(|| format!("{} is no list of prices", file.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let prices: Self = serde_norway::from_str(text)?;
        ensure!(!prices.machines.is_empty(), "it has no machines");
        ensure!(
            prices.machines.is_sorted_by_key(|m| m.cores),
            "machines are to stand from the smallest to the largest"
        );
        for machine in &prices.machines {
            ensure!(
                machine.cores > 0 && machine.price > 0.0,
                "{}: cores and price must be above 0",
                machine.name
            );
        }
        Ok(prices)
    }

    /// The cheapest machine with so many cores; none is large enough: `None`.
    #[must_use]
    pub fn machine(&self, cores: f64) -> Option<&Machine> {
        let enough = self.machines.iter().filter(|m| f64::from(m.cores) >= cores);
        enough.min_by(|a, b| a.price.total_cmp(&b.price))
    }

    /// The machine with the most cores for its price, and how many of it have so many together.
    #[must_use]
    pub fn several(&self, cores: f64) -> Option<(u32, &Machine)> {
        let count = |m: &Machine| (cores / f64::from(m.cores)).ceil();
        let cost = |m: &Machine| count(m) * m.price;
        let best = self.machines.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
        Some((count(best) as u32, best))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_that_comes_along_has_the_published_prices() {
        let prices = Prices::read(None).unwrap();
        let price = |cores: f64| prices.machine(cores).map(|m| m.price);
        assert_eq!([1.0, 2.0, 3.0, 4.0, 8.0].map(price), [750.0, 750.0, 1300.0, 1300.0, 2200.0].map(Some));
        assert_eq!(price(9.0), None);
        // Three of 8 cores for 6,600 have 24; ten of 2 would cost 7,500, five of 4 6,500.
        let (count, machine) = prices.several(20.0).unwrap();
        assert_eq!((count, machine.cores), (5, 4));
    }

    #[test]
    fn mistakes_are_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            format!("{:#}", Prices::read(Some(file.path())).unwrap_err())
        };
        assert!(read(&DEFAULT.replace("cores: 2", "core: 2")).contains("core"));
        assert!(read(&DEFAULT.replace("price: 750", "price: 0")).contains("above 0"));
        assert!(read(&DEFAULT.replace("cores: 8", "cores: 1")).contains("smallest to the largest"));
        assert!(
            Prices::read(Some(Path::new("/nowhere/p.yaml")))
                .unwrap_err()
                .to_string()
                .contains("/nowhere/p.yaml")
        );
    }
}
