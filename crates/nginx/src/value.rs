//! Values of arguments: flags, sizes, times, numbers.
//!
//! Owns: nginx's spellings of them (nginx.org, "Configuration file measurement units").
//! Never: reports; a value that does not parse is `None`, its user says what was expected.
//! Driven by: the checks of [`crate::table`] and the lowering.

use std::time::Duration;

/// `on` or `off`; letters of either case, as nginx takes them.
pub(crate) fn flag(text: &str) -> Option<bool> {
    match text {
        _ if text.eq_ignore_ascii_case("on") => Some(true),
        _ if text.eq_ignore_ascii_case("off") => Some(false),
        _ => None,
    }
}

/// Bytes: digits with `k` or `m`.
pub(crate) fn size(text: &str) -> Option<u64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1 << 10),
        b'm' | b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    number(digits)?.checked_mul(factor).filter(|&n| i64::try_from(n).is_ok())
}

/// Bytes of files: digits with `k`, `m` or `g`.
pub(crate) fn offset(text: &str) -> Option<u64> {
    match text.strip_suffix(['g', 'G']) {
        Some(digits) => number(digits)?.checked_mul(1 << 30).filter(|&n| i64::try_from(n).is_ok()),
        None => size(text),
    }
}

/// Digits only.
pub(crate) fn number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|&n| i64::try_from(n).is_ok())
}

/// A time such as `30`, `1m`, `1h 30m`, `500ms`. A number without unit counts seconds.
pub(crate) fn time(text: &str) -> Option<Duration> {
    units(text, true)
}

/// A time in whole seconds: `ms` is refused, as nginx does where it keeps seconds.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    units(text, false).map(|time| time.as_secs())
}

fn units(text: &str, milliseconds: bool) -> Option<Duration> {
    let mut total: u64 = 0;
    // Units must fall: `1h30m` and never `30m1h`. Ranks follow nginx's steps.
    let mut last_rank = 0;
    let mut rest = text;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let value = number(&rest[..digits])?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (rank, factor) = match &rest[..letters] {
            "y" => (1, 365 * 86_400_000),
            "M" => (2, 30 * 86_400_000),
            "w" => (3, 7 * 86_400_000),
            "d" => (4, 86_400_000),
            "h" => (5, 3_600_000),
            "m" => (6, 60_000),
            "s" => (7, 1000),
            "ms" if milliseconds => (8, 1),
            "" => (9, 1000),
            _ => return None,
        };
        if rank <= last_rank {
            return None;
        }
        last_rank = rank;
        total = total.checked_add(value.checked_mul(factor)?)?;
        rest = rest[letters..].trim_start_matches(' ');
    }
    Some(Duration::from_millis(total))
}

/// `rate=` of limits: thousandths of a request a second from `10r/s` or `30r/m`.
pub(crate) fn rate_milli(text: &str) -> Option<u64> {
    let (count, per) = match text.strip_suffix("r/s") {
        Some(count) => (count, 1),
        // Without a unit nginx counts by the second.
        None => text.strip_suffix("r/m").map_or((text, 1), |count| (count, 60)),
    };
    number(count)?.checked_mul(1000).map(|n| n / per).filter(|&n| n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let table = [
            ("0", Some(0)),
            ("8k", Some(8192)),
            ("1M", Some(1 << 20)),
            ("1g", None),
            ("", None),
            ("-1", None),
        ];
        for (text, expected) in table {
            assert_eq!(size(text), expected, "{text}");
        }
        assert_eq!(offset("2g"), Some(2 << 30));
        assert_eq!(offset("99999999999g"), None);
        assert_eq!(size("9223372036854775807m"), None);
    }

    #[test]
    fn times() {
        let table = [
            ("75", Some(75_000)),
            ("1h30m", Some(5_400_000)),
            ("1h 30m", Some(5_400_000)),
            ("500ms", Some(500)),
            ("1M", Some(2_592_000_000)),
            ("30m1h", None),
            ("5x", None),
            ("", None),
            ("s", None),
        ];
        for (text, expected) in table {
            assert_eq!(time(text), expected.map(Duration::from_millis), "{text}");
        }
        assert_eq!(seconds("10ms"), None);
        assert_eq!(seconds("1d"), Some(86400));
    }

    #[test]
    fn rates() {
        assert_eq!(rate_milli("10r/s"), Some(10_000));
        assert_eq!(rate_milli("30r/m"), Some(500));
        assert_eq!(rate_milli("10"), Some(10_000));
        assert_eq!(rate_milli("0r/s"), None);
        assert_eq!(rate_milli("10r"), None);
    }
}
