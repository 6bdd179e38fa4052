//! From blocks to the model.
//!
//! Owns: the walk over blocks, the checks every word gets, the nodes of the model that a block makes.
//! Never: knows what a single directive says; the table names the function of `take` that does.
//! Driven by: [`crate::load`].
//! Why: a block is read twice. First every setting, because nginx lets one stand after the blocks it governs; then
//! inner blocks and rewrites in order, with the finished settings.

mod admit;
mod http;
mod identities;
mod listeners;
mod location;
mod program;
mod route;
mod server;
mod stream;
mod stream_listeners;
mod upstream;

use std::path::{Path, PathBuf};

use weir_diag::{Diagnostic, Sources};
use weir_model::settings::LogLevel;
use weir_model::{ErrorLog, LogTarget, Model};

use self::admit::Admitted;
use crate::files::Files;
use crate::options::Options;
use crate::table::{Contexts, Taker, named};
use crate::take::{Lowering, access, process};
use crate::tree::Directive;

/// Reads a whole configuration.
pub(crate) fn build(
    files: &dyn Files,
    options: &Options,
    sources: &Sources,
    folder: PathBuf,
    tree: &[Directive],
) -> (Model, Vec<Diagnostic>) {
    let is_directive = |word: &str| !named(word).is_empty();
    let mut lo = Lowering::new(files, options, sources, folder, is_directive);
    process::defaults(&mut lo);
    let main = lo.admit(tree, Contexts::MAIN);
    apply(&mut lo, &main);
    for word in &main {
        match word.entry.name {
            "events" => {
                let words = lo.admit(word.directive.children(), Contexts::EVENTS);
                apply(&mut lo, &words);
            }
            "http" => http::build(&mut lo, word.directive),
            _ => {}
        }
    }
    // After `http`, wherever it stands: of names that both have it is `stream` that gets another (`register_pool`).
    for word in main.iter().filter(|word| word.entry.name == "stream") {
        stream::build(&mut lo, word.directive);
    }
    finish(&mut lo, &main);
    access::check_zones(&mut lo);
    tell_repetitions(&mut lo);
    (lo.model, lo.diagnostics)
}

/// Applies the words of the process.
fn apply(lo: &mut Lowering<'_>, words: &[Admitted<'_>]) {
    for word in words {
        if let Taker::Process(f) = word.entry.taker {
            f(lo, word.directive);
        }
    }
}

/// What only the whole file can tell.
fn finish(lo: &mut Lowering<'_>, main: &[Admitted<'_>]) {
    if lo.model.process.error_logs.is_empty() {
        let target = match &lo.options.error_log {
            Some(path) if !["", "stderr"].map(Path::new).contains(&path.as_path()) => {
                LogTarget::File(path.clone())
            }
            _ => LogTarget::Stderr,
        };
        lo.model.process.error_logs.push(ErrorLog { target, level: LogLevel::Error });
    }
    let has = |name: &str| main.iter().any(|word| word.entry.name == name);
    if !has("events") && (has("http") || has("stream")) {
        lo.report(
            Diagnostic::note("nginx::no-events", "there is no `events` block; its defaults hold")
                .help("nginx itself refuses such a file; add `events {}` to use it there"),
        );
    }
    // An unreadable file was told by itself.
    if !main.is_empty() && !has("http") && !has("stream") {
        lo.report(Diagnostic::warning(
            "nginx::nothing-to-serve",
            "there is neither an `http` nor a `stream` block",
        ));
    }
}

fn tell_repetitions(lo: &mut Lowering<'_>) {
    for (at, count) in lo.tuned.values() {
        if *count > 1 {
            lo.diagnostics[*at].help.push(format!("the word stands here {count} times"));
        }
    }
}
