//! Values as bytes.
//!
//! Owns: the forms of values, and which of them count as one: each function says so.
//! Driven by: the families of variables.

use std::io::Write as _;
use std::net::Ipv4Addr;
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
    let [first, rest @ ..] = ip.octets();
    digits(out, first);
    for octet in rest {
        out.push(b'.');
        digits(out, octet);
    }
    true
}

/// A byte in decimal.
fn digits(out: &mut Vec<u8>, number: u8) {
    match number {
        0..10 => out.push(b'0' + number),
        10..100 => out.extend([number / 10, number % 10].map(|digit| b'0' + digit)),
        100.. => {
            three_digits(out, number.into());
        }
    }
}
