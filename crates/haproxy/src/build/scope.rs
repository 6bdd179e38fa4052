//! What an expression or a condition is read in.

use super::map::Maps;
use crate::Files;
use crate::draft::{Draft, Proxy};
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
