//! Whether an answer may be stored, and how long it may be used.
//!
//! Owns: nginx's order of what decides (`X-Accel-Expires`, `Cache-Control`, `Expires`, the settings), and where RFC 9111
//! is stricter: credentials, Age, `must-revalidate`.
//! Never: changes anything.
//! Driven by: `keep`, once an upstream answered; the cache, for objects that are too old.

use weir_cache::Meta;
use weir_expr::settings::CacheValid;
use weir_http::semantics::caching::{ResponseControl, seconds};
use weir_http::{HeaderId, HttpDate};
use weir_plan::HeaderSet;

use crate::exchange::fields::Fields;

/// Of [`Meta::flags`]: never used when it is too old.
const MUST_REVALIDATE: u16 = 1;

/// How long an answer may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Use {
    /// Seconds from now in which it is fresh.
    pub(super) fresh: u64,
    /// Its age now.
    age: u32,
    /// See [`Meta`].
    updating: u32,
    error: u32,
    must_revalidate: bool,
    /// It says so itself that it is for everybody, whatever credentials it was asked with.
    pub(super) for_all: bool,
}

impl Use {
    /// For an object that is stored now.
    pub(super) fn meta(&self, status: u16, now: u64) -> Meta {
        Meta {
            status,
            flags: if self.must_revalidate { MUST_REVALIDATE } else { 0 },
            stored: now,
            fresh_until: now + self.fresh,
            stale_updating: self.updating,
            stale_error: self.error,
            age: self.age,
            family: 0,
            variant: [0; 16],
        }
    }
}

/// Judges the fields of an answer; `None`: it is not stored.
pub(super) fn judge(
    fields: &Fields,
    ignored: &HeaderSet,
    valid: &[CacheValid],
    status: u16,
    now: u64,
) -> Option<Use> {
    let heeded = |id: HeaderId| !ignored.contains(id, id.name().as_bytes());
    let first = |id: HeaderId| fields.first(id).filter(|_| heeded(id));
    if first(HeaderId::SetCookie).is_some() {
        return None;
    }
    let control = match heeded(HeaderId::CacheControl) {
        true => ResponseControl::read(fields.all(HeaderId::CacheControl)),
        false => ResponseControl::default(),
    };
    let age = fields.first(HeaderId::Age).map_or(0, seconds);
    let fresh =
        if let Some(lifetime) = first(HeaderId::XAccelExpires).and_then(|value| accel_expires(value, now)) {
            lifetime
        } else if control.forbids() {
            0
        } else if let Some(lifetime) = control.lifetime() {
            lifetime.saturating_sub(age)
        } else if let Some(value) = first(HeaderId::Expires) {
            HttpDate::parse(value, HttpDate::from_unix(now)).map_or(0, |at| at.unix().saturating_sub(now))
        } else {
            let fits = |valid: &&CacheValid| valid.statuses.is_empty() || valid.statuses.contains(&status);
            valid.iter().find(fits).map_or(0, |valid| valid.time.as_secs())
        };
    let bounded = |seconds: Option<u64>| u32::try_from(seconds.unwrap_or(0)).unwrap_or(u32::MAX);
    (fresh > 0).then(|| Use {
        fresh,
        age: bounded(Some(age)),
        updating: bounded(control.stale_while_revalidate),
        error: bounded(control.stale_if_error),
        must_revalidate: control.must_revalidate,
        for_all: control.is_for_all(),
    })
}

/// Seconds that `X-Accel-Expires` says; `None`: it says nothing that can be read.
fn accel_expires(value: &[u8], now: u64) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?.trim();
    match text.strip_prefix('@') {
        Some(at) => at.parse::<u64>().ok().map(|at| at.saturating_sub(now)),
        None => text.parse().ok(),
    }
}

/// Whether an object must not be used when it is too old.
pub(super) fn must_revalidate(meta: &Meta) -> bool {
    meta.flags & MUST_REVALIDATE != 0
}

/// Whether an old object may be used while it is updated, by its own word (RFC 5861 §3).
pub(super) fn may_update(meta: &Meta, now: u64) -> bool {
    now < meta.fresh_until.saturating_add(u64::from(meta.stale_updating))
}

/// Whether an old object may take the place of an error, by its own word (RFC 5861 §4).
pub(super) fn may_replace_error(meta: &Meta, now: u64) -> bool {
    now < meta.fresh_until.saturating_add(u64::from(meta.stale_error))
}

/// The age of an object.
pub(super) fn age(meta: &Meta, now: u64) -> u64 {
    now.saturating_sub(meta.stored).saturating_add(u64::from(meta.age))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: u64 = 1_000_000_000;

    fn fresh(lines: &[(&str, &str)], ignored: &[&str]) -> Option<u64> {
        let mut fields = Fields::default();
        lines.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
        let valid = [
            CacheValid { statuses: vec![200, 404], time: Duration::from_secs(7) },
            CacheValid { statuses: vec![404], time: Duration::from_secs(8) },
        ];
        let found = judge(&fields, &HeaderSet::new(ignored.iter().copied()), &valid, 200, NOW);
        found.map(|found| found.fresh)
    }

    #[test]
    fn what_decides_in_its_order() {
        type Case = (&'static [(&'static str, &'static str)], Option<u64>);
        let cases: [Case; 17] = [
            (&[], Some(7)),
            (&[("Cache-Control", "max-age=60")], Some(60)),
            (&[("Cache-Control", "max-age=60, s-maxage=30")], Some(30)),
            (&[("Cache-Control", "max-age=60"), ("Age", "50")], Some(10)),
            (&[("Cache-Control", "max-age=60"), ("Age", "70")], None),
            (&[("Cache-Control", "max-age=0")], None),
            (&[("Cache-Control", "max-age=60"), ("Cache-Control", "private")], None),
            (&[("Cache-Control", "public")], Some(7)),
            (&[("Expires", "Sun, 09 Sep 2001 01:46:50 GMT")], Some(10)),
            (&[("Expires", "Sun, 09 Sep 2001 01:46:30 GMT")], None),
            (&[("Expires", "0")], None),
            (&[("Expires", "0"), ("Cache-Control", "max-age=5")], Some(5)),
            (&[("X-Accel-Expires", "9"), ("Cache-Control", "no-store")], Some(9)),
            (&[("X-Accel-Expires", "@1000000003")], Some(3)),
            (&[("X-Accel-Expires", "0"), ("Cache-Control", "max-age=5")], None),
            (&[("X-Accel-Expires", "soon"), ("Cache-Control", "max-age=5")], Some(5)),
            (&[("Cache-Control", "max-age=60"), ("Set-Cookie", "a=b")], None),
        ];
        for (lines, expected) in cases {
            assert_eq!(fresh(lines, &[]), expected, "{lines:?}");
        }
        assert_eq!(
            fresh(&[("Cache-Control", "no-store"), ("Set-Cookie", "a")], &["cache-control", "set-cookie"]),
            Some(7)
        );
        assert_eq!(
            fresh(&[("X-Accel-Expires", "0"), ("Expires", "0")], &["x-accel-expires", "expires"]),
            Some(7)
        );
    }
}
