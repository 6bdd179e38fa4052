//! HTTP dates: RFC 9110 §5.6.7.
//!
//! Owns: the three formats that are read, the one that is written, and the Date line that is written once a second.
//! Never: asks what time it is.
//! Why: strict, so that a date that is not one makes its condition void, as RFC 9110 §13.1 wants, instead of matching
//! by accident. Day names are checked for their spelling, not against the date.

/// Seconds since 1970-01-01T00:00:00Z. Dates before that, and from the year 10000 on, do not exist here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HttpDate(u64);

/// Length of an IMF-fixdate.
pub const LEN: usize = 29;

/// 9999-12-31T23:59:59Z.
const MAX: u64 = 253_402_300_799;

const DAYS: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
const LONG_DAYS: [&[u8]; 7] =
    [b"Sunday", b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

impl HttpDate {
    /// From seconds since the epoch; later times than the year 9999 become its last second.
    #[must_use]
    pub const fn from_unix(seconds: u64) -> Self {
        Self(if seconds > MAX { MAX } else { seconds })
    }

    /// From a system time, cut to whole seconds; times before 1970 become 1970.
    #[must_use]
    pub fn from_system(time: std::time::SystemTime) -> Self {
        Self::from_unix(time.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }

    /// Seconds since the epoch.
    #[must_use]
    pub const fn unix(self) -> u64 {
        self.0
    }

    /// Parses any of the three formats. `now` places the two-digit years of RFC 850: more than 50 years ahead means
    /// the past century.
    #[must_use]
    pub fn parse(text: &[u8], now: Self) -> Option<Self> {
        match text.get(3)? {
            b',' => parse_imf(text),
            b' ' => parse_asctime(text),
            _ => parse_rfc850(text, now),
        }
    }

    /// The date as IMF-fixdate, the only form that is written.
    #[must_use]
    pub fn imf(self) -> [u8; LEN] {
        let (year, month, day) = civil(self.0 / 86_400);
        let second = (self.0 % 86_400) as u32;
        let mut out = *b"Thu, 01 Jan 1970 00:00:00 GMT";
        out[..3].copy_from_slice(DAYS[((self.0 / 86_400 + 4) % 7) as usize]);
        put2(&mut out, 5, day);
        out[8..11].copy_from_slice(MONTHS[month as usize - 1]);
        put2(&mut out, 12, year / 100);
        put2(&mut out, 14, year % 100);
        put2(&mut out, 17, second / 3600);
        put2(&mut out, 20, second / 60 % 60);
        put2(&mut out, 23, second % 60);
        out
    }
}

impl std::fmt::Display for HttpDate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.imf()))
    }
}

fn put2(out: &mut [u8; LEN], at: usize, value: u32) {
    out[at] = b'0' + (value / 10 % 10) as u8;
    out[at + 1] = b'0' + (value % 10) as u8;
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn parse_imf(text: &[u8]) -> Option<HttpDate> {
    let (name, rest) = text.split_at_checked(3)?;
    if text.len() != LEN || !DAYS.iter().any(|day| *day == name) || !text.ends_with(b" GMT") {
        return None;
    }
    let [b',', b' ', d1, d2, b' ', m1, m2, m3, b' ', y1, y2, y3, y4, b' ', time @ ..] = rest else {
        return None;
    };
    let year = digits(&[*y1, *y2, *y3, *y4])?;
    at(year, month(&[*m1, *m2, *m3])?, digits(&[*d1, *d2])?, time.get(..8)?)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn parse_rfc850(text: &[u8], now: HttpDate) -> Option<HttpDate> {
    let comma = memchr::memchr(b',', text)?;
    let (name, rest) = text.split_at(comma);
    if !LONG_DAYS.contains(&name) || rest.len() != 24 || !rest.ends_with(b" GMT") {
        return None;
    }
    let [b',', b' ', d1, d2, b'-', m1, m2, m3, b'-', y1, y2, b' ', time @ ..] = rest else { return None };
    let this_year = civil(now.0 / 86_400).0;
    let mut year = this_year / 100 * 100 + digits(&[*y1, *y2])?;
    if year > this_year + 50 {
        year -= 100;
    }
    at(year, month(&[*m1, *m2, *m3])?, digits(&[*d1, *d2])?, time.get(..8)?)
}

/// `Sun Nov  6 08:49:37 1994`
fn parse_asctime(text: &[u8]) -> Option<HttpDate> {
    let (name, rest) = text.split_at_checked(3)?;
    if text.len() != 24 || !DAYS.iter().any(|day| *day == name) {
        return None;
    }
    let [b' ', m1, m2, m3, b' ', d1, d2, b' ', time @ ..] = rest else { return None };
    let [b' ', year @ ..] = time.get(8..)? else { return None };
    let day = if *d1 == b' ' { digits(&[*d2])? } else { digits(&[*d1, *d2])? };
    at(digits(year)?, month(&[*m1, *m2, *m3])?, day, time.get(..8)?)
}

/// Puts a date and `08:49:37` together. Second 60 is a leap second, and reads as the next minute.
fn at(year: u32, month: u32, day: u32, time: &[u8]) -> Option<HttpDate> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = time else { return None };
    let (hour, minute, second) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?, digits(&[*s1, *s2])?);
    if year < 1970 || day < 1 || day > month_days(year, month) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = u64::from(hour * 3600 + minute * 60 + second);
    Some(HttpDate(days_before(year, month, day) * 86_400 + seconds))
}

