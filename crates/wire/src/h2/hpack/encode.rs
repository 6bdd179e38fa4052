//! Header lists to header blocks.
//!
//! Owns: our dynamic table, and which fields enter it.
//! Never: puts a sensitive field into a table, ours or a further one's (RFC 7541 §7.1.3).
//! Driven by: `send`.
//! Why the last block is remembered: on a busy connection the same list comes again and again, and once all of it stands
//! in the table its block is the same bytes.

use super::table::{OVERHEAD, Table, find_static};
use super::{TABLE_SIZE, huffman, integer};
use crate::h2::fields::Fields;

/// Writes the blocks of one connection.
pub(crate) struct Encoder {
    table: Table,
    /// The smallest size that was asked for since the last block, and the last one: both are to be told.
    resized: Option<(usize, usize)>,
    block: Vec<u8>,
    last: Fields,
    /// The table's generation under which `block` is that of `last` for good.
    lasting: Option<u64>,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        Self {
            table: Table::new(TABLE_SIZE),
            resized: None,
            block: Vec::new(),
            last: Fields::new(),
            lasting: None,
        }
    }

    /// The peer keeps a table of this size at most.
    pub(crate) fn limit(&mut self, size: usize) {
        let size = size.min(TABLE_SIZE);
        if size != self.table.max() || self.resized.is_some() {
            let least = self.resized.map_or(size, |(least, _)| least.min(size));
            self.resized = Some((least, size));
        }
    }

    /// The block of `fields`.
    pub(crate) fn encode(&mut self, fields: &Fields) -> &[u8] {
        if self.resized.is_none() && self.lasting == Some(self.table.generation()) && self.last == *fields {
            return &self.block;
        }
        self.block.clear();
        if let Some((least, size)) = self.resized.take() {
            if least < size {
                integer::write(&mut self.block, 0x20, 5, least);
                self.table.resize(least);
            }
            integer::write(&mut self.block, 0x20, 5, size);
            self.table.resize(size);
            // Told once: this block must not be sent again.
            self.lasting = None;
            self.fields(fields);
            return &self.block;
        }
        let before = self.table.generation();
        self.fields(fields);
        self.lasting = (self.table.generation() == before).then_some(before);
        if self.lasting.is_some() {
            self.last.clone_from(fields);
        }
        &self.block
    }

    fn fields(&mut self, fields: &Fields) {
        for field in fields.iter() {
            self.field(field.name, field.value, field.sensitive);
        }
    }

    fn field(&mut self, name: &[u8], value: &[u8], sensitive: bool) {
        let out = &mut self.block;
        let (whole, named) = find_static(name, value);
        if let (Some(place), false) = (whole, sensitive) {
            return integer::write(out, 0x80, 7, place);
        }
        let once = sensitive || is_seldom_the_same(name);
        let (whole, named) = if named.is_some() && once {
            (None, named)
        } else {
            let (whole, other) = self.table.find(name, value);
            (whole, named.or(other))
        };
        if let (Some(place), false) = (whole, sensitive) {
            return integer::write(out, 0x80, 7, place);
        }
        // What would push out half of all others is not worth its place.
        let insert = !once && name.len() + value.len() + OVERHEAD <= self.table.max() / 2;
        let (pattern, prefix) = match (insert, sensitive) {
            (true, _) => (0x40, 6),
            (_, true) => (0x10, 4),
            _ => (0x00, 4),
        };
        integer::write(out, pattern, prefix, named.unwrap_or(0));
        if named.is_none() {
            string(name, out);
        }
        string(value, out);
        if insert {
            self.table.insert(name, value);
        }
    }
}

/// Fields whose next value is another one: in the table they would only push out others.
fn is_seldom_the_same(name: &[u8]) -> bool {
    matches!(
        name,
        b":path"
            | b"age"
            | b"content-length"
            | b"content-range"
            | b"etag"
            | b"if-modified-since"
            | b"if-none-match"
            | b"last-modified"
            | b"location"
            | b"range"
            | b"set-cookie"
            | b"x-request-id"
    )
}

