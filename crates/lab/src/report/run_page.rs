//! Pages of single runs of `weir load`: one run or its steps, and two runs side by side.
//!
//! Owns: what such a page holds, and its sentences, worked out from figures.
//! Never: measures; calls the distance of two runs a difference: one run of each shows none.
//! Driven by: `weir load --report` and `--compare`.

use super::html::frame;
use super::knee::REACHED;
use super::plot::{Axis, Line, Lines, Mark, Style, beyond};
use super::table::Table;
use super::words::{date, escaped, number};
use std::fmt::Write;
use weir_loadgen::report::{Figures, Latency, Model, Moment, Report, Settings, Work};
use weir_loadgen::units::{metric, micros, whole_seconds};

/// Percentiles of tables.
const TOLD: [f64; 7] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];
/// Points of a curve over percentiles.
const SHARES: [f64; 27] = [
    0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98,
    0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999, 0.99999,
];
/// The most steps that have a curve of their own.
const CURVES: usize = 4;

/// A series' colour and shape.
const LOOKS: [&str; 4] = ["weir", "haproxy", "nginx", "avi"];

/// The page of a run.
#[must_use]
pub fn page(report: &Report) -> String {
    let mut body = head("weir load", &lede(report));
    let _ = writeln!(body, "<p class=\"verdict\">{}</p>", escaped(&verdict(report)));
    body += &warnings(report);
    body += &tiles(report);
    if !report.steps.is_empty() {
        body += &steps(report);
    }
    body +=
        &section("Response times", &[by_percentile(&curves(report)), table_of_percentiles(&curves(report))]);
    body += &over_time(&[("", report)]);
    body += &section("What went wrong", &[wrong(&[("", report)])]);
    body += &settings(&[("", report)]);
    frame("weir load", &body)
}

/// The page of two runs: the first is what the second is compared with.
#[must_use]
pub fn comparison(one: (&str, &Report), two: (&str, &Report)) -> String {
    let both = [one, two];
    let mut body = head("weir load: two runs", &format!("{} beside {}", two.0, one.0));
    let _ = writeln!(body, "<p class=\"verdict\">{}</p>", escaped(&beside(one, two)));
    body += "<p class=\"warning\">One run of each: how far two runs of the same lie apart is not known, so nothing here is called a difference. Repeat both in turn to know.</p>\n";
    for (name, report) in both {
        for warning in &report.warnings {
            let _ = writeln!(
                body,
                "<p class=\"warning\"><b>{}</b>: {}</p>",
                escaped(name),
                escaped(&warning.text)
            );
        }
    }
    let unlike = unlike(&one.1.settings, &two.1.settings);
    if !unlike.is_empty() {
        let _ = writeln!(
            body,
            "<p class=\"warning\">They were not asked for the same: {}.</p>",
            escaped(&unlike.join("; "))
        );
    }
    body += &section("Side by side", &[ratios(one, two).html()]);
    let curves: Vec<(String, &Figures)> =
        both.iter().map(|(name, r)| ((*name).to_owned(), &r.total)).collect();
    body += &section("Response times", &[by_percentile(&curves), table_of_percentiles(&curves)]);
    body += &over_time(&both);
    body += &section("What went wrong", &[wrong(&both)]);
    body += &settings(&both);
    frame("weir load: two runs", &body)
}

/// The same for a terminal.
#[must_use]
pub fn comparison_text(one: (&str, &Report), two: (&str, &Report)) -> String {
    let mut out = ratios(one, two).text();
    let unlike = unlike(&one.1.settings, &two.1.settings);
    if !unlike.is_empty() {
        let _ = writeln!(out, "\nNot asked for the same: {}.", unlike.join("; "));
    }
    out + "\nOne run of each: nothing here is called a difference.\n"
}

fn head(title: &str, lede: &str) -> String {
    format!("<header><h1>{}</h1>\n<p class=\"lede\">{}</p></header>\n", escaped(title), escaped(lede))
}

fn section(title: &str, parts: &[String]) -> String {
    let parts = parts.concat();
    if parts.is_empty() {
        String::new()
    } else {
        format!("<section><h2>{}</h2>\n{parts}</section>\n", escaped(title))
    }
}

