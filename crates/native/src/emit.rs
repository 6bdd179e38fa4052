//! Documents as YAML.
//!
//! Owns: how it is laid out: two blanks of indent, short lists on one line, large things that are written twice named by an
//! anchor and written once.
//! Never: decides what is written.
//! Driven by: `lib`.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::plain::Plain;

/// Longest line of a list that is not broken.
const WIDE: usize = 100;

/// Values that something has at least so many of are written once.
const LARGE: usize = 6;

/// The document as YAML. With `share`, what is large and written twice is named.
pub(crate) fn yaml(document: &Plain, share: bool) -> String {
    let mut out = Out { text: String::new(), names: HashMap::new(), done: HashMap::new() };
    if share {
        let mut times = HashMap::new();
        times_of(document, &mut times);
        out.names = times.into_iter().filter(|(_, times)| *times > 1).map(|(plain, _)| (plain, 0)).collect();
    }
    match document {
        Plain::Map(sections) => {
            for (name, value) in sections {
                if !out.text.is_empty() {
                    out.text.push('\n');
                }
                out.entry(name, value, 0);
            }
        }
        other => {
            out.inline_or_block(other, 0, "document");
        }
    }
    if out.text.is_empty() { "{}\n".into() } else { out.text }
}

/// How often each large thing is met; what is inside of one that was met before does not count again.
fn times_of<'p>(plain: &'p Plain, times: &mut HashMap<&'p Plain, u32>) {
    if plain.leaves() >= LARGE && !is_flow(plain, 0) {
        let met = times.entry(plain).or_default();
        *met += 1;
        if *met > 1 {
            return;
        }
    }
    match plain {
        Plain::List(items) => items.iter().for_each(|item| times_of(item, times)),
        Plain::Map(entries) => entries.iter().for_each(|(_, value)| times_of(value, times)),
        _ => {}
    }
}

struct Out<'p> {
    text: String,
    /// What is written once.
    names: HashMap<&'p Plain, u32>,
    /// The names that it was written under.
    done: HashMap<&'p Plain, String>,
}

impl<'p> Out<'p> {
    /// `name: value` at an indent, with its end of line.
    fn entry(&mut self, name: &str, value: &'p Plain, indent: usize) {
        let _ = write!(self.text, "{:indent$}{}:", "", scalar(name, false));
        self.inline_or_block(value, indent, name);
    }

    /// A value behind a colon or a dash.
    fn inline_or_block(&mut self, value: &'p Plain, indent: usize, name: &str) {
        if let Some(done) = self.done.get(value) {
            let _ = writeln!(self.text, " *{done}");
            return;
        }
        if let Some(flow) = flow(value, indent) {
            let _ = writeln!(self.text, " {flow}");
            return;
        }
        if self.names.contains_key(value) {
            let anchor = self.anchor(name);
            let _ = write!(self.text, " &{anchor}");
            self.done.insert(value, anchor);
        }
        match value {
            Plain::Text(text) => {
                let _ = writeln!(self.text, " |");
                for line in text.lines() {
                    let _ = writeln!(self.text, "{:width$}{line}", "", width = indent + 2);
                }
            }
            Plain::List(items) => {
                self.text.push('\n');
                items.iter().for_each(|item| self.item(item, indent + 2, name));
            }
            Plain::Map(entries) => {
                self.text.push('\n');
                entries.iter().for_each(|(name, value)| self.entry(name, value, indent + 2));
            }
            _ => {}
        }
    }

    /// `- value`.
    fn item(&mut self, value: &'p Plain, indent: usize, name: &str) {
        match value {
            // The first entry of a map stands behind the dash.
            Plain::Map(entries) if !entries.is_empty() && !self.names.contains_key(value) => {
                let from = self.text.len();
                entries.iter().for_each(|(name, value)| self.entry(name, value, indent + 2));
                self.text.replace_range(from + indent..from + indent + 2, "- ");
            }
            _ => {
                let _ = write!(self.text, "{:indent$}-", "");
                self.inline_or_block(value, indent, name);
            }
        }
    }

    fn anchor(&self, name: &str) -> String {
        let mut base: String =
            name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(40).collect();
        if base.is_empty() {
            base = "shared".into();
        }
        let taken = |name: &str| self.done.values().any(|done| done == name);
        match taken(&base) {
            false => base,
            true => {
                (2u32..).map(|number| format!("{base}{number}")).find(|name| !taken(name)).unwrap_or(base)
            }
        }
    }
}

fn is_flow(value: &Plain, indent: usize) -> bool {
    flow(value, indent).is_some()
}

/// A value on one line.
fn flow(value: &Plain, indent: usize) -> Option<String> {
    match value {
        Plain::Null => Some("null".into()),
        Plain::Bool(value) => Some(value.to_string()),
        Plain::Int(number) => Some(number.to_string()),
        Plain::Text(text) => (!is_block(text)).then(|| scalar(text, false)),
        Plain::List(items) => {
            let mut out = String::from("[");
            for (at, item) in items.iter().enumerate() {
                let part = match item {
                    Plain::List(_) | Plain::Map(_) => return None,
                    Plain::Text(text) => scalar(text, true),
                    other => flow(other, indent)?,
                };
                if at > 0 {
                    out.push_str(", ");
                }
                out.push_str(&part);
                if out.len() + indent > WIDE {
                    return None;
                }
            }
            out.push(']');
            Some(out)
        }
        Plain::Map(entries) => entries.is_empty().then(|| "{}".into()),
    }
}

/// Text of several lines that can stand as it is.
fn is_block(text: &str) -> bool {
    text.ends_with('\n')
        && !text.ends_with("\n\n")
        && text.len() > 1
        && !text.starts_with([' ', '\n', '\t'])
        && text.lines().count() > 1
        && text.chars().all(|c| {
            c == '\n'
                || c == ' '
                || !c.is_control() && !matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
        })
}

/// A text as a scalar, in quotes where it would be taken for something else.
fn scalar(text: &str, in_list: bool) -> String {
    let first =
        |c: char| c.is_alphanumeric() || matches!(c, '/' | '_' | '.' | '$' | '^' | '(' | '<' | '+' | '=');
    let other = |c: char| {
        first(c)
            || matches!(
                c,
                '-' | '@' | '*' | '?' | '~' | '%' | '|' | ';' | ')' | '>' | '\\' | '\'' | '"' | '&' | '!'
            )
            || (!in_list && matches!(c, ' ' | '{' | '}' | '[' | ']' | ','))
            || c == ':'
    };
    let plain = text.starts_with(first)
        && text.chars().all(other)
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with([':', ' '])
        && (!in_list || !text.contains(':'))
        && !is_word(text)
        && !text.starts_with("...");
    match plain {
        true => text.to_owned(),
        false => serde_json::to_string(text)
            .unwrap_or_default()
            .replace('\u{7f}', "\\x7f")
            .replace('\u{85}', "\\N"),
    }
}

/// What YAML takes for a number, a truth value or nothing.
fn is_word(text: &str) -> bool {
    let number = text.strip_prefix(['+', '-']).unwrap_or(text).replace('_', "");
    text.is_empty()
        || number.parse::<f64>().is_ok()
        || number.starts_with("0x")
        || number.starts_with("0o")
        || matches!(number.to_ascii_lowercase().as_str(), ".inf" | ".nan" | "=" | "<<")
        || matches!(
            text.to_ascii_lowercase().as_str(),
            "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n" | "~"
        )
}
