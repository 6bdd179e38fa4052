//! The one module that calls rustls' unbuffered API.
//!
//! Owns: the translation of its states into three verbs: feed ciphertext, encrypt, close.
//! Never: reads or writes a socket; keeps a buffer.
//! Driven by: `stream`.
//! Why a trait of our own: rustls is pinned to 0.23 for this API; whatever replaces it has to offer these verbs.

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, ReadEarlyData, UnbufferedStatus, WriteTraffic,
};
use rustls::{CommonState, Error};

use crate::buf::Buf;

/// Plaintext bytes of the largest record (RFC 8446, 5.1).
pub(crate) const RECORD: usize = 16 * 1024;
/// More than any record adds: header, explicit nonce, content type, tag.
const OVERHEAD: usize = 64;

thread_local! {
    /// A block of each size that the library may take for a record and give back once it is sent. An allocator that finds
    /// nothing in use among the blocks of a size gives their memory up, and would begin anew every few records.
    static HELD: Vec<Vec<u8>> = {
        let doublings = (0..).map(|n| 1024_usize << n).take_while(|size| *size < RECORD + OVERHEAD);
        // Four sizes to a doubling, as most allocators have them; the greatest holds the largest record.
        doublings.flat_map(|size| (5..=8).map(move |quarters| Vec::with_capacity(size / 4 * quarters))).collect()
    };
}

/// Holds the memory of records for this thread.
fn hold_records() {
    HELD.with(|_| ());
}

/// The buffers of one connection, lent to each call: always the same ones, and `incoming` changed only at its end.
pub(crate) struct Io<'a> {
    /// Ciphertext received; whole records are consumed.
    pub(crate) incoming: &'a mut Buf,
    /// Plaintext received; appended to.
    pub(crate) plain: &'a mut Buf,
    /// Ciphertext to send; appended to.
    pub(crate) out: &'a mut Buf,
}

