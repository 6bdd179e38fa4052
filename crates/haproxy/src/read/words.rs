//! One line of haproxy.cfg as words.
//!
//! Owns: escapes, both kinds of quotes, comments, `$NAME` expansion inside weak quotes.
//! Never: knows a keyword, or a line's place in a section.
//! Driven by: `read`, once per line, with the environment as it stands at that line.
//! Why: the rules are HAProxy's (configuration manual 2.2 and 2.3), down to `ab#c` being a word and a comment and
//! to `\q` keeping its backslash, because regular expressions are written that way.

use weir_diag::{Diagnostic, SourceId, Span};

use super::env::Env;

/// Most bytes of a word with what variables bring into it: `setenv A "$A$A"` doubles it with each line.
const MAX_WORD: usize = 1 << 20;

/// One word, unescaped, and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The text after escapes, quotes and expansion.
    pub(crate) text: String,
    /// The bytes it was written in, quotes included.
    pub(crate) span: Span,
}

impl Word {
    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

/// The words of one line.
#[derive(Debug, Default)]
pub(crate) struct Split {
    /// In order.
    pub(crate) words: Vec<Word>,
    /// The line ends in a bare backslash.
    pub(crate) continues: Option<Span>,
}

/// Splits one line (without its end). `offset` is where the line starts in its source.
pub(crate) fn split(
    line: &str,
    source: SourceId,
    offset: u32,
    env: &Env,
    diagnostics: &mut Vec<Diagnostic>,
) -> Split {
    let mut lexer = Lexer {
        bytes: line.as_bytes(),
        at: 0,
        source,
        offset,
        env,
        diagnostics,
        words: Vec::new(),
        current: Vec::new(),
        started: None,
        continues: None,
    };
    lexer.run();
    Split { words: lexer.words, continues: lexer.continues }
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    source: SourceId,
    offset: u32,
    env: &'a Env,
    diagnostics: &'a mut Vec<Diagnostic>,
    words: Vec<Word>,
    current: Vec<u8>,
    /// Where the current word starts, once it has started (an empty quoted word has no bytes, yet is a word).
    started: Option<usize>,
    continues: Option<Span>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quote {
    None,
    Weak(usize),
    Strong(usize),
}

impl Lexer<'_> {
    fn run(&mut self) {
        let mut quote = Quote::None;
        while let Some(&byte) = self.bytes.get(self.at) {
            match (byte, quote) {
                (b'\'', Quote::None) => quote = self.open(Quote::Strong(self.at)),
                (b'\'', Quote::Strong(_)) | (b'"', Quote::Weak(_)) => quote = self.open(Quote::None),
                (b'"', Quote::None) => quote = self.open(Quote::Weak(self.at)),
                (b'#', Quote::None) => break,
                (b' ' | b'\t' | b'\r', Quote::None) => self.end_word(),
                (b'\\', Quote::None | Quote::Weak(_)) => {
                    if self.escape(quote != Quote::None) {
                        return;
                    }
                    continue;
                }
                (b'$', Quote::Weak(_)) => {
                    self.variable();
                    continue;
                }
                _ => self.push(byte),
            }
            self.at += 1;
        }
        if let Quote::Weak(from) | Quote::Strong(from) = quote {
            let span = self.span(from, from + 1);
            let mark = char::from(self.bytes[from]);
            self.diagnostics.push(
                Diagnostic::error("haproxy::open-quote", format!("this {mark} is never closed"))
                    .at(span)
                    .help("a quoted word ends on the line it starts on; write `\\\"` or `\\'` for the character itself"),
            );
        }
        self.end_word();
    }

    fn open(&mut self, next: Quote) -> Quote {
        self.started.get_or_insert(self.at);
        next
    }

    fn push(&mut self, byte: u8) {
        self.started.get_or_insert(self.at);
        self.current.push(byte);
    }

    fn span(&self, from: usize, to: usize) -> Span {
        let place = |at: usize| self.offset.saturating_add(u32::try_from(at).unwrap_or(u32::MAX));
        Span { source: self.source, start: place(from), end: place(to) }
    }

    fn end_word(&mut self) {
        let Some(from) = self.started.take() else { return };
        let span = self.span(from, self.at);
        let bytes = std::mem::take(&mut self.current);
        let text = String::from_utf8(bytes).unwrap_or_else(|error| {
            self.diagnostics.push(
                Diagnostic::error("haproxy::not-utf8", "this word holds bytes that are not UTF-8")
                    .at(span)
                    .help("write the character itself; bytes above 0x7f outside UTF-8 are not supported"),
            );
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        });
        self.words.push(Word { text, span });
    }

    /// Takes a backslash and what follows it. True if the line ends here and continues on the next.
    fn escape(&mut self, quoted: bool) -> bool {
        let next = self.bytes.get(self.at + 1).copied();
        let literal = match next {
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(byte @ (b' ' | b'\\' | b'#' | b'"' | b'\'')) => byte,
            Some(b'$') if quoted => b'$',
            Some(b'x') => {
                self.hex();
                return false;
            }
            None if !quoted => {
                let at = self.at;
                self.end_word();
                self.continues = Some(self.span(at, at + 1));
                return true;
            }
            _ => {
                self.push(b'\\');
                self.at += 1;
                return false;
            }
        };
        self.push(literal);
        self.at += 2;
        false
    }

    fn hex(&mut self) {
        let digit = |byte: Option<&u8>| byte.and_then(|&b| char::from(b).to_digit(16));
        let pair = (digit(self.bytes.get(self.at + 2)), digit(self.bytes.get(self.at + 3)));
        if let (Some(high), Some(low)) = pair {
            // Two hexadecimal digits fit a byte.
            self.push((high * 16 + low) as u8);
            self.at += 4;
            return;
        }
        let span = self.span(self.at, (self.at + 4).min(self.bytes.len()));
        self.diagnostics.push(
            Diagnostic::error("haproxy::bad-escape", "`\\x` needs two hexadecimal digits")
                .at(span)
                .help("write `\\\\x` for a backslash and an x"),
        );
        self.push(b'\\');
        self.push(b'x');
        self.at += 2;
    }

    /// Takes `$NAME`, `${NAME}`, `${NAME-default}` or `${NAME[*]}` inside weak quotes.
    fn variable(&mut self) {
        let from = self.at;
        self.started.get_or_insert(from);
        let braced = self.bytes.get(from + 1) == Some(&b'{');
        let name_from = from + 1 + usize::from(braced);
        let name_to = name_end(self.bytes, name_from);
        if name_to == name_from || self.bytes[name_from].is_ascii_digit() {
            let span = self.span(from, name_to.max(from + 1));
            self.diagnostics.push(
                Diagnostic::error("haproxy::bad-variable", "a variable's name starts with a letter or `_`")
                    .at(span)
                    .help("inside double quotes `$` starts a variable; write `\\$` for the character itself"),
            );
            self.push(b'$');
            self.at += 1;
            return;
        }
        // ASCII by `name_end`.
        let name = std::str::from_utf8(&self.bytes[name_from..name_to]).unwrap_or_default();
        let mut rest = name_to;
        let mut spread = false;
        let mut default: &[u8] = b"";
        if braced {
            if self.bytes[rest..].starts_with(b"[*]") {
                spread = true;
                rest += 3;
            }
            let close = self.bytes[rest..].iter().position(|&b| b == b'}').map(|at| rest + at);
            match (close, self.bytes.get(rest)) {
                (Some(close), Some(b'-')) => default = &self.bytes[rest + 1..close],
                (Some(close), _) if close == rest => {}
                _ => {
                    let span = self.span(from, rest);
                    self.diagnostics.push(
                        Diagnostic::error("haproxy::bad-variable", "this `${` is never closed").at(span),
                    );
                    self.at = rest;
                    return;
                }
            }
            rest = close.map_or(rest, |close| close + 1);
        }
        let value = self.env.value(name).map_or_else(|| default.to_vec(), |value| value.as_bytes().to_vec());
        self.at = rest;
        if self.current.len() + value.len() > MAX_WORD {
            let title = format!("this word grows beyond {} KB", MAX_WORD >> 10);
            let span = self.span(from, rest);
            self.diagnostics.push(Diagnostic::error("haproxy::too-long", title).at(span));
            return;
        }
        if spread { self.push_spread(&value) } else { self.current.extend_from_slice(&value) }
    }

    /// `"${NAME[*]}"`: each space-separated part of the value is a word of its own.
    fn push_spread(&mut self, value: &[u8]) {
        let from = self.started;
        for (index, part) in value.split(|&b| b == b' ').filter(|part| !part.is_empty()).enumerate() {
            if index > 0 {
                self.end_word();
                self.started = from;
            }
            self.current.extend_from_slice(part);
        }
    }
}

fn name_end(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of a line, and the codes of what was found.
    fn check(line: &str) -> (Vec<String>, Vec<&'static str>) {
        let env = Env::new([("FOO".to_owned(), "a b".to_owned()), ("N".to_owned(), "8".to_owned())]);
        let mut found = Vec::new();
        let split = split(line, SourceId(0), 0, &env, &mut found);
        (split.words.into_iter().map(|w| w.text).collect(), found.iter().map(|d| d.code).collect())
    }

    /// What Debian's haproxy 2.6 makes of the same lines (asked by its "unknown keyword" message).
    #[test]
    fn words_are_haproxys() {
        for (line, words) in [
            (r"x\ y", vec!["x y"]),
            (r"x\ty", vec!["x\ty"]),
            (r"x\qy", vec![r"x\qy"]),
            (r"x\x41y", vec!["xAy"]),
            (r#""x$FOO""#, vec!["xa b"]),
            (r#""x${FOO}""#, vec!["xa b"]),
            (r#""x${NOPE-dflt}z""#, vec!["xdfltz"]),
            (r#""x${NOPE}z""#, vec!["xz"]),
            (r"'x$FOO\n'", vec![r"x$FOO\n"]),
            (r#""a\q\$FOO\"b""#, vec![r#"a\q$FOO"b"#]),
            ("ab#c", vec!["ab"]),
            (r"ab\#c", vec!["ab#c"]),
            (r#"ab"cd"ef'gh'"#, vec!["abcdefgh"]),
            (r#""a b" c"#, vec!["a b", "c"]),
            (r"\'q", vec!["'q"]),
            ("x$FOO", vec!["x$FOO"]),
            (r#""${FOO[*]}" z"#, vec!["a", "b", "z"]),
            ("  a\t b \r", vec!["a", "b"]),
            (r#"a "" b"#, vec!["a", "", "b"]),
            ("# only words about it", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(check(line), (words.iter().map(|w| w.to_string()).collect(), vec![]), "{line}");
        }
    }

    #[test]
    fn what_haproxy_refuses_is_found_and_the_rest_is_read() {
        assert_eq!(check("\"abc").1, ["haproxy::open-quote"]);
        assert_eq!(check(r"x\x4 y").1, ["haproxy::bad-escape"]);
        assert_eq!(check(r"x\xZZ").1, ["haproxy::bad-escape"]);
        assert_eq!(check("\"${FOO\"").1, ["haproxy::bad-variable", "haproxy::open-quote"][..1]);
        assert_eq!(check("\"x$\" y"), (vec!["x$".into(), "y".into()], vec!["haproxy::bad-variable"]));
        assert_eq!(check("\"$1\"").1, ["haproxy::bad-variable"]);
        assert_eq!(check(r"\xff").1, ["haproxy::not-utf8"]);
    }

    #[test]
    fn words_that_variables_make_too_long_are_refused() {
        let env = Env::new([("A".to_owned(), "a".repeat(MAX_WORD / 2))]);
        let mut found = Vec::new();
        let words = split("\"$A$A\" \"$A$A$A\"", SourceId(0), 0, &env, &mut found).words;
        assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["haproxy::too-long"]);
        assert!(words.iter().all(|word| word.text.len() <= MAX_WORD));
    }

    #[test]
    fn a_bare_backslash_at_the_end_continues() {
        let env = Env::new([]);
        let split = split("server a \\", SourceId(0), 0, &env, &mut Vec::new());
        assert_eq!(split.words.len(), 2);
        assert!(split.continues.is_some());
    }

    #[test]
    fn spans_hold_the_quotes() {
        let env = Env::new([]);
        let split = split("a 'b c' d", SourceId(0), 10, &env, &mut Vec::new());
        assert_eq!((split.words[1].span.start, split.words[1].span.end), (12, 17));
    }
}
