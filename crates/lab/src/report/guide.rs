//! Runs of several machines in one sizing guide, in the layout of the published ones: cores, price, rates by machine.
//!
//! Owns: which folders make a guide, what in them does not fit together, and the files that tell it.
//! Never: averages machines; hides that two were measured differently.
//! Driven by: `weir lab merge`; `size` reads a guide as it reads a folder of results.

use super::figures::{Report, Row};
use super::html::frame;
use super::plot::{Axis, Line, Lines, Mark, Style};
use super::published::{By, Published, Quantity, published};
use super::table::Table;
use super::words::{escaped, facet, number, unique, unit, with_interval, words};
use crate::prices::Prices;
use crate::results::{Results, write};
use crate::scenario::Contender;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The name and number of the form of a guide.
pub const SCHEMA: &str = "weir-lab-guide/1";

/// The file that holds all of a guide.
const FILE: &str = "guide.json";

/// A machine that was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Its name in the guide.
    pub name: String,
    /// All its figures.
    pub report: Report,
    /// The scenarios as they were run, by their names.
    pub scenarios: BTreeMap<String, String>,
}

/// Several machines.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Guide {
    /// [`SCHEMA`].
    pub schema: String,
    /// What does not fit together, in sentences.
    pub conflicts: Vec<String>,
    /// In the order of the command line.
    pub machines: Vec<Measured>,
}

/// Reads the machines in `dir`: one of a folder of results, or those of a guide.
///
/// # Errors
/// It is neither.
pub fn machines(dir: &Path) -> Result<Vec<Measured>> {
    let file = dir.join(FILE);
    if !file.is_file() {
        return Ok(vec![measured(None, dir)?]);
    }
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let guide: Guide =
        serde_json::from_str(&text).with_context(|| format!("{} is damaged", file.display()))?;
    ensure!(
        guide.schema == SCHEMA,
        "{} is of the form `{}`; this program reads `{SCHEMA}`",
        file.display(),
        guide.schema
    );
    Ok(guide.machines)
}

fn measured(name: Option<&str>, dir: &Path) -> Result<Measured> {
    let report = super::read(dir)?;
    let (results, _) = Results::read(dir)?;
    let scenarios = results.scenarios(report.quick)?.into_iter().map(|s| (s.id, s.text)).collect();
    let name = name.map_or_else(|| class(&report), str::to_owned);
    Ok(Measured { name, report, scenarios })
}

/// What a machine is, for want of a name.
fn class(report: &Report) -> String {
    let cluster = report.scenarios.iter().any(|c| c.id == "B7" && !c.rows.is_empty());
    match report.environment.virtualisation.as_str() {
        _ if cluster => "Kubernetes".to_owned(),
        "" => "bare metal".to_owned(),
        "a hypervisor" => "hypervisor".to_owned(),
        product => format!("hypervisor ({product})"),
    }
}

/// Joins the machines of `folders`, each a folder or `NAME=FOLDER`, and writes `guide.html`, `.md`, `.csv` and `.json` into `out`.
///
/// # Errors
/// A folder holds no results; two machines have one name; a folder is named twice; `out` cannot be written.
pub fn merge(folders: &[String], out: &Path, prices: &Prices) -> Result<Guide> {
    let mut all: Vec<Measured> = Vec::new();
    let mut seen = BTreeMap::new();
    for word in folders {
        let (name, dir) = match word.split_once('=') {
            Some((name, dir)) if !Path::new(word).exists() => (Some(name), dir),
            _ => (None, word.as_str()),
        };
        let dir = Path::new(dir);
        let place = dir.canonicalize().with_context(|| format!("cannot read {}", dir.display()))?;
        if let Some(before) = seen.insert(place, word.clone()) {
            bail!("{word} and {before} are one folder");
        }
        let found = if dir.join(FILE).is_file() { machines(dir)? } else { vec![measured(name, dir)?] };
        for machine in found {
            if let Some(same) = all.iter().find(|m| m.name == machine.name) {
                bail!(
                    "two machines would be called `{}` ({} and {}): name them, as in NAME={word}",
                    same.name,
                    same.report.environment.processor,
                    machine.report.environment.processor
                );
            }
            all.push(machine);
        }
    }
    let guide = Guide { schema: SCHEMA.into(), conflicts: conflicts(&all), machines: all };
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    write(&out.join(FILE), &serde_json::to_string_pretty(&guide)?)?;
    write(&out.join("guide.csv"), &csv(&guide))?;
    write(&out.join("guide.md"), &markdown(&guide, prices))?;
    write(&out.join("guide.html"), &html(&guide, prices))?;
    Ok(guide)
}

