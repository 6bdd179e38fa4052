//! Certificates by what `crt` and its kin call them: a file, a folder, or `@STORE/NAME` of a `crt-store` section.
//!
//! Owns: where relative paths start, which words of a `load` line hold for a file.
//! Never: reads a key.

use std::path::PathBuf;
use std::time::Duration;

use weir_diag::Diagnostic;
use weir_expr::Source;
use weir_model::{AcmeCertificate, AcmeIssuer, Certificate, Pem};

use super::tls;
use crate::Files;
use crate::draft::{Draft, Issuer, StoredCertificate};
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

    /// The certificate that `crt` names, if an authority issues it. Its file is a name, and is not read.
    pub(crate) fn issued(&self, word: &Word, findings: &mut Findings) -> Option<AcmeCertificate> {
        let found = match word.text.starts_with('@') {
            true => self.stored(word.as_str()),
            false => {
                let path = self.path(word);
                let of_file = |one: &&StoredCertificate| {
                    one.store.is_empty() && one.alias.is_none() && self.chain_of(one) == path
                };
                self.draft.stored.iter().find(of_file)
            }
        };
        let (issuer, domains) = found?.issued.as_ref()?;
        let Some(section) = self.draft.issuers.iter().find(|one| one.name == issuer.text) else {
            let names = self.draft.issuers.iter().map(|one| one.name.as_str());
            let title = format!("no acme section is named `{}`", issuer.text);
            let found = Diagnostic::error("haproxy::unknown-name", title).at(issuer.span);
            findings.push(found.suggest(&issuer.text, issuer.span, names));
            return None;
        };
        let names = domains.iter().flat_map(|word| word.text.split(','));
        let names: Vec<String> =
            names.map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty()).collect();
        if names.is_empty() {
            let title = "this certificate is ordered for no name";
            let found = Diagnostic::error("haproxy::no-domains", title).at(issuer.span);
            findings.push(found.help("name the hosts that it is to be for: `domains a.example,b.example`"));
            return None;
        }
        let issuer = section.name.clone();
        Some(AcmeCertificate { issuer, origin: Some(word.span), names, key: section.key })
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

/// The pause after a first failure of an authority.
const RETRY: Duration = Duration::from_secs(60);

/// `acme` sections. A key of an account that is not there is made, and kept where the certificates are.
pub(super) fn issuers(draft: &Draft, files: &dyn Files, base: Option<&PathBuf>) -> Vec<AcmeIssuer> {
    let global = &draft.global;
    let authorities = global.client_ca.as_ref().filter(|word| !word.text.starts_with('@'));
    let authorities = authorities.map(|word| tls::pem_file(word, global.ca_base.as_ref().or(base)));
    let one = |section: &Issuer| {
        let file = section.account_key.as_ref().map(|word| tls::pem_file(word, base));
        AcmeIssuer {
            name: section.name.clone(),
            origin: Some(section.span),
            directory: section.directory.clone(),
            contact: section.contact.clone(),
            account_key: section.key,
            account_key_file: file.filter(|file| match &file.source {
                Source::File(path) => files.read(path).is_ok(),
                Source::Field { .. } => true,
            }),
            challenge: section.challenge,
            external: None,
            preferred_chain: None,
            profile: section.profile.clone(),
            authorities: authorities.clone(),
            verify: global.client_verifies.unwrap_or(true),
            state: section.state.clone(),
            // HAProxy asks nobody, and says that it agrees.
            accepts_terms: true,
            retry: RETRY,
        }
    };
    draft.issuers.iter().map(one).collect()
}

impl StoredCertificate {
    /// What `crt` calls it.
    fn name(&self) -> String {
        format!("@{}/{}", self.store, self.alias.as_ref().unwrap_or(&self.chain).text)
    }
}
