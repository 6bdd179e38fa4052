//! Reading datagrams, and beginning a session for those that belong to none.
//!
//! Owns: one loop a bound socket; what bounds sessions beside their socket's own bound.
//! Never: answers; sessions do, through the socket.
//! Driven by: the worker, which starts and ends loops by difference when a plan is installed.
//! Why no draining of what goes away: a datagram that nobody reads is lost, which its sender has to reckon with anyway.

use std::cell::Cell;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use weir_plan::{Service, TcpAction};
use weir_rt::{Datagram, PeerAddr, UdpSocket};

use super::accept::{first_kept_back, is_full};
use super::complaints::{Complaints, PAUSE};
use crate::exchange::Client;
use crate::tcp::datagrams::{Hub, Taken, serve};
use crate::worker::Worker;
use crate::worker::command::SocketKey;
use crate::worker::connection_counts::CountedConnection;
use crate::worker::lasting;
use crate::worker::race::{Either, Signal, race};

/// One bound socket being read from.
pub(crate) struct DatagramLoop {
    key: SocketKey,
    hub: Rc<Hub>,
    /// The own address of all sessions, where that is one.
    local: Rc<PeerAddr>,
    idle: Signal,
    running: Cell<bool>,
    complaints: Complaints,
}

impl DatagramLoop {
    /// Begins to read.
    ///
    /// # Errors
    /// The socket cannot be used.
    pub(crate) fn start(worker: &Rc<Worker>, key: SocketKey, fd: OwnedFd) -> std::io::Result<Rc<Self>> {
        let socket = UdpSocket::from_fd(fd)?;
        let local = Rc::new(PeerAddr::Inet(socket.local_addr()?));
        let one = Rc::new(Self {
            key,
            hub: Rc::new(Hub::new(socket, first_kept_back())),
            local,
            idle: Signal::default(),
            running: Cell::new(true),
            complaints: Complaints::default(),
        });
        weir_rt::spawn(one.clone().keep_on(worker.clone()));
        Ok(one)
    }

    /// Ends reading, and the sessions: their answers would have no way back.
    pub(crate) async fn end(&self) {
        self.hub.stop.set();
        if self.running.get() {
            self.idle.wait().await;
        }
    }

    async fn keep_on(self: Rc<Self>, worker: Rc<Worker>) {
        let note = |payload: &_| worker.shared.note_panic("reading datagrams", payload);
        lasting::task(note, || self.run(&worker)).await;
        self.running.set(false);
        self.idle.set();
    }

    async fn run(&self, worker: &Rc<Worker>) {
        while let Either::Right(()) = race(self.hub.stop.wait(), self.hub.socket.readable()).await {
            if let Err(error) = self.read(worker) {
                self.complaints.say(worker, || format!("reading datagrams failed: {error}"));
                let _ = race(self.hub.stop.wait(), weir_rt::sleep(PAUSE)).await;
            }
        }
    }

    /// Takes what has arrived.
    fn read(&self, worker: &Rc<Worker>) -> std::io::Result<()> {
        let mut batch = self.hub.batch.borrow_mut();
        if self.hub.socket.try_recv(&mut batch)?.is_some() {
            batch.iter().for_each(|datagram| self.take(worker, &datagram));
        }
        Ok(())
    }

    fn take(&self, worker: &Rc<Worker>, datagram: &Datagram<'_>) {
        match self.hub.take(datagram) {
            Taken::Done => {}
            Taken::New if !is_full(worker, self.key.listener) => self.begin(worker, datagram),
            Taken::New | Taken::Full => {
                let sessions = self.hub.count();
                self.complaints.say(worker, || {
                    format!("a limit is reached: datagrams are dropped ({sessions} sessions)")
                });
            }
        }
    }

    fn begin(&self, worker: &Rc<Worker>, datagram: &Datagram<'_>) {
        assert!(!worker.takes_injected_accept_panic(), "a test asked for this panic");
        let Some((installed, ix, _)) = worker.for_listener(self.key.listener) else { return };
        let listener = installed.plan.listener(ix);
        let Service::Tcp(tcp) = listener.service else { return };
        let most = match &installed.plan.tcp_service(tcp).action {
            TcpAction::Proxy(proxy) => proxy.datagrams.requests,
            // An answer of our own is a session of its own.
            _ => Some(1),
        };
        let counted = CountedConnection::new(worker, worker.connection_counts(&installed, listener));
        let local = asked(&self.local, datagram.to);
        let client = Client::new(worker, PeerAddr::Inet(datagram.from), local, self.key.listener);
        let seat = self.hub.open(datagram, most);
        weir_rt::spawn(serve(worker.clone(), seat, Rc::new(client), counted));
    }
}

/// The own address that a datagram was sent to, by a socket that may be bound to all of them.
pub(super) fn asked(bound: &Rc<PeerAddr>, to: Option<IpAddr>) -> Rc<PeerAddr> {
    match (to, bound.inet()) {
        (Some(to), Some(bound)) => Rc::new(PeerAddr::Inet((to, bound.port()).into())),
        _ => bound.clone(),
    }
}
