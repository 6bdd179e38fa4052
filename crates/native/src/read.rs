//! From nodes to values of the model, by serde.
//!
//! Owns: [`Reader`], a deserializer that knows places, fills in defaults, reads short forms and tells near words;
//! [`take`], which goes on after a mistake.
//! Never: knows a section of the document; what short forms stand for is told by `shapes`, what is left out by `defaults`.
//! Driven by: `document`.
//! Why by serde: the format is the model, so a field that is added there can be written here.
//!
//! What cannot be read is told, put out of the way by its number ([`Context::poison`]), and the object is read once more: every
//! mistake is found, not only the first.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::de::value::{MapDeserializer, StrDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, EnumAccess, Error, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use weir_diag::{Diagnostic, Span};
use weir_model::Route;

use crate::keys::Keys;
use crate::node::{Node, Value};
use crate::{defaults, shapes, words};

/// Most mistakes that one object is read again for.
const PATIENCE: usize = 100;

/// Objects that have a `key`, by which others refer to them.
const KEYED: [&str; 5] = ["Site", "Route", "TcpService", "KeyList", "MemoryCache"];

/// Fields and choices that name files without being paths by their types.
const PATHS: [(&str, &str); 4] =
    [("Pem", "source"), ("StaticFiles", "root"), ("Users", "file"), ("LogTarget", "file_template")];

/// A relative path from the folder of the configuration; anything else as it is.
fn located(cx: &Context, node: &Rc<Node>) -> Rc<Node> {
    let is_path = |text: &str| !text.is_empty() && !text.starts_with("${") && !text.contains("-----BEGIN ");
    match node.as_text().filter(|text| is_path(text) && *text != weir_expr::form::REDACTED) {
        Some(text) => {
            let text = cx.folder.join(text).to_string_lossy().into_owned();
            node.with(Value::Scalar { text, plain: false })
        }
        None => Rc::clone(node),
    }
}

/// What is being read.
#[derive(Default)]
pub(crate) struct Context {
    /// Relative paths start here.
    pub(crate) folder: PathBuf,
    pub(crate) findings: RefCell<Vec<Diagnostic>>,
    /// Nodes that are as good as absent.
    pub(crate) poison: RefCell<HashSet<u32>>,
    /// Routes that stand where they are referred to.
    pub(crate) inline: RefCell<Vec<(String, Route)>>,
    /// Who has which key. Those of routes that stand in their places come last.
    pub(crate) keys: RefCell<Keys>,
    /// What refers to a route by its key, in the order of [`Reference`]'s numbers.
    pub(crate) references: RefCell<Vec<Reference>>,
}

/// A reference by key.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub(crate) key: String,
    pub(crate) span: Span,
}

/// Numbers from here on are places in [`Context::references`].
pub(crate) const BY_KEY: u32 = 1 << 30;
/// Numbers from here on are places in [`Context::inline`].
pub(crate) const INLINE: u32 = 1 << 31;

/// Reads an object; what is wrong is told, and `None` if nothing of it is left.
pub(crate) fn take<T: DeserializeOwned>(cx: &Context, node: &Rc<Node>) -> Option<T> {
    for _ in 0..PATIENCE {
        let fault = match T::deserialize(Reader { cx, node }) {
            Ok(value) => return Some(value),
            Err(fault) => fault.within(node),
        };
        if !fault.0.follows {
            cx.findings.borrow_mut().push(fault.diagnostic(node.span));
        }
        let poison = fault.0.node.filter(|&id| id != node.id)?;
        if !cx.poison.borrow_mut().insert(poison) {
            return None;
        }
    }
    None
}

/// Why a value could not be read.
#[derive(Debug)]
pub(crate) struct Fault(Box<Inner>);

#[derive(Debug)]
struct Inner {
    title: String,
    help: Vec<String>,
    span: Option<Span>,
    /// The node to put out of the way.
    node: Option<u32>,
    /// Nothing was written where something is needed.
    missing: bool,
    /// What is missing was put out of the way before, and told about.
    follows: bool,
    /// A word, and those that it could have been.
    choice: Option<(String, Vec<String>)>,
}

impl Fault {
    fn new(title: impl Into<String>) -> Self {
        let (help, choice) = (Vec::new(), None);
        Self(Box::new(Inner {
            title: title.into(),
            help,
            span: None,
            node: None,
            missing: false,
            follows: false,
            choice,
        }))
    }

