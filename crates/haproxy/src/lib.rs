//! haproxy.cfg into a model.
//!
//! Owns: the language of HAProxy 3.x, and what of older versions still stands in files: lexer, keyword tables,
//! conditions, formats, inheritance from `defaults`.
//! Never: opens a socket, resolves a name, or reads a file but through [`Files`].
//! Driven by: the binary's `run`, `check`, `explain` and `haproxy` commands.
//! Why: three steps, each carrying on after mistakes, so that all are reported at once.
//!
//! ```text
//! text ── read ──> sections of lines of words ── take ──> draft ── build ──> Model
//!                       (as written)        (words understood)      (as meant)
//! ```

#![forbid(unsafe_code)]

mod build;
mod draft;
mod files;
mod findings;
pub mod fuzzing;
mod read;
mod reference;
mod sections;
mod sniff;
mod table;
mod take;
mod values;
mod words;

use std::path::PathBuf;

use weir_diag::{Diagnostic, Sources};
use weir_model::Model;

use crate::findings::Findings;
use crate::read::env::Env;
use crate::read::read;

pub use crate::files::{Disk, Files, Memory};
pub use crate::read::condition::{FEATURES, VERSION};
pub use crate::reference::{Entry, RuleWord, actions, converters, entries, fetches};
pub use crate::sniff::looks_like;

/// What reading depends on besides the files.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The environment that `"$NAME"`, `env()` and `.if defined(NAME)` see.
    pub env: Vec<(String, String)>,
    /// The name among peers (`-L`); empty: the host's.
    pub local_peer: String,
    /// It was given on the command line, which comes before `localpeer`.
    pub local_peer_given: bool,
}

/// A configuration, read.
#[derive(Debug)]
pub struct Loaded {
    /// As meant; whole only if no diagnostic is an error.
    pub model: Model,
    /// All findings, in the order of the text where they have a place.
    pub diagnostics: Vec<Diagnostic>,
    /// The texts that spans refer to.
    pub sources: Sources,
}

/// Code of the finding that there is nothing in the files: HAProxy reads them without a complaint.
pub const EMPTY: &str = "haproxy::empty";

/// Reads files in order, as `haproxy -f A -f B` does: one configuration, with `defaults` of earlier files holding in
/// later ones. A folder stands for its `.cfg` files in the order of their names.
pub fn load(files: &dyn Files, paths: &[PathBuf], options: &Options) -> Loaded {
    let mut sources = Sources::default();
    let mut findings = Findings::default();
    let mut env = Env::new(options.env.iter().cloned());
    env.describe(paths, &options.local_peer);
    env.names_peer = options.local_peer_given;
    let mut sections = Vec::new();
    for path in files::expand(files, paths, &mut findings) {
        match files.read(&path) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                if matches!(text, ref t if t.contains('\u{fffd}')) && std::str::from_utf8(&bytes).is_err() {
                    let title =
                        format!("`{}` holds bytes that are not UTF-8; they are read as �", path.display());
                    findings.push(Diagnostic::warning("haproxy::not-utf8", title));
                }
                let source = sources.add(path, text.as_str());
                read(&text, source, &mut env, &mut sections, &mut findings.all);
            }
            Err(error) => {
                let title = format!("cannot read `{}`: {error}", path.display());
                findings.push(Diagnostic::error("haproxy::unreadable", title));
            }
        }
    }
    let draft = sections::take_all(&sections, &mut findings);
    let model = build::build(&draft, &env, files, &sources, &mut findings);
    if sections.is_empty() && !weir_diag::has_errors(&findings.all) {
        findings.push(
            Diagnostic::error(EMPTY, "the configuration holds no section")
                .help("an empty file changes nothing"),
        );
    }
    Loaded { model, diagnostics: in_order(findings.all), sources }
}

/// The value of an expression as `.if` takes it, by itself (`-cc`).
///
/// # Errors
/// What is wrong with it.
pub fn condition(text: &str, options: &Options) -> Result<bool, String> {
    let mut env = Env::new(options.env.iter().cloned());
    env.describe(&[], &options.local_peer);
    let mut found = Vec::new();
    let split = read::words::split(text, weir_diag::SourceId(0), 0, &env, &mut found);
    if let Some(found) = found.into_iter().find(|found| found.severity == weir_diag::Severity::Error) {
        return Err(found.title);
    }
    let words: Vec<&str> = split.words.iter().map(read::Word::as_str).collect();
    read::condition::evaluate(&words.join(" "), read::condition::Facts { env: &env, features: FEATURES })
}

/// In the order of the text, each once: `defaults` are looked at for every proxy that takes them.
fn in_order(mut all: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let place = |d: &Diagnostic| d.primary.as_ref().map(|label| (label.span.source, label.span.start));
    all.sort_by_key(place);
    let mut kept: Vec<Diagnostic> = Vec::with_capacity(all.len());
    for one in all {
        let same = |other: &&Diagnostic| place(other) == place(&one);
        if !kept.iter().rev().take_while(same).any(|other| *other == one) {
            kept.push(one);
        }
    }
    kept
}
