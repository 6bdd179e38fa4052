//! Sizes and counts: a number and `k`, `m` or `g` (configuration manual 2.6), in powers of 1024.

/// Reads a size in bytes.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| format!("`{text}` is no size"))?;
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        other => return Err(format!("`{other}` is no unit of size; those are k, m and g")),
    };
    number.checked_mul(1 << shift).ok_or_else(|| format!("`{text}` is too large"))
}

/// Reads a count within bounds.
pub(crate) fn count(text: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    let number: u64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    if range.contains(&number) {
        return Ok(number);
    }
    Err(format!("{number} is out of bounds: {} to {}", range.start(), range.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse("16384"), Ok(16384));
        assert_eq!(parse("16k"), Ok(16384));
        assert_eq!(parse("1m"), Ok(1 << 20));
        assert_eq!(parse("2g"), Ok(2 << 30));
        for bad in ["", "k", "1x", "-1", "99999999999999999g"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(count("256", 0..=256), Ok(256));
        assert!(count("257", 0..=256).is_err());
    }
}
