//! Entry points for fuzz drivers; not part of the API.
#![doc(hidden)]

use crate::{Memory, Options, load, looks_like};

/// Reads arbitrary bytes as a configuration. Must neither panic nor run long.
pub fn config(bytes: &[u8]) {
    looks_like(&String::from_utf8_lossy(bytes));
    let files = Memory::default().with("fuzz.cfg", bytes.to_vec());
    let options = Options { env: vec![("HOME".into(), "/root".into())], ..Options::default() };
    let loaded = load(&files, &["fuzz.cfg".into()], &options);
    for diagnostic in &loaded.diagnostics {
        let _ = weir_diag::render_terminal(diagnostic, &loaded.sources, false);
    }
}

/// Reads arbitrary bytes as each file that a configuration may name.
pub fn tables(bytes: &[u8]) {
    const MAIN: &str = "frontend f\n mode http\n bind :80\n bind :443 ssl crt-list t\n acl a path -f t\n acl b path_reg -i -f t\n acl c src -f t\n \
        http-request deny if a || b || c\n http-request set-header x %[path,map(t,d)]%[src,map_ip(t)]%[path,map_beg(t)]%[path,map_reg(t)]%[path,lower,map_str(t)]\n \
        errorfile 503 t\n http-request return status 200 content-type a/b lf-file t\n default_backend b\nbackend b\n mode http\n server s 127.0.0.1:80\n";
    let files = Memory::default().with("fuzz.cfg", MAIN).with("t", bytes.to_vec());
    let loaded = load(&files, &["fuzz.cfg".into()], &Options::default());
    for diagnostic in &loaded.diagnostics {
        let _ = weir_diag::render_json(diagnostic, &loaded.sources);
    }
}
