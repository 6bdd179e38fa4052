//! Changes of a value that need no name and no pattern: HAProxy's converters.
//!
//! Owns: [`Convert`], and what each does to bytes.
//! Never: looks at an exchange; a value goes in, a value or none comes out.
//! Driven by: definitions of variables (`model` and `plan` hold lists of steps, the engine runs them).
//! Why: nearly all converters are pure, so their list and their meaning stand in one place and are tested without traffic.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A pure change of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Convert {
    /// ASCII letters to lower case.
    Lower,
    /// ASCII letters to upper case.
    Upper,
    /// Parts between separators: from the index-th (1 is the first, -1 the last) on, so many; 0: all that follow.
    Field {
        /// Which.
        index: i32,
        /// Each of these bytes separates.
        separators: String,
        /// How many; 0: all.
        count: usize,
        /// Empty parts do not count (`word`).
        skip_empty: bool,
    },
    /// Bytes from an offset on.
    Bytes {
        /// First byte.
        offset: usize,
        /// How many; `None`: all.
        length: Option<usize>,
    },
    /// The path before its n-th slash (`balance uri depth`).
    Slashes(usize),
    /// Length in bytes, as a number.
    Length,
    /// Two capital digits a byte.
    Hex,
    /// Number plus, minus, … a number.
    Arithmetic(Arithmetic, i64),
    /// `1` unless zero or empty.
    Bool,
    /// `1` if zero or empty.
    Not,
    /// Number negated.
    Negate,
    /// `1` if even.
    Even,
    /// `1` if odd.
    Odd,
    /// Without these bytes at the start.
    TrimStart(String),
    /// Without these bytes at the end.
    TrimEnd(String),
    /// Escaped as in a JSON string.
    Json,
    /// Address cut to a network.
    IpMask(u8, u8),
    /// The value of a name in `a=b&c=d`.
    Param {
        /// Name.
        name: String,
        /// What separates pairs.
        separators: String,
    },
    /// Up to the first end of line.
    FirstLine,
    /// One text where the value is neither empty nor zero, else the other.
    Choose(String, String),
    /// Number with all its bits the other way round.
    Complement,
    /// Hexadecimal digits as a number; none if there is another character.
    FromHex,
    /// Number as four bytes, the highest first.
    NetworkOrder,
    /// The bytes from last to first.
    Reverse,
    /// Eight binary digits a byte.
    Binary,
    /// Bytes by chunks: each chunk in digits.
    Chunks(Chunks),
    /// Percent-decoded; `+` is a space behind a `?`, or everywhere in a form.
    UrlDecode {
        /// All of it is a query.
        form: bool,
    },
    /// Hexadecimal digits as the bytes that they stand for; none if there is another character.
    FromHexBytes,
    /// The address in a request line whose target begins with a scheme and an address (HAProxy `url_ip`).
    UrlAddress,
    /// The port in such a line, or its scheme's (`url_port`).
    UrlPort,
    /// Escaped as in a JSON string, read as UTF-8.
    JsonUtf8 {
        /// What is no UTF-8 is left out; otherwise there is no value then.
        lenient: bool,
        /// Characters in more bytes than they need are taken.
        overlong: bool,
    },
}

/// How bytes are written by chunks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Chunks {
    /// Between chunks.
    pub separator: String,
    /// Bytes of a chunk; 0: all there are.
    pub size: usize,
    /// A chunk at the end that is not whole is left out.
    pub whole: bool,
    /// As what each is written.
    pub digits: Digits,
}

/// How a chunk is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Digits {
    /// Two hexadecimal digits a byte.
    Hex,
    /// A decimal number, the highest byte first.
    BigEndian,
    /// A decimal number, the lowest byte first.
    LittleEndian,
}

/// Codings and hashes: changes that need a library, which the engine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coding {
    /// SHA-1, as bytes.
    Sha1,
    /// Base64, with padding.
    Base64,
    /// Base64 decoded; none if malformed.
    FromBase64,
    /// Base64 in URLs, without padding.
    UrlBase64,
    /// The same decoded.
    FromUrlBase64,
    /// Percent-encoded.
    UrlEncode,
    /// Percent-decoded.
    UrlDecode,
    /// CRC-32 as a number; mixed once more (`avalanche`).
    Crc32(bool),
    /// SDBM hash as a number; mixed once more.
    Sdbm(bool),
    /// DJB2 hash as a number; mixed once more.
    Djb2(bool),
    /// Wang's hash as a number; mixed once more.
    Wt6(bool),
}

