//! Entry points for fuzz drivers; not part of the API.
#![doc(hidden)]

use crate::{Memory, Options, load, looks_like};

/// Reads arbitrary bytes as a configuration. Must neither panic nor run long.
pub fn config(bytes: &[u8]) {
    looks_like(&String::from_utf8_lossy(bytes));
    let files = Memory::default().with("fuzz.cfg", bytes.to_vec());
    let options = Options { env: vec![("HOME".into(), "/root".into())] };
    let loaded = load(&files, &["fuzz.cfg".into()], &options);
    for diagnostic in &loaded.diagnostics {
        let _ = weir_diag::render_terminal(diagnostic, &loaded.sources, false);
    }
}
