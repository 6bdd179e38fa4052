//! The report as CSV and as Markdown, and the tables that HTML has too.
//!
//! Owns: the columns of all.
//! Never: rounds in CSV.
//! Driven by: `report`, `html`.

use super::knee::Where;
use super::plot::escaped;
use super::published::{By, Quantity};
use super::{Chapter, Report, Row, findings, number, unique, unit, verdict, with_interval, words};
use crate::prices::Prices;
use crate::scenario::{Mode, Who};
use crate::stats::Estimate;
use std::fmt::Write;

/// One line a row, figures in full. Columns are only added, at the end.
pub(super) fn csv(report: &Report) -> String {
    let mut out = String::from(
        "scenario,mode,keepalive,bytes,workers,contender,runs,requests,rate,rate_low,rate_high,gbit_s,mean_us,p50_us,p95_us,\
         p99_us,p99_low,p99_high,cpu_us,cpu_low,cpu_high,switches,memory_peak,errors,bad_status,shared_cpus,weir_over_this,doubts,\
         work,rate_wanted,gbit_low,gbit_high,mean_low,mean_high,p50_low,p50_high,p95_low,p95_high,cpus,cpus_low,cpus_high,\
         weir_over_this_low,weir_over_this_high,weir_cpu_over_this,weir_cpu_over_this_low,weir_cpu_over_this_high,tls,instructions,\
         start_s,start_memory,idle_connections,idle_bytes,idle_bytes_low,idle_bytes_high,row,ratio,ratio_low,ratio_high,target,met\n",
    );
    for (chapter, row) in report.scenarios.iter().flat_map(|c| c.rows.iter().map(move |r| (c, r))) {
        let _ = writeln!(out, "{}", fields(chapter, row).join(","));
    }
    out
}

fn fields(chapter: &Chapter, row: &Row) -> Vec<String> {
    let all = |e: &Estimate| [e.median.to_string(), e.low.to_string(), e.high.to_string()];
    let bounds = |e: &Estimate| [e.low.to_string(), e.high.to_string()];
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
    fields
}

/// Names and values of the environment.
pub(super) fn environment(report: &Report) -> Vec<(String, String)> {
    let e = &report.environment;
    let mut lines = vec![
        ("processor".to_owned(), format!("{}, {} CPUs", e.processor, e.cpus)),
        ("memory".to_owned(), format!("{} GB", number(e.memory as f64 / f64::from(1 << 30)))),
        ("kernel".to_owned(), e.kernel.clone()),
    ];
    let none = |text: &str| if text.is_empty() { "none seen".to_owned() } else { text.to_owned() };
    lines.push(("virtualisation".to_owned(), none(&e.virtualisation)));
    lines.push(("CPU limit".to_owned(), none(&e.cpu_limit)));
    lines.push((
        "hyper-threading".to_owned(),
        if e.hyper_threading { "on" } else { "off or none" }.to_owned(),
    ));
    lines.extend(e.versions.iter().map(|(name, version)| match e.tls_libraries.get(name) {
        Some(library) => (name.clone(), format!("{version}; TLS by {library}")),
        None => (name.clone(), version.clone()),
    }));
    if !e.commit.is_empty() {
        lines.push(("commit of weir".to_owned(), e.commit.clone()));
    }
    if !e.instructions.is_empty() {
        lines.push(("instructions".to_owned(), e.instructions.clone()));
    }
    if let Some(driver) = report.driver {
        lines.push(("driver of weir".to_owned(), driver.word().to_owned()));
    }
    lines.push(("build of weir".to_owned(), if report.debug_build { "debug" } else { "release" }.to_owned()));
    lines.push(("runs".to_owned(), if report.quick { "quick" } else { "full" }.to_owned()));
    if let Some((first, last)) = report.measured {
        lines.push((
            "measured".to_owned(),
            format!("{} to {}", super::html::date(first), super::html::date(last)),
        ));
    }
    let rows = || report.scenarios.iter().flat_map(|c| c.rows.iter());
    let steal = rows().flat_map(|r| r.each.iter().map(|e| e.steal)).fold(0.0, f64::max);
    lines.push(("steal".to_owned(), format!("{}% of CPU time in the worst run", number(steal * 100.0))));
    let tls = unique(rows().filter_map(|r| r.tls.clone()));
    if !tls.is_empty() {
        lines.push(("TLS agreed on".to_owned(), tls.join("; ")));
    }
    lines
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
        (number(e.median * scale), Some(format!("{}–{}", number(e.low * scale), number(e.high * scale))))
    };
    let ratio = |e: Option<Estimate>| {
        let told = |e: Estimate| (format!("{:.2}", e.median), Some(format!("{:.2}–{:.2}", e.low, e.high)));
        e.map_or_else(Cell::default, told)
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
        "Medians of {} runs of {} s, and the 95% interval of the bootstrap. Errors are failed and timed-out requests and answers \
         of 400 and above. ¹ The generator shared the server's CPUs. ² The generator warned that the figures are to be doubted; \
         the findings say of what.",
        chapter.runs, chapter.seconds
    )
}

