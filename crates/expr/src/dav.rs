//! Changing files by requests (WebDAV).

use serde::{Deserialize, Serialize};

/// What requests may do to the files of a route, and how it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dav {
    /// Methods that are served.
    pub methods: DavMethods,
    /// Rights of files that are made; folders get search rights where these let read.
    pub access: FileAccess,
    /// PUT makes the folders of its path.
    pub create_full_path: bool,
    /// DELETE takes only paths of at least so many parts.
    pub min_delete_depth: u64,
}

/// Methods that change files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is a word of its own")]
pub struct DavMethods {
    /// PUT.
    pub put: bool,
    /// DELETE.
    pub delete: bool,
    /// MKCOL.
    pub mkcol: bool,
    /// COPY.
    pub copy: bool,
    /// MOVE.
    #[serde(rename = "move")]
    pub moves: bool,
}

impl DavMethods {
    /// Whether there is any.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// Rights of a file: nine bits as chmod(2) takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileAccess(pub u16);

impl Default for FileAccess {
    fn default() -> Self {
        Self(0o600)
    }
}

impl FileAccess {
    /// The same for a folder: whoever may read it may search it.
    #[must_use]
    pub fn of_folder(self) -> Self {
        Self(self.0 | (self.0 & 0o444) >> 2)
    }
}
