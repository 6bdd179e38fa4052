//! `weir diff`: what two configurations mean differently.

use std::process::ExitCode;

use weir_native::{Plain, Style};

use crate::compile;
use crate::compile::store::Store;
use crate::launch::{Launch, Manner};
use crate::{output, report};

/// Exit codes as diff(1) has them: 0 the same, 1 different, 2 trouble.
const TROUBLE: u8 = 2;

/// Prints a line for each difference: `-` what the first one has, `+` what the second one has.
pub(super) fn run(one: &Launch, other: &Launch) -> ExitCode {
    let (Some(one), Some(other)) = (document(one), document(other)) else { return ExitCode::from(TROUBLE) };
    let lines = weir_native::differences(&one, &other);
    if !output::out(&lines.iter().map(|line| format!("{line}\n")).collect::<String>()) {
        return ExitCode::from(TROUBLE);
    }
    match lines.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// What a configuration means, without secrets; `None` if it has errors, which are told.
fn document(launch: &Launch) -> Option<Plain> {
    let understood = compile::understand(launch, &Store::disk());
    report::print(Manner::Weir, &understood.diagnostics, &understood.sources, true);
    if !understood.is_ok() {
        return None;
    }
    weir_native::document(&understood.model, Style { secrets: false, defaults: false, nested: true })
        .inspect_err(|error| errln!("weir: {error}"))
        .ok()
}
