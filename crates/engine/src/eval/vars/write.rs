//! Values as bytes.
//!
//! Owns: the forms of values, and which of them count as one: each function says so.
//! Driven by: the families of variables.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Appends a value, if there is one.
pub(in crate::eval) fn extend(out: &mut Vec<u8>, value: Option<&[u8]>) -> bool {
    value.inspect(|value| out.extend_from_slice(value)).is_some()
}

/// Appends a value that is shown as one only where it is not empty.
pub(in crate::eval) fn text_of(out: &mut Vec<u8>, value: &[u8]) -> bool {
    out.extend_from_slice(value);
    !value.is_empty()
}

/// Appends a number, if there is one.
pub(in crate::eval) fn number(out: &mut Vec<u8>, value: Option<u64>) -> bool {
    let Some(value) = value else { return false };
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    true
}

/// Appends what something looks like.
pub(in crate::eval) fn display(out: &mut Vec<u8>, value: impl std::fmt::Display) -> bool {
    write!(out, "{value}").is_ok()
}

/// Seconds with three decimals.
pub(in crate::eval) fn seconds(out: &mut Vec<u8>, time: Duration) -> bool {
    let mut buffer = itoa::Buffer::new();
    out.extend_from_slice(buffer.format(time.as_secs()).as_bytes());
    out.push(b'.');
    three_digits(out, time.subsec_millis())
}

/// A number below 1000, with leading zeros; of a larger one the last three digits.
pub(super) fn three_digits(out: &mut Vec<u8>, number: u32) -> bool {
    out.extend([number / 100 % 10, number / 10 % 10, number % 10].map(|digit| b'0' + digit as u8));
    true
}

/// An IPv4 address. It stands in half of all log lines and upstream requests: the general way takes ten times as long.
pub(super) fn ipv4(out: &mut Vec<u8>, ip: Ipv4Addr) -> bool {
    for octet in ip.octets() {
        let (text, length) = OCTETS[usize::from(octet)];
        short(out, &text, length.into());
    }
    // The dot behind the last one.
    out.pop();
    true
}

/// Each byte in decimal and a dot, and how long that is.
static OCTETS: [([u8; 4], u8); 256] = {
    let mut all = [([b'.'; 4], 0); 256];
    let mut octet = 0;
    while octet < 256 {
        let digits = [b'0' + (octet / 100) as u8, b'0' + (octet / 10 % 10) as u8, b'0' + (octet % 10) as u8];
        let length = if octet >= 100 {
            3
        } else if octet >= 10 {
            2
        } else {
            1
        };
        let mut at = 0;
        while at < length {
            all[octet].0[at] = digits[3 - length + at];
            at += 1;
        }
        all[octet].1 = length as u8 + 1;
        octet += 1;
    }
    all
};

/// Appends the beginning of a block: one store, whatever its length.
#[inline]
pub(crate) fn short<const N: usize>(out: &mut Vec<u8>, block: &[u8; N], length: usize) {
    let end = out.len() + length.min(N);
    out.extend_from_slice(block);
    out.truncate(end);
}

/// Appends a number in so many hexadecimal digits at least, an address as its bytes; other values as they are.
#[cold]
pub(super) fn hexadecimal(value: &[u8], digits: usize, out: &mut Vec<u8>) {
    let text = std::str::from_utf8(value).unwrap_or_default();
    // Writing to a vector cannot fail.
    let _ = match (text.parse::<u64>(), text.parse::<IpAddr>()) {
        (Ok(number), _) => write!(out, "{number:0digits$X}"),
        (_, Ok(IpAddr::V4(ip))) => write!(out, "{:08X}", ip.to_bits()),
        (_, Ok(IpAddr::V6(ip))) => write!(out, "{:032X}", ip.to_bits()),
        _ => out.write_all(value),
    };
}

#[cfg(test)]
mod tests {
    use super::hexadecimal;

    #[test]
    fn hexadecimal_as_haproxy_writes_it() {
        for (value, digits, wanted) in [
            ("127.0.0.1", 4, "7F000001"),
            ("::ffff:1.2.3.4", 4, "00000000000000000000FFFF01020304"),
            ("80", 4, "0050"),
            ("7", 2, "07"),
            ("4294967296", 4, "100000000"),
            ("-", 4, "-"),
            ("", 4, ""),
        ] {
            let mut out = Vec::new();
            hexadecimal(value.as_bytes(), digits, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), wanted);
        }
    }
}
