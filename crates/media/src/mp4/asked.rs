//! What is asked of a file, and why it cannot be had.
//!
//! Owns: reading the arguments of a request, and the faults of files.
//! Never: looks into a file.
//! Driven by: [`super::Seek`], and what it is made of.

use std::fmt;

/// What of a file is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// From so many milliseconds on.
    pub start: u64,
    /// So many milliseconds of it; `None`: to its end.
    pub length: Option<u64>,
    /// Pictures begin with one that needs no other: those before the start are sent and hidden.
    pub from_key_frame: bool,
}

impl Asked {
    /// By the arguments `start` and `end` of a request, in seconds with up to three decimals; `None`: the file as it is.
    #[must_use]
    pub fn by(start: Option<&[u8]>, end: Option<&[u8]>, from_key_frame: bool) -> Option<Self> {
        let (start, end) = (start.and_then(millis), end.and_then(millis));
        let from = start.unwrap_or(0);
        let length = end.and_then(|end| end.checked_sub(from)).filter(|&length| length > 0);
        (start.is_some() || length.is_some()).then_some(Self { start: from, length, from_key_frame })
    }
}

/// Seconds with up to three decimals, in milliseconds.
fn millis(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && decimals.is_empty() || !digits(whole) || !digits(decimals) || decimals.len() > 3 {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let thousandths: u64 = format!("{decimals:0<3}").parse().ok()?;
    whole.checked_mul(1000)?.checked_add(thousandths)
}

/// Why a file cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A box is longer than what it lies in, or too short for what it has to hold.
    Broken,
    /// There are no tables, or there is no media data.
    Missing,
    /// The tables are longer than the setting allows.
    TooLarge,
    /// The tables do not fit one another.
    Mismatch,
    /// It is not as long as that.
    Beyond,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Broken => "a box of the file is broken",
            Self::Missing => "the file has no tables of samples, or no media data",
            Self::TooLarge => "the tables of the file are longer than mp4_max_buffer_size",
            Self::Mismatch => "the tables of the file do not fit one another",
            Self::Beyond => "the start is behind the end of the file",
        })
    }
}
