//! What certificates of the other side are verified by.
//!
//! Owns: [`Trust`] (authorities, revocation lists, depth), how long a chain may be, which failure a chain has.
//! Never: checks a signature (webpki does); reads a file. Driven by: `verify`, `server`, `client`.
//! Why a certificate of the file that is not self-signed counts as an issuer, not as an authority: as in OpenSSL a chain
//! ends at a root, and the depth that operators write is counted from there.

use std::borrow::Cow;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::{CertificateError, Error, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::cert::read_certs;
use super::digest::Digesting;
use super::error::{CertFailure, TlsConfigError};

/// What the other side's certificate is verified by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Trust {
    /// Nothing (nobody verifies), or authorities, issuers that the other side need not send, or trusted certificates themselves, PEM. Where none is
    /// self-signed, all of them are authorities.
    pub ca_pem: Vec<u8>,
    /// Revocation lists, PEM: every issuer of a chain needs one that has not expired.
    pub crl_pem: Option<Vec<u8>>,
    /// The most issuers between a certificate and its authority; `None`: what webpki builds (6).
    pub depth: Option<usize>,
}

impl Trust {
    pub(crate) fn write_into(&self, digest: &mut Digesting) {
        let Self { ca_pem, crl_pem, depth } = self;
        digest.bytes(ca_pem);
        digest.optional(crl_pem.as_deref());
        digest.number(depth.map_or(u64::MAX, |depth| depth as u64));
    }
}

/// A [`Trust`] that was read.
pub(crate) struct Authorities {
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) crls: Vec<CertificateRevocationListDer<'static>>,
    /// The same for `near_enough`, where there is a depth.
    lists: Vec<webpki::CertRevocationList<'static>>,
    /// What chains end at.
    pub(crate) anchors: Vec<CertificateDer<'static>>,
    issuers: Vec<CertificateDer<'static>>,
    all: Vec<CertificateDer<'static>>,
    depth: Option<usize>,
}

