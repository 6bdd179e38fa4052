//! Regular expressions, compiled.
//!
//! Owns: [`Pattern`], the engine it runs on, its captures.
//! Never: reads Unicode, unless a pattern begins with `(*UTF8)`: patterns and subjects are bytes, as PCRE without UTF
//! treats them. No subject is an error, be it no text in any encoding.
//! Driven by: site and route indices, the rule program, maps.
//! Why: the `regex` engine runs in time linear in the subject, so no request can stall a worker. What only PCRE has
//! (look-around, backreferences, possessive quantifiers, some escapes) goes to PCRE2 with a match limit. A search that
//! was given up is neither a match nor none: [`MatchFailed`] is part of every result, so that no caller can take it for
//! either. In both engines `$` is the end of the subject, not the place before a final newline.

mod backtracking;

use std::fmt;
use std::ops::Range;

use regex_automata::meta;
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::{Anchored, Input};
use serde::{Serialize, Serializer};
use smallvec::SmallVec;
use weir_expr::Slot;

use backtracking::Backtracking;
pub use backtracking::PCRE_MATCH_LIMIT;

/// Groups that captures hold without allocation: `$0` to `$9`.
const INLINE_GROUPS: usize = 10;

/// A compiled pattern.
pub struct Pattern {
    source: Box<str>,
    ignore_case: bool,
    engine: Engine,
    groups: usize,
    named: Box<[(u16, Slot)]>,
}

enum Engine {
    Linear(meta::Regex),
    Backtracking(Box<Backtracking>),
}

/// Why a pattern does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    /// Byte of the pattern where it is seen, if known.
    pub offset: Option<usize>,
    /// In the words of the engine.
    pub message: String,
}

/// A search that was given up: whether the pattern matches is not known.
///
/// Fail-safe: who asks whether a request may pass refuses it, with 500 as nginx does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchFailed {
    why: Box<str>,
}

impl fmt::Display for MatchFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for MatchFailed {}

/// What a match captured: ranges of the subject by group; group 0 is the whole match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captures {
    /// `(u32::MAX, 0)` for a group that took no part.
    ranges: SmallVec<[(u32, u32); INLINE_GROUPS]>,
}

const ABSENT: (u32, u32) = (u32::MAX, 0);

impl Captures {
    /// The bytes of a group in its subject.
    #[inline]
    pub fn range(&self, group: usize) -> Option<Range<usize>> {
        let &(start, end) = self.ranges.get(group)?;
        (start <= end).then_some(start as usize..end as usize)
    }

    /// The text of a group; empty if it took no part.
    pub fn text<'s>(&self, group: usize, subject: &'s [u8]) -> &'s [u8] {
        self.range(group).and_then(|range| subject.get(range)).unwrap_or_default()
    }

    /// Groups, the whole match included.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// True before any match.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

impl Pattern {
    /// Compiles PCRE text. `slot` gives the variable that a named group sets.
    pub fn new(
        source: &str,
        ignore_case: bool,
        mut slot: impl FnMut(&str) -> Option<Slot>,
    ) -> Result<Self, PatternError> {
        let engine = Engine::compile(source, ignore_case)?;
        let names = engine.names();
        let named = names
            .iter()
            .enumerate()
            .filter_map(|(group, name)| Some((group as u16, slot(name.as_deref()?)?)));
        Ok(Self { source: source.into(), ignore_case, groups: names.len(), named: named.collect(), engine })
    }

    /// The text it was compiled from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Letters match without regard to case.
    pub fn ignore_case(&self) -> bool {
        self.ignore_case
    }

    /// Groups, the whole match included.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Groups with names, and the variables that they set at a match.
    pub fn named(&self) -> &[(u16, Slot)] {
        &self.named
    }

    /// True if it runs in time linear in the subject.
    pub fn is_linear(&self) -> bool {
        matches!(self.engine, Engine::Linear(_))
    }

    /// True if it matches somewhere in `subject`.
    ///
    /// # Errors
    /// The search was given up.
    #[inline]
    pub fn is_match(&self, subject: &[u8]) -> Result<bool, MatchFailed> {
        match &self.engine {
            Engine::Linear(regex) => Ok(regex.is_match(subject)),
            Engine::Backtracking(regex) => regex.is_match(subject).map_err(|why| self.gave_up(&why)),
        }
    }

    /// The first match in `subject`, which is below 4 GiB.
    ///
    /// # Errors
    /// The search was given up.
    #[inline]
    pub fn matches(&self, subject: &[u8]) -> Result<Option<Captures>, MatchFailed> {
        self.matches_from(subject, 0)
    }

