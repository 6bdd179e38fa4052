//! What the endpoints of QUIC have in common in the process.
//!
//! Owns: keys of tokens, and the way to each socket's endpoint for datagrams that another socket heard.
//! Never: looks into a datagram.
//! Driven by: `entry::quic`.
//! Why: the kernel chooses a socket of a port by both addresses. A client that changes its own is heard by another one.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, OnceLock, PoisonError};

use weir_rt::{QuicKeys, Sender};

/// Most datagrams that wait for an endpoint; what comes beyond is lost, as on the way.
const MOST: usize = 512;

/// A datagram that belongs to another endpoint.
pub(crate) struct Strayed {
    /// Its payload.
    pub(crate) data: Box<[u8]>,
    /// Who sent it.
    pub(crate) from: SocketAddr,
    /// To which of our addresses.
    pub(crate) to: Option<IpAddr>,
}

/// The endpoints by their places.
#[derive(Default)]
pub(crate) struct Places {
    keys: OnceLock<QuicKeys>,
    known: Mutex<HashMap<u16, Sender<Strayed>>>,
}

impl Places {
    /// The process's own keys.
    pub(crate) fn keys(&self) -> std::io::Result<&QuicKeys> {
        if self.keys.get().is_none() {
            let _ = self.keys.set(QuicKeys::random()?);
        }
        self.keys.get().ok_or_else(|| std::io::Error::other("no keys"))
    }

    /// Takes a place.
    pub(crate) fn take(&self, place: u16, endpoint: Sender<Strayed>) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(place, endpoint);
    }

    /// Leaves it.
    pub(crate) fn leave(&self, place: u16) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&place);
    }

    /// Gives a datagram to whom it belongs. False: nobody is there.
    pub(crate) fn forward(&self, place: u16, strayed: impl FnOnce() -> Strayed) -> bool {
        let found = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&place).cloned();
        let Some(endpoint) = found else { return false };
        endpoint.backlog() < MOST && endpoint.send(strayed()).is_ok()
    }
}
