//! Who may knock at the admin door.
//!
//! Owns: tokens and their roles, comparing them in constant time, not hearing whoever guesses.
//! Never: prints or logs a token.
//! Driven by: `door`.
//!
//! ```text
//! # role      name    token, or its SHA-256
//! configure   deploy  sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//! read        grafana x6Vw2…
//! ```

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

/// What somebody may do; each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// See everything but secrets.
    Read,
    /// Change endpoints, weights, drains, certificates.
    Operate,
    /// Change the configuration.
    Configure,
}

impl Role {
    /// As files have it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Configure => "configure",
        }
    }

    fn named(word: &str) -> Option<Self> {
        match word {
            "read" => Some(Self::Read),
            "operate" => Some(Self::Operate),
            "configure" => Some(Self::Configure),
            _ => None,
        }
    }
}

/// Somebody who was let in.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    pub(super) name: String,
    pub(super) role: Role,
}

type Hash = [u8; 32];

/// Shortest token: what can be guessed is none.
const SHORTEST: usize = 16;

/// Most bytes of the file.
const MOST_BYTES: u64 = 1 << 20;

/// The tokens of a file.
#[derive(Default)]
pub(super) struct Tokens {
    all: Vec<(Hash, Visitor)>,
}

impl Tokens {
    /// Reads them.
    ///
    /// # Errors
    /// What is wrong with the file: others may read it, a line is none.
    fn read(path: &Path) -> Result<(Self, Stamp), String> {
        let told = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
        let mut file = File::open(path).map_err(told)?;
        let about = file.metadata().map_err(told)?;
        let (mode, owner) = (about.mode() & 0o777, about.uid());
        if mode & 0o077 != 0 {
            return Err(format!(
                "{}: others may read or change it (mode {mode:o}); chmod 600",
                path.display()
            ));
        }
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            return Err(format!("{}: it belongs to somebody else (uid {owner})", path.display()));
        }
        let mut text = String::new();
        file.by_ref().take(MOST_BYTES).read_to_string(&mut text).map_err(told)?;
        let tokens = Self::of(&text).map_err(|error| format!("{}, {error}", path.display()))?;
        Ok((tokens, stamp(&about)))
    }

    fn of(text: &str) -> Result<Self, String> {
        let mut all: Vec<(Hash, Visitor)> = Vec::new();
        for (at, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let [role, name, token] = words.as_slice() else {
                return Err(format!("line {at}: a role, a name and a token belong here"));
            };
            let role = Role::named(role)
                .ok_or_else(|| format!("line {at}: `{role}` is none of read, operate, configure"))?;
            if !name.bytes().all(|byte| byte.is_ascii_graphic()) || name.len() > 64 {
                return Err(format!("line {at}: a name has at most 64 printable ASCII characters"));
            }
            let hash = match token.strip_prefix("sha256:") {
                Some(digits) => of_digits(digits)
                    .ok_or_else(|| format!("line {at}: 64 hexadecimal digits belong behind sha256:"))?,
                None if token.len() < SHORTEST => {
                    return Err(format!("line {at}: a token has {SHORTEST} characters at least"));
                }
                None => Sha256::digest(token.as_bytes()).into(),
            };
            all.push((hash, Visitor { name: (*name).to_owned(), role }));
        }
        match all.is_empty() {
            true => Err("it holds no token".into()),
            false => Ok(Self { all }),
        }
    }

    /// Whose token it is. All are compared, each in whole, so that the time says nothing.
    pub(super) fn find(&self, token: &[u8]) -> Option<Visitor> {
        let hash: Hash = Sha256::digest(token).into();
        let mut found = None;
        for (known, visitor) in &self.all {
            let differs = known.iter().zip(&hash).fold(0u8, |sum, (one, other)| sum | (one ^ other));
            if std::hint::black_box(differs) == 0 {
                found = Some(visitor.clone());
            }
        }
        found
    }
}

/// What tells that a file is another one, or was written.
type Stamp = (u64, i64, i64, u64);

fn stamp(about: &Metadata) -> Stamp {
    (about.ino(), about.ctime(), about.ctime_nsec(), about.len())
}

/// The file of tokens. It is read again once it changed, so that a token is taken away without a restart.
pub(super) struct TokenFile {
    path: PathBuf,
    read: Mutex<(Arc<Tokens>, Stamp)>,
}

