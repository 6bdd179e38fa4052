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

/// Binds tickets and stored sessions to a client-authentication policy: otherwise a session begun where no
/// certificate is asked for would resume where one is required.
#[derive(Clone)]
pub(crate) struct Scoped<T: ?Sized> {
    pub(crate) scope: u64,
    pub(crate) inner: Arc<T>,
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
        self.inner.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.inner.encrypt(&[&self.scope.to_be_bytes()[..], plain].concat())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let mut plain = self.inner.decrypt(cipher)?;
        if plain.get(..8)? != self.scope.to_be_bytes() {
            return None;
        }
        plain.drain(..8);
        Some(plain)
    }
}

impl StoresServerSessions for Scoped<dyn StoresServerSessions> {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.inner.put(self.key(&key), value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.inner.get(&self.key(key))
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.inner.take(&self.key(key))
    }

    fn can_cache(&self) -> bool {
        self.inner.can_cache()
    }
}

impl Scoped<dyn StoresServerSessions> {
    fn key(&self, key: &[u8]) -> Vec<u8> {
        [&self.scope.to_be_bytes()[..], key].concat()
    }
}

#[cfg(test)]
mod tests {
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
        let one: Scoped<dyn ProducesTickets> = Scoped { scope: 1, inner: inner.clone() };
        let two: Scoped<dyn ProducesTickets> = Scoped { scope: 2, inner };
        let ticket = one.encrypt(b"session").unwrap();
        assert_eq!(one.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(two.decrypt(&ticket), None);
    }
}
