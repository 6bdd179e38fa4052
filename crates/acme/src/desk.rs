//! What the process has of certificates from authorities, and what answers those who ask.
//!
//! Owns: certificates by the names that a plan has for them, placeholders, answers to challenges, figures.
//! Never: orders anything; is asked by a worker's thread (answers may be in files).
//! Driven by: `side`, which puts things here; the engine, which asks for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_control::changes::KeyPair;
use weir_control::snapshot::IssuedFigures;

use crate::folder::Folder;
use crate::make::{self, Life};
use crate::{Error, Wanted};

/// Longest token that is looked up (RFC 8555, 8.3: base64url of at least 128 bits).
const TOKEN: usize = 200;

/// What there is.
#[derive(Default)]
pub struct Desk {
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    certificates: HashMap<String, Certificate>,
    /// Challenges HTTP-01 by token: the name, and the answer.
    answers: HashMap<String, (String, String)>,
    /// Challenges TLS-ALPN-01 by name.
    proofs: HashMap<String, KeyPair>,
    /// Where another process may have left its challenges.
    folders: Vec<Folder>,
}

/// A certificate that is wanted.
struct Certificate {
    wanted: Wanted,
    pair: KeyPair,
    /// What it says of itself; `None`: it is a placeholder, or one for other names that serves meanwhile.
    life: Option<Life>,
    figures: IssuedFigures,
}

/// A certificate as a file holds it.
pub(crate) fn joined(pair: &KeyPair) -> String {
    format!("{}{}", pair.key, pair.chain)
}

/// As [`joined`], back again.
pub(crate) fn parted(text: &str) -> Option<KeyPair> {
    let chain = text.find("-----BEGIN CERTIFICATE-----")?;
    let (key, chain) = text.split_at(chain);
    key.contains("PRIVATE KEY-----").then(|| KeyPair { chain: chain.to_owned(), key: key.to_owned() })
}

/// A certificate of a file, if its key belongs to it.
pub(crate) fn usable(text: &str) -> Option<(KeyPair, Life)> {
    let pair = parted(text)?;
    let life = Life::of(&pair.chain).ok()?;
    let key = rcgen::KeyPair::from_pem(&pair.key).ok()?;
    life.belongs_to(&key).then_some((pair, life))
}

pub(crate) fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

impl Desk {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has something to show for each of these from now on, before a plan that names them serves: what is kept in
    /// folders, or a placeholder. Reads files.
    ///
    /// # Errors
    /// No key can be made.
    pub fn prepare(&self, wanted: &[Wanted]) -> Result<(), String> {
        for one in wanted {
            let same = self.inside().certificates.get(&one.name).is_some_and(|before| before.wanted == *one);
            if !same {
                let certificate = found(one).map_err(|error| error.to_string())?;
                self.inside().certificates.insert(one.name.clone(), certificate);
            }
        }
        Ok(())
    }

    /// Forgets what is wanted no longer.
    pub(crate) fn keep_only(&self, wanted: &[Wanted]) {
        let mut folders: Vec<Folder> = Vec::new();
        for folder in wanted.iter().filter_map(Wanted::folder) {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        let mut inside = self.inside();
        inside.certificates.retain(|name, _| wanted.iter().any(|one| one.name == *name));
        inside.folders = folders;
    }

    /// Chain and key of a certificate that is wanted.
    pub fn pair(&self, name: &str) -> Option<KeyPair> {
        self.inside().certificates.get(name).map(|one| one.pair.clone())
    }

    /// What answers a request for a token on a host. May read files.
    pub fn answer(&self, host: &str, token: &str) -> Option<String> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if token.is_empty() || token.len() > TOKEN || !token.bytes().all(is_token) {
            return None;
        }
        let inside = self.inside();
        let folders = inside.folders.clone();
        let known = inside.answers.get(token).cloned();
        drop(inside);
        let (name, answer) = known.or_else(|| {
            let text = folders.iter().find_map(|folder| folder.inside(ANSWERS).text(token))?;
            let (name, answer) = text.split_once('\n')?;
            Some((name.to_owned(), answer.to_owned()))
        })?;
        name.eq_ignore_ascii_case(host).then_some(answer)
    }

    /// What is shown to an authority that looks at a name by TLS-ALPN-01. May read files.
    pub fn proof(&self, host: &str) -> Option<KeyPair> {
        weir_expr::settings::certifiable(host).ok()?;
        let host = host.to_ascii_lowercase();
        let inside = self.inside();
        let folders = inside.folders.clone();
        let known = inside.proofs.get(&host).cloned();
        drop(inside);
        known.or_else(|| folders.iter().find_map(|folder| parted(&folder.inside(PROOFS).text(&host)?)))
    }

