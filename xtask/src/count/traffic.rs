//! The two peers of the server that is counted.
//!
//! Owns: a generator with eight connections that sends an exact number of requests, and an origin whose answers have the
//! head of nginx's and a body of a kilobyte.
//! Driven by: `count`.
//! Why not wrk and nginx: a count needs the same bytes, in the same pieces, the same number of times on any machine.

use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Connections of the generator.
const CONNECTIONS: u32 = 8;

const BODY: usize = 1024;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\n\
Server: nginx/1.22.1\r\n\
Date: Sat, 21 Nov 2026 03:00:00 GMT\r\n\
Content-Type: application/octet-stream\r\n\
Content-Length: 1024\r\n\
Last-Modified: Fri, 20 Nov 2026 12:00:00 GMT\r\n\
Connection: keep-alive\r\n\
ETag: \"673dcf40-400\"\r\n\
Accept-Ranges: bytes\r\n\r\n";

/// A server of one answer. Its threads end with the process.
pub(super) struct Origin {
    port: u16,
}

impl Origin {
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("an origin cannot listen")?;
        let port = listener.local_addr()?.port();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A connection that fails ends; the generator notices.
                std::thread::spawn(move || drop(answer(stream)));
            }
        });
        Ok(Self { port })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let answer = [ANSWER, &[b'x'; BODY]].concat();
    let (mut input, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut chunk)?;
        if read == 0 {
            return Ok(());
        }
        input.extend_from_slice(&chunk[..read]);
        // One request at a time stands on a connection to an endpoint.
        if input.ends_with(b"\r\n\r\n") {
            input.clear();
            stream.write_all(&answer)?;
        }
    }
}

/// The name of a site: all are equally long.
pub(super) fn site(number: u32) -> String {
    format!("site{number:04}.example")
}

/// Asks for `path` so many times, rounded up to whole rounds over all connections; of `sites` in turn, if there are any.
/// The head is wrk's.
pub(super) fn get(port: u16, sites: u32, path: &str, requests: u32) -> Result<()> {
    let head = |host: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let heads: Vec<String> = match sites {
        0 => vec![head(&format!("127.0.0.1:{port}"))],
        sites => (0..sites).map(|n| head(&site(n))).collect(),
    };
    let mut heads = heads.iter().cycle();
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(("127.0.0.1", port)).context("the counted server is gone")?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    for _ in 0..requests.div_ceil(CONNECTIONS) {
        for (stream, head) in streams.iter_mut().zip(&mut heads) {
            stream.write_all(head.as_bytes())?;
        }
        for stream in &mut streams {
            read_answer(stream).with_context(|| format!("GET {path}"))?;
        }
    }
    Ok(())
}

fn read_answer(stream: &mut TcpStream) -> Result<()> {
    let (mut input, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut chunk)?;
        ensure!(read > 0, "the answer was cut: {}", String::from_utf8_lossy(&input));
        input.extend_from_slice(&chunk[..read]);
        let Some(at) = input.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        ensure!(input.starts_with(b"HTTP/1.1 200 "), "not 200: {}", String::from_utf8_lossy(&input));
        if input.len() >= at + 4 + BODY {
            ensure!(input.len() == at + 4 + BODY, "more than was asked for");
            return Ok(());
        }
    }
}
