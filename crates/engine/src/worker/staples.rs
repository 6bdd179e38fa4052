//! What responders said of own certificates, to be shown with them.
//!
//! Owns: the last good response of each certificate, until it is over.
//! Never: asks anybody: `upstream::stapling` does.
//! Driven by: `live_tls`, as it makes TLS of a plan. No handshake comes here.
//! Why by the chain: a certificate that is replaced under its name is another one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A response.
#[derive(Clone, Debug)]
pub(crate) struct Staple {
    /// As it came, DER.
    pub(crate) response: Arc<[u8]>,
    /// When it is over, in seconds since 1970.
    pub(crate) until: u64,
}

/// All of a process.
#[derive(Default)]
pub(crate) struct Staples {
    by_chain: Mutex<HashMap<Arc<[u8]>, Staple>>,
}

impl Staples {
    /// The response for a certificate (its chain, PEM), if there is one and it is not over.
    pub(crate) fn of(&self, chain: &[u8], now: u64) -> Option<Arc<[u8]>> {
        let all = self.by_chain.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(chain).filter(|staple| staple.until > now).map(|staple| staple.response.clone())
    }

    /// Takes a response up.
    pub(crate) fn put(&self, chain: Arc<[u8]>, staple: Staple) {
        self.by_chain.lock().unwrap_or_else(PoisonError::into_inner).insert(chain, staple);
    }

    /// Forgets what is over, and certificates that nobody shows any more; the chains of the former.
    pub(crate) fn forget(&self, now: u64, shown: impl Fn(&[u8]) -> bool) -> Vec<Arc<[u8]>> {
        let mut all = self.by_chain.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|chain, _| shown(chain));
        let over: Vec<_> =
            all.iter().filter(|(_, staple)| staple.until <= now).map(|(chain, _)| chain.clone()).collect();
        over.iter().for_each(|chain| drop(all.remove(chain)));
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_end_with_their_time_and_their_certificate() {
        let staples = Staples::default();
        let chain = |text: &str| Arc::<[u8]>::from(text.as_bytes());
        for (name, until) in [("a", 100), ("b", 200)] {
            staples.put(chain(name), Staple { response: chain("said"), until });
        }
        assert!(staples.of(b"a", 99).is_some() && staples.of(b"a", 100).is_none());
        assert_eq!(staples.forget(150, |_| true), [chain("a")]);
        assert!(staples.of(b"b", 150).is_some());
        assert!(staples.forget(150, |shown| shown != b"b").is_empty());
        assert!(staples.of(b"b", 150).is_none());
    }
}
