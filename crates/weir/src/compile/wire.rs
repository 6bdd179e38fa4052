//! Bytes of the parcel that the keeper hands to the data plane: numbers and byte strings, nothing else.
//!
//! Owns: the encoding: a number is eight bytes little-endian, a byte string its length and itself, a list its
//! length and its items.
//! Never: trusts a length beyond the input.
//! Driven by: `compile::store`, `keeper::parcel`.

/// Appends.
#[derive(Default)]
pub(crate) struct Writer {
    out: Vec<u8>,
}

impl Writer {
    pub(crate) fn number(&mut self, number: u64) {
        self.out.extend_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    pub(crate) fn list<I>(&mut self, items: I, mut each: impl FnMut(&mut Self, I::Item))
    where
        I: IntoIterator,
        I::IntoIter: ExactSizeIterator,
    {
        let items = items.into_iter();
        self.number(items.len() as u64);
        items.for_each(|item| each(self, item));
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.out
    }
}

/// Takes from the front; `None` at the end or at nonsense.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(input: &'a [u8]) -> Self {
        Self { rest: input }
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let (first, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*first))
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (first, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(first)
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }
}
