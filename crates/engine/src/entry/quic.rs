//! Reading the datagrams of QUIC, and beginning its connections.
//!
//! Owns: one endpoint a bound socket; who is let in, and who has to show first where it is.
//! Never: reads a stream.
//! Driven by: the worker, which starts and ends loops by difference when a plan is installed.
//! Why a loop that was ended reads on: the connections of a socket are heard by it alone. It accepts nothing more, and ends with
//! the last of them.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use weir_expr::settings::Quic;
use weir_plan::Service;
use weir_rt::{
    Batch, ClientHello, PeerAddr, QuicConnection, QuicEndpoint, QuicEvent, QuicFacts, QuicIncoming,
    QuicServer, QuicSettings, Timer, UdpSocket, cid_place,
};

use super::accept::is_full;
use super::complaints::{Complaints, PAUSE};
use super::datagrams::asked;
use crate::exchange::{Client, TlsFacts, Verified};
use crate::worker::Worker;
use crate::worker::command::SocketKey;
use crate::worker::connection_counts::CountedConnection;
use crate::worker::lasting;
use crate::worker::prepared::Prepared;
use crate::worker::quic::Strayed;
use crate::worker::race::{Either, Signal, race};

/// So many handshakes at once of clients that may be anywhere; others then have to show where they are.
const UNVALIDATED: usize = 256;
/// So many handshakes at once, whoever begins them.
const HANDSHAKES: usize = 1024;
/// A transport is not given up before this, however short keep-alive is: answers may take long.
const LEAST_IDLE: Duration = Duration::from_secs(75);

/// Whether what comes by this socket is QUIC.
pub(super) fn is_spoken(worker: &Rc<Worker>, key: SocketKey) -> bool {
    let found = worker.for_listener(key.listener);
    found.is_some_and(|(installed, ix, _)| installed.plan.listener(ix).quic.is_some())
}

/// One bound socket being read from.
pub(crate) struct QuicLoop {
    key: SocketKey,
    place: u16,
    endpoint: Rc<QuicEndpoint>,
    local: Rc<PeerAddr>,
    batch: RefCell<Batch>,
    /// What connections begin with under a plan.
    server: RefCell<(Arc<Prepared>, QuicServer)>,
    stop: Signal,
    /// A connection has ended since it was stopped.
    ended: Rc<Signal>,
    handshakes: Rc<Cell<usize>>,
    complaints: Complaints,
}

impl QuicLoop {
    /// Begins to read.
    ///
    /// # Errors
    /// The socket cannot be used.
    pub(crate) fn start(worker: &Rc<Worker>, key: SocketKey, fd: OwnedFd) -> std::io::Result<Rc<Self>> {
        let socket = UdpSocket::from_fd(fd)?;
        let local = Rc::new(PeerAddr::Inet(socket.local_addr()?));
        let gone = || std::io::Error::other("its listener is gone");
        let made = server(worker, key).ok_or_else(gone)?;
        // Sockets are numbered through; two of them that are open at once never differ by this much.
        let place = (key.id & 0xffff) as u16;
        let endpoint = QuicEndpoint::new(socket, place, worker.shared.quic.keys()?, &made.1)?;
        let one = Rc::new(Self {
            key,
            place,
            endpoint: Rc::new(endpoint),
            local,
            batch: RefCell::new(Batch::new()),
            server: RefCell::new(made),
            stop: Signal::default(),
            ended: Rc::default(),
            handshakes: Rc::default(),
            complaints: Complaints::default(),
        });
        let (sender, mut strayed) = weir_rt::mailbox();
        worker.shared.quic.take(place, sender);
        weir_rt::spawn(one.clone().keep_on(worker.clone()));
        let (taker, of) = (Rc::downgrade(&one), worker.clone());
        weir_rt::spawn(async move {
            while let Some(Strayed { data, from, to }) = strayed.recv().await {
                let Some(one) = taker.upgrade() else { return };
                one.take(&of, &data, from, to, true);
            }
        });
        Ok(one)
    }

    /// Accepts nothing more. What was accepted is heard until it ends.
    pub(crate) fn end(&self) {
        self.stop.set();
    }

    async fn keep_on(self: Rc<Self>, worker: Rc<Worker>) {
        let note = |payload: &_| worker.shared.note_panic("reading datagrams", payload);
        lasting::task(note, || self.run(&worker)).await;
        worker.shared.quic.leave(self.place);
    }

