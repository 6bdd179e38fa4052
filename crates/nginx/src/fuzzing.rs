//! Doors for fuzz drivers.

use std::path::Path;

use crate::{Memory, Options, load, looks_like};

/// Loads arbitrary bytes as a configuration and draws what was found. Must never panic.
pub fn config(bytes: &[u8]) {
    let path = Path::new("/etc/nginx/nginx.conf");
    let mut files = Memory::with(path, bytes);
    files.files.insert("/etc/nginx/other.conf".into(), bytes.to_vec());
    let loaded = load(&files, path, &Options::default());
    for found in &loaded.diagnostics {
        let _ = weir_diag::render_terminal(found, &loaded.sources, false);
    }
    let _ = crate::dump(&loaded);
    looks_like(&String::from_utf8_lossy(bytes));
}

/// Loads arbitrary bytes as each file that a table of nginx's may include.
pub fn tables(bytes: &[u8]) {
    const MAIN: &str = "events {} http { map $uri $a { volatile; hostnames; include t; } geo $b { include t; } geo $c { ranges; include t; }
        types { include t; } split_clients $uri $d { include t; } server { listen 80; server_name a; include t; } upstream u { include t; } }";
    let path = Path::new("/etc/nginx/nginx.conf");
    let mut files = Memory::with(path, MAIN);
    files.files.insert("/etc/nginx/t".into(), bytes.to_vec());
    let loaded = load(&files, path, &Options::default());
    for found in &loaded.diagnostics {
        let _ = weir_diag::render_json(found, &loaded.sources);
    }
}
