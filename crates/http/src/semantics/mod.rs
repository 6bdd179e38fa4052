//! What messages mean, beyond their framing: RFC 9110 chapters 8, 12, 13 and 14.
//!
//! Owns: validators, conditions, ranges, content coding choice, and what is said of caching.
//! Never: opens a file or knows what is served.

pub mod accept;
pub mod caching;
pub mod conditional;
pub mod content_type;
pub mod etag;
pub mod range;
mod source;

pub use conditional::{Conditions, IfModifiedSince, Outcome, Validators};
pub use etag::ETag;
pub use range::{ByteRange, Ranges};
pub use source::FieldSource;