fn string(text: &[u8], out: &mut Vec<u8>) {
    let coded = huffman::length(text);
    if coded < text.len() {
        integer::write(out, 0x80, 7, coded);
        huffman::encode(text, out);
    } else {
        integer::write(out, 0, 7, text.len());
        out.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Decoder, Fit};
    use super::*;
    use proptest::prelude::*;

    fn list(fields: &[(&str, &str)]) -> Fields {
        let mut list = Fields::new();
        for (name, value) in fields {
            list.push(name.as_bytes(), value.as_bytes());
        }
        list
    }

    #[test]
    fn a_list_that_comes_again_is_a_few_bytes() {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        let fields =
            list(&[(":status", "200"), ("server", "weir"), ("content-type", "text/html"), ("x-a", "b")]);
        let mut sizes = Vec::new();
        for _ in 0..3 {
            let block = encoder.encode(&fields).to_vec();
            let mut back = Fields::new();
            assert_eq!(decoder.decode(&block, &mut back, 4096), Ok(Fit::Whole));
            assert_eq!(back, fields);
            sizes.push(block.len());
        }
        assert!(sizes[0] > 20 && sizes[1..] == [4, 4], "{sizes:?}");
        // Another list, and the first one again.
        let other = list(&[(":status", "404"), ("x-new", "1")]);
        for fields in [&other, &fields, &other, &fields] {
            let block = encoder.encode(fields).to_vec();
            let mut back = Fields::new();
            assert_eq!(decoder.decode(&block, &mut back, 4096), Ok(Fit::Whole));
            assert_eq!(&back, fields);
        }
    }

    #[test]
    fn sensitive_fields_enter_no_table() {
        let mut encoder = Encoder::new();
        let mut fields = Fields::new();
        fields.push_sensitive(b"authorization", b"Basic eA==");
        for _ in 0..2 {
            // 0001xxxx: never indexed, the name from the static table.
            assert_eq!(encoder.encode(&fields)[..2], [0x1f, 23 - 15]);
        }
        let mut back = Fields::new();
        assert_eq!(Decoder::new().decode(encoder.encode(&fields), &mut back, 4096), Ok(Fit::Whole));
        assert!(back.iter().all(|field| field.sensitive));
    }

    #[test]
    fn lists_have_a_bound_and_the_table_follows_all_the_same() {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        let fields = list(&[("x-a", "1"), ("x-b", "2"), ("x-c", "3")]);
        let mut back = Fields::new();
        let block = encoder.encode(&fields).to_vec();
        assert_eq!(decoder.decode(&block, &mut back, 80), Ok(Fit::TooLarge));
        let block = encoder.encode(&fields).to_vec();
        assert_eq!(decoder.decode(&block, &mut back, 4096), Ok(Fit::Whole));
        assert_eq!(back, fields);
    }

    #[test]
    fn bad_blocks_are_refused() {
        for bad in [
            &[0x80][..],               // place 0
            &[0xbe],                   // a place in an empty table
            &[0x40],                   // no name
            &[0x00, 0x05, b'a'],       // a string that is cut
            &[0x82, 0x3f, 0xe1, 0x1f], // a size update behind a field
            &[0x3f, 0xe2, 0x1f],       // a table of 4,097 bytes
        ] {
            let mut back = Fields::new();
            assert!(Decoder::new().decode(bad, &mut back, 4096).is_err(), "{bad:x?}");
        }
    }

    fn any_list() -> impl Strategy<Value = Vec<(String, String, bool)>> {
        let name = prop_oneof!["[a-z-]{1,12}", Just("content-type".to_owned()), Just(":path".to_owned())];
        proptest::collection::vec((name, "[ -~]{0,40}", proptest::bool::weighted(0.1)), 0..12)
    }

    proptest! {
        #[test]
        fn every_list_comes_back(lists in proptest::collection::vec((any_list(), proptest::option::of(0..5000_usize)), 1..12)) {
            let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
            for (list, limit) in lists {
                let mut fields = Fields::new();
                for (name, value, sensitive) in &list {
                    if *sensitive {
                        fields.push_sensitive(name.as_bytes(), value.as_bytes());
                    } else {
                        fields.push(name.as_bytes(), value.as_bytes());
                    }
                }
                if let Some(limit) = limit {
                    encoder.limit(limit);
                }
                for _ in 0..2 {
                    let block = encoder.encode(&fields).to_vec();
                    let mut back = Fields::new();
                    prop_assert_eq!(decoder.decode(&block, &mut back, 1 << 20), Ok(Fit::Whole));
                    prop_assert_eq!(&back, &fields);
                }
            }
        }

        #[test]
        fn any_bytes_end(block: Vec<u8>, limit in 0..2000_usize) {
            let mut back = Fields::new();
            let _ = Decoder::new().decode(&block, &mut back, limit);
            prop_assert!(back.iter().map(|f| f.name.len() + f.value.len() + 32).sum::<usize>() <= limit);
        }
    }
}
