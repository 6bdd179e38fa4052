//! Responses by their status code.
//!
//! Owns: a count for each code that was met.
//! Never: written by two threads.
//! Driven by: `FrontCells` and `BackCells`, where somebody wants to know.
//! Why: most of what answers knows few codes. Those are found in a short list; whoever knows more gets a table of all.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::Relaxed;

use super::cell::Counter;

/// Codes that need no table.
const FEW: usize = 8;
/// Codes that are counted: 100 to 599.
const CODES: std::ops::Range<u16> = 100..600;

/// Counts by code; other statuses are not counted.
#[derive(Debug, Default)]
pub struct Codes {
    few: [(AtomicU16, Counter); FEW],
    all: OnceLock<Box<[Counter]>>,
}

impl Codes {
    /// Counts a response.
    #[inline]
    pub fn bump(&self, status: u16) {
        self.add(status, 1);
    }

    /// Counts so many responses.
    pub(super) fn add(&self, status: u16, amount: u64) {
        if !CODES.contains(&status) {
            return;
        }
        for (code, count) in &self.few {
            match code.load(Relaxed) {
                known if known == status => return count.add(amount),
                0 => {
                    // The count comes first: whoever reads a code finds it counted.
                    count.add(amount);
                    return code.store(status, Relaxed);
                }
                _ => {}
            }
        }
        let all = self.all.get_or_init(|| CODES.map(|_| Counter::default()).collect());
        if let Some(count) = all.get(usize::from(status - CODES.start)) {
            count.add(amount);
        }
    }

    /// Forgets what was counted.
    pub(super) fn clear(&self) {
        let few = self.few.iter().map(|(_, count)| count);
        few.chain(self.all.get().into_iter().flatten()).for_each(|count| count.set(0));
    }

    /// Adds what was counted to a sum by code, in order.
    pub fn add_to(&self, sum: &mut Vec<(u16, u64)>) {
        let few = self.few.iter().map(|(code, count)| (code.load(Relaxed), count.value()));
        let all = self.all.get().into_iter().flat_map(|all| CODES.zip(all.iter().map(Counter::value)));
        for (code, count) in few.chain(all).filter(|(code, count)| *code > 0 && *count > 0) {
            match sum.binary_search_by_key(&code, |one| one.0) {
                Ok(at) => sum[at].1 += count,
                Err(at) => sum.insert(at, (code, count)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_counts_once_however_many_there_are() {
        let codes = Codes::default();
        for status in [200, 404, 200, 0, 99, 600] {
            codes.bump(status);
        }
        let mut sum = vec![(204, 1), (404, 5)];
        codes.add_to(&mut sum);
        assert_eq!(sum, [(200, 2), (204, 1), (404, 6)]);
        for status in (100..600).chain([599, 200]) {
            codes.bump(status);
        }
        let mut sum = Vec::new();
        codes.add_to(&mut sum);
        assert_eq!(sum.len(), 500);
        assert_eq!((sum[0], sum[100], sum[304], sum[499]), ((100, 1), (200, 4), (404, 2), (599, 2)));
    }
}
