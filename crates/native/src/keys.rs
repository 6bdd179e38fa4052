//! Keys, by which objects refer to one another.
//!
//! Owns: who has which key, and what is said of one that nobody has, or several have.
//! Driven by: `document` gathers them, `read` looks up.

use std::collections::HashMap;
use std::rc::Rc;

use weir_diag::{Diagnostic, Span};

use crate::node::Node;
use crate::shapes;

/// Keys of objects, by kind.
#[derive(Default)]
pub(crate) struct Keys {
    all: HashMap<&'static str, HashMap<String, Vec<u32>>>,
    order: HashMap<&'static str, Vec<String>>,
}

impl Keys {
    pub(crate) fn gather(&mut self, kind: &'static str, nodes: &[Rc<Node>], found: &mut Vec<Diagnostic>) {
        let structure = match kind {
            "SiteId" => "Site",
            "RouteId" => "Route",
            _ => "",
        };
        for (at, node) in nodes.iter().enumerate() {
            let node = shapes::long(structure, node);
            let own = node.entry("key").and_then(|key| key.as_text());
            let name = own.or_else(|| node.entry("name")?.as_text()).unwrap_or_default();
            let numbers = self.all.entry(kind).or_default().entry(name.to_owned()).or_default();
            if let (Some(key), false) = (node.entry("key"), numbers.is_empty()) {
                let title = format!("the key `{name}` stands for another object already");
                found.push(Diagnostic::error("native::duplicate", title).at(key.span));
            }
            numbers.push(at as u32);
            self.order.entry(kind).or_default().push(name.to_owned());
        }
    }

    pub(crate) fn add(&mut self, kind: &'static str, name: &str, number: u32) {
        self.all.entry(kind).or_default().entry(name.to_owned()).or_default().push(number);
    }

    pub(crate) fn all(&self, kind: &str) -> Vec<String> {
        self.order.get(kind).cloned().unwrap_or_default()
    }

    /// The number of a key; what is wrong with it is told.
    pub(crate) fn find(&self, kind: &str, key: &str, span: Span, found: &mut Vec<Diagnostic>) -> Option<u32> {
        let of_kind = self.all.get(kind);
        match of_kind.and_then(|of_kind| of_kind.get(key)).map(Vec::as_slice) {
            Some([one]) => Some(*one),
            Some([_, ..]) => {
                let title =
                    format!("{} {}s are called `{key}`", of_kind.map_or(0, |of| of[key].len()), what(kind));
                let one = Diagnostic::error("native::ambiguous", title).at(span);
                found.push(one.help("give the one that is meant a `key` of its own"));
                None
            }
            _ => {
                let title = format!("there is no {} `{key}`", what(kind));
                let known = of_kind.into_iter().flat_map(HashMap::keys).map(String::as_str);
                let one = Diagnostic::error("native::unknown-reference", title).at(span);
                found.push(one.suggest(key, span, known));
                None
            }
        }
    }
}

fn what(kind: &str) -> &'static str {
    match kind {
        "SiteId" => "site",
        "RouteId" => "route",
        "TcpId" => "TCP service",
        "MemoryCacheId" => "memory cache",
        _ => "key list",
    }
}
