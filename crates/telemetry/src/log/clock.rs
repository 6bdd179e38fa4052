//! The texts of the present second.
//!
//! Owns: the local time zone, and one second's time in every format that logs use.
//! Never: reads a clock; formats once a second, whatever the number of lines.
//! Driven by: each worker with its cached clock; the error log.
//! Why: local time needs the zone's rules. `jiff` reads the system's own zone files, is kept well, and does not call
//! `localtime`, which is unsound beside threads that set the environment.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A second's time in the formats of logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    second: i64,
    /// Milliseconds of the second, of the moment that was asked for last.
    millis: u16,
    /// nginx's `$time_local`, and the common log format: `21/Nov/2026:02:45:31 +0000`.
    pub local: String,
    /// nginx's `$time_iso8601`: `2026-11-21T02:45:31+00:00`.
    pub iso8601: String,
    /// nginx's error log: `2026/11/21 02:45:31`.
    pub error: String,
    /// RFC 3164: `Nov 21 02:45:31`, days below ten with a space.
    pub syslog: String,
    /// HAProxy's `%t` without its milliseconds: `21/Nov/2026:02:45:31`.
    haproxy: String,
}

/// Stamps of a sequence of moments.
#[derive(Clone, Debug)]
pub struct LogClock {
    zone: TimeZone,
    stamp: Stamp,
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Room that nginx has for such a text.
const MOST_IN_FORM: usize = 256;

impl LogClock {
    /// A clock in the system's time zone (`TZ`, `/etc/localtime`, else UTC). Reads files: make it at start.
    pub fn local() -> Self {
        Self::in_zone(TimeZone::system())
    }

    /// A clock in UTC.
    pub fn utc() -> Self {
        Self::in_zone(TimeZone::UTC)
    }

    fn in_zone(zone: TimeZone) -> Self {
        let stamp = Stamp::of(0, &zone);
        Self { zone, stamp }
    }

    /// The texts of the second in which `unix_ms` lies.
    pub fn at(&mut self, unix_ms: u64) -> &Stamp {
        let second = i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX);
        if second != self.stamp.second {
            self.stamp = Stamp::of(second, &self.zone);
        }
        self.stamp.millis = (unix_ms % 1000) as u16;
        &self.stamp
    }

    /// A moment in a form of strftime(3), in local time or in GMT; `None` where that is no form, or comes to more than
    /// nginx has room for.
    pub fn in_form(&self, unix_seconds: u64, form: &str, gmt: bool) -> Option<String> {
        let moment = Timestamp::from_second(i64::try_from(unix_seconds).ok()?).ok()?;
        let zone = if gmt { TimeZone::posix("GMT0").ok()? } else { self.zone.clone() };
        let written =
            jiff::fmt::strtime::BrokenDownTime::from(&moment.to_zoned(zone)).to_string(form).ok()?;
        (written.len() < MOST_IN_FORM).then_some(written)
    }

    /// A moment in a format of `strftime`, in this zone or in UTC; `None`: the format is malformed, or dates do not reach
    /// so far.
    pub fn formatted(&self, format: &str, second: i64, nanos: i32, utc: bool) -> Option<String> {
        let moment = Timestamp::new(second, nanos).ok()?;
        let zone = if utc { TimeZone::UTC } else { self.zone.clone() };
        jiff::fmt::strtime::format(format, &moment.to_zoned(zone)).ok()
    }

    /// A clock for another thread, without reading files again.
    pub fn another(&self) -> Self {
        self.clone()
    }
}

