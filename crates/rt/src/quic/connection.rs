//! One connection: what arrives for it, its timers, what it sends, its streams.
//!
//! Owns: the library's machine, and leaving nothing of it in the endpoint when it is dropped.
//! Never: reads the socket; waits by itself.
//! Driven by: one task, which polls it; any task of the thread writes to and reads from its streams.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use quinn_proto::{
    Connection, ConnectionError, ConnectionEvent, ConnectionHandle, Dir, EndpointEvent, Event, ReadError,
    StreamEvent, StreamId, VarInt, WriteError,
};

use super::endpoint::QuicEndpoint;
use super::facts::QuicFacts;
use crate::buf::Buf;
use crate::timer::Timer;

/// Most datagrams that leave in one call.
const SEGMENTS: usize = 16;
/// So many calls, and it is another task's turn.
const CALLS: usize = 16;

/// Something has happened.
#[derive(Debug, PartialEq, Eq)]
pub enum QuicEvent {
    /// The handshake is complete.
    Connected,
    /// The client opened a stream of both directions, or of one.
    Opened(u64),
    /// There may be something to read on a stream.
    Readable(u64),
    /// A stream that took nothing may take something.
    Writable(u64),
    /// The client wants nothing more of a stream.
    Stopped(u64),
    /// All of a stream has arrived at the client.
    Finished(u64),
    /// The connection is no more; why, in few words.
    Lost(String),
    /// Nothing is left of it: poll no more.
    Over,
}

/// The stream is gone, or the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuicLost;

/// What reading has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuicRead {
    /// So many bytes.
    Some(usize),
    /// There is nothing now.
    Nothing,
    /// So many bytes, and there are no more to come. Told once: the stream is read.
    End(usize),
}

/// A connection, as its task has it. Dropped, it is closed.
pub struct QuicConnection(pub(super) Rc<Inner>);

pub(super) struct Inner {
    endpoint: Rc<QuicEndpoint>,
    handle: ConnectionHandle,
    machine: RefCell<Connection>,
    timer: Timer,
    task: Cell<Option<Waker>>,
    over: Cell<bool>,
    /// Datagrams that the kernel did not take.
    unsent: RefCell<Vec<u8>>,
}

impl Inner {
    pub(super) fn new(endpoint: Rc<QuicEndpoint>, handle: ConnectionHandle, machine: Connection) -> Rc<Self> {
        Rc::new(Self {
            endpoint,
            handle,
            machine: RefCell::new(machine),
            timer: Timer::new(),
            task: Cell::default(),
            over: Cell::new(false),
            unsent: RefCell::default(),
        })
    }

    /// Takes what arrived.
    pub(super) fn hear(&self, event: ConnectionEvent) {
        self.machine.borrow_mut().handle_event(event);
        self.call();
    }

    fn call(&self) {
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }

    /// Tells the endpoint what it is to know.
    fn tell(&self, machine: &mut Connection) {
        while let Some(event) = machine.poll_endpoint_events() {
            let over = event.is_drained();
            if let Some(answer) = self.endpoint.tell(self.handle, event) {
                machine.handle_event(answer);
            }
            if over {
                self.over.set(true);
                return;
            }
        }
    }

    /// Sends what there is. True: there may be more.
    fn send(&self, machine: &mut Connection) -> bool {
        let out = &mut *self.unsent.borrow_mut();
        for _ in 0..CALLS {
            out.clear();
            let most = if self.endpoint.cuts.get() { SEGMENTS } else { 1 };
            let Some(transmit) = machine.poll_transmit(Instant::now(), most, out) else { return false };
            let Some(bytes) = out.get(..transmit.size) else { return false };
            let (to, from) = (transmit.destination, transmit.src_ip);
            let socket = &self.endpoint.socket;
            match transmit.segment_size {
                Some(size) if size < bytes.len() => {
                    if socket.try_send_segments(bytes, size, to, from).is_err() {
                        // The kernel or the device cannot cut after all.
                        self.endpoint.cuts.set(false);
                        bytes.chunks(size).for_each(|one| _ = socket.try_send_to(one, to, from));
                    }
                }
                // What cannot be sent is lost, as on the way: the protocol sees to that.
                _ => _ = socket.try_send_to(bytes, to, from),
            }
        }
        true
    }
}

impl QuicConnection {
    /// The client's address as it is now.
    pub fn remote_addr(&self) -> SocketAddr {
        self.0.machine.borrow().remote_address()
    }

    /// What the handshake has settled, once it is complete.
    pub fn facts(&self) -> Option<QuicFacts> {
        let data = self.0.machine.borrow().crypto_session().handshake_data()?;
        data.downcast::<QuicFacts>().ok().map(|facts| *facts)
    }

