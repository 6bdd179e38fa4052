//! Arguments whose kind was checked before a word's function is called.

use std::time::Duration;

use crate::tree::Directive;
use crate::value;

/// The first argument as a flag.
pub(crate) fn on(directive: &Directive) -> bool {
    value::flag(directive.arg(0)).unwrap_or_default()
}

/// The first argument as a time.
pub(crate) fn time(directive: &Directive) -> Duration {
    value::time(directive.arg(0)).unwrap_or_default()
}

/// The first argument as bytes.
pub(crate) fn bytes(directive: &Directive) -> u64 {
    value::offset(directive.arg(0)).unwrap_or_default()
}

/// The first argument as a number.
pub(crate) fn count(directive: &Directive) -> u64 {
    value::number(directive.arg(0)).unwrap_or_default()
}

/// nginx's `0` for "no limit".
pub(crate) fn limit(time: Duration) -> Option<Duration> {
    Some(time).filter(|time| !time.is_zero())
}
