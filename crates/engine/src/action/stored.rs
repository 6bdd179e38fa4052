//! Responses of upstreams that are kept as files: nginx's `proxy_store` and its kin.
//!
//! Owns: the filter that copies a body, and the name that the file gets once all of it is there.
//! Never: serves such a file; whoever wants that has it tried first (`try_files`, `error_page 404`).
//! Driven by: `settle`.
//! Why a file beside and a rename: whoever reads the name sees nothing, or the whole.

use std::io::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, PathBuf};
use std::sync::Arc;

use tempfile::NamedTempFile;
use weir_expr::FileAccess;
use weir_http::{HeaderId, HttpDate, Method};
use weir_plan::StoreFiles;

use super::files::{dress, rename_file};
use crate::eval::text;
use crate::exchange::{BodyFilter, BodySize, Exchange, Then, create_named_file, errors};
use crate::worker::shared::Shared;

/// Begins to keep a response, if it is one that is kept: 200, to anything but HEAD.
#[cold]
pub(super) fn begin(exchange: &mut Exchange, store: &StoreFiles, temp: &std::path::Path, size: BodySize) {
    if exchange.response.status != 200 || exchange.request.method == Method::Head {
        return;
    }
    let path = match &store.path {
        Some(template) => text(exchange, template),
        None => {
            let mut path = Vec::new();
            exchange.append_filename(&mut path);
            path
        }
    };
    let to = PathBuf::from(std::ffi::OsString::from_vec(path));
    // A variable may hold whatever a client wrote.
    let leads_up = to.components().any(|part| part == Component::ParentDir);
    if leads_up || !to.is_absolute() || to.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return errors::error(exchange, &format!("cannot store a response as \"{}\"", to.display()));
    }
    let now = HttpDate::from_unix(weir_rt::unix_now().as_secs());
    let modified = exchange.response.fields.first(HeaderId::LastModified);
    let storing = Storing {
        modified: modified.and_then(|value| HttpDate::parse(value, now)).map(HttpDate::unix),
        to,
        access: store.access,
        expected: match size {
            BodySize::Known(length) => Some(length),
            BodySize::Unknown | BodySize::Bodiless => None,
        },
        written: 0,
        file: match create_named_file(temp) {
            Ok(file) => Some(file),
            Err(error) => {
                let folder = temp.display();
                return errors::server_error(exchange, &format!("cannot make a file in {folder}: {error}"));
            }
        },
        shared: exchange.worker.shared.clone(),
    };
    exchange.filters.push(Box::new(storing));
}

/// Copies a body into a file.
struct Storing {
    /// `None`: it has its name, or was given up.
    file: Option<NamedTempFile>,
    to: PathBuf,
    access: FileAccess,
    modified: Option<u64>,
    /// How long it is, if that was said.
    expected: Option<u64>,
    written: u64,
    shared: Arc<Shared>,
}

impl Storing {
    fn finish(&mut self) -> std::io::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let modified = self.modified.map(|seconds| (i64::try_from(seconds).unwrap_or(i64::MAX), 0));
        dress(file.as_file(), self.access.0.into(), modified)?;
        rename_file(file, &self.to, Some(self.access))
    }

    fn take(&mut self, piece: &[u8], then: Then) -> std::io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(piece)?;
        self.written += piece.len() as u64;
        // The client may ask again as soon as it has the last byte.
        match self.expected {
            Some(expected) if self.written == expected => self.finish(),
            None if then == Then::End => self.finish(),
            _ => Ok(()),
        }
    }
}

impl BodyFilter for Storing {
    fn pass<'a>(&'a mut self, piece: &'a [u8], then: Then) -> &'a [u8] {
        if let Err(error) = self.take(piece, then) {
            self.file = None;
            self.shared.log_process_error(&format!("cannot store \"{}\": {error}", self.to.display()));
        }
        piece
    }
}
