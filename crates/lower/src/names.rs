//! Tables from names to indices.
//!
//! Owns: the tables, and findings about names given twice.
//! Driven by: `context`, which collects them before the first pass.

use ahash::HashMap;

use weir_diag::{Diagnostic, Origin};
use weir_expr::Slot;
use weir_model::Model;
use weir_plan::{CacheZoneIx, ConnZoneIx, PoolIx, ReqZoneIx};

/// Most user variables: slots count in 16 bits, and the last stands for "unknown".
const MAX_VARIABLES: usize = u16::MAX as usize - 1;

/// Tables of names.
#[derive(Debug, Default)]
pub(crate) struct Names<'m> {
    variables: HashMap<&'m str, Slot>,
    pub(crate) pools: HashMap<&'m str, PoolIx>,
    pub(crate) req_zones: HashMap<&'m str, ReqZoneIx>,
    pub(crate) conn_zones: HashMap<&'m str, ConnZoneIx>,
    pub(crate) cache_zones: HashMap<&'m str, CacheZoneIx>,
}

impl<'m> Names<'m> {
    pub(crate) fn collect(model: &'m Model, findings: &mut Vec<Diagnostic>) -> Self {
        let mut names = Self::default();
        let mut first: HashMap<(&str, &str), Origin> = HashMap::default();
        let mut unique = |kind: &'static str, name: &'m str, origin: Origin, code: &'static str| {
            let Some(&before) = first.get(&(kind, name)) else {
                first.insert((kind, name), origin);
                return true;
            };
            let mut finding = Diagnostic::error(code, format!("there are two {kind}s called `{name}`"));
            if let Some(span) = origin {
                finding = finding.at(span);
            }
            if let Some(span) = before {
                finding = finding.also(span, "first defined here");
            }
            findings.push(finding);
            false
        };
        for (at, variable) in model.variables.iter().enumerate().take(MAX_VARIABLES) {
            if unique("variable", &variable.name, variable.origin, "variable::defined-twice") {
                names.variables.insert(&variable.name, Slot(at as u16));
            }
        }
        for (at, pool) in (0u32..).zip(&model.pools) {
            if unique("pool", &pool.name, pool.origin, "pool::defined-twice") {
                names.pools.insert(&pool.name, PoolIx(at));
            }
        }
        for (at, zone) in (0u32..).zip(&model.limit_req_zones) {
            if unique("request-rate zone", &zone.name, None, "zone::defined-twice") {
                names.req_zones.insert(&zone.name, ReqZoneIx(at));
            }
        }
        for (at, zone) in (0u32..).zip(&model.limit_conn_zones) {
            if unique("concurrency zone", &zone.name, None, "zone::defined-twice") {
                names.conn_zones.insert(&zone.name, ConnZoneIx(at));
            }
        }
        for (at, zone) in (0u32..).zip(&model.cache_zones) {
            if unique("cache zone", &zone.name, None, "zone::defined-twice") {
                names.cache_zones.insert(&zone.name, CacheZoneIx(at));
            }
        }
        if model.variables.len() > MAX_VARIABLES {
            let title = format!("{} variables are defined; {MAX_VARIABLES} can be", model.variables.len());
            findings.push(Diagnostic::error("variable::too-many", title));
        }
        names
    }

    /// All user variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'m str, Slot)> {
        self.variables.iter().map(|(name, slot)| (*name, *slot))
    }

    pub(crate) fn slot(&self, name: &str) -> Option<Slot> {
        self.variables.get(name).copied()
    }
}
