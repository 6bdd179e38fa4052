//! The columns against those of the HAProxy that is installed here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

use weir_admin::stats::{COLUMNS, Options, csv};
use weir_control::snapshot::Snapshot;
use weir_testkit::{Port, Process, eventually, programs};

/// Columns of modules follow the mark; versions differ in them.
fn fixed(head: &str) -> Vec<&str> {
    head.trim_start_matches("# ").split(',').take_while(|name| *name != "-").collect()
}

#[test]
fn columns_begin_with_those_of_the_installed_haproxy() {
    if Command::new("haproxy").arg("-v").output().is_err() {
        eprintln!("haproxy is not installed: nothing to compare with");
        return;
    }
    let (port, folder) = (Port::lease(), tempfile::tempdir().unwrap());
    let file = folder.path().join("haproxy.cfg");
    let config = format!(
        "defaults\n  mode http\n  timeout connect 1s\n  timeout client 5s\n  timeout server 5s\nlisten st\n  bind \
         127.0.0.1:{0}\n  stats enable\n  stats uri /st\n  server a 127.0.0.1:9 disabled\n",
        port.number()
    );
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(&file);
    let _haproxy = Process::spawn(command).unwrap();
    eventually("haproxy listens", || weir_testkit::port::is_listening(port.number()).then_some(()));
    let (_, theirs) = programs::curl(&["-s", &format!("http://127.0.0.1:{}/st;csv", port.number())]);
    let theirs = theirs.lines().find(|line| line.starts_with("# ")).expect("a head line").to_owned();
    let theirs = fixed(&theirs);
    let ours = csv(&Snapshot::default(), &Options::default());
    let ours = fixed(ours.lines().next().unwrap());
    assert_eq!(ours.len(), COLUMNS.len() - 1);
    let shared = theirs.len().min(ours.len());
    assert!(shared >= 103, "HAProxy 2.6 has 103 fixed columns, this one {shared}");
    assert_eq!(ours[..shared], theirs[..shared]);
}
