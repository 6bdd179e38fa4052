//! A client that sends data before its handshake is complete, and completes it when it is told to.
//!
//! Owns: one connection that resumes a session, and its first flight.
//! Never: finishes a handshake by itself.
//! Driven by: tests of what may be done with data that somebody else may send again.

use crate::client::Client;
use crate::deadline::patience;
use crate::port::Address;
use crate::tls::TlsOptions;
use crate::wire::Wire;
use rustls::{ClientConnection, StreamOwned};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// A connection whose handshake is open.
pub struct EarlyClient {
    tcp: TcpStream,
    connection: ClientConnection,
    flight: Vec<u8>,
}

impl EarlyClient {
    /// Sends a ClientHello and this data behind it. `options` resume ([`TlsOptions::early`]), and an earlier connection of
    /// theirs was given a session.
    ///
    /// # Panics
    /// When there is no session that early data may be sent in, or nobody accepts.
    #[must_use]
    #[track_caller]
    pub fn begin(to: impl Address, options: &TlsOptions, data: impl AsRef<[u8]>) -> Self {
        let mut connection = ClientConnection::new(options.client_config(), options.server_name())
            .expect("the options make a client");
        let mut early = connection.early_data().expect("a session that early data may be sent in");
        early.write_all(data.as_ref()).expect("that much early data may be sent");
        let mut flight = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut flight).expect("a vector takes everything");
        }
        let tcp = Self::send(to, &flight);
        Self { tcp, connection, flight }
    }

    /// Sends bytes over a connection of their own.
    ///
    /// # Panics
    /// When nobody accepts or takes them.
    pub fn send(to: impl Address, bytes: &[u8]) -> TcpStream {
        let mut tcp = TcpStream::connect(to.address()).expect("somebody accepts");
        tcp.set_read_timeout(Some(patience())).expect("time limits can be set");
        tcp.write_all(bytes).expect("the peer takes it");
        tcp
    }

    /// What was sent so far, as it went over the wire.
    #[must_use]
    pub fn flight(&self) -> &[u8] {
        &self.flight
    }

    /// Whether the server took the data. Known once it has answered.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.connection.is_early_data_accepted()
    }

    /// Reads the server's flight, and what comes behind it until that holds `text`. The handshake stays open.
    ///
    /// # Panics
    /// When the connection ends before.
    #[track_caller]
    pub fn read_until(&mut self, text: &str) -> String {
        let mut said = Vec::new();
        loop {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = self.connection.reader().read(&mut chunk) {
                said.extend_from_slice(&chunk[..read]);
            }
            let so_far = String::from_utf8_lossy(&said).into_owned();
            if so_far.contains(text) {
                return so_far;
            }
            let read = self.connection.read_tls(&mut self.tcp);
            assert!(matches!(read, Ok(1..)), "{read:?} after {so_far:?}");
            self.connection.process_new_packets().unwrap_or_else(|e| panic!("{e} after {so_far:?}"));
        }
    }

    /// The socket, for what no client sends.
    #[must_use]
    pub fn into_socket(self) -> TcpStream {
        self.tcp
    }

    /// Completes the handshake.
    ///
    /// # Panics
    /// When it fails.
    #[must_use]
    #[track_caller]
    pub fn finish(self) -> Client {
        let Self { tcp, connection, .. } = self;
        let mut stream = StreamOwned::new(connection, tcp.try_clone().expect("a socket can be cloned"));
        while stream.conn.is_handshaking() || stream.conn.wants_write() {
            stream.conn.complete_io(&mut stream.sock).expect("the handshake succeeds");
        }
        Client::over(Wire::over(tcp, Box::new(stream)).expect("a connected socket"))
    }
}
