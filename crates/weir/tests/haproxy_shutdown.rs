//! Sessions that end with their server (`on-marked-down`, `on-marked-up`, `shutdown sessions server`): the same file and the
//! same requests, to Weir and to Debian's haproxy.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use regex::Regex;
use weir_testkit::{Io, Proxy, Running, both_drivers, console};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server that never ends what it began.
struct Endless {
    port: u16,
    /// One word for each request, once its answer has been begun.
    began: Receiver<()>,
}

impl Endless {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (begin, began) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, begin) = (stream.unwrap(), begin.clone());
                std::thread::spawn(move || {
                    let mut asked = vec![0; 4096];
                    let length = stream.read(&mut asked).unwrap_or(0);
                    let asked = String::from_utf8_lossy(&asked[..length]).into_owned();
                    let answer = match asked.split(' ').nth(1) {
                        Some("/length") => "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc",
                        Some("/chunks") => {
                            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
                        }
                        Some("/close") => "HTTP/1.1 200 OK\r\n\r\nabc",
                        Some("/upgrade") => {
                            "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                             Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nabc"
                        }
                        Some(_) => "",
                        None => "abc",
                    };
                    if length > 0 && stream.write_all(answer.as_bytes()).is_ok() {
                        let _ = begin.send(());
                        let _ = std::io::copy(&mut stream, &mut std::io::sink());
                    }
                });
            }
        });
        Self { port, began }
    }
}

fn each(io: Io, server: &str, case: impl Fn(&Running, &str, &Endless, &UdpSocket)) {
    let run = |by_rival: bool| {
        let (endless, log) = (Endless::start(), UdpSocket::bind("127.0.0.1:0").unwrap());
        log.set_read_timeout(Some(PATIENCE)).unwrap();
        let (port, logged) = (endless.port, log.local_addr().unwrap());
        let server = server.replace("HERE", &format!("127.0.0.1:{port}"));
        let file = format!(
            "global\n nbthread 1\n stats socket {{dir}}/cli.sock level admin\n log {logged} format raw local0 info\n\
             defaults\n mode http\n timeout connect 5s\n timeout client 1m\n timeout server 1m\n timeout tunnel 1m\n \
             retries 3\n option redispatch\n default-server inter 1h\n\
             frontend f\n log global\n log-format \"END %HP %ts\"\n bind 127.0.0.1:{{port}}\n default_backend b\n\
             backend b\n{server}\
             frontend t\n mode tcp\n log global\n log-format \"END tcp %ts\"\n bind unix@{{dir}}/tcp.sock\n default_backend c\n\
             backend c\n mode tcp\n{server}"
        );
        let proxy = Proxy::haproxy(&file);
        let (proxy, who) = if by_rival { (proxy.by_rival(), "haproxy") } else { (proxy.io(io), "weir") };
        case(&proxy.start(), who, &endless, &log);
    };
    run(false);
    run(true);
}

fn command(proxy: &Running, line: &str) -> String {
    let said = console::ask(proxy, line);
    said.trim_end().to_owned()
}

trait Session: Read + Write {}
impl<S: Read + Write> Session for S {}

const PATHS: [&str; 5] = ["/head", "/length", "/chunks", "/close", "/upgrade"];

/// One request of each kind, and a session without HTTP, each under way.
fn sessions(proxy: &Running, endless: &Endless) -> Vec<Box<dyn Session>> {
    let mut all: Vec<Box<dyn Session>> = Vec::new();
    for path in PATHS {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", proxy.port())).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let upgrade = match path {
            "/upgrade" => {
                "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            }
            _ => "",
        };
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\n{upgrade}\r\n").unwrap();
        all.push(Box::new(stream));
    }
    let mut stream = UnixStream::connect(proxy.dir().join("tcp.sock")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"hello").unwrap();
    all.push(Box::new(stream));
    for _ in &all {
        endless.began.recv_timeout(PATIENCE).unwrap();
    }
    // What was answered has arrived, too.
    for stream in &mut all[1..] {
        until(stream.as_mut(), "abc");
    }
    all
}

/// Reads until this has come.
fn until(stream: &mut dyn Session, what: &str) -> String {
    let (mut seen, mut byte) = (Vec::new(), [0]);
    while !seen.ends_with(what.as_bytes()) {
        let read = stream.read_exact(&mut byte);
        read.unwrap_or_else(|error| panic!("{error} after {:?}", String::from_utf8_lossy(&seen)));
        seen.push(byte[0]);
    }
    String::from_utf8_lossy(&seen).into_owned()
}

