//! What a distribution installs: Debian packages, the folder a container image is built from, and the list of parts.
//!
//! Owns: which files there are, and where each lies on the machine that it is installed on.
//! Never: builds Weir in a way of its own: that is `dist`; reads a clock or the machine's name.
//! Driven by: `cargo xtask package`; the test `packages`.
//! Why: two runs over one program must give the same bytes, so each name, mode, owner and time is written here. A package is
//! made by dpkg-deb, which every machine has that can install it.
//!
//! ```text
//!   weir ── command line ── manual pages, completions ─┐
//!        ── cargo metadata ── list of parts ───────────┼── files ── dpkg-deb ── *.deb
//!   packaging/ ── units, scripts, configuration ───────┘        └── container/
//! ```

mod debian;
mod file;
mod pages;
mod parts;

use crate::build;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

use debian::{Package, Relation};
use file::{Content, Entry, Release, entry, link, output};

/// What is packaged, and where it is put.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Package this program, instead of the one that `make dist` builds
    #[arg(long, value_name = "PROGRAM")]
    weir: Option<PathBuf>,
    /// Where packages are put; `package` in cargo's target folder unless told
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Compression of the packages: xz is small, gzip quick
    #[arg(long, default_value = "xz", value_parser = ["xz", "gzip", "none"])]
    compression: String,
    /// The time that all files get, in seconds since 1970; the last commit's unless told
    #[arg(long, value_name = "SECONDS", env = "SOURCE_DATE_EPOCH")]
    epoch: Option<u64>,
}

/// Writes everything, and says what.
pub(crate) fn run(options: &Options) -> Result<()> {
    let weir = match &options.weir {
        Some(weir) => weir.canonicalize().with_context(|| format!("no program {}", weir.display()))?,
        None => crate::dist::weir()?,
    };
    let to = match &options.to {
        Some(to) => to.clone(),
        None => build::target_directory()?.join("package"),
    };
    let release = Release {
        number: env!("CARGO_PKG_VERSION").to_owned(),
        epoch: options.epoch.map_or_else(last_commit, Ok)?,
        compression: options.compression.clone(),
        architecture: output(Command::new("dpkg").arg("--print-architecture"))?,
    };
    // What was there before would be taken for part of this.
    if to.exists() {
        std::fs::remove_dir_all(&to).with_context(|| format!("cannot empty {}", to.display()))?;
    }
    std::fs::create_dir_all(&to).with_context(|| format!("cannot make {}", to.display()))?;
    let work = tempfile::Builder::new().prefix("weir-package-").tempdir()?;
    let stripped = work.path().join("stripped");
    strip(&weir, &stripped)?;
    let parts = parts::list(&release)?;
    std::fs::write(to.join(format!("weir_{}.cdx.json", release.number)), &parts)?;
    for package in packages(&weir, &stripped, &parts)? {
        debian::write(&package, &release, work.path(), &to)?;
    }
    container(&stripped, &to.join("container"))?;
    let sums = debian::sums(&to)?;
    std::fs::write(to.join("SHA256SUMS"), &sums)?;
    print!("{sums}");
    println!("{}", to.display());
    Ok(())
}

