//! Debian's own units, init script and logrotate file, unmodified, with the real `weir` in place of their programs.
//!
//! Each case runs in mount and network namespaces of its own: there `weir` lies at /usr/sbin/nginx (or haproxy), port 80
//! is free, and /run and /var/log are fresh. What the files say is run with `sh`, as the service manager would.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use weir_testkit::notify::NotifySocket;
use weir_testkit::process::UnixSignal as Signal;
use weir_testkit::{Client, Process, Request, eventually, programs};

use crate::Case;
use crate::scene::{alive, is_root, until_gone};

pub(crate) const ALL: &[Case] = &[
    ("debians_nginx_unit_and_logrotate_file", || isolated("debians_nginx_unit_and_logrotate_file", nginx)),
    ("debians_haproxy_unit", || isolated("debians_haproxy_unit", haproxy)),
];

const INSIDE: &str = "WEIR_TEST_MOUNTS";

fn isolated(name: &str, body: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    if !is_root() {
        eprintln!("{name}: only the machine's root can start services as other users; not tested here");
        return;
    }
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--propagation", "private", "--"]).arg(own).arg(name).env(INSIDE, "1");
    let (code, text) = programs::run_for(command, Duration::from_secs(120)).unwrap();
    assert_eq!(code, 0, "{text}");
}

fn sh(script: &str) -> (i32, String) {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    programs::run(command)
}

#[track_caller]
fn ok(script: &str) -> String {
    let (code, text) = sh(script);
    assert_eq!(code, 0, "{script}\n{text}");
    text
}

/// Puts Weir in place of Debian's program, and fresh folders where it writes.
fn stage(place: &str) {
    ok(&format!("mount --bind {} {place}", env!("CARGO_BIN_EXE_weir")));
    ok("ip link set lo up; mount -t tmpfs none /run; mkdir -p /run/lock");
    ok("mount -t tmpfs none /var/log; mkdir /var/log/nginx");
}

/// The commands of one kind in a unit, in order, without the prefix that ignores failures.
fn commands(unit: &str, kind: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/lib/systemd/system/{unit}.service")).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix(kind)?.strip_prefix('='));
    lines.map(|line| line.trim_start_matches('-').to_owned()).collect()
}

/// What the server says at a port, if it is there.
fn status(port: u16) -> Option<u16> {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    Some(Client::try_connect(address).ok()?.try_request(&Request::get("/")).ok()?.status)
}

/// The user ids of a process's children.
fn users_below(pid: i32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let uid = |child: &str| std::fs::metadata(format!("/proc/{child}")).map(|meta| meta.uid()).ok();
    children.split_whitespace().filter_map(uid).collect()
}

fn nginx() {
    stage("/usr/sbin/nginx");
    ok("mount -t tmpfs none /etc/nginx/conf.d");
    for command in commands("nginx", "ExecStartPre").iter().chain(&commands("nginx", "ExecStart")) {
        let text = ok(command);
        assert!(!text.contains("[emerg]"), "{command}\n{text}");
    }
    let pid: i32 = std::fs::read_to_string("/run/nginx.pid").unwrap().trim().parse().unwrap();
    assert_eq!(status(80), Some(200), "it serves as soon as its parent has ended");
    let users = users_below(pid);
    assert!(users.len() == 1 && users[0] != 0, "one data plane, as www-data: {users:?}");
    ok("/etc/init.d/nginx status");
    std::fs::write("/etc/nginx/conf.d/more.conf", "server { listen 81; return 204; }\n").unwrap();
    commands("nginx", "ExecReload").iter().for_each(|command| drop(ok(command)));
    eventually("the new listener", || (status(81) == Some(204)).then_some(()));
    rotate();
    // A second start finds the port taken, and says so by its exit code.
    assert_ne!(sh("/usr/sbin/nginx -g 'daemon on; master_process on;'").0, 0);
    commands("nginx", "ExecStop").iter().for_each(|command| drop(ok(command)));
    until_gone(pid);
    assert!(!Path::new("/run/nginx.pid").exists());
    // The init script starts and stops it as well.
    ok("/etc/init.d/nginx start");
    assert_eq!(status(80), Some(200));
    ok("/etc/init.d/nginx stop");
    assert_eq!(status(80), None);
}

/// What logrotate does with Debian's file: rename, make anew, run the line after `postrotate`.
fn rotate() {
    let rules = std::fs::read_to_string("/etc/logrotate.d/nginx").unwrap();
    let after = rules.split("postrotate\n").nth(1).and_then(|rest| rest.split("endscript").next()).unwrap();
    // No service manager runs in here; then invoke-rc.d calls the init script, if the machine's policy lets it.
    let after = after.replace("invoke-rc.d nginx", "/etc/init.d/nginx");
    ok(
        "cd /var/log/nginx && mv access.log access.log.1 && install -m 640 -o www-data -g adm /dev/null access.log",
    );
    ok(&after);
    eventually("a line in the new log", || {
        status(80);
        std::fs::read_to_string("/var/log/nginx/access.log").is_ok_and(|text| !text.is_empty()).then_some(())
    });
}

fn haproxy() {
    stage("/usr/sbin/haproxy");
    ok("install -d -o haproxy -g haproxy -m 2775 /run/haproxy");
    let dir = tempfile::tempdir().unwrap();
    let notify = NotifySocket::bind(dir.path()).unwrap();
    let environment = commands("haproxy", "Environment").join(" ");
    let environment = format!("export {environment};");
    for command in commands("haproxy", "ExecReload") {
        // The first one checks the configuration before the signal is sent.
        if command.contains(" -c ") {
            ok(&format!("{environment} {command}"));
        }
    }
    let start = commands("haproxy", "ExecStart").remove(0);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{environment} exec {start}")]).env("NOTIFY_SOCKET", notify.path());
    let mut process = Process::spawn(command).unwrap();
    assert!(notify.told("READY=1", Duration::from_secs(20)), "{}", process.printed());
    assert_eq!(std::fs::read_to_string("/run/haproxy.pid").unwrap().trim(), process.pid().to_string());
    for command in commands("haproxy", "ExecReload") {
        ok(&format!("{environment} MAINPID={}; {command}", process.pid()));
    }
    assert!(notify.told("RELOADING=1", Duration::from_secs(20)), "{}", process.printed());
    assert!(notify.told("READY=1", Duration::from_secs(20)), "{}", process.printed());
    // systemd stops it with TERM, and takes 143 for success.
    process.signal(Signal::TERM);
    let status = process.wait(weir_testkit::Deadline::standard()).expect("it ends");
    assert_eq!(status.code(), Some(143), "{}", process.printed());
    assert!(!alive(process.pid() as i32));
    assert!(!Path::new("/run/haproxy.pid").exists());
}
