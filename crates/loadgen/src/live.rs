//! What is shown while a run goes on.
//!
//! Owns: the view on a terminal, and the plain lines where there is none.
//! Never: lets a line wrap; writes on standard output.
//! Driven by: `run`, through [`Watch`], once a second.
//!
//! | standard error is | shown |
//! |---|---|
//! | a terminal, 60 columns and 8 lines or more | a few lines, drawn again in place |
//! | a narrower one | one line, as much as fits |
//! | no terminal | a line every ten seconds, or every second if asked for |

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};

use hdrhistogram::Histogram;

use crate::report::{Causes, empty_histogram};
use crate::run::{Interval, Watch};
use crate::units::{metric, micros, whole_seconds};

/// Fewer columns or lines than these have room for one line.
const COLUMNS: usize = 60;
const LINES: usize = 8;
/// The widest that is drawn.
const WIDEST: usize = 100;
/// Seconds between lines where there is no terminal, unless they are asked for.
const RARELY: f64 = 10.0;
/// Seconds that are remembered.
const REMEMBERED: usize = WIDEST;

/// When something is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Show {
    /// As the terminal allows; a line every ten seconds where there is none.
    #[default]
    Auto,
    /// A plain line every second.
    Lines,
    /// Nothing.
    Off,
}

/// How it is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    /// In place, on a terminal.
    View,
    /// Plain lines, so many seconds apart.
    Lines(f64),
    Off,
}

/// Draws on standard error.
pub struct Live {
    form: Form,
    /// Whether the terminal has more than ASCII.
    blocks: bool,
    /// Lengths of the lines that stand there now.
    shown: Vec<usize>,
    /// When the last plain line was printed, seconds of the run.
    told_s: f64,
    seen: Seen,
}

/// What has been seen of a run.
struct Seen {
    rates: VecDeque<f64>,
    p99s: VecDeque<f64>,
    latency: Histogram<u64>,
    requests: u64,
    failed: u64,
    errors: u64,
    causes: Causes,
}

impl Live {
    /// Nothing is drawn yet.
    #[must_use]
    pub fn new(show: Show) -> Self {
        let terminal = std::io::stderr().is_terminal()
            && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
        let form = match show {
            Show::Off => Form::Off,
            Show::Lines => Form::Lines(0.0),
            Show::Auto if terminal => Form::View,
            Show::Auto => Form::Lines(RARELY),
        };
        Self { form, blocks: speaks_utf8(), shown: Vec::new(), told_s: 0.0, seen: Seen::new() }
    }

    /// Takes away what stands there, before other things are printed.
    pub fn clear(&mut self) {
        let back = back(&std::mem::take(&mut self.shown), columns());
        if !back.is_empty() {
            eprint!("{back}");
        }
    }

    /// Shows one line, as far as it fits: of a run that others measure.
    pub fn line(&mut self, at_s: f64, line: &str) {
        match self.form {
            Form::View => self.draw(vec![cut(line, columns().saturating_sub(1))]),
            Form::Lines(apart) => self.tell(at_s, apart, line),
            Form::Off => {}
        }
    }

    fn tell(&mut self, at_s: f64, apart: f64, line: &str) {
        if at_s - self.told_s >= apart - 0.01 {
            self.told_s = at_s;
            eprintln!("{line}");
        }
    }

    fn draw(&mut self, lines: Vec<String>) {
        let back = back(&self.shown, columns());
        self.shown = lines.iter().map(|line| line.chars().count()).collect();
        let mut err = std::io::stderr().lock();
        // In one piece, so that nothing flickers. A terminal that is gone is no matter of the run.
        let _ = write!(err, "{back}{}", lines.join("\r\n")).and_then(|()| err.flush());
    }
}

/// Goes back to where lines of these lengths begin, and takes them away; a terminal that was made narrower since has
/// wrapped them.
fn back(shown: &[usize], columns: usize) -> String {
    if shown.is_empty() {
        return String::new();
    }
    let rows: usize = shown.iter().map(|length| length.div_ceil(columns.max(1)).max(1)).sum();
    if rows > 1 { format!("\r\x1b[{}A\x1b[J", rows - 1) } else { "\r\x1b[J".to_owned() }
}

fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok()?;
    (size.ws_col > 0).then_some((usize::from(size.ws_col), usize::from(size.ws_row)))
}

fn columns() -> usize {
    size().map_or(80, |(columns, _)| columns)
}

fn speaks_utf8() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

impl Watch for Live {
    fn interval(&mut self, interval: &Interval<'_>) {
        if self.form == Form::Off {
            return;
        }
        self.seen.take(interval);
        match self.form {
            Form::View => {
                let (columns, rows) = size().unwrap_or((80, 24));
                let lines = if columns < COLUMNS || rows < LINES {
                    vec![self.seen.narrow(interval, columns.saturating_sub(1))]
                } else {
                    self.seen.view(interval, (columns - 1).min(WIDEST), self.blocks)
                };
                self.draw(lines);
            }
            Form::Lines(apart) => {
                let line = self.seen.narrow(interval, usize::MAX);
                self.tell(interval.at_s, apart, &line);
            }
            Form::Off => {}
        }
    }
}

/// How much of a run is over, 0 to 1.
fn part(interval: &Interval<'_>) -> f64 {
    let of_requests = interval.wanted.map(|wanted| interval.done as f64 / wanted.max(1) as f64);
    of_requests.unwrap_or(interval.at_s / interval.run_s.max(1e-9)).clamp(0.0, 1.0)
}

fn rate(interval: &Interval<'_>) -> f64 {
    interval.requests as f64 / interval.length_s.max(1e-9)
}

impl Seen {
    fn new() -> Self {
        Self {
            rates: VecDeque::new(),
            p99s: VecDeque::new(),
            latency: empty_histogram(),
            requests: 0,
            failed: 0,
            errors: 0,
            causes: Causes::default(),
        }
    }

    fn take(&mut self, interval: &Interval<'_>) {
        let keep = |all: &mut VecDeque<f64>, value| {
            if all.len() >= REMEMBERED {
                all.pop_front();
            }
            all.push_back(value);
        };
        keep(&mut self.rates, rate(interval));
        keep(&mut self.p99s, interval.latency.value_at_percentile(99.0) as f64 / 1e3);
        self.requests += interval.requests;
        self.failed += interval.failed;
        self.errors += interval.errors.sum();
        self.causes.merge(&interval.errors.causes);
        // All have the same bounds, so nothing can be out of range.
        let added = self.latency.add(interval.latency);
        debug_assert!(added.is_ok(), "one range for all");
    }

    fn errors(&self) -> u64 {
        self.errors + self.failed
    }

    /// One line of at most `width` characters; what does not fit is left out, the least important first.
    fn narrow(&self, interval: &Interval<'_>, width: usize) -> String {
        let at = |percentile| micros(interval.latency.value_at_percentile(percentile) as f64 / 1e3);
        let wanted = interval.rate_wanted.map_or(String::new(), |rate| format!(" of {}", metric(rate)));
        let step = match interval.step {
            (None, _) => Some("warm-up".to_owned()),
            (Some(step), steps) if steps > 1 => Some(format!("step {}/{steps}", step + 1)),
            _ => None,
        };
        let time = match interval.wanted {
            Some(wanted) => format!("{:.0}s {}/{wanted}", interval.at_s, interval.done),
            None => format!("{:.0}s/{:.0}s", interval.at_s, interval.run_s),
        };
        // How much it matters, smaller is more; and in the order in which it is shown.
        let parts = [
            (1, Some(time)),
            (4, step),
            (0, Some(format!("{}{wanted} req/s", metric(rate(interval))))),
            (5, Some(format!("p50 {}", at(50.0)))),
            (2, Some(format!("p99 {}", at(99.0)))),
            (6, Some(format!("max {}", micros(interval.latency.max() as f64 / 1e3)))),
            (7, Some(format!("{:.2} Gbit/s", gbit(interval)))),
            (3, Some(format!("errors {}", self.errors()))),
        ];
        let mut least = 8;
        loop {
            let kept = parts.iter().filter(|(rank, _)| *rank < least).filter_map(|(_, text)| text.as_deref());
            let line = kept.collect::<Vec<_>>().join("  ");
            if line.chars().count() <= width || least <= 1 {
                return cut(&line, width);
            }
            least -= 1;
        }
    }