    /// How it stands with each certificate, by name.
    pub fn figures(&self) -> Vec<IssuedFigures> {
        let inside = self.inside();
        let mut all: Vec<IssuedFigures> =
            inside.certificates.values().map(|one| one.figures.clone()).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// What a certificate says of itself; `None`: there is only a placeholder.
    pub(crate) fn life(&self, name: &str) -> Option<Life> {
        self.inside().certificates.get(name).and_then(|one| one.life.clone())
    }

    /// A certificate came.
    pub(crate) fn put(&self, name: &str, pair: KeyPair, life: Life) {
        if let Some(one) = self.inside().certificates.get_mut(name) {
            one.figures.expires = Some(life.to);
            one.figures.placeholder = false;
            (one.pair, one.life) = (pair, Some(life));
        }
    }

    /// Counts an order.
    pub(crate) fn count(&self, name: &str, outcome: Result<(), String>) {
        if let Some(one) = self.inside().certificates.get_mut(name) {
            match outcome {
                Ok(()) => (one.figures.issued, one.figures.failing) = (one.figures.issued + 1, None),
                Err(why) => (one.figures.failed, one.figures.failing) = (one.figures.failed + 1, Some(why)),
            }
        }
    }

    /// Answers a challenge from now on, until what it gives is dropped.
    pub(crate) fn offer(self: &Arc<Self>, offer: Offer, folder: Option<&Folder>) -> Result<Offered, Error> {
        if let Some(folder) = folder {
            offer.write(folder).map_err(|error| Error::folder(folder, &error))?;
        }
        let mut inside = self.inside();
        match offer.clone() {
            Offer::Answer { name, token, text } => drop(inside.answers.insert(token, (name, text))),
            Offer::Proof { name, pair } => drop(inside.proofs.insert(name, pair)),
        }
        drop(inside);
        Ok(Offered { desk: Arc::clone(self), offer, folder: folder.cloned() })
    }
}

const ANSWERS: &str = "answers";
const PROOFS: &str = "proofs";

/// What there is for a certificate that was not wanted before.
fn found(wanted: &Wanted) -> Result<Certificate, Error> {
    let figures = IssuedFigures {
        name: wanted.name.clone(),
        placeholder: true,
        expires: None,
        issued: 0,
        failed: 0,
        failing: None,
    };
    let of = |pair: KeyPair, life: Option<Life>, expires: Option<i64>| {
        let figures = IssuedFigures { placeholder: expires.is_none(), expires, ..figures.clone() };
        Certificate { wanted: wanted.clone(), pair, life, figures }
    };
    if let Some(folder) = wanted.folder() {
        if let Some((pair, life)) = folder.text(&wanted.file()).and_then(|text| usable(&text)) {
            let to = life.to;
            return Ok(of(pair, Some(life), Some(to)));
        }
        // One for some of the names serves those until there is one for all.
        let others = folder.names().into_iter().filter(|name| name.ends_with(".pem"));
        let covered = |life: &Life| wanted.names.iter().filter(|name| life.names.contains(name)).count();
        let best = others
            .filter_map(|name| usable(&folder.text(&name)?))
            .filter(|(_, life)| life.to > now() && covered(life) > 0)
            .max_by_key(|(_, life)| (covered(life), life.to));
        if let Some((pair, life)) = best {
            return Ok(of(pair, None, Some(life.to)));
        }
    }
    Ok(of(make::placeholder(&wanted.names)?, None, None))
}

/// What answers a challenge.
#[derive(Clone)]
pub(crate) enum Offer {
    Answer { name: String, token: String, text: String },
    Proof { name: String, pair: KeyPair },
}

impl Offer {
    fn place<'o>(&'o self, folder: &Folder) -> (Folder, &'o str) {
        match self {
            Self::Answer { token, .. } => (folder.inside(ANSWERS), token),
            Self::Proof { name, .. } => (folder.inside(PROOFS), name),
        }
    }

    fn write(&self, folder: &Folder) -> std::io::Result<()> {
        let (folder, file) = self.place(folder);
        match self {
            Self::Answer { name, text, .. } => folder.write(file, format!("{name}\n{text}").as_bytes()),
            Self::Proof { pair, .. } => folder.write(file, joined(pair).as_bytes()),
        }
    }
}

/// A challenge that is answered for as long as this lives.
pub(crate) struct Offered {
    desk: Arc<Desk>,
    offer: Offer,
    folder: Option<Folder>,
}

impl Drop for Offered {
    fn drop(&mut self) {
        let mut inside = self.desk.inside();
        match &self.offer {
            Offer::Answer { token, .. } => drop(inside.answers.remove(token)),
            Offer::Proof { name, .. } => drop(inside.proofs.remove(name)),
        }
        drop(inside);
        if let Some(folder) = &self.folder {
            let (folder, file) = self.offer.place(folder);
            folder.remove(file);
        }
    }
}

/// Removes what a process that was killed left behind. Only for whoever holds the lock.
pub(crate) fn sweep(folder: &Folder) {
    for inside in [folder.inside(ANSWERS), folder.inside(PROOFS)] {
        for name in inside.names() {
            inside.remove(&name);
        }
    }
}
