//! Session tickets and the session cache: what outlives a configuration.
//!
//! Owns: ticket keys and their rotation, stored sessions.
//! Never: lets a session of one client-authentication policy resume under another.
//! Driven by: the process, which makes them once; each `ServerTls` gets a handle.
//! Why: all workers and every later configuration share them, so that a reload costs no full handshakes.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use aws_lc_rs::hmac;
use rustls::server::{ProducesTickets, ServerSessionMemoryCache, StoresServerSessions};
use rustls_pki_types::UnixTime;

use super::digest::Digest;
use super::error::TlsConfigError;

/// Ticket keys. Clones are handles on the same keys.
#[derive(Clone)]
pub struct Tickets(pub(crate) Arc<dyn ProducesTickets>);

impl Tickets {
    /// Random keys, replaced every six hours; tickets live for up to twelve.
    pub fn new() -> Result<Self, TlsConfigError> {
        let ticketer = rustls::crypto::aws_lc_rs::Ticketer::new();
        ticketer.map(Self).map_err(|error| TlsConfigError::Other(error.to_string()))
    }

    /// Keys from files (`ssl_session_ticket_key`, 48 or 80 bytes each): the first makes tickets, all of them accept
    /// tickets. Tickets are of this program's own form; the keys only have to be the same on each machine.
    pub fn from_keys(keys: &[Vec<u8>]) -> Result<Self, TlsConfigError> {
        let keys = keys.iter().map(|key| TicketKey::new(key)).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err(TlsConfigError::BadTicketKey(0));
        }
        Ok(Self(Arc::new(FixedKeys(keys))))
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tickets")
    }
}

/// Sessions kept in memory (TLS 1.2 session ids, and TLS 1.3 without tickets). Clones share them.
#[derive(Clone)]
pub struct SessionCache(pub(crate) Arc<dyn StoresServerSessions>);

impl SessionCache {
    /// Room for about `sessions` sessions, of some hundred bytes each.
    pub fn new(sessions: usize) -> Self {
        Self(ServerSessionMemoryCache::new(sessions))
    }
}

impl fmt::Debug for SessionCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionCache")
    }
}

const NAME: usize = 16;
const NONCE: usize = 12;

struct TicketKey {
    name: [u8; NAME],
    key: RandomizedNonceKey,
}

impl TicketKey {
    fn new(bytes: &[u8]) -> Result<Self, TlsConfigError> {
        if bytes.len() != 48 && bytes.len() != 80 {
            return Err(TlsConfigError::BadTicketKey(bytes.len()));
        }
        let mut name = [0; NAME];
        name.copy_from_slice(&bytes[..NAME]);
        let derive = hmac::Key::new(hmac::HMAC_SHA256, &bytes[NAME..]);
        let secret = hmac::sign(&derive, b"weir session ticket");
        let key = RandomizedNonceKey::new(&AES_256_GCM, secret.as_ref())
            .map_err(|_| TlsConfigError::BadTicketKey(bytes.len()))?;
        Ok(Self { name, key })
    }
}

/// Keys that only the operator changes. A ticket is `name | nonce | sealed`.
struct FixedKeys(Vec<TicketKey>);

impl fmt::Debug for FixedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FixedKeys")
    }
}

impl ProducesTickets for FixedKeys {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        12 * 60 * 60
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let key = self.0.first()?;
        let mut sealed = plain.to_vec();
        let nonce = key.key.seal_in_place_append_tag(Aad::from(key.name), &mut sealed).ok()?;
        Some([&key.name[..], nonce.as_ref(), &sealed].concat())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = cipher.split_at_checked(NAME)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE)?;
        let key = self.0.iter().find(|key| key.name == name)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let len = key.key.open_in_place(nonce, Aad::from(key.name), &mut sealed).ok()?.len();
        sealed.truncate(len);
        Some(sealed)
    }
}

/// Binds tickets and stored sessions to the content of a policy about client certificates: otherwise a session begun
/// where no certificate is asked for would resume where one is required, and one that authorities of yesterday verified
/// where those of today decide. Ends them when their time is over, too.
///
/// What is sealed or stored: `policy (16) | began, seconds since 1970 (8) | session`.
pub(crate) struct Scoped<T: ?Sized> {
    policy: [u8; POLICY],
    /// Seconds.
    lifetime: u32,
    inner: Arc<T>,
}

