//! haproxy.cfg as written: sections of lines of words.
//!
//! Owns: which section a line belongs to, conditional blocks, the environment while reading.
//! Never: knows what a keyword means; only section names, dot-commands and the `setenv` family.
//! Driven by: `load`, once per file; then `take` looks at each section.
//! Why: parsing never fails. What cannot be read becomes a diagnostic, and the lines around it are still looked at.

pub(crate) mod condition;
pub(crate) mod env;
pub(crate) mod formats;
mod section;
pub(crate) mod words;

use weir_diag::{Diagnostic, SourceId, Span};

use self::condition::{FEATURES, Facts, evaluate};
use self::env::Env;
pub(crate) use self::section::SectionKind;
pub(crate) use self::words::Word;

/// `no …` or `default …` before a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// Set it.
    Plain,
    /// Unset it.
    No,
    /// Back to the built-in default.
    Default,
}

/// One line: a keyword and its arguments, at least one word.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// What stood before the keyword.
    pub(crate) prefix: Prefix,
    /// Keyword first. Never empty.
    pub(crate) words: Vec<Word>,
    /// The line starts in the first column.
    pub(crate) unindented: bool,
}

impl Line {
    /// From the first to the last word.
    pub(crate) fn span(&self) -> Span {
        let first = self.words[0].span;
        self.words.last().map_or(first, |last| first.to(last.span))
    }

    /// The keyword.
    pub(crate) fn keyword(&self) -> &Word {
        &self.words[0]
    }

    /// A word by its place, the keyword being 0.
    pub(crate) fn word(&self, at: usize) -> Option<&Word> {
        self.words.get(at)
    }

    /// The text of a word; empty where there is none.
    pub(crate) fn text(&self, at: usize) -> &str {
        self.words.get(at).map_or("", Word::as_str)
    }

    /// The words from `at` on.
    pub(crate) fn from(&self, at: usize) -> &[Word] {
        self.words.get(at..).unwrap_or_default()
    }
}

/// Conditional blocks inside one another; HAProxy takes 20.
const MAX_BLOCKS: usize = 64;

/// A text with so many faults is no configuration: the rest is not looked at.
const MAX_FAULTS: usize = 10_000;

/// One section.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// What it is.
    pub(crate) kind: SectionKind,
    /// The line that opened it.
    pub(crate) header: Line,
    /// What it holds.
    pub(crate) lines: Vec<Line>,
}

/// Reads one file into sections, after those already there.
pub(crate) fn read(
    text: &str,
    source: SourceId,
    env: &mut Env,
    sections: &mut Vec<Section>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut reader =
        Reader { source, env, sections, diagnostics, blocks: Vec::new(), opened: false, at: Some((0, text)) };
    while let Some((line, offset)) = reader.next_line() {
        if reader.diagnostics.len() >= MAX_FAULTS {
            let why = "this text has too many faults: the rest of it is not looked at";
            reader.diagnostics.push(Diagnostic::error("haproxy::too-many-faults", why));
            break;
        }
        reader.line(line, offset);
    }
    for block in std::mem::take(&mut reader.blocks) {
        reader
            .diagnostics
            .push(Diagnostic::error("haproxy::open-if", "this `.if` has no `.endif`").at(block.span));
    }
}

struct Reader<'a> {
    source: SourceId,
    env: &'a mut Env,
    sections: &'a mut Vec<Section>,
    diagnostics: &'a mut Vec<Diagnostic>,
    blocks: Vec<Block>,
    /// This file has opened a section: files do not continue each other's.
    opened: bool,
    at: Option<(usize, &'a str)>,
}

/// One open `.if`.
struct Block {
    span: Span,
    state: Branch,
    seen_else: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Branch {
    /// Lines of this branch count.
    Taken,
    /// A later branch may count.
    Waiting,
    /// An earlier branch counted, or the whole block stands in one that does not.
    Over,
}

impl<'a> Reader<'a> {
    fn next_line(&mut self) -> Option<(&'a str, usize)> {
        let (offset, rest) = self.at?;
        if rest.is_empty() {
            return None;
        }
        let (line, after) = rest.split_once('\n').map_or((rest, None), |(line, after)| (line, Some(after)));
        self.at = after.map(|after| (offset + line.len() + 1, after));
        Some((line.strip_suffix('\r').unwrap_or(line), offset))
    }

