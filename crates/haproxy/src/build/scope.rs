//! What an expression or a condition is read in.

use weir_model::Var;

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
    /// How many ACLs deep it stands that name one another.
    pub(crate) depth: u8,
}

/// Where the identifier of a request is kept. No configuration can write this name.
pub(super) const IDENTIFIER: &str = "txn.unique-id";

impl Scope<'_> {
    /// The identifier of a request. Where no proxy has a format, 32 random hexadecimal digits.
    pub(super) fn identifier(&self) -> Var {
        let any = self.draft.proxies.iter().any(|proxy| proxy.settings.unique_id_format.is_some());
        if any { Var::User(IDENTIFIER.to_owned()) } else { Var::RequestId }
    }
}
