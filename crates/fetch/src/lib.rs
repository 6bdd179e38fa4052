//! Requests that Weir makes itself: to identity providers, certificate authorities, responders, collectors.
//!
//! Owns: a client for HTTP/1.1 and HTTP/2 with bounds on time and size, and whom it trusts.
//! Never: follows redirects, keeps cookies, reads a proxy from the environment, or runs on a worker's thread: `send` wants a runtime of tokio.
//! Driven by: side threads of `engine` and of `weir`.
//! Why: docs/decisions/fetch.md.

#![forbid(unsafe_code)]

mod names;
mod trust;

pub use bytes::Bytes;
pub use http;
pub use names::{Lookup, Names};
pub use trust::Trust;

use http::header::HeaderMap;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Client as Pool};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::error::Error as _;
use std::time::Duration;

/// The largest list of fields that a server may answer with over HTTP/2, in bytes as RFC 9113 section 6.5.2 counts them.
const LARGEST_HEAD: u32 = 64 * 1024;

/// How long a connection without a request is kept, and how many to one server.
const IDLE: Duration = Duration::from_secs(30);
const IDLE_CONNECTIONS: usize = 2;

/// Which version of HTTP is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.1 in clear; over TLS what the server chooses by ALPN.
    #[default]
    Negotiated,
    /// HTTP/2 only, in clear with prior knowledge (RFC 9113 section 3.3): what gRPC needs.
    Http2,
}

/// What a [`Client`] does for all of its requests.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who vouches for a server that is asked over TLS.
    pub trust: Trust,
    /// How addresses of a host are found.
    pub names: Names,
    /// Which version is spoken.
    pub version: Version,
    /// How long a whole exchange may take, the connection included.
    pub timeout: Duration,
    /// The largest body of an answer, in bytes, after which it fails.
    pub largest: usize,
}

impl Default for Options {
    /// The system's authorities and names, ten seconds, one mebibyte.
    fn default() -> Self {
        Self {
            trust: Trust::System,
            names: Names::System,
            version: Version::Negotiated,
            timeout: Duration::from_secs(10),
            largest: 1024 * 1024,
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// The authorities or the client's certificate cannot be used.
    #[error("{0}")]
    Trust(String),
    /// The request names no server that can be asked: not `http` or `https`, or no host.
    #[error("\"{0}\" is no http or https URL with a host")]
    Url(String),
    /// No connection: the name has no address, nobody listens, the certificate is not trusted.
    #[error("cannot connect to {server}: {why}")]
    Connect {
        /// Host and port, as the request names them.
        server: String,
        /// What the system or the TLS library says.
        why: String,
    },
    /// The connection failed after it stood, or what came is no HTTP.
    #[error("{server}: {why}")]
    Exchange {
        /// Host and port, as the request names them.
        server: String,
        /// What was wrong.
        why: String,
    },
    /// The whole took longer than [`Options::timeout`].
    #[error("{server} did not answer within {} ms", after.as_millis())]
    Timeout {
        /// Host and port, as the request names them.
        server: String,
        /// The time that was allowed.
        after: Duration,
    },
    /// The body is larger than [`Options::largest`].
    #[error("{server} answered with more than {largest} bytes")]
    TooLarge {
        /// Host and port, as the request names them.
        server: String,
        /// The bound, in bytes.
        largest: usize,
    },
}

/// A whole response.
#[derive(Debug)]
pub struct Answer {
    /// Status and fields.
    pub head: http::response::Parts,
    /// The body, at most [`Options::largest`] bytes.
    pub body: Bytes,
    /// Fields after the body; empty where there are none.
    pub trailers: HeaderMap,
}

/// Sends requests and keeps a few connections; clones share them.
#[derive(Clone, Debug)]
pub struct Client {
    pool: Pool<HttpsConnector<HttpConnector<Names>>, Full<Bytes>>,
    timeout: Duration,
    largest: usize,
}

impl Client {
    /// A client as `options` say.
    ///
    /// # Errors
    /// [`Error::Trust`] when authorities cannot be read or a certificate does not match its key.
    pub fn new(options: &Options) -> Result<Self, Error> {
        let mut connector = HttpConnector::new_with_resolver(options.names.clone());
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(options.timeout));
        let builder = HttpsConnectorBuilder::new().with_tls_config(options.trust.config()?).https_or_http();
        let connector = match options.version {
            Version::Negotiated => builder.enable_all_versions().wrap_connector(connector),
            Version::Http2 => builder.enable_http2().wrap_connector(connector),
        };
        let pool = Pool::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .http2_only(options.version == Version::Http2)
            .http2_max_header_list_size(LARGEST_HEAD)
            .build(connector);
        Ok(Self { pool, timeout: options.timeout, largest: options.largest })
    }

    /// Sends `request`, whose URI is absolute, and reads the whole answer, whatever its status.
    ///
    /// # Errors
    /// No answer came, or it is not taken: each with the server's name. A status of 4xx or 5xx is an answer.
    pub async fn send(&self, request: http::Request<Bytes>) -> Result<Answer, Error> {
        let server = match (request.uri().scheme_str(), request.uri().authority()) {
            (Some("http" | "https"), Some(authority)) => {
                // What may stand before the host is nobody's business in a log.
                authority.as_str().rsplit('@').next().unwrap_or_default().to_owned()
            }
            _ => return Err(Error::Url(request.uri().to_string())),
        };
        let exchange = self.exchange(request.map(Full::new), &server);
        match tokio::time::timeout(self.timeout, exchange).await {
            Ok(result) => result,
            Err(_) => Err(Error::Timeout { server, after: self.timeout }),
        }
    }

    async fn exchange(&self, request: http::Request<Full<Bytes>>, server: &str) -> Result<Answer, Error> {
        let response = self.pool.request(request).await.map_err(|error| refused(&error, server))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, self.largest).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                Error::TooLarge { server: server.to_owned(), largest: self.largest }
            } else {
                Error::Exchange { server: server.to_owned(), why: innermost(error.as_ref()) }
            }
        })?;
        let trailers = body.trailers().cloned().unwrap_or_default();
        Ok(Answer { head, body: body.to_bytes(), trailers })
    }
}

fn refused(error: &legacy::Error, server: &str) -> Error {
    let why = error.source().map_or_else(|| error.to_string(), innermost);
    let server = server.to_owned();
    if error.is_connect() { Error::Connect { server, why } } else { Error::Exchange { server, why } }
}

/// The cause at the bottom of `error`: what is above it only says that something failed.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}
