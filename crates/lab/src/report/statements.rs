//! What an article says without numbers in a graph, beside what was measured here.
//!
//! Owns: the statements of B8's article, and whether each holds here, does not, or cannot be told.
//! Never: tells from too few runs, or from rows that the generator limited; takes a direction for a size.
//! Driven by: `findings`.

use super::figures::{Chapter, Each, Row};
use super::words::{number, with_interval};
use crate::contender::Contender;
use crate::scenario::Mode;
use crate::stats::{Estimate, estimate};
use weir_loadgen::report::Work;

/// What came of one.
enum Told {
    Holds(String),
    HoldsNot(String),
    Unknown(String),
}

use Told::{Holds, HoldsNot, Unknown};

/// How far apart two are that the article calls equal.
const EQUAL: f64 = 0.05;

/// A sentence for each statement that the article makes; none for other scenarios.
pub(super) fn of(chapter: &Chapter) -> Vec<String> {
    let Some(published) = chapter.published.as_ref().filter(|p| p.scenario == "B8") else {
        return Vec::new();
    };
    let told = |statement: &String| {
        let told = judge(chapter, statement)?;
        let (word, why) = match told {
            Holds(why) => ("holds here", why),
            HoldsNot(why) => ("does not hold here", why),
            Unknown(why) => ("cannot be told here", why),
        };
        Some(format!("Published: “{statement}”: {word}: {why}."))
    };
    published.statements.iter().filter_map(told).collect()
}

fn judge(chapter: &Chapter, statement: &str) -> Option<Told> {
    let (haproxy, nginx) = (Contender::Haproxy, Contender::Nginx);
    let kept = |mode, size, who| find(chapter, mode, true, size, who);
    let begins = |start: &str| statement.starts_with(start);
    Some(if begins("haproxy 67% more HTTP") {
        above("haproxy ÷ nginx", kept(Mode::Http, "1k", haproxy), kept(Mode::Http, "1k", nginx))
    } else if begins("23% loss") {
        Unknown("this is one machine, measured as it is".into())
    } else if begins("95% of 1 KB") {
        within(chapter, 8_000.0)
    } else if begins("10 KB: 99%") {
        times(kept_paced(chapter, "10k", haproxy), kept_paced(chapter, "10k", nginx))
    } else if begins("keep-alive adds") {
        let closed = find(chapter, Mode::Http, false, "1k", haproxy);
        above("kept ÷ closed, haproxy, 1 KB", kept(Mode::Http, "1k", haproxy), closed)
    } else if begins("HTTPS about 90%") {
        less(kept(Mode::Https, "1k", haproxy), kept(Mode::Http, "1k", haproxy))
    } else if begins("HTTPS: haproxy") {
        above("haproxy ÷ nginx", kept(Mode::Https, "1k", haproxy), kept(Mode::Https, "1k", nginx))
    } else if begins("TCP: equal") {
        equal(kept(Mode::TcpHttp, "1k", haproxy), kept(Mode::TcpHttp, "1k", nginx))
    } else {
        return None;
    })
}

fn find<'a>(chapter: &'a Chapter, mode: Mode, kept: bool, size: &str, who: Contender) -> Option<&'a Row> {
    let work = if kept { Work::Requests } else { Work::NewConnections };
    as_published(chapter.rows.iter().filter(|r| {
        (r.point.mode, r.work, r.contender) == (mode, work, who)
            && r.point.size == size
            && r.rate_wanted.is_none()
    }))
}

fn kept_paced<'a>(chapter: &'a Chapter, size: &str, who: Contender) -> Option<&'a Row> {
    as_published(chapter.rows.iter().filter(|r| {
        r.point.mode == Mode::Http
            && r.work == Work::Requests
            && r.contender == who
            && r.point.size == size
            && r.rate_wanted.is_some()
    }))
}

/// The row that is most like the article's: no connection kept to the web servers, CPUs of its own, two of them.
fn as_published<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<&'a Row> {
    rows.max_by_key(|r| (r.point.closes_behind, !r.shared_cpus, r.point.workers))
}

