//! Identities of listeners; certificates and keys.
//!
//! Never: parses more of a PEM file than its labels. [`Resources`](crate::Resources) builds the real thing where it can, and
//! what it finds is reported under the same codes (`tls::bad-certificate`, `tls::bad-key`).

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
        let ticket_keys = tls.ticket_keys.iter().filter_map(|key| self.ticket_key(key)).collect();
        let mut by_name = NameIndex::new(self.identity(&tls.default, http));
        for (names, identity) in &tls.by_name {
            let ix = self.identity(identity, http);
            for name in names {
                // An identity of an earlier site holds for a name that two sites have, as the site itself does.
                self.add_name(&mut by_name, name, ix);
            }
        }
        Arc::new(plan::ListenerTls {
            lists: tls.lists.clone(),
            by_name,
            strict_sni: tls.strict_sni,
            tickets: tls.tickets,
            ticket_keys,
            session_cache: tls.session_cache,
            session_timeout: tls.session_timeout,
            answer_bad_certificates: tls.answer_bad_certificates,
        })
    }

    fn identity(&mut self, identity: &'m model::TlsIdentity, http: bool) -> TlsIx {
        let place = identity.certificates.iter().find_map(|certificate| certificate.chain.origin);
        let place = place.or_else(|| identity.issued.iter().find_map(|one| one.origin));
        self.at(place, |cx| {
            cx.check_identity(identity);
            let compiled = plan::TlsIdentity {
                certificates: {
                    let own: Vec<_> =
                        identity.certificates.iter().filter_map(|one| cx.certificate(one)).collect();
                    own.into_iter().chain(identity.issued.iter().filter_map(|one| cx.issued(one))).collect()
                },
                named: identity.named.iter().map(|one| cx.named_certificate(one)).collect(),
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
                    .filter_map(|pem| cx.certificates("the client CA file", pem))
                    .collect(),
                client_crl: identity.client_crl.as_ref().and_then(|pem| cx.pem("the revocation list", pem)),
                client_depth: identity.client_depth,
                reject: identity.reject,
                alpn: default::alpn(&identity.alpn, http),
                record_size: identity.record_size,
                early_data: identity.early_data,
                stapling: identity.stapling.as_ref().map(|stapling| cx.stapling(stapling)),
                compress_certificates: identity.compress_certificates,
                staple: identity.staple.as_ref().and_then(|pem| cx.staple(pem)),
            };
            let (ix, new) = cx.tls_ix(compiled);
            if new {
                let faults = cx.resources.server_tls_faults(cx.plan.tls_identity(ix));
                let (certificates, ca) = (&identity.certificates, &identity.client_ca);
                cx.report_faults(faults, &Written { certificates, ca, list: identity.client_crl.as_ref() });
            }
            ix
        })
    }

    fn ticket_key(&mut self, key: &model::Pem) -> Option<PrivateKey> {
        let found = self.secret("the ticket key", key)?;
        let length = found.reveal().len();
        if matches!(length, 48 | 80) {
            return Some(found);
        }
        let title = format!("the ticket key {} has {length} bytes, where 48 or 80 are due", key.source);
        let finding = Diagnostic::error("tls::bad-ticket-key", title);
        self.of(key, |cx| cx.report(finding.help("make one by `openssl rand 80 > FILE`")));
        None
    }

    fn stapling(&mut self, stapling: &model::Stapling) -> plan::Stapling {
        let trusted =
            stapling.trusted.iter().filter_map(|pem| self.certificates("the file of trusted CAs", pem));
        plan::Stapling {
            trusted: trusted.collect(),
            responder: stapling.responder.clone(),
            verify: stapling.verify,
            least: stapling.least,
            most: stapling.most,
        }
    }

    fn staple(&mut self, pem: &model::Pem) -> Option<Pem> {
        let bytes = self.of(pem, |cx| cx.bytes_of("tls::unreadable-response", "the OCSP response", pem))?;
        Some(Pem { source: pem.source.clone(), bytes })
    }

    fn check_identity(&mut self, identity: &model::TlsIdentity) {
        let certificates = [identity.certificates.len(), identity.named.len(), identity.issued.len()];
        if certificates == [0; 3] && !identity.reject {
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

    pub(crate) fn named_certificate(&mut self, one: &model::NamedCertificate) -> plan::NamedCertificate {
        plan::NamedCertificate {
            chain: self.template(&one.chain),
            key: self.template(&one.key),
            folder: one.folder.clone(),
            passwords: one.passwords.as_ref().and_then(|pem| self.secret("the file of pass phrases", pem)),
        }
    }

    fn secret(&mut self, what: &str, pem: &model::Pem) -> Option<PrivateKey> {
        let bytes = self.of(pem, |cx| cx.bytes_of("tls::unreadable-key", what, pem))?;
        Some(PrivateKey::new(pem.source.clone(), bytes))
    }

    pub(crate) fn certificate(&mut self, certificate: &model::Certificate) -> Option<plan::Certificate> {
        let model::Certificate { chain, key, passwords, staple } = certificate;
        self.at(chain.origin, |cx| {
            let compiled = cx.certificates("the certificate", chain);
            let secret_key = cx
                .secret("the private key", key)
                .filter(|content| cx.of(key, |cx| cx.looks_like_key(content, passwords.is_some())));
            let passwords = passwords.as_ref().and_then(|pem| cx.secret("the file of pass phrases", pem));
            let staple = staple.as_ref().and_then(|pem| cx.staple(pem));
            Some(plan::Certificate { chain: compiled?, key: secret_key?, passwords, staple })
        })
    }

    /// Reports what building found, each where what it is about was written.
    pub(crate) fn report_faults(&mut self, faults: Vec<TlsFault>, written: &Written<'_>) {
        for fault in faults {
            let (code, title) = finding(&fault);
            let report = |cx: &mut Self| cx.report_once(&title.clone(), Diagnostic::error(code, title));
            match written.named(&fault) {
                Some((pem, else_at)) => self.at(else_at, |cx| cx.of(pem, report)),
                None => report(self),
            }
        }
    }

    /// PEM that must hold a certificate.
    pub(crate) fn certificates(&mut self, what: &str, pem: &model::Pem) -> Option<Pem> {
        let compiled = self.pem(what, pem)?;
        if !holds(&compiled.bytes, b"-----BEGIN CERTIFICATE-----")
            && !holds(&compiled.bytes, b"-----BEGIN TRUSTED CERTIFICATE-----")
        {
            let title = format!("{what} `{}` holds no certificate in PEM form", pem.source);
            let mut finding = Diagnostic::error("tls::bad-certificate", title);
            if holds(&compiled.bytes, b"PRIVATE KEY-----") {
                finding = finding.help("it holds a private key: are certificate and key exchanged?");
            }
            self.of(pem, |cx| cx.report(finding));
            return None;
        }
        Some(compiled)
    }

    /// PEM of any kind.
    pub(crate) fn pem(&mut self, what: &str, pem: &model::Pem) -> Option<Pem> {
        let bytes = self.of(pem, |cx| cx.bytes_of("tls::unreadable-certificate", what, pem))?;
        Some(Pem { source: pem.source.clone(), bytes })
    }

    fn looks_like_key(&mut self, key: &PrivateKey, passwords: bool) -> bool {
        let content = key.reveal();
        if !holds(content, b"PRIVATE KEY-----") {
            let title = format!("`{}` holds no private key in PEM form", key.source);
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
            let title = format!("the private key `{}` is encrypted with a passphrase", key.source);
            let finding = Diagnostic::error("tls::bad-key", title);
            let help = "name its pass phrase (`ssl_password_file`), or store it without one: `openssl pkey -in OLD -out NEW`";
            self.report(finding.help(help));
            return false;
        }
        true
    }
}

/// What TLS settings are made of, as it was written.
pub(crate) struct Written<'a> {
    pub(crate) certificates: &'a [model::Certificate],
    pub(crate) ca: &'a [model::Pem],
    pub(crate) list: Option<&'a model::Pem>,
}

