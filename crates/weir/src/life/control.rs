//! Being asked to reload by `weir reload`, with an answer.
//!
//! Owns: an abstract unix socket named after the process id, on both sides.
//! Never: does more for a caller than its signals could; obeys only root and the user we run as.
//! Driven by: `life::master`; `cli::reload` is the other side.
//! Why: a signal tells nothing back. An abstract name leaves no file behind, is gone with the process, and the kernel
//! tells each side who the other is, so a stranger who takes the name first is found out and the signal remains.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;

const REQUEST: &[u8; 7] = b"reload\n";

/// A caller that sends nothing is let go after this.
const PATIENCE: Duration = Duration::from_secs(1);

fn address(pid: i32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("weir-control-{pid}"))
}

/// The server's side.
pub(crate) struct Control {
    listener: Option<UnixListener>,
}

impl Control {
    /// Listens under our process id; without the name (somebody else took it), signals still work.
    pub(crate) fn listen() -> Self {
        let listen = || {
            let listener = UnixListener::bind_addr(&address(std::process::id() as i32)?)?;
            listener.set_nonblocking(true)?;
            io::Result::Ok(listener)
        };
        Self { listener: listen().ok() }
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(AsFd::as_fd)
    }

    /// The next caller who may ask and does.
    pub(crate) fn next(&self) -> Option<Asker> {
        let (stream, _) = self.listener.as_ref()?.accept().ok()?;
        take_request(stream).ok()
    }
}

fn take_request(mut stream: UnixStream) -> io::Result<Asker> {
    let caller = socket_peercred(&stream)?.uid;
    if !caller.is_root() && caller != rustix::process::geteuid() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = [0; REQUEST.len()];
    stream.read_exact(&mut request)?;
    if request != *REQUEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(Asker { stream })
}

/// Somebody who waits for the end of a reload.
pub(crate) struct Asker {
    stream: UnixStream,
}

impl Asker {
    /// Tells the outcome. A caller who has gone does not matter.
    pub(crate) fn answer(mut self, accepted: bool, text: &str) {
        let word = if accepted { "ok\n" } else { "refused\n" };
        let _ = self.stream.write_all(word.as_bytes()).and_then(|()| self.stream.write_all(text.as_bytes()));
    }
}

/// Asks process `pid` to reload and waits; true and its words if it did. An error if it cannot be asked this way.
pub(crate) fn ask_reload(pid: i32, patience: Duration) -> io::Result<(bool, String)> {
    let mut stream = UnixStream::connect_addr(&address(pid)?)?;
    if socket_peercred(&stream)?.pid.as_raw_nonzero().get() != pid {
        return Err(io::Error::other("another process answers under its name"));
    }
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(REQUEST)?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    match text.split_once('\n') {
        Some(("ok", words)) => Ok((true, words.into())),
        Some(("refused", words)) => Ok((false, words.into())),
        _ => Err(io::Error::other("it ended without an answer")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asker_gets_the_outcome() {
        let control = Control::listen();
        let pid = std::process::id() as i32;
        let asking = std::thread::spawn(move || ask_reload(pid, Duration::from_secs(20)));
        let mut fd =
            [rustix::event::PollFd::from_borrowed_fd(control.fd().unwrap(), rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fd, None).unwrap();
        control.next().unwrap().answer(false, "line 3 is bad\n");
        assert_eq!(asking.join().unwrap().unwrap(), (false, "line 3 is bad\n".to_owned()));
    }
}
