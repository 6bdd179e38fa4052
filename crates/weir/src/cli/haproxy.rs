//! `haproxy …`: HAProxy's own command line.
//!
//! Owns: its flags, its words, its exit codes.
//! Driven by: `cli`. Debian's unit calls `-Ws -f … -p … -S …` and `-Ws -f … -c -q -S …`; its init script `-c -f …`,
//! `-f … -D -p …` and `-f … -p … -sf PIDS -D`.

use std::path::PathBuf;
use std::process::ExitCode;

use weir_diag::{Diagnostic, Severity, Sources};

use super::haproxy_help::{USAGE, VERSION, build};
use crate::compile::front;
use crate::launch::{Dialect, Launch, Manner, OldOnes, Sourcing};
use crate::life::{self, start};
use crate::plane::Start;
use crate::report;

/// A parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Flags {
    version: bool,
    build: bool,
    check: bool,
    quiet: bool,
    verbose: bool,
    daemon: bool,
    foreground: bool,
    master_worker: bool,
    warnings_fail: bool,
    files: Vec<PathBuf>,
    folder: Option<PathBuf>,
    pid_file: Option<PathBuf>,
    max_connections: Option<u64>,
    megabytes: Option<u64>,
    old_pids: Vec<i32>,
    terminate: bool,
    local_peer: Option<String>,
    master_socket: Option<String>,
    sockets_from: Option<String>,
    condition: Option<String>,
}

/// Obeys.
pub(super) fn run(arguments: &[String], parts: Start) -> ExitCode {
    let Some(flags) = parse(arguments) else { return usage() };
    if flags.version {
        outln!("{VERSION}");
        if flags.build {
            outln!("{}", build());
        }
        return ExitCode::SUCCESS;
    }
    if let Some(condition) = &flags.condition {
        return evaluate(condition, &flags);
    }
    if flags.files.is_empty() {
        return usage();
    }
    if let Some(folder) = &flags.folder
        && let Err(error) = std::env::set_current_dir(folder)
    {
        return complain(&format!("Could not change to directory {} : {error}", folder.display()));
    }
    let launch = launch(&flags);
    match flags.check {
        true => check(&launch, flags.warnings_fail),
        false => life::start::start(launch, parts),
    }
}

/// `-cc`: 0 if it holds, 1 if not, 2 if it cannot be read.
fn evaluate(condition: &str, flags: &Flags) -> ExitCode {
    let options = front::haproxy_options(flags.local_peer.as_deref());
    match weir_haproxy::condition(condition, &options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(cause) => {
            complain(&cause);
            ExitCode::from(2)
        }
    }
}

fn usage() -> ExitCode {
    outln!("{VERSION}");
    err!("{USAGE}");
    ExitCode::FAILURE
}

fn complain(text: &str) -> ExitCode {
    report::print(Manner::Haproxy, &[Diagnostic::error("haproxy::flags", text)], &Sources::default(), false);
    ExitCode::FAILURE
}

fn launch(flags: &Flags) -> Launch {
    let sourcing = Sourcing {
        paths: flags.files.clone(),
        dialect: Some(Dialect::Haproxy),
        local_peer: flags.local_peer.clone(),
        ..Sourcing::default()
    };
    let mut launch = Launch::new(Manner::Haproxy, sourcing);
    launch.daemon = match (flags.foreground, flags.daemon) {
        (true, _) => Some(false),
        (false, true) => Some(true),
        (false, false) => None,
    };
    launch.master_worker = flags.master_worker;
    // As there it is the master's, and without one there is none.
    launch.master_socket = flags.master_socket.clone().filter(|_| flags.master_worker);
    launch.pid_file = flags.pid_file.clone();
    launch.old_pids = flags.old_pids.clone();
    launch.old_ones = if flags.terminate { OldOnes::Terminate } else { OldOnes::Finish };
    launch.sockets_from = flags.sockets_from.clone();
    launch.max_connections = flags.max_connections;
    launch.memory = flags.megabytes.map(|n| n.saturating_mul(1 << 20));
    launch.quiet = flags.quiet && !flags.verbose;
    launch
}

