//! Ratios with their intervals, a line each, beside the line of "equal".
//!
//! Owns: where they lie.
//! Never: begins an axis at 0: ratios lie as far from 1 as their reciprocals.
//! Driven by: `plots`.

use super::frame::{BOTTOM, CHARACTER, Key, RIGHT, Sketch, Style, TOP, dot, figure, level};
use super::scale::{Axis, Scale};
use crate::report::words::{escaped, unique};
use crate::stats::Estimate;
use std::fmt::Write;

/// One ratio.
#[derive(Clone, Debug)]
pub(in crate::report) struct Ratio {
    /// What is said once of several.
    pub(in crate::report) group: String,
    /// Of what.
    pub(in crate::report) name: String,
    /// What that looks like to whom it is a ratio.
    pub(in crate::report) who: &'static str,
    /// To whom.
    pub(in crate::report) rival: String,
    pub(in crate::report) value: Estimate,
    pub(in crate::report) tip: String,
}

/// A plot of ratios.
#[derive(Clone, Debug)]
pub(in crate::report) struct Ratios<'a> {
    pub(in crate::report) title: &'a str,
    pub(in crate::report) note: &'a str,
    pub(in crate::report) label: &'a str,
    pub(in crate::report) ratios: &'a [Ratio],
}

const LINE: f64 = 17.0;
const GAP: f64 = 5.0;
const HEADING: f64 = 22.0;

impl Ratios<'_> {
    /// The figure.
    pub(in crate::report) fn draw(&self) -> String {
        let keys = unique(self.ratios.iter().map(Ratio::key));
        figure(self.title, self.note, &keys, |width| self.sketch(width, &keys))
    }

    fn sketch(&self, width: f64, keys: &[Key]) -> Sketch {
        let groups = unique(self.ratios.iter().map(|r| r.group.as_str()));
        let names = unique(self.ratios.iter().map(|r| (r.group.as_str(), r.name.as_str())));
        let longest = names.iter().map(|n| n.1.chars().count()).max().unwrap_or(0);
        let beside = 14.0 + CHARACTER * longest as f64;
        // Where names would take more than a third, they stand above their ratios.
        let above = if beside > width / 3.0 { LINE } else { 0.0 };
        let left = if above > 0.0 { 14.0 } else { beside };
        let body = LINE * self.ratios.len() as f64
            + (GAP + above) * names.len() as f64
            + HEADING * groups.len() as f64;
        let height = TOP + body + BOTTOM + 4.0;
        let right = width - RIGHT - CHARACTER * 17.0;
        let values = || {
            self.ratios
                .iter()
                .flat_map(|r| [r.value.span().0, r.value.span().1, r.value.median])
                .filter(|v| *v > 0.0)
        };
        let furthest = values().map(|v| v.max(1.0 / v)).fold(1.25, f64::max) * 1.05;
        // So wide apart that 1 is always told.
        let at: &[f64] = match furthest {
            f if f < 1.35 => &[0.8, 0.9, 1.0, 1.1, 1.2, 1.3],
            f if f < 3.0 => &[0.4, 0.5, 0.7, 1.0, 1.4, 2.0, 2.5],
            _ => &[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0],
        };
        let axis = Axis { at: Some(at.to_vec()), ..Axis::logarithmic(self.label) };
        let x = Scale::between(&axis, (1.0 / furthest, furthest), left, right);
        let foot = height - BOTTOM;
        let mut out = String::new();
        level(&x, self.label, (left, right), (TOP - 8.0, foot), &mut out);
        let _ = write!(out, "<path class=\"equal\" d=\"M{0:.1} {1:.1}V{foot:.1}\"/>", x.at(1.0), TOP - 12.0);
        let mut y = TOP;
        for group in groups {
            let _ = write!(
                out,
                "<text class=\"label\" x=\"2\" y=\"{:.1}\">{}</text>",
                y + HEADING - 6.0,
                escaped(group)
            );
            y += HEADING;
            for (_, name) in names.iter().filter(|n| n.0 == group) {
                let of_name = |r: &&Ratio| r.group == group && r.name == *name;
                let lines: Vec<&Ratio> = self.ratios.iter().filter(of_name).collect();
                let middle = y + LINE * lines.len() as f64 / 2.0 + 4.0;
                let (class, at, base) =
                    if above > 0.0 { ("", left, y + 12.0) } else { (" end", left - 8.0, middle) };
                let _ = write!(
                    out,
                    "<text class=\"tick{class}\" x=\"{at:.1}\" y=\"{base:.1}\">{}</text>",
                    escaped(name)
                );
                y += above;
                for ratio in lines {
                    let key = keys.iter().position(|key| *key == ratio.key()).unwrap_or_default();
                    ratio.draw(&x, right, (y + LINE / 2.0, key), &mut out);
                    y += LINE;
                }
                y += GAP;
            }
        }
        Sketch { height, inside: out, upright: None }
    }
}

impl Ratio {
    fn key(&self) -> Key {
        Key { name: format!("÷ {}", self.rival), who: self.who, style: Style::Solid }
    }

    fn draw(&self, x: &Scale, right: f64, (at, key): (f64, usize), out: &mut String) {
        let Estimate { median, .. } = self.value;
        let (low, high) = self.value.interval().unwrap_or((median, median));
        let told =
            self.value.interval().map_or_else(String::new, |(low, high)| format!(" ({low:.2}–{high:.2})"));
        let _ = write!(
            out,
            "<g class=\"{}\" data-k=\"{key}\"><path class=\"line\" d=\"M{:.1} {at:.1}H{:.1}\"/>{}<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">\
             {median:.2}{told}</text></g>",
            self.who,
            x.at(low),
            x.at(high),
            dot(self.who, x.at(median), at, &self.tip),
            right + 8.0,
            at + 4.0
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_and_its_reciprocal_lie_equally_far_from_one() {
        let ratio = |m: f64| Ratio {
            group: "g".into(),
            name: "a".into(),
            who: "nginx",
            rival: "nginx".into(),
            value: Estimate { median: m, low: Some(m), high: Some(m), min: m, max: m, mean: m },
            tip: String::new(),
        };
        let drawn =
            Ratios { title: "", note: "", label: "", ratios: &[ratio(2.0), ratio(0.5), ratio(1.0)] }.draw();
        let xs: Vec<f64> = drawn
            .split("<g class=\"nginx\" data-k=\"0\"><path class=\"line\" d=\"M")
            .skip(1)
            .map(|p| p.split(' ').next().unwrap().parse().unwrap())
            .collect();
        assert!((xs[0] + xs[1] - 2.0 * xs[2]).abs() < 0.3, "{xs:?}");
    }
}
