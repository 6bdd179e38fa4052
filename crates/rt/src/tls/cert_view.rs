//! A certificate, part by part, as OpenSSL names its parts.
//!
//! Owns: short names of attributes and algorithms, forms of names and times.
//! Never: judges; `trust` and `verify` do.
//! Driven by: `cert`, and variables that show one part (HAProxy's `ssl_c_…`).

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use x509_parser::der_parser::Oid;
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate, X509Name};

/// Attributes of names: number, short name.
const ATTRIBUTES: [(&str, &str); 26] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.16", "postalAddress"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.20", "telephoneNumber"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.97", "organizationIdentifier"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.2.840.113549.1.9.2", "unstructuredName"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

/// Algorithms of keys and signatures: number, short name.
const ALGORITHMS: [(&str, &str); 19] = [
    ("1.2.840.113549.1.1.1", "rsaEncryption"),
    ("1.2.840.113549.1.1.4", "RSA-MD5"),
    ("1.2.840.113549.1.1.5", "RSA-SHA1"),
    ("1.2.840.113549.1.1.10", "RSASSA-PSS"),
    ("1.2.840.113549.1.1.11", "RSA-SHA256"),
    ("1.2.840.113549.1.1.12", "RSA-SHA384"),
    ("1.2.840.113549.1.1.13", "RSA-SHA512"),
    ("1.2.840.113549.1.1.14", "RSA-SHA224"),
    ("1.2.840.10045.2.1", "id-ecPublicKey"),
    ("1.2.840.10045.4.1", "ecdsa-with-SHA1"),
    ("1.2.840.10045.4.3.1", "ecdsa-with-SHA224"),
    ("1.2.840.10045.4.3.2", "ecdsa-with-SHA256"),
    ("1.2.840.10045.4.3.3", "ecdsa-with-SHA384"),
    ("1.2.840.10045.4.3.4", "ecdsa-with-SHA512"),
    ("1.2.840.10040.4.1", "DSA"),
    ("1.2.840.10040.4.3", "DSA-SHA1"),
    ("2.16.840.1.101.3.4.3.2", "dsa_with_SHA256"),
    ("1.3.101.112", "ED25519"),
    ("1.3.101.113", "ED448"),
];

/// The public key in PEM: one by itself, or that of a certificate; DER with its algorithm.
pub fn public_key(pem: &[u8]) -> Option<Vec<u8>> {
    if let Ok(key) = SubjectPublicKeyInfoDer::from_pem_slice(pem) {
        return Some(key.to_vec());
    }
    let certificate = CertificateDer::from_pem_slice(pem).ok()?;
    Some(CertView::from_der(&certificate)?.public_key().to_vec())
}

/// The first certificate of a PEM text, DER.
pub fn first_certificate(pem: &[u8]) -> Option<Vec<u8>> {
    CertificateDer::from_pem_slice(pem).ok().map(|der| der.to_vec())
}

/// A certificate that was read.
#[derive(Debug)]
pub struct CertView<'a> {
    der: &'a [u8],
    cert: X509Certificate<'a>,
}

impl<'a> CertView<'a> {
    /// Reads a DER certificate.
    pub fn from_der(der: &'a [u8]) -> Option<Self> {
        let (_, cert) = X509Certificate::from_der(der).ok()?;
        Some(Self { der, cert })
    }

    /// Its public key, DER with its algorithm.
    pub fn public_key(&self) -> &[u8] {
        self.cert.public_key().raw
    }

    /// Whom it is about.
    pub fn subject(&self) -> CertName<'_> {
        CertName(self.cert.subject())
    }

    /// Who signed it.
    pub fn issuer(&self) -> CertName<'_> {
        CertName(self.cert.issuer())
    }

    /// The serial number, without the zero that keeps it from being negative.
    pub fn serial(&self) -> &[u8] {
        match self.cert.raw_serial() {
            [0, rest @ ..] if !rest.is_empty() => rest,
            serial => serial,
        }
    }

    /// SHA-1 of the DER form.
    pub fn sha1(&self) -> Vec<u8> {
        aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, self.der).as_ref().to_vec()
    }

    /// Start of validity, `YYMMDDhhmmssZ`; `None`: it is of another century.
    pub fn not_before(&self) -> Option<String> {
        short_time(self.cert.validity().not_before)
    }

    /// End of validity, likewise.
    pub fn not_after(&self) -> Option<String> {
        short_time(self.cert.validity().not_after)
    }

    /// Start of validity, as OpenSSL prints it: `Nov  6 08:49:37 1994 GMT`.
    pub fn not_before_text(&self) -> String {
        printed_time(self.cert.validity().not_before)
    }

    /// End of validity, likewise.
    pub fn not_after_text(&self) -> String {
        printed_time(self.cert.validity().not_after)
    }

    /// Whole days from `now`, a time since 1970, to the end of validity; 0 from then on.
    pub fn days_left(&self, now: std::time::Duration) -> u64 {
        u64::try_from(self.ends()).unwrap_or(0).saturating_sub(now.as_secs()) / 86_400
    }

    /// The start of validity, seconds since 1970.
    pub fn begins(&self) -> i64 {
        self.cert.validity().not_before.timestamp()
    }

    /// The end of validity, seconds since 1970.
    pub fn ends(&self) -> i64 {
        self.cert.validity().not_after.timestamp()
    }

    /// The algorithm of its key, if OpenSSL has a name for it.
    pub fn key_algorithm(&self) -> Option<&'static str> {
        named(&ALGORITHMS, &self.cert.public_key().algorithm.algorithm)
    }

    /// The algorithm of its signature, if OpenSSL has a name for it.
    pub fn signature_algorithm(&self) -> Option<&'static str> {
        named(&ALGORITHMS, &self.cert.signature_algorithm.algorithm)
    }

    /// Its version, from 1.
    pub fn version(&self) -> u32 {
        self.cert.version().0 + 1
    }
}

