//! weir.yaml into a model, and a model into weir.yaml.
//!
//! Owns: Weir's own language: the model in a file, as YAML or JSON, with short forms and defaults.
//! Never: opens a file but through [`Files`], resolves a name.
//! Driven by: the binary's `run`, `check`, `explain`, `convert` and `diff` commands, and the admin API.
//! Why: what no other program's language has a word for can be written, and what they mean can be written down.
//!
//! ```text
//! text ── node ──> nodes with places ── document, read ──> Model
//!                       (as written)    shapes, defaults   (as meant)
//! text <── emit ── plain data <── print ── tree <── serde ── Model
//! ```

#![forbid(unsafe_code)]

mod defaults;
mod differ;
mod document;
mod emit;
mod keys;
mod node;
mod plain;
mod print;
mod read;
mod shapes;
mod tree;
mod words;

use std::io;
use std::path::{Path, PathBuf};

use weir_diag::{Diagnostic, Sources};
use weir_model::Model;

pub use crate::differ::differences;
pub use crate::plain::Plain;
pub use crate::print::{ORDER as SECTIONS, Style};

/// Where texts come from.
pub trait Files {
    /// A file's bytes.
    ///
    /// # Errors
    /// Those of the system.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
}

/// A configuration, read.
#[derive(Debug)]
pub struct Loaded {
    /// As meant; whole only if no diagnostic is an error.
    pub model: Model,
    /// All findings, in the order of the text where they have a place.
    pub diagnostics: Vec<Diagnostic>,
    /// The text that spans refer to.
    pub sources: Sources,
}

/// Reads a file. Relative paths in it start from `folder`.
pub fn load(files: &dyn Files, path: &Path, folder: PathBuf) -> Loaded {
    match files.read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => read(path, &text, folder),
            Err(_) => {
                failed(Diagnostic::error("native::not-utf8", format!("`{}` is not UTF-8", path.display())))
            }
        },
        Err(error) => {
            let title = format!("cannot read `{}`: {error}", path.display());
            failed(Diagnostic::error("native::unreadable", title))
        }
    }
}

fn failed(found: Diagnostic) -> Loaded {
    Loaded { model: Model::default(), diagnostics: vec![found], sources: Sources::default() }
}

/// Reads a text that messages call by `name`. Relative paths in it start from `folder`.
pub fn read(name: &Path, text: &str, folder: PathBuf) -> Loaded {
    let mut sources = Sources::default();
    let source = sources.add(name, text);
    let cx = read::Context { folder, ..read::Context::default() };
    let root = node::parse(text, source, &mut cx.findings.borrow_mut());
    let model = match root {
        Some(root) => document::model(&root, &cx),
        None => {
            if cx.findings.borrow().is_empty() {
                let found = Diagnostic::error("native::empty", "the configuration holds nothing");
                cx.findings.borrow_mut().push(found.help("an empty file changes nothing"));
            }
            Model::default()
        }
    };
    Loaded { model, diagnostics: in_order(cx.findings.into_inner()), sources }
}

/// In the order of the text, each once: an object with a mistake is read again.
fn in_order(mut all: Vec<Diagnostic>) -> Vec<Diagnostic> {
    all.sort_by_key(|found| found.primary.as_ref().map(|label| label.span.start));
    let mut kept: Vec<Diagnostic> = Vec::with_capacity(all.len());
    for one in all {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    kept
}

/// The model as a document.
///
/// # Errors
/// The model holds what no document can say.
pub fn document(model: &Model, style: Style) -> Result<Plain, String> {
    print::document(model, style).map_err(|failure| failure.to_string())
}

/// A document as YAML.
pub fn to_yaml(document: &Plain) -> String {
    emit::yaml(document, true)
}

/// A document as YAML in which everything is written out where it holds.
pub fn to_long_yaml(document: &Plain) -> String {
    emit::yaml(document, false)
}

/// A text of YAML or JSON as data.
///
/// # Errors
/// What is wrong with it, on one line for each mistake.
pub fn plain(text: &str) -> Result<Plain, String> {
    let (mut sources, mut found) = (Sources::default(), Vec::new());
    let source = sources.add("text", text);
    let root = node::parse(text, source, &mut found);
    match (root, found.is_empty()) {
        (Some(root), true) => Ok(Plain::of(&root)),
        (None, true) => Ok(Plain::Null),
        _ => Err(found.iter().map(|one| told(one, &sources)).collect::<Vec<_>>().join("\n")),
    }
}

fn told(found: &Diagnostic, sources: &Sources) -> String {
    match &found.primary {
        Some(label) => {
            let at = sources.position(label.span.source, label.span.start);
            format!("{} in line {}, column {}", found.title, at.line, at.column)
        }
        None => found.title.clone(),
    }
}

/// What a field of a structure is where it is not written, on one line of JSON; `None` if that is nothing, or it has to be.
pub fn default_of(structure: &str, field: &str) -> Option<String> {
    let default = defaults::of_field(structure, field)?;
    serde_json::to_string(default).ok()
}

/// True if a text reads like weir.yaml: it is a map of JSON, or its first line that says anything names a section.
pub fn looks_like(text: &str) -> bool {
    for line in text.lines() {
        let line = line.trim_start_matches('\u{feff}');
        if line.trim().is_empty() || line.starts_with('#') || line.trim_end() == "---" {
            continue;
        }
        let section = line.split_once(':').map(|(word, _)| word.trim_matches('"'));
        return line.trim_start().starts_with('{')
            || section.is_some_and(|word| print::ORDER.contains(&word));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::looks_like;

    #[test]
    fn the_first_line_tells() {
        assert!(looks_like("# mine\n---\nlisteners:\n- 80\n"));
        assert!(looks_like("{\n \"sites\": []}"));
        assert!(looks_like("pools: {}"));
        assert!(!looks_like("http {\n"));
        assert!(!looks_like("listen stats :81\n"));
        assert!(!looks_like("global\n daemon\n"));
        assert!(!looks_like(""));
    }
}