impl TokenFile {
    /// Reads it.
    ///
    /// # Errors
    /// One line.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let (tokens, stamp) = Tokens::read(path)?;
        Ok(Self { path: path.into(), read: Mutex::new((Arc::new(tokens), stamp)) })
    }

    /// The tokens of the file as it is now. One that cannot be read lets nobody in.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(super) fn tokens(&self) -> Result<Arc<Tokens>, String> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let about = std::fs::metadata(&self.path);
        if about.is_ok_and(|about| stamp(&about) == read.1) {
            return Ok(Arc::clone(&read.0));
        }
        let (tokens, stamp) = Tokens::read(&self.path)?;
        *read = (Arc::new(tokens), stamp);
        Ok(Arc::clone(&read.0))
    }
}

/// Wrong tokens of one source before nobody from there is heard for a while.
const MOST_FAILURES: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);

/// Sources that are remembered.
const MOST_SOURCES: usize = 1024;

/// Where somebody comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// A user of this machine, by the system's word.
    User(u32),
    /// An address.
    Address(IpAddr),
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::User(id) => write!(f, "uid {id}"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// Who failed lately. A source that fails too often is not heard, whatever it brings: neither does it learn whether a guess
/// was right, nor does it keep others out.
#[derive(Default)]
pub(super) struct Failures {
    all: Mutex<HashMap<Source, (Instant, u32)>>,
}

impl Failures {
    /// Notes one. True: it is the last one that is heard.
    pub(super) fn note(&self, source: Source, now: Instant) -> bool {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST_SOURCES && !all.contains_key(&source) {
            all.retain(|_, (since, _)| now.duration_since(*since) < WINDOW);
        }
        if all.len() >= MOST_SOURCES && !all.contains_key(&source) {
            return false;
        }
        let (since, count) = all.entry(source).or_insert((now, 0));
        if now.duration_since(*since) >= WINDOW {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count == MOST_FAILURES
    }

    /// Whether what comes from there is not looked at.
    pub(super) fn is_deaf(&self, source: Source, now: Instant) -> bool {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&source)
            .is_some_and(|(since, count)| *count >= MOST_FAILURES && now.duration_since(*since) < WINDOW)
    }
}

fn of_digits(digits: &str) -> Option<Hash> {
    let mut out = Hash::default();
    if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in out.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_by_text_and_by_hash() {
        let hash: String =
            Sha256::digest(b"another-secret-token").iter().map(|byte| format!("{byte:02x}")).collect();
        let tokens =
            Tokens::of(&format!("# mine\nread eve first-secret-token\nconfigure joe sha256:{hash}\n"))
                .unwrap();
        let role = |token: &str| tokens.find(token.as_bytes()).map(|visitor| visitor.role);
        assert_eq!(role("first-secret-token"), Some(Role::Read));
        assert_eq!(role("another-secret-token"), Some(Role::Configure));
        assert_eq!(role("another-secret-tokem"), None);
        assert!(Role::Configure > Role::Operate && Role::Operate > Role::Read);
    }

    #[test]
    fn files_with_mistakes_are_refused() {
        for (text, told) in [
            ("", "no token"),
            ("root joe 0123456789abcdef", "line 1"),
            ("read joe short", "16"),
            ("read joe", "line 1"),
            ("read joe sha256:12", "64"),
        ] {
            assert!(Tokens::of(text).err().unwrap().contains(told), "{text}");
        }
    }

    #[test]
    fn who_guesses_is_not_heard_and_keeps_nobody_out() {
        let (failures, now) = (Failures::default(), Instant::now());
        let (one, other) = (Source::User(1), Source::Address([127, 0, 0, 1].into()));
        assert!((1..MOST_FAILURES).all(|_| !failures.note(one, now)) && !failures.is_deaf(one, now));
        assert!(failures.note(one, now) && failures.is_deaf(one, now) && !failures.is_deaf(other, now));
        assert!(!failures.is_deaf(one, now + WINDOW) && !failures.note(one, now + WINDOW));
    }

    #[test]
    fn a_token_is_taken_away_without_a_restart() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        let write = |text: &str| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        write("read eve first-secret-token\nread bob second-secret-token\n");
        let file = TokenFile::open(&path).unwrap();
        assert!(file.tokens().unwrap().find(b"first-secret-token").is_some());
        write("read bob second-secret-token\n");
        let tokens = file.tokens().unwrap();
        assert!(
            tokens.find(b"first-secret-token").is_none() && tokens.find(b"second-secret-token").is_some()
        );
        write("nonsense");
        assert!(file.tokens().is_err());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(TokenFile::open(&path).err().unwrap().contains("others may read"));
    }
}
