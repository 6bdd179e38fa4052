//! The command line, in three tongues.
//!
//! Owns: which tongue is spoken: by the name we were called by, or the first argument.
//! Never: serves; it makes a [`Launch`](crate::launch::Launch) and hands it over.
//! Driven by: `main`.

mod check;
mod convert;
mod diff;
mod explain;
mod haproxy;
mod haproxy_help;
mod lab;
mod load;
mod load_helpers;
mod load_metrics;
mod nginx;
mod nginx_help;
mod reload;
mod signal;
mod top;
mod values;
mod weir;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use self::values::texts;
use crate::launch::Manner;
use crate::plane::Start;

/// The name that a process of this manner goes by.
pub(crate) fn program_name(manner: Manner) -> &'static str {
    match manner {
        Manner::Weir => "weir",
        Manner::Nginx => "nginx",
        Manner::Haproxy => "haproxy",
    }
}

/// Obeys the command line of this process.
pub(crate) fn run(start: Start) -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let (manner, rest) = tongue(&arguments);
    match manner {
        Manner::Weir => weir::run(&arguments, start),
        Manner::Nginx => nginx::run(&texts(rest), start),
        Manner::Haproxy => haproxy::run(&texts(rest), start),
    }
}

/// The definition of our own command line.
pub(crate) fn definition() -> clap::Command {
    weir::definition()
}

/// Whose command line this is, and its arguments.
fn tongue(arguments: &[OsString]) -> (Manner, &[OsString]) {
    let called = arguments.first().map(Path::new).and_then(Path::file_name).and_then(|name| name.to_str());
    let first = arguments.get(1).and_then(|word| word.to_str());
    let after = |n| arguments.get(n..).unwrap_or_default();
    match (called, first) {
        (Some("nginx"), _) => (Manner::Nginx, after(1)),
        (Some("haproxy"), _) => (Manner::Haproxy, after(1)),
        (_, Some("nginx")) => (Manner::Nginx, after(2)),
        (_, Some("haproxy")) => (Manner::Haproxy, after(2)),
        _ => (Manner::Weir, after(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_and_the_first_word_choose() {
        let of = |text: &str| {
            let arguments: Vec<OsString> = text.split(' ').map(Into::into).collect();
            let (manner, rest) = tongue(&arguments);
            (manner, texts(rest))
        };
        assert_eq!(of("/usr/sbin/nginx -t"), (Manner::Nginx, vec!["-t".into()]));
        assert_eq!(of("weir haproxy -c"), (Manner::Haproxy, vec!["-c".into()]));
        assert_eq!(of("/usr/bin/weir check x").0, Manner::Weir);
        assert_eq!(of("weir").0, Manner::Weir);
    }
}
