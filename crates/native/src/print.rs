//! A model as a document.
//!
//! Owns: what is left out, short forms, keys of objects, routes in their places.
//! Never: writes text; `emit` does.
//! Driven by: `lib`.

use std::collections::HashMap;

use weir_expr::form::{Form, written};
use weir_model::Model;

use crate::plain::Plain;
use crate::read::is_place;
use crate::tree::{Failure, Tree, tree};
use crate::{defaults, shapes};

/// How a model is written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Passwords and keys stand in it, so that it can be read again.
    pub secrets: bool,
    /// What holds by itself is written, too.
    pub defaults: bool,
    /// Routes stand where they are referred to, if at one place only. Otherwise all of them are in one list, in the model's
    /// order.
    pub nested: bool,
}

/// The model as a document.
pub(crate) fn document(model: &Model, style: Style) -> Result<Plain, Failure> {
    let tree = written(Form::Document { secrets: style.secrets }, || tree(model))?;
    let Tree::Map { fields, .. } = tree else { return Ok(Plain::Null) };
    let mut sections: Vec<(String, Tree)> = fields;
    let mut names = Names::of(&mut sections);
    let routes = names.routes.len();
    let mut routes: Vec<Option<Tree>> = match sections.iter_mut().find(|(name, _)| name == "routes") {
        Some((_, Tree::List(items))) if items.len() == routes => items.drain(..).map(Some).collect(),
        _ => Vec::new(),
    };
    if style.nested {
        let mut owners = vec![0u32; routes.len()];
        sections.iter().for_each(|(_, tree)| count(tree, &mut owners));
        routes.iter().flatten().for_each(|tree| count(tree, &mut owners));
        names.owned = owners.into_iter().map(|count| count == 1).collect();
    }
    let mut printer = Printer { style, names: &names, routes: &mut routes, all: false };
    let mut out = Vec::new();
    for (name, tree) in sections.iter().filter(|(name, _)| name != "routes") {
        let (plain, empty) = printer.plain(tree);
        if !empty {
            out.push((name.clone(), plain));
        }
    }
    let mut left = Vec::new();
    for at in 0..printer.routes.len() {
        if let Some(tree) = printer.routes[at].take() {
            left.push(printer.plain(&tree).0);
        }
    }
    if !left.is_empty() {
        out.push(("routes".into(), Plain::List(left)));
    }
    let rank = |name: &str| ORDER.iter().position(|known| *known == name).unwrap_or(ORDER.len());
    out.sort_by_key(|(name, _)| rank(name));
    Ok(Plain::Map(out))
}

/// Sections in the order in which they are read most easily.
pub const ORDER: [&str; 16] = [
    "process",
    "resolver",
    "listeners",
    "sites",
    "tcp",
    "pools",
    "routes",
    "acme",
    "variables",
    "limit_req_zones",
    "limit_conn_zones",
    "stick_tables",
    "cache_zones",
    "memory_caches",
    "key_lists",
    "roster",
];

/// A value with all its defaults and without references.
pub(crate) fn whole(tree: Tree) -> Plain {
    let names = Names::default();
    let style = Style { secrets: true, defaults: true, nested: false };
    Printer { style, names: &names, routes: &mut Vec::new(), all: true }.plain(&tree).0
}

/// Adds to each route how often it stands where it could be written in full.
fn count(tree: &Tree, owners: &mut [u32]) {
    match tree {
        Tree::Reference { of: "RouteId", number } => {
            if let Some(count) = owners.get_mut(*number as usize) {
                *count += 1;
            }
        }
        // By name only.
        Tree::Choice { word: "named", .. } => {}
        Tree::List(items) | Tree::Tuple(items) => items.iter().for_each(|item| count(item, owners)),
        Tree::Free(fields) | Tree::Map { fields, .. } => {
            fields.iter().for_each(|(_, item)| count(item, owners))
        }
        Tree::Some(held) | Tree::Choice { held: Some(held), .. } => count(held, owners),
        _ => {}
    }
}

/// Keys of objects, by number.
#[derive(Default)]
struct Names {
    routes: Vec<String>,
    sites: Vec<String>,
    tcp: Vec<String>,
    memory_caches: Vec<String>,
    key_lists: Vec<String>,
    /// Routes that are referred to at one place only.
    owned: Vec<bool>,
}

impl Names {
    /// Gives a `key` to those whose name is not theirs alone.
    fn of(sections: &mut [(String, Tree)]) -> Self {
        let mut names = Self::default();
        for (section, tree) in sections {
            let Tree::List(items) = tree else { continue };
            let list = match section.as_str() {
                "routes" => &mut names.routes,
                "sites" => &mut names.sites,
                "tcp" => &mut names.tcp,
                "memory_caches" => &mut names.memory_caches,
                "key_lists" => &mut names.key_lists,
                _ => continue,
            };
            *list = keys(items);
        }
        names
    }

    fn list(&self, of: &str) -> &[String] {
        match of {
            "RouteId" => &self.routes,
            "SiteId" => &self.sites,
            "TcpId" => &self.tcp,
            "MemoryCacheId" => &self.memory_caches,
            _ => &self.key_lists,
        }
    }
}

