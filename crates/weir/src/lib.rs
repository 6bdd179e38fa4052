//! The binary's own parts: command line, life of the process, the joint between front ends and data plane.
//!
//! Owns: `main`'s work, in modules that tests can reach.
//! Never: carries traffic; the data plane is given to [`main_with`].
//! Driven by: `main.rs`.
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | [`adapter`], `pages` | the engine behind the seam |
//! | `cli` | command lines of weir, nginx and haproxy |
//! | `launch` | what they ask for, as data |
//! | `compile` | texts → model → plan, recorded so that it can be repeated without rights |
//! | `console` | sockets for commands while running |
//! | `door` | the admin API, and who may use it |
//! | `counted`, `state` | files by which counters and changes outlive the process |
//! | `life` | start, signals, sockets, logs, pid file, reload, end |
//! | `keeper` | the split into a parent with rights and a data plane without |
//! | [`plane`] | the seam to the data plane |
//! | [`fuzzing`] | parsers of what other processes say, for the fuzzer |
//! | `output` | standard output and error, which may fail |
//! | `report` | findings and log lines in each program's own form |

#![forbid(unsafe_code)]

#[macro_use]
mod output;

pub mod adapter;
mod cli;
mod compile;
mod console;
mod counted;
mod door;
pub mod fuzzing;
mod issuing;
mod keeper;
mod launch;
mod life;
mod pages;
mod peers;
pub mod plane;
mod report;
mod role;
mod state;

use std::process::ExitCode;

use role::Role;

/// The definition of `weir`'s command line, from which packages make manual pages and completions.
#[must_use]
pub fn command_line() -> clap::Command {
    cli::definition()
}

/// The whole program, around the data plane that `start` makes.
pub fn main_with(start: plane::Start) -> ExitCode {
    match Role::of_this_process() {
        Role::Front | Role::Daemon => cli::run(start),
        Role::Plane => keeper::plane::run(start),
        Role::Resolver => match keeper::resolver::helper() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
    }
}
