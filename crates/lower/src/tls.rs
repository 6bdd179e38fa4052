//! Identities of listeners; certificates and keys.
//!
//! Never: parses more of a PEM file than its labels. [`Resources`](crate::Resources) builds the real thing where it can, and
//! what it finds is reported under the same codes (`tls::bad-certificate`, `tls::bad-key`).

use std::path::Path;
use std::sync::Arc;

use weir_diag::{Diagnostic, Origin};
use weir_expr::settings::ClientVerify;
use weir_model as model;
use weir_plan as plan;
use weir_plan::{NameIndex, Pem, PrivateKey, TlsFault, TlsIx, TlsPart};

use crate::context::Cx;
use crate::default;

impl<'m> Cx<'m> {
    pub(crate) fn listener_tls(&mut self, tls: &'m model::ListenerTls, http: bool) -> Arc<plan::ListenerTls> {
        let mut by_name = NameIndex::new(self.identity(&tls.default, http));
        for (names, identity) in &tls.by_name {
            let ix = self.identity(identity, http);
            for name in names {
                // An identity of an earlier site holds for a name that two sites have, as the site itself does.
                self.add_name(&mut by_name, name, ix);
            }
        }
        Arc::new(plan::ListenerTls {
            by_name,
            strict_sni: tls.strict_sni,
            tickets: tls.tickets,
            session_cache: tls.session_cache,
            session_timeout: tls.session_timeout,
            answer_bad_certificates: tls.answer_bad_certificates,
        })
    }

    fn identity(&mut self, identity: &'m model::TlsIdentity, http: bool) -> TlsIx {
        let place = identity.certificates.iter().find_map(|certificate| certificate.origin);
        self.at(place, |cx| {
            cx.check_identity(identity);
            let compiled = plan::TlsIdentity {
                certificates: identity.certificates.iter().filter_map(|one| cx.certificate(one)).collect(),
                select_by_certificate_names: identity.select_by_certificate_names,
                versions: identity.versions.clone(),
                suites: identity.suites.clone(),
                suites13: identity.suites13.clone(),
                prefer_server_order: identity.prefer_server_order,
                curves: identity.curves.clone(),
                verify: identity.verify,
                client_ca: identity
                    .client_ca
                    .iter()
                    .filter_map(|file| cx.authorities("the client CA file", file))
                    .collect(),
                client_crl: identity.client_crl.as_ref().and_then(|file| cx.list(file)),
                client_depth: identity.client_depth,
                reject: identity.reject,
                alpn: default::alpn(&identity.alpn, http),
                record_size: identity.record_size,
            };
            let (ix, new) = cx.tls_ix(compiled);
            if new {
                let faults = cx.resources.server_tls_faults(cx.plan.tls_identity(ix));
                let (certificates, ca) = (&identity.certificates, &identity.client_ca);
                cx.report_faults(faults, &Files { certificates, ca, list: identity.client_crl.as_ref() });
            }
            ix
        })
    }

    fn check_identity(&mut self, identity: &model::TlsIdentity) {
        if identity.certificates.is_empty() && !identity.reject {
            let finding =
                Diagnostic::error("tls::no-certificate", "a listener speaks TLS without a certificate");
            self.report(finding.help("name a certificate and its key, or do not speak TLS here"));
        }
        if identity.versions.is_empty() && !identity.reject {
            let finding =
                Diagnostic::error("tls::no-version", "none of the TLS versions named here is spoken by Weir");
            self.report(finding.help("Weir speaks TLSv1.2 and TLSv1.3"));
        }
        if matches!(identity.verify, ClientVerify::Optional | ClientVerify::Required)
            && identity.client_ca.is_empty()
        {
            let title = "client certificates are asked for, but no CA is named to verify them by";
            self.report(Diagnostic::error("tls::no-client-ca", title));
        }
    }

    pub(crate) fn certificate(&mut self, certificate: &model::Certificate) -> Option<plan::Certificate> {
        self.at(certificate.origin, |cx| {
            let chain = cx.certificates("the certificate", &certificate.chain);
            let key = cx.at(certificate.key_origin, |cx| {
                cx.file("tls::unreadable-key", "the private key", &certificate.key)
            });
            let encrypted = certificate.passwords.is_some();
            let key = cx.at(certificate.key_origin, |cx| {
                key.filter(|content| cx.looks_like_key(content, &certificate.key, encrypted))
            });
            let passwords = certificate.passwords.as_ref().and_then(|file| {
                let text = cx.at(file.origin, |cx| {
                    cx.file("tls::unreadable-key", "the file of pass phrases", &file.path)
                });
                Some(PrivateKey::new(file.path.clone(), text?))
            });
            Some(plan::Certificate {
                chain: chain?,
                key: PrivateKey::new(certificate.key.clone(), key?),
                passwords,
            })
        })
    }

