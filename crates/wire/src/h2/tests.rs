//! The two roles against each other, and against peers that misbehave.

mod attacks;
mod errors;
mod pair;

use weir_rt::Instant;

use super::frame::FrameHead;
use super::*;

/// A list of fields from text.
fn list(fields: &[(&str, &str)]) -> Fields {
    let mut list = Fields::new();
    for (name, value) in fields {
        list.push(name.as_bytes(), value.as_bytes());
    }
    list
}

const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")];

/// Raw frames.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = FrameHead { len: payload.len(), kind, flags, stream }.bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// A header block.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    hpack::Encoder::new().encode(&list(fields)).to_vec()
}

/// One side and what it tells.
struct Side {
    connection: Connection,
    pending: Vec<u8>,
}

impl Side {
    fn server(config: Config) -> Self {
        let mut side = Self { connection: Connection::new(Role::Server, config), pending: PREFACE.to_vec() };
        side.pending.extend(frame(frame::SETTINGS, 0, 0, &[]));
        side
    }

    fn client() -> Self {
        let mut side =
            Self { connection: Connection::new(Role::Client, Config::default()), pending: Vec::new() };
        side.pending.extend(frame(frame::SETTINGS, 0, 0, &[]));
        side
    }

    /// Takes `bytes` in; all events, then the error if there was one. Payload is released.
    fn feed_at(&mut self, bytes: &[u8], now: Instant) -> (Vec<Event>, Option<ConnectionError>) {
        self.pending.extend_from_slice(bytes);
        let mut events = Vec::new();
        loop {
            match self.connection.receive(&self.pending, now) {
                Err(error) => return (events, Some(error)),
                Ok(received) => {
                    let done = received.event.is_none();
                    if let Some(Event::Data { stream, range, .. }) = &received.event {
                        self.connection.release(*stream, range.len());
                    }
                    events.extend(received.event);
                    self.pending.drain(..received.used);
                    if done {
                        return (events, None);
                    }
                }
            }
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> (Vec<Event>, Option<ConnectionError>) {
        self.feed_at(bytes, Instant::now())
    }

    /// The frames that it sends.
    fn sent(&mut self) -> Vec<(FrameHead, Vec<u8>)> {
        let out = self.connection.output().take();
        let mut rest = &out[..];
        rest = rest.strip_prefix(&PREFACE[..]).unwrap_or(rest);
        let mut frames = Vec::new();
        while let Some(head) = FrameHead::read(rest) {
            frames.push((head, rest[frame::HEAD..frame::HEAD + head.len].to_vec()));
            rest = &rest[frame::HEAD + head.len..];
        }
        frames
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn spoiled_sessions(
        which in 0..3_usize,
        spoil in proptest::collection::vec((proptest::prelude::any::<u16>(), proptest::prelude::any::<u8>()), 0..6),
        cut: u16,
    ) {
        let (name, target) = fuzzing::TARGETS[which];
        for mut input in fuzzing::corpus(name) {
            for (at, byte) in &spoil {
                let at = usize::from(*at) % input.len();
                input[at] = *byte;
            }
            input.truncate(usize::from(cut).max(1));
            target(&input);
        }
    }
}
