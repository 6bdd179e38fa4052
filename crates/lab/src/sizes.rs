//! Sizes of pages, as scenarios write them.
//!
//! Owns: their words. Driven by: `scenario`, and whoever reads a point.

use anyhow::{Context, Result};

/// The bytes of a size such as `10k`.
///
/// # Errors
/// It is none.
pub fn bytes(size: &str) -> Result<u64> {
    let (digits, unit) = match size.strip_suffix(['k', 'm']) {
        Some(digits) => (digits, if size.ends_with('k') { 1 << 10 } else { 1 << 20 }),
        None => (size, 1),
    };
    let number: u64 =
        digits.parse().ok().with_context(|| format!("`{size}` is no size such as 0, 128, 10k, 1m"))?;
    number.checked_mul(unit).filter(|n| *n <= 1 << 30).with_context(|| format!("{size} is above 1 GB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!([bytes("0").unwrap(), bytes("128").unwrap(), bytes("10k").unwrap()], [0, 128, 10_240]);
        assert!(bytes("ten").is_err() && bytes("99999999999m").is_err() && bytes("").is_err());
    }
}
