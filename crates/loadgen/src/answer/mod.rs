//! Answers, read as cheaply as they can be read correctly.
//!
//! Owns: where an answer ends, its status, and whether its connection goes on.
//! Never: keeps a body, unless a script wants it; checks more of a head than those three need.
//! Driven by: `worker`, with whatever has arrived.
//! Why not `weir_http::response`: that is strict about every line, because a proxy answers for what it forwards. A
//! generator wants the end of the answer, and most heads are the same bytes as the one before: those are not read twice.

mod head;
mod reader;

pub(crate) use head::HeadCache;
pub(crate) use reader::{Collected, Fed, Reader};

/// What the peer sent is no HTTP/1 answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;
