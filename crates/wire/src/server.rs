//! A connection from a client.
//!
//! Owns: the state of the request head that is arriving, and the two directions.
//! Never: answers by itself.
//! Driven by: `engine::http`, in the order: wait, head, body, answer, next.
//! Why: it exists only while there are requests: an idle connection is a [`Conn`] and nothing else. The memory heads are
//! parsed in goes from connection to connection.

use std::time::Duration;

use weir_http::{HeadRules, Parsed, Request, RequestError, RequestHead};
use weir_rt::{MEDIUM, PIECE, Timer};

use crate::{Conn, Incoming, Outgoing, ReceiveError, Step};

/// A connection from a client.
pub struct ServerConnection {
    /// Receiving.
    pub incoming: Incoming,
    /// Sending.
    pub outgoing: Outgoing,
    head: Box<RequestHead>,
    head_len: usize,
    head_waited: bool,
}

/// No request head could be received.
#[derive(Debug)]
pub enum HeadFailure {
    /// The connection ended or went silent before any byte of a request: it is closed without an answer.
    Idle,
    /// It ended within a head.
    Closed,
    /// The head took too long: 408.
    Timeout,
    /// The head is refused: the error has the status.
    Refused(RequestError),
    /// The connection failed.
    Io(std::io::Error),
}

impl ServerConnection {
    /// A connection with what was read from it already; `head` is memory to parse in, from
    /// [`ServerConnection::into_head`] or new.
    pub fn new(io: Conn, input: weir_rt::Buf, head: Box<RequestHead>) -> Self {
        Self {
            incoming: Incoming::with_input(io.clone(), input),
            outgoing: Outgoing::new(io),
            head,
            head_len: 0,
            head_waited: false,
        }
    }

    /// The memory that heads were parsed in, for another connection.
    pub fn into_head(self) -> Box<RequestHead> {
        self.head
    }

    /// The bytes of the head that was received.
    #[inline]
    pub fn head_bytes(&self) -> &[u8] {
        &self.incoming.input[..self.head_len]
    }

    /// Whether the head had arrived before it was asked for.
    pub fn head_was_waiting(&self) -> bool {
        self.head_waited
    }

    /// The transport.
    #[inline]
    pub fn io(&self) -> &Conn {
        &self.incoming.io
    }

    /// Whether bytes of another request have arrived already.
    #[inline]
    pub fn has_input(&self) -> bool {
        !self.incoming.pending().is_empty()
    }

    /// Receives a head; [`ServerConnection::request`] then shows it. `timeout` is for the whole head.
    ///
    /// # Errors
    /// See [`HeadFailure`].
    pub async fn receive_head(
        &mut self,
        rules: &HeadRules,
        timer: &Timer,
        timeout: Duration,
    ) -> Result<(), HeadFailure> {
        self.incoming.release();
        self.head.reset();
        self.head_waited = self.has_input();
        let mut timeout = Some(timeout);
        loop {
            if !self.incoming.input.is_empty() {
                match self.head.parse(&self.incoming.input, rules) {
                    Ok(Parsed::Whole(length)) => {
                        self.head_len = length;
                        return Ok(());
                    }
                    Ok(Parsed::NeedMore) => self.incoming.io.socket().acknowledge(),
                    Err(error) => return Err(HeadFailure::Refused(error)),
                }
            }
            let read = self.incoming.io.read_up_to(&mut self.incoming.input, MEDIUM);
            let read = timer.within(&mut timeout, read).await;
            let untouched = self.head.is_untouched(&self.incoming.input);
            match read {
                Ok(Ok(0)) if untouched => return Err(HeadFailure::Idle),
                Ok(Ok(0)) => return Err(HeadFailure::Closed),
                Ok(Ok(_)) => {}
                Ok(Err(_)) if untouched => return Err(HeadFailure::Idle),
                Ok(Err(error)) => return Err(HeadFailure::Io(error)),
                Err(_) if untouched => return Err(HeadFailure::Idle),
                Err(_) => return Err(HeadFailure::Timeout),
            }
        }
    }

    /// The request whose head was received. Valid until [`ServerConnection::begin_body`].
    #[inline]
    pub fn request(&self) -> Request<'_> {
        self.head.view(&self.incoming.input)
    }

    /// Bytes of the head.
    #[inline]
    pub fn head_len(&self) -> usize {
        self.head_len
    }

    /// Leaves the head behind and begins its body. What the request said must have been copied before.
    pub fn begin_body(&mut self) {
        let framing = self.head.view(&self.incoming.input).framing();
        self.incoming.input.consume(std::mem::take(&mut self.head_len));
        self.incoming.begin(framing);
    }

    /// Reads and drops what is left of the request's body, so that the next request can be read. False if it is too
    /// much, too slow or broken: the connection must be closed. At most `total` time, `each` between reads.
    pub async fn skip_body(&mut self, most: u64, timer: &Timer, total: Duration, each: Duration) -> bool {
        let limit = self.incoming.received().saturating_add(most);
        let end = weir_rt::now() + total;
        loop {
            match self.incoming.step() {
                Ok(Step::Piece(..)) if self.incoming.received() > limit => return false,
                Ok(Step::Piece(..)) => {}
                Ok(Step::End) => return true,
                Ok(Step::Wait) => {
                    let left = end.saturating_duration_since(weir_rt::now());
                    if left.is_zero() || self.incoming.fill(timer, each.min(left), PIECE).await.is_err() {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
    }

    /// Waits until the kernel has the whole answer: before a close, which does not. False if it failed, or `timeout`
    /// passed.
    pub async fn delivered(&self, timer: &Timer, timeout: Duration) -> bool {
        timer.arm(timeout);
        matches!(timer.run(self.incoming.io.flushed()).await, Ok(Ok(())))
    }

    /// Sends FIN, then reads and drops what the client still sends, so that the answer is not lost to a reset
    /// (RFC 9112 §9.6). At most `total` time, `each` between reads.
    pub async fn linger(&mut self, timer: &Timer, total: Duration, each: Duration) {
        timer.arm(total);
        if !matches!(timer.run(self.incoming.io.shutdown_write()).await, Ok(Ok(()))) {
            return;
        }
        let end = weir_rt::now() + total;
        self.incoming.input.clear();
        while weir_rt::now() < end {
            timer.arm(each.min(end.saturating_duration_since(weir_rt::now())));
            self.incoming.input.clear();
            match timer.run(self.incoming.io.read_up_to(&mut self.incoming.input, MEDIUM)).await {
                Ok(Ok(read)) if read > 0 => {}
                _ => return,
            }
        }
    }
}

impl From<ReceiveError> for HeadFailure {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Timeout => Self::Timeout,
            ReceiveError::Io(error) => Self::Io(error),
            ReceiveError::Closed | ReceiveError::Malformed(_) => Self::Closed,
        }
    }
}
