//! What a client sends: lines of commands, with payloads.
//!
//! Owns: the grammar: `;` between commands, `\` before a character that stands for itself, `<<` before a payload that ends at
//! an empty line, or at a line that holds just the pattern given after `<<`.
//! Never: knows a command.
//! Driven by: [`super::Session`].

use std::time::Duration;

/// Most bytes that wait to be a whole command: a payload may be a chain of certificates.
const MOST: usize = 1 << 20;

/// Most words of a command, as in HAProxy.
const MOST_WORDS: usize = 64;

/// One command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Its words, escapes resolved.
    pub words: Vec<String>,
    /// What followed on further lines.
    pub payload: Option<String>,
}

/// A client sent more than fits one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Bytes that arrived, as lines of commands.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Bytes that were looked at and hold no end of a line.
    seen: usize,
    /// The line whose payload is being read.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    commands: Vec<Command>,
    /// The line that ends the payload.
    end: String,
    payload: String,
}

impl Lines {
    /// Takes what arrived.
    ///
    /// # Errors
    /// It is too much for one command; nothing further will be understood.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let waiting = self.bytes.len() + self.open.as_ref().map_or(0, |open| open.payload.len());
        if waiting + bytes.len() > MOST {
            return Err(TooLong);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The client sends no more: what is left is a line.
    pub fn end(&mut self) {
        if self.open.is_some() || !self.bytes.is_empty() {
            self.bytes.push(b'\n');
            if self.open.is_some() {
                self.bytes.push(b'\n');
            }
        }
    }

    /// True while a payload is being read.
    pub fn in_payload(&self) -> bool {
        self.open.is_some()
    }

    /// True if nothing is left to look at.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.open.is_none()
    }

    /// The commands of the next line that is whole, payload included.
    pub fn next_line(&mut self) -> Option<Vec<Command>> {
        loop {
            let line = self.take_line()?;
            let Some(mut open) = self.open.take() else {
                let (commands, end) = split(&line);
                match end {
                    Some(end) => self.open = Some(Open { commands, end, payload: String::new() }),
                    None => return Some(commands),
                }
                continue;
            };
            if line == open.end {
                if let Some(last) = open.commands.last_mut() {
                    last.payload = Some(open.payload);
                }
                return Some(open.commands);
            }
            open.payload.push_str(&line);
            open.payload.push('\n');
            self.open = Some(open);
        }
    }

    fn take_line(&mut self) -> Option<String> {
        let Some(end) = self.bytes[self.seen..].iter().position(|byte| *byte == b'\n') else {
            self.seen = self.bytes.len();
            return None;
        };
        let rest = self.bytes.split_off(self.seen + end + 1);
        let mut line = std::mem::replace(&mut self.bytes, rest);
        self.seen = 0;
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Some(String::from_utf8_lossy(&line).into_owned())
    }
}

/// The commands of a line, and the line that ends its payload if there is one to come.
fn split(line: &str) -> (Vec<Command>, Option<String>) {
    let mut commands = vec![Command::default()];
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    let push = |commands: &mut Vec<Command>, word: &mut Option<String>| {
        if let (Some(word), Some(command)) = (word.take(), commands.last_mut())
            && command.words.len() < MOST_WORDS
        {
            command.words.push(word);
        }
    };
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.get_or_insert_default().extend(characters.next()),
            ';' => {
                push(&mut commands, &mut word);
                commands.push(Command::default());
            }
            ' ' | '\t' => push(&mut commands, &mut word),
            other => word.get_or_insert_default().push(other),
        }
    }
    push(&mut commands, &mut word);
    if commands.len() > 1 && commands.last().is_some_and(|last| last.words.is_empty()) {
        commands.pop();
    }
    let last = commands.last_mut();
    let end = last.and_then(|last| {
        let pattern = last.words.last()?.strip_prefix("<<")?.to_owned();
        last.words.pop();
        Some(pattern)
    });
    (commands, end)
}

/// A delay in milliseconds of `unit`, or with a unit of its own.
pub(super) fn delay(text: &str, unit: u64) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let micros = match &text[digits..] {
        "" => unit.checked_mul(1000)?,
        "us" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    number.checked_mul(micros).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(parts: &[&str]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut all = Vec::new();
        for part in parts {
            lines.feed(part.as_bytes()).unwrap();
            while let Some(commands) = lines.next_line() {
                let one = |command: &Command| {
                    let payload =
                        command.payload.as_ref().map_or_else(String::new, |text| format!("<{text}>"));
                    format!("{}{payload}", command.words.join("|"))
                };
                all.push(commands.iter().map(one).collect::<Vec<_>>().join(" & "));
            }
        }
        all
    }

    #[test]
    fn commands_are_parted_and_characters_stand_for_themselves() {
        assert_eq!(lines(&["show  info;show\tstat\r\nhe", "lp\n"]), ["show|info & show|stat", "help"]);
        assert_eq!(lines(&["a\\;b c\\ d \\\\\n"]), ["a;b|c d|\\"]);
        assert_eq!(lines(&["a;\n\n;a\n"]), ["a", "", " & a"]);
    }

    #[test]
    fn payloads_end_at_an_empty_line_or_at_their_pattern() {
        assert_eq!(
            lines(&["x;add map m <<\na b\n", "c d\n\nshow info\n"]),
            ["x & add|map|m<a b\nc d\n>", "show|info"]
        );
        assert_eq!(lines(&["set c <<EOF\na\n\nb\nEOF\n"]), ["set|c<a\n\nb\n>"]);
    }

    #[test]
    fn what_waits_has_a_bound() {
        let mut lines = Lines::default();
        let piece = vec![b'x'; MOST / 2];
        assert_eq!(lines.feed(&piece), Ok(()));
        assert_eq!(lines.feed(&piece), Ok(()));
        assert_eq!(lines.feed(b"x"), Err(TooLong));
        let many = "w ".repeat(1000);
        assert_eq!(split(&many).0[0].words.len(), MOST_WORDS);
    }
}
