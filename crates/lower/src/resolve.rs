//! Pass "resolve": names to indices.
//!
//! Owns: findings about names that are given to nothing, routes that refer to one another in a circle.
//! Why: later passes look a name up and say what is wrong with it at the place where it is used.

use weir_diag::Diagnostic;
use weir_model::{Op, Route, RouteId, RouteMatch};
use weir_plan::{CacheZoneIx, ConnZoneIx, PoolIx, ReqZoneIx};

use crate::context::Cx;

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

    /// The cache zone of a name.
    pub(crate) fn cache_zone_ix(&mut self, name: &str) -> CacheZoneIx {
        if let Some(&ix) = self.names.cache_zones.get(name) {
            return ix;
        }
        let near = weir_diag::nearest(name, self.names.cache_zones.keys().copied()).map(str::to_owned);
        self.unknown("zone::unknown", format!("there is no cache zone `{name}`"), near);
        CacheZoneIx(0)
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
