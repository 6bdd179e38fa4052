//! Building Weir, and finding what was built.
//!
//! Owns: the cargo command lines of the other chores.
//! Never: guesses where cargo put a file: cargo says so.
//! Driven by: the demo and the benchmark.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The work tree.
pub(crate) fn root() -> &'static Path {
    // The folder above this crate's own.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Builds the `weir` binary in a profile and gives its path.
pub(crate) fn weir(profile: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root())
        .args(["build", "--package", "weir", "--bin", "weir", "--profile", profile])
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("weir does not build");
    }
    executable(&String::from_utf8_lossy(&output.stdout)).context("cargo did not say where weir is")
}

/// The last executable among cargo's messages, one JSON object a line.
fn executable(messages: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| Some(PathBuf::from(message.get("executable")?.as_str()?)))
        .next_back()
}

/// The first line of what a program prints about itself.
pub(crate) fn version_of(program: &Path, flag: &str) -> String {
    let printed = Command::new(program).arg(flag).output().map(|o| [o.stdout, o.stderr].concat());
    let text = String::from_utf8_lossy(&printed.unwrap_or_default()).into_owned();
    text.lines().next().unwrap_or("unknown").trim().to_owned()
}
