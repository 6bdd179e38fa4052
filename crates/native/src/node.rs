//! The text as a tree whose nodes know their places.
//!
//! Owns: [`Node`], reading YAML 1.2 (of which JSON is a part) into it, bounds of depth and size.
//! Never: knows what a key means.
//! Driven by: `document`.

use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle};
use weir_diag::{Diagnostic, SourceId, Span};

/// Deepest nesting that is read.
const DEEPEST: usize = 200;

/// Most nodes of a text, aliases counted for all that they stand for.
const MOST_NODES: u64 = 8_000_000;

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    /// Where it stands.
    pub(crate) span: Span,
    /// A number that no other node of the text has.
    pub(crate) id: u32,
    /// How many nodes it is, with all that is in it.
    weight: u64,
    pub(crate) value: Value,
}

/// What a node is.
#[derive(Debug)]
pub(crate) enum Value {
    /// Nothing was written.
    Absent,
    /// A scalar; `plain` without quotes.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Rc<Node>>),
    Map(Vec<(Key, Rc<Node>)>),
    /// An entry of a map that stands where a list belongs.
    Pair(Key, Rc<Node>),
    /// A place, for nodes of the model that know theirs.
    Place,
}

/// A key of a map.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) span: Span,
}

impl Node {
    /// One that stands in no text.
    pub(crate) fn made(span: Span, value: Value) -> Rc<Self> {
        Rc::new(Self { span, id: u32::MAX, weight: 1, value })
    }

    /// A text that stands in for what was written there.
    pub(crate) fn text(span: Span, text: impl Into<String>) -> Rc<Self> {
        Self::made(span, Value::Scalar { text: text.into(), plain: false })
    }

    /// A map that stands in for what was written there. It is told apart by the same number.
    pub(crate) fn map(like: &Node, fields: Vec<(&str, Rc<Node>)>) -> Rc<Self> {
        let key = |text: &str| Key { text: text.to_owned(), span: like.span };
        let fields = fields.into_iter().map(|(name, node)| (key(name), node)).collect();
        Rc::new(Self { span: like.span, id: like.id, weight: 1, value: Value::Map(fields) })
    }

    /// The same with other content.
    pub(crate) fn with(&self, value: Value) -> Rc<Self> {
        Rc::new(Self { span: self.span, id: self.id, weight: self.weight, value })
    }

    /// The entries of a map.
    pub(crate) fn entries(&self) -> &[(Key, Rc<Node>)] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// An entry of a map.
    pub(crate) fn entry(&self, name: &str) -> Option<&Rc<Node>> {
        self.entries().iter().find(|(key, _)| key.text == name).map(|(_, node)| node)
    }

    /// A scalar's text, but that of a plain `null`.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// Whether it is a plain `null`, `~` or nothing behind a colon.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true } if matches!(text.as_str(), "null" | "~" | "" | "Null" | "NULL"))
    }

    /// What it is, in words.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Absent | Value::Place => "nothing",
            Value::Scalar { .. } if self.is_null() => "null",
            Value::Scalar { .. } => "a single value",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Pair(..) => "a map without the `- ` of a list's items",
        }
    }
}

/// Reads a text. What is wrong is told; `None` if there is nothing to go on with.
pub(crate) fn parse(text: &str, source: SourceId, found: &mut Vec<Diagnostic>) -> Option<Rc<Node>> {
    let text = without_tabs(text);
    let mut reading = Reading { bytes: Bytes::of(&text), source, anchors: HashMap::new(), count: 0, found };
    let root = reading.document(&text)?;
    if root.weight > MOST_NODES {
        let title = format!("with all aliases the configuration has more than {MOST_NODES} nodes");
        found.push(Diagnostic::error("native::too-large", title).at(root.span));
        return None;
    }
    Some(root)
}

/// JSON may be indented by tabs, which YAML refuses; outside of strings a blank says the same in the same place.
fn without_tabs(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.trim_start().starts_with(['{', '[']) || !text.contains('\t') {
        return text.into();
    }
    let (mut quoted, mut escaped) = (false, false);
    let blank = |letter| {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '\t' if !quoted => return ' ',
            _ => {}
        }
        letter
    };
    text.chars().map(blank).collect::<String>().into()
}

