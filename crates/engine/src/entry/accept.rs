//! Accepting connections and settling what comes before the protocol: PROXY header, TLS.
//!
//! Owns: one accept loop a listening socket, the limits on connections, the closing of sockets without a reset.
//! Never: reads a request.
//! Driven by: the worker, which starts and ends loops by difference when a plan is installed.
//! Why: a socket that closes while connections are queued on it resets them, so what goes away for good is accepted
//! from until it is empty. New connections never take the last descriptors: the files and endpoints that those already
//! here will ask for need some, too.

use std::cell::Cell;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::rc::Rc;

use weir_control::ListenerId;
use weir_plan::Service;
use weir_rt::{Listener, PeerAddr, Stream, Timer};

use super::complaints::{Complaints, PAUSE};
use crate::exchange::Client;
use crate::tcp::Passed;
use crate::worker::command::SocketKey;
use crate::worker::connection_counts::CountedConnection;
use crate::worker::lasting;
use crate::worker::race::{Either, Signal, race};
use crate::worker::{Installed, Worker};

/// One listening socket being accepted from.
pub(crate) struct AcceptLoop {
    key: SocketKey,
    listener: Listener,
    stop: Signal,
    idle: Signal,
    running: Cell<bool>,
    /// Where the descriptors that are kept back begin.
    kept_back: Cell<RawFd>,
    /// A connection came on one of them.
    crowded: Cell<bool>,
    complaints: Complaints,
}

/// The first descriptor that is kept back. The system gives the lowest number that is free, so that one as high as this
/// says how few are left.
pub(super) fn first_kept_back() -> RawFd {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.map_or(RawFd::MAX, |limit| RawFd::try_from(limit).unwrap_or(RawFd::MAX));
    limit - (limit / 8).clamp(1, 256)
}

/// Whether a limit on connections is reached: new ones wait in the accept queue.
pub(super) fn is_full(worker: &Rc<Worker>, listener: ListenerId) -> bool {
    let Some((installed, ix, _)) = worker.for_listener(listener) else { return false };
    let plan = &installed.plan;
    let of_worker =
        plan.process.connections_per_worker.is_some_and(|most| worker.connection_count() as u64 >= most);
    of_worker || worker.shared.is_full(plan, plan.listener(ix))
}

/// How long a listener accepts nothing, because too much began lately: new connections wait in the accept queue.
fn pause_for_pace(worker: &Rc<Worker>, listener: ListenerId) -> Option<std::time::Duration> {
    let (installed, ix, _) = worker.for_listener(listener)?;
    worker.shared.wait_for_pace(installed.plan.listener(ix), worker.millis())
}

impl AcceptLoop {
    /// Begins to accept.
    ///
    /// # Errors
    /// The socket cannot be used.
    pub(crate) fn start(worker: &Rc<Worker>, key: SocketKey, fd: OwnedFd) -> std::io::Result<Rc<Self>> {
        let accept = Rc::new(Self {
            key,
            listener: Listener::from_fd(fd)?,
            stop: Signal::default(),
            idle: Signal::default(),
            running: Cell::new(true),
            kept_back: Cell::new(first_kept_back()),
            crowded: Cell::new(false),
            complaints: Complaints::default(),
        });
        weir_rt::spawn(accept.clone().keep_on(worker.clone()));
        Ok(accept)
    }

    /// Ends accepting. With `closing`, what is queued is accepted first.
    pub(crate) async fn end(&self, worker: &Rc<Worker>, closing: bool) {
        self.stop.set();
        if self.running.get() {
            self.idle.wait().await;
        }
        if let Some((stream, peer)) = self.listener.stop().await {
            self.admit(worker, stream, peer);
        }
        if closing {
            while let Ok(Some((stream, peer))) = self.listener.try_accept() {
                self.admit(worker, stream, peer);
            }
        }
    }

