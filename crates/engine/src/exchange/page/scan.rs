//! Finding commands in a page.
//!
//! Owns: the grammar of `<!--# name parameter="value" -->`, whatever pieces the page comes in.
//! Never: knows a command.
//! Driven by: `answer::commands`, with each piece of a page.
//! Why: it follows nginx's scanner state by state, because pages depend on what it takes for a mistake. What is kept
//! of a command is bounded: names, parameters and values have most lengths.

/// Most bytes of the name of a command or parameter.
const MOST_NAME: usize = 32;
/// Most parameters of a command.
pub(crate) const MOST_PARAMETERS: usize = 16;
const OPENER: &[u8] = b"<!--#";

/// A command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) name: Vec<u8>,
    /// At most one more than there may be.
    pub(crate) parameters: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What a page has next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'p> {
    /// Text.
    Text(&'p [u8]),
    /// A command.
    Command(Command),
    /// What was to be one, and why it is none.
    Broken(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// So many bytes of [`OPENER`] were seen.
    Text(u8),
    BeforeName,
    Name,
    BeforeParameter,
    Parameter,
    BeforeEqual,
    BeforeValue,
    Value(u8),
    /// Behind a backslash in a value that this ends.
    Escaped(u8),
    AfterValue,
    /// So many bytes of `-->` were seen.
    End(u8),
    /// The same behind a mistake.
    Skip(u8),
}

/// A search.
#[derive(Debug)]
pub(crate) struct Scan {
    state: State,
    command: Command,
    mistake: String,
    value_length: usize,
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\r' | b'\n' | b'\t')
}

impl Scan {
    /// One that takes values of so many bytes at most.
    pub(crate) fn new(value_length: usize) -> Self {
        Self { state: State::Text(0), command: Command::default(), mistake: String::new(), value_length }
    }

    /// What comes next in a piece, which is shortened by it; `None` at its end.
    pub(crate) fn next<'p>(&mut self, piece: &mut &'p [u8]) -> Option<Found<'p>> {
        loop {
            if let State::Text(seen) = self.state {
                if let Some(text) = self.text(usize::from(seen), piece)? {
                    return Some(Found::Text(text));
                }
                continue;
            }
            let (&byte, rest) = piece.split_first()?;
            *piece = rest;
            if self.step(byte) {
                let ended = std::mem::replace(&mut self.state, State::Text(0));
                return Some(match ended {
                    State::Skip(_) => Found::Broken(std::mem::take(&mut self.mistake)),
                    _ => Found::Command(std::mem::take(&mut self.command)),
                });
            }
        }
    }

    /// Looks for the next command. `Some(None)`: something changed. `None`: the piece has ended.
    fn text<'p>(&mut self, seen: usize, piece: &mut &'p [u8]) -> Option<Option<&'p [u8]>> {
        let &next = piece.first()?;
        if seen == 0 {
            let at = memchr::memchr(b'<', piece).unwrap_or(piece.len());
            if at > 0 {
                let (text, rest) = piece.split_at(at);
                *piece = rest;
                return Some(Some(text));
            }
        }
        if next == OPENER[seen] {
            *piece = &piece[1..];
            let seen = seen + 1;
            self.state = if seen < OPENER.len() { State::Text(seen as u8) } else { State::BeforeName };
            return Some(None);
        }
        // It was no opener; this byte may begin one.
        self.state = State::Text(0);
        Some(Some(&OPENER[..seen]))
    }

    /// Takes a byte of a command; true behind its end.
    fn step(&mut self, byte: u8) -> bool {
        let blank = is_blank(byte);
        self.state = match self.state {
            State::BeforeName if blank => State::BeforeName,
            State::BeforeName => {
                self.command = Command { name: vec![byte], parameters: Vec::new() };
                State::Name
            }
            State::Name if blank => State::BeforeParameter,
            State::Name | State::BeforeParameter | State::AfterValue if byte == b'-' => State::End(1),
            State::Name if self.command.name.len() == MOST_NAME => self.fail("the name is too long"),
            State::Name => {
                self.command.name.push(byte);
                State::Name
            }
            State::BeforeParameter | State::AfterValue if blank => State::BeforeParameter,
            State::AfterValue => self.unexpected(byte, "after a value"),
            State::BeforeParameter => {
                if self.command.parameters.len() > MOST_PARAMETERS {
                    self.command.parameters.pop();
                }
                self.command.parameters.push((vec![byte], Vec::new()));
                State::Parameter
            }
            State::Parameter if blank => State::BeforeEqual,
            State::Parameter | State::BeforeEqual if byte == b'=' => State::BeforeValue,
            State::Parameter if byte == b'-' => self.unexpected(byte, "in the name of a parameter"),
            State::Parameter => self.push_name(byte),
            State::BeforeEqual | State::BeforeValue if blank => self.state,
            State::BeforeEqual => self.unexpected(byte, "after the name of a parameter"),
            State::BeforeValue if matches!(byte, b'"' | b'\'') => State::Value(byte),
            State::BeforeValue => self.unexpected(byte, "before a value"),
            State::Value(quote) if byte == quote => State::AfterValue,
            State::Value(quote) if byte == b'\\' => self.push_value(byte, State::Escaped(quote)),
            State::Value(quote) | State::Escaped(quote) => self.push_value(byte, State::Value(quote)),
            State::End(1) if byte == b'-' => State::End(2),
            State::End(2) if byte == b'>' => return true,
            State::End(_) => self.unexpected_inside(byte),
            State::Skip(2) if byte == b'>' => return true,
            State::Skip(seen) if byte == b'-' && seen < 2 => State::Skip(seen + 1),
            State::Skip(_) => State::Skip(0),
            State::Text(_) => self.state,
        };
        false
    }

    fn push_name(&mut self, byte: u8) -> State {
        let Some((name, _)) = self.command.parameters.last_mut() else { return State::Skip(0) };
        if name.len() == MOST_NAME {
            return self.fail("the name of a parameter is too long");
        }
        name.push(byte);
        State::Parameter
    }

    fn push_value(&mut self, byte: u8, next: State) -> State {
        let most = self.value_length;
        let Some((_, value)) = self.command.parameters.last_mut() else { return State::Skip(0) };
        if value.len() >= most {
            return self.fail("a value is too long (ssi_value_length)");
        }
        value.push(byte);
        next
    }

    fn unexpected(&mut self, byte: u8, place: &str) -> State {
        self.unexpected_inside(byte);
        self.mistake.push(' ');
        self.mistake.push_str(place);
        State::Skip(u8::from(byte == b'-'))
    }

    fn unexpected_inside(&mut self, byte: u8) -> State {
        self.fail(&format!("unexpected \"{}\"", byte.escape_ascii()))
    }

    fn fail(&mut self, why: &str) -> State {
        let Command { name, parameters } = &self.command;
        let parameter = parameters.last().map_or(&b""[..], |(name, _)| name);
        self.mistake =
            format!("SSI command \"{}\", \"{}\": {why}", name.escape_ascii(), parameter.escape_ascii());
        State::Skip(0)
    }
}