    async fn run(&self, worker: &Rc<Worker>) {
        loop {
            if self.stop.is_set() {
                if self.endpoint.connections() == 0 {
                    return;
                }
                self.ended.clear();
                if let Either::Left(()) = race(self.ended.wait(), self.endpoint.socket().readable()).await {
                    continue;
                }
            } else if let Either::Left(()) = race(self.stop.wait(), self.endpoint.socket().readable()).await {
                continue;
            }
            if let Err(error) = self.read(worker) {
                self.complaints.say(worker, || format!("reading datagrams failed: {error}"));
                let _ = race(self.stop.wait(), weir_rt::sleep(PAUSE)).await;
            }
        }
    }

    /// Takes what has arrived.
    fn read(&self, worker: &Rc<Worker>) -> std::io::Result<()> {
        let mut batch = self.batch.borrow_mut();
        if self.endpoint.socket().try_recv(&mut batch)?.is_some() {
            for datagram in batch.iter() {
                self.take(worker, datagram.data, datagram.from, datagram.to, false);
            }
        }
        Ok(())
    }

    fn take(
        &self,
        worker: &Rc<Worker>,
        data: &[u8],
        from: std::net::SocketAddr,
        to: Option<std::net::IpAddr>,
        forwarded: bool,
    ) {
        if !forwarded
            && let Some(place) = cid_place(data).filter(|&place| place != self.place)
            && worker.shared.quic.forward(place, || Strayed { data: data.into(), from, to })
        {
            return;
        }
        if let Some(incoming) = self.endpoint.take(data, from, to) {
            self.begin(worker, incoming, from, to);
        }
    }

    /// What connections begin with now.
    fn server(&self, worker: &Rc<Worker>) -> Option<(QuicServer, Quic)> {
        let (installed, ix, _) = worker.for_listener(self.key.listener)?;
        let quic = installed.plan.listener(ix).quic?;
        if !Arc::ptr_eq(&self.server.borrow().0, &installed.prepared) {
            let made = server(worker, self.key)?;
            self.endpoint.set_server(&made.1);
            *self.server.borrow_mut() = made;
        }
        Some((self.server.borrow().1.clone(), quic))
    }

    fn begin(
        &self,
        worker: &Rc<Worker>,
        incoming: QuicIncoming,
        from: std::net::SocketAddr,
        to: Option<std::net::IpAddr>,
    ) {
        assert!(!worker.takes_injected_accept_panic(), "a test asked for this panic");
        let Some((server, quic)) = self.server(worker).filter(|_| !self.stop.is_set()) else {
            return self.endpoint.refuse(incoming);
        };
        let handshakes = self.handshakes.get();
        if !incoming.is_validated() && (quic.retry || handshakes >= UNVALIDATED) {
            return self.endpoint.retry(incoming);
        }
        if handshakes >= HANDSHAKES || is_full(worker, self.key.listener) {
            self.complaints
                .say(worker, || format!("a limit is reached: QUIC refuses ({handshakes} handshakes)"));
            return self.endpoint.refuse(incoming);
        }
        let Some((installed, ix, _)) = worker.for_listener(self.key.listener) else {
            return self.endpoint.refuse(incoming);
        };
        let Some(connection) = self.endpoint.accept(incoming, &server) else { return };
        let listener = installed.plan.listener(ix);
        let counted = CountedConnection::new(worker, worker.connection_counts(&installed, listener));
        let local = asked(&self.local, to);
        let client = Client::new(worker, PeerAddr::Inet(from), local, self.key.listener);
        let live = Live { ended: self.ended.clone(), handshakes: Some(self.handshakes.clone()) };
        self.handshakes.set(handshakes + 1);
        weir_rt::spawn(serve(worker.clone(), counted, connection, client, live));
    }
}

/// A connection that the loop knows of.
struct Live {
    ended: Rc<Signal>,
    /// Among those whose handshake is under way.
    handshakes: Option<Rc<Cell<usize>>>,
}

