//! What a scripted origin does on one connection, step by step.
//!
//! Owns: the steps, their order, and reading requests strictly enough to know what arrived.
//! Never: accepts connections (`Origin` does).
//! Driven by: `Origin`, which plays a script on each connection.

use crate::deadline::Deadline;
use crate::gate::Gate;
use crate::response::{find, latin1};
use crate::wire::{Ended, Wire};
use std::time::Duration;

/// One request as it reached the origin.
#[derive(Clone, Debug)]
pub struct Received {
    /// Request line and fields, without the empty line.
    pub head: String,
    /// The body, framing removed.
    pub body: Vec<u8>,
}

impl Received {
    /// `METHOD target`.
    #[must_use]
    pub fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default().rsplit_once(' ').map_or("", |(line, _)| line)
    }

    /// All values of a field.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.head.lines().skip(1).filter_map(move |l| {
            let (n, v) = l.split_once(':')?;
            n.eq_ignore_ascii_case(name).then(|| v.trim())
        })
    }

    /// The only value of a field, or `None`.
    ///
    /// # Panics
    /// When it came more than once.
    #[must_use]
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.all(name);
        let first = values.next();
        assert!(values.next().is_none(), "`{name}` reached the origin more than once:\n{}", self.head);
        first
    }
}

#[derive(Clone)]
enum Step {
    Expect(String),
    ExpectHead(String),
    ExpectBytes(Vec<u8>),
    ReadBody,
    Send(Vec<u8>),
    SendSlowly(Vec<u8>, usize, Duration),
    Respond(u16, Vec<(String, String)>, Vec<u8>),
    KeepAnswering(u16, Vec<(String, String)>, Vec<u8>),
    WaitFor(Gate),
    Pause(Duration),
    Echo,
    HalfClose,
    UntilClosed,
    Close,
    Reset,
}

/// The steps of one connection. A script that ends leaves the connection closed in good order.
#[derive(Clone, Default)]
pub struct Script {
    steps: Vec<Step>,
}

impl Script {
    /// No steps yet: accepts and closes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Reads one whole request (body included), whose line must begin with `METHOD target`.
    #[must_use]
    pub fn expect(self, line: &str) -> Self {
        self.then(Step::Expect(line.into()))
    }

    /// Reads one request head and leaves its body on the wire.
    #[must_use]
    pub fn expect_head(self, line: &str) -> Self {
        self.then(Step::ExpectHead(line.into()))
    }

    /// Reads the body of the head read last.
    #[must_use]
    pub fn read_body(self) -> Self {
        self.then(Step::ReadBody)
    }

    /// Reads exactly these raw bytes.
    #[must_use]
    pub fn expect_bytes(self, bytes: impl AsRef<[u8]>) -> Self {
        self.then(Step::ExpectBytes(bytes.as_ref().to_vec()))
    }

    /// Sends exactly these bytes, be they an answer, a part of one, or garbage.
    #[must_use]
    pub fn send(self, bytes: impl AsRef<[u8]>) -> Self {
        self.then(Step::Send(bytes.as_ref().to_vec()))
    }

    /// Sends in pieces of `piece` bytes with a pause after each: a slow origin.
    #[must_use]
    pub fn send_slowly(self, bytes: impl AsRef<[u8]>, piece: usize, pause: Duration) -> Self {
        self.then(Step::SendSlowly(bytes.as_ref().to_vec(), piece, pause))
    }

    /// Sends a well-formed answer with a Content-Length.
    #[must_use]
    pub fn respond(self, status: u16, body: impl AsRef<[u8]>) -> Self {
        self.respond_with(status, &[], body)
    }

    /// Sends a well-formed answer with further fields.
    #[must_use]
    pub fn respond_with(self, status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        self.then(Step::Respond(status, owned(headers), body.as_ref().to_vec()))
    }

    /// Answers every further request the same way until the peer closes.
    #[must_use]
    pub fn keep_answering(self, status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        self.then(Step::KeepAnswering(status, owned(headers), body.as_ref().to_vec()))
    }

    /// Goes on once the test opens the gate.
    #[must_use]
    pub fn wait_for(self, gate: &Gate) -> Self {
        self.then(Step::WaitFor(gate.clone()))
    }

