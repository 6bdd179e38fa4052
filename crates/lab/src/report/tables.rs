//! The report as CSV and as Markdown, and the tables that HTML has too.
//!
//! Owns: the columns of all.
//! Never: rounds in CSV.
//! Driven by: `report`, `html`.

use super::environment::environment;
use super::figures::{Chapter, Missing, Report, Row};
use super::knee::Where;
use super::published::{By, Curve, Quantity};
use super::table::Table;
use super::words::{number, ratio as told_ratio, size, to_one, unique, unit, with_interval, words};
use super::{findings, verdict};
use crate::prices::Prices;
use crate::scenario::{Contender, Mode};
use crate::stats::{ENOUGH, Estimate};
use std::fmt::Write;

/// One line a row, figures in full. Columns are only added, at the end.
pub(super) fn csv(report: &Report) -> String {
    let mut out = String::from(
        "scenario,mode,keepalive,bytes,workers,contender,runs,requests,rate,rate_low,rate_high,gbit_s,mean_us,p50_us,p95_us,\
         p99_us,p99_low,p99_high,cpu_us,cpu_low,cpu_high,switches,memory_peak,errors,bad_status,shared_cpus,weir_over_this,doubts,\
         work,rate_wanted,gbit_low,gbit_high,mean_low,mean_high,p50_low,p50_high,p95_low,p95_high,cpus,cpus_low,cpus_high,\
         weir_over_this_low,weir_over_this_high,weir_cpu_over_this,weir_cpu_over_this_low,weir_cpu_over_this_high,tls,instructions,\
         start_s,start_memory,idle_connections,idle_bytes,idle_bytes_low,idle_bytes_high,row,ratio,ratio_low,ratio_high,target,met,\
         changes,sockets,sockets_dropped,processes,hyper_threading\n",
    );
    for (chapter, row) in report.scenarios.iter().flat_map(|c| c.rows.iter().map(move |r| (c, r))) {
        let _ = writeln!(out, "{}", fields(chapter, row).join(","));
    }
    out
}

fn fields(chapter: &Chapter, row: &Row) -> Vec<String> {
    let end = |end: Option<f64>| end.map_or_else(String::new, |end| end.to_string());
    let all = |e: &Estimate| [e.median.to_string(), end(e.low), end(e.high)];
    let bounds = |e: &Estimate| [end(e.low), end(e.high)];
    let maybe = |e: Option<Estimate>| e.map_or_else(Default::default, |e| all(&e));
    let work = serde_json::to_value(row.work).ok().and_then(|w| w.as_str().map(str::to_owned));
    let doubts: Vec<&str> = row.doubts.keys().map(String::as_str).collect();
    let [over, over_low, over_high] = maybe(row.weir_over_this);
    let mut fields = vec![
        chapter.id.clone(),
        row.point.mode.name().to_owned(),
        row.point.keepalive.to_string(),
        row.bytes.to_string(),
        row.point.workers.to_string(),
        row.contender.name().to_owned(),
        row.runs.to_string(),
        row.requests.to_string(),
    ];
    fields.extend(all(&row.rate));
    fields.push(row.gbit_s.to_string());
    fields.extend([&row.mean_us, &row.p50_us, &row.p95_us].map(|e| e.median.to_string()));
    fields.extend(all(&row.p99_us));
    fields.extend(all(&row.cpu_us));
    fields.extend([row.switches.to_string(), row.memory_peak.to_string(), row.errors.to_string()]);
    fields.extend([row.bad_status.to_string(), row.shared_cpus.to_string(), over, doubts.join(" ")]);
    fields.extend([work.unwrap_or_default(), row.rate_wanted.map_or_else(String::new, |r| r.to_string())]);
    fields.extend([&row.gbit, &row.mean_us, &row.p50_us, &row.p95_us].into_iter().flat_map(bounds));
    fields.extend(all(&row.cpus));
    fields.extend([over_low, over_high]);
    fields.extend(maybe(row.weir_cpu_over_this));
    fields.push(row.tls.clone().unwrap_or_default());
    fields.push(row.instructions.map_or_else(String::new, |e| e.median.to_string()));
    let start = row.start.map(|s| [s.seconds.median.to_string(), s.memory.median.to_string()]);
    fields.extend(start.unwrap_or_default());
    fields.push(row.idle.map_or_else(String::new, |i| i.connections.to_string()));
    fields.extend(maybe(row.idle.map(|i| i.bytes_each)));
    let judged = chapter.verdict.iter().flat_map(|v| &v.rows);
    let judged = judged.into_iter().find(|j| j.point == row.point && j.by == row.contender);
    fields.push(judged.map_or_else(String::new, |j| j.id.clone()));
    fields.extend(maybe(judged.and_then(|j| j.ratio)));
    let told = |value: Option<String>| value.unwrap_or_default();
    fields.push(told(judged.and_then(|j| j.target).map(|t| t.to_string())));
    fields.push(told(judged.and_then(|j| j.met).map(|m| m.to_string())));
    let changes = row.changes.map(|c| [c.made, c.sockets, c.dropped, c.processes].map(|n| n.to_string()));
    fields.extend(changes.unwrap_or_default());
    fields.push(row.point.hyper_threading.to_string());
    fields
}

