//! Moments as dates, in UTC.
//!
//! Owns: the proleptic Gregorian calendar. How a date is written is for whoever shows it.

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: u64,
    /// From 1.
    pub(crate) month: u64,
    pub(crate) day: u64,
    pub(crate) hour: u64,
    pub(crate) minute: u64,
    pub(crate) second: u64,
    pub(crate) millis: u64,
}

impl Civil {
    /// So many milliseconds after the beginning of 1970.
    pub(crate) fn of(unix_ms: u64) -> Self {
        let (seconds, millis) = (unix_ms / 1000, unix_ms % 1000);
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        // Days are counted from March of year 0, in eras of 400 years (146,097 days).
        let days = days + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * of_year + 2) / 153;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        Self {
            year: year_of_era + era * 400 + u64::from(month <= 2),
            month,
            day: of_year - (153 * shifted + 2) / 5 + 1,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            millis,
        }
    }
}