/// `None` for anything that HAProxy answers with its usage.
fn parse(arguments: &[String]) -> Option<Flags> {
    let mut flags = Flags::default();
    let mut words = arguments.iter().peekable();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-v" => flags.version = true,
            "-vv" => (flags.version, flags.build) = (true, true),
            "-c" => flags.check = true,
            "-q" => flags.quiet = true,
            "-V" => flags.verbose = true,
            "-D" => flags.daemon = true,
            "-d" => (flags.foreground, flags.verbose) = (true, true),
            "-db" => flags.foreground = true,
            "-W" => flags.master_worker = true,
            "-Ws" => (flags.master_worker, flags.foreground) = (true, true),
            "-dW" => flags.warnings_fail = true,
            "-f" => flags.files.push(words.next()?.into()),
            "-C" => flags.folder = Some(words.next()?.into()),
            "-p" => flags.pid_file = Some(words.next()?.into()),
            "-n" => flags.max_connections = Some(words.next()?.parse().ok()?),
            "-m" => flags.megabytes = Some(words.next()?.parse().ok()?),
            "-cc" => flags.condition = Some(words.next()?.clone()),
            "-L" => flags.local_peer = Some(words.next()?.clone()),
            "-S" => flags.master_socket = Some(words.next()?.clone()),
            "-x" => flags.sockets_from = Some(words.next()?.clone()),
            "-N" => drop(words.next()?),
            "-sf" | "-st" => {
                flags.terminate = word == "-st";
                while let Some(pid) = words.next_if(|next| !next.starts_with('-')) {
                    flags.old_pids.push(pid.parse().ok()?);
                }
            }
            "--" => flags.files.extend(words.by_ref().map(PathBuf::from)),
            other if other.starts_with("-d") => {}
            _ => return None,
        }
    }
    Some(flags)
}

/// `-c`. A configuration that would not start for want of a listener exits 2, as HAProxy has it.
fn check(launch: &Launch, warnings_fail: bool) -> ExitCode {
    let (compiled, _) = start::read(launch);
    // An empty file is an error for those who run it, but HAProxy has none to show here.
    if compiled.diagnostics.iter().any(|found| found.code == weir_haproxy::EMPTY) {
        return start::say_nothing_to_do(launch).code();
    }
    // Quiet is quiet here: the exit code is asked for, nothing else.
    if !launch.quiet {
        report::print(Manner::Haproxy, &compiled.diagnostics, &compiled.sources, false);
    }
    let warned = compiled.diagnostics.iter().any(|found| found.severity == Severity::Warning);
    if !compiled.is_ok() || (warnings_fail && warned) {
        if !launch.quiet {
            errln!("{} config : Fatal errors found in configuration.", report::haproxy_prefix("ALERT"));
        }
        return ExitCode::FAILURE;
    }
    if start::haproxy_has_nothing_to_do(&compiled) {
        return start::say_nothing_to_do(launch).code();
    }
    if !launch.quiet {
        if warned {
            outln!("Warnings were found.");
        }
        outln!("Configuration file is valid");
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<Flags> {
        let words: Vec<String> = text.split_whitespace().map(Into::into).collect();
        parse(&words)
    }

    #[test]
    fn debians_command_lines_are_understood() {
        let unit = parsed("-Ws -f /etc/haproxy/haproxy.cfg -p /run/haproxy.pid -S /run/haproxy-master.sock")
            .unwrap();
        assert!(unit.master_worker && unit.foreground && !unit.check);
        assert_eq!(unit.pid_file, Some("/run/haproxy.pid".into()));
        assert_eq!(unit.master_socket.as_deref(), Some("/run/haproxy-master.sock"));
        let reload = parsed("-f a.cfg -p x.pid -sf 12 13 -D").unwrap();
        assert_eq!((reload.old_pids, reload.daemon, reload.terminate), (vec![12, 13], true, false));
        let tuned = parsed("-f a.cfg -de -m 16 -dMno-merge -db -- b.cfg c.cfg").unwrap();
        assert_eq!(tuned.files, ["a.cfg", "b.cfg", "c.cfg"].map(PathBuf::from));
        assert_eq!(tuned.megabytes, Some(16));
    }

    #[test]
    fn what_haproxy_does_not_know_gets_the_usage() {
        assert!(parsed("-f").is_none());
        assert!(parsed("a.cfg").is_none());
        assert!(parsed("-z").is_none());
        assert!(parsed("-n many").is_none());
    }
}