    /// Accepts until it is told to end, whatever panics on the way: a listener that fell silent would look alive to
    /// everybody but its clients.
    async fn keep_on(self: Rc<Self>, worker: Rc<Worker>) {
        lasting::task(|payload| worker.shared.note_panic("accepting", payload), || self.run(&worker)).await;
        self.running.set(false);
        self.idle.set();
    }

    async fn run(&self, worker: &Rc<Worker>) {
        while !self.stop.is_set() {
            if is_full(worker, self.key.listener) || self.is_crowded() {
                if worker.shared.memory.is_short() {
                    worker.relieve();
                }
                // A connection that ends, or a limit that a new plan raised, lets it go on.
                let _ = race(self.stop.wait(), race(worker.ended.next(), weir_rt::sleep(PAUSE))).await;
                continue;
            }
            if let Some(pause) = pause_for_pace(worker, self.key.listener) {
                let _ = race(self.stop.wait(), weir_rt::sleep(pause)).await;
                continue;
            }
            match race(self.stop.wait(), self.listener.accept()).await {
                Either::Left(()) => break,
                Either::Right(Ok((stream, peer))) => {
                    self.crowded.set(stream.as_fd().as_raw_fd() >= self.kept_back.get());
                    if self.crowded.get() {
                        self.complaints
                            .say(worker, || "few descriptors are left: accepting pauses".to_owned());
                    }
                    // Accepted as its listener was held: it waits like those in the queue.
                    while worker.shared.is_held(self.key.listener) && !self.stop.is_set() {
                        let _ = race(self.stop.wait(), weir_rt::sleep(PAUSE)).await;
                    }
                    self.admit(worker, stream, peer);
                }
                Either::Right(Err(error)) => {
                    self.complaints.say(worker, || format!("accept failed: {error}"));
                    let _ = race(self.stop.wait(), race(worker.ended.next(), weir_rt::sleep(PAUSE))).await;
                }
            }
        }
    }

    /// Whether descriptors are still short, once they were.
    fn is_crowded(&self) -> bool {
        if self.crowded.get() {
            self.kept_back.set(first_kept_back());
            let lowest = self.listener.as_fd().try_clone_to_owned();
            self.crowded.set(lowest.map_or(true, |fd| fd.as_raw_fd() >= self.kept_back.get()));
        }
        self.crowded.get()
    }

    fn admit(&self, worker: &Rc<Worker>, stream: Stream, peer: PeerAddr) {
        assert!(!worker.takes_injected_accept_panic(), "a test asked for this panic");
        // A connection that is gone already has no address.
        let Ok(local) = self.listener.local_of(&stream) else { return };
        let id = self.key.listener;
        let Some((installed, ix, _)) = worker.for_listener(id) else { return };
        let listener = installed.plan.listener(ix);
        worker.shared.count_connection(listener, worker.millis());
        let counted = CountedConnection::new(worker, worker.connection_counts(&installed, listener));
        inherit_nodelay(&stream, wants_nodelay(&installed, &listener.service));
        let mut caller = None;
        if let Some(gate) = &listener.gate {
            let came = Rc::new(Client::new(worker, peer.clone(), local.clone(), id));
            if crate::tcp::is_turned_away(worker, &installed, came.clone(), &listener.service, gate) {
                return;
            }
            caller = Some(came);
        }
        worker.shared.count_session(id, worker.millis());
        let client = Client::new(worker, peer, local, id);
        if let Some(caller) = caller {
            crate::eval::stick_rules::hand_over(&caller, &client);
        }
        if listener.proxy_protocol || listener.tls.is_some() || client.expects_proxy.get() {
            let (timer, ahead) = (Timer::new(), weir_rt::Buf::new());
            weir_rt::spawn(settle(worker.clone(), counted, stream, client, timer, ahead));
        } else {
            let (conn, is_tcp) = (weir_wire::Conn::Plain(stream), is_tcp(&listener.service));
            begin(worker, counted, conn, client, Timer::new(), weir_rt::Buf::new(), is_tcp);
        }
    }
}

