//! How many cores a load needs: from measured curves, with the uncertainty of the answer.
//!
//! Owns: what a request and a handshake cost on so many cores, between and beyond what was measured, and what follows.
//! Never: measures; answers without a curve; hides that it goes beyond what was measured.
//! Driven by: `weir lab size`.
//! Why: a load balancer is sized by rates, but a rate that a generator could not exceed is none of the server's. So what is
//! reckoned with is the CPU time that each request takes, or the rate where the server itself was the limit. Beyond the cores
//! that were measured, scaling lies between perfect and that of the published reverse proxy (B6, bare metal).

mod curve;
mod text;

use crate::prices::{Machine, Prices};
use crate::report::guide::machines;
use crate::scenario::{Contender, Mode};
use anyhow::{Result, bail, ensure};
use curve::Curve;
use serde::Serialize;
use std::path::Path;

/// No answer is larger.
const MOST_CORES: u32 = 4096;

/// What is to be carried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// Requests a second.
    pub rps: f64,
    /// New TLS connections a second, each with a full handshake.
    pub tps: f64,
    /// The page, bytes.
    pub page: u64,
    /// What requests are: nothing for HTTPS where there are handshakes, and HTTP where there are none.
    pub mode: Option<Mode>,
    /// Share of the CPUs that is to stay free, 0 to 1.
    pub headroom: f64,
}

/// An answer's figure: the expected one, and both ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Span {
    /// Expected.
    pub expected: f64,
    /// If all is as well as it can be.
    pub low: f64,
    /// If all is as bad.
    pub high: f64,
}

/// A part of the load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// What it is.
    pub what: String,
    /// How many of it, a second.
    pub rate: f64,
    /// What each costs with the expected cores, microseconds of CPU.
    pub cost_us: Span,
    /// Where that was measured.
    pub source: String,
    /// What is beyond what was measured, in sentences.
    pub beyond: Vec<String>,
}

/// What a contender needs on a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The machine that was measured.
    pub machine: String,
    /// Who.
    pub contender: Contender,
    /// Whole cores.
    pub cores: Span,
    /// The cheapest machines with so many: how many, their name, the price of all. Nothing if the list has no such.
    pub hardware: Option<Hardware>,
    /// What makes it up.
    pub parts: Vec<Part>,
    /// What speaks against it.
    pub doubts: Vec<String>,
}

/// Machines to buy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hardware {
    /// How many for the expected cores.
    pub count: u32,
    /// Of which kind.
    pub name: String,
    /// What they cost together.
    pub price: f64,
    /// The same for the most cores that may be needed.
    pub at_most: (u32, String, f64),
}

/// Answers for every machine and contender that `dir` has curves of: a folder of results, or of a merged guide.
///
/// # Errors
/// The demand is none; there are no results; no contender has the curves that it takes.
pub fn answers(dir: &Path, demand: &Demand, prices: &Prices) -> Result<Vec<Answer>> {
    ensure!(demand.rps > 0.0 || demand.tps > 0.0, "nothing is demanded: give --rps, --tps or both");
    ensure!((0.0..1.0).contains(&demand.headroom), "the headroom is a share below 100%");
    let mut found = Vec::new();
    let mut lacking = Vec::new();
    for machine in machines(dir)? {
        for who in [Contender::Weir, Contender::Nginx, Contender::Haproxy] {
            match curves(&machine.report, who, demand) {
                Ok(curves) => found.extend(answer(&machine, who, &curves, demand, prices)?),
                Err(why) => lacking.push(format!("{}, {}: {why}", machine.name, who.name())),
            }
        }
    }
    if !found.iter().any(|a| a.contender == Contender::Weir) {
        let why = lacking.iter().find(|l| l.contains("weir")).map_or("", String::as_str);
        bail!("no curve to answer from in {}: {why}", dir.display());
    }
    Ok(found)
}

/// The curves of each part of the load, or what is lacking.
fn curves(
    report: &crate::report::Report,
    who: Contender,
    demand: &Demand,
) -> Result<Vec<(f64, Curve)>, String> {
    let mut curves = Vec::new();
    if demand.rps > 0.0 {
        let mode = demand.mode.unwrap_or(if demand.tps > 0.0 { Mode::Https } else { Mode::Http });
        let curve = Curve::of_requests(report, who, mode, demand.page)?;
        curves.push((demand.rps, curve));
    }
    if demand.tps > 0.0 {
        let curve = Curve::of_handshakes(report, who)
            .ok_or("TLS handshakes were not measured; `weir lab run B4` or B8 does")?;
        curves.push((demand.tps, curve));
    }
    Ok(curves)
}

fn answer(
    machine: &crate::report::guide::Measured,
    who: Contender,
    curves: &[(f64, Curve)],
    demand: &Demand,
    prices: &Prices,
) -> Result<Option<Answer>> {
    let solve = |pick: fn(&Span) -> f64| {
        (1..=MOST_CORES).find(|&cores| {
            let used: f64 =
                curves.iter().map(|(rate, c)| rate * pick(&c.cost_us(f64::from(cores))) / 1e6).sum();
            used <= f64::from(cores) * (1.0 - demand.headroom)
        })
    };
    let all = (solve(|s| s.expected), solve(|s| s.low), solve(|s| s.high));
    let (Some(expected), Some(low), Some(high)) = all else {
        bail!("{}, {}: {MOST_CORES} cores would not do", machine.name, who.name());
    };
    let parts = curves.iter().map(|(rate, curve)| Part {
        what: curve.what.clone(),
        rate: *rate,
        cost_us: curve.cost_us(f64::from(expected)),
        source: curve.source.clone(),
        beyond: curve.beyond(f64::from(expected)),
    });
    let mut doubts = Vec::new();
    if machine.report.debug_build && who == Contender::Weir {
        doubts.push("Weir was measured in a debug build: this is no measure of it".to_owned());
    }
    if machine.report.quick {
        doubts.push("the runs were quick ones".to_owned());
    }
    Ok(Some(Answer {
        machine: machine.name.clone(),
        contender: who,
        cores: Span { expected: f64::from(expected), low: f64::from(low), high: f64::from(high) },
        hardware: hardware(f64::from(expected), f64::from(high), prices),
        parts: parts.collect(),
        doubts,
    }))
}

fn hardware(expected: f64, high: f64, prices: &Prices) -> Option<Hardware> {
    let choose = |cores: f64| -> Option<(u32, &Machine)> {
        prices.machine(cores).map(|m| (1, m)).or_else(|| prices.several(cores))
    };
    let ((count, machine), (most, largest)) = (choose(expected)?, choose(high)?);
    Some(Hardware {
        count,
        name: machine.name.clone(),
        price: f64::from(count) * machine.price,
        at_most: (most, largest.name.clone(), f64::from(most) * largest.price),
    })
}

pub use text::{number_of, told};
