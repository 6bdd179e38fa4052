//! `try_files`: the first of several names that exists.
//!
//! Owns: names of candidates, with roots and aliases.
//! Driven by: the walk, before the action.

use weir_http::uri::is_unsafe;
use weir_plan::TryFiles;

use crate::eval::render;
use crate::exchange::Exchange;
use crate::files::open;

/// The path to go on with: that of the first candidate that exists and is of the kind it says. `None`: there is none.
pub(crate) fn first_candidate(exchange: &mut Exchange, tries: &TryFiles) -> Option<Vec<u8>> {
    let mut name = exchange.worker.files.take_name();
    exchange.append_root(&mut name);
    if !exchange.route().files.alias && name.ends_with(b"/") {
        name.pop();
    }
    let root = name.len();
    let mut candidate = Vec::with_capacity(exchange.request.path.len() + 16);
    let mut found = None;
    for (template, is_folder) in &tries.candidates {
        candidate.clear();
        render(exchange, template, &mut candidate);
        // A folder is looked for, and gone on with, without its slash: the static action then redirects to it.
        if *is_folder && candidate.last() == Some(&b'/') {
            candidate.pop();
        }
        if is_unsafe(&candidate) {
            continue;
        }
        let cut = cut_by_alias(exchange, &candidate);
        name.truncate(root);
        if !exchange.route().files.alias && !candidate.is_empty() && !candidate.starts_with(b"/") {
            name.push(b'/');
        }
        name.extend_from_slice(&candidate[cut..]);
        if is_unsafe(&candidate[cut..]) || !is_there(exchange, &name, *is_folder) {
            continue;
        }
        found = Some(path_of(exchange, &candidate, cut, *is_folder));
        break;
    }
    exchange.worker.files.give_name(name);
    found
}

/// Bytes of the candidate that the alias stands for.
fn cut_by_alias(exchange: &Exchange, candidate: &[u8]) -> usize {
    let matched = exchange.matched;
    let is_prefix = exchange.route().files.alias && !is_pattern(exchange);
    let same = || candidate.get(..matched).is_some_and(|start| exchange.request.path.starts_with(start));
    if is_prefix && same() { matched } else { 0 }
}

/// The alias stands for the whole path, because the route is a pattern.
fn is_pattern(exchange: &Exchange) -> bool {
    exchange.matched != exchange.route().prefix.len()
}

fn is_there(exchange: &Exchange, name: &[u8], is_folder: bool) -> bool {
    let rule = exchange.route().files.symlinks;
    if !is_folder
        && rule == weir_plan::Symlinks::Follow
        && exchange.worker.files.peek(name, exchange.worker.now()).is_some()
    {
        return true;
    }
    open::stat(name, rule).is_ok_and(|stat| open::is_folder(&stat) == is_folder)
}

/// The path that the candidate is served under.
fn path_of(exchange: &mut Exchange, candidate: &[u8], cut: usize, is_folder: bool) -> Vec<u8> {
    let mut path = Vec::with_capacity(candidate.len() + exchange.matched + 1);
    if exchange.route().files.alias {
        if is_pattern(exchange) {
            if is_folder {
                return exchange.request.path.clone();
            }
            // From here on the path is what follows the alias.
            exchange.matched = 0;
        } else {
            path.extend_from_slice(exchange.request.path.get(..exchange.matched).unwrap_or_default());
        }
    }
    path.extend_from_slice(&candidate[cut..]);
    if !path.starts_with(b"/") {
        path.insert(0, b'/');
    }
    path
}
