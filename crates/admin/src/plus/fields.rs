//! The parameter `fields`: which members of objects are shown.

use serde_json::{Map, Value};

/// What a client wants of objects.
#[derive(Debug)]
pub(super) struct Fields(Option<Vec<String>>);

impl Fields {
    /// Those of a query.
    pub(super) fn of(query: &[u8]) -> Self {
        let named = form_urlencoded::parse(query).find(|(name, _)| name == "fields");
        let split = |text: &str| text.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect();
        Self(named.map(|(_, value)| split(&value)))
    }

    /// An object with the members that are wanted.
    pub(super) fn one(&self, object: Value) -> Value {
        match (&self.0, object) {
            (Some(wanted), Value::Object(members)) => Value::Object(filtered(wanted, members)),
            (_, other) => other,
        }
    }

    /// Objects by name, each with the members that are wanted; the names alone, where no member is.
    pub(super) fn all(&self, objects: Map<String, Value>) -> Value {
        match &self.0 {
            Some(wanted) if wanted.is_empty() => {
                Value::Array(objects.into_iter().map(|(name, _)| Value::String(name)).collect())
            }
            _ => Value::Object(objects.into_iter().map(|(name, object)| (name, self.one(object))).collect()),
        }
    }

    /// Objects in a list, each with the members that are wanted.
    pub(super) fn list(&self, objects: Vec<Value>) -> Value {
        Value::Array(objects.into_iter().map(|object| self.one(object)).collect())
    }
}

fn filtered(wanted: &[String], members: Map<String, Value>) -> Map<String, Value> {
    members.into_iter().filter(|(name, _)| wanted.contains(name)).collect()
}
