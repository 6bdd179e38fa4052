//! A session of a TCP service.
//!
//! Owns: what is known of it beside what requests have, too: bytes, status, what its first bytes say.
//! Never: has a request, a site or a route, nor anything that stands for them.
//! Driven by: `tcp`.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use weir_http::hello::Hello;
use weir_plan::{TcpIx, TcpService};

use super::Client;
use super::core::Core;
use crate::worker::{Installed, Worker};

/// A session of a TCP service.
pub(crate) struct Session {
    /// What it has in common with requests.
    core: Core,
    /// The service.
    pub(crate) tcp: TcpIx,
    /// It carries datagrams.
    pub(crate) datagrams: bool,
    /// What its first bytes say, where rules asked for it.
    pub(crate) peeked: Option<Peeked>,
    /// The first bytes of the endpoint, where rules look at them.
    pub(crate) answered: Option<Box<[u8]>>,
    /// nginx's session status: 200, 403, 502 …; 0 before it has one.
    pub(crate) status: u16,
    /// Bytes from the client.
    pub(crate) received: u64,
    /// Bytes to the client.
    pub(crate) sent: u64,
}

/// What a session's first bytes say.
pub(crate) struct Peeked {
    /// They themselves.
    pub(crate) bytes: Box<[u8]>,
    /// The hello, if they are one.
    pub(crate) hello: Option<Hello>,
}

impl Session {
    /// A session that has not begun.
    pub(crate) fn new(worker: Rc<Worker>, installed: Rc<Installed>, client: Rc<Client>, tcp: TcpIx) -> Self {
        let core = Core::new(worker, installed, client);
        Self { core, tcp, datagrams: false, peeked: None, answered: None, status: 0, received: 0, sent: 0 }
    }

    /// It is counted in the zone of its service from now on, if that has one.
    pub(crate) fn enter_zone(&mut self) {
        if let Some(zone) = self.service().zone {
            self.zone = Some(self.worker.counters.enter_zone(zone));
        }
    }

    /// Its service.
    pub(crate) fn service(&self) -> &TcpService {
        self.installed.plan.tcp_service(self.tcp)
    }
}

impl Deref for Session {
    type Target = Core;

    #[inline]
    fn deref(&self) -> &Core {
        &self.core
    }
}

impl DerefMut for Session {
    #[inline]
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}
