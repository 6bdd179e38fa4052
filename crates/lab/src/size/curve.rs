//! What a unit of work costs, by cores.
//!
//! Owns: which rows make a curve, values between and beyond its points.
//! Never: mixes modes or contenders.
//! Driven by: `size`.

use super::Span;
use crate::report::published::{By, Quantity, published};
use crate::report::{Chapter, Report, Row};
use crate::scenario::{Contender, Mode};
use weir_loadgen::report::Work;

/// A curve of costs.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    /// Of what.
    pub(super) what: String,
    /// Where it was measured.
    pub(super) source: String,
    /// Cores, and what a unit costs with them: rising cores.
    points: Vec<(f64, Span)>,
    /// What had to be assumed of the page.
    assumed: Vec<String>,
}

/// What the cost of a unit on `cores` is multiplied by for each doubling of them, at worst: the published reverse proxy's.
fn worst_exponent() -> f64 {
    let curve = published("B6")
        .and_then(|p| p.curves.iter().find(|c| c.quantity == Quantity::Rps && c.by == By::Workers));
    let ends = curve.and_then(|c| Some((c.points.first()?, c.points.last()?)));
    // Rates grow as cores^a; what each costs as cores^(1 - a).
    ends.map_or(0.0, |(a, b)| (1.0 - (b.1 / a.1).ln() / (b.0 / a.0).ln()).max(0.0))
}

/// What a row says of the cost of a unit, microseconds of CPU, and whether by the rate.
fn cost(row: &Row) -> (Span, bool) {
    // Where the server was the limit, what its CPUs did beside its threads counts too.
    let sound = !row.shared_cpus && row.doubts.is_empty() && row.rate_wanted.is_none();
    let cores = f64::from(row.point.workers);
    let busy = row.cpus.median / cores;
    let (low, high) = row.rate.span();
    if sound && busy > 0.8 && low > 0.0 {
        let each = |rate: f64| cores * 1e6 / rate;
        let span = Span { expected: each(row.rate.median), low: each(high), high: each(low) };
        return (span, true);
    }
    let (low, high) = row.cpu_us.span();
    (Span { expected: row.cpu_us.median, low, high }, false)
}

impl Curve {
    /// Requests of a page on kept connections.
    ///
    /// # Errors
    /// What was not measured, and what measures it.
    pub(super) fn of_requests(
        report: &Report,
        who: Contender,
        mode: Mode,
        page: u64,
    ) -> Result<Self, String> {
        let fits = |row: &Row| {
            row.contender == who
                && row.point.mode == mode
                && row.work == Work::Requests
                && row.rate_wanted.is_none()
        };
        let (chapter, rows) = chosen(report, &fits, Some(page)).ok_or_else(|| {
            format!(
                "{} requests on kept connections were not measured; `weir lab run B6` or B8 does",
                mode.title()
            )
        })?;
        let mut assumed = Vec::new();
        let mut by_rate = true;
        let points = workers(&rows).into_iter().filter_map(|cores| {
            let mut sizes: Vec<(f64, Span)> = rows
                .iter()
                .filter(|r| r.point.workers == cores)
                .map(|r| {
                    let (span, rate) = cost(r);
                    by_rate &= rate;
                    (r.bytes as f64, span)
                })
                .collect();
            sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (first, last) = (sizes.first()?.0, sizes.last()?.0);
            let page = page as f64;
            if page > last && sizes.len() < 2 {
                // What a larger page costs, one size does not say.
                return None;
            }
            if page < first {
                assumed.push(format!(
                    "pages below {first} bytes were not measured: they are taken to cost as much as those"
                ));
            } else if page > last {
                assumed.push(format!(
                    "pages above {last} bytes were not measured: the cost goes on as between the two largest"
                ));
            }
            Some((f64::from(cores), at(&sizes, page)))
        });
        let points: Vec<(f64, Span)> = points.collect();
        if points.is_empty() {
            let only: Vec<String> = rows.iter().map(|r| r.bytes.to_string()).take(1).collect();
            return Err(format!(
                "{} requests were measured with pages of {} bytes alone: what {page} bytes cost, one size does not say; \
                 a second size does, such as `weir lab run B8` has",
                mode.title(),
                only.concat()
            ));
        }
        assumed.dedup();
        Ok(Self {
            what: format!("requests of {page} bytes, {}", mode.title()),
            source: source(chapter, &rows, by_rate),
            points,
            assumed,
        })
    }

