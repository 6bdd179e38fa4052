//! When a client was seen, as its persistence cookie says it (HAProxy `maxidle`, `maxlife`).
//!
//! Owns: the form of the dates behind a cookie's value, and whether they still count.
//! Driven by: `upstream::sticky`.

use std::time::Duration;

use weir_plan::Sticky;

/// Whether the cookie says when its client came.
pub(crate) fn is_dated(sticky: &Sticky) -> bool {
    sticky.max_idle.is_some() || sticky.max_life.is_some()
}

/// When the client of a cookie came last and first, in seconds since 1970; zero: that is not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    last: u64,
    first: u64,
}

/// Seconds that a unit of a date in a cookie stands for: thirty bits reach far enough so.
const UNIT: u64 = 4;

impl Seen {
    /// `value|AAAAA|AAAAA`: each five characters of six bits.
    pub(crate) fn read(value: &[u8]) -> Self {
        let mut dates = value.split(|&b| b == b'|').skip(1).map(|text| date(text).unwrap_or(0) * UNIT);
        Self { last: dates.next().unwrap_or(0), first: dates.next().unwrap_or(0) }
    }

    /// The letter of why it counts no more; `None`: it counts.
    pub(crate) fn judge(&self, sticky: &Sticky, now: u64) -> Option<u8> {
        // A date of the future was made up, but for one that a clock nearby wrote.
        let over = |date: u64, most: Option<Duration>| {
            let most = most.map(|most| most.as_secs());
            date > 0 && most.is_some_and(|most| now.saturating_sub(date) > most || date > now + 86_400)
        };
        if over(self.last, sticky.max_idle) {
            return Some(b'E');
        }
        over(self.first, sticky.max_life).then_some(b'O')
    }

    /// Whether it is to be given again, with newer dates.
    pub(crate) fn is_to_be_renewed(&self, sticky: &Sticky, now: u64) -> bool {
        let idle = (sticky.max_idle.is_some() || self.last > 0) && (self.last == 0 || self.last < now);
        idle || (sticky.max_life.is_some() && self.first == 0)
            || (sticky.max_life.is_none() && self.first > 0)
    }

    /// The dates behind the value.
    pub(crate) fn renewed(&self, sticky: &Sticky, now: u64) -> String {
        let now = now.div_ceil(UNIT);
        let mut out = format!("|{}", dated(now));
        if sticky.max_life.is_some() {
            out.push('|');
            out.push_str(&dated(if self.first > 0 { self.first / UNIT } else { now }));
        }
        out
    }
}

const SIX_BITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn dated(units: u64) -> String {
    let letter = |shift: u32| char::from(SIX_BITS[(units >> shift & 63) as usize]);
    [24, 18, 12, 6, 0].map(letter).iter().collect()
}

fn date(text: &[u8]) -> Option<u64> {
    let six = |byte: &u8| SIX_BITS.iter().position(|known| known == byte);
    text.get(..5)?.iter().try_fold(0, |sum, byte| Some(sum << 6 | six(byte)? as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_go_there_and_back() {
        assert_eq!(dated(0), "AAAAA");
        for units in [1, 63, 64, 448_880_272, (1 << 30) - 1] {
            assert_eq!(date(dated(units).as_bytes()), Some(units));
        }
        assert_eq!(date(b"AAAA"), None);
        let seen = Seen::read(b"s1|AAAAB|AAAAC");
        assert_eq!(seen, Seen { last: 4, first: 8 });
        assert_eq!(Seen::read(b"s1"), Seen::default());
    }
}
