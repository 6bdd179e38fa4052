//! One parser under libFuzzer; `WEIR_FUZZ` names it.
//!
//! Owns: the entry that libFuzzer calls.
//! Never: is built but by `cargo xtask fuzz`, with coverage.
#![no_main]

mod targets;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static RUN: OnceLock<targets::Run> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let run = RUN.get_or_init(|| {
        let name = std::env::var("WEIR_FUZZ").unwrap_or_default();
        let found = targets::all().into_iter().find(|(known, _)| *known == name);
        found.map(|(_, run)| run).unwrap_or_else(|| panic!("WEIR_FUZZ names no target: {name}"))
    });
    run(data);
});