    /// Does nothing for a while: an origin that thinks. Use [`Script::wait_for`] to order events.
    #[must_use]
    pub fn pause(self, time: Duration) -> Self {
        self.then(Step::Pause(time))
    }

    /// Sends back whatever comes until the peer closes: the far end of a tunnel.
    #[must_use]
    pub fn echo(self) -> Self {
        self.then(Step::Echo)
    }

    /// Says that nothing more will be sent, and goes on reading.
    #[must_use]
    pub fn half_close(self) -> Self {
        self.then(Step::HalfClose)
    }

    /// Holds the connection, reading and dropping, until the peer ends it.
    #[must_use]
    pub fn until_closed(self) -> Self {
        self.then(Step::UntilClosed)
    }

    /// Closes in good order.
    #[must_use]
    pub fn close(self) -> Self {
        self.then(Step::Close)
    }

    /// Closes with a RST.
    #[must_use]
    pub fn reset(self) -> Self {
        self.then(Step::Reset)
    }
}

fn owned(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
}

/// How a connection went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All steps were played.
    Done,
    /// The peer closed where a request was to begin: an idle connection, no fault.
    Idle,
    /// A step could not be played.
    Failed(String),
}

/// Plays `script` on `wire`, telling `received` about each request. The connection, unless it was reset, is handed back open, so that
/// the outcome is known before the peer sees the end.
pub(crate) fn play(
    script: &Script,
    wire: Wire,
    mut received: impl FnMut(Received),
) -> (Outcome, Option<Wire>) {
    let mut player = Player { wire, head: String::new() };
    for step in &script.steps {
        match player.step(step, &mut received) {
            Ok(Next::Step) => {}
            Ok(Next::End) => break,
            Ok(Next::Reset) => {
                player.wire.reset();
                return (Outcome::Done, None);
            }
            Err(outcome) => return (outcome, Some(player.wire)),
        }
    }
    (Outcome::Done, Some(player.wire))
}

enum Next {
    Step,
    End,
    Reset,
}

struct Player {
    wire: Wire,
    /// The head read last, which frames the body that `ReadBody` reads.
    head: String,
}

impl Player {
    fn step(&mut self, step: &Step, received: &mut impl FnMut(Received)) -> Result<Next, Outcome> {
        match step {
            Step::Expect(line) => {
                self.head = self.expect_head(line)?;
                let body = self.read_body()?;
                received(Received { head: self.head.clone(), body });
            }
            Step::ExpectHead(line) => {
                self.head = self.expect_head(line)?;
                received(Received { head: self.head.clone(), body: Vec::new() });
            }
            Step::ReadBody => {
                let body = self.read_body()?;
                received(Received { head: self.head.clone(), body });
            }
            Step::ExpectBytes(bytes) => self.expect_bytes(bytes)?,
            Step::Send(bytes) => self.send(bytes)?,
            Step::SendSlowly(bytes, piece, pause) => {
                for part in bytes.chunks(*piece) {
                    // The peer may have had enough of it, which is what such tests are about.
                    if self.wire.write(part).is_err() {
                        return Ok(Next::End);
                    }
                    std::thread::sleep(*pause);
                }
            }
            Step::Respond(status, headers, body) => {
                let bytes = answer(*status, headers, body, self.head.starts_with("HEAD "));
                self.send(&bytes)?;
            }
            Step::KeepAnswering(status, headers, body) => loop {
                self.head = match self.read_head() {
                    Ok(head) => head,
                    Err(Outcome::Idle) => return Ok(Next::End),
                    Err(other) => return Err(other),
                };
                let read = self.read_body()?;
                received(Received { head: self.head.clone(), body: read });
                let bytes = answer(*status, headers, body, self.head.starts_with("HEAD "));
                self.send(&bytes)?;
            },
            Step::WaitFor(gate) => {
                if !gate.pass(Deadline::standard()) {
                    return failed("the gate stayed closed");
                }
            }
            Step::Pause(time) => std::thread::sleep(*time),
            Step::Echo => {
                while self.wire.fill(Deadline::standard()).is_ok() {
                    let bytes = self.wire.take(self.wire.pending().len());
                    self.send(&bytes)?;
                }
                return Ok(Next::End);
            }
            Step::HalfClose => self.wire.half_close(),
            Step::UntilClosed => {
                if self.wire.drain(Deadline::standard()) == Ended::Late {
                    return failed("the peer kept the connection open");
                }
                return Ok(Next::End);
            }
            Step::Close => return Ok(Next::End),
            Step::Reset => return Ok(Next::Reset),
        }
        Ok(Next::Step)
    }