fn keys(items: &mut [Tree]) -> Vec<String> {
    let name = |item: &Tree| match item {
        Tree::Map { fields, .. } => match fields.iter().find(|(field, _)| field == "name") {
            Some((_, Tree::Text(name))) => name.clone(),
            _ => String::new(),
        },
        _ => String::new(),
    };
    let names: Vec<String> = items.iter().map(name).collect();
    let mut times = HashMap::<&str, usize>::new();
    names.iter().for_each(|name| *times.entry(name).or_default() += 1);
    let mut keys = Vec::with_capacity(names.len());
    for (at, (name, item)) in names.iter().zip(items).enumerate() {
        if times[name.as_str()] == 1 && !name.is_empty() {
            keys.push(name.clone());
            continue;
        }
        let key = format!("{name}#{at}");
        if let Tree::Map { fields, .. } = item {
            fields.insert(0, ("key".into(), Tree::Text(key.clone())));
        }
        keys.push(key);
    }
    keys
}

struct Printer<'p> {
    style: Style,
    names: &'p Names,
    routes: &'p mut Vec<Option<Tree>>,
    /// Nothing is left out, and no default is asked for: the table of defaults is made of this.
    all: bool,
}

impl Printer<'_> {
    /// The value, and whether it says nothing beyond what holds anyway.
    fn plain(&mut self, tree: &Tree) -> (Plain, bool) {
        match tree {
            Tree::Null => (Plain::Null, true),
            Tree::Bool(value) => (Plain::Bool(*value), !value),
            Tree::Int(number) => (Plain::Int(*number), false),
            Tree::Text(text) => (Plain::Text(text.clone()), false),
            Tree::List(items) => (self.list(items), items.is_empty()),
            Tree::Tuple(items) => (Plain::List(items.iter().map(|item| self.plain(item).0).collect()), false),
            Tree::Free(fields) => {
                let fields: Vec<_> =
                    fields.iter().map(|(key, value)| (key.clone(), self.plain(value).0)).collect();
                let empty = fields.is_empty();
                (Plain::Map(fields), empty)
            }
            Tree::Some(held) => (self.plain(held).0, false),
            Tree::Map { of, fields } => {
                let plain = shapes::short(of, self.structure(of, fields));
                let empty = plain.is_empty();
                (plain, empty)
            }
            Tree::Choice { of, word, held } => self.choice(of, word, held.as_deref()),
            Tree::Reference { of, number } => (self.reference(of, *number), false),
        }
    }

    /// Pairs of a text and a value are a map, unless a text stands twice.
    fn list(&mut self, items: &[Tree]) -> Plain {
        let pair = |item: &Tree| match item {
            Tree::Tuple(parts) => match parts.as_slice() {
                [Tree::Text(key), value] => Some((key.clone(), value.clone())),
                _ => None,
            },
            _ => None,
        };
        let pairs: Option<Vec<_>> = items.iter().map(pair).collect();
        match pairs.filter(|pairs| !pairs.is_empty() && are_unique(pairs)) {
            Some(pairs) => {
                Plain::Map(pairs.into_iter().map(|(key, value)| (key, self.plain(&value).0)).collect())
            }
            None => Plain::List(items.iter().map(|item| self.plain(item).0).collect()),
        }
    }

    fn structure(&mut self, of: &str, fields: &[(String, Tree)]) -> Plain {
        let mut out = Vec::new();
        for (field, value) in fields.iter().filter(|(field, _)| !is_place(field) && !is_of_text(of, field)) {
            let (plain, empty) = self.plain(value);
            if self.all {
                out.push((field.clone(), plain));
                continue;
            }
            let says_nothing = match defaults::of_field(of, field) {
                Some(default) => {
                    *default == plain && (!self.style.defaults || plain == Plain::Null || plain.is_empty())
                }
                None => empty && (!self.style.defaults || matches!(plain, Plain::Null) || plain.is_empty()),
            };
            if !says_nothing {
                out.push((field.clone(), plain));
            }
        }
        Plain::Map(out)
    }

    fn choice(&mut self, of: &str, word: &str, held: Option<&Tree>) -> (Plain, bool) {
        let alone = Plain::Text(word.to_owned());
        let is_default = !self.all && defaults::of_enum(of) == Some(word);
        let Some(held) = held else { return (alone, is_default && !self.style.defaults) };
        if word == "named"
            && let Tree::Reference { of, number } = held
        {
            let name = self.names.list(of).get(*number as usize).cloned().unwrap_or_default();
            return (Plain::Map(vec![(word.to_owned(), Plain::Text(name))]), false);
        }
        let (plain, empty) = self.plain(held);
        let of_struct = matches!(held, Tree::Map { .. } | Tree::Choice { .. });
        if empty && of_struct && !self.style.defaults {
            return (alone, is_default);
        }
        (shapes::short(of, Plain::Map(vec![(word.to_owned(), plain)])), false)
    }

    fn reference(&mut self, of: &str, number: u32) -> Plain {
        let at = number as usize;
        if of == "RouteId"
            && self.names.owned.get(at) == Some(&true)
            && let Some(tree) = self.routes.get_mut(at).and_then(Option::take)
        {
            return self.plain(&tree).0;
        }
        Plain::Text(self.names.list(of).get(at).cloned().unwrap_or_default())
    }
}

/// Where a text stood is no part of what it means.
fn is_of_text(of: &str, field: &str) -> bool {
    of == "Process" && field == "prefix"
}

fn are_unique(pairs: &[(String, Tree)]) -> bool {
    let mut seen = std::collections::HashSet::new();
    pairs.iter().all(|(key, _)| seen.insert(key.as_str()))
}
