//! The compiler from configuration as meant to configuration as run.
//!
//! Owns: the passes below, and the diagnostics of what only the whole configuration can tell.
//! Never: reads a file or looks up a name by itself ([`Resources`] does), knows a configuration language, opens a port.
//! Driven by: `weir check`, `run`, `explain --plan`, and every reload.
//! Why: everything that can be decided before traffic is decided here, and every mistake is shown at once.
//!
//! | pass | what it does |
//! |---|---|
//! | resolve | tables from names to indices; names given twice or to nothing |
//! | default | what the model leaves open is made explicit |
//! | check | findings that need no compiled form: conflicts, unreachable limits, odd sizes, empty pools |
//! | index | patterns, templates, programs, look-up tables, pools, certificates: the plan |
//! | survey | findings that need the plan: redirect loops, variables that nothing assigns |

#![forbid(unsafe_code)]

mod access;
mod acme;
mod action;
mod check;
mod context;
mod default;
mod explain;
mod facts;
mod files;
mod filters;
mod index;
mod listed;
mod listener;
mod log;
mod names;
mod pattern;
mod pool;
mod process;
mod program;
mod resolve;
mod resources;
mod retry;
mod route;
mod share;
mod survey;
mod tcp;
mod tls;
mod variable;

pub use explain::{explain, explain_plan};
pub use resources::{LocalResources, Options, Resources, host_names};

use weir_diag::{Diagnostic, has_errors};
use weir_model::Model;
use weir_plan::Plan;

/// Compiles a model. The plan is there unless a finding is an error. Findings are in the order of the text.
pub fn lower(model: &Model, resources: &dyn Resources, options: &Options) -> (Option<Plan>, Vec<Diagnostic>) {
    let mut cx = context::Cx::new(model, resources, *options);
    resolve::references(&mut cx);
    check::all(&mut cx);
    index::all(&mut cx);
    // The survey follows indices, which hold good only in a plan without errors.
    if !has_errors(&cx.findings) {
        survey::all(&mut cx);
    }
    let (plan, mut findings) = cx.finish();
    findings
        .sort_by_key(|finding| finding.primary.as_ref().map(|label| (label.span.source, label.span.start)));
    let plan = (!has_errors(&findings)).then_some(plan);
    (plan, findings)
}

// The models of the tests serve an integration test, too, and name this crate as it does.
#[cfg(test)]
extern crate self as weir_lower;
#[cfg(test)]
mod tests;
