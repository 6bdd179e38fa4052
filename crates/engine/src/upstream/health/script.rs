//! One check: a script that is played.
//!
//! Owns: the connection of a check (also between checks, where it is kept), what was received on it, the time for all of it.
//! Never: decides what a result means for the endpoint.
//! Driven by: the task of an endpoint, each time a check is due.

use std::net::SocketAddr;
use std::time::Duration;

use weir_expr::check::{CheckConnect, CheckRequest, CheckStep, CheckVersion, Expectation};
use weir_http::{HeadRules, HeadWriter, HeaderId, Method, UnusualNames, Version};
use weir_plan::{Address, Endpoint, HealthCheck, Pattern};
use weir_rt::{Buf, Instant, Timer};
use weir_wire::{ClientConnection, Conn, ResponseFailure, SendError, SendFraming, Step};

use super::judge::{self, Response};
use super::peer::Peer;
use super::result::{Failed, Passed};
use super::{application, grpc, http2};
use crate::upstream::{ConnectFailure, ConnectSettings, open};
use crate::worker::prepared::Prepared;

/// Most bytes of an answer that are looked at.
const MAX_BODY: usize = 64 << 10;

/// A connection that is kept for further checks, and until when.
pub(super) struct Kept {
    conn: ClientConnection,
    until: Instant,
}

type Expected = Expectation<std::sync::Arc<Pattern>>;
type Steps = [CheckStep<std::sync::Arc<Pattern>>];

/// Plays the script of a check. `state`: what the endpoint is told of itself, where it asked for that. `kept`: the connection
/// of the check before, if there is one, and that of this one if it is to be kept.
pub(super) async fn play(
    prepared: &Prepared,
    endpoint: &Endpoint,
    check: &HealthCheck,
    kept: &mut Option<Kept>,
    state: impl Fn() -> String,
) -> Result<Passed, Failed> {
    let before = kept.take().filter(|kept| weir_rt::now() < kept.until && is_usable(&kept.conn));
    let reused = before.is_some();
    match once(prepared, endpoint, check, (before, &mut *kept), &state).await {
        // The endpoint may have closed it while it was idle: that says nothing of its health.
        Err(_) if reused => once(prepared, endpoint, check, (None, kept), &state).await,
        ended => ended,
    }
}

/// Whether nothing has happened on an idle connection.
fn is_usable(conn: &ClientConnection) -> bool {
    !conn.io().heard()
}

async fn once(
    prepared: &Prepared,
    endpoint: &Endpoint,
    check: &HealthCheck,
    (before, kept): (Option<Kept>, &mut Option<Kept>),
    state: &impl Fn() -> String,
) -> Result<Passed, Failed> {
    let timeout = check.timeout.unwrap_or(check.interval);
    let mut played = Played {
        prepared,
        endpoint,
        check,
        timeout,
        due: weir_rt::now() + timeout,
        link: Link::None,
        before,
        on_timeout: "L4TOUT",
        passed: Passed { word: "L4OK".to_owned(), code: None, drains: false },
    };
    let ended = weir_rt::timeout(played.due, Box::pin(played.all(&check.steps, state))).await;
    match ended {
        // Nothing was expected, and nobody said that datagrams are not taken.
        Err(_) if matches!(played.link, Link::Datagrams { awaited: false, .. }) => Ok(played.passed),
        Ok(Ok(())) => {
            if let Link::Http(_, conn) = &mut played.link {
                *kept = conn.take();
            }
            // As in HAProxy, a check that is passed on a condition.
            let drains = played.passed.word == "L7OKC";
            Ok(Passed { drains, ..played.passed })
        }
        Ok(Err(failed)) => Err(failed),
        Err(_) => Err(Failed::new(played.on_timeout, "timed out")),
    }
}

/// A script that is being played.
struct Played<'a> {
    prepared: &'a Prepared,
    endpoint: &'a Endpoint,
    check: &'a HealthCheck,
    timeout: Duration,
    due: Instant,
    link: Link,
    /// The connection of the check before.
    before: Option<Kept>,
    /// What it is called if time runs out now.
    on_timeout: &'a str,
    passed: Passed,
}

/// The connection, and what came on it since something was sent.
enum Link {
    None,
    Raw {
        conn: Conn,
        received: Buf,
        ended: bool,
    },
    /// `awaited`: something must come.
    Datagrams {
        peer: Peer,
        awaited: bool,
    },
    /// One that another check left.
    Kept(Kept),
    /// A response, and the connection if it is to be kept.
    Http(Response, Option<Kept>),
}