    /// Waits for what happens next, and sends what there is to send meanwhile. For one task.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<QuicEvent> {
        let inner = &*self.0;
        if inner.over.get() {
            return Poll::Ready(QuicEvent::Over);
        }
        let machine = &mut *inner.machine.borrow_mut();
        loop {
            if let Some(event) = next(machine) {
                return Poll::Ready(event);
            }
            inner.tell(machine);
            if inner.over.get() {
                return Poll::Ready(QuicEvent::Over);
            }
            let more = inner.send(machine);
            inner.tell(machine);
            if more {
                cx.waker().wake_by_ref();
            }
            let Some(due) = machine.poll_timeout() else { break };
            let now = Instant::now();
            if due > now {
                inner.timer.arm(due - now);
                if inner.timer.poll_expired(cx).is_pending() {
                    break;
                }
            }
            machine.handle_timeout(Instant::now());
        }
        inner.task.set(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// Something was written or read: the task is to see to it.
    pub fn call(&self) {
        self.0.call();
    }

    /// The stream of a request that the client opened next.
    pub fn accept_request(&self) -> Option<u64> {
        self.0.machine.borrow_mut().streams().accept(Dir::Bi).map(u64::from)
    }

    /// The stream of one direction that the client opened next.
    pub fn accept_one_way(&self) -> Option<u64> {
        self.0.machine.borrow_mut().streams().accept(Dir::Uni).map(u64::from)
    }

    /// Opens a stream of one direction.
    pub fn open_one_way(&self) -> Option<u64> {
        self.0.machine.borrow_mut().streams().open(Dir::Uni).map(u64::from)
    }

    /// Reads from a stream, behind what stands in the buffer.
    ///
    /// # Errors
    /// The client took the stream back, or nobody knows it.
    pub fn read(&self, stream: u64, into: &mut Buf, most: usize) -> Result<QuicRead, QuicLost> {
        let machine = &mut *self.0.machine.borrow_mut();
        let mut stream = machine.recv_stream(id(stream)?);
        let mut chunks = stream.read(true).map_err(|_| QuicLost)?;
        let mut read = 0;
        let end = loop {
            if read >= most {
                break Ok(QuicRead::Some(read));
            }
            match chunks.next(most - read) {
                Ok(Some(chunk)) => {
                    into.extend(&chunk.bytes);
                    read += chunk.bytes.len();
                }
                Ok(None) => break Ok(QuicRead::End(read)),
                Err(ReadError::Blocked) if read > 0 => break Ok(QuicRead::Some(read)),
                Err(ReadError::Blocked) => break Ok(QuicRead::Nothing),
                Err(ReadError::Reset(_)) => break Err(QuicLost),
            }
        };
        let credit = chunks.finalize().should_transmit();
        if credit || !matches!(end, Ok(QuicRead::Nothing)) {
            self.0.call();
        }
        end
    }

    /// Writes to a stream, as much as it takes now.
    ///
    /// # Errors
    /// The client wants nothing more, or nobody knows the stream.
    pub fn write(&self, stream: u64, bytes: &[u8]) -> Result<usize, QuicLost> {
        let machine = &mut *self.0.machine.borrow_mut();
        match machine.send_stream(id(stream)?).write(bytes) {
            Ok(n) => Ok(n),
            Err(WriteError::Blocked) => Ok(0),
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => Err(QuicLost),
        }
    }

    /// Ends our side of a stream.
    pub fn finish(&self, stream: u64) {
        if let Ok(stream) = id(stream) {
            let _ = self.0.machine.borrow_mut().send_stream(stream).finish();
        }
    }

    /// Breaks our side of a stream off.
    pub fn reset(&self, stream: u64, code: u64) {
        if let (Ok(stream), Ok(code)) = (id(stream), VarInt::from_u64(code)) {
            let _ = self.0.machine.borrow_mut().send_stream(stream).reset(code);
        }
    }

    /// Asks the client to send nothing more on a stream.
    pub fn stop(&self, stream: u64, code: u64) {
        if let (Ok(stream), Ok(code)) = (id(stream), VarInt::from_u64(code)) {
            let _ = self.0.machine.borrow_mut().recv_stream(stream).stop(code);
        }
    }

    /// Closes the connection.
    pub fn close(&self, code: u64, reason: &'static str) {
        if let Ok(code) = VarInt::from_u64(code) {
            let reason = Bytes::from_static(reason.as_bytes());
            self.0.machine.borrow_mut().close(Instant::now(), code, reason);
            self.0.call();
        }
    }
}

impl Drop for QuicConnection {
    fn drop(&mut self) {
        let inner = &*self.0;
        if inner.over.replace(true) {
            return;
        }
        // Borrowed only if the library itself panicked.
        if let Ok(mut machine) = inner.machine.try_borrow_mut() {
            machine.close(Instant::now(), VarInt::from_u32(0), Bytes::new());
            inner.send(&mut machine);
        }
        inner.endpoint.tell(inner.handle, EndpointEvent::drained());
    }
}

fn id(stream: u64) -> Result<StreamId, QuicLost> {
    VarInt::from_u64(stream).map(StreamId::from).map_err(|_| QuicLost)
}

/// What happened next, in our words.
fn next(machine: &mut Connection) -> Option<QuicEvent> {
    loop {
        let event = match machine.poll()? {
            Event::Connected => QuicEvent::Connected,
            Event::ConnectionLost { reason } => QuicEvent::Lost(why(&reason)),
            Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => QuicEvent::Opened(0),
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => QuicEvent::Opened(2),
            Event::Stream(StreamEvent::Readable { id }) => QuicEvent::Readable(id.into()),
            Event::Stream(StreamEvent::Writable { id }) => QuicEvent::Writable(id.into()),
            Event::Stream(StreamEvent::Stopped { id, .. }) => QuicEvent::Stopped(id.into()),
            Event::Stream(StreamEvent::Finished { id }) => QuicEvent::Finished(id.into()),
            Event::Stream(StreamEvent::Available { .. })
            | Event::HandshakeDataReady
            | Event::DatagramReceived
            | Event::DatagramsUnblocked => continue,
        };
        return Some(event);
    }
}

fn why(error: &ConnectionError) -> String {
    error.to_string()
}
