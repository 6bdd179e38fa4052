//! What packages are made of.
//!
//! Owns: files as data, what all packages of a run share, and running the programs that make them.
//! Driven by: the other files of this folder.

use anyhow::{Context, Result, bail};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// A file of a package.
pub(super) struct Entry {
    /// Where it is installed, without the leading slash.
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) content: Content,
}

/// What a file of a package is.
pub(super) enum Content {
    Bytes(Vec<u8>),
    /// Copied: a program is large.
    File(PathBuf),
    Link(&'static str),
}

/// A file that everybody may read.
pub(super) fn entry(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Entry {
    Entry { path: path.into(), mode: 0o644, content: Content::Bytes(content.into()) }
}

/// A symbolic link.
pub(super) fn link(path: &str, to: &'static str) -> Entry {
    Entry { path: path.into(), mode: 0o777, content: Content::Link(to) }
}

/// What all packages of one run share.
pub(super) struct Release {
    /// As `weir --version` has it.
    pub(super) number: String,
    pub(super) epoch: u64,
    pub(super) compression: String,
    pub(super) architecture: String,
}

/// The revision of the packaging, after Weir's own number.
const REVISION: &str = "1";

impl Release {
    /// As Debian writes it.
    pub(super) fn debian_version(&self) -> String {
        format!("{}-{REVISION}", self.number)
    }
}

/// Without a name or a time in it.
pub(super) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let written = encoder.write_all(content).and_then(|()| encoder.finish());
    written.unwrap_or_default()
}

/// What a program that must succeed prints, without the end of the line.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        bail!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
