//! What `weir top` reads of the dashboard's document.
//!
//! Owns: the names that it asks for. What a server does not say is nothing, so that one of another version can be watched.
//! Driven by: `fetch`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The format that is understood.
pub(super) const FORMAT: u32 = 1;

#[derive(Debug, Default, Deserialize)]
pub(super) struct Document {
    pub(super) format: u32,
    pub(super) now_unix_ms: u64,
    pub(super) process: Process,
    #[serde(default)]
    pub(super) sites: Vec<Site>,
    #[serde(default)]
    pub(super) routes: Vec<Route>,
    #[serde(default)]
    pub(super) pools: Vec<Pool>,
    #[serde(default)]
    pub(super) requests: Requests,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Process {
    pub(super) version: String,
    pub(super) node: String,
    pub(super) pid: u32,
    pub(super) workers: u32,
    pub(super) driver: String,
    pub(super) started_unix: u64,
    pub(super) uptime_ms: u64,
    pub(super) plan: u64,
    pub(super) stopping: bool,
    pub(super) connections: Connections,
    pub(super) max_connections: u64,
    pub(super) memory_in_use: u64,
    pub(super) memory_budget: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Connections {
    pub(super) active: u64,
}

/// Steps of a distribution: upper bound in microseconds, and how many.
pub(super) type Steps = Vec<(u64, u64)>;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Distribution {
    pub(super) steps: Steps,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Latency {
    pub(super) first_byte: Distribution,
    pub(super) total: Distribution,
}

/// Responses by class: `1xx` to `5xx`, `other`.
pub(super) type Classes = BTreeMap<String, u64>;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Site {
    pub(super) name: String,
    pub(super) connections: u64,
    pub(super) responses: Classes,
    pub(super) bytes_out: u64,
    pub(super) latency: Latency,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Route {
    pub(super) site: String,
    pub(super) name: String,
    pub(super) responses: Classes,
    pub(super) bytes_out: u64,
    pub(super) latency: Latency,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pool {
    pub(super) name: String,
    pub(super) active: u64,
    pub(super) backups: u64,
    pub(super) in_flight: u64,
    pub(super) queued: u64,
    pub(super) responses: Classes,
    pub(super) connect_errors: u64,
    pub(super) response_errors: u64,
    pub(super) latency: Latency,
    pub(super) endpoint_count: u64,
    pub(super) endpoints: Vec<Endpoint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Endpoint {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) state: String,
    pub(super) weight: u64,
    pub(super) in_flight: u64,
    pub(super) attempts: u64,
    pub(super) responses: Classes,
    pub(super) connect_errors: u64,
    pub(super) response_errors: u64,
    pub(super) check: Option<Check>,
    pub(super) latency: Latency,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Check {
    pub(super) last_status: String,
    pub(super) last_code: Option<u16>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Requests {
    pub(super) total: u64,
    pub(super) in_flight: Vec<InFlight>,
    pub(super) slowest: Vec<Finished>,
    pub(super) failed: Vec<Finished>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InFlight {
    pub(super) age_us: u64,
    pub(super) stage: String,
    #[serde(flatten)]
    pub(super) asked: Asked,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Finished {
    pub(super) ended_unix_ms: u64,
    pub(super) took_us: u64,
    pub(super) status: u16,
    pub(super) ending: String,
    #[serde(flatten)]
    pub(super) asked: Asked,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) client: String,
    pub(super) endpoint: String,
}
