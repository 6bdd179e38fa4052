//! `nginx …`: nginx's own command line.
//!
//! Owns: its flags, its words on standard error, its exit codes.
//! Driven by: `cli`. Debian's unit calls `-t -q -g …`, `-g …` and `-g … -s reload`; its init script `-t`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nix::sys::signal::Signal;

use super::nginx_help::{HELP, VERSION, build_facts};
use super::signal;
use crate::compile::store::Store;
use crate::compile::{self, Compiled};
use crate::launch::{Dialect, Launch, Manner, Sourcing};
use crate::life::{self, sockets, start};
use crate::plane::Start;
use crate::report;

/// Debian's.
const CONFIGURATION: &str = "/etc/nginx/nginx.conf";

/// A parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Flags {
    help: bool,
    version: bool,
    build: bool,
    test: bool,
    dump: bool,
    quiet: bool,
    prefix: Option<PathBuf>,
    file: Option<PathBuf>,
    globals: Option<String>,
    error_log: Option<PathBuf>,
    signal: Option<Order>,
}

/// Words of `-s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Stop,
    Quit,
    Reopen,
    Reload,
}

/// Obeys.
pub(super) fn run(arguments: &[String], parts: Start) -> ExitCode {
    let flags = match parse(arguments) {
        Ok(flags) => flags,
        Err(reason) => {
            errln!("nginx: {reason}");
            return ExitCode::FAILURE;
        }
    };
    if flags.help || flags.version || flags.build {
        errln!("{VERSION}");
        if flags.build {
            errln!("{}", build_facts());
        }
        if flags.help {
            err!("{HELP}");
        }
        return ExitCode::SUCCESS;
    }
    let launch = launch(&flags);
    match flags.signal {
        Some(order) => send(&launch, order),
        None if flags.test => test(&launch, flags.dump),
        None => life::start::start(launch, parts),
    }
}

fn launch(flags: &Flags) -> Launch {
    // Both are relative to the prefix, wherever the command is given.
    let prefix = flags.prefix.clone().unwrap_or_else(|| weir_nginx::Options::default().prefix);
    let error_log = flags.error_log.as_ref().map(|path| match path.to_str() {
        // No file, but the stream.
        Some("" | "stderr") => path.clone(),
        _ => prefix.join(path),
    });
    let sourcing = Sourcing {
        paths: vec![prefix.join(flags.file.as_deref().unwrap_or(Path::new(CONFIGURATION)))],
        prefix: flags.prefix.clone(),
        globals: flags.globals.clone(),
        error_log,
        dialect: Some(Dialect::Nginx),
        ..Sourcing::default()
    };
    let mut launch = Launch::new(Manner::Nginx, sourcing);
    launch.quiet = flags.quiet;
    launch
}

/// Letters may be joined (`-tq`), and a value may follow at once or as the next word, as nginx reads them.
fn parse(arguments: &[String]) -> Result<Flags, String> {
    let mut flags = Flags::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(letters) = word.strip_prefix('-') else { return Err(format!("invalid option: \"{word}\"")) };
        for (at, letter) in letters.char_indices() {
            let rest = &letters[at + letter.len_utf8()..];
            let mut value = |what: &str| match rest {
                "" => words.next().cloned().ok_or_else(|| format!("option \"-{letter}\" requires {what}")),
                rest => Ok(rest.to_owned()),
            };
            match letter {
                '?' | 'h' => flags.help = true,
                'v' => flags.version = true,
                'V' => flags.build = true,
                't' => flags.test = true,
                'T' => (flags.test, flags.dump) = (true, true),
                'q' => flags.quiet = true,
                'p' => flags.prefix = Some(value("directory name")?.into()),
                'c' => flags.file = Some(value("file name")?.into()),
                'g' => flags.globals = Some(value("parameter")?),
                'e' => flags.error_log = Some(value("file name")?.into()),
                's' => flags.signal = Some(order(&value("parameter")?)?),
                other => return Err(format!("invalid option: \"{other}\"")),
            }
            if matches!(letter, 'p' | 'c' | 'g' | 'e' | 's') {
                break;
            }
        }
    }
    Ok(flags)
}