/// What was asked for, in a sentence.
fn lede(report: &Report) -> String {
    let Settings { urls, connections, threads, duration_s, requests, h2_streams, work, .. } =
        &report.settings;
    let what = match work {
        Work::Requests => "requests",
        Work::NewConnections => "requests on connections of their own",
        Work::Handshakes => "TLS handshakes",
        Work::Echo => "echoes",
        Work::Messages => "WebSocket messages",
    };
    let first = urls.first().map_or("", |url| url.url.as_str());
    let more = match report.settings.targets.max(urls.len() as u64) {
        0 | 1 => String::new(),
        all => format!(" and {} more", all - 1),
    };
    let length = match (requests, report.steps.len()) {
        (Some(requests), _) => format!("{requests} of them"),
        (None, 0 | 1) => format!("for {}", whole_seconds(*duration_s)),
        (None, steps) => format!("{steps} steps of {}", whole_seconds(*duration_s)),
    };
    let streams = h2_streams.map_or_else(String::new, |n| format!(" of {n} HTTP/2 streams"));
    let rate = match (&report.settings.model, report.total.rate_wanted) {
        (Model::Open, Some(rate)) if report.steps.is_empty() => format!(", {} per second", number(rate)),
        (Model::Open, _) => String::new(),
        (Model::Closed, _) => ", as fast as the connections allow".into(),
    };
    format!(
        "{first}{more}: {what}{rate}, {length}, {connections} connections{streams}, {threads} threads; {}.",
        date(report.started_unix_s)
    )
}

/// The sentence that a page begins with.
fn verdict(report: &Report) -> String {
    let total = &report.total;
    if total.requests == 0 {
        return format!("Nothing was completed; {} errors.", total.errors.sum());
    }
    let times = |figures: &Figures| match figures.latency.at(50.0).zip(figures.latency.at(99.0)) {
        Some((half, most)) if report.settings.model == Model::Open => {
            format!(", half of them within {}, 99 of 100 within {}", micros(half), micros(most))
        }
        _ => String::new(),
    };
    let done = match total.rate_wanted {
        _ if !report.steps.is_empty() => of_steps(&report.steps, times),
        Some(wanted) => {
            format!(
                "{} of {} per second wanted were completed{}",
                number(total.rate),
                number(wanted),
                times(total)
            )
        }
        None => format!("{} per second were completed", number(total.rate)),
    };
    let wrong = match total.errors.sum() + total.failed() {
        0 => "nothing failed".to_owned(),
        n => format!("{n} failed or were late"),
    };
    // One a connection is under way at any moment.
    let left = match total.unsent + total.unfinished {
        n if n > u64::from(report.settings.connections) => format!("; {n} were due and not answered"),
        _ => String::new(),
    };
    format!("{done}; {wrong}{left}.")
}

/// How far a run of steps came.
fn of_steps(steps: &[Figures], times: impl Fn(&Figures) -> String) -> String {
    let wanted = |step: &Figures| step.rate_wanted.unwrap_or_default();
    let reached = |step: &&Figures| step.rate >= wanted(step) * REACHED;
    let best = steps.iter().filter(reached).max_by(|a, b| wanted(a).total_cmp(&wanted(b)));
    match (best, steps.iter().filter(reached).count()) {
        (None, _) => format!("None of the {} rates was completed", steps.len()),
        (Some(best), all) if all == steps.len() => {
            format!(
                "All {all} rates were completed, the highest {} per second{}",
                number(wanted(best)),
                times(best)
            )
        }
        (Some(best), some) => format!(
            "{some} of {} rates were completed, the highest {} per second{}",
            steps.len(),
            number(wanted(best)),
            times(best)
        ),
    }
}

fn warnings(report: &Report) -> String {
    let one = |text: &str| format!("<p class=\"warning\">{}</p>\n", escaped(text));
    let mut out: String = report.warnings.iter().map(|warning| one(&warning.text)).collect();
    if report.settings.model == Model::Closed && report.total.requests > 0 {
        out += "<p class=\"about\">Without a rate a slow server receives fewer requests: these response times say little of what users see. -R gives a rate.</p>\n";
    }
    out
}

/// The figures at a glance.
fn tiles(report: &Report) -> String {
    let total = &report.total;
    let at = |percentile| total.latency.at(percentile).map_or_else(|| "–".to_owned(), micros);
    let tried = (total.requests + total.errors.sum()).max(1) as f64;
    let failed = total.errors.sum() + total.failed();
    let tiles = [
        ("per second", number(total.rate)),
        ("median", at(50.0)),
        ("99th percentile", at(99.0)),
        ("longest", if total.latency.count > 0 { micros(total.latency.max_us) } else { "–".into() }),
        ("errors", format!("{failed} ({:.2}%)", failed as f64 / tried * 100.0)),
        ("received", format!("{} Gbit/s", number(total.gbit_s))),
    ];
    let tiles =
        tiles.map(|(name, value)| format!("<div><b>{}</b><span>{name}</span></div>", escaped(&value)));
    format!("<div class=\"tiles\">{}</div>\n", tiles.concat())
}

