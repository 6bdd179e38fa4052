//! Documents as data, without places.
//!
//! Owns: [`Plain`], and reading it from nodes.
//! Driven by: `tree` makes it of a model, `emit` prints it, `defaults` keeps it.

use std::rc::Rc;

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
