//! TLS of a plan as it is now: with the certificates that were given while running in place of its own.
//!
//! Owns: what `tls` makes for each listener, identity and kind of endpoint, and its replacing when a certificate is.
//! Never: decides which certificates count; is asked by a worker for each handshake: workers have a copy.
//! Driven by: `prepared`, which makes one for each plan; `layer`; `Command::Certificates`, by which each worker takes it up.
//! Why: a certificate is renewed far more often than a configuration changes, and concerns a few names of many.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_control::changes::KeyPair;
use weir_plan::{
    Certificate, ListenerIx, ListenerTls, Pem, Plan, TlsIdentity, TlsIx, UpstreamTls, UpstreamTlsIx,
};
use weir_rt::{ClientTls, ServerTls, SessionCache, Tickets};

use crate::worker::shared::Shared;
use crate::worker::tls::{client, given_in_place_of, server};

/// Least room for sessions where early data is taken, which only those that are kept can have.
const EARLY_SESSIONS: usize = 20_000;

/// What was given under a name.
#[derive(Clone, Copy)]
pub(crate) struct Given<'g> {
    /// A certificate.
    pub(crate) pair: &'g dyn Fn(&str) -> Option<KeyPair>,
    /// Authorities, or a list of revocations.
    pub(crate) pem: &'g dyn Fn(&str) -> Option<String>,
}

impl Given<'_> {
    /// Whether anything was given for a part.
    fn has_pem(&self, own: &Pem) -> bool {
        (self.pem)(&own.source.to_string()).is_some()
    }

    /// A part as it was given, or as it is in the plan.
    fn pem_of(&self, own: &Pem) -> Pem {
        let bytes = (self.pem)(&own.source.to_string()).map(|text| Arc::<[u8]>::from(text.into_bytes()));
        Pem { source: own.source.clone(), bytes: bytes.unwrap_or_else(|| own.bytes.clone()) }
    }
}

/// TLS of a plan, in both roles.
#[derive(Default)]
pub(crate) struct MadeTls {
    /// Of listeners, by listener and identity.
    servers: Vec<Vec<Option<ServerTls>>>,
    /// Sessions of listeners.
    caches: Vec<Option<SessionCache>>,
    /// Towards endpoints, by index.
    clients: Vec<ClientTls>,
}

impl MadeTls {
    /// For a plan. A certificate that was given and cannot be used with it is left out, and said so.
    ///
    /// # Errors
    /// One line that says what of the plan cannot be used.
    pub(crate) fn new(shared: &Shared, plan: &Plan, given: Given<'_>) -> Result<Self, String> {
        let sessions = |tls: &ListenerTls| {
            let room = match used(tls).into_iter().any(|ix| plan.tls_identity(ix).early_data) {
                true => tls.session_cache.max(EARLY_SESSIONS),
                false => tls.session_cache,
            };
            (room > 0).then(|| SessionCache::new(room))
        };
        let caches: Vec<_> =
            plan.listeners.iter().map(|listener| listener.tls.as_deref().and_then(sessions)).collect();
        let refused = |why: String| shared.log_process_error(&format!("{why}; the configuration's is used"));
        let one = |at: usize, tls: &ListenerTls, identity: &TlsIdentity| {
            let make = |identity: &TlsIdentity| serve(shared, tls, identity, caches[at].clone());
            match with_given(identity, given) {
                Cow::Borrowed(own) => make(own),
                Cow::Owned(changed) => make(&changed).or_else(|why| {
                    refused(why);
                    make(identity)
                }),
            }
        };
        let servers = (plan.listeners.iter().enumerate())
            .map(|(at, listener)| match &listener.tls {
                None => Ok(Vec::new()),
                Some(tls) => {
                    let used = used(tls);
                    let each =
                        plan.tls.iter().zip(0..).map(|(identity, ix)| match used.contains(&TlsIx(ix)) {
                            true => one(at, tls, identity).map(Some),
                            false => Ok(None),
                        });
                    each.collect()
                }
            })
            .collect::<Result<_, String>>()?;
        let clients = plan.upstream_tls.iter().map(|tls| match client_with_given(tls, given) {
            Cow::Borrowed(own) => client(own),
            Cow::Owned(changed) => client(&changed).or_else(|why| {
                refused(why);
                client(tls)
            }),
        });
        let clients = clients.collect::<Result<_, String>>()?;
        Ok(Self { servers, caches, clients })
    }

