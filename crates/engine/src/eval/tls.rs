//! Variables about the client's TLS connection and certificate.

use weir_expr::{CertPart, DnPart, EndpointTls, TlsVar};
use weir_rt::{CertName, CertView};

use super::vars::write::{extend, number, text_of};
use crate::exchange::{Core, TlsFacts, Verified};

/// Appends the value of a TLS variable; false if there is none.
pub(super) fn append(facts: &TlsFacts, var: TlsVar<'_>, out: &mut Vec<u8>) -> bool {
    let text = |text: &str, out: &mut Vec<u8>| {
        out.extend_from_slice(text.as_bytes());
        !text.is_empty()
    };
    match var {
        TlsVar::TlsProtocol => text(facts.protocol, out),
        TlsVar::TlsCipher => text(facts.cipher, out),
        TlsVar::TlsCurve => text(&facts.curve, out),
        TlsVar::TlsOfferedCiphers => facts.offered.as_ref().is_some_and(|offered| {
            weir_expr::offered::suites(&offered.0, out);
            !offered.0.is_empty()
        }),
        TlsVar::TlsOfferedGroups => facts.offered.as_ref().is_some_and(|offered| {
            weir_expr::offered::groups(&offered.1, out);
            !offered.1.is_empty()
        }),
        TlsVar::TlsServerName => facts.server_name.as_deref().is_some_and(|name| text(name, out)),
        TlsVar::TlsAlpn => {
            out.extend_from_slice(facts.alpn.as_deref().unwrap_or_default());
            facts.alpn.is_some()
        }
        TlsVar::TlsResumed => text(if facts.resumed { "r" } else { "." }, out),
        TlsVar::TlsClientVerify => text(&facts.verified.to_string(), out),
        TlsVar::TlsClientSubject
        | TlsVar::TlsClientIssuer
        | TlsVar::TlsClientSerial
        | TlsVar::TlsClientFingerprint
        | TlsVar::TlsClientCert
        | TlsVar::TlsClientCertEscaped => {
            facts.certificate.as_deref().is_some_and(|der| certificate(der, var, out))
        }
        TlsVar::TlsClientPart(part) => {
            let view = facts.certificate.as_deref().and_then(CertView::from_der);
            view.is_some_and(|view| append_part(facts.certificate.as_deref(), &view, part, out))
        }
        TlsVar::TlsVerifyCode => match facts.verified {
            Verified::None | Verified::Success => number(out, Some(0)),
            Verified::Failed(failure) => number(out, Some(failure.code.into())),
        },
        TlsVar::TlsKeyBits => number(out, key_bits(facts.cipher)),
        // It is the listener's, which facts do not know.
        TlsVar::TlsOwnPart(_) => false,
        TlsVar::TlsEarlyData => text(if facts.is_early() { "1" } else { "" }, out),
        // Neither TLS 1.3 nor tickets have a session id worth showing.
        TlsVar::TlsSessionId => false,
    }
}

/// Appends what TLS with an endpoint is like; without facts there is none.
pub(super) fn of_endpoint(facts: Option<&TlsFacts>, part: &EndpointTls, out: &mut Vec<u8>) -> bool {
    let Some(facts) = facts else { return matches!(part, EndpointTls::Used) && number(out, Some(0)) };
    match part {
        EndpointTls::Used => number(out, Some(1)),
        EndpointTls::Resumed => number(out, Some(facts.resumed.into())),
        EndpointTls::Protocol => text_of(out, facts.protocol.as_bytes()),
        EndpointTls::Cipher => text_of(out, facts.cipher.as_bytes()),
        EndpointTls::KeyBits => number(out, key_bits(facts.cipher)),
        EndpointTls::Alpn => extend(out, facts.alpn.as_deref()),
        EndpointTls::Certificate(part) => {
            let view = facts.certificate.as_deref().and_then(CertView::from_der);
            view.is_some_and(|view| append_part(facts.certificate.as_deref(), &view, part, out))
        }
    }
}

/// Appends a part of the certificate that the client was shown. Nobody notes which it was: it is found as it was for the
/// handshake, by the name that was asked for.
pub(super) fn own_part(traffic: &Core, part: &CertPart, out: &mut Vec<u8>) -> bool {
    let Some(der) = own_certificate(traffic) else { return false };
    CertView::from_der(&der).is_some_and(|view| append_part(Some(&der), &view, part, out))
}

