//! Times and sizes as text.
//!
//! Owns: `90s`, `1h30m`, `250ms`; `8k`, `1m`, `2g`.
//! Driven by: `read`, `tree`.

use std::time::Duration;

const UNITS: [(&str, u128); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// The time of a text: numbers, each with its unit. A zero needs none.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut total) = (text, 0u128);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).filter(|&at| at > 0)?;
        let number: u128 = rest[..digits].parse().ok()?;
        let end =
            rest[digits..].find(|c: char| !c.is_ascii_alphabetic()).map_or(rest.len(), |at| digits + at);
        let (_, nanos) = UNITS.iter().find(|(unit, _)| *unit == &rest[digits..end])?;
        total = total.checked_add(number.checked_mul(*nanos)?)?;
        rest = &rest[end..];
    }
    let secs = u64::try_from(total / 1_000_000_000).ok()?;
    (!text.is_empty()).then(|| Duration::new(secs, (total % 1_000_000_000) as u32))
}

/// The text of a time, in the largest unit that it is a whole number of; days are hours.
pub(crate) fn of_duration(time: Duration) -> String {
    let nanos = time.as_nanos();
    // A minute and a half is easier as 90s.
    let whole = UNITS[..6].iter().rev().find(|(_, unit)| nanos.is_multiple_of(*unit) && nanos >= *unit);
    match whole {
        Some((unit, size)) => format!("{}{unit}", nanos / size),
        None => "0s".to_owned(),
    }
}

/// A whole number, perhaps with `k`, `m` or `g` for powers of 1024, or in octal digits (`0o640`).
pub(crate) fn number(text: &str) -> Option<i128> {
    if let Some(digits) = text.strip_prefix("0o") {
        return i128::from_str_radix(digits, 8).ok();
    }
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 10),
        b'm' | b'M' => (&text[..text.len() - 1], 20),
        b'g' | b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits
        .parse::<i64>()
        .ok()
        .map(|number| i128::from(number) << shift)
        .or_else(|| digits.parse::<u64>().ok().map(i128::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for millis in [0, 1, 999, 1000, 1500, 60_000, 75_000, 3_600_000, 5_400_000, 86_400_000] {
            let time = Duration::from_millis(millis);
            assert_eq!(duration(&of_duration(time)), Some(time));
        }
        let odd = Duration::from_nanos(1_000_000_001);
        assert_eq!(duration(&of_duration(odd)), Some(odd));
        assert_eq!(duration("1h30m"), Some(Duration::from_secs(5400)));
        assert_eq!(duration("2d"), Some(Duration::from_secs(172_800)));
        for wrong in ["", "10", "s", "1 s", "10x", "-1s", "1.5s"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(number("8k"), Some(8192));
        assert_eq!(number("-1"), Some(-1));
        assert_eq!(number("0o640"), Some(0o640));
        assert_eq!(number("18446744073709551615"), Some(i128::from(u64::MAX)));
        for wrong in ["", "k", "8kb", "x", "1.5"] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
    }
}
