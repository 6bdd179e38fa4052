//! Groups of the last pattern that matched (`$1`…`$9`).
//!
//! Owns: a copy of the subject and the ranges in it.
//! Why: the subject may change before a group is read (a rewrite replaces the path its groups came from); paths are
//! short, a copy is cheaper than keeping versions.

/// Most groups kept, the whole match included.
pub(crate) const GROUPS: usize = 10;

/// Groups of one match.
#[derive(Clone, Default)]
pub(crate) struct Captured {
    subject: Vec<u8>,
    ranges: [Option<(u32, u32)>; GROUPS],
}

impl Captured {
    /// Forgets all groups.
    pub(crate) fn clear(&mut self) {
        self.ranges = [None; GROUPS];
    }

    /// Keeps the groups of a match in `subject`.
    pub(crate) fn keep(&mut self, subject: &[u8], ranges: impl Iterator<Item = Option<(usize, usize)>>) {
        self.clear();
        self.subject.clear();
        self.subject.extend_from_slice(subject);
        for (slot, range) in self.ranges.iter_mut().zip(ranges) {
            *slot = range.map(|(start, end)| (start as u32, end as u32));
        }
    }

    /// The n-th group; 0 is the whole match.
    pub(crate) fn group(&self, n: usize) -> Option<&[u8]> {
        let (start, end) = (*self.ranges.get(n)?)?;
        self.subject.get(start as usize..end as usize)
    }
}
