//! QUIC (RFC 9000) for servers: connections and streams on a datagram socket.
//!
//! Owns: the endpoint of a socket, its connections, their handshakes and keys.
//! Never: knows what streams carry; shows a type of the library's.
//! Driven by: `engine`, which reads the socket, polls each connection in a task of its own, and speaks HTTP/3 on streams.
//! Why quinn-proto: it is a machine without a socket, a clock or a runtime, so it runs on both drivers as everything else
//! does, and takes the TLS library and provider that TCP uses.

mod connection;
mod endpoint;
mod facts;
mod session;
mod settings;

pub use connection::{QuicConnection, QuicEvent, QuicLost, QuicRead};
pub use endpoint::{QuicEndpoint, QuicIncoming, cid_place};
pub use facts::QuicFacts;
pub use settings::{QuicKeys, QuicServer, QuicSettings};
