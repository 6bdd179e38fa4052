//! Sockets on which an operator gives commands while running (HAProxy's `stats socket`).
//!
//! Owns: a thread for each such socket, one for each connection, their bounds and times.
//! Never: understands a command: `weir_admin::cli` does; binds a socket.
//! Driven by: `adapter`, with each configuration, in the process that carries the traffic, with its rights.
//! Why: threads of their own, because a change waits for all workers, and because commands must be answered while those are
//! busy. They are few, and idle.

mod descriptors;
mod plus;
mod runtime;
mod sticks;

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketFlags, SocketType, accept_with, sockopt};
use weir_admin::cli::{Follow, Level, Session, lines_of};
use weir_expr::settings::{ControlLevel, ControlPurpose};
use weir_plan::Control;

use crate::life::bell::Bell;
use crate::life::hand_over;
use crate::plane::ListenerSockets;
pub(crate) use runtime::Runtime;

/// How often a socket whose connections are all taken is looked at again.
const FULL: Duration = Duration::from_millis(50);

/// The sockets of the configuration that serves.
pub(crate) struct Console {
    runtime: Arc<Runtime>,
    open: Mutex<Option<Arc<Bell>>>,
    connections: Arc<AtomicUsize>,
}

/// What a socket's connections get.
#[derive(Clone)]
struct Terms {
    level: Level,
    /// What listens, if it is given away here. Listeners that have left the configuration meanwhile are closed.
    exposed: Option<Arc<[Weak<OwnedFd>]>>,
    timeout: Duration,
    most: usize,
}

impl Console {
    pub(crate) fn new(runtime: Arc<Runtime>) -> Self {
        Self { runtime, open: Mutex::new(None), connections: Arc::default() }
    }

    /// Answers on these sockets from now on, and on no others. Connections that are open go on.
    pub(crate) fn open(
        &self,
        control: &Control,
        (listeners, sockets): (&[ListenerSockets], &[ListenerSockets]),
    ) -> io::Result<()> {
        self.close();
        self.runtime.set_sockets(&control.sockets);
        if control.sockets.is_empty() {
            return Ok(());
        }
        let bell = Arc::new(Bell::new()?);
        let listening =
            listeners.iter().flat_map(|one| &one.sockets).map(|socket| Arc::downgrade(&socket.fd));
        let listening: Arc<[_]> = listening.collect();
        for (socket, opened) in control.sockets.iter().zip(sockets) {
            let Some(first) = opened.sockets.first() else { continue };
            if socket.purpose != ControlPurpose::Commands {
                continue;
            }
            let terms = Terms {
                level: level(socket.level),
                exposed: socket.exposes.then(|| listening.clone()),
                timeout: control.timeout,
                most: control.connections as usize,
            };
            let (fd, bell) = (first.fd.try_clone()?, bell.clone());
            let (runtime, connections) = (self.runtime.clone(), self.connections.clone());
            std::thread::Builder::new()
                .name("console".into())
                .spawn(move || accept(&fd, &bell, &terms, &runtime, &connections))?;
        }
        *self.held() = Some(bell);
        Ok(())
    }

    /// Accepts nothing more.
    pub(crate) fn close(&self) {
        if let Some(bell) = self.held().take() {
            bell.ring();
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<Arc<Bell>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.close();
    }
}

fn level(level: ControlLevel) -> Level {
    match level {
        ControlLevel::User => Level::User,
        ControlLevel::Operator => Level::Operator,
        ControlLevel::Admin => Level::Admin,
    }
}

/// Takes connections until the bell rings.
fn accept(
    socket: &OwnedFd,
    bell: &Bell,
    terms: &Terms,
    runtime: &Arc<Runtime>,
    connections: &Arc<AtomicUsize>,
) {
    loop {
        let full = connections.load(Ordering::Relaxed) >= terms.most;
        let mut fds =
            [PollFd::from_borrowed_fd(bell.as_fd(), PollFlags::IN), PollFd::new(socket, PollFlags::IN)];
        let pause = Timespec { tv_sec: 0, tv_nsec: FULL.as_nanos() as i64 };
        let watched = if full { &mut fds[..1] } else { &mut fds[..] };
        let _ = poll(watched, full.then_some(&pause));
        if !fds[0].revents().is_empty() {
            return;
        }
        if full || fds[1].revents().is_empty() {
            continue;
        }
        match accept_with(socket, SocketFlags::CLOEXEC) {
            Ok(stream) => {
                let counted = Counted::new(connections);
                let (runtime, terms) = (runtime.clone(), terms.clone());
                let talk = move || {
                    let _counted = counted;
                    // Whoever leaves, or says too much, ends the conversation.
                    let _ = converse(stream.into(), &terms, &runtime);
                };
                let _ = std::thread::Builder::new().name("console".into()).spawn(talk);
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {}
            // Without descriptors, or whatever else it is: not at once again.
            Err(_) => std::thread::sleep(FULL),
        }
    }
}

/// A connection that counts for as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(connections: &Arc<AtomicUsize>) -> Self {
        connections.fetch_add(1, Ordering::Relaxed);
        Self(connections.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How often a client that is shown lines is looked at for whether it wants more.
const STILL_THERE: Duration = Duration::from_millis(200);

/// Shows lines as they come until the client says anything (true) or leaves.
fn show_as_it_comes(stream: &mut UnixStream, follow: Follow) -> io::Result<bool> {
    let Follow { ring, mut from } = follow;
    let mut byte = [0_u8; 1];
    loop {
        let (lines, next) = ring.read(from, 64 << 10, STILL_THERE);
        from = next;
        stream.write_all(lines_of(&lines).as_bytes())?;
        let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
        match rustix::net::recv(&*stream, &mut byte, flags) {
            Ok((_, 0)) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn converse(mut stream: UnixStream, terms: &Terms, runtime: &Runtime) -> io::Result<()> {
    let mut session = Session::new(terms.level, terms.timeout).exposing(terms.exposed.is_some());
    stream.set_nonblocking(false)?;
    let mut bytes = vec![0; 16 << 10];
    loop {
        while let Some(reply) = session.next_reply(runtime) {
            stream.set_write_timeout(Some(session.timeout()))?;
            stream.write_all(reply.text.as_bytes())?;
            if reply.gives_sockets {
                return hand_over::give(&mut stream, &exposed(terms));
            }
            if let Some(follow) = reply.follow
                && !show_as_it_comes(&mut stream, follow)?
            {
                return Ok(());
            }
            if let Some(time) = reply.wait {
                std::thread::sleep(time);
            }
            if reply.ends {
                return Ok(());
            }
        }
        stream.set_read_timeout(Some(session.timeout()))?;
        match stream.read(&mut bytes) {
            Ok(0) => session.end(),
            Ok(count) => session
                .feed(&bytes[..count])
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a command is too long"))?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Listening TCP sockets, for somebody who asked for them. Unix sockets stay here: who replaces us makes files of his own in
/// place of ours.
fn exposed(terms: &Terms) -> Vec<Arc<OwnedFd>> {
    let is_tcp = |fd: &Arc<OwnedFd>| {
        sockopt::socket_type(fd).is_ok_and(|kind| kind == SocketType::STREAM)
            && matches!(weir_rt::listen_addr(fd.as_fd()), Ok(weir_rt::PeerAddr::Inet(_)))
    };
    terms.exposed.iter().flat_map(|all| all.iter()).filter_map(Weak::upgrade).filter(is_tcp).collect()
}
