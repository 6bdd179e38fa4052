//! Where bytes that a configuration refers to come from.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// Where the bytes of a certificate, a key or a list come from. For messages, and as a name: the bytes go beside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// A field of an object that is no file: of a secret in a cluster, of a call.
    Field {
        /// The object, as its owners name it (`Secret shop/tls`).
        object: Arc<str>,
        /// The path of the field in it (`data[tls.crt]`).
        field: Arc<str>,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Field { object, field } => write!(f, "{object}, {field}"),
        }
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
