//! TCP services: connections that are carried, not read.
//!
//! Owns: one session: access, limits, the endpoint, the tunnel, the log line.
//! Never: looks at the bytes; `preread` looks at the first ones where the service asks.
//! Driven by: `accept`, once PROXY header and TLS are settled.

pub(crate) mod datagrams;
mod preread;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use weir_control::ListenerId;
use weir_plan::{Client as Who, ListenerIx, Service, TcpAction, TcpAnswers, TcpProxy, Template};
use weir_rt::{Buf, Timer};
use weir_telemetry::AttemptEnd;
use weir_wire::Conn;

use crate::action::tunnel::{Carried, Judged, Looking, TunnelEnd, TunnelSettings, carry};
use crate::answer::log;
use crate::eval::condition;
use crate::eval::program::{self, Verdict};
use crate::exchange::{Client, Ending, Exchange, Phase, Session, Traffic, errors};
use crate::upstream::{
    Answered, Attempts, LeaseEnd, Opened, Protocol, Reach, Stop, Unanswered, resolve, stick,
};
use crate::worker::connection_counts::CountedConnection;
use crate::worker::count::Attempting;
use crate::worker::watch::{Ends, Watch, Watched};
use crate::worker::{Installed, Worker};

/// Serves a connection to a TCP service.
pub(crate) async fn serve(
    worker: &Rc<Worker>,
    conn: Conn,
    client: Rc<Client>,
    timer: Timer,
    mut ahead: Buf,
    counted: &CountedConnection,
) -> Option<Passed> {
    let (installed, listener, _) = worker.for_listener(client.listener)?;
    let Service::Tcp(tcp) = installed.plan.listener(listener).service else { return None };
    let mut session = Box::new(Session::new(worker.clone(), installed, client, tcp));
    session.enter_flight();
    match Box::pin(begin(&mut session, &conn, &timer, &mut ahead)).await {
        Begun::Ended(status) => {
            // What the client said counts, though nobody was told; left unread it would reset the connection.
            let _ = conn.try_read(&mut ahead);
            session.received = ahead.len() as u64;
            session.status = status;
        }
        Begun::Connected(connected) => {
            // Rules about what the endpoint says still need the plan.
            if connected.answers.is_none() {
                crate::exchange::detach::session(&mut session, listener);
                counted.release_plan();
            }
            carry_session(&mut session, *connected, &conn, ahead, &timer, (listener, counted)).await;
            session.status = 200;
        }
        // It is no session of this service any more, and none of its log.
        Begun::Passed(to) => {
            let client = session.client.clone();
            drop(session);
            counted.strike_off();
            return Some(Passed { conn, client: Rc::into_inner(client)?, timer, ahead, to });
        }
    }
    log::session_ended(&mut session);
    None
}

/// A connection that a service hands to another listener.
pub(crate) struct Passed {
    /// The connection.
    pub(crate) conn: Conn,
    /// What is known of its client.
    pub(crate) client: Client,
    /// Its timer.
    pub(crate) timer: Timer,
    /// What was read of it.
    pub(crate) ahead: Buf,
    /// The listener.
    pub(crate) to: ListenerId,
}

/// Most listeners that one connection is handed to: services may name one another.
const MOST_PASSES: u8 = 8;

/// The listener that a service hands a session to. `Err`: nginx's session status.
fn listener_of(session: &mut Session, installed: &Installed, address: &Template) -> Result<ListenerId, u16> {
    let text = reply(session, address)?;
    let text = String::from_utf8_lossy(&text);
    let found = text.parse().ok().and_then(|address| installed.plan.listener_at(&address));
    let why = match found {
        Some(_) if session.client.passes >= MOST_PASSES => "too many services pass this connection on, to",
        Some(listener) => return Ok(listener.id),
        None => "no listener has the address",
    };
    errors::error(session, &format!("{why} \"{text}\""));
    session.ending = Ending::Resource(Phase::Connect);
    Err(500)
}

/// How a session began.
enum Begun {
    /// It is over already: nginx's session status.
    Ended(u16),
    /// Bytes are to be carried.
    Connected(Box<Connected>),
    /// Another listener takes it.
    Passed(ListenerId),
}

