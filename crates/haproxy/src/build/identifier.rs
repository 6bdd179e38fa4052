//! Identifiers of requests: `unique-id-format`.
//!
//! Owns: what makes a request's identifier, and when.
//! Never: says where it is kept; `Scope::identifier` does, for all who name it (`%ID`, `unique-id`, `unique-id-header`).
//! Driven by: `route` and `tcp`, which give it before any rule.

use weir_model::Op;

use super::format::{Formatter, LogScope};
use super::scope::{IDENTIFIER, Scope};
use crate::findings::Findings;

/// Gives a request of this frontend its identifier.
pub(super) fn given(scope: &Scope<'_>, log: &LogScope, findings: &mut Findings) -> Option<Op> {
    let word = scope.proxy.settings.unique_id_format.as_ref()?;
    let mut formatter = Formatter { scope: *scope, log: Some(log), groups: false, span: word.span, findings };
    let value = formatter.template(word.as_str())?;
    Some(Op::Set { variable: IDENTIFIER.to_owned(), value })
}
