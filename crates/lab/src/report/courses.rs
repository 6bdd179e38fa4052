//! Plots over time: the course of each run, and the ramps of a soak.
//!
//! Owns: what is drawn of either.
//! Never: works out a figure.
//! Driven by: `plots`.

use super::figures::{Chapter, Each, Row, Stretch};
use super::plot::{Axis, Line, Lines, Mark, Style};
use super::words::{facet, facets, number, unique, unit, words};
use crate::scenario::Contender;

/// A figure of something, which may be missing.
type Of<T> = fn(&T) -> Option<f64>;

/// Points whose runs are drawn over time.
const COURSES: usize = 16;

/// Rate, response times, errors and CPU of every run over its time, of some points: the first, the last, and those evenly between.
pub(super) fn courses(chapter: &Chapter) -> Vec<String> {
    let told: Vec<&Row> =
        chapter.rows.iter().filter(|r| r.each.iter().any(|e| !e.course.is_empty())).collect();
    let points = facets(&told, &[]);
    let every = points.len().div_ceil(COURSES).max(1);
    points.iter().step_by(every).flat_map(|rows| course(rows)).collect()
}

fn course(rows: &[&Row]) -> Vec<String> {
    let Some(first) = rows.first() else { return Vec::new() };
    let what: [(&str, &str, bool, Of<Stretch>); 4] = [
        ("rate", unit(first.quantity()), false, |s| Some(s.rate)),
        ("99th percentile of response times", "ms", true, |s| s.p99_us.map(|us| us / 1e3)),
        ("errors", "per second", false, |s| Some(s.errors)),
        ("CPU of the server", "% of one CPU", false, |s| s.cpus.map(|cpus| cpus * 100.0)),
    ];
    let draw = |(name, unit, logarithmic, of): (&str, &str, bool, Of<Stretch>)| {
        let line = |row: &&Row| {
            let mark = |run: u32, stretch: &Stretch| {
                let y = of(stretch).filter(|y| !logarithmic || *y > 0.0)?;
                let (who, at) = (row.contender.name(), stretch.at_s);
                let tip = format!("{who}, run {}, {at:.0} s: {} {unit}", run + 1, number(y));
                Some(Mark { x: at, y, interval: None, tip })
            };
            let of_run = |each: &Each| -> Vec<Mark> {
                each.course.iter().filter_map(|stretch| mark(each.run, stretch)).collect()
            };
            Line {
                name: row.contender.name().to_owned(),
                who: row.contender.class(),
                style: Style::Solid,
                marked: false,
                marks: row.each.iter().flat_map(of_run).collect(),
            }
        };
        let lines: Vec<Line> = rows.iter().map(line).filter(|l| !l.marks.is_empty()).collect();
        let any = lines.iter().flat_map(|l| &l.marks).any(|m| m.y > 0.0);
        any.then(|| {
            let title = format!("{}: {name} over time", words(first, &[]));
            let y = if logarithmic { Axis::logarithmic(unit) } else { Axis::linear(unit) };
            let x = Axis::linear("seconds of the run, warm-up included");
            Lines { title: &title, note: "a line a run", x, y, lines: &lines, rules: &[] }.draw()
        })
    };
    what.into_iter().filter_map(draw).collect()
}

/// A soak in the order of its time: each ramp goes through all rates.
pub(super) fn ramps(chapter: &Chapter) -> Vec<String> {
    let rows = chapter.paced();
    let rates = unique(rows.iter().map(|r| facet(&r.point, &[])));
    let what: [(&str, &str, Of<Each>); 3] = [
        ("95th percentile of response times", "ms", |e| Some(e.p95_us / 1e3)),
        ("CPU time", "µs per request", |e| Some(e.cpu_us)),
        ("memory", "MB", |e| e.memory.map(|bytes| bytes as f64 / f64::from(1 << 20))),
    ];
    let draw = |(name, unit, of): (&str, &str, Of<Each>)| {
        let line = |who: Contender| {
            let mut marks: Vec<Mark> = Vec::new();
            for row in rows.iter().filter(|r| r.contender == who) {
                let at = rates.iter().position(|key| *key == facet(&row.point, &[])).unwrap_or_default();
                let wanted = number(row.rate_wanted.unwrap_or_default());
                for each in &row.each {
                    let Some(y) = of(each) else { continue };
                    let tip = format!(
                        "{}, ramp {}, {wanted} requests/s: {} {unit}",
                        who.name(),
                        each.run + 1,
                        number(y)
                    );
                    let x = f64::from(each.run) + (at as f64 + 1.0) / rates.len() as f64;
                    marks.push(Mark { x, y, interval: None, tip });
                }
            }
            marks.sort_by(|a, b| a.x.total_cmp(&b.x));
            Line { name: who.name().to_owned(), who: who.class(), style: Style::Solid, marked: true, marks }
        };
        let lines: Vec<Line> = unique(rows.iter().map(|r| r.contender))
            .into_iter()
            .map(line)
            .filter(|line| !line.marks.is_empty())
            .collect();
        let first = rows.first().filter(|_| !lines.is_empty())?;
        let title = format!("{}: {name}, ramp after ramp", words(first, &["rate"]));
        let (x, y) = (Axis::linear("ramps, each from the lowest rate to the highest"), Axis::linear(unit));
        Some(
            Lines {
                title: &title,
                note: "the same from ramp to ramp is best",
                x,
                y,
                lines: &lines,
                rules: &[],
            }
            .draw(),
        )
    };
    what.into_iter().filter_map(draw).collect()
}
