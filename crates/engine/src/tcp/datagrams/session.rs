//! One session of datagrams, from the first one to the log line.
//!
//! Owns: what is sent where, when the session is over, and what that says of the endpoint.
//! Never: retries: a datagram that is lost is lost, as it is without us between.
//! Driven by: `entry::datagrams`, with the first datagram waiting.
//!
//! A session ends when as many answers came as are expected (`proxy_responses`), when nobody spoke for too long, when the
//! endpoint's machine says that nobody is there, or when the socket goes away.

use std::rc::Rc;
use std::time::Duration;

use weir_expr::settings::Datagrams;
use weir_plan::{Service, TcpAction, TcpProxy};
use weir_rt::{Instant, Timer};
use weir_telemetry::AttemptEnd;

use super::{Hub, Seat};
use crate::answer::log;
use crate::exchange::{Client, Ending, Phase, Session, errors};
use crate::tcp::{admitted, chosen, is_refused, reply};
use crate::upstream::{DatagramPeer, DatagramReach, resolve};
use crate::worker::Worker;
use crate::worker::connection_counts::CountedConnection;
use crate::worker::race::{Either, race};
use crate::worker::watch::Watched;

/// Serves a session. Its first datagram is in the inbox.
pub(crate) async fn serve(worker: Rc<Worker>, seat: Seat, client: Rc<Client>, counted: CountedConnection) {
    let Some((installed, listener, _)) = worker.for_listener(client.listener) else { return };
    let Service::Tcp(tcp) = installed.plan.listener(listener).service else { return };
    let mut session = Box::new(Session::new(worker, installed, client, tcp));
    session.datagrams = true;
    match Box::pin(begin(&mut session, &seat)).await {
        Begun::Ended(status) => {
            // What the client said counts, though nobody was told.
            while let Some(datagram) = seat.inbox.pop() {
                session.received += datagram.len() as u64;
            }
            session.status = status;
        }
        Begun::Connected(carrying) => {
            crate::exchange::detach::session(&mut session, listener);
            counted.release_plan();
            session.status = Box::pin(carry(&mut session, &seat, *carrying)).await;
        }
    }
    drop(seat);
    log::session_ended(&mut session);
}

/// How a session began.
enum Begun {
    /// It is over already: nginx's session status.
    Ended(u16),
    /// Datagrams are to be carried.
    Connected(Box<Carrying>),
}

/// A session with its endpoint: all that is left to do. Holds on to no plan.
struct Carrying {
    peer: DatagramPeer,
    /// Goes before the first datagram: a PROXY header.
    ahead: Vec<u8>,
    idle: Duration,
    rate: (Option<u64>, Option<u64>),
    expected: Datagrams,
}

/// Access, limits, the endpoint.
async fn begin(session: &mut Session, seat: &Seat) -> Begun {
    let installed = session.installed.clone();
    let service = installed.plan.tcp_service(session.tcp);
    if let Err(status) = admitted(session, &installed) {
        return Begun::Ended(status);
    }
    session.enter_zone();
    if is_refused(session, &Watched::Nobody, service.program.as_deref()).await {
        return Begun::Ended(403);
    }
    let Some(action) = chosen(session, &Watched::Nobody, &service.action).await else {
        return Begun::Ended(403);
    };
    match action {
        TcpAction::Respond(template) => match reply(session, template) {
            Ok(text) => {
                Begun::Ended(send_back(session, &seat.hub, seat, &text).map_or_else(|()| 500, |()| 200))
            }
            Err(status) => Begun::Ended(status),
        },
        TcpAction::Nobody | TcpAction::Pass(_) | TcpAction::Choose(_) => {
            session.ending = Ending::ServerAborted(Phase::Connect);
            Begun::Ended(502)
        }
        TcpAction::Proxy(proxy) => match connect(session, seat, proxy).await {
            Ok(carrying) => Begun::Connected(Box::new(carrying)),
            Err(status) => Begun::Ended(status),
        },
    }
}

/// An endpoint. `Err`: nginx's session status.
async fn connect(session: &mut Session, seat: &Seat, proxy: &TcpProxy) -> Result<Carrying, u16> {
    let installed = session.installed.clone();
    let resolved = match resolve(session, &installed, &proxy.target).await {
        Ok(resolved) => resolved,
        Err((_, why)) => {
            errors::upstream_error(session, &why);
            session.ending = Ending::Resource(Phase::Connect);
            return Err(500);
        }
    };
    let reach = DatagramReach {
        retry: proxy.retry,
        bind: proxy.bind.as_ref(),
        transparent: proxy.transparent,
        send_proxy: proxy.send_proxy,
        kept_back: seat.hub.kept_back,
    };
    let (peer, ahead) = reach.connect(session, &installed, resolved.destination).await?;
    Ok(Carrying { peer, ahead, idle: proxy.idle_timeout, rate: proxy.limit_rate, expected: proxy.datagrams })
}

/// Sends a datagram to the client. One that the kernel cannot take now is lost on the way.
fn send_back(session: &mut Session, hub: &Hub, seat: &Seat, datagram: &[u8]) -> Result<(), ()> {
    let (to, from) = seat.pair;
    match hub.socket.try_send_to(datagram, to, from) {
        Ok(sent) => {
            session.sent += if sent { datagram.len() as u64 } else { 0 };
            Ok(())
        }
        Err(error) => {
            let why = errors::system(&error);
            errors::error(session, &format!("sendmsg() failed ({why}) while sending to client"));
            session.ending = Ending::ClientAborted(Phase::Data);
            Err(())
        }
    }
}

