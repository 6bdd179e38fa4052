//! Numbers as wrk writes and reads them.
//!
//! Owns: SI counts (`2k`), times (`180s`, `1.5m`, `250ms`), sizes (`10k` = 10,240), and their printed forms.
//! Never: guesses: what is none of these is refused with what was expected.
//! Driven by: the command line, and `text`.

use std::time::Duration;

fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then_some((number, text[end..].trim()))
}

fn whole(number: f64, text: &str) -> Result<u64, String> {
    // 2^53: above it a float no longer holds every whole number.
    if number > 9_007_199_254_740_992.0 {
        return Err(format!("`{text}` is too large"));
    }
    Ok(number.round() as u64)
}

/// A count with an SI suffix: `50`, `10k`, `1.5M`, `1G`.
///
/// # Errors
/// A sentence that says what was expected.
pub fn count(text: &str) -> Result<u64, String> {
    whole(rate(text)?, text)
}

/// A rate with an SI suffix: as [`count`], fractions kept (`0.5` is one in two seconds).
///
/// # Errors
/// As [`count`].
pub fn rate(text: &str) -> Result<f64, String> {
    let expected = || format!("`{text}` is no number such as 100, 10k, 1.5M");
    let (number, unit) = split(text).ok_or_else(expected)?;
    let factor = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" => 1e9,
        _ => return Err(expected()),
    };
    Ok(number * factor)
}

/// A size in bytes: `128`, `1k`, `10m`, `1g`, in powers of 1,024; a `b` may follow.
///
/// # Errors
/// As [`count`].
pub fn size(text: &str) -> Result<u64, String> {
    let expected = || format!("`{text}` is no size such as 128, 10k, 1m");
    let (number, unit) = split(text).ok_or_else(expected)?;
    let factor = match unit.to_ascii_lowercase().trim_end_matches('b') {
        "" => 1.0,
        "k" | "ki" => 1024.0,
        "m" | "mi" => 1024.0 * 1024.0,
        "g" | "gi" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(expected()),
    };
    whole(number * factor, text)
}

/// A time: `30` or `30s`, `2m`, `1h`, `250ms`, `50us`.
///
/// # Errors
/// As [`count`].
pub fn time(text: &str) -> Result<Duration, String> {
    let expected = || format!("`{text}` is no time such as 30s, 2m, 1h, 250ms");
    let (number, unit) = split(text).ok_or_else(expected)?;
    let factor = match unit {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        _ => return Err(expected()),
    };
    Duration::try_from_secs_f64(number * factor).map_err(|_| expected())
}

/// A share: `1%`, `0.01`.
///
/// # Errors
/// As [`count`].
pub fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text).ok_or_else(|| format!("`{text}` is no share such as 1% or 0.01"))?;
    let share = match unit {
        "" => number,
        "%" => number / 100.0,
        _ => return Err(format!("`{text}` is no share such as 1% or 0.01")),
    };
    if share > 1.0 { Err(format!("`{text}` is more than all")) } else { Ok(share) }
}

/// Scales `n` down by units of `scale`, at 85% of the next one, as wrk does.
fn scaled(n: f64, scale: f64, units: &[&str]) -> String {
    let (mut n, mut unit) = (n, 0);
    while unit + 1 < units.len() && n >= scale * 0.85 {
        n /= scale;
        unit += 1;
    }
    format!("{n:.2}{}", units[unit])
}

/// Microseconds: `635.91us`, `1.04ms`, `2.50s`, `1.50m`.
#[must_use]
pub fn micros(us: f64) -> String {
    if us >= 1e6 { seconds(us / 1e6) } else { scaled(us, 1e3, &["us", "ms", "s"]) }
}

fn seconds(s: f64) -> String {
    scaled(s, 60.0, &["s", "m", "h"])
}

/// A whole number of seconds, as in `Running 30s test`: `30s`, `3m`, `1h`.
#[must_use]
pub fn whole_seconds(s: f64) -> String {
    let (mut n, mut unit) = (s, "s");
    for next in ["m", "h"] {
        if n >= 60.0 * 0.85 {
            n /= 60.0;
            unit = next;
        } else {
            break;
        }
    }
    if s > 0.0 && s < 1.0 { format!("{:.0}ms", s * 1e3) } else { format!("{n:.0}{unit}") }
}

/// A count in thousands: `1.05k`.
#[must_use]
pub fn metric(n: f64) -> String {
    scaled(n, 1e3, &["", "k", "M", "G", "T", "P"])
}

/// Bytes in powers of 1,024: `19.81MB`.
#[must_use]
pub fn binary(n: f64) -> String {
    scaled(n, 1024.0, &["", "K", "M", "G", "T", "P"]) + "B"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_those_of_wrk() {
        assert_eq!((count("50"), count("10k"), count("1.5M")), (Ok(50), Ok(10_000), Ok(1_500_000)));
        assert_eq!((size("1k"), size("10MB"), size("0")), (Ok(1024), Ok(10 << 20), Ok(0)));
        assert_eq!(time("180s"), Ok(Duration::from_secs(180)));
        assert_eq!(time("2"), Ok(Duration::from_secs(2)));
        assert_eq!(time("3m"), Ok(Duration::from_secs(180)));
        assert_eq!((share("1%"), share("0.5")), (Ok(0.01), Ok(0.5)));
        assert!(share("2").is_err() && share("x%").is_err());
        assert_eq!(time("250ms"), Ok(Duration::from_millis(250)));
        for bad in ["", "x", "10x", "-1", "1.2.3", "nan", "inf"] {
            assert!(count(bad).is_err() && time(bad).is_err() && size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn printed_forms_are_those_of_wrk() {
        assert_eq!(micros(635.91), "635.91us");
        assert_eq!(micros(900.0), "0.90ms");
        assert_eq!(micros(6_460.0), "6.46ms");
        assert_eq!(micros(2_500_000.0), "2.50s");
        assert_eq!(metric(1050.0), "1.05k");
        assert_eq!(binary(20_770_000.0), "19.81MB");
        assert_eq!(binary(0.0), "0.00B");
        assert_eq!(whole_seconds(30.0), "30s");
        assert_eq!(whole_seconds(180.0), "3m");
    }
}
