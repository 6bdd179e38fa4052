//! The slice of a response that a request asks of its upstream: nginx's slice module.
//!
//! Owns: where it begins; what the response to it has to be.
//! Driven by: `$slice_range`, wherever it is evaluated: a request whose settings do not is asked for as it came.

use weir_http::HeaderId;
use weir_http::semantics::FieldSource as _;
use weir_http::semantics::range::{self, ByteRange, Ranges, content_range};

use super::{Exchange, Response};

/// A slice that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    /// Its first byte.
    pub(crate) start: u64,
    /// The request is for this slice alone, for another one's response.
    pub(crate) is_part: bool,
    /// How often the variable was evaluated.
    uses: u32,
}

impl Slice {
    /// A request for this slice alone.
    pub(crate) fn part(start: u64) -> Self {
        Self { start, is_part: true, uses: 0 }
    }
}

/// A slice of a response whose first one is here: what its response has to be.
pub(crate) struct Further {
    /// Its bytes.
    pub(crate) range: ByteRange,
    /// The length of the whole.
    pub(crate) total: u64,
    /// The validator of the whole.
    pub(crate) etag: Option<Box<[u8]>>,
}

impl Further {
    /// What is wrong with a response in this one's place.
    pub(crate) fn fault(&self, response: &Response) -> Option<String> {
        if response.status != 206 {
            return Some(format!("unexpected status code {} in slice response", response.status));
        }
        if self.etag.is_some() && response.fields.first(HeaderId::ETag) != self.etag.as_deref() {
            return Some("etag mismatch in slice response".into());
        }
        response.slice(self.range.start, self.range.len(), Some(self.total)).err()
    }
}

impl Response {
    /// The length of the whole of which this is the slice that begins here and has `most` bytes, the last one fewer; `total`,
    /// if that is known.
    ///
    /// # Errors
    /// It is another slice, or none: nginx's words.
    pub(crate) fn slice(&self, start: u64, most: u64, total: Option<u64>) -> Result<u64, String> {
        let Some((range, whole)) = self.fields.first(HeaderId::ContentRange).and_then(content_range) else {
            return Err("invalid range in slice response".into());
        };
        let Some(whole) = whole else { return Err("no complete length in slice response".into()) };
        let end = whole.min(start.saturating_add(most));
        if range.start != start || range.end != end || total.is_some_and(|total| total != whole) {
            return Err(format!("unexpected range in slice response: {}-{}", range.start, range.end));
        }
        Ok(whole)
    }
}

impl Exchange {
    /// The slice that is asked of the upstream now, which is noted. The last one may be longer than what is there. `None`:
    /// responses are asked for whole.
    pub(crate) fn ask_for_slice(&self) -> Option<ByteRange> {
        let size = self.slice_size()?;
        let first = || Slice { start: self.first_wanted() / size * size, is_part: false, uses: 0 };
        let slice = self.slice.get().unwrap_or_else(first);
        self.slice.set(Some(Slice { uses: slice.uses.saturating_add(1), ..slice }));
        Some(ByteRange { start: slice.start, end: slice.start.saturating_add(size) })
    }

    /// How often [`Self::ask_for_slice`] was asked.
    pub(crate) fn slice_uses(&self) -> u32 {
        self.slice.get().map_or(0, |slice| slice.uses)
    }

    /// Bytes of a slice.
    pub(crate) fn slice_size(&self) -> Option<u64> {
        self.route_if_any()?.settings.slice.map(u64::from)
    }

    /// The byte that the request's range begins with, if it has one that counts whatever the response.
    fn first_wanted(&self) -> u64 {
        let fields = &self.request.fields;
        let value = fields
            .first(HeaderId::Range)
            .filter(|_| !fields.has(HeaderId::IfRange) && !fields.repeats(HeaderId::Range));
        let from_its_end =
            |value: &[u8]| value.get(6..).is_none_or(|spec| spec.trim_ascii().starts_with(b"-"));
        match value.filter(|value| !from_its_end(value)).map(|value| range::parse(value, u64::MAX, 1)) {
            Some(Ranges::One(range)) => range.start,
            _ => 0,
        }
    }
}
