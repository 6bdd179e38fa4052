//! What an expression or a condition is read in.

use weir_diag::{Diagnostic, Span};

use super::map::Maps;
use crate::Files;
use crate::draft::{Draft, Proxy};
use crate::findings::Findings;
use crate::read::env::Env;

/// The surroundings of an expression.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    /// All sections.
    pub(crate) draft: &'a Draft,
    /// Whose rules they are.
    pub(crate) proxy: &'a Proxy,
    /// The environment after the last line.
    pub(crate) env: &'a Env,
    /// For pattern files.
    pub(crate) files: &'a dyn Files,
    /// Maps that expressions go through.
    pub(crate) maps: &'a Maps,
    /// The rule looks at a response.
    pub(crate) response: bool,
}

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
                findings.push(match crate::table::nearest_fetch(&name).filter(|_| what == "fetch") {
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
