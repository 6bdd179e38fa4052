//! Lines over two axes.
//!
//! Owns: lines, their marks and intervals, and rules such as a knee.
//! Never: sorts or joins what it is given.
//! Driven by: `plots`.

use super::frame::{BOTTOM, CHARACTER, HEIGHT, Key, RIGHT, Sketch, Style, TOP, dot, figure, level, upright};
use super::scale::{Axis, Scale};
use crate::report::words::{escaped, unique};
use std::fmt::Write;

/// A point of a line.
#[derive(Clone, Debug)]
pub(in crate::report) struct Mark {
    pub(in crate::report) x: f64,
    pub(in crate::report) y: f64,
    /// The interval of `y`, if it has one.
    pub(in crate::report) interval: Option<(f64, f64)>,
    /// What is told of it.
    pub(in crate::report) tip: String,
}

/// A line. Where a mark lies left of the one before it, the line begins anew: it is then the lines of several runs.
#[derive(Clone, Debug)]
pub(in crate::report) struct Line {
    pub(in crate::report) name: String,
    /// Whose colour and shape.
    pub(in crate::report) who: &'static str,
    pub(in crate::report) style: Style,
    /// Whether each point has a mark.
    pub(in crate::report) marked: bool,
    pub(in crate::report) marks: Vec<Mark>,
}

/// An upright rule with its interval.
#[derive(Clone, Debug)]
pub(in crate::report) struct Rule {
    pub(in crate::report) who: &'static str,
    pub(in crate::report) style: Style,
    pub(in crate::report) at: f64,
    pub(in crate::report) interval: Option<(f64, f64)>,
    pub(in crate::report) label: String,
}

/// A plot of lines.
#[derive(Clone, Debug)]
pub(in crate::report) struct Lines<'a> {
    pub(in crate::report) title: &'a str,
    pub(in crate::report) note: &'a str,
    pub(in crate::report) x: Axis,
    pub(in crate::report) y: Axis,
    pub(in crate::report) lines: &'a [Line],
    pub(in crate::report) rules: &'a [Rule],
}

impl Lines<'_> {
    /// The figure.
    pub(in crate::report) fn draw(&self) -> String {
        let keys = unique(self.lines.iter().map(Line::key));
        figure(self.title, self.note, &keys, |width| self.sketch(width, &keys))
    }

    fn sketch(&self, width: f64, keys: &[Key]) -> Sketch {
        // Each rule has a line of its own for its label, above the plot.
        let top = TOP + 14.0 * self.rules.len() as f64;
        let height = HEIGHT + 14.0 * self.rules.len() as f64;
        let foot = height - BOTTOM;
        let marks = || self.lines.iter().flat_map(|l| l.marks.iter());
        let ys =
            marks().flat_map(|m| [Some(m.y), m.interval.map(|i| i.0), m.interval.map(|i| i.1)]).flatten();
        let mut out = String::new();
        let (y, left) = upright(&self.y, ys, (top, foot), width, &mut out);
        let xs = marks().map(|m| m.x).chain(self.rules.iter().map(|r| r.at));
        let x = Scale::over(&self.x, xs, left, width - RIGHT);
        level(&x, &self.x.label, (left, width - RIGHT), (top, foot), &mut out);
        for (n, rule) in self.rules.iter().enumerate() {
            rule.draw(&x, (left, top, foot), n, &mut out);
        }
        // Measured lines lie above published ones.
        for published in [true, false] {
            for line in self.lines.iter().filter(|l| (l.style != Style::Solid) == published) {
                let key = keys.iter().position(|key| *key == line.key()).unwrap_or_default();
                line.draw(&x, &y, key, &mut out);
            }
        }
        let upright = self.lines.iter().any(|l| l.marks.len() > 1).then(|| y.data());
        Sketch { height, inside: out, upright }
    }
}

fn class(style: Style) -> &'static str {
    match style {
        Style::Solid => "",
        Style::Dashed => " dashed",
        Style::Dotted => " dotted",
    }
}

impl Line {
    fn key(&self) -> Key {
        Key { name: self.name.clone(), who: self.who, style: self.style }
    }

