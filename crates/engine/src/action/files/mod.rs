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

mod candidates;
mod dav;
mod index;
mod listing;
mod names;
mod plain;
mod ranges;
mod send;
mod video;

pub(crate) use candidates::first_candidate;
pub(super) use dav::{dress, rename_file};
pub(crate) use send::{FileRest, part, queued};

use rustix::io::Errno;
use weir_expr::settings::ContentCoding;
use weir_http::uri::{Escape, escape};
use weir_http::{HeaderId, Method, Version};

use crate::answer::{compression_fits, takes};
use crate::exchange::Next;
use crate::exchange::errors;
use crate::exchange::{Downstream, Exchange};
use crate::files::Found;
use crate::worker::Installed;
use index::Index;
use names::{leaves_root, refused, text};

/// Answers with what the path maps to.
pub(crate) async fn serve<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
) -> Next<Box<FileRest>> {
    if !matches!(exchange.request.method, Method::Get | Method::Head | Method::Post) {
        return match dav::asked(exchange) {
            Some(asked) => Box::pin(dav::serve(exchange, down, asked)).await,
            None => wrong_method(exchange),
        };
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
        Ok(Chosen { found: Found::File(file), coding, varies })
            if exchange.request.method != Method::Post =>
        {
            let asked = match exchange.route().files.video {
                Some(video) => video::asked(exchange, video, &file, &name),
                None => Ok(None),
            };
            match asked {
                Ok(None) => send::file(exchange, down, &file, coding, varies).await,
                Ok(Some(cut)) => Box::pin(video::send(exchange, down, &file, cut)).await,
                Err(status) => Next::Status(status),
            }
        }
        Ok(Chosen { found: Found::File(_), .. }) => wrong_method(exchange),
        Ok(Chosen { found: Found::Folder, .. }) => with_slash(exchange),
        Ok(Chosen { found: Found::Other, .. }) => {
            errors::error(exchange, &format!("\"{}\" is not a regular file", text(&name)));
            Next::Status(404)
        }
        Err(error) => refused(exchange, "open()", &name, error),
    };
    exchange.worker.files.give_name(name);
    next
}

/// What is sent for a path.
struct Chosen {
    found: Found,
    /// It is compressed already, by this.
    coding: Option<ContentCoding>,
    /// Another client would get another variant.
    varies: bool,
}

/// The file itself, or a compressed variant where that is wanted. `name` is the file's afterwards.
fn choose(exchange: &Exchange, name: &mut Vec<u8>) -> Result<Chosen, Errno> {
    let (cache, files) = (&exchange.worker.files, &exchange.route().files);
    let mut varies = false;
    for &(coding, always) in &files.precompressed {
        let plain = name.len();
        name.extend_from_slice(coding.suffix().as_bytes());
        let found = cache.look_up(exchange.now(), name, files.symlinks);
        name.truncate(plain);
        if let Ok(Found::File(file)) = found {
            varies |= !always;
            if always || wants(exchange, coding) {
                return Ok(Chosen { found: Found::File(file), coding: Some(coding), varies });
            }
        }
    }
    let found = cache.look_up(exchange.now(), name, files.symlinks)?;
    Ok(Chosen { found, coding: None, varies })
}

/// As the route's own compression by this would ask, else as nginx's `gzip_static` does without it.
fn wants(exchange: &Exchange, coding: ContentCoding) -> bool {
    let mut of_route = exchange.route().settings.compression.iter();
    match of_route.find(|one| one.settings.coding == coding) {
        Some(settings) => compression_fits(exchange, settings),
        None => {
            let asks = takes(exchange, coding);
            let fresh = exchange.request.version >= Version::Http11;
            asks && (coding != ContentCoding::Gzip || fresh && !exchange.request.fields.has(HeaderId::Via))
        }
    }
}

/// 405 with what is allowed.
fn wrong_method(exchange: &mut Exchange) -> Next<Box<FileRest>> {
    exchange.response.fields.remove(HeaderId::Allow);
    exchange.response.fields.push_id(HeaderId::Allow, b"GET, HEAD");
    Next::Status(405)
}

/// 301 to the path with a slash.
fn with_slash(exchange: &Exchange) -> Next<Box<FileRest>> {
    let request = &exchange.request;
    let mut location = Vec::with_capacity(request.path.len() + request.query.len() + 2);
    escape(Escape::Uri, &request.path, &mut location);
    location.push(b'/');
    if !request.query.is_empty() {
        location.push(b'?');
        location.extend_from_slice(&request.query);
    }
    Next::Redirect { status: 301, location, pages: true }
}
