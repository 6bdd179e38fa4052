//! OCSP (RFC 6960): asking whether a certificate was revoked, and reading what a responder says.
//!
//! Owns: [`OcspQuestion`], the request that it makes and what counts as its answer.
//! Never: sends anything, keeps anything, trusts a length.
//! Driven by: whoever asks responders: `engine`'s stapling, and its checks of clients.
//! Why an answer's signature is always verified: its issuer is known, since the question names it. Without that, whoever
//! stands between here and a responder, which is asked in clear, decides.

use std::time::Duration;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use rustls::crypto::CryptoProvider;
use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

use super::cert::read_certs;
use super::der::{BITS, Der, INTEGER, OBJECT, OCTETS, SEQUENCE, public_key_of};

/// 1.3.14.3.2.26, SHA-1: what all responders know certificates by.
const SHA1: [u8; 5] = [0x2b, 14, 3, 2, 26];
/// 1.3.6.1.5.5.7.48.1.1, a basic response.
const BASIC: [u8; 9] = [0x2b, 6, 1, 5, 5, 7, 48, 1, 1];
/// 1.3.6.1.5.5.7.3.9, the right to sign responses in the place of an issuer.
const SIGNS: [u8; 8] = [0x2b, 6, 1, 5, 5, 7, 3, 9];
/// 1.3.6.1.5.5.7.48.1, where a responder is.
const RESPONDER: &str = "1.3.6.1.5.5.7.48.1";
const ENUMERATED: u8 = 0x0a;
/// How far clocks may be apart.
const SKEW: u64 = 300;
/// An answer that does not say when the next one comes is used for so long.
const UNNAMED: u64 = 60 * 60;

/// A certificate that somebody is asked about, with who issued it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OcspQuestion {
    certificate: Vec<u8>,
    issuer: Vec<u8>,
    id: CertId,
}

/// What a certificate is known by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CertId {
    name: Vec<u8>,
    key: Vec<u8>,
    serial: Vec<u8>,
}

/// What a responder says of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OcspStatus {
    /// It was not revoked.
    Good,
    /// It was.
    Revoked,
    /// The responder does not know it.
    Unknown,
}

/// What a responder says, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OcspAnswer {
    /// Of the certificate.
    pub status: OcspStatus,
    /// Since when, in seconds since 1970.
    pub this_update: u64,
    /// Until when it may be used.
    pub until: u64,
}

/// Why something is no answer.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum OcspFault {
    /// The certificate's issuer is not at hand.
    #[error("the certificate's issuer is not found")]
    NoIssuer,
    /// A certificate cannot be read.
    #[error("cannot read the certificate")]
    BadCertificate,
    /// The response is none.
    #[error("what came is no OCSP response")]
    Malformed,
    /// The responder refuses.
    #[error("the responder says \"{0}\"")]
    Refused(&'static str),
    /// The response is about others.
    #[error("the response says nothing of the certificate")]
    OfOthers,
    /// Nobody signed it who may.
    #[error("the response's signature does not verify")]
    Signature,
    /// It is too old, or not valid yet.
    #[error("the response is not valid now")]
    Times,
}

impl OcspQuestion {
    /// About the first certificate of a PEM text, whose issuer is among the others or among `more`.
    ///
    /// # Errors
    /// It, or its issuer, is not to be found.
    pub fn of_chain(pem: &[u8], more: &[&[u8]]) -> Result<Self, OcspFault> {
        let chain = read_certs(pem).map_err(|_| OcspFault::BadCertificate)?;
        let more: Vec<_> = more.iter().flat_map(|pem| read_certs(pem).unwrap_or_default()).collect();
        let all: Vec<&[u8]> = chain.iter().chain(&more).map(|der| &**der).collect();
        Self::of(&chain[0], &all)
    }

    /// About a certificate (DER), whose issuer is one of these.
    ///
    /// # Errors
    /// It cannot be read, or its issuer is none of these.
    pub fn of(certificate: &[u8], issuers: &[&[u8]]) -> Result<Self, OcspFault> {
        let own = Parts::read(certificate).ok_or(OcspFault::BadCertificate)?;
        let issued = |one: &&&[u8]| {
            Parts::read(one).is_some_and(|parts| parts.subject == own.issuer)
                && signed_by(one, own.algorithm, own.tbs, own.signature)
        };
        let issuer = issuers.iter().find(issued).ok_or(OcspFault::NoIssuer)?;
        let sha1 = |bytes: &[u8]| digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec();
        let key = public_key_of(issuer).and_then(|bits| bits.get(1..)).ok_or(OcspFault::BadCertificate)?;
        let id = CertId { name: sha1(own.issuer), key: sha1(key), serial: own.serial.to_vec() };
        Ok(Self { certificate: certificate.to_vec(), issuer: issuer.to_vec(), id })
    }

