//! A connection to an endpoint.
//!
//! Owns: the state of the response head that is arriving, and the two directions.
//! Never: chooses endpoints or retries.
//! Driven by: `engine::upstream`, in the order: request, head (interim ones first), body, and again if reusable.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use weir_http::{HeadRules, Method, Parsed, Response, ResponseError, ResponseHead};
use weir_rt::{MEDIUM, PIECE, Timer};

use crate::{Conn, Incoming, Outgoing, SendError, h2};

/// A connection to an endpoint.
pub struct ClientConnection {
    /// Receiving.
    pub incoming: Incoming,
    /// Sending.
    pub outgoing: Outgoing,
    head: ResponseHead,
    head_len: usize,
    head_seen: usize,
    /// The state of a connection that speaks HTTP/2, while it is kept.
    pub http2: Option<Box<h2::Connection>>,
}

/// What an endpoint has said while its request was still being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// No whole head yet.
    Nothing,
    /// An interim head (1xx but 101): the request goes on.
    Interim,
    /// Its answer.
    Final,
    /// Nonsense, or its end: there will be no answer.
    Lost,
}

/// No response head could be received.
#[derive(Debug)]
pub enum ResponseFailure {
    /// The endpoint closed before a byte of an answer. On a kept connection this is a race, not a failure.
    ClosedUnanswered,
    /// It closed within the head.
    Closed,
    /// It was silent for too long.
    Timeout,
    /// It sent what is no HTTP/1 response.
    Malformed(ResponseError),
    /// The connection failed.
    Io(std::io::Error),
}

impl ClientConnection {
    /// A connection on a connected socket.
    pub fn new(io: Conn) -> Self {
        Self {
            incoming: Incoming::new(io.clone()),
            outgoing: Outgoing::new(io),
            head: ResponseHead::new(),
            head_len: 0,
            head_seen: 0,
            http2: None,
        }
    }

    /// The transport.
    #[inline]
    pub fn io(&self) -> &Conn {
        &self.incoming.io
    }

    /// Receives a response head; [`ClientConnection::response`] then shows it. `timeout` is for the whole
    /// head, as nginx has it: one that trickles in does not last for ever.
    ///
    /// # Errors
    /// See [`ResponseFailure`].
    pub async fn receive_head(
        &mut self,
        rules: &HeadRules,
        timer: &Timer,
        timeout: Duration,
    ) -> Result<(), ResponseFailure> {
        self.incoming.release();
        self.head.reset();
        let mut timeout = Some(timeout);
        loop {
            if !self.incoming.input.is_empty() {
                match self.head.parse(&self.incoming.input, rules) {
                    Ok(Parsed::Whole(length)) => {
                        self.head_len = length;
                        self.head_seen = length;
                        return Ok(());
                    }
                    Ok(Parsed::NeedMore) => self.incoming.io.socket().acknowledge(),
                    Err(error) => return Err(ResponseFailure::Malformed(error)),
                }
            }
            // A large first read takes a small answer whole, and the start of a large one.
            let limit = if self.incoming.input.is_empty() { PIECE } else { MEDIUM };
            let read = self.incoming.io.read_up_to(&mut self.incoming.input, limit);
            match timer.within(&mut timeout, read).await {
                Ok(Ok(0)) if self.incoming.input.is_empty() => return Err(ResponseFailure::ClosedUnanswered),
                Ok(Ok(0)) => return Err(ResponseFailure::Closed),
                Ok(Ok(_)) => {}
                Ok(Err(error)) if self.incoming.input.is_empty() && is_reset(&error) => {
                    return Err(ResponseFailure::ClosedUnanswered);
                }
                Ok(Err(error)) => return Err(ResponseFailure::Io(error)),
                Err(_) => return Err(ResponseFailure::Timeout),
            }
        }
    }

    /// Takes in what has arrived of a head, without waiting: for whoever is still sending, when the transport is readable.
    /// After anything but [`Heard::Nothing`], [`ClientConnection::receive_head`] gives the head, or tells what is wrong, at
    /// once. A TLS record that holds no data is nothing.
    pub fn hear(&mut self, rules: &HeadRules) -> Heard {
        self.incoming.release();
        hear(&mut self.incoming, &mut self.head, rules)
    }