    /// The same, made anew wherever the certificate, the authorities or the list of this name are used.
    ///
    /// # Errors
    /// One line that says why what was given cannot be used.
    pub(crate) fn again(
        &self,
        shared: &Shared,
        plan: &Plan,
        name: &str,
        given: Given<'_>,
    ) -> Result<Self, String> {
        let servers = self.servers_again(shared, plan, |identity| {
            names_of(identity).any(|one| one == name).then(|| with_given(identity, given))
        })?;
        let mut clients = self.clients.clone();
        for (tls, made) in plan.upstream_tls.iter().zip(&mut clients) {
            let own = tls.certificate.iter().map(Certificate::name);
            if own.chain(trust_of_client(tls).map(|pem| pem.source.to_string())).any(|one| one == name) {
                *made = client(&client_with_given(tls, given))?;
            }
        }
        Ok(Self { servers, caches: self.caches.clone(), clients })
    }

    /// The same, made anew wherever one of these chains is shown with what responders say of it.
    fn restapled(
        &self,
        shared: &Shared,
        plan: &Plan,
        chains: &[Arc<[u8]>],
        given: Given<'_>,
    ) -> Result<Self, String> {
        let servers = self.servers_again(shared, plan, |identity| {
            identity.stapling.as_ref()?;
            let identity = with_given(identity, given);
            identity.certificates.iter().any(|one| chains.contains(&one.chain.bytes)).then_some(identity)
        })?;
        Ok(Self { servers, caches: self.caches.clone(), clients: self.clients.clone() })
    }

    /// The servers, made anew where `changed` gives the identity that they are made of now.
    fn servers_again<'p>(
        &self,
        shared: &Shared,
        plan: &'p Plan,
        changed: impl Fn(&'p TlsIdentity) -> Option<Cow<'p, TlsIdentity>>,
    ) -> Result<Vec<Vec<Option<ServerTls>>>, String> {
        let mut servers = self.servers.clone();
        for (at, (listener, made)) in plan.listeners.iter().zip(&mut servers).enumerate() {
            let Some(tls) = &listener.tls else { continue };
            for (identity, made) in plan.tls.iter().zip(made).filter(|(_, made)| made.is_some()) {
                if let Some(identity) = changed(identity) {
                    *made = Some(serve(shared, tls, &identity, self.caches[at].clone())?);
                }
            }
        }
        Ok(servers)
    }

    /// With clients of a listener that asked for the name of an identity.
    pub(crate) fn server(&self, listener: ListenerIx, identity: TlsIx) -> Option<&ServerTls> {
        self.servers.get(listener.at())?.get(identity.at())?.as_ref()
    }

    /// With clients of a listener, as another identity has it.
    ///
    /// # Errors
    /// One line that says what cannot be used.
    pub(crate) fn server_as(
        &self,
        shared: &Shared,
        plan: &Plan,
        listener: ListenerIx,
        identity: &TlsIdentity,
    ) -> Result<ServerTls, String> {
        let tls = plan.listener(listener).tls.as_deref().ok_or("the listener speaks no TLS")?;
        serve(shared, tls, identity, self.caches.get(listener.at()).cloned().flatten())
    }

    /// Towards endpoints. A part of a plan has none, and opens no connection.
    pub(crate) fn client(&self, ix: UpstreamTlsIx) -> &ClientTls {
        &self.clients[ix.at()]
    }

    /// All settings towards endpoints.
    pub(crate) fn clients(&self) -> &[ClientTls] {
        &self.clients
    }
}

fn used(tls: &ListenerTls) -> HashSet<TlsIx> {
    tls.by_name.values().chain([tls.by_name.default_value()]).collect()
}

