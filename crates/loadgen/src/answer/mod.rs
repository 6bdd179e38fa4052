//! Answers, read as cheaply as they can be read correctly.
//!
//! Owns: where an answer ends, its status, and whether its connection goes on.
//! Never: keeps a body, unless a script wants it; checks more of a head than those three need.
//! Driven by: `worker`, with whatever has arrived.
//! Why not `weir_http::response`: that is strict about every line, because a proxy answers for what it forwards. A
//! generator wants the end of the answer, and most heads are the same bytes as the one before: those are not read twice.

pub(crate) mod frames;
mod head;
mod reader;

pub(crate) use head::HeadCache;
pub(crate) use reader::{Collected, Fed, Reader};

/// What the peer sent is no HTTP/1 answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Answers come to the same however they arrive.
pub(crate) fn fuzz(data: &[u8]) {
    frames::fuzz(data);
    let Some((first, bytes)) = data.split_first() else { return };
    let (whole, refused) = answers(bytes, bytes.len().max(1));
    let (pieces, refused_early) = answers(bytes, usize::from(first % 64) + 1);
    assert_eq!(whole, pieces, "what is read depends on the pieces");
    // A trailer line that is cut may show its error only at its end.
    assert!(refused || !refused_early, "taken at once, refused in pieces");
}

/// Statuses of the answers in `bytes`, and whether their end was nonsense.
fn answers(bytes: &[u8], step: usize) -> (Vec<u16>, bool) {
    let (mut reader, mut cache, mut found) = (Reader::new(true), HeadCache::default(), Vec::new());
    reader.begin(false);
    for piece in bytes.chunks(step) {
        let mut rest = piece;
        loop {
            match reader.feed(&mut cache, rest) {
                Ok(Fed::More) => break,
                Ok(Fed::Answer { taken, status, .. }) => {
                    found.push(status);
                    rest = &rest[taken..];
                    reader.begin(false);
                    if rest.is_empty() {
                        break;
                    }
                }
                Err(Malformed) => return (found, true),
            }
        }
    }
    (found, false)
}