    fn draw(&self, x: &Scale, y: &Scale, key: usize, out: &mut String) {
        let _ = write!(out, "<g class=\"{}{}\" data-k=\"{key}\">", self.who, class(self.style));
        let mut path = String::new();
        let mut before = f64::INFINITY;
        for mark in &self.marks {
            let step = if mark.x < before { "M" } else { "L" };
            let _ = write!(path, "{step}{:.1} {:.1}", x.at(mark.x), y.at(mark.y));
            before = mark.x;
        }
        if !path.is_empty() {
            let _ = write!(
                out,
                "<path class=\"line\" d=\"{path}\"><title>{}</title></path>",
                escaped(&self.name)
            );
        }
        if self.marked {
            for mark in &self.marks {
                let at = x.at(mark.x);
                if let Some((low, high)) = mark.interval {
                    let _ = write!(
                        out,
                        "<path class=\"whisker\" d=\"M{at:.1} {:.1}V{:.1}\"/>",
                        y.at(low),
                        y.at(high)
                    );
                }
                *out += &dot(self.who, at, y.at(mark.y), &mark.tip);
            }
        }
        *out += "</g>";
    }
}

impl Rule {
    fn draw(&self, x: &Scale, (left, top, foot): (f64, f64, f64), n: usize, out: &mut String) {
        let at = x.at(self.at);
        let _ = write!(out, "<g class=\"{}{}\">", self.who, class(self.style));
        if let Some((low, high)) = self.interval {
            let (low, high) = (x.at(low), x.at(high));
            let _ = write!(
                out,
                "<rect class=\"band\" x=\"{low:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                (high - low).max(1.0),
                foot - top
            );
        }
        let line = TOP + 14.0 * n as f64;
        // The label lies where it does not leave the plot.
        let room = CHARACTER * self.label.chars().count() as f64;
        let (class, text) = if at - left > room + 8.0 { ("end", at - 5.0) } else { ("", at + 5.0) };
        let _ = write!(
            out,
            "<path class=\"rule\" d=\"M{at:.1} {:.1}V{foot:.1}\"/><text class=\"tick {class}\" x=\"{text:.1}\" y=\"{:.1}\">{}</text></g>",
            line - 2.0,
            line + 6.0,
            escaped(&self.label)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_goes_back_begins_anew() {
        let mark = |x: f64| Mark { x, y: 1.0, interval: None, tip: String::new() };
        let marks = [1.0, 2.0, 1.0, 2.0].map(mark).to_vec();
        let line = Line { name: "two runs".into(), who: "weir", style: Style::Solid, marked: false, marks };
        let (x, y) = (Axis::linear("x"), Axis::linear("y"));
        let drawn = Lines { title: "t", note: "n", x, y, lines: &[line], rules: &[] }.draw();
        let path = drawn.split("<path class=\"line\" d=\"").last().unwrap().split('"').next().unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 2), "{path}");
    }

    #[test]
    fn a_line_goes_from_mark_to_mark() {
        let mark =
            |x: f64, y: f64| Mark { x, y, interval: Some((y * 0.9, y * 1.1)), tip: format!("{x}: {y}") };
        let line = Line {
            name: "<one>".into(),
            who: "weir",
            style: Style::Solid,
            marked: true,
            marks: vec![mark(1.0, 1.0), mark(10.0, 5.0), mark(100.0, 10.0)],
        };
        let rule = Rule {
            who: "weir",
            style: Style::Solid,
            at: 50.0,
            interval: Some((40.0, 60.0)),
            label: "knee 50".into(),
        };
        let plot = Lines {
            title: "t",
            note: "n",
            x: Axis::logarithmic("a & b"),
            y: Axis::linear("y"),
            lines: &[line],
            rules: &[rule],
        };
        let drawn = plot.draw();
        assert!(drawn.contains("&lt;one&gt;") && drawn.contains("a &amp; b"), "{drawn}");
        let path = drawn.split("<path class=\"line\" d=\"M").nth(2).unwrap().split('"').next().unwrap();
        assert_eq!(path.matches('L').count(), 2, "{path}");
        // At two widths.
        assert_eq!(drawn.matches("class=\"whisker\"").count(), 2 * 3);
        assert!(drawn.contains("<title>10: 5</title>") && drawn.contains("knee 50"), "{drawn}");
    }
}