impl<'a> Played<'a> {
    async fn all(&mut self, steps: &'a Steps, state: &impl Fn() -> String) -> Result<(), Failed> {
        for (at, step) in steps.iter().enumerate() {
            let rest = &steps[at + 1..];
            match step {
                CheckStep::Connect(connect) => self.connect(connect).await?,
                CheckStep::Send(bytes) => self.send(bytes).await?,
                CheckStep::Ask(request) if request.version == CheckVersion::Http2 => {
                    let conn = self.raw()?;
                    let tls = self.check.tls.is_some();
                    let asked = Box::pin(http2::ask(&conn, request, tls, self.due)).await;
                    self.answered(asked?, rest)?;
                }
                CheckStep::Ask(request) => Box::pin(self.ask(request, rest, state)).await?,
                CheckStep::AskApplication(asked) => {
                    let conn = self.raw()?;
                    let answer = Box::pin(application::ask(&conn, asked)).await;
                    self.answered(answer?, rest)?;
                }
                CheckStep::AskGrpc(asked) => {
                    let conn = self.raw()?;
                    let tls = self.check.tls.is_some();
                    Box::pin(grpc::ask(&conn, asked, tls, self.due)).await?;
                    self.passed.word = "L7OK".to_owned();
                }
                CheckStep::Expect(expected) => self.expect(expected).await?,
            }
        }
        if let Link::Datagrams { peer, awaited: false } = &self.link {
            peer.refused().await?;
        }
        Ok(())
    }

    /// The connection, which is used up.
    fn raw(&mut self) -> Result<Conn, Failed> {
        match std::mem::replace(&mut self.link, Link::None) {
            Link::Raw { conn, .. } => Ok(conn),
            _ => Err("not connected".into()),
        }
    }

    /// Takes a response.
    fn answered(&mut self, response: Response, rest: &'a Steps) -> Result<(), Failed> {
        self.passed.code = Some(response.status);
        self.passed.word = "L7OK".to_owned();
        self.link = Link::Http(response, None);
        if matches!(rest.first(), Some(CheckStep::Expect(_))) { Ok(()) } else { self.usual() }
    }

    async fn connect(&mut self, connect: &CheckConnect) -> Result<(), Failed> {
        self.link = Link::None;
        self.on_timeout = if connect.tls { "L6TOUT" } else { "L4TOUT" };
        let address = self.address(connect).ok_or("its name did not resolve")?;
        if connect.datagrams {
            let awaited = self.check.steps.iter().any(|step| matches!(step, CheckStep::Expect(_)));
            self.on_timeout = "L7TOUT";
            self.link = Link::Datagrams { peer: Peer::to(&address)?, awaited };
            return Ok(());
        }
        if let Some(kept) = self.before.take() {
            self.on_timeout = "L7TOUT";
            self.link = Link::Kept(kept);
            return Ok(());
        }
        let made = self.prepared.tls.now();
        let tls = self.check.tls.as_ref().filter(|_| connect.tls);
        // A check belongs to no request, so a name that is computed from one is not known here.
        let name = connect.name.clone().or_else(|| {
            let given = tls.and_then(|tls| tls.name.as_ref()?.as_literal()).map(str::to_owned);
            given.or_else(|| self.endpoint.host.as_ref().map(|host| host.host.to_string()))
        });
        let name = name.unwrap_or_else(|| self.endpoint.name.to_string());
        let settings = ConnectSettings {
            timeout: self.due.saturating_duration_since(weir_rt::now()).max(Duration::from_millis(1)),
            local: None,
            transparent: false,
            keepalive: false,
            socks: self.endpoint.socks.filter(|socks| socks.checks).map(|socks| socks.address),
            proxy: connect.send_proxy.map(|version| (version, None, None)),
            tls: tls.map(|tls| (made.client(tls.config), &*name)),
        };
        let conn = open(&address, &settings, &Timer::new()).await.map_err(|failure| match failure {
            ConnectFailure::Timeout => Failed::new(self.on_timeout, "no connection in time"),
            ConnectFailure::Failed(why) if why.starts_with("TLS") => Failed::new("L6RSP", why),
            ConnectFailure::Failed(why) | ConnectFailure::Resources(why) => Failed::new("L4CON", why),
        })?;
        self.passed.word = if connect.tls { "L6OK" } else { "L4OK" }.to_owned();
        self.on_timeout = "L7TOUT";
        self.link = Link::Raw { conn, received: Buf::new(), ended: false };
        Ok(())
    }

