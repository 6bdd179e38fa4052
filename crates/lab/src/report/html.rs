//! The report as one page that needs no network.
//!
//! Owns: the page, and which plots it has.
//! Never: holds a script, or a figure that `report.json` does not have.
//! Driven by: `report`.

use super::svg::{Axis, Bar, Series, bars, escaped, lines};
use super::tables::{HEAD, cells, environment, legend};
use super::{Chapter, Report, unique};
use crate::scenario::{Mode, Plot, Point, Who};
use std::fmt::Write;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1120px;padding:0 1rem;color:#1b1f24;\
background:#fff}h1{font-size:1.6rem}h2{margin-top:2.5rem}table{border-collapse:collapse;font-size:13px;width:100%}th,td{padding:.25rem \
.5rem;border-bottom:1px solid #d8dee4;text-align:left;white-space:nowrap}td:nth-child(n+6){text-align:right}.wide{overflow-x:auto}\
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(480px,1fr));gap:1rem}svg{width:100%;height:auto}.title{font:600 13px \
system-ui,sans-serif}.tick{font:11px system-ui,sans-serif;fill:#57606a}.label{font:12px system-ui,sans-serif;fill:#1b1f24}.grid{stroke:\
#eaeef2}.line{fill:none;stroke-width:2}.whisker{stroke:#1b1f24}dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem}\
dd{margin:0}.weir td{font-weight:600}";

/// Whose colour is whose, in every plot.
fn colour(who: Who) -> &'static str {
    match who {
        Who::Weir => "#0b62d6",
        Who::Nginx => "#1a9850",
        Who::Haproxy => "#d9480f",
        Who::Direct => "#8c959f",
    }
}

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>weir lab</title><style>{STYLE}</style></head><body>\n<h1>weir lab</h1>\n<dl>"
    );
    for (name, value) in environment(report) {
        let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escaped(&name), escaped(&value));
    }
    out += "</dl>\n";
    for chapter in &report.scenarios {
        out += &section(chapter);
    }
    out + "</body></html>\n"
}

fn section(chapter: &Chapter) -> String {
    let mut out = format!(
        "<section id=\"{0}\"><h2>{0}: {1}</h2>\n<p>{2}</p>\n<h3>Findings</h3>\n<ul>",
        escaped(&chapter.id),
        escaped(&chapter.title),
        escaped(&chapter.about)
    );
    for finding in &chapter.findings {
        let _ = write!(out, "<li>{}</li>", escaped(finding));
    }
    out += "</ul>\n<div class=\"plots\">\n";
    for plot in &chapter.plots {
        out += &match plot {
            Plot::Bars => rates(chapter),
            Plot::Workers => by_workers(chapter),
            Plot::Distribution => distributions(chapter),
        };
    }
    out += "</div>\n<h3>Figures</h3>\n<div class=\"wide\"><table><thead><tr>";
    for head in HEAD {
        let _ = write!(out, "<th>{}</th>", escaped(head));
    }
    out += "</tr></thead><tbody>\n";
    for row in &chapter.rows {
        let _ = write!(out, "<tr class=\"{}\">", row.contender.name());
        for cell in cells(row) {
            let _ = write!(out, "<td>{}</td>", escaped(&cell));
        }
        out += "</tr>\n";
    }
    let _ = write!(out, "</tbody></table></div>\n<p>{}</p>\n", escaped(&legend(chapter)));
    if !chapter.missing.is_empty() {
        out += "<h3>Without figures</h3>\n<ul>";
        for missing in &chapter.missing {
            let who = missing.contender.map_or("everybody", Who::name);
            let _ = write!(out, "<li>{who} at {}: {}</li>", missing.point.name(), escaped(&missing.why));
        }
        out += "</ul>\n";
    }
    out + "</section>\n"
}

fn kept(keepalive: bool) -> &'static str {
    if keepalive { "connections kept" } else { "a connection a request" }
}

/// A plot for each mode and kind of connection: a group a size (and number of workers), a bar a contender.
fn rates(chapter: &Chapter) -> String {
    let plots = unique(chapter.rows.iter().map(|r| (r.point.mode, r.point.keepalive)));
    let draw = |(mode, keepalive): (Mode, bool)| {
        let points: Vec<&Point> = unique(chapter.rows.iter().map(|r| &r.point));
        let groups: Vec<(String, Vec<Bar>)> = points
            .into_iter()
            .filter(|p| p.mode == mode && p.keepalive == keepalive)
            .map(|p| {
                let name =
                    if p.workers > 1 { format!("{}, {} workers", p.size, p.workers) } else { p.size.clone() };
                (name, chapter.contenders().into_iter().filter_map(|who| bar(chapter, p, who)).collect())
            })
            .collect();
        bars(&format!("{}, {}", mode.title(), kept(keepalive)), "requests a second", &groups)
    };
    plots.into_iter().map(draw).collect()
}

fn bar(chapter: &Chapter, point: &Point, who: Who) -> Option<Bar> {
    let row = chapter.row(point, who)?;
    let (name, colour) = (who.name().to_owned(), colour(who));
    Some(Bar { name, colour, value: row.rate.median, low: row.rate.low, high: row.rate.high })
}

/// A plot for each mode and size: a line a contender over its workers, and the published curve beside them.
fn by_workers(chapter: &Chapter) -> String {
    let plots = unique(chapter.rows.iter().map(|r| (r.point.mode, r.point.keepalive, r.point.size.clone())));
    let draw = |(mode, keepalive, size): (Mode, bool, String)| {
        let mut series: Vec<Series> = chapter
            .contenders()
            .into_iter()
            .map(|who| Series {
                name: who.name().to_owned(),
                colour: colour(who),
                dashed: false,
                points: chapter
                    .rows
                    .iter()
                    .filter(|r| {
                        r.contender == who
                            && r.point.mode == mode
                            && r.point.keepalive == keepalive
                            && r.point.size == size
                    })
                    .map(|r| (f64::from(r.point.workers), r.rate.median))
                    .collect(),
            })
            .filter(|s| !s.points.is_empty())
            .collect();
        series.extend(chapter.published.iter().filter(|p| p.mode == mode && p.size == size).map(|p| {
            Series { name: p.label.clone(), colour: "#8c959f", dashed: true, points: p.points.clone() }
        }));
        let x = Axis { label: "workers (published: CPUs)", logarithmic: true };
        let y = Axis { label: "requests a second", logarithmic: true };
        lines(&format!("{}, {size}", mode.title()), x, y, &series)
    };
    plots.into_iter().map(draw).collect()
}

/// A plot for each point: the share of requests that took no longer.
fn distributions(chapter: &Chapter) -> String {
    let draw = |point: &Point| {
        let series: Vec<Series> = chapter
            .contenders()
            .into_iter()
            .filter_map(|who| {
                let row = chapter.row(point, who)?;
                let points = row.distribution.iter().map(|(us, share)| (us / 1e3, share * 100.0)).collect();
                Some(Series { name: who.name().to_owned(), colour: colour(who), dashed: false, points })
            })
            .collect();
        let x = Axis { label: "response time, ms", logarithmic: true };
        let y = Axis { label: "% of requests", logarithmic: false };
        let title = format!("{}, {}, {}", point.mode.title(), kept(point.keepalive), point.size);
        lines(&title, x, y, &series)
    };
    unique(chapter.rows.iter().map(|r| &r.point)).into_iter().map(draw).collect()
}
