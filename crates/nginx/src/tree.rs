//! The tree of a file, as written.
//!
//! Owns: [`Directive`] and the parser, which never fails: it tells what is wrong and carries on.
//! Never: knows what a directive means.
//! Driven by: the include pass, once per file.

use weir_diag::{Diagnostic, SourceId, Span};

use crate::lexer::{Lexer, Token, Word};

/// Blocks inside blocks beyond this are refused. nginx itself stops at its stack.
pub(crate) const MAX_DEPTH: usize = 64;

/// A text with so many faults is no configuration: the rest is not looked at.
const MAX_FAULTS: usize = 10_000;

/// One directive with its words and its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directive {
    /// The first word.
    pub name: Word,
    /// The words after it.
    pub args: Vec<Word>,
    /// What stands between `{` and `}`; `None` where the directive ends with `;`.
    pub block: Option<Vec<Directive>>,
    /// From the first word to the last, without block.
    pub span: Span,
}

impl Directive {
    /// The name.
    pub(crate) fn name(&self) -> &str {
        &self.name.text
    }

    /// The n-th argument's text, from 0; empty if there is none.
    pub(crate) fn arg(&self, n: usize) -> &str {
        self.args.get(n).map_or("", |word| &word.text)
    }

    /// The n-th argument's span, or the name's.
    pub(crate) fn arg_span(&self, n: usize) -> Span {
        self.args.get(n).map_or(self.name.span, |word| word.span)
    }

