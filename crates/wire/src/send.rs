//! The sending direction: heads and payload in, framed bytes out.
//!
//! Owns: the output buffer, and the rule that a body is as long as its head said, or the connection is cut.
//! Never: writes a head by itself; callers write it into [`Outgoing::buffer`].
//! Driven by: exchanges, in the order buffer, begin, send…, finish.
//! Why: a head and a small body leave in one send through the ring; large pieces leave from where they are.

use std::fs::File;
use std::io::{IoSlice, Write as _};
use std::time::Duration;

use weir_rt::{Buf, Instant, LARGE, PIECE, Shared, Timer};

use crate::pace::{LeastRate, Pace};
use crate::{Conn, SendError};

/// Up to this many bytes are copied behind what is already in the output buffer.
const JOIN: usize = 16 << 10;
/// From this many bytes on, what many answers share is not copied: then describing two parts is the cheaper way.
pub const SHARE: usize = 4 << 10;

/// How a body is framed on its way out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendFraming {
    /// There is no body.
    #[default]
    None,
    /// So many bytes.
    Length(u64),
    /// Chunked coding.
    Chunked,
    /// Up to the end of the connection.
    UntilClose,
}

/// The sending direction of a connection.
pub struct Outgoing {
    pub(crate) io: Conn,
    output: Buf,
    framing: SendFraming,
    sent: u64,
    payload: u64,
    /// `sent` when the last message began: as long as it stands there, nothing of the message has left.
    begun_at: u64,
    pace: Option<Pace>,
    full_packets: bool,
}

impl Outgoing {
    pub(crate) fn new(io: Conn) -> Self {
        Self {
            io,
            output: Buf::new(),
            framing: SendFraming::None,
            sent: 0,
            payload: 0,
            begun_at: 0,
            pace: None,
            full_packets: false,
        }
    }

    /// Bytes sent or queued since the last [`Outgoing::reset_counts`], heads and framing included.
    #[inline]
    pub fn sent(&self) -> u64 {
        self.sent.wrapping_add(self.output.len() as u64)
    }

    /// Payload bytes sent or queued.
    #[inline]
    pub fn payload(&self) -> u64 {
        self.payload
    }

    /// Counts from zero again.
    pub fn reset_counts(&mut self) {
        // What is still queued belongs to the message before.
        self.sent = 0u64.wrapping_sub(self.output.len() as u64);
        self.payload = 0;
    }

    /// Where a head is written.
    #[inline]
    pub fn buffer(&mut self) -> &mut Buf {
        &mut self.output
    }

    /// Says how the body that follows the head is framed.
    #[inline]
    pub fn begin(&mut self, framing: SendFraming) {
        self.framing = framing;
        self.begun_at = self.sent;
    }

    /// Sets how fast the peer has to take this message, at least: a slower one has a [`SendError::Timeout`].
    pub fn set_least_rate(&mut self, least: Option<LeastRate>) {
        self.pace = least.and_then(|least| Pace::new(least, self.sent));
    }

    /// Says whether a head waits for the file behind it, so that both leave in full packets (nginx's `tcp_nopush`).
    pub fn set_full_packets(&mut self, full: bool) {
        self.full_packets = full;
    }

    /// Counts bytes as sent. After [`Outgoing::reset_counts`] the count may stand below zero until what was queued is out.
    fn took(&mut self, bytes: u64) {
        self.sent = self.sent.wrapping_add(bytes);
    }

    /// Counts a wait that began then, for the peer to take what was there.
    fn count_wait(&mut self, began: Instant) -> Result<(), SendError> {
        let Some(pace) = &mut self.pace else { return Ok(()) };
        pace.count(weir_rt::now().saturating_duration_since(began), self.sent)
    }

    /// Waits until the peer takes more.
    async fn writable(&mut self, timer: &Timer, timeout: Duration) -> Result<(), SendError> {
        let began = weir_rt::now();
        timer.arm(timeout);
        timer.run(self.io.writable()).await??;
        self.count_wait(began)
    }

    /// Takes back a message of which nothing has been sent yet, head and payload. False if something has.
    pub fn retract(&mut self) -> bool {
        if self.sent != self.begun_at {
            return false;
        }
        self.output.clear();
        self.framing = SendFraming::None;
        self.payload = 0;
        true
    }

    /// Whether a body is under way that only the end of the connection ends: an ordinary close would make it whole.
    pub fn ends_by_close(&self) -> bool {
        self.framing == SendFraming::UntilClose
    }

