//! TLS as `rt` has it, of TLS as a plan has it.
//!
//! Owns: the translation, in both roles, and trying it before anything runs ([`server_tls_faults`], [`client_tls_faults`]).
//! Never: keeps what it makes; `live_tls` does.
//! Driven by: `live_tls`; whoever checks a configuration.
//! Why in one place: what `weir check` tries is what runs.

use std::sync::Arc;
use std::time::Duration;

use weir_control::changes::KeyPair;
use weir_expr::settings::{ClientVerify, TlsVersion};
use weir_plan::{Certificate, ListenerTls, Pem, PrivateKey, TlsFault, TlsIdentity, TlsPart, UpstreamTls};
use weir_rt::{
    CertKey, ClientAuth, ClientAuthMode, ClientTls, ClientTlsConfig, ServerTls, ServerTlsConfig,
    ServerVerify, SessionCache, Tickets, TlsConfigError, Trust,
};

/// Debian's bundle of the authorities that the system trusts.
const SYSTEM_CAS: &str = weir_expr::authorities::SYSTEM[0];

fn pair(certificate: &Certificate) -> CertKey {
    CertKey {
        chain_pem: certificate.chain.bytes.to_vec(),
        key_pem: certificate.key.reveal().to_vec(),
        passwords: passwords(certificate),
        staple: certificate.staple.as_ref().map(|response| response.bytes.to_vec()),
        names: Vec::new(),
        default: false,
    }
}

/// A certificate that was given while running, as the plan's own of this name.
pub(crate) fn given_in_place_of(own: &Certificate, given: &KeyPair) -> Certificate {
    let bytes = |text: &str| Arc::<[u8]>::from(text.as_bytes());
    Certificate {
        chain: Pem { source: own.chain.source.clone(), bytes: bytes(&given.chain) },
        key: PrivateKey::new(own.key.source.clone(), bytes(&given.key)),
        passwords: None,
        staple: None,
    }
}

/// Whether a certificate that was given while running can be shown, and its key belongs to it.
///
/// # Errors
/// One line that says why not.
pub(crate) fn check_pair(name: &str, given: &KeyPair) -> Result<(), String> {
    let pair = CertKey {
        chain_pem: given.chain.as_bytes().to_vec(),
        key_pem: given.key.as_bytes().to_vec(),
        passwords: Vec::new(),
        staple: None,
        names: Vec::new(),
        default: false,
    };
    pair.check().map_err(|error| format!("cannot use the certificate {name}: {error}"))
}

