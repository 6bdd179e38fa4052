//! What make and CI do, as one program: `cargo xtask …`.
//!
//! Owns: the benchmark, the count of instructions, packages, the demo, tidiness, the fuzz smoke run, and installing what they need.
//! Never: is part of what users run; nothing of ours depends on it.
//! Driven by: the Makefile, `.ci/run`, people.
#![forbid(unsafe_code)]

mod bench;
mod build;
mod claims;
mod count;
mod demo;
mod deny;
mod deps;
mod dist;
mod floors;
mod fuzz;
mod listening;
mod package;
mod tidy;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The project's own chores.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Options {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Measures Weir's CPU per request beside Debian's nginx and haproxy
    Bench(bench::Options),
    /// Counts user instructions per request with callgrind, and holds them to their budgets
    Count(count::Options),
    /// Builds the weir that is measured and released: optimised for the whole program, by a profile
    Dist(dist::Options),
    /// Writes Debian packages, a container image's folder and a list of parts
    Package(package::Options),
    /// Installs the programs that tests, benchmark or lints need
    Deps(deps::Options),
    /// Runs cargo-deny: bans, licences, sources, and advisories where they can be had
    Deny,
    /// Checks what the compiler does not: headers, sizes, who imports whom
    Tidy,
    /// Feeds spoiled input to every parser for a while
    FuzzSmoke(fuzz::Options),
    /// Feeds every parser what reaches new places in it, under libFuzzer
    Fuzz(fuzz::GuidedOptions),
    /// Starts three web servers and a load balancer, sends load, shows what came of it
    Demo(demo::Options),
}

fn main() -> ExitCode {
    let done = match Options::parse().chore {
        Chore::Bench(options) => bench::run(&options),
        Chore::Count(options) => count::run(&options),
        Chore::Dist(options) => dist::run(&options),
        Chore::Package(options) => package::run(&options),
        Chore::Deps(options) => deps::run(&options),
        Chore::Deny => deny::run(),
        Chore::Tidy => tidy::run(),
        Chore::FuzzSmoke(options) => fuzz::run(&options),
        Chore::Fuzz(options) => fuzz::run_guided(&options),
        Chore::Demo(options) => demo::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // One line, and no backtrace: these errors speak of the machine, not of this program.
            eprintln!("{why:#}");
            ExitCode::FAILURE
        }
    }
}
