//! The report as one page that needs no network.
//!
//! Owns: the page: its order, its tables, its style, the one script that it may run.
//! Never: needs that script to be read; has a figure that `report.json` does not have.
//! Driven by: `report`; `merge` puts its guide into the same frame.

use super::environment::environment;
use super::figures::{Chapter, Report};
use super::findings::{Against, cpu, doubts, kinds, rates, rivals, title};
use super::tables::{self, HEAD, cells, legend};
use super::words::{date, escaped, raw, to_one, unique};
use super::{plots, verdict};
use crate::contender::Contender;
use crate::prices::Prices;
use crate::stats::ENOUGH;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::fmt::Write;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// More rows than this are folded away at first.
const SHOWN: usize = 40;

/// A page around `body`. The policy forbids whatever would need the network.
pub(crate) fn frame(title: &str, body: &str) -> String {
    // No script but this one runs, whatever stands in a result.
    let hash = BASE64_STANDARD.encode(digest(&SHA256, SCRIPT.as_bytes()));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{}</title>\n<style>\n{STYLE}</style></head>\n\
         <body>\n{body}<script>{SCRIPT}</script></body></html>\n",
        escaped(title)
    )
}

/// The whole page.
pub(super) fn page(report: &Report, prices: &Prices) -> String {
    let mut body = head(report);
    body += "<nav><a href=\"#summary\">At a glance</a>";
    for chapter in &report.scenarios {
        let _ = write!(body, "<a href=\"#{0}\">{0}</a>", escaped(&chapter.id));
    }
    body += "<a href=\"#environment\">Environment</a><a href=\"#reading\">How to read this</a></nav>\n";
    body += &summary(report);
    for chapter in &report.scenarios {
        body += &section(chapter, prices);
    }
    body += "<section id=\"environment\"><h2>Environment</h2>\n<dl>";
    for (name, value) in environment(report) {
        let _ = write!(body, "<dt>{}</dt><dd>{}</dd>", escaped(&name), escaped(&value));
    }
    body += "</dl></section>\n";
    body += READING;
    frame("weir lab", &body)
}

const READING: &str = "<section id=\"reading\"><h2>How to read this</h2>\n<ul>\
<li>Each figure is the median of its runs; the range beside it is where the median lies in 95 of 100 cases, by the percentile bootstrap. Fewer than six runs have no such range: nothing is called a difference, and no target is judged.</li>\
<li>Ratios are formed within a round, in which all contenders were loaded one after the other. A difference counts as one only where there is an interval and it does not hold 1.</li>\
<li>A target is met if the lower end of the interval of a ratio is at or below it. The measure is the rival that costs least; an interval wants nine pairs.</li>\
<li>The knee is where the 95th percentile of response times passes 10 times the unloaded one (and at least 5 ms) for good, or less than 98% of the requests wanted are completed; interpolated between measured rates. Each round has a knee of its own, and the interval is over these.</li>\
<li>CPU time is what the kernel's scheduler charged the server's threads with. Kernel work that no thread is charged for is not in it.</li>\
<li>Dashed lines with hollow marks are figures that somebody else published, measured on other machines: their shape compares, their height does not.</li>\
<li>Point at a mark to read its figures; a click on a name hides what it stands for. All of them, unrounded, are in report.json and report.csv.</li></ul></section>\n";

fn head(report: &Report) -> String {
    let e = &report.environment;
    let told = |who: &str, name: &str| {
        let line = e.versions.get(who)?;
        Some(version(line).map_or_else(|| name.to_owned(), |v| format!("{name} {v}")))
    };
    let weir = told("weir", "Weir").unwrap_or_default();
    let mut rivals: Vec<String> = [("nginx", "nginx"), ("haproxy", "HAProxy")]
        .iter()
        .filter_map(|(who, name)| told(who, name))
        .collect();
    let rows = report.scenarios.iter().flat_map(|c| &c.rows);
    let named = unique(rows.map(|r| r.contender).filter(|who| matches!(who, Contender::Named(_))));
    rivals.extend(named.iter().map(|who| who.name().to_owned()));
    let beside = if rivals.is_empty() { String::new() } else { format!(" beside {}", rivals.join(" and ")) };
    let what = if e.virtualisation.is_empty() { String::new() } else { format!(", {}", e.virtualisation) };
    let when = report.measured.map_or_else(String::new, |(first, _)| format!("; {}", date(first)));
    let mut out = format!(
        "<header><h1>weir lab</h1>\n<p class=\"lede\">{}</p>\n",
        escaped(&format!("{weir}{beside}, on {} ({} CPUs{what}){when}.", e.processor, e.cpus))
    );
    if report.debug_build {
        out += "<p class=\"warning\"><b>Debug build.</b> Weir was built for debugging, with its checks and without full optimisation: its figures are no measure of it. Build it with --release or --profile dist.</p>\n";
    }
    if report.quick && report.scenarios.iter().any(|c| (c.runs as usize) < ENOUGH) {
        out += "<p class=\"warning\"><b>Quick runs.</b> Too few for a verdict: ratios as they are, without intervals. --verdict takes nine of them; without --quick they are longer, too.</p>\n";
    } else if report.quick {
        out += "<p class=\"warning\"><b>Short runs.</b> Enough of them for a verdict. Without --verdict they are longer: intervals are narrower then.</p>\n";
    }
    out + "</header>\n"
}

