//! Bars beside each other in groups, with their intervals.
//!
//! Owns: where bars stand, and what is written on them.
//! Never: begins anywhere but at 0.
//! Driven by: `plots`.

use super::frame::{CHARACTER, HEIGHT, Key, RIGHT, Sketch, Style, TOP, figure, short, upright};
use super::scale::Axis;
use crate::report::words::{escaped, unique};
use std::fmt::Write;

/// A bar: its value, and the interval of it.
#[derive(Clone, Debug)]
pub(in crate::report) struct Bar {
    pub(in crate::report) name: String,
    pub(in crate::report) who: &'static str,
    /// Dashed: published by somebody else.
    pub(in crate::report) style: Style,
    pub(in crate::report) value: f64,
    pub(in crate::report) interval: Option<(f64, f64)>,
    pub(in crate::report) tip: String,
}

/// Bars that stand together.
#[derive(Clone, Debug)]
pub(in crate::report) struct Group {
    pub(in crate::report) name: String,
    pub(in crate::report) bars: Vec<Bar>,
}

/// A plot of bars.
#[derive(Clone, Debug)]
pub(in crate::report) struct Bars<'a> {
    pub(in crate::report) title: &'a str,
    pub(in crate::report) note: &'a str,
    pub(in crate::report) label: &'a str,
    pub(in crate::report) groups: &'a [Group],
}

/// The names of groups, and nothing below them; each further line of a name takes more.
const FOOT: f64 = 24.0;
const LINE: f64 = 13.0;

impl Bar {
    fn key(&self) -> Key {
        Key { name: self.name.clone(), who: self.who, style: self.style }
    }
}

/// A name in lines that fit into `room`, as far as its words allow.
fn folded(name: &str, room: f64) -> Vec<String> {
    let most = (room / CHARACTER).floor().max(1.0) as usize;
    let mut lines: Vec<String> = Vec::new();
    for word in name.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                *line += " ";
                *line += word;
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

impl Bars<'_> {
    /// The figure.
    pub(in crate::report) fn draw(&self) -> String {
        let keys = unique(self.groups.iter().flat_map(|g| g.bars.iter()).map(Bar::key));
        figure(self.title, self.note, &keys, |width| self.sketch(width, &keys))
    }

    fn sketch(&self, width: f64, keys: &[Key]) -> Sketch {
        let all = || self.groups.iter().flat_map(|g| g.bars.iter());
        let values = all().map(|b| b.interval.map_or(b.value, |i| i.1.max(b.value)));
        let mut out = String::new();
        // About what is left of the upright axis' numbers.
        let about = (width - RIGHT - 50.0) / self.groups.len().max(1) as f64;
        let names: Vec<Vec<String>> = self.groups.iter().map(|g| folded(&g.name, about - 4.0)).collect();
        let lines = names.iter().map(Vec::len).max().unwrap_or(1);
        let height = HEIGHT + LINE * lines.saturating_sub(1) as f64;
        let foot = HEIGHT - FOOT;
        let (y, left) = upright(&Axis::linear(self.label), values, (TOP + 8.0, foot), width, &mut out);
        let room = (width - RIGHT - left) / self.groups.len().max(1) as f64;
        for (g, group) in self.groups.iter().enumerate() {
            let begin = left + room * g as f64;
            // A lone group is not stretched over the whole width.
            let step = (room * 0.84 / group.bars.len().max(1) as f64).min(64.0);
            let wide = step * 0.86;
            let first = begin + (room - step * group.bars.len() as f64) / 2.0;
            for (n, bar) in group.bars.iter().enumerate() {
                let x = first + step * n as f64 + (step - wide) / 2.0;
                let (top, middle) = (y.at(bar.value), x + wide / 2.0);
                let style = if bar.style == Style::Dashed { " dashed" } else { "" };
                let key = keys.iter().position(|key| *key == bar.key()).unwrap_or_default();
                let _ = write!(
                    out,
                    "<g class=\"{}{style}\" data-k=\"{key}\"><rect class=\"bar\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{:.1}\">\
                     <title>{}</title></rect>",
                    bar.who,
                    (foot - top).max(0.0),
                    escaped(&bar.tip)
                );
                let mut written = top;
                if let Some((low, high)) = bar.interval {
                    written = y.at(high).min(top);
                    let _ = write!(
                        out,
                        "<path class=\"error\" d=\"M{middle:.1} {:.1}V{:.1}\"/>",
                        y.at(low),
                        y.at(high)
                    );
                }
                let value = short(bar.value);
                if CHARACTER * value.chars().count() as f64 <= step {
                    let _ = write!(
                        out,
                        "<text class=\"value middle\" x=\"{middle:.1}\" y=\"{:.1}\">{value}</text>",
                        written - 4.0
                    );
                }
                out += "</g>";
            }
            for (n, line) in names.get(g).into_iter().flatten().enumerate() {
                let _ = write!(
                    out,
                    "<text class=\"tick middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    begin + room / 2.0,
                    foot + 15.0 + LINE * n as f64,
                    escaped(line)
                );
            }
        }
        let _ = write!(out, "<path class=\"axis\" d=\"M{left:.1} {foot:.1}H{:.1}\"/>", width - RIGHT);
        Sketch { height, inside: out, upright: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_high_as_its_value() {
        let bar = |value: f64| Bar {
            name: "weir".into(),
            who: "weir",
            style: Style::Solid,
            value,
            interval: None,
            tip: String::new(),
        };
        let groups = [Group { name: "1k".into(), bars: vec![bar(100.0), bar(50.0), bar(0.0)] }];
        let drawn = Bars { title: "t", note: "", label: "requests/s", groups: &groups }.draw();
        let heights: Vec<f64> = drawn
            .split("class=\"bar\"")
            .skip(1)
            .map(|b| b.split("height=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        assert!((heights[0] - 2.0 * heights[1]).abs() < 0.11 && heights[2] == 0.0, "{heights:?}");
    }

    #[test]
    fn long_names_are_folded_between_words() {
        assert_eq!(folded("10 KB × 16", 200.0), ["10 KB × 16"]);
        assert_eq!(folded("10 KB × 16", 40.0), ["10 KB", "× 16"]);
        assert_eq!(folded("10 KB × 16", 1.0).len(), 4);
    }
}
