//! Requests that change files: nginx's DAV module.
//!
//! Owns: what PUT, DELETE, MKCOL, COPY and MOVE ask for, what is wrong with that, the answer.
//! Never: touches a file in the worker's thread; `work` does, on threads that may wait for the disk.
//! Driven by: the file action, for methods that it does not serve itself.
//! Why: bodies are written beside the files that they become, and take their name once they are whole: nobody sees half a
//! file.

mod tree;
mod work;

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use weir_expr::Dav;
use weir_http::uri::{Escape, escape, internal_target};
use weir_http::{HeaderId, HttpDate, Method};

use super::names::{leaves_root, text};
use super::send::FileRest;
use crate::answer::respond;
use crate::exchange::fields::FieldName;
use crate::exchange::{BodyPiece, Downstream, Exchange, Next, create_named_file, errors, intake};
pub(in crate::action) use tree::rename_file;
pub(in crate::action) use work::dress;

use work::{Depth, Errand, Refused};

/// A method that the route serves.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    method: Method,
    dav: Dav,
}

/// Whether the request is one to change files, and may be.
#[cold]
pub(super) fn asked(exchange: &Exchange) -> Option<Asked> {
    let dav = **exchange.route().files.dav.as_ref()?;
    let method = exchange.request.method;
    let served = match method {
        Method::Put => dav.methods.put,
        Method::Delete => dav.methods.delete,
        Method::Mkcol => dav.methods.mkcol,
        Method::Copy => dav.methods.copy,
        Method::Move => dav.methods.moves,
        _ => false,
    };
    served.then_some(Asked { method, dav })
}

/// Changes files as the request asks.
pub(super) async fn serve<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    asked: Asked,
) -> Next<Box<FileRest>> {
    let errand = match errand(exchange, down, asked).await {
        Ok(errand) => errand,
        Err(refused) => return refuse(exchange, refused),
    };
    let (of_one, located) = (matches!(errand, Errand::Put { .. }), errand.is_located());
    let shared = exchange.worker.shared.clone();
    let done = shared.errands.run(move || errand.run()).await;
    let files = &exchange.worker.files;
    if of_one {
        let mut name = Vec::new();
        exchange.append_filename(&mut name);
        files.forget(&name);
    } else {
        files.clear();
    }
    match done {
        None => refuse(exchange, Refused::new(503, "too many changes of files are waiting for the disk")),
        Some(Err(refused)) => refuse(exchange, refused),
        Some(Ok(status)) => {
            exchange.response.status = status;
            exchange.response.fields.clear();
            if status == 201 && located {
                let mut location = Vec::new();
                escape(Escape::Uri, &exchange.request.path, &mut location);
                let location = respond::absolute(exchange, &location).into_owned();
                exchange.response.fields.push_id(HeaderId::Location, &location);
            }
            respond::whole(exchange, down, b"").await;
            Next::Done
        }
    }
}

fn refuse(exchange: &Exchange, Refused { status, line }: Refused) -> Next<Box<FileRest>> {
    match status {
        _ if line.is_empty() => {}
        500.. => errors::server_error(exchange, &line),
        _ => errors::error(exchange, &line),
    }
    Next::Status(status)
}

/// What is to be done.
async fn errand<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    Asked { method, dav }: Asked,
) -> Result<Errand, Refused> {
    let is_folder = exchange.request.path.ends_with(b"/");
    if method == Method::Put {
        if is_folder {
            return Err(Refused::new(409, "cannot PUT to a collection"));
        }
        if exchange.request.fields.has(HeaderId::ContentRange) {
            return Err(Refused::new(501, "PUT with range is unsupported"));
        }
        return put(exchange, down, dav).await;
    }
    if exchange.request.has_body() {
        let name = String::from_utf8_lossy(&exchange.request.method_text);
        return Err(Refused::new(415, &format!("{name} with body is unsupported")));
    }
    match method {
        Method::Delete => {
            if !is_deep(&exchange.request.path, dav.min_delete_depth) {
                let depth = dav.min_delete_depth;
                return Err(Refused::new(409, &format!("insufficient URI depth:{depth} to DELETE")));
            }
            let depth = depth(exchange);
            Ok(Errand::Delete {
                path: path(exchange)?,
                is_folder,
                depth: depth.unwrap_or(if is_folder { Depth::Infinity } else { Depth::Zero }),
            })
        }
        Method::Mkcol if !is_folder => Err(Refused::new(409, "MKCOL can create a collection only")),
        Method::Mkcol => Ok(Errand::MakeFolder { path: path(exchange)?, access: dav.access }),
        _ => transfer(exchange, method == Method::Move, dav),
    }
}

/// Takes the body in, into a file beside the others.
async fn put<D: Downstream>(exchange: &mut Exchange, down: &mut D, dav: Dav) -> Result<Errand, Refused> {
    let to = path(exchange)?;
    let settings = exchange.route().settings.body.clone();
    let failed = |error: std::io::Error| Refused::new(500, &format!("cannot keep a request body: {error}"));
    let mut file = create_named_file(&settings.temp_path).map_err(failed)?;
    if exchange.body.complete {
        let mut at = 0;
        while let BodyPiece::Data(piece) = exchange.body.piece(at).map_err(failed)? {
            file.write_all(&piece).map_err(failed)?;
            at += piece.len() as u64;
        }
    } else {
        let took = intake::each_piece(exchange, down, settings.max_size, |piece| file.write_all(piece)).await;
        took.map_err(|status| Refused::new(status, ""))?;
    }
    let now = HttpDate::from_unix(weir_rt::unix_now().as_secs());
    let date = exchange.request.fields.first(HeaderId::Date);
    let modified = date.and_then(|date| HttpDate::parse(date, now)).map(HttpDate::unix);
    Ok(Errand::Put { file, to, access: dav.access, create_path: dav.create_full_path, modified })
}

