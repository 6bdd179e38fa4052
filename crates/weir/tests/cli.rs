//! Command lines that serve nothing: their words and exit codes, beside Debian's own programs where those answer alike.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use weir_testkit::{Client, Proxy, programs};

fn weir(words: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(words);
    programs::run(command)
}

/// Weir through a link of another name.
fn linked(name: &str, words: &[&str]) -> (i32, String) {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join(name);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weir"), &link).unwrap();
    let mut command = Command::new(link);
    command.args(words);
    programs::run(command)
}

fn rival(name: &str, words: &[&str]) -> (i32, String) {
    let path = format!("/usr/sbin/{name}");
    assert!(Path::new(&path).exists(), "{path} is missing: `make test` installs it");
    let mut command = Command::new(path);
    command.args(words);
    programs::run(command)
}

fn file(name: &str, text: &str) -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    let text = text.replace("{dir}", &dir.path().display().to_string());
    std::fs::write(&path, text).unwrap();
    let shown = path.display().to_string();
    (dir, shown)
}

const GOOD: &str = "pid {dir}/pid; error_log {dir}/error.log;\nevents {}\nhttp { access_log off; client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;\n server { listen 127.0.0.1:18080; return 204; } }\n";

/// What is said about the test itself; Weir may warn about words (`uwsgi_temp_path`) that do nothing here.
fn verdict((code, text): (i32, String)) -> (i32, Vec<String>) {
    let about = |line: &&str| {
        line.starts_with("nginx: the configuration") || line.starts_with("nginx: configuration")
    };
    (code, text.lines().filter(about).map(Into::into).collect())
}

#[test]
fn nginx_t_says_what_nginx_says() {
    let (_dir, path) = file("nginx.conf", GOOD);
    for words in
        [&["-t", "-c", &path][..], &["-tq", "-c", &path], &["-t", "-c", &path, "-g", "worker_processes 1;"]]
    {
        let expected = verdict(rival("nginx", words));
        assert_eq!(verdict(linked("nginx", words)), expected, "{words:?}");
        let behind: Vec<&str> = ["nginx"].iter().chain(words).copied().collect();
        assert_eq!(verdict(weir(&behind)), expected, "{words:?}");
    }
}

#[test]
fn nginx_t_fails_where_nginx_fails() {
    let (_dir, path) = file("nginx.conf", "events {}\nhttp { lisn 80; }\n");
    let (code, theirs) = rival("nginx", &["-t", "-c", &path]);
    let (ours_code, ours) = linked("nginx", &["-t", "-c", &path]);
    assert_eq!(ours_code, code);
    assert_eq!(ours.lines().last(), theirs.lines().last());
    assert!(ours.starts_with("nginx: [emerg] "), "{ours}");
    assert!(ours.contains(&format!("in {path}:2")), "{ours}");
    let (code, ours) = linked("nginx", &["-t", "-c", "/nonexistent.conf"]);
    assert_eq!(code, 1);
    assert!(ours.ends_with("nginx: configuration file /nonexistent.conf test failed\n"), "{ours}");
}

#[test]
fn nginx_dumps_what_it_read() {
    // What two places include is shown once.
    let text = "include extra.conf; include twice.conf; error_log stderr; pid {dir}/pid; events { include twice.conf; }\n";
    let (dir, path) = file("nginx.conf", text);
    std::fs::write(dir.path().join("twice.conf"), "# nothing\n").unwrap();
    std::fs::write(dir.path().join("extra.conf"), "worker_processes 2;\n").unwrap();
    let only_dump = |(code, text): (i32, String)| {
        let lines: Vec<String> = text.lines().filter(|l| !l.starts_with("nginx: ")).map(Into::into).collect();
        (code, lines)
    };
    let words = ["-T", "-c", &path];
    assert_eq!(only_dump(linked("nginx", &words)), only_dump(rival("nginx", &words)));
}

#[test]
fn nginx_flags_that_are_none() {
    for words in [&["-x"][..], &["x"], &["-c"], &["-s", "foo"], &["-s"], &["-g"]] {
        assert_eq!(linked("nginx", words), rival("nginx", words), "{words:?}");
    }
}

