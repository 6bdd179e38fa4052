//! Times in the two forms of the API: ISO 8601 with milliseconds, and nginx's `10s`.

use crate::civil::Civil;

/// Milliseconds since 1970 as `2026-01-31T15:04:05.678Z`.
pub(super) fn iso(unix_ms: u64) -> String {
    let Civil { year, month, day, hour, minute, second, millis } = Civil::of(unix_ms);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Milliseconds as `10s`, or `1500ms` where they are no whole seconds.
pub(super) fn shown(ms: u64) -> String {
    if ms.is_multiple_of(1000) { format!("{}s", ms / 1000) } else { format!("{ms}ms") }
}

/// The time that a text such as `10s`, `1m 30s`, `500ms` or `10` means, in milliseconds (nginx.org: "Configuration file
/// measurement units"); `None`: it is none.
pub(super) fn parse(text: &str) -> Option<u64> {
    let mut total = 0u64;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = match &rest[..letters] {
            "ms" => 1,
            "" | "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            "M" => 30 * 86_400_000,
            "y" => 365 * 86_400_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = rest[letters..].trim_start();
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (ms, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_656_414_944_467, "2022-06-28T11:15:44.467Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso(ms), expected);
        }
    }

    #[test]
    fn times_are_read_and_shown_as_nginx_writes_them() {
        for (text, ms) in
            [("10s", 10_000), ("10", 10_000), ("1m 30s", 90_000), ("500ms", 500), ("1h30m", 5_400_000)]
        {
            assert_eq!(parse(text), Some(ms), "{text}");
        }
        for text in ["", "s", "10x", "-1s", "1.5s", "99999999999999999999s"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(
            (shown(10_000).as_str(), shown(1_500).as_str(), shown(0).as_str()),
            ("10s", "1500ms", "0s")
        );
    }
}