/// Operations on numbers, with saturation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arithmetic {
    /// Plus.
    Add,
    /// Minus.
    Sub,
    /// Times.
    Mul,
    /// Divided; by zero: the largest number.
    Div,
    /// Remainder; by zero: zero.
    Mod,
    /// Bits in both.
    And,
    /// Bits in either.
    Or,
    /// Bits in one only.
    Xor,
}

impl Convert {
    /// The value changed; `None` if there is none.
    pub fn apply(&self, value: Vec<u8>) -> Option<Vec<u8>> {
        let flag = |holds: bool| Some(if holds { b"1".to_vec() } else { b"0".to_vec() });
        match self {
            Self::Lower => Some(value.to_ascii_lowercase()),
            Self::Upper => Some(value.to_ascii_uppercase()),
            Self::Field { index, separators, count, skip_empty } => {
                parts(&value, *index, separators.as_bytes(), *count, *skip_empty).map(<[u8]>::to_vec)
            }
            Self::Bytes { offset, length } => {
                let rest = value.get(*offset..).unwrap_or_default();
                Some(rest[..length.map_or(rest.len(), |length| length.min(rest.len()))].to_vec())
            }
            Self::Slashes(n) => {
                let mut slashes = value.iter().enumerate().filter(|(_, byte)| **byte == b'/');
                let end = slashes.nth(n.saturating_sub(1)).map_or(value.len(), |(at, _)| at);
                Some(value[..end].to_vec())
            }
            Self::Length => Some(value.len().to_string().into_bytes()),
            Self::Hex => Some(hex(&value).collect()),
            Self::Arithmetic(operation, by) => {
                Some(operation.of(number(&value), *by).to_string().into_bytes())
            }
            Self::Bool => flag(is_true(&value)),
            Self::Not => flag(!is_true(&value)),
            Self::Negate => Some(number(&value).saturating_neg().to_string().into_bytes()),
            Self::Even => flag(number(&value) % 2 == 0),
            Self::Odd => flag(number(&value) % 2 != 0),
            Self::TrimStart(bytes) => {
                let start = value.iter().position(|byte| !bytes.as_bytes().contains(byte));
                Some(value[start.unwrap_or(value.len())..].to_vec())
            }
            Self::TrimEnd(bytes) => {
                let end = value.iter().rposition(|byte| !bytes.as_bytes().contains(byte));
                Some(value[..end.map_or(0, |at| at + 1)].to_vec())
            }
            Self::Json => Some(crate::json::escaped_bytes(&value)),
            Self::IpMask(v4, v6) => mask(&value, *v4, *v6),
            Self::Param { name, separators } => {
                let pairs = value.split(|byte| separators.as_bytes().contains(byte));
                pairs
                    .filter_map(|pair| pair.strip_prefix(name.as_bytes()))
                    .find_map(|rest| rest.strip_prefix(b"="))
                    .map(<[u8]>::to_vec)
            }
            Self::FirstLine => {
                let end = value.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
                Some(value[..end.unwrap_or(value.len())].to_vec())
            }
            Self::Choose(yes, no) => Some(if is_true(&value) { yes } else { no }.clone().into_bytes()),
            Self::Complement => Some((!number(&value)).to_string().into_bytes()),
            Self::FromHex => from_hex(&value).map(|number| number.to_string().into_bytes()),
            // HAProxy too keeps the low half of a longer number.
            Self::NetworkOrder => Some(number(&value).to_be_bytes()[4..].to_vec()),
            Self::Reverse => Some(value.into_iter().rev().collect()),
            Self::Binary => Some(value.iter().flat_map(|byte| format!("{byte:08b}").into_bytes()).collect()),
            Self::Chunks(chunks) => Some(chunks.write(&value)),
            Self::UrlDecode { form } => Some(url_decoded(&value, *form)),
            Self::FromHexBytes => from_hex_bytes(&value),
            Self::UrlAddress => url_authority(&value).map(|(ip, _)| ip.to_string().into_bytes()),
            Self::UrlPort => url_authority(&value).map(|(_, port)| port.to_string().into_bytes()),
            Self::JsonUtf8 { lenient, overlong } => crate::json::escaped(&value, *lenient, *overlong),
        }
    }
}

