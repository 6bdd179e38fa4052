//! Rates of a scenario: so many requests a second, or a share of what was measured as the most.
//!
//! Owns: their words, and what they come to once capacities are known.
//! Never: measures a capacity.
//! Driven by: `scenario`, which reads them; `run`, which resolves them.
//! Why: rates that show a knee on one machine say nothing on another, so a scenario can name shares of what this machine does.

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Requests a second that a point wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// So many.
    PerSecond(f64),
    /// A share of what the fastest contender did at full speed, of a hundred.
    OfFastest(f64),
    /// A share of what the slowest contender did at full speed: all can carry up to a hundred of it.
    OfSlowest(f64),
}

impl Rate {
    /// Reads `2000`, `70%`, `70% of the fastest`, `70% of the slowest`; `max` is none: as fast as the connections allow.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(word: &str) -> Result<Option<Self>> {
        let word = word.trim();
        if word == "max" {
            return Ok(None);
        }
        let told = || format!("`{word}` is no rate: max, 2000, 70% (of the fastest) or 70% of the slowest");
        let number = |text: &str| -> Result<f64> {
            let value: f64 = text.trim().parse().with_context(told)?;
            ensure!(value.is_finite() && value > 0.0, "{}", told());
            Ok(value)
        };
        let Some((share, of)) = word.split_once('%') else {
            return number(word).map(|n| Some(Self::PerSecond(n)));
        };
        match of.trim() {
            "" | "of the fastest" => number(share).map(|n| Some(Self::OfFastest(n))),
            "of the slowest" => number(share).map(|n| Some(Self::OfSlowest(n))),
            _ => bail!("{}", told()),
        }
    }

    /// Whether it takes a measurement to know it.
    #[must_use]
    pub fn is_share(self) -> bool {
        !matches!(self, Self::PerSecond(_))
    }

    /// A part of a file's name.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::PerSecond(rate) => format!("r{rate}"),
            Self::OfFastest(share) => format!("r{share}pct"),
            Self::OfSlowest(share) => format!("r{share}pct-slowest"),
        }
    }

    /// Requests a second, where contenders did `capacities` at full speed; `None` if nobody did anything.
    ///
    /// A share is rounded to three digits: nobody measures more closely than that.
    #[must_use]
    pub fn resolve(self, capacities: &[f64]) -> Option<f64> {
        let (share, of) = match self {
            Self::PerSecond(rate) => return Some(rate),
            Self::OfFastest(share) => (share, capacities.iter().copied().max_by(f64::total_cmp)?),
            Self::OfSlowest(share) => (share, capacities.iter().copied().min_by(f64::total_cmp)?),
        };
        Some(three_digits(of * share / 100.0)).filter(|rate| *rate > 0.0)
    }
}

fn three_digits(value: f64) -> f64 {
    let unit = 10f64.powf((value.max(1.0).log10().floor() - 2.0).max(0.0));
    (value / unit).round() * unit
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PerSecond(rate) => write!(f, "{rate}"),
            Self::OfFastest(share) => write!(f, "{share}% of the fastest"),
            Self::OfSlowest(share) => write!(f, "{share}% of the slowest"),
        }
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        let rate = Self::parse(&word).map_err(serde::de::Error::custom)?;
        rate.ok_or_else(|| serde::de::Error::custom("`max` is no number"))
    }
}

/// What stands in a list of rates: YAML's numbers need no quotes.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Word {
    /// Requests a second.
    Number(f64),
    /// What [`Rate::parse`] reads.
    Text(String),
}

impl Word {
    pub(crate) fn rate(&self) -> Result<Option<Rate>> {
        match self {
            Self::Number(number) => Rate::parse(&number.to_string()),
            Self::Text(text) => Rate::parse(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_written() {
        let read = |word: &str| Rate::parse(word).unwrap();
        assert_eq!(read("max"), None);
        assert_eq!(read("2000"), Some(Rate::PerSecond(2000.0)));
        for word in ["70% of the fastest", "80% of the slowest", "2500"] {
            assert_eq!(read(word).unwrap().to_string(), word);
            let json = serde_json::to_string(&read(word).unwrap()).unwrap();
            assert_eq!(serde_json::from_str::<Rate>(&json).unwrap(), read(word).unwrap());
        }
        assert_eq!(read("70%"), read("70% of the fastest"));
        for bad in ["", "fast", "-5", "0", "70% of all", "%", "nan"] {
            assert!(Rate::parse(bad).unwrap_err().to_string().contains("is no rate"), "{bad}");
        }
    }

    #[test]
    fn shares_are_of_what_was_measured() {
        let capacities = [25_437.0, 12_345.0, 40_120.0];
        assert_eq!(Rate::OfFastest(50.0).resolve(&capacities), Some(20_100.0));
        assert_eq!(Rate::OfSlowest(80.0).resolve(&capacities), Some(9_880.0));
        assert_eq!(Rate::OfSlowest(10.0).resolve(&[123.4]), Some(12.0));
        assert_eq!(Rate::PerSecond(7.0).resolve(&[]), Some(7.0));
        assert_eq!(Rate::OfFastest(50.0).resolve(&[]), None);
    }
}
