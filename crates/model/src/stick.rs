//! Stick tables: data by key.

use serde::Serialize;
use weir_diag::Origin;
use weir_expr::StickTableConfig;

/// A table. Its entries are kept under its name as long as the rest stays the same.
#[derive(Clone, Debug, Serialize)]
pub struct StickTable {
    /// Name.
    pub name: String,
    /// Where it was written.
    #[serde(skip)]
    pub origin: Origin,
    /// The rest.
    pub config: StickTableConfig,
}
