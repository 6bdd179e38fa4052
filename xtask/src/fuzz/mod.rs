//! A smoke run of every parser on spoiled input, on stable Rust.
//!
//! Owns: the loop, its clock, and telling which input broke what.
//! Never: judges what a parser says, only that it comes back, soon by the time that it worked, and without a panic.
//! Driven by: `make fuzz`, and by `cargo test` with a fixed number of inputs.

mod corpus;
mod guided;
mod mutate;
#[cfg(test)]
mod parsers;
mod targets;

use anyhow::{Result, bail};
use mutate::{Random, mutate};
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub(crate) use guided::{Options as GuidedOptions, run as run_guided};

/// One parser with its corpus. `run` panics where a property does not hold.
struct Target {
    name: &'static str,
    corpus: Vec<Vec<u8>>,
    run: targets::Run,
}

fn all() -> impl Iterator<Item = Target> {
    targets::all().into_iter().map(|(name, run)| Target { name, corpus: corpus::of(name), run })
}

/// How the smoke run goes.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seconds for each parser
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// The run to repeat (a new one each time unless told)
    #[arg(long)]
    seed: Option<u64>,
    /// Only parsers whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Writes each input to .fuzz/current first: finds what ends the process without a panic
    #[arg(long)]
    trace: bool,
}

/// An input of at most 64 KB that takes longer found something quadratic, or worse.
const SLOW: Duration = Duration::from_secs(2);

/// Fails with the first input that a parser did not survive.
pub(crate) fn run(options: &Options) -> Result<()> {
    let seed = options.seed.unwrap_or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |t| t.as_nanos() as u64)
    });
    println!("seed {seed}");
    for target in all().filter(|t| t.name.contains(&options.only)) {
        let until = Instant::now() + Duration::from_secs_f64(options.seconds);
        let trace = options.trace.then(|| keep("current", &[])).transpose()?;
        let count = survive(&target, seed, trace.as_deref(), |_| Instant::now() < until)?;
        println!("{:<24}{count} inputs", target.name);
    }
    Ok(())
}

/// Feeds `target` its corpus and then spoiled input while `more` says so; counts what it survived.
fn survive(
    target: &Target,
    seed: u64,
    trace: Option<&std::path::Path>,
    more: impl Fn(usize) -> bool,
) -> Result<usize> {
    let corpus: Vec<&[u8]> = target.corpus.iter().map(Vec::as_slice).collect();
    for entry in &corpus {
        try_one(target, entry)?;
    }
    let mut random = Random::seeded(seed);
    let mut count = 0;
    while more(count) {
        let input = mutate(&corpus, &mut random);
        if let Some(path) = trace {
            std::fs::write(path, &input)?;
        }
        try_one(target, &input)?;
        count += 1;
    }
    Ok(count)
}

fn try_one(target: &Target, input: &[u8]) -> Result<()> {
    let begun = cpu_time();
    let run = target.run;
    let panicked = catch_unwind(|| run(input)).is_err();
    let took = cpu_time().saturating_sub(begun);
    if panicked {
        bail!("{} panicked on {}", target.name, keep(target.name, input)?.display());
    }
    if took > SLOW {
        bail!("{} took {took:?} on {}", target.name, keep(target.name, input)?.display());
    }
    Ok(())
}

/// What this thread has worked so far: a busy machine makes no input slow.
fn cpu_time() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(spent).unwrap_or_default()
}

/// Keeps an input under .fuzz/.
fn keep(name: &str, input: &[u8]) -> Result<PathBuf> {
    let dir = crate::build::root().join(".fuzz");
    std::fs::create_dir_all(&dir)?;
    let path = dir.join(name.replace([' ', '/', ':'], "-"));
    std::fs::write(&path, input)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A range of ports makes tens of thousands of listeners, and a list of addresses is long as well.
    #[test]
    fn many_listeners_are_no_work() {
        let listens: String = (1..60_000).map(|n| format!("listen 127.0.0.1:{n};")).collect();
        let texts = [
            "events {} http { server { listen 1-65535; } }".to_owned(),
            "events {} stream { server { listen 1-65535; return x; } }".to_owned(),
            format!("events {{}} http {{ server {{ {listens} }} }}"),
        ];
        let nginx = all().find(|target| target.name == "nginx_plan").expect("there is one");
        for text in texts {
            try_one(&nginx, text.as_bytes()).expect("it is read, soon");
        }
    }

    /// Enough to notice a parser that fell over, little enough for every test run.
    const INPUTS: usize = 3_000;

    #[test]
    fn parsers_survive_spoiled_input() {
        for target in all() {
            let until = Instant::now() + Duration::from_secs(5);
            // A fixed seed: a failure here repeats.
            let survived = survive(&target, 1, None, |n| n < INPUTS && Instant::now() < until);
            survived.unwrap_or_else(|why| panic!("{why:#}"));
        }
    }
}
