//! What plots have in common.
//!
//! Owns: the frame of a plot: its title, key, axes and marks.
//! Driven by: the plots beside it.
//! Why: a contender has a colour, and a shape too: whoever cannot tell the colours, or prints without, can tell the shapes.

use super::scale::{Axis, Scale};
use crate::report::words::{escaped, number};
use std::fmt::Write;

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) enum Style {
    /// Measured.
    Solid,
    /// Published by somebody else.
    Dashed,
    /// Another published one of the same.
    Dotted,
}

/// How wide a plot is drawn: for screens with room, and for narrow ones and paper. What is written is as large in both.
pub(super) const WIDTHS: [(f64, &str); 2] = [(560.0, "full"), (330.0, "slim")];
pub(super) const HEIGHT: f64 = 300.0;
pub(super) const RIGHT: f64 = 14.0;
pub(super) const TOP: f64 = 26.0;
pub(super) const BOTTOM: f64 = 42.0;
/// About what a character of a tick takes.
pub(super) const CHARACTER: f64 = 6.4;

/// An entry of a plot's key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) who: &'static str,
    pub(super) style: Style,
}

/// The inside of a plot, at one width.
pub(super) struct Sketch {
    pub(super) height: f64,
    pub(super) inside: String,
    /// How values lie upright, if a script may lay them out in another way.
    pub(super) upright: Option<String>,
}

/// A figure: a plot at each width, of which one is shown. Series are told apart by their place among `keys`.
pub(super) fn figure(title: &str, note: &str, keys: &[Key], draw: impl Fn(f64) -> Sketch) -> String {
    let mut out = format!("<figure><figcaption><b>{}</b>", escaped(title));
    if !note.is_empty() {
        let _ = write!(out, "<span class=\"note\">{}</span>", escaped(note));
    }
    out += "<span class=\"keys\">";
    for (n, key) in keys.iter().enumerate() {
        let style = match key.style {
            Style::Solid => "",
            Style::Dashed => " dashed",
            Style::Dotted => " dotted",
        };
        let _ = write!(
            out,
            "<span class=\"key {}{style}\" data-k=\"{n}\"><svg class=\"swatch\" viewBox=\"0 0 26 10\" aria-hidden=\"true\"><path class=\"line\" \
             d=\"M1 5H25\"/>{}</svg>{}</span>",
            key.who,
            dot(key.who, 13.0, 5.0, ""),
            escaped(&key.name)
        );
    }
    out += "</span></figcaption>";
    for (width, class) in WIDTHS {
        let Sketch { height, inside, upright } = draw(width);
        let upright = upright.map_or_else(String::new, |data| format!(" data-y=\"{data}\""));
        let _ = writeln!(
            out,
            "<svg class=\"plot {class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\"{upright}>{inside}</svg>",
            escaped(title)
        );
    }
    out + "</figure>"
}

/// The mark of a contender: each has a shape.
pub(super) fn dot(who: &str, x: f64, y: f64, tip: &str) -> String {
    let title = if tip.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(tip)) };
    match who {
        "nginx" => format!(
            "<rect class=\"dot\" data-v=\"{y:.1}\" x=\"{:.1}\" y=\"{:.1}\" width=\"6\" height=\"6\">{title}</rect>",
            x - 3.0,
            y - 3.0
        ),
        "haproxy" => format!(
            "<path class=\"dot\" data-v=\"{y:.1}\" d=\"M{x:.1} {:.1}l4 7h-8z\">{title}</path>",
            y - 4.0
        ),
        "direct" => {
            format!(
                "<path class=\"dot\" data-v=\"{y:.1}\" d=\"M{x:.1} {:.1}l4 4l-4 4l-4 -4z\">{title}</path>",
                y - 4.0
            )
        }
        "avi" => format!(
            "<path class=\"dot\" data-v=\"{y:.1}\" d=\"M{:.1} {:.1}h8l-4 7z\">{title}</path>",
            x - 4.0,
            y - 3.0
        ),
        "other" => {
            format!(
                "<path class=\"dot\" data-v=\"{y:.1}\" d=\"M{:.1} {y:.1}h2v-3h3v3h2v3h-2v3h-3v-3h-2z\">{title}</path>",
                x - 3.5
            )
        }
        _ => format!(
            "<circle class=\"dot\" data-v=\"{y:.1}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.4\">{title}</circle>"
        ),
    }
}

/// The vertical axis with its grid; gives the scale, and where the plot begins at its left.
pub(super) fn upright(
    axis: &Axis,
    values: impl Iterator<Item = f64>,
    (top, foot): (f64, f64),
    width: f64,
    out: &mut String,
) -> (Scale, f64) {
    let scale = Scale::over(axis, values, foot, top);
    let ticks = scale.ticks(24.0);
    let longest = ticks.iter().map(|t| scale.text(*t).chars().count()).max().unwrap_or(1);
    let left = 16.0 + CHARACTER * longest as f64;
    let _ = write!(out, "<g class=\"upright\" data-x=\"{left:.1} {:.1}\">", width - RIGHT);
    for tick in ticks {
        let at = scale.at(tick);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{left:.1} {at:.1}H{:.1}\"/><text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            width - RIGHT,
            left - 6.0,
            at + 4.0,
            scale.text(tick)
        );
    }
    // Beside the axis and not along it: nobody tilts the head.
    let _ = write!(out, "</g><text class=\"label\" x=\"2\" y=\"12\">{}</text>", escaped(&axis.label));
    (scale, left)
}

/// The level axis.
pub(super) fn level(
    scale: &Scale,
    label: &str,
    (left, right): (f64, f64),
    (top, foot): (f64, f64),
    out: &mut String,
) {
    let longest = scale.ticks(1.0).iter().map(|t| scale.text(*t).chars().count()).max().unwrap_or(1);
    for tick in scale.ticks(CHARACTER * longest as f64 + 12.0) {
        let at = scale.at(tick);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{at:.1} {top:.1}V{foot:.1}\"/><text class=\"tick middle\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
            // Below what is written at the foot of the upright axis.
            foot + 18.0,
            scale.text(tick)
        );
    }
    let _ = write!(
        out,
        "<path class=\"axis\" d=\"M{left:.1} {foot:.1}H{right:.1}\"/><text class=\"label end\" x=\"{right:.1}\" y=\"{:.1}\">{}</text>",
        foot + 35.0,
        escaped(label)
    );
}

/// A number that has little room: 12k, 3.4M.
pub(super) fn short(value: f64) -> String {
    let trimmed = |v: f64| {
        let text = number(v);
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    };
    match value.abs() {
        v if v >= 1e6 => trimmed(value / 1e6) + "M",
        v if v >= 1e4 => trimmed(value / 1e3) + "k",
        // Small powers of ten are told in full.
        v if v > 0.0 && v < 0.01 => format!("{value:.6}").trim_end_matches('0').to_owned(),
        _ => trimmed(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers() {
        let told = [0.0, 0.001, 0.5, 1.0, 250.0, 5000.0, 12_000.0, 12_500.0, 3_400_000.0].map(short);
        assert_eq!(told, ["0", "0.001", "0.5", "1", "250", "5,000", "12k", "12.5k", "3.4M"]);
    }
}
