//! Two connections joined by memory, against a model that knows what every stream has to carry.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What a stream carries, by its number: bytes that say where they stand.
fn payload(id: u32, len: usize) -> Vec<u8> {
    (0..len).map(|n| (n as u32).wrapping_mul(31).wrapping_add(id) as u8).collect()
}

#[derive(Debug, Clone, Copy)]
enum Act {
    /// A request with a body of so many bytes, answered with so many.
    Open {
        upload: usize,
        download: usize,
        trailers: bool,
    },
    /// Moves so many bytes one way or the other.
    Up(usize),
    Down(usize),
    /// The client gives up its n-th stream.
    Cancel(usize),
    /// The server does.
    Refuse(usize),
    Ping,
}

struct End {
    connection: Connection,
    /// Bytes on their way to this side.
    wire: Vec<u8>,
    /// What is left to send: stream, payload, how much of it is sent, trailers behind it.
    sending: BTreeMap<u32, (StreamKey, Vec<u8>, usize, bool)>,
    received: BTreeMap<u32, Vec<u8>>,
    ended: Vec<u32>,
    reset: Vec<u32>,
    keys: Vec<StreamKey>,
}

impl End {
    fn new(role: Role) -> Self {
        Self {
            connection: Connection::new(role, Config { stream_window: 65_535, ..Config::default() }),
            wire: Vec::new(),
            sending: BTreeMap::new(),
            received: BTreeMap::new(),
            ended: Vec::new(),
            reset: Vec::new(),
            keys: Vec::new(),
        }
    }

    fn send(&mut self, key: StreamKey) {
        let Some((_, bytes, at, trailers)) = self.sending.get_mut(&key.id()) else { return };
        if let Ok(n) = self.connection.send_data(key, &bytes[*at..], !*trailers) {
            *at += n;
            if *at < bytes.len() {
                return;
            }
            if *trailers {
                self.connection.send_head(key, &list(&[("x-end", "1")]), true).unwrap();
            }
        }
        self.sending.remove(&key.id());
    }

    fn pump(&mut self) {
        while let Some(key) = self.connection.next_writable() {
            self.send(key);
        }
    }

    /// Takes in what has arrived. `download` says how much to answer a stream with.
    fn take(&mut self, plans: &BTreeMap<u32, (usize, usize, bool)>) {
        let now = Instant::now();
        let bytes = std::mem::take(&mut self.wire);
        let mut at = 0;
        loop {
            let received = self.connection.receive(&bytes[at..], now).expect("both keep to the protocol");
            let used = &bytes[at..at + received.used];
            at += received.used;
            match received.event {
                None => {
                    self.pump();
                    break;
                }
                Some(Event::Head { stream, kind, end }) => {
                    self.received.entry(stream.id()).or_default();
                    self.note_end(stream, end);
                    if kind == HeadKind::Request {
                        let (_, download, trailers) = plans[&stream.id()];
                        self.keys.push(stream);
                        let head = list(&[(":status", "200"), ("content-type", "x"), ("x-n", "1")]);
                        self.connection.send_head(stream, &head, false).unwrap();
                        let body = payload(stream.id(), download);
                        self.sending.insert(stream.id(), (stream, body, 0, trailers));
                        self.send(stream);
                    }
                }
                Some(Event::Data { stream, range, end }) => {
                    self.connection.release(stream, range.len());
                    self.received.entry(stream.id()).or_default().extend_from_slice(&used[range]);
                    self.note_end(stream, end);
                }
                Some(Event::Trailers { stream }) => {
                    assert_eq!(self.connection.head().fields().next().unwrap().name, b"x-end");
                    self.note_end(stream, true);
                }
                Some(Event::Reset { stream, .. }) => {
                    self.reset.push(stream.id());
                    self.sending.remove(&stream.id());
                }
                Some(Event::Settings | Event::Pong(_)) => {}
                Some(other) => panic!("{other:?}"),
            }
            self.pump();
        }
        self.wire = bytes[at..].to_vec();
    }

    fn note_end(&mut self, stream: StreamKey, end: bool) {
        if end {
            assert!(!self.ended.contains(&stream.id()));
            self.ended.push(stream.id());
        }
    }
}

struct Pair {
    client: End,
    server: End,
    /// What each stream carries: up, down, whether trailers end it.
    plans: BTreeMap<u32, (usize, usize, bool)>,
    cancelled: Vec<u32>,
}

