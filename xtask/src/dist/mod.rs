//! The binary that is measured and released, arranged by what a workout of it has shown.
//!
//! Owns: the two builds, and the profile between them.
//! Never: changes what the program does: a profile only tells the compiler which code is hot.
//! Driven by: `make dist`, `make bench`.
//! Why: a proxied request passes through more code than a processor's first cache holds. With the hot parts side by side
//! and the rest out of the way it misses that cache a quarter less often, and runs a seventh fewer instructions.
//!
//! ```text
//!   build with counters ── workout (train) ── merge ── build with the profile ── target/dist/weir
//! ```

mod tool;
mod train;

use crate::build;
use anyhow::{Context, Result, bail};
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How it is built.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Without a profile: half the time, and some percent more CPU per request
    #[arg(long)]
    plain: bool,
    /// By a profile that was kept, instead of one of a new workout: the same build again
    #[arg(long, value_name = "FILE", conflicts_with = "plain")]
    profile: Option<PathBuf>,
}

/// Builds it, and says where it is.
pub(crate) fn run(options: &Options) -> Result<()> {
    let weir = match &options.profile {
        _ if options.plain => build::weir("dist")?,
        Some(profile) => by(&kept(profile)?)?,
        None => weir()?,
    };
    println!("{}", weir.display());
    Ok(())
}

/// The guided build; the plain one where the tool for profiles cannot be had.
pub(crate) fn weir() -> Result<PathBuf> {
    let tool = match tool::find() {
        Ok(tool) => tool,
        Err(why) => {
            eprintln!(
                "{why:#}; weir is built without a profile, which costs some percent of CPU per request"
            );
            return build::weir("dist");
        }
    };
    let place = place()?;
    let counting = build::weir_with(&place.join("counting"), "-Cprofile-generate")?;
    // The profile's name is that of the program it was made by: cargo builds anew when the name changes, not the content.
    let profile = place.join(format!("{:016x}.profdata", fingerprint(&counting)?));
    if !profile.exists() {
        make(&tool, &counting, &profile)?;
    }
    by(&profile)
}

fn place() -> Result<PathBuf> {
    Ok(build::target_directory()?.join("guided"))
}

/// A profile from elsewhere, where a workout would have left it: its path is part of what names symbols.
fn kept(profile: &Path) -> Result<PathBuf> {
    let name = profile.file_name().context("a profile is a file")?;
    let own = place()?.join(name);
    if own.canonicalize().ok() != Some(profile.canonicalize().with_context(|| profile.display().to_string())?)
    {
        std::fs::create_dir_all(place()?)?;
        std::fs::copy(profile, &own).with_context(|| format!("cannot copy {}", profile.display()))?;
    }
    Ok(own)
}

/// Builds it by a profile.
fn by(profile: &Path) -> Result<PathBuf> {
    let flag = format!("-Cprofile-use={}", profile.display());
    let built = build::weir_with(&place()?.join("final"), &flag)?;
    let weir = build::target_directory()?.join("dist/weir");
    std::fs::create_dir_all(weir.parent().context("it has a folder")?)?;
    // Another name and a rename: a program that runs cannot be written over.
    let beside = weir.with_extension("new");
    std::fs::copy(&built, &beside).context("cannot copy weir")?;
    std::fs::rename(&beside, &weir)?;
    Ok(weir)
}

fn fingerprint(file: &Path) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    hasher.write(&std::fs::read(file)?);
    Ok(hasher.finish())
}

/// Runs the workout, and merges what its processes wrote.
fn make(tool: &Path, counting: &Path, profile: &Path) -> Result<()> {
    let raw = tempfile::Builder::new().prefix("weir-profile-").tempdir()?;
    train::run(counting, raw.path())?;
    let parts: Vec<PathBuf> = std::fs::read_dir(raw.path())?.map(|e| Ok(e?.path())).collect::<Result<_>>()?;
    if parts.is_empty() {
        bail!("the workout left no profile");
    }
    let merged = Command::new(tool).args(["merge", "--sparse", "-o"]).arg(profile).args(&parts).output()?;
    if !merged.status.success() {
        bail!("{}: {}", tool.display(), String::from_utf8_lossy(&merged.stderr).trim());
    }
    Ok(())
}
