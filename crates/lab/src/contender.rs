//! The contenders: those that scenarios name, and others by names of their own.
//!
//! Owns: their names in scenarios, results and reports; which kind of program each is; how Weir's own differ.
//! Never: knows where a program is (`programs` does).
//! Driven by: everything that names one.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::path::PathBuf;

/// One that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contender {
    /// Nobody between generator and origin.
    Direct,
    /// This program.
    Weir,
    /// The same with its epoll driver.
    WeirEpoll,
    /// The same from a haproxy.cfg, where it has an nginx.conf otherwise.
    WeirHaproxy,
    /// The same with one site, where the others have many.
    WeirOneSite,
    /// The same serving files, where the others have a cache.
    WeirFiles,
    /// The nginx of this machine.
    Nginx,
    /// The haproxy of this machine.
    Haproxy,
    /// A further rival, by its own name.
    Named(Name),
}

/// The name of a further rival: at most [`Name::MOST`] letters, digits, `-`, `_` and `.`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    text: [u8; Self::MOST],
    len: u8,
}

impl Name {
    /// The longest.
    pub const MOST: usize = 32;

    fn parse(text: &str) -> Result<Self> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        ensure!(
            (1..=Self::MOST).contains(&text.len()) && text.bytes().all(fits) && !text.starts_with('.'),
            "`{text}` is no name: up to {} letters, digits, - and _ and .",
            Self::MOST
        );
        let mut name = Self { text: [0; Self::MOST], len: text.len() as u8 };
        name.text[..text.len()].copy_from_slice(text.as_bytes());
        Ok(name)
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // It was made of ASCII.
        std::str::from_utf8(&self.text[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What kind of program a contender is: it decides configuration and command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Weir, this build or another.
    Weir,
    /// nginx.
    Nginx,
    /// HAProxy.
    Haproxy,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Weir, Self::Nginx, Self::Haproxy];

    /// Its name, which is the program's.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Weir => "weir",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
        }
    }
}

/// How Weir drives its sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// io_uring where the machine allows it.
    Auto,
    /// io_uring, or it does not start.
    Uring,
    /// epoll.
    Epoll,
}

impl Driver {
    /// What `weir run --io` calls it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Uring => "uring",
            Self::Epoll => "epoll",
        }
    }
}

impl Contender {
    /// Those that scenarios can name.
    pub const KNOWN: [Self; 8] = [
        Self::Direct,
        Self::Weir,
        Self::WeirEpoll,
        Self::WeirHaproxy,
        Self::WeirOneSite,
        Self::WeirFiles,
        Self::Nginx,
        Self::Haproxy,
    ];

    /// Its name in results.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Named(name) => name.as_str(),
            known => known.class(),
        }
    }

    /// What it looks like in reports: those that scenarios can name have each a look of their own.
    #[must_use]
    pub fn class(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Weir => "weir",
            Self::WeirEpoll => "weir-epoll",
            Self::WeirHaproxy => "weir-haproxy",
            Self::WeirOneSite => "weir-one-site",
            Self::WeirFiles => "weir-files",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Named(_) => "other",
        }
    }

    /// Reads a name: one that scenarios know, or any other.
    ///
    /// # Errors
    /// It cannot be a name.
    pub fn parse(name: &str) -> Result<Self> {
        let known = Self::KNOWN.into_iter().find(|who| who.class() == name);
        known.map_or_else(|| Name::parse(name).map(Self::Named), Ok)
    }

    /// The kind of program of those that scenarios can name.
    #[must_use]
    pub fn kind(self) -> Option<Kind> {
        match self {
            Self::Direct
            | Self::Weir
            | Self::WeirEpoll
            | Self::WeirHaproxy
            | Self::WeirOneSite
            | Self::WeirFiles => Some(Kind::Weir),
            Self::Nginx => Some(Kind::Nginx),
            Self::Haproxy => Some(Kind::Haproxy),
            Self::Named(_) => None,
        }
    }

    /// Whether it is another program than the Weir that is measured: a ratio to it says something.
    #[must_use]
    pub fn is_rival(self) -> bool {
        matches!(self, Self::Nginx | Self::Haproxy | Self::Named(_))
    }
}

impl Serialize for Contender {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Contender {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::parse(&name).map_err(serde::de::Error::custom)
    }
}

/// A further rival: another version of nginx or HAProxy, another build of Weir.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// Its name.
    pub who: Contender,
    /// What it is.
    pub kind: Kind,
    /// The program.
    pub path: PathBuf,
}

impl Rival {
    /// Reads `NAME=KIND:PATH`: `nginx-1.31=nginx:/opt/nginx/sbin/nginx`, `old=weir:/tmp/weir`.
    ///
    /// # Errors
    /// It is none, or its name is one that scenarios use.
    pub fn parse(word: &str) -> Result<Self> {
        let told = || format!("--rival `{word}`: NAME=KIND:PATH is wanted, KIND is weir, nginx or haproxy");
        let (name, program) = word.split_once('=').with_context(told)?;
        let (kind, path) = program.split_once(':').with_context(told)?;
        let kind = Kind::ALL.into_iter().find(|k| k.name() == kind).with_context(told)?;
        let who = Contender::parse(name).with_context(told)?;
        ensure!(
            matches!(who, Contender::Named(_)) && !path.is_empty(),
            "--rival `{word}`: `{name}` is what scenarios call their own; take another name"
        );
        Ok(Self { who, kind, path: path.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for who in Contender::KNOWN {
            assert_eq!(Contender::parse(who.name()).unwrap(), who);
            assert_eq!(serde_json::to_string(&who).unwrap(), format!("{:?}", who.name()));
        }
        let other: Contender = serde_json::from_str("\"nginx-1.31\"").unwrap();
        assert_eq!((other.name(), other.class(), other.kind()), ("nginx-1.31", "other", None));
        for bad in ["", "a b", "../x", ".x", "a/b", &"x".repeat(33)] {
            assert!(Contender::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rivals_are_read() {
        let rival = Rival::parse("old=weir:/tmp/a:b").unwrap();
        assert_eq!((rival.who.name(), rival.kind, rival.path), ("old", Kind::Weir, "/tmp/a:b".into()));
        for bad in ["old", "old=weir", "old=apache:/x", "=nginx:/x", "nginx=nginx:/x", "x=nginx:"] {
            assert!(Rival::parse(bad).unwrap_err().to_string().contains("--rival"), "{bad}");
        }
    }
}