impl Chunks {
    fn write(&self, value: &[u8]) -> Vec<u8> {
        let size = if self.size == 0 { value.len().max(1) } else { self.size };
        let mut out = Vec::new();
        for chunk in value.chunks(size) {
            if self.whole && chunk.len() < size {
                break;
            }
            if !out.is_empty() {
                out.extend_from_slice(self.separator.as_bytes());
            }
            let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
            match self.digits {
                Digits::Hex => out.extend(hex(chunk)),
                Digits::BigEndian => out.extend(chunk.iter().fold(0, add).to_string().into_bytes()),
                Digits::LittleEndian => {
                    out.extend(chunk.iter().rev().fold(0, add).to_string().into_bytes());
                }
            }
        }
        out
    }
}

impl Arithmetic {
    /// The operation on two numbers.
    pub fn of(self, a: i64, b: i64) -> i64 {
        match self {
            Self::Add => a.saturating_add(b),
            Self::Sub => a.saturating_sub(b),
            Self::Mul => a.saturating_mul(b),
            Self::Div => {
                if b == 0 {
                    i64::MAX
                } else {
                    a.saturating_div(b)
                }
            }
            Self::Mod => a.checked_rem(b).unwrap_or(0),
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
        }
    }
}

/// The number that a text begins with; 0 if none.
pub fn number(value: &[u8]) -> i64 {
    let text = String::from_utf8_lossy(value);
    let text = text.trim();
    let end = text.bytes().skip(1).position(|byte| !byte.is_ascii_digit()).map_or(text.len(), |at| at + 1);
    text.get(..end).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// As HAProxy casts a text: by the number that it begins with.
fn is_true(value: &[u8]) -> bool {
    number(value) != 0
}

fn parts<'v>(value: &'v [u8], index: i32, separators: &[u8], count: usize, skip: bool) -> Option<&'v [u8]> {
    let mut ranges = Vec::new();
    let mut start = 0;
    for at in (0..=value.len()).filter(|&at| value.get(at).is_none_or(|byte| separators.contains(byte))) {
        if !skip || at > start {
            ranges.push((start, at));
        }
        start = at + 1;
    }
    let wanted = usize::try_from(index.unsigned_abs()).ok()?.checked_sub(1)?;
    let (first, last) = if index > 0 {
        let last = if count == 0 { ranges.len().checked_sub(1)? } else { wanted + count - 1 };
        (wanted, last.min(ranges.len().checked_sub(1)?))
    } else {
        let last = ranges.len().checked_sub(wanted + 1)?;
        (if count == 0 { 0 } else { last.saturating_sub(count - 1) }, last)
    };
    (first <= last).then(|| Some(&value[ranges.get(first)?.0..ranges.get(last)?.1]))?
}

fn hex(value: &[u8]) -> impl Iterator<Item = u8> {
    let digit = |n: u8| b"0123456789ABCDEF"[usize::from(n)];
    value.iter().flat_map(move |byte| [digit(byte >> 4), digit(byte & 15)])
}

/// The number that hexadecimal digits are; of many the last sixteen.
fn from_hex(value: &[u8]) -> Option<i64> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let sum = value.iter().try_fold(0u64, |sum, byte| Some(sum << 4 | u64::from(digit(*byte)?)));
    sum.map(u64::cast_signed)
}

/// The bytes that pairs of hexadecimal digits are.
fn from_hex_bytes(value: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = value.as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok());
    rest.is_empty().then(|| bytes.collect())?
}

