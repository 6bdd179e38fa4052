//! Each fault of a peer has the answer that RFC 9113 gives it.

use super::*;

/// What a server says to `bytes`, which come behind the preface and SETTINGS.
#[track_caller]
fn server_says(bytes: &[Vec<u8>], reason: Reason) {
    let mut side = Side::server(Config::default());
    let (_, error) = side.feed(&bytes.concat());
    assert_eq!(error.map(|error| error.reason), Some(reason));
    let (last, payload) = side.sent().pop().unwrap();
    assert_eq!((last.kind, frame::number(&payload, 4)), (frame::GOAWAY, Some(reason.0)));
    assert!(side.connection.is_over());
    assert!(side.feed(b"more").1.is_some(), "it stays over");
}

/// The stream that it resets, and why; the connection goes on.
#[track_caller]
fn server_resets(bytes: &[Vec<u8>], id: u32, reason: Reason) {
    let mut side = Side::server(Config::default());
    let (_, error) = side.feed(&bytes.concat());
    assert_eq!(error, None);
    let sent = side.sent();
    let reset = sent.iter().find(|(head, _)| head.kind == frame::RST_STREAM).expect("a reset");
    assert_eq!((reset.0.stream, frame::number(&reset.1, 0)), (id, Some(reason.0)));
    // The next stream is served.
    let (events, error) = side.feed(&frame(frame::HEADERS, END, 99, &block(&GET)));
    assert!(error.is_none() && matches!(events[..], [Event::Head { .. }]), "{events:?} {error:?}");
}

const END: u8 = frame::END_STREAM | frame::END_HEADERS;
const OPEN: u8 = frame::END_HEADERS;

fn get(id: u32, flags: u8) -> Vec<u8> {
    frame(frame::HEADERS, flags, id, &block(&GET))
}