impl Written<'_> {
    /// What a fault is about, and where that was written if not itself: a key in the file of its chain.
    fn named(&self, fault: &TlsFault) -> Option<(&model::Pem, Origin)> {
        let is = |pem: &&model::Pem| Some(&pem.source) == fault.source.as_ref();
        let of_pairs = |part: fn(&model::Certificate) -> &model::Pem| {
            let found = self.certificates.iter().find(|one| is(&part(one)));
            found.map(|one| (part(one), one.chain.origin))
        };
        match fault.part {
            TlsPart::Chain => of_pairs(|one| &one.chain),
            TlsPart::Key => of_pairs(|one| &one.key),
            TlsPart::Authority => self.ca.iter().find(is).map(|pem| (pem, None)),
            TlsPart::List => self.list.map(|pem| (pem, None)),
            TlsPart::Settings => None,
        }
    }
}

/// Code and words of a fault.
fn finding(fault: &TlsFault) -> (&'static str, String) {
    let TlsFault { part, source, why } = fault;
    let (code, what) = match part {
        TlsPart::Chain => ("tls::bad-certificate", "certificate"),
        TlsPart::Key => ("tls::bad-key", "private key"),
        TlsPart::Authority => ("tls::bad-authority", "CA file"),
        TlsPart::List => ("tls::bad-list", "revocation list"),
        TlsPart::Settings => ("tls::bad-settings", "TLS settings"),
    };
    let shown = source.as_ref().map_or_else(String::new, |source| format!(" `{source}`"));
    (code, format!("cannot use the {what}{shown}: {why}"))
}

fn holds(content: &[u8], words: &[u8]) -> bool {
    content.windows(words.len()).any(|window| window == words)
}
