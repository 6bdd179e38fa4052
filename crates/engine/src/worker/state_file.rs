//! Files that the endpoints of pools are in.
//!
//! Owns: the lines of such a file, which are those of an upstream: whoever reads the configuration reads it, too.
//! Driven by: `layer`, for each change of a pool that has one.

use std::fmt::Write as _;
use std::path::Path;

use weir_control::changes::NewEndpoint;

use crate::worker::keyvals::FILE_MODE;

/// Writes the endpoints of a pool.
///
/// # Errors
/// The file cannot be replaced; it is as it was then.
pub(crate) fn write(path: &Path, endpoints: &[NewEndpoint]) -> std::io::Result<()> {
    weir_rt::replace_file(path, text(endpoints).as_bytes(), FILE_MODE)
}

fn text(endpoints: &[NewEndpoint]) -> String {
    let mut text = String::new();
    for one in endpoints {
        let _ = write!(text, "server {}", one.address);
        let number = |text: &mut String, name: &str, value: Option<u32>, usual: u32| {
            if let Some(value) = value.filter(|value| *value != usual) {
                let _ = write!(text, " {name}={value}");
            }
        };
        number(&mut text, "weight", one.weight, 1);
        number(&mut text, "max_conns", one.max_connections, 0);
        number(&mut text, "max_fails", one.max_fails, 1);
        for (name, value, usual) in
            [("fail_timeout", one.fail_timeout_ms, 10_000), ("slow_start", one.slow_start_ms, 0)]
        {
            if let Some(ms) = value.filter(|ms| *ms != usual) {
                let _ = write!(text, " {name}={ms}ms");
            }
        }
        if let Some(route) = &one.cookie {
            let _ = write!(text, " route={route}");
        }
        for (name, on) in
            [("resolve", one.resolve), ("backup", one.backup), ("down", one.down), ("drain", one.drain)]
        {
            if on == Some(true) {
                let _ = write!(text, " {name}");
            }
        }
        text.push_str(";\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_usual_is_written() {
        let plain = NewEndpoint {
            address: "192.0.2.1:80".into(),
            weight: Some(1),
            max_fails: Some(1),
            fail_timeout_ms: Some(10_000),
            ..NewEndpoint::default()
        };
        let full = NewEndpoint {
            address: "app.test:8080".into(),
            weight: Some(5),
            max_connections: Some(10),
            max_fails: Some(0),
            fail_timeout_ms: Some(1500),
            slow_start_ms: Some(30_000),
            cookie: Some("a".into()),
            resolve: Some(true),
            backup: Some(true),
            down: Some(true),
            drain: Some(true),
            ..NewEndpoint::default()
        };
        assert_eq!(
            text(&[plain, full]),
            "server 192.0.2.1:80;\nserver app.test:8080 weight=5 max_conns=10 max_fails=0 fail_timeout=1500ms \
             slow_start=30000ms route=a resolve backup down drain;\n"
        );
    }
}
