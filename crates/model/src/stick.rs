//! Stick tables: data by key.

use serde::{Deserialize, Serialize};
use weir_diag::Origin;
use weir_expr::StickTableConfig;

use crate::{Condition, Template};

/// A table. Its entries are kept under its name as long as the rest stays the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StickTable {
    /// Name.
    pub name: String,
    /// Where it was written.
    #[serde(skip_serializing, default)]
    pub origin: Origin,
    /// The rest.
    pub config: StickTableConfig,
}

/// Names the endpoint of a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EndpointRule {
    /// The endpoint's name. A name that no endpoint has assigns none.
    pub endpoint: Template,
    /// Only if this holds.
    pub condition: Option<Condition>,
}

/// Says what becomes of persistence.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PersistenceRule {
    /// An endpoint that is down is used all the same; if not, cookies are ignored.
    pub force: bool,
    /// Only if this holds.
    pub condition: Option<Condition>,
}

/// How a pool keeps keys at its endpoints by stick tables.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stickiness {
    /// In order: the first that knows a key decides.
    pub rules: Vec<StickRule>,
    /// Numbers of endpoints that are never learnt.
    pub never: Vec<u32>,
    /// Entries hold what an endpoint is called, not its number; an empty key is none (nginx `sticky learn`).
    pub by_name: bool,
}

/// One way to know an endpoint again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StickRule {
    /// The table; its entries hold numbers of endpoints.
    pub table: String,
    /// The key.
    pub key: Template,
    /// Only if this holds.
    pub condition: Option<Condition>,
    /// Known keys go to their endpoint.
    pub matches: bool,
    /// The endpoint that serves is learnt.
    pub stores: bool,
    /// By the response, rather than by the request.
    pub response: bool,
}
