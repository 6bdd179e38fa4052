//! Variables about the client's TLS connection and certificate.

use weir_expr::TlsVar;

use crate::exchange::TlsFacts;

/// Appends the value of a TLS variable; false if there is none.
pub(super) fn append(facts: &TlsFacts, var: TlsVar, out: &mut Vec<u8>) -> bool {
    let text = |text: &str, out: &mut Vec<u8>| {
        out.extend_from_slice(text.as_bytes());
        !text.is_empty()
    };
    match var {
        TlsVar::TlsProtocol => text(facts.protocol, out),
        TlsVar::TlsCipher => text(facts.cipher, out),
        TlsVar::TlsCurve => text(&facts.curve, out),
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
        // Neither TLS 1.3 nor tickets have a session id worth showing, and early data is not accepted.
        TlsVar::TlsSessionId | TlsVar::TlsEarlyData => false,
    }
}

fn certificate(der: &[u8], var: TlsVar, out: &mut Vec<u8>) -> bool {
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
