//! Patterns that only PCRE2 can run.
//!
//! Owns: its limits, its options, what it makes of a subject that is not UTF-8.
//! Never: takes an error for an answer.
//! Why: the crate knows neither PCRE2_DOLLAR_ENDONLY nor UTF mode over subjects that are not UTF-8. The first is written
//! into the pattern (`$` becomes `\z`). For the second a pattern that asks for UTF is compiled twice, and what is no
//! UTF-8 is matched as bytes: PCRE2_MATCH_INVALID_UTF would let no pattern match across a stray byte, so that one in a
//! path would lead past the pattern that guards it.

use pcre2::bytes::{Regex, RegexBuilder};

use super::{ABSENT, Captures, PatternError};

/// Backtracking steps after which PCRE2 gives up on one subject. PCRE2's own default is 10,000,000, which is about a
/// tenth of a second of a core for one hostile request; patterns in use need some hundreds.
pub const PCRE_MATCH_LIMIT: u32 = 200_000;

/// A pattern compiled by PCRE2.
pub(super) struct Backtracking {
    regex: Regex,
    /// Where the pattern asks for UTF: the same over bytes.
    bytes: Option<OverBytes>,
}

/// A pattern for UTF, over bytes.
enum OverBytes {
    Compiled(Regex),
    /// It names characters that no byte is.
    Impossible,
}

impl Backtracking {
    pub(super) fn compile(source: &str, ignore_case: bool) -> Result<Self, PatternError> {
        let (options, utf, rest) = leading_options(source);
        let build = |utf: bool, pattern: &str| {
            let utf = if utf { "(*UTF)" } else { "" };
            let limits = format!("(*LIMIT_MATCH={PCRE_MATCH_LIMIT})(*LIMIT_DEPTH=20000){options}{utf}");
            let built = RegexBuilder::new()
                .caseless(ignore_case)
                .jit_if_available(true)
                .build(&format!("{limits}{pattern}"));
            built.map_err(|error| PatternError {
                // Of the text as it was written.
                offset: error.offset().map(|at| {
                    (at.saturating_sub(limits.len()) + source.len() - rest.len()).min(source.len())
                }),
                message: in_words(&error),
            })
        };
        let pattern = ends_only(rest);
        let regex = build(utf, &pattern).map_err(|error| build(utf, rest).err().unwrap_or(error))?;
        let over_bytes = || build(false, &pattern).map_or(OverBytes::Impossible, OverBytes::Compiled);
        Ok(Self { regex, bytes: utf.then(over_bytes) })
    }

    /// Names by group; the first is the whole match.
    pub(super) fn names(&self) -> Vec<Option<String>> {
        self.regex.capture_names().to_vec()
    }

    pub(super) fn is_match(&self, subject: &[u8]) -> Result<bool, String> {
        self.over(subject)?.is_match(subject).map_err(|error| in_words(&error))
    }

    pub(super) fn matches_from(&self, subject: &[u8], from: usize) -> Result<Option<Captures>, String> {
        let regex = self.over(subject)?;
        let mut found = regex.capture_locations();
        let whole = regex.captures_read_at(&mut found, subject, from.min(subject.len()));
        if whole.map_err(|error| in_words(&error))?.is_none() {
            return Ok(None);
        }
        let ranges = (0..found.len())
            .map(|group| found.get(group).map_or(ABSENT, |(start, end)| (start as u32, end as u32)));
        Ok(Some(Captures { ranges: ranges.collect() }))
    }

    /// The form that runs over such a subject.
    fn over(&self, subject: &[u8]) -> Result<&Regex, String> {
        match &self.bytes {
            Some(bytes) if std::str::from_utf8(subject).is_err() => match bytes {
                OverBytes::Compiled(regex) => Ok(regex),
                OverBytes::Impossible => Err("the subject is not UTF-8".to_owned()),
            },
            _ => Ok(&self.regex),
        }
    }
}

/// PCRE2's words without the position in front of them, which counts what was put before the pattern.
fn in_words(error: &pcre2::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(": ").map_or(text.as_str(), |(_, message)| message).to_owned()
}

/// The options that a pattern begins with (`(*UCP)`) but for UTF, whether that is among them, and what follows.
fn leading_options(source: &str) -> (String, bool, &str) {
    let (mut options, mut utf, mut rest) = (String::new(), false, source);
    while let Some((name, behind)) = rest.strip_prefix("(*").and_then(|text| text.split_once(')')) {
        match name.split('=').next().unwrap_or_default() {
            // PCRE2's name for what PCRE 8 called `(*UTF8)`.
            "UTF8" | "UTF" => utf = true,
            "UCP" | "NOTEMPTY" | "NOTEMPTY_ATSTART" | "NO_AUTO_POSSESS" | "NO_DOTSTAR_ANCHOR" | "NO_JIT"
            | "NO_START_OPT" | "LIMIT_HEAP" | "LIMIT_MATCH" | "LIMIT_DEPTH" | "LIMIT_RECURSION" | "CR"
            | "LF" | "CRLF" | "ANYCRLF" | "ANY" | "NUL" | "BSR_ANYCRLF" | "BSR_UNICODE" => {
                options.push_str(&rest[..rest.len() - behind.len()]);
            }
            _ => break,
        }
        rest = behind;
    }
    (options, utf, rest)
}

