//! What must hold for any bytes of a peer.
//!
//! Owns: the properties, and good input to spoil. Never: makes inputs; `cargo xtask fuzz` and the tests do.
//! The first byte of an input says in what pieces the rest arrives: what is told must not depend on it.

use weir_rt::Buf;

use super::{Item, OneWay, Opened, RequestReader, data_head, head, settings};
use crate::h2::Fields;

/// A target: a function that panics where a property does not hold.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, Target)] = &[("h3_request", request), ("h3_one_way", one_way)];

/// What a list may measure here.
const LIST: usize = 4096;

/// A request's stream that carries `data`.
pub fn request(data: &[u8]) {
    let Some((&size, bytes)) = data.split_first() else { return };
    let whole = told(bytes, bytes.len().max(1));
    assert_eq!(told(bytes, usize::from(size).max(1)), whole, "pieces make a difference");
}

/// What a stream says that arrives in pieces of this size.
fn told(bytes: &[u8], size: usize) -> (Vec<u8>, String) {
    let (mut reader, mut input, mut body) = (RequestReader::new(LIST), Buf::new(), Buf::new());
    let mut said = String::new();
    for piece in bytes.chunks(size) {
        input.extend(piece);
        loop {
            match reader.read(&mut input, &mut body) {
                Ok(Item::More) => break,
                Ok(Item::Data) => {}
                Ok(Item::TooLarge) => return (body.to_vec(), said + "too large"),
                Ok(item) => {
                    let list = reader.head().fields().map(|field| field.name.len() + field.value.len() + 32);
                    assert!(list.sum::<usize>() <= LIST);
                    said += &format!("{item:?} ");
                }
                Err(fault) => return (Vec::new(), format!("{said}{fault:?}")),
            }
        }
        assert!(input.len() <= LIST + 16, "more is kept than a head may measure");
    }
    said += &format!("{:?}", reader.end(&input));
    (body.to_vec(), said)
}

/// A stream of one direction that carries `data`.
pub fn one_way(data: &[u8]) {
    let Some((&size, bytes)) = data.split_first() else { return };
    let (mut stream, mut input, mut opened) = (OneWay::default(), Buf::new(), Opened::default());
    for piece in bytes.chunks(usize::from(size).max(1)) {
        input.extend(piece);
        if stream.read(&mut input, &mut opened).is_err() {
            return;
        }
        assert!(input.len() <= 4096 + 16 + 255, "more is kept than settings may measure");
    }
    let _ = stream.end();
}

/// Good inputs of a target.
#[must_use]
pub fn corpus(target: &str) -> Vec<Vec<u8>> {
    let mut fields = Fields::new();
    let list: [(&[u8], &[u8]); 6] = [
        (b":method", b"POST"),
        (b":scheme", b"https"),
        (b":authority", b"example.org"),
        (b":path", b"/a?b"),
        (b"content-length", b"5"),
        (b"x-some", b"thing else"),
    ];
    list.iter().for_each(|(name, value)| fields.push(name, value));
    let mut one = vec![7];
    if target == "h3_request" {
        head(&mut one, &fields);
        data_head(&mut one, 5);
        one.extend_from_slice(b"hello");
        let mut trailers = Fields::new();
        trailers.push(b"x-sum", b"1");
        head(&mut one, &trailers);
    } else {
        settings(&mut one, 4096);
        super::write::goaway(&mut one, 4);
        return vec![one, vec![3, 2, 0x20, 0x20], vec![3, 3, 0x44, 0x7f, 0x80, 0x01]];
    }
    vec![one]
}
