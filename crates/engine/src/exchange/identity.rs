//! Who sends a request, as far as tokens say.
//!
//! Owns: the token that was read last, and the one that held.
//! Driven by: `eval::tokens`.
//! Why shared: requests of our own for an exchange know what it knows.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::Exchange;

/// What is known of it.
#[derive(Default)]
pub(crate) struct Identity {
    /// The token that was read last.
    pub(crate) token: RefCell<Option<Rc<Token>>>,
}

/// A token, read.
pub(crate) struct Token {
    /// As it came.
    pub(crate) text: Vec<u8>,
    /// Its header.
    pub(crate) header: Map<String, Value>,
    /// What it claims; `None`: it is encrypted and was not opened, or claims nothing that is an object.
    pub(crate) claims: Option<Map<String, Value>>,
    /// The claims as they came; of a nested token what is signed in it.
    pub(crate) payload: Vec<u8>,
}

impl Exchange {
    /// What is known of who sends it, to be read and noted.
    pub(crate) fn identity(&self) -> &Rc<Identity> {
        self.identity.get_or_init(Rc::default)
    }
}
