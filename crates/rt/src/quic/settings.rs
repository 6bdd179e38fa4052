//! What connections of a listener begin with.
//!
//! Owns: keys of tokens, the transport's settings in the library's words.
//! Never: reads a file.
//! Driven by: `engine`, once for each plan.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::{hkdf, hmac};
use quinn_proto::{
    EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, ValidationTokenConfig, VarInt,
};

use super::session::Chooser;
use crate::tls::{ClientHello, ServerTls};

/// Unacknowledged bytes that are kept for one connection.
const SEND_WINDOW: u64 = 1 << 20;
/// Datagrams that begin connections and were not looked at yet; they are at once, so few are ever needed.
const INCOMING: usize = 64;

/// Keys of address tokens and of stateless resets, the same in all workers.
#[derive(Clone)]
pub struct QuicKeys {
    reset: Arc<hmac::Key>,
    token: Arc<hkdf::Prk>,
}

impl QuicKeys {
    /// Of a secret that lasts, so that tokens hold across restarts and on other machines.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        let salt = |name: &[u8]| hkdf::Salt::new(hkdf::HKDF_SHA256, name).extract(secret);
        let mut reset = [0; 32];
        let of_resets = salt(b"weir quic reset");
        // As long as the hash: it cannot fail.
        let _ = of_resets.expand(&[b"key"], hkdf::HKDF_SHA256).and_then(|made| made.fill(&mut reset));
        Self {
            reset: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &reset)),
            token: Arc::new(salt(b"weir quic token")),
        }
    }

    /// Of a secret of this process.
    ///
    /// # Errors
    /// The system has no random numbers to give.
    pub fn random() -> std::io::Result<Self> {
        let mut secret = [0; 32];
        aws_lc_rs::rand::fill(&mut secret).map_err(|_| std::io::Error::other("no random numbers"))?;
        Ok(Self::new(&secret))
    }

    pub(super) fn endpoint(&self) -> EndpointConfig {
        EndpointConfig::new(self.reset.clone())
    }
}

impl std::fmt::Debug for QuicKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("QuicKeys")
    }
}

/// Settings of connections.
#[derive(Clone, Debug)]
pub struct QuicSettings {
    /// A connection on which nothing arrives for so long is gone.
    pub idle: Duration,
    /// Streams of requests at once.
    pub streams: u32,
    /// Bytes of a stream that wait to be read.
    pub stream_buffer: u32,
    /// Many datagrams leave in one call, where the kernel cuts them apart.
    pub segments: bool,
}

/// What connections begin with. Clones share it.
#[derive(Clone)]
pub struct QuicServer(pub(super) Arc<ServerConfig>);

impl QuicServer {
    /// With TLS as `choose` says by what a client asks for; `None` refuses it.
    pub fn new(
        settings: &QuicSettings,
        keys: &QuicKeys,
        choose: impl Fn(&ClientHello) -> Option<ServerTls> + Send + Sync + 'static,
    ) -> Self {
        let mut transport = TransportConfig::default();
        let idle = settings.idle.clamp(Duration::from_secs(1), Duration::from_secs(24 * 60 * 60));
        transport.max_idle_timeout(IdleTimeout::try_from(idle).ok());
        transport.max_concurrent_bidi_streams(settings.streams.max(1).into());
        // Control, two of QPACK, and a few that nobody knows.
        transport.max_concurrent_uni_streams(VarInt::from_u32(8));
        let buffer = settings.stream_buffer.clamp(4096, 1 << 24);
        transport.stream_receive_window(buffer.into());
        // All streams of a connection together.
        transport.receive_window(buffer.saturating_mul(8).max(1 << 19).into());
        transport.send_window(SEND_WINDOW);
        transport.datagram_receive_buffer_size(None);
        transport.enable_segmentation_offload(settings.segments);
        let mut config = ServerConfig::new(Arc::new(Chooser::new(choose)), keys.token.clone());
        config.transport_config(Arc::new(transport));
        config.max_incoming(INCOMING);
        config.incoming_buffer_size(1 << 16);
        config.incoming_buffer_size_total(1 << 20);
        // Tokens for later visits would make servers remember them: a retry costs one round trip.
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(0);
        config.validation_token_config(tokens);
        Self(Arc::new(config))
    }
}