#[test]
fn nginx_tells_a_version_that_scripts_can_read() {
    let (code, text) = linked("nginx", &["-v"]);
    let version = text.strip_prefix("nginx version: nginx/").and_then(|rest| rest.split(' ').next()).unwrap();
    assert_eq!((code, version.split('.').count()), (0, 3), "{text}");
    let (code, text) = linked("nginx", &["-V"]);
    assert_eq!(code, 0);
    assert!(text.contains("\nconfigure arguments: ") && text.contains(" --with-http_ssl_module"), "{text}");
    let (code, text) = linked("nginx", &["-h"]);
    assert_eq!(code, 0);
    assert!(text.contains("Usage: nginx [-?hvVtTq] [-s signal]"), "{text}");
}

/// certbot's pattern, from certbot_nginx/_internal/configurator.py: without a match it warns that alternatives to
/// OpenSSL are not supported.
#[test]
fn certbot_finds_the_version_of_openssl() {
    let (_, text) = linked("nginx", &["-V"]);
    let pattern = regex::Regex::new("built with OpenSSL ([^ ]+) ").unwrap();
    assert_eq!(pattern.captures(&text).unwrap()[1].split('.').count(), 3, "{text}");
    assert!(text.contains(" (compatible; AWS-LC ") && text.contains("\nTLS SNI support enabled\n"), "{text}");
}

#[test]
fn debians_own_file_is_taken_with_a_word() {
    let (code, text) = linked("nginx", &["-t", "-c", "/etc/nginx/nginx.conf"]);
    let (theirs, verdict) = rival("nginx", &["-t", "-c", "/etc/nginx/nginx.conf"]);
    assert_eq!(code, theirs, "{text}");
    let more: Vec<&str> =
        text.lines().filter(|line| !verdict.lines().any(|theirs| theirs == *line)).collect();
    assert!(more.len() <= 1, "{more:?}");
    assert!(
        more.iter().all(|line| line.contains("`weir check /etc/nginx/nginx.conf` names them")),
        "{more:?}"
    );
}

/// Runs the words with a standard output that is closed, or full.
fn printing_to(output: std::process::Stdio, words: &[&str]) -> (Option<i32>, String) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
    let ended = command.args(words).stdout(output).output().unwrap();
    (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
}

#[test]
fn an_output_that_fails_ends_nothing() {
    let (_dir, nginx) = file("nginx.conf", GOOD);
    let (_other, haproxy) = file("haproxy.cfg", BALANCER);
    let commands: [(&[&str], bool); 6] = [
        (&["explain", &nginx], true),
        (&["explain", "--plan", &nginx], true),
        (&["check", "--format", "json", &nginx], false),
        (&["nginx", "-T", "-c", &nginx], false),
        (&["haproxy", "-c", "-f", &haproxy], false),
        (&["haproxy", "-vv"], false),
    ];
    for (words, is_product) in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, text) = printing_to(writer.into(), words);
        assert_eq!((code, text.contains("panicked")), (Some(0), false), "{words:?}: {text}");
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let (code, text) = printing_to(full.into(), words);
        // Where the output is all that was asked for, its loss is a failure, and said.
        let expected = if is_product { 1 } else { 0 };
        assert_eq!((code, text.contains("panicked")), (Some(expected), false), "{words:?}: {text}");
        assert!(!is_product || text.contains("No space left"), "{text}");
    }
    // Nor does a standard error that fails.
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
    assert_eq!(command.args(["nginx", "-t", "-c", &nginx]).stderr(full).status().unwrap().code(), Some(0));
}

#[test]
fn nginx_s_without_a_server() {
    let (_dir, path) = file("nginx.conf", GOOD);
    let (code, text) = linked("nginx", &["-c", &path, "-s", "reload"]);
    let (theirs, _) = rival("nginx", &["-c", &path, "-s", "reload"]);
    assert_eq!(code, theirs);
    assert!(
        text.starts_with("nginx: [error] open() \"") && text.contains("(2: No such file or directory)"),
        "{text}"
    );
}

