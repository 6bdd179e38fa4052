//! The programs that take part, found on this machine.
//!
//! Owns: where they are, and which versions they are.
//! Never: starts one as a server.
//! Driven by: `run`.

use crate::contender::{Contender, Driver, Kind, Rival};
use anyhow::{Context, Result, bail, ensure};
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
    /// How its sockets are driven where it is measured; nothing: as it does unless told.
    pub driver: Option<Driver>,
    /// The other generator, where one is wanted.
    pub wrk: Option<PathBuf>,
    rivals: BTreeMap<Contender, (Kind, PathBuf)>,
}

impl Programs {
    /// Finds what `contenders` need; `told` names programs that are not to be searched for, `more` are further rivals.
    ///
    /// # Errors
    /// One is missing, or is not what it is called.
    pub fn find(
        weir: PathBuf,
        contenders: &[Contender],
        told: &BTreeMap<Contender, PathBuf>,
        more: &[Rival],
    ) -> Result<Self> {
        // Servers run in folders of their own, so a relative path would lead elsewhere.
        let there = |option: String, path: &Path| {
            ensure!(path.is_file(), "{option} {}: there is no such program", path.display());
            path.canonicalize().with_context(|| path.display().to_string())
        };
        let mut rivals = BTreeMap::new();
        for &who in contenders {
            let kind = match who {
                Contender::Nginx => Kind::Nginx,
                Contender::Haproxy => Kind::Haproxy,
                _ => continue,
            };
            let path = match told.get(&who) {
                Some(path) => path.clone(),
                None => Self::rival(who)?,
            };
            rivals.insert(who, (kind, there(format!("--{}", who.name()), &path)?));
        }
        for rival in more {
            let path = there(format!("--rival {}={}:", rival.who.name(), rival.kind.name()), &rival.path)?;
            if rivals.insert(rival.who, (rival.kind, path)).is_some() {
                bail!("--rival: two are called `{}`", rival.who.name());
            }
        }
        let found = Self { weir, driver: None, wrk: None, rivals };
        found.versions()?;
        Ok(found)
    }

    /// Searches this machine for a rival.
    ///
    /// # Errors
    /// It is not there; the message names the remedies.
    pub fn rival(who: Contender) -> Result<PathBuf> {
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
    pub fn of(&self, who: Contender) -> Result<&Path> {
        match who.kind() {
            Some(Kind::Weir) => Ok(&self.weir),
            _ => {
                let found = self.rivals.get(&who).map(|(_, path)| path.as_path());
                found.context("a contender that was not searched for")
            }
        }
    }

    /// The kind of a contender's program.
    ///
    /// # Errors
    /// It was not searched for.
    pub fn kind(&self, who: Contender) -> Result<Kind> {
        let found = who.kind().or_else(|| self.rivals.get(&who).map(|(kind, _)| *kind));
        found.context("a contender that was not searched for")
    }

    /// How the sockets of a Weir are driven; nothing: as it does unless told.
    #[must_use]
    pub fn driver(&self, who: Contender) -> Option<Driver> {
        if who == Contender::WeirEpoll { Some(Driver::Epoll) } else { self.driver }
    }

    /// The first line that each prints of its version.
    ///
    /// # Errors
    /// One cannot be run, or is another program.
    pub fn versions(&self) -> Result<BTreeMap<String, String>> {
        let mut versions = BTreeMap::new();
        versions.insert("weir".to_owned(), version(&self.weir, "--version", "weir")?);
        for (who, (kind, path)) in &self.rivals {
            let flag = if *kind == Kind::Weir { "--version" } else { "-v" };
            versions.insert(who.name().to_owned(), version(path, flag, kind.name())?);
        }
        if let Some(wrk) = &self.wrk {
            versions.insert("wrk".to_owned(), version(wrk, "-v", "wrk")?);
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
        let told = self.rivals.iter().filter_map(|(who, (kind, path))| {
            let (flag, mark) = match kind {
                Kind::Weir => return None,
                Kind::Nginx => ("-V", "built with "),
                Kind::Haproxy => ("-vv", "Running on OpenSSL version : "),
            };
            let output = Command::new(path).arg(flag).output().ok()?;
            let text =
                [output.stdout, output.stderr].map(|t| String::from_utf8_lossy(&t).into_owned()).concat();
            let library = text.lines().find_map(|line| line.strip_prefix(mark))?.trim().to_owned();
            Some((who.name().to_owned(), library))
        });
        told.collect()
    }
}

/// Where a program of this name is, in `PATH` or where servers are.
pub(crate) fn search(name: &str) -> Option<PathBuf> {
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
            let told = BTreeMap::from([(Contender::Nginx, PathBuf::from(path))]);
            Programs::find("/bin/true".into(), &[Contender::Nginx], &told, &[]).unwrap_err().to_string()
        };
        assert!(find("/nowhere/nginx").contains("--nginx /nowhere/nginx: there is no such program"));
        assert!(find("/bin/true").contains("/bin/true is no weir"));
        let more = |words: &[&str]| {
            let more: Vec<Rival> = words.iter().map(|w| Rival::parse(w).unwrap()).collect();
            Programs::find("/bin/true".into(), &[], &BTreeMap::new(), &more).unwrap_err().to_string()
        };
        assert!(more(&["old=weir:/nowhere/weir"]).contains("--rival old=weir: /nowhere/weir: there is no"));
        assert!(more(&["a=nginx:/bin/true", "a=nginx:/bin/true"]).contains("two are called `a`"));
    }
}