    /// A file of authorities.
    pub(crate) fn authorities(&mut self, what: &str, file: &model::PemFile) -> Option<Pem> {
        self.at(file.origin, |cx| cx.certificates(what, &file.path))
    }

    /// A file of revocation lists.
    pub(crate) fn list(&mut self, file: &model::PemFile) -> Option<Pem> {
        self.at(file.origin, |cx| cx.pem("the revocation list", &file.path))
    }

    /// Reports what building found, each where its file was written.
    pub(crate) fn report_faults(&mut self, faults: Vec<TlsFault>, files: &Files<'_>) {
        for fault in faults {
            let (code, title, origin) = files.finding(&fault);
            self.at(origin, |cx| cx.report_once(&title.clone(), Diagnostic::error(code, title)));
        }
    }

    /// A file that must hold a certificate.
    pub(crate) fn certificates(&mut self, what: &str, path: &Path) -> Option<Pem> {
        let pem = self.pem(what, path)?;
        if !holds(&pem.bytes, b"-----BEGIN CERTIFICATE-----")
            && !holds(&pem.bytes, b"-----BEGIN TRUSTED CERTIFICATE-----")
        {
            let title = format!("{what} `{}` holds no certificate in PEM form", path.display());
            let mut finding = Diagnostic::error("tls::bad-certificate", title);
            if holds(&pem.bytes, b"PRIVATE KEY-----") {
                finding = finding.help("it holds a private key: are certificate and key exchanged?");
            }
            self.report(finding);
            return None;
        }
        Some(pem)
    }

    pub(crate) fn pem(&mut self, what: &str, path: &Path) -> Option<Pem> {
        let bytes = self.file("tls::unreadable-certificate", what, path)?;
        Some(Pem { path: path.to_owned(), bytes })
    }

    fn looks_like_key(&mut self, content: &[u8], path: &Path, passwords: bool) -> bool {
        if !holds(content, b"PRIVATE KEY-----") {
            let title = format!("`{}` holds no private key in PEM form", path.display());
            let mut finding = Diagnostic::error("tls::bad-key", title);
            if holds(content, b"-----BEGIN CERTIFICATE-----") {
                finding = finding.help("it holds a certificate: are certificate and key exchanged?");
            }
            self.report(finding);
            return false;
        }
        let encrypted = holds(content, b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
            || holds(content, b"Proc-Type: 4,ENCRYPTED");
        if encrypted && !passwords {
            let title = format!("the private key `{}` is encrypted with a passphrase", path.display());
            let finding = Diagnostic::error("tls::bad-key", title);
            let help = "name its pass phrase (`ssl_password_file`), or store it without one: `openssl pkey -in OLD -out NEW`";
            self.report(finding.help(help));
            return false;
        }
        true
    }
}

/// The files of TLS settings as they were written.
pub(crate) struct Files<'a> {
    pub(crate) certificates: &'a [model::Certificate],
    pub(crate) ca: &'a [model::PemFile],
    pub(crate) list: Option<&'a model::PemFile>,
}

impl Files<'_> {
    /// Code, words and place of a fault.
    fn finding(&self, fault: &TlsFault) -> (&'static str, String, Origin) {
        let TlsFault { part, path, why } = fault;
        let shown = path.display();
        match part {
            TlsPart::Chain => {
                let written = self.certificates.iter().find(|one| one.chain == *path);
                let title = format!("cannot use the certificate `{shown}`: {why}");
                ("tls::bad-certificate", title, written.and_then(|one| one.origin))
            }
            TlsPart::Key => {
                let written = self.certificates.iter().find(|one| one.key == *path);
                let title = format!("cannot use the private key `{shown}`: {why}");
                ("tls::bad-key", title, written.and_then(|one| one.key_origin.or(one.origin)))
            }
            TlsPart::Authority => {
                let written = self.ca.iter().find(|file| file.path == *path);
                let title = format!("cannot use the CA file `{shown}`: {why}");
                ("tls::bad-authority", title, written.and_then(|file| file.origin))
            }
            TlsPart::List => {
                let title = format!("cannot use the revocation list `{shown}`: {why}");
                ("tls::bad-list", title, self.list.and_then(|file| file.origin))
            }
            TlsPart::Settings => ("tls::bad-settings", format!("cannot use the TLS settings: {why}"), None),
        }
    }
}

fn holds(content: &[u8], words: &[u8]) -> bool {
    content.windows(words.len()).any(|window| window == words)
}
