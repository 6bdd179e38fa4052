//! What changes a body on its way to the client.
//!
//! Owns: the filters of one answer, in order.
//! Never: decides which apply; `answer::filters` has the list.
//! Driven by: the responder, with each piece.
//! Why: most answers have none, and ask once whether the list is empty.

use weir_http::semantics::range::ByteRange;

use super::Response;
use super::slice::Further;

/// What is asked of a filter beside taking a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// More follows: it may hold back what it likes.
    More,
    /// What it was given so far is to be readable to the client.
    Flush,
    /// This was the last piece.
    End,
}

/// One filter of bodies.
pub(crate) trait BodyFilter {
    /// Takes a piece, perhaps an empty one; gives what goes on from here, perhaps nothing.
    fn pass<'a>(&'a mut self, piece: &'a [u8], then: Then) -> &'a [u8];

    /// The most bytes that it is given at once: fewer where it may make much of little.
    fn step(&self) -> usize {
        usize::MAX
    }

    /// Where other bodies come in, if that is here.
    fn joint(&mut self) -> Option<&mut Joint> {
        None
    }

    /// Why the body cannot go on, if it cannot: what the error log says. The response is cut then.
    fn problem(&self) -> Option<String> {
        None
    }

    /// It takes pieces faster than it can do with them: whoever can is to wait a little.
    fn is_crowded(&self) -> bool {
        false
    }

    /// The body has ended: notes what logs and counters show of it.
    fn note(&self, _: &mut Response) {}
}

/// Stands in the list where other bodies come in, and lets pass what comes.
pub(crate) struct AtJoint(pub(crate) Joint);

impl BodyFilter for AtJoint {
    fn pass<'a>(&'a mut self, piece: &'a [u8], _: Then) -> &'a [u8] {
        piece
    }

    fn joint(&mut self) -> Option<&mut Joint> {
        Some(&mut self.0)
    }
}

/// How other bodies come in.
pub(crate) enum Joint {
    /// Around what passes: paths of the site, each once.
    Around {
        /// Before it.
        before: Option<Box<str>>,
        /// Behind it.
        after: Option<Box<str>>,
    },
    /// Where commands of the exchange's page say so.
    Commands,
    /// Behind it, the rest of a response that is asked for in slices.
    Slices(Slices),
}

/// Slices that are still to be asked for.
pub(crate) struct Slices {
    /// Where the next one begins.
    pub(crate) next: u64,
    /// What the client gets of the whole.
    pub(crate) part: ByteRange,
    /// The length of the whole.
    pub(crate) total: u64,
    /// The validator that all slices have.
    pub(crate) etag: Option<Box<[u8]>>,
}

impl Slices {
    /// The next one, and what of the whole is wanted. `size`: of a slice.
    pub(crate) fn next(&mut self, size: u64) -> Option<(Further, ByteRange)> {
        let start = self.next;
        self.next = start.saturating_add(size);
        let range = ByteRange { start, end: self.total.min(self.next) };
        let further = Further { range, total: self.total, etag: self.etag.clone() };
        (start < self.part.end).then_some((further, self.part))
    }
}

/// Filters of an answer.
#[derive(Default)]
pub(crate) struct Filters(Vec<Box<dyn BodyFilter>>);

impl Filters {
    /// Whether bodies pass as they are.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds one behind the others.
    pub(crate) fn push(&mut self, filter: Box<dyn BodyFilter>) {
        self.0.push(filter);
    }

    /// Drops all.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes a piece through all of them.
    pub(crate) fn pass<'a>(&'a mut self, piece: &'a [u8], then: Then) -> &'a [u8] {
        self.0.iter_mut().fold(piece, |piece, filter| filter.pass(piece, then))
    }

    /// The place of the first filter from `start` on where other bodies come in.
    pub(crate) fn joined_at(&mut self, start: usize) -> Option<usize> {
        (start..self.0.len()).find(|&at| self.0[at].joint().is_some())
    }

    /// What comes in at the filter of this place.
    pub(crate) fn joint(&mut self, at: usize) -> Option<&mut Joint> {
        self.0.get_mut(at)?.joint()
    }

    /// Takes a piece through the filters between two places.
    pub(crate) fn pass_between<'a>(
        &'a mut self,
        start: usize,
        end: usize,
        piece: &'a [u8],
        then: Then,
    ) -> &'a [u8] {
        self.0[start..end].iter_mut().fold(piece, |piece, filter| filter.pass(piece, then))
    }

    /// Takes a piece through the filters from a place on.
    pub(crate) fn pass_from<'a>(&'a mut self, start: usize, piece: &'a [u8], then: Then) -> &'a [u8] {
        self.0.iter_mut().skip(start).fold(piece, |piece, filter| filter.pass(piece, then))
    }

    /// See [`BodyFilter::step`].
    pub(crate) fn step(&self) -> usize {
        self.0.iter().map(|filter| filter.step()).min().unwrap_or(usize::MAX)
    }

    /// See [`BodyFilter::problem`].
    pub(crate) fn problem(&self) -> Option<String> {
        self.0.iter().find_map(|filter| filter.problem())
    }

    /// Whether one of them should be given time.
    pub(crate) fn are_crowded(&self) -> bool {
        self.0.iter().any(|filter| filter.is_crowded())
    }

    /// See [`BodyFilter::note`].
    pub(crate) fn note(&self, response: &mut Response) {
        self.0.iter().for_each(|filter| filter.note(response));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives each byte twice, and holds the last one back until more is asked of it.
    #[derive(Default)]
    struct Twice {
        held: Vec<u8>,
        out: Vec<u8>,
    }

    impl BodyFilter for Twice {
        fn pass<'a>(&'a mut self, piece: &'a [u8], then: Then) -> &'a [u8] {
            self.held.extend_from_slice(piece);
            let keep = usize::from(then == Then::More).min(self.held.len());
            self.out.clear();
            let out = &mut self.out;
            self.held.drain(..self.held.len() - keep).for_each(|byte| out.extend([byte, byte]));
            &self.out
        }

        fn note(&self, response: &mut Response) {
            response.uncompressed = Some(self.held.len() as u64);
        }
    }

    #[test]
    fn pieces_pass_through_all_filters_in_order_and_nothing_is_held_back_at_the_end() {
        let mut filters = Filters::default();
        assert!(filters.is_empty());
        assert_eq!(filters.pass(b"as it is", Then::End), b"as it is");
        filters.push(Box::<Twice>::default());
        filters.push(Box::<Twice>::default());
        assert_eq!(filters.pass(b"ab", Then::More), b"aa");
        assert_eq!(filters.pass(b"", Then::Flush), b"aabbbb");
        assert_eq!(filters.pass(b"c", Then::End), b"cccc");
        let mut response = Response::default();
        filters.note(&mut response);
        assert_eq!(response.uncompressed, Some(0));
    }
}