const POLICY: usize = 16;
const PREFIX: usize = POLICY + size_of::<u64>();

impl<T: ?Sized> Scoped<T> {
    pub(crate) fn new(policy: &Digest, lifetime: u32, inner: Arc<T>) -> Self {
        Self { policy: policy.short(), lifetime, inner }
    }

    fn wrap(&self, session: &[u8], now: u64) -> Vec<u8> {
        [&self.policy[..], &now.to_be_bytes(), session].concat()
    }

    /// The session, if it is of this policy and its time is not over.
    fn unwrap(&self, mut wrapped: Vec<u8>, now: u64) -> Option<Vec<u8>> {
        let (policy, rest) = wrapped.split_first_chunk::<POLICY>()?;
        let began = u64::from_be_bytes(*rest.first_chunk()?);
        // A clock that was set back makes no session younger than new.
        if *policy != self.policy || now.abs_diff(began) >= u64::from(self.lifetime) {
            return None;
        }
        wrapped.drain(..PREFIX);
        Some(wrapped)
    }
}

fn unix_seconds() -> u64 {
    UnixTime::now().as_secs()
}

impl<T: ?Sized> fmt::Debug for Scoped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scoped")
    }
}

impl ProducesTickets for Scoped<dyn ProducesTickets> {
    fn enabled(&self) -> bool {
        self.inner.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.inner.lifetime().min(self.lifetime)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.inner.encrypt(&self.wrap(plain, unix_seconds()))
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.unwrap(self.inner.decrypt(cipher)?, unix_seconds())
    }
}

impl StoresServerSessions for Scoped<dyn StoresServerSessions> {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.inner.put(self.key(&key), self.wrap(&value, unix_seconds()))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.unwrap(self.inner.get(&self.key(key))?, unix_seconds())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.unwrap(self.inner.take(&self.key(key))?, unix_seconds())
    }

    fn can_cache(&self) -> bool {
        self.inner.can_cache()
    }
}

impl Scoped<dyn StoresServerSessions> {
    fn key(&self, key: &[u8]) -> Vec<u8> {
        [&self.policy[..], key].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::super::digest::Digesting;
    use super::*;

    #[test]
    fn fixed_keys_open_each_others_tickets() {
        let (old, new) = (vec![1; 48], vec![2; 80]);
        let before = Tickets::from_keys(std::slice::from_ref(&old)).unwrap();
        let after = Tickets::from_keys(&[new, old]).unwrap();
        let ticket = before.0.encrypt(b"session").unwrap();
        assert_eq!(after.0.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(before.0.decrypt(&after.0.encrypt(b"x").unwrap()), None);
        assert_eq!(after.0.decrypt(&ticket[..20]), None);
        assert!(matches!(Tickets::from_keys(&[vec![0; 32]]), Err(TlsConfigError::BadTicketKey(32))));
    }

    #[test]
    fn tickets_do_not_cross_scopes() {
        let inner = Tickets::new().unwrap().0;
        let scoped = |policy: &str| -> Scoped<dyn ProducesTickets> {
            Scoped::new(&Digesting::of(policy).done(), 60, inner.clone())
        };
        let (one, two) = (scoped("one"), scoped("two"));
        assert_eq!(one.lifetime(), 60);
        let ticket = one.encrypt(b"session").unwrap();
        assert_eq!(one.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(two.decrypt(&ticket), None);
    }

    #[test]
    fn sessions_end_with_their_time() {
        let cache = SessionCache::new(8).0;
        let scoped: Scoped<dyn StoresServerSessions> = Scoped::new(&Digesting::of("one").done(), 60, cache);
        let wrapped = scoped.wrap(b"session", 1000);
        assert_eq!(scoped.unwrap(wrapped.clone(), 1059).as_deref(), Some(&b"session"[..]));
        assert_eq!(scoped.unwrap(wrapped.clone(), 1060), None);
        assert_eq!(scoped.unwrap(wrapped.clone(), 900), None, "from the future");
        assert_eq!(scoped.unwrap(wrapped[..20].to_vec(), 1000), None);
        assert!(scoped.put(b"id".to_vec(), b"stored".to_vec()));
        assert_eq!(scoped.get(b"id").as_deref(), Some(&b"stored"[..]));
    }
}
