//! Files served from folders.
//!
//! Owns: the way from a path to a file, folder or refusal; which statuses the system's errors become (nginx's).
//! Never: frames or sends by itself; `respond` does.
//! Driven by: the walk, for routes whose action is static; variables and `try_files` ask for names only.
//! Why: the usual case (a small file that was asked for a moment ago) is decided by one look at the worker's cache;
//! everything else is kept out of its way in modules of its own.
//!
//! ```text
//!   path/ → index file there? → internal redirect (in place where that leads back here)
//!             └ no → listing, or 403
//!   path  → [path.gz] → file → conditions → whole | range | ranges
//!                       └ folder → 301 with slash
//! ```

mod cache;
mod candidates;
mod index;
mod listing;
mod open;
mod ranges;
mod send;
mod usual;

pub(crate) use cache::FileCache;
pub(crate) use candidates::first_candidate;
pub(crate) use send::Rest;

use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use rustix::io::Errno;
use weir_http::uri::{Escape, escape};
use weir_http::{HeaderId, Method, Version};

use crate::answer::filter;
use crate::answer::log;
use crate::exchange::{Downstream, Exchange};
use crate::walk::Next;
use crate::worker::Installed;
use cache::Found;
use index::Index;

/// Answers with what the path maps to.
pub(crate) async fn serve<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
) -> Next {
    if !matches!(exchange.request.method, Method::Get | Method::Head | Method::Post) {
        return wrong_method(exchange);
    }
    if !exchange.request.path.starts_with(b"/") {
        return Next::Status(400);
    }
    if exchange.request.path.ends_with(b"/") {
        match index::find(exchange, installed) {
            Index::Here => {}
            Index::Next(next) => return next,
            Index::None => return Box::pin(listing::serve(exchange, down)).await,
        }
    }
    let mut name = exchange.worker.files.take_name();
    exchange.append_filename(&mut name);
    let chosen = if leaves_root(exchange, &name) { Err(Errno::NOENT) } else { choose(exchange, &mut name) };
    let next = match chosen {
        Ok(Chosen { found: Found::File(file), coded, varies }) if exchange.request.method != Method::Post => {
            send::file(exchange, down, &file, coded, varies).await
        }
        Ok(Chosen { found: Found::File(_), .. }) => wrong_method(exchange),
        Ok(Chosen { found: Found::Folder, .. }) => with_slash(exchange),
        Ok(Chosen { found: Found::Other, .. }) => {
            log::error(exchange, &format!("\"{}\" is not a regular file", text(&name)));
            Next::Status(404)
        }
        Err(error) => refused(exchange, "open()", &name, error),
    };
    exchange.worker.files.give_name(name);
    next
}

/// The path of a folder or file without links, dots and doubled slashes; `None` if there is none.
pub(crate) fn real_path(path: &[u8]) -> Option<Vec<u8>> {
    let path = std::fs::canonicalize(std::ffi::OsStr::from_bytes(path)).ok()?;
    Some(path.into_os_string().into_vec())
}

/// What is sent for a path.
struct Chosen {
    found: Found,
    /// It is compressed already.
    coded: bool,
    /// Another client would get another variant.
    varies: bool,
}

/// The file itself, or its compressed variant where that is wanted. `name` is the file's afterwards.
fn choose(exchange: &Exchange, name: &mut Vec<u8>) -> Result<Chosen, Errno> {
    let (cache, files) = (&exchange.worker.files, &exchange.route().files);
    let mut varies = false;
    if let Some(always) = files.precompressed {
        let plain = name.len();
        name.extend_from_slice(b".gz");
        let found = cache.look_up(&exchange.worker, name, files.symlinks);
        name.truncate(plain);
        if let Ok(Found::File(file)) = found {
            varies = !always;
            if always || wants_gzip(exchange) {
                return Ok(Chosen { found: Found::File(file), coded: true, varies });
            }
        }
    }
    let found = cache.look_up(&exchange.worker, name, files.symlinks)?;
    Ok(Chosen { found, coded: false, varies })
}

fn wants_gzip(exchange: &Exchange) -> bool {
    match &exchange.route().settings.gzip {
        Some(gzip) => filter::wanted(exchange, gzip),
        None => {
            exchange.request.version >= Version::Http11
                && filter::takes_gzip(exchange)
                && !exchange.request.fields.has(HeaderId::Via)
        }
    }
}

/// True if the name climbs out of the folder that the route serves. A path as received cannot; what an alias cuts
/// from it (`/img../x` of `/img`), a variable or an internal redirect brings in can.
fn leaves_root(exchange: &Exchange, name: &[u8]) -> bool {
    let files = &exchange.route().files;
    if files.alias {
        return climbs(&exchange.request.path)
            || exchange.request.path.get(exchange.matched..).is_some_and(climbs)
            || (files.root.as_literal().is_none() && climbs(name));
    }
    (!exchange.request.path_is_raw && climbs(&exchange.request.path))
        || (files.root.as_literal().is_none() && climbs(name))
}

/// True if a segment is `..`.
fn climbs(path: &[u8]) -> bool {
    path.split(|&b| b == b'/').any(|segment| segment == b"..")
}

/// 405 with what is allowed.
fn wrong_method(exchange: &mut Exchange) -> Next {
    exchange.response.fields.remove(HeaderId::Allow);
    exchange.response.fields.push_id(HeaderId::Allow, b"GET, HEAD");
    Next::Status(405)
}

/// 301 to the path with a slash.
fn with_slash(exchange: &Exchange) -> Next {
    let request = &exchange.request;
    let mut location = Vec::with_capacity(request.path.len() + request.query.len() + 2);
    escape(Escape::Uri, &request.path, &mut location);
    location.push(b'/');
    if !request.query.is_empty() {
        location.push(b'?');
        location.extend_from_slice(&request.query);
    }
    Next::Redirect { status: 301, location }
}

/// What an error of the system comes to, with a line in the log.
fn refused(exchange: &Exchange, call: &str, name: &[u8], error: Errno) -> Next {
    let status = match error {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL => 404,
        Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::MLINK => 403,
        _ => 500,
    };
    let reason = log::system(&std::io::Error::from(error));
    let line = format!("{call} \"{}\" failed ({reason})", text(name));
    match status {
        500 => log::server_error(exchange, &line),
        404 if !exchange.route().settings.log_not_found => {}
        _ => log::error(exchange, &line),
    }
    Next::Status(status)
}

fn text(name: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_that_climb() {
        for (path, expected) in [
            ("/a/../b", true),
            ("..", true),
            ("/a/..", true),
            ("../x", true),
            ("/a..b/...", false),
            ("/", false),
        ] {
            assert_eq!(climbs(path.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn real_paths() {
        assert_eq!(real_path(b"/usr/../usr/./").as_deref(), Some(&b"/usr"[..]));
        assert_eq!(real_path(b"/no/such"), None);
    }
}
