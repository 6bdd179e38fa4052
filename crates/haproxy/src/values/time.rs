//! Times: a number and a unit (configuration manual 2.5).

use std::time::Duration;

/// The longest time a timer can hold: 2³¹−1 milliseconds, about 24.8 days.
const LONGEST: u64 = i32::MAX as u64;

/// Reads a time. Without a unit the number counts `unit_millis` milliseconds each (1, or 1000 where seconds are
/// meant). The units are `us`, `ms`, `s`, `m`, `h` and `d`.
pub(crate) fn parse(text: &str, unit_millis: u64) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(format!("`{text}` is no time"));
    }
    let number: u64 = number.parse().map_err(|_| format!("`{text}` is too long a time"))?;
    let micros = match unit {
        "us" => Some(number),
        "ms" => number.checked_mul(1_000),
        "s" => number.checked_mul(1_000_000),
        "m" => number.checked_mul(60_000_000),
        "h" => number.checked_mul(3_600_000_000),
        "d" => number.checked_mul(86_400_000_000),
        "" => number.checked_mul(unit_millis * 1_000),
        other => return Err(format!("`{other}` is no unit of time; those are us, ms, s, m, h and d")),
    };
    match micros {
        Some(micros) if micros / 1_000 <= LONGEST => Ok(Duration::from_micros(micros)),
        _ => Err(format!("`{text}` is too long a time; the longest is about 24 days")),
    }
}

/// Reads a time in milliseconds unless it has a unit: what every `timeout` takes.
pub(crate) fn millis(text: &str) -> Result<Duration, String> {
    parse(text, 1)
}

/// Reads a time in seconds unless it has a unit.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    parse(text, 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, micros) in [
            ("1000", 1_000_000),
            ("10s", 10_000_000),
            ("5m", 300_000_000),
            ("1h", 3_600_000_000),
            ("1d", 86_400_000_000),
            ("250ms", 250_000),
            ("1500us", 1_500),
            ("0", 0),
        ] {
            assert_eq!(millis(text), Ok(Duration::from_micros(micros)), "{text}");
        }
        assert_eq!(parse("3", 1000), Ok(Duration::from_secs(3)));
        for bad in ["", "s", "1.5s", "1x", "-1", "999999999999999999999", "99d", "1 s"] {
            assert!(millis(bad).is_err(), "{bad}");
        }
    }
}
