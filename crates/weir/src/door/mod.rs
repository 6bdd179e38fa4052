//! The admin door: Weir's own API over HTTP, on a unix socket or on loopback.
//!
//! Owns: its sockets, its threads and their bounds, one conversation from its first byte to its last.
//! Never: changes anything by itself: `api` decides, the master and the data plane do.
//! Driven by: `life::start`, with `weir run --admin`.
//! Why threads and not the workers: a change waits for all workers, so none of them can carry the question. Why no TLS and no
//! HTTP/2 here: a site of Weir in front of the socket has both, with client certificates.
//!
//! | part | what |
//! |---|---|
//! | `socket` | addresses, connections |
//! | `access` | tokens, roles, failures |
//! | `admit` | who a request is from, and whether a page of a stranger sent it |
//! | `api` | paths and methods; `config` those of the configuration, `live` those of what runs |
//! | `openapi` | what describes them |
//! | `findings` | findings of the compiler, with places in documents |
//! | `reply` | answers, and their form on the wire |
//! | `desk` | where conversations meet the master |
//! | `book` | versions of the configuration, and their file |
//! | `journal` | who did what |

mod access;
mod admit;
mod api;
mod book;
mod config;
mod desk;
mod findings;
mod journal;
mod live;
mod openapi;
mod reply;
mod socket;

use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use weir_http::{Framing, HeadRules, Parsed, RequestHead, UnusualNames};

use crate::launch::Admin;
use access::{Failures, TokenFile};
use admit::Gate;
use api::Asked;
pub(crate) use desk::{Desk, Documents, Outcome, Proposal};
use reply::Reply;
pub(crate) use socket::SocketFile;
use socket::{Caller, Rules, Socket};

/// Conversations at once, on each socket. More wait to be accepted.
const MOST: usize = 16;

/// Time for a head, for a body, and for an answer to be taken.
const HEAD_TIME: Duration = Duration::from_secs(5);
const BODY_TIME: Duration = Duration::from_secs(30);
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// How long a request waits for the first configuration to serve.
const FIRST: Duration = Duration::from_secs(10);

/// How long what is sent on is thrown away once the answer is out.
const LEAVING: Duration = Duration::from_secs(1);

/// Most bytes of a body.
const BODY: u64 = 8 << 20;

const RULES: HeadRules = HeadRules {
    first_line: 8 << 10,
    field_line: 8 << 10,
    head: 16 << 10,
    fields: 100,
    unusual_names: UnusualNames::Keep,
    mends: false,
};

/// Sockets that are bound and do not answer yet.
pub(crate) struct Door {
    sockets: Vec<Socket>,
    gate: Gate,
}

impl Door {
    /// Binds what the command line asks for. `only_root`: a process stays root, and is this one.
    ///
    /// # Errors
    /// One line: an address is none, is not of this machine alone, or is taken; the tokens cannot be read.
    pub(crate) fn open(admin: &Admin, only_root: bool, replaces: bool) -> Result<Self, String> {
        let tokens = admin.tokens.as_deref().map(TokenFile::open).transpose()?;
        let rules = Rules { tokens: tokens.is_some(), only_root, replaces };
        let sockets =
            admin.addresses.iter().map(|text| Socket::bind(text, rules)).collect::<Result<_, _>>()?;
        Ok(Self { sockets, gate: Gate { tokens, failures: Failures::default(), only_root } })
    }

    /// Answers from now on, in threads of its own for as long as the process lives.
    ///
    /// # Errors
    /// There can be no thread.
    pub(crate) fn answer(self, desk: &Arc<Desk>) -> io::Result<()> {
        let gate = Arc::new(self.gate);
        for socket in self.sockets {
            let host =
                Arc::new(Host { desk: Arc::clone(desk), gate: Arc::clone(&gate), seats: Seats::default() });
            let accept = move || {
                loop {
                    let seat = Seat::take(&host);
                    host.greet(socket.accept(), seat);
                }
            };
            std::thread::Builder::new().name("admin".into()).spawn(accept)?;
        }
        Ok(())
    }