/// The lines of a file of pass phrases.
fn passwords(certificate: &Certificate) -> Vec<Vec<u8>> {
    let text = certificate.passwords.as_ref().map_or(&b""[..], |file| file.reveal());
    let lines = text.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

fn version(version: TlsVersion) -> weir_rt::TlsVersion {
    match version {
        TlsVersion::V1_2 => weir_rt::TlsVersion::Tls12,
        TlsVersion::V1_3 => weir_rt::TlsVersion::Tls13,
    }
}

fn bounds(versions: &[TlsVersion]) -> (weir_rt::TlsVersion, weir_rt::TlsVersion) {
    let least = versions.iter().min().copied().unwrap_or(TlsVersion::V1_2);
    let most = versions.iter().max().copied().unwrap_or(TlsVersion::V1_3);
    (version(least), version(most))
}

fn listed(names: &[String]) -> Option<Vec<String>> {
    (!names.is_empty()).then(|| names.to_vec())
}

/// TLS of an identity with the clients of a listener.
pub(crate) fn server(
    listener: &ListenerTls,
    identity: &TlsIdentity,
    tickets: Option<Tickets>,
    session_cache: Option<SessionCache>,
    staple: &dyn Fn(&Certificate) -> Option<Arc<[u8]>>,
) -> Result<ServerTls, String> {
    let config = ServerTlsConfig {
        certificates: certificates(identity, staple),
        compress_certificates: identity.compress_certificates,
        tickets,
        session_cache,
        early_data: identity.early_data,
        session_lifetime: Duration::from_secs(listener.session_timeout),
        strict_names: listener.strict_sni && identity.select_by_certificate_names,
        // Those that variables name are known once a client asks.
        reject_handshake: identity.reject || (identity.certificates.is_empty() && !identity.named.is_empty()),
        ..settings(identity, listener.answer_bad_certificates)
    };
    ServerTls::new(config).map_err(|error| {
        let name = identity.certificates.first().map(Certificate::name);
        format!("cannot use the certificate {}: {error}", name.unwrap_or_else(|| "(none)".into()))
    })
}

/// TLS with an authority that looks at a name (RFC 8737, 3).
pub(crate) fn proof(pair: &KeyPair) -> Result<ServerTls, String> {
    let certificate = CertKey {
        chain_pem: pair.chain.as_bytes().to_vec(),
        key_pem: pair.key.as_bytes().to_vec(),
        passwords: Vec::new(),
        staple: None,
        names: Vec::new(),
        default: true,
    };
    let config = ServerTlsConfig {
        certificates: vec![certificate],
        alpn: vec![PROOF.to_vec()],
        ..ServerTlsConfig::default()
    };
    ServerTls::new(config).map_err(|error| error.to_string())
}

/// The protocol that such a client asks for, and no other.
pub(crate) const PROOF: &[u8] = b"acme-tls/1";

/// What of an identity needs no certificate of its own.
fn settings(identity: &TlsIdentity, answered: bool) -> ServerTlsConfig {
    let (min_version, max_version) = bounds(&identity.versions);
    ServerTlsConfig {
        min_version,
        max_version,
        suites12: listed(&identity.suites),
        suites13: listed(&identity.suites13),
        groups: listed(&identity.curves),
        alpn: identity.alpn.iter().map(|protocol| protocol.clone().into_bytes()).collect(),
        prefer_server_order: identity.prefer_server_order,
        record_size: identity.record_size.map(|size| usize::try_from(size).unwrap_or(usize::MAX)),
        client_auth: ClientAuth {
            mode: match identity.verify {
                ClientVerify::Off => ClientAuthMode::Off,
                // What is wrong is judged once it is known.
                ClientVerify::OptionalNoCa => ClientAuthMode::Report,
                ClientVerify::Optional | ClientVerify::Required if answered => ClientAuthMode::Report,
                ClientVerify::Optional => ClientAuthMode::Optional,
                ClientVerify::Required => ClientAuthMode::Required,
            },
            trust: Trust {
                ca_pem: joined(&identity.client_ca),
                crl_pem: identity.client_crl.as_ref().map(|pem| pem.bytes.to_vec()),
                depth: identity.client_depth,
            },
        },
        reject_handshake: identity.reject,
        ..ServerTlsConfig::default()
    }
}

/// What is wrong with TLS towards clients: what would run is built, and dropped. Each part is tried by itself, so that all faults show at once.
pub fn server_tls_faults(identity: &TlsIdentity) -> Vec<TlsFault> {
    let mut faults: Vec<TlsFault> = identity.certificates.iter().filter_map(pair_fault).collect();
    if identity.verify != ClientVerify::Off {
        faults.extend(trust_faults(&identity.client_ca, identity.client_crl.as_ref()));
    }
    // Own certificates were tried; what is missing is for others to tell.
    let config = ServerTlsConfig { reject_handshake: true, ..settings(identity, false) };
    let asks = matches!(identity.verify, ClientVerify::Optional | ClientVerify::Required);
    let known = !faults.is_empty() || (identity.client_ca.is_empty() && asks);
    if !known && let Err(error) = ServerTls::new(config) {
        faults.push(of_settings(&error));
    }
    faults
}

/// As [`server_tls_faults`], of settings towards endpoints.
pub fn client_tls_faults(tls: &UpstreamTls) -> Vec<TlsFault> {
    let mut faults: Vec<TlsFault> = tls.certificate.iter().filter_map(pair_fault).collect();
    if tls.verify {
        faults.extend(trust_faults(tls.ca.as_slice(), tls.crl.as_ref()));
    }
    if faults.is_empty()
        && let Err(why) = client(tls)
    {
        faults.push(TlsFault { part: TlsPart::Settings, source: None, why });
    }
    faults
}

fn of_settings(error: &TlsConfigError) -> TlsFault {
    TlsFault { part: TlsPart::Settings, source: None, why: error.to_string() }
}

fn pair_fault(certificate: &Certificate) -> Option<TlsFault> {
    if certificate.is_issued() {
        return None;
    }
    let error = pair(certificate).check().err()?;
    let (part, source) = match error.is_of_key() {
        true => (TlsPart::Key, certificate.key.source.clone()),
        false => (TlsPart::Chain, certificate.chain.source.clone()),
    };
    Some(TlsFault { part, source: Some(source), why: error.to_string() })
}

fn trust_faults(files: &[Pem], list: Option<&Pem>) -> Vec<TlsFault> {
    let trust = |file: &Pem, list: Option<&Pem>| Trust {
        ca_pem: file.bytes.to_vec(),
        crl_pem: list.map(|list| list.bytes.to_vec()),
        depth: Some(0),
    };
    let fault = |part, file: &Pem, error: TlsConfigError| {
        Some(TlsFault { part, source: Some(file.source.clone()), why: error.to_string() })
    };
    let of_files = files.iter().filter_map(|file| {
        trust(file, None).check().err().and_then(|error| fault(TlsPart::Authority, file, error))
    });
    let mut faults: Vec<TlsFault> = of_files.collect();
    if faults.is_empty()
        && let (Some(first), Some(list)) = (files.first(), list)
        && let Err(error) = trust(first, Some(list)).check()
    {
        faults.extend(fault(TlsPart::List, list, error));
    }
    faults
}

/// PEM files as one; each ends its last line.
fn joined(files: &[Pem]) -> Vec<u8> {
    let lines = files.iter().flat_map(|pem| [&*pem.bytes, b"\n"]);
    lines.collect::<Vec<_>>().concat()
}

/// With what is shown beside each: what a responder said last, else what a file holds.
fn certificates(identity: &TlsIdentity, staple: &dyn Fn(&Certificate) -> Option<Arc<[u8]>>) -> Vec<CertKey> {
    let own = identity.staple.as_ref().map(|response| response.bytes.to_vec());
    let pairs = identity.certificates.iter().map(|one| {
        let (said, pair) = (staple(one).map(|response| response.to_vec()), pair(one));
        CertKey { staple: said.or_else(|| pair.staple.clone()).or_else(|| own.clone()), ..pair }
    });
    if !identity.select_by_certificate_names {
        return pairs.collect();
    }
    pairs
        .enumerate()
        .map(|(at, pair)| CertKey {
            names: weir_rt::cert_names(&pair.chain_pem).unwrap_or_default(),
            default: at == 0,
            ..pair
        })
        .collect()
}

/// TLS towards endpoints.
pub(crate) fn client(tls: &UpstreamTls) -> Result<ClientTls, String> {
    let (min_version, max_version) = bounds(&tls.versions);
    let verify = if tls.verify {
        let ca_pem = match &tls.ca {
            Some(ca) => ca.bytes.to_vec(),
            None => {
                std::fs::read(SYSTEM_CAS).map_err(|error| format!("cannot read {SYSTEM_CAS}: {error}"))?
            }
        };
        let crl_pem = tls.crl.as_ref().map(|pem| pem.bytes.to_vec());
        let trust = Trust { ca_pem, crl_pem, depth: tls.depth };
        ServerVerify::Ca { trust, check_name: !tls.any_name }
    } else {
        ServerVerify::Off
    };
    let config = ClientTlsConfig {
        verify,
        certificate: tls.certificate.as_ref().map(pair),
        send_name: tls.send_name,
        alpn: tls.alpn.iter().map(|protocol| protocol.clone().into_bytes()).collect(),
        sessions: if tls.session_reuse { 256 } else { 0 },
        min_version,
        max_version,
        suites12: listed(&tls.suites),
        suites13: listed(&tls.suites13),
        groups: listed(&tls.groups),
    };
    ClientTls::new(config)
        .map_err(|error| format!("cannot use the TLS settings towards an endpoint: {error}"))
}
