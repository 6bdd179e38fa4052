//! Pass "resolve": names to indices.
//!
//! Owns: the tables, and findings about names given twice.
//! Why: later passes look a name up and say what is wrong with it at the place where it is used.

use std::collections::HashMap;

use weir_diag::{Diagnostic, Origin};
use weir_expr::Slot;
use weir_model::{Model, Op, Route, RouteId, RouteMatch};
use weir_plan::{ConnZoneIx, PoolIx, ReqZoneIx};

use crate::context::Cx;

/// Most user variables: slots count in 16 bits, and the last stands for "unknown".
const MAX_VARIABLES: usize = u16::MAX as usize - 1;

/// Tables of names.
#[derive(Debug, Default)]
pub(crate) struct Names<'m> {
    variables: HashMap<&'m str, Slot>,
    pools: HashMap<&'m str, PoolIx>,
    req_zones: HashMap<&'m str, ReqZoneIx>,
    conn_zones: HashMap<&'m str, ConnZoneIx>,
}

impl<'m> Names<'m> {
    pub(crate) fn collect(model: &'m Model, findings: &mut Vec<Diagnostic>) -> Self {
        let mut names = Self::default();
        let mut first: HashMap<(&str, &str), Origin> = HashMap::new();
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
        if model.variables.len() > MAX_VARIABLES {
            let title = format!("{} variables are defined; {MAX_VARIABLES} can be", model.variables.len());
            findings.push(Diagnostic::error("variable::too-many", title));
        }
        names
    }

    pub(crate) fn slot(&self, name: &str) -> Option<Slot> {
        self.variables.get(name).copied()
    }
}

impl Cx<'_> {
    /// The pool of a name; an unknown one is reported here.
    pub(crate) fn pool_ix(&mut self, name: &str) -> PoolIx {
        if let Some(&ix) = self.names.pools.get(name) {
            return ix;
        }
        let near = weir_diag::nearest(name, self.names.pools.keys().copied()).map(str::to_owned);
        self.unknown("pool::unknown", format!("there is no pool `{name}`"), near);
        PoolIx(0)
    }

    /// The request-rate zone of a name.
    pub(crate) fn req_zone_ix(&mut self, name: &str) -> ReqZoneIx {
        if let Some(&ix) = self.names.req_zones.get(name) {
            return ix;
        }
        let near = weir_diag::nearest(name, self.names.req_zones.keys().copied()).map(str::to_owned);
        self.unknown("zone::unknown", format!("there is no request-rate zone `{name}`"), near);
        ReqZoneIx(0)
    }

    /// The concurrency zone of a name.
    pub(crate) fn conn_zone_ix(&mut self, name: &str) -> ConnZoneIx {
        if let Some(&ix) = self.names.conn_zones.get(name) {
            return ix;
        }
        let near = weir_diag::nearest(name, self.names.conn_zones.keys().copied()).map(str::to_owned);
        self.unknown("zone::unknown", format!("there is no concurrency zone `{name}`"), near);
        ConnZoneIx(0)
    }

    fn unknown(&mut self, code: &'static str, title: String, near: Option<String>) {
        let finding = Diagnostic::error(code, title);
        self.report(match near {
            Some(near) => finding.help(format!("did you mean `{near}`?")),
            None => finding,
        });
    }
}

/// Checks that routes refer to one another without going in circles: nesting and `Enter` must end.
pub(crate) fn references(cx: &mut Cx<'_>) {
    let nested = |route: &Route, to: &mut Vec<RouteId>| to.extend(&route.children);
    circle(cx, nested, "route::nested-in-itself", "is nested in itself");
    let entered =
        |route: &Route, to: &mut Vec<RouteId>| route.program.iter().for_each(|op| collect_entered(op, to));
    circle(cx, entered, "route::enters-itself", "hands its requests on to itself");
}

fn collect_entered(op: &Op, to: &mut Vec<RouteId>) {
    match op {
        Op::Enter(route) => to.push(*route),
        Op::When { then, otherwise, .. } => {
            then.iter().chain(otherwise).for_each(|op| collect_entered(op, to))
        }
        _ => {}
    }
}

/// Depth-first search without recursion: 0 unseen, 1 on the way, 2 done.
fn circle(cx: &mut Cx<'_>, edges: impl Fn(&Route, &mut Vec<RouteId>), code: &'static str, words: &str) {
    let routes = &cx.model.routes;
    let mut state = vec![0u8; routes.len()];
    let mut targets = Vec::new();
    for start in 0..routes.len() {
        if state[start] != 0 {
            continue;
        }
        let mut stack = vec![(start, false)];
        while let Some((at, leaving)) = stack.pop() {
            if leaving {
                state[at] = 2;
                continue;
            }
            if state[at] != 0 {
                continue;
            }
            state[at] = 1;
            stack.push((at, true));
            targets.clear();
            edges(&routes[at], &mut targets);
            for target in targets.iter().map(|id| id.0 as usize).filter(|&target| target < routes.len()) {
                match state[target] {
                    0 => stack.push((target, false)),
                    1 => {
                        let finding = Diagnostic::error(code, format!("`{}` {words}", routes[target].name));
                        cx.at(routes[target].origin, |cx| cx.report(finding));
                    }
                    _ => {}
                }
            }
        }
    }
}

/// The text of a route's exact or prefix match.
pub(crate) fn fixed_text(matching: &RouteMatch) -> Option<&str> {
    match matching {
        RouteMatch::Exact(path) | RouteMatch::Prefix { path, .. } => Some(path),
        RouteMatch::Regex(_) | RouteMatch::Named(_) | RouteMatch::Referred => None,
    }
}
