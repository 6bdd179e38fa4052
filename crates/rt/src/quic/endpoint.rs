//! The endpoint of a socket: from datagrams to connections.
//!
//! Owns: the table of connection ids, the socket that all connections of it send by, which socket an id names.
//! Never: begins a connection unasked; the caller says whether there is room.
//! Driven by: whoever reads the socket.
//! Why the socket stands in an id: a client that changes its address is heard by another socket of the group, whose worker
//! then knows whom to give it to.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::{
    ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent, Endpoint, EndpointEvent, Incoming,
    Transmit,
};

use super::connection::{Inner, QuicConnection};
use super::settings::{QuicKeys, QuicServer};
use crate::udp::UdpSocket;

/// Bytes of our connection ids.
const CID: usize = 10;

/// Makes ids that name a socket.
struct Ids {
    place: u16,
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; CID];
        // Without random numbers no handshake could begin either; ids then still differ from worker to worker.
        let _ = aws_lc_rs::rand::fill(&mut id);
        id[..2].copy_from_slice(&self.place.to_be_bytes());
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        CID
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The place that a datagram's connection id names: that of the endpoint which made the id. `None`: it begins a connection, or has no id of ours.
#[must_use]
pub fn cid_place(datagram: &[u8]) -> Option<u16> {
    let (&first, rest) = datagram.split_first()?;
    let id = if first & 0x80 == 0 {
        rest.get(..CID)?
    } else {
        // Version, length of the id, the id. What begins a connection (Initial, 0-RTT) carries an id of the client's choice.
        let (version, rest) = rest.split_at_checked(4)?;
        let is_handshake = version == [0, 0, 0, 1] && first & 0x30 == 0x20;
        let (&length, rest) = rest.split_first()?;
        if !is_handshake || usize::from(length) != CID {
            return None;
        }
        rest.get(..CID)?
    };
    Some(u16::from_be_bytes([id[0], id[1]]))
}

/// A connection that a client would like to begin.
pub struct QuicIncoming(Incoming);

impl QuicIncoming {
    /// Whether the client is known to be where it says.
    #[must_use]
    pub fn is_validated(&self) -> bool {
        self.0.remote_address_validated()
    }
}

/// The connections of a socket.
pub struct QuicEndpoint {
    pub(super) socket: UdpSocket,
    local_ip: Option<IpAddr>,
    endpoint: RefCell<Endpoint>,
    open: RefCell<HashMap<usize, Weak<Inner>>>,
    scratch: RefCell<Vec<u8>>,
    /// Whether the kernel cuts a buffer into datagrams.
    pub(super) cuts: Cell<bool>,
}

impl QuicEndpoint {
    /// On a socket, whose place in the process its connection ids name.
    ///
    /// # Errors
    /// The socket has no address.
    pub fn new(socket: UdpSocket, place: u16, keys: &QuicKeys, server: &QuicServer) -> std::io::Result<Self> {
        let bound = socket.local_addr()?.ip();
        let mut config = keys.endpoint();
        config.cid_generator(move || Box::new(Ids { place }));
        config.grease_quic_bit(true);
        let endpoint = Endpoint::new(Arc::new(config), Some(server.0.clone()), true, None);
        Ok(Self {
            local_ip: (!bound.is_unspecified()).then_some(bound),
            cuts: Cell::new(socket.can_segment()),
            socket,
            endpoint: RefCell::new(endpoint),
            open: RefCell::default(),
            scratch: RefCell::default(),
        })
    }

    /// The socket, to be read from.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Connections begin with these from now on.
    pub fn set_server(&self, server: &QuicServer) {
        self.endpoint.borrow_mut().set_server_config(Some(server.0.clone()));
    }

    /// How many connections there are, those that are still beginning or ending among them.
    pub fn connections(&self) -> usize {
        self.open.borrow().len()
    }

    /// Takes a datagram. What it begins, if it does, is to be accepted, refused, retried or ignored.
    pub fn take(&self, data: &[u8], from: SocketAddr, to: Option<IpAddr>) -> Option<QuicIncoming> {
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        let event = self.endpoint.borrow_mut().handle(
            Instant::now(),
            from,
            to.or(self.local_ip),
            None,
            BytesMut::from(data),
            &mut scratch,
        );
        match event {
            None => {}
            Some(DatagramEvent::NewConnection(incoming)) => return Some(QuicIncoming(incoming)),
            Some(DatagramEvent::Response(transmit)) => self.send(&transmit, &scratch),
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let known = self.open.borrow().get(&handle.0).and_then(Weak::upgrade);
                if let Some(connection) = known {
                    connection.hear(event);
                }
            }
        }
        None
    }

    /// Begins a connection.
    pub fn accept(self: &Rc<Self>, incoming: QuicIncoming, server: &QuicServer) -> Option<QuicConnection> {
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        let made = self.endpoint.borrow_mut().accept(
            incoming.0,
            Instant::now(),
            &mut scratch,
            Some(server.0.clone()),
        );
        match made {
            Ok((handle, connection)) => {
                let inner = Inner::new(self.clone(), handle, connection);
                self.open.borrow_mut().insert(handle.0, Rc::downgrade(&inner));
                Some(QuicConnection(inner))
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.send(&transmit, &scratch);
                }
                None
            }
        }
    }

    /// Tells a client that there is no room.
    pub fn refuse(&self, incoming: QuicIncoming) {
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        let transmit = self.endpoint.borrow_mut().refuse(incoming.0, &mut scratch);
        self.send(&transmit, &scratch);
    }

    /// Has a client show that it is where it says: nothing is kept of it until it does.
    pub fn retry(&self, incoming: QuicIncoming) {
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        let made = self.endpoint.borrow_mut().retry(incoming.0, &mut scratch);
        match made {
            Ok(transmit) => self.send(&transmit, &scratch),
            Err(error) => self.endpoint.borrow_mut().ignore(error.into_incoming()),
        }
    }

    /// Drops what a client sent to begin a connection.
    pub fn ignore(&self, incoming: QuicIncoming) {
        self.endpoint.borrow_mut().ignore(incoming.0);
    }

    /// Sends one of the endpoint's own answers. What the kernel cannot take is lost, as on the way.
    fn send(&self, transmit: &Transmit, bytes: &[u8]) {
        if let Some(bytes) = bytes.get(..transmit.size) {
            let _ = self.socket.try_send_to(bytes, transmit.destination, transmit.src_ip);
        }
    }

    /// What a connection has to say to the endpoint.
    pub(super) fn tell(
        &self,
        handle: ConnectionHandle,
        event: EndpointEvent,
    ) -> Option<quinn_proto::ConnectionEvent> {
        let ended = event.is_drained();
        let answer = self.endpoint.borrow_mut().handle_event(handle, event);
        if ended {
            self.open.borrow_mut().remove(&handle.0);
        }
        answer
    }
}