/// COPY or MOVE.
fn transfer(exchange: &mut Exchange, moves: bool, dav: Dav) -> Result<Errand, Refused> {
    let target = destination(exchange)?;
    let invalid = || {
        let shown = target.escape_ascii();
        Refused::new(400, &format!("client sent invalid \"Destination\" header: \"{shown}\""))
    };
    let (target_path, _) = internal_target(&target).ok_or_else(invalid)?;
    let is_folder = exchange.request.path.ends_with(b"/");
    if is_folder != target_path.ends_with(b"/") {
        let (from, to) = (text(&exchange.request.path), text(&target_path));
        let both = format!("both URI \"{from}\" and \"Destination\" URI \"{to}\"");
        return Err(Refused::new(409, &format!("{both} should be either collections or non-collections")));
    }
    match depth(exchange).unwrap_or(Depth::Infinity) {
        Depth::Infinity => {}
        Depth::Zero if !moves => {}
        _ if moves => return Err(Refused::new(400, "\"Depth\" header must be infinity")),
        _ => return Err(Refused::new(400, "\"Depth\" header must be 0 or infinity")),
    }
    let overwrite = match exchange.request.fields.first(FieldName::new(b"overwrite")) {
        None | Some(b"T" | b"t") => true,
        Some(b"F" | b"f") => false,
        Some(other) => {
            let other = other.escape_ascii();
            return Err(Refused::new(400, &format!("client sent invalid \"Overwrite\" header: \"{other}\"")));
        }
    };
    let from = path(exchange)?;
    // What an alias stands for has to be a part of the target, too.
    if exchange.route().files.alias
        && target_path.get(..exchange.matched) != exchange.request.path.get(..exchange.matched)
    {
        return Err(invalid());
    }
    let source = std::mem::replace(&mut exchange.request.path, target_path);
    let was_raw = std::mem::replace(&mut exchange.request.path_is_raw, false);
    let to = path(exchange);
    exchange.request.path = source;
    exchange.request.path_is_raw = was_raw;
    Ok(Errand::Transfer { from, to: to?, is_folder, overwrite, moves, access: dav.access })
}

/// The path that `Destination` names, if it is one of this host.
fn destination(exchange: &Exchange) -> Result<Vec<u8>, Refused> {
    let Some(named) = exchange.request.fields.first(FieldName::new(b"destination")) else {
        return Err(Refused::new(400, "client sent no \"Destination\" header"));
    };
    if named.starts_with(b"/") {
        return Ok(named.to_vec());
    }
    let shown = named.escape_ascii();
    let invalid = || Refused::new(400, &format!("client sent invalid \"Destination\" header: \"{shown}\""));
    let scheme: &[u8] = if exchange.client.tls.is_some() { b"https://" } else { b"http://" };
    let rest = named.strip_prefix(scheme).ok_or_else(invalid)?;
    let at = rest.iter().position(|&byte| byte == b'/').ok_or_else(invalid)?;
    let (authority, path) = rest.split_at(at);
    let host = authority.split(|&byte| byte == b':').next().unwrap_or_default();
    if exchange.request.host.is_empty() || !host.eq_ignore_ascii_case(&exchange.request.host) {
        let why =
            format!("\"Destination\" URI \"{shown}\" is handled by different repository than the source URI");
        return Err(Refused::new(400, &why));
    }
    Ok(path.to_vec())
}

/// The file or folder of the current path, which a slash at the end does not change.
fn path(exchange: &Exchange) -> Result<PathBuf, Refused> {
    let mut name = Vec::new();
    exchange.append_filename(&mut name);
    if leaves_root(exchange, &name) || name.contains(&0) {
        return Err(Refused::new(404, &format!("\"{}\" is none of the files", text(&name))));
    }
    while name.len() > 1 && name.ends_with(b"/") {
        name.pop();
    }
    Ok(PathBuf::from(OsString::from_vec(name)))
}

/// What `Depth` says, if it is there.
fn depth(exchange: &Exchange) -> Option<Depth> {
    Some(match exchange.request.fields.first(FieldName::new(b"depth"))? {
        b"0" => Depth::Zero,
        b"1" => Depth::One,
        b"infinity" => Depth::Infinity,
        _ => Depth::Invalid,
    })
}

/// Whether a path has as many parts as DELETE needs.
fn is_deep(path: &[u8], least: u64) -> bool {
    if least == 0 {
        return true;
    }
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.zip(1..).any(|((at, _), depth)| depth >= least && at + 1 < path.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_as_deep_as_they_have_parts() {
        for (path, least, expected) in [
            ("/", 1, false),
            ("/a", 1, true),
            ("/a/", 2, false),
            ("/a/b", 2, true),
            ("/a/b/", 2, true),
            ("/", 0, true),
        ] {
            assert_eq!(is_deep(path.as_bytes(), least), expected, "{path} {least}");
        }
    }
}