/// What speaks against comparing the machines.
fn conflicts(all: &[Measured]) -> Vec<String> {
    let mut found = Vec::new();
    for (n, a) in all.iter().enumerate() {
        let (e, debug) = (&a.report.environment, a.report.debug_build);
        if debug {
            found.push(format!("{}: Weir was a debug build; its figures are no measure of it", a.name));
        }
        for b in &all[n + 1..] {
            let f = &b.report.environment;
            if a.report.quick != b.report.quick {
                let quick = if a.report.quick { &a.name } else { &b.name };
                found.push(format!("{} and {}: only {quick} was measured in quick runs", a.name, b.name));
            }
            for (program, version) in &e.versions {
                if let Some(other) = f.versions.get(program).filter(|o| *o != version) {
                    found
                        .push(format!("{program} is `{version}` on {}, and `{other}` on {}", a.name, b.name));
                }
            }
            for (id, text) in &a.scenarios {
                let differ = b.scenarios.get(id).map(|other| differences(text, other)).unwrap_or_default();
                if !differ.is_empty() {
                    found.push(format!(
                        "{id} was not the same scenario on {} and {}: {} differ",
                        a.name,
                        b.name,
                        differ.join(", ")
                    ));
                }
            }
            let same_machine =
                (&e.processor, e.cpus, &e.kernel, e.memory) == (&f.processor, f.cpus, &f.kernel, f.memory);
            if same_machine && !e.processor.is_empty() {
                found.push(format!("{} and {} look like one machine", a.name, b.name));
            }
        }
    }
    found
}

/// The members in which two scenarios differ, less those that do not bear on a measurement.
fn differences(a: &str, b: &str) -> Vec<String> {
    type Members = BTreeMap<String, serde_json::Value>;
    let read = |text: &str| serde_norway::from_str::<Members>(text).unwrap_or_default();
    let (a, b) = (read(a), read(b));
    let idle = ["title", "about", "plots", "published"];
    unique(
        a.keys().chain(b.keys()).filter(|k| !idle.contains(&k.as_str()) && a.get(*k) != b.get(*k)).cloned(),
    )
}

/// A line of the guide: some work of a contender on so many cores.
struct Entry<'a> {
    work: String,
    quantity: Quantity,
    who: Contender,
    cores: u16,
    /// By machine, in their order.
    rows: Vec<Option<&'a Row>>,
}

/// Everything at full speed, by work, contender and cores.
fn entries(guide: &Guide) -> Vec<Entry<'_>> {
    let rows = |m: &'_ Measured| -> Vec<(String, usize)> {
        let chapters = m.report.scenarios.iter().enumerate();
        let of = chapters.filter(|(_, c)| !c.packed).flat_map(|(n, c)| {
            c.rows.iter().filter(|r| r.rate_wanted.is_none()).map(move |r| (key(&c.id, r), n))
        });
        of.collect()
    };
    let keys = unique(guide.machines.iter().flat_map(rows).map(|(k, _)| k));
    let entry = |key_wanted: &String| {
        let found: Vec<Option<&Row>> = guide
            .machines
            .iter()
            .map(|m| {
                let mut all = m.report.scenarios.iter().flat_map(|c| c.rows.iter().map(move |r| (c, r)));
                all.find(|(c, r)| !c.packed && r.rate_wanted.is_none() && key(&c.id, r) == *key_wanted)
                    .map(|(_, r)| r)
            })
            .collect();
        let one = found.iter().flatten().next().copied()?;
        let id = key_wanted.split(' ').next().unwrap_or_default();
        Some(Entry {
            work: format!("{id}: {}", words(one, &["workers"])),
            quantity: one.quantity(),
            who: one.contender,
            cores: one.point.workers,
            rows: found,
        })
    };
    keys.iter().filter_map(entry).collect()
}

fn key(id: &str, row: &Row) -> String {
    format!("{id} {} {}", facet(&row.point, &[]), row.contender.name())
}

/// A figure with its marks.
fn told(row: &Row) -> String {
    let mark = if row.shared_cpus || !row.doubts.is_empty() { " ²" } else { "" };
    with_interval(&row.rate, 1.0) + mark
}

const MARK: &str = "² The generator shared the server's CPUs, or was the limit: the server may do more.";

/// Published figures of a quantity by cores.
fn beside(id: &str, quantity: Quantity) -> Vec<(String, BTreeMap<u16, f64>)> {
    let curves = published(id).map_or(&[][..], |p: &Published| &p.curves);
    let of = curves.iter().filter(|c| c.by == By::Workers && c.quantity == quantity);
    of.map(|c| (c.label.clone(), c.points.iter().map(|(n, v)| (*n as u16, *v)).collect())).collect()
}