impl Authorities {
    pub(crate) fn read(trust: &Trust) -> Result<Self, TlsConfigError> {
        let all = if trust.ca_pem.trim_ascii().is_empty() { Vec::new() } else { read_certs(&trust.ca_pem)? };
        let (mut anchors, mut issuers): (Vec<_>, Vec<_>) =
            all.iter().cloned().partition(|cert| names(cert).is_some_and(|names| names.is_root()));
        if anchors.is_empty() {
            anchors = std::mem::take(&mut issuers);
        }
        let mut roots = RootCertStore::empty();
        for cert in &anchors {
            roots.add(cert.clone()).map_err(|error| TlsConfigError::BadAuthority(error.to_string()))?;
        }
        let crls = CertificateRevocationListDer::pem_slice_iter(trust.crl_pem.as_deref().unwrap_or_default())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| TlsConfigError::BadList(format!("{error:?}")))?;
        if trust.crl_pem.is_some() && crls.is_empty() {
            return Err(TlsConfigError::BadList("no revocation list in the PEM text".into()));
        }
        let read = |list| webpki::OwnedCertRevocationList::from_der(list).map(Into::into);
        let lists = crls
            .iter()
            .filter(|_| trust.depth.is_some())
            .map(|list| read(list))
            .collect::<Result<Vec<_>, webpki::Error>>()
            .map_err(|error| TlsConfigError::BadList(format!("{error:?}")))?;
        Ok(Self { roots: Arc::new(roots), crls, lists, anchors, issuers, all, depth: trust.depth })
    }

    /// What was sent, with the issuers that need not be.
    pub(crate) fn with_issuers<'a>(
        &'a self,
        sent: &'a [CertificateDer<'a>],
    ) -> Cow<'a, [CertificateDer<'a>]> {
        if self.issuers.is_empty() {
            return Cow::Borrowed(sent);
        }
        Cow::Owned(sent.iter().chain(&self.issuers).map(|cert| CertificateDer::from(&**cert)).collect())
    }

    /// Whether a chain that verifies is short enough, too.
    pub(crate) fn near_enough(
        &self,
        provider: &CryptoProvider,
        cert: &CertificateDer<'_>,
        issuers: &[CertificateDer<'_>],
        now: UnixTime,
        usage: webpki::KeyUsage,
    ) -> Result<(), Error> {
        let Some(depth) = self.depth.filter(|depth| issuers.len() > *depth) else { return Ok(()) };
        let short = |path: &webpki::VerifiedPath<'_>| {
            let count = path.intermediate_certificates().count();
            if count <= depth { Ok(()) } else { Err(webpki::Error::MaximumPathDepthExceeded) }
        };
        let algorithms = provider.signature_verification_algorithms.all;
        let lists: Vec<_> = self.lists.iter().collect();
        let revoked = webpki::RevocationOptionsBuilder::new(&lists)
            .ok()
            .map(|options| options.with_expiration_policy(webpki::ExpirationPolicy::Enforce).build());
        let roots = &self.roots.roots;
        webpki::EndEntityCert::try_from(cert)
            .and_then(|end| {
                end.verify_for_usage(algorithms, roots, issuers, now, usage, revoked, Some(&short)).map(drop)
            })
            .map_err(|_| CertificateError::UnknownIssuer.into())
    }

    /// Whether the certificate itself is one of those trusted, and its time is now: webpki alone refuses a self-signed
    /// certificate that may sign others, which is what `openssl req -x509` makes.
    pub(crate) fn holds(&self, cert: &CertificateDer<'_>, now: UnixTime) -> bool {
        self.all.iter().any(|trusted| trusted == cert) && time_failure(cert, now).is_none()
    }

    /// OpenSSL's words for the failure of a chain (certificate first). Which of several faults is told is OpenSSL's choice
    /// too: a time that is over comes before a chain without end.
    pub(crate) fn failure(&self, chain: &[CertificateDer<'_>], now: UnixTime, error: &Error) -> CertFailure {
        use CertificateError as C;
        let Error::InvalidCertificate(error) = error else { return UNSPECIFIED };
        if let Some(out_of_time) = chain.first().and_then(|cert| time_failure(cert, now)) {
            return out_of_time;
        }
        match error {
            C::Expired | C::ExpiredContext { .. } => told(10, "certificate has expired"),
            C::NotValidYet | C::NotValidYetContext { .. } => told(9, "certificate is not yet valid"),
            C::Revoked => told(23, "certificate revoked"),
            C::UnknownRevocationStatus => told(3, "unable to get certificate CRL"),
            C::ExpiredRevocationList | C::ExpiredRevocationListContext { .. } => told(12, "CRL has expired"),
            C::BadSignature => told(7, "certificate signature failure"),
            C::InvalidPurpose | C::InvalidPurposeContext { .. } => told(26, "unsuitable certificate purpose"),
            C::UnhandledCriticalExtension => told(34, "unhandled critical extension"),
            _ => self.endless(chain),
        }
    }

    /// Why the issuers, followed by name, lead to no authority.
    fn endless(&self, chain: &[CertificateDer<'_>]) -> CertFailure {
        let Some((mut top, sent)) = chain.split_first().and_then(|(first, rest)| Some((names(first)?, rest)))
        else {
            return UNSPECIFIED;
        };
        let read = |list: &[CertificateDer<'_>]| list.iter().filter_map(names).collect::<Vec<_>>();
        let (own, sent) = (read(&self.all), read(sent));
        let most = self.depth.map_or(usize::MAX, |depth| depth.saturating_add(1));
        let (mut known, mut steps) = (false, 0);
        while !top.is_root() && steps < most.min(sent.len() + own.len()) {
            let issues = |names: &&Names| names.subject == top.issuer;
            let trusted = own.iter().find(issues);
            known = trusted.is_some();
            let Some(issuer) = trusted.or_else(|| sent.iter().find(issues)) else { break };
            (top, steps) = (issuer.clone(), steps + 1);
        }
        match (top.is_root(), steps, known) {
            (true, _, true) => UNSPECIFIED,
            (true, 0, false) => told(18, "self-signed certificate"),
            (true, ..) => told(19, "self-signed certificate in certificate chain"),
            (false, _, true) => told(2, "unable to get issuer certificate"),
            (false, 0, false) => told(21, "unable to verify the first certificate"),
            (false, ..) => told(20, "unable to get local issuer certificate"),
        }
    }
}

const UNSPECIFIED: CertFailure = told(1, "unspecified certificate verification error");

const fn told(code: u16, text: &'static str) -> CertFailure {
    CertFailure { code, text }
}

/// Whom a certificate is for and whom it is by, as they are encoded.
#[derive(Clone)]
struct Names {
    subject: Vec<u8>,
    issuer: Vec<u8>,
}

impl Names {
    fn is_root(&self) -> bool {
        self.subject == self.issuer
    }
}

fn names(der: &CertificateDer<'_>) -> Option<Names> {
    let (_, cert) = X509Certificate::from_der(der).ok()?;
    Some(Names { subject: cert.subject.as_raw().to_vec(), issuer: cert.issuer.as_raw().to_vec() })
}

fn time_failure(der: &CertificateDer<'_>, now: UnixTime) -> Option<CertFailure> {
    let (_, cert) = X509Certificate::from_der(der).ok()?;
    let (validity, now) = (cert.validity(), now.as_secs() as i64);
    if now < validity.not_before.timestamp() {
        return Some(told(9, "certificate is not yet valid"));
    }
    (now > validity.not_after.timestamp()).then_some(told(10, "certificate has expired"))
}