fn settings(id: u16, value: u32) -> Vec<u8> {
    frame(frame::SETTINGS, 0, 0, &[&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

#[test]
fn faults_of_a_connection() {
    use frame::*;
    let cases: Vec<(Vec<Vec<u8>>, Reason)> = vec![
        (vec![frame(DATA, 0, 0, b"x")], Reason::PROTOCOL_ERROR),
        (vec![frame(HEADERS, END, 0, b"\x82")], Reason::PROTOCOL_ERROR),
        (vec![frame(SETTINGS, 0, 1, b"")], Reason::PROTOCOL_ERROR),
        (vec![frame(PING, 0, 1, &[0; 8])], Reason::PROTOCOL_ERROR),
        (vec![frame(GOAWAY, 0, 1, &[0; 8])], Reason::PROTOCOL_ERROR),
        (vec![frame(RST_STREAM, 0, 0, &[0; 4])], Reason::PROTOCOL_ERROR),
        (vec![frame(PRIORITY, 0, 0, &[0; 5])], Reason::PROTOCOL_ERROR),
        (vec![frame(CONTINUATION, 0, 0, b"")], Reason::PROTOCOL_ERROR),
        (vec![frame(PUSH_PROMISE, 4, 1, &[0, 0, 0, 2])], Reason::PROTOCOL_ERROR),
        // Streams that were never opened.
        (vec![frame(DATA, 0, 1, b"x")], Reason::PROTOCOL_ERROR),
        (vec![frame(RST_STREAM, 0, 1, &[0; 4])], Reason::PROTOCOL_ERROR),
        (vec![frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])], Reason::PROTOCOL_ERROR),
        (vec![get(2, END)], Reason::PROTOCOL_ERROR),
        // A stream that depends on itself.
        (vec![frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 9])], Reason::PROTOCOL_ERROR),
        (
            vec![frame(HEADERS, END | WITH_PRIORITY, 1, &[&[0x80, 0, 0, 1, 9][..], &block(&GET)].concat())],
            Reason::PROTOCOL_ERROR,
        ),
        // Sizes.
        (vec![frame(DATA, 0, 1, &[0; 16_385])], Reason::FRAME_SIZE_ERROR),
        (vec![frame(PING, 0, 0, &[0; 7])], Reason::FRAME_SIZE_ERROR),
        (vec![frame(SETTINGS, 0, 0, &[0; 5])], Reason::FRAME_SIZE_ERROR),
        (vec![frame(SETTINGS, ACK, 0, &[0; 6])], Reason::FRAME_SIZE_ERROR),
        (vec![get(1, OPEN), frame(RST_STREAM, 0, 1, &[0; 3])], Reason::FRAME_SIZE_ERROR),
        (vec![frame(WINDOW_UPDATE, 0, 0, &[0; 3])], Reason::FRAME_SIZE_ERROR),
        (vec![frame(GOAWAY, 0, 0, &[0; 7])], Reason::FRAME_SIZE_ERROR),
        // Settings.
        (vec![settings(2, 2)], Reason::PROTOCOL_ERROR),
        (vec![settings(4, 1 << 31)], Reason::FLOW_CONTROL_ERROR),
        (vec![settings(5, 16_383)], Reason::PROTOCOL_ERROR),
        (vec![settings(5, 1 << 24)], Reason::PROTOCOL_ERROR),
        // Windows.
        (vec![frame(WINDOW_UPDATE, 0, 0, &[0; 4])], Reason::PROTOCOL_ERROR),
        (vec![frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff])], Reason::FLOW_CONTROL_ERROR),
        (
            vec![get(1, END), frame(WINDOW_UPDATE, 0, 1, &[0x7f, 0xff, 0, 0]), settings(4, 0x7fff_ffff)],
            Reason::FLOW_CONTROL_ERROR,
        ),
        // Header blocks.
        (vec![frame(HEADERS, 0, 1, b"\x82"), frame(PING, 0, 0, &[0; 8])], Reason::PROTOCOL_ERROR),
        (vec![frame(HEADERS, 0, 1, b"\x82"), frame(CONTINUATION, 0, 3, b"")], Reason::PROTOCOL_ERROR),
        (vec![frame(CONTINUATION, 0, 1, b"")], Reason::PROTOCOL_ERROR),
        (vec![frame(HEADERS, END, 1, b"\xff\xff\xff\xff\xff\xff")], Reason::COMPRESSION_ERROR),
        (vec![frame(HEADERS, END, 1, b"\xc6")], Reason::COMPRESSION_ERROR),
        (vec![frame(HEADERS, END | PADDED, 1, b"\x05\x82")], Reason::PROTOCOL_ERROR),
        (vec![frame(HEADERS, END | WITH_PRIORITY, 1, b"\0\0\0")], Reason::PROTOCOL_ERROR),
        (vec![get(1, OPEN), frame(DATA, PADDED, 1, b"\x05xx")], Reason::PROTOCOL_ERROR),
        // Streams that have ended.
        (vec![get(3, END), get(1, END)], Reason::STREAM_CLOSED),
        (
            vec![get(1, OPEN), frame(RST_STREAM, 0, 1, &[0; 4]), frame(DATA, 0, 1, b"x")],
            Reason::STREAM_CLOSED,
        ),
        (
            vec![frame(GOAWAY, 0, 0, &[0; 8]), frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0])],
            Reason::PROTOCOL_ERROR,
        ),
    ];
    for (at, (bytes, reason)) in cases.into_iter().enumerate() {
        println!("case {at}");
        server_says(&bytes, reason);
    }
}