/// The guide proper: requests and handshakes a second of Weir by cores, each machine a column, the published ones beside.
fn sizing(guide: &Guide, prices: &Prices) -> Option<(String, Table)> {
    let has = |id: &str| {
        guide.machines.iter().any(|m| m.report.scenarios.iter().any(|c| c.id == id && !c.rows.is_empty()))
    };
    let id = ["B6", "B7"].into_iter().find(|id| has(id))?;
    let all: Vec<Entry<'_>> =
        entries(guide).into_iter().filter(|e| e.who == Contender::Weir && e.work.starts_with(id)).collect();
    let columns = [(Quantity::Rps, "RPS"), (Quantity::Tps, "TPS")];
    let mut head = vec![("cores".to_owned(), true), (format!("price, {}", prices.currency), true)];
    for (quantity, short) in columns {
        head.extend(guide.machines.iter().map(|m| (format!("{short}, {}", m.name), true)));
        head.extend(
            guide.machines.iter().map(|m| (format!("{short} each {}, {}", prices.currency, m.name), true)),
        );
        head.extend(
            beside(id, quantity).into_iter().map(|(label, _)| (format!("{short}, published: {label}"), true)),
        );
    }
    let mut cores: Vec<u16> = all.iter().map(|e| e.cores).collect();
    cores.extend(columns.iter().flat_map(|(q, _)| beside(id, *q)).flat_map(|(_, points)| points.into_keys()));
    cores.sort_unstable();
    cores.dedup();
    let line = |cores: u16| {
        let price = prices.machine(f64::from(cores)).map(|m| m.price);
        let mut line = vec![cores.to_string(), price.map_or_else(|| "none so large".into(), number)];
        for (quantity, _) in columns {
            let here = all.iter().find(|e| e.cores == cores && e.quantity == quantity);
            let row = |n: usize| here.and_then(|e| e.rows[n]);
            let count = guide.machines.len();
            line.extend((0..count).map(|n| row(n).map_or_else(String::new, told)));
            let each = |r: &Row| Some(number(r.rate.median / price?));
            line.extend((0..count).map(|n| row(n).and_then(each).unwrap_or_default()));
            let of = |points: BTreeMap<u16, f64>| points.get(&cores).map_or_else(String::new, |v| number(*v));
            line.extend(beside(id, quantity).into_iter().map(|(_, points)| of(points)));
        }
        line
    };
    let rows = cores.into_iter().map(line).collect();
    Some((format!("Weir as a reverse proxy, {id}"), Table { head, rows }))
}

/// All entries, a machine a column.
fn table(guide: &Guide) -> Table {
    let mut head = vec![("work".into(), false), ("contender".into(), false), ("cores".into(), true)];
    head.extend(guide.machines.iter().map(|m| (m.name.clone(), true)));
    head.push(("counted in".into(), false));
    let line = |e: &Entry<'_>| {
        let mut line = vec![e.work.clone(), e.who.name().to_owned(), e.cores.to_string()];
        line.extend(e.rows.iter().map(|r| r.map_or_else(|| "–".to_owned(), told)));
        line.push(unit(e.quantity).to_owned());
        line
    };
    Table { head, rows: entries(guide).iter().map(line).collect() }
}

fn environments(guide: &Guide) -> Table {
    let head = ["machine", "processor", "CPUs", "memory GB", "virtualisation", "kernel", "programs", "runs"];
    let line = |m: &Measured| {
        let e = &m.report.environment;
        let versions: Vec<&str> = e.versions.values().map(String::as_str).collect();
        let virtualisation = if e.virtualisation.is_empty() { "none seen" } else { &e.virtualisation };
        vec![
            m.name.clone(),
            e.processor.clone(),
            e.cpus.to_string(),
            number(e.memory as f64 / f64::from(1 << 30)),
            virtualisation.to_owned(),
            e.kernel.clone(),
            versions.join("; "),
            if m.report.quick { "quick" } else { "full" }.to_owned(),
        ]
    };
    Table {
        head: head.iter().map(|h| ((*h).to_owned(), false)).collect(),
        rows: guide.machines.iter().map(line).collect(),
    }
}

