//! Field sections (RFC 9204 §4.5), with the static table alone.
//!
//! Never: judges a field's name or value (`h2::head` does).
//! Driven by: `request` and `write`.

use super::static_table::{STATIC, find};
use crate::h2::Fields;
use crate::h2::hpack::{HpackError, huffman, integer};

/// What a field costs beside its text (RFC 9114 §4.2.2).
const OVERHEAD: usize = 32;

/// The list measures more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Reads a section into `fields`, which are emptied first.
pub(super) fn decode(
    section: &[u8],
    fields: &mut Fields,
    limit: usize,
) -> Result<Result<(), TooLarge>, HpackError> {
    fields.clear();
    let mut at = 0;
    // Neither inserts nor a base: there is no table to count in.
    if integer::read(section, &mut at, 8)? != 0 {
        return Err(HpackError);
    }
    integer::read(section, &mut at, 7)?;
    let mut size = 0_usize;
    while let Some(&first) = section.get(at) {
        let start = fields.bytes().len();
        let (name_len, sensitive) = match first {
            // A whole field of the table; 0x40 says that it is the static one.
            0x80.. => {
                let (name, value) = known(section, &mut at, 6, first & 0x40 != 0)?;
                fields.append(name);
                fields.append(value);
                (name.len(), false)
            }
            // A name of the table.
            0x40..0x80 => {
                let (name, _) = known(section, &mut at, 4, first & 0x10 != 0)?;
                fields.append(name);
                string(section, &mut at, 7, fields)?;
                (name.len(), first & 0x20 != 0)
            }
            0x20..0x40 => {
                string(section, &mut at, 3, fields)?;
                let name_len = fields.bytes().len() - start;
                string(section, &mut at, 7, fields)?;
                (name_len, first & 0x10 != 0)
            }
            // Places behind the base of a dynamic table.
            _ => return Err(HpackError),
        };
        size = size.saturating_add(fields.bytes().len() - start + OVERHEAD);
        if size > limit {
            fields.truncate_bytes(start);
            return Ok(Err(TooLarge));
        }
        fields.mark(start + name_len, sensitive);
    }
    Ok(Ok(()))
}

type Known = (&'static [u8], &'static [u8]);

fn known(section: &[u8], at: &mut usize, prefix: u32, is_static: bool) -> Result<Known, HpackError> {
    let place = integer::read(section, at, prefix)?;
    STATIC.get(place).copied().filter(|_| is_static).ok_or(HpackError)
}

/// Reads a string whose length has a prefix of so many bits, behind the bit that says whether it is coded.
fn string(section: &[u8], at: &mut usize, prefix: u32, fields: &mut Fields) -> Result<(), HpackError> {
    let coded = section.get(*at).ok_or(HpackError)? & (1 << prefix) != 0;
    let length = integer::read(section, at, prefix)?;
    let end = at.checked_add(length).ok_or(HpackError)?;
    let bytes = section.get(*at..end).ok_or(HpackError)?;
    *at = end;
    if coded {
        return huffman::decode(bytes, fields.bytes_mut());
    }
    fields.append(bytes);
    Ok(())
}

/// Writes a section.
pub(super) fn encode(fields: &Fields, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
    for field in fields.iter() {
        let never = u8::from(field.sensitive);
        match find(field.name, field.value) {
            (Some(place), _) if !field.sensitive => integer::write(out, 0xc0, 6, place),
            (_, Some(place)) => {
                integer::write(out, 0x50 | never << 5, 4, place);
                put(field.value, 7, 0, out);
            }
            _ => {
                put(field.name, 3, 0x20 | never << 4, out);
                put(field.value, 7, 0, out);
            }
        }
    }
}

fn put(text: &[u8], prefix: u32, pattern: u8, out: &mut Vec<u8>) {
    let coded = huffman::length(text);
    if coded < text.len() {
        integer::write(out, pattern | 1 << prefix, prefix, coded);
        huffman::encode(text, out);
    } else {
        integer::write(out, pattern, prefix, text.len());
        out.extend_from_slice(text);
    }
}