    /// Queues payload behind what is queued already, without sending.
    ///
    /// # Errors
    /// More than the announced length.
    pub fn queue(&mut self, data: &[u8]) -> Result<(), SendError> {
        if data.is_empty() {
            return Ok(());
        }
        self.count(data.len() as u64)?;
        if self.framing == SendFraming::Chunked {
            let _ = write!(self.output, "{:x}\r\n", data.len());
            self.output.extend(data);
            self.output.extend(b"\r\n");
        } else {
            self.output.extend(data);
        }
        Ok(())
    }

    /// Queues payload that is small enough to leave together with what is queued before it; false if it is not, and
    /// nothing was done.
    ///
    /// # Errors
    /// As [`Outgoing::queue`].
    pub fn queue_small(&mut self, data: &[u8]) -> Result<bool, SendError> {
        if self.output.len() + data.len() > JOIN {
            return Ok(false);
        }
        self.queue(data).map(|()| true)
    }

    /// Sends payload, with what is queued before it. Small pieces may stay queued until [`Outgoing::flush`] or
    /// [`Outgoing::finish`].
    ///
    /// # Errors
    /// The peer is gone or takes nothing for `timeout`; the message is then cut.
    pub async fn send(&mut self, data: &[u8], timer: &Timer, timeout: Duration) -> Result<(), SendError> {
        if self.queue_small(data)? {
            return Ok(());
        }
        self.count(data.len() as u64)?;
        let chunked = self.framing == SendFraming::Chunked;
        if chunked {
            let _ = write!(self.output, "{:x}\r\n", data.len());
        }
        for piece in data.chunks(PIECE) {
            let head = self.output.take();
            self.write_pieces(&head, piece, timer, timeout).await?;
            self.output = head;
            self.output.clear();
        }
        if chunked {
            self.output.extend(b"\r\n");
        }
        Ok(())
    }

    /// Whether payload that other messages carry, too, is better sent by [`Outgoing::send_shared`].
    pub fn shares(&self, data: &[u8]) -> bool {
        let is_plain = matches!(self.io, Conn::Plain(_)) && self.framing != SendFraming::Chunked;
        is_plain && data.len() >= SHARE && self.output.len() + data.len() <= JOIN
    }

    /// As [`Outgoing::send`], where [`Outgoing::shares`] says so: the payload is sent from where it is.
    ///
    /// # Errors
    /// As [`Outgoing::send`].
    pub async fn send_shared(
        &mut self,
        data: Shared,
        timer: &Timer,
        timeout: Duration,
    ) -> Result<(), SendError> {
        let whole = self.output.len() + data.len();
        self.count(data.len() as u64)?;
        let began = weir_rt::now();
        let head = self.output.take();
        let (result, head) =
            timer.within(&mut Some(timeout), self.io.socket().write_with(head, data)).await?;
        result?;
        self.took(whole as u64);
        self.count_wait(began)?;
        self.output = head;
        self.output.clear();
        Ok(())
    }

    /// Writes two pieces directly, re-arming the timer with each success, and counts them as sent.
    async fn write_pieces(
        &mut self,
        head: &[u8],
        body: &[u8],
        timer: &Timer,
        timeout: Duration,
    ) -> Result<(), SendError> {
        let mut done = 0;
        while done < head.len() + body.len() {
            weir_rt::fair().await;
            let wrote = if done < head.len() {
                self.io.try_writev(&[IoSlice::new(&head[done..]), IoSlice::new(body)])?
            } else {
                self.io.try_write(&body[done - head.len()..])?
            };
            match wrote {
                Some(n) => {
                    done += n;
                    self.took(n as u64);
                }
                None => self.writable(timer, timeout).await?,
            }
        }
        if let Conn::Tls(tls) = &self.io {
            // What is encrypted counts as written, and may still be here.
            let began = weir_rt::now();
            timer.within(&mut Some(timeout), tls.flush()).await??;
            self.count_wait(began)?;
        }
        Ok(())
    }

