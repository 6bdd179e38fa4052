//! Whom a system trusts to vouch for servers.

/// Where distributions keep the certificates of these authorities, each as one PEM file: Debian and kin, Red Hat and kin, Alpine and
/// others.
pub const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
