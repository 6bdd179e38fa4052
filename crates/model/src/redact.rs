//! What a printed model leaves out.
//!
//! Why: people paste `weir explain` into tickets.

use serde::{Serialize, Serializer};

const SHOWN: &str = "<redacted>";

/// Names of users without their passwords.
pub(crate) fn users<T, S: Serializer>(users: &[(String, T)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(users.iter().map(|(name, _)| (name, SHOWN)))
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
    serializer.collect_seq(fields.as_ref().iter().map(|(name, value)| match secret(name) {
        true => (name, Shown::Not),
        false => (name, Shown::Value(value)),
    }))
}

enum Shown<'v, T> {
    Not,
    Value(&'v T),
}

impl<T: Serialize> Serialize for Shown<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Not => serializer.serialize_str(SHOWN),
            Self::Value(value) => value.serialize(serializer),
        }
    }
}