/// Address and port of a request line's target in absolute form, where its host is an address.
fn url_authority(value: &[u8]) -> Option<(IpAddr, u16)> {
    let text = std::str::from_utf8(value).ok()?;
    let (scheme, rest) = text.split(' ').nth(1)?.split_once("://")?;
    if !scheme.bytes().all(|b| b.is_ascii_alphabetic()) {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    if let Ok(address) = authority.parse::<std::net::SocketAddr>() {
        return Some((address.ip(), address.port()));
    }
    let ip = authority.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
    Some((ip, if scheme.eq_ignore_ascii_case("https") { 443 } else { 80 }))
}

/// A `%` that no two digits follow stands for itself, so that no spelling hides what comes after it.
fn url_decoded(value: &[u8], form: bool) -> Vec<u8> {
    let digit = |at: usize| value.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut out = Vec::with_capacity(value.len());
    let (mut at, mut form) = (0, form);
    while let Some(&byte) = value.get(at) {
        at += 1;
        match (byte, digit(at), digit(at + 1)) {
            (b'%', Some(high), Some(low)) => {
                out.extend(u8::try_from(high << 4 | low));
                at += 2;
            }
            (b'+', ..) if form => out.push(b' '),
            _ => {
                form |= byte == b'?';
                out.push(byte);
            }
        }
    }
    out
}

fn mask(value: &[u8], v4: u8, v6: u8) -> Option<Vec<u8>> {
    let address: IpAddr = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
    let kept = match address {
        IpAddr::V4(ip) => {
            let bits = u32::MAX.checked_shl(32 - u32::from(v4.min(32))).unwrap_or(0);
            IpAddr::from((u32::from(ip) & bits).to_be_bytes())
        }
        IpAddr::V6(ip) => {
            let bits = u128::MAX.checked_shl(128 - u32::from(v6.min(128))).unwrap_or(0);
            IpAddr::from((u128::from(ip) & bits).to_be_bytes())
        }
    };
    Some(kept.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(convert: Convert, value: &str) -> Option<String> {
        convert.apply(value.into()).map(|value| String::from_utf8_lossy(&value).into_owned())
    }

    fn field(index: i32, count: usize, skip_empty: bool) -> Option<String> {
        check(Convert::Field { index, separators: "_".into(), count, skip_empty }, "f1_f2_f3__f5")
    }

    #[test]
    fn fields_and_words_are_those_of_the_manual() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(field(4, 1, false), text(""));
        assert_eq!(field(5, 1, false), text("f5"));
        assert_eq!(field(2, 0, false), text("f2_f3__f5"));
        assert_eq!(field(2, 2, false), text("f2_f3"));
        assert_eq!(field(-2, 3, false), text("f2_f3_"));
        assert_eq!(field(-3, 0, false), text("f1_f2_f3"));
        assert_eq!(field(9, 1, false), None);
        assert_eq!(field(4, 1, true), text("f5"));
        assert_eq!(field(5, 1, true), None);
        assert_eq!(field(3, 0, true), text("f3__f5"));
        assert_eq!(field(-2, 3, true), text("f1_f2_f3"));
        assert_eq!(field(-3, 0, true), text("f1_f2"));
    }

    #[test]
    fn numbers_saturate_and_nothing_panics() {
        assert_eq!(check(Convert::Arithmetic(Arithmetic::Div, 0), "7").unwrap(), i64::MAX.to_string());
        assert_eq!(check(Convert::Arithmetic(Arithmetic::Mod, 0), "7").unwrap(), "0");
        assert_eq!(
            check(Convert::Arithmetic(Arithmetic::Div, -1), &i64::MIN.to_string()).unwrap(),
            i64::MAX.to_string()
        );
        assert_eq!(check(Convert::Arithmetic(Arithmetic::Add, 1), "12ab").unwrap(), "13");
        assert_eq!(check(Convert::Negate, "-5").unwrap(), "5");
        assert_eq!(check(Convert::IpMask(24, 64), "192.0.2.77").unwrap(), "192.0.2.0");
        assert_eq!(check(Convert::IpMask(0, 64), "2001:db8::1:2:3:4").unwrap(), "2001:db8::");
        assert_eq!(check(Convert::Json, "a\"/\u{1}").unwrap(), "a\\\"\\/\\u0001");
        assert_eq!(check(Convert::Bytes { offset: 9, length: Some(2) }, "abc").unwrap(), "");
        assert_eq!(
            check(Convert::Param { name: "b".into(), separators: "&".into() }, "ab=1&b=2").unwrap(),
            "2"
        );
        assert_eq!(check(Convert::Slashes(3), "/a/b/c/d").unwrap(), "/a/b");
        assert_eq!(check(Convert::FromHexBytes, "4a4B").unwrap(), "JK");
        assert_eq!(check(Convert::FromHexBytes, "4a4"), None);
        assert_eq!(check(Convert::UrlAddress, "GET http://192.0.2.1:81/x HTTP/1.1").unwrap(), "192.0.2.1");
        assert_eq!(check(Convert::UrlPort, "GET http://192.0.2.1:81/x HTTP/1.1").unwrap(), "81");
        assert_eq!(check(Convert::UrlPort, "GET https://[2001:db8::1] HTTP/1.1").unwrap(), "443");
        assert_eq!(check(Convert::UrlAddress, "GET /x?http://192.0.2.1/ HTTP/1.1"), None);
    }
}
