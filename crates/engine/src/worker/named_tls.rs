//! TLS with certificates that variables name: their files are known once a connection asks for one.
//!
//! Owns: reading them, and what was made of them, as long as the files stay what they were.
//! Never: reads on a worker's thread; holds more than [`MOST`] of them.
//! Driven by: `entry::handshake`, with clients; `upstream::attempt`, with endpoints.
//! Why keyed by what was written in place of the variables: the same files under the same settings are the same TLS.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use weir_expr::Source;
use weir_plan::{
    Certificate, ListenerIx, NamedCertificate, Pem, Plan, PrivateKey, TlsIdentity, TlsIx, UpstreamTls,
    UpstreamTlsIx,
};
use weir_rt::{ClientTls, ServerTls};

use crate::worker::live_tls::MadeTls;
use crate::worker::shared::Shared;
use crate::worker::tls::client;

/// Most of them that are kept.
const MOST: usize = 1000;
/// Most bytes of a file.
const LARGEST: u64 = 1 << 20;
const BUSY: &str = "too many certificates are being loaded";

/// What was made of certificates of one plan.
#[derive(Default)]
pub(crate) struct NamedTls {
    servers: Kept<(ListenerIx, TlsIx, Vec<Named>), ServerTls>,
    clients: Kept<(UpstreamTlsIx, Named), ClientTls>,
}

/// What stands in place of the variables.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Named {
    pub(crate) chain: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl Named {
    fn read(&self, how: &NamedCertificate, stamps: &mut Vec<Stamp>) -> Result<Certificate, String> {
        let (source, bytes) = part(&self.chain, &how.folder, stamps)?;
        let chain = Pem { source, bytes };
        let (source, bytes) = part(&self.key, &how.folder, stamps)?;
        Ok(Certificate {
            chain,
            key: PrivateKey::new(source, bytes),
            passwords: how.passwords.clone(),
            staple: None,
        })
    }
}

/// A file as it was read.
#[derive(Clone, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    file: (u64, u64, u64, i64, i64),
}

impl Stamp {
    fn new(path: &Path, found: &Metadata) -> Self {
        let file = (found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec());
        Self { path: path.to_owned(), file }
    }

    fn holds(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|found| Self::new(&self.path, &found) == *self)
    }
}

/// A chain or a key: `data:` and PEM, or a file.
fn part(text: &[u8], folder: &Path, stamps: &mut Vec<Stamp>) -> Result<(Source, Arc<[u8]>), String> {
    if let Some(pem) = text.strip_prefix(b"data:") {
        return Ok((Source::Field { object: "a variable".into(), field: "data".into() }, pem.into()));
    }
    let path = folder.join(std::ffi::OsStr::from_bytes(text));
    let failed = |error: io::Error| format!("cannot load certificate \"{}\": {error}", path.display());
    let is_not = "it is no file of a certificate's size";
    let (bytes, found) = crate::files::open::whole(&path, LARGEST, is_not).map_err(failed)?;
    stamps.push(Stamp::new(&path, &found));
    Ok((Source::File(path), bytes.into()))
}

/// What was made, by what it was made of.
struct Kept<K, T> {
    known: Mutex<Known<K, T>>,
}

struct Known<K, T> {
    made: HashMap<K, Made<T>>,
    uses: u64,
}

struct Made<T> {
    tls: T,
    stamps: Vec<Stamp>,
    used: u64,
}

impl<K, T> Default for Kept<K, T> {
    fn default() -> Self {
        Self { known: Mutex::new(Known { made: HashMap::new(), uses: 0 }) }
    }
}

impl<K: Clone + Eq + std::hash::Hash, T: Clone> Kept<K, T> {
    /// What is known, if its files are still the same; else, what `make` makes of them.
    fn of(&self, key: K, make: impl FnOnce(&mut Vec<Stamp>) -> Result<T, String>) -> Result<T, String> {
        if let Some((tls, stamps)) = self.known(&key)
            && stamps.iter().all(Stamp::holds)
        {
            return Ok(tls);
        }
        let mut stamps = Vec::new();
        let tls = make(&mut stamps)?;
        self.keep(key, Made { tls: tls.clone(), stamps, used: 0 });
        Ok(tls)
    }

    fn known(&self, key: &K) -> Option<(T, Vec<Stamp>)> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.uses += 1;
        let uses = known.uses;
        let made = known.made.get_mut(key)?;
        made.used = uses;
        Some((made.tls.clone(), made.stamps.clone()))
    }

    fn keep(&self, key: K, made: Made<T>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.made.len() >= MOST && !known.made.contains_key(&key) {
            let oldest = known.made.iter().min_by_key(|(_, made)| made.used).map(|(key, _)| key.clone());
            oldest.map(|oldest| known.made.remove(&oldest));
        }
        let used = known.uses;
        known.made.insert(key, Made { used, ..made });
    }
}

impl NamedTls {
    /// TLS with clients that ask for certificates of these names. Waits for threads beside the workers.
    ///
    /// # Errors
    /// One line that says what cannot be read or used.
    pub(crate) async fn server(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        (plan, live): (&Arc<Plan>, Arc<MadeTls>),
        at: (ListenerIx, TlsIx),
        names: Vec<Named>,
    ) -> Result<ServerTls, String> {
        let (all, plan, of) = (self.clone(), plan.clone(), shared.clone());
        let make = move || {
            let identity = plan.tls_identity(at.1);
            all.servers.of((at.0, at.1, names.clone()), |stamps| {
                let read = names.iter().zip(&identity.named).map(|(name, how)| name.read(how, stamps));
                let mut certificates = identity.certificates.clone();
                certificates.extend(read.collect::<Result<Vec<_>, _>>()?);
                let identity = TlsIdentity { certificates, ..identity.clone() };
                live.server_as(&of, &plan, at.0, &identity)
            })
        };
        shared.errands.run(make).await.unwrap_or_else(|| Err(BUSY.into()))
    }

    /// As [`Self::server`], towards endpoints.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn client(
        self: &Arc<Self>,
        shared: &Shared,
        plan: &Arc<Plan>,
        (config, how): (UpstreamTlsIx, &NamedCertificate),
        name: Named,
    ) -> Result<ClientTls, String> {
        let (all, plan, how) = (self.clone(), plan.clone(), how.clone());
        let make = move || {
            all.clients.of((config, name.clone()), |stamps| {
                let certificate = Some(name.read(&how, stamps)?);
                client(&UpstreamTls { certificate, ..plan.upstream_tls(config).clone() })
            })
        };
        shared.errands.run(make).await.unwrap_or_else(|| Err(BUSY.into()))
    }
}
