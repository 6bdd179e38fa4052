//! Folders for bodies that are too large for memory, for objects of the cache, for issued certificates.
//!
//! Owns: making them, and giving them to the user that will write there.
//! Never: touches a folder that exists; makes more than the last part of a path.
//! Driven by: `life::start` and `life::reload`.
//! Why: nginx makes its temporary folders as root before it becomes another user, so nobody's installation has them.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use weir_diag::Diagnostic;
use weir_model::{Action, Model};

use super::places;
use super::privileges::Identity;
use crate::launch::Manner;

/// Makes what is missing. A folder that cannot be made is a warning in nginx's manner, where it is expected; elsewhere
/// most configurations never meant it.
pub(crate) fn make(model: &Model, manner: Manner, identity: Option<&Identity>) -> Vec<Diagnostic> {
    let kept = model.acme.iter().filter_map(|issuer| issuer.state.as_deref());
    let missing = kept.filter(|path| !path.exists());
    let lost = missing.filter_map(|path| make_one(path, identity).err().map(|error| nowhere(path, &error)));
    let lost: Vec<_> = lost.collect();
    let missing = paths_of(model).into_iter().filter(|path| !path.exists());
    let failures =
        missing.filter_map(|path| make_one(&path, identity).err().map(|error| warning(&path, &error)));
    let failures: Vec<_> = failures.collect();
    let failures = if manner == Manner::Nginx { failures } else { Vec::new() };
    lost.into_iter().chain(failures).collect()
}

fn make_one(path: &Path, identity: Option<&Identity>) -> io::Result<()> {
    places::make_folder(path, identity.map_or((None, None), |one| (Some(one.uid), Some(one.gid))))
}

fn warning(path: &Path, error: &io::Error) -> Diagnostic {
    let title =
        format!("the folder {} for large bodies or cached objects cannot be made: {error}", path.display());
    Diagnostic::warning("process::temp-folder", title)
        .help("make it, or name another (`client_body_temp_path`, `proxy_cache_path`); until then bodies have to fit into memory, and nothing is cached")
}

fn nowhere(path: &Path, error: &io::Error) -> Diagnostic {
    let title = format!("the folder {} for issued certificates cannot be made: {error}", path.display());
    Diagnostic::warning("process::acme-folder", title).help(
        "make it for the user of the process, or name another: nothing is ordered that could not be kept",
    )
}

fn paths_of(model: &Model) -> BTreeSet<PathBuf> {
    let bodies = model.routes.iter().map(|route| route.body.temp_path.clone());
    let spools = model.routes.iter().filter_map(|route| match &route.action {
        Action::Proxy(proxy) if proxy.settings.max_temp_file > 0 => Some(proxy.settings.temp_path.clone()),
        _ => None,
    });
    let objects = model.cache_zones.iter().map(|zone| zone.path.clone());
    bodies.chain(spools).chain(objects).collect()
}