fn serve(
    shared: &Shared,
    tls: &ListenerTls,
    identity: &TlsIdentity,
    cache: Option<SessionCache>,
) -> Result<ServerTls, String> {
    let tickets = match &tls.ticket_keys[..] {
        _ if !tls.tickets => None,
        [] => shared.tickets.clone(),
        keys => {
            let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.reveal().to_vec()).collect();
            Some(Tickets::from_keys(&keys).map_err(|error| format!("cannot use a ticket key: {error}"))?)
        }
    };
    let now = weir_rt::unix_now().as_secs();
    let staple =
        |one: &Certificate| identity.stapling.as_ref().and_then(|_| shared.staples.of(&one.chain.bytes, now));
    server(tls, identity, tickets, cache, &staple)
}

fn with_given<'i>(identity: &'i TlsIdentity, given: Given<'_>) -> Cow<'i, TlsIdentity> {
    let found: Vec<Option<KeyPair>> =
        identity.certificates.iter().map(|one| (given.pair)(&one.name())).collect();
    if found.iter().all(Option::is_none) && !trust_of(identity).any(|pem| given.has_pem(pem)) {
        return Cow::Borrowed(identity);
    }
    let replaced = |(own, found): (&Certificate, Option<KeyPair>)| match found {
        Some(pair) => given_in_place_of(own, &pair),
        None => own.clone(),
    };
    let certificates = identity.certificates.iter().zip(found).map(replaced).collect();
    let client_ca = identity.client_ca.iter().map(|pem| given.pem_of(pem)).collect();
    let client_crl = identity.client_crl.as_ref().map(|pem| given.pem_of(pem));
    Cow::Owned(TlsIdentity { certificates, client_ca, client_crl, ..identity.clone() })
}

/// Names of what of an identity can be given anew.
fn names_of(identity: &TlsIdentity) -> impl Iterator<Item = String> {
    let trust = trust_of(identity).map(|pem| pem.source.to_string());
    identity.certificates.iter().map(Certificate::name).chain(trust)
}

/// Authorities and lists of revocations that clients are verified by.
pub(crate) fn trust_of(identity: &TlsIdentity) -> impl Iterator<Item = &Pem> {
    identity.client_ca.iter().chain(&identity.client_crl)
}

/// Those that endpoints are verified by.
pub(crate) fn trust_of_client(tls: &UpstreamTls) -> impl Iterator<Item = &Pem> {
    tls.ca.iter().chain(&tls.crl)
}

fn client_with_given<'t>(tls: &'t UpstreamTls, given: Given<'_>) -> Cow<'t, UpstreamTls> {
    let pair = tls.certificate.as_ref().and_then(|own| (given.pair)(&own.name()));
    if pair.is_none() && !trust_of_client(tls).any(|pem| given.has_pem(pem)) {
        return Cow::Borrowed(tls);
    }
    let replaced = |own: &Certificate| match &pair {
        Some(pair) => given_in_place_of(own, pair),
        None => own.clone(),
    };
    let pem = |own: &Pem| given.pem_of(own);
    Cow::Owned(UpstreamTls {
        certificate: tls.certificate.as_ref().map(replaced),
        ca: tls.ca.as_ref().map(pem),
        crl: tls.crl.as_ref().map(pem),
        ..tls.clone()
    })
}

/// TLS of a plan, for the process.
#[derive(Default)]
pub(crate) struct LiveTls {
    now: Mutex<Arc<MadeTls>>,
    /// Held by whoever makes another of what there is.
    changing: Mutex<()>,
}

impl LiveTls {
    /// Begins with this.
    pub(crate) fn new(made: MadeTls) -> Self {
        Self { now: Mutex::new(Arc::new(made)), changing: Mutex::default() }
    }

    /// Nobody else replaces what there is as long as this is held.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows certificates of these chains with what responders say of them now. Workers know of it once they are told.
    ///
    /// # Errors
    /// One line that says what cannot be used.
    pub(crate) fn restaple(&self, shared: &Shared, plan: &Plan, chains: &[Arc<[u8]>]) -> Result<(), String> {
        let _held = self.hold();
        let given =
            Given { pair: &|name| shared.pair_in_place_of(name), pem: &|name| shared.changes.trust(name) };
        self.put(self.now().restapled(shared, plan, chains, given)?);
        Ok(())
    }

    /// What there is at this moment.
    pub(crate) fn now(&self) -> Arc<MadeTls> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another in place. Workers know of it once they are told.
    pub(crate) fn put(&self, made: MadeTls) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(made);
    }
}