fn order(word: &str) -> Result<Order, String> {
    match word {
        "stop" => Ok(Order::Stop),
        "quit" => Ok(Order::Quit),
        "reopen" => Ok(Order::Reopen),
        "reload" => Ok(Order::Reload),
        other => Err(format!("invalid option: \"-s {other}\"")),
    }
}

/// `-s`: its exit code tells only whether the signal was sent.
fn send(launch: &Launch, order: Order) -> ExitCode {
    let compiled = compile::understand(launch, &Store::disk());
    if !compiled.is_ok() {
        report::print(Manner::Nginx, &compiled.diagnostics, &compiled.sources, true);
        return ExitCode::FAILURE;
    }
    let signal = match order {
        Order::Stop => Signal::SIGTERM,
        Order::Quit => Signal::SIGQUIT,
        Order::Reopen => Signal::SIGUSR1,
        Order::Reload => Signal::SIGHUP,
    };
    let path = compiled.model.process.pid_file.unwrap_or_else(|| "/run/nginx.pid".into());
    match signal::pid_in(&path).and_then(|pid| signal::send(pid, signal)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            errln!("nginx: [error] {reason}");
            ExitCode::FAILURE
        }
    }
}

/// `-t` and `-T`.
fn test(launch: &Launch, dump: bool) -> ExitCode {
    let (mut compiled, _) = start::read(launch);
    if compiled.is_ok() {
        try_the_machine(launch, &mut compiled);
    }
    report::print(Manner::Nginx, &compiled.diagnostics, &compiled.sources, launch.quiet);
    let path = launch.main_path();
    let path = std::path::absolute(&path).unwrap_or(path);
    if !compiled.is_ok() {
        errln!("nginx: configuration file {} test failed", path.display());
        return ExitCode::FAILURE;
    }
    if !launch.quiet {
        errln!("nginx: the configuration file {} syntax is ok", path.display());
        errln!("nginx: configuration file {} test is successful", path.display());
    }
    if dump {
        // A file that several places include is shown once.
        let mut shown = HashSet::new();
        for id in compiled.sources.ids() {
            let name = compiled.sources.name(id);
            if name != Path::new("-g") && shown.insert(name) {
                outln!("# configuration file {}:\n{}", name.display(), compiled.sources.text(id));
            }
        }
    }
    ExitCode::SUCCESS
}

/// As nginx does: log files are opened and addresses tried, one in use being no mistake.
fn try_the_machine(launch: &Launch, compiled: &mut Compiled) {
    let (_, failures) = life::logs::LogFiles::open(&compiled.model);
    compiled.diagnostics.extend(failures);
    let wanted = sockets::wanted(&compiled.model, launch.manner);
    compiled.diagnostics.extend(sockets::try_addresses(&wanted));
    compiled.diagnostics.extend(life::privileges::wanted(&compiled.model.process).err().map(|found| *found));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Flags, String> {
        let words: Vec<String> = text.split_whitespace().map(Into::into).collect();
        parse(&words)
    }

    #[test]
    fn letters_join_and_values_follow() {
        let expected = Flags { test: true, quiet: true, file: Some("/x".into()), ..Flags::default() };
        assert_eq!(parsed("-tq -c /x").unwrap(), expected);
        assert_eq!(parsed("-t -qc/x").unwrap(), expected);
        assert_eq!(parsed("-s reload").unwrap().signal, Some(Order::Reload));
        assert_eq!(parsed("-squit").unwrap().signal, Some(Order::Quit));
    }

    #[test]
    fn mistakes_are_worded_as_nginx_does() {
        assert_eq!(parsed("-x").unwrap_err(), "invalid option: \"x\"");
        assert_eq!(parsed("x").unwrap_err(), "invalid option: \"x\"");
        assert_eq!(parsed("-c").unwrap_err(), "option \"-c\" requires file name");
        assert_eq!(parsed("-s foo").unwrap_err(), "invalid option: \"-s foo\"");
    }
}
