//! What a haproxy.cfg finds when it is started: sockets that were handed over, variables, conditions.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weir_testkit::{Client, Proxy, Request};

const DEFAULTS: &str = "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n";

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Started with `listener` as descriptor 7, and the configuration in a file.
fn started(listener: &TcpListener, folder: &tempfile::TempDir, text: &str) -> Ended {
    let file = folder.path().join("h.cfg");
    File::create(&file).unwrap().write_all(text.as_bytes()).unwrap();
    let command = "exec \"$0\" haproxy -db -L me -f \"$1\" 7<&0 0</dev/null";
    let child = Command::new("sh")
        .args(["-c", command, env!("CARGO_BIN_EXE_weir")])
        .arg(&file)
        .env("fe1", "7")
        .stdin(Stdio::from(OwnedFd::from(listener.try_clone().unwrap())))
        .spawn()
        .unwrap();
    Ended(child)
}

/// The last line of what is answered; tried until somebody answers at all.
fn ask(address: SocketAddr) -> String {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let asked = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(Duration::from_secs(20)))?;
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text.lines().last().unwrap_or_default().to_owned())
        };
        match asked() {
            Ok(text) => return text,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
    }
}

#[test]
fn a_socket_that_was_handed_over_is_served_and_shared() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let answer =
        |text: &str| format!("http-request return status 200 content-type text/plain lf-string \"{text}\"");
    let text = format!(
        "global\n nbthread 2\n{DEFAULTS}frontend f\n bind \"fd@${{fe1}}\"\n {}\nfrontend g\n bind \"fd@${{fe1}}\"\n {}\n",
        answer("${HAPROXY_LOCALPEER}"),
        answer("${NOT_SET-other}"),
    );
    let _running = started(&listener, &folder, &text);
    let mut seen = std::collections::BTreeSet::new();
    let end = Instant::now() + Duration::from_secs(30);
    while seen.len() < 2 {
        assert!(Instant::now() < end, "only {seen:?}");
        seen.insert(ask(address));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["me", "other"]);
}

#[test]
fn a_descriptor_that_is_no_listening_socket_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("h.cfg");
    for (bind, said) in [
        ("fd@99", "cannot use file descriptor '99'"),
        ("fd@0", "it is no listening stream socket"),
        ("fd@", "`fd@` is followed by the number of a descriptor"),
    ] {
        std::fs::write(&file, format!("{DEFAULTS}frontend f\n bind {bind}\n")).unwrap();
        let ran = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["haproxy", "-db", "-f"])
            .arg(&file)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.code() == Some(1) && text.contains(said), "{bind}: {text}");
    }
}

#[test]
fn frontends_of_one_address_share_it() {
    let answer = |text: &str| format!("http-request return status 200 content-type text/plain string {text}");
    let text = format!(
        "{DEFAULTS}frontend f\n bind localhost:{{port}}\n {}\nfrontend g\n bind localhost:{{port}}\n {}\n",
        answer("f"),
        answer("g")
    );
    let proxy = Proxy::haproxy(&text).start();
    let mut seen = std::collections::BTreeSet::new();
    let end = Instant::now() + Duration::from_secs(30);
    while seen.len() < 2 {
        assert!(Instant::now() < end, "only {seen:?}");
        seen.insert(Client::connect(&proxy).request(&Request::get("/")).text());
    }
}

#[test]
fn conditions_are_evaluated_alone() {
    for (condition, code) in [
        ("version_atleast(2.4) && feature(OPENSSL)", 0),
        ("streq(\"$WHO\",me)", 0),
        ("feature(LUA) || version_before(2.0)", 1),
        ("strstr(\"$WHO\",x)", 1),
        ("nothing(", 2),
    ] {
        let ran = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["haproxy", "-cc", condition])
            .env("WHO", "me")
            .output()
            .unwrap();
        assert_eq!(ran.status.code(), Some(code), "{condition}");
    }
}
