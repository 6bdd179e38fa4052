//! The commands of pages.
//!
//! Owns: their names, their parameters, and which of them stand between `if` and `endif`.
//! Driven by: `pass`, with each command that a page has.

use crate::exchange::Page;
use crate::exchange::page::{Command, MOST_PARAMETERS, Part};

/// What a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Include,
    Echo,
    Config,
    Set,
    If,
    Elif,
    Else,
    Endif,
    Block,
    Endblock,
}

/// `(name, it has to be there)`.
type Parameters = &'static [(&'static str, bool)];

const WORDS: [(&str, Word, Parameters); 10] = [
    (
        "include",
        Word::Include,
        &[("virtual", false), ("file", false), ("wait", false), ("set", false), ("stub", false)],
    ),
    ("echo", Word::Echo, &[("var", true), ("default", false), ("encoding", false)]),
    ("config", Word::Config, &[("errmsg", false), ("timefmt", false)]),
    ("set", Word::Set, &[("var", true), ("value", true)]),
    ("if", Word::If, &[("expr", true)]),
    ("elif", Word::Elif, &[("expr", true)]),
    ("else", Word::Else, &[]),
    ("endif", Word::Endif, &[]),
    ("block", Word::Block, &[("name", true)]),
    ("endblock", Word::Endblock, &[]),
];

/// A command that is right.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) word: Word,
    parameters: Vec<(&'static str, Vec<u8>)>,
}

impl Known {
    /// A parameter's value.
    pub(super) fn get(&mut self, name: &str) -> Option<Vec<u8>> {
        self.parameters.iter_mut().find(|(known, _)| *known == name).map(|(_, value)| std::mem::take(value))
    }
}

/// What a command is in its place on a page. `None`: the page is not to have it there.
///
/// # Errors
/// It is none.
pub(super) fn known(page: &mut Page, command: Command) -> Result<Option<Known>, String> {
    let shown = command.name.escape_ascii().to_string();
    let found = WORDS.iter().find(|(name, ..)| name.as_bytes() == command.name);
    let Some(&(_, word, parameters)) = found else {
        if !page.shows {
            return Ok(None);
        }
        return Err(format!("invalid SSI command: \"{shown}\""));
    };
    if !page.shows && word != Word::Endblock {
        if let Some((_, text)) = &mut page.block {
            write_again(&command, text);
            return Ok(None);
        }
        if !matches!(word, Word::Elif | Word::Else | Word::Endif) {
            return Ok(None);
        }
    }
    if command.parameters.len() > MOST_PARAMETERS {
        return Err(format!("too many SSI command parameters: \"{shown}\""));
    }
    let last = match word {
        Word::Elif | Word::Else => Some(Part::If),
        Word::Endif => Some(Part::Else),
        _ => None,
    };
    if last.is_some() && (page.branch.at.is_none() || page.branch.at > last) {
        return Err(format!("invalid context of SSI command: \"{shown}\""));
    }
    let mut all: Vec<(&'static str, Vec<u8>)> = Vec::new();
    for (name, value) in command.parameters {
        let name = name.escape_ascii().to_string();
        let Some(&(known, _)) = parameters.iter().find(|(known, _)| *known == name) else {
            return Err(format!("invalid parameter name: \"{name}\" in \"{shown}\" SSI command"));
        };
        if all.iter().any(|(other, _)| *other == known) {
            return Err(format!("duplicate \"{name}\" parameter in \"{shown}\" SSI command"));
        }
        all.push((known, value));
    }
    let absent = |(name, must): &&(&str, bool)| *must && !all.iter().any(|(known, _)| known == name);
    if let Some((name, _)) = parameters.iter().find(absent) {
        return Err(format!("mandatory \"{name}\" parameter is absent in \"{shown}\" SSI command"));
    }
    Ok(Some(Known { word, parameters: all }))
}

/// Writes a command as it may have stood on the page.
fn write_again(command: &Command, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<!--#");
    out.extend_from_slice(&command.name);
    for (name, value) in &command.parameters {
        let quote = if value.contains(&b'"') { b'\'' } else { b'"' };
        out.push(b' ');
        out.extend_from_slice(name);
        out.extend_from_slice(&[b'=', quote]);
        out.extend_from_slice(value);
        out.push(quote);
    }
    out.extend_from_slice(b" -->");
}
