//! Changes of the configuration under load.
//!
//! Owns: the changes of one run (an endpoint goes, and comes back), the sockets that are opened meanwhile and have to live on,
//! and the server behind these.
//! Never: judges; waits for a change to take hold: nobody who deploys does.
//! Driven by: `run`, at the rates of scenarios that have changes.
//! Why sockets between changes: a server that starts new processes for each change keeps the old ones as long as a socket
//! of theirs lives. One that is opened before each change shows what that costs.

use crate::servers::Running;
use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a socket may take to be opened, and to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What asks for a socket: the example of RFC 6455 §1.3.
const ASKED: &[u8] =
    b"GET /socket HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
/// What grants it.
const GRANTED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// What came of the changes of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Changes that were ordered.
    pub made: u32,
    /// Sockets that were to be opened, one before each change.
    pub sockets: u32,
    /// Those that were not granted, or did not live to the end.
    pub dropped: u32,
    /// Processes of the server at the end.
    pub processes: u32,
}

/// What is to be changed, and how.
pub(crate) struct Order {
    /// How often.
    pub(crate) count: u32,
    /// Time between two changes.
    pub(crate) pause: Duration,
    /// The file that the server reads.
    pub(crate) file: PathBuf,
    /// What stands in it in turn.
    pub(crate) texts: [String; 2],
    /// What makes the server read it.
    pub(crate) signal: Signal,
}

/// Changes that are being made, on a thread of their own.
pub(crate) struct Changing {
    end: Sender<()>,
    thread: JoinHandle<Result<(u32, Vec<Option<TcpStream>>)>>,
}

impl Changing {
    /// Begins.
    pub(crate) fn start(order: Order, server: &Running) -> Self {
        let (end, ended) = channel();
        let (port, pid) = (server.port, server.pid());
        Self { end, thread: std::thread::spawn(move || order.carry_out(port, pid, &ended)) }
    }

    /// Ends, and looks after the sockets.
    ///
    /// # Errors
    /// A file could not be written, or a signal not be sent.
    pub(crate) fn finish(self, processes: usize) -> Result<Changes> {
        // It may have made them all.
        let _ = self.end.send(());
        let (made, sockets) =
            self.thread.join().map_err(|_| anyhow::anyhow!("the changes ended early"))??;
        let dropped = sockets.iter().filter(|socket| !socket.as_ref().is_some_and(lives)).count();
        let whole = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Ok(Changes {
            made,
            sockets: whole(sockets.len()),
            dropped: whole(dropped),
            processes: whole(processes),
        })
    }
}

impl Order {
    fn carry_out(self, port: u16, pid: u32, ended: &Receiver<()>) -> Result<(u32, Vec<Option<TcpStream>>)> {
        let mut sockets = Vec::new();
        let mut made = 0;
        while made < self.count && ended.recv_timeout(self.pause) == Err(RecvTimeoutError::Timeout) {
            sockets.push(open(port).ok());
            let text = &self.texts[made as usize % 2];
            // Whoever reads it meanwhile reads one or the other.
            let new = self.file.with_extension("new");
            fs::write(&new, text).and_then(|()| fs::rename(&new, &self.file)).context("the configuration")?;
            let pid =
                i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).context("no process")?;
            rustix::process::kill_process(pid, self.signal).context("the server cannot be told")?;
            made += 1;
        }
        Ok((made, sockets))
    }
}

fn open(port: u16) -> Result<TcpStream> {
    let mut socket = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(ASKED)?;
    let mut head = Vec::new();
    let mut byte = [0];
    // Byte by byte: what comes after the head is the socket's.
    while !head.ends_with(b"\r\n\r\n") && head.len() < 4096 {
        socket.read_exact(&mut byte)?;
        head.extend(byte);
    }
    ensure!(head.starts_with(b"HTTP/1.1 101 "), "no socket: {}", String::from_utf8_lossy(&head));
    ensure!(lives(&socket), "it does not answer");
    Ok(socket)
}

/// Whether what is said comes back.
fn lives(mut socket: &TcpStream) -> bool {
    let mut echo = [0; 4];
    socket.write_all(b"ping").and_then(|()| socket.read_exact(&mut echo)).is_ok() && &echo == b"ping"
}

/// The server behind the sockets: it grants each, and says what it is told.
pub(crate) struct Echo {
    /// Where it listens.
    pub(crate) port: u16,
    over: Arc<AtomicBool>,
}

impl Echo {
    /// Starts it.
    ///
    /// # Errors
    /// No port is free.
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
        let echo = Self { port: listener.local_addr()?.port(), over: Arc::default() };
        let over = echo.over.clone();
        std::thread::spawn(move || {
            for socket in
                listener.incoming().map_while(|socket| socket.ok().filter(|_| !over.load(Ordering::Relaxed)))
            {
                std::thread::spawn(move || answer(&socket));
            }
        });
        Ok(echo)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // It looks once somebody comes.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn answer(mut socket: &TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(socket);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
    }
    socket.write_all(GRANTED)?;
    io::copy(&mut reader, &mut socket).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_lives_until_its_server_goes() {
        let echo = Echo::start().unwrap();
        let (one, two) = (open(echo.port).unwrap(), open(echo.port).unwrap());
        assert!(lives(&one) && lives(&two));
        two.shutdown(std::net::Shutdown::Both).unwrap();
        assert!(!lives(&two) && lives(&one));
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = silent.local_addr().unwrap().port();
        drop(silent);
        assert!(open(port).is_err());
    }
}
