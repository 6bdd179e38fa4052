//! Keys of stick tables: what a value is as a key, and how a key is shown.
//!
//! Owns: the forms of keys, HAProxy's casts between kinds of values and keys.
//! Never: looks a key up.
//! Driven by: rules that track, look up and change; the runtime commands, which show.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smallvec::SmallVec;
use weir_expr::StickKey;

/// A key. Addresses and numbers are bytes in network order.
pub type Key = SmallVec<[u8; 24]>;

/// A value as a key; `None` if it is none of this kind.
pub(super) fn of_value(kind: StickKey, value: &[u8]) -> Option<Key> {
    let text = || std::str::from_utf8(value).ok().map(str::trim);
    let address = || text().and_then(|text| text.parse::<IpAddr>().ok());
    match kind {
        StickKey::Ip | StickKey::Ipv6 => of_address(kind, address()?),
        // As in HAProxy the lower 32 bits of the digits that it begins with.
        StickKey::Integer => {
            let text = text().filter(|text| !text.is_empty())?;
            let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
            let digits = digits.bytes().take_while(u8::is_ascii_digit);
            let number = digits
                .fold(0i64, |sum, digit| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
            Some(SmallVec::from_slice(&number.wrapping_mul(sign).to_be_bytes()[4..]))
        }
        StickKey::Text(length) => {
            let length = value.len().min(length as usize);
            Some(SmallVec::from_slice(&value[..length]))
        }
        StickKey::Binary(length) => {
            let mut key = Key::from_slice(&value[..value.len().min(length as usize)]);
            key.resize(length as usize, 0);
            Some(key)
        }
    }
}

/// An address as a key; `None` if the table's keys are none.
pub(super) fn of_address(kind: StickKey, address: IpAddr) -> Option<Key> {
    let v4 = match address {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(v6) => v6.to_ipv4_mapped(),
    };
    match kind {
        // An address that is no IPv4 one has no place among them.
        StickKey::Ip | StickKey::Integer => Some(SmallVec::from_slice(&v4?.octets())),
        StickKey::Ipv6 => {
            let v6 = match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            Some(SmallVec::from_slice(&v6.octets()))
        }
        StickKey::Text(_) => of_value(kind, address.to_string().as_bytes()),
        StickKey::Binary(_) => match address {
            IpAddr::V4(v4) => of_value(kind, &v4.octets()),
            IpAddr::V6(v6) => of_value(kind, &v6.octets()),
        },
    }
}

/// Whether a table may have a key of these bytes.
pub(super) fn fits(kind: StickKey, key: &[u8]) -> bool {
    match kind {
        StickKey::Ip | StickKey::Integer => key.len() == 4,
        StickKey::Ipv6 => key.len() == 16,
        StickKey::Text(most) => key.len() <= most as usize,
        StickKey::Binary(length) => key.len() == length as usize,
    }
}

/// A key as HAProxy's runtime commands write it.
pub(super) fn shown(kind: StickKey, key: &[u8]) -> String {
    let mut out = String::new();
    let done = match (kind, key) {
        (StickKey::Ip, &[a, b, c, d]) => write!(out, "{}", Ipv4Addr::new(a, b, c, d)),
        (StickKey::Integer, &[a, b, c, d]) => write!(out, "{}", u32::from_be_bytes([a, b, c, d])),
        (StickKey::Ipv6, key) => match <[u8; 16]>::try_from(key) {
            Ok(octets) => write!(out, "{}", Ipv6Addr::from(octets)),
            Err(_) => Ok(()),
        },
        (StickKey::Text(_), key) => key.iter().try_for_each(|&byte| escaped(byte, &mut out)),
        (_, key) => key.iter().try_for_each(|byte| write!(out, "{byte:02X}")),
    };
    // Writing into a string does not fail.
    let _ = done;
    out
}

/// One byte of a text, as `dump_text` writes it.
fn escaped(byte: u8, out: &mut String) -> std::fmt::Result {
    match byte {
        b' ' | b'\\' | b'=' => write!(out, "\\{}", char::from(byte)),
        b'\n' => out.write_str("\\n"),
        b'\r' => out.write_str("\\r"),
        b'\t' => out.write_str("\\t"),
        0x1b => out.write_str("\\e"),
        0x21..=0x7e => out.write_char(char::from(byte)),
        _ => write!(out, "\\x{byte:02x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: StickKey, value: &str) -> Option<String> {
        of_value(kind, value.as_bytes()).map(|key| shown(kind, &key))
    }

    #[test]
    fn values_become_keys_as_they_are_cast() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(check(StickKey::Ip, "192.0.2.1"), some("192.0.2.1"));
        assert_eq!(check(StickKey::Ip, "::ffff:192.0.2.1"), some("192.0.2.1"));
        assert_eq!(check(StickKey::Ip, "2001:db8::1"), None);
        assert_eq!(check(StickKey::Ip, "unix:"), None);
        assert_eq!(check(StickKey::Ipv6, "192.0.2.1"), some("::ffff:192.0.2.1"));
        assert_eq!(check(StickKey::Ipv6, "2001:db8::1"), some("2001:db8::1"));
        assert_eq!(check(StickKey::Integer, "7"), some("7"));
        assert_eq!(check(StickKey::Integer, "-1"), some("4294967295"));
        assert_eq!(check(StickKey::Integer, "12x"), some("12"));
        assert_eq!(check(StickKey::Integer, "x"), some("0"));
        assert_eq!(check(StickKey::Integer, ""), None);
        let number = of_address(StickKey::Integer, IpAddr::V4(Ipv4Addr::new(0, 0, 1, 0))).unwrap();
        assert_eq!(number[..], [0, 0, 1, 0]);
        assert_eq!(check(StickKey::Text(3), "a b=c"), some("a\\ b"));
        assert_eq!(check(StickKey::Text(3), ""), some(""));
        assert_eq!(check(StickKey::Binary(4), "ab"), some("61620000"));
        assert_eq!(check(StickKey::Binary(1), "ab"), some("61"));
    }
}
