//! The same texts through Debian's `haproxy -c`: where both should agree, they do.
//!
//! Without that program (or with one older than 2.4) there is nothing to compare with, and the test says so.

use std::io::Write as _;
use std::process::Command;

use weir_diag::Severity;
use weir_haproxy::{Disk, Memory, Options, load};

/// One line of a section each, in a file that is otherwise good.
const LINES: &[(&str, &[&str])] = &[
    (
        "global",
        &[
            "maxconn 100",
            "maxconn",
            "maxconn 1 2",
            "nbthread 1",
            "nbthread 0",
            "log 127.0.0.1 local0",
            "log 127.0.0.1 local0 notice info",
            "log 127.0.0.1 local9",
            "log 127.0.0.1:514 len 4096 format rfc3164 daemon",
            "log 127.0.0.1",
            "daemon",
            "hard-stop-after 10s",
            "hard-stop-after 10x",
            "setenv A b",
            "bogus",
            "option httplog",
            "tune.bufsize 32768",
            "ssl-default-bind-options ssl-min-ver TLSv1.2",
        ],
    ),
    (
        "listen",
        &[
            "maxconn 10",
            "maxconn",
            "mode http",
            "mode bogus",
            "timeout server 5s",
            "timeout server 5x",
            "timeout server 1.5s",
            "timeout bogus 5s",
            "timeout server 1s 2s",
            "option httplog",
            "option httplog foo",
            "option bogus",
            "no bind :1",
            "balance roundrobin",
            "balance leastconn",
            "balance uri whole",
            "balance bogus",
            "hash-type consistent sdbm avalanche",
            "hash-type bogus",
            "acl a path /x",
            "acl a path_beg -i /x /y",
            "acl a bogus",
            "acl a path -z x",
            "acl a path -m bogus x",
            "acl a src 10.0.0.0/8 192.168.1.1",
            "acl a src 10.0.0.0/99",
            "acl a dst_port 80:90 gt 5",
            "acl a dst_port x",
            "acl or path /",
            "acl a var(txn.x) y",
            "acl a var(txn.x) -m str y",
            "acl a hdr_cnt(host) gt 0",
            "acl a http_auth(u)",
            "http-request deny if { path /a }",
            "http-request deny if { path /a",
            "http-request deny if nosuch",
            "http-request deny { path /a }",
            "http-request deny deny_status 429",
            "http-request bogus",
            "http-request set-header X",
            "http-request set-header X %[src]",
            "http-request set-header X %[nosuch]",
            "http-request set-header X %nosuch",
            "http-request redirect location / code 999",
            "http-request redirect prefix https://x code 301 if !{ ssl_fc }",
            "http-request return status 200 content-type text/plain string \"hi\"",
            "http-request deny if METH_GET !LOCALHOST || HTTP_1.1",
            "http-request replace-path (.*) /foo\\1",
            "http-request set-var(txn.a) path,lower",
            "http-request set-var(nope.a) path",
            "http-response set-header X y",
            "redirect prefix / code 302",
            "redirect bogus",
            "redirect location /x if { path / }",
            "use_backend b",
            "use_backend b if { path /x }",
            "use_backend nosuch",
            "use_backend %[req.hdr(host),lower]",
            "default_backend b",
            "default_backend nosuch",
            "default_backend b c",
            "server x 10.0.0.1:80",
            "server x 10.0.0.1:80 check inter 2s rise 2 fall 3",
            "server x 10.0.0.1:80 weight 256",
            "server x 10.0.0.1:80 weight 300",
            "server x 10.0.0.1:80 inter 0",
            "server x 10.0.0.1:80 bogus",
            "server x 10.0.0.1:a",
            "server x",
            "server x ::1:80",
            "default-server inter 2s",
            "default-server bogus",
            "bind :7901",
            "bind 127.0.0.1:7901-7903",
            "bind :7901 bogus",
            "bind 127.0.0.1",
            "bind :7901,:7902",
            "cookie A insert indirect nocache",
            "cookie",
            "option forwardfor except 127.0.0.0/8 header X-Client if-none",
            "option forwardfor bogus",
            "option httpchk GET /x",
            "http-check expect status 200-399",
            "http-check expect bogus 3",
            "http-check send meth GET uri /x ver HTTP/1.1 hdr Host a",
            "monitor-uri /alive",
            "monitor-uri",
            "stats enable",
            "stats uri /x",
            "stats bogus",
            "stats auth a:b",
            "stats refresh 10",
            "log global",
            "log global x",
            "no log",
            "log-format \"%ci %[src] %{+Q}r\"",
            "log-format \"%ci %bogus\"",
            "errorfile 700 /dev/null",
            "retries 3",
            "retry-on conn-failure 503",
            "http-reuse always",
            "http-reuse bogus",
            "compression algo gzip",
            "compression type text/html",
            "capture request header Host len 20",
            "bogus",
            "\"open",
            "server x \\x4",
        ],
    ),
    (
        "frontend",
        &[
            "server a 1.1.1.1:80",
            "balance roundrobin",
            "timeout server 1s",
            "option httpchk",
            "retry-on none",
            "fullconn 3",
        ],
    ),
    (
        "backend",
        &[
            "bind :7901",
            "default_backend b",
            "tcp-request connection accept",
            "maxconn 3",
            "option dontlognull",
            "log-format x",
        ],
    ),
    (
        "defaults",
        &[
            "bind :7901",
            "server a 1.1.1.1:80",
            "use_backend b",
            "redirect location /",
            "cookie A insert",
            "capture cookie A len 3",
            "daemon",
        ],
    ),
];