    /// As [`Outgoing::send`], but while the endpoint takes nothing, it is listened to: false if it has refused the request
    /// meanwhile, or is gone, and so will not take the rest (RFC 9112 §9.5). [`ClientConnection::receive_head`] then tells.
    ///
    /// # Errors
    /// As [`Outgoing::send`].
    pub async fn send_unless_refused(
        &mut self,
        data: &[u8],
        rules: &HeadRules,
        timer: &Timer,
        timeout: Duration,
    ) -> Result<bool, SendError> {
        self.incoming.release();
        let Self { incoming, outgoing, head, .. } = self;
        let mut send = pin!(outgoing.send(data, timer, timeout));
        let mut listening = true;
        poll_fn(|cx| {
            if let Poll::Ready(sent) = send.as_mut().poll(cx) {
                return Poll::Ready(sent.map(|()| true));
            }
            while listening && incoming.io.poll_readable(cx).is_ready() {
                match hear(incoming, head, rules) {
                    Heard::Nothing => {}
                    Heard::Lost => return Poll::Ready(Ok(false)),
                    Heard::Final if refuses(head.view(&incoming.input)) => return Poll::Ready(Ok(false)),
                    // It goes on reading: what it said is for later.
                    Heard::Interim | Heard::Final => listening = false,
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The response whose head was received. Valid until [`ClientConnection::begin_body`] or
    /// [`ClientConnection::skip_head`].
    #[inline]
    pub fn response(&self) -> Response<'_> {
        self.head.view(&self.incoming.input)
    }

    /// The bytes of the head that was received.
    #[inline]
    pub fn head_bytes(&self) -> &[u8] {
        &self.incoming.input[..self.head_len]
    }

    /// Bytes of the last head, also once it was left behind.
    pub fn head_len_seen(&self) -> usize {
        self.head_seen
    }

    /// Leaves an interim head behind; the next head follows.
    pub fn skip_head(&mut self) {
        self.incoming.input.consume(std::mem::take(&mut self.head_len));
    }

    /// Leaves the head behind and begins its body.
    pub fn begin_body(&mut self, request: Method) {
        let framing = self.head.view(&self.incoming.input).framing(request);
        self.incoming.input.consume(std::mem::take(&mut self.head_len));
        self.incoming.begin(framing);
    }

    /// Whether nothing arrived that was not asked for: a kept connection with bytes in it must not be used.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.incoming.pending().is_empty()
    }

    /// Whether request and answer are both through, and nothing followed: else the next request would be read as the rest
    /// of this one, or the rest of this answer as the next.
    pub fn is_clean(&self) -> bool {
        self.incoming.is_done() && self.is_quiet() && self.outgoing.is_done()
    }

    /// Begins to listen for what an idle connection should not say.
    pub fn watch(&self) {
        if !self.incoming.io.socket().is_listened_to() {
            let _ = self.incoming.io.heard();
        }
    }

    /// Whether a connection that was [watched](Self::watch) while idle has said nothing and was not closed: what it said
    /// would be taken for the next answer. A system call only where something was noticed, or with `look`.
    pub fn was_silent(&mut self, look: bool) -> bool {
        let suspect = look || self.incoming.io.heard();
        self.is_quiet() && (!suspect || matches!(self.incoming.fill_ready(1), Ok(false)))
    }
}

fn hear(incoming: &mut Incoming, head: &mut ResponseHead, rules: &HeadRules) -> Heard {
    head.reset();
    loop {
        if !incoming.input.is_empty() {
            match head.parse(&incoming.input, rules) {
                Ok(Parsed::Whole(_)) if head.view(&incoming.input).is_interim() => return Heard::Interim,
                Ok(Parsed::Whole(_)) => return Heard::Final,
                Ok(Parsed::NeedMore) => {}
                Err(_) => return Heard::Lost,
            }
        }
        match incoming.io.try_read_up_to(&mut incoming.input, MEDIUM) {
            Ok(None) => return Heard::Nothing,
            Ok(Some(0)) | Err(_) => return Heard::Lost,
            Ok(Some(_)) => {}
        }
    }
}

/// Whether an answer means that the rest of the request is not wanted.
fn refuses(response: Response<'_>) -> bool {
    response.status() >= 400 || response.connection().close
}

fn is_reset(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as K;
    matches!(error.kind(), K::ConnectionReset | K::BrokenPipe | K::ConnectionAborted)
}