    fn missing() -> Self {
        let mut fault = Self::new("a value is missing");
        fault.0.missing = true;
        fault
    }

    /// What is needed was put out of the way before.
    fn following() -> Self {
        let mut fault = Self::missing();
        fault.0.follows = true;
        fault
    }

    fn help(mut self, text: impl Into<String>) -> Self {
        self.0.help.push(text.into());
        self
    }

    fn of_choice(mut self, word: &str, choices: &[&str]) -> Self {
        self.0.choice = Some((word.to_owned(), choices.iter().map(|&choice| choice.to_owned()).collect()));
        self
    }

    fn at(mut self, span: Span) -> Self {
        self.0.span.get_or_insert(span);
        self
    }

    /// It happened in that node.
    fn within(mut self, node: &Node) -> Self {
        self = self.at(node.span);
        if node.id != u32::MAX {
            self.0.node.get_or_insert(node.id);
        }
        self
    }

    fn diagnostic(&self, otherwise: Span) -> Diagnostic {
        let span = self.0.span.unwrap_or(otherwise);
        let code = if self.0.missing { "native::missing" } else { "native::bad-value" };
        let mut found = Diagnostic::error(code, self.0.title.clone()).at(span);
        if let Some((word, choices)) = &self.0.choice {
            found = found.suggest(word, span, choices.iter().map(String::as_str));
            if choices.len() <= 40 {
                found = found.help(format!("it is one of: {}", choices.join(", ")));
            }
        }
        self.0.help.iter().fold(found, |found, help| found.help(help.clone()))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.title)
    }
}

impl std::error::Error for Fault {}

impl Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("{} stands where {} belongs", told(found), wanted(expected)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("{} is not {}", told(found), wanted(expected)))
    }

    fn missing_field(field: &'static str) -> Self {
        let mut fault = Self::new(format!("`{field}` is missing"));
        fault.0.missing = true;
        fault
    }
}

/// What is expected, for people who know no Rust.
fn wanted(expected: &dyn Expected) -> String {
    let text = expected.to_string();
    let largest = match text.as_str() {
        "u8" => u64::from(u8::MAX),
        "u16" => u64::from(u16::MAX),
        "u32" => u64::from(u32::MAX),
        "u64" | "usize" => return "a number".into(),
        "i16" | "i32" | "i64" => return "a number, perhaps below zero".into(),
        _ => return text,
    };
    format!("a number up to {largest}")
}

fn told(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Str(text) => format!("`{text}`"),
        Unexpected::Unsigned(number) => number.to_string(),
        Unexpected::Signed(number) => number.to_string(),
        Unexpected::Map => "a map".into(),
        Unexpected::Seq => "a list".into(),
        other => other.to_string(),
    }
}

/// One node, to be read as whatever is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'c> {
    pub(crate) cx: &'c Context,
    pub(crate) node: &'c Rc<Node>,
}

impl<'c> Reader<'c> {
    /// A value from a node inside of this one.
    fn child<'de, S: DeserializeSeed<'de>>(
        cx: &'c Context,
        node: &'c Rc<Node>,
        seed: S,
    ) -> Result<S::Value, Fault> {
        seed.deserialize(Reader { cx, node }).map_err(|fault| fault.within(node))
    }

    fn is_poisoned(&self, node: &Node) -> bool {
        self.cx.poison.borrow().contains(&node.id)
    }