/// From characters, which the library counts, to bytes.
struct Bytes {
    /// Byte of each character; empty where they are the same.
    starts: Vec<u32>,
    length: u32,
}

impl Bytes {
    fn of(text: &str) -> Self {
        let starts = match text.is_ascii() {
            true => Vec::new(),
            false => text.char_indices().map(|(at, _)| at as u32).collect(),
        };
        Self { starts, length: text.len() as u32 }
    }

    fn at(&self, character: usize) -> u32 {
        match self.starts.is_empty() {
            true => (character as u32).min(self.length),
            false => self.starts.get(character).copied().unwrap_or(self.length),
        }
    }
}

struct Reading<'f> {
    bytes: Bytes,
    source: SourceId,
    anchors: HashMap<usize, Rc<Node>>,
    count: u32,
    found: &'f mut Vec<Diagnostic>,
}

/// A collection whose end has not come.
struct Open {
    anchor: usize,
    start: Span,
    value: Value,
    /// A key that waits for its value.
    key: Option<Key>,
    /// Places of the keys of a large map: looking through all of them for each would take quadratic time.
    keys: HashMap<String, Span>,
    weight: u64,
}

/// A map with more entries remembers its keys by name.
const LARGE: usize = 32;

impl Reading<'_> {
    fn document(&mut self, text: &str) -> Option<Rc<Node>> {
        let mut parser = Parser::new_from_str(text);
        let mut open: Vec<Open> = Vec::new();
        let mut root = None;
        while let Some(event) = parser.next_event() {
            let (event, span) = match event {
                Ok(event) => event,
                Err(error) => {
                    let at = self.bytes.at(error.marker().index());
                    let place = Span { source: self.source, start: at, end: at + 1 };
                    let title = format!("this is not YAML: {}", error.info());
                    self.found.push(Diagnostic::error("native::syntax", title).at(place));
                    return None;
                }
            };
            let span = Span {
                source: self.source,
                start: self.bytes.at(span.start.index()),
                end: self.bytes.at(span.end.index()),
            };
            let done = match event {
                Event::Scalar(text, style, anchor, tag) => {
                    self.refuse_tag(tag.is_some(), span);
                    let plain = style == ScalarStyle::Plain;
                    let node = self.node(span, 1, Value::Scalar { text: text.into_owned(), plain });
                    self.keep(anchor, &node);
                    Some(node)
                }
                Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag)
                    if open.len() >= DEEPEST =>
                {
                    let _ = (anchor, tag);
                    let title = format!("nested more than {DEEPEST} deep");
                    self.found.push(Diagnostic::error("native::too-deep", title).at(span));
                    return None;
                }
                Event::SequenceStart(anchor, tag) => {
                    self.refuse_tag(tag.is_some(), span);
                    open.push(Open {
                        anchor,
                        start: span,
                        value: Value::List(Vec::new()),
                        key: None,
                        keys: HashMap::new(),
                        weight: 1,
                    });
                    None
                }
                Event::MappingStart(anchor, tag) => {
                    self.refuse_tag(tag.is_some(), span);
                    open.push(Open {
                        anchor,
                        start: span,
                        value: Value::Map(Vec::new()),
                        key: None,
                        keys: HashMap::new(),
                        weight: 1,
                    });
                    None
                }
                Event::SequenceEnd | Event::MappingEnd => open.pop().map(|ended| {
                    let node = self.node(ended.start.to(span), ended.weight, ended.value);
                    self.keep(ended.anchor, &node);
                    node
                }),
                Event::Alias(anchor) => match self.anchors.get(&anchor) {
                    Some(node) => Some(Rc::clone(node)),
                    None => {
                        let title = "this alias stands inside of what it names";
                        self.found.push(Diagnostic::error("native::syntax", title).at(span));
                        return None;
                    }
                },
                Event::DocumentStart(_) if root.is_some() => {
                    let title = "a second document begins here; a configuration is one";
                    self.found.push(Diagnostic::error("native::syntax", title).at(span));
                    return root;
                }
                _ => None,
            };
            let Some(node) = done else { continue };
            match open.last_mut() {
                None => root = Some(node),
                Some(parent) => self.put(parent, node, span),
            }
        }
        root
    }

    /// A node into the collection that it stands in.
    fn put(&mut self, parent: &mut Open, node: Rc<Node>, at: Span) {
        parent.weight = parent.weight.saturating_add(node.weight);
        match &mut parent.value {
            Value::List(items) => items.push(node),
            Value::Map(entries) => match parent.key.take() {
                None => parent.key = Some(self.key(&node, at)),
                Some(key) => match before(entries, &mut parent.keys, &key) {
                    Some(first) => self.found.push(
                        Diagnostic::error("native::duplicate", format!("`{}` stands twice", key.text))
                            .at(key.span)
                            .also(first, "first here"),
                    ),
                    None => entries.push((key, node)),
                },
            },
            _ => {}
        }
    }

    fn key(&mut self, node: &Node, at: Span) -> Key {
        let text = match &node.value {
            Value::Scalar { text, .. } => text.clone(),
            _ => {
                let title = format!("{} cannot be a key", node.kind());
                self.found.push(Diagnostic::error("native::syntax", title).at(at));
                String::new()
            }
        };
        Key { text, span: at }
    }

    fn node(&mut self, span: Span, weight: u64, value: Value) -> Rc<Node> {
        self.count += 1;
        Rc::new(Node { span, id: self.count, weight, value })
    }

    fn keep(&mut self, anchor: usize, node: &Rc<Node>) {
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(node));
        }
    }

    fn refuse_tag(&mut self, there: bool, span: Span) {
        if there {
            let title = "tags have no meaning here";
            self.found.push(Diagnostic::error("native::tag", title).at(span));
        }
    }
}