    /// The files of the sockets, which go at the end.
    pub(crate) fn files(&self) -> Vec<SocketFile> {
        self.sockets.iter().filter_map(Socket::file).collect()
    }
}

/// What all conversations of a socket share.
struct Host {
    desk: Arc<Desk>,
    gate: Arc<Gate>,
    seats: Seats,
}

/// How many conversations there are.
#[derive(Default)]
struct Seats {
    taken: Mutex<usize>,
    left: Condvar,
}

/// One conversation, for as long as it is counted.
struct Seat(Arc<Host>);

impl Seat {
    /// Waits for one that is free.
    fn take(host: &Arc<Host>) -> Self {
        let Seats { taken, left } = &host.seats;
        let taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |taken: &mut usize| *taken >= MOST;
        *left.wait_while(taken, full).unwrap_or_else(PoisonError::into_inner) += 1;
        Self(Arc::clone(host))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Seats { taken, left } = &self.0.seats;
        *taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        left.notify_one();
    }
}

impl Host {
    fn greet(&self, caller: io::Result<Caller>, seat: Seat) {
        let Ok(mut caller) = caller else {
            // Without descriptors: not at once again.
            return std::thread::sleep(Duration::from_millis(50));
        };
        // Whoever is not to be spoken with learns nothing.
        if !self.gate.may_speak(&caller) {
            return;
        }
        let talk = move || {
            // Whoever leaves gets no answer.
            let _ = seat.0.converse(&mut caller);
        };
        let _ = std::thread::Builder::new().name("admin".into()).spawn(talk);
    }

    /// One request and its answer.
    fn converse(&self, caller: &mut Caller) -> io::Result<()> {
        let (reply, without_body) = self.hear(caller)?;
        caller.allow(ANSWER_TIME);
        reply.write(caller, without_body)?;
        caller.leave(LEAVING);
        Ok(())
    }

    /// Reads a request: its answer, and whether that goes without a body.
    fn hear(&self, caller: &mut Caller) -> io::Result<(Reply, bool)> {
        caller.allow(HEAD_TIME);
        let (mut head, mut bytes) = (RequestHead::new(), Vec::new());
        let length = loop {
            match head.parse(&bytes, &RULES) {
                Ok(Parsed::Whole(length)) => break length,
                Ok(Parsed::NeedMore) => more(caller, &mut bytes)?,
                Err(error) => {
                    return Ok((Reply::problem(error.status(), "bad request", error.as_str()), false));
                }
            }
        };
        let mut bytes_of_body = bytes.split_off(length);
        let request = head.view(&bytes);
        let is_head = request.method_text() == b"HEAD";
        let visitor = match self.gate.admit(caller, &request, &self.desk) {
            Ok(visitor) => visitor,
            Err(refusal) => return Ok((refusal, is_head)),
        };
        let body = match request.framing() {
            Framing::None => 0,
            Framing::Length(length) if length <= BODY => length as usize,
            Framing::Length(_) => {
                return Ok((Reply::problem(413, "too large", "a body has at most 8 MiB"), is_head));
            }
            _ => return Ok((Reply::problem(411, "length required", "send a Content-Length"), is_head)),
        };
        caller.allow(BODY_TIME);
        if request.expects_continue() && bytes_of_body.len() < body {
            caller.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        while bytes_of_body.len() < body {
            more(caller, &mut bytes_of_body)?;
        }
        self.desk.wait_for_first(FIRST);
        let asked = Asked::of(&request, bytes_of_body.get(..body).unwrap_or_default());
        let answered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            api::answer(&asked, &visitor, &self.desk)
        }));
        let broken = || Reply::problem(500, "internal error", "this request met a fault of the server");
        Ok((answered.unwrap_or_else(|_| broken()), is_head))
    }
}

fn more(caller: &mut Caller, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut part = [0; 16 << 10];
    match caller.read(&mut part) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(count) => {
            bytes.extend_from_slice(&part[..count]);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        Err(error) => Err(error),
    }
}
