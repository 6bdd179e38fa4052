//! From values of the model to trees, by serde.
//!
//! Owns: [`Tree`], which keeps the names of types, and its serializer.
//! Never: leaves anything out or shortens it; `print` does.
//! Driven by: `print`, `defaults`.

use std::fmt::{self, Display};
use std::time::Duration;

use serde::Serialize;
use serde::ser::{
    Error, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use crate::words;

/// A value with the names of its types.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    Null,
    Bool(bool),
    Int(i128),
    Text(String),
    List(Vec<Tree>),
    /// A list of fixed length.
    Tuple(Vec<Tree>),
    /// A map whose keys are free.
    Free(Vec<(String, Tree)>),
    /// A struct.
    Map {
        of: String,
        fields: Vec<(String, Tree)>,
    },
    /// What an option holds.
    Some(Box<Tree>),
    /// One value of an enumeration.
    Choice {
        of: &'static str,
        word: &'static str,
        held: Option<Box<Tree>>,
    },
    /// The number of an object.
    Reference {
        of: &'static str,
        number: u32,
    },
}

/// The tree of a value.
pub(crate) fn tree<T: Serialize>(value: &T) -> Result<Tree, Failure> {
    value.serialize(Writer)
}

/// Why there is none: a type that no configuration has.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl Error for Failure {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

struct Writer;

macro_rules! integers {
    ($($method:ident: $kind:ty),*) => {
        $(fn $method(self, value: $kind) -> Result<Tree, Failure> {
            Ok(Tree::Int(i128::from(value)))
        })*
    };
}

impl Serializer for Writer {
    type Ok = Tree;
    type Error = Failure;
    type SerializeSeq = Many;
    type SerializeTuple = Many;
    type SerializeTupleStruct = Many;
    type SerializeTupleVariant = Many;
    type SerializeMap = Entries;
    type SerializeStruct = Entries;
    type SerializeStructVariant = Entries;

