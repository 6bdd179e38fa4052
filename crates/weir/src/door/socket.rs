//! The sockets of the admin door.
//!
//! Owns: which addresses are taken, binding them, a connection with an end of its time.
//! Never: reads a word of what is said.
//! Driven by: `door`.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use weir_expr::settings::Address;

use super::access::Source;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// A socket that is bound.
pub(super) enum Socket {
    Unix { listener: UnixListener, path: PathBuf, inode: u64 },
    Tcp(TcpListener),
}

/// Whom a socket is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// There are tokens.
    pub(super) tokens: bool,
    /// Nobody but root is to be spoken with, and so only on unix sockets.
    pub(super) only_root: bool,
    /// A process before this one may still have the address.
    pub(super) replaces: bool,
}

impl Socket {
    /// Binds an address.
    ///
    /// # Errors
    /// One line: it is none, is not of this machine alone, or is taken.
    pub(super) fn bind(text: &str, rules: Rules) -> Result<Self, String> {
        let told = |error: io::Error| format!("the admin address {text} cannot be bound: {error}");
        match text.parse::<Address>() {
            Ok(Address::Unix(path)) if !path.to_string_lossy().starts_with('@') => {
                let path = crate::launch::absolute(path);
                let (listener, inode) = bind_unix(&path, rules.replaces).map_err(told)?;
                Ok(Self::Unix { listener, path, inode })
            }
            Ok(Address::Tcp(address)) if !address.ip().is_loopback() => Err(format!(
                "the admin address {text} is not of this machine alone: use loopback or a unix socket, and a site with TLS in front of it"
            )),
            Ok(Address::Tcp(_)) if rules.only_root => Err(format!(
                "the admin address {text}: where a process stays root, only root is let in, by a unix socket"
            )),
            Ok(Address::Tcp(_)) if !rules.tokens => Err(format!(
                "the admin address {text} can be reached by every user of this machine: --admin-tokens is needed"
            )),
            Ok(Address::Tcp(address)) => bind_tcp(address, rules.replaces).map(Self::Tcp).map_err(told),
            _ => Err(format!(
                "the admin address `{text}` is neither `unix:` with a path nor a loopback address with a port"
            )),
        }
    }

    /// The next connection.
    pub(super) fn accept(&self) -> io::Result<Caller> {
        match self {
            Self::Unix { listener, .. } => {
                listener.accept().map(|(stream, _)| Caller::new(Stream::Unix(stream)))
            }
            Self::Tcp(listener) => {
                listener.accept().map(|(stream, from)| Caller::new(Stream::Tcp(stream, from.ip())))
            }
        }
    }

    /// The file that is to go with the process.
    pub(super) fn file(&self) -> Option<SocketFile> {
        match self {
            Self::Unix { path, inode, .. } => Some(SocketFile { path: path.clone(), inode: *inode }),
            Self::Tcp(_) => None,
        }
    }
}

/// The file of a socket. It goes at the end, unless another process has taken the name by then.
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Only the user may connect. A socket that an earlier process left is taken away; one that answers is not, unless we are to
/// take its place.
fn bind_unix(path: &Path, replaces: bool) -> io::Result<(UnixListener, u64)> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let is_left =
        || UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if is_socket && (replaces || is_left()) {
        std::fs::remove_file(path)?;
    }
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    Ok((bound?, std::fs::symlink_metadata(path)?.ino()))
}

/// The port is shared with the process before, where there is one of the same user and we are to take its place; with nobody
/// else.
fn bind_tcp(address: std::net::SocketAddr, replaces: bool) -> io::Result<TcpListener> {
    let bound = |shared: bool| -> io::Result<OwnedFd> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        sockopt::set_socket_reuseport(&socket, shared)?;
        bind(&socket, &address)?;
        Ok(socket)
    };
    if !replaces {
        // Shared, it would be bound beside any other program of ours that shares.
        bound(false)?;
    }
    let socket = bound(true)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream, std::net::IpAddr),
}

/// A connection, for as long as its time lasts.
pub(super) struct Caller {
    stream: Stream,
    end: Instant,
}

/// What somebody is by the system's word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub(super) user: u32,
    /// It is this process: a site of ours carries what somebody else says.
    pub(super) is_us: bool,
}

impl Caller {
    fn new(stream: Stream) -> Self {
        Self { stream, end: Instant::now() }
    }

    /// It has so much time from now on.
    pub(super) fn allow(&mut self, time: Duration) {
        self.end = Instant::now() + time;
    }

    /// Who is at the other end of a unix socket.
    pub(super) fn peer(&self) -> Option<Peer> {
        let Stream::Unix(stream) = &self.stream else { return None };
        let peer = socket_peercred(stream).ok()?;
        Some(Peer { user: peer.uid.as_raw(), is_us: peer.pid == rustix::process::getpid() })
    }

    /// Where failures are counted.
    pub(super) fn source(&self) -> Source {
        match &self.stream {
            Stream::Unix(_) => Source::User(self.peer().map_or(u32::MAX, |peer| peer.user)),
            Stream::Tcp(_, from) => Source::Address(*from),
        }
    }

    pub(super) fn is_tcp(&self) -> bool {
        matches!(self.stream, Stream::Tcp(..))
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    /// Says that nothing more comes, and takes for a moment what still does: a connection that is closed with bytes unread
    /// takes the answer along.
    pub(super) fn leave(&mut self, time: Duration) {
        let shut = match &self.stream {
            Stream::Unix(stream) => stream.shutdown(std::net::Shutdown::Write),
            Stream::Tcp(stream, _) => stream.shutdown(std::net::Shutdown::Write),
        };
        self.allow(time);
        let mut part = [0; 4096];
        while shut.is_ok() && self.read(&mut part).is_ok_and(|count| count > 0) {}
    }
}

impl Read for Caller {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = Some(self.left()?);
        match &mut self.stream {
            Stream::Unix(stream) => stream.set_read_timeout(left).and_then(|()| stream.read(into)),
            Stream::Tcp(stream, _) => stream.set_read_timeout(left).and_then(|()| stream.read(into)),
        }
    }
}

impl Write for Caller {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let left = Some(self.left()?);
        match &mut self.stream {
            Stream::Unix(stream) => stream.set_write_timeout(left).and_then(|()| stream.write(from)),
            Stream::Tcp(stream, _) => stream.set_write_timeout(left).and_then(|()| stream.write(from)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
