//! Which plots a scenario has.
//!
//! Owns: what is drawn of what: it follows from what varies in the figures.
//! Never: works out a figure.
//! Driven by: `html`.

use super::courses::{courses, ramps};
use super::figures::{Chapter, Each, KneeOf, Row};
use super::findings::title as kind_title;
use super::knee::{REACHED, Where};
use super::plot::{Axis, Bar, Bars, Group, Line, Lines, Mark, Ratio, Ratios, Rule, Style, beyond};
use super::published::{By, Curve, Quantity};
use super::words::{facet, facets, number, size, unique, unit, with_interval, words};
use crate::scenario::Contender;
use crate::stats::Estimate;
use weir_loadgen::report::Work;

/// A figure of something.
type Of<T, V> = fn(&T) -> V;

/// More plots of distributions than this would bury the rest.
const DISTRIBUTIONS: usize = 48;
/// Of one curve of rates, no more than these have one.
const RATES: usize = 4;

/// All plots of a chapter, in their order: a heading, and its figures.
pub(super) fn of(chapter: &Chapter) -> Vec<(&'static str, Vec<String>)> {
    let sweeps =
        facets(&chapter.paced(), &["rate"]).iter().any(|f| unique(f.iter().map(|r| &r.point)).len() > 1);
    let series = curves(chapter, By::Run).next().is_some();
    let throughput = curves(chapter, By::Workers).any(|c| c.quantity == Quantity::Gbit);
    let mut plots = Vec::new();
    if chapter.soak {
        plots.push(("Ramp after ramp", ramps(chapter)));
    }
    if sweeps {
        plots.push(("Latency by rate", latency_by_rate(chapter)));
        plots.push(("CPU by rate", cpu_by_rate(chapter)));
    } else if series {
        plots.push(("Run by run", run_by_run(chapter)));
    }
    if throughput {
        plots.push(("Throughput", by_workers_or_bars(chapter, true)));
    } else if !chapter.packed {
        plots.push(("At full speed", by_workers_or_bars(chapter, false)));
    }
    plots.push(("CPU time of the server", cpu_bars(&at_full_speed(chapter))));
    if !sweeps && !series {
        let here = chapter.paced();
        // What not all did is no rate that all can carry.
        let (carried, beyond): (Vec<&Row>, Vec<&Row>) =
            here.iter().copied().partition(|r| is_carried(&here, r));
        plots.push(("At a rate that all can carry", percentiles(&carried)));
        plots.push(("CPU time of the server at that rate", cpu_bars(&carried)));
        plots.push(("At a rate that not all could carry", percentiles(&beyond)));
        plots.push(("CPU time of the server at a rate that not all could carry", cpu_bars(&beyond)));
    }
    plots.push(("Weir beside each rival", ratios(chapter)));
    if !chapter.packed {
        plots.push(("Response times", distributions(chapter)));
    }
    plots.push(("Over time, each run", courses(chapter)));
    plots.retain(|(_, figures)| !figures.is_empty());
    plots
}

/// Whether all contenders at a row's point completed what was wanted.
fn is_carried(rows: &[&Row], row: &Row) -> bool {
    let carried = |r: &Row| r.rate_wanted.is_none_or(|wanted| r.rate.median >= wanted * REACHED);
    rows.iter().filter(|r| r.point == row.point).all(|r| carried(r))
}

/// Rows at full speed.
fn at_full_speed(chapter: &Chapter) -> Vec<&Row> {
    chapter.rows.iter().filter(|r| r.rate_wanted.is_none()).collect()
}

fn curves(chapter: &Chapter, by: By) -> impl Iterator<Item = &Curve> {
    chapter.published_curves().iter().filter(move |c| c.by == by)
}

/// Published curves of what these rows repeat.
fn beside<'a>(chapter: &'a Chapter, row: &Row, by: By, quantity: Quantity) -> Vec<&'a Curve> {
    let same = |c: &&Curve| {
        c.quantity == quantity
            && c.size.as_ref().is_none_or(|s| *s == row.point.size)
            && c.encrypted.is_none_or(|e| e == row.point.mode.encrypted())
    };
    curves(chapter, by).filter(same).collect()
}

/// A contender whose colour and shape a published curve has.
fn who(name: &str) -> &'static str {
    match name {
        "weir" => "weir",
        "nginx" => "nginx",
        "haproxy" => "haproxy",
        "avi" => "avi",
        _ => "direct",
    }
}

