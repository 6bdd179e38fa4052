//! Pass "survey": findings that need the plan.

use weir_diag::Diagnostic;
use weir_model::{Definition, Model, Op, RewriteFlag};
use weir_plan::{Plan, RouteIx};

use crate::context::Cx;
use crate::route::descend;

pub(crate) fn all(cx: &mut Cx<'_>) {
    unassigned(cx);
    loops(cx);
}

/// Variables that nothing gives a value.
fn unassigned(cx: &mut Cx<'_>) {
    for (at, variable) in (0u16..).zip(&cx.model.variables) {
        let assigned = cx.assigned.contains(&weir_expr::Slot(at));
        if matches!(variable.definition, Definition::Assigned) && !assigned {
            let title = format!("nothing gives `{}` a value; it is always empty", variable.name);
            cx.at(variable.origin, |cx| cx.report(Diagnostic::warning("variable::never-assigned", title)));
        }
    }
}

/// Rewrites that lead a path back to the rule that made it: after ten rounds such a request is answered 500.
fn loops(cx: &mut Cx<'_>) {
    let model = cx.model;
    let mut found = Vec::new();
    for (site, planned) in model.sites.iter().zip(&cx.plan.sites) {
        descend(model, &site.routes, &mut |route| {
            if let Some(path) = looping_path(model, &cx.plan, route, planned) {
                found.push((route, path));
            }
        });
    }
    found.sort();
    found.dedup();
    for (route, path) in found {
        let route = &model.routes[route.at()];
        let title = format!("`{path}` is rewritten to itself by route `{}`, over and over", route.name);
        let finding = Diagnostic::warning("route::rewrite-loop", title);
        let finding =
            finding.help("such requests are answered 500; end the rule with `break`, or exclude the path");
        cx.at(route.origin, |cx| cx.report(finding));
    }
}

/// The literal path that the first rewrite of a route makes, if that path comes back to the same rewrite for sure.
fn looping_path(model: &Model, plan: &Plan, route: RouteIx, site: &weir_plan::Site) -> Option<String> {
    // Only instructions that change nothing about the path may stand before.
    let mut ops =
        model.routes.get(route.at())?.program.iter().zip(plan.route(route).program.as_deref()?.iter());
    let changes_path = |op: &Op| {
        let harmless = matches!(op, Op::Set { .. } | Op::SetFound { .. } | Op::Unset(_));
        !harmless && !matches!(op, Op::EditRequest(_) | Op::AfterResponse(_))
    };
    let (op, planned) = ops.find(|(op, _)| changes_path(op))?;
    let (Op::Rewrite { replacement, flag: RewriteFlag::Last, .. }, weir_plan::Op::Rewrite { pattern, .. }) =
        (op, planned)
    else {
        return None;
    };
    let path = replacement.as_literal()?.split('?').next()?;
    let back = path.starts_with('/')
        && pattern.is_match(path.as_bytes()) == Ok(true)
        && plan.find(site, path.as_bytes()).is_ok_and(|found| found.route == route);
    back.then(|| path.to_owned())
}
