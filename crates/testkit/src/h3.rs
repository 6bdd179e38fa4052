//! A client of HTTP/3, by the libraries of others.
//!
//! Owns: its thread's runtime, its socket, its connections.
//! Never: verifies a certificate. Driven by: tests of `listen … quic`.
//! Why libraries: what speaks to Weir here shares no line of HTTP/3 with it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use h3::client::SendRequest;
use h3_quinn::OpenStreams;
use quinn::crypto::rustls::QuicClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

pub use quinn;

/// A request's body, and what follows it.
pub type Body<'a> = (&'a [u8], &'a [(&'a str, &'a str)]);

/// An answer.
#[derive(Debug)]
pub struct H3Response {
    /// Its status.
    pub status: u16,
    /// Its fields.
    pub headers: http::HeaderMap,
    /// Its body.
    pub body: Vec<u8>,
    /// What came behind the body.
    pub trailers: Option<http::HeaderMap>,
}

impl H3Response {
    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A field's value, or nothing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// Takes any certificate.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        // QUIC knows no TLS 1.2.
        Err(rustls::Error::HandshakeNotComplete)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &crate::tls::provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        crate::tls::provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A connection.
pub struct H3Client {
    runtime: tokio::runtime::Runtime,
    endpoint: quinn::Endpoint,
    quic: quinn::Connection,
    send: SendRequest<OpenStreams, Bytes>,
    authority: String,
}

/// What a client of this kind may ask for.
#[derive(Clone, Debug)]
pub struct H3Options {
    /// The name that it asks for.
    pub name: String,
    /// The protocols that it offers.
    pub alpn: Vec<Vec<u8>>,
    /// So many seconds a handshake may take.
    pub patience: u64,
}

impl Default for H3Options {
    fn default() -> Self {
        Self { name: "a.test".to_owned(), alpn: vec![b"h3".to_vec()], patience: 20 }
    }
}

/// A runtime with a socket, to connect by.
///
/// # Errors
/// The handshake fails.
///
/// # Panics
/// When there is no socket to be had.
pub fn quic(
    port: u16,
    options: &H3Options,
) -> Result<(tokio::runtime::Runtime, quinn::Endpoint, quinn::Connection), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let mut tls = rustls::ClientConfig::builder_with_provider(crate::tls::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    tls.alpn_protocols.clone_from(&options.alpn);
    let config = QuicClientConfig::try_from(tls).expect("TLS 1.3");
    let name = options.name.clone();
    let (endpoint, quic) = runtime.block_on(async {
        let mut endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).expect("a socket");
        endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(config)));
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let connecting = endpoint.connect(to, &name).map_err(|error| error.to_string())?;
        let shaken = tokio::time::timeout(Duration::from_secs(options.patience), connecting).await;
        let quic = shaken.map_err(|_| "no answer".to_owned())?.map_err(|error| error.to_string())?;
        Ok::<_, String>((endpoint, quic))
    })?;
    Ok((runtime, endpoint, quic))
}

impl H3Client {
    /// Connects.
    ///
    /// # Panics
    /// When that fails.
    #[must_use]
    pub fn connect(port: u16) -> Self {
        Self::with(port, &H3Options::default()).unwrap_or_else(|why| panic!("{why}"))
    }

    /// Connects as these say.
    ///
    /// # Errors
    /// The handshake fails.
    pub fn with(port: u16, options: &H3Options) -> Result<Self, String> {
        let (runtime, endpoint, quic) = quic(port, options)?;
        let made = runtime.block_on(h3::client::new(h3_quinn::Connection::new(quic.clone())));
        let (mut driver, send) = made.map_err(|error| error.to_string())?;
        runtime.spawn(async move { drop(std::future::poll_fn(|cx| driver.poll_close(cx)).await) });
        Ok(Self { runtime, endpoint, quic, send, authority: options.name.clone() })
    }

    /// Asks for a path.
    ///
    /// # Errors
    /// The stream or the connection fails.
    pub fn try_get(&self, path: &str) -> Result<H3Response, String> {
        self.ask("GET", path, &[], None)
    }

    /// Asks for a path.
    ///
    /// # Panics
    /// When there is no answer.
    #[must_use]
    pub fn get(&self, path: &str) -> H3Response {
        self.try_get(path).unwrap_or_else(|why| panic!("{path}: {why}"))
    }

    /// Asks with any method, fields, a body and trailers.
    ///
    /// # Errors
    /// The stream or the connection fails.
    pub fn ask(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: Option<Body<'_>>,
    ) -> Result<H3Response, String> {
        self.runtime.block_on(one(self.send.clone(), self.request(method, path, fields), body))
    }

    /// Asks for a path many times at once.
    ///
    /// # Panics
    /// When one is not answered.
    #[must_use]
    pub fn get_many(&self, path: &str, count: usize) -> Vec<H3Response> {
        let asked: Vec<_> = (0..count)
            .map(|_| {
                let request = self.request("GET", path, &[]);
                self.runtime.spawn(one(self.send.clone(), request, None))
            })
            .collect();
        let all =
            asked.into_iter().map(|one| self.runtime.block_on(one).expect("no panic").expect("an answer"));
        all.collect()
    }

    /// Goes on from another port.
    ///
    /// # Panics
    /// When there is no socket to be had.
    pub fn migrate(&self) {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let _entered = self.runtime.enter();
        self.endpoint.rebind(socket).expect("another socket");
    }

    /// Waits until the connection has ended, and says why.
    #[must_use]
    pub fn closed(&self) -> String {
        self.runtime.block_on(self.quic.closed()).to_string()
    }

    fn request(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> http::Request<()> {
        let uri = format!("https://{}{path}", self.authority);
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request")
    }
}

async fn one(
    mut send: SendRequest<OpenStreams, Bytes>,
    request: http::Request<()>,
    body: Option<Body<'_>>,
) -> Result<H3Response, String> {
    let asked = async {
        let told = |error: h3::error::StreamError| error.to_string();
        let mut stream = send.send_request(request).await.map_err(told)?;
        if let Some((body, trailers)) = body {
            // The server may answer before it has taken all.
            let sent = stream.send_data(Bytes::copy_from_slice(body)).await.is_ok();
            if sent && !trailers.is_empty() {
                let mut list = http::HeaderMap::new();
                for (name, value) in trailers {
                    let name = http::HeaderName::from_bytes(name.as_bytes()).expect("a name");
                    list.insert(name, http::HeaderValue::from_str(value).expect("a value"));
                }
                let _ = stream.send_trailers(list).await;
            }
            if sent {
                let _ = stream.finish().await;
            }
        } else {
            let _ = stream.finish().await;
        }
        let head = stream.recv_response().await.map_err(told)?;
        let mut body = Vec::new();
        while let Some(piece) = stream.recv_data().await.map_err(told)? {
            body.extend_from_slice(piece.chunk());
        }
        let trailers = stream.recv_trailers().await.map_err(told)?;
        Ok(H3Response { status: head.status().as_u16(), headers: head.headers().clone(), body, trailers })
    };
    tokio::time::timeout(Duration::from_secs(30), asked).await.map_err(|_| "no answer in time".to_owned())?
}