    /// The first match at or after byte `from`, for replacing all.
    ///
    /// # Errors
    /// The search was given up.
    pub fn matches_from(&self, subject: &[u8], from: usize) -> Result<Option<Captures>, MatchFailed> {
        match &self.engine {
            Engine::Linear(regex) => Ok(linear_match(regex, subject, from, self.groups)),
            Engine::Backtracking(regex) => {
                regex.matches_from(subject, from).map_err(|why| self.gave_up(&why))
            }
        }
    }

    #[cold]
    fn gave_up(&self, why: &str) -> MatchFailed {
        MatchFailed { why: format!("pattern \"{}\" gave up: {why}", self.source).into() }
    }
}

fn linear_match(regex: &meta::Regex, subject: &[u8], from: usize, groups: usize) -> Option<Captures> {
    let input = Input::new(subject).range(from.min(subject.len())..).anchored(Anchored::No);
    let mut slots: SmallVec<[Option<NonMaxUsize>; 2 * INLINE_GROUPS]> = SmallVec::from_elem(None, 2 * groups);
    regex.search_slots(&input, &mut slots)?;
    let ranges = slots.chunks_exact(2).map(|pair| match (pair[0], pair[1]) {
        (Some(start), Some(end)) => (start.get() as u32, end.get() as u32),
        _ => ABSENT,
    });
    Some(Captures { ranges: ranges.collect() })
}

impl Engine {
    fn compile(source: &str, ignore_case: bool) -> Result<Self, PatternError> {
        if !reads_differently(source)
            && let Some(regex) = linear(source, ignore_case)
        {
            return Ok(Self::Linear(regex));
        }
        Backtracking::compile(source, ignore_case).map(|regex| Self::Backtracking(Box::new(regex)))
    }

    /// Names by group; the first is the whole match.
    fn names(&self) -> Vec<Option<String>> {
        match self {
            Self::Linear(regex) => {
                let info = regex.group_info();
                let names = info.pattern_names(regex_automata::PatternID::ZERO);
                names.map(|name| name.map(str::to_owned)).collect()
            }
            Self::Backtracking(regex) => regex.names(),
        }
    }
}

fn linear(source: &str, ignore_case: bool) -> Option<meta::Regex> {
    let syntax =
        regex_automata::util::syntax::Config::new().unicode(false).utf8(false).case_insensitive(ignore_case);
    let limits =
        meta::Config::new().utf8_empty(false).nfa_size_limit(Some(4 << 20)).hybrid_cache_capacity(256 << 10);
    meta::Builder::new().configure(limits).syntax(syntax).build(source).ok()
}

/// True if both engines accept such a text but may read it differently: possessive and doubled quantifiers, set
/// operations and nested sets in brackets, `\<`, `\>`, `\b{`, `\v`, and `{,n}`, which PCRE takes literally.
fn reads_differently(source: &str) -> bool {
    let bytes = source.as_bytes();
    let mut quantified = Quantified::No;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        let before = std::mem::replace(&mut quantified, Quantified::No);
        at += match byte {
            b'\\' if escape_differs(rest) => return true,
            b'\\' => 2,
            b'[' => match set_length(rest) {
                Some(length) => length,
                None => return true,
            },
            // Recursion to PCRE, a flag to the other.
            b'(' if rest.starts_with(b"(?R") => return true,
            b'(' if rest.get(1) == Some(&b'?') => 2,
            b'{' if rest.get(1) == Some(&b',') || before != Quantified::No => return true,
            b'?' if before == Quantified::Greedy => {
                quantified = Quantified::Lazy;
                1
            }
            b'*' | b'+' | b'?' if before != Quantified::No => return true,
            b'*' | b'+' | b'?' | b'}' => {
                quantified = Quantified::Greedy;
                1
            }
            _ => 1,
        };
    }
    false
}

/// What stands directly before a byte of a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantified {
    No,
    Greedy,
    Lazy,
}

fn escape_differs(rest: &[u8]) -> bool {
    matches!(rest.get(1), Some(b'<' | b'>' | b'v')) || rest.starts_with(b"\\b{") || rest.starts_with(b"\\B{")
}

/// Bytes of the set in brackets that `rest` begins with; `None` if the engines read it differently.
fn set_length(rest: &[u8]) -> Option<usize> {
    let first = if rest.get(1) == Some(&b'^') { 2 } else { 1 };
    let mut at = first;
    while let Some(&byte) = rest.get(at) {
        let here = &rest[at..];
        match byte {
            // A `]` that comes first is a member.
            b']' if at > first => return Some(at + 1),
            b'\\' if matches!(here.get(1), Some(b'v')) => return None,
            b'\\' => at += 1,
            b'[' if here.get(1) == Some(&b':') => at += 1,
            b'[' => return None,
            _ if [&b"&&"[..], b"--", b"~~"].iter().any(|sign| here.starts_with(sign)) => return None,
            _ => {}
        }
        at += 1;
    }
    // Not closed: both engines refuse it.
    Some(rest.len())
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.ignore_case { "~*" } else { "~" }, self.source)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests;