/// Lines of published curves, each in a style of its own.
fn published_lines(curves: Vec<&Curve>, tip: &str) -> Vec<Line> {
    let styles = [Style::Dashed, Style::Dotted].into_iter().cycle();
    curves.into_iter().zip(styles).map(|(c, style)| published_line(c, style, tip)).collect()
}

fn published_line(curve: &Curve, style: Style, tip: &str) -> Line {
    let mark = |&(x, y): &(f64, f64)| Mark {
        x,
        y,
        interval: None,
        tip: format!("published, {}: {} {tip}", curve.label, number(y)),
    };
    Line {
        name: format!("published: {}", curve.label),
        who: who(&curve.who),
        style,
        marked: true,
        marks: curve.points.iter().map(mark).collect(),
    }
}

/// A line a contender over what `x` gives.
fn lines_of(
    rows: &[&Row],
    x: fn(&Row) -> f64,
    y: fn(&Row) -> Estimate,
    scale: f64,
    tip: &dyn Fn(&Row) -> String,
) -> Vec<Line> {
    let mark = |r: &Row| Mark {
        x: x(r),
        y: y(r).median * scale,
        interval: y(r).scaled(scale).interval(),
        tip: format!("{}: {}{}", r.contender.name(), tip(r), doubts(r)),
    };
    by_contender(rows, Style::Solid, "", &mark)
}

/// The means beside the medians: what was published is mostly means.
fn means_of(rows: &[&Row], x: fn(&Row) -> f64, y: fn(&Row) -> Estimate, scale: f64, unit: &str) -> Vec<Line> {
    const WHAT: &str = ": mean of the runs";
    let several: Vec<&Row> = rows.iter().copied().filter(|r| r.runs > 1).collect();
    let mark = |r: &Row| {
        let mean = y(r).mean * scale;
        let tip = format!("{}{WHAT}: {} {unit}", r.contender.name(), number(mean));
        Mark { x: x(r), y: mean, interval: None, tip }
    };
    by_contender(&several, Style::Dotted, WHAT, &mark)
}

/// A line for each contender, with what its name has behind it.
fn by_contender(rows: &[&Row], style: Style, behind: &str, mark: &dyn Fn(&Row) -> Mark) -> Vec<Line> {
    let of = |who: Contender| {
        let mut marks: Vec<Mark> = rows.iter().filter(|r| r.contender == who).map(|r| mark(r)).collect();
        marks.sort_by(|a, b| a.x.total_cmp(&b.x));
        Line { name: format!("{}{behind}", who.name()), who: who.class(), style, marked: true, marks }
    };
    unique(rows.iter().map(|r| r.contender)).into_iter().map(of).collect()
}

/// What speaks against a row, for its tip.
fn doubts(row: &Row) -> String {
    let mut why: Vec<&str> = row.doubts.keys().map(String::as_str).collect();
    why.extend(row.shared_cpus.then_some("CPUs shared with the generator"));
    if why.is_empty() { String::new() } else { format!("; but: {}", why.join(", ")) }
}

fn rule(knee: &KneeOf) -> Rule {
    let rate = knee.knee.rate;
    let label = match knee.knee.place {
        Where::Found => format!("{} knee {}", knee.contender.name(), number(rate.median)),
        Where::Above => format!("{} knee above {}", knee.contender.name(), number(rate.median)),
        Where::Below => format!("{} knee below {}", knee.contender.name(), number(rate.median)),
    };
    Rule {
        who: knee.contender.class(),
        style: Style::Solid,
        at: rate.median,
        interval: rate.interval().filter(|_| knee.knee.place == Where::Found),
        label,
    }
}