    /// The lines of the view, none longer than `width`.
    fn view(&self, interval: &Interval<'_>, width: usize, blocks: bool) -> Vec<String> {
        let us = |percentile| micros(interval.latency.value_at_percentile(percentile) as f64 / 1e3);
        let all = |percentile| micros(self.latency.value_at_percentile(percentile) as f64 / 1e3);
        let step = match interval.step {
            (None, _) => "  warm-up".to_owned(),
            (Some(step), steps) if steps > 1 => format!("  step {} of {steps}", step + 1),
            _ => String::new(),
        };
        let of = match interval.wanted {
            Some(wanted) => format!("{} of {wanted} requests", interval.done),
            None => format!("of {}", whole_seconds(interval.run_s)),
        };
        let time = format!("{:>4.0}s  {of}{step}", interval.at_s);
        let room = width.saturating_sub(time.chars().count() + 2).min(40);
        let full = (part(interval) * room as f64).round() as usize;
        let (on, off) = if blocks { ("━", "─") } else { ("#", ".") };
        let bar = on.repeat(full.min(room)) + &off.repeat(room - full.min(room));
        let wanted = interval.rate_wanted.map_or(String::new(), |rate| format!(" of {}", metric(rate)));
        let rate = format!("{}{wanted} req/s  {:.2} Gbit/s", metric(rate(interval)), gbit(interval));
        let spark = |values: &VecDeque<f64>, from_zero| {
            sparkline(values, width.saturating_sub(12), from_zero, blocks)
        };
        let mut errors = format!("{}", self.errors());
        if self.errors() > 0 {
            let tried = (self.requests + self.errors).max(1) as f64;
            let _ = write!(errors, " ({:.2}%)", self.errors() as f64 / tried * 100.0);
        }
        if self.failed > 0 {
            let _ = write!(errors, "  bad status {}", self.failed);
        }
        for (name, count) in self.causes.named().into_iter().filter(|(_, count)| *count > 0) {
            let _ = write!(errors, "  {name} {count}");
        }
        let lines = [
            format!("{time}  {bar}"),
            format!("rate        {rate}"),
            format!("            {}", spark(&self.rates, true)),
            format!(
                "latency     p50 {}  p90 {}  p99 {}  max {}",
                us(50.0),
                us(90.0),
                us(99.0),
                micros(interval.latency.max() as f64 / 1e3)
            ),
            format!("p99         {}", spark(&self.p99s, false)),
            format!("all so far  {} {} {}", all(0.1), bell(&self.latency, 32, blocks), all(99.9)),
            format!("errors      {errors}"),
        ];
        lines.iter().map(|line| cut(line, width)).collect()
    }
}

fn gbit(interval: &Interval<'_>) -> f64 {
    interval.received as f64 * 8.0 / 1e9 / interval.length_s.max(1e-9)
}

fn cut(line: &str, width: usize) -> String {
    line.chars().take(width).collect()
}

/// A character for each share between 0 and 1.
fn level(share: f64, blocks: bool) -> char {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const ASCII: [char; 8] = ['_', '.', '-', '=', '+', 'o', 'O', '#'];
    let at = ((share.clamp(0.0, 1.0) * 8.0) as usize).min(7);
    if blocks { BLOCKS[at] } else { ASCII[at] }
}

/// The last values, a character each: of their largest, or between their smallest and largest by ratio.
fn sparkline(values: &VecDeque<f64>, width: usize, from_zero: bool, blocks: bool) -> String {
    let last: Vec<f64> = values.iter().rev().take(width).rev().copied().collect();
    let high = last.iter().copied().fold(0.0, f64::max);
    let low = last.iter().copied().filter(|value| *value > 0.0).fold(f64::MAX, f64::min);
    let share = |value: f64| {
        if high <= 0.0 || value <= 0.0 {
            0.0
        } else if from_zero {
            value / high
        } else {
            // Within a factor of two nothing stands out.
            (value / low).ln() / (high / low).max(2.0).ln()
        }
    };
    last.into_iter().map(|value| level(share(value), blocks)).collect()
}