/// The number in what a program says of its version: `1.22.1` of `nginx version: nginx/1.22.1`.
fn version(line: &str) -> Option<&str> {
    let part = |word: &'_ str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    line.split([' ', '/', '-', '+']).find(|word| part(word))
}

/// Ratios of all scenarios in one table.
fn summary(report: &Report) -> String {
    let mut rivals: Vec<Contender> = unique(report.scenarios.iter().flat_map(rivals));
    rivals.sort();
    let mut out = "<section id=\"summary\"><h2>At a glance</h2>\n<p>Weir divided by each rival: geometric means over the points of a \
                   scenario, with their intervals, and in how many points the interval lies above or below 1.</p>\n\
                   <div class=\"wide\"><table><thead><tr><th>scenario</th><th>work</th>"
        .to_owned();
    for who in &rivals {
        let _ = write!(out, "<th class=\"n\">rate ÷ {0}</th><th class=\"n\">CPU each ÷ {0}</th>", who.name());
    }
    out += "</tr></thead><tbody>\n";
    for chapter in &report.scenarios {
        for (n, kind) in kinds(chapter).into_iter().enumerate() {
            let (class, id) = if n == 0 { (" class=\"first\"", chapter.id.as_str()) } else { ("", "") };
            let _ = write!(
                out,
                "<tr{class}><td data-h=\"scenario\"><a href=\"#{}\">{}</a></td><td data-h=\"work\">{}</td>",
                escaped(&chapter.id),
                escaped(id),
                title(kind)
            );
            for who in &rivals {
                out += &against(rates(chapter, kind, *who), *who, true);
                out += &against(cpu(chapter, kind, *who), *who, false);
            }
            out += "</tr>\n";
        }
    }
    out + "</tbody></table></div>\n<p class=\"about\">² At most points the generator was the limit or shared the server's CPUs: these rates are \
           partly its own. The findings say more.</p></section>\n"
}

fn against(ratio: Option<Against>, who: Contender, more_is_better: bool) -> String {
    let what = if more_is_better { "rate" } else { "CPU each" };
    let named = format!("data-h=\"{what} ÷ {}\"", escaped(who.name()));
    let Some(a) = ratio else { return format!("<td {named} class=\"n\">–</td>") };
    // What a busy generator or shared CPUs distort is the rate; CPU time they hardly touch.
    let mark = if more_is_better && a.doubted * 2 > a.points { "²" } else { "" };
    let Some((low, high)) = a.mean.interval() else {
        return format!(
            "<td {named} class=\"n\">{}{mark}<small>too few runs: {}</small></td>",
            to_one(a.mean.median),
            raw(&a.each)
        );
    };
    let class = match (low > 1.0, high < 1.0) {
        (true, _) if more_is_better => " good",
        (_, true) if !more_is_better => " good",
        (false, false) => "",
        _ => " bad",
    };
    format!(
        "<td {named} class=\"n{class}\">{}{mark}<small>{}–{}</small><small>{} above, {} below, of {}</small></td>",
        to_one(a.mean.median),
        to_one(low),
        to_one(high),
        a.more,
        a.less,
        a.points
    )
}

