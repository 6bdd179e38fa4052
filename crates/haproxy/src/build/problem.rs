//! Why an expression or a condition cannot be built.

use weir_diag::{Diagnostic, Span};

use crate::findings::Findings;
use crate::words::nearest_fetch;

/// What keeps an expression from being built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// It is malformed.
    Bad(String),
    /// It names something that is not known: what kind, and the name.
    Unknown(&'static str, String),
    /// It is known and not built.
    NotBuilt(String),
    /// It was reported already.
    Reported,
}

impl Problem {
    /// Says so at a place.
    pub(crate) fn report(self, span: Span, findings: &mut Findings) {
        match self {
            Problem::Reported => {}
            Problem::Bad(cause) => {
                findings.push(Diagnostic::error("haproxy::bad-expression", cause).at(span))
            }
            Problem::Unknown(what, name) => {
                let found = Diagnostic::error("haproxy::unknown-keyword", format!("unknown {what} `{name}`"))
                    .at(span);
                findings.push(match nearest_fetch(&name).filter(|_| what == "fetch") {
                    Some(near) => found.help(format!("did you mean `{near}`?")),
                    None => found,
                });
            }
            Problem::NotBuilt(what) => {
                findings.not_built(span, &what, "its value decides what happens, so it cannot be left out");
            }
        }
    }
}