/// A name in a certificate.
#[derive(Clone, Copy, Debug)]
pub struct CertName<'a>(&'a X509Name<'a>);

impl<'a> CertName<'a> {
    /// Of a name that was read.
    pub(super) fn of(name: &'a X509Name<'a>) -> Self {
        Self(name)
    }

    /// As HAProxy writes it: `/C=…/CN=…`, values as they are.
    pub fn one_line(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for attribute in self.0.iter_attributes() {
            out.push(b'/');
            out.extend_from_slice(short(attribute.attr_type()).as_bytes());
            out.push(b'=');
            out.extend_from_slice(attribute.attr_value().data);
        }
        out
    }

    /// The value of an attribute by its short name, in any letters, or by its number: its n-th from the start, or from the
    /// end if `nth` is below 0.
    pub fn attribute(&self, name: &str, nth: i64) -> Option<&[u8]> {
        let fits = |oid: &Oid<'_>| short(oid).eq_ignore_ascii_case(name);
        let values: Vec<&[u8]> = self
            .0
            .iter_attributes()
            .filter(|attribute| fits(attribute.attr_type()))
            .map(|attribute| attribute.attr_value().data)
            .collect();
        let at = usize::try_from(nth.unsigned_abs()).ok()?.checked_sub(1)?;
        if nth < 0 { values.iter().rev().nth(at) } else { values.get(at) }.copied()
    }

    /// As RFC 2253 writes it (`CN=a,O=b`, last element first).
    pub fn rfc2253(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for attribute in self.0.iter_attributes() {
            let value = attribute.as_str().map_or_else(
                |_| format!("#{}", hex(attribute.attr_value().data, b"0123456789ABCDEF")),
                escape_value,
            );
            parts.push(format!("{}={value}", short(attribute.attr_type())));
        }
        parts.reverse();
        parts.join(",")
    }
}

/// The short name of an algorithm, if OpenSSL has one.
pub(super) fn named_algorithm(oid: &Oid<'_>) -> Option<&'static str> {
    named(&ALGORITHMS, oid)
}

/// The short name of an attribute, or its number.
fn short(oid: &Oid<'_>) -> String {
    named(&ATTRIBUTES, oid).map_or_else(|| oid.to_id_string(), str::to_owned)
}

fn named(names: &[(&str, &'static str)], oid: &Oid<'_>) -> Option<&'static str> {
    let number = oid.to_id_string();
    names.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// `Nov  6 08:49:37 1994 GMT`.
pub(super) fn printed_time(time: ASN1Time) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let time = time.to_datetime();
    let month = MONTHS[usize::from(u8::from(time.month()) - 1)];
    format!(
        "{month} {:2} {:02}:{:02}:{:02} {} GMT",
        time.day(),
        time.hour(),
        time.minute(),
        time.second(),
        time.year()
    )
}

fn short_time(time: ASN1Time) -> Option<String> {
    let time = time.to_datetime();
    let year = time.year();
    let month = u8::from(time.month());
    // As HAProxy: it is of this century, or not shown.
    (2000..2100).contains(&year).then(|| {
        format!(
            "{:02}{month:02}{:02}{:02}{:02}{:02}Z",
            year % 100,
            time.day(),
            time.hour(),
            time.minute(),
            time.second()
        )
    })
}

/// Bytes in hexadecimal, with these digits.
pub(super) fn hex(bytes: &[u8], digits: &[u8; 16]) -> String {
    bytes
        .iter()
        .flat_map(|&b| [digits[usize::from(b >> 4)], digits[usize::from(b & 15)]])
        .map(char::from)
        .collect()
}

fn escape_value(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (i, c) in value.chars().enumerate() {
        let edge = (i == 0 && matches!(c, ' ' | '#')) || (i == last && c == ' ');
        if edge || matches!(c, ',' | '+' | '"' | '\\' | '<' | '>' | ';') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