    /// Sends `length` bytes of a file from `offset`. The framing must be [`SendFraming::Length`] or `UntilClose`.
    ///
    /// # Errors
    /// As [`Outgoing::send`]; also when the file is shorter than announced.
    pub async fn send_file(
        &mut self,
        file: &File,
        mut offset: u64,
        length: u64,
        timer: &Timer,
        timeout: Duration,
    ) -> Result<(), SendError> {
        self.count(length)?;
        // Directly: what follows at once would have to wait for the ring.
        let head = self.output.take();
        if let (Conn::Plain(stream), true) = (&self.io, self.full_packets && length > 0)
            && let Some(sent) = stream.try_write_before_more(&head)?
        {
            self.took(sent as u64);
            self.write_pieces(&head[sent..], &[], timer, timeout).await?;
        } else {
            self.write_pieces(&head, &[], timer, timeout).await?;
        }
        self.output = head;
        self.output.clear();
        let end = offset + length;
        while offset < end {
            weir_rt::fair().await;
            let before = offset;
            let Conn::Plain(stream) = &self.io else {
                // Encrypted bytes have to pass through user space: by pieces, so that each has its time.
                let piece = (end - offset).min(LARGE as u64);
                let began = weir_rt::now();
                timer.arm(timeout);
                let sent = timer.run(self.io.send_file(file, offset, piece)).await??;
                if sent < piece {
                    return Err(SendError::Length);
                }
                offset += sent;
                self.took(sent);
                self.count_wait(began)?;
                continue;
            };
            match stream.try_send_file(file, &mut offset, end)? {
                Some(0) => return Err(SendError::Length),
                Some(_) => self.took(offset - before),
                None => self.writable(timer, timeout).await?,
            }
        }
        Ok(())
    }

    /// Ends the body; `trailers` is the text of trailer lines, each ended by CRLF, for chunked bodies. Everything
    /// queued is sent.
    ///
    /// # Errors
    /// Fewer bytes than announced, or as [`Outgoing::send`].
    pub async fn finish(
        &mut self,
        trailers: &[u8],
        timer: &Timer,
        timeout: Duration,
    ) -> Result<(), SendError> {
        if self.finish_now(trailers)? {
            return Ok(());
        }
        self.flush_waiting(timer, timeout).await
    }

    /// As [`Outgoing::finish`], as far as that needs no wait: false if something is left, which [`Outgoing::flush`] sends.
    ///
    /// # Errors
    /// As [`Outgoing::finish`].
    pub fn finish_now(&mut self, trailers: &[u8]) -> Result<bool, SendError> {
        match self.framing {
            SendFraming::Length(left) if left > 0 => return Err(SendError::Length),
            SendFraming::Chunked => {
                self.output.extend(b"0\r\n");
                self.output.extend(trailers);
                self.output.extend(b"\r\n");
            }
            _ => {}
        }
        self.framing = SendFraming::None;
        self.flush_now()
    }

    /// Sends what is queued.
    ///
    /// # Errors
    /// As [`Outgoing::send`].
    pub async fn flush(&mut self, timer: &Timer, timeout: Duration) -> Result<(), SendError> {
        if self.flush_now()? {
            return Ok(());
        }
        self.flush_waiting(timer, timeout).await
    }

    /// As [`Outgoing::flush`], as far as that needs no wait: false if something is left. Most messages leave so, and need
    /// no future that would have to be had and moved.
    ///
    /// # Errors
    /// As [`Outgoing::flush`].
    pub fn flush_now(&mut self) -> Result<bool, SendError> {
        let queued = self.output.len();
        let stream = match &self.io {
            _ if queued == 0 => return Ok(true),
            Conn::Plain(stream) if queued <= JOIN => stream,
            Conn::Plain(_) | Conn::Tls(_) => return Ok(false),
        };
        let done = stream.try_write_all(&mut self.output)?;
        self.took((queued - self.output.len()) as u64);
        Ok(done)
    }

    /// As [`Outgoing::flush`], where something is to be waited for.
    async fn flush_waiting(&mut self, timer: &Timer, timeout: Duration) -> Result<(), SendError> {
        let output = self.output.take();
        let length = output.len() as u64;
        if output.len() > JOIN {
            self.write_pieces(&output, &[], timer, timeout).await?;
            self.output = output;
            self.output.clear();
            return Ok(());
        }
        let began = weir_rt::now();
        let (result, output) = timer.within(&mut Some(timeout), self.io.write_all(output)).await?;
        result?;
        self.output = output;
        self.output.clear();
        self.took(length);
        self.count_wait(began)
    }

    /// Whether the last body was ended and everything is sent.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.output.is_empty() && self.framing == SendFraming::None
    }

    /// What is queued, not sent.
    pub fn queued(&self) -> usize {
        self.output.len()
    }

    /// Frees the buffer, for a connection that goes idle.
    pub fn release(&mut self) {
        if self.output.is_empty() {
            self.output.release();
        }
    }

    fn count(&mut self, bytes: u64) -> Result<(), SendError> {
        match &mut self.framing {
            SendFraming::None => return Err(SendError::Length),
            SendFraming::Length(left) => *left = left.checked_sub(bytes).ok_or(SendError::Length)?,
            SendFraming::Chunked | SendFraming::UntilClose => {}
        }
        self.payload += bytes;
        Ok(())
    }
}
