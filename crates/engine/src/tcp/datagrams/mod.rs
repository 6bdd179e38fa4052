//! Services of datagrams: a bound socket, and the sessions of those who send to it.
//!
//! Owns: which session a datagram belongs to (by its client's address and the one it asked); bounds on both.
//! Never: reads the network; `entry::datagrams` does, and hands over what came. Never: looks at the bytes.
//! Driven by: `entry::datagrams`; each session is a task ([`session`]) that answers through the socket by itself.
//! Why sessions in tasks: they wait for limits, names and endpoints like those of TCP, with the same code.
//!
//! ```text
//!   socket ──> Hub::take ──> Inbox of its session ──> endpoint       a socket of its own for each session, connected:
//!   socket <───────────────────────── session <────── endpoint      so the endpoint's answers find their client
//! ```

mod inbox;
mod session;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::rc::Rc;

use weir_rt::{Batch, Datagram, UdpSocket};

pub(crate) use inbox::Inbox;
pub(crate) use session::serve;

use crate::worker::race::Signal;

/// Sessions of one socket at once. Each has a descriptor, too, which bounds them first in most places.
const MOST_SESSIONS: usize = 1 << 16;

/// Bytes that wait in all sessions of a socket: what comes beyond is dropped, as by a full socket.
const MOST_WAITING: usize = 16 << 20;

/// Who talks to whom: the client, and the address it asked where the socket has many.
pub(crate) type Pair = (SocketAddr, Option<IpAddr>);

/// A bound socket with its sessions.
pub(crate) struct Hub {
    /// The socket.
    pub(crate) socket: UdpSocket,
    /// What was read last, from the socket or from an endpoint.
    pub(crate) batch: RefCell<Batch>,
    /// The socket is given up: sessions end.
    pub(crate) stop: Signal,
    /// From here on descriptors are kept back.
    pub(crate) kept_back: RawFd,
    sessions: RefCell<HashMap<Pair, Rc<Inbox>, ahash::RandomState>>,
    waiting: Rc<Cell<usize>>,
}

/// What becomes of a datagram.
pub(crate) enum Taken {
    /// A session has it, or it was dropped for want of room.
    Done,
    /// It begins a session.
    New,
    /// There is no room for a session.
    Full,
}

impl Hub {
    /// A socket without sessions.
    pub(crate) fn new(socket: UdpSocket, kept_back: RawFd) -> Self {
        Self {
            socket,
            batch: RefCell::default(),
            stop: Signal::default(),
            kept_back,
            sessions: RefCell::default(),
            waiting: Rc::default(),
        }
    }

    /// Hands a datagram to its session, if there is one.
    pub(crate) fn take(&self, datagram: &Datagram<'_>) -> Taken {
        let pair = (datagram.from, datagram.to);
        let mut sessions = self.sessions.borrow_mut();
        let Some(inbox) = sessions.get(&pair) else {
            return if sessions.len() < MOST_SESSIONS { Taken::New } else { Taken::Full };
        };
        if self.waiting.get() + datagram.data.len() <= MOST_WAITING && inbox.push(datagram.data) {
            // It was the last of this session: the next one begins another, while this one may wait for answers.
            sessions.remove(&pair);
        }
        Taken::Done
    }

    /// Begins a session with its first datagram; after `most` of them it gets no more.
    pub(crate) fn open(self: &Rc<Self>, datagram: &Datagram<'_>, most: Option<u64>) -> Seat {
        let pair = (datagram.from, datagram.to);
        let inbox = Rc::new(Inbox::new(most, self.waiting.clone()));
        if !inbox.push(datagram.data) {
            self.sessions.borrow_mut().insert(pair, inbox.clone());
        }
        Seat { hub: self.clone(), pair, inbox }
    }

    /// Sessions that get what their clients send.
    pub(crate) fn count(&self) -> usize {
        self.sessions.borrow().len()
    }
}

/// A session's place at its socket. It goes with this, however the session ends.
pub(crate) struct Seat {
    /// The socket.
    pub(crate) hub: Rc<Hub>,
    /// Whose it is.
    pub(crate) pair: Pair,
    /// What its client sent.
    pub(crate) inbox: Rc<Inbox>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut sessions = self.hub.sessions.borrow_mut();
        // The next session of the same client has its own.
        if sessions.get(&self.pair).is_some_and(|inbox| Rc::ptr_eq(inbox, &self.inbox)) {
            sessions.remove(&self.pair);
        }
    }
}
