//! Certificates that authorities issue while Weir runs.
//!
//! Owns: who issues, and what is wanted.
//! Never: holds a certificate: what there is stands beside the plan, under the names that are here.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use weir_expr::settings::{AcmeChallenge, AcmeProfile, KeyKind};

use crate::{Pem, PrivateKey};

/// All of it.
#[derive(Debug, Default, Serialize)]
pub struct Acme {
    /// Who issues.
    pub issuers: Vec<AcmeIssuer>,
    /// What is wanted, each once.
    pub certificates: Vec<AcmeCertificate>,
}

impl Acme {
    /// Whether any certificate is wanted.
    #[inline]
    pub fn is_used(&self) -> bool {
        !self.certificates.is_empty()
    }

    /// Whether there is nothing at all.
    pub fn is_empty(&self) -> bool {
        self.issuers.is_empty() && self.certificates.is_empty()
    }
}

/// Who issues certificates, and how that is asked.
#[derive(Debug, Serialize)]
pub struct AcmeIssuer {
    /// Its name.
    pub name: String,
    /// The URL of its directory.
    pub directory: String,
    /// URLs by which it reaches whoever runs this.
    pub contact: Vec<String>,
    /// The kind of key that is made for the account, once.
    pub account_key: KeyKind,
    /// A key that there is already, in place of one that is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_key_file: Option<PrivateKey>,
    /// How names are shown to be ours.
    pub challenge: AcmeChallenge,
    /// The identifier and the key by which it knows its customer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<(String, PrivateKey)>,
    /// The name of who is at the top of the chain that is taken, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_chain: Option<String>,
    /// What certificates are to be like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<AcmeProfile>,
    /// Authorities that vouch for its server; `None`: the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorities: Option<Pem>,
    /// Its server has to be vouched for.
    pub verify: bool,
    /// The folder in which account, certificates and keys outlive the process; `None`: they do not.
    pub state: Option<PathBuf>,
    /// Its terms are accepted.
    pub accepts_terms: bool,
    /// The pause after a first failure, which doubles with each further one.
    pub retry: Duration,
}

/// A certificate that is to be issued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AcmeCertificate {
    /// What the certificate of an identity is called that this is for ([`crate::Certificate::name`]).
    pub name: String,
    /// Index into [`Acme::issuers`].
    pub issuer: usize,
    /// The names that it is for, in lower case.
    pub names: Vec<String>,
    /// The kind of its key.
    pub key: KeyKind,
}