    /// Whether the certificate is its own issuer's: nobody is asked about such.
    pub fn is_self_issued(&self) -> bool {
        self.certificate == self.issuer
    }

    /// The serial number of the certificate, as it is written.
    pub fn serial(&self) -> &[u8] {
        &self.id.serial
    }

    /// The identity of the certificate (CertID, DER), which other programs know a response by.
    pub fn id(&self) -> Vec<u8> {
        let algorithm = element(SEQUENCE, &[element(OBJECT, &SHA1), vec![5, 0]].concat());
        let parts = [
            algorithm,
            element(OCTETS, &self.id.name),
            element(OCTETS, &self.id.key),
            element(INTEGER, &self.id.serial),
        ];
        element(SEQUENCE, &parts.concat())
    }

    /// Where the certificate says that its responder is.
    pub fn responder(&self) -> Option<String> {
        let (_, certificate) = X509Certificate::from_der(&self.certificate).ok()?;
        certificate.extensions().iter().find_map(|extension| {
            let ParsedExtension::AuthorityInfoAccess(access) = extension.parsed_extension() else {
                return None;
            };
            let mut found =
                access.accessdescs.iter().filter(|one| one.access_method.to_id_string() == RESPONDER);
            found.find_map(|one| match one.access_location {
                GeneralName::URI(uri) => Some(uri.to_owned()),
                _ => None,
            })
        })
    }

    /// What a responder is sent (OCSPRequest, DER).
    pub fn request(&self) -> Vec<u8> {
        let mut nested = self.id();
        for _ in 0..4 {
            nested = element(SEQUENCE, &nested);
        }
        nested
    }

    /// Whether the certificate comes from one of these authorities (PEM), as a server's.
    pub fn comes_from(&self, authorities: &[u8], now: Duration) -> bool {
        let Ok(trusted) = read_certs(authorities) else { return false };
        let anchors: Vec<_> = trusted.iter().filter_map(|one| anchor_from_trusted_cert(one).ok()).collect();
        let leaf = CertificateDer::from(&self.certificate[..]);
        let Ok(leaf) = EndEntityCert::try_from(&leaf) else { return false };
        let issuer = [CertificateDer::from(&self.issuer[..])];
        let usage = KeyUsage::server_auth();
        let now = UnixTime::since_unix_epoch(now);
        let provider = provider();
        let algorithms = provider.signature_verification_algorithms.all;
        leaf.verify_for_usage(algorithms, &anchors, &issuer, now, usage, None, None).is_ok()
    }

    /// What a response (DER) says now, if the issuer or who it lets sign in its place has signed it.
    ///
    /// # Errors
    /// It is no answer to this question.
    pub fn answer(&self, response: &[u8], now: Duration) -> Result<OcspAnswer, OcspFault> {
        let basic = Basic::read(response)?;
        let single = singles(basic.tbs).ok_or(OcspFault::Malformed)?;
        let own = single.into_iter().find(|single| single.is_about(&self.id)).ok_or(OcspFault::OfOthers)?;
        if !self.is_signed(&basic, now) {
            return Err(OcspFault::Signature);
        }
        let until = own.next_update.unwrap_or(own.this_update.saturating_add(UNNAMED));
        let seconds = now.as_secs();
        if own.this_update > seconds.saturating_add(SKEW)
            || until.saturating_add(SKEW) < seconds
            || until < own.this_update
        {
            return Err(OcspFault::Times);
        }
        Ok(OcspAnswer { status: own.status, this_update: own.this_update, until })
    }

    fn is_signed(&self, basic: &Basic<'_>, now: Duration) -> bool {
        let by = |signer: &[u8]| signed_by(signer, basic.algorithm, basic.tbs, basic.signature);
        by(&self.issuer) || basic.certificates.iter().any(|one| self.lets_sign(one, now) && by(one))
    }

    /// Whether the issuer has given a certificate the right to sign in its place.
    fn lets_sign(&self, certificate: &[u8], now: Duration) -> bool {
        let (signer, issuer) = (CertificateDer::from(certificate), CertificateDer::from(&self.issuer[..]));
        let (Ok(signer), Ok(anchor)) = (EndEntityCert::try_from(&signer), anchor_from_trusted_cert(&issuer))
        else {
            return false;
        };
        let usage = KeyUsage::required(&SIGNS);
        let now = UnixTime::since_unix_epoch(now);
        let provider = provider();
        let algorithms = provider.signature_verification_algorithms.all;
        signer.verify_for_usage(algorithms, &[anchor], &[], now, usage, None, None).is_ok()
    }
}

fn provider() -> CryptoProvider {
    rustls::crypto::aws_lc_rs::default_provider()
}

