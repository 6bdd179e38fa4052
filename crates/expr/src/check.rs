//! What an active check of an endpoint does: a script.
//!
//! Owns: the steps, what an answer must be, the agent's address.
//! Driven by: front ends write scripts, `engine` plays them.
//! Why one script for all kinds: an HTTP request, a PING and a login are messages that are sent and answers that are
//! expected, in turn. `P` is a pattern: as it was written, or compiled.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use crate::form;
use crate::settings::{ProxyProtocol, Spoken};

/// A step of a script. The first one connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStep<P> {
    /// A new connection.
    Connect(CheckConnect),
    /// Bytes are sent.
    Send(#[serde(with = "crate::form::bytes")] Vec<u8>),
    /// An HTTP request is sent.
    Ask(Box<CheckRequest>),
    /// An application server is asked as its protocol has it.
    AskApplication(Box<ApplicationCheck>),
    /// The health service of gRPC is asked; its answer is judged by itself.
    AskGrpc(Box<GrpcCheck>),
    /// What came since the last step that sent something must be so.
    Expect(Box<Expectation<P>>),
}

/// A connection of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckConnect {
    /// In place of the endpoint's.
    pub address: Option<IpAddr>,
    /// In place of the endpoint's.
    pub port: Option<u16>,
    /// Over TLS, as the check's settings say.
    pub tls: bool,
    /// In place of the name that those settings send.
    pub name: Option<String>,
    /// A PROXY header goes first: one that says that nobody is proxied.
    pub send_proxy: Option<ProxyProtocol>,
    /// Datagrams are sent and awaited. Where none is awaited, silence is good, and word that nobody takes them is not.
    pub datagrams: bool,
}

/// What an application server is asked by a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationCheck {
    /// What is spoken.
    pub spoken: Spoken,
    /// Parameters in order; none with memcached.
    pub params: Vec<(String, String)>,
    /// Memcached: the key that must be there.
    pub key: String,
}

/// A question to the health service of gRPC (grpc.health.v1.Health/Check).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrpcCheck {
    /// The service that it is about; empty: the server as a whole.
    pub service: String,
    /// `:authority`.
    pub authority: String,
    /// A status of gRPC that is as good as an answer: 12, say, of a server that has no health service.
    pub accepts: Option<u32>,
}

/// A request of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRequest {
    /// Method.
    pub method: String,
    /// Target.
    pub target: String,
    /// In which HTTP.
    pub version: CheckVersion,
    /// Fields.
    #[serde(serialize_with = "names")]
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: String,
    /// Tells the endpoint what is known of it, in `X-Haproxy-Server-State`.
    pub tells_state: bool,
    /// The connection is kept for further checks, for so long. HTTP/1 only.
    pub keep: Option<Duration>,
}

/// The version of HTTP of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckVersion {
    /// HTTP/1.0.
    #[default]
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2.
    Http2,
}

/// What an answer must be, and what that says of the endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectation<P> {
    /// What it must be.
    pub what: Expect<P>,
    /// It must not be so.
    pub negated: bool,
    /// So many bytes are judged, or all that comes; without it a mismatch waits for more.
    pub min_received: Option<usize>,
    /// HAProxy's word for it where it holds; `L7OK` if empty.
    pub ok: String,
    /// Where it does not.
    pub error: String,
    /// Where no answer comes in time.
    pub timeout: String,
    /// The text for logs where it does not hold; empty: which says what was expected.
    pub says: String,
}

impl<P> Expectation<P> {
    /// With the usual words for a mismatch.
    pub fn new(what: Expect<P>) -> Self {
        let error = if what.is_of_http() { "L7STS" } else { "L7RSP" };
        Self {
            what,
            negated: false,
            min_received: None,
            ok: String::new(),
            error: error.to_owned(),
            timeout: "L7TOUT".to_owned(),
            says: String::new(),
        }
    }
}

/// What an answer must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect<P> {
    /// A status in one of these ranges, ends included.
    Status(Vec<(u16, u16)>),
    /// The status matches.
    StatusMatches(P),
    /// The body contains.
    Body(String),
    /// The body matches.
    BodyMatches(P),
    /// A field is there.
    Header {
        /// Its name.
        name: TextMatch<P>,
        /// Its value; `None`: any.
        value: Option<TextMatch<P>>,
        /// The value is the line's; else each member of its list.
        full: bool,
    },
    /// Bytes came.
    Bytes(#[serde(with = "crate::form::bytes")] Vec<u8>),
    /// What came matches.
    BytesMatch(P),
    /// What came matches, written in capital hexadecimal digits.
    HexMatches(P),
}

impl<P> Expect<P> {
    /// Whether it is about a response to a request of HTTP.
    pub fn is_of_http(&self) -> bool {
        !matches!(self, Self::Bytes(_) | Self::BytesMatch(_) | Self::HexMatches(_))
    }

    /// Whether a response's body has a say.
    pub fn is_of_body(&self) -> bool {
        matches!(self, Self::Body(_) | Self::BodyMatches(_))
    }
}

