//! Which variables a file defines.
//!
//! Owns: the sweep that finds them before any word is taken in, because a variable may be used above its definition.
//! Driven by: the building of `http` and of `stream`.

use weir_diag::{Diagnostic, Span};
use weir_model::{Definition, Variable};

use super::Lowering;
use crate::tree::Directive;
use crate::variables::{Dialect, named_groups};

impl Lowering<'_> {
    /// Declares the variables of a block and of all blocks inside it.
    pub(crate) fn declare(&mut self, block: &[Directive]) {
        // Blocks are at most 64 deep (`tree`).
        for directive in block {
            for name in defined_by(directive) {
                self.declare_one(name, directive);
            }
            if directive.name() == "underscores_in_headers" && directive.arg(0).eq_ignore_ascii_case("on") {
                self.underscores = true;
            }
            self.declare(directive.children());
        }
    }

    fn declare_one(&mut self, name: &str, directive: &Directive) {
        let (mut name, origin) = (name.to_owned(), Some(directive.span));
        if !self.declared.insert(name.clone()) {
            // `http` and `stream` know nothing of one another's tables. Those of the other block are defined already.
            let key = (self.dialect, name);
            let taken =
                |known: &Variable| known.name == key.1 && !matches!(known.definition, Definition::Assigned);
            if !is_table(directive)
                || self.renamed.contains_key(&key)
                || !self.model.variables.iter().any(taken)
            {
                return;
            }
            let block = if self.dialect == Dialect::Http { "http" } else { "stream" };
            name = format!("{} ({block})", key.1);
            self.renamed.insert(key, name.clone());
        }
        self.model.variables.push(Variable { name, origin, definition: Definition::Assigned });
    }

    /// The name that a declared variable has in the model.
    pub(crate) fn named_in_model(&self, name: &str) -> String {
        if self.renamed.is_empty() {
            return name.to_owned();
        }
        let renamed = self.renamed.get(&(self.dialect, name.to_owned()));
        renamed.cloned().unwrap_or_else(|| name.to_owned())
    }

    /// Gives a declared variable its definition. The first stands.
    pub(crate) fn define(&mut self, name: &str, definition: Definition) -> bool {
        let name = self.named_in_model(name);
        let Some(variable) = self.model.variables.iter_mut().find(|variable| variable.name == name) else {
            return false;
        };
        let first = matches!(variable.definition, Definition::Assigned);
        if first {
            variable.definition = definition;
        }
        first
    }
}

/// Whether a directive defines a variable by a table.
fn is_table(directive: &Directive) -> bool {
    matches!(directive.name(), "map" | "geo" | "split_clients" | "num_map" | "keyval")
}

/// Names that one directive defines.
fn defined_by(directive: &Directive) -> Vec<&str> {
    let args = || directive.args.iter().map(|arg| arg.text.as_str());
    let mut out: Vec<&str> = match directive.name() {
        // `$args` and `$limit_rate` are assigned, not defined.
        "set" => args().take(1).filter(|name| !matches!(*name, "$args" | "$limit_rate")).collect(),
        "map" | "geo" | "split_clients" | "num_map" => args().next_back().into_iter().collect(),
        "keyval" => args().nth(1).into_iter().collect(),
        "auth_request_set"
        | "js_set"
        | "js_var"
        | "perl_set"
        | "auth_jwt_claim_set"
        | "auth_jwt_header_set"
        | "set_by_lua_block"
        | "set_by_lua"
        | "set_by_lua_file"
        | "set_escape_uri"
        | "set_unescape_uri"
        | "set_md5" => args().take(1).collect(),
        "geoip2" => directive.children().iter().map(Directive::name).collect(),
        _ => Vec::new(),
    };
    out = out.into_iter().filter_map(|name| name.strip_prefix('$')).filter(|name| is_name(name)).collect();
    // Patterns: in locations, names, rewrites and conditions as arguments, in maps as keys.
    let words = std::iter::once(&directive.name).chain(&directive.args);
    out.extend(words.flat_map(|word| named_groups(&word.text)).filter(|name| is_name(name)));
    out
}

/// True for letters, digits and `_`.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Says that a variable of nginx's own is not to be assigned.
pub(crate) fn not_settable(lo: &mut Lowering<'_>, name: &str, span: Span) {
    let text = format!("`${name}` is nginx's own and cannot be set");
    lo.report(Diagnostic::error("nginx::not-settable", text).at(span).help("choose another name"));
}