#[test]
fn faults_of_a_stream() {
    use frame::*;
    let with = |more: (&'static str, &'static str)| {
        let fields: Vec<_> = GET.into_iter().chain([more]).collect();
        frame(HEADERS, END, 1, &block(&fields))
    };
    let post = |length: &'static str| {
        let fields: Vec<_> = GET.into_iter().chain([("content-length", length)]).collect();
        frame(HEADERS, OPEN, 1, &block(&fields))
    };
    let cases: Vec<(Vec<Vec<u8>>, Reason)> = vec![
        (vec![with(("connection", "close"))], Reason::PROTOCOL_ERROR),
        (vec![with(("x", "a\r\nb: c"))], Reason::PROTOCOL_ERROR),
        (vec![with(("content-length", "1"))], Reason::PROTOCOL_ERROR),
        (vec![post("3"), frame(DATA, 1, 1, b"ab")], Reason::PROTOCOL_ERROR),
        (vec![post("3"), frame(DATA, 0, 1, b"abcd")], Reason::PROTOCOL_ERROR),
        (vec![post("3"), frame(HEADERS, END, 1, &block(&[("x", "y")]))], Reason::PROTOCOL_ERROR),
        (vec![get(1, OPEN), frame(HEADERS, OPEN, 1, &block(&[("x", "y")]))], Reason::PROTOCOL_ERROR),
        (vec![get(1, OPEN), get(1, END)], Reason::PROTOCOL_ERROR),
        (vec![get(1, END), frame(DATA, 0, 1, b"x")], Reason::STREAM_CLOSED),
        (vec![get(1, END), frame(HEADERS, END, 1, &block(&[("x", "y")]))], Reason::STREAM_CLOSED),
        (vec![get(1, END), frame(WINDOW_UPDATE, 0, 1, &[0; 4])], Reason::PROTOCOL_ERROR),
        (
            vec![get(1, END), frame(WINDOW_UPDATE, 0, 1, &[0x7f, 0xff, 0xff, 0xff])],
            Reason::FLOW_CONTROL_ERROR,
        ),
        (vec![get(1, END), frame(PRIORITY, 0, 1, &[0; 4])], Reason::FRAME_SIZE_ERROR),
    ];
    for (at, (bytes, reason)) in cases.into_iter().enumerate() {
        println!("case {at}");
        server_resets(&bytes, 1, reason);
    }
}

#[test]
fn beginnings() {
    for bad in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX", b"X"] {
        let mut side =
            Side { connection: Connection::new(Role::Server, Config::default()), pending: Vec::new() };
        assert_eq!(side.feed(bad).1.map(|error| error.reason), Some(Reason::PROTOCOL_ERROR));
    }
    let mut side = Side { connection: Connection::new(Role::Server, Config::default()), pending: Vec::new() };
    let (_, error) = side.feed(&[&PREFACE[..], &frame(frame::PING, 0, 0, &[0; 8])].concat());
    assert_eq!(error.map(|error| error.reason), Some(Reason::PROTOCOL_ERROR));
}

#[test]
fn more_than_a_window_is_a_fault() {
    let mut side =
        Side::server(Config { stream_window: 65_535, connection_window: 65_535, ..Config::default() });
    side.feed(&frame(frame::HEADERS, OPEN, 1, &block(&GET)));
    // Nothing of this is released.
    side.connection.receive(&[], Instant::now()).unwrap();
    let mut bytes: Vec<u8> = Vec::new();
    for _ in 0..4 {
        bytes.extend(frame(frame::DATA, 0, 1, &[0; 16_384]));
    }
    let (mut at, now) = (0, Instant::now());
    let error = loop {
        match side.connection.receive(&bytes[at..], now) {
            Ok(received) => at += received.used,
            Err(error) => break error,
        }
    };
    assert_eq!(error.reason, Reason::FLOW_CONTROL_ERROR);
}

#[test]
fn a_client_knows_what_a_server_may_not_do() {
    use frame::*;
    let answer = |fields: &[(&str, &str)], flags| frame(HEADERS, flags, 1, &block(fields));
    let ok = [(":status", "200"), ("content-length", "2")];
    type Case = (Vec<Vec<u8>>, Result<Reason, Reason>);
    let cases: Vec<Case> = vec![
        (vec![settings(2, 1)], Err(Reason::PROTOCOL_ERROR)),
        (vec![frame(PUSH_PROMISE, 4, 1, &[0, 0, 0, 2, 0x82])], Err(Reason::PROTOCOL_ERROR)),
        (vec![frame(HEADERS, END, 3, &block(&ok))], Err(Reason::PROTOCOL_ERROR)),
        (vec![frame(DATA, 0, 1, b"x")], Ok(Reason::PROTOCOL_ERROR)),
        (vec![answer(&ok, END)], Ok(Reason::PROTOCOL_ERROR)),
        (vec![answer(&ok, OPEN), frame(DATA, 1, 1, b"x")], Ok(Reason::PROTOCOL_ERROR)),
        (vec![answer(&ok, OPEN), frame(DATA, 1, 1, b"xyz")], Ok(Reason::PROTOCOL_ERROR)),
        (vec![answer(&[(":status", "103")], END)], Ok(Reason::PROTOCOL_ERROR)),
        (vec![answer(&[(":status", "101")], OPEN)], Ok(Reason::PROTOCOL_ERROR)),
        (vec![answer(&[(":status", "204")], OPEN), frame(DATA, 1, 1, b"x")], Ok(Reason::PROTOCOL_ERROR)),
        (vec![answer(&[("x", "y")], END)], Ok(Reason::PROTOCOL_ERROR)),
    ];
    for (at, (bytes, expected)) in cases.into_iter().enumerate() {
        println!("case {at}");
        let mut side = Side::client();
        side.connection.open(&list(&GET), true, false).unwrap();
        let (events, error) = side.feed(&bytes.concat());
        match expected {
            Err(reason) => assert_eq!(error.map(|error| error.reason), Some(reason)),
            Ok(reason) => {
                let last = events.last();
                assert!(
                    matches!(last, Some(Event::Reset { reason: why, by_peer: false, .. }) if *why == reason),
                    "{events:?} {error:?}"
                );
            }
        }
    }
}