    integers! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64
    }

    fn serialize_bool(self, value: bool) -> Result<Tree, Failure> {
        Ok(Tree::Bool(value))
    }

    fn serialize_f32(self, value: f32) -> Result<Tree, Failure> {
        Ok(Tree::Text(value.to_string()))
    }

    fn serialize_f64(self, value: f64) -> Result<Tree, Failure> {
        Ok(Tree::Text(value.to_string()))
    }

    fn serialize_char(self, value: char) -> Result<Tree, Failure> {
        Ok(Tree::Text(value.into()))
    }

    fn serialize_str(self, value: &str) -> Result<Tree, Failure> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<Tree, Failure> {
        Ok(Tree::Text(value.escape_ascii().to_string()))
    }

    fn serialize_none(self) -> Result<Tree, Failure> {
        Ok(Tree::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Tree, Failure> {
        Ok(Tree::Some(Box::new(value.serialize(Writer)?)))
    }

    fn serialize_unit(self) -> Result<Tree, Failure> {
        Ok(Tree::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Tree, Failure> {
        Ok(Tree::Null)
    }

    fn serialize_unit_variant(self, of: &'static str, _: u32, word: &'static str) -> Result<Tree, Failure> {
        Ok(Tree::Choice { of, word, held: None })
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<Tree, Failure> {
        let tree = value.serialize(Writer)?;
        let number = match (&tree, name) {
            (Tree::Int(number), "RouteId" | "SiteId" | "TcpId" | "MemoryCacheId" | "KeyListId") => {
                u32::try_from(*number).ok()
            }
            _ => None,
        };
        Ok(number.map_or(tree, |number| Tree::Reference { of: name, number }))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        of: &'static str,
        _: u32,
        word: &'static str,
        value: &T,
    ) -> Result<Tree, Failure> {
        Ok(Tree::Choice { of, word, held: Some(Box::new(value.serialize(Writer)?)) })
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Many, Failure> {
        Ok(Many { items: Vec::new(), tuple: false, choice: None })
    }

    fn serialize_tuple(self, _: usize) -> Result<Many, Failure> {
        Ok(Many { items: Vec::new(), tuple: true, choice: None })
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Many, Failure> {
        Ok(Many { items: Vec::new(), tuple: true, choice: None })
    }

    fn serialize_tuple_variant(
        self,
        of: &'static str,
        _: u32,
        word: &'static str,
        _: usize,
    ) -> Result<Many, Failure> {
        Ok(Many { items: Vec::new(), tuple: true, choice: Some((of, word)) })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Entries, Failure> {
        Ok(Entries { fields: Vec::new(), of: None, choice: None, key: String::new() })
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Entries, Failure> {
        Ok(Entries { fields: Vec::new(), of: Some(name.to_owned()), choice: None, key: String::new() })
    }

    fn serialize_struct_variant(
        self,
        of: &'static str,
        _: u32,
        word: &'static str,
        _: usize,
    ) -> Result<Entries, Failure> {
        let name = Some(format!("{of}.{word}"));
        Ok(Entries { fields: Vec::new(), of: name, choice: Some((of, word)), key: String::new() })
    }
}

/// Items that come one by one.
struct Many {
    items: Vec<Tree>,
    tuple: bool,
    choice: Option<(&'static str, &'static str)>,
}

impl Many {
    fn done(self) -> Tree {
        let tree = if self.tuple { Tree::Tuple(self.items) } else { Tree::List(self.items) };
        chosen(self.choice, tree)
    }

    fn add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        self.items.push(value.serialize(Writer)?);
        Ok(())
    }
}

fn chosen(choice: Option<(&'static str, &'static str)>, tree: Tree) -> Tree {
    match choice {
        Some((of, word)) => Tree::Choice { of, word, held: Some(Box::new(tree)) },
        None => tree,
    }
}

/// Entries that come one by one.
struct Entries {
    fields: Vec<(String, Tree)>,
    of: Option<String>,
    choice: Option<(&'static str, &'static str)>,
    key: String,
}

impl Entries {
    fn done(self) -> Tree {
        if self.of.as_deref() == Some("Duration")
            && let [(_, Tree::Int(secs)), (_, Tree::Int(nanos))] = self.fields.as_slice()
        {
            let time = Duration::new(*secs as u64, *nanos as u32);
            return Tree::Text(words::of_duration(time));
        }
        let tree = match self.of {
            Some(of) => Tree::Map { of, fields: self.fields },
            None => Tree::Free(self.fields),
        };
        chosen(self.choice, tree)
    }

    fn add<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), Failure> {
        self.fields.push((key.to_owned(), value.serialize(Writer)?));
        Ok(())
    }
}

macro_rules! many {
    ($($kind:ident $method:ident),*) => {
        $(impl $kind for Many {
            type Ok = Tree;
            type Error = Failure;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
                self.add(value)
            }

            fn end(self) -> Result<Tree, Failure> {
                Ok(self.done())
            }
        })*
    };
}

many! {
    SerializeSeq serialize_element, SerializeTuple serialize_element, SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
}

macro_rules! entries {
    ($($kind:ident),*) => {
        $(impl $kind for Entries {
            type Ok = Tree;
            type Error = Failure;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Failure> {
                self.add(key, value)
            }

            fn end(self) -> Result<Tree, Failure> {
                Ok(self.done())
            }
        })*
    };
}

entries! { SerializeStruct, SerializeStructVariant }

impl SerializeMap for Entries {
    type Ok = Tree;
    type Error = Failure;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Failure> {
        self.key = match key.serialize(Writer)? {
            Tree::Text(text) => text,
            Tree::Int(number) => number.to_string(),
            _ => return Err(Failure("a key that is no text".into())),
        };
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        let key = std::mem::take(&mut self.key);
        self.add(&key, value)
    }

    fn end(self) -> Result<Tree, Failure> {
        Ok(self.done())
    }
}