/// How often which times were, between the 0.1st and the 99.9th percentile; equal ratios have equal widths.
fn bell(latency: &Histogram<u64>, width: usize, blocks: bool) -> String {
    let at = |percentile| latency.value_at_percentile(percentile).max(1) as f64;
    let (low, high) = (at(0.1), at(99.9));
    if latency.is_empty() || high <= low {
        return String::new();
    }
    let mut counts = vec![0_u64; width];
    for bucket in latency.iter_recorded() {
        let share = (bucket.value_iterated_to() as f64 / low).ln() / (high / low).ln();
        if (0.0..=1.0).contains(&share) {
            let at = ((share * width as f64) as usize).min(width - 1);
            counts[at] += bucket.count_since_last_iteration();
        }
    }
    let most = counts.iter().copied().max().unwrap_or(1).max(1) as f64;
    counts
        .into_iter()
        .map(|count| if count == 0 { ' ' } else { level(count as f64 / most, blocks) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Cause, Connections, Errors, Status};

    fn interval(latency: &Histogram<u64>) -> Interval<'_> {
        let mut errors = Errors { read: 3, ..Errors::default() };
        (0..3).for_each(|_| errors.causes.add(Cause::Truncated));
        Interval {
            at_s: 5.0,
            length_s: 1.0,
            run_s: 10.0,
            step: (Some(0), 1),
            rate_wanted: Some(2000.0),
            requests: 1990,
            done: 10_000,
            wanted: None,
            failed: 2,
            errors,
            status: Status::default(),
            connections: Connections::default(),
            received: 125_000_000,
            sent: 0,
            latency,
            uncorrected: None,
        }
    }

    fn latency() -> Histogram<u64> {
        let mut latency = empty_histogram();
        (1..=1000_u64).for_each(|n| latency.saturating_record(n * 10_000));
        latency
    }

    #[test]
    fn one_line_has_what_fits_and_the_most_important_longest() {
        let latency = latency();
        let mut seen = Seen::new();
        seen.take(&interval(&latency));
        let line = |width| seen.narrow(&interval(&latency), width);
        assert_eq!(
            line(usize::MAX),
            "5s/10s  1.99k of 2.00k req/s  p50 5.00ms  p99 9.90ms  max 10.00ms  1.00 Gbit/s  errors 5"
        );
        assert_eq!(line(63), "5s/10s  1.99k of 2.00k req/s  p50 5.00ms  p99 9.90ms  errors 5");
        assert_eq!(line(45), "5s/10s  1.99k of 2.00k req/s  p99 9.90ms");
        for width in 0..120 {
            assert!(line(width).chars().count() <= width, "{width}: {}", line(width));
        }
        assert!(line(10).starts_with("1.99k of"), "{}", line(10));
    }

    #[test]
    fn the_view_fits_any_width_and_says_what_went_wrong() {
        let latency = latency();
        let mut seen = Seen::new();
        (0..200).for_each(|_| seen.take(&interval(&latency)));
        for (width, blocks) in [(59, true), (80, false), (99, true)] {
            let lines = seen.view(&interval(&latency), width, blocks);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:#?}");
            assert!(blocks || lines.iter().all(|line| line.is_ascii()), "{lines:#?}");
            assert!(lines.len() < LINES, "{lines:#?}");
            let text = lines.join("\n");
            assert!(text.contains("1.99k of 2.00k req/s") && text.contains("p99 9.90ms"), "{text}");
            assert!(text.contains("errors      1000 (0.25%)  bad status 400  truncated 600"), "{text}");
        }
    }

    #[test]
    fn a_narrower_terminal_has_wrapped_what_stood_there() {
        assert_eq!(back(&[], 80), "");
        assert_eq!(back(&[70], 80), "\r\x1b[J");
        assert_eq!(back(&[70, 10], 80), "\r\x1b[1A\x1b[J");
        assert_eq!(back(&[70, 10], 30), "\r\x1b[3A\x1b[J");
    }

    #[test]
    fn sparklines_show_what_changes() {
        let of = |values: &[f64], from_zero| sparkline(&values.iter().copied().collect(), 4, from_zero, true);
        assert_eq!(of(&[9.0, 0.0, 50.0, 100.0, 100.0], true), "▁▅██");
        assert_eq!(of(&[100.0, 101.0, 1000.0], false), "▁▁█");
        assert_eq!(of(&[], true), "");
        assert_eq!(of(&[0.0, 0.0], false), "▁▁");
    }
}