const BALANCER: &str = "defaults\n mode http\n timeout client 1s\n timeout server 1s\n timeout connect 1s\nfrontend f\n bind 127.0.0.1:18081\n default_backend b\nbackend b\n server s 127.0.0.1:1\n";

#[test]
fn haproxy_c_says_what_haproxy_says() {
    let (_dir, path) = file("haproxy.cfg", BALANCER);
    for words in [&["-c", "-f", &path][..], &["-c", "-q", "-f", &path], &["-c", "-V", "-f", &path]] {
        assert_eq!(linked("haproxy", words), rival("haproxy", words), "{words:?}");
    }
}

#[test]
fn haproxy_c_fails_where_haproxy_fails() {
    let (_dir, path) = file("haproxy.cfg", "frontend a\n  bnd :80\n");
    let (code, text) = linked("haproxy", &["-c", "-f", &path]);
    assert_eq!(code, rival("haproxy", &["-c", "-f", &path]).0);
    assert!(text.contains(&format!("config : parsing [{path}:2] : ")) && text.contains("bind"), "{text}");
    assert_eq!(linked("haproxy", &["-c", "-q", "-f", &path]), (1, String::new()), "quiet");
    let (_dir, path) = file("haproxy.cfg", "global\n  maxconn 10\n");
    assert_eq!(linked("haproxy", &["-c", "-f", &path]).0, rival("haproxy", &["-c", "-f", &path]).0);
    assert_eq!(linked("haproxy", &["-f", &path, "-db"]).0, rival("haproxy", &["-f", &path, "-db"]).0);
    let (_dir, path) = file("haproxy.cfg", "");
    for words in [&["-c", "-f", &path][..], &["-c", "-q", "-f", &path]] {
        assert_eq!(linked("haproxy", words), rival("haproxy", words), "{words:?}");
    }
    assert_eq!(linked("haproxy", &["-f", &path, "-db"]).0, rival("haproxy", &["-f", &path, "-db"]).0);
    assert_eq!(linked("haproxy", &["-c", "-f", "/nonexistent.cfg"]).0, 1);
    assert_eq!(linked("haproxy", &["-c"]).0, rival("haproxy", &["-c"]).0);
    assert_eq!(linked("haproxy", &["-zz"]).0, rival("haproxy", &["-zz"]).0);
}

#[test]
fn haproxy_tells_a_version_that_scripts_can_read() {
    for words in [&["-v"][..], &["-vv"]] {
        let (code, text) = linked("haproxy", words);
        let version =
            text.strip_prefix("HAProxy version ").and_then(|rest| rest.split(['-', ' ']).next()).unwrap();
        assert_eq!((code, version.split('.').count()), (0, 3), "{text}");
    }
}

#[test]
fn check_shows_every_mistake_at_once() {
    let (_dir, path) =
        file("some.conf", "events {}\nhttp {\n  server {\n    lisen 80;\n    rot /x;\n  }\n}\n");
    let (code, text) = weir(&["check", &path]);
    assert_eq!(code, 1);
    for part in [":4:5", ":5:5", "`listen`", "`root`", "2 errors"] {
        assert!(text.contains(part), "no {part} in:\n{text}");
    }
    let (code, text) = weir(&["check", "--format", "json", &path]);
    assert_eq!(code, 1);
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        lines.iter().any(|found| found["primary"]["line"] == 4 && found["severity"] == "error"),
        "{text}"
    );
}

#[test]
fn content_tells_the_language() {
    let (_dir, nginx) = file("a", GOOD);
    let (_dir2, haproxy) = file("b", BALANCER);
    for path in [nginx, haproxy] {
        let (code, text) = weir(&["check", &path]);
        assert_eq!(code, 0, "{text}");
        let (code, text) = weir(&["explain", &path]);
        assert!(code == 0 && text.contains("listeners:"), "{text}");
        let (code, text) = weir(&["explain", "--plan", &path]);
        assert!(code == 0 && text.contains("listeners:") && text.contains("by_"), "{text}");
    }
}

