//! Replacing text in bodies.
//!
//! Owns: deciding whether a response is searched (nginx's `sub_filter`), and the search, which sees texts that lie across
//! pieces.
//! Driven by: `answer::filters`.
//! Why: no more is held back than a text that may still be found, which is shorter than the longest one looked for.

use weir_plan::Replace;

use super::entity;
use crate::eval::text;
use crate::exchange::{BodyFilter, BodySize, Exchange, Then};

/// Bytes that are searched at once: what takes the place of a text may be much longer.
const STEP: usize = 16 << 10;

/// A text that is looked for.
struct Pair {
    /// In lower case, not empty.
    from: Vec<u8>,
    to: Vec<u8>,
}

/// What is found at a place.
enum Found {
    Nothing,
    /// The text of this number.
    Text(usize),
    /// The beginning of one: more has to come first.
    Beginning,
}

/// A search.
struct Search {
    pairs: Vec<Pair>,
    once: bool,
    /// Bytes that one of the texts begins with.
    first: Box<[bool; 256]>,
    held: Vec<u8>,
    out: Vec<u8>,
}

impl Search {
    fn new(pairs: Vec<Pair>, once: bool) -> Self {
        let mut search =
            Self { pairs, once, first: Box::new([false; 256]), held: Vec::new(), out: Vec::new() };
        search.note_first();
        search
    }

    fn note_first(&mut self) {
        *self.first = [false; 256];
        for pair in &self.pairs {
            let first = pair.from.first().copied().unwrap_or_default();
            self.first[usize::from(first)] = true;
            self.first[usize::from(first.to_ascii_uppercase())] = true;
        }
    }

    /// What `text` begins with; `ends`: nothing follows it.
    fn at(&self, text: &[u8], ends: bool) -> Found {
        for (n, pair) in self.pairs.iter().enumerate() {
            let length = pair.from.len().min(text.len());
            if !text[..length].eq_ignore_ascii_case(&pair.from[..length]) {
                continue;
            }
            if length == pair.from.len() {
                return Found::Text(n);
            }
            if !ends {
                return Found::Beginning;
            }
        }
        Found::Nothing
    }

    /// Writes what can be told of `text` into `out`; how much of it that is.
    fn search(&mut self, text: &[u8], ends: bool) -> usize {
        let (mut at, mut written) = (0, 0);
        while let Some(next) = text[at..].iter().position(|&byte| self.first[usize::from(byte)]) {
            at += next;
            match self.at(&text[at..], ends) {
                Found::Nothing => at += 1,
                Found::Beginning => {
                    self.out.extend_from_slice(&text[written..at]);
                    return at;
                }
                Found::Text(n) => {
                    self.out.extend_from_slice(&text[written..at]);
                    self.out.extend_from_slice(&self.pairs[n].to);
                    at += self.pairs[n].from.len();
                    written = at;
                    if self.once {
                        self.pairs.remove(n);
                        self.note_first();
                    }
                }
            }
        }
        self.out.extend_from_slice(&text[written..]);
        text.len()
    }
}

impl BodyFilter for Search {
    fn pass<'a>(&'a mut self, piece: &'a [u8], then: Then) -> &'a [u8] {
        if self.pairs.is_empty() && self.held.is_empty() {
            return piece;
        }
        self.out.clear();
        let ends = then == Then::End;
        if self.held.is_empty() {
            let told = self.search(piece, ends);
            self.held.extend_from_slice(&piece[told..]);
        } else {
            let mut text = std::mem::take(&mut self.held);
            text.extend_from_slice(piece);
            let told = self.search(&text, ends);
            text.drain(..told);
            self.held = text;
        }
        &self.out
    }

    fn step(&self) -> usize {
        STEP
    }
}

/// Decides on the search; the size that the body then has.
pub(super) fn begin(exchange: &mut Exchange, size: BodySize) -> BodySize {
    let installed = exchange.installed.clone();
    let filters = &installed.plan.route(exchange.route).settings.filters;
    let Some(replace) = filters.as_ref().and_then(|filters| filters.replace.as_ref()) else { return size };
    if size == BodySize::Known(0) || !replace.types.take(entity::content_type(exchange)) {
        return size;
    }
    let pairs = pairs(exchange, replace);
    if pairs.is_empty() {
        return size;
    }
    entity::drop_length(exchange);
    if replace.keeps_validators {
        entity::weaken(&mut exchange.response.fields);
    } else {
        entity::drop_validators(exchange);
    }
    if size == BodySize::Bodiless {
        return size;
    }
    exchange.filters.push(Box::new(Search::new(pairs, replace.once)));
    BodySize::Unknown
}

/// The texts of this exchange. One that comes to nothing is not looked for.
fn pairs(exchange: &Exchange, replace: &Replace) -> Vec<Pair> {
    let pairs = replace
        .pairs
        .iter()
        .map(|(from, to)| Pair { from: text(exchange, from).to_ascii_lowercase(), to: text(exchange, to) });
    pairs.filter(|pair| !pair.from.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcome of a search, which is the same whatever the pieces are.
    fn replaced(pairs: &[(&str, &str)], once: bool, text: &str) -> String {
        let made = |step: usize| {
            let pairs = pairs.iter().map(|(from, to)| Pair {
                from: from.to_ascii_lowercase().into_bytes(),
                to: to.as_bytes().to_vec(),
            });
            let mut search = Search::new(pairs.collect(), once);
            let mut out = Vec::new();
            for piece in text.as_bytes().chunks(step) {
                out.extend_from_slice(search.pass(piece, Then::More));
                let longest = search.pairs.iter().map(|pair| pair.from.len()).max().unwrap_or(1);
                assert!(search.held.len() < longest);
            }
            out.extend_from_slice(search.pass(b"", Then::End));
            String::from_utf8(out).unwrap()
        };
        let whole = made(text.len().max(1));
        for step in 1..text.len() {
            assert_eq!(made(step), whole, "in pieces of {step}");
        }
        whole
    }

    #[test]
    fn texts_are_found_in_any_case_and_across_pieces() {
        assert_eq!(replaced(&[("abc", "X")], false, "abcABcxabab"), "XXxabab");
        assert_eq!(replaced(&[("abc", "X")], true, "abcabc"), "Xabc");
        assert_eq!(replaced(&[("aab", "X")], false, "aaab"), "aX");
        assert_eq!(replaced(&[("</head>", "<s></head>")], true, "<p></HEAD></head>"), "<p><s></head></head>");
    }

    #[test]
    fn of_several_the_leftmost_wins_then_the_first_written() {
        assert_eq!(replaced(&[("abcd", "1"), ("bc", "2")], false, "abcd abce"), "1 a2e");
        assert_eq!(replaced(&[("ab", "1"), ("abc", "2")], false, "abc"), "1c");
        assert_eq!(replaced(&[("abc", "2"), ("ab", "1")], false, "abc abd"), "2 1d");
        assert_eq!(replaced(&[("a", "1"), ("b", "2")], true, "baba"), "21ba");
        assert_eq!(replaced(&[("a", "aa")], false, "aaa"), "aaaaaa");
    }
}