/// A session with its endpoint: all that is left to do. Holds on to no plan.
struct Connected {
    endpoint: Conn,
    settings: TunnelSettings,
    counted: Attempting,
    lease: LeaseEnd,
    /// Rules about the endpoint's first bytes.
    answers: Option<Arc<TcpAnswers>>,
}

/// Real address, access, limits, the endpoint.
async fn begin(session: &mut Session, conn: &Conn, timer: &Timer, ahead: &mut Buf) -> Begun {
    let installed = session.installed.clone();
    let service = installed.plan.tcp_service(session.tcp);
    if let Some(rules) = &service.real_ip {
        crate::admission::access::real_ip(session, rules);
    }
    if let Err(status) = admitted(session, &installed) {
        return Begun::Ended(status);
    }
    if let Some(settings) = &service.inspect
        && let Err(status) = preread::inspect(session, conn, timer, settings, ahead).await
    {
        return Begun::Ended(status);
    }
    if let Err(status) = by_name(session, &installed) {
        return Begun::Ended(status);
    }
    session.enter_zone();
    let service = installed.plan.tcp_service(session.tcp);
    let watched = Watched::Connection(conn.clone());
    if is_refused(session, &watched, service.program.as_deref()).await {
        return Begun::Ended(403);
    }
    let Some(action) = chosen(session, &watched, &service.action).await else { return Begun::Ended(403) };
    match action {
        TcpAction::Respond(template) => {
            let text = match reply(session, template) {
                Ok(text) => text,
                Err(status) => return Begun::Ended(status),
            };
            session.sent = text.len() as u64;
            timer.arm(std::time::Duration::from_secs(60));
            let _ = timer.run(conn.write_slice(&text)).await;
            let _ = conn.shutdown_write().await;
            Begun::Ended(200)
        }
        TcpAction::Pass(address) => {
            listener_of(session, &installed, address).map_or_else(Begun::Ended, Begun::Passed)
        }
        TcpAction::Nobody | TcpAction::Choose(_) => {
            session.ending = Ending::ServerAborted(Phase::Connect);
            Begun::Ended(502)
        }
        TcpAction::Proxy(proxy) => match connect(session, &installed, proxy, conn, timer).await {
            Ok(connected) => Begun::Connected(Box::new(connected)),
            Err(status) => Begun::Ended(status),
        },
    }
}

/// Gives the session to the service of the name that its client asks for, where there are several. `Err`: nginx's
/// session status.
fn by_name(session: &mut Session, installed: &Installed) -> Result<(), u16> {
    let listener = installed.listener(session.client.listener).map(|ix| installed.plan.listener(ix));
    let Some(services) = listener.and_then(|listener| listener.services.as_ref()) else { return Ok(()) };
    let hello = session.peeked.as_ref().and_then(|peeked| peeked.hello.as_ref());
    let ended_here = || session.client.tls.as_ref().and_then(|tls| tls.server_name.as_ref());
    let name = match hello {
        Some(hello) => hello.server_name.to_ascii_lowercase(),
        None => ended_here().map_or_else(Vec::new, |name| name.as_bytes().to_ascii_lowercase()),
    };
    if name.is_empty() {
        return Ok(());
    }
    match services.lookup(&name) {
        Ok(found) => {
            if let Some((pattern, captures)) = &found.matched {
                crate::eval::keep_match(session, pattern, captures, &name);
            }
            session.tcp = found.value;
            Ok(())
        }
        Err(why) => {
            errors::undecided(session, &why);
            Err(500)
        }
    }
}

/// What a service answers by itself. `Err`: nginx's session status.
fn reply(session: &mut Session, template: &Template) -> Result<Vec<u8>, u16> {
    let text = crate::eval::text(session, template);
    let Some(why) = session.slots.take_doubt() else { return Ok(text) };
    errors::undecided(session, &why);
    session.ending = Ending::Proxy(Phase::Request);
    Err(500)
}

/// Whether a program closes the session.
async fn is_refused(session: &mut Session, client: &Watched, program: Option<&weir_plan::Program>) -> bool {
    let Some(program) = program else { return false };
    let verdict = program::run_session(session, client, program).await;
    let refused = closes(session, &verdict);
    if refused && session.ending == Ending::Normal {
        session.ending = Ending::Proxy(Phase::Request);
    }
    refused
}

