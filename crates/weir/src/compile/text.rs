//! A configuration as one document of Weir's own language, whatever language its files are written in.
//!
//! Owns: [`Text`], making one of a model, and showing it without its secrets.
//! Never: reads a file.
//! Driven by: `compile`, `cli::convert`, and the admin API, whose changes are made in documents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_model::Model;
use weir_native::{Plain, Style};

use super::wire::{Reader, Writer};
use crate::report;

/// The name that findings give to the text of a document.
const NAME: &str = "configuration";

/// A whole configuration, secrets included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    json: Arc<str>,
    /// Relative paths start here.
    folder: PathBuf,
    /// Routes stand where they are referred to; else all of them are in one list.
    nested: bool,
}

impl Text {
    /// A document that was written by somebody.
    pub(crate) fn new(document: &Plain, like: &Self) -> Self {
        let json = serde_json::to_string_pretty(document).unwrap_or_default();
        Self { json: json.into(), folder: like.folder.clone(), nested: like.nested }
    }

    /// The text of a model, and the model as it is shown.
    ///
    /// # Errors
    /// It cannot be written down, or would be read as something else.
    pub(crate) fn of(model: &Model) -> Result<(Self, Plain), String> {
        let meant = flat(model)?;
        let mut why = "it has no form".to_owned();
        for nested in [true, false] {
            let nothing = Self { json: "".into(), folder: model.process.prefix.clone(), nested };
            let text = Self::new(&nothing.print(model, true)?, &nothing);
            let read = text.read();
            let again = flat(&read.model)?;
            match read.diagnostics.first() {
                None if again == meant => {
                    let shown = text.print(model, false)?;
                    return Ok((text, shown));
                }
                // Values may be secrets: the place has to do.
                None => {
                    why = weir_native::differences(&meant, &again).first().map_or(why, |line| place(line))
                }
                Some(found) => why = found.code.to_owned(),
            }
        }
        Err(format!("it is not carried with certainty: {}", report::printable(&why)))
    }

    /// Reads it, as a file is read.
    pub(crate) fn read(&self) -> weir_native::Loaded {
        weir_native::read(Path::new(NAME), &self.json, self.folder.clone())
    }

    /// The text.
    pub(crate) fn json(&self) -> &str {
        &self.json
    }

    /// As data, with secrets.
    pub(crate) fn document(&self) -> Plain {
        serde_json::from_str(&self.json).unwrap_or(Plain::Null)
    }

    /// A model in the same form.
    ///
    /// # Errors
    /// It cannot be written down.
    pub(crate) fn print(&self, model: &Model, secrets: bool) -> Result<Plain, String> {
        weir_native::document(model, Style { secrets, defaults: false, nested: self.nested })
    }

    pub(crate) fn encode(&self, out: &mut Writer) {
        use std::os::unix::ffi::OsStrExt;
        out.bytes(self.json.as_bytes());
        out.bytes(self.folder.as_os_str().as_bytes());
        out.number(self.nested.into());
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Option<Self> {
        use std::os::unix::ffi::OsStrExt;
        let json = input.text()?.into();
        let folder = PathBuf::from(std::ffi::OsStr::from_bytes(input.bytes()?));
        Some(Self { json, folder, nested: input.number()? != 0 })
    }
}

/// The document of a model, with routes in their places where that keeps the model as it is, and the first line in which
/// what it means differs from the model, if it does.
///
/// # Errors
/// There is no document.
pub(crate) fn carried(model: &Model) -> Result<(Plain, Option<String>), String> {
    let meant = exact(model)?;
    let mut last = None;
    for nested in [true, false] {
        let document = weir_native::document(model, Style { secrets: true, defaults: false, nested })?;
        let read = weir_native::read("converted".as_ref(), &weir_native::to_yaml(&document), PathBuf::new());
        let uncertain = match read.diagnostics.first() {
            Some(found) => Some(report::one_line(found, &read.sources)),
            None => {
                let again = exact(&read.model)?;
                let differs = meant.lines().zip(again.lines()).find(|(one, other)| one != other);
                let cut = (meant != again).then(|| "the end of the document".to_owned());
                differs.map(|(one, other)| format!("`{}` is read as `{}`", one.trim(), other.trim())).or(cut)
            }
        };
        if uncertain.is_none() {
            return Ok((document, None));
        }
        last = Some((document, uncertain));
    }
    last.ok_or_else(|| "it has no form".to_owned())
}

/// Where a difference is.
fn place(line: &str) -> String {
    line.trim_start_matches(['-', '+', ' ']).split(": ").next().unwrap_or_default().to_owned()
}

/// A model with all routes in its own order. What is left out holds by itself in either model.
fn flat(model: &Model) -> Result<Plain, String> {
    weir_native::document(model, Style { secrets: true, defaults: false, nested: false })
}

/// All of a model, in its own order.
fn exact(model: &Model) -> Result<String, String> {
    let style = Style { secrets: true, defaults: true, nested: false };
    weir_native::document(model, style).map(|document| weir_native::to_long_yaml(&document))
}