/// How a text is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextMatch<P> {
    /// Is this.
    Is(String),
    /// Begins so.
    Begins(String),
    /// Ends so.
    Ends(String),
    /// Has this in it.
    Contains(String),
    /// Matches.
    Matches(P),
}

/// How traffic has a say in an endpoint's health, beside its checks (HAProxy's `observe`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observe {
    /// What is watched.
    pub what: Observed,
    /// So many errors in a row are one event. At least one.
    pub limit: u32,
    /// What such an event does.
    pub then: OnErrors,
}

/// What is watched of the traffic of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observed {
    /// Whether it can be connected to.
    Connections,
    /// That, and what it answers.
    Responses,
}

/// What errors in a row do. Each of them brings the next check forward, where there is a time for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnErrors {
    /// No more than that.
    CheckSooner,
    /// They count as one failed check.
    FailCheck,
    /// One more failed check takes it down.
    SuddenDeath,
    /// It is down.
    MarkDown,
}

/// What is cut when an endpoint goes up or down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cuts {
    /// Connections to it, when it goes down or into maintenance (HAProxy `on-marked-down shutdown-sessions`).
    pub when_down: bool,
    /// Those to the backups of its pool, when it comes up (HAProxy `on-marked-up shutdown-backup-sessions`).
    pub backups_when_up: bool,
}

impl Cuts {
    /// Nothing is cut.
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What becomes of an endpoint that has not been checked yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FirstState {
    /// Up; one failure takes it down.
    #[default]
    Up,
    /// Up; as many failures as ever take it down.
    FullyUp,
    /// Down; one success brings it up.
    Down,
    /// Down; as many successes as ever bring it up.
    FullyDown,
}

/// A program beside an endpoint that says how it is (HAProxy's `agent-check`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentCheck {
    /// In place of the endpoint's.
    pub address: Option<IpAddr>,
    /// Its port.
    pub port: u16,
    /// Time between questions.
    pub interval: Duration,
    /// What it is sent first.
    #[serde(with = "crate::form::bytes")]
    pub send: Vec<u8>,
}

impl<P> CheckStep<P> {
    /// With other patterns.
    pub fn map<'a, Q>(&'a self, pattern: &mut impl FnMut(&'a P) -> Q) -> CheckStep<Q> {
        match self {
            Self::Connect(connect) => CheckStep::Connect(connect.clone()),
            Self::Send(bytes) => CheckStep::Send(bytes.clone()),
            Self::Ask(request) => CheckStep::Ask(request.clone()),
            Self::AskApplication(asked) => CheckStep::AskApplication(asked.clone()),
            Self::AskGrpc(asked) => CheckStep::AskGrpc(asked.clone()),
            Self::Expect(expectation) => CheckStep::Expect(Box::new(expectation.map(pattern))),
        }
    }
}

impl<P> Expectation<P> {
    fn map<'a, Q>(&'a self, pattern: &mut impl FnMut(&'a P) -> Q) -> Expectation<Q> {
        Expectation {
            what: self.what.map(pattern),
            negated: self.negated,
            min_received: self.min_received,
            ok: self.ok.clone(),
            error: self.error.clone(),
            timeout: self.timeout.clone(),
            says: self.says.clone(),
        }
    }
}

impl<P> Expect<P> {
    fn map<'a, Q>(&'a self, pattern: &mut impl FnMut(&'a P) -> Q) -> Expect<Q> {
        match self {
            Self::Status(ranges) => Expect::Status(ranges.clone()),
            Self::StatusMatches(one) => Expect::StatusMatches(pattern(one)),
            Self::Body(text) => Expect::Body(text.clone()),
            Self::BodyMatches(one) => Expect::BodyMatches(pattern(one)),
            Self::Header { name, value, full } => Expect::Header {
                name: name.map(pattern),
                value: value.as_ref().map(|value| value.map(pattern)),
                full: *full,
            },
            Self::Bytes(bytes) => Expect::Bytes(bytes.clone()),
            Self::BytesMatch(one) => Expect::BytesMatch(pattern(one)),
            Self::HexMatches(one) => Expect::HexMatches(pattern(one)),
        }
    }
}

impl<P> TextMatch<P> {
    fn map<'a, Q>(&'a self, pattern: &mut impl FnMut(&'a P) -> Q) -> TextMatch<Q> {
        match self {
            Self::Is(text) => TextMatch::Is(text.clone()),
            Self::Begins(text) => TextMatch::Begins(text.clone()),
            Self::Ends(text) => TextMatch::Ends(text.clone()),
            Self::Contains(text) => TextMatch::Contains(text.clone()),
            Self::Matches(one) => TextMatch::Matches(pattern(one)),
        }
    }
}

/// Fields without their values: some of them are credentials.
fn names<S: Serializer>(
    fields: &impl AsRef<Vec<(String, String)>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if form::form() == form::Form::Shown {
        return serializer.collect_seq(fields.as_ref().iter().map(|(name, _)| name));
    }
    match form::hides_secrets() {
        true => serializer.collect_seq(fields.as_ref().iter().map(|(name, _)| (name, form::REDACTED))),
        false => fields.as_ref().serialize(serializer),
    }
}
