//! Plots, as inline SVG.
//!
//! Owns: axes, ticks, lines and bars.
//! Never: needs a script or a font of its own.
//! Driven by: `html`.

use super::number;
use std::fmt::Write;

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 68.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 44.0;

/// A line of a plot.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) colour: &'static str,
    pub(super) dashed: bool,
    pub(super) points: Vec<(f64, f64)>,
}

/// A bar of a plot: its value, and the interval of it.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) colour: &'static str,
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// How values lie on an axis.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    pub(super) label: &'static str,
    pub(super) logarithmic: bool,
}

struct Scale {
    axis: Axis,
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Scale {
    fn over(axis: Axis, values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let usable: Vec<f64> = values.filter(|v| v.is_finite() && (!axis.logarithmic || *v > 0.0)).collect();
        let high = usable.iter().copied().fold(f64::MIN, f64::max);
        let low = usable.iter().copied().fold(f64::MAX, f64::min);
        let (from, to) = match (usable.is_empty(), axis.logarithmic) {
            (true, _) => (if axis.logarithmic { 1.0 } else { 0.0 }, 10.0),
            // So wide that at least one of 1, 2, 5, 10 lies within.
            (_, true) => (low / 1.6, high * 1.6),
            (_, false) => (0.0, if high > 0.0 { high * 1.08 } else { 1.0 }),
        };
        Self { axis, from, to, start, end }
    }

    fn at(&self, value: f64) -> f64 {
        let share = if self.axis.logarithmic {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.start + (self.end - self.start) * share
    }

    fn ticks(&self) -> Vec<f64> {
        if self.axis.logarithmic {
            let decades = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
            let steps: &[f64] = if self.to / self.from < 50.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let all = decades.flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d)));
            return all.filter(|v| (self.from..=self.to).contains(v)).collect();
        }
        let rough = (self.to - self.from) / 5.0;
        let unit = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * unit).into_iter().find(|s| *s >= rough).unwrap_or(rough);
        (0..=5).map(|n| self.from + f64::from(n) * step).filter(|v| *v <= self.to).collect()
    }
}

/// Text that can stand in HTML and SVG.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn frame(title: &str, body: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\"><text class=\"title\" x=\"{LEFT}\" y=\"16\">{0}</text>{body}</svg>\n",
        escaped(title)
    )
}

fn scale_y(axis: Axis, values: impl Iterator<Item = f64>) -> Scale {
    Scale::over(axis, values, HEIGHT - BOTTOM, TOP)
}

fn draw_y(y: &Scale, out: &mut String) {
    for tick in y.ticks() {
        let at = y.at(tick);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            number(tick)
        );
    }
    let middle = f64::midpoint(TOP, HEIGHT - BOTTOM);
    let _ = write!(
        out,
        "<text class=\"label\" text-anchor=\"middle\" transform=\"translate(14 {middle:.1}) rotate(-90)\">{}</text>",
        escaped(y.axis.label)
    );
}

/// Lines over two axes.
pub(super) fn lines(title: &str, x: Axis, y: Axis, series: &[Series]) -> String {
    let all = || series.iter().flat_map(|s| s.points.iter());
    let sx = Scale::over(x, all().map(|p| p.0), LEFT, WIDTH - RIGHT);
    let sy = scale_y(y, all().map(|p| p.1));
    let mut out = String::new();
    draw_y(&sy, &mut out);
    for tick in sx.ticks() {
        let at = sx.at(tick);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
             <text class=\"tick\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM + 16.0,
            number(tick)
        );
    }
    let _ = write!(
        out,
        "<text class=\"label\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        f64::midpoint(LEFT, WIDTH - RIGHT),
        HEIGHT - 8.0,
        escaped(x.label)
    );
    for (n, line) in series.iter().enumerate() {
        let mut path = String::new();
        for (at, (px, py)) in line.points.iter().enumerate() {
            let _ = write!(path, "{}{:.1} {:.1}", if at == 0 { "M" } else { "L" }, sx.at(*px), sy.at(*py));
        }
        let dash = if line.dashed { " stroke-dasharray=\"5 4\"" } else { "" };
        let _ = write!(out, "<path class=\"line\" d=\"{path}\" stroke=\"{}\"{dash}/>", line.colour);
        // A dot each, where there are few enough to be told apart.
        if line.points.len() < 40 {
            for (px, py) in &line.points {
                let _ = write!(
                    out,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{}\"><title>{}: {}</title></circle>",
                    sx.at(*px),
                    sy.at(*py),
                    line.colour,
                    escaped(&line.name),
                    number(*py)
                );
            }
        }
        key(n, &line.name, line.colour, &mut out);
    }
    frame(title, &out)
}

