//! Facts about a client's connection that do not change while it lives.
//!
//! Owns: addresses, PROXY header, TLS facts, counters of the connection.
//! Never: keeps the socket open.
//! Driven by: `accept` (fills), variables and logs (read).

use std::cell::{Cell, OnceCell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use weir_control::ListenerId;
use weir_expr::settings::ClientSettings;
use weir_rt::{Cutter, Instant, PeerAddr};

use super::sticks::ConnectionSticks;
use super::tls_facts::TlsFacts;
use crate::worker::Worker;
use crate::worker::roll::{Called, Caller};

/// A client's connection.
pub(crate) struct Client {
    /// Serial number in the process.
    pub(crate) serial: u64,
    /// The peer.
    pub(crate) peer: PeerAddr,
    /// The own address.
    pub(crate) local: Rc<PeerAddr>,
    /// What a PROXY header told.
    pub(crate) proxied: Option<Box<ToldAddresses>>,
    /// TLS facts; `None` without TLS.
    pub(crate) tls: Option<Box<TlsFacts>>,
    /// It speaks plain HTTP where TLS is due: it is told so, and no more.
    pub(crate) speaks_plain: bool,
    /// Where it arrived.
    pub(crate) listener: ListenerId,
    /// How often a service handed it to another listener.
    pub(crate) passes: u8,
    /// When it was accepted.
    pub(crate) accepted: Instant,
    /// Microseconds from accept to the end of handshakes.
    handshake: Cell<u32>,
    /// Requests so far.
    pub(crate) requests: Cell<u64>,
    /// By which the kernel is asked about it. A client of QUIC or datagrams has no such socket.
    pub(crate) socket: OnceCell<Cutter>,
    /// Who a rule takes it for.
    pub(crate) moved: Cell<Option<(IpAddr, u16)>>,
    /// A rule expects a PROXY header of it.
    pub(crate) expects_proxy: Cell<bool>,
    /// Where a rule takes it to want to go.
    pub(crate) meant: Cell<Option<(IpAddr, u16)>>,
    /// What rules keep as long as it lives, by name.
    pub(crate) kept: OnceCell<Box<KeptOfClient>>,
    /// What rules track in stick tables as long as it lives.
    pub(crate) sticks: OnceCell<ConnectionSticks>,
}

/// Values by their names. There are as many as the configuration names.
pub(crate) type KeptOfClient = RefCell<Vec<(Box<str>, Vec<u8>)>>;

/// Addresses told by a PROXY header.
pub(crate) struct ToldAddresses {
    /// The client's.
    pub(crate) source: SocketAddr,
    /// The one it connected to.
    pub(crate) destination: SocketAddr,
    /// Further fields of a header of version 2, as they came.
    pub(crate) tlvs: Box<[u8]>,
    /// The source is the client without being asked for (HAProxy `accept-proxy`). nginx takes it by `real_ip_header
    /// proxy_protocol` from trusted peers only.
    pub(crate) believed: bool,
}

impl Client {
    /// A connection that was just accepted.
    pub(crate) fn new(worker: &Worker, peer: PeerAddr, local: Rc<PeerAddr>, listener: ListenerId) -> Self {
        Self {
            serial: worker.shared.next_serial(),
            peer,
            local,
            proxied: None,
            tls: None,
            speaks_plain: false,
            listener,
            passes: 0,
            accepted: worker.now(),
            handshake: Cell::new(0),
            requests: Cell::new(0),
            socket: OnceCell::new(),
            moved: Cell::new(None),
            expects_proxy: Cell::new(false),
            meant: Cell::new(None),
            kept: OnceCell::new(),
            sticks: OnceCell::new(),
        }
    }

    /// Whether it has carried as many requests, or lived as long, as its settings allow.
    pub(crate) fn has_served_its_time(&self, settings: &ClientSettings, now: Instant) -> bool {
        settings.keepalive_requests.is_some_and(|most| self.requests.get() >= most)
            || settings
                .keepalive_time
                .is_some_and(|most| now.saturating_duration_since(self.accepted) >= most)
    }

    /// When it was accepted, since 1970.
    pub(crate) fn accepted_unix(&self) -> Duration {
        weir_rt::unix_now().saturating_sub(weir_rt::now().saturating_duration_since(self.accepted))
    }

    /// Time from accept to the end of handshakes.
    pub(crate) fn handshake(&self) -> Duration {
        Duration::from_micros(self.handshake.get().into())
    }

    /// Handshakes are done, now.
    pub(crate) fn end_handshakes(&self) {
        let took = weir_rt::now().saturating_duration_since(self.accepted);
        self.handshake.set(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
    }

    /// Address and port the client is believed to have, before real-IP rules: the peer's, or where it is believed the
    /// PROXY header's.
    pub(crate) fn source(&self) -> Option<(IpAddr, u16)> {
        if let Some(moved) = self.moved.get() {
            return Some(moved);
        }
        let proxied = self.proxied.as_ref().filter(|told| told.believed).map(|told| told.source);
        let addr = proxied.or_else(|| self.peer.inet())?;
        Some((addr.ip().to_canonical(), addr.port()))
    }

    /// Address and port the client came to: the own ones, or where a PROXY header is believed those that it tells. nginx
    /// believes none in this (`$proxy_protocol_server_addr` shows it).
    pub(crate) fn destination(&self) -> Option<(IpAddr, u16)> {
        if let Some(meant) = self.meant.get() {
            return Some(meant);
        }
        let told = self.proxied.as_ref().filter(|told| told.believed).map(|told| told.destination);
        told.map_or_else(|| self.own_end(), |told| Some(ends_at(told)))
    }

    /// Address and port of the far end of the connection, unless a rule on connections has set them.
    pub(crate) fn far_end(&self) -> Option<(IpAddr, u16)> {
        self.moved.get().or_else(|| self.peer.inet().map(ends_at))
    }

    /// Address and port of the own end of the connection.
    pub(crate) fn own_end(&self) -> Option<(IpAddr, u16)> {
        self.local.inet().map(ends_at)
    }
}

impl Caller for Client {
    fn serial(&self) -> u64 {
        self.serial
    }

    fn describe(&self) -> Called {
        Called {
            serial: self.serial,
            source: self.source().map(Into::into),
            destination: self.destination().map(Into::into),
            listener: self.listener,
            tls: self.tls.is_some(),
            accepted: self.accepted,
            requests: self.requests.get(),
        }
    }
}

fn ends_at(addr: SocketAddr) -> (IpAddr, u16) {
    (addr.ip().to_canonical(), addr.port())
}