/// The curves of a run: its steps, if they are few enough, else some of them; or the whole.
fn curves(report: &Report) -> Vec<(String, &Figures)> {
    let name =
        |step: &Figures| step.rate_wanted.map_or_else(|| "run".into(), |rate| format!("{}/s", number(rate)));
    if report.steps.is_empty() {
        return vec![(name(&report.total), &report.total)];
    }
    let every = (report.steps.len() - 1).div_ceil(CURVES - 1).max(1);
    report.steps.iter().step_by(every).map(|step| (name(step), step)).collect()
}

fn by_percentile(curves: &[(String, &Figures)]) -> String {
    let line = |(n, (name, figures)): (usize, &(String, &Figures))| {
        let histogram = figures.latency.decode().ok().filter(|all| !all.is_empty())?;
        let told = SHARES.iter().filter(|share| 1.0 / (1.0 - **share) <= histogram.len() as f64 * 1.01);
        let marks = told.map(|&share| {
            let ms = histogram.value_at_quantile(share) as f64 / 1e6;
            let tip = format!("{name}: {}% within {}", share * 100.0, micros(ms * 1e3));
            Mark { x: beyond(share), y: ms, interval: None, tip }
        });
        Some(series(name, n, false, marks.collect()))
    };
    let lines: Vec<Line> = curves.iter().enumerate().filter_map(line).collect();
    if lines.is_empty() {
        return String::new();
    }
    plots(&[plot(
        "Response times by percentile",
        "lower is better; as far to the right as there are enough of them",
        (Axis::percentiles("% of them took no longer"), Axis::logarithmic("ms")),
        &lines,
    )])
}

fn series(name: &str, n: usize, marked: bool, marks: Vec<Mark>) -> Line {
    let style = if n < LOOKS.len() { Style::Solid } else { Style::Dashed };
    Line { name: name.to_owned(), who: LOOKS[n % LOOKS.len()], style, marked, marks }
}

fn plot(title: &str, note: &str, (x, y): (Axis, Axis), lines: &[Line]) -> String {
    Lines { title, note, x, y, lines, rules: &[] }.draw()
}

fn plots(all: &[String]) -> String {
    let drawn = all.concat();
    if drawn.is_empty() { drawn } else { format!("<div class=\"plots\">\n{drawn}</div>\n") }
}

fn table_of_percentiles(curves: &[(String, &Figures)]) -> String {
    let head: Vec<(String, bool)> = std::iter::once(("".to_owned(), false))
        .chain(TOLD.iter().map(|p| (format!("{p}%"), true)))
        .chain([("mean".to_owned(), true), ("longest".to_owned(), true), ("count".to_owned(), true)])
        .collect();
    let row = |(name, figures): &(String, &Figures)| {
        let Latency { mean_us, max_us, count, .. } = figures.latency;
        let at = |p: &f64| figures.latency.at(*p).map_or_else(|| "–".to_owned(), micros);
        let mut row = vec![name.clone()];
        row.extend(TOLD.iter().map(at));
        row.extend([micros(mean_us), micros(max_us), count.to_string()]);
        row
    };
    Table { head, rows: curves.iter().map(row).collect() }.html()
}

