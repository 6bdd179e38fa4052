//! TLS of a connection: a session that begins once it is known whose it is.
//!
//! Owns: the bytes of a ClientHello until it is whole; keys, as the library takes them.
//! Never: lets early data in: it can be replayed.
//! Driven by: quinn-proto.
//! Why not the library's own session: it is bound to one configuration before the first byte, and shows neither suite nor
//! group. Certificates and what is asked of clients depend on the name that the client sends, as over TCP.

use std::any::Any;
use std::io::Cursor;
use std::sync::Arc;

use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::quic::{KeyChange, Secrets, ServerConnection, Version};
use rustls::{AlertDescription, HandshakeKind};

use super::facts::QuicFacts;
use crate::tls::quic::{Hello, bare_config, hello};
use crate::tls::{ClientHello, ServerTls, TlsVersion, name_of};

type Choose = dyn Fn(&ClientHello) -> Option<ServerTls> + Send + Sync;

/// Begins sessions.
pub(super) struct Chooser {
    choose: Arc<Choose>,
    /// For what happens before any name is known: keys of first packets, tags of retries.
    before: Option<Arc<QuicServerConfig>>,
}

impl Chooser {
    pub(super) fn new(choose: impl Fn(&ClientHello) -> Option<ServerTls> + Send + Sync + 'static) -> Self {
        let before = bare_config().and_then(|config| QuicServerConfig::try_from(config).ok()).map(Arc::new);
        Self { choose: Arc::new(choose), before }
    }
}

impl crypto::ServerConfig for Chooser {
    fn initial_keys(&self, version: u32, cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        let before = self.before.as_ref().ok_or(UnsupportedVersion)?;
        known(version).ok_or(UnsupportedVersion)?;
        before.initial_keys(version, cid)
    }

    fn retry_tag(&self, version: u32, cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.before.as_ref().map_or([0; 16], |before| before.retry_tag(version, cid, packet))
    }

    fn start_session(
        self: Arc<Self>,
        version: u32,
        params: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        let mut own = Vec::new();
        params.write(&mut own);
        Box::new(Session {
            chooser: self,
            version,
            own,
            first: Vec::new(),
            began: None,
            next: None,
            told: false,
        })
    }
}

fn known(version: u32) -> Option<Version> {
    (version == 1).then_some(Version::V1)
}

struct Session {
    chooser: Arc<Chooser>,
    version: u32,
    /// Our transport parameters.
    own: Vec<u8>,
    /// The hello, until it is whole.
    first: Vec<u8>,
    began: Option<Began>,
    next: Option<Secrets>,
    told: bool,
}

struct Began {
    tls: ServerTls,
    connection: ServerConnection,
    asked: ClientHello,
}

fn alert(alert: AlertDescription, reason: &str) -> TransportError {
    TransportError { code: TransportErrorCode::crypto(alert.into()), frame: None, reason: reason.to_owned() }
}

fn wrong(code: TransportErrorCode, reason: &str) -> TransportError {
    TransportError { code, frame: None, reason: reason.to_owned() }
}

impl Session {
    /// Begins, once it is known what is asked for.
    fn begin(&mut self) -> Result<(), TransportError> {
        let asked = match hello(&self.first) {
            Hello::Incomplete => return Ok(()),
            Hello::Whole(asked) => asked,
            Hello::Wrong => return Err(alert(AlertDescription::DecodeError, "no ClientHello")),
        };
        let tls = (self.chooser.choose)(&asked).filter(|tls| !tls.rejects());
        let tls = tls.ok_or_else(|| alert(AlertDescription::UnrecognisedName, "nobody has this name"))?;
        let version =
            known(self.version).ok_or_else(|| wrong(TransportErrorCode::INTERNAL_ERROR, "version"))?;
        let config = tls.quic_config_for(&asked).clone();
        let made = ServerConnection::new(config, version, std::mem::take(&mut self.own));
        let connection =
            made.map_err(|error| wrong(TransportErrorCode::INTERNAL_ERROR, &error.to_string()))?;
        self.began = Some(Began { tls, connection, asked });
        let first = std::mem::take(&mut self.first);
        self.feed(&first)
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), TransportError> {
        let Some(began) = &mut self.began else { return Ok(()) };
        let connection = &mut began.connection;
        connection.read_hs(bytes).map_err(|error| match connection.alert() {
            Some(description) => alert(description, &error.to_string()),
            None => wrong(TransportErrorCode::PROTOCOL_VIOLATION, &error.to_string()),
        })?;
        // A session's certificate was verified when it began, which may be long ago.
        let resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
        if resumed
            && !connection.is_handshaking()
            && let Some(failure) = connection.peer_certificates().and_then(|chain| began.tls.failure(chain))
            && began.tls.refuses()
        {
            return Err(alert(AlertDescription::CertificateExpired, failure.text));
        }
        Ok(())
    }
}

impl Began {
    fn facts(&self) -> QuicFacts {
        let connection = &self.connection;
        let certificate = connection.peer_certificates().and_then(|chain| chain.first());
        QuicFacts {
            version: TlsVersion::Tls13,
            cipher: connection.negotiated_cipher_suite().map_or("(none)", |suite| name_of(suite.suite())),
            group: (connection.negotiated_key_exchange_group())
                .and_then(|group| group.name().as_str().map(str::to_owned)),
            suites: self.asked.suites.clone(),
            groups: self.asked.groups.clone(),
            server_name: self.asked.server_name.clone(),
            alpn: connection.alpn_protocol().map(<[u8]>::to_vec),
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            certificate: certificate.map(|der| der.to_vec()),
            failure: connection.peer_certificates().and_then(|chain| self.tls.failure(chain)),
            basis: self.tls.client_auth().copied(),
        }
    }
}

impl crypto::Session for Session {
    fn initial_keys(&self, cid: &ConnectionId, _: Side) -> Keys {
        let keys = crypto::ServerConfig::initial_keys(&*self.chooser, self.version, cid);
        keys.unwrap_or_else(|_| unreachable!("asked of versions that were accepted"))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let began = self.began.as_ref()?;
        Some(Box::new(began.facts()))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.began.as_ref().is_none_or(|began| began.connection.is_handshaking())
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        if self.began.is_some() {
            self.feed(bytes)?;
        } else {
            self.first.extend_from_slice(bytes);
            self.begin()?;
        }
        let ready = !self.told && self.began.as_ref().is_some_and(|began| !began.connection.is_handshaking());
        self.told |= ready;
        Ok(ready)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let told = self.began.as_ref().and_then(|began| began.connection.quic_transport_parameters());
        let read = |bytes| TransportParameters::read(Side::Server, &mut Cursor::new(bytes));
        Ok(told.map(read).transpose()?)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let keys = match self.began.as_mut()?.connection.write_hs(out)? {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                self.next = Some(next);
                keys
            }
        };
        Some(Keys {
            header: KeyPair { local: Box::new(keys.local.header), remote: Box::new(keys.remote.header) },
            packet: KeyPair { local: Box::new(keys.local.packet), remote: Box::new(keys.remote.packet) },
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        false
    }

    fn export_keying_material(
        &self,
        _: &mut [u8],
        _: &[u8],
        _: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}
