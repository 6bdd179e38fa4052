//! Words of nginx.conf.
//!
//! Owns: the rules of words, quotes, escapes and comments.
//! Never: knows a directive, but that the blocks of `…_by_lua_block` hold Lua.
//! Driven by: [`crate::tree::parse`], one token at a time.
//! Why: written after the behaviour of nginx's own reader, oddities included: a quote counts only at the beginning
//! of a word, `}` inside a word is a letter, `{` inside a word ends it unless `$` stands before it, `#` is a comment
//! only where a word could begin, and after a closing quote a blank, `;`, `{` or `)` must follow.

use weir_diag::{Diagnostic, SourceId, Span};

/// The mark a word was quoted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quote {
    /// `'`
    Single,
    /// `"`
    Double,
}

/// One word with its escapes resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The text meant.
    pub text: String,
    /// The text as written, quotes included.
    pub span: Span,
    /// How it was quoted.
    pub quote: Option<Quote>,
}

impl Word {
    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Word(Word),
    /// `;`
    End(Span),
    /// `{`
    Open(Span),
    /// `}`
    Close(Span),
    /// The text is over.
    Eof(Span),
}

/// Reads tokens from one text.
pub(crate) struct Lexer<'a> {
    text: &'a str,
    source: SourceId,
    at: usize,
    /// The word before was quoted, so a separator must follow.
    after_quote: bool,
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str, source: SourceId) -> Self {
        Self { text, source, at: 0, after_quote: false }
    }

    fn span(&self, start: usize, end: usize) -> Span {
        // Sources are bounded by `include`, far below 4 GiB.
        Span { source: self.source, start: start as u32, end: end as u32 }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next token. `words_before` says whether words of the same directive were read: a `}` then is an error of
    /// the parser's, not the lexer's.
    pub(crate) fn next(&mut self, found: &mut Vec<Diagnostic>) -> Token {
        self.check_after_quote(found);
        self.skip_blanks_and_comments();
        let start = self.at;
        let Some(byte) = self.peek() else { return Token::Eof(self.span(self.text.len(), self.text.len())) };
        match byte {
            b';' | b'{' | b'}' => {
                self.at += 1;
                let span = self.span(start, self.at);
                match byte {
                    b';' => Token::End(span),
                    b'{' => Token::Open(span),
                    _ => Token::Close(span),
                }
            }
            b'"' => self.quoted(Quote::Double, found),
            b'\'' => self.quoted(Quote::Single, found),
            _ => self.bare(),
        }
    }

    fn check_after_quote(&mut self, found: &mut Vec<Diagnostic>) {
        if !std::mem::take(&mut self.after_quote) {
            return;
        }
        let Some(byte) = self.peek() else { return };
        if is_blank(byte) || matches!(byte, b';' | b'{' | b')') {
            return;
        }
        let length = self.text[self.at..].chars().next().map_or(1, char::len_utf8);
        let span = self.span(self.at, self.at + length);
        found.push(
            Diagnostic::error("nginx::glued-to-quote", "a blank, `;` or `{` must follow a closing quote")
                .labelled(span, "stands right after the quote")
                .help("quote the whole word, or escape the inner quote with `\\`"),
        );
    }

    fn skip_blanks_and_comments(&mut self) {
        while let Some(byte) = self.peek() {
            if is_blank(byte) {
                self.at += 1;
            } else if byte == b'#' {
                let rest = &self.text.as_bytes()[self.at..];
                self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
            } else {
                return;
            }
        }
    }

    fn bare(&mut self) -> Token {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut variable = false;
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b'{' if variable => {}
                _ if is_blank(byte) || byte == b';' || byte == b'{' => break,
                // The byte after a backslash belongs to the word whatever it is.
                b'\\' => self.at += usize::from(self.at + 1 < bytes.len()),
                _ => {}
            }
            variable = byte == b'$';
            self.at += 1;
        }
        self.settle();
        let raw = &self.text[start..self.at];
        Token::Word(Word { text: unescape(raw), span: self.span(start, self.at), quote: None })
    }

    fn quoted(&mut self, quote: Quote, found: &mut Vec<Diagnostic>) -> Token {
        let bytes = self.text.as_bytes();
        let mark = if quote == Quote::Double { b'"' } else { b'\'' };
        let start = self.at;
        self.at += 1;
        while let Some(&byte) = bytes.get(self.at) {
            if byte == mark {
                self.at += 1;
                self.after_quote = true;
                let inner = &self.text[start + 1..self.at - 1];
                let span = self.span(start, self.at);
                return Token::Word(Word { text: unescape(inner), span, quote: Some(quote) });
            }
            self.at += if byte == b'\\' { 2 } else { 1 };
        }
        self.unterminated(start, quote, found)
    }

    /// Ends the word where its first line, or a `;` or `{` at the end of that line, suggests it was meant to end.
    fn unterminated(&mut self, start: usize, quote: Quote, found: &mut Vec<Diagnostic>) -> Token {
        let rest = &self.text[start..];
        let line = rest.split('\n').next().unwrap_or(rest).trim_end();
        let line = line.strip_suffix([';', '{']).unwrap_or(line).trim_end();
        self.at = start + line.len().max(1);
        let span = self.span(start, start + 1);
        found.push(
            Diagnostic::error("nginx::unterminated-quote", "this quote is never closed")
                .labelled(span, "opened here")
                .help("close it before the `;`, or escape it with `\\` if it belongs to the word"),
        );
        let inner = self.text.get(start + 1..self.at).unwrap_or("");
        let span = self.span(start, self.at);
        Token::Word(Word { text: unescape(inner), span, quote: Some(quote) })
    }

    /// Moves to a character boundary: an escape may have skipped into a character of several bytes.
    fn settle(&mut self) {
        while self.at < self.text.len() && !self.text.is_char_boundary(self.at) {
            self.at += 1;
        }
    }

    /// Skips a Lua block whose `{` was just read, up to and with its `}`. True if the end was found.
    pub(crate) fn skip_lua(&mut self) -> bool {
        let bytes = self.text.as_bytes();
        let mut depth = 1usize;
        while let Some(&byte) = bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                b'"' | b'\'' => self.skip_lua_string(byte),
                b'-' if bytes[self.at..].starts_with(b"-") => self.skip_lua_comment(),
                b'[' => {
                    self.at -= 1;
                    if !self.skip_lua_long_bracket() {
                        self.at += 1;
                    }
                }
                _ => {}
            }
            if depth == 0 {
                return true;
            }
        }
        self.settle();
        false
    }

    fn skip_lua_string(&mut self, mark: u8) {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'\n' => return,
                _ if byte == mark => return,
                _ => {}
            }
        }
        self.at = self.at.min(bytes.len());
    }

    fn skip_lua_comment(&mut self) {
        self.at += 1;
        if self.skip_lua_long_bracket() {
            return;
        }
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
    }

    /// Skips `[[…]]` or `[==[…]==]` if one begins here.
    fn skip_lua_long_bracket(&mut self) -> bool {
        let rest = &self.text.as_bytes()[self.at..];
        let Some(inner) = rest.strip_prefix(b"[") else { return false };
        let level = inner.iter().take_while(|&&b| b == b'=').count();
        if inner.get(level) != Some(&b'[') {
            return false;
        }
        let close: Vec<u8> = [b"]".as_slice(), &vec![b'='; level], b"]"].concat();
        let body = level + 2;
        let end = rest[body..].windows(close.len()).position(|w| w == close);
        self.at += end.map_or(rest.len(), |at| body + at + close.len());
        true
    }
}