/// The steps of a run: how it did at each rate.
fn steps(report: &Report) -> String {
    let of = |name: &str, n: usize, value: &dyn Fn(&Figures) -> Option<f64>, form: &dyn Fn(f64) -> String| {
        let mark = |step: &Figures| {
            let (x, y) = (step.rate_wanted?, value(step).filter(|y| *y > 0.0)?);
            Some(Mark { x, y, interval: None, tip: format!("{name} at {}/s: {}", metric(x), form(y)) })
        };
        series(name, n, true, report.steps.iter().filter_map(mark).collect())
    };
    let ms = |percentile: f64| move |step: &Figures| step.latency.at(percentile).map(|us| us / 1e3);
    let told = |ms: f64| micros(ms * 1e3);
    let latency =
        [of("50%", 0, &ms(50.0), &told), of("99%", 1, &ms(99.0), &told), of("99.9%", 2, &ms(99.9), &told)];
    let rate = [of("completed", 0, &|step| Some(step.rate), &metric), {
        let wanted = of("wanted", 3, &|step| step.rate_wanted, &metric);
        Line { style: Style::Dashed, marked: false, ..wanted }
    }];
    let mut table = Table::new(&[
        ("wanted/s", true),
        ("completed/s", true),
        ("50%", true),
        ("99%", true),
        ("99.9%", true),
        ("longest", true),
        ("errors", true),
    ]);
    for step in &report.steps {
        let at = |p| step.latency.at(p).map_or_else(|| "–".to_owned(), micros);
        table.rows.push(vec![
            step.rate_wanted.map_or_else(|| "–".to_owned(), number),
            number(step.rate),
            at(50.0),
            at(99.0),
            at(99.9),
            micros(step.latency.max_us),
            (step.errors.sum() + step.failed()).to_string(),
        ]);
    }
    let drawn = [
        plot(
            "Response times by rate",
            "lower is better",
            (Axis::linear("per second wanted"), Axis::logarithmic("ms")),
            &latency,
        ),
        plot(
            "Completed by rate",
            "on the dashed line all were completed",
            (Axis::linear("per second wanted"), Axis::linear("per second")),
            &rate,
        ),
    ];
    section("Steps", &[plots(&drawn), table.html()])
}

/// A figure of a moment, if it has one.
type OfMoment = fn(&Moment) -> Option<f64>;

fn over_time(runs: &[(&str, &Report)]) -> String {
    if runs.iter().all(|(_, report)| report.timeline.len() < 2) {
        return String::new();
    }
    let several = runs.len() > 1;
    let named = |name: &str, what: &str| {
        if several && what.is_empty() {
            name.to_owned()
        } else if several {
            format!("{name}, {what}")
        } else {
            what.to_owned()
        }
    };
    let line =
        |n: usize, (name, report): &(&str, &Report), what: &str, of: OfMoment, form: fn(f64) -> String| {
            let name = named(name, what);
            let mark = |moment: &Moment| {
                let y = of(moment)?;
                let tip = format!("{:.0} s, {name}: {}", moment.at_s, form(y));
                Some(Mark { x: moment.at_s, y, interval: None, tip })
            };
            series(&name, n, report.timeline.len() <= 120, report.timeline.iter().filter_map(mark).collect())
        };
    let ms = |value: f64| micros(value * 1e3);
    let rate: OfMoment = |m| Some(m.requests as f64 / m.length_s.max(1e-9));
    let wanted: OfMoment = |m| m.rate_wanted;
    let (half, most): (OfMoment, OfMoment) =
        (|m| m.p50_us.map(|us| us / 1e3), |m| m.p99_us.map(|us| us / 1e3));
    let errors: OfMoment = |m| Some((m.errors + m.failed) as f64 / m.length_s.max(1e-9));
    let cpus: OfMoment = |m| Some(m.cpus * 100.0);
    let (mut rates, mut times, mut wrongs, mut cpu) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (n, run) in runs.iter().enumerate() {
        rates.push(line(n, run, if several { "" } else { "completed" }, rate, number));
        if !several && run.1.settings.model == Model::Open {
            let wanted = line(3, run, "wanted", wanted, number);
            rates.push(Line { style: Style::Dashed, marked: false, ..wanted });
        }
        if !several {
            times.push(line(0, run, "50%", half, ms));
        }
        times.push(line(if several { n } else { 1 }, run, "99%", most, ms));
        wrongs.push(line(n, run, if several { "" } else { "errors" }, errors, number));
        cpu.push(line(n, run, if several { "" } else { "generator" }, cpus, |v| number(v) + "%"));
    }
    let seconds = || Axis::linear("seconds");
    let any = |lines: &[Line]| lines.iter().any(|line| line.marks.iter().any(|mark| mark.y > 0.0));
    let mut drawn = vec![
        plot("Rate over time", "", (seconds(), Axis::linear("per second")), &rates),
        plot("Response times over time", "lower is better", (seconds(), Axis::logarithmic("ms")), &times),
    ];
    if any(&wrongs) {
        drawn.push(plot("Errors over time", "", (seconds(), Axis::linear("per second")), &wrongs));
    }
    drawn.push(plot(
        "CPU of the generator over time",
        "near 100% per thread the generator is the limit",
        (seconds(), Axis::linear("% of one CPU")),
        &cpu,
    ));
    section("Over time", &[plots(&drawn)])
}