/// Whether a session or request is closed, or it is not known what is to become of it.
fn closes(traffic: &mut impl Traffic, verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Close(_) | Verdict::Waits | Verdict::Overloaded => true,
        Verdict::Undecided(why) => {
            errors::undecided(traffic, why);
            true
        }
        _ => false,
    }
}

/// The action of the first case that holds. `None`: it closes the session, or which one holds is not known.
async fn chosen<'p>(session: &mut Session, client: &Watched, action: &'p TcpAction) -> Option<&'p TcpAction> {
    let TcpAction::Choose(cases) = action else { return Some(action) };
    for case in cases {
        let holds =
            case.condition.as_ref().map_or(Ok(true), |condition| condition::holds(session, condition));
        match holds {
            Ok(true) => {
                let refused = is_refused(session, client, case.program.as_deref()).await;
                return (!refused).then_some(&case.action);
            }
            Ok(false) => {}
            Err(why) => {
                errors::undecided(session, &why);
                session.ending = Ending::Proxy(Phase::Request);
                return None;
            }
        }
    }
    Some(&TcpAction::Nobody)
}

/// Whether the rules of a listener turn a connection away as it is accepted.
pub(crate) fn is_turned_away(
    worker: &Rc<Worker>,
    installed: &Rc<Installed>,
    client: Rc<Client>,
    service: &Service,
    gate: &weir_plan::Program,
) -> bool {
    let worker = worker.clone();
    match service {
        Service::Tcp(tcp) => gated(&mut Session::new(worker, installed.clone(), client, *tcp), gate),
        Service::Http(hosts) => {
            let mut exchange = Box::new(Exchange::new(worker, installed.clone(), client));
            exchange.site = hosts.default_value();
            exchange.route = installed.plan.site(exchange.site).fallback;
            gated(&mut *exchange, gate)
        }
    }
}

fn gated(traffic: &mut impl Traffic, gate: &weir_plan::Program) -> bool {
    let verdict = program::run(traffic, gate);
    closes(traffic, &verdict)
}

/// Access and limits. `Err`: nginx's session status.
fn admitted(session: &mut Session, installed: &Installed) -> Result<(), u16> {
    let service = installed.plan.tcp_service(session.tcp);
    let client = session.client_source().map_or(Who::Unix, |(ip, _)| Who::Ip(ip));
    if service.access.rules.verdict(client) == Some(false) {
        errors::error(session, "access forbidden by rule while initializing session");
        session.ending = Ending::Proxy(Phase::Request);
        return Err(403);
    }
    crate::admission::limits::sessions(session, installed, &service.limit_conn)
}

/// Bytes that nobody reads: nothing is said before they follow.
struct Bytes;

impl Protocol for Bytes {
    type Traffic = Session;
    type Link = Conn;

    fn take_up(&mut self, opened: Opened) -> Conn {
        match opened {
            Opened::New(conn) => conn,
            Opened::Kept(kept) => kept.io().clone(),
        }
    }

    async fn send(&mut self, _: &mut Session, _: &mut Conn) -> Result<(), Stop> {
        Ok(())
    }

    async fn head(&mut self, _: &mut Session, _: &mut Conn) -> Result<Option<u16>, Stop> {
        Ok(None)
    }

    fn sent(&self, _: &Conn) -> u64 {
        0
    }
}

