//! What a printed model leaves out.
//!
//! Why: people paste `weir explain` into tickets. A document that is to be read again has all of it, if it is asked for
//! with its secrets (`weir_expr::form`).

use serde::{Serialize, Serializer};
use weir_expr::form::{REDACTED, hides_secrets};

/// Names of users, and their passwords only in documents with secrets.
pub(crate) fn users<T: Serialize, S: Serializer>(
    users: &[(String, T)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match hides_secrets() {
        true => serializer.collect_seq(users.iter().map(|(name, _)| (name, REDACTED))),
        false => users.serialize(serializer),
    }
}

/// Fields, without the values of those that carry credentials.
pub(crate) fn fields<T: Serialize, S: Serializer>(
    fields: &impl AsRef<Vec<(String, T)>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let secret = |name: &str| {
        ["authorization", "proxy-authorization", "cookie"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
    };
    serializer.collect_seq(fields.as_ref().iter().map(|(name, value)| {
        match secret(name) && hides_secrets() {
            true => (name, Shown::Not),
            false => (name, Shown::Value(value)),
        }
    }))
}

enum Shown<'v, T> {
    Not,
    Value(&'v T),
}

impl<T: Serialize> Serialize for Shown<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Not => serializer.serialize_str(REDACTED),
            Self::Value(value) => value.serialize(serializer),
        }
    }
}

/// Pairs, whose values carry credentials.
pub(crate) fn values<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    match hides_secrets() {
        true => serializer.collect_seq(pairs.iter().map(|(name, _)| (name, REDACTED))),
        false => pairs.serialize(serializer),
    }
}
