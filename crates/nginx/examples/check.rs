//! Draws what is found in a file: `cargo run -p weir-nginx --example check -- FILE`.

#![allow(clippy::unwrap_used, reason = "a tool for the command line of a developer")]

use std::path::Path;

fn main() {
    let path = std::env::args().nth(1).unwrap();
    let loaded = weir_nginx::load(&weir_nginx::Disk, Path::new(&path), &weir_nginx::Options::default());
    for found in &loaded.diagnostics {
        print!("{}", weir_diag::render_terminal(found, &loaded.sources, false));
    }
    println!("{}", weir_diag::summary(&loaded.diagnostics));
    if loaded.has_errors() {
        std::process::exit(1);
    }
}