impl Live {
    fn shake(&mut self) {
        if let Some(count) = self.handshakes.take() {
            count.set(count.get() - 1);
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.shake();
        self.ended.set();
    }
}

/// What connections of a listener begin with under the plan that there is.
fn server(worker: &Rc<Worker>, key: SocketKey) -> Option<(Arc<Prepared>, QuicServer)> {
    let (installed, ix, _) = worker.for_listener(key.listener)?;
    let listener = installed.plan.listener(ix);
    let (quic, Service::Http(hosts)) = (listener.quic?, &listener.service) else { return None };
    let keepalive = installed.plan.site(hosts.default_value()).client.keepalive_timeout;
    let settings = QuicSettings {
        idle: keepalive.unwrap_or_default().max(LEAST_IDLE),
        streams: quic.streams,
        stream_buffer: u32::try_from(quic.stream_buffer).unwrap_or(u32::MAX),
        segments: quic.segments,
    };
    let (tls, prepared) = (listener.tls.clone()?, installed.prepared.clone());
    let choose = move |hello: &ClientHello| {
        // As over TCP (`handshake`).
        let name = hello.server_name.as_deref().unwrap_or_default();
        let found = tls.by_name.lookup(name.as_bytes()).ok()?;
        let identity = prepared.plan.tls_identity(found.value);
        if found.is_default && tls.strict_sni && !identity.select_by_certificate_names {
            return None;
        }
        prepared.tls.now().server(ix, found.value).cloned()
    };
    let keys = worker.shared.quic.keys().ok()?;
    Some((installed.prepared.clone(), QuicServer::new(&settings, keys, choose)))
}

/// Serves a connection from its handshake to its end.
async fn serve(
    worker: Rc<Worker>,
    mut counted: CountedConnection,
    quic: QuicConnection,
    mut client: Client,
    mut live: Live,
) {
    let Some((installed, ix, _)) = worker.for_listener(client.listener) else { return };
    let Service::Http(hosts) = &installed.plan.listener(ix).service else { return };
    let offers = installed.plan.notes_offers;
    let timer = Timer::new();
    timer.arm(installed.plan.site(hosts.default_value()).client.header_timeout);
    drop(installed);
    let shaken = poll_fn(|cx| {
        loop {
            match quic.poll(cx) {
                Poll::Ready(QuicEvent::Connected) => return Poll::Ready(Ok(())),
                Poll::Ready(QuicEvent::Lost(why)) => return Poll::Ready(Err(Some(why))),
                Poll::Ready(QuicEvent::Over) => return Poll::Ready(Err(None)),
                Poll::Ready(_) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    });
    let shaken = timer.run(shaken).await;
    live.shake();
    let facts = match shaken {
        Ok(Ok(())) => quic.facts(),
        Ok(Err(why)) => {
            worker.counters.handshake_failed(client.listener);
            let why = why.unwrap_or_else(|| "the client went away".to_owned());
            worker.shared.logs.connection(weir_telemetry::Level::Info, client.serial, &why);
            // What was said is repeated while the client still asks.
            return rest(quic).await;
        }
        Err(_) => None,
    };
    let Some(facts) = facts else { return worker.counters.handshake_failed(client.listener) };
    if facts.alpn.as_deref() != Some(weir_wire::h3::ALPN) {
        worker.counters.handshake_failed(client.listener);
        // CRYPTO_ERROR with no_application_protocol (RFC 9001 §4.8, RFC 7301 §3.2).
        quic.close(0x178, "the client speaks no HTTP/3");
        return rest(quic).await;
    }
    client.end_handshakes();
    worker.counters.handshake(client.listener, facts.resumed);
    client.tls = Some(Box::new(told(facts, offers)));
    counted.encrypt();
    crate::http::h3::serve(worker, counted, quic, Rc::new(client), timer).await;
}

/// Waits until nothing is left of a connection that has ended.
async fn rest(quic: QuicConnection) {
    poll_fn(|cx| {
        loop {
            match quic.poll(cx) {
                Poll::Ready(QuicEvent::Over) => return Poll::Ready(()),
                Poll::Ready(_) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
}

fn told(facts: QuicFacts, offers: bool) -> TlsFacts {
    let verified = match (&facts.certificate, facts.failure) {
        (None, _) => Verified::None,
        (Some(_), failure) => failure.map_or(Verified::Success, Verified::Failed),
    };
    TlsFacts {
        protocol: facts.version.name(),
        cipher: facts.cipher,
        curve: facts.group.map(Into::into).unwrap_or_default(),
        offered: offers.then(|| Box::new((facts.suites, facts.groups))),
        server_name: facts.server_name.map(Into::into),
        alpn: facts.alpn.map(Into::into),
        resumed: facts.resumed,
        verified,
        verified_by: facts.basis,
        certificate: facts.certificate.map(Into::into),
        early: None,
    }
}