    fn scalar(&self, what: &dyn Expected) -> Result<&'c str, Fault> {
        match &self.node.value {
            Value::Absent | Value::Place => Err(Fault::missing()),
            Value::Scalar { .. } if self.node.is_null() => {
                Err(Fault::new(format!("nothing stands where {what} belongs")))
            }
            Value::Scalar { text, .. } => self.refuse_redacted().map(|()| text.as_str()),
            _ => Err(Fault::new(format!("{} stands where {what} belongs", self.node.kind()))),
        }
    }

    fn refuse_redacted(&self) -> Result<(), Fault> {
        match &self.node.value {
            Value::Scalar { text, .. } if text == weir_expr::form::REDACTED => {
                Err(Fault::new("a secret was left out here")
                    .help("write it, or convert the configuration again"))
            }
            _ => Ok(()),
        }
    }

    fn integer<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Fault> {
        let text = self.scalar(&visitor)?;
        let Some(number) = words::number(text) else {
            return Err(Fault::new(format!("`{text}` is not {}", wanted(&visitor)))
                .help("a whole number, perhaps with k, m or g for 1024, 1024² or 1024³"));
        };
        match (u64::try_from(number), i64::try_from(number)) {
            (Ok(number), _) => visitor.visit_u64(number),
            (_, Ok(number)) => visitor.visit_i64(number),
            _ => Err(Fault::new(format!("`{text}` is too large"))),
        }
    }

    fn text<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Fault> {
        // The standard library reads a path by a visitor that says so, and by nothing else.
        let is_path = format!("{}", &visitor as &dyn Expected) == "path string";
        let text = self.scalar(&visitor)?;
        match is_path && !text.is_empty() && !text.starts_with('@') {
            true => visitor.visit_str(&self.cx.folder.join(Path::new(text)).to_string_lossy()),
            false => visitor.visit_str(text),
        }
    }

    fn structure<'de, V: Visitor<'de>>(
        self,
        name: &str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.refuse_redacted()?;
        let node = shapes::long(name, self.node);
        let reader = Reader { cx: self.cx, node: &node };
        let entries = match &node.value {
            Value::Map(entries) => entries.as_slice(),
            Value::Absent => &[],
            _ if node.is_null() => &[],
            _ => {
                let known: Vec<&str> = written(fields).collect();
                return Err(Fault::new(format!("{} stands where a map belongs", node.kind()))
                    .help(format!("its keys are: {}", known.join(", "))));
            }
        };
        let mut values = Vec::with_capacity(fields.len());
        for (key, value) in entries {
            if key.text == "key" && KEYED.contains(&name) {
                continue;
            }
            match fields.iter().find(|field| **field == key.text && !is_place(field)) {
                Some(field) if self.is_poisoned(value) => {
                    let absent = defaults::node(name, field, value.span);
                    values.push((*field, absent.unwrap_or_else(|| value.with(Value::Absent)), true));
                }
                Some(field) if PATHS.contains(&(name, field)) => {
                    values.push((*field, located(self.cx, value), false))
                }
                Some(field) => values.push((*field, Rc::clone(value), false)),
                None => reader.unknown(name, key, fields),
            }
        }
        for field in fields.iter().copied() {
            if values.iter().any(|(given, ..)| *given == field) {
                continue;
            }
            let value = match field {
                _ if is_place(field) => Some(Node::made(node.span, Value::Place)),
                _ => defaults::node(name, field, node.span),
            };
            values.push((field, value.unwrap_or_else(|| Node::made(node.span, Value::Absent)), false));
        }
        visitor.visit_map(Fields { cx: self.cx, name, values, next: 0 })
    }

    fn unknown(&self, name: &str, key: &crate::node::Key, fields: &'static [&'static str]) {
        let title = format!("{} has no field `{}`", shapes::spoken(name), key.text);
        let mut found = Diagnostic::error("native::unknown-field", title).at(key.span);
        found = found.suggest(&key.text, key.span, written(fields));
        if found.fix.is_none() {
            found = found.help(format!("its fields are: {}", written(fields).collect::<Vec<_>>().join(", ")));
        }
        self.cx.findings.borrow_mut().push(found);
    }

    fn list<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let items = match &self.node.value {
            Value::Absent => Vec::new(),
            _ if self.node.is_null() => Vec::new(),
            Value::List(items) => items.iter().filter(|item| !self.is_poisoned(item)).cloned().collect(),
            // The entries of a map are pairs, or choices with what they hold.
            Value::Map(entries) => {
                let left = entries.iter().filter(|(_, value)| !self.is_poisoned(value));
                left.map(|(key, value)| value.with(Value::Pair(key.clone(), Rc::clone(value)))).collect()
            }
            Value::Scalar { .. } => vec![Rc::clone(self.node)],
            Value::Place | Value::Pair(..) => return Err(Fault::missing()),
        };
        visitor.visit_seq(Items { cx: self.cx, items, next: 0 })
    }
}

/// Fields that a person can write.
fn written(fields: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    fields.iter().copied().filter(|field| !is_place(field))
}

/// A field that tells where something was written.
pub(crate) fn is_place(field: &str) -> bool {
    field == "origin" || field.ends_with("_origin")
}