fn latency_by_rate(chapter: &Chapter) -> Vec<String> {
    let mut figures = Vec::new();
    for rows in facets(&chapter.paced(), &["rate"]) {
        let Some(first) = rows.first() else { continue };
        let of_curve = |k: &&KneeOf| facet(&k.point, &["rate"]) == facet(&first.point, &["rate"]);
        let rules: Vec<Rule> = chapter.knees.iter().filter(of_curve).map(rule).collect();
        let what: [(&str, Quantity, Of<Row, Estimate>); 2] =
            [("95th percentile", Quantity::P95Ms, |r| r.p95_us), ("mean", Quantity::MeanMs, |r| r.mean_us)];
        for (name, quantity, of) in what {
            let tip = |r: &Row| {
                format!(
                    "{} ms at {} requests/s",
                    with_interval(&of(r), 1e-3),
                    number(r.rate_wanted.unwrap_or_default())
                )
            };
            let x: Of<Row, f64> = |r| r.rate_wanted.unwrap_or_default();
            let mut all = lines_of(&rows, x, of, 1e-3, &tip);
            let published = beside(chapter, first, By::Rate, quantity);
            if !published.is_empty() {
                all.extend(means_of(&rows, x, of, 1e-3, "ms"));
            }
            all.extend(published_lines(published, "ms"));
            let title = format!("{}: {name} of response times", words(first, &["rate"]));
            figures.push(
                Lines {
                    title: &title,
                    note: "lower is better; upright: the knee and its interval",
                    x: Axis::linear("requests/s wanted"),
                    y: Axis::logarithmic("ms"),
                    lines: &all,
                    rules: &rules,
                }
                .draw(),
            );
        }
    }
    figures
}

fn cpu_by_rate(chapter: &Chapter) -> Vec<String> {
    let draw = |rows: &Vec<&Row>| {
        let first = rows.first()?;
        let tip = |r: &Row| {
            format!(
                "{}% of one CPU at {} requests/s",
                with_interval(&r.cpus, 100.0),
                number(r.rate_wanted.unwrap_or_default())
            )
        };
        let lines = lines_of(rows, |r| r.rate_wanted.unwrap_or_default(), |r| r.cpus, 100.0, &tip);
        let title = format!("{}: CPU of the server", words(first, &["rate"]));
        let (x, y) = (Axis::linear("requests/s wanted"), Axis::linear("% of one CPU"));
        Some(Lines { title: &title, note: "lower is better", x, y, lines: &lines, rules: &[] }.draw())
    };
    facets(&chapter.paced(), &["rate"]).iter().filter_map(draw).collect()
}

/// One run after the other, where what happens over time is the matter.
fn run_by_run(chapter: &Chapter) -> Vec<String> {
    let mut figures = Vec::new();
    for rows in facets(&chapter.paced(), &[]) {
        let Some(first) = rows.first() else { continue };
        let what: [(&str, Quantity, Of<Each, f64>); 2] =
            [("95th percentile", Quantity::P95Ms, |e| e.p95_us), ("mean", Quantity::MeanMs, |e| e.mean_us)];
        for (name, quantity, of) in what {
            let line = |row: &&Row| Line {
                name: row.contender.name().to_owned(),
                who: row.contender.class(),
                style: Style::Solid,
                marked: true,
                marks: row
                    .each
                    .iter()
                    .map(|e| Mark {
                        x: f64::from(e.run + 1),
                        y: of(e) / 1e3,
                        interval: None,
                        tip: format!(
                            "{}, run {}: {} ms; steal {}%{}",
                            row.contender.name(),
                            e.run + 1,
                            number(of(e) / 1e3),
                            number(e.steal * 100.0),
                            e.credits.map_or_else(String::new, |c| format!("; {} credits left", number(c)))
                        ),
                    })
                    .collect(),
            };
            let mut lines: Vec<Line> = rows.iter().map(line).collect();
            lines.extend(published_lines(beside(chapter, first, By::Run, quantity), "ms"));
            let title = format!("{}: {name}, run by run", words(first, &[]));
            let (x, y) = (Axis::linear("run"), Axis::logarithmic("ms"));
            figures.push(
                Lines { title: &title, note: "lower is better", x, y, lines: &lines, rules: &[] }.draw(),
            );
        }
    }
    figures
}

/// Lines over workers where they vary, or were published; bars else.
fn by_workers_or_bars(chapter: &Chapter, throughput: bool) -> Vec<String> {
    let rows = at_full_speed(chapter);
    let vary = unique(rows.iter().map(|r| r.point.workers)).len() > 1;
    if !vary && curves(chapter, By::Workers).next().is_none() {
        return bars(&rows);
    }
    facets(&rows, &["workers"]).iter().filter_map(|rows| by_workers(chapter, rows, throughput)).collect()
}