fn text(section: &str, line: &str) -> String {
    let defaults = "defaults\n mode http\n timeout connect 1s\n timeout client 1s\n timeout server 1s\n";
    let tail = "frontend other\n bind 127.0.0.1:7999\nuserlist u\n user a insecure-password b\nbackend b\n server s 10.0.0.1:80\n";
    let (name, bind) = match section {
        "listen" | "frontend" => (" p", " bind 127.0.0.1:7900\n"),
        "backend" => (" p", ""),
        _ => ("", ""),
    };
    let own = format!("{section}{name}\n{bind} {line}\n");
    if section == "global" { format!("{own}{defaults}{tail}") } else { format!("{defaults}{own}{tail}") }
}

fn theirs(text: &str) -> Option<bool> {
    let mut file = tempfile()?;
    file.1.write_all(text.as_bytes()).ok()?;
    let status = Command::new("haproxy").arg("-c").arg("-q").arg("-f").arg(&file.0).output().ok()?.status;
    let _ = std::fs::remove_file(&file.0);
    Some(status.success())
}

fn tempfile() -> Option<(std::path::PathBuf, std::fs::File)> {
    let path = std::env::temp_dir().join(format!("weir-acceptance-{}.cfg", std::process::id()));
    let file = std::fs::File::create(&path).ok()?;
    Some((path, file))
}

fn ours(text: &str) -> (bool, String) {
    let files = Memory::default().with("a.cfg", text);
    let loaded = load(&files, &["a.cfg".into()], &Options::default());
    let errors: Vec<String> = loaded
        .diagnostics
        .iter()
        .filter(|d| d.severity == Severity::Error)
        .map(|d| d.title.clone())
        .collect();
    (errors.is_empty(), errors.join("; "))
}

#[test]
fn both_accept_and_refuse_the_same() {
    let Ok(version) = Command::new("haproxy").arg("-v").output() else {
        eprintln!("no haproxy on this machine: nothing to compare with");
        return;
    };
    eprintln!("{}", String::from_utf8_lossy(&version.stdout).lines().next().unwrap_or(""));
    let mut differ = Vec::new();
    for (section, lines) in LINES {
        for line in *lines {
            let text = text(section, line);
            let (accepts, why) = ours(&text);
            if theirs(&text) != Some(accepts) {
                differ.push(format!("{section}: {line}: haproxy {:?}, we {accepts} {why}", theirs(&text)));
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

/// The file of the ELB benchmark and Debian's own, from disk.
#[test]
fn real_files_load() {
    let file = std::path::Path::new("/etc/haproxy/haproxy.cfg");
    if file.exists() {
        let loaded = load(&Disk, &[file.into()], &Options::default());
        assert!(!weir_diag::has_errors(&loaded.diagnostics), "{:#?}", loaded.diagnostics);
    }
}