/// Whether the key of a certificate has signed a message. `algorithm`: the content of an AlgorithmIdentifier.
fn signed_by(signer: &[u8], algorithm: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let signer = CertificateDer::from(signer);
    let Ok(signer) = EndEntityCert::try_from(&signer) else { return false };
    let provider = provider();
    let named = provider.signature_verification_algorithms.all.iter();
    let mut named = named.filter(|one| one.signature_alg_id().as_ref() == algorithm);
    named.any(|one| signer.verify_signature(*one, message, signature).is_ok())
}

/// An element of DER.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = content.len().to_be_bytes();
    let significant = &len[len.iter().take_while(|&&byte| byte == 0).count().min(len.len() - 1)..];
    let mut out = vec![tag];
    match significant {
        [short @ ..0x80] => out.push(*short),
        long => {
            out.push(0x80 | long.len() as u8);
            out.extend_from_slice(long);
        }
    }
    out.extend_from_slice(content);
    out
}

/// As much of a certificate as says who issued it.
struct Parts<'a> {
    tbs: &'a [u8],
    serial: &'a [u8],
    issuer: &'a [u8],
    subject: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Parts<'a> {
    fn read(certificate: &'a [u8]) -> Option<Self> {
        let mut whole = Der::new(certificate).sequence()?;
        let tbs = whole.element(SEQUENCE)?;
        let algorithm = whole.take(SEQUENCE)?;
        let signature = bits(whole.take(BITS)?)?;
        let mut inner = Der::new(tbs).sequence()?;
        let _ = inner.take(0xa0);
        let serial = inner.take(INTEGER)?;
        inner.take(SEQUENCE)?;
        let issuer = inner.element(SEQUENCE)?;
        inner.take(SEQUENCE)?;
        let subject = inner.element(SEQUENCE)?;
        Some(Self { tbs, serial, issuer, subject, algorithm, signature })
    }
}

/// The bytes of a BIT STRING of whole ones.
fn bits(content: &[u8]) -> Option<&[u8]> {
    content.split_first().filter(|(unused, _)| **unused == 0).map(|(_, bytes)| bytes)
}

/// A basic response, taken apart.
struct Basic<'a> {
    tbs: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
    certificates: Vec<&'a [u8]>,
}

/// Certificates of a response that are looked at.
const SIGNERS: usize = 4;

impl<'a> Basic<'a> {
    fn read(response: &'a [u8]) -> Result<Self, OcspFault> {
        let mut whole = Der::new(response).sequence().ok_or(OcspFault::Malformed)?;
        match whole.take(ENUMERATED).ok_or(OcspFault::Malformed)? {
            [0] => {}
            [1] => return Err(OcspFault::Refused("malformed request")),
            [2] => return Err(OcspFault::Refused("internal error")),
            [3] => return Err(OcspFault::Refused("try later")),
            [5] => return Err(OcspFault::Refused("a signature is required")),
            [6] => return Err(OcspFault::Refused("unauthorized")),
            _ => return Err(OcspFault::Malformed),
        }
        Self::of_bytes(whole).ok_or(OcspFault::Malformed)
    }

    fn of_bytes(mut whole: Der<'a>) -> Option<Self> {
        let mut bytes = Der::new(whole.take(0xa0)?).sequence()?;
        if bytes.take(OBJECT)? != BASIC {
            return None;
        }
        let mut basic = Der::new(bytes.take(OCTETS)?).sequence()?;
        let tbs = basic.element(SEQUENCE)?;
        let algorithm = basic.take(SEQUENCE)?;
        let signature = bits(basic.take(BITS)?)?;
        let mut certificates = Vec::new();
        if let Some(list) = basic.take(0xa0) {
            let mut list = Der::new(list).sequence()?;
            while let Some(one) = list.element(SEQUENCE).filter(|_| certificates.len() < SIGNERS) {
                certificates.push(one);
            }
        }
        Some(Self { tbs, algorithm, signature, certificates })
    }
}

/// Reads a response; how many certificates it speaks of.
pub(super) fn take_apart(response: &[u8]) -> Option<usize> {
    Basic::read(response).ok().and_then(|basic| singles(basic.tbs)).map(|all| all.len())
}

/// What a response says of one certificate.
struct Single<'a> {
    algorithm: &'a [u8],
    name: &'a [u8],
    key: &'a [u8],
    serial: &'a [u8],
    status: OcspStatus,
    this_update: u64,
    next_update: Option<u64>,
}

/// Certificates that a response speaks of, of those that are looked at.
const SINGLES: usize = 64;