/// A table of text: its head (with whether figures stand below), and its rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table {
    pub(super) head: Vec<(String, bool)>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(head: &[(&str, bool)]) -> Self {
        Self { head: head.iter().map(|(h, n)| ((*h).to_owned(), *n)).collect(), rows: Vec::new() }
    }

    /// As HTML, which scrolls by itself if it is wide.
    pub(super) fn html(&self) -> String {
        let class = |figures: bool| if figures { " class=\"n\"" } else { "" };
        let head: String =
            self.head.iter().map(|(name, n)| format!("<th{}>{}</th>", class(*n), escaped(name))).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&self.head);
            let cells: String =
                cells.map(|(c, (_, n))| format!("<td{}>{}</td>", class(*n), cell(c))).collect();
            format!("<tr>{cells}</tr>\n")
        };
        let body: String = self.rows.iter().map(line).collect();
        format!(
            "<div class=\"wide\"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>\n"
        )
    }

    /// For a terminal: columns as wide as what stands in them.
    pub(super) fn text(&self) -> String {
        let head: Vec<String> = self.head.iter().map(|h| h.0.clone()).collect();
        let length = |cell: &String| cell.chars().count();
        let width = |n: usize| {
            let column = self.rows.iter().filter_map(|r| r.get(n)).chain(head.get(n));
            column.map(length).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).zip(&self.head);
            let padded = cells.map(|((cell, width), (_, figures))| {
                let gap = " ".repeat(width - length(cell));
                if *figures { gap + cell } else { cell.clone() + &gap }
            });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        std::iter::once(&head).chain(&self.rows).map(line).collect()
    }

    /// As Markdown.
    pub(super) fn markdown(&self) -> String {
        let names: Vec<&str> = self.head.iter().map(|h| h.0.as_str()).collect();
        let lines: String = self.head.iter().map(|h| if h.1 { "---:|" } else { "---|" }).collect();
        let rows: String = self.rows.iter().map(|r| format!("| {} |\n", r.join(" | "))).collect();
        format!("| {} |\n|{lines}\n{rows}", names.join(" | "))
    }
}

/// A cell's text; an interval stands below its figure, so that tables stay narrow.
fn cell(text: &str) -> String {
    match text.split_once(" (").and_then(|(figure, rest)| Some((figure, rest.split_once(')')?))) {
        Some((figure, (interval, mark))) if interval.contains('–') => {
            format!("{}{}<small>{}</small>", escaped(figure), escaped(mark.trim()), escaped(interval))
        }
        _ => escaped(text),
    }
}

/// Weir ÷ each rival, a line for each kind of work of each scenario.
fn summary(report: &Report) -> Table {
    let head =
        ["rate ÷ nginx", "CPU each ÷ nginx", "rate ÷ haproxy", "CPU each ÷ haproxy"].map(|h| (h, true));
    let mut table = Table::new(&[&[("scenario", false), ("work", false)], head.as_slice()].concat());
    for chapter in &report.scenarios {
        for kind in findings::kinds(chapter) {
            let ratios = [Who::Nginx, Who::Haproxy]
                .into_iter()
                .flat_map(|who| [findings::rates(chapter, kind, who), findings::cpu(chapter, kind, who)]);
            let told =
                |a: findings::Against| format!("{:.2} ({:.2}–{:.2})", a.mean.median, a.mean.low, a.mean.high);
            let mut line = vec![chapter.id.clone(), findings::title(kind)];
            line.extend(ratios.map(|a| a.map_or_else(|| "–".to_owned(), told)));
            table.rows.push(line);
        }
    }
    table
}

/// Knees, measured and published; nothing if there are none.
pub(super) fn knees(chapter: &Chapter) -> Option<Table> {
    let head = [("work", false), ("contender", false), ("knee, requests/s", true), ("p95 limit, ms", true)];
    let mut table = Table::new(&head);
    for knee in &chapter.knees {
        let row = chapter.row(&knee.point, knee.contender);
        let rate = match knee.knee.place {
            Where::Found => with_interval(&knee.knee.rate, 1.0),
            Where::Above => format!("above {}", number(knee.knee.rate.median)),
            Where::Below => format!("below {}", number(knee.knee.rate.median)),
        };
        let work = row.map_or_else(|| knee.point.name(), |r| words(r, &["rate"]));
        table.rows.push(vec![work, knee.contender.name().to_owned(), rate, number(knee.knee.limit_us / 1e3)]);
    }
    for told in chapter.published.iter().flat_map(|p| &p.knees) {
        let work = format!("published: {}B", super::size(&told.size));
        table.rows.push(vec![work, told.label.clone(), number(told.rate), String::new()]);
    }
    (!chapter.knees.is_empty()).then_some(table)
}

/// What a rate costs: for reverse proxies by cores; nothing for other work.
pub(super) fn prices(chapter: &Chapter, prices: &Prices) -> Option<Table> {
    let priced = |c: &&super::Curve| {
        c.by == By::Workers && matches!(c.quantity, Quantity::Rps | Quantity::Tps) && c.points.len() <= 4
    };
    let published: Vec<&super::Curve> = chapter.published_curves().iter().filter(priced).collect();
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
    for row in chapter.rows.iter().filter(proxied).filter(|r| r.contender != Who::Direct) {
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
    let key = |m: &super::Missing| (m.contender, m.why.replace(['\n', '\r'], " ").trim().to_owned());
    let line = |(who, why): (Option<Who>, String)| {
        let same = chapter.missing.iter().filter(|m| key(m) == (who, why.clone()));
        let points: Vec<String> = same.map(|m| m.point.name()).collect();
        format!("{} at {}: {why}", who.as_ref().map_or("everybody", Who::name), points.join(", "))
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
