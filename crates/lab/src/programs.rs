//! The programs that take part, found on this machine.
//!
//! Owns: where they are, and which versions they are.
//! Never: starts one as a server.
//! Driven by: `run`.

use crate::scenario::Who;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders that are searched after those of `PATH`: servers live where users seldom look.
const MORE: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/nginx/sbin"];

/// Where each program is.
#[derive(Clone, Debug)]
pub struct Programs {
    /// Weir: a contender, the origin and the generator.
    pub weir: PathBuf,
    rivals: BTreeMap<Who, PathBuf>,
}

impl Programs {
    /// Finds what `contenders` need; `told` names programs that are not to be searched for.
    ///
    /// # Errors
    /// One is missing, or is not what it is called.
    pub fn find(weir: PathBuf, contenders: &[Who], told: &BTreeMap<Who, PathBuf>) -> Result<Self> {
        let mut rivals = BTreeMap::new();
        for &who in contenders.iter().filter(|w| matches!(w, Who::Nginx | Who::Haproxy)) {
            let name = who.name();
            let path = match told.get(&who) {
                Some(path) => path.clone(),
                None => Self::rival(who)?,
            };
            if !path.is_file() {
                bail!("--{name} {}: there is no such program", path.display());
            }
            // Servers run in folders of their own, so a relative path would lead elsewhere.
            let path = path.canonicalize().with_context(|| path.display().to_string())?;
            rivals.insert(who, path);
        }
        let found = Self { weir, rivals };
        found.versions()?;
        Ok(found)
    }

    /// Searches this machine for a rival.
    ///
    /// # Errors
    /// It is not there; the message names the remedies.
    pub fn rival(who: Who) -> Result<PathBuf> {
        let name = who.name();
        search(name).with_context(|| {
            format!(
                "{name} is not on this machine (searched PATH and {}): install it, name it with --{name} PROGRAM, or \
                 leave it out with --without {name}",
                MORE.join(", ")
            )
        })
    }

    /// The program of a contender.
    ///
    /// # Errors
    /// It was not searched for.
    pub fn of(&self, who: Who) -> Result<&Path> {
        match who {
            Who::Weir | Who::Direct => Ok(&self.weir),
            rival => {
                self.rivals.get(&rival).map(PathBuf::as_path).context("a contender that was not searched for")
            }
        }
    }

    /// The first line that each prints of its version.
    ///
    /// # Errors
    /// One cannot be run, or is another program.
    pub fn versions(&self) -> Result<BTreeMap<String, String>> {
        let mut versions = BTreeMap::new();
        versions.insert("weir".to_owned(), version(&self.weir, "--version", "weir")?);
        for (who, path) in &self.rivals {
            versions.insert(who.name().to_owned(), version(path, "-v", who.name())?);
        }
        Ok(versions)
    }
}

/// What stands in Weir's version where it was built without optimisation.
const DEVELOPMENT: &str = "development build";

impl Programs {
    /// Whether Weir was built without optimisation: its figures are no measure of it then.
    ///
    /// # Errors
    /// It does not tell.
    pub fn is_development(&self) -> Result<bool> {
        Ok(version(&self.weir, "--version", "weir")?.contains(DEVELOPMENT))
    }

    /// The commit that Weir was built from; empty if the build does not know it.
    ///
    /// # Errors
    /// It does not tell.
    pub fn commit(&self) -> Result<String> {
        let line = version(&self.weir, "--version", "weir")?;
        let commit = line.split_once("commit ").map(|(_, rest)| rest.split([',', ')']).next());
        Ok(commit.flatten().unwrap_or_default().to_owned())
    }

    /// The TLS library of each program, as far as it tells.
    #[must_use]
    pub fn tls_libraries(&self) -> BTreeMap<String, String> {
        let all = [(Who::Nginx, "-V", "built with "), (Who::Haproxy, "-vv", "Running on OpenSSL version : ")];
        let told = all.into_iter().filter_map(|(who, flag, mark)| {
            let output = Command::new(self.rivals.get(&who)?).arg(flag).output().ok()?;
            let text =
                [output.stdout, output.stderr].map(|t| String::from_utf8_lossy(&t).into_owned()).concat();
            let library = text.lines().find_map(|line| line.strip_prefix(mark))?.trim().to_owned();
            Some((who.name().to_owned(), library))
        });
        told.collect()
    }
}

fn search(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(MORE.map(PathBuf::from)).map(|d| d.join(name)).find(|p| p.is_file())
}

fn version(program: &Path, flag: &str, name: &str) -> Result<String> {
    let output = Command::new(program)
        .arg(flag)
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let text = [output.stdout, output.stderr].map(|t| String::from_utf8_lossy(&t).into_owned()).concat();
    let line = text.lines().next().unwrap_or_default().trim().to_owned();
    if !line.to_ascii_lowercase().contains(name) {
        bail!("{} is no {name}: it says `{line}`", program.display());
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_wrong_programs_are_told() {
        let find = |path: &str| {
            let told = BTreeMap::from([(Who::Nginx, PathBuf::from(path))]);
            Programs::find("/bin/true".into(), &[Who::Nginx], &told).unwrap_err().to_string()
        };
        assert!(find("/nowhere/nginx").contains("--nginx /nowhere/nginx: there is no such program"));
        assert!(find("/bin/true").contains("/bin/true is no weir"));
    }
}
