//! Parsers of what processes of less trust, or of none, hand to this crate, for `cargo xtask fuzz-smoke`.
//!
//! Owns: their properties, and good input for each.
//! Never: opens a socket or starts a process.
//! Driven by: `xtask`.

use crate::compile::host_names::parse_answers;
use crate::keeper::channel::ToPlane;
use crate::keeper::parcel::Parcel;
use crate::keeper::{channel, replies};

/// A parser by name. It panics where a property does not hold.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: &[Target] = &[
    ("keeper_replies", replies::fuzz),
    ("keeper_orders", orders),
    ("keeper_parcel", parcel),
    ("resolver_answers", answers),
];

/// Good input for the parser `name`.
pub fn corpus(name: &str) -> Vec<Vec<u8>> {
    match name {
        "keeper_replies" => replies::samples(),
        "keeper_orders" => channel::samples(),
        "keeper_parcel" => vec![Parcel::sample(), Vec::new()],
        _ => vec![br#"{"a.example":["192.0.2.1","2001:db8::1"],"b":[]}"#.to_vec()],
    }
}

/// An order that can be read can be written and read again.
fn orders(bytes: &[u8]) {
    let Ok(order) = channel::read::<ToPlane>(bytes) else { return };
    let written = serde_json::to_vec(&order).expect("orders have text keys");
    let again = channel::read::<ToPlane>(&written).expect("an order was written");
    assert_eq!(format!("{order:?}"), format!("{again:?}"));
}

/// What is read is what was written: read again, it is the same.
fn parcel(bytes: &[u8]) {
    if let Some(parcel) = Parcel::from_bytes(bytes) {
        assert_eq!(Parcel::from_bytes(&parcel.to_bytes()), Some(parcel));
    }
}

/// Exactly the names that were asked for are answered.
fn answers(bytes: &[u8]) {
    let names = ["a.example".to_owned(), "b".to_owned()];
    let answers = parse_answers(&names, bytes);
    assert!(answers.keys().eq(&names));
}