    fn address(&self, connect: &CheckConnect) -> Option<Address> {
        Some(match self.endpoint.address.as_ref()? {
            Address::Tcp(to) => Address::Tcp(SocketAddr::new(
                connect.address.unwrap_or(to.ip()),
                connect.port.unwrap_or(to.port()),
            )),
            other => other.clone(),
        })
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        if let Link::Datagrams { peer, .. } = &self.link {
            peer.send(bytes)?;
            self.passed.word = "L7OK".to_owned();
            return Ok(());
        }
        let Link::Raw { conn, received, .. } = &mut self.link else { return Err("not connected".into()) };
        received.clear();
        conn.write_slice(bytes).await.map_err(|error| Failed::new("L4CON", error.to_string()))?;
        self.passed.word = "L7OK".to_owned();
        Ok(())
    }

    /// Sends a request, and receives the response as far as the steps until the next one look at it.
    async fn ask(
        &mut self,
        request: &CheckRequest,
        rest: &'a Steps,
        state: &impl Fn() -> String,
    ) -> Result<(), Failed> {
        let (mut conn, kept_until) = match std::mem::replace(&mut self.link, Link::None) {
            Link::Raw { conn, .. } => (ClientConnection::new(conn), None),
            Link::Kept(kept) => (kept.conn, Some(kept.until)),
            // One request to a connection: front ends see to that.
            Link::None | Link::Http(..) | Link::Datagrams { .. } => return Err("not connected".into()),
        };
        let until = rest.iter().position(|step| !matches!(step, CheckStep::Expect(_)));
        let expected = &rest[..until.unwrap_or(rest.len())];
        let wants_body = expected
            .iter()
            .any(|step| matches!(step, CheckStep::Expect(expected) if expected.what.is_of_body()));
        if let Some(CheckStep::Expect(first)) = expected.first() {
            self.on_timeout = &first.timeout;
        }
        let head = head_of(request, state)?;
        let body = request.body.as_bytes();
        let timer = Timer::new();
        let io = |error: SendError| Failed::new("L4CON", error.to_string());
        conn.outgoing.buffer().extend(&head);
        conn.outgoing.begin(match body.len() {
            0 => SendFraming::None,
            length => SendFraming::Length(length as u64),
        });
        conn.outgoing.send(body, &timer, self.timeout).await.map_err(io)?;
        conn.outgoing.finish(b"", &timer, self.timeout).await.map_err(io)?;
        let method = Method::of(request.method.as_bytes());
        let mut response = self.receive(&mut conn, &timer).await?;
        let lasts = conn.response().reusable(method);
        conn.begin_body(method);
        if wants_body || request.keep.is_some() {
            response.body = self.body(&mut conn, &timer).await?;
        }
        let lasts = lasts && conn.is_clean();
        let kept_until = kept_until.or_else(|| Some(weir_rt::now() + request.keep?)).filter(|_| lasts);
        self.passed.code = Some(response.status);
        self.passed.word = "L7OK".to_owned();
        let says_nothing = expected.is_empty();
        self.link = Link::Http(response, kept_until.map(|until| Kept { conn, until }));
        if says_nothing { self.usual() } else { Ok(()) }
    }

    async fn receive(&self, conn: &mut ClientConnection, timer: &Timer) -> Result<Response, Failed> {
        let rules = HeadRules {
            head: 64 << 10,
            fields: 1000,
            unusual_names: UnusualNames::Keep,
            ..HeadRules::default()
        };
        loop {
            conn.receive_head(&rules, timer, self.timeout).await.map_err(|failure| match failure {
                ResponseFailure::Timeout => Failed::new(self.on_timeout, "no answer in time"),
                failure => Failed::new("L7RSP", format!("no answer: {failure:?}")),
            })?;
            if !conn.response().is_interim() {
                return Ok(Response::of(&conn.response()));
            }
            conn.skip_head();
        }
    }

