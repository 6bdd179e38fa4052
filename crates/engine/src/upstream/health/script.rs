//! One check: a script that is played.
//!
//! Owns: the connection of a check, what was received on it, the time for all of it.
//! Never: decides what a result means for the endpoint.
//! Driven by: the task of an endpoint, each time a check is due.

use std::net::SocketAddr;
use std::time::Duration;

use weir_expr::check::{CheckConnect, CheckRequest, CheckStep, Expectation};
use weir_http::{HeadRules, HeadWriter, HeaderId, Method, UnusualNames, Version};
use weir_plan::{Address, Endpoint, HealthCheck, Pattern};
use weir_rt::{Buf, Instant, Timer};
use weir_wire::{ClientConnection, Conn, ResponseFailure, SendError, SendFraming, Step};

use super::judge::{self, Response};
use super::result::{Failed, Passed};
use crate::upstream::{ConnectFailure, ConnectSettings, open};
use crate::worker::prepared::Prepared;

/// Most bytes of an answer that are looked at.
const MAX_BODY: usize = 64 << 10;

type Expected = Expectation<std::sync::Arc<Pattern>>;
type Steps = [CheckStep<std::sync::Arc<Pattern>>];

/// Plays the script of a check. `state`: what the endpoint is told of itself, where it asked for that.
pub(super) async fn play(
    prepared: &Prepared,
    endpoint: &Endpoint,
    check: &HealthCheck,
    state: impl Fn() -> String,
) -> Result<Passed, Failed> {
    let timeout = check.timeout.unwrap_or(check.interval);
    let mut played = Played {
        prepared,
        endpoint,
        check,
        timeout,
        due: weir_rt::now() + timeout,
        link: Link::None,
        on_timeout: "L4TOUT",
        passed: Passed { word: "L4OK".to_owned(), code: None, drains: false },
    };
    let ended = weir_rt::timeout(played.due, Box::pin(played.all(&check.steps, &state))).await;
    match ended {
        Ok(Ok(())) => {
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
    /// What it is called if time runs out now.
    on_timeout: &'a str,
    passed: Passed,
}

/// The connection, and what came on it since something was sent.
enum Link {
    None,
    Raw { conn: Conn, received: Buf, ended: bool },
    Http(Response),
}

impl<'a> Played<'a> {
    async fn all(&mut self, steps: &'a Steps, state: &impl Fn() -> String) -> Result<(), Failed> {
        for (at, step) in steps.iter().enumerate() {
            let rest = &steps[at + 1..];
            match step {
                CheckStep::Connect(connect) => self.connect(connect).await?,
                CheckStep::Send(bytes) => self.send(bytes).await?,
                CheckStep::Ask(request) => Box::pin(self.ask(request, rest, state)).await?,
                CheckStep::Expect(expected) => self.expect(expected).await?,
            }
        }
        Ok(())
    }

    async fn connect(&mut self, connect: &CheckConnect) -> Result<(), Failed> {
        self.link = Link::None;
        self.on_timeout = if connect.tls { "L6TOUT" } else { "L4TOUT" };
        let address = self.address(connect).ok_or("its name did not resolve")?;
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
            keepalive: false,
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
        let mut conn = match std::mem::replace(&mut self.link, Link::None) {
            Link::Raw { conn, .. } => ClientConnection::new(conn),
            // One request to a connection: front ends see to that.
            Link::None | Link::Http(_) => return Err("not connected".into()),
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
        conn.begin_body(method);
        if wants_body {
            response.body = self.body(&mut conn, &timer).await?;
        }
        self.passed.code = Some(response.status);
        self.passed.word = "L7OK".to_owned();
        let says_nothing = expected.is_empty();
        self.link = Link::Http(response);
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
        let Link::Http(response) = &self.link else { return Ok(()) };
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
            Link::None => return Err("not connected".into()),
            Link::Http(response) => {
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
    let version = if request.http11 { Version::Http11 } else { Version::Http10 };
    let (method, target) = (request.method.as_bytes(), request.target.as_bytes());
    let invalid = "the check's request is not valid";
    let mut writer = HeadWriter::request(&mut head, method, target, version).map_err(|_| invalid)?;
    for (name, value) in &request.headers {
        writer.field(name.to_ascii_lowercase().as_bytes(), value.as_bytes()).map_err(|_| invalid)?;
    }
    if request.tells_state {
        writer.field(b"X-Haproxy-Server-State", state().as_bytes()).map_err(|_| invalid)?;
    }
    writer.field(b"Connection", b"close").map_err(|_| invalid)?;
    if !request.body.is_empty() {
        writer.number(HeaderId::ContentLength, request.body.len() as u64);
    }
    writer.end();
    Ok(head)
}
