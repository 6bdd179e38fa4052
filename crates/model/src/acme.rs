//! Certificates that an authority issues while Weir runs (RFC 8555).

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_diag::Origin;
use weir_expr::settings::{AcmeChallenge, AcmeProfile, KeyKind};

use crate::Pem;

/// Who issues certificates, and how that is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmeIssuer {
    /// Its name, which certificates refer to.
    pub name: String,
    /// Where it was written.
    #[serde(skip_serializing, default)]
    pub origin: Origin,
    /// The URL of its directory.
    pub directory: String,
    /// URLs by which it reaches whoever runs this, such as `mailto:admin@example.com`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contact: Vec<String>,
    /// The kind of key that is made for the account, once.
    pub account_key: KeyKind,
    /// A key that there is already, in place of one that is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_key_file: Option<Pem>,
    /// How names are shown to be ours.
    pub challenge: AcmeChallenge,
    /// What binds the account to one that the authority has already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<AcmeExternal>,
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
    /// The pause after a first failure, which doubles with each further one, up to six hours.
    pub retry: Duration,
}

/// A key by which an authority knows its customer (RFC 8555, 7.3.4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmeExternal {
    /// The identifier of the key.
    pub id: String,
    /// The key, in base64url.
    pub key: Pem,
}

/// A certificate that is to be issued.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AcmeCertificate {
    /// Name of its [`AcmeIssuer`].
    pub issuer: String,
    /// Where it was written.
    #[serde(skip_serializing, default)]
    pub origin: Origin,
    /// The names that it is for: names of the DNS, without wildcards.
    pub names: Vec<String>,
    /// The kind of its key.
    pub key: KeyKind,
}
