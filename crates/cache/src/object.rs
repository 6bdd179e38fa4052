//! Objects, read from their files.
//!
//! Owns: what a reader gets, and reading it.
//! Never: believes a file: its checksums, lengths and name have to fit.
//! Driven by: the store's threads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::record::{FIXED, Fixed, Meta, Texts};

/// Bodies up to this size are read into memory.
const SMALL: u64 = 128 << 10;

/// The body of an object.
#[derive(Debug)]
pub enum Body {
    /// All of it.
    Memory(Box<[u8]>),
    /// In a file, from this byte on.
    File(File, u64),
}

/// An object, read.
#[derive(Debug)]
pub struct Object {
    /// Its version; see [`crate::Lookup::Stored`].
    pub version: u32,
    /// What is known of it.
    pub meta: Meta,
    /// Names of the request's fields that it varies by, as they were given.
    pub vary: Box<[u8]>,
    /// Its head, as it was given.
    pub head: Box<[u8]>,
    /// Its body.
    pub body: Body,
    /// Bytes of the body.
    pub length: u64,
}

/// What came of reading.
#[derive(Debug)]
pub enum Loaded {
    /// The object.
    Object(Box<Object>),
    /// There is none, or it was broken and is dropped.
    Missing,
}

/// Reads an object; `None`: the file is broken, or another name's. Also the length of the file.
pub(crate) fn read(path: &Path, name: &[u8], version: u32) -> io::Result<Option<(Object, u64)>> {
    let file = open(path, false)?;
    let length = file.metadata()?.len();
    let Some((fixed, texts)) = read_texts(&file, length)? else { return Ok(None) };
    let Some(parts) = Texts::parse(&fixed, &texts, name) else { return Ok(None) };
    let (vary, head) = (parts.vary.into(), parts.head.into());
    let body = if fixed.body <= SMALL {
        let mut bytes = vec![0; fixed.body as usize];
        file.read_exact_at(&mut bytes, fixed.body_at())?;
        if crc32fast::hash(&bytes) != fixed.body_sum {
            return Ok(None);
        }
        Body::Memory(bytes.into())
    } else {
        Body::File(file, fixed.body_at())
    };
    let object = Object { version, length: fixed.body, meta: fixed.meta, vary, head, body };
    Ok(Some((object, length)))
}

/// The first part and the texts of a file of this length; `None`: it is broken.
pub(crate) fn read_texts(file: &File, length: u64) -> io::Result<Option<(Fixed, Vec<u8>)>> {
    if length < FIXED as u64 {
        return Ok(None);
    }
    let mut first = [0; FIXED];
    file.read_exact_at(&mut first, 0)?;
    let Some(fixed) = Fixed::parse(&first) else { return Ok(None) };
    if fixed.body_at().checked_add(fixed.body) != Some(length) {
        return Ok(None);
    }
    let mut texts = vec![0; (fixed.body_at() - FIXED as u64) as usize];
    file.read_exact_at(&mut texts, FIXED as u64)?;
    Ok(Some((fixed, texts)))
}

/// Opens an object's file. A link is none.
pub(crate) fn open(path: &Path, write: bool) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
    let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}
