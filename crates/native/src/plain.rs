//! Documents as data, without places.
//!
//! Owns: [`Plain`], and reading it from nodes.
//! Driven by: `tree` makes it of a model, `emit` prints it, `defaults` keeps it.

use std::collections::HashSet;
use std::fmt;
use std::rc::Rc;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use weir_diag::Span;

use crate::node::{Key, Node, Value};

/// A document, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Plain {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Plain>),
    /// Keys and values in order.
    Map(Vec<(String, Plain)>),
}

impl Plain {
    /// An entry of a map.
    pub fn get(&self, name: &str) -> Option<&Plain> {
        match self {
            Self::Map(entries) => entries.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// A text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The entry of a map, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Plain> {
        match self {
            Self::Map(entries) => entries.iter_mut().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// A list without items, or a map without entries.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::List(items) => items.is_empty(),
            Self::Map(entries) => entries.is_empty(),
            _ => false,
        }
    }

    /// How many single values are in it.
    pub fn leaves(&self) -> usize {
        match self {
            Self::List(items) => items.iter().map(Self::leaves).sum(),
            Self::Map(entries) => entries.iter().map(|(_, value)| value.leaves()).sum(),
            _ => 1,
        }
    }

    pub(crate) fn of(node: &Node) -> Self {
        match &node.value {
            Value::Absent | Value::Place => Self::Null,
            _ if node.is_null() => Self::Null,
            Value::Scalar { text, plain: true } => match text.as_str() {
                "true" => Self::Bool(true),
                "false" => Self::Bool(false),
                _ => text.parse().map_or_else(|_| Self::Text(text.clone()), Self::Int),
            },
            Value::Scalar { text, .. } => Self::Text(text.clone()),
            Value::List(items) => Self::List(items.iter().map(|item| Self::of(item)).collect()),
            Value::Map(entries) => {
                Self::Map(entries.iter().map(|(key, value)| (key.text.clone(), Self::of(value))).collect())
            }
            Value::Pair(key, value) => Self::Map(vec![(key.text.clone(), Self::of(value))]),
        }
    }

    /// As a node that stands in no text of its own.
    pub(crate) fn node(&self, span: Span) -> Rc<Node> {
        let scalar = |text: String, plain| Value::Scalar { text, plain };
        let value = match self {
            Self::Null => scalar("null".into(), true),
            Self::Bool(value) => scalar(value.to_string(), true),
            Self::Int(number) => scalar(number.to_string(), true),
            Self::Text(text) => scalar(text.clone(), false),
            Self::List(items) => Value::List(items.iter().map(|item| item.node(span)).collect()),
            Self::Map(entries) => {
                let entry =
                    |(key, value): &(String, Plain)| (Key { text: key.clone(), span }, value.node(span));
                Value::Map(entries.iter().map(entry).collect())
            }
        };
        Node::made(span, value)
    }
}

impl Serialize for Plain {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(number) => match (u64::try_from(*number), i64::try_from(*number)) {
                (Ok(number), _) => serializer.serialize_u64(number),
                (_, Ok(number)) => serializer.serialize_i64(number),
                _ => serializer.collect_str(number),
            },
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(entries) => serializer.collect_map(entries.iter().map(|(key, value)| (key, value))),
        }
    }
}

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Plain;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document")
    }

    fn visit_unit<E>(self) -> Result<Plain, E> {
        Ok(Plain::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Plain, E> {
        Ok(Plain::Bool(value))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Plain, E> {
        Ok(Plain::Int(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Plain, E> {
        Ok(Plain::Int(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Plain, E> {
        Ok(Plain::Text(number.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Plain, E> {
        Ok(Plain::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Plain, E> {
        Ok(Plain::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Plain, A::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element()? {
            out.push(item);
        }
        Ok(Plain::List(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Plain, A::Error> {
        let (mut out, mut keys) = (Vec::new(), HashSet::new());
        while let Some((key, value)) = entries.next_entry::<String, Plain>()? {
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom(format!("`{key}` stands twice")));
            }
            out.push((key, value));
        }
        Ok(Plain::Map(out))
    }
}

#[cfg(test)]
mod tests {
    use super::Plain;

    #[test]
    fn what_is_written_as_json_is_read_again() {
        let plain = crate::plain(r#"{"a": [1, -2, true, null, "x", "7", {}], "b": {"c": "d\n"}}"#).unwrap();
        let text = serde_json::to_string(&plain).unwrap();
        assert_eq!(serde_json::from_str::<Plain>(&text).unwrap(), plain);
        assert!(serde_json::from_str::<Plain>(r#"{"a": 1, "a": 1}"#).is_err());
    }
}
