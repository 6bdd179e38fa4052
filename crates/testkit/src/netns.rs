//! Tests in a network of their own: fixed addresses and low ports without touching the machine's.
//!
//! Owns: a front namespace, in which the whole test runs, and a back one, joined to it by a veth pair.
//! Never: needs root: a user namespace serves as well, where the kernel allows one.
//! Driven by: tests of configurations that name addresses and ports, such as the ELB benchmark's.
//! Why: a thread of a running test cannot enter a user namespace, so the test starts itself anew inside; there all of
//! this kit works as it is.

use crate::client::Client;
use crate::deadline::Deadline;
use crate::process::Process;
use crate::programs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

/// Set for the test that runs inside.
const INSIDE: &str = "WEIR_TEST_NETNS";

/// One test may start many programs; it still has to end.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs `body` in the front namespace of a fresh pair. `test` is the test's full name, as `cargo test -- --list` prints it.
///
/// Where the machine lets nobody make namespaces, says so on standard error and runs nothing.
///
/// # Panics
/// When the test inside fails.
#[track_caller]
pub fn isolated(test: &str, front: &[&str], back: &[&str], body: impl FnOnce(&Back)) {
    if std::env::var_os(INSIDE).is_some() {
        let joined = Back::joined(front, back).unwrap_or_else(|why| panic!("{why}"));
        return body(&joined);
    }
    let (code, why) = programs::run(unshared("true", &[]));
    if code != 0 {
        eprintln!("{test} not run: this machine lets us make no network namespace: {}", why.trim());
        return;
    }
    let exe = std::env::current_exe().expect("a process knows its executable");
    let mut command = unshared(&exe.to_string_lossy(), &["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(INSIDE, "1");
    let (code, text) = programs::run_for(command, LIMIT).unwrap_or_else(|why| panic!("{test}: {why}"));
    assert!(code == 0 && text.contains("1 passed"), "{test}, in its own network:\n{text}");
}

/// `program` as root of a new network namespace, and of a new user namespace where we are not root.
fn unshared(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(if rustix::process::getuid().is_root() { &["-n"][..] } else { &["-U", "-r", "-n"] });
    command.arg("--").arg(program).args(arguments);
    command
}

/// The namespace on the far side of the veth pair. It ends with this value.
pub struct Back {
    holder: Process,
}

impl Back {
    /// Makes the far side, and gives both ends their addresses (each with its prefix length: `172.20.110.1/24`).
    fn joined(front: &[&str], back: &[&str]) -> Result<Self, String> {
        let mut hold = Command::new("unshare");
        // `exec` keeps the process id, by which the namespace is found.
        hold.args(["-n", "--", "sh", "-c", "echo held; exec sleep 3600"]);
        let holder = Process::spawn(hold).map_err(|e| format!("unshare: {e}"))?;
        holder.wait_for_output("held");
        let back_side = Self { holder };
        let pid = back_side.holder.pid().to_string();
        let here = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        };
        let there = |program: &str, arguments: &[&str]| back_side.command(program, arguments);
        ip(&here, &["link", "add", "weir0", "type", "veth", "peer", "name", "weir1", "netns", &pid])?;
        set_up(&here, "weir0", front)?;
        set_up(&there, "weir1", back)?;
        Ok(back_side)
    }

    /// A command that runs on the far side.
    #[must_use]
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.holder.pid().to_string(), "-n", "--", program]).args(arguments);
        command
    }

    /// Debian's nginx on the far side, answering everything with `body` and its address in `X-Origin`; ready when this returns.
    ///
    /// # Panics
    /// When it is not installed, or does not listen before the deadline.
    #[must_use]
    #[track_caller]
    pub fn web_server(&self, address: SocketAddr, body: &str) -> WebServer {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let place = dir.path().display();
        // As root of a user namespace there is nobody else to become, nor anybody's directory to write to.
        let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|kind| format!("{kind}_temp_path {place}/{kind};\n"))
            .collect();
        let text = format!(
            "daemon off; user root root; pid {place}/pid; error_log stderr; events {{}}\n\
             http {{ access_log off; {paths}\
             server {{ listen {address}; add_header X-Origin {address}; location / {{ return 200 '{body}'; }} }} }}"
        );
        let file = dir.path().join("nginx.conf");
        std::fs::write(&file, text).expect("the directory can be written");
        let file = file.display().to_string();
        let process = programs::server(self.command("/usr/sbin/nginx", &["-e", "stderr", "-c", &file]));
        let deadline = Deadline::standard();
        while Client::try_connect(address).is_err() {
            assert!(deadline.look_again(), "nginx at {address} is not reached:\n{}", process.printed());
        }
        WebServer { _process: process, _dir: dir }
    }
}

/// A web server on the far side. Dropping it ends it.
pub struct WebServer {
    _process: Process,
    _dir: tempfile::TempDir,
}

type Side<'a> = dyn Fn(&str, &[&str]) -> Command + 'a;

fn set_up(side: &Side<'_>, device: &str, addresses: &[&str]) -> Result<(), String> {
    ip(side, &["link", "set", "lo", "up"])?;
    for address in addresses {
        ip(side, &["address", "add", address, "dev", device])?;
    }
    ip(side, &["link", "set", device, "up"])
}

fn ip(side: &Side<'_>, arguments: &[&str]) -> Result<(), String> {
    let (code, text) = programs::run(side("ip", arguments));
    if code == 0 { Ok(()) } else { Err(format!("ip {}: {text}", arguments.join(" "))) }
}
