//! `weir convert`: any configuration as weir.yaml.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::ValueEnum;
use weir_diag::{Diagnostic, Sources};

use crate::compile;
use crate::compile::store::Store;
use crate::compile::text::carried;
use crate::launch::{Launch, Manner};
use crate::{output, report};

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// YAML, with what is said of it in comments.
    Yaml,
    /// JSON.
    Json,
}

/// Prints the configuration in Weir's own language, secrets included. Exits 0 if it is carried whole.
pub(super) fn run(launch: &Launch, form: Form) -> ExitCode {
    let store = Store::disk();
    let understood = compile::understand(launch, &store);
    report::print(Manner::Weir, &understood.diagnostics, &understood.sources, true);
    if !understood.is_ok() {
        return ExitCode::FAILURE;
    }
    let (document, uncertain) = match carried(&understood.model) {
        Ok(carried) => carried,
        Err(error) => {
            errln!("weir: the configuration cannot be written down: {error}");
            return ExitCode::FAILURE;
        }
    };
    let told = match form {
        Form::Yaml => {
            let head = head(launch, &understood.diagnostics, &understood.sources, uncertain.as_deref());
            output::out(&format!("{head}\n{}", weir_native::to_yaml(&document)))
        }
        Form::Json => match serde_json::to_string_pretty(&document) {
            Ok(text) => output::out(&format!("{text}\n")),
            Err(error) => {
                errln!("weir: {error}");
                false
            }
        },
    };
    if let Some(place) = &uncertain {
        errln!("weir: this is not carried with certainty: {place}");
    }
    match told && uncertain.is_none() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Comments: where it is from, and what was said of it.
fn head(launch: &Launch, found: &[Diagnostic], sources: &Sources, uncertain: Option<&str>) -> String {
    let mut out = format!("# Converted from {} by `weir convert`.\n", launch.main_path().display());
    out += "# It may hold passwords. What is not written here holds by itself: `weir explain` shows all of it.\n";
    if let Some(place) = uncertain {
        let _ = writeln!(out, "#\n# Not carried with certainty: {}", report::printable(place));
    }
    if !found.is_empty() {
        out += "#\n# What was said of the original:\n";
    }
    for one in found {
        let _ = writeln!(out, "# - {}", report::printable(&report::one_line(one, sources)));
    }
    out
}