/// Resolves escapes as nginx does: `\"`, `\'`, `\\`, `\t`, `\r`, `\n`; before anything else the backslash stays.
fn unescape(raw: &str) -> String {
    if !raw.contains('\\') {
        return raw.to_owned();
    }
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw.chars().peekable();
    while let Some(c) = rest.next() {
        let meant = match (c, rest.peek()) {
            ('\\', Some(&next @ ('"' | '\'' | '\\'))) => Some(next),
            ('\\', Some('t')) => Some('\t'),
            ('\\', Some('r')) => Some('\r'),
            ('\\', Some('n')) => Some('\n'),
            _ => None,
        };
        match meant {
            Some(meant) => {
                out.push(meant);
                rest.next();
            }
            None => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> (Vec<String>, usize) {
        let mut found = Vec::new();
        let mut lexer = Lexer::new(text, SourceId(0));
        let mut out = Vec::new();
        loop {
            out.push(match lexer.next(&mut found) {
                Token::Word(word) => word.text,
                Token::End(_) => ";".into(),
                Token::Open(_) => "{".into(),
                Token::Close(_) => "}".into(),
                Token::Eof(_) => return (out, found.len()),
            });
        }
    }

    #[test]
    fn words_end_where_nginx_ends_them() {
        let table: &[(&str, &[&str])] = &[
            ("listen 80;", &["listen", "80", ";"]),
            ("a b;c d;", &["a", "b", ";", "c", "d", ";"]),
            ("location / {}", &["location", "/", "{", "}"]),
            ("location /{ }", &["location", "/", "{", "}"]),
            ("root ${dir}/x;", &["root", "${dir}/x", ";"]),
            ("root /a$b{", &["root", "/a$b", "{"]),
            ("a b#c # d\n;", &["a", "b#c", ";"]),
            ("# only a comment", &[]),
            ("a 'b c' \"d;e\";", &["a", "b c", "d;e", ";"]),
            ("a 'it\\'s' \"\\\"q\\\"\" \\\\x;", &["a", "it's", "\"q\"", "\\x", ";"]),
            ("a \\.php$ a\\ b \\t|;", &["a", "\\.php$", "a\\ b", "\t|", ";"]),
            ("a x\"y z\";", &["a", "x\"y", "z\"", ";"]),
            ("if ($a = \"b\") {", &["if", "($a", "=", "b", ")", "{"]),
            ("a\r\nb\r\n;\r\n", &["a", "b", ";"]),
            ("a }b;", &["a", "}", "b", ";"]),
            ("a b};", &["a", "b}", ";"]),
            ("\"~ ^/x{2,3}\" {", &["~ ^/x{2,3}", "{"]),
            ("a '';", &["a", "", ";"]),
            ("größe ‘x’;", &["größe", "‘x’", ";"]),
        ];
        for (text, expected) in table {
            assert_eq!(words(text), (expected.iter().map(|s| (*s).to_owned()).collect(), 0), "{text}");
        }
    }

    #[test]
    fn mistakes_are_told_and_reading_goes_on() {
        assert_eq!(words("a \"b\"c;").1, 1);
        assert_eq!(words("a \"b;\nc d;"), (["a", "b", ";", "c", "d", ";"].map(String::from).to_vec(), 1));
        assert_eq!(words("a '"), (vec!["a".into(), String::new()], 1));
        assert_eq!(words("a \\"), (vec!["a".into(), "\\".into()], 0));
        assert_eq!(words("a \\é;").1, 0);
    }

    #[test]
    fn lua_is_skipped_whole() {
        let text = "-- } \n local s = '}' [[ } ]] --[=[ } ]=] if x then y = { 1 } end } z;";
        let mut lexer = Lexer::new(text, SourceId(0));
        assert!(lexer.skip_lua());
        assert!(matches!(lexer.next(&mut Vec::new()), Token::Word(w) if w.text == "z"));
    }
}