fn own_certificate(traffic: &Core) -> Option<Vec<u8>> {
    let name = traffic.client.tls.as_deref()?.server_name.as_deref().unwrap_or_default();
    let plan = &traffic.installed.plan;
    let listener = traffic.installed.listener(traffic.client.listener)?;
    let tls = plan.listener(listener).tls.as_deref()?;
    let found = tls.by_name.lookup(name.as_bytes()).ok()?.value;
    let certificates = &plan.tls_identity(found).certificates;
    let is_for = |certificate: &&weir_plan::Certificate| {
        let names = weir_rt::cert_names(&certificate.chain.bytes).unwrap_or_default();
        let matches = |known: &String| match known.strip_prefix('*') {
            Some(suffix) => {
                name.split_once('.').is_some_and(|(_, rest)| suffix.strip_prefix('.') == Some(rest))
            }
            None => known.eq_ignore_ascii_case(name),
        };
        names.iter().any(matches)
    };
    let chosen = certificates.iter().find(is_for).or(certificates.first())?;
    let given = traffic.worker.shared.changes.certificate(&chosen.name());
    match given {
        Some(pair) => weir_rt::first_certificate(pair.chain.as_bytes()),
        None => weir_rt::first_certificate(&chosen.chain.bytes),
    }
}

/// A part of a certificate, as HAProxy shows it.
fn append_part(der: Option<&[u8]>, view: &CertView<'_>, part: &CertPart, out: &mut Vec<u8>) -> bool {
    match part {
        CertPart::Der => extend(out, der),
        CertPart::Subject(shown) => append_name(view.subject(), shown, out),
        CertPart::Issuer(shown) => append_name(view.issuer(), shown, out),
        CertPart::Serial => text_of(out, view.serial()),
        CertPart::Sha1 => text_of(out, &view.sha1()),
        CertPart::NotBefore => extend(out, view.not_before().as_deref().map(str::as_bytes)),
        CertPart::NotAfter => extend(out, view.not_after().as_deref().map(str::as_bytes)),
        CertPart::BeginsShown => text_of(out, view.not_before_text().as_bytes()),
        CertPart::EndsShown => text_of(out, view.not_after_text().as_bytes()),
        CertPart::DaysLeft => number(out, Some(view.days_left(weir_rt::unix_now()))),
        CertPart::KeyAlgorithm => extend(out, view.key_algorithm().map(str::as_bytes)),
        CertPart::SignatureAlgorithm => extend(out, view.signature_algorithm().map(str::as_bytes)),
        CertPart::Version => number(out, Some(view.version().into())),
    }
}

fn append_name(name: CertName<'_>, shown: &DnPart, out: &mut Vec<u8>) -> bool {
    match shown {
        DnPart::OneLine => text_of(out, &name.one_line()),
        DnPart::Rfc2253 => text_of(out, name.rfc2253().as_bytes()),
        DnPart::Attribute(attribute, nth) => extend(out, name.attribute(attribute, *nth)),
    }
}

/// Bits of the key of a suite in OpenSSL's spelling.
fn key_bits(cipher: &str) -> Option<u64> {
    let long = ["AES256", "AES_256", "CHACHA20"].iter().any(|word| cipher.contains(word));
    let short = ["AES128", "AES_128"].iter().any(|word| cipher.contains(word));
    if long { Some(256) } else { short.then_some(128) }
}

fn certificate(der: &[u8], var: TlsVar<'_>, out: &mut Vec<u8>) -> bool {
    match var {
        TlsVar::TlsClientCert => out.extend_from_slice(pem(der).replace('\n', "\n\t").trim_end().as_bytes()),
        TlsVar::TlsClientCertEscaped => {
            weir_http::uri::escape(weir_http::uri::Escape::Component, pem(der).as_bytes(), out);
        }
        _ => {
            let Some(info) = weir_rt::CertInfo::from_der(der) else { return false };
            out.extend_from_slice(match var {
                TlsVar::TlsClientSubject => info.subject.as_bytes(),
                TlsVar::TlsClientIssuer => info.issuer.as_bytes(),
                TlsVar::TlsClientSerial => info.serial.as_bytes(),
                _ => info.sha1.as_bytes(),
            });
        }
    }
    true
}

/// A certificate in PEM (RFC 7468).
fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let coded = base64::engine::general_purpose::STANDARD.encode(der);
    let mut out = String::from("-----BEGIN CERTIFICATE-----\n");
    for at in (0..coded.len()).step_by(64) {
        out.push_str(&coded[at..coded.len().min(at + 64)]);
        out.push('\n');
    }
    out.push_str("-----END CERTIFICATE-----\n");
    out
}
