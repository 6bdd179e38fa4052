//! What must hold for any file: looking through it comes to an end, and what is sent of it lies in it.
//!
//! Owns: the property. Never: makes inputs; `cargo xtask fuzz` does.

use crate::mp4::{Asked, Seek};

/// Most bytes of the tables.
const MOST: u64 = 1 << 16;

/// A file behind four bytes that say what is asked for.
pub fn mp4(data: &[u8]) {
    let Some((asked, file)) = data.split_first_chunk::<4>() else { return };
    let length = (asked[2] > 0).then(|| u64::from(asked[2]) * 100);
    let start = u64::from(u16::from_be_bytes([asked[0], asked[1]]));
    let asked = Asked { start, length, from_key_frame: asked[3] & 1 == 1 };
    let size = file.len() as u64;
    let mut seek = Seek::new(size, MOST, asked);
    while let Some((at, wanted)) = seek.poll_read() {
        let bytes = usize::try_from(at).ok().and_then(|at| file.get(at..)?.get(..wanted));
        let bytes = bytes.expect("what is wanted lies in the file");
        if seek.handle_read(bytes).is_err() {
            return;
        }
    }
    let Ok(cut) = seek.cut() else { return };
    assert!(cut.from <= cut.to && cut.to <= size, "{cut:?} of {size}");
    // Tables are written anew, with a few entries more at most.
    assert!(cut.head.len() as u64 <= 4 * size + 4096, "{} of {size}", cut.head.len());
}

/// Good input.
#[must_use]
pub fn samples() -> Vec<Vec<u8>> {
    let file = |tables_first| crate::mp4::example(tables_first);
    let asked = |start: u16, length: u8, key: u8, file: Vec<u8>| {
        [&start.to_be_bytes()[..], &[length, key], &file].concat()
    };
    vec![asked(0, 0, 0, file(true)), asked(1500, 10, 1, file(false)), asked(700, 3, 0, file(true))]
}