/// One side of a TLS connection, without its buffers.
pub(crate) trait TlsSession {
    /// Processes the whole records of `io.incoming`. On an error the alert for the peer is in `io.out`.
    fn feed(&mut self, io: &mut Io<'_>) -> Result<(), Error>;

    /// Appends records that carry `plain` to `io.out`. Only after the handshake.
    fn encrypt(&mut self, plain: &[u8], io: &mut Io<'_>) -> Result<(), Error>;

    /// Appends close_notify to `io.out`.
    fn close(&mut self, io: &mut Io<'_>) -> Result<(), Error>;

    /// Whether the peer's close_notify was processed.
    fn peer_closed(&self) -> bool;

    /// What was negotiated.
    fn facts(&self) -> &CommonState;
}

/// A session of either role.
pub(crate) struct Session {
    side: Side,
    /// The most plaintext of a record.
    record: usize,
    peer_closed: bool,
    /// The library reported a fatal error. It is not asked again: it would stumble over the same bytes once more.
    failed: bool,
}

enum Side {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

/// What to do once all that has to come first is done.
enum Goal<'a> {
    Nothing,
    /// Into so much space at most.
    Encrypt(&'a [u8], usize),
    Close,
}

impl Session {
    /// `record`: the most plaintext that the connection was told to put into a record.
    pub(crate) fn server(connection: UnbufferedServerConnection, record: usize) -> Self {
        hold_records();
        Self { side: Side::Server(Box::new(connection)), record, peer_closed: false, failed: false }
    }

    pub(crate) fn client(connection: UnbufferedClientConnection) -> Self {
        hold_records();
        Self { side: Side::Client(Box::new(connection)), record: RECORD, peer_closed: false, failed: false }
    }

    pub(crate) fn is_server(&self) -> bool {
        matches!(self.side, Side::Server(_))
    }

    fn run(&mut self, io: &mut Io<'_>, goal: &Goal<'_>) -> Result<(), Error> {
        if self.failed {
            return Err(Error::General("the session has failed before".into()));
        }
        let result = self.step(io, goal);
        // Asking too early is our own mistake, and leaves the session as it was.
        if result.as_ref().is_err_and(|error| *error != Error::HandshakeNotComplete) {
            self.failed = true;
            // The alert is still to be encoded, and nothing else is to be done: a record that could not be decrypted
            // still stands in the buffer. It must be the same buffer: the library remembers places in it.
            while self.facts().wants_write() && self.encode_one(io) {}
        }
        result
    }

    /// Encodes what is queued first; false if the library would rather do something else.
    fn encode_one(&mut self, io: &mut Io<'_>) -> bool {
        match &mut self.side {
            Side::Server(connection) => encode_one(&mut **connection, io),
            Side::Client(connection) => encode_one(&mut **connection, io),
        }
    }

    fn step(&mut self, io: &mut Io<'_>, goal: &Goal<'_>) -> Result<(), Error> {
        match &mut self.side {
            Side::Server(connection) => drive(&mut **connection, io, goal, &mut self.peer_closed),
            Side::Client(connection) => drive(&mut **connection, io, goal, &mut self.peer_closed),
        }
    }
}

impl TlsSession for Session {
    fn feed(&mut self, io: &mut Io<'_>) -> Result<(), Error> {
        self.run(io, &Goal::Nothing)
    }

    fn encrypt(&mut self, plain: &[u8], io: &mut Io<'_>) -> Result<(), Error> {
        let space = plain.len() + plain.len().div_ceil(self.record).max(1) * OVERHEAD;
        self.run(io, &Goal::Encrypt(plain, space))
    }

    fn close(&mut self, io: &mut Io<'_>) -> Result<(), Error> {
        self.run(io, &Goal::Close)
    }

    fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    fn facts(&self) -> &CommonState {
        match &self.side {
            Side::Server(connection) => connection,
            Side::Client(connection) => connection,
        }
    }
}

/// What both roles have in common.
trait Process {
    type Data;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// Appends what a client has sent before its handshake is complete.
    fn take_early(early: ReadEarlyData<'_, '_, Self::Data>, plain: &mut Buf);
}

impl Process for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    #[cold]
    fn take_early(mut early: ReadEarlyData<'_, '_, Self::Data>, plain: &mut Buf) {
        // They are decrypted already: none fails.
        while let Some(Ok(record)) = early.next_record() {
            plain.extend(record.payload);
        }
    }
}

impl Process for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn take_early(_: ReadEarlyData<'_, '_, Self::Data>, _: &mut Buf) {}
}

/// Steps through the states until nothing more can be done with what has arrived, then pursues the goal.
fn drive<C: Process>(
    connection: &mut C,
    io: &mut Io<'_>,
    goal: &Goal<'_>,
    peer_closed: &mut bool,
) -> Result<(), Error> {
    loop {
        let UnbufferedStatus { mut discard, state, .. } = connection.process(io.incoming);
        let mut done = false;
        let mut failure = None;
        let mut only_data = false;
        match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                only_data = true;
                while let Some(record) = traffic.next_record() {
                    let record = record?;
                    discard += record.discard;
                    io.plain.extend(record.payload);
                }
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => failure = encode(&mut data, io.out).err(),
            // Whatever is in `out` is sent before anything else is, so it counts as transmitted.
            Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
            Ok(ConnectionState::PeerClosed) => *peer_closed = true,
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                done = true;
                failure = match goal {
                    Goal::Nothing => None,
                    Goal::Encrypt(plain, space) => {
                        io.out.reserve(*space);
                        encrypt(&mut traffic, plain, io.out).err()
                    }
                    Goal::Close => {
                        io.out.reserve(RECORD / 16);
                        match traffic.queue_close_notify(io.out.spare_mut()) {
                            Ok(n) => {
                                io.out.commit(n);
                                None
                            }
                            Err(error) => Some(refused(&error)),
                        }
                    }
                };
            }
            // Where it is not allowed, the library itself skips what a client sends.
            Ok(ConnectionState::ReadEarlyData(early)) => C::take_early(early, io.plain),
            Ok(ConnectionState::BlockedHandshake | ConnectionState::Closed) | Ok(_) => {
                done = true;
                if !matches!(goal, Goal::Nothing) {
                    failure = Some(Error::HandshakeNotComplete);
                }
            }
            Err(error) => failure = Some(error),
        }
        io.incoming.consume(discard);
        if let Some(error) = failure {
            return Err(error);
        }
        // All that arrived was data: asking again would only say that writing is possible.
        done |= only_data && io.incoming.is_empty() && matches!(goal, Goal::Nothing);
        if done {
            return Ok(());
        }
    }
}

fn encode_one<C: Process>(connection: &mut C, io: &mut Io<'_>) -> bool {
    match connection.process(io.incoming).state {
        Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, io.out).is_ok(),
        _ => false,
    }
}

fn encode<Data>(data: &mut EncodeTlsData<'_, Data>, out: &mut Buf) -> Result<(), Error> {
    loop {
        match data.encode(out.spare_mut()) {
            Ok(n) => {
                out.commit(n);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(short)) => out.reserve(short.required_size),
            Err(EncodeError::AlreadyEncoded) => return Ok(()),
        }
    }
}

fn encrypt<Data>(traffic: &mut WriteTraffic<'_, Data>, plain: &[u8], out: &mut Buf) -> Result<(), Error> {
    let n = traffic.encrypt(plain, out.spare_mut()).map_err(|error| refused(&error))?;
    out.commit(n);
    Ok(())
}

fn refused(error: &EncryptError) -> Error {
    match error {
        EncryptError::EncryptExhausted => Error::EncryptError,
        // The space was computed from above; not reachable.
        EncryptError::InsufficientSize(_) => Error::General("record space".into()),
    }
}