/// Settles what comes before the protocol, then begins it in a task of its own: an idle connection is only that.
async fn settle(
    worker: Rc<Worker>,
    mut counted: CountedConnection,
    stream: Stream,
    mut client: Client,
    timer: Timer,
    mut ahead: weir_rt::Buf,
) {
    let Some((installed, ix, _)) = worker.for_listener(client.listener) else { return };
    let settled =
        crate::entry::handshake::settle(&worker, &installed, ix, stream, &timer, &mut client, &mut ahead)
            .await;
    let Some(conn) = settled else { return };
    if client.tls.is_some() {
        counted.encrypt();
    }
    // What is served may have changed meanwhile.
    let Some((installed, ix, _)) = worker.for_listener(client.listener) else { return };
    let is_tcp = is_tcp(&installed.plan.listener(ix).service);
    begin(&worker, counted, conn, client, timer, ahead, is_tcp);
}

fn is_tcp(service: &Service) -> bool {
    matches!(service, Service::Tcp(_))
}

fn begin(
    worker: &Rc<Worker>,
    counted: CountedConnection,
    conn: weir_wire::Conn,
    client: Client,
    timer: Timer,
    ahead: weir_rt::Buf,
    is_tcp: bool,
) {
    let (worker, client) = (worker.clone(), Rc::new(client));
    let cutter = client.socket.get_or_init(|| conn.socket().cutter());
    counted.enrol(client.clone(), cutter.clone());
    if is_tcp {
        weir_rt::spawn(async move {
            let passed = crate::tcp::serve(&worker, conn, client, timer, ahead, &counted).await;
            if let Some(passed) = passed {
                pass_on(&worker, counted, passed);
            }
        });
    } else if conn.tls().is_some_and(|tls| tls.alpn_is(weir_wire::h2::ALPN)) {
        weir_rt::spawn(crate::http::h2::serve(worker, counted, conn, client, timer, ahead));
    } else {
        weir_rt::spawn(crate::http::connection::serve(worker, counted, conn, client, timer, ahead));
    }
}

/// Gives a connection to the listener that a service hands it to. What its service has settled stays settled: TLS that ended
/// there does not begin anew.
#[cold]
fn pass_on(worker: &Rc<Worker>, before: CountedConnection, passed: Passed) {
    let Passed { conn, mut client, timer, ahead, to } = passed;
    let Some((installed, ix, _)) = worker.for_listener(to) else { return };
    let listener = installed.plan.listener(ix);
    let mut counted = CountedConnection::new(worker, worker.connection_counts(&installed, listener));
    drop(before);
    (client.listener, client.passes) = (to, client.passes + 1);
    let settles = listener.proxy_protocol || listener.tls.is_some();
    match conn {
        weir_wire::Conn::Plain(stream) if settles => {
            weir_rt::spawn(settle(worker.clone(), counted, stream, client, timer, ahead));
        }
        weir_wire::Conn::Tls(_) if settles => {
            let why = "a connection whose TLS ended before cannot be passed to a listener with TLS or PROXY";
            worker.shared.logs.connection(weir_telemetry::Level::Error, client.serial, why);
        }
        conn => {
            if client.tls.is_some() {
                counted.encrypt();
            }
            begin(worker, counted, conn, client, timer, ahead, is_tcp(&listener.service));
        }
    }
}

fn wants_nodelay(installed: &Installed, service: &Service) -> bool {
    match service {
        Service::Http(hosts) => installed.plan.site(hosts.default_value()).client.tcp_nodelay,
        Service::Tcp(tcp) => installed.plan.tcp_service(*tcp).tcp_nodelay,
    }
}

/// Connections inherit TCP_NODELAY from their listening socket, which has it: a system call is due only where it is
/// not wanted.
fn inherit_nodelay(stream: &Stream, wanted: bool) {
    if !wanted {
        let _ = stream.set_nodelay(false);
    }
}
