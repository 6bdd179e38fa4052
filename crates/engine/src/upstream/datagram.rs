//! Endpoints of datagrams: choosing one, and a socket of one's own towards it.
//!
//! Owns: the tries until there is a socket, and what a session that is over says of its endpoint.
//! Never: speaks; whether anybody listens is known once datagrams were sent.
//! Driven by: sessions of datagrams.
//! Why beside `attempt`: no connection is opened and nothing is waited for, so most of that loop would have nothing to do.
//! What is chosen, counted, noted and tried again is by the same code.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, RawFd};

use weir_expr::settings::ProxyProtocol;
use weir_plan::{Address, Template};
use weir_policy::pool::{Lease, Turnover};
use weir_policy::retry::{Failure, Retry, RetryPolicy};
use weir_rt::UdpSocket;
use weir_telemetry::AttemptEnd;

use super::attempt::{Failed, gave_up, note_failure, refused};
use super::connect::{is_ours, local_address, proxy_header};
use super::picker::{Picked, Picker, Stuck};
use super::target::Destination;
use crate::exchange::{Ending, Phase, Session, errors};
use crate::upstream::Unanswered;
use crate::worker::Installed;
use crate::worker::count::Attempting;

/// How endpoints of datagrams are reached.
pub(crate) struct DatagramReach<'a> {
    /// What is tried again.
    pub(crate) retry: RetryPolicy,
    /// The local address to send from.
    pub(crate) bind: Option<&'a Template>,
    /// It may be an address of another machine.
    pub(crate) transparent: bool,
    /// PROXY header before the first datagram.
    pub(crate) send_proxy: Option<ProxyProtocol>,
    /// Descriptors from here on are for others.
    pub(crate) kept_back: RawFd,
}

/// An endpoint with a socket towards it.
pub(crate) struct DatagramPeer {
    /// The socket.
    pub(crate) socket: UdpSocket,
    /// The attempt, in flight.
    pub(crate) counted: Attempting,
    lease: Option<Lease>,
}

impl DatagramReach<'_> {
    /// Finds an endpoint. With it comes what goes before the first datagram.
    ///
    /// # Errors
    /// nginx's session status; what there is to say was logged.
    pub(crate) async fn connect(
        &self,
        session: &mut Session,
        installed: &Installed,
        destination: Destination,
    ) -> Result<(DatagramPeer, Vec<u8>), u16> {
        let mut picker = Picker::new(session, destination, self.retry);
        loop {
            let picked = match picker.next(session, installed) {
                Ok(picked) => Ok(picked),
                Err(Stuck::Refused(refusal)) => Err(refusal),
                Err(Stuck::Full(wanted)) => Box::pin(picker.queue(session, installed, wanted)).await,
            };
            let picked = picked.map_err(|refusal| status(&refused(session, &refusal)))?;
            let counters = &session.worker.counters;
            let mut counted = counters.attempt(picked.pool, picked.key, session.now());
            let failed = match self.open(session, &picked) {
                Ok(socket) => {
                    counted.connecting();
                    if let Some(record) = session.attempts.last_mut() {
                        record.connect = Some(std::time::Duration::ZERO);
                    }
                    let version = picked.endpoint().and_then(|one| one.send_proxy).or(self.send_proxy);
                    let ahead = version.map(|version| {
                        proxy_header(version, session.client_source(), session.client.destination(), true)
                    });
                    let peer = DatagramPeer { socket, counted, lease: picker.succeeded() };
                    return Ok((peer, ahead.unwrap_or_default()));
                }
                Err(Fault::Own(why)) => {
                    counted.own_fault();
                    errors::server_error(session, &why);
                    session.ending = Ending::Resource(Phase::Connect);
                    return Err(500);
                }
                Err(Fault::Endpoint(why)) => Failed { failure: Failure::Connect, sent: false, why },
            };
            let retry = picker.failed(session, installed, failed.failure, failed.sent, true);
            counted.end(AttemptEnd::ConnectError, session);
            note_failure(session, &failed, retry);
            match retry {
                Retry::Next => counted.retried(false),
                Retry::Same | Retry::Fresh | Retry::No => {
                    return Err(status(&gave_up(session, failed.failure)));
                }
            }
        }
    }

    fn open(&self, session: &Session, picked: &Picked) -> Result<UdpSocket, Fault> {
        let (Address::Tcp(to) | Address::Udp(to)) = picked.address else {
            return Err(Fault::Endpoint("a unix socket takes no datagrams from here".into()));
        };
        let local = self.bind.map(|template| crate::eval::text(session, template));
        if let Some(why) = session.slots.take_doubt() {
            return Err(Fault::Own(why.to_string()));
        }
        let local: Option<SocketAddr> = local.as_deref().and_then(local_address);
        let socket = UdpSocket::connect(to, local, self.transparent).map_err(|error| {
            let why = errors::system(&error);
            match is_ours(&error) || error.kind() == ErrorKind::AddrInUse {
                true => Fault::Own(format!("cannot send to an endpoint: {why}")),
                false => Fault::Endpoint(format!("connect() failed ({why}) while connecting to upstream")),
            }
        })?;
        if socket.as_fd().as_raw_fd() >= self.kept_back {
            return Err(Fault::Own("few descriptors are left: a session of datagrams is refused".into()));
        }
        Ok(socket)
    }
}

/// Why there is no socket.
enum Fault {
    /// The endpoint's.
    Endpoint(String),
    /// Our own, or our system's.
    Own(String),
}

fn status(unanswered: &Unanswered) -> u16 {
    match unanswered {
        Unanswered::Status(_) => 502,
        Unanswered::Own => 500,
        Unanswered::Gone => 200,
    }
}

impl DatagramPeer {
    /// The session ended well.
    pub(crate) fn succeeded(&mut self, session: &mut Session) {
        self.counted.end(AttemptEnd::Answer(0), session);
        if let Some(lease) = self.lease.take() {
            lease.succeed();
        }
    }

    /// The endpoint is not there, or owes answers: that counts against it.
    pub(crate) fn failed(&mut self, session: &mut Session) {
        self.counted.end(AttemptEnd::ResponseError, session);
        let Some(lease) = self.lease.take() else { return };
        let endpoint = lease.key();
        if lease.fail(session.worker.millis()) == Turnover::Disabled {
            super::picker::note_unavailable(session, endpoint);
            errors::endpoint_disabled(session);
        }
    }
}