/// Ratios of two rows within rounds; or why there are none that tell.
fn ratio(a: Option<&Row>, b: Option<&Row>, of: fn(&Each) -> f64) -> Result<Estimate, String> {
    let (Some(a), Some(b)) = (a, b) else { return Err("not all of it was measured".into()) };
    let ratios: Vec<f64> = a
        .each
        .iter()
        .filter_map(|mine| {
            let its = b.each.iter().find(|its| its.run == mine.run).map(of).filter(|value| *value > 0.0)?;
            Some(of(mine) / its)
        })
        .collect();
    let found = estimate(&ratios);
    if found.interval().is_none() {
        return Err(format!("too few runs ({}), ratio {}", ratios.len(), number(found.median)));
    }
    if [a, b].iter().any(|row| row.shared_cpus || row.doubts.contains_key("generator-saturated")) {
        return Err(format!(
            "the generator was the limit or shared CPUs, ratio {}",
            with_interval(&found, 1.0)
        ));
    }
    Ok(found)
}

/// More, whatever the size: machines differ.
fn above(what: &str, a: Option<&Row>, b: Option<&Row>) -> Told {
    match ratio(a, b, |each| each.rate) {
        Err(why) => Unknown(why),
        Ok(found) => {
            let text = format!("{what} {}", with_interval(&found, 1.0));
            match (found.is_above(1.0), found.is_below(1.0)) {
                (true, _) => Holds(text),
                (_, true) => HoldsNot(text),
                _ => Unknown(format!("no clear difference, {text}")),
            }
        }
    }
}

fn less(a: Option<&Row>, b: Option<&Row>) -> Told {
    match ratio(a, b, |each| each.rate) {
        Err(why) => Unknown(why),
        Ok(found) => {
            let text = format!("HTTPS ÷ HTTP, haproxy, 1 KB {}", with_interval(&found, 1.0));
            // “About 90% less”: a fifth is not about a tenth.
            match (found.is_below(0.2), found.is_above(0.2)) {
                (true, _) => Holds(text),
                (_, true) => HoldsNot(text),
                _ => Unknown(text),
            }
        }
    }
}

fn equal(a: Option<&Row>, b: Option<&Row>) -> Told {
    match ratio(a, b, |each| each.rate) {
        Err(why) => Unknown(why),
        Ok(found) => {
            let text = format!("haproxy ÷ nginx, 1 KB {}", with_interval(&found, 1.0));
            if found.is_above(1.0 - EQUAL) && found.is_below(1.0 + EQUAL) {
                Holds(text)
            } else if found.is_above(1.0 + EQUAL) || found.is_below(1.0 - EQUAL) {
                HoldsNot(text)
            } else {
                Unknown(text)
            }
        }
    }
}

/// The 95th percentile of both at full speed, 1 KB.
fn within(chapter: &Chapter, limit_us: f64) -> Told {
    let rows: Option<Vec<&Row>> = [Contender::Haproxy, Contender::Nginx]
        .into_iter()
        .map(|who| find(chapter, Mode::Http, true, "1k", who))
        .collect();
    let Some(rows) = rows else { return Unknown("not all of it was measured".into()) };
    let told: Vec<String> =
        rows.iter().map(|r| format!("{} {} ms", r.contender.name(), number(r.p95_us.median / 1e3))).collect();
    let text = told.join(", ");
    if rows.iter().all(|r| r.p95_us.median <= limit_us) { Holds(text) } else { HoldsNot(text) }
}

/// Whether the first waits less than the second at the rate that both were given.
fn times(a: Option<&Row>, b: Option<&Row>) -> Told {
    let (Some(mine), Some(its)) = (a, b) else { return Unknown("not all of it was measured".into()) };
    let text = format!(
        "99th percentiles {} and {} ms at one rate",
        number(mine.p99_us.median / 1e3),
        number(its.p99_us.median / 1e3)
    );
    match (mine.p99_us.interval(), its.p99_us.interval()) {
        (Some((_, high)), Some((low, _))) if high < low => Holds(text),
        (Some((low, _)), Some((_, high))) if low > high => HoldsNot(text),
        (Some(_), Some(_)) => Unknown(format!("no clear difference, {text}")),
        _ => Unknown(format!("too few runs, {text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_of_the_article_is_judged() {
        let published = crate::report::published::published("B8").unwrap();
        let chapter: Chapter = serde_json::from_value(serde_json::json!({
            "id": "B8", "title": "", "about": "", "runs": 9, "seconds": 1.0, "packed": false, "skipped": null, "verdict": null,
            "findings": [], "rows": [], "missing": [], "published": published,
        }))
        .unwrap();
        let told = of(&chapter);
        assert_eq!(told.len(), published.statements.len());
        assert!(told.iter().all(|line| line.contains("cannot be told here")), "{told:#?}");
    }
}
