//! `weir explain`.

use std::process::ExitCode;

use weir_native::Style;

use crate::compile;
use crate::compile::host_names::{BUDGET, resolve_all};
use crate::compile::store::Store;
use crate::launch::{Launch, Manner};
use crate::{output, report};

/// Prints the model as weir.yaml with all defaults and without secrets, or the plan, and findings on standard error. Exits 0 if
/// there was something to print.
pub(super) fn run(launch: &Launch, plan: bool) -> ExitCode {
    // Whoever wants to see what will run may not be allowed to read its keys.
    let launch = &Launch { tolerate_unreadable_files: true, ..launch.clone() };
    let store = Store::disk();
    let compiled = match plan {
        true => compile::compile_resolved(launch, &store, |_, names| resolve_all(names, BUDGET)),
        false => compile::understand(launch, &store),
    };
    report::print(Manner::Weir, &compiled.diagnostics, &compiled.sources, false);
    let style = Style { secrets: false, defaults: true, nested: true };
    let text = match (plan, &compiled.plan) {
        (false, _) => match weir_native::document(&compiled.model, style) {
            Ok(document) => weir_native::to_long_yaml(&document),
            Err(error) => format!("# cannot be printed: {error}\n"),
        },
        (true, Some(plan)) => weir_lower::explain_plan(plan),
        (true, None) => return ExitCode::FAILURE,
    };
    let told = output::out(&format!("{}\n", text.trim_end()));
    match told && compiled.is_ok() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