macro_rules! integers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            self.integer(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Fault;

    integers! { deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::List(_) => self.list(visitor),
            Value::Map(_) => self.deserialize_map(visitor),
            _ => self.text(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if matches!(self.node.value, Value::Absent) {
            return visitor.visit_bool(false);
        }
        match self.scalar(&visitor)? {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            other => {
                let meant = match other {
                    "on" | "yes" | "1" => "true",
                    "off" | "no" | "0" => "false",
                    _ => "true` or `false",
                };
                Err(Fault::new(format!("`{other}` is neither true nor false"))
                    .help(format!("write `{meant}`")))
            }
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.text(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.text(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.text(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Absent => visitor.visit_none(),
            _ if self.node.is_null() => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let number: u32 = match (name, &self.node.value) {
            ("RouteId", Value::Map(_)) => {
                let route = Route::deserialize(self)?;
                let key =
                    self.node.entry("key").and_then(|key| key.as_text()).unwrap_or(&route.name).to_owned();
                let mut inline = self.cx.inline.borrow_mut();
                inline.push((key, route));
                INLINE + inline.len() as u32 - 1
            }
            ("RouteId", _) => {
                let key = self.scalar(&"a route or its key")?.to_owned();
                let mut references = self.cx.references.borrow_mut();
                references.push(Reference { key, span: self.node.span });
                BY_KEY + references.len() as u32 - 1
            }
            ("SiteId" | "TcpId" | "MemoryCacheId" | "KeyListId", _) => {
                let key = self.scalar(&"the key of an object")?;
                let findings = &mut self.cx.findings.borrow_mut();
                self.cx.keys.borrow().find(name, key, self.node.span, findings).unwrap_or(0)
            }
            _ => return visitor.visit_newtype_struct(self),
        };
        visitor.visit_newtype_struct(number.into_deserializer())
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.list(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Absent | Value::Place => Err(Fault::missing()),
            Value::List(items) if items.iter().any(|item| self.is_poisoned(item)) => Err(Fault::following()),
            Value::List(items) if items.len() == len => self.list(visitor),
            Value::Pair(key, value) if len == 2 => {
                let items = vec![Node::text(key.span, key.text.clone()), Rc::clone(value)];
                visitor.visit_seq(Items { cx: self.cx, items, next: 0 })
            }
            _ => Err(Fault::new(format!("{} stands where a list of {len} belongs", self.node.kind()))),
        }
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let entries = match &self.node.value {
            Value::Absent => &[],
            _ if self.node.is_null() => &[],
            Value::Map(entries) => entries.as_slice(),
            _ => return Err(Fault::new(format!("{} stands where a map belongs", self.node.kind()))),
        };
        visitor.visit_map(Entries { cx: self.cx, entries, next: 0 })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match (name, &self.node.value) {
            ("Span", _) => {
                let span = self.node.span;
                let numbers = [("source", span.source.0), ("start", span.start), ("end", span.end)];
                let numbers = numbers.into_iter().map(|(name, number)| (name, Number(number)));
                visitor.visit_map(MapDeserializer::new(numbers))
            }
            ("Duration", Value::Absent) => Err(Fault::missing()),
            ("Duration", _) => {
                let text = self.scalar(&"a time")?;
                let time = words::duration(text).ok_or_else(|| {
                    Fault::new(format!("`{text}` is not a time"))
                        .help("write a number and its unit: 250ms, 10s, 5m, 1h")
                })?;
                let numbers = [("secs", time.as_secs()), ("nanos", u64::from(time.subsec_nanos()))];
                visitor.visit_map(MapDeserializer::new(numbers.into_iter()))
            }
            _ => self.structure(name, fields, visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.refuse_redacted()?;
        let made;
        let node = match (&self.node.value, defaults::of_enum(name)) {
            (Value::Absent, None) => return Err(Fault::missing()),
            (Value::Absent, Some(word)) => {
                made = Node::text(self.node.span, word);
                &made
            }
            _ => self.node,
        };
        let node = shapes::long(name, node);
        let (word, span, held) = match &node.value {
            Value::Scalar { text, .. } if !node.is_null() => (text.clone(), node.span, None),
            Value::Map(entries) => match entries.as_slice() {
                [(key, value)] => (key.text.clone(), key.span, Some(Rc::clone(value))),
                _ => {
                    return Err(Fault::new(format!("{} keys stand where one belongs", entries.len()))
                        .help(format!("it is one of: {}", variants.join(", "))));
                }
            },
            Value::Pair(key, value) => (key.text.clone(), key.span, Some(Rc::clone(value))),
            _ => {
                return Err(Fault::new(format!(
                    "{} stands where {} belongs",
                    node.kind(),
                    shapes::spoken(name)
                ))
                .help(format!("it is one of: {}", variants.join(", "))));
            }
        };
        if !variants.contains(&word.as_str()) {
            let what = shapes::spoken(name);
            return Err(Fault::new(format!("there is no {what} `{word}`"))
                .of_choice(&word, variants)
                .at(span));
        }
        visitor.visit_enum(Choice { cx: self.cx, name, word, span, held })
    }

    forward_to_deserialize_any! { i128 u128 f32 f64 char bytes byte_buf unit_struct }
}

/// A number, or a type that is one.
struct Number(u32);

impl IntoDeserializer<'_, Fault> for Number {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Number {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_u32(self.0)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

/// The fields of a struct.
struct Fields<'c> {
    cx: &'c Context,
    name: &'c str,
    /// Name, value, and whether what was written is out of the way.
    values: Vec<(&'static str, Rc<Node>, bool)>,
    next: usize,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some((field, ..)) = self.values.get(self.next) else { return Ok(None) };
        let field: StrDeserializer<'_, Fault> = (*field).into_deserializer();
        seed.deserialize(field).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let (field, node, poisoned) = &self.values[self.next];
        self.next += 1;
        Reader::child(self.cx, node, seed).map_err(|mut fault| {
            if matches!(node.value, Value::Absent) && fault.0.missing {
                fault.0.title = format!("{} has no `{field}`", shapes::spoken(self.name));
                fault.0.follows |= *poisoned;
                fault.0.node = None;
            }
            fault
        })
    }
}

/// The items of a list.
struct Items<'c> {
    cx: &'c Context,
    items: Vec<Rc<Node>>,
    next: usize,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some(node) = self.items.get(self.next) else { return Ok(None) };
        self.next += 1;
        Reader::child(self.cx, node, seed).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len() - self.next)
    }
}

/// The entries of a map whose keys are free.
struct Entries<'c> {
    cx: &'c Context,
    entries: &'c [(crate::node::Key, Rc<Node>)],
    next: usize,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some((key, _)) = self.entries.get(self.next) else { return Ok(None) };
        let key: StrDeserializer<'_, Fault> = key.text.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let (_, node) = &self.entries[self.next];
        self.next += 1;
        if self.cx.poison.borrow().contains(&node.id) {
            return Err(Fault::following());
        }
        Reader::child(self.cx, node, seed)
    }
}

/// One value of an enumeration.
struct Choice<'c> {
    cx: &'c Context,
    name: &'static str,
    word: String,
    span: Span,
    held: Option<Rc<Node>>,
}