fn by_workers(chapter: &Chapter, rows: &[&Row], throughput: bool) -> Option<String> {
    let first = rows.first()?;
    let quantity = if throughput { Quantity::Gbit } else { first.quantity() };
    let of: fn(&Row) -> Estimate = if throughput { |r| r.gbit } else { |r| r.rate };
    let tip = |r: &Row| {
        format!("{} {} with {} workers", with_interval(&of(r), 1.0), unit(quantity), r.point.workers)
    };
    let workers: Of<Row, f64> = |r| f64::from(r.point.workers);
    let mut lines = lines_of(rows, workers, of, 1.0, &tip);
    let published = beside(chapter, first, By::Workers, quantity);
    if !published.is_empty() {
        lines.extend(means_of(rows, workers, of, 1.0, unit(quantity)));
    }
    lines.extend(published_lines(published, unit(quantity)));
    let workers = unique(lines.iter().flat_map(|l| l.marks.iter().map(|m| m.x.to_bits())));
    let mut at: Vec<f64> = workers.into_iter().map(f64::from_bits).collect();
    at.sort_by(f64::total_cmp);
    let x = Axis { at: Some(at), ..Axis::logarithmic("workers (published: CPUs)") };
    let y = Axis::logarithmic(unit(quantity));
    let title = words(first, &["workers", "rate"]);
    Some(Lines { title: &title, note: "higher is better", x, y, lines: &lines, rules: &[] }.draw())
}

/// A plot for what differs in more than size and workers: a group each of these, a bar a contender.
fn grouped(
    rows: &[&Row],
    suffix: &str,
    note: &str,
    label: &dyn Fn(&Row) -> String,
    of: fn(&Row) -> Estimate,
) -> Vec<String> {
    let mut figures = Vec::new();
    for rows in facets(rows, &["size", "workers"]) {
        let Some(first) = rows.first() else { continue };
        let several = unique(rows.iter().map(|r| r.point.workers)).len() > 1;
        let groups: Vec<Group> = unique(rows.iter().map(|r| (r.point.size.clone(), r.point.workers)))
            .into_iter()
            .map(|(name, workers)| {
                let here = rows.iter().filter(|r| r.point.size == name && r.point.workers == workers);
                let bar = |row: &&Row| {
                    let value = of(row);
                    Bar {
                        name: row.contender.name().to_owned(),
                        who: row.contender.class(),
                        style: Style::Solid,
                        value: value.median,
                        interval: value.interval(),
                        tip: format!(
                            "{}, {}: {} {}{}",
                            row.contender.name(),
                            words(row, &[]),
                            with_interval(&value, 1.0),
                            label(row),
                            doubts(row)
                        ),
                    }
                };
                // Sizes may have rates of their own.
                let here_rates = unique(rows.iter().map(|r| r.rate_wanted.map(f64::to_bits))).len() > 1;
                let at = here.clone().next().and_then(|r| r.rate_wanted).filter(|_| here_rates);
                let title = match (first.work, several) {
                    (Work::Handshakes, _) => self::workers(workers),
                    (_, true) => format!("{}B × {workers}", size(&name)),
                    (_, false) => format!("{}B", size(&name)),
                };
                let title = at.map_or_else(|| title.clone(), |rate| format!("{title} {}/s", number(rate)));
                Group { name: title, bars: here.map(bar).collect() }
            })
            .collect();
        let one_rate = unique(rows.iter().map(|r| r.rate_wanted.map(f64::to_bits))).len() < 2;
        let without: &[&str] = if one_rate { &["size", "workers"] } else { &["size", "workers", "rate"] };
        let title = words(first, without) + suffix;
        figures.push(Bars { title: &title, note, label: &label(first), groups: &groups }.draw());
    }
    figures
}

fn bars(rows: &[&Row]) -> Vec<String> {
    grouped(rows, "", "higher is better", &|r| unit(r.quantity()).to_owned(), |r| r.rate)
}

/// Of response times at a rate: the 99th percentile, in milliseconds.
fn percentiles(rows: &[&Row]) -> Vec<String> {
    let of = |r: &Row| r.p99_us.scaled(1e-3);
    grouped(rows, ": 99th percentile of response times", "lower is better", &|_| "ms".to_owned(), of)
}

fn cpu_bars(rows: &[&Row]) -> Vec<String> {
    let label = |row: &Row| match row.quantity() {
        Quantity::Handshakes => "µs of CPU a handshake".to_owned(),
        Quantity::Tps => "µs of CPU a transaction".to_owned(),
        Quantity::Cps => "µs of CPU a connection".to_owned(),
        _ => "µs of CPU a request".to_owned(),
    };
    // Of an ingress controller in a cluster nothing is seen.
    let seen: Vec<&Row> = rows.iter().copied().filter(|r| r.cpu_us.median > 0.0).collect();
    grouped(&seen, ": CPU time of the server", "lower is better", &label, |r| r.cpu_us)
}