fn singles(tbs: &[u8]) -> Option<Vec<Single<'_>>> {
    let mut data = Der::new(tbs).sequence()?;
    let _ = data.take(0xa0);
    // Who answers, and when: it is the signature that counts.
    data.next()?;
    data.next()?;
    let mut list = data.sequence()?;
    let mut all = Vec::new();
    while !list.is_empty() && all.len() < SINGLES {
        all.push(single(list.sequence()?)?);
    }
    Some(all)
}

fn single(mut one: Der<'_>) -> Option<Single<'_>> {
    let mut id = one.sequence()?;
    let algorithm = id.sequence()?.take(OBJECT)?;
    let (name, key, serial) = (id.take(OCTETS)?, id.take(OCTETS)?, id.take(INTEGER)?);
    let status = match one.next()?.0 {
        0x80 => OcspStatus::Good,
        0xa1 => OcspStatus::Revoked,
        0x82 => OcspStatus::Unknown,
        _ => return None,
    };
    let this_update = time(one.element(0x18)?)?;
    let next_update = match one.take(0xa0) {
        Some(next) => Some(time(next)?),
        None => None,
    };
    Some(Single { algorithm, name, key, serial, status, this_update, next_update })
}

impl Single<'_> {
    fn is_about(&self, id: &CertId) -> bool {
        self.algorithm == SHA1 && self.name == id.name && self.key == id.key && self.serial == id.serial
    }
}

/// GeneralizedTime in seconds since 1970.
fn time(element: &[u8]) -> Option<u64> {
    let (_, time) = ASN1Time::from_der(element).ok()?;
    u64::try_from(time.timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(serial: &[u8]) -> CertId {
        CertId { name: vec![1; 20], key: vec![2; 20], serial: serial.to_vec() }
    }

    /// A response of nobody's about a certificate.
    fn response(id: &CertId, status: &[u8], next: Option<&[u8]>) -> Vec<u8> {
        let question = OcspQuestion { certificate: Vec::new(), issuer: Vec::new(), id: id.clone() };
        let next = next.map_or_else(Vec::new, |next| element(0xa0, &element(0x18, next)));
        let one = [&question.id()[..], status, &element(0x18, b"20260101000000Z"), &next].concat();
        let list = element(SEQUENCE, &element(SEQUENCE, &one));
        let data =
            [element(0xa2, &element(OCTETS, &[2; 20])), element(0x18, b"20260101000000Z"), list].concat();
        let basic = [element(SEQUENCE, &data), element(SEQUENCE, &[]), element(BITS, &[0, 1])].concat();
        let bytes = [element(OBJECT, &BASIC), element(OCTETS, &element(SEQUENCE, &basic))].concat();
        let whole = [element(ENUMERATED, &[0]), element(0xa0, &element(SEQUENCE, &bytes))].concat();
        element(SEQUENCE, &whole)
    }

    #[test]
    fn responses_are_taken_apart() {
        let own = id(&[0x12, 0x34]);
        let bytes = response(&own, &[0x80, 0], Some(b"20260102000000Z"));
        let basic = Basic::read(&bytes).unwrap();
        let all = singles(basic.tbs).unwrap();
        assert!(all[0].is_about(&own) && !all[0].is_about(&id(&[0x12, 0x35])));
        assert_eq!(all[0].status, OcspStatus::Good);
        assert_eq!(all[0].next_update, Some(all[0].this_update + 86_400));
        for len in 0..bytes.len() {
            assert_eq!(take_apart(&bytes[..len]), None, "{len}");
        }
        let revoked = response(&own, &element(0xa1, &element(0x18, b"20260101000000Z")), None);
        assert_eq!(singles(Basic::read(&revoked).unwrap().tbs).unwrap()[0].status, OcspStatus::Revoked);
        assert_eq!(Basic::read(&[0x30, 3, 0x0a, 1, 3]).err(), Some(OcspFault::Refused("try later")));
    }

    #[test]
    fn nobody_may_sign_by_saying_nothing() {
        let own = id(&[7]);
        let question = OcspQuestion { certificate: Vec::new(), issuer: Vec::new(), id: own.clone() };
        let now = Duration::from_secs(1_767_230_000);
        let answer = |bytes: &[u8]| question.answer(bytes, now).err();
        assert_eq!(answer(&response(&own, &[0x80, 0], None)), Some(OcspFault::Signature));
        assert_eq!(answer(&response(&id(&[8]), &[0x80, 0], None)), Some(OcspFault::OfOthers));
    }

    #[test]
    fn lengths_are_written_as_der_has_them() {
        assert_eq!(element(4, &[1]), [4, 1, 1]);
        assert_eq!(element(4, &[0; 0x80])[..3], [4, 0x81, 0x80]);
        assert_eq!(element(4, &[0; 0x123])[..4], [4, 0x82, 1, 0x23]);
        assert_eq!(element(5, &[]), [5, 0]);
    }
}
