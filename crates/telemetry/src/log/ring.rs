//! Log lines kept in memory, and passed on by TCP (HAProxy's `ring`).
//!
//! Owns: the newest lines within a bound in bytes, a thread for each server that they are passed on to.
//! Never: waits for a server: lines that it did not take before they had to make room are lost to it, and counted.
//! Driven by: the writer thread (`write`), whoever shows the lines (`read`).
//! Why: a server that is away for a while gets what it missed, as far as the bound goes.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a line takes beside its bytes.
const BESIDE: usize = 8;

/// Most bytes handed to a server at a time.
const AT_ONCE: usize = 64 << 10;

/// Before a server is called again.
const PAUSE: Duration = Duration::from_secs(1);

/// Where lines are passed on to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StreamAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// A unix stream socket.
    Unix(PathBuf),
}

/// A server that lines are passed on to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RingServer {
    /// Where it is.
    pub address: StreamAddress,
    /// Each message stands behind its length (RFC 6587, 3.4.1); otherwise it ends with a newline.
    pub octet_count: bool,
}

/// A ring as configured.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RingSpec {
    /// Name.
    pub name: String,
    /// What is shown beside the name.
    pub description: String,
    /// Bytes that it holds.
    pub size: usize,
    /// Most bytes of a line; it is cut to this.
    pub longest: usize,
    /// How long a connection may take to come about.
    pub connect: Duration,
    /// How long a server may take nothing.
    pub send: Duration,
    /// Who the lines are passed on to.
    pub servers: Vec<RingServer>,
}

/// See the module.
#[derive(Debug)]
pub struct Ring {
    spec: RingSpec,
    state: Mutex<State>,
    /// Told of each line, and of the end.
    written: Condvar,
    dropped: AtomicU64,
    /// The last call of a server came to nothing.
    down: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Arc<[u8]>>,
    /// The number of the oldest line.
    first: u64,
    bytes: usize,
    ended: bool,
    /// The number of the line that each server gets next.
    next: Vec<u64>,
}

impl State {
    fn end(&self) -> u64 {
        self.first + self.lines.len() as u64
    }
}

impl Ring {
    /// A ring with its threads. They end with [`Ring::end`].
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn start(spec: RingSpec) -> io::Result<Arc<Self>> {
        let state = State { next: vec![0; spec.servers.len()], ..State::default() };
        let servers = spec.servers.len();
        let ring = Arc::new(Self {
            spec,
            state: Mutex::new(state),
            written: Condvar::new(),
            dropped: AtomicU64::new(0),
            down: AtomicBool::new(false),
        });
        for at in 0..servers {
            let of = ring.clone();
            let started = std::thread::Builder::new().name("weir-ring".into()).spawn(move || of.pass_on(at));
            if let Err(error) = started {
                ring.end();
                return Err(error);
            }
        }
        Ok(ring)
    }

    /// How it is configured.
    pub fn spec(&self) -> &RingSpec {
        &self.spec
    }