/// All of them end, without a word that could be taken for a whole answer.
fn end(all: Vec<Box<dyn Session>>, who: &str) {
    for (at, mut stream) in all.into_iter().enumerate() {
        let mut rest = Vec::new();
        if at == 0 {
            assert!(until(stream.as_mut(), "\r\n").starts_with("HTTP/1.1 502 "), "{who}");
            continue;
        }
        // A reset is an end as well.
        let _ = stream.read_to_end(&mut rest);
        let rest = String::from_utf8_lossy(&rest).into_owned();
        assert!(rest.is_empty() || rest == "\r\n", "{who}, {at}: {rest:?}");
    }
}

/// What the log says of so many ends.
fn ends(log: &UdpSocket, count: usize) -> Vec<String> {
    let form = Regex::new(r"END (\S+ \S+)").unwrap();
    let mut found = Vec::new();
    let mut line = [0; 2048];
    while found.len() < count {
        let length = log.recv(&mut line).unwrap();
        let text = String::from_utf8_lossy(&line[..length]).into_owned();
        found.extend(form.captures(&text).map(|ends| ends[1].to_owned()));
    }
    // What lasts until the server closes is no body to HAProxy, and is one here.
    let close = found.iter_mut().find(|end| end.starts_with("/close") && end.ends_with('-'));
    close.into_iter().for_each(|end| *end = end.replace('-', "D"));
    found.sort();
    found
}

fn expected(letter: char) -> Vec<String> {
    let http = PATHS.iter().map(|path| match *path {
        "/head" => format!("/head {letter}H"),
        "/upgrade" => format!("/upgrade {letter}-"),
        path => format!("{path} {letter}D"),
    });
    let mut all: Vec<String> = http.chain([format!("tcp {letter}-")]).collect();
    all.sort();
    all
}

/// Whether a session of a server goes on: what is said comes back from nobody, and nothing ends.
fn goes_on(proxy: &Running, all: &mut [Box<dyn Session>]) {
    // A whole round of the worker lies between the command and this.
    assert!(command(proxy, "show info").contains("Pid"));
    for stream in &mut all[1..] {
        stream.write_all(b"x").unwrap();
    }
}

both_drivers! {
    fn sessions_end_when_their_server_goes_down(io: Io) {
        each(io, " server s HERE check on-marked-down shutdown-sessions\n", |proxy, who, endless, log| {
            for (down, up) in [("health down", "health up"), ("state maint", "state ready")] {
                let mut all = sessions(proxy, endless);
                for backend in ["b", "c"] {
                    assert_eq!(command(proxy, &format!("set server {backend}/s state drain")), "", "{who}");
                }
                goes_on(proxy, &mut all);
                for backend in ["b", "c"] {
                    assert_eq!(command(proxy, &format!("set server {backend}/s state ready")), "", "{who}");
                    assert_eq!(command(proxy, &format!("set server {backend}/s {down}")), "", "{who}");
                }
                end(all, who);
                assert_eq!(ends(log, 6), expected('D'), "{who}");
                for backend in ["b", "c"] {
                    assert_eq!(command(proxy, &format!("set server {backend}/s {up}")), "", "{who}");
                }
            }
        });
    }

    fn sessions_outlive_their_server_without_the_word(io: Io) {
        each(io, " server s HERE check\n", |proxy, who, endless, log| {
            let mut all = sessions(proxy, endless);
            for backend in ["b", "c"] {
                assert_eq!(command(proxy, &format!("set server {backend}/s health down")), "", "{who}");
                assert_eq!(command(proxy, &format!("set server {backend}/s state maint")), "", "{who}");
            }
            goes_on(proxy, &mut all);
            // An operator may end them.
            assert_eq!(command(proxy, "shutdown sessions server b/x"), "No such server.", "{who}");
            assert_eq!(command(proxy, "shutdown sessions server"), "Require 'backend/server'.", "{who}");
            assert_eq!(command(proxy, "shutdown sessions server b/s;shutdown sessions server c/s"), "", "{who}");
            end(all, who);
            assert_eq!(ends(log, 6), expected('K'), "{who}");
        });
    }

    fn sessions_of_backups_end_when_a_server_comes_up(io: Io) {
        let servers = " server s HERE check on-marked-up shutdown-backup-sessions\n server z HERE backup\n";
        each(io, servers, |proxy, who, endless, log| {
            for backend in ["b", "c"] {
                assert_eq!(command(proxy, &format!("set server {backend}/s health down")), "", "{who}");
            }
            let mut all = sessions(proxy, endless);
            goes_on(proxy, &mut all);
            for backend in ["b", "c"] {
                assert_eq!(command(proxy, &format!("set server {backend}/s health up")), "", "{who}");
            }
            end(all, who);
            assert_eq!(ends(log, 6), expected('U'), "{who}");
        });
    }
}
