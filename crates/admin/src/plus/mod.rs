//! NGINX Plus' REST API, versions 1 to 9 (nginx.org: ngx_http_api_module).
//!
//! Owns: its paths, what each version has, its objects, its errors, and what was counted before a reset.
//! Never: counts, makes a change or serves a socket: a [`Backend`] does.
//! Driven by: the routes of `api`.
//!
//! ```text
//! path ── version ── endpoint ── GET: figures of the snapshot, less what was there at the last reset, by `fields`
//!                            └── POST, PATCH, DELETE: a change by the backend, or a reset
//! ```

mod fault;
mod fields;
mod figures;
mod keyvals;
mod peers;
mod request;
mod reset;
mod servers;
mod time;
mod tree;

use serde_json::{Value, json};
use weir_control::snapshot::Snapshot;

pub use fault::Fault;
pub use keyvals::{Keyvals, Pair};
use request::Answer;
pub use request::{Backend, Edit, NEWEST, Request};
pub use reset::Resets;

use crate::Page;

/// Answers a request. `resets`: what was counted before resets.
pub fn answer(request: &Request<'_>, snapshot: &Snapshot, backend: &dyn Backend, resets: &Resets) -> Page {
    let mut version = NEWEST;
    let answered = tree::walk(request, snapshot, backend, resets, &mut version);
    let mut page = Page::new("application/json", String::new());
    match answered {
        Ok(Answer::Object(object)) => page.body = object.to_string().into_bytes(),
        Ok(Answer::Created(made)) => {
            page.status = 201;
            if let Some((path, object)) = made {
                page.headers.push(("Location", path));
                page.body = object.to_string().into_bytes();
            }
        }
        Ok(Answer::Done) => {
            page.status = 204;
            page.headers.retain(|(name, _)| *name != "Content-Type");
        }
        Err(fault) => {
            page.status = fault.status;
            page.body = error(request, &fault, version).to_string().into_bytes();
        }
    }
    page
}

/// The object of an error. Versions before 4 have two more fields, which are empty.
fn error(request: &Request<'_>, fault: &Fault, version: u8) -> Value {
    let mut object = json!({
        "error": { "status": fault.status, "text": fault.text, "code": fault.code },
        "request_id": format!("{:032x}", request.id),
        "href": "https://nginx.org/en/docs/http/ngx_http_api_module.html",
    });
    if version < 4 {
        object["path"] = json!("");
        object["method"] = json!("");
    }
    object
}

#[cfg(test)]
mod tests;