/// Errors by cause, answers by status.
fn wrong(runs: &[(&str, &Report)]) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut counts: Vec<Vec<(String, u64)>> = Vec::new();
    for (_, report) in runs {
        let total = &report.total;
        let mut all: Vec<(String, u64)> =
            total.errors.causes.named().iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        all.extend(total.status.codes.iter().map(|(code, n)| (format!("status {code}"), *n)));
        all.extend(total.grpc.iter().map(|(code, n)| (format!("gRPC code {code}"), *n)));
        all.retain(|(_, n)| *n > 0);
        for (name, _) in &all {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        counts.push(all);
    }
    let mut head = vec![("".to_owned(), false)];
    head.extend(
        runs.iter().map(|(name, _)| (if name.is_empty() { "number" } else { name }.to_owned(), true)),
    );
    let rows = names.into_iter().map(|name| {
        let of = |all: &Vec<(String, u64)>| all.iter().find(|(its, _)| *its == name).map_or(0, |(_, n)| *n);
        let mut row = vec![name.clone()];
        row.extend(counts.iter().map(|all| of(all).to_string()));
        row
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() { String::new() } else { Table { head, rows }.html() }
}

/// What was asked for, by name.
fn asked(settings: &Settings) -> Vec<(&'static str, String)> {
    let Settings { urls, work, model, threads, connections, duration_s, warmup_s, rates, timeout_s, .. } =
        settings;
    let tls = settings.tls.as_ref();
    let tls = tls.and_then(|tls| Some(format!("{} {}", tls.version.as_ref()?, tls.suite.as_ref()?)));
    let word = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
    let mut all = vec![
        ("URL", urls.iter().map(|url| url.url.as_str()).collect::<Vec<_>>().join(" ")),
        ("work", word(work)),
        ("load model", word(model)),
        ("threads", threads.to_string()),
        ("connections", connections.to_string()),
        ("duration", format!("{duration_s} s")),
        ("warm-up", format!("{warmup_s} s")),
        ("timeout", format!("{timeout_s} s")),
        ("method", settings.method.clone()),
        ("body", format!("{} bytes", settings.body_bytes)),
        ("driver", settings.io.clone()),
    ];
    if !rates.is_empty() {
        all.push(("rates", rates.iter().map(|rate| number(*rate)).collect::<Vec<_>>().join(", ")));
    }
    all.extend(settings.requests.map(|n| ("requests", n.to_string())));
    all.extend(settings.h2_streams.map(|n| ("HTTP/2 streams", n.to_string())));
    all.extend(tls.map(|tls| ("TLS", tls)));
    all
}

/// In what two runs were not asked for the same. Their URLs may differ: that is what they are compared for.
fn unlike(one: &Settings, two: &Settings) -> Vec<String> {
    let (one, two) = (asked(one), asked(two));
    let value = |all: &[(&str, String)], name: &str| {
        all.iter().find(|(its, _)| *its == name).map_or_else(|| "none".to_owned(), |(_, value)| value.clone())
    };
    let mut names: Vec<&str> =
        one.iter().chain(&two).map(|(name, _)| *name).filter(|name| *name != "URL").collect();
    names.dedup();
    let mut told: Vec<String> = Vec::new();
    for name in names {
        let (mine, its) = (value(&one, name), value(&two, name));
        let line = format!("{name} {mine} and {its}");
        if mine != its && !told.contains(&line) {
            told.push(line);
        }
    }
    told
}

fn settings(runs: &[(&str, &Report)]) -> String {
    let of = |(name, report): &(&str, &Report)| {
        let mut all = asked(&report.settings);
        all.push((
            "generator",
            format!(
                "weir {}, {} µs of CPU each",
                report.version,
                number(report.generator.cpu_us_per_request)
            ),
        ));
        let list: String =
            all.iter().map(|(name, value)| format!("<dt>{name}</dt><dd>{}</dd>", escaped(value))).collect();
        let heading = if name.is_empty() { String::new() } else { format!("<h3>{}</h3>\n", escaped(name)) };
        format!("{heading}<dl>{list}</dl>\n")
    };
    section("Settings", &runs.iter().map(of).collect::<Vec<_>>())
}

/// A figure that two runs are compared by: its name, its value, and how that is written.
type Compared = (&'static str, f64, fn(f64) -> String);

/// The figures that two runs are compared by.
fn compared(report: &Report) -> Vec<Compared> {
    let total = &report.total;
    let at = |p| total.latency.at(p).unwrap_or_default();
    vec![
        ("completed per second", total.rate, number as fn(f64) -> String),
        ("mean", total.latency.mean_us, micros),
        ("50%", at(50.0), micros),
        ("90%", at(90.0), micros),
        ("99%", at(99.0), micros),
        ("99.9%", at(99.9), micros),
        ("longest", total.latency.max_us, micros),
        ("errors", (total.errors.sum() + total.failed()) as f64, |n| format!("{n:.0}")),
        ("Gbit/s", total.gbit_s, number),
        ("CPU of the generator, µs each", report.generator.cpu_us_per_request, number),
    ]
}

fn ratios(one: (&str, &Report), two: (&str, &Report)) -> Table {
    let mut table = Table::new(&[("", false), (one.0, true), (two.0, true), ("ratio", true)]);
    for ((name, a, form), (_, b, _)) in compared(one.1).into_iter().zip(compared(two.1)) {
        let ratio = if a > 0.0 { format!("{:.2}", b / a) } else { "–".to_owned() };
        table.rows.push(vec![name.to_owned(), form(a), form(b), ratio]);
    }
    table
}

fn beside(one: (&str, &Report), two: (&str, &Report)) -> String {
    let (a, b) = (&one.1.total, &two.1.total);
    let times = |of: fn(&Figures) -> f64| {
        let (a, b) = (of(a), of(b));
        if a > 0.0 { format!("{:.2} times", b / a) } else { "not to be compared with".to_owned() }
    };
    let p99: fn(&Figures) -> f64 = |f| f.latency.at(99.0).unwrap_or_default();
    format!(
        "{}: the rate is {} that of {}, the 99th percentile of response times {}; errors {} and {} before.",
        two.0,
        times(|f| f.rate),
        one.0,
        times(p99),
        b.errors.sum() + b.failed(),
        a.errors.sum() + a.failed()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_loadgen::report::{Errors, SCHEMA, empty_histogram};

    fn run(scale: u64) -> Report {
        let mut histogram = empty_histogram();
        (1..=2000_u64).for_each(|n| histogram.saturating_record(n * 10_000 * scale));
        let mut total = Figures {
            elapsed_s: 2.0,
            requests: 2000,
            rate_wanted: Some(1000.0),
            latency: Latency::of(&histogram),
            errors: Errors { read: scale, ..Errors::default() },
            ..Figures::default()
        };
        total.status.add(200, 2000);
        total.rates();
        let moment = |at_s| Moment {
            at_s,
            length_s: 1.0,
            step: Some(0),
            requests: 1000,
            p50_us: Some(10.0),
            p99_us: Some(99.0),
            ..Moment::default()
        };
        let mut report = Report { schema: SCHEMA.into(), total, ..Report::default() };
        report.settings.model = Model::Open;
        report.timeline = vec![moment(1.0), moment(2.0)];
        report
    }

    #[test]
    fn the_first_sentence_follows_from_the_figures() {
        let report = run(1);
        assert_eq!(
            verdict(&report),
            "1,000 of 1,000 per second wanted were completed, half of them within 10.00ms, 99 of 100 within 19.81ms; 1 failed or were late."
        );
        assert_eq!(verdict(&Report::default()), "Nothing was completed; 0 errors.");
        let behind = Figures { rate_wanted: Some(3000.0), unsent: 1000, ..report.total.clone() };
        let total = Figures { unsent: 1000, ..report.total.clone() };
        let steps = Report { steps: vec![report.total.clone(), behind], total, ..report.clone() };
        let said = verdict(&steps);
        assert!(
            said.starts_with(
                "1 of 2 rates were completed, the highest 1,000 per second, half of them within"
            ),
            "{said}"
        );
        assert!(said.ends_with("; 1 failed or were late; 1000 were due and not answered."), "{said}");
        let page = page(&report);
        for word in ["Rate over time", "Response times over time", "by percentile", "status 200", "99.9"] {
            assert!(page.contains(word), "{word}");
        }
        assert!(!page.contains("Errors over time"), "there were none in any second");
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    }

    #[test]
    fn two_runs_are_ratios_and_never_a_difference() {
        let (a, mut b) = (run(1), run(2));
        b.settings.connections = 7;
        let text = comparison_text(("a.json", &a), ("b.json", &b));
        let p99 = text.lines().find(|line| line.starts_with("99% ")).unwrap();
        assert!(p99.ends_with("2.00"), "{text}");
        assert!(
            text.contains("connections 0 and 7") && text.contains("nothing here is called a difference"),
            "{text}"
        );
        let page = comparison(("a<.json", &a), ("b.json", &b));
        assert!(page.contains("a&lt;.json") && !page.contains("a<.json"), "escaped");
    }
}
