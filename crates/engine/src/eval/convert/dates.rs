//! Numbers as dates.
//!
//! Owns: what offsets and fractions of a second mean in HAProxy's formats.

use weir_expr::{TimeUnit, number};

use crate::exchange::Traffic;

/// A number of seconds or parts of them since 1970, in a format of `strftime` where `%N` is what a second has below it.
pub(super) fn written(
    traffic: &impl Traffic,
    value: &[u8],
    format: &[u8],
    offset: &[u8],
    unit: TimeUnit,
    utc: bool,
) -> Option<Vec<u8>> {
    let moment = number(value).checked_add(number(offset))?;
    let (second, rest) = (moment.div_euclid(unit.per_second()), moment.rem_euclid(unit.per_second()));
    let fraction = match unit {
        TimeUnit::Seconds => String::from("%N"),
        TimeUnit::Millis => format!("{rest:03}"),
        TimeUnit::Micros => format!("{rest:06}"),
    };
    let nanos = i32::try_from(rest * (1_000_000_000 / unit.per_second())).ok()?;
    let format = std::str::from_utf8(format).ok()?.replace("%N", &fraction);
    Some(traffic.worker.date(&format, second, nanos, utc)?.into_bytes())
}

/// The same as HTTP writes dates. Below a second HAProxy writes the number as it is, without zeros before it.
pub(super) fn http(traffic: &impl Traffic, value: &[u8], offset: &[u8], unit: TimeUnit) -> Option<Vec<u8>> {
    let rest = number(value).checked_add(number(offset))?.rem_euclid(unit.per_second());
    let fraction = if unit == TimeUnit::Seconds { String::new() } else { format!(".{rest}") };
    let format = format!("%a, %d %b %Y %H:%M:%S{fraction} GMT");
    written(traffic, value, format.as_bytes(), offset, unit, true)
}
