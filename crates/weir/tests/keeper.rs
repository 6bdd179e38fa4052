//! The life of the process: real processes, signals, sockets and files around a data plane that only says who it is.
//!
//! This program is both: called with the variables of the runner it is `weir` (or, through a link, nginx or haproxy)
//! with the double of `life/double.rs`; without them it runs the tests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "life/cases.rs"]
mod cases;
#[path = "life/debian.rs"]
mod debian;
#[path = "life/defence.rs"]
mod defence;
#[path = "life/double.rs"]
mod double;
#[path = "life/scene.rs"]
mod scene;
#[path = "life/streams.rs"]
mod streams;
#[path = "life/takeover.rs"]
mod takeover;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode};

/// Set for every process that is to be `weir`.
const PROGRAM: &str = "WEIR_TEST_PROGRAM";

/// A test by name.
type Case = (&'static str, fn());

fn main() -> ExitCode {
    if std::env::var_os(PROGRAM).is_some() {
        return weir::main_with(double::start);
    }
    let cases: Vec<Case> = [cases::ALL, defence::ALL, streams::ALL, debian::ALL].concat();
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        cases.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    // `cargo test WORD` passes the word on; flags of the usual harness mean nothing here.
    let filters: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let chosen = cases
        .iter()
        .filter(|(name, _)| filters.is_empty() || filters.iter().any(|f| name.contains(f.as_str())));
    let failed: Vec<&str> = chosen.filter(|case| !run(case)).map(|(name, _)| *name).collect();
    match failed.as_slice() {
        [] => ExitCode::SUCCESS,
        failed => {
            eprintln!("failed: {}", failed.join(", "));
            ExitCode::FAILURE
        }
    }
}

fn run((name, body): &Case) -> bool {
    let passed = catch_unwind(AssertUnwindSafe(body)).is_ok();
    println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
    passed
}

/// This program as `weir`.
pub(crate) fn program() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a process knows its file"));
    command.env(PROGRAM, "1");
    command
}