#[test]
fn answers_without_bodies_may_say_how_long_they_would_be() {
    for (to_head, status) in [(true, "200"), (false, "304")] {
        let mut side = Side::client();
        side.connection.open(&list(&GET), true, to_head).unwrap();
        let head = block(&[(":status", status), ("content-length", "9000")]);
        let (events, error) = side.feed(&frame(frame::HEADERS, END, 1, &head));
        assert!(error.is_none() && matches!(events[..], [Event::Settings, Event::Head { end: true, .. }]));
    }
}

#[test]
fn a_goaway_tells_what_may_be_sent_again() {
    let mut side = Side::client();
    side.feed(&[]);
    let keys: Vec<_> = (0..3).map(|_| side.connection.open(&list(&GET), true, false).unwrap()).collect();
    let (events, error) = side.feed(&frame(frame::GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]));
    assert!(error.is_none());
    assert_eq!(events[0], Event::GoAway { reason: Reason::NO_ERROR });
    let mut refused: Vec<_> = events[1..]
        .iter()
        .map(|event| match event {
            Event::Reset { stream, reason: Reason::REFUSED_STREAM, by_peer: true } => *stream,
            other => panic!("{other:?}"),
        })
        .collect();
    refused.sort_by_key(|key| key.id());
    assert_eq!(refused, keys[1..]);
    assert_eq!(side.connection.open(&list(&GET), true, false), Err(OpenError::Ending));
    assert!(!side.connection.is_over());
    side.feed(&frame(frame::HEADERS, END, 1, &block(&[(":status", "200")])));
    assert!(side.connection.is_over());
}

#[test]
fn a_server_that_goes_ends_what_it_has() {
    let mut side = Side::server(Config::default());
    let (events, _) = side.feed(&get(1, END));
    let Some(&Event::Head { stream, .. }) = events.last() else { panic!("{events:?}") };
    side.connection.announce_end();
    let (events, _) = side.feed(&get(3, OPEN));
    assert!(matches!(events[..], [Event::Head { .. }]), "what was under way is served");
    side.connection.go_away(Reason::NO_ERROR);
    let lasts: Vec<_> = side
        .sent()
        .into_iter()
        .filter(|(head, _)| head.kind == frame::GOAWAY)
        .map(|(_, payload)| frame::number(&payload, 0).unwrap())
        .collect();
    assert_eq!(lasts, [(1 << 31) - 1, 3]);
    let (events, error) = side.feed(&[get(5, OPEN), frame(frame::DATA, 1, 5, b"late")].concat());
    assert!(events.is_empty() && error.is_none(), "what comes later is read over");
    side.connection.send_head(stream, &list(&[(":status", "200")]), true).unwrap();
    assert!(!side.connection.is_over());
    side.feed(&frame(frame::RST_STREAM, 0, 3, &[0; 4]));
    assert!(side.connection.is_over());
}