/// Everything that a page has: text as one, and what else there is in its place.
fn all_of<'p>(
    pieces: impl Iterator<Item = &'p [u8]>,
    value_length: usize,
) -> Vec<(Vec<u8>, Option<Command>)> {
    let (mut scan, mut all) = (Scan::new(value_length), vec![(Vec::new(), None)]);
    for mut piece in pieces {
        while let Some(found) = scan.next(&mut piece) {
            let Some((text, command)) = all.last_mut() else { return all };
            match found {
                Found::Text(more) => {
                    text.extend_from_slice(more);
                    continue;
                }
                Found::Command(found) => *command = Some(found),
                Found::Broken(why) => assert!(why.len() < 1024, "{why}"),
            }
            all.push((Vec::new(), None));
        }
    }
    all
}

/// For any page: it is the same in pieces of any size, and what is kept of a command is bounded.
pub(crate) fn fuzz(data: &[u8]) {
    let Some((&first, page)) = data.split_first() else { return };
    let (step, value_length) = (usize::from(first & 15) + 1, usize::from(first >> 4));
    let whole = all_of(std::iter::once(page), value_length);
    assert_eq!(whole, all_of(page.chunks(step), value_length));
    for Command { name, parameters } in whole.iter().filter_map(|(_, command)| command.as_ref()) {
        assert!(name.len() <= MOST_NAME && parameters.len() <= MOST_PARAMETERS + 1);
        let fits =
            |(name, value): &(Vec<u8>, Vec<u8>)| name.len() <= MOST_NAME && value.len() <= value_length;
        assert!(parameters.iter().all(fits));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a page has, whatever pieces it comes in: text as it is, commands in brackets, `!` for mistakes.
    fn found(page: &str) -> String {
        let in_pieces = |step: usize| {
            let (mut scan, mut out) = (Scan::new(8), String::new());
            for mut piece in page.as_bytes().chunks(step) {
                while let Some(found) = scan.next(&mut piece) {
                    match found {
                        Found::Text(text) => out += std::str::from_utf8(text).unwrap(),
                        Found::Command(command) => {
                            out += &format!("[{}", command.name.escape_ascii());
                            for (name, value) in command.parameters {
                                out += &format!(" {}={}", name.escape_ascii(), value.escape_ascii());
                            }
                            out.push(']');
                        }
                        Found::Broken(why) => {
                            assert!(why.contains("SSI command"), "{why}");
                            out.push('!');
                        }
                    }
                }
            }
            out
        };
        let whole = in_pieces(page.len().max(1));
        (1..page.len()).for_each(|step| assert_eq!(in_pieces(step), whole, "in pieces of {step}"));
        whole
    }

    #[test]
    fn commands_are_found_across_pieces() {
        for (page, expected) in [
            ("a<!--#echo var=\"x\" -->b", "a[echo var=x]b"),
            ("<!--# echo\n var = 'x y'\tdefault=\"\"-->", "[echo var=x y default=]"),
            ("<<!<!-<!--<!--#endif-->", "<<!<!-<!--[endif]"),
            ("<!-- a --><p>", "<!-- a --><p>"),
            (r#"<!--#if expr="\"a'" -->"#, r#"[if expr=\\\"a\']"#),
            ("a<!-", "a"),
            ("a<!--# echo", "a"),
            ("<!--# e -x --> -->b", "! -->b"),
        ] {
            assert_eq!(found(page), expected, "{page}");
        }
    }

    #[test]
    fn mistakes_end_where_the_command_does() {
        for page in [
            "<!--#echo var=x -->",
            "<!--#echo var -->",
            "<!--#echo var-->",
            "<!--#echo var=\"123456789\" -->",
            "<!--#echo var=\"1\"2 -->",
            "<!--#echo var \"1\" --- -->",
            "<!--#abcdefghijabcdefghijabcdefghijabc -->",
        ] {
            assert_eq!(found(&format!("a{page}b")), "a!b", "{page}");
        }
    }
}