fn workers(workers: u16) -> String {
    if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") }
}

/// What the title of a kind leaves unsaid of a point.
fn rest(row: &Row) -> String {
    let said = words(row, &[]);
    let rest = said.strip_prefix(&kind_title((row.point.mode, row.work))).unwrap_or(&said);
    let rest = rest.trim_start_matches([',', ' ']);
    if rest.is_empty() { workers(row.point.workers) } else { rest.to_owned() }
}

fn ratios(chapter: &Chapter) -> Vec<String> {
    type OfRow = Of<Row, Option<Estimate>>;
    let what: [(&str, &str, OfRow); 2] = [
        ("Rate of Weir ÷ rate of the rival", "above 1: Weir does more", |r| r.weir_over_this),
        ("CPU time a request of Weir ÷ that of the rival", "below 1: Weir needs less", |r| {
            r.weir_cpu_over_this
        }),
    ];
    let mut figures = Vec::new();
    for (n, (title, note, of)) in what.into_iter().enumerate() {
        // At a rate that is given, or on one CPU for all, rates say nothing of the server.
        let usable =
            |r: &&Row| r.contender.is_rival() && (n == 1 || (r.rate_wanted.is_none() && !chapter.packed));
        let all: Vec<Ratio> = chapter
            .rows
            .iter()
            .filter(usable)
            .filter_map(|r| {
                let value = of(r).filter(|v| v.min > 0.0)?;
                let tip = format!(
                    "÷ {}, {}: {}{}",
                    r.contender.name(),
                    words(r, &[]),
                    with_interval(&value, 1.0),
                    doubts(r)
                );
                let (group, name) = (kind_title((r.point.mode, r.work)), rest(r));
                let rival = r.contender.name().to_owned();
                Some(Ratio { group, name, who: r.contender.class(), rival, value, tip })
            })
            .collect();
        if !all.is_empty() {
            figures.push(Ratios { title, note, label: "ratio", ratios: &all }.draw());
        }
    }
    figures
}

/// A plot for each point: the share of requests that took no longer.
fn distributions(chapter: &Chapter) -> Vec<String> {
    let draw = |rows: &Vec<&Row>| {
        let line = |row: &&Row| Line {
            name: row.contender.name().to_owned(),
            who: row.contender.class(),
            style: Style::Solid,
            marked: false,
            marks: row
                .distribution
                .iter()
                .map(|(us, share)| Mark { x: us / 1e3, y: share * 100.0, interval: None, tip: String::new() })
                .collect(),
        };
        let lines: Vec<Line> = rows.iter().map(line).filter(|l| !l.marks.is_empty()).collect();
        if lines.is_empty() {
            return None;
        }
        let title = words(rows.first()?, &[]);
        let x = Axis::logarithmic("response time, ms");
        let y = Axis::linear("% of requests took no longer");
        let linear =
            Lines { title: &title, note: "further left is better", x, y, lines: &lines, rules: &[] }.draw();
        // The same with the last hundredth, and the last of that, as wide as the rest.
        let turned = |line: &Line| {
            let mark = |m: &Mark| {
                let tip = format!("{}: {}% within {} ms", line.name, number(m.y), number(m.x));
                Mark { x: beyond(m.y / 100.0), y: m.x, interval: None, tip }
            };
            Line { marks: line.marks.iter().filter(|m| m.x > 0.0).map(mark).collect(), ..line.clone() }
        };
        let lines: Vec<Line> = lines.iter().map(turned).collect();
        let title = title + ", by percentile";
        let (x, y) = (Axis::percentiles("% of requests took no longer"), Axis::logarithmic("ms"));
        let note = "lower is better";
        Some(linear + &Lines { title: &title, note, x, y, lines: &lines, rules: &[] }.draw())
    };
    // Of many rates some, evenly: the first, the last, and those between.
    let all: Vec<&Row> = chapter.rows.iter().collect();
    let some = |rows: Vec<&Row>| -> Vec<String> {
        let points = facets(&rows, &[]);
        let every = points.len().saturating_sub(1).div_ceil(RATES - 1).max(1);
        points.iter().step_by(every).filter_map(draw).collect()
    };
    facets(&all, &["rate"]).into_iter().flat_map(some).take(DISTRIBUTIONS).collect()
}