    /// The body, as far as it is looked at.
    async fn body(&self, conn: &mut ClientConnection, timer: &Timer) -> Result<Vec<u8>, Failed> {
        let mut body = Vec::new();
        while body.len() < MAX_BODY {
            match conn.incoming.step().map_err(|error| error.to_string())? {
                Step::Piece(start, end) => body.extend_from_slice(conn.incoming.slice(start, end)),
                Step::End => break,
                Step::Wait => {
                    let filled = conn.incoming.fill(timer, self.timeout, weir_rt::MEDIUM).await;
                    filled.map_err(|error| error.to_string())?;
                }
            }
        }
        Ok(body)
    }

    /// Where nothing is said of what is expected.
    fn usual(&mut self) -> Result<(), Failed> {
        let Link::Http(response, _) = &self.link else { return Ok(()) };
        if (200..400).contains(&response.status) {
            return Ok(());
        }
        self.unexpected_status(response.status, "L7STS", "")
    }

    fn unexpected_status(&mut self, status: u16, word: &str, says: &str) -> Result<(), Failed> {
        if status == 404 && self.check.drains_on_404 {
            self.passed.word = "L7OKC".to_owned();
            return Ok(());
        }
        let why = match says {
            "" => format!("answered {status}, which is not what is expected"),
            says => says.to_owned(),
        };
        Err(Failed { word: word.to_owned(), code: Some(status), why })
    }

    async fn expect(&mut self, expected: &'a Expected) -> Result<(), Failed> {
        self.on_timeout = &expected.timeout;
        match &mut self.link {
            Link::None | Link::Kept(_) => return Err("not connected".into()),
            Link::Datagrams { peer, .. } => {
                let received = peer.receive().await?;
                let holds = judge::has_come(&expected.what, &received).map_err(|why| why.to_string())?;
                if holds == expected.negated {
                    return Err(unexpected(expected, &received));
                }
            }
            Link::Http(response, _) => {
                let holds = judge::meets(&expected.what, response).map_err(|why| why.to_string())?;
                if holds == expected.negated {
                    let status = response.status;
                    return self.unexpected_status(status, &expected.error, &expected.says);
                }
            }
            Link::Raw { conn, received, ended } => loop {
                let enough = received.len() >= expected.min_received.unwrap_or(1);
                let holds = judge::has_come(&expected.what, received).map_err(|why| why.to_string())?;
                // As in HAProxy: what does not match now may do so later, unless it was said how much is looked at.
                if *ended || enough && (holds || expected.min_received.is_some()) {
                    if holds == expected.negated {
                        return Err(unexpected(expected, received));
                    }
                    break;
                }
                if received.len() > MAX_BODY {
                    return Err(unexpected(expected, received));
                }
                match conn.read(received).await {
                    Ok(0) => *ended = true,
                    Ok(_) => {}
                    Err(error) => return Err(Failed::new("L4CON", error.to_string())),
                }
            },
        }
        self.passed.word = if expected.ok.is_empty() { "L7OK".to_owned() } else { expected.ok.clone() };
        Ok(())
    }
}

fn unexpected(expected: &Expected, received: &[u8]) -> Failed {
    let why = match (expected.says.as_str(), received.is_empty()) {
        ("", true) => "closed before the expected bytes came".to_owned(),
        ("", false) => {
            let seen = received[..received.len().min(64)].escape_ascii();
            format!("answered \"{seen}\", which is not what is expected")
        }
        (says, _) => says.to_owned(),
    };
    Failed::new(&expected.error, why)
}

fn head_of(request: &CheckRequest, state: &impl Fn() -> String) -> Result<Vec<u8>, Failed> {
    let mut head = Vec::new();
    let version = if request.version == CheckVersion::Http11 { Version::Http11 } else { Version::Http10 };
    let (method, target) = (request.method.as_bytes(), request.target.as_bytes());
    let invalid = "the check's request is not valid";
    let mut writer = HeadWriter::request(&mut head, method, target, version).map_err(|_| invalid)?;
    for (name, value) in &request.headers {
        writer.field(name.to_ascii_lowercase().as_bytes(), value.as_bytes()).map_err(|_| invalid)?;
    }
    if request.tells_state {
        writer.field(b"X-Haproxy-Server-State", state().as_bytes()).map_err(|_| invalid)?;
    }
    if request.keep.is_none() {
        writer.field(b"Connection", b"close").map_err(|_| invalid)?;
    }
    if !request.body.is_empty() {
        writer.number(HeaderId::ContentLength, request.body.len() as u64);
    }
    writer.end();
    Ok(head)
}
