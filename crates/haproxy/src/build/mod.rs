//! A draft into a model.
//!
//! Owns: the order in which its parts are made, and names shared by them.
//! Never: reads a line of text.
//! Driven by: `load`.

mod answer;
mod application;
mod bandwidth;
pub(crate) mod bind;
pub(crate) mod check;
pub(crate) mod condition;
mod context;
mod control;
mod convert;
mod course;
mod expression;
pub(crate) mod figure;
pub(crate) mod format;
mod health;
mod identifier;
mod kept;
pub(crate) mod lists;
pub(crate) mod logs;
pub(crate) mod map;
pub(crate) mod parameters;
mod payload;
mod peers;
pub(crate) mod pool;
mod problem;
mod process;
mod proxies;
mod roster;
mod route;
mod routine;
pub(crate) mod rules;
pub(crate) mod sample;
pub(crate) mod scope;
pub(crate) mod server;
mod server_rules;
mod set_var;
mod settings;
mod states;
mod stick_rules;
mod stickiness;
mod sticks;
mod stored;
mod tcp;
pub(crate) mod tls;
mod variables;

use std::path::PathBuf;

use weir_diag::Sources;
use weir_model::Model;

use crate::Files;
use crate::draft::Draft;
use crate::findings::Findings;
use crate::read::env::Env;

/// Makes the model.
pub(crate) fn build(
    draft: &Draft,
    env: &Env,
    files: &dyn Files,
    sources: &Sources,
    findings: &mut Findings,
) -> Model {
    let base = draft.global.base.clone().or_else(|| {
        let span = draft.global.base_is_config?;
        sources.name(span.source).parent().map(PathBuf::from)
    });
    let mut model = Model { process: process::process(draft, findings), ..Model::default() };
    let global = &draft.global;
    model.process.control =
        bind::Binder { draft, proxy: None, files, base: base.clone(), findings }.control();
    let sockets = peers::groups(draft, env, files, base.as_ref(), &mut model.process, findings);
    model.process.control.extend(sockets);
    model.process.log_rings.clone_from(&draft.log_rings);
    model.process.log_pools.clone_from(&draft.log_pools);
    model.process.kept = kept::values(global, env, findings);
    model.process.control_timeout = global.stats_timeout;
    model.process.control_connections = global.stats_maxconn.and_then(|most| u32::try_from(most).ok());
    let issuers_base = base.clone();
    let maps = map::Maps::default();
    proxies::proxies(draft, context::Surroundings { env, files, maps: &maps, base }, &mut model, findings);
    model.acme = stored::issuers(draft, files, issuers_base.as_ref());
    variables::define_all(&mut model, &maps);
    model.key_lists = maps.lists();
    model
}
