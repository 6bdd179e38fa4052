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
    built(cargo().args(["--profile", profile]))
}

/// Builds the `weir` binary in the profile `dist` with one more flag of rustc's, in a target folder of its own.
pub(crate) fn weir_with(target: &Path, flag: &str) -> Result<PathBuf> {
    // What the user says for all builds stays; a target that is named keeps flags away from build scripts.
    let flags = [std::env::var("RUSTFLAGS").unwrap_or_default(), flag.to_owned()].join(" ");
    built(
        cargo()
            .args(["--profile", "dist", "--target", &host()?, "--target-dir"])
            .arg(target)
            .env("RUSTFLAGS", flags.trim()),
    )
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> Result<PathBuf> {
    let output = Command::new(cargo_program())
        .current_dir(root())
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    Ok(PathBuf::from(metadata["target_directory"].as_str().context("cargo did not say where it builds")?))
}

/// The platform that rustc builds for unless told.
pub(crate) fn host() -> Result<String> {
    let output = Command::new("rustc").current_dir(root()).arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find_map(|l| l.strip_prefix("host: ")).map(str::to_owned).context("rustc names no host")
}

fn cargo_program() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn cargo() -> Command {
    let mut command = Command::new(cargo_program());
    command
        .current_dir(root())
        .args(["build", "--package", "weir", "--bin", "weir"])
        .args(["--message-format", "json-render-diagnostics"]);
    command
}

fn built(command: &mut Command) -> Result<PathBuf> {
    let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
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