fn csv(guide: &Guide) -> String {
    let mut out =
        String::from("machine,scenario,work,contender,cores,unit,median,low,high,gbit_s,cpu_us,doubted\n");
    for entry in entries(guide) {
        for (machine, row) in guide.machines.iter().zip(&entry.rows) {
            let Some(row) = row else { continue };
            let (id, work) = entry.work.split_once(": ").unwrap_or(("", &entry.work));
            let end = |end: Option<f64>| end.map_or_else(String::new, |end| end.to_string());
            let (median, low, high) = (row.rate.median, end(row.rate.low), end(row.rate.high));
            let _ = writeln!(
                out,
                "{},{id},{},{},{},{},{median},{low},{high},{},{},{}",
                machine.name.replace(',', ";"),
                work.replace(", ", "; "),
                entry.who.name(),
                entry.cores,
                unit(entry.quantity),
                row.gbit_s,
                row.cpu_us.median,
                row.shared_cpus || !row.doubts.is_empty()
            );
        }
    }
    out
}

fn markdown(guide: &Guide, prices: &Prices) -> String {
    let mut out = String::from("# weir lab: sizing guide\n");
    for conflict in &guide.conflicts {
        let _ = write!(out, "\n- conflict: {conflict}");
    }
    if let Some((title, table)) = sizing(guide, prices) {
        let _ = write!(out, "\n\n## {title}\n\n{}\n{MARK} Prices: {}.", table.markdown(), prices.source);
    }
    let all = table(guide).markdown();
    let _ =
        write!(out, "\n\n## All rates\n\n{all}\n{MARK}\n\n## Machines\n\n{}", environments(guide).markdown());
    out
}

fn html(guide: &Guide, prices: &Prices) -> String {
    let names: Vec<&str> = guide.machines.iter().map(|m| m.name.as_str()).collect();
    let mut body = format!(
        "<header><h1>Sizing guide</h1>\n<p class=\"lede\">{}</p></header>\n",
        escaped(&format!("weir lab on {}.", names.join(", ")))
    );
    for conflict in &guide.conflicts {
        let _ = writeln!(body, "<p class=\"warning\"><b>Conflict.</b> {}.</p>", escaped(conflict));
    }
    if let Some((title, table)) = sizing(guide, prices) {
        let _ = write!(
            body,
            "<section id=\"guide\"><h2>{}</h2>\n{}<p class=\"about\">{MARK} Prices: {}.</p></section>\n",
            escaped(&title),
            table.html(),
            escaped(&prices.source)
        );
    }
    let _ = write!(
        body,
        "<section id=\"scaling\"><h2>Weir by cores</h2>\n<div class=\"plots\">\n{}</div></section>\n",
        plots(guide)
    );
    let _ = write!(
        body,
        "<section id=\"all\"><h2>All rates</h2>\n{}<p class=\"about\">{MARK}</p></section>\n<section id=\"machines\"><h2>Machines</h2>\n{}</section>\n",
        table(guide).html(),
        environments(guide).html()
    );
    frame("weir lab: sizing guide", &body)
}

/// Of each work of Weir, a line a machine.
fn plots(guide: &Guide) -> String {
    let all = entries(guide);
    let weir = || all.iter().filter(|e| e.who == Contender::Weir);
    let colours = ["weir", "nginx", "haproxy", "avi", "direct"];
    let draw = |work: &String| {
        let of_work: Vec<&Entry<'_>> = weir().filter(|e| e.work == *work).collect();
        let quantity = of_work.first()?.quantity;
        // One number of cores is no curve; the table has it.
        if of_work.iter().all(|e| e.cores == of_work[0].cores) {
            return None;
        }
        let line = |n: usize| Line {
            name: guide.machines[n].name.clone(),
            who: colours[n % colours.len()],
            style: Style::Solid,
            marked: true,
            marks: of_work
                .iter()
                .filter_map(|e| {
                    let row = e.rows[n]?;
                    Some(Mark {
                        x: f64::from(e.cores),
                        y: row.rate.median,
                        interval: row.rate.interval(),
                        tip: format!(
                            "{}, {} cores: {} {}",
                            guide.machines[n].name,
                            e.cores,
                            told(row),
                            unit(quantity)
                        ),
                    })
                })
                .collect(),
        };
        let lines: Vec<Line> = (0..guide.machines.len()).map(line).filter(|l| !l.marks.is_empty()).collect();
        let cores = of_work.iter().map(|e| f64::from(e.cores)).collect();
        let x = Axis { at: Some(cores), ..Axis::logarithmic("cores (workers)") };
        let y = Axis::logarithmic(unit(quantity));
        Some(Lines { title: work, note: "higher is better", x, y, lines: &lines, rules: &[] }.draw())
    };
    unique(weir().map(|e| e.work.clone())).iter().filter_map(draw).collect()
}