    /// Lines that a server missed, or that were larger than the ring.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    fn held(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a line, without its end.
    pub(super) fn write(&self, line: &[u8]) {
        let line = &line[..line.len().min(self.spec.longest)];
        let size = line.len() + BESIDE;
        if size > self.spec.size {
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        let mut state = self.held();
        while state.bytes + size > self.spec.size {
            let Some(oldest) = state.lines.pop_front() else { break };
            state.bytes -= oldest.len() + BESIDE;
            state.first += 1;
        }
        state.bytes += size;
        state.lines.push_back(line.into());
        drop(state);
        self.written.notify_all();
    }

    /// The number that the next line gets.
    pub fn end_of_lines(&self) -> u64 {
        self.held().end()
    }

    /// Lines from this number on, as many as `most` bytes hold (one at least), and the number after them. Lines that had to go are
    /// left out. Waits at most so long for a line to come.
    pub fn read(&self, from: u64, most: usize, at_most: Duration) -> (Vec<Arc<[u8]>>, u64) {
        let state = self.held();
        let nothing = |state: &mut State| !state.ended && state.end() <= from;
        let (state, _) =
            self.written.wait_timeout_while(state, at_most, nothing).unwrap_or_else(PoisonError::into_inner);
        gather(&state, from, most)
    }

    /// Nothing is written any more; what there is is still passed on to servers that take it.
    pub(super) fn end(&self) {
        self.held().ended = true;
        self.written.notify_all();
    }

    /// The last call of a server came to nothing.
    pub(super) fn is_down(&self) -> bool {
        self.down.load(Relaxed)
    }

    /// Whether every server has everything.
    pub(super) fn is_passed_on(&self) -> bool {
        let state = self.held();
        state.next.iter().all(|next| *next >= state.end())
    }

    /// The life of a server's thread.
    fn pass_on(&self, at: usize) {
        let server = &self.spec.servers[at];
        loop {
            // Nobody is called before there is something to say.
            if !self.wait_for_lines(at) {
                return;
            }
            let called = self.connect(&server.address);
            self.down.store(called.is_err(), Relaxed);
            let served = called.and_then(|stream| self.serve(at, stream, server.octet_count));
            if served.is_ok() || self.pause() {
                return;
            }
        }
    }

    /// Waits for lines that a server does not have. False: there will be none.
    fn wait_for_lines(&self, at: usize) -> bool {
        let state = self.held();
        let nothing = |state: &mut State| !state.ended && state.end() <= state.next[at];
        let state = self.written.wait_while(state, nothing).unwrap_or_else(PoisonError::into_inner);
        state.end() > state.next[at]
    }

    /// Passes the time before the next call. True: it is the end.
    fn pause(&self) -> bool {
        let goes_on = |state: &mut State| !state.ended;
        let waited = self.written.wait_timeout_while(self.held(), PAUSE, goes_on);
        waited.unwrap_or_else(PoisonError::into_inner).0.ended
    }

    fn connect(&self, address: &StreamAddress) -> io::Result<Stream> {
        let stream = match address {
            StreamAddress::Tcp(to) => Stream::Tcp(TcpStream::connect_timeout(to, self.spec.connect)?),
            StreamAddress::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
        };
        match &stream {
            Stream::Tcp(stream) => stream.set_write_timeout(Some(self.spec.send))?,
            Stream::Unix(stream) => stream.set_write_timeout(Some(self.spec.send))?,
        }
        Ok(stream)
    }

    /// Sends lines until the end (`Ok`) or until the connection is no good any more.
    fn serve(&self, at: usize, mut stream: Stream, octet_count: bool) -> io::Result<()> {
        let mut out = Vec::new();
        while self.wait_for_lines(at) {
            // What is written to somebody who has left would be lost.
            if stream.has_ended() {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            let (lines, from, next) = {
                let state = self.held();
                let from = state.next[at];
                let (lines, next) = gather(&state, from, AT_ONCE);
                (lines, from, next)
            };
            let missed = (next - from).saturating_sub(lines.len() as u64);
            self.dropped.fetch_add(missed, Relaxed);
            out.clear();
            for line in &lines {
                if octet_count {
                    out.extend_from_slice(itoa::Buffer::new().format(line.len()).as_bytes());
                    out.push(b' ');
                }
                out.extend_from_slice(line);
                if !octet_count {
                    out.push(b'\n');
                }
            }
            stream.write_all(&out)?;
            self.held().next[at] = next;
        }
        Ok(())
    }
}

fn gather(state: &State, from: u64, most: usize) -> (Vec<Arc<[u8]>>, u64) {
    let skipped = usize::try_from(from.saturating_sub(state.first)).unwrap_or(usize::MAX);
    let (mut lines, mut bytes) = (Vec::new(), 0);
    for line in state.lines.iter().skip(skipped) {
        if !lines.is_empty() && bytes + line.len() > most {
            break;
        }
        bytes += line.len();
        lines.push(line.clone());
    }
    let next = from.max(state.first) + lines.len() as u64;
    (lines, next)
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Whether the other side has closed, or says something, which nobody here understands.
    fn has_ended(&self) -> bool {
        let mut byte = [0_u8; 1];
        let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
        let seen = match self {
            Self::Tcp(stream) => rustix::net::recv(stream, &mut byte, flags),
            Self::Unix(stream) => rustix::net::recv(stream, &mut byte, flags),
        };
        !matches!(seen, Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR))
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            Self::Unix(stream) => stream.write_all(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    fn spec(size: usize, servers: Vec<RingServer>) -> RingSpec {
        RingSpec {
            name: "r".into(),
            description: "r".into(),
            size,
            longest: 10,
            connect: Duration::from_secs(5),
            send: Duration::from_secs(5),
            servers,
        }
    }

    fn texts(lines: &[Arc<[u8]>]) -> Vec<String> {
        lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    #[test]
    fn the_oldest_lines_make_room() {
        let ring = Ring::start(spec(2 * (3 + BESIDE), Vec::new())).unwrap();
        for line in ["one", "two", "six"] {
            ring.write(line.as_bytes());
        }
        let (lines, next) = ring.read(0, 1 << 20, Duration::ZERO);
        assert_eq!((texts(&lines), next), (vec!["two".to_owned(), "six".to_owned()], 3));
        let (lines, next) = ring.read(3, 1 << 20, Duration::ZERO);
        assert_eq!((lines.len(), next), (0, 3));
        ring.write(b"0123456789abc");
        let (lines, _) = ring.read(3, 1 << 20, Duration::ZERO);
        assert_eq!(texts(&lines), ["0123456789"]);
        ring.write(&[b'x'; 100]);
        assert_eq!(ring.dropped(), 0);
    }

    #[test]
    fn a_server_gets_what_it_missed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = StreamAddress::Tcp(listener.local_addr().unwrap());
        let ring = Ring::start(spec(1000, vec![RingServer { address, octet_count: true }])).unwrap();
        ring.write(b"one");
        let (mut first, _) = listener.accept().unwrap();
        let mut bytes = [0; 5];
        first.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"3 one");
        drop(first);
        ring.write(b"three");
        ring.write(b"four");
        let (mut second, _) = listener.accept().unwrap();
        let mut bytes = [0; 13];
        second.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"5 three4 four");
        ring.end();
        assert_eq!(second.read(&mut bytes).unwrap(), 0);
        assert!(ring.is_passed_on());
    }
}