/// The same service in Weir's own language.
const OWN: &str = "listeners: ['127.0.0.1:{port}']\n\
                   sites: [{name: a, program: [{respond: {status: 200, body: {text: 'own ${target}'}}}]}]\n";

#[test]
fn weirs_own_language_is_served_and_reloaded() {
    let mut proxy = Proxy::native(OWN).start();
    Client::connect(&proxy).get("/x").expect_body("own /x");
    proxy.reload(&OWN.replace("own", "other"));
    Client::connect(&proxy).get("/x").expect_body("other /x");
}

#[test]
fn configurations_are_converted_and_compared() {
    let (dir, nginx) = file("nginx.conf", GOOD);
    let (code, text) = weir(&["convert", &nginx]);
    assert!(code == 0 && text.starts_with("# Converted from "), "{text}");
    let converted = dir.path().join("weir.yaml");
    std::fs::write(&converted, &text).unwrap();
    let converted = converted.display().to_string();
    assert_eq!(weir(&["check", &converted]).0, 0);
    assert_eq!(weir(&["diff", &nginx, &converted]), (0, String::new()));
    let (code, json) = weir(&["convert", "--to", "json", &nginx]);
    assert!(code == 0 && serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{json}");
    let (_dir, balancer) = file("haproxy.cfg", BALANCER);
    let (code, text) = weir(&["diff", &nginx, &balancer]);
    assert!(code == 1 && text.lines().any(|line| line.starts_with("+ pools")), "{text}");
    let (_dir, broken) = file("weir.yaml", "pools: {a: {endpoints: [{adress: 1.2.3.4:80}]}}\n");
    let (code, text) = weir(&["check", &broken]);
    assert!(code == 1 && text.contains("did you mean `address`"), "{text}");
    assert_eq!(weir(&["diff", &nginx, &broken]).0, 2);
}

#[test]
fn help_teaches_by_examples() {
    let (code, text) = weir(&["--help"]);
    assert!(code == 0 && text.contains("weir check /etc/nginx/nginx.conf"), "{text}");
    let (code, text) = weir(&["run", "--help"]);
    assert!(code == 0 && text.contains("HUP"), "{text}");
    assert_eq!(weir(&["version"]).0, 0);
    assert_ne!(weir(&["run"]).0, 0);
}

#[test]
fn reload_without_a_server_says_so() {
    let (dir, path) = file("nginx.conf", GOOD);
    let (code, text) = weir(&["reload", "-c", &path]);
    assert_eq!(code, 1);
    assert!(text.contains("No such file"), "{text}");
    let pid = dir.path().join("pid");
    std::fs::write(&pid, "not a number\n").unwrap();
    let (code, text) = weir(&["reload", "--pid", &pid.display().to_string()]);
    assert_eq!(code, 1);
    assert!(text.contains("invalid PID number"), "{text}");
}

/// User ids of the processes that a process has started.
fn users_of_children(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let uid = |child: &str| {
        let status = std::fs::read_to_string(format!("/proc/{child}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?.parse().ok()
    };
    children.split_whitespace().filter_map(uid).collect()
}

#[test]
fn as_nginx_nobody_carries_traffic_for_root() {
    let text = "events {} http { access_log off; server { listen 127.0.0.1:{port}; return 200 ok; } }";
    let proxy = Proxy::nginx(text).foreign_flags().start();
    Client::connect(&proxy).get("/").expect_body("ok");
    let children = users_of_children(proxy.pid());
    match rustix::process::geteuid().is_root() {
        // 65534: nobody, as Debian's nginx has it.
        true => assert_eq!(children, [65534]),
        // Who is not root cannot become another user, and needs no keeper.
        false => assert!(children.is_empty(), "{children:?}"),
    }
}

#[test]
fn what_cannot_be_lowered_is_told_and_nothing_starts() {
    let text = "events {} http { server { listen 127.0.0.1:1 ssl; ssl_certificate {dir}/no.crt; ssl_certificate_key {dir}/no.key; } }";
    let (_dir, path) = file("nginx.conf", text);
    let (code, said) = weir(&["run", "-c", &path]);
    assert!(code == 1 && said.contains("no.crt") && !said.contains("panicked"), "{code} {said}");
}
