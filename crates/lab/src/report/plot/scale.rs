//! How values lie on an axis, and where its ticks are.
//!
//! Owns: ranges, positions, round ticks.
//! Never: draws.
//! Driven by: the plots beside it.

use super::frame::short;

/// An axis: what it shows, and how.
#[derive(Clone, Debug)]
pub(in crate::report) struct Axis {
    /// What is on it, with its unit.
    pub(in crate::report) label: String,
    /// Whether equal ratios are equal lengths.
    pub(in crate::report) logarithmic: bool,
    /// Ticks at these values alone, where there is room.
    pub(in crate::report) at: Option<Vec<f64>>,
    /// What is written at them, where it is not the value.
    pub(in crate::report) names: Vec<String>,
}

impl Axis {
    /// Equal differences are equal lengths; it begins at 0.
    pub(in crate::report) fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), logarithmic: false, at: None, names: Vec::new() }
    }

    /// Equal ratios are equal lengths.
    pub(in crate::report) fn logarithmic(label: &str) -> Self {
        Self { label: label.to_owned(), logarithmic: true, at: None, names: Vec::new() }
    }

    /// Shares of a hundred, spread towards the last: 50, 90, 99, 99.9 and 99.99 are equally far apart but for the first. Values
    /// on it are those of [`beyond`].
    pub(in crate::report) fn percentiles(label: &str) -> Self {
        let shares = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99];
        Self {
            label: label.to_owned(),
            logarithmic: true,
            at: Some(shares.iter().map(|share| beyond(share / 100.0)).collect()),
            names: shares.iter().map(ToString::to_string).collect(),
        }
    }
}

/// How many times as far from all as nothing a share (0 to 1) is: 1 for 0, 100 for 0.99. The last, 1, is taken for the share
/// that so many values tell: 100,000.
pub(in crate::report) fn beyond(share: f64) -> f64 {
    1.0 / (1.0 - share).max(1e-5)
}

/// Values laid from `start` to `end`.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    logarithmic: bool,
    at: Option<Vec<f64>>,
    names: Vec<String>,
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Scale {
    /// So that all of `values` lie on it.
    pub(super) fn over(axis: &Axis, values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let usable: Vec<f64> = values.filter(|v| v.is_finite() && (!axis.logarithmic || *v > 0.0)).collect();
        let high = usable.iter().copied().fold(f64::MIN, f64::max);
        let low = usable.iter().copied().fold(f64::MAX, f64::min);
        let (from, to) = match (usable.is_empty(), axis.logarithmic) {
            (true, logarithmic) => (if logarithmic { 1.0 } else { 0.0 }, 10.0),
            // A little room at both ends, and never so narrow that no tick would lie within.
            (_, true) if high / low < 4.0 => {
                let middle = (low * high).sqrt();
                (middle / 2.2, middle * 2.2)
            }
            (_, true) => (low / 1.15, high * 1.15),
            (_, false) => (low.min(0.0), if high > 0.0 { high * 1.06 } else { 1.0 }),
        };
        let (at, names) = (axis.at.clone(), axis.names.clone());
        Self { logarithmic: axis.logarithmic, at, names, from, to, start, end }
    }

    /// Exactly from `from` to `to`.
    pub(super) fn between(axis: &Axis, (from, to): (f64, f64), start: f64, end: f64) -> Self {
        let (at, names) = (axis.at.clone(), axis.names.clone());
        Self { logarithmic: axis.logarithmic, at, names, from, to, start, end }
    }

    /// Where a value lies; what is beyond an end lies at that end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.from, self.to);
        let share = if self.logarithmic {
            (value / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.start + (self.end - self.start) * share
    }

    /// What is written at a tick.
    pub(super) fn text(&self, tick: f64) -> String {
        let place = self.at.iter().flatten().position(|at| (at - tick).abs() <= at.abs() * 1e-9);
        place.and_then(|at| self.names.get(at)).cloned().unwrap_or_else(|| short(tick))
    }

    /// What a script needs to lay values out in another way: how they lie, from and to which value, from and to where.
    pub(super) fn data(&self) -> String {
        let kind = if self.logarithmic { "log" } else { "linear" };
        format!("{kind} {} {} {:.1} {:.1}", self.from, self.to, self.start, self.end)
    }

    /// Round values, not closer together than `room`.
    pub(super) fn ticks(&self, room: f64) -> Vec<f64> {
        let all = match &self.at {
            Some(at) => at.iter().copied().filter(|v| (self.from..=self.to).contains(v)).collect(),
            None if self.logarithmic => self.decades(room),
            None => self.steps(room),
        };
        let mut kept: Vec<f64> = Vec::new();
        for tick in all {
            if kept.last().is_none_or(|last| (self.at(tick) - self.at(*last)).abs() >= room) {
                kept.push(tick);
            }
        }
        kept
    }

    /// Powers of ten, with 2 and 5 between them where there is room for both.
    fn decades(&self, room: f64) -> Vec<f64> {
        let decade = (self.end - self.start).abs() / (self.to / self.from).log10();
        let steps: &[f64] = if decade * 0.3 > room { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = (room / decade).ceil().max(1.0) as i32;
        let decades = (self.from.log10().floor() as i32..=self.to.log10().ceil() as i32)
            .filter(|d| d.rem_euclid(every) == 0);
        let all = decades.flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d)));
        all.filter(|v| (self.from..=self.to).contains(v)).collect()
    }

    fn steps(&self, room: f64) -> Vec<f64> {
        let most = ((self.end - self.start).abs() / room).clamp(1.0, 6.0);
        let rough = (self.to - self.from) / most;
        let unit = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * unit).into_iter().find(|s| *s >= rough).unwrap_or(rough);
        let first = (self.from / step).ceil() as i64;
        (first..=first + 12).map(|n| n as f64 * step).filter(|v| *v <= self.to).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(axis: &Axis, values: &[f64]) -> Vec<f64> {
        Scale::over(axis, values.iter().copied(), 0.0, 300.0).ticks(45.0)
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(&Axis::linear(""), &[900.0]), [0.0, 200.0, 400.0, 600.0, 800.0]);
        assert_eq!(ticks(&Axis::logarithmic(""), &[0.3, 700.0]), [1.0, 10.0, 100.0]);
        assert_eq!(ticks(&Axis::logarithmic(""), &[30.0, 40.0]), [20.0, 50.0]);
    }

    #[test]
    fn ticks_that_would_touch_are_left_out() {
        let workers = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 36.0];
        let axis = Axis { at: Some(workers.to_vec()), ..Axis::logarithmic("") };
        assert_eq!(ticks(&axis, &workers), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
    }

    #[test]
    fn there_is_always_an_axis() {
        for axis in [Axis::linear(""), Axis::logarithmic("")] {
            for values in [&[][..], &[0.0], &[f64::NAN, f64::INFINITY], &[5.0, 5.0], &[1e-9, 1e9]] {
                let scale = Scale::over(&axis, values.iter().copied(), 10.0, 0.0);
                assert!(!scale.ticks(1.0).is_empty(), "{axis:?} {values:?}");
                assert!([0.0, 1.0, -5.0, 1e12].iter().all(|v| (0.0..=10.0).contains(&scale.at(*v))));
            }
        }
    }
}
