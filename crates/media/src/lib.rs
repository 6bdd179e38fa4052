//! Seeking in videos: what is sent of a file from a given time, or byte, on.
//!
//! Owns: the boxes of MP4 files (ISO/IEC 14496-12) as far as their tables of samples go, and the header of FLV files.
//! Never: opens a file or waits: it says what it wants to read, and is given it.
//! Driven by: `engine::action::files`, for locations whose videos may be begun anywhere.
//! Why: no library writes the tables of a file anew without its media data in memory. What is read is bounded: the
//! tables by a setting, all else by a few bytes.

#![forbid(unsafe_code)]

pub mod flv;
#[doc(hidden)]
pub mod fuzzing;
pub mod mp4;
