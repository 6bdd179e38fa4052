//! Source texts and positions in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Names one text in [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SourceId(pub u32);

/// A half-open range of bytes in one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// The text.
    pub source: SourceId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The smallest span that holds both; `self` if they are of different sources.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        if self.source != other.source {
            return self;
        }
        Span { source: self.source, start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A position for people: both count from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineColumn {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

#[derive(Clone, Debug)]
struct Source {
    name: PathBuf,
    text: Arc<str>,
    line_starts: Vec<u32>,
}

/// Every text that one configuration is made of, in the order they were opened.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    all: Vec<Source>,
}

impl Sources {
    /// Adds a text under the name it is shown by. Texts over 4 GiB are not supported; spans count in `u32`.
    pub fn add(&mut self, name: impl Into<PathBuf>, text: impl Into<Arc<str>>) -> SourceId {
        let text = text.into();
        let newlines = text.bytes().enumerate().filter(|&(_, b)| b == b'\n');
        let line_starts = std::iter::once(0).chain(newlines.map(|(at, _)| at as u32 + 1)).collect();
        self.all.push(Source { name: name.into(), text, line_starts });
        SourceId(self.all.len() as u32 - 1)
    }

    /// The name a text was added under.
    pub fn name(&self, id: SourceId) -> &Path {
        &self.all[id.0 as usize].name
    }

    /// The whole text.
    pub fn text(&self, id: SourceId) -> Arc<str> {
        self.all[id.0 as usize].text.clone()
    }

    /// The bytes of a span; shortened where a span reaches past the text.
    pub fn slice(&self, span: Span) -> &str {
        let text = &self.all[span.source.0 as usize].text;
        let end = (span.end as usize).min(text.len());
        text.get((span.start as usize).min(end)..end).unwrap_or("")
    }

    /// Line and column of a byte.
    pub fn position(&self, id: SourceId, byte: u32) -> LineColumn {
        let source = &self.all[id.0 as usize];
        let line = source.line_starts.partition_point(|&start| start <= byte).max(1);
        let start = source.line_starts[line - 1] as usize;
        let before = source.text.get(start..(byte as usize).min(source.text.len())).unwrap_or("");
        LineColumn { line, column: before.chars().count() + 1 }
    }

    /// One line without its end, counted from 1; empty if there is none.
    pub fn line(&self, id: SourceId, line: usize) -> &str {
        let source = &self.all[id.0 as usize];
        let Some(&start) = line.checked_sub(1).and_then(|at| source.line_starts.get(at)) else { return "" };
        let rest = &source.text[start as usize..];
        rest.split('\n').next().unwrap_or("").trim_end_matches('\r')
    }

    /// All ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = SourceId> + use<> {
        (0..self.all.len() as u32).map(SourceId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_and_lines_from_one() {
        let mut sources = Sources::default();
        let id = sources.add("a", "ä = 1;\r\nb");
        assert_eq!(sources.position(id, 2), LineColumn { line: 1, column: 2 });
        assert_eq!(sources.position(id, 9), LineColumn { line: 2, column: 1 });
        assert_eq!(sources.line(id, 1), "ä = 1;");
        assert_eq!(sources.line(id, 2), "b");
        assert_eq!(sources.line(id, 3), "");
    }
}
