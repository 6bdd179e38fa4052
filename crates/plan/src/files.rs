//! Files served from folders.

use std::sync::Arc;

use serde::Serialize;
use weir_expr::settings::ContentCoding;

use crate::{ByteMap, Dav, IfModifiedSince, Listing, Symlinks, Template};

/// Files served from folders.
#[derive(Clone, Debug, Serialize)]
pub struct StaticFiles {
    /// Folder.
    pub root: Template,
    /// `root` stands for the part of the path that the route matched (the whole path if it is a pattern).
    pub alias: bool,
    /// Tried in order for paths that end with `/`; one that begins with `/` is an internal redirect if last.
    pub index: Box<[Template]>,
    /// Listing of folders.
    pub listing: Option<Listing>,
    /// Media types.
    pub types: Arc<MimeTable>,
    /// Send `ETag`.
    pub etag: bool,
    /// How If-Modified-Since is compared.
    pub if_modified_since: IfModifiedSince,
    /// Most ranges in one answer; 0: ranges are off; `None`: no limit.
    pub max_ranges: Option<u32>,
    /// Serve `file.gz` where it exists and is wanted: `None` off, `Some(false)` on, `Some(true)` always.
    pub precompressed: Box<[(ContentCoding, bool)]>,
    /// `sendfile` was asked for.
    pub sendfile: bool,
    /// Handling of symbolic links.
    pub symlinks: Symlinks,
    /// A folder is answered with one of its files, whichever (`random_index`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub random_index: bool,
    /// Videos may be begun in their middle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub video: Option<weir_expr::settings::Video>,
    /// What requests may do to them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dav: Option<Box<Dav>>,
}

impl StaticFiles {
    /// A root of literal text; no alias, listing, rule about symbolic links or look for precompressed files.
    pub fn is_plain(&self) -> bool {
        self.root.as_literal().is_some()
            && !self.alias
            && self.listing.is_none()
            && self.precompressed.is_empty()
            && self.symlinks == Symlinks::Follow
            && !self.random_index
            && self.video.is_none()
    }
}

/// Content-Type values by extension, charset included.
#[derive(Clone, Debug, Serialize)]
pub struct MimeTable {
    /// By extension in lower case, without the dot.
    #[serde(serialize_with = "crate::show_count")]
    by_extension: ByteMap<Arc<str>>,
    /// For other extensions; empty: no Content-Type.
    pub default: Arc<str>,
    /// Charset appended to `charset_types`, also of other actions' answers.
    pub charset: Option<Arc<str>>,
    /// Media types that get the charset.
    #[serde(skip)]
    pub charset_types: Arc<Vec<String>>,
}

impl MimeTable {
    /// Prepares a table; each value is given the charset where its type takes one.
    pub fn new<'a>(
        types: impl IntoIterator<Item = (&'a str, &'a str)>,
        default: &str,
        charset: Option<&str>,
        charset_types: Arc<Vec<String>>,
    ) -> Self {
        // A few dozen values serve a thousand extensions.
        let mut values: std::collections::HashMap<&str, Arc<str>> = std::collections::HashMap::new();
        let mut by_extension = ByteMap::default();
        for (extension, media_type) in types {
            let value =
                values.entry(media_type).or_insert_with(|| with_charset(media_type, charset, &charset_types));
            by_extension.insert(extension.to_ascii_lowercase().into_bytes().into(), value.clone());
        }
        let default = with_charset(default, charset, &charset_types);
        Self { by_extension, default, charset: charset.map(Arc::from), charset_types }
    }

    /// The Content-Type for a file name or path, by what follows the last dot of its last segment.
    pub fn of(&self, path: &[u8]) -> &Arc<str> {
        let name = &path[memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1)..];
        let Some(dot) = memchr::memrchr(b'.', name) else { return &self.default };
        let extension = &name[dot + 1..];
        if let Some(found) = self.by_extension.get(extension) {
            return found;
        }
        if !extension.iter().any(u8::is_ascii_uppercase) {
            return &self.default;
        }
        self.by_extension.get(&*extension.to_ascii_lowercase()).unwrap_or(&self.default)
    }
}

fn with_charset(media_type: &str, charset: Option<&str>, takers: &[String]) -> Arc<str> {
    match charset {
        Some(charset)
            if takers.iter().any(|taker| taker == "*" || taker.eq_ignore_ascii_case(media_type)) =>
        {
            format!("{media_type}; charset={charset}").into()
        }
        _ => media_type.into(),
    }
}

/// Prints the size of a table in place of its thousand lines.
pub(crate) fn show_count<T, S: serde::Serializer>(
    map: &ByteMap<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("<{} entries>", map.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_found_in_any_case_and_text_gets_the_charset() {
        let takers = Arc::new(vec!["text/html".to_owned()]);
        let table = MimeTable::new(
            [("html", "text/html"), ("png", "image/png")],
            "text/plain",
            Some("utf-8"),
            takers,
        );
        assert_eq!(&**table.of(b"/a.b/x.HTML"), "text/html; charset=utf-8");
        assert_eq!(&**table.of(b"x.png"), "image/png");
        assert_eq!(&**table.of(b"/a.html/x"), "text/plain");
        assert_eq!(&**table.of(b"x."), "text/plain");
    }
}
