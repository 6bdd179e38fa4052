//! Making the contenders work.
//!
//! Owns: wrk's command lines, and a client of handshakes that never resumes.
//! Never: counts what it did not see answered.
//! Driven by: `bench`, once for each contender and run.
//! Why: wrk resumes TLS sessions, so handshakes have a client of their own that asserts each was full, and TLS 1.3.

use super::rows::{Size, Work};
use super::servers::{Ground, Server};
use anyhow::{Context, Result, bail, ensure};
use rustls::{HandshakeKind, ProtocolVersion};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use weir_testkit::programs::{self, WrkReport};
use weir_testkit::{Address, TlsOptions};

/// Requests answered in a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) requests: u64,
    pub(super) seconds: f64,
}

/// Fifty connections from one thread, as in the figures that the targets come from.
const WRK: [&str; 3] = ["-t1", "-c50", "--timeout=10s"];

/// Clients that shake hands at the same time.
const HANDSHAKERS: usize = 8;

/// Works `server` for whole `seconds`.
pub(super) fn drive(work: Work, server: &Server, ground: &Ground, seconds: u64) -> Result<Done> {
    let path = match work {
        Work::Static(size) | Work::Proxy(size) | Work::Https(size) | Work::Tcp(size) => size.file(),
        Work::Connection => Size::K1.file(),
        Work::Handshake(_) => return handshakes(work, server, ground, Duration::from_secs(seconds)),
        Work::Idle { .. } | Work::Sites => bail!("not driven by wrk alone"),
    };
    let scheme = if matches!(work, Work::Https(_)) { "https" } else { "http" };
    let url = format!("{scheme}://{}/{path}", server.port.address());
    let closing: &[&str] = if work == Work::Connection { &["-H", "Connection: close"] } else { &[] };
    wrk(closing, &url, seconds)
}

/// Runs wrk with a Lua script that chooses the requests.
pub(super) fn drive_script(script: &Path, server: &Server, seconds: u64) -> Result<Done> {
    let script = script.to_str().context("the script's path is text")?;
    wrk(&["-s", script], &format!("http://{}/", server.port.address()), seconds)
}

fn wrk(more: &[&str], url: &str, seconds: u64) -> Result<Done> {
    let mut command = Command::new("wrk");
    command.args(WRK).arg(format!("-d{seconds}s")).args(more).arg(url);
    let (_, text) =
        programs::run_for(command, Duration::from_secs(seconds + 30)).map_err(anyhow::Error::msg)?;
    let report = WrkReport::parse(&text).map_err(anyhow::Error::msg)?;
    ensure!(report.errors() == 0, "{} errors among {} requests: {text}", report.errors(), report.requests);
    ensure!(report.requests > 0, "no request was answered");
    Ok(Done { requests: report.requests, seconds: report.seconds })
}

fn handshakes(work: Work, server: &Server, ground: &Ground, time: Duration) -> Result<Done> {
    let options = TlsOptions::trusting(ground.trusted(work));
    let begun = Instant::now();
    let counts: Vec<Result<u64>> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..HANDSHAKERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut done = 0;
                    while begun.elapsed() < time {
                        handshake(server, &options)?;
                        done += 1;
                    }
                    Ok(done)
                })
            })
            .collect();
        // A client panics only on a bug of its own.
        clients.into_iter().map(|c| c.join().expect("clients return their errors")).collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let requests = counts.into_iter().sum::<Result<u64>>()?;
    ensure!(requests > 0, "no handshake was done");
    Ok(Done { requests, seconds })
}

/// One connection: a full TLS 1.3 handshake, one small request, and the server closes, so that no port of ours waits.
fn handshake(server: &Server, options: &TlsOptions) -> Result<()> {
    let limit = Some(Duration::from_secs(10));
    let tcp = TcpStream::connect(server.port.address())?;
    tcp.set_nodelay(true)?;
    tcp.set_read_timeout(limit)?;
    let (mut stream, session) =
        weir_testkit::tls::connect(tcp, options.client_config(), options.server_name())?;
    ensure!(session.kind == Some(HandshakeKind::Full), "a handshake was {:?}", session.kind);
    ensure!(session.version == Some(ProtocolVersion::TLSv1_3), "the version is {:?}", session.version);
    stream.write_all(b"GET /0 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    // Some servers leave out close_notify; the answer is whole by its length, which is nought.
    let _ = stream.read_to_end(&mut answer);
    ensure!(answer.starts_with(b"HTTP/1.1 200"), "the answer is {:?}", String::from_utf8_lossy(&answer));
    Ok(())
}