/// An endpoint, connected. `Err`: nginx's session status.
async fn connect(
    session: &mut Session,
    installed: &Rc<Installed>,
    proxy: &TcpProxy,
    client: &Conn,
    timer: &Timer,
) -> Result<Connected, u16> {
    let resolved = match resolve(session, installed, &proxy.target).await {
        Ok(resolved) => resolved,
        Err((_, why)) => {
            errors::upstream_error(session, &why);
            session.ending = Ending::Resource(Phase::Connect);
            // A name that nobody knows is nginx's own fault here, not an endpoint's.
            return Err(500);
        }
    };
    // A client that ended its half only may still want to hear.
    let watch = Watch::new(Watched::Connection(client.clone()), Ends::Reset);
    let attempts = Attempts {
        installed,
        retry: proxy.retry,
        reach: Reach {
            timeout: proxy.connect_timeout,
            keepalive: proxy.socket_keepalive,
            bind: proxy.bind.as_ref(),
            transparent: proxy.transparent,
            tls: proxy.tls.as_ref(),
            secure: None,
            host: resolved.host.as_deref(),
            send_proxy: proxy.send_proxy,
            reuse: false,
            spoken: 0,
        },
        timer,
        watch: &watch,
    };
    match attempts.run(session, &mut Bytes, resolved.destination).await {
        Ok(Answered { link, counted, lease, picked, .. }) => {
            stick::learn(session, installed, &picked);
            let (settings, answers) = (tunnel_settings(proxy), proxy.answers.clone());
            Ok(Connected { endpoint: link, settings, counted, lease, answers })
        }
        Err(Unanswered::Status(_)) => Err(502),
        Err(Unanswered::Own) => Err(500),
        Err(Unanswered::Gone) => Err(200),
    }
}

fn tunnel_settings(proxy: &TcpProxy) -> TunnelSettings {
    let idle = proxy.idle_timeout;
    TunnelSettings {
        client_idle: proxy.tunnel_timeout.or(proxy.client_timeout).unwrap_or(idle),
        server_idle: proxy.tunnel_timeout.or(proxy.server_timeout).unwrap_or(idle),
        half_close: proxy.half_close,
        half_closed: proxy.half_closed_timeout,
        buffer: (proxy.buffer as usize).min(weir_rt::PIECE),
        rate: proxy.limit_rate,
    }
}

async fn carry_session(
    session: &mut Session,
    connected: Connected,
    client: &Conn,
    ahead: Buf,
    timer: &Timer,
    (listener, pinned): (ListenerIx, &CountedConnection),
) {
    let Connected { endpoint, settings, mut counted, lease, answers } = connected;
    let carried = Carried::default();
    let began = session.worker.now();
    let end = match answers {
        None => {
            Box::pin(carry(client, &endpoint, (ahead, Buf::new()), &settings, timer, &carried, None)).await
        }
        Some(answers) => {
            let judged = RefCell::new(&mut *session);
            let judge = |bytes: &[u8]| {
                let mut session = judged.borrow_mut();
                session.answered = Some(bytes.into());
                let judged = match program::run(*session, &answers.program) {
                    Verdict::Close(Some(_)) => Judged::Last,
                    Verdict::Close(None) => Judged::Refuse,
                    Verdict::Undecided(why) => {
                        errors::undecided(*session, &why);
                        Judged::Refuse
                    }
                    _ => Judged::Pass,
                };
                session.answered = None;
                crate::exchange::detach::session(&mut session, listener);
                pinned.release_plan();
                judged
            };
            let (least, most) = (answers.least as usize, answers.most as usize);
            let looking = Looking { wait: answers.wait, least, most, judge: &judge };
            let looking = Some(&looking);
            Box::pin(carry(client, &endpoint, (ahead, Buf::new()), &settings, timer, &carried, looking)).await
        }
    };
    let (up, down) = (carried.up.get(), carried.down.get());
    (session.received, session.sent) = (up, down);
    let elapsed = session.worker.now().saturating_duration_since(began);
    if let Some(record) = session.attempts.last_mut() {
        record.header = carried.first_down.get().map(|at| at.saturating_duration_since(began));
        record.response = Some(elapsed);
        record.sent = up;
        record.received = down;
        record.length = down;
    }
    session.ending = match end {
        TunnelEnd::Closed => Ending::Normal,
        // Both were silent; the side with the shorter patience gave up.
        TunnelEnd::Idle if settings.server_idle < settings.client_idle => Ending::ServerTimeout(Phase::Data),
        TunnelEnd::Idle => Ending::ClientTimeout(Phase::Data),
        TunnelEnd::ClientFailed => Ending::ClientAborted(Phase::Data),
        TunnelEnd::EndpointFailed => counted.broken(None),
        TunnelEnd::Refused => Ending::Proxy(Phase::Data),
    };
    counted.end(AttemptEnd::Answer(0), session);
    if let Some(first) = carried.first_down.get() {
        lease.first_byte(first.saturating_duration_since(began));
    }
    drop(lease);
}