    /// The block's directives; none where there is no block.
    pub(crate) fn children(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// A block whose end was not read yet.
struct Open {
    words: Vec<Word>,
    children: Vec<Directive>,
    brace: Span,
}

/// Parses one text.
pub(crate) fn parse(text: &str, source: SourceId, found: &mut Vec<Diagnostic>) -> Vec<Directive> {
    Parser { lexer: Lexer::new(text, source), stack: Vec::new(), top: Vec::new(), words: Vec::new() }
        .run(found)
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    stack: Vec<Open>,
    top: Vec<Directive>,
    words: Vec<Word>,
}

impl Parser<'_> {
    fn run(mut self, found: &mut Vec<Diagnostic>) -> Vec<Directive> {
        loop {
            if found.len() >= MAX_FAULTS || self.stack.len() >= MAX_FAULTS {
                let why = "this text has too many faults: the rest of it is not looked at";
                found.push(Diagnostic::error("nginx::too-many-faults", why));
                return self.top;
            }
            match self.lexer.next(found) {
                Token::Word(word) => self.words.push(word),
                Token::End(span) => self.end(span, found),
                Token::Open(span) => self.open(span, found),
                Token::Close(span) => self.close(span, found),
                Token::Eof(span) => return self.finish(span, found),
            }
        }
    }

    fn end(&mut self, span: Span, found: &mut Vec<Diagnostic>) {
        if self.words.is_empty() {
            found.push(
                Diagnostic::error("nginx::unexpected-token", "this `;` ends nothing")
                    .at(span)
                    .help("remove it; a block needs none after its `}`")
                    .fix(span, ""),
            );
            return;
        }
        self.push_simple();
    }

    fn push_simple(&mut self) {
        let words = std::mem::take(&mut self.words);
        if let Some(directive) = directive(words, None) {
            self.siblings().push(directive);
        }
    }

    fn siblings(&mut self) -> &mut Vec<Directive> {
        self.stack.last_mut().map_or(&mut self.top, |open| &mut open.children)
    }

    fn open(&mut self, span: Span, found: &mut Vec<Diagnostic>) {
        let words = std::mem::take(&mut self.words);
        if words.is_empty() {
            found.push(
                Diagnostic::error("nginx::unexpected-token", "this `{` opens a block without a name")
                    .at(span),
            );
        }
        if words.first().is_some_and(|name| name.text.ends_with("_by_lua_block")) {
            if !self.lexer.skip_lua() {
                found.push(unclosed(span));
            }
            if let Some(directive) = directive(words, Some(Vec::new())) {
                self.siblings().push(directive);
            }
            return;
        }
        self.stack.push(Open { words, children: Vec::new(), brace: span });
        if self.stack.len() == MAX_DEPTH + 1 {
            found.push(
                Diagnostic::error(
                    "nginx::too-deep",
                    format!("more than {MAX_DEPTH} blocks inside one another"),
                )
                .at(span),
            );
        }
    }

    fn close(&mut self, span: Span, found: &mut Vec<Diagnostic>) {
        if let (Some(first), Some(last)) = (self.words.first(), self.words.last()) {
            found.push(
                Diagnostic::error(
                    "nginx::missing-semicolon",
                    format!("`{}` is not ended by `;`", first.text),
                )
                .labelled(first.span.to(last.span), "this directive")
                .also(span, "`}` comes before its `;`")
                .fix(Span { start: last.span.end, ..last.span }, ";"),
            );
            self.push_simple();
        }
        match self.stack.pop() {
            Some(open) => self.fold(open),
            None => found.push(
                Diagnostic::error("nginx::unexpected-token", "this `}` closes no block")
                    .at(span)
                    .help("a block above may have been closed too early"),
            ),
        }
    }

    /// Puts a finished block into its parent. Blocks without a name, or too deep, are dropped; both were told.
    fn fold(&mut self, open: Open) {
        if self.stack.len() >= MAX_DEPTH {
            return;
        }
        if let Some(directive) = directive(open.words, Some(open.children)) {
            self.siblings().push(directive);
        }
    }

    fn finish(mut self, eof: Span, found: &mut Vec<Diagnostic>) -> Vec<Directive> {
        if let (Some(first), Some(last)) = (self.words.first(), self.words.last()) {
            found.push(
                Diagnostic::error(
                    "nginx::missing-semicolon",
                    format!("`{}` is not ended by `;`", first.text),
                )
                .labelled(first.span.to(last.span), "the file ends after this")
                .fix(Span { start: last.span.end, ..last.span }, ";"),
            );
            self.push_simple();
        }
        while let Some(open) = self.stack.pop() {
            found.push(unclosed(open.brace).also(eof, "the file ends here"));
            self.fold(open);
        }
        self.top
    }
}

fn unclosed(brace: Span) -> Diagnostic {
    Diagnostic::error("nginx::unclosed-block", "this block is never closed").labelled(brace, "opened here")
}

fn directive(words: Vec<Word>, block: Option<Vec<Directive>>) -> Option<Directive> {
    let mut words = words.into_iter();
    let name = words.next()?;
    let args: Vec<Word> = words.collect();
    let span = args.last().map_or(name.span, |last| name.span.to(last.span));
    Some(Directive { name, args, block, span })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(directives: &[Directive]) -> String {
        directives
            .iter()
            .map(|d| {
                let words: Vec<&str> =
                    std::iter::once(d.name()).chain(d.args.iter().map(Word::as_str)).collect();
                match &d.block {
                    Some(children) => format!("{}({})", words.join(" "), shape(children)),
                    None => format!("{};", words.join(" ")),
                }
            })
            .collect()
    }

    fn check(text: &str, expected: &str, codes: &[&str]) {
        let mut found = Vec::new();
        let tree = parse(text, SourceId(0), &mut found);
        assert_eq!(shape(&tree), expected, "{text}");
        assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), codes, "{text}");
    }

    #[test]
    fn trees() {
        check("a b;\nc { d\n  e; }", "a b;c(d e;)", &[]);
        check("a { b { } }", "a(b())", &[]);
        check("content_by_lua_block { local a = '}' } b;", "content_by_lua_block()b;", &[]);
    }

    #[test]
    fn broken_trees_are_told_and_kept() {
        check("a { b; ", "a(b;)", &["nginx::unclosed-block"]);
        check("a b } c;", "a b;c;", &["nginx::missing-semicolon", "nginx::unexpected-token"]);
        check("a; } b;", "a;b;", &["nginx::unexpected-token"]);
        check("a { b };", "a(b;)", &["nginx::missing-semicolon", "nginx::unexpected-token"]);
        check("{ a; } b;", "b;", &["nginx::unexpected-token"]);
        check("a b", "a b;", &["nginx::missing-semicolon"]);
        let deep = "a { ".repeat(100_000);
        let mut found = Vec::new();
        parse(&deep, SourceId(0), &mut found);
        assert!(found.iter().any(|d| d.code == "nginx::too-deep"));
        assert!(found.len() < 20_000, "{} findings", found.len());
        let mut found = Vec::new();
        parse(&"};".repeat(1_000_000), SourceId(0), &mut found);
        assert_eq!(found.len(), MAX_FAULTS + 1);
    }
}
