//! Words about changing files by requests.

use std::sync::Arc;

use weir_model::{DavMethods, FileAccess};

use super::{Lowering, Scope};
use crate::tree::Directive;

/// `dav_methods off | method …`.
pub(crate) fn methods(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let mut methods = DavMethods::default();
    for (n, word) in d.args.iter().enumerate() {
        match &*word.text.to_ascii_lowercase() {
            "off" => {}
            "put" => methods.put = true,
            "delete" => methods.delete = true,
            "mkcol" => methods.mkcol = true,
            "copy" => methods.copy = true,
            "move" => methods.moves = true,
            _ => lo.bad_value(d, n, "`off`, `PUT`, `DELETE`, `MKCOL`, `COPY` or `MOVE`"),
        }
    }
    Arc::make_mut(&mut s.files).dav.methods = methods;
}

/// `dav_access`.
pub(crate) fn access(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    if let Some(access) = rights(lo, d) {
        Arc::make_mut(&mut s.files).dav.access = access;
    }
}

/// `user:rw group:r all:r`: the user may read and write unless something else is said.
pub(crate) fn rights(lo: &mut Lowering<'_>, d: &Directive) -> Option<FileAccess> {
    let (mut user, mut others) = (0o600, 0);
    for (n, word) in d.args.iter().enumerate() {
        let right = |text: &str| match text {
            "rw" => Some(0o6),
            "r" => Some(0o4),
            _ => None,
        };
        let parts = word.text.split_once(':').and_then(|(who, text)| Some((who, right(text)?)));
        match parts {
            Some(("user", right)) => user = right << 6,
            Some(("group", right)) => others |= right << 3,
            Some(("all", right)) => others |= right,
            _ => {
                lo.bad_value(d, n, "`user:`, `group:` or `all:` with `rw` or `r`");
                return None;
            }
        }
    }
    Some(FileAccess(user | others))
}