/// What has passed, and when more may.
struct Passed {
    requests: u64,
    responses: u64,
    up: u64,
    down: u64,
    began: Instant,
    last: Instant,
    first_down: Option<Instant>,
    up_due: Option<Instant>,
    down_due: Option<Instant>,
}

/// Why a session is over.
enum Over {
    /// All answers that were expected came, or nobody knows how many there were to be.
    Done,
    /// The client cannot be reached.
    ClientFailed,
    /// Answers are missing, or nobody is there; the text is for the log.
    EndpointFailed(String),
}

/// Carries datagrams until the session is over; nginx's status of it.
async fn carry(session: &mut Session, seat: &Seat, carrying: Carrying) -> u16 {
    let Carrying { mut peer, mut ahead, idle, rate, expected } = carrying;
    let now = weir_rt::now();
    let mut passed = Passed {
        requests: 0,
        responses: 0,
        up: 0,
        down: 0,
        began: now,
        last: now,
        first_down: None,
        up_due: None,
        down_due: None,
    };
    let timer = Timer::new();
    let over = loop {
        timer.arm_at(passed.last + idle);
        let event = {
            let from_client = gated(passed.up_due, seat.inbox.next());
            let from_endpoint = gated(passed.down_due, peer.socket.readable());
            race(seat.hub.stop.wait(), race(race(from_client, from_endpoint), timer.wait())).await
        };
        let moved = match event {
            // The socket is given up: there is no way back to the client any more.
            Either::Left(()) => break Over::Done,
            Either::Right(Either::Right(())) if answered(&passed, expected) => break Over::Done,
            Either::Right(Either::Right(())) => {
                break Over::EndpointFailed(
                    "upstream timed out (110: Connection timed out) while proxying".into(),
                );
            }
            Either::Right(Either::Left(Either::Left(datagram))) => {
                session.received += datagram.len() as u64;
                let sent = ahead.len() + datagram.len();
                let result = match ahead.is_empty() {
                    true => peer.socket.try_send(&datagram),
                    false => peer.socket.try_send(&[&*std::mem::take(&mut ahead), &*datagram].concat()),
                };
                passed.requests += 1;
                passed.up += sent as u64;
                passed.up_due = due(passed.began, passed.up, rate.0);
                result.map(drop).map_err(|error| endpoint_failed("send()", &error))
            }
            Either::Right(Either::Left(Either::Right(()))) => {
                answers(session, seat, &peer, &mut passed, rate.1)
            }
        };
        passed.last = weir_rt::now();
        if let Err(over) = moved {
            break over;
        }
        if is_done(&passed, expected) {
            break Over::Done;
        }
    };
    note(session, &passed);
    match over {
        Over::Done => {
            peer.succeeded(session);
            200
        }
        Over::ClientFailed => {
            peer.counted.end(AttemptEnd::ClientAbort, session);
            200
        }
        Over::EndpointFailed(why) => {
            errors::upstream_error(session, &why);
            session.ending = Ending::ServerAborted(Phase::Data);
            peer.failed(session);
            502
        }
    }
}

/// Sends on what the endpoint answered.
fn answers(
    session: &mut Session,
    seat: &Seat,
    peer: &DatagramPeer,
    passed: &mut Passed,
    rate: Option<u64>,
) -> Result<(), Over> {
    let hub = &*seat.hub;
    let mut batch = hub.batch.borrow_mut();
    let read = peer.socket.try_recv(&mut batch).map_err(|error| endpoint_failed("recv()", &error))?;
    if read.is_none() {
        return Ok(());
    }
    for datagram in batch.iter() {
        passed.first_down.get_or_insert_with(weir_rt::now);
        passed.responses += 1;
        passed.down += datagram.data.len() as u64;
        send_back(session, hub, seat, datagram.data).map_err(|()| Over::ClientFailed)?;
    }
    passed.down_due = due(passed.began, passed.down, rate);
    Ok(())
}

fn endpoint_failed(call: &str, error: &std::io::Error) -> Over {
    let why = errors::system(error);
    Over::EndpointFailed(format!("{call} failed ({why}) while proxying and reading from upstream"))
}

/// Whether there is nothing more to come.
fn is_done(passed: &Passed, expected: Datagrams) -> bool {
    let all_asked = expected.requests.is_none_or(|most| passed.requests >= most);
    all_asked && expected.responses.is_some() && answered(passed, expected)
}

/// Whether all answers came that were expected.
fn answered(passed: &Passed, expected: Datagrams) -> bool {
    expected.responses.is_none_or(|each| passed.responses >= each.saturating_mul(passed.requests))
}

/// When so many bytes may have passed at a rate.
fn due(began: Instant, bytes: u64, rate: Option<u64>) -> Option<Instant> {
    let rate = rate.filter(|&rate| rate > 0)?;
    Some(began + Duration::from_secs_f64(bytes as f64 / rate as f64))
}

/// A future that is not asked before its time.
async fn gated<T>(due: Option<Instant>, what: impl Future<Output = T>) -> T {
    if let Some(due) = due.filter(|&due| due > weir_rt::now()) {
        weir_rt::sleep_until(due).await;
    }
    what.await
}

/// Completes the record of the endpoint for the log.
fn note(session: &mut Session, passed: &Passed) {
    let elapsed = weir_rt::now().saturating_duration_since(passed.began);
    if let Some(record) = session.attempts.last_mut() {
        record.header = passed.first_down.map(|at| at.saturating_duration_since(passed.began));
        record.response = Some(elapsed);
        record.sent = passed.up;
        record.received = passed.down;
        record.length = passed.down;
    }
}
