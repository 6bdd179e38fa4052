//! Pages that show the state of the process.
//!
//! Owns: HAProxy's statistics page (HTML, CSV, JSON), the Prometheus page and NGINX Plus' API, each a function of a snapshot.
//! Never: counts, serves a socket, or imports the engine: the binary hands pages to it.
//! Driven by: the binary, for requests that reached a page's route.
//! Why: one [`weir_control::snapshot::Snapshot`] for all pages, so that they cannot disagree.

#![forbid(unsafe_code)]

mod civil;
pub mod cli;
pub mod dashboard;
pub mod metrics;
pub mod plus;
pub mod stats;

/// A request for a page.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Path with query, as received.
    pub target: &'a [u8],
    /// Value of the Authorization field.
    pub authorization: Option<&'a [u8]>,
}

/// A rendered page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Status.
    pub status: u16,
    /// Fields, Content-Type among them.
    pub headers: Vec<(&'static str, String)>,
    /// Body.
    pub body: Vec<u8>,
}

impl Page {
    fn new(content_type: &str, body: String) -> Self {
        Self {
            status: 200,
            headers: vec![
                ("Content-Type", content_type.to_owned()),
                ("Cache-Control", "no-cache".to_owned()),
            ],
            body: body.into_bytes(),
        }
    }
}