/// The head of the table of rows: names, and whether figures stand below.
pub(super) const HEAD: [(&str, bool); 13] = [
    ("work", false),
    ("contender", false),
    ("rate /s", true),
    ("Gbit/s", true),
    ("mean ms", true),
    ("p50 ms", true),
    ("p95 ms", true),
    ("p99 ms", true),
    ("CPU µs each", true),
    ("memory MB", true),
    ("errors", true),
    ("Weir ÷ this: rate", true),
    ("Weir ÷ this: CPU", true),
];

/// A cell: a figure, and its interval.
pub(super) type Cell = (String, Option<String>);

/// The cells of a row.
pub(super) fn cells(row: &Row) -> [Cell; 13] {
    let marks = [(row.shared_cpus, "¹"), (!row.doubts.is_empty(), "²")];
    let marks: String = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
    let plain = |text: String| (text, None);
    let figure = |e: &Estimate, scale: f64| {
        // What was not measured is no figure: nothing is requested of connections that wait.
        if row.idle.is_some() {
            return ("–".to_owned(), None);
        }
        let told = |(low, high)| format!("{}–{}", number(low), number(high));
        (number(e.median * scale), e.scaled(scale).interval().map(told))
    };
    let ratio = |e: Option<Estimate>| {
        let interval = |(low, high)| format!("{}–{}", to_one(low), to_one(high));
        e.map_or_else(Cell::default, |e| (to_one(e.median), e.interval().map(interval)))
    };
    let (rate, interval) = figure(&row.rate, 1.0);
    [
        plain(words(row, &[])),
        plain(row.contender.name().to_owned()),
        (rate + &marks, interval),
        figure(&row.gbit, 1.0),
        figure(&row.mean_us, 1e-3),
        figure(&row.p50_us, 1e-3),
        figure(&row.p95_us, 1e-3),
        figure(&row.p99_us, 1e-3),
        figure(&row.cpu_us, 1.0),
        plain(number(row.memory_peak as f64 / f64::from(1 << 20))),
        plain(number(row.failures() as f64)),
        ratio(row.weir_over_this.filter(|_| row.rate_wanted.is_none())),
        ratio(row.weir_cpu_over_this),
    ]
}

/// What the marks mean, and how figures are made.
pub(super) fn legend(chapter: &Chapter) -> String {
    format!(
        "Medians of {} runs of {} s{}. Errors are failed and timed-out requests and answers \
         of 400 and above. ¹ The generator shared the server's CPUs. ² The generator warned that the figures are to be doubted; \
         the findings say of what.",
        chapter.runs,
        chapter.seconds,
        if (chapter.runs as usize) < ENOUGH {
            ", without intervals, for which there are too few runs"
        } else {
            ", and the 95% interval of the bootstrap"
        }
    )
}

/// Weir ÷ each rival, a line for each kind of work of each scenario.
fn summary(report: &Report) -> Table {
    let head =
        ["rate ÷ nginx", "CPU each ÷ nginx", "rate ÷ haproxy", "CPU each ÷ haproxy"].map(|h| (h, true));
    let mut table = Table::new(&[&[("scenario", false), ("work", false)], head.as_slice()].concat());
    for chapter in &report.scenarios {
        for kind in findings::kinds(chapter) {
            let ratios = [Contender::Nginx, Contender::Haproxy]
                .into_iter()
                .flat_map(|who| [findings::rates(chapter, kind, who), findings::cpu(chapter, kind, who)]);
            let told = |a: findings::Against| {
                let few = if a.mean.interval().is_none() { ", too few runs" } else { "" };
                told_ratio(&a.mean, &a.each) + few
            };
            let mut line = vec![chapter.id.clone(), findings::title(kind)];
            line.extend(ratios.map(|a| a.map_or_else(|| "–".to_owned(), told)));
            table.rows.push(line);
        }
    }
    table
}

/// Knees, measured and published; nothing if there are none.
pub(super) fn knees(chapter: &Chapter) -> Option<Table> {
    let head = [
        ("work", false),
        ("contender", false),
        ("knee, requests/s", true),
        ("p95 limit, ms", true),
        ("what held it", false),
    ];
    let mut table = Table::new(&head);
    for knee in &chapter.knees {
        let row = chapter.row(&knee.point, knee.contender);
        let rate = match knee.knee.place {
            Where::Found => with_interval(&knee.knee.rate, 1.0),
            Where::Above => format!("above {}", number(knee.knee.rate.median)),
            Where::Below => format!("below {}", number(knee.knee.rate.median)),
        };
        let work = row.map_or_else(|| knee.point.name(), |r| words(r, &["rate"]));
        let limit = knee.limit.map_or_else(String::new, |limit| limit.told());
        let who = knee.contender.name().to_owned();
        table.rows.push(vec![work, who, rate, number(knee.knee.limit_us / 1e3), limit]);
    }
    for told in chapter.published.iter().flat_map(|p| &p.knees) {
        let work = format!("published: {}B", size(&told.size));
        let full = chapter.published.iter().flat_map(|p| &p.saturated);
        let mut full = full
            .filter(|full| (&full.who, &full.size) == (&told.who, &told.size))
            .map(|full| format!("published: its CPUs are 100% busy at {} requests/s", number(full.rate)));
        let full = full.next().unwrap_or_default();
        table.rows.push(vec![work, told.label.clone(), number(told.rate), String::new(), full]);
    }
    (!chapter.knees.is_empty()).then_some(table)
}

