//! What a waiting connection costs in memory.
//!
//! Owns: opening many connections, using each once, and reading the server's memory before and after.
//! Never: counts what the kernel holds for sockets: it is the same for all.
//! Driven by: `bench`, with a fresh server for each reading (memory that was freed is not always given back).

use super::rows::Work;
use super::servers::{self, Contender, Ground};
use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use weir_lab::accounting::memory;
use weir_testkit::{Address, Deadline, TlsOptions};

/// As many as the targets speak of; fewer where the machine grants fewer descriptors.
const CONNECTIONS: usize = 8_000;

/// Opened and closed first, so that what a server sets up once is not counted.
const WARM_UP: usize = 64;

/// Descriptors that client and server need besides.
const SPARE: u64 = 200;

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// How many connections this machine lets us hold.
pub(super) fn connections(ground: &Ground) -> usize {
    CONNECTIONS.min(usize::try_from(ground.descriptors.saturating_sub(SPARE)).unwrap_or(CONNECTIONS))
}

/// Bytes a waiting connection, or `None` if the contender does no such work.
pub(super) fn measure(contender: &Contender, tls: bool, ground: &Ground) -> Result<Option<f64>> {
    let work = Work::Idle { tls };
    let Some(server) = servers::start(contender, work, ground)? else { return Ok(None) };
    let options = tls.then(|| TlsOptions::trusting(ground.trusted(work)));
    drop(open(&server, options.as_ref(), WARM_UP)?);
    let pid = server.process.pid();
    let before = settled(pid);
    let count = connections(ground);
    let held = open(&server, options.as_ref(), count)?;
    let after = settled(pid);
    drop(held);
    Ok(Some((after.saturating_sub(before)) as f64 / count as f64))
}

fn open(server: &servers::Server, tls: Option<&TlsOptions>, count: usize) -> Result<Vec<Box<dyn Stream>>> {
    (0..count).map(|n| connect(server, tls).with_context(|| format!("connection {n}"))).collect()
}

/// One connection, used for one request.
fn connect(server: &servers::Server, tls: Option<&TlsOptions>) -> Result<Box<dyn Stream>> {
    let tcp = TcpStream::connect(server.port.address())?;
    tcp.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut stream: Box<dyn Stream> = match tls {
        None => Box::new(tcp),
        Some(options) => {
            Box::new(weir_testkit::tls::connect(tcp, options.client_config(), options.server_name())?.0)
        }
    };
    stream.write_all(b"GET /0 HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while !head.ends_with(b"\r\n\r\n") {
        let n = stream.read(&mut chunk)?;
        anyhow::ensure!(n > 0, "closed instead of kept alive");
        head.extend_from_slice(&chunk[..n]);
    }
    anyhow::ensure!(head.starts_with(b"HTTP/1.1 200"), "the answer is {:?}", String::from_utf8_lossy(&head));
    Ok(stream)
}

/// Memory once it no longer changes.
fn settled(pid: u32) -> u64 {
    let deadline = Deadline::after(Duration::from_secs(5));
    let mut last = memory(pid);
    loop {
        // There is no signal for "nothing more is allocated"; two equal readings have to do.
        std::thread::sleep(Duration::from_millis(200));
        let now = memory(pid);
        if now == last || deadline.passed() {
            return now;
        }
        last = now;
    }
}
