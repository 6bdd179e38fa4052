//! The `http` block.

use super::{listeners, server, upstream};
use crate::table::{Contexts, Taker};
use crate::take::{Lowering, Scope, log};
use crate::tree::Directive;
use crate::variables::Dialect;

/// Lowers the block with everything inside it.
pub(crate) fn build(lo: &mut Lowering<'_>, d: &Directive) {
    lo.dialect = Dialect::Http;
    lo.declare(d.children());
    log::begin_formats(lo);
    let words = lo.admit(d.children(), Contexts::HTTP);
    for word in &words {
        if let Taker::Shared(f) = word.entry.taker {
            f(lo, word.directive);
        }
    }
    let root = lo.path("html").to_string_lossy().into_owned();
    let access_log = log::default_access_log(lo);
    let mut scope = Scope::defaults(&root, access_log).child(lo.next_level());
    lo.apply(&words, &mut scope);
    lo.model.resolver = scope.built.resolver.as_deref().cloned();
    for word in words.iter().filter(|word| word.entry.name == "upstream") {
        upstream::build(lo, word.directive, scope.built.resolver.as_deref());
    }
    let mut servers = Vec::new();
    for word in words.iter().filter(|word| word.entry.name == "server") {
        servers.push(server::build(lo, &scope, word.directive));
    }
    listeners::build(lo, &servers);
}
