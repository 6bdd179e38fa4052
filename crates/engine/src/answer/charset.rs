//! Charsets of responses: saying them, and converting bodies.
//!
//! Owns: deciding on both (nginx's charset module), and the conversion, which sees characters that lie across pieces.
//! Driven by: `answer::filters`.

use weir_http::HeaderId;
use weir_plan::{Charset, Conversion};

use super::entity;
use crate::eval::text;
use crate::exchange::{BodyFilter, BodySize, Exchange, Then, errors};

/// A conversion under way.
struct Converter {
    by: Conversion,
    /// The beginning of a character.
    held: Vec<u8>,
    out: Vec<u8>,
}

/// A character of UTF-8 at the beginning of a text.
enum Character {
    /// Its number and length.
    Whole(u32, usize),
    /// No character: so many bytes are none.
    Wrong(usize),
    /// More has to come first.
    Cut,
}

/// Reads as nginx does: what breaks a character off goes with it.
fn character(text: &[u8]) -> Character {
    let Some(&first) = text.first() else { return Character::Cut };
    let (bits, length, least) = match first {
        0..0x80 => return Character::Whole(u32::from(first), 1),
        0xc0..0xe0 => (u32::from(first & 0x1f), 2, 0x80),
        0xe0..0xf0 => (u32::from(first & 0x0f), 3, 0x800),
        0xf0..0xf8 => (u32::from(first & 0x07), 4, 0x1_0000),
        _ => return Character::Wrong(1),
    };
    if text.len() < length {
        return Character::Cut;
    }
    let mut number = bits;
    for (n, &byte) in text[1..length].iter().enumerate() {
        if byte < 0x80 {
            return Character::Wrong(n + 2);
        }
        number = number << 6 | u32::from(byte & 0x3f);
    }
    if number >= least && number <= 0x10_ffff {
        Character::Whole(number, length)
    } else {
        Character::Wrong(length)
    }
}

impl BodyFilter for Converter {
    fn pass<'a>(&'a mut self, piece: &'a [u8], then: Then) -> &'a [u8] {
        self.out.clear();
        match &self.by {
            Conversion::Bytes(table) => self.out.extend(piece.iter().map(|&byte| table[usize::from(byte)])),
            Conversion::ToUtf8(table) => {
                piece.iter().for_each(|&byte| self.out.extend_from_slice(&table[usize::from(byte)]));
            }
            Conversion::FromUtf8(table) => {
                self.held.extend_from_slice(piece);
                let mut at = 0;
                while at < self.held.len() {
                    match character(&self.held[at..]) {
                        Character::Whole(number, length) => {
                            at += length;
                            match table.get(&number) {
                                Some(&byte) => self.out.push(byte),
                                None => self.out.extend_from_slice(format!("&#{number};").as_bytes()),
                            }
                        }
                        Character::Wrong(length) => {
                            at += length;
                            self.out.push(b'?');
                        }
                        Character::Cut if then == Then::End => {
                            self.out.push(b'?');
                            at = self.held.len();
                        }
                        Character::Cut => break,
                    }
                }
                self.held.drain(..at);
            }
        }
        &self.out
    }

    fn step(&self) -> usize {
        16 << 10
    }
}

/// The media type, and the charset that it names.
fn split(content_type: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut parts = content_type.split(|&byte| byte == b';');
    let media_type = parts.next().unwrap_or_default().trim_ascii();
    let named = parts.find_map(|part| {
        let (name, value) = part.trim_ascii().split_at_checked(8)?;
        name.eq_ignore_ascii_case(b"charset=").then(|| value.trim_ascii_end())
    });
    let named = named.map(|value| value.strip_prefix(b"\"").unwrap_or(value));
    (media_type, named.map(|value| value.strip_suffix(b"\"").unwrap_or(value)))
}

/// Decides on both; the size that the body then has.
pub(super) fn begin(exchange: &mut Exchange, size: BodySize) -> BodySize {
    let installed = exchange.installed.clone();
    let filters = &installed.plan.route(exchange.route).settings.filters;
    let Some(charset) = filters.as_ref().and_then(|filters| filters.charset.as_ref()) else { return size };
    let Some((content_type, way)) = judge(exchange, charset) else { return size };
    let fields = &mut exchange.response.fields;
    fields.remove(HeaderId::ContentType);
    fields.push_id(HeaderId::ContentType, &content_type);
    let Some(by) = way else { return size };
    let keeps_length = matches!(by, Conversion::Bytes(_));
    if !keeps_length {
        entity::drop_length(exchange);
    }
    if size == BodySize::Bodiless {
        return size;
    }
    exchange.filters.push(Box::new(Converter { by, held: Vec::new(), out: Vec::new() }));
    if keeps_length { size } else { BodySize::Unknown }
}