/// Where a key of a map stood before, if it did; else it is remembered.
fn before(entries: &[(Key, Rc<Node>)], keys: &mut HashMap<String, Span>, key: &Key) -> Option<Span> {
    if entries.len() < LARGE {
        return entries.iter().find(|(known, _)| known.text == key.text).map(|(known, _)| known.span);
    }
    if keys.is_empty() {
        keys.extend(entries.iter().map(|(known, _)| (known.text.clone(), known.span)));
    }
    if let Some(first) = keys.get(&key.text) {
        return Some(*first);
    }
    keys.insert(key.text.clone(), key.span);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<Rc<Node>>, Vec<Diagnostic>) {
        let mut found = Vec::new();
        (parse(text, SourceId(0), &mut found), found)
    }

    #[test]
    fn nodes_know_their_bytes() {
        let text = "ä: [x, 'ö y']\n";
        let (root, found) = read(text);
        assert_eq!(found, []);
        let root = root.unwrap();
        let list = root.entry("ä").unwrap();
        let Value::List(items) = &list.value else { panic!("{list:?}") };
        let slice = |node: &Node| &text[node.span.start as usize..node.span.end as usize];
        assert_eq!((slice(&items[0]), slice(&items[1])), ("x", "'ö y'"));
    }

    #[test]
    fn json_with_tabs_is_read() {
        let (root, found) = read("{\n\t\"a\": \"x\\ty\",\n\t\"b\":\t[1]\n}");
        assert_eq!(found, []);
        assert_eq!(root.unwrap().entry("a").unwrap().as_text(), Some("x\ty"));
    }

    #[test]
    fn what_is_not_one_small_document_is_refused() {
        let code = |text: &str| read(text).1.first().map(|found| found.code);
        assert_eq!(code("a: 1\na: 2\n"), Some("native::duplicate"));
        let many: String = (0..100).map(|at| format!("k{at}: 1\n")).collect();
        assert_eq!((code(&many), code(&(many.clone() + "k99: 2\n"))), (None, Some("native::duplicate")));
        assert_eq!(code("a: [1\n"), Some("native::syntax"));
        assert_eq!(code("a: 1\n---\nb: 1\n"), Some("native::syntax"));
        assert_eq!(code("a: !!binary x\n"), Some("native::tag"));
        assert_eq!(code(&format!("{}x", "- ".repeat(250))), Some("native::too-deep"));
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for level in 1..9 {
            let before = format!("*a{}", level - 1);
            bomb += &format!("a{level}: &a{level} [{}]\n", vec![before; 10].join(","));
        }
        assert_eq!(code(&bomb), Some("native::too-large"));
    }
}
