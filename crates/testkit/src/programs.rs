//! Real programs as clients: a second opinion on what Weir says.
//!
//! Owns: command lines of curl, openssl and wrk, and reading their reports.
//! Never: installs anything (`cargo xtask deps` does).
//! Driven by: tests; servers among the real programs are [`crate::Proxy::by_rival`].

use crate::deadline::Deadline;
use crate::process::Process;
use std::process::Command;
use std::time::Duration;

/// Runs a command to its end: its exit code, and all it printed on both outputs.
///
/// # Panics
/// When it is not installed, is killed by a signal, or does not end within a minute.
#[must_use]
#[track_caller]
pub fn run(command: Command) -> (i32, String) {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = run_for(command, Duration::from_secs(60));
    output.unwrap_or_else(|e| panic!("{name} (`cargo xtask deps` installs programs): {e}"))
}

/// Runs a command for at most `limit`: its exit code, and all it printed on both outputs.
///
/// # Errors
/// When it cannot be started, is killed by a signal, or runs longer.
pub fn run_for(mut command: Command, limit: Duration) -> Result<(i32, String), String> {
    // Through files, not the collecting threads of `Process`: at its end everything must have arrived.
    let file = tempfile::tempfile().map_err(|e| e.to_string())?;
    let both = file.try_clone().and_then(|a| Ok((a, file.try_clone()?))).map_err(|e| e.to_string())?;
    let mut child = {
        use std::os::unix::process::CommandExt;
        command.stdin(std::process::Stdio::null()).stdout(both.0).stderr(both.1).process_group(0);
        command.spawn().map_err(|e| e.to_string())?
    };
    let deadline = Deadline::after(limit);
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            break status;
        }
        if !deadline.look_again() {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("still running after {limit:?}"));
        }
    };
    let mut text = Vec::new();
    let mut file = file;
    std::io::Seek::rewind(&mut file).map_err(|e| e.to_string())?;
    std::io::Read::read_to_end(&mut file, &mut text).map_err(|e| e.to_string())?;
    let code = status.code().ok_or_else(|| status.to_string())?;
    Ok((code, String::from_utf8_lossy(&text).into_owned()))
}

/// Runs curl, quiet and with a limit of its own, and gives its exit code and output.
///
/// # Panics
/// When it is not installed.
#[must_use]
#[track_caller]
pub fn curl(arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "20", "--noproxy", "*"]).args(arguments);
    run(command)
}

/// Runs `openssl s_client` against a port with no input, and gives its exit code and output.
///
/// # Panics
/// When it is not installed.
#[must_use]
#[track_caller]
pub fn openssl_s_client(port: u16, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &format!("127.0.0.1:{port}")]).args(arguments);
    run(command)
}

/// What wrk reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WrkReport {
    /// Requests answered.
    pub requests: u64,
    /// Seconds it measured.
    pub seconds: f64,
    /// Connect, read, write and timeout errors.
    pub socket_errors: u64,
    /// Answers outside 2xx and 3xx.
    pub non_2xx: u64,
    /// Its whole output.
    pub text: String,
}

impl WrkReport {
    /// Requests a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    /// Errors of all kinds.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.socket_errors + self.non_2xx
    }

    /// Reads wrk's output.
    ///
    /// # Errors
    /// With the output itself, when it holds no report.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut report = Self { text: text.into(), ..Self::default() };
        let mut found = false;
        for line in text.lines().map(str::trim) {
            let words: Vec<&str> = line.split([' ', ',']).filter(|w| !w.is_empty()).collect();
            match words.as_slice() {
                [n, "requests", "in", time, ..] => {
                    report.requests = n.parse().map_err(|_| text.to_owned())?;
                    report.seconds = wrk_seconds(time).ok_or_else(|| text.to_owned())?;
                    found = true;
                }
                ["Socket", "errors:", counts @ ..] => {
                    report.socket_errors = counts.iter().filter_map(|w| w.parse::<u64>().ok()).sum();
                }
                ["Non-2xx", "or", "3xx", "responses:", n] => report.non_2xx = n.parse().unwrap_or(u64::MAX),
                _ => {}
            }
        }
        if found { Ok(report) } else { Err(text.to_owned()) }
    }
}

