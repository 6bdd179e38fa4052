//! The other side of a check by datagrams.
//!
//! Owns: the socket, and what its errors mean: that the endpoint's machine says that nobody listens.
//! Driven by: `script`.

use weir_plan::Address;
use weir_rt::{Batch, UdpSocket};

use super::result::Failed;
use crate::exchange::errors;

/// An endpoint that is sent datagrams.
pub(super) struct Peer(UdpSocket);

impl Peer {
    pub(super) fn to(address: &Address) -> Result<Self, Failed> {
        let (Address::Tcp(to) | Address::Udp(to)) = address else {
            return Err(Failed::new("L4CON", "a unix socket takes no datagrams from here"));
        };
        UdpSocket::connect(*to, None, false).map(Self).map_err(|error| failed(&error))
    }

    pub(super) fn send(&self, datagram: &[u8]) -> Result<(), Failed> {
        match self.0.try_send(datagram) {
            Ok(true) => Ok(()),
            // One datagram, on a socket of its own.
            Ok(false) => Err(Failed::new("L4CON", "the datagram could not be sent")),
            Err(error) => Err(failed(&error)),
        }
    }

    /// The next datagram.
    pub(super) async fn receive(&self) -> Result<Vec<u8>, Failed> {
        let mut batch = Batch::new();
        self.0.recv(&mut batch).await.map_err(|error| failed(&error))?;
        Ok(batch.iter().next().map(|one| one.data.to_vec()).unwrap_or_default())
    }

    /// Waits until it is known that nobody listens there, or that somebody does: an answer.
    pub(super) async fn refused(&self) -> Result<(), Failed> {
        self.receive().await.map(drop)
    }
}

fn failed(error: &std::io::Error) -> Failed {
    Failed::new("L4CON", format!("datagrams are not taken: {}", errors::system(error)))
}
