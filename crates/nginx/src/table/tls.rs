//! Words about TLS (nginx.org, ngx_http_ssl_module).

use std::sync::Arc;

use super::entry::Kind::{Flag, Number, OneOf, Seconds, Size, Text};
use super::entry::places::{HS, HSL};
use super::entry::{Entry, MANY};
use crate::take::Scope;
use crate::take::args::{bytes, count, on};
use crate::take::scope::TlsScope;
use crate::take::tls;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::one("ssl", HS, Flag, "off", "Old form of `listen … ssl`.").scope(tls::ssl_on),
    Entry::one("ssl_certificate", HS, Text, "", "A certificate chain.")
        .repeats()
        .scope(tls::take_certificate),
    Entry::one("ssl_certificate_key", HS, Text, "", "Its key.").repeats().scope(tls::take_key),
    Entry::new("ssl_protocols", HS, (1, MANY), "TLSv1.2 TLSv1.3", "Versions offered.").scope(tls::protocols),
    Entry::one("ssl_ciphers", HS, Text, "HIGH:!aNULL:!MD5", "Suites offered.").scope(tls::ciphers),
    Entry::one("ssl_ecdh_curve", HS, Text, "auto", "Key-exchange groups.").scope(tls::curves),
    Entry::one(
        "ssl_verify_client",
        HS,
        OneOf(&["on", "off", "optional", "optional_no_ca"]),
        "off",
        "Asks for client certificates.",
    )
    .scope(tls::verify_client),
    Entry::one("ssl_client_certificate", HS, Text, "", "CAs of client certificates.")
        .scope(|lo, s, d| s.tls_mut().client_ca = tls::pem_file(lo, d)),
    Entry::one("ssl_trusted_certificate", HS, Text, "", "Further CAs.")
        .scope(|lo, s, d| s.tls_mut().trusted_ca = tls::pem_file(lo, d)),
    Entry::one("ssl_crl", HS, Text, "", "Revoked certificates.")
        .scope(|lo, s, d| s.tls_mut().client_crl = tls::pem_file(lo, d)),
    Entry::one("ssl_reject_handshake", HS, Flag, "off", "Refuses handshakes for these names.")
        .scope(|_, s, d| s.tls_mut().reject = on(d)),
    Entry::new("ssl_session_cache", HS, (1, 2), "none", "Keeps sessions.").scope(tls::session_cache),
    Entry::one("ssl_session_tickets", HS, Flag, "on", "Gives session tickets.")
        .scope(|_, s, d| s.tls_mut().tickets = on(d)),
    Entry::one("ssl_session_timeout", HS, Seconds, "5m", "How long a session can be resumed.")
        .scope(tls::session_timeout),
    Entry::one("ssl_buffer_size", HS, Size, "16k", "Largest record.")
        .scope(|_, s, d| s.tls_mut().record_size = Some(bytes(d))),
    Entry::new("ssl_conf_command", HS, (2, 2), "", "OpenSSL settings.").repeats().scope(tls::conf_command),
    Entry::one("ssl_prefer_server_ciphers", HS, Flag, "off", "The server's order counts.")
        .scope(|_, s, d| s.tls_mut().prefer_server_order = on(d)),
    Entry::one("ssl_dhparam", HS, Text, "", "Parameters of DHE suites.")
        .tuning("Weir has no DHE suites; ECDHE is used"),
    Entry::one("ssl_session_ticket_key", HS, Text, "", "Keys of tickets; the first makes them.")
        .repeats()
        .scope(|lo, s, d| {
            let level = s.level;
            tls::ticket_key(lo, s.tls_mut(), level, d);
        }),
    Entry::one("ssl_verify_depth", HS, Number, "1", "Most issuers in a chain.")
        .scope(|_, s, d| s.tls_mut().verify_depth = count(d) as usize),
    Entry::one("ssl_stapling", HS, Flag, "off", "Staples OCSP responses.")
        .scope(|_, s, d| s.tls_mut().stapling = on(d)),
    Entry::one("ssl_stapling_file", HS, Text, "", "The response (DER).")
        .scope(|lo, s, d| s.tls_mut().staple = tls::pem_file(lo, d)),
    Entry::one("ssl_stapling_responder", HS, Text, "", "Who is asked.")
        .scope(|lo, s, d| tls::stapling_responder(lo, s.tls_mut(), d)),
    Entry::one("ssl_stapling_verify", HS, Flag, "off", "Verifies answers.")
        .scope(|_, s, d| s.tls_mut().stapling_verify = on(d)),
    Entry::one("ssl_early_data", HS, Flag, "off", "Takes requests in TLS 1.3 early data.")
        .scope(|_, s, d| s.tls_mut().early_data = on(d)),
    Entry::one("ssl_password_file", HS, Text, "", "Pass phrases of keys.")
        .scope(|lo, s, d| s.tls_mut().passwords = tls::pem_file(lo, d)),
    Entry::one("ssl_ocsp", HS, OneOf(&["on", "off", "leaf"]), "off", "Checks client certificates by OCSP.")
        .not_yet("OCSP checks of client certificates are not built"),
    Entry::one("ssl_ocsp_cache", HS, Text, "off", "Keeps OCSP answers.")
        .tuning("OCSP checks of client certificates are not built"),
    Entry::one("ssl_ocsp_responder", HS, Text, "", "Who is asked.")
        .tuning("OCSP checks of client certificates are not built"),
    Entry::new("ssl_certificate_cache", HS, (1, MANY), "off", "Keeps certificates named by variables.")
        .tuning("certificates are read when the configuration is loaded"),
    Entry::one("ssl_certificate_compression", HS, Flag, "off", "Compresses certificates.")
        .scope(|_, s, d| s.tls_mut().compress_certificates = on(d)),
    Entry::one("ssl_ech_file", HS, Text, "", "Keys of Encrypted ClientHello.")
        .repeats()
        .not_yet("Encrypted ClientHello is not built"),
    Entry::one("ssl_key_log", HS, Text, "", "Logs session keys.").tuning("session keys are never logged"),
    Entry::one("ssl_dyn_rec_enable", HSL, Flag, "off", "Sizes records by need (third-party).")
        .tuning("Weir sizes records by itself"),
];

impl Scope {
    pub(crate) fn tls_mut(&mut self) -> &mut TlsScope {
        Arc::make_mut(&mut self.tls)
    }
}