/// Blocks that are the same bytes mean the same only as long as the table says so.
#[test]
fn equal_blocks_follow_the_table() {
    let mut side = Side::server(Config::default());
    let literal = |value: &str| {
        let mut bytes = vec![0x82, 0x86, 0x84, 0x41, 1, b'a', 0x40, 3, b'x', b'-', b'a', value.len() as u8];
        bytes.extend_from_slice(value.as_bytes());
        bytes
    };
    let indexed = |place: u8| vec![0x82, 0x86, 0x84, 0x01, 1, b'a', 0x80 | place];
    let mut id = 1;
    let mut ask = |block: &[u8]| {
        let (events, error) = side.feed(&frame(frame::HEADERS, END, id, block));
        id += 2;
        assert!(error.is_none() && matches!(events.last(), Some(Event::Head { .. })), "{events:?} {error:?}");
        side.connection
            .head()
            .fields()
            .map(|field| String::from_utf8_lossy(field.value).into_owned())
            .collect::<String>()
    };
    // Each puts x-a before the authority into the table, again and again.
    assert_eq!([ask(&literal("1")), ask(&literal("1")), ask(&literal("1"))], ["1", "1", "1"]);
    assert_eq!(
        [ask(&indexed(62)), ask(&indexed(62)), ask(&indexed(64)), ask(&indexed(66))],
        ["1", "1", "1", "1"]
    );
    assert_eq!(ask(&literal("2")), "2");
    assert_eq!(
        [ask(&indexed(62)), ask(&indexed(64)), ask(&indexed(62)), ask(&indexed(68))],
        ["2", "1", "2", "1"]
    );
    // The sixth entry of the first three requests is the oldest one.
    let (_, error) = side.feed(&frame(frame::HEADERS, END, 99, &indexed(70)));
    assert_eq!(error.map(|error| error.reason), Some(Reason::COMPRESSION_ERROR));
}

#[test]
fn a_window_of_one_byte_is_served() {
    let mut side = Side::server(Config::default());
    let (events, _) = side.feed(&[settings(4, 1), get(1, END)].concat());
    let Some(&Event::Head { stream, .. }) = events.last() else { panic!("{events:?}") };
    side.connection.send_head(stream, &list(&[(":status", "200")]), false).unwrap();
    assert_eq!(side.connection.send_data(stream, b"abc", true), Ok(1));
    assert!(side.connection.is_stalled());
    assert_eq!(side.connection.next_writable(), None);
    side.feed(&frame(frame::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]));
    assert_eq!(side.connection.next_writable(), Some(stream));
    assert_eq!(side.connection.send_data(stream, b"bc", true), Ok(1));
    // A window that shrinks below nothing, and grows again.
    side.feed(&settings(4, 0));
    assert_eq!(side.connection.next_writable(), None);
    side.feed(&settings(4, 10));
    assert_eq!(side.connection.next_writable(), Some(stream));
    assert_eq!(side.connection.send_data(stream, b"c", true), Ok(1));
    let data: Vec<u8> = side
        .sent()
        .into_iter()
        .filter(|(head, _)| head.kind == frame::DATA)
        .flat_map(|(_, payload)| payload)
        .collect();
    assert_eq!(data, b"abc");
    assert_eq!(side.connection.streams(), 0);
    assert!(!side.connection.is_stalled());
}

#[test]
fn streams_beyond_the_bound_are_refused_and_heads_beyond_it_told() {
    let mut side = Side::server(Config { max_streams: 1, max_head: 400, ..Config::default() });
    let (events, error) = side.feed(&[get(1, END), get(3, END)].concat());
    assert!(error.is_none() && events.len() == 2, "{events:?}");
    let refused = side.sent().into_iter().any(|(head, payload)| {
        (head.kind, head.stream) == (frame::RST_STREAM, 3)
            && frame::number(&payload, 0) == Some(Reason::REFUSED_STREAM.0)
    });
    assert!(refused);
    let large = "x".repeat(300);
    let mut side = Side::server(Config { max_head: 400, ..Config::default() });
    let fields: Vec<_> = GET.into_iter().chain([("x-large", &large[..])]).collect();
    let (events, error) = side.feed(&frame(frame::HEADERS, END, 1, &block(&fields)));
    assert!(error.is_none() && matches!(events[..], [_, Event::TooLarge { end: true, .. }]), "{events:?}");
}
