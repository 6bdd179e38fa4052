//! The tool that merges profiles.
//!
//! Owns: where it is, and getting it.
//! Never: takes one of another LLVM than the compiler's: profiles of one version mean nothing to another.
//! Driven by: `dist`.

use crate::{build, deps};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// The tool that merges profiles, in the version that belongs to the compiler.
///
/// # Errors
/// It is not there, and cannot be installed.
pub(super) fn find() -> Result<PathBuf> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().context("cannot run rustc")?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
    let of_rustup = sysroot.join("lib/rustlib").join(build::host()?).join("bin/llvm-profdata");
    if of_rustup.exists() {
        return Ok(of_rustup);
    }
    println!("installing llvm-tools, which merges profiles");
    let added = Command::new("rustup").args(["component", "add", "llvm-tools"]).output();
    if added.is_ok_and(|o| o.status.success()) && of_rustup.exists() {
        return Ok(of_rustup);
    }
    // A compiler from Debian's packages: LLVM of the same major version knows its profiles.
    let major = llvm_major().context("rustc does not tell its LLVM")?;
    let of_debian = PathBuf::from(format!("/usr/lib/llvm-{major}/bin/llvm-profdata"));
    if !of_debian.exists() {
        deps::install(&[&format!("llvm-{major}")])?;
    }
    if of_debian.exists() { Ok(of_debian) } else { bail!("llvm-profdata of LLVM {major} is missing") }
}

fn llvm_major() -> Option<String> {
    let output = Command::new("rustc").arg("-vV").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.lines().find_map(|l| l.strip_prefix("LLVM version: "))?;
    Some(version.split('.').next()?.to_owned())
}