/// `2.10s`, `1.02m`, `900.12ms`.
fn wrk_seconds(text: &str) -> Option<f64> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|n| n * scale)
}

/// Runs wrk with these arguments (the URL last).
///
/// # Panics
/// When it is not installed or reports nothing.
#[must_use]
#[track_caller]
pub fn wrk(arguments: &[&str]) -> WrkReport {
    let mut command = Command::new("wrk");
    command.args(arguments);
    let (_, text) = run(command);
    WrkReport::parse(&text).unwrap_or_else(|text| panic!("wrk reported nothing:\n{text}"))
}

/// Starts a server among the real programs whose command line is not [`crate::Proxy`]'s (php-fpm, a syslog daemon).
///
/// # Panics
/// When it is not installed.
#[must_use]
#[track_caller]
pub fn server(command: Command) -> Process {
    let name = command.get_program().to_string_lossy().into_owned();
    Process::spawn(command).unwrap_or_else(|e| panic!("{name} (`cargo xtask deps` installs programs): {e}"))
}

/// PHP's process manager, on a socket `php.sock` in `dir`.
///
/// # Panics
/// When it is not installed, or does not listen.
#[must_use]
#[track_caller]
pub fn php_fpm(dir: &std::path::Path) -> Process {
    let found = std::fs::read_dir("/usr/sbin").expect("a folder of programs").flatten().map(|e| e.path());
    let program = found
        .filter(|p| p.to_string_lossy().contains("/php-fpm"))
        .max()
        .expect("php-fpm (`cargo xtask deps` installs it)");
    let config = dir.join("fpm.conf");
    let socket = dir.join("php.sock");
    // As root it wants to be told that this is meant; otherwise it may not change users.
    let text = format!(
        "[global]\nerror_log = {0}/fpm.log\ndaemonize = no\n[www]\nlisten = {1}\nlisten.mode = 0666\npm = static\npm.max_children = 2\nping.path = /ping\n{2}",
        dir.display(),
        socket.display(),
        if is_root() { "user = root\ngroup = root\n" } else { "" }
    );
    std::fs::write(&config, text).expect("a folder that can be written to");
    let mut command = Command::new(program);
    command.arg("-F").arg("-n").arg("-y").arg(&config);
    if is_root() {
        command.arg("-R");
    }
    let server = server(command);
    crate::eventually("php-fpm to listen", || std::os::unix::net::UnixStream::connect(&socket).ok());
    server
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}

/// Where a program of `crates/testkit/peers` is.
///
/// # Panics
/// When the test does not run out of a folder of cargo's.
#[must_use]
pub fn peer(name: &str) -> std::path::PathBuf {
    let test = std::env::current_exe().expect("a test is a file");
    // target/debug/deps/test
    let target = test.ancestors().nth(3).expect("cargo puts tests three folders deep");
    target.join("peers").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrk_reports_are_read() {
        let text = "Running 1s test @ http://127.0.0.1:1/\n  1 threads and 50 connections\n  \
            94013 requests in 1.10s, 0.11GB read\n  Socket errors: connect 0, read 3, write 0, timeout 2\n  \
            Non-2xx or 3xx responses: 7\nRequests/sec:  85474.12\n";
        let report = WrkReport::parse(text).unwrap();
        assert_eq!((report.requests, report.seconds), (94_013, 1.10));
        assert_eq!((report.socket_errors, report.non_2xx, report.errors()), (5, 7, 12));
    }

    #[test]
    fn no_report_is_an_error() {
        assert!(WrkReport::parse("unable to connect to 127.0.0.1:1 Connection refused\n").is_err());
    }
}
