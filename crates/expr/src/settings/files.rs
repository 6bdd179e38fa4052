//! Files: how folders are listed, links followed, times compared.

use serde::{Deserialize, Serialize};

/// Handling of symbolic links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Symlinks {
    /// Followed.
    #[default]
    Follow,
    /// Refused.
    Refuse,
    /// Refused if link and target belong to different owners.
    IfNotOwner,
}

/// Listing of folders (`autoindex`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Listing {
    /// Format.
    pub format: ListingFormat,
    /// Exact sizes.
    pub exact_size: bool,
    /// Times in local time.
    pub local_time: bool,
}

/// Formats of listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListingFormat {
    /// HTML page.
    Html,
    /// JSON array.
    Json,
    /// JSON with a callback.
    Jsonp,
    /// XML.
    Xml,
}

/// Comparison of If-Modified-Since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfModifiedSince {
    /// Not looked at.
    Off,
    /// Equal times only (nginx's default).
    #[default]
    Exact,
    /// Not newer.
    Before,
}

/// Kinds of files a condition asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// `-f`.
    File,
    /// `-d`.
    Directory,
    /// `-e`.
    Any,
    /// `-x`.
    Executable,
}

/// Videos that may be begun in their middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Video {
    /// MP4, by time (`start` and `end`).
    Mp4 {
        /// Most bytes of the tables of a file, which are read into memory; longer ones are refused (500).
        most: u64,
        /// Pictures begin with a key frame; those before the start are sent and hidden.
        from_key_frame: bool,
    },
    /// FLV, by bytes (`start`).
    Flv,
}
