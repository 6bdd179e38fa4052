//! `weir check`.

use std::process::ExitCode;

use clap::ValueEnum;
use weir_diag::{render_json, summary};

use crate::compile;
use crate::compile::host_names::{BUDGET, resolve_all};
use crate::compile::store::Store;
use crate::launch::{Launch, Manner};
use crate::report;

/// How findings are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Drawn, for people, on standard error.
    Terminal,
    /// One JSON object a line, on standard output.
    Json,
}

/// Shows every finding. Exits 0 if the configuration can run.
pub(super) fn run(launch: &Launch, format: Format) -> ExitCode {
    let store = Store::disk();
    let compiled = compile::compile_resolved(launch, &store, |_, names| resolve_all(names, BUDGET));
    match format {
        Format::Json => {
            for found in &compiled.diagnostics {
                outln!("{}", render_json(found, &compiled.sources));
            }
        }
        Format::Terminal => {
            report::print(Manner::Weir, &compiled.diagnostics, &compiled.sources, false);
            errln!("{}: {}", launch.main_path().display(), summary(&compiled.diagnostics));
        }
    }
    match compiled.is_ok() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