    /// Full handshakes; nothing if neither they nor new connections by HTTPS were measured.
    pub(super) fn of_handshakes(report: &Report, who: Contender) -> Option<Self> {
        let alone =
            |row: &Row| row.contender == who && row.work == Work::Handshakes && row.rate_wanted.is_none();
        let with_request = |row: &Row| {
            let proxied = row.point.mode == Mode::Https && row.work == Work::NewConnections;
            row.contender == who && proxied && row.rate_wanted.is_none()
        };
        let (chapter, mut rows) =
            chosen(report, &alone, None).or_else(|| chosen(report, &with_request, None))?;
        let mut what = "full TLS handshakes".to_owned();
        let mut assumed = Vec::new();
        if rows.iter().all(|r| r.work == Work::NewConnections) {
            let least = rows.iter().map(|r| r.bytes).min()?;
            rows.retain(|r| r.bytes == least);
            assumed.push(format!(
                "handshakes alone were not measured: each has a request of {least} bytes with it"
            ));
        } else if let Some(mode) = rows.first().map(|r| r.point.mode) {
            // One key: RSA comes first, which is dearer, and what was published.
            rows.retain(|r| r.point.mode == mode);
            mode.title().clone_into(&mut what);
        }
        let mut by_rate = true;
        let mut points: Vec<(f64, Span)> = rows
            .iter()
            .map(|r| {
                let (span, rate) = cost(r);
                by_rate &= rate;
                (f64::from(r.point.workers), span)
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some(Self { what, source: source(chapter, &rows, by_rate), points, assumed })
    }

    /// What a unit costs with so many cores, microseconds of CPU.
    pub(super) fn cost_us(&self, cores: f64) -> Span {
        let Some((most, last)) = self.points.last().copied() else {
            return Span { expected: 0.0, low: 0.0, high: 0.0 };
        };
        if cores <= most {
            return at(&self.points, cores);
        }
        let worse = (cores / most).powf(worst_exponent());
        Span { expected: last.expected * worse.sqrt(), low: last.low, high: last.high * worse }
    }

    /// What an answer of so many cores takes on trust.
    pub(super) fn beyond(&self, cores: f64) -> Vec<String> {
        let mut beyond = self.assumed.clone();
        let most = self.points.last().map_or(0.0, |p| p.0);
        if cores > most {
            beyond.push(format!(
                "more than {most} {} not measured: beyond, scaling is taken to lie between perfect and that of the \
                 published reverse proxy, which loses {:.0}% at each doubling",
                if most == 1.0 { "core was" } else { "cores were" },
                (1.0 - 0.5f64.powf(worst_exponent())) * 100.0
            ));
        }
        beyond
    }
}

/// The rows that fit, of the scenario that has them around the page, with the most workers; among equals of B6, then of the first.
fn chosen<'a>(
    report: &'a Report,
    fits: &dyn Fn(&Row) -> bool,
    page: Option<u64>,
) -> Option<(&'a Chapter, Vec<&'a Row>)> {
    let rank = |c: &Chapter| {
        let sizes = || c.rows.iter().filter(|r| fits(r)).map(|r| r.bytes);
        let around = page.is_none_or(|p| sizes().any(|s| s <= p) && sizes().any(|s| s >= p));
        let most = c.rows.iter().filter(|r| fits(r)).map(|r| r.point.workers).max();
        (around, unique_count(sizes()) > 1, most, c.id == "B6")
    };
    let with_some = report.scenarios.iter().filter(|c| c.rows.iter().any(fits));
    let chapter = with_some.rev().max_by_key(|c| rank(c))?;
    Some((chapter, chapter.rows.iter().filter(|r| fits(r)).collect()))
}

fn unique_count(sizes: impl Iterator<Item = u64>) -> usize {
    sizes.collect::<std::collections::BTreeSet<u64>>().len()
}

fn workers(rows: &[&Row]) -> Vec<u16> {
    let mut workers: Vec<u16> = rows.iter().map(|r| r.point.workers).collect();
    workers.sort_unstable();
    workers.dedup();
    workers
}

fn source(chapter: &Chapter, rows: &[&Row], by_rate: bool) -> String {
    let workers: Vec<String> = workers(rows).iter().map(u16::to_string).collect();
    let how = if by_rate { "by the rate of the busy server" } else { "by its CPU time" };
    let noun = if workers == ["1"] { "worker" } else { "workers" };
    format!("{}, with {} {noun}, {how}", chapter.id, workers.join(", "))
}

/// The value of a curve at `x`: a straight line between points; level before the first; as between the last two beyond.
fn at(points: &[(f64, Span)], x: f64) -> Span {
    let after = points.partition_point(|p| p.0 < x);
    let (a, b) = match (after, points.len()) {
        (_, 0) => return Span { expected: 0.0, low: 0.0, high: 0.0 },
        (0, _) | (_, 1) => return points[0].1,
        (n, len) if n >= len => (points[len - 2], points[len - 1]),
        (n, _) => (points[n - 1], points[n]),
    };
    let share = (x - a.0) / (b.0 - a.0);
    let line = |a: f64, b: f64| (a + (b - a) * share).max(f64::MIN_POSITIVE);
    Span {
        expected: line(a.1.expected, b.1.expected),
        low: line(a.1.low, b.1.low),
        high: line(a.1.high, b.1.high),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(v: f64) -> Span {
        Span { expected: v, low: v * 0.9, high: v * 1.1 }
    }

    #[test]
    fn between_points_is_a_line_and_beyond_it_goes_on() {
        let points = [(0.0, span(10.0)), (100.0, span(20.0)), (200.0, span(40.0))];
        let value = |x: f64| at(&points, x).expected;
        assert_eq!(
            [value(-5.0), value(0.0), value(50.0), value(150.0), value(300.0)],
            [10.0, 10.0, 15.0, 30.0, 60.0]
        );
    }

    #[test]
    fn the_published_proxy_loses_at_each_doubling() {
        // 48,000 to 300,000 requests a second from 1 core to 8: a power of 0.881.
        assert!((worst_exponent() - 0.1187).abs() < 1e-3, "{}", worst_exponent());
    }

    #[test]
    fn more_cores_than_measured_widen_the_answer() {
        let curve = Curve {
            what: String::new(),
            source: String::new(),
            points: vec![(1.0, span(10.0)), (2.0, span(10.0))],
            assumed: vec![],
        };
        assert!(curve.beyond(2.0).is_empty() && curve.beyond(3.0).len() == 1);
        let (near, far) = (curve.cost_us(2.0), curve.cost_us(64.0));
        assert_eq!(near, span(10.0));
        assert!(
            far.low == near.low && far.expected > near.expected && far.high / far.low > near.high / near.low,
            "{far:?}"
        );
    }
}
