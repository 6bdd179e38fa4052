//! How foreign types are printed in a plan.
//!
//! Owns: `serialize_with` helpers.
//! Why: a printed plan names things as its readers know them, and never shows a secret.

use std::fmt::Debug;

use serde::Serializer;

/// Prints by `Debug`, for types of crates that do not serialize.
pub(crate) fn debug<T: Debug, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{value:?}"))
}

/// Prints bytes as text, others escaped.
pub(crate) fn bytes<T: AsRef<[u8]>, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&value.as_ref().escape_ascii())
}

/// Prints the length of loaded file content in place of the content.
pub(crate) fn length<T: AsRef<[u8]>, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("<{} bytes>", value.as_ref().len()))
}

/// Prints names of users without their passwords.
pub(crate) fn names<T, S: Serializer>(value: &[(String, T)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(value.iter().map(|(name, _)| (name, "<redacted>")))
}
