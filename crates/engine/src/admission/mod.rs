//! Who gets in, and how fast.

pub(crate) mod access;
pub(crate) mod limits;
