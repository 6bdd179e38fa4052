//! Numbers, points and moments, for people.
//!
//! Owns: how many digits count, the words for a point, what stands for a character in HTML.
//! Driven by: all forms of the report.

use super::figures::Row;
use super::published::Quantity;
use crate::scenario::Point;
use crate::stats::Estimate;
use weir_loadgen::report::Work;

/// What a rate is counted in.
pub(super) fn unit(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Rps => "requests/s",
        Quantity::Cps => "connections/s",
        Quantity::Tps => "TLS transactions/s",
        Quantity::Handshakes => "TLS handshakes/s",
        Quantity::Gbit => "Gbit/s",
        Quantity::MeanMs | Quantity::P95Ms => "ms",
    }
}

/// What is the same for points that differ in `without` alone.
pub(super) fn facet(point: &Point, without: &[&str]) -> String {
    let mut value = serde_json::to_value(point).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        without.iter().for_each(|name| {
            members.remove(*name);
        });
    }
    value.to_string()
}

/// Rows that differ in `without` alone, together.
pub(super) fn facets<'a>(rows: &[&'a Row], without: &[&str]) -> Vec<Vec<&'a Row>> {
    let keys = unique(rows.iter().map(|r| facet(&r.point, without)));
    let of_key = |key: &String| rows.iter().copied().filter(|r| &facet(&r.point, without) == key).collect();
    keys.iter().map(of_key).collect()
}

/// A point in words, without what is told elsewhere.
pub(super) fn words(row: &Row, without: &[&str]) -> String {
    let point = &row.point;
    let mut words = vec![point.mode.title().to_owned()];
    match row.work {
        Work::NewConnections => words.push("a connection a request".into()),
        Work::Requests | Work::Echo | Work::Messages | Work::Handshakes => {}
    }
    if point.closes_behind {
        words.push("none kept to the servers".into());
    }
    if row.work != Work::Handshakes && !point.mode.is_idle() && !without.contains(&"size") {
        words.push(format!("{}B", size(&point.size)));
    }
    if let Some([sites, _]) = row.sites {
        words.push(counted(sites, "site"));
    }
    if let Some(idle) = &row.idle {
        words.push(format!("{} B each of {}", number(idle.bytes_each.median), whole(idle.connections)));
    }
    if point.hyper_threading {
        words.push("all threads of each core".into());
    }
    if point.workers > 1 && !without.contains(&"workers") {
        let noun = if point.hyper_threading { "cores" } else { "workers" };
        words.push(format!("{} {noun}", point.workers));
    }
    if let Some(rate) = row.rate_wanted.filter(|_| !without.contains(&"rate")) {
        words.push(format!("{}/s", number(rate)));
    }
    words.join(", ")
}

/// So many of something.
pub(super) fn counted(n: u32, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{} {what}s", whole(n)) }
}

/// A whole number for people.
pub(super) fn whole(n: u32) -> String {
    if n < 1000 { n.to_string() } else { number(f64::from(n)) }
}

/// A size for people, less its B: `1 K`, `128 `.
pub(super) fn size(name: &str) -> String {
    match name.split_at_checked(name.len().saturating_sub(1)) {
        Some((digits, unit @ ("k" | "m"))) => format!("{digits} {}", unit.to_uppercase()),
        _ => format!("{name} "),
    }
}

/// Each once, in the order of its first appearance.
pub(super) fn unique<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.fold(Vec::new(), |mut all, value| {
        if !all.contains(&value) {
            all.push(value);
        }
        all
    })
}

/// A number for people: three digits that count, and no more than needed.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let (sign, plain) = text.strip_prefix('-').map_or(("", text.as_str()), |p| ("-", p));
    let (whole, rest) = plain.split_once('.').map_or((plain, None), |(w, r)| (w, Some(r)));
    // Thousands apart, as in 12,345.
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match rest {
        Some(rest) => format!("{sign}{grouped}.{rest}"),
        None => format!("{sign}{grouped}"),
    }
}

/// A median with its interval, if it has one, for people.
pub(crate) fn with_interval(estimate: &Estimate, scale: f64) -> String {
    let median = number(estimate.median * scale);
    match estimate.interval() {
        Some((low, high)) => format!("{median} ({}–{})", number(low * scale), number(high * scale)),
        None => median,
    }
}

/// A ratio with two digits, or so many that it does not look like `limit` when it is not: what stands beside it says whether it
/// is above or below.
pub(super) fn beside(value: f64, limit: f64) -> String {
    let form = |digits: usize| format!("{value:.digits$}");
    let looks_like = |digits: usize| form(digits) == format!("{limit:.digits$}");
    (2..6).find(|digits| value == limit || !looks_like(*digits)).map_or_else(|| form(6), form)
}

/// A ratio beside 1.
pub(super) fn to_one(value: f64) -> String {
    beside(value, 1.0)
}

/// A ratio with its interval; where there are too few runs for one, with what they are.
pub(super) fn ratio(estimate: &Estimate, each: &[f64]) -> String {
    match estimate.interval() {
        Some((low, high)) => format!("{} ({}–{})", to_one(estimate.median), to_one(low), to_one(high)),
        None if each.len() > 1 => format!("{} ({})", to_one(estimate.median), raw(each)),
        None => to_one(estimate.median),
    }
}

/// Ratios of single rounds.
pub(super) fn raw(each: &[f64]) -> String {
    each.iter().map(|value| to_one(*value)).collect::<Vec<_>>().join(", ")
}

/// A moment, in seconds since 1970, as `2026-11-22 01:23 UTC`.
#[must_use]
pub fn date(unix_s: f64) -> String {
    let seconds = unix_s.max(0.0) as i64;
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Civil from days: years that begin in March have their leap day at their end.
    let era = (days + 719_468).div_euclid(146_097);
    let day_of_era = (days + 719_468).rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", rest / 3600, rest % 3600 / 60)
}

/// Text that can stand in HTML and SVG.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_for_people() {
        let told = [0.0, 0.1234, 3.456, 42.42, 123.6, 1_234_567.0, -1_500.0].map(number);
        assert_eq!(told, ["0", "0.123", "3.46", "42.4", "124", "1,234,567", "-1,500"]);
        assert_eq!(["10k", "1m", "128", "0"].map(size), ["10 K", "1 M", "128 ", "0 "]);
    }

    #[test]
    fn a_ratio_never_looks_like_what_it_is_not() {
        let told = [1.0, 1.004, 0.9996, 1.5, 0.999_999_9].map(to_one);
        assert_eq!(told, ["1.00", "1.004", "0.9996", "1.50", "1.000000"]);
        assert_eq!(
            (beside(0.704, 0.70), beside(0.70, 0.70), beside(0.6, 0.70)),
            ("0.704".into(), "0.70".into(), "0.60".into())
        );
    }

    #[test]
    fn dates() {
        let told = [0.0, 951_782_400.0, 1_795_310_603.0, 1_709_251_199.0].map(date);
        assert_eq!(
            told,
            ["1970-01-01 00:00 UTC", "2000-02-29 00:00 UTC", "2026-11-22 01:23 UTC", "2024-02-29 23:59 UTC"]
        );
    }
}
