//! The number by which a client is told apart from others, as far as a request knows it.

use std::cell::Cell;

/// Its words, as they lie in memory.
pub(crate) type UserNumber = [u32; 4];

/// What a request knows.
pub(crate) struct UserId {
    /// What the client's cookie says; the last word is 0 if it says nothing.
    pub(crate) got: UserNumber,
    /// The cookie as it came.
    pub(crate) cookie: Box<[u8]>,
    /// What the client gets.
    pub(crate) given: Cell<Option<GivenId>>,
}

/// A number that a client gets.
#[derive(Clone, Copy)]
pub(crate) struct GivenId {
    /// The number.
    pub(crate) number: UserNumber,
    /// It is a new one: the client had none, or had one that is not to hold any more.
    pub(crate) is_new: bool,
}