/// The packages, from the program itself and what is in `packaging/`.
fn packages(weir: &Path, stripped: &Path, parts: &[u8]) -> Result<Vec<Package>> {
    let mut files = vec![
        Entry { path: "usr/bin/weir".into(), mode: 0o755, content: Content::File(stripped.to_owned()) },
        entry("usr/lib/systemd/system/weir.service", source("systemd/weir.service")?),
        entry("usr/lib/systemd/system/weir.socket", source("systemd/weir.socket")?),
        entry("usr/lib/sysusers.d/weir.conf", source("etc/weir.sysusers")?),
        entry("etc/logrotate.d/weir", source("etc/weir.logrotate")?),
        entry("etc/default/weir", source("etc/weir.default")?),
        entry("etc/weir/weir.conf", source("etc/weir.conf")?),
        entry("usr/share/weir/html/index.html", source("etc/index.html")?),
        entry("usr/share/doc/weir/weir.cdx.json", parts),
    ];
    files.extend(pages::all());
    let own = Package {
        name: "weir",
        section: "httpd",
        relations: vec![
            Relation::Needs(debian::libraries(stripped)?),
            Relation::Suggests("logrotate".into()),
            Relation::Recommends("ca-certificates".into()),
        ],
        summary: "load balancer, reverse proxy and web server",
        description: "Weir reads nginx.conf and haproxy.cfg and does the work of those programs. \
            This package installs beside both of them and starts nothing by itself.",
        files,
        machine: true,
    };
    // Others ask for a version of the program that this stands in for: what it says itself.
    let nginx = stands_for(weir, "nginx", "nginx/")?;
    let as_nginx = Package {
        name: "weir-as-nginx",
        section: "httpd",
        relations: vec![
            Relation::Needs("weir (= {version}), nginx-common".into()),
            Relation::Provides(format!("nginx (= {nginx}), httpd, httpd-cgi")),
            Relation::Conflicts("nginx".into()),
            Relation::Replaces("nginx".into()),
        ],
        summary: "Weir in the place of nginx",
        description: "Puts Weir at /usr/sbin/nginx. The unit, the init script, logrotate's rules and the \
            configuration stay those of the package nginx-common, unchanged.",
        files: vec![
            link("usr/sbin/nginx", "../bin/weir"),
            link("usr/share/man/man8/nginx.8.gz", "../man1/weir-nginx.1.gz"),
        ],
        machine: false,
    };
    let haproxy = stands_for(weir, "haproxy", "HAProxy version ")?;
    let as_haproxy = Package {
        name: "weir-as-haproxy",
        section: "net",
        relations: vec![
            Relation::Needs("weir (= {version})".into()),
            Relation::Provides(format!("haproxy (= {haproxy})")),
            Relation::Conflicts("haproxy".into()),
            Relation::Replaces("haproxy".into()),
        ],
        summary: "Weir in the place of HAProxy",
        description: "Puts Weir at /usr/sbin/haproxy, with a unit that is called haproxy.service as well. \
            A configuration in /etc/haproxy stays as it is.",
        files: vec![
            link("usr/sbin/haproxy", "../bin/weir"),
            link("usr/share/man/man1/haproxy.1.gz", "weir-haproxy.1.gz"),
            entry(
                "usr/lib/systemd/system/weir-as-haproxy.service",
                source("systemd/weir-as-haproxy.service")?,
            ),
            entry("usr/lib/sysusers.d/weir-as-haproxy.conf", source("etc/weir-as-haproxy.sysusers")?),
            entry("usr/lib/tmpfiles.d/weir-as-haproxy.conf", source("etc/weir-as-haproxy.tmpfiles")?),
            entry("usr/share/weir/haproxy.cfg", source("etc/haproxy.cfg")?),
        ],
        machine: false,
    };
    Ok(vec![own, as_nginx, as_haproxy])
}

/// What the recipe of a container image is run beside.
fn container(program: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    std::fs::copy(program, to.join("weir")).context("cannot copy weir")?;
    for (name, from) in [
        ("Dockerfile", "container/Dockerfile"),
        ("weir.conf", "container/weir.conf"),
        ("index.html", "etc/index.html"),
    ] {
        std::fs::write(to.join(name), source(from)?)?;
    }
    Ok(())
}

/// A file of `packaging/`.
fn source(name: &str) -> Result<Vec<u8>> {
    let path = build::root().join("packaging").join(name);
    std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Leaves out what only a debugger reads.
fn strip(program: &Path, to: &Path) -> Result<()> {
    crate::deps::have("strip", "binutils")?;
    output(
        Command::new("strip")
            .args(["--strip-unneeded", "--remove-section=.comment", "-o"])
            .arg(to)
            .arg(program),
    )?;
    Ok(())
}

/// The version of `program` that Weir calls itself in that program's manner: what follows `before`.
fn stands_for(weir: &Path, program: &str, before: &str) -> Result<String> {
    let output = Command::new(weir).args([program, "-v"]).output().context("cannot run weir")?;
    // nginx prints its version on standard error.
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    version(&said, before).with_context(|| format!("no version in: {said}"))
}

fn version(said: &str, before: &str) -> Option<String> {
    let (_, rest) = said.split_once(before)?;
    let number: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    (!number.is_empty()).then_some(number)
}

fn last_commit() -> Result<u64> {
    let time = output(Command::new("git").current_dir(build::root()).args(["log", "-1", "--format=%ct"]))
        .context("set SOURCE_DATE_EPOCH outside of a repository")?;
    time.parse().context("git log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_stood_for_is_what_other_programs_would_read() {
        let nginx = "nginx version: nginx/1.31.0 (Weir 0.1.0)\n";
        assert_eq!(version(nginx, "nginx/").as_deref(), Some("1.31.0"));
        let haproxy = "HAProxy version 3.4.0-weir0.1.0 - Weir in HAProxy's manner";
        assert_eq!(version(haproxy, "HAProxy version ").as_deref(), Some("3.4.0"));
        assert_eq!(version("no such word", "nginx/"), None);
    }
}
