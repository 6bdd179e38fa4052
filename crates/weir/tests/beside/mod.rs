//! The same requests to Weir and to Debian's nginx with the same file: what is told must agree.

#![allow(dead_code, reason = "each test file uses what it needs")]

use std::fs::File;
use std::time::{Duration, SystemTime};

use weir_testkit::response::Response;
use weir_testkit::{Client, Io, Proxy, Request, Running};

/// Fields that say when or by whom, not what.
const OWN: [&str; 4] = ["date", "server", "connection", "keep-alive"];

/// 1994-11-06 08:49:37 UTC.
const MODIFIED: u64 = 784_111_777;

/// A configuration of one server: `http` stands in `http`, `server` in `server`; files are in `{dir}`.
pub(crate) fn conf(http: &str, server: &str) -> String {
    format!(
        "worker_processes 1; error_log {{dir}}/error.log; events {{}} http {{ access_log off; \
         types {{ text/html html shtml; text/plain txt; text/css css; }} default_type application/octet-stream; {http} \
         server {{ listen 127.0.0.1:{{port}}; root {{dir}}; {server} }} }}"
    )
}

/// A file with a name, old enough for both to agree about it.
pub(crate) type Named<'a> = (&'a str, &'a [u8]);

/// Starts Weir, or nginx.
pub(crate) fn start(io: Io, text: &str, files: &[Named<'_>], rival: bool) -> Running {
    let mut proxy = Proxy::nginx(text).io(io);
    for (name, content) in files {
        proxy = proxy.file(name, content);
    }
    let running = if rival { proxy.by_rival().start() } else { proxy.start() };
    for (name, _) in files {
        let file = File::options().write(true).open(running.dir().join(name)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED)).unwrap();
    }
    running
}

/// What an answer says, in a form to compare: status, fields in order of their names, body, trailers.
pub(crate) fn told(response: &Response) -> String {
    let mut lines: Vec<String> = response
        .headers
        .iter()
        .filter(|(name, _)| !OWN.iter().any(|own| name.eq_ignore_ascii_case(own)))
        .map(|(name, value)| format!("{}: {value}", name.to_ascii_lowercase()))
        .collect();
    lines.sort();
    let trailers: String =
        response.trailers.iter().map(|(name, value)| format!("\n[{name}: {value}]")).collect();
    format!("{} {}\n{}{trailers}", response.status, lines.join("; "), response.body.escape_ascii())
}

/// Asks both, and compares; what Weir told, one for each request.
#[track_caller]
pub(crate) fn agree(io: Io, text: &str, files: &[Named<'_>], requests: &[Request]) -> Vec<String> {
    let (weir, nginx) = (start(io, text, files, false), start(io, text, files, true));
    let ask = |running: &Running, request: &Request| {
        let said = told(&Client::connect(running).request(request));
        let page = [format!("weir/{}", env!("CARGO_PKG_VERSION")), "nginx/1.22.1".to_owned()];
        let said = page.iter().fold(said, |said, name| said.replace(&**name, "NAME"));
        // The page of an error names its program, and its length tells the difference.
        if said.contains("<center>NAME</center>") {
            said.lines().map(without_length).collect::<Vec<_>>().join("\n")
        } else {
            said
        }
    };
    let (mut all, mut differ) = (Vec::new(), String::new());
    for request in requests {
        let (ours, theirs) = (ask(&weir, request), ask(&nginx, request));
        if ours != theirs {
            let line = String::from_utf8_lossy(&request.bytes()).into_owned();
            differ += &format!("=== {line}\n--- weir\n{ours}\n--- nginx\n{theirs}\n");
        }
        all.push(ours);
    }
    assert!(differ.is_empty(), "{differ}");
    all
}

fn without_length(line: &str) -> String {
    match line.split_once("content-length: ") {
        Some((before, after)) => {
            format!("{before}{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => line.to_owned(),
    }
}
