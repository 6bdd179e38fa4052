//! A folder with a configuration, a leased port, and a program that runs from it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use weir_testkit::notify::NotifySocket;
use weir_testkit::process::UnixSignal as Signal;
use weir_testkit::{Client, Deadline, Port, Process, eventually, programs};

use crate::program;

/// A user that every machine has and nobody is.
pub(crate) const NOBODY: u32 = 65534;

pub(crate) struct Scene {
    pub(crate) dir: TempDir,
    pub(crate) port: Port,
    pub(crate) notify: NotifySocket,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("weir-life-").tempdir().unwrap();
        let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), everyone).unwrap();
        let notify = NotifySocket::bind(dir.path()).unwrap();
        Self { dir, port: Port::lease(), notify }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file, `{dir}` and `{port}` filled in.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let dir = self.dir.path().display().to_string();
        let text = text.replace("{dir}", &dir).replace("{port}", &self.port.to_string());
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// An nginx.conf: `main` outside, `server` inside the one server.
    pub(crate) fn nginx(&self, main: &str, server: &str) -> PathBuf {
        self.write(
            "nginx.conf",
            &format!(
                "pid {{dir}}/weir.pid; error_log {{dir}}/error.log notice; {main}\nevents {{}}\nhttp {{\n  access_log {{dir}}/access.log;\n  server {{ listen 127.0.0.1:{{port}}; {server} location / {{ return 200 ok; }} }}\n}}\n"
            ),
        )
    }

    /// A haproxy.cfg with one frontend on the port.
    pub(crate) fn haproxy(&self, global: &str) -> PathBuf {
        self.write(
            "haproxy.cfg",
            &format!(
                "global\n  pidfile {{dir}}/weir.pid\n{global}\ndefaults\n  mode http\n  timeout client 5s\n  timeout server 5s\n  timeout connect 5s\nfrontend f\n  bind 127.0.0.1:{{port}}\n  default_backend b\nbackend b\n  server s 127.0.0.1:1\n"
            ),
        )
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = program();
        command.args(words).current_dir(self.dir.path()).env("NOTIFY_SOCKET", self.notify.path());
        command
    }

    /// Runs to its end.
    pub(crate) fn run(&self, words: &[&str]) -> (i32, String) {
        programs::run(self.command(words))
    }

    /// Starts in the foreground and waits for READY=1.
    pub(crate) fn start(&self, words: &[&str]) -> Process {
        self.notify.forget();
        let process = Process::spawn(self.command(words)).unwrap();
        self.until_told("READY=1", &process);
        process
    }

    pub(crate) fn until_told(&self, what: &str, process: &Process) {
        let heard = self.notify.told(what, Duration::from_secs(20));
        assert!(heard, "{what} was never told:\n{}\n{}", process.printed(), self.errors());
    }

    /// What the double says on the scene's port.
    pub(crate) fn facts(&self) -> HashMap<String, String> {
        facts(&self.port)
    }

    /// Asks until `name` is `value`.
    pub(crate) fn until(&self, name: &str, value: &str) -> HashMap<String, String> {
        eventually(&format!("{name}={value}"), || {
            let facts = try_facts(&self.port)?;
            (facts[name] == value).then_some(facts)
        })
    }

    pub(crate) fn errors(&self) -> String {
        std::fs::read_to_string(self.path("error.log")).unwrap_or_default()
    }

    pub(crate) fn until_logged(&self, text: &str) {
        eventually(&format!("`{text}` in the error log"), || self.errors().contains(text).then_some(()));
    }

    pub(crate) fn pid(&self) -> i32 {
        std::fs::read_to_string(self.path("weir.pid")).unwrap().trim().parse().unwrap()
    }

    pub(crate) fn signal(&self, pid: i32, signal: Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
    }
}

pub(crate) fn facts(port: &Port) -> HashMap<String, String> {
    try_facts(port).unwrap_or_else(|| panic!("nobody answers at port {port}"))
}

pub(crate) fn try_facts(port: &Port) -> Option<HashMap<String, String>> {
    let mut client = Client::try_connect(port.clone()).ok()?;
    let text = client.try_request(&weir_testkit::Request::get("/")).ok()?.text();
    Some(text.split(' ').filter_map(|word| word.split_once('=')).map(|(a, b)| (a.into(), b.into())).collect())
}

/// Waits until no process has this id.
pub(crate) fn until_gone(pid: i32) {
    eventually(&format!("the end of process {pid}"), || (!alive(pid)).then_some(()));
}

pub(crate) fn alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root() && !in_user_namespace()
}

/// Whether users of the machine other than ourselves exist here.
fn in_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace()
        .nth(2)
        .and_then(|n| n.parse::<u64>().ok())
        .is_none_or(|count| count <= u64::from(NOBODY))
}

pub(crate) fn exists(path: &Path) -> bool {
    path.exists()
}

pub(crate) fn code_of(process: &mut Process) -> Option<i32> {
    process.wait(Deadline::standard()).and_then(|status| status.code())
}