/// The pattern with `\z` for each `$` that means the end of the subject; not for one under `(?m)`, which means the end
/// of a line and says so.
fn ends_only(pattern: &str) -> String {
    let bytes = pattern.as_bytes();
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut copied = 0;
    let mut flags = Flags::default();
    let mut outer = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        at += match byte {
            b'\\' => escape_length(rest),
            b'[' => set_length(rest),
            b'#' if flags.extended => memchr::memchr(b'\n', rest).unwrap_or(rest.len()),
            b'(' if rest.starts_with(b"(?#") => memchr::memchr(b')', rest).unwrap_or(rest.len()),
            b'(' => match flags.changed(rest) {
                // For the rest of the group that it stands in.
                Some((new, length)) if rest.get(length - 1) == Some(&b')') => {
                    flags = new;
                    length
                }
                Some((new, length)) => {
                    outer.push(std::mem::replace(&mut flags, new));
                    length
                }
                None => {
                    outer.push(flags);
                    1
                }
            },
            b')' => {
                flags = outer.pop().unwrap_or(flags);
                1
            }
            b'$' if !flags.lines => {
                out.push_str(&pattern[copied..at]);
                out.push_str("\\z");
                copied = at + 1;
                1
            }
            _ => 1,
        };
    }
    out.push_str(pattern.get(copied..).unwrap_or_default());
    out
}

/// Options within a pattern that say what `$` and `#` are.
#[derive(Clone, Copy, Default)]
struct Flags {
    /// `m`.
    lines: bool,
    /// `x`.
    extended: bool,
}

impl Flags {
    /// What `(?mx-i)` and `(?m:` make of them, and the bytes of that; `None` where the parenthesis is another.
    fn changed(mut self, rest: &[u8]) -> Option<(Self, usize)> {
        let mut on = true;
        for (at, byte) in rest.strip_prefix(b"(?")?.iter().enumerate() {
            match byte {
                b'^' if at == 0 => self = Self::default(),
                b'-' => on = false,
                b'm' => self.lines = on,
                b'x' => self.extended = on,
                b'i' | b's' | b'n' | b'J' | b'U' | b'a' => {}
                b')' | b':' => return Some((self, at + 3)),
                _ => return None,
            }
        }
        None
    }
}

/// Bytes of the escape that `rest` begins with; of a quotation, those to its end.
fn escape_length(rest: &[u8]) -> usize {
    match rest.get(1) {
        Some(b'Q') => memchr::memmem::find(rest, b"\\E").map_or(rest.len(), |at| at + 2),
        Some(b'c') => 3,
        _ => 2,
    }
}

/// Bytes of the set in brackets that `rest` begins with.
fn set_length(rest: &[u8]) -> usize {
    let first = if rest.get(1) == Some(&b'^') { 2 } else { 1 };
    let mut at = first;
    while let Some(&byte) = rest.get(at) {
        at += match byte {
            // A `]` that comes first is a member.
            b']' if at > first => return at + 1,
            b'\\' => escape_length(&rest[at..]),
            b'[' if rest.get(at + 1) == Some(&b':') => {
                memchr::memmem::find(&rest[at..], b":]").map_or(1, |length| length + 2)
            }
            _ => 1,
        };
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_the_end_of_the_subject() {
        for (written, meant) in [
            ("a$", "a\\z"),
            ("(a$|b$)c", "(a\\z|b\\z)c"),
            ("\\$[$]$", "\\$[$]\\z"),
            ("[]$][^]$][[:alpha:]$]$", "[]$][^]$][[:alpha:]$]\\z"),
            ("[\\]$]$", "[\\]$]\\z"),
            ("\\Qa$(\\E$", "\\Qa$(\\E\\z"),
            ("\\c$$", "\\c$\\z"),
            ("(?m)a$", "(?m)a$"),
            ("(?m:a$)b$", "(?m:a$)b\\z"),
            ("((?im)a$)b$", "((?im)a$)b\\z"),
            ("(?m)(?-m:a$)b$", "(?m)(?-m:a\\z)b$"),
            ("(?m)(?^:a$)", "(?m)(?^:a\\z)"),
            ("(?<m>a$)(?!m$)", "(?<m>a\\z)(?!m\\z)"),
            ("(?#$)(?x)a # $ [\n$", "(?#$)(?x)a # $ [\n\\z"),
            ("ä$", "ä\\z"),
            ("[$", "[$"),
            ("\\", "\\"),
        ] {
            assert_eq!(ends_only(written), meant, "{written}");
        }
    }

    #[test]
    fn options_stand_first() {
        assert_eq!(leading_options("(*UTF8)a"), (String::new(), true, "a"));
        assert_eq!(leading_options("(*UCP)(*UTF)(*CRLF)a"), ("(*UCP)(*CRLF)".to_owned(), true, "a"));
        assert_eq!(leading_options("(*FAIL)a"), (String::new(), false, "(*FAIL)a"));
        assert_eq!(leading_options("(a)"), (String::new(), false, "(a)"));
    }
}
