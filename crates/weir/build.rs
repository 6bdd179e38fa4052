//! What `weir --version` says beside the number: the commit, or that it is a development build.
//!
//! Why: a figure means nothing without the build it was measured on. Development builds do not ask for the commit, so that
//! a commit makes nobody build again.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let number = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let optimised = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let build =
        if optimised { commit().map(|c| format!("commit {c}")) } else { Some("development build".into()) };
    let version = build.map_or(number.clone(), |build| format!("{number} ({build})"));
    println!("cargo:rustc-env=WEIR_VERSION={version}");
}

/// The commit, and whether files differ from it; nothing outside of a repository.
fn commit() -> Option<String> {
    // The log of HEAD grows with each commit; the index changes when files are taken into one.
    for file in ["logs/HEAD", "index"] {
        let path = git(&["rev-parse", "--git-path", file])?;
        if Path::new(&path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
}

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok().filter(|o| o.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
