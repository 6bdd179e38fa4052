//! `weir reload`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::signal;
use crate::compile;
use crate::compile::store::Store;
use crate::launch::{Launch, Manner};
use crate::life::control::ask_reload;
use crate::report;

/// A configuration with many certificates may take a while.
const PATIENCE: Duration = Duration::from_secs(150);

/// Asks for a reload and waits for its outcome: 0 taken, 1 refused or not asked.
pub(super) fn run(pid: Option<PathBuf>, config: Option<PathBuf>) -> ExitCode {
    match reload(pid, config) {
        Ok(code) => code,
        Err(reason) => {
            errln!("weir: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn reload(pid: Option<PathBuf>, config: Option<PathBuf>) -> Result<ExitCode, String> {
    let path = match (pid, config) {
        (Some(path), _) => path,
        (None, Some(config)) => pid_file_of(config)?,
        (None, None) => return Err("name a pid file or a configuration".into()),
    };
    let pid = signal::pid_in(&path)?;
    match ask_reload(pid, PATIENCE) {
        Ok((accepted, text)) => {
            err!("{text}");
            if !accepted {
                errln!("weir: process {pid} refused it; the configuration before serves on");
            }
            Ok(if accepted { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Err(error) => {
            // Another network namespace, or a stranger under its name: the signal reaches it all the same.
            signal::send(pid, Signal::SIGHUP)?;
            errln!(
                "weir: process {pid} was sent HUP but could not be asked for the outcome ({error}); see its log"
            );
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn pid_file_of(config: PathBuf) -> Result<PathBuf, String> {
    let launch = Launch::of_file(config, None);
    let compiled = compile::understand(&launch, &Store::disk());
    compiled.model.process.pid_file.ok_or_else(|| {
        report::print(Manner::Weir, &compiled.diagnostics, &compiled.sources, true);
        format!("{} names no pid file; give it with --pid", launch.main_path().display())
    })
}
