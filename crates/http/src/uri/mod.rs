//! Paths and queries: decoding, normalising, escaping, looking up.
//!
//! Owns: nginx's readings of a URI, since its files match locations against them.
//! Never: decides what a path may reach; it only makes one path of all its spellings.

pub mod escape;
pub mod normalize;
pub mod normalizers;
pub mod query;
pub mod resolve;

pub use escape::{Escape, escape, unescape};
pub use normalize::{UriError, internal_target, is_unsafe, normalize};
pub use resolve::{decode_unreserved, resolve_dots};
