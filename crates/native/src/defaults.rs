//! What holds where nothing is written.
//!
//! Owns: the defaults of fields: those that types have themselves, and those of `defaults.yaml`, which come first.
//! Driven by: `read` fills in by it, `print` leaves out by it, `reference` lists it.
//! Why one table for both ways: what is left out is read as it was.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::OnceLock;

use serde::Serialize;
use weir_diag::{SourceId, Span};
use weir_model::settings::{
    BodySettings, Browsers, CachePace, CacheSettings, CacheStale, ClientSettings, Conduct, CookieFlags,
    Datagrams, NameHolds, Pages, Quic, RetrySettings, Unavailable, UpstreamKeepalive, UpstreamSettings,
};
use weir_model::{Access, Dav, Initially, SocketOptions};

use crate::node::{self, Node};
use crate::plain::Plain;
use crate::print;
use crate::tree::{Tree, tree};

const OURS: &str = include_str!("defaults.yaml");

#[derive(Default)]
struct Table {
    structs: HashMap<String, Vec<(String, Plain)>>,
    enums: HashMap<String, String>,
}

/// The default of a field as a node.
pub(crate) fn node(structure: &str, field: &str, span: Span) -> Option<Rc<Node>> {
    of_field(structure, field).map(|plain| plain.node(span))
}

/// The default of a field.
pub(crate) fn of_field(structure: &str, field: &str) -> Option<&'static Plain> {
    let fields = table().structs.get(structure)?;
    fields.iter().find(|(known, _)| known == field).map(|(_, value)| value)
}

/// The value of an enumeration that may be left out.
pub(crate) fn of_enum(name: &str) -> Option<&'static str> {
    table().enums.get(name).map(String::as_str)
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(build)
}

fn build() -> Table {
    let mut table = Table::default();
    let root = node::parse(OURS, SourceId(0), &mut Vec::new());
    let ours = root.map_or(Plain::Null, |root| Plain::of(&root));
    if let Some(Plain::Map(enums)) = ours.get("enums") {
        for (name, word) in enums {
            table.enums.insert(name.clone(), word.as_text().unwrap_or_default().to_owned());
        }
    }
    if let Some(Plain::Map(structs)) = ours.get("structs") {
        for (name, fields) in structs {
            let Plain::Map(fields) = fields else { continue };
            table.structs.insert(name.clone(), fields.clone());
        }
    }
    add(&mut table, &Access::default());
    add(&mut table, &BodySettings::default());
    add(&mut table, &Browsers::default());
    add(&mut table, &CachePace::default());
    add(&mut table, &CacheSettings::default());
    add(&mut table, &CacheStale::default());
    add(&mut table, &ClientSettings::default());
    add(&mut table, &Conduct::default());
    add(&mut table, &CookieFlags::default());
    add(&mut table, &Datagrams::default());
    add(&mut table, &Dav::default());
    add(&mut table, &Initially::default());
    add(&mut table, &NameHolds::default());
    add(&mut table, &Pages::default());
    add(&mut table, &Quic::default());
    add(&mut table, &RetrySettings::default());
    add(&mut table, &SocketOptions::default());
    add(&mut table, &Unavailable::default());
    add(&mut table, &UpstreamKeepalive::default());
    add(&mut table, &UpstreamSettings::default());
    table
}

/// The fields of a type's own default that the table does not have yet, with all that they hold.
fn add<T: Serialize>(table: &mut Table, value: &T) {
    let Ok(Tree::Map { of, fields }) = tree(value) else { return };
    let known = table.structs.entry(of).or_default();
    for (field, value) in fields {
        if !known.iter().any(|(name, _)| *name == field) {
            known.push((field, print::whole(value)));
        }
    }
}
