//! What is made once for a plan and shared by all workers.
//!
//! Owns: TLS configurations, state of pools and zones.
//! Never: changes after it was made.
//! Driven by: [`crate::Engine`], before a plan is handed to any worker; a plan for which this fails changes nothing.

use std::sync::Arc;
use std::time::Duration;

use weir_expr::settings::{ClientVerify, TlsVersion};
use weir_plan::{
    Certificate, Listener, ListenerIx, ListenerTls, Manner, Pem, Plan, PoolIx, Service, TlsIdentity, TlsIx,
    UpstreamTls, UpstreamTlsIx,
};
use weir_policy::limit::{ConnZone, RateZone};
use weir_policy::pool::PoolShared;
use weir_rt::{
    CertKey, ClientAuth, ClientAuthMode, ClientTls, ClientTlsConfig, ServerTls, ServerTlsConfig,
    ServerVerify, SessionCache, Trust,
};

use crate::worker::shared::Shared;

/// Debian's bundle of the authorities that the system trusts.
const SYSTEM_CAS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// What is made once for a plan.
pub(crate) struct Prepared {
    /// The plan.
    pub(crate) plan: Arc<Plan>,
    /// State of its pools, by index.
    pub(crate) pools: Vec<Arc<PoolShared>>,
    /// Its zones of request rates, by index.
    pub(crate) rates: Vec<Arc<RateZone>>,
    /// Its zones of concurrency, by index.
    pub(crate) conns: Vec<Arc<ConnZone>>,
    /// TLS of listeners, by listener and identity.
    server_tls: Vec<Vec<Option<ServerTls>>>,
    /// TLS towards endpoints, by index.
    pub(crate) client_tls: Vec<ClientTls>,
    /// Its log targets.
    pub(crate) logs: crate::logging::Targets,
}

impl Prepared {
    /// Of a part of a plan: its logs and the state of its pool go on as they are.
    pub(crate) fn of_part(&self, shared: &Shared, part: weir_plan::Part, pool: Option<PoolIx>) -> Self {
        Self {
            pools: pool.and_then(|pool| self.pools.get(pool.at()).cloned()).into_iter().collect(),
            rates: Vec::new(),
            conns: Vec::new(),
            server_tls: Vec::new(),
            client_tls: Vec::new(),
            logs: self.logs.part(&shared.logs, &part),
            plan: Arc::new(part.plan),
        }
    }

    /// TLS towards endpoints. A part of a plan ([`Prepared::of_part`]) has none, and opens no connection.
    pub(crate) fn client_tls(&self, ix: UpstreamTlsIx) -> &ClientTls {
        &self.client_tls[ix.at()]
    }

    /// TLS of a listener with clients that asked for the name of an identity.
    pub(crate) fn server_tls(&self, listener: ListenerIx, identity: TlsIx) -> Option<&ServerTls> {
        self.server_tls.get(listener.at())?.get(identity.at())?.as_ref()
    }

    /// Prepares a plan.
    ///
    /// # Errors
    /// One line that says what cannot be used, and where it was read.
    pub(crate) fn new(shared: &Shared, plan: Arc<Plan>) -> Result<Self, String> {
        let server_tls = plan
            .listeners
            .iter()
            .map(|listener| match &listener.tls {
                None => Ok(Vec::new()),
                Some(tls) => {
                    let used: std::collections::HashSet<_> =
                        tls.by_name.values().chain([tls.by_name.default_value()]).collect();
                    let cache = (tls.session_cache > 0).then(|| SessionCache::new(tls.session_cache));
                    (0..plan.tls.len())
                        .map(|at| {
                            if !used.contains(&TlsIx(at as u32)) {
                                return Ok(None);
                            }
                            let tickets = shared.tickets.clone().filter(|_| tls.tickets);
                            let settings = (tls.strict_sni, answers_bad_certificates(&plan, listener));
                            server(tls, &plan.tls[at], tickets, cache.clone(), settings).map(Some)
                        })
                        .collect()
                }
            })
            .collect::<Result<Vec<Vec<_>>, String>>()?;
        let client_tls = plan.upstream_tls.iter().map(client).collect::<Result<Vec<_>, String>>()?;
        let logs = shared.logs.targets_for(&plan)?;
        Ok(Self {
            pools: shared.pools_for(&plan),
            rates: shared.rates_for(&plan),
            conns: shared.conns_for(&plan),
            server_tls,
            client_tls,
            logs,
            plan,
        })
    }
}

fn pair(certificate: &Certificate) -> CertKey {
    CertKey {
        chain_pem: certificate.chain.bytes.to_vec(),
        key_pem: certificate.key.reveal().to_vec(),
        names: Vec::new(),
        default: false,
    }
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

/// Whether a client certificate that will not do is answered by HTTP (400), as nginx does. HAProxy breaks the handshake
/// off; so do TCP services, which have no other way to say it.
fn answers_bad_certificates(plan: &Plan, listener: &Listener) -> bool {
    match &listener.service {
        Service::Http(hosts) => plan.site(hosts.default_value()).manner == Manner::Nginx,
        Service::Tcp(_) => false,
    }
}

fn server(
    listener: &ListenerTls,
    identity: &TlsIdentity,
    tickets: Option<weir_rt::Tickets>,
    session_cache: Option<SessionCache>,
    (strict, answered): (bool, bool),
) -> Result<ServerTls, String> {
    let (min_version, max_version) = bounds(&identity.versions);
    let config = ServerTlsConfig {
        certificates: certificates(identity),
        min_version,
        max_version,
        suites12: listed(&identity.suites),
        suites13: listed(&identity.suites13),
        groups: listed(&identity.curves),
        alpn: identity.alpn.iter().map(|protocol| protocol.clone().into_bytes()).collect(),
        tickets,
        session_cache,
        session_lifetime: Duration::from_secs(listener.session_timeout),
        record_size: identity.record_size.map(|size| usize::try_from(size).unwrap_or(usize::MAX)),
        client_auth: ClientAuth {
            mode: match identity.verify {
                ClientVerify::Off => ClientAuthMode::Off,
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
        strict_names: strict && identity.select_by_certificate_names,
        ..ServerTlsConfig::default()
    };
    ServerTls::new(config).map_err(|error| {
        let path = identity.certificates.first().map(|first| first.chain.path.display().to_string());
        format!("cannot use the certificate {}: {error}", path.unwrap_or_else(|| "(none)".into()))
    })
}

/// PEM files as one; each ends its last line.
fn joined(files: &[Pem]) -> Vec<u8> {
    let lines = files.iter().flat_map(|pem| [&*pem.bytes, b"\n"]);
    lines.collect::<Vec<_>>().concat()
}

fn certificates(identity: &TlsIdentity) -> Vec<CertKey> {
    let pairs = identity.certificates.iter().map(pair);
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

fn client(tls: &UpstreamTls) -> Result<ClientTls, String> {
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
        ..ClientTlsConfig::default()
    };
    ClientTls::new(config)
        .map_err(|error| format!("cannot use the TLS settings towards an endpoint: {error}"))
}