impl Pair {
    fn act(&mut self, act: Act) {
        match act {
            Act::Open { upload, download, trailers } => {
                let end = upload == 0 && !trailers;
                let mut request = list(&GET);
                if !trailers {
                    request.push(b"content-length", upload.to_string().as_bytes());
                }
                let Ok(key) = self.client.connection.open(&request, end, false) else { return };
                self.plans.insert(key.id(), (upload, download, trailers));
                self.client.keys.push(key);
                if !end {
                    let body = payload(key.id(), upload);
                    self.client.sending.insert(key.id(), (key, body, 0, trailers));
                    self.client.send(key);
                }
            }
            Act::Up(n) => self.carry(n, true),
            Act::Down(n) => self.carry(n, false),
            Act::Cancel(n) | Act::Refuse(n) => {
                let side = if matches!(act, Act::Cancel(_)) { &mut self.client } else { &mut self.server };
                if let Some(&key) = side.keys.get(n % side.keys.len().max(1)) {
                    if side.connection.is_alive(key) {
                        self.cancelled.push(key.id());
                    }
                    side.connection.reset(key, Reason::CANCEL);
                    side.sending.remove(&key.id());
                }
            }
            Act::Ping => {
                self.client.connection.ping(1);
                self.server.connection.ping(2);
            }
        }
    }

    /// Moves at most `n` bytes, upstream or down.
    fn carry(&mut self, n: usize, up: bool) {
        let (from, to) =
            if up { (&mut self.client, &mut self.server) } else { (&mut self.server, &mut self.client) };
        let out = from.connection.output();
        let n = n.min(out.len());
        to.wire.extend_from_slice(&out[..n]);
        out.consume(n);
        from.pump();
        to.take(&self.plans);
        assert!(from.connection.is_consistent() && to.connection.is_consistent());
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            self.carry(usize::MAX, true);
            self.carry(usize::MAX, false);
            if !self.client.connection.has_output() && !self.server.connection.has_output() {
                return;
            }
        }
        panic!("it goes on for ever");
    }
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let size = || prop_oneof![Just(0_usize), 1..100_usize, 1000..200_000_usize];
    let act = prop_oneof![
        3 => (size(), size(), any::<bool>())
            .prop_map(|(upload, download, trailers)| Act::Open { upload, download, trailers }),
        4 => prop_oneof![1..60_usize, 1000..70_000_usize].prop_map(Act::Up),
        4 => prop_oneof![1..60_usize, 1000..70_000_usize].prop_map(Act::Down),
        1 => any::<usize>().prop_map(Act::Cancel),
        1 => any::<usize>().prop_map(Act::Refuse),
        1 => Just(Act::Ping),
    ];
    proptest::collection::vec(act, 1..60)
}

fn check(acts: &[Act]) {
    let mut pair = Pair {
        client: End::new(Role::Client),
        server: End::new(Role::Server),
        plans: BTreeMap::new(),
        cancelled: Vec::new(),
    };
    for &act in acts {
        pair.act(act);
    }
    pair.settle();
    let Pair { client, server, plans, cancelled } = pair;
    for (&id, &(upload, download, _)) in &plans {
        for (end, len) in [(&server, upload), (&client, download)] {
            let empty = Vec::new();
            let got = end.received.get(&id).unwrap_or(&empty);
            let whole = payload(id, len);
            if end.ended.contains(&id) {
                assert_eq!(*got, whole, "stream {id} carries what was sent");
            } else {
                assert!(cancelled.contains(&id), "stream {id} was not cancelled and did not end");
                assert!(whole.starts_with(got), "stream {id} carries a beginning of what was sent");
            }
        }
    }
    for end in [&client, &server] {
        assert_eq!(end.connection.streams(), 0, "no stream is left");
        assert!(end.sending.is_empty() && !end.connection.is_stalled());
        assert!(end.reset.iter().all(|id| cancelled.contains(id)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_stream_carries_its_bytes_whatever_the_order(acts in acts()) {
        check(&acts);
    }
}

#[test]
fn a_hundred_large_streams_share_one_window() {
    let mut all = vec![Act::Open { upload: 0, download: 300_000, trailers: false }; 100];
    all.extend([Act::Up(usize::MAX), Act::Down(40_000), Act::Down(40_000)]);
    check(&all);
}

#[test]
fn streams_take_turns() {
    let mut pair = Pair {
        client: End::new(Role::Client),
        server: End::new(Role::Server),
        plans: BTreeMap::new(),
        cancelled: Vec::new(),
    };
    for _ in 0..4 {
        pair.act(Act::Open { upload: 0, download: 60_000, trailers: false });
    }
    pair.carry(usize::MAX, true);
    for _ in 0..4 {
        pair.carry(usize::MAX, false);
    }
    let got: Vec<usize> = pair.client.received.values().map(Vec::len).collect();
    assert!(got.len() == 4 && got.iter().all(|&n| n > 0), "{got:?}");
}
