//! Certificates by what `crt` and its kin call them: a file, a folder, or `@STORE/NAME` of a `crt-store` section.
//!
//! Owns: where relative paths start, which words of a `load` line hold for a file.
//! Never: reads a key.

use std::path::PathBuf;

use weir_diag::Diagnostic;
use weir_model::{Certificate, Pem};

use super::tls;
use crate::Files;
use crate::draft::{Draft, StoredCertificate};
use crate::findings::Findings;
use crate::read::Word;

/// All that can be called a certificate.
#[derive(Clone, Copy)]
pub(crate) struct Shelf<'a> {
    draft: &'a Draft,
    files: &'a dyn Files,
    /// Relative paths start here where nothing else is said.
    base: Option<&'a PathBuf>,
}

impl<'a> Shelf<'a> {
    pub(crate) fn new(draft: &'a Draft, files: &'a dyn Files, base: Option<&'a PathBuf>) -> Self {
        Self { draft, files, base }
    }

    /// Where a certificate's file is.
    pub(crate) fn path(&self, word: &Word) -> PathBuf {
        match self.stored(word.as_str()) {
            Some(one) => self.chain_of(one),
            None => tls::path(word.as_str(), self.draft.global.crt_base.as_ref().or(self.base)),
        }
    }

    /// What `crt` names: one certificate, or every one of a folder.
    pub(crate) fn all(&self, word: &Word, findings: &mut Findings) -> Vec<Certificate> {
        if word.text.starts_with('@') {
            return self.one(word, findings).into_iter().collect();
        }
        let path = self.path(word);
        match self.files.list(&path) {
            Ok(inside) => {
                let inside = tls::inside(inside, word, findings);
                inside.into_iter().map(|file| self.file(file, word)).collect()
            }
            Err(_) => vec![self.file(path, word)],
        }
    }

    /// What `crt` of a server names.
    pub(crate) fn one(&self, word: &Word, findings: &mut Findings) -> Option<Certificate> {
        if !word.text.starts_with('@') {
            return Some(self.file(self.path(word), word));
        }
        let found = self.stored(word.as_str());
        if found.is_none() {
            let names: Vec<String> = self.draft.stored.iter().map(StoredCertificate::name).collect();
            let found = Diagnostic::error(
                "haproxy::unknown-name",
                format!("no crt-store holds a certificate `{}`", word.text),
            );
            let found = found.at(word.span).suggest(&word.text, word.span, names.iter().map(String::as_str));
            findings.push(found);
        }
        found.map(|one| self.loaded(one, word))
    }

    /// The `load` line that a name with `@` means. A name without one, in a store without one, is a path.
    fn stored(&self, name: &str) -> Option<&'a StoredCertificate> {
        let (store, called) = name.strip_prefix('@')?.split_once('/')?;
        let by_alias = |one: &&StoredCertificate| one.alias.as_ref().is_some_and(|a| a.text == called);
        let by_file = |one: &&StoredCertificate| one.chain.text == called;
        let mut of_store = self.draft.stored.iter().filter(|one| one.store == store);
        of_store.clone().find(by_alias).or_else(|| of_store.find(by_file))
    }

    /// A file: as a store without a name has loaded it, if it has.
    fn file(&self, path: PathBuf, word: &Word) -> Certificate {
        let loaded = |one: &&StoredCertificate| {
            one.store.is_empty() && one.alias.is_none() && self.chain_of(one) == path
        };
        match self.draft.stored.iter().find(loaded) {
            Some(one) => self.loaded(one, word),
            None => tls::certificate(path, word.span, self.files),
        }
    }

    fn loaded(&self, one: &StoredCertificate, word: &Word) -> Certificate {
        let bases = (one.bases.0.as_ref(), one.bases.1.as_ref());
        let global = &self.draft.global;
        let crt_base = bases.0.or(global.crt_base.as_ref()).or(self.base);
        let key_base = bases.1.or(global.key_base.as_ref()).or(self.base);
        let mut made = tls::certificate(self.chain_of(one), word.span, self.files);
        if let Some(key) = &one.key {
            made.key = Pem::file(tls::path(key.as_str(), key_base), Some(key.span));
        }
        if let Some(ocsp) = &one.ocsp {
            made.staple = Some(Pem::file(tls::path(ocsp.as_str(), crt_base), Some(ocsp.span)));
        }
        made
    }

    fn chain_of(&self, one: &StoredCertificate) -> PathBuf {
        let base = one.bases.0.as_ref().or(self.draft.global.crt_base.as_ref()).or(self.base);
        tls::path(one.chain.as_str(), base)
    }
}

impl StoredCertificate {
    /// What `crt` calls it.
    fn name(&self) -> String {
        format!("@{}/{}", self.store, self.alias.as_ref().unwrap_or(&self.chain).text)
    }
}
