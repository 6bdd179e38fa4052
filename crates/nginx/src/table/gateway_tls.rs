//! Words about TLS towards upstreams that several gateways have: each is declared once, and takes a prefix.
//!
//! Owns: `…_ssl_*`. Never: holds one that only one gateway has.

use super::entry::Kind::{Flag, Number, Text};
use super::entry::places::HSL;
use super::entry::{Entry, MANY};
use crate::take::args::{count, on};
use crate::take::conf_command;
use crate::take::tls::{at_directive, pem_file};
use crate::take::upstream_tls;

/// `$of` is the accessor of the gateway's settings, `$name` the default of the name.
macro_rules! tls {
    ($prefix:literal, $of:ident, $name:literal) => {
        &[
            Entry::one(concat!($prefix, "ssl_verify"), HSL, Flag, "off", "Verifies upstreams' certificates.")
                .scope(|_, s, d| s.$of().tls.verify = on(d)),
            Entry::one(concat!($prefix, "ssl_trusted_certificate"), HSL, Text, "", "Trusted CAs.")
                .scope(|lo, s, d| s.$of().tls.ca = pem_file(lo, d)),
            Entry::one(concat!($prefix, "ssl_crl"), HSL, Text, "", "Revoked certificates.")
                .scope(|lo, s, d| s.$of().tls.crl = pem_file(lo, d)),
            Entry::one(concat!($prefix, "ssl_server_name"), HSL, Flag, "off", "Sends SNI.")
                .scope(|_, s, d| s.$of().tls.send_name = on(d)),
            Entry::one(concat!($prefix, "ssl_name"), HSL, Text, $name, "Name for SNI and verification.")
                .scope(|lo, s, d| s.$of().tls.name = Some(lo.template(&d.args[0]))),
            Entry::one(concat!($prefix, "ssl_certificate"), HSL, Text, "", "Certificate shown to upstreams.")
                .scope(|_, s, d| s.$of().certificate = Some(at_directive(d, 0))),
            Entry::one(concat!($prefix, "ssl_certificate_key"), HSL, Text, "", "Its key.")
                .scope(|_, s, d| s.$of().key = Some(at_directive(d, 0))),
            Entry::one(concat!($prefix, "ssl_session_reuse"), HSL, Flag, "on", "Resumes sessions.")
                .scope(|_, s, d| s.$of().tls.session_reuse = on(d)),
            Entry::new(
                concat!($prefix, "ssl_protocols"),
                HSL,
                (1, MANY),
                "TLSv1.2 TLSv1.3",
                "Versions offered.",
            )
            .scope(|lo, s, d| upstream_tls::set_protocols(lo, s.$of(), d)),
            Entry::one(concat!($prefix, "ssl_ciphers"), HSL, Text, "DEFAULT", "Suites offered.")
                .scope(|lo, s, d| upstream_tls::set_ciphers(lo, s.$of(), d)),
            Entry::one(concat!($prefix, "ssl_verify_depth"), HSL, Number, "1", "Most issuers in a chain.")
                .scope(|_, s, d| s.$of().tls.depth = Some(count(d) as usize)),
            Entry::one(concat!($prefix, "ssl_password_file"), HSL, Text, "", "Pass phrases of keys.")
                .scope(|lo, s, d| s.$of().passwords = pem_file(lo, d)),
            Entry::new(concat!($prefix, "ssl_conf_command"), HSL, (2, 2), "", "OpenSSL settings.")
                .repeats()
                .scope(|lo, s, d| conf_command::with_upstreams(lo, s.$of(), d)),
            Entry::one(concat!($prefix, "ssl_key_log"), HSL, Text, "", "Logs session keys.")
                .tuning("session keys are never logged"),
            Entry::new(
                concat!($prefix, "ssl_certificate_cache"),
                HSL,
                (1, MANY),
                "off",
                "Keeps certificates.",
            )
            .tuning("certificates are read when the configuration is loaded"),
        ]
    };
}

pub(super) const PROXY: &[Entry] = tls!("proxy_", proxy_tls, "$proxy_host");
pub(super) const UWSGI: &[Entry] = tls!("uwsgi_", uwsgi_tls, "host from uwsgi_pass");
pub(super) const GRPC: &[Entry] = tls!("grpc_", grpc_tls, "host from grpc_pass");
