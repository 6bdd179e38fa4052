//! Names of files: which climb out of their folder, and what it means that one cannot be had.
//!
//! Owns: the statuses that the system's errors become (nginx's).
//! Driven by: the file action and its parts.

use rustix::io::Errno;
use weir_http::uri::is_unsafe;

use crate::exchange::{Exchange, Next, errors};

/// True if the name climbs out of the folder that the route serves. A path as received cannot; what an alias cuts
/// from it (`/img../x` of `/img`), a variable or an internal redirect brings in can.
pub(super) fn leaves_root(exchange: &Exchange, name: &[u8]) -> bool {
    let files = &exchange.route().files;
    if files.alias {
        return is_unsafe(&exchange.request.path)
            || exchange.request.path.get(exchange.matched..).is_some_and(is_unsafe)
            || (files.root.as_literal().is_none() && is_unsafe(name));
    }
    (!exchange.request.path_is_raw && is_unsafe(&exchange.request.path))
        || (files.root.as_literal().is_none() && is_unsafe(name))
}

/// What an error of the system comes to, with a line in the log.
pub(super) fn refused<L>(exchange: &Exchange, call: &str, name: &[u8], error: Errno) -> Next<L> {
    let status = match error {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL => 404,
        Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::MLINK => 403,
        _ => 500,
    };
    let reason = errors::system(&std::io::Error::from(error));
    let line = format!("{call} \"{}\" failed ({reason})", text(name));
    match status {
        500 => errors::server_error(exchange, &line),
        404 if !exchange.route().settings.log_not_found => {}
        _ => errors::error(exchange, &line),
    }
    Next::Status(status)
}

/// A name as the log shows it.
pub(super) fn text(name: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(name)
}