fn section(chapter: &Chapter, list: &Prices) -> String {
    let mut out = format!(
        "<section id=\"{0}\"><h2><span class=\"id\">{0}</span>{1}</h2>\n",
        escaped(&chapter.id),
        escaped(&chapter.title)
    );
    // What was found comes first; what speaks against it is folded away, and counted.
    let doubts = doubts(chapter);
    let mut found = chapter.findings.iter().filter(|line| !doubts.contains(line)).cloned();
    if let Some(first) = found.next() {
        let _ = writeln!(out, "<p class=\"verdict\">{}</p>", escaped(&first));
    }
    if let Some(verdict) = &chapter.verdict {
        let _ = write!(out, "<h3>Ratios and targets</h3>\n{}", verdict::table(verdict).html());
    }
    out += &list_of("Findings", &found.collect::<Vec<_>>());
    if !doubts.is_empty() {
        let _ = writeln!(
            out,
            "<details class=\"doubts\"><summary>What speaks against these figures ({})</summary>{}</details>",
            doubts.len(),
            list_of("", &doubts)
        );
    }
    out += &method(chapter);
    for (heading, figures) in plots::of(chapter) {
        let _ = write!(out, "<h3>{heading}</h3>\n<div class=\"plots\">\n{}</div>\n", figures.concat());
    }
    if let Some(knees) = tables::knees(chapter) {
        let _ = write!(out, "<h3>Knees</h3>\n{}", knees.html());
    }
    if let Some(priced) = tables::prices(chapter, list) {
        let _ = write!(
            out,
            "<h3>Price</h3>\n{}<p class=\"about\">Prices: {}. A list of your own: weir lab report --prices FILE.</p>\n",
            priced.html(),
            escaped(&list.source)
        );
    }
    if !chapter.rows.is_empty() {
        out += &rows(chapter);
    }
    out += &list_of("Without figures", &tables::missing(chapter));
    out + "</section>\n"
}

/// What was done, and what was published of the same.
fn method(chapter: &Chapter) -> String {
    let mut inside = format!("<p class=\"about\">{}</p>\n", escaped(&chapter.about));
    if let Some(published) = &chapter.published {
        let source = &published.source;
        let link = source.url.as_ref().map_or_else(
            || escaped(&source.title),
            |url| format!("<a href=\"{}\" rel=\"noreferrer\">{}</a>", escaped(url), escaped(&source.title)),
        );
        let _ = writeln!(inside, "<p class=\"about\">Published: {link}. {}.</p>", escaped(&published.what));
        inside += &list_of("", &published.statements);
    }
    format!("<details><summary>What was measured, and what was published</summary>{inside}</details>\n")
}

fn list_of(heading: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let heading = if heading.is_empty() { String::new() } else { format!("<h3>{heading}</h3>\n") };
    let items: String = lines.iter().map(|l| format!("<li>{}</li>", escaped(l))).collect();
    format!("{heading}<ul>{items}</ul>\n")
}

fn rows(chapter: &Chapter) -> String {
    let open = if chapter.rows.len() <= SHOWN { " open" } else { "" };
    let mut out = format!(
        "<details{open}><summary>All figures ({} rows)</summary>\n<div class=\"wide\"><table><thead><tr>",
        chapter.rows.len()
    );
    for (name, figures) in HEAD {
        let _ = write!(out, "<th{}>{}</th>", if figures { " class=\"n\"" } else { "" }, escaped(name));
    }
    out += "</tr></thead><tbody>\n";
    let mut before = None;
    for row in &chapter.rows {
        let first = if before == Some(&row.point) { "" } else { " first" };
        let _ = write!(out, "<tr class=\"{}{first}\">", row.contender.class());
        for ((figure, interval), (name, figures)) in cells(row).into_iter().zip(HEAD) {
            let small = interval.map_or_else(String::new, |i| format!("<small>{}</small>", escaped(&i)));
            let _ = write!(
                out,
                "<td data-h=\"{}\"{}>{}{small}</td>",
                escaped(name),
                if figures { " class=\"n\"" } else { "" },
                escaped(&figure)
            );
        }
        out += "</tr>\n";
        before = Some(&row.point);
    }
    let _ = write!(
        out,
        "</tbody></table></div>\n<p class=\"about\">{}</p></details>\n",
        escaped(&legend(chapter))
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(version("nginx version: nginx/1.22.1"), Some("1.22.1"));
        assert_eq!(
            version("HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/"),
            Some("2.6.12")
        );
        assert_eq!(version("weir 0.1.0"), Some("0.1.0"));
        assert_eq!(version("something else"), None);
    }
}
