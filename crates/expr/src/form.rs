//! For whom configuration is written out.
//!
//! Owns: the choice, and what writers of single values ask of it.
//! Never: writes anything by itself.
//! Driven by: whoever prints a model ([`written`]); `Serialize` of values that look different to a reader and to a program.
//! Why: a printed model goes into tickets, so secrets and bulk stay out unless a document is asked for that is to be read
//! again. Serde hands no context down, so the choice belongs to the thread while it prints.

use std::cell::Cell;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serialize, Serializer};

/// For whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// For people: without secrets and bulk.
    #[default]
    Shown,
    /// A document that can be read again.
    Document {
        /// Passwords and keys stand in it. Without them it has to be completed before it can be read.
        secrets: bool,
    },
}

thread_local! {
    static FORM: Cell<Form> = const { Cell::new(Form::Shown) };
}

/// What stands in the place of a secret.
pub const REDACTED: &str = "<redacted>";

/// The form in which this thread writes now.
pub fn form() -> Form {
    FORM.get()
}

/// Writes in a form.
pub fn written<T>(form: Form, write: impl FnOnce() -> T) -> T {
    /// Puts the form back however the writing ends.
    struct Before(Form);
    impl Drop for Before {
        fn drop(&mut self) {
            FORM.set(self.0);
        }
    }
    let _before = Before(FORM.replace(form));
    write()
}

/// Whether secrets are left out.
pub fn hides_secrets() -> bool {
    form() != Form::Document { secrets: true }
}

/// Whether bulk is left out; for `skip_serializing_if`.
pub fn is_brief<T: ?Sized>(_: &T) -> bool {
    form() == Form::Shown
}

/// A secret, or that there is one.
///
/// # Errors
/// Those of the serializer.
pub fn secret<T: Serialize + ?Sized, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    match hides_secrets() {
        true => serializer.serialize_str(REDACTED),
        false => value.serialize(serializer),
    }
}

/// Bytes as text: what is not printable ASCII is `\n`, `\x1b` and the like. For `with`.
pub mod bytes {
    use super::*;

    /// Writes.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(bytes: &impl AsRef<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&bytes.as_ref().escape_ascii())
    }

    /// Reads what [`serialize`] writes; other characters stand for their UTF-8.
    ///
    /// # Errors
    /// An escape that is none.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        struct Escaped;
        impl Visitor<'_> for Escaped {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, perhaps with escapes such as `\\n` and `\\x1b`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
                unescape(text).ok_or_else(|| E::custom("a backslash stands before none of `n r t \\ ' \" x`"))
            }
        }
        deserializer.deserialize_str(Escaped)
    }

    fn unescape(text: &str) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let [first, tail @ ..] = rest {
            rest = tail;
            if *first != b'\\' {
                out.push(*first);
                continue;
            }
            let (kind, tail) = rest.split_first()?;
            rest = tail;
            out.push(match kind {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'\\' | b'\'' | b'"' => *kind,
                b'x' => {
                    let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                    rest = rest.get(2..)?;
                    u8::from_str_radix(digits, 16).ok()?
                }
                _ => return None,
            });
        }
        Some(out)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn bytes_are_read_as_they_were_written() {
            for bytes in [&b"GET / HTTP/1.0\r\n\r\n"[..], b"\0\xff\\x", b"'\"", b""] {
                assert_eq!(unescape(&bytes.escape_ascii().to_string()).unwrap(), bytes);
            }
            assert_eq!(unescape(r"\q"), None);
            assert_eq!(unescape(r"\x1"), None);
        }
    }
}
