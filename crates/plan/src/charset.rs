//! Charsets of responses, and conversion between them.
//!
//! Owns: tables of conversion.
//! Never: reads a body; `engine` does.
//! Driven by: `engine::answer::charset`.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;

use crate::{MediaTypes, Template};

/// What is said about charsets, and done to bodies.
#[derive(Clone, Debug, Serialize)]
pub struct Charset {
    /// The charset that responses are to have.
    pub name: Template,
    /// The charset of bodies that do not say theirs; `None`: they are not converted.
    pub source: Option<Template>,
    /// Responses of upstream servers that say their charset are converted, too.
    pub overrides: bool,
    /// Media types that are spoken of.
    pub types: MediaTypes,
    /// Ways from one charset to another.
    #[serde(skip)]
    pub maps: Box<[CharsetMap]>,
}

/// A way from a charset of single bytes to another or to UTF-8, and back.
#[derive(Clone, Debug)]
pub struct CharsetMap {
    from: Box<str>,
    to: Box<str>,
    forth: Conversion,
    back: Conversion,
}

/// How text is converted. What has no counterpart becomes `?`.
#[derive(Clone, Debug)]
pub enum Conversion {
    /// Byte by byte.
    Bytes(Arc<[u8; 256]>),
    /// Each byte becomes a character of UTF-8.
    ToUtf8(Arc<[Box<[u8]>]>),
    /// Characters of UTF-8 become bytes; those that have none are written by number, as HTML does: `&#8364;`.
    FromUtf8(Arc<HashMap<u32, u8>>),
}

const UNKNOWN: u8 = b'?';

impl CharsetMap {
    /// A map of these pairs. ASCII stands for itself where no pair says otherwise.
    pub fn new<'p>(from: &str, to: &str, pairs: impl IntoIterator<Item = (u8, &'p [u8])>) -> Self {
        let is_utf8 = to.eq_ignore_ascii_case("utf-8");
        let (forth, back) = if is_utf8 { with_utf8(pairs) } else { of_bytes(pairs) };
        Self { from: from.into(), to: to.into(), forth, back }
    }

    /// How to get from one charset to another, if this is the way.
    pub fn way(&self, from: &[u8], to: &[u8]) -> Option<&Conversion> {
        let is = |name: &str, other: &[u8]| name.as_bytes().eq_ignore_ascii_case(other);
        if is(&self.from, from) && is(&self.to, to) {
            return Some(&self.forth);
        }
        (is(&self.to, from) && is(&self.from, to)).then_some(&self.back)
    }
}

fn plain() -> [u8; 256] {
    std::array::from_fn(|byte| if byte < 128 { byte as u8 } else { UNKNOWN })
}

fn of_bytes<'p>(pairs: impl IntoIterator<Item = (u8, &'p [u8])>) -> (Conversion, Conversion) {
    let (mut forth, mut back) = (plain(), plain());
    for (byte, other) in pairs {
        let other = other.first().copied().unwrap_or(UNKNOWN);
        forth[usize::from(byte)] = other;
        back[usize::from(other)] = byte;
    }
    (Conversion::Bytes(Arc::new(forth)), Conversion::Bytes(Arc::new(back)))
}

fn with_utf8<'p>(pairs: impl IntoIterator<Item = (u8, &'p [u8])>) -> (Conversion, Conversion) {
    let mut forth: Vec<Box<[u8]>> = plain().iter().map(|&byte| [byte].into()).collect();
    let mut back: HashMap<u32, u8> = (0..128).map(|byte| (u32::from(byte), byte)).collect();
    for (byte, other) in pairs {
        let text = std::str::from_utf8(other).unwrap_or("?");
        forth[usize::from(byte)] = text.as_bytes().into();
        if let Some(character) = text.chars().next() {
            back.insert(u32::from(character), byte);
        }
    }
    (Conversion::ToUtf8(forth.into()), Conversion::FromUtf8(Arc::new(back)))
}
