//! Header blocks to header lists.
//!
//! Owns: the peer's dynamic table.
//! Never: gives up half-way: a list that is too large is still read to its end, because the table has to follow.
//! Driven by: `receive`.

use super::table::{OVERHEAD, STATIC, Table};
use super::{TABLE_SIZE, huffman, integer};
use crate::h2::fields::Fields;

/// A block is no HPACK: the connection cannot go on (COMPRESSION_ERROR).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HpackError;

/// Whether a list was within its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    Whole,
    TooLarge,
}

/// Reads the blocks of one connection.
pub(crate) struct Decoder {
    table: Table,
    scratch: Vec<u8>,
    /// Whether the last block says the same whatever the table holds.
    contained: bool,
    /// Places in its list of the fields that it put into the table.
    inserted: Vec<u32>,
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self { table: Table::new(TABLE_SIZE), scratch: Vec::new(), contained: false, inserted: Vec::new() }
    }

    /// Reads the last block once more, given the list that it meant, which is whole; false where it may mean another one
    /// by now. Some servers put the same fields into the table with every answer.
    pub(crate) fn repeat(&mut self, fields: &Fields) -> bool {
        if !self.contained {
            return false;
        }
        for &place in &self.inserted {
            let Some(field) = fields.get(place as usize) else { return false };
            self.table.insert(field.name, field.value);
        }
        true
    }

    /// While it stands, equal blocks mean equal lists.
    pub(crate) fn generation(&self) -> u64 {
        self.table.generation()
    }

    /// Reads `block` into `fields`, which are emptied first. A list whose size (names, values, and 32 for each field) is
    /// more than `limit` is left out from there on.
    pub(crate) fn decode(
        &mut self,
        block: &[u8],
        fields: &mut Fields,
        limit: usize,
    ) -> Result<Fit, HpackError> {
        fields.clear();
        self.contained = true;
        self.inserted.clear();
        let (mut at, mut size, mut begun) = (0, 0_usize, false);
        while let Some(&first) = block.get(at) {
            if first & 0xe0 == 0x20 {
                // RFC 7541 §4.2: at the beginning of a block only.
                let max = integer::read(block, &mut at, 5)?;
                if begun || max > TABLE_SIZE {
                    return Err(HpackError);
                }
                self.table.resize(max);
                self.contained = false;
                continue;
            }
            begun = true;
            let start = fields.bytes().len();
            let (name_len, sensitive) = if first & 0x80 != 0 {
                let place = integer::read(block, &mut at, 7)?;
                self.contained &= place <= STATIC.len();
                let (name, value) = self.table.get(place).ok_or(HpackError)?;
                size = size.saturating_add(name.len() + value.len() + OVERHEAD);
                if size > limit {
                    continue;
                }
                fields.append(name);
                fields.append(value);
                (name.len(), false)
            } else {
                let indexed = first & 0x40 != 0;
                let place = integer::read(block, &mut at, if indexed { 6 } else { 4 })?;
                self.contained &= place <= STATIC.len();
                if place > 0 {
                    fields.append(self.table.get(place).ok_or(HpackError)?.0);
                } else {
                    string(block, &mut at, fields)?;
                }
                let name_len = fields.bytes().len() - start;
                string(block, &mut at, fields)?;
                if indexed {
                    let (name, value) = fields.bytes()[start..].split_at(name_len);
                    // The name may be that of an entry that is evicted for it, so it is copied first.
                    self.scratch.clear();
                    self.scratch.extend_from_slice(name);
                    self.table.insert(&self.scratch, value);
                    self.inserted.push(fields.len() as u32);
                }
                size = size.saturating_add(fields.bytes().len() - start + OVERHEAD);
                if size > limit {
                    fields.truncate_bytes(start);
                    continue;
                }
                (name_len, first & 0x10 != 0 && !indexed)
            };
            fields.mark(start + name_len, sensitive);
        }
        Ok(if size > limit { Fit::TooLarge } else { Fit::Whole })
    }
}

/// Reads a string to the end of `fields`.
fn string(block: &[u8], at: &mut usize, fields: &mut Fields) -> Result<(), HpackError> {
    let coded = block.get(*at).ok_or(HpackError)? & 0x80 != 0;
    let length = integer::read(block, at, 7)?;
    let end = at.checked_add(length).ok_or(HpackError)?;
    let bytes = block.get(*at..end).ok_or(HpackError)?;
    *at = end;
    if coded {
        return huffman::decode(bytes, fields.bytes_mut());
    }
    fields.append(bytes);
    Ok(())
}