impl Choice<'_> {
    fn held(&self) -> Result<Rc<Node>, Fault> {
        match &self.held {
            Some(node) if self.cx.poison.borrow().contains(&node.id) => Err(Fault::following()),
            Some(node) if PATHS.contains(&(self.name, self.word.as_str())) => Ok(located(self.cx, node)),
            Some(node) => Ok(Rc::clone(node)),
            None => Ok(Node::made(self.span, Value::Absent)),
        }
    }
}

impl<'de> EnumAccess<'de> for Choice<'_> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        let word: StrDeserializer<'_, Fault> = self.word.as_str().into_deserializer();
        Ok((seed.deserialize(word)?, self))
    }
}

impl<'de> VariantAccess<'de> for Choice<'_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        match &self.held {
            Some(node)
                if !node.is_null() && !matches!(&node.value, Value::Map(entries) if entries.is_empty()) =>
            {
                Err(Fault::new(format!("`{}` takes nothing", self.word))
                    .help(format!("write `{}` alone", self.word))
                    .within(node))
            }
            _ => Ok(()),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        let node = self.held()?;
        Reader::child(self.cx, &node, seed).map_err(|mut fault| {
            if fault.0.missing && matches!(node.value, Value::Absent) {
                fault.0.title =
                    format!("`{}` says more than its name: something has to follow it", self.word);
            }
            fault
        })
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Fault> {
        let node = self.held()?;
        Reader { cx: self.cx, node: &node }
            .deserialize_tuple(len, visitor)
            .map_err(|fault| fault.within(&node))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let node = self.held()?;
        let name = format!("{}.{}", self.name, self.word);
        Reader { cx: self.cx, node: &node }
            .structure(&name, fields, visitor)
            .map_err(|fault| fault.within(&node))
    }
}
