//! Fuzzing that is guided by coverage, on stable Rust.
//!
//! Owns: the compiler flags, the corpora on disk, running libFuzzer on one target after the other.
//! Never: is needed for a build or a test: libFuzzer is C++, and compiled for this alone.
//! Driven by: `cargo xtask fuzz`.
//! Why a wrapper around rustc: only crates of ours are instrumented, those that they depend on are used as they are built.

use anyhow::{Context, Result, bail};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// What libFuzzer wants of the compiler: counters at each edge, and the operands of comparisons. Scripts of builds run
/// without libFuzzer, so they have none.
const WRAPPER: &str = "#!/bin/sh
case \" $* \" in *' --crate-name build_script_build '*) exec \"$@\" ;; esac
exec \"$@\" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \\
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \\
    -Cllvm-args=-sanitizer-coverage-trace-compares
";

/// How a guided run goes.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seconds for each parser
    #[arg(long, default_value_t = 600)]
    seconds: u32,
    /// Only parsers whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Only build, and write the corpora
    #[arg(long)]
    prepare: bool,
}

/// Fails with the first target in which something was found. Inputs are kept under .fuzz/.
pub(crate) fn run(options: &Options) -> Result<()> {
    let root = crate::build::root();
    let folder = root.join(".fuzz");
    build(&folder)?;
    let program = crate::build::target_directory()?.join("debug/fuzz");
    for target in super::all().filter(|target| target.name.contains(&options.only)) {
        let corpus = folder.join("corpus").join(target.name);
        std::fs::create_dir_all(&corpus)?;
        for (at, entry) in target.corpus.iter().enumerate() {
            std::fs::write(corpus.join(format!("seed-{at}")), entry)?;
        }
        if options.prepare {
            continue;
        }
        println!("{}: {} s", target.name, options.seconds);
        let status = Command::new("nice")
            .args(["-n", "19"])
            .arg(&program)
            .arg(&corpus)
            .arg(format!("-max_total_time={}", options.seconds))
            .args([
                "-max_len=16384",
                "-timeout=10",
                "-rss_limit_mb=2048",
                "-print_final_stats=1",
                "-verbosity=0",
            ])
            .arg(format!("-artifact_prefix={}/{}-", folder.display(), target.name))
            .env("WEIR_FUZZ", target.name)
            .status()
            .context("cannot run libFuzzer's program")?;
        if !status.success() {
            bail!("{}: {status}; its input is in {}", target.name, folder.display());
        }
    }
    Ok(())
}

fn build(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let wrapper = folder.join("rustc-with-coverage");
    std::fs::write(&wrapper, WRAPPER)?;
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755))?;
    let status = Command::new("cargo")
        .args(["build", "--package", "xtask", "--bin", "fuzz", "--features", "coverage"])
        .current_dir(crate::build::root())
        .env("RUSTC_WORKSPACE_WRAPPER", &wrapper)
        .status()?;
    if status.success() { Ok(()) } else { bail!("the fuzzer cannot be built") }
}
