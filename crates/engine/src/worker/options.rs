//! What an engine is given from outside: options, and pages rendered elsewhere.
//!
//! Owns: the types that the binary names.

use std::sync::Arc;

use weir_control::Changes;
use weir_control::changes::KeyPair;
use weir_control::snapshot::{IssuedFigures, Snapshot};
use weir_expr::settings::Exposition;
use weir_plan::StatsPage;
use weir_rt::IoChoice;
use weir_telemetry::Registry;

use crate::logging::LogFiles;

/// Pages that are rendered from figures, outside the data plane.
pub trait Pages: Send + Sync {
    /// Answers a request for HAProxy's statistics page.
    fn stats(&self, page: &StatsPage, request: &PageRequest<'_>, snapshot: &Snapshot) -> Page;

    /// Answers a request for the dashboard or one of its parts. Called where waiting is no harm.
    fn dashboard(&self, request: &PageRequest<'_>) -> Page;

    /// Answers a request to nginx's API. It may wait for workers: never call it on one.
    fn api(&self, request: &ApiRequest<'_>, snapshot: &Snapshot) -> Page;

    /// Prometheus exposition.
    fn metrics(&self, form: Exposition, request: &PageRequest<'_>, snapshot: &Snapshot) -> Page;
}

/// A request for a page.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<'a> {
    /// As received.
    pub method: &'a [u8],
    /// Path with query, as received.
    pub target: &'a [u8],
    /// Value of the Authorization field.
    pub authorization: Option<&'a [u8]>,
    /// Value of the Accept field.
    pub accept: Option<&'a [u8]>,
    /// The client may change what the page shows.
    pub admin: bool,
    /// The whole body, of methods other than GET and HEAD. It is small: larger ones never get here.
    pub body: &'a [u8],
}

/// A request to an API.
#[derive(Clone, Copy, Debug)]
pub struct ApiRequest<'a> {
    /// As received.
    pub method: &'a [u8],
    /// The path of the location, decoded.
    pub base: &'a str,
    /// What follows it.
    pub path: &'a [u8],
    /// What follows `?`.
    pub query: &'a [u8],
    /// The whole body, of methods other than GET and HEAD. It is small: larger ones never get here.
    pub body: &'a [u8],
    /// The client may change things.
    pub writes: bool,
    /// The address that it came to.
    pub address: &'a str,
    /// A random number that names the request.
    pub id: u128,
}

/// A rendered page.
#[derive(Clone, Debug)]
pub struct Page {
    /// Status.
    pub status: u16,
    /// Fields, Content-Type among them.
    pub headers: Vec<(&'static str, String)>,
    /// Body.
    pub body: Vec<u8>,
}

/// Certificates that authorities issue while running, and what answers these when they ask whether a name is ours.
pub trait Issued: Send + Sync {
    /// What there is under the name that a plan has for a certificate: a placeholder, if need be. `None`: it is no such name.
    fn pair(&self, name: &str) -> Option<KeyPair>;

    /// The answer to a request for a token on a host (RFC 8555, 8.3). It may read files: never call it on a worker.
    fn answer(&self, host: &str, token: &str) -> Option<String>;

    /// What is shown to whoever looks at a name by `acme-tls/1` (RFC 8737). It may read files: never call it on a worker.
    fn proof(&self, host: &str) -> Option<KeyPair>;

    /// How it stands with each certificate.
    fn figures(&self) -> Vec<IssuedFigures>;
}

/// What an engine is started with.
pub struct EngineOptions {
    /// Driver of the workers' sockets.
    pub io: IoChoice,
    /// Pages that are rendered outside.
    pub pages: Arc<dyn Pages>,
    /// What was changed since the configuration was read. It outlives plans, and the engine if its giver keeps it.
    pub changes: Arc<Changes>,
    /// Where it counts. It outlives the engine if its giver keeps it, and may begin with what an earlier process counted.
    pub registry: Registry,
    /// Certificates that authorities issue, if any do.
    pub issued: Option<Arc<dyn Issued>>,
    /// Log files that were opened with other rights; the rest is opened by path.
    pub logs: LogFiles,
}