impl Stamp {
    fn of(second: i64, zone: &TimeZone) -> Self {
        // Beyond the year 9999 the texts stay at 1970.
        let moment = Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH);
        let t = zone.to_datetime(moment);
        let offset = zone.to_offset(moment).seconds();
        let (sign, away) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs());
        let (oh, om) = (away / 3600, away / 60 % 60);
        // jiff's months count from one to twelve.
        let month = MONTHS[(t.month() as usize - 1) % 12];
        let (y, mo, d) = (t.year(), t.month(), t.day());
        let clock = format!("{:02}:{:02}:{:02}", t.hour(), t.minute(), t.second());
        Self {
            second,
            millis: 0,
            local: format!("{d:02}/{month}/{y}:{clock} {sign}{oh:02}{om:02}"),
            iso8601: format!("{y}-{mo:02}-{d:02}T{clock}{sign}{oh:02}:{om:02}"),
            error: format!("{y}/{mo:02}/{d:02} {clock}"),
            syslog: format!("{month} {d:2} {clock}"),
            haproxy: format!("{d:02}/{month}/{y}:{clock}"),
        }
    }

    /// `2026-11-21T02:45:31.123000+00:00`.
    pub fn iso_micros(&self, out: &mut Vec<u8>) {
        // The zone stands behind the seconds.
        let (date, zone) = self.iso8601.split_at_checked(19).unwrap_or((&self.iso8601, ""));
        out.extend_from_slice(date.as_bytes());
        out.push(b'.');
        push_millis(out, self.millis.into());
        out.extend_from_slice(b"000");
        out.extend_from_slice(zone.as_bytes());
    }

    /// HAProxy's `%t`, in brackets as its formats put it: `[21/Nov/2026:02:45:31.123]`.
    pub fn haproxy_into(&self, out: &mut Vec<u8>, unix_ms: u64) {
        out.push(b'[');
        out.extend_from_slice(self.haproxy.as_bytes());
        out.push(b'.');
        push_millis(out, unix_ms);
        out.push(b']');
    }

    /// nginx's `$msec`: `1795231384.449`.
    pub fn msec_into(out: &mut Vec<u8>, unix_ms: u64) {
        out.extend_from_slice(itoa::Buffer::new().format(unix_ms / 1000).as_bytes());
        out.push(b'.');
        push_millis(out, unix_ms);
    }
}

fn push_millis(out: &mut Vec<u8>, ms: u64) {
    let ms = ms % 1000;
    out.extend([ms / 100, ms / 10 % 10, ms % 10].map(|digit| b'0' + digit as u8));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_795_231_384_045;

    #[test]
    fn formats_in_utc() {
        let mut clock = LogClock::utc();
        let stamp = clock.at(MS).clone();
        assert_eq!(stamp.local, "21/Nov/2026:03:23:04 +0000");
        assert_eq!(stamp.iso8601, "2026-11-21T03:23:04+00:00");
        assert_eq!(stamp.error, "2026/11/21 03:23:04");
        assert_eq!(stamp.syslog, "Nov 21 03:23:04");
        let (mut haproxy, mut msec) = (Vec::new(), Vec::new());
        stamp.haproxy_into(&mut haproxy, MS);
        Stamp::msec_into(&mut msec, MS);
        assert_eq!(haproxy, b"[21/Nov/2026:03:23:04.045]");
        assert_eq!(msec, b"1795231384.045");
        assert_eq!(clock.at(1_795_000_000_000 - 86_400_000 * 13).syslog, "Nov  5 11:06:40");
    }

    #[test]
    fn forms_of_strftime() {
        let clock = LogClock::in_zone(TimeZone::posix("XST-05:30").unwrap());
        let form = "%A, %d-%b-%Y %H:%M:%S %Z";
        assert_eq!(clock.in_form(MS / 1000, form, true).unwrap(), "Saturday, 21-Nov-2026 03:23:04 GMT");
        assert_eq!(clock.in_form(MS / 1000, form, false).unwrap(), "Saturday, 21-Nov-2026 08:53:04 XST");
        assert_eq!(clock.in_form(MS / 1000, "%s", false).unwrap(), (MS / 1000).to_string());
        assert_eq!(clock.in_form(MS / 1000, &"%A".repeat(100), true), None);
    }

    #[test]
    fn a_moment_in_a_format_of_its_own() {
        let clock = LogClock::in_zone(TimeZone::posix("XST-05:30").unwrap());
        let second = MS.cast_signed() / 1000;
        assert_eq!(clock.formatted("%Y-%m-%d %H:%M", second, 0, true).unwrap(), "2026-11-21 03:23");
        assert_eq!(clock.formatted("%H:%M %z", second, 0, false).unwrap(), "08:53 +0530");
        assert_eq!(clock.formatted("%H", i64::MAX, 0, false), None);
    }

    #[test]
    fn zones_with_odd_offsets() {
        let zone = TimeZone::posix("XST-05:30").unwrap();
        assert_eq!(LogClock::in_zone(zone).at(MS).local, "21/Nov/2026:08:53:04 +0530");
        let zone = TimeZone::posix("YST3:30").unwrap();
        assert_eq!(LogClock::in_zone(zone).at(MS).iso8601, "2026-11-20T23:53:04-03:30");
    }

    #[test]
    fn summer_time_changes_while_running() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let mut clock = LogClock::in_zone(zone);
        // 25 October 2026, 01:00 UTC.
        let change = 1_792_890_000_000;
        assert_eq!(clock.at(change - 1000).local, "25/Oct/2026:02:59:59 +0200");
        assert_eq!(clock.at(change).local, "25/Oct/2026:02:00:00 +0100");
    }

    #[test]
    fn impossible_times_do_not_panic() {
        LogClock::utc().at(u64::MAX);
    }
}
