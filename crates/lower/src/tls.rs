//! Identities of listeners; certificates and keys.
//!
//! Never: parses more of a PEM file than its labels. `rt` builds the real thing, and its errors are reported under the
//! same codes (`tls::bad-certificate`, `tls::bad-key`).

use std::path::Path;
use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_expr::settings::ClientVerify;
use weir_model as model;
use weir_plan as plan;
use weir_plan::{NameIndex, Pem, PrivateKey, TlsIx};

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
                curves: identity.curves.clone(),
                verify: identity.verify,
                client_ca: identity
                    .client_ca
                    .iter()
                    .filter_map(|path| cx.certificates("the client CA file", path))
                    .collect(),
                client_crl: identity
                    .client_crl
                    .as_deref()
                    .and_then(|path| cx.pem("the revocation list", path)),
                client_depth: identity.client_depth,
                reject: identity.reject,
                alpn: default::alpn(&identity.alpn, http),
                record_size: identity.record_size,
            };
            cx.tls_ix(compiled)
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
        if identity.verify != ClientVerify::Off && identity.client_ca.is_empty() {
            let title = "client certificates are asked for, but no CA is named to verify them by";
            self.report(Diagnostic::error("tls::no-client-ca", title));
        }
    }

    pub(crate) fn certificate(&mut self, certificate: &model::Certificate) -> Option<plan::Certificate> {
        self.at(certificate.origin, |cx| {
            let chain = cx.certificates("the certificate", &certificate.chain);
            let key = cx.file("tls::unreadable-key", "the private key", &certificate.key);
            let key = key.filter(|content| cx.looks_like_key(content, &certificate.key));
            Some(plan::Certificate { chain: chain?, key: PrivateKey::new(certificate.key.clone(), key?) })
        })
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

    fn looks_like_key(&mut self, content: &[u8], path: &Path) -> bool {
        if !holds(content, b"PRIVATE KEY-----") {
            let title = format!("`{}` holds no private key in PEM form", path.display());
            let mut finding = Diagnostic::error("tls::bad-key", title);
            if holds(content, b"-----BEGIN CERTIFICATE-----") {
                finding = finding.help("it holds a certificate: are certificate and key exchanged?");
            }
            self.report(finding);
            return false;
        }
        if holds(content, b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
            || holds(content, b"Proc-Type: 4,ENCRYPTED")
        {
            let title = format!("the private key `{}` is encrypted with a passphrase", path.display());
            let finding = Diagnostic::error("tls::bad-key", title);
            self.report(finding.help("store it without one: `openssl pkey -in OLD -out NEW`"));
            return false;
        }
        true
    }
}

fn holds(content: &[u8], words: &[u8]) -> bool {
    content.windows(words.len()).any(|window| window == words)
}