/// What a rate costs: for reverse proxies by cores; nothing for other work.
pub(super) fn prices(chapter: &Chapter, prices: &Prices) -> Option<Table> {
    let priced = |c: &&Curve| {
        c.by == By::Workers && matches!(c.quantity, Quantity::Rps | Quantity::Tps) && c.points.len() <= 4
    };
    let published: Vec<&Curve> = chapter.published_curves().iter().filter(priced).collect();
    let proxied = |r: &&Row| matches!(r.point.mode, Mode::Http | Mode::Https) && r.rate_wanted.is_none();
    if published.is_empty() || chapter.packed || !chapter.rows.iter().any(|r| proxied(&r)) {
        return None;
    }
    let per = format!("each {}", prices.currency);
    let head = [
        ("cores", true),
        ("price", true),
        ("who", false),
        ("work", false),
        ("rate /s", true),
        (per.as_str(), true),
    ];
    let mut table = Table::new(&head);
    let mut line = |cores: f64, who: String, work: String, rate: f64, told: String| {
        let machine = prices.machine(cores);
        let price = machine.map_or_else(|| "none so large".to_owned(), |m| number(m.price));
        let value = machine.map_or_else(String::new, |m| number(rate / m.price));
        table.rows.push(vec![number(cores), price, who, work, told, value]);
    };
    for row in chapter.rows.iter().filter(proxied).filter(|r| r.contender != Contender::Direct) {
        let mark = if row.shared_cpus || !row.doubts.is_empty() { " ²" } else { "" };
        line(
            f64::from(row.point.workers),
            row.contender.name().to_owned(),
            words(row, &["workers"]),
            row.rate.median,
            with_interval(&row.rate, 1.0) + mark,
        );
    }
    for curve in published {
        for &(cores, rate) in &curve.points {
            line(
                cores,
                format!("published: {}", curve.label),
                unit(curve.quantity).to_owned(),
                rate,
                number(rate),
            );
        }
    }
    Some(table)
}

/// What has no figures, each reason once.
pub(super) fn missing(chapter: &Chapter) -> Vec<String> {
    let key = |m: &Missing| (m.contender, m.why.replace(['\n', '\r'], " ").trim().to_owned());
    let line = |(who, why): (Option<Contender>, String)| {
        let same = chapter.missing.iter().filter(|m| key(m) == (who, why.clone()));
        let points: Vec<String> = same.map(|m| m.point.name()).collect();
        format!("{} at {}: {why}", who.as_ref().map_or("everybody", Contender::name), points.join(", "))
    };
    unique(chapter.missing.iter().map(key)).into_iter().map(line).collect()
}

/// For READMEs.
pub(super) fn markdown(report: &Report, list: &Prices) -> String {
    let mut out = String::from("# weir lab\n\n");
    for (name, value) in environment(report) {
        let _ = writeln!(out, "- {name}: {value}");
    }
    let _ = write!(
        out,
        "\n## At a glance\n\nWeir divided by each rival: geometric means over the points of a scenario.\n\n{}",
        summary(report).markdown()
    );
    for chapter in &report.scenarios {
        let _ = writeln!(out, "\n## {}: {}\n\n{}\n", chapter.id, chapter.title, chapter.about);
        if let Some(verdict) = &chapter.verdict {
            let _ = writeln!(out, "{}", verdict::table(verdict).markdown());
        }
        for finding in &chapter.findings {
            let _ = writeln!(out, "- {finding}");
        }
        let mut table = Table::new(&HEAD);
        let told = |(figure, interval): Cell| match interval {
            Some(interval) => format!("{figure} ({interval})"),
            None => figure,
        };
        table.rows = chapter.rows.iter().map(|r| cells(r).map(told).to_vec()).collect();
        let _ = write!(out, "\n{}\n{}\n", table.markdown(), legend(chapter));
        if let Some(table) = knees(chapter) {
            let _ = write!(out, "\n{}", table.markdown());
        }
        if let Some(table) = prices(chapter, list) {
            let _ = write!(out, "\n{}\nPrices: {}.\n", table.markdown(), list.source);
        }
        for line in missing(chapter) {
            let _ = writeln!(out, "\n- without figures: {line}");
        }
    }
    out
}
