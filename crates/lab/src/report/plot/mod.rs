//! Plots, as figures with inline SVG.
//!
//! Owns: the kinds of plots. Colours and fonts are the page's (`report.css`).
//! Never: needs a script to be read, an image or a font of its own; knows what is measured.
//! Driven by: `plots`, which knows.

mod bars;
mod frame;
mod lines;
mod ratios;
mod scale;

pub(super) use bars::{Bar, Bars, Group};
pub(super) use frame::Style;
pub(super) use lines::{Line, Lines, Mark, Rule};
pub(super) use ratios::{Ratio, Ratios};
pub(super) use scale::{Axis, beyond};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_draw_is_no_nonsense() {
        let lines = Lines {
            title: "<a> & \"b\"",
            note: "",
            x: Axis::logarithmic("x"),
            y: Axis::logarithmic("y"),
            lines: &[],
            rules: &[],
        };
        let drawn = lines.draw()
            + &Bars { title: "", note: "", label: "y", groups: &[] }.draw()
            + &Ratios { title: "", note: "", label: "x", ratios: &[] }.draw();
        assert!(drawn.contains("&lt;a&gt; &amp; &quot;b&quot;"), "{drawn}");
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        assert_eq!(drawn.matches("<svg class=\"plot ").count(), 2 * 3);
    }
}
