//! What is done to the bodies of responses on their way to the client, other than compression.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use weir_expr::{Slot, Var};

use crate::{Charset, Compression, HeaderEdit, Template};

/// Filters of a route's response bodies, and what follows a body.
#[derive(Clone, Debug, Default, Serialize)]
pub struct BodyFilters {
    /// What is said about charsets, and done to bodies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charset: Option<Charset>,
    /// Text is replaced by other text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace: Option<Replace>,
    /// Bodies in gzip are unpacked for clients that these settings would not compress for.
    pub unpack: Option<Arc<Compression>>,
    /// Bodies of other requests around the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addition: Option<Addition>,
    /// Pages are searched for commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<Arc<PageCommands>>,
    /// Most bytes of a body that becomes a value of such a command.
    pub most_kept: u64,
    /// Trailers of our own.
    pub trailers: Box<[HeaderEdit]>,
}

impl BodyFilters {
    /// Whether there is more to do than to say a charset that is known at load: files say that with their media type.
    pub fn act(&self) -> bool {
        let charset = self.charset.as_ref();
        self.replace.is_some()
            || self.unpack.is_some()
            || self.addition.is_some()
            || self.commands.is_some()
            || !self.trailers.is_empty()
            || charset.is_some_and(|charset| charset.source.is_some() || charset.name.as_literal().is_none())
    }
}

/// Replacing text in bodies.
#[derive(Clone, Debug, Serialize)]
pub struct Replace {
    /// `(what is looked for, what takes its place)`. Case does not count. Where two are found at one place the first wins.
    pub pairs: Box<[(Template, Template)]>,
    /// Media types whose bodies are searched.
    pub types: MediaTypes,
    /// Each of them is replaced only where it is found first.
    pub once: bool,
    /// `Last-Modified` is kept and the ETag is weakened; otherwise both go.
    pub keeps_validators: bool,
}

/// Bodies of other requests around the body of a response.
#[derive(Clone, Debug, Serialize)]
pub struct Addition {
    /// The path of the site whose body comes before it.
    pub before: Option<Box<str>>,
    /// The path of the site whose body comes behind it.
    pub after: Option<Box<str>>,
    /// Media types of responses that this is done to.
    pub types: MediaTypes,
}

/// Commands in pages.
#[derive(Clone, Debug, Serialize)]
pub struct PageCommands {
    /// Media types of pages that are searched.
    pub types: MediaTypes,
    /// `Last-Modified` is kept and the ETag is weakened; otherwise both go.
    pub keeps_validators: bool,
    /// A command that fails leaves no text.
    pub silent: bool,
    /// Most bytes of a parameter's value.
    pub value_length: usize,
    /// Variables by name.
    #[serde(skip)]
    pub names: Arc<Vocabulary>,
}

/// Variables by name, for texts that are read only while running.
#[derive(Debug, Default)]
pub struct Vocabulary {
    whole: HashMap<Box<str>, Var<Slot>>,
    prefixes: Box<[(Box<str>, Var<Slot>)]>,
}

impl Vocabulary {
    /// Of whole names, in lower case, and beginnings of names.
    pub fn new(
        whole: impl Iterator<Item = (String, Var<Slot>)>,
        prefixes: impl Iterator<Item = (String, Var<Slot>)>,
    ) -> Self {
        Self {
            whole: whole.map(|(name, var)| (name.into(), var)).collect(),
            prefixes: prefixes.map(|(prefix, var)| (prefix.into(), var)).collect(),
        }
    }

    /// What a name in lower case stands for.
    pub fn find(&self, name: &str) -> Option<Cow<'_, Var<Slot>>> {
        if let Some(var) = self.whole.get(name) {
            return Some(Cow::Borrowed(var));
        }
        let named = |(prefix, var): &(Box<str>, Var<Slot>)| {
            let rest = name.strip_prefix(&**prefix).filter(|rest| !rest.is_empty())?;
            Some(match var {
                Var::HeaderUnderscored(_) | Var::Arg(_) | Var::Cookie(_) | Var::UpstreamCookie(_) => {
                    var.renamed(rest)
                }
                _ => var.renamed(&rest.replace('_', "-")),
            })
        };
        self.prefixes.iter().find_map(named).map(Cow::Owned)
    }
}

/// A set of media types.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MediaTypes {
    types: Box<[Box<str>]>,
    any: bool,
}

impl MediaTypes {
    /// The set of these types, in lower case; `*` stands for all.
    pub fn new(types: &[String]) -> Self {
        Self {
            any: types.iter().any(|media_type| media_type == "*"),
            types: types.iter().map(|media_type| media_type.to_ascii_lowercase().into()).collect(),
        }
    }

    /// True if a response with this Content-Type is among them; parameters are not looked at.
    pub fn take(&self, content_type: Option<&[u8]>) -> bool {
        let Some(content_type) = content_type else { return self.any };
        let essence = content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        self.any || self.types.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(essence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_compared_without_case_and_parameters() {
        let types = MediaTypes::new(&["text/html".into(), "text/CSS".into()]);
        assert!(types.take(Some(b"Text/HTML; charset=utf-8")) && types.take(Some(b"text/css")));
        assert!(!types.take(Some(b"text/plain")) && !types.take(None));
        assert!(MediaTypes::new(&["*".into()]).take(None));
    }

    #[test]
    fn names_are_found_whole_and_by_their_beginnings() {
        let whole = [("host".to_owned(), Var::Host)].into_iter();
        let prefixes =
            [("arg_", Var::Arg(String::new())), ("sent_http_", Var::SentHeader(String::new()))].into_iter();
        let names = Vocabulary::new(whole, prefixes.map(|(prefix, var)| (prefix.to_owned(), var)));
        let find = |name| names.find(name).map(Cow::into_owned);
        assert_eq!(find("host"), Some(Var::Host));
        assert_eq!(find("arg_a_b"), Some(Var::Arg("a_b".into())));
        assert_eq!(find("sent_http_x_y"), Some(Var::SentHeader("x-y".into())));
        assert_eq!((find("arg_"), find("hosts")), (None, None));
    }
}
