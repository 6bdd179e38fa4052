//! cargo-deny, and its database where that can be reached.
//!
//! Owns: which of its checks run.
//! Never: fails for want of a network: without the advisory database three checks of four remain.
//! Driven by: `make lint`.

use anyhow::{Result, bail};
use std::process::Command;
use std::time::Duration;
use weir_testkit::programs::run_for;

const ADVISORIES: &str = "https://github.com/RustSec/advisory-db";

/// Checks bans, licences and sources; advisories too if their database answers.
pub(crate) fn run() -> Result<()> {
    check(&["bans", "licenses", "sources"])?;
    if !reachable() {
        println!("advisories not checked: {ADVISORIES} cannot be reached");
        return Ok(());
    }
    check(&["advisories"])
}

fn check(what: &[&str]) -> Result<()> {
    let mut command = Command::new("cargo");
    // Warnings are for whoever looks; the log of a passing check stays short.
    command.args(["deny", "--log-level", "error", "check"]).args(what).current_dir(crate::build::root());
    if command.status()?.success() { Ok(()) } else { bail!("cargo deny check {} failed", what.join(" ")) }
}

fn reachable() -> bool {
    let mut command = Command::new("git");
    command.args(["ls-remote", "--exit-code", ADVISORIES, "HEAD"]).env("GIT_TERMINAL_PROMPT", "0");
    matches!(run_for(command, Duration::from_secs(15)), Ok((0, _)))
}