    fn expect_head(&mut self, line: &str) -> Result<String, Outcome> {
        let head = self.read_head()?;
        let fits = head.strip_prefix(line).is_some_and(|rest| rest.starts_with(' ') || line.ends_with('*'))
            || line.strip_suffix('*').is_some_and(|l| head.starts_with(l));
        if fits { Ok(head) } else { failed(format!("expected `{line}`, got:\n{head}")) }
    }

    fn read_head(&mut self) -> Result<String, Outcome> {
        let deadline = Deadline::standard();
        loop {
            if let Some(at) = find(self.wire.pending(), b"\r\n\r\n") {
                let head = self.wire.take(at + 4);
                return Ok(latin1(&head[..at]));
            }
            if let Err(end) = self.wire.fill(deadline) {
                return if self.wire.pending().is_empty() {
                    Err(Outcome::Idle)
                } else {
                    failed(format!("{end:?} within a head: {:?}", latin1(self.wire.pending())))
                };
            }
        }
    }

    fn read_body(&mut self) -> Result<Vec<u8>, Outcome> {
        let request = Received { head: self.head.clone(), body: Vec::new() };
        let lengths: Vec<&str> = request.all("content-length").collect();
        let codings: Vec<&str> = request.all("transfer-encoding").collect();
        match (lengths.as_slice(), codings.as_slice()) {
            ([], []) => Ok(Vec::new()),
            ([n], []) => match n.parse() {
                Ok(n) => self.exactly(n),
                Err(_) => failed(format!("content-length {n:?}")),
            },
            ([], ["chunked"]) => self.chunks(),
            _ => failed(format!("ambiguous length reached the origin:\n{}", self.head)),
        }
    }

    fn chunks(&mut self) -> Result<Vec<u8>, Outcome> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let Ok(size) = usize::from_str_radix(line.split(';').next().unwrap_or_default(), 16) else {
                return failed(format!("chunk size {line:?}"));
            };
            if size == 0 {
                break;
            }
            body.extend(self.exactly(size)?);
            self.exactly(2)?;
        }
        // Trailers end with an empty line; tests that look at them read raw bytes.
        while !self.line()?.is_empty() {}
        Ok(body)
    }

    fn line(&mut self) -> Result<String, Outcome> {
        let deadline = Deadline::standard();
        loop {
            if let Some(at) = find(self.wire.pending(), b"\r\n") {
                let line = self.wire.take(at + 2);
                return Ok(latin1(&line[..at]));
            }
            if let Err(end) = self.wire.fill(deadline) {
                return failed(format!("{end:?} within a chunked body"));
            }
        }
    }

    fn exactly(&mut self, n: usize) -> Result<Vec<u8>, Outcome> {
        let deadline = Deadline::standard();
        while self.wire.pending().len() < n {
            if let Err(end) = self.wire.fill(deadline) {
                return failed(format!("{end:?} after {} of {n} bytes", self.wire.pending().len()));
            }
        }
        Ok(self.wire.take(n))
    }

    fn expect_bytes(&mut self, bytes: &[u8]) -> Result<(), Outcome> {
        let got = self.exactly(bytes.len())?;
        if got == bytes {
            Ok(())
        } else {
            failed(format!("expected {:?}, got {:?}", latin1(bytes), latin1(&got)))
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Outcome> {
        self.wire.write(bytes).or_else(|e| failed(format!("cannot send: {e}")))
    }
}

fn failed<T>(why: impl Into<String>) -> Result<T, Outcome> {
    Err(Outcome::Failed(why.into()))
}

/// A well-formed answer; `to_head` leaves the body out.
fn answer(status: u16, headers: &[(String, String)], body: &[u8], to_head: bool) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status} Scripted\r\n");
    for (name, value) in headers {
        out += &format!("{name}: {value}\r\n");
    }
    let bodiless = matches!(status, 100..=199 | 204 | 304);
    if !bodiless {
        out += &format!("Content-Length: {}\r\n", body.len());
    }
    out += "\r\n";
    let mut out = out.into_bytes();
    if !bodiless && !to_head {
        out.extend_from_slice(body);
    }
    out
}