    fn active(&self) -> bool {
        self.blocks.iter().all(|block| block.state == Branch::Taken)
    }

    fn line(&mut self, text: &str, offset: usize) {
        let trimmed = text.trim_start_matches([' ', '\t']);
        if !self.active() && !trimmed.starts_with('.') {
            return;
        }
        let mut words = self.split(text, offset);
        let Some(first) = words.first() else { return };
        if first.text.starts_with('.') && trimmed.starts_with('.') {
            return self.dot(&words);
        }
        let prefix = match first.as_str() {
            "no" if words.len() > 1 => Prefix::No,
            "default" if words.len() > 1 => Prefix::Default,
            _ => Prefix::Plain,
        };
        if prefix != Prefix::Plain {
            words.remove(0);
        }
        let line = Line { prefix, words, unindented: trimmed.len() == text.len() };
        self.place(line);
    }

    /// The words of a line and of those it continues on.
    fn split(&mut self, text: &str, offset: usize) -> Vec<Word> {
        let place = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        let mut split = words::split(text, self.source, place(offset), self.env, self.diagnostics);
        let mut all = split.words;
        while let Some(span) = split.continues {
            self.diagnostics.push(
                Diagnostic::warning(
                    "haproxy::continued-line",
                    "this line is read as continued on the next one",
                )
                .at(span)
                .help("HAProxy has no continued lines: it takes the backslash for a word of its own"),
            );
            let Some((text, offset)) = self.next_line() else { break };
            split = words::split(text, self.source, place(offset), self.env, self.diagnostics);
            all.append(&mut split.words);
        }
        all
    }

    fn place(&mut self, line: Line) {
        if let Some(kind) =
            SectionKind::named(line.keyword().as_str()).filter(|_| line.prefix == Prefix::Plain)
        {
            self.opened = true;
            self.sections.push(Section { kind, header: line, lines: Vec::new() });
            return;
        }
        let Some(section) = self.sections.last_mut().filter(|_| self.opened) else {
            let word = line.keyword();
            self.diagnostics.push(
                Diagnostic::error(
                    "haproxy::outside-section",
                    format!("`{}` stands before any section", word.text),
                )
                .at(word.span)
                .suggest(&word.text, word.span, SectionKind::names()),
            );
            return;
        };
        if section.kind == SectionKind::Global {
            change_environment(self.env, &line);
        }
        section.lines.push(line);
    }

    fn dot(&mut self, words: &[Word]) {
        let word = &words[0];
        let rest = || words[1..].iter().map(Word::as_str).collect::<Vec<_>>().join(" ");
        match word.as_str() {
            ".if" if self.blocks.len() >= MAX_BLOCKS => {
                let title = format!("more than {MAX_BLOCKS} `.if` inside one another");
                self.diagnostics.push(Diagnostic::error("haproxy::too-deep", title).at(word.span));
            }
            ".if" => {
                let state = match (self.active(), self.active() && self.test(words)) {
                    (false, _) => Branch::Over,
                    (true, true) => Branch::Taken,
                    (true, false) => Branch::Waiting,
                };
                self.blocks.push(Block { span: word.span, state, seen_else: false });
            }
            ".elif" | ".else" | ".endif" => self.branch(words),
            ".diag" | ".notice" | ".warning" | ".alert" if !self.active() => {}
            ".diag" | ".notice" => {
                self.diagnostics.push(Diagnostic::note("haproxy::message", rest()).at(word.span))
            }
            ".warning" => {
                self.diagnostics.push(Diagnostic::warning("haproxy::message", rest()).at(word.span))
            }
            ".alert" => self.diagnostics.push(Diagnostic::error("haproxy::message", rest()).at(word.span)),
            _ if !self.active() => {}
            _ => self.diagnostics.push(
                Diagnostic::error("haproxy::unknown-keyword", format!("unknown command `{}`", word.text))
                    .at(word.span)
                    .suggest(&word.text, word.span, DOT_COMMANDS.iter().copied()),
            ),
        }
    }

