//! Where routes are referred to.
//!
//! Owns: the walk over every [`RouteId`] of a model.
//! Driven by: whoever numbers routes anew.

use std::sync::Arc;

use crate::{ErrorTarget, Model, Op, Route, RouteId, Site, TcpAction, TryLast};

/// Calls for each reference of a site: its program's, its routes, its fallback.
pub fn route_ids_of_site(site: &mut Site, f: &mut dyn FnMut(&mut RouteId)) {
    in_program(&mut site.program, f);
    site.routes.iter_mut().for_each(&mut *f);
    f(&mut site.fallback);
}

/// Calls for each reference of a route: its program's, its children, its `try_files`, its error pages.
pub fn route_ids_of_route(route: &mut Route, f: &mut dyn FnMut(&mut RouteId)) {
    in_program(&mut route.program, f);
    in_program(&mut route.response_program, f);
    route.children.iter_mut().for_each(&mut *f);
    if let Some(TryLast::Named(id)) = route.try_files.as_mut().map(|tried| &mut tried.last) {
        f(id);
    }
    if route.error_pages.iter().any(|page| matches!(page.target, ErrorTarget::Named(_))) {
        for page in Arc::make_mut(&mut route.error_pages) {
            if let ErrorTarget::Named(id) = &mut page.target {
                f(id);
            }
        }
    }
}

/// Calls for each reference in a program.
pub fn route_ids_of_program(program: &mut [Op], f: &mut dyn FnMut(&mut RouteId)) {
    in_program(program, f);
}

fn in_program(program: &mut [Op], f: &mut dyn FnMut(&mut RouteId)) {
    for op in program {
        match op {
            Op::Adopt(id) | Op::Enter(id) => f(id),
            Op::When { then, otherwise, .. } => {
                in_program(then, f);
                in_program(otherwise, f);
            }
            Op::AfterResponse(ops) => in_program(ops, f),
            _ => {}
        }
    }
}

fn in_tcp(action: &mut TcpAction, f: &mut dyn FnMut(&mut RouteId)) {
    if let TcpAction::Choose(cases) = action {
        for case in cases {
            in_program(&mut case.program, f);
            in_tcp(&mut case.action, f);
        }
    }
}

impl Model {
    /// Calls for every reference to a route.
    pub fn route_ids(&mut self, f: &mut dyn FnMut(&mut RouteId)) {
        self.listeners.iter_mut().for_each(|listener| in_program(&mut listener.gate, f));
        self.sites.iter_mut().for_each(|site| route_ids_of_site(site, f));
        self.routes.iter_mut().for_each(|route| route_ids_of_route(route, f));
        for service in &mut self.tcp {
            in_program(&mut service.program, f);
            in_tcp(&mut service.action, f);
        }
    }
}
