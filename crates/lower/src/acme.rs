//! Issuers of certificates, and what is wanted of them.
//!
//! Owns: the findings about both that a list of issuers and listeners can tell.

use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_expr::Source;
use weir_expr::settings::{AcmeChallenge, certifiable};
use weir_model as model;
use weir_model::Service;
use weir_plan as plan;
use weir_plan::{Pem, PrivateKey};

use crate::context::Cx;

impl Cx<'_> {
    pub(crate) fn acme_issuer(&mut self, issuer: &model::AcmeIssuer) -> plan::AcmeIssuer {
        if !issuer.directory.starts_with("https://") {
            let title = format!("`{}` is no https URL of an authority's directory", issuer.directory);
            self.report(Diagnostic::error("acme::bad-directory", title));
        }
        let secret = |cx: &mut Self, what: &str, pem: &model::Pem| {
            let bytes = cx.of(pem, |cx| cx.bytes_of("acme::unreadable-key", what, pem))?;
            Some(PrivateKey::new(pem.source.clone(), bytes))
        };
        let account_key_file =
            issuer.account_key_file.as_ref().and_then(|pem| secret(self, "the account's key", pem));
        let external = issuer.external.as_ref().and_then(|external| {
            Some((external.id.clone(), secret(self, "the key of the external account", &external.key)?))
        });
        plan::AcmeIssuer {
            name: issuer.name.clone(),
            directory: issuer.directory.clone(),
            contact: issuer.contact.clone(),
            account_key: issuer.account_key,
            account_key_file,
            challenge: issuer.challenge,
            external,
            preferred_chain: issuer.preferred_chain.clone(),
            profile: issuer.profile.clone(),
            authorities: issuer
                .authorities
                .as_ref()
                .and_then(|pem| self.certificates("the file of authorities", pem)),
            verify: issuer.verify,
            state: issuer.state.clone(),
            accepts_terms: issuer.accepts_terms,
            retry: issuer.retry,
        }
    }

    /// Findings about all issuers together.
    pub(crate) fn check_issuers(&mut self) {
        let issuers = &self.model.acme;
        for (at, issuer) in issuers.iter().enumerate() {
            let before = &issuers[..at];
            if before.iter().any(|other| other.name == issuer.name) {
                let title = format!("there are two issuers of certificates called `{}`", issuer.name);
                self.at(issuer.origin, |cx| cx.report(Diagnostic::error("acme::duplicate", title)));
            }
            let shares = |other: &&model::AcmeIssuer| other.state.is_some() && other.state == issuer.state;
            if let Some(other) = before.iter().find(shares) {
                let title = format!(
                    "the issuers `{}` and `{}` keep what they have in the same folder",
                    other.name, issuer.name
                );
                let found = Diagnostic::error("acme::same-state", title);
                self.at(issuer.origin, |cx| {
                    cx.report(found.help("name another folder: each has its account there"))
                });
            }
        }
    }

    /// Findings about what is wanted of them, once that is known.
    pub(crate) fn check_issued(&mut self) {
        let asks_by_http = |one: &plan::AcmeCertificate| {
            let issuer = self.plan.acme.issuers.get(one.issuer);
            issuer.is_some_and(|issuer| issuer.challenge == AcmeChallenge::Http01)
        };
        let in_clear =
            |one: &model::Listener| one.tls.is_none() && matches!(one.service, Service::Http { .. });
        if self.plan.acme.certificates.iter().any(asks_by_http) && !self.model.listeners.iter().any(in_clear)
        {
            let title =
                "the authority will ask for a file on port 80 (HTTP-01), and no listener speaks plain HTTP";
            let found = Diagnostic::error("acme::nobody-answers", title);
            self.report(
                found.help("listen on port 80, too, or prove names on port 443: the challenge `tls-alpn-01`"),
            );
        }
    }

    /// What stands for a certificate until there is one.
    pub(crate) fn issued(&mut self, one: &model::AcmeCertificate) -> Option<plan::Certificate> {
        self.at(one.origin, |cx| {
            let model = cx.model;
            let Some(issuer) = model.acme.iter().position(|issuer| issuer.name == one.issuer) else {
                let near = weir_diag::nearest(&one.issuer, model.acme.iter().map(|issuer| &*issuer.name));
                let near = near.map(|near| format!("did you mean `{near}`?"));
                let found = Diagnostic::error(
                    "acme::unknown-issuer",
                    format!("there is no issuer of certificates called `{}`", one.issuer),
                );
                let found = match near {
                    Some(near) => found.help(near),
                    None => found,
                };
                // Told once, and not for each address of a server.
                cx.report_once(&one.issuer, found);
                return None;
            };
            let mut names: Vec<String> = Vec::new();
            for name in one.names.iter().map(|name| name.to_ascii_lowercase()) {
                if let Err(why) = certifiable(&name) {
                    let title = format!("no certificate can be ordered for `{name}`: it {why}");
                    let found = Diagnostic::error("acme::bad-name", title);
                    let help = "name the hosts one by one, or bring a certificate of your own for it";
                    cx.report_once(&name, found.help(help));
                } else if !names.contains(&name) {
                    names.push(name);
                }
            }
            if names.is_empty() {
                if one.names.is_empty() {
                    let found = Diagnostic::error("acme::no-name", "a certificate is ordered for no name");
                    cx.report(found.help("name the hosts that it is to be for"));
                }
                return None;
            }
            let (object, field) = (format!("acme {}", one.issuer), names.join(" "));
            let field = if one.key == Default::default() { field } else { format!("{field} ({})", one.key) };
            let source = Source::Field { object: object.into(), field: field.into() };
            let nothing: Arc<[u8]> = Arc::default();
            let certificate = plan::Certificate {
                chain: Pem { source: source.clone(), bytes: nothing.clone() },
                key: PrivateKey::new(source, nothing),
                passwords: None,
                staple: None,
            };
            let wanted = plan::AcmeCertificate { name: certificate.name(), issuer, names, key: one.key };
            if !cx.plan.acme.certificates.contains(&wanted) {
                cx.plan.acme.certificates.push(wanted);
            }
            Some(certificate)
        })
    }
}