    fn branch(&mut self, words: &[Word]) {
        let word = &words[0];
        let Some(block) = self.blocks.last() else {
            self.diagnostics.push(
                Diagnostic::error(
                    "haproxy::stray-branch",
                    format!("`{}` without an `.if` before it", word.text),
                )
                .at(word.span),
            );
            return;
        };
        let (was, seen_else, span) = (block.state, block.seen_else, block.span);
        if word.as_str() == ".endif" {
            self.blocks.pop();
            return;
        }
        if seen_else {
            self.diagnostics.push(
                Diagnostic::error("haproxy::stray-branch", format!("`{}` after `.else`", word.text))
                    .at(word.span)
                    .also(span, "of this block"),
            );
        }
        let otherwise = word.as_str() == ".else";
        let next = match was {
            Branch::Taken | Branch::Over => Branch::Over,
            Branch::Waiting if otherwise || self.test(words) => Branch::Taken,
            Branch::Waiting => Branch::Waiting,
        };
        if let Some(block) = self.blocks.last_mut() {
            block.state = next;
            block.seen_else |= otherwise;
        }
    }

    fn test(&mut self, words: &[Word]) -> bool {
        let text = words[1..].iter().map(Word::as_str).collect::<Vec<_>>().join(" ");
        match evaluate(&text, Facts { env: self.env, features: FEATURES }) {
            Ok(value) => value,
            Err(cause) => {
                let span = words.last().map_or(words[0].span, |last| words[0].span.to(last.span));
                self.diagnostics.push(Diagnostic::error("haproxy::bad-condition", cause).at(span));
                false
            }
        }
    }
}

const DOT_COMMANDS: &[&str] = &[".if", ".elif", ".else", ".endif", ".diag", ".notice", ".warning", ".alert"];

fn change_environment(env: &mut Env, line: &Line) {
    match (line.keyword().as_str(), line.words.len()) {
        ("setenv", 3..) => env.set(line.text(1), line.text(2)),
        ("presetenv", 3..) => env.preset(line.text(1), line.text(2)),
        ("unsetenv", 2..) => line.from(1).iter().for_each(|name| env.unset(name.as_str())),
        ("resetenv", _) => env.keep_only(&line.from(1).iter().map(Word::as_str).collect::<Vec<_>>()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> (String, Vec<&'static str>) {
        let (mut env, mut sections, mut found) = (Env::default(), Vec::new(), Vec::new());
        read(text, SourceId(0), &mut env, &mut sections, &mut found);
        let mut out = String::new();
        for section in &sections {
            let join = |line: &Line| line.words.iter().map(Word::as_str).collect::<Vec<_>>().join("|");
            out += &format!("[{}]", join(&section.header));
            section.lines.iter().for_each(|line| out += &format!("{};", join(line)));
        }
        (out, found.iter().map(|d| d.code).collect())
    }

    #[test]
    fn lines_belong_to_the_section_above_them() {
        let (out, found) =
            check("global\r\n daemon\r\nfrontend a\r\nbind :80\r\n\r\n# end\r\n  no option httplog");
        assert_eq!(out, "[global]daemon;[frontend|a]bind|:80;option|httplog;");
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn branches_and_the_environment_follow_the_lines() {
        let text = "global\n setenv A 1\n.if streq(\"$A\",1)\n maxconn 1\n .if 0\n x\n .else\n y \"$A\"\n .endif\n.elif 1\n maxconn 2\n.else\n maxconn 3\n.endif\n z\n";
        assert_eq!(check(text), ("[global]setenv|A|1;maxconn|1;y|1;z;".into(), vec![]));
        assert_eq!(check("global\n.if 1\n").1, ["haproxy::open-if"]);
        assert_eq!(check(".else\n.endif\n").1, ["haproxy::stray-branch", "haproxy::stray-branch"]);
        let deep = check(&".if 1\n".repeat(100_000)).1;
        assert_eq!((deep[0], deep.len()), ("haproxy::too-deep", MAX_FAULTS + 1 + MAX_BLOCKS));
        assert_eq!(check("global\n.if what\n.endif\n").1, ["haproxy::bad-condition"]);
        assert_eq!(check("global\n.warning \"old file\"\n").1, ["haproxy::message"]);
    }

    #[test]
    fn a_line_before_any_section_is_found() {
        assert_eq!(
            check("fronted a\n bind :80\n").1,
            ["haproxy::outside-section", "haproxy::outside-section"]
        );
    }
}
