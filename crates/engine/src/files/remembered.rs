//! Responses that a cache in memory keeps.
//!
//! Owns: one response: its head, its body, for which requests it may be used.
//! Never: decides whether it is kept or used: `eval::memory` does.
//! Driven by: rules that look things up in such a cache, and those that put things in.

use std::sync::Arc;

use weir_cache::{Keepable, Key};
use weir_http::ResponseHead;

use super::objects::stored_head;

/// Fields of requests that a response may vary by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VariesBy {
    /// Accept-Encoding: it is for whoever takes its codings.
    pub(crate) encoding: bool,
    /// Referer: it is for this one.
    pub(crate) referer: bool,
    /// Origin: it is for this one.
    pub(crate) origin: bool,
}

/// Of the requests that a response varies by, those it may be used for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variant {
    /// Which fields decide.
    pub(crate) by: VariesBy,
    /// Codings that the client has to take, in lower case.
    pub(crate) codings: Vec<Box<[u8]>>,
    /// The Referer, where that decides.
    pub(crate) referer: Option<Box<[u8]>>,
    /// The Origin, where that decides.
    pub(crate) origin: Option<Box<[u8]>>,
}

impl Variant {
    /// A number that stands for it; 0: the response does not vary.
    pub(crate) fn number(&self) -> u64 {
        if self.by == VariesBy::default() {
            return 0;
        }
        let coded = self.codings.iter().map(|coding| &**coding);
        let values = [&self.referer, &self.origin].map(|value| value.as_deref().unwrap_or_default());
        let [a, b, c, d, e, f, g, h, ..] = *Key::of_parts(coded.chain(values)).bytes();
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

/// A response.
pub(crate) struct Remembered {
    /// For which requests.
    pub(crate) variant: Variant,
    /// Second since 1970 when it came.
    pub(crate) stored: u64,
    /// Second since 1970 from which it is not used any more.
    expires: u64,
    /// Its age in seconds when it came.
    pub(crate) age: u64,
    head: Box<[u8]>,
    parsed: ResponseHead,
    /// Its body.
    pub(crate) body: Arc<[u8]>,
}

impl Remembered {
    /// Of a head that came `stored` and is used up to `expires`, and a body. `None`: the head is none.
    pub(crate) fn new(
        variant: Variant,
        (stored, age, expires): (u64, u64, u64),
        head: Vec<u8>,
        body: Vec<u8>,
    ) -> Option<Self> {
        let parsed = stored_head(&head)?;
        Some(Self { variant, stored, expires, age, head: head.into(), parsed, body: body.into() })
    }

    /// Its head.
    pub(crate) fn head(&self) -> (&[u8], weir_http::Response<'_>) {
        (&self.head, self.parsed.view(&self.head))
    }
}

impl Keepable for Remembered {
    fn size(&self) -> u64 {
        (self.head.len() + self.body.len()) as u64
    }

    fn expires(&self) -> u64 {
        self.expires
    }

    fn replaces(&self, other: &Self) -> bool {
        self.variant == other.variant
    }

    fn is_chosen_as(&self, other: &Self) -> bool {
        self.variant.by == other.variant.by
    }
}
