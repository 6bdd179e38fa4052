//! What building proxies shares.
//!
//! Owns: the model in the making, backends by their names.
//! Driven by: `proxies`, which makes one for all.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use weir_diag::Diagnostic;
use weir_model::Model;

use super::map::Maps;
use super::scope::Scope;
use crate::Files;
use crate::draft::{Draft, Mode, Proxy};
use crate::findings::Findings;
use crate::read::Word;
use crate::read::env::Env;

/// What all proxies stand in.
#[derive(Clone)]
pub(crate) struct Surroundings<'a> {
    pub(crate) env: &'a Env,
    pub(crate) files: &'a dyn Files,
    pub(crate) maps: &'a Maps,
    /// Relative paths start here.
    pub(crate) base: Option<PathBuf>,
}

/// What building proxies shares.
pub(crate) struct Context<'a> {
    pub(crate) draft: &'a Draft,
    pub(crate) around: Surroundings<'a>,
    /// Backends and listens by name, the first of each.
    pub(super) by_name: BTreeMap<&'a str, usize>,
    pub(crate) model: &'a mut Model,
    pub(crate) findings: &'a mut Findings,
    /// Backends that have a pool.
    pub(crate) pools: BTreeSet<String>,
}

impl<'a> Context<'a> {
    /// The surroundings of a proxy's expressions.
    pub(crate) fn scope(&self, proxy: &'a Proxy) -> Scope<'a> {
        let Surroundings { env, files, maps, .. } = self.around;
        Scope { draft: self.draft, proxy, env, files, maps, response: false, depth: 0 }
    }

    /// The backend or listen of a name; an unknown one is reported.
    pub(crate) fn backend(&mut self, word: &Word) -> Option<&'a Proxy> {
        let found = self.by_name.get(word.as_str()).and_then(|index| self.draft.proxies.get(*index));
        if found.is_none() {
            let title = format!("no backend is named `{}`", word.text);
            let found = Diagnostic::error("haproxy::unknown-name", title).at(word.span);
            self.findings.push(found.suggest(&word.text, word.span, self.by_name.keys().copied()));
        }
        found
    }
}

/// The mode of a proxy.
pub(crate) fn mode(proxy: &Proxy) -> Mode {
    proxy.settings.mode.as_ref().map_or(Mode::Tcp, |mode| mode.value)
}