/// The Content-Type that the response is to have, and how its body is converted. `None`: both stay as they are.
fn judge(exchange: &Exchange, charset: &Charset) -> Option<(Vec<u8>, Option<Conversion>)> {
    let fields = &exchange.response.fields;
    // Of old, a browser took the charset of a redirect for that of the page it led to: nginx says none there.
    if matches!(exchange.response.status, 204 | 301 | 302 | 304) {
        return None;
    }
    let content_type = fields.first(HeaderId::ContentType).filter(|value| !value.is_empty())?;
    let (media_type, named) = split(content_type);
    if named.is_some() && !charset.overrides || named.is_none() && !charset.types.take(Some(media_type)) {
        return None;
    }
    let to = text(exchange, &charset.name);
    if to.is_empty() || to == b"off" || !is_name(&to) {
        return None;
    }
    let from = match (named, &charset.source) {
        (Some(named), _) => named.to_vec(),
        (None, Some(source)) => text(exchange, source),
        (None, None) => Vec::new(),
    };
    let said = [media_type, b"; charset=", &to].concat();
    if from.is_empty() || from == b"off" || from.eq_ignore_ascii_case(&to) {
        return Some((said, None));
    }
    if fields.has(HeaderId::ContentEncoding) {
        return None;
    }
    let way = charset.maps.iter().find_map(|map| map.way(&from, &to));
    if way.is_none() {
        let (from, to) = (from.escape_ascii(), to.escape_ascii());
        errors::error(exchange, &format!("no \"charset_map\" between the charsets \"{from}\" and \"{to}\""));
    }
    Some((said, Some(way?.clone())))
}

/// A charset that may stand in a field: what a variable came to may hold anything.
fn is_name(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:+".contains(byte))
}

/// Whether a file of this media type may be converted to a body of another length.
pub(super) fn may_convert(charset: &Charset, content_type: Option<&[u8]>) -> bool {
    !charset.maps.is_empty() && charset.source.is_some() && charset.types.take(content_type)
}

#[cfg(test)]
mod tests {
    use weir_plan::CharsetMap;

    use super::*;

    fn converted(map: &CharsetMap, from: &str, to: &str, text: &[u8]) -> Vec<u8> {
        let by = map.way(from.as_bytes(), to.as_bytes()).unwrap().clone();
        let made = |step: usize| {
            let mut converter = Converter { by: by.clone(), held: Vec::new(), out: Vec::new() };
            let mut out = Vec::new();
            for piece in text.chunks(step) {
                out.extend_from_slice(converter.pass(piece, Then::More));
                assert!(converter.held.len() < 4);
            }
            out.extend_from_slice(converter.pass(b"", Then::End));
            out
        };
        (1..text.len()).for_each(|step| assert_eq!(made(step), made(text.len())));
        made(text.len())
    }

    #[test]
    fn text_is_converted_both_ways_and_across_pieces() {
        let map = CharsetMap::new("win", "utf-8", [(0x80, "€".as_bytes()), (0xe4, "ä".as_bytes())]);
        assert_eq!(converted(&map, "WIN", "UTF-8", b"a\x80\xe4\xff"), "a€ä?".as_bytes());
        assert_eq!(converted(&map, "utf-8", "win", "a€äж\u{1f600}".as_bytes()), b"a\x80\xe4&#1078;&#128512;");
        assert_eq!(converted(&map, "utf-8", "win", b"\xe2\x82a\xff\xc0\x80\xe2\x82"), b"?????"[..4].to_vec());
        let bytes = CharsetMap::new("a", "b", [(0xe4, &b"\xc0"[..])]);
        assert_eq!(converted(&bytes, "a", "b", b"x\xe4\xc0"), b"x\xc0?");
        assert_eq!(converted(&bytes, "b", "a", b"x\xc0"), b"x\xe4");
        assert!(bytes.way(b"a", b"c").is_none());
    }

    #[test]
    fn a_charset_is_found_among_parameters() {
        assert_eq!(split(b"text/html; a=b; Charset=\"koi8-r\""), (&b"text/html"[..], Some(&b"koi8-r"[..])));
        assert_eq!(split(b"text/html"), (&b"text/html"[..], None));
    }
}