fn key(n: usize, name: &str, colour: &str, out: &mut String) {
    let y = TOP + 14.0 * n as f64 + 10.0;
    let _ = write!(
        out,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"10\" height=\"4\" fill=\"{colour}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
        LEFT + 8.0,
        y - 6.0,
        LEFT + 22.0,
        escaped(name)
    );
}

/// Bars beside each other in groups, with their intervals.
pub(super) fn bars(title: &str, label: &'static str, groups: &[(String, Vec<Bar>)]) -> String {
    let values = groups.iter().flat_map(|g| g.1.iter().map(|b| b.high.max(b.value)));
    let y = scale_y(Axis { label, logarithmic: false }, values);
    let mut out = String::new();
    draw_y(&y, &mut out);
    let room = (WIDTH - RIGHT - LEFT) / groups.len().max(1) as f64;
    for (g, (name, group)) in groups.iter().enumerate() {
        let begin = LEFT + room * g as f64;
        let width = room * 0.8 / group.len().max(1) as f64;
        for (n, bar) in group.iter().enumerate() {
            let x = begin + room * 0.1 + width * n as f64;
            let (top, base) = (y.at(bar.value), y.at(0.0));
            let middle = x + width * 0.45;
            let _ = write!(
                out,
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"><title>{}: {} ({}–{})</title></rect>\
                 <line class=\"whisker\" x1=\"{middle:.1}\" x2=\"{middle:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                width * 0.9,
                (base - top).max(0.0),
                bar.colour,
                escaped(&bar.name),
                number(bar.value),
                number(bar.low),
                number(bar.high),
                y.at(bar.low),
                y.at(bar.high)
            );
        }
        let _ = write!(
            out,
            "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            begin + room / 2.0,
            HEIGHT - BOTTOM + 16.0,
            escaped(name)
        );
    }
    // The legend runs along the foot, where no bar reaches.
    let names = super::unique(groups.iter().flat_map(|g| g.1.iter().map(|b| (b.name.as_str(), b.colour))));
    for (n, (name, colour)) in names.into_iter().enumerate() {
        let x = LEFT + 100.0 * n as f64;
        let _ = write!(
            out,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"8\" fill=\"{colour}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            HEIGHT - 15.0,
            x + 15.0,
            HEIGHT - 7.0,
            escaped(name)
        );
    }
    frame(title, &out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_from_corner_to_corner() {
        let axis = |logarithmic| Axis { label: "a & b", logarithmic };
        let series = Series {
            name: "<one>".into(),
            colour: "#000",
            dashed: false,
            points: vec![(1.0, 0.0), (10.0, 5.0), (100.0, 10.0)],
        };
        let svg = lines("t", axis(true), axis(false), &[series]);
        assert!(svg.contains("&lt;one&gt;") && svg.contains("a &amp; b"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let path = svg.split("d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(path.matches('L').count(), 2, "{path}");
    }

    #[test]
    fn nothing_to_draw_is_no_nonsense() {
        let axis = Axis { label: "x", logarithmic: true };
        let svg = lines("t", axis, axis, &[]) + &bars("t", "y", &[]);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn ticks_are_round() {
        let axis = Axis { label: "", logarithmic: false };
        assert_eq!(
            Scale::over(axis, [900.0].into_iter(), 0.0, 1.0).ticks(),
            [0.0, 200.0, 400.0, 600.0, 800.0]
        );
    }
}
