//! Reads of regular files.
//!
//! Owns: positioned reads into pooled buffers. Never: opens or stats (that is plain std).
//! Driven by: static file serving. Why: a page-cache read is cheaper done directly than through the ring.

use std::fs::File;
use std::io;

use crate::buf::Buf;

/// Appends up to `limit` bytes of `file` from `offset` to `buf`. `Ok(0)` is the file's end.
pub fn pread_into(file: &File, offset: u64, buf: &mut Buf, limit: usize) -> io::Result<usize> {
    buf.reserve(limit);
    let spare = buf.spare_mut();
    let limit = limit.min(spare.len());
    let read = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut spare[..limit], offset))?;
    buf.commit(read);
    Ok(read)
}
