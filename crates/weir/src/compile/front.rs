//! Front ends and the compiler, joined to the store.
//!
//! Owns: telling languages apart by content, and adapting [`Store`] to what each crate asks through.
//! Never: looks inside a language.
//! Driven by: `compile`.

use std::path::Path;

use weir_diag::{Diagnostic, Sources};
use weir_model::Model;

use super::Compiled;
use super::store::Store;
use crate::launch::{Dialect, Sourcing};

/// The language of a file, by content. A folder is HAProxy's; what cannot be read is left to its front end to complain
/// about, nginx's being the more common.
pub(crate) fn tell_apart(path: &Path, store: &Store) -> Dialect {
    if store.is_folder(path) {
        return Dialect::Haproxy;
    }
    let text = Store::read(store, path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    match text.contains("frontend") {
        true => Dialect::Haproxy,
        false => Dialect::Nginx,
    }
}

/// Reads a configuration.
pub(crate) fn load(sourcing: &Sourcing, dialect: Dialect, _store: &Store) -> Compiled {
    let title = format!("{:?} files cannot be read by this build ({} of them)", dialect, sourcing.paths.len());
    let diagnostics = vec![Diagnostic::error("process::no-front-end", title)];
    Compiled { model: Model::default(), plan: None, diagnostics, sources: Sources::default() }
}

/// Lowers a model without errors.
pub(crate) fn lower(compiled: &mut Compiled, _store: &Store) {
    compiled.plan = None;
}
