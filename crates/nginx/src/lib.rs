//! nginx.conf → model.
//!
//! Owns: the language of nginx's configuration: its words, their places, arguments, inheritance and defaults.
//! Never: serves, compiles a pattern, opens a certificate; the data plane never sees a word of this crate.
//! Driven by: the binary ([`load`] for `run`, `check`, `explain`; [`dump`] for `-T`; [`looks_like`] to tell languages
//! apart), and the documentation ([`compatibility`]).
//! Why: a file that nginx takes must run unchanged or say, with line and remedy, what of it does not run yet. A word
//! that only tunes is a warning; one that decides who gets in, or what is answered, is an error until it is built.
//!
//! # Stages
//!
//! ```text
//! bytes ─decode→ text ─lexer→ words ─tree→ blocks ─include→ one tree ─build→ model + diagnostics
//!                                                                      └ table ─ names functions of take
//! ```

#![forbid(unsafe_code)]

mod build;
mod decode;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod include;
mod lexer;
mod options;
mod table;
mod take;
mod tree;
mod value;
mod variables;

use std::fmt::Write as _;
use std::path::Path;

use weir_diag::{Diagnostic, SourceId, Sources, has_errors};
use weir_model::Model;

pub use files::{Disk, Files, Memory};
pub use options::Options;
pub use table::{Contexts, Row, Status, compatibility, words_in};
pub use variables::listed as variables;

/// Whether a finding says only that Weir goes without something, and nobody will notice: such words stand in the files
/// that distributions ship.
pub fn is_minor(found: &Diagnostic) -> bool {
    ["nginx::no-effect", "nginx::weak-protocol", "nginx::load-module"].contains(&found.code)
}

/// A configuration with everything that was found in it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What was understood. To be run only if no diagnostic is an error.
    pub model: Model,
    /// Findings in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// The texts that spans point into.
    pub sources: Sources,
}

impl Loaded {
    /// True if this configuration must not run.
    pub fn has_errors(&self) -> bool {
        has_errors(&self.diagnostics)
    }
}

/// Reads a configuration with everything it includes. Never fails: what is wrong is among the diagnostics.
pub fn load(files: &dyn Files, path: &Path, options: &Options) -> Loaded {
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let mut reader = include::Reader::new(files, folder.clone());
    let mut tree = Vec::new();
    if let Some(text) = &options.directives {
        // nginx ends what stands after `-g` by itself.
        let ended = text.trim_end();
        let ended = if ended.is_empty() || ended.ends_with([';', '}']) {
            ended.to_owned()
        } else {
            format!("{ended};")
        };
        tree.append(&mut reader.text("-g", &ended));
    }
    tree.append(&mut reader.main(path));
    let sources = std::mem::take(&mut reader.sources);
    let mut diagnostics = reader.diagnostics;
    let (model, found) = build::build(files, options, &sources, folder, &tree);
    diagnostics.extend(found);
    diagnostics
        .sort_by_key(|found| found.primary.as_ref().map(|label| (label.span.source, label.span.start)));
    Loaded { model, diagnostics, sources }
}

/// All texts of a configuration in the form of `nginx -T`.
pub fn dump(loaded: &Loaded) -> String {
    let mut out = String::new();
    for id in loaded.sources.ids() {
        let name = loaded.sources.name(id);
        if name == Path::new("-g") {
            continue;
        }
        let _ = writeln!(out, "# configuration file {}:", name.display());
        out.push_str(&loaded.sources.text(id));
        out.push('\n');
    }
    out
}

/// True if a text reads like nginx.conf: at its outermost level stands a word that nginx knows there, with `;` or `{`.
pub fn looks_like(text: &str) -> bool {
    let tree = tree::parse(text, SourceId(0), &mut Vec::new());
    let known = |directive: &tree::Directive| {
        // A word that swallowed whole lines is no directive: that is how files of other languages read.
        let lines = text.get(directive.span.start as usize..directive.span.end as usize);
        let lines = lines.map_or(0, |words| words.matches('\n').count());
        let entry = table::named(directive.name()).iter().find(|entry| entry.contexts.has(Contexts::MAIN));
        entry.is_some_and(|entry| entry.block == directive.block.is_some() && lines < 8)
    };
    tree.iter().any(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_told_apart() {
        for nginx in [
            "user www-data;\nevents {}\nhttp {}",
            "http {\n  server { listen 80; }\n}",
            "# comment\nstream { server { listen 1; proxy_pass a:1; } }",
            "events { worker_conections 5 }\nhtp {}",
            "include /etc/nginx/main.conf;",
        ] {
            assert!(looks_like(nginx), "{nginx}");
        }
        for other in [
            "global\n  daemon\ndefaults\n  mode http\nfrontend f\n  bind :80\n",
            "listen http-in 0.0.0.0:80\n server a 10.0.0.1:80 check\n",
            "global\n user haproxy\n group haproxy\n log /dev/log local0\n stats timeout 30s;\n",
            "listen: 80\npools: []\n",
            "",
        ] {
            assert!(!looks_like(other), "{other}");
        }
    }

    #[test]
    fn directives_of_the_command_line_come_first() {
        let files = Memory::with("/etc/nginx/nginx.conf", "events {} http { server { } }");
        let options =
            Options { directives: Some("daemon off; worker_processes 3".into()), ..Options::default() };
        let loaded = load(&files, Path::new("/etc/nginx/nginx.conf"), &options);
        assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
        assert!(!loaded.model.process.daemon);
        assert_eq!(loaded.model.process.workers, weir_model::Workers::Count(3));
        assert!(dump(&loaded).starts_with("# configuration file /etc/nginx/nginx.conf:\nevents {}"));
    }

    #[test]
    fn a_missing_file_is_one_finding() {
        let loaded = load(&Memory::default(), Path::new("/nowhere.conf"), &Options::default());
        let codes: Vec<&str> = loaded.diagnostics.iter().map(|found| found.code).collect();
        assert_eq!(codes, ["nginx::unreadable"]);
    }
}
