//! Connections to endpoints that carry an attempt at this moment.
//!
//! Owns: which they are, for which client, and why one was cut.
//! Never: keeps one open; never ends an exchange itself: who reads or writes a connection that was cut is told by an error.
//! Driven by: attempts, which enter once they are connected; `Command::Cut` and `Command::Standing`.
//! Why: long sessions at an endpoint that went down would otherwise stay there until their own timeouts.

use std::cell::RefCell;
use std::rc::Rc;

use slab::Slab;
use weir_control::{EndpointKey, PoolId};
use weir_rt::{Cutter, Instant, Stream};

/// Why a connection was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Its endpoint went down.
    Down,
    /// Its endpoint was a substitute for one that came up.
    Up,
    /// An operator asked for it.
    Killed,
}

/// The connections of a worker.
#[derive(Default)]
pub(crate) struct Links(RefCell<Slab<Link>>);

struct Link {
    carried: Carried,
    cutter: Cutter,
    cut: Option<Cut>,
}

/// What such a connection is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    /// Serial number of the client's connection.
    pub(crate) client: u64,
    /// The pool that the endpoint was chosen from.
    pub(crate) pool: PoolId,
    /// The endpoint.
    pub(crate) endpoint: EndpointKey,
    /// When it was connected.
    pub(crate) since: Instant,
}

impl Links {
    /// Notes a connection, until what this returns is dropped.
    pub(crate) fn enter(self: &Rc<Self>, carried: Carried, socket: &Stream) -> Seat {
        let at = self.0.borrow_mut().insert(Link { carried, cutter: socket.cutter(), cut: None });
        Seat { links: self.clone(), at }
    }

    /// What they are for.
    pub(crate) fn carried(&self) -> Vec<Carried> {
        self.0.borrow().iter().map(|(_, link)| link.carried).collect()
    }

    /// Cuts the connections to those endpoints for which there is a reason.
    pub(crate) fn cut(&self, why: impl Fn(EndpointKey) -> Option<Cut>) {
        for (_, link) in self.0.borrow_mut().iter_mut().filter(|(_, link)| link.cut.is_none()) {
            link.cut = why(link.carried.endpoint);
            if link.cut.is_some() {
                link.cutter.cut();
            }
        }
    }
}

/// A connection's place among them.
pub(crate) struct Seat {
    links: Rc<Links>,
    at: usize,
}

impl Seat {
    /// Why it was cut, if it was.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.links.0.borrow().get(self.at).and_then(|link| link.cut)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.links.0.borrow_mut().try_remove(self.at);
    }
}