fn digits(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0, |n, b| b.is_ascii_digit().then(|| n * 10 + u32::from(b - b'0')))
}

fn month(name: &[u8; 3]) -> Option<u32> {
    MONTHS.iter().zip(1..).find(|(month, _)| **month == name).map(|(_, number)| number)
}

fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn month_days(year: u32, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from the epoch to a date from 1970 on. Years are counted from March, so that the leap day comes last.
fn days_before(year: u32, month: u32, day: u32) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1;
    u64::from(days) - 719_468
}

/// Year, month and day of a day since the epoch: the reverse of [`days_before`].
fn civil(days: u64) -> (u32, u32, u32) {
    #[expect(clippy::cast_possible_truncation, reason = "an `HttpDate` ends with the year 9999")]
    let days = days as u32 + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year_of_era;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

/// The Date field of answers, made anew when the second changes. One per worker.
#[derive(Clone, Debug)]
pub struct DateLine {
    date: HttpDate,
    line: [u8; LINE],
}

const LINE: usize = 6 + LEN + 2;

impl Default for DateLine {
    fn default() -> Self {
        let mut this = Self { date: HttpDate(0), line: *b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n" };
        this.line[6..6 + LEN].copy_from_slice(&this.date.imf());
        this
    }
}

impl DateLine {
    /// `Date: …` with its CRLF.
    pub fn at(&mut self, now: HttpDate) -> &[u8] {
        self.renew(now);
        &self.line
    }

    /// Only the date.
    pub fn value_at(&mut self, now: HttpDate) -> &[u8] {
        self.renew(now);
        &self.line[6..6 + LEN]
    }

    fn renew(&mut self, now: HttpDate) {
        if now != self.date {
            self.date = now;
            self.line[6..6 + LEN].copy_from_slice(&now.imf());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: HttpDate = HttpDate::from_unix(1_800_000_000);

    #[test]
    fn the_three_formats_of_the_rfc() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(HttpDate::parse(text.as_bytes(), NOW), Some(HttpDate(784_111_777)), "{text}");
        }
        assert_eq!(&HttpDate(784_111_777).imf(), b"Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn not_dates() {
        for bad in [
            "",
            "0",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
            "sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Wed, 29 Feb 1995 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov -994 08:49:37 GMT",
            "Sunday, 06 Nov 94 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
            "Sun Nov  6 08:49:37 1994 GMT",
        ] {
            assert_eq!(HttpDate::parse(bad.as_bytes(), NOW), None, "{bad}");
        }
    }

    #[test]
    fn two_digit_years_are_near() {
        let year = |text: &str| civil(HttpDate::parse(text.as_bytes(), NOW).unwrap().0 / 86_400).0;
        assert_eq!(year("Sunday, 06-Nov-94 08:49:37 GMT"), 1994);
        assert_eq!(year("Sunday, 06-Nov-70 08:49:37 GMT"), 2070);
        assert_eq!(year("Sunday, 06-Nov-27 08:49:37 GMT"), 2027);
    }

    #[test]
    fn every_day_round_trips() {
        for day in (0..MAX / 86_400).step_by(17) {
            let (year, month, date) = civil(day);
            assert_eq!(days_before(year, month, date), day);
        }
        assert_eq!(&HttpDate::from_unix(u64::MAX).imf(), b"Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(&HttpDate(951_782_400).imf(), b"Tue, 29 Feb 2000 00:00:00 GMT");
    }

    #[test]
    fn the_line_follows_the_clock() {
        let mut line = DateLine::default();
        assert_eq!(line.at(HttpDate(0)), b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
        assert_eq!(line.at(HttpDate(1)), b"Date: Thu, 01 Jan 1970 00:00:01 GMT\r\n");
    }
}
