//! An answer in words, and the numbers of the command line.
//!
//! Owns: the layout of what `weir lab size` prints.
//! Never: reckons.
//! Driven by: the command line.

use super::{Answer, Demand};
use crate::prices::Prices;
use crate::report::number;
use crate::scenario::Contender;
use std::fmt::Write;

/// The answers, for people.
#[must_use]
pub fn told(demand: &Demand, answers: &[Answer], prices: &Prices) -> String {
    let mut load = Vec::new();
    if demand.rps > 0.0 {
        load.push(format!("{} requests/s of {} bytes", number(demand.rps), number(demand.page as f64)));
    }
    if demand.tps > 0.0 {
        load.push(format!("{} full TLS handshakes/s", number(demand.tps)));
    }
    let mut out =
        format!("For {}, with {:.0}% of the CPUs kept free:\n", load.join(" and "), demand.headroom * 100.0);
    let several = answers.iter().any(|a| a.machine != answers[0].machine);
    for answer in answers {
        let place = if several { format!(" ({})", answer.machine) } else { String::new() };
        let cores = answer.cores;
        let _ = writeln!(
            out,
            "\n{}{place}: {:.0} cores ({:.0} to {:.0})",
            answer.contender.name(),
            cores.expected,
            cores.low,
            cores.high
        );
        if let Some(h) = &answer.hardware {
            let _ = write!(out, "  {}, {} {}", times(h.count, &h.name), number(h.price), prices.currency);
            let (count, name, price) = &h.at_most;
            if (*count, name) != (h.count, &h.name) {
                let _ =
                    write!(out, "; at worst {}, {} {}", times(*count, name), number(*price), prices.currency);
            }
            out.push('\n');
        }
        if answer.contender == Contender::Weir {
            details(answer, &mut out);
        }
    }
    let _ = writeln!(out, "\nPrices: {}.", prices.source);
    out
}

fn details(answer: &Answer, out: &mut String) {
    for part in &answer.parts {
        let cost = part.cost_us;
        let _ = writeln!(
            out,
            "  {} × {} µs ({}–{}) = {} CPUs: {} [{}]",
            number(part.rate),
            number(cost.expected),
            number(cost.low),
            number(cost.high),
            number(part.rate * cost.expected / 1e6),
            part.what,
            part.source
        );
    }
    let beyond = answer.parts.iter().flat_map(|p| &p.beyond);
    let mut said: Vec<&String> = Vec::new();
    for line in beyond.chain(&answer.doubts) {
        if !said.contains(&line) {
            let _ = writeln!(out, "  note: {line}");
            said.push(line);
        }
    }
}

fn times(count: u32, name: &str) -> String {
    if count == 1 { format!("one {name}") } else { format!("{count} × {name}") }
}

/// A number such as `200000`, `200k`, `1.5M`.
///
/// # Errors
/// It is none, or is below 0.
pub fn number_of(word: &str) -> Result<f64, String> {
    let (digits, unit) = match word.strip_suffix(['k', 'K', 'm', 'M']) {
        Some(digits) => (digits, if word.ends_with(['k', 'K']) { 1e3 } else { 1e6 }),
        None => (word, 1.0),
    };
    let number: Option<f64> = digits.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0);
    number.map(|n| n * unit).ok_or_else(|| format!("`{word}` is no number such as 200000, 200k, 1.5M"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_command_line() {
        assert_eq!(["200000", "200k", "1.5M", "0"].map(|w| number_of(w).unwrap()), [2e5, 2e5, 1.5e6, 0.0]);
        assert!(["", "k", "-1", "nan", "inf", "ten"].iter().all(|w| number_of(w).is_err()));
    }
}
