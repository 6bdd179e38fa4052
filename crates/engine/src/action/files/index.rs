//! Index files: what stands for a folder.
//!
//! Owns: trying their names in order.
//! Driven by: `files::serve`, for paths that end with a slash.
//! Why: nginx redirects internally to the file found, so that another route may take it (`\.php$`). The search for that
//! route is made here; where it leads back to the same route, nothing else is repeated.

use std::rc::Rc;

use rustix::io::Errno;
use weir_plan::{RouteFeatures, Symlinks};

use super::listing;
use super::names::{leaves_root, refused, text};
use super::send::FileRest;
use crate::eval::render;
use crate::exchange::{Exchange, Next, errors};
use crate::files::open;
use crate::worker::{Installed, Worker};

/// Internal redirects that are done in place; the rest is left to the walk, which counts.
const IN_PLACE: u8 = 5;

/// What a search for an index file came to.
pub(super) enum Index {
    /// The path is that of a file now, of this route.
    Here,
    /// Something else is to be done.
    Next(Next<Box<FileRest>>),
    /// There is none.
    None,
}

/// Searches the index file of the folder that the path names.
pub(super) fn find(exchange: &mut Exchange, installed: &Installed) -> Index {
    let files = installed.plan.route(exchange.route).files.clone();
    if files.random_index
        && let Some(path) = random(exchange, files.symlinks)
    {
        return Index::Next(Next::InternalPath(path));
    }
    let mut name = exchange.worker.files.take_name();
    exchange.append_filename(&mut name);
    let folder = name.len();
    let mut missing = leaves_root(exchange, &name).then_some(Errno::NOENT);
    let mut known = false;
    let mut index = Vec::new();
    for template in &files.index {
        if missing.is_some() {
            break;
        }
        index.clear();
        render(exchange, template, &mut index);
        if index.starts_with(b"/") {
            exchange.worker.files.give_name(name);
            return Index::Next(Next::InternalPath(index));
        }
        name.truncate(folder);
        name.extend_from_slice(&index);
        match exists(&exchange.worker, &name, files.symlinks) {
            Ok(()) => {
                exchange.worker.files.give_name(name);
                return enter(exchange, installed, &index);
            }
            // Without a folder there is nothing more to try; asked once.
            Err(Errno::NOENT) if !known => {
                known = true;
                missing = open::stat(&name[..folder], files.symlinks).err();
            }
            Err(Errno::NOENT) => {}
            Err(error) => missing = Some(error),
        }
    }
    name.truncate(folder);
    let found = match missing {
        Some(error) => Index::Next(refused(exchange, "open()", &name, error)),
        None if files.listing.is_some() => Index::None,
        None => {
            errors::error(exchange, &format!("directory index of \"{}\" is forbidden", text(&name)));
            Index::Next(Next::Status(403))
        }
    };
    exchange.worker.files.give_name(name);
    found
}

/// The path of one of the folder's files, whichever. `None`: it has none, or cannot be read.
#[cold]
fn random(exchange: &Exchange, rule: Symlinks) -> Option<Vec<u8>> {
    let mut folder = Vec::new();
    exchange.append_filename(&mut folder);
    if leaves_root(exchange, &folder) {
        return None;
    }
    let names = listing::file_names(&folder, rule).ok().filter(|names| !names.is_empty())?;
    let at = exchange.worker.random() % names.len() as u64;
    Some([&exchange.request.path[..], &names[at as usize]].concat())
}

/// Whether something is there.
fn exists(worker: &Rc<Worker>, name: &[u8], rule: Symlinks) -> Result<(), Errno> {
    if rule == Symlinks::Follow && worker.files.peek(name, worker.now()).is_some() {
        return Ok(());
    }
    open::stat(name, rule).map(drop)
}

/// Goes on with the index file: here, if its path leads to this route again and nothing is done before the action.
fn enter(exchange: &mut Exchange, installed: &Installed, index: &[u8]) -> Index {
    let mut path = std::mem::take(&mut exchange.request.path);
    path.extend_from_slice(index);
    let route = installed.plan.route(exchange.route);
    if exchange.redirects < IN_PLACE && !route.features.intersects(RouteFeatures::BEFORE_ACTION) {
        // Where a pattern gives up, the search that follows meets the same.
        let found = installed.plan.find(installed.plan.site(exchange.site), &path);
        if let Ok(found) = found
            && found.route == exchange.route
            && found.matches.is_empty()
            && !found.redirect_slash
        {
            exchange.redirects += 1;
            exchange.matched = found.matched_len;
            exchange.request.path = path;
            exchange.request.path_is_raw = false;
            exchange.internal = true;
            return Index::Here;
        }
    }
    Index::Next(Next::InternalPath(path))
}
