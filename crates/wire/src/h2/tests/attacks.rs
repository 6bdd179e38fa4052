//! Known attacks end with ENHANCE_YOUR_CALM, soon, and without memory that grows. Honest peers that look a little like
//! them are served.

use std::time::Duration;

use super::*;

const END: u8 = frame::END_STREAM | frame::END_HEADERS;
const CALM: Option<Reason> = Some(Reason::ENHANCE_YOUR_CALM);

/// Feeds what `next` gives, up to `most` rounds a millisecond apart in time; after how many it was cut, and why. The
/// peer reads what it is sent.
fn rounds(config: Config, most: u32, ms: u64, mut next: impl FnMut(u32) -> Vec<u8>) -> (u32, Option<Reason>) {
    let begin = Instant::now();
    let mut side = Side::server(config);
    for round in 0..most {
        let now = begin + Duration::from_millis(u64::from(round) * ms);
        let (_, error) = side.feed_at(&next(round), now);
        side.connection.output().clear();
        if let Some(error) = error {
            return (round, Some(error.reason));
        }
    }
    (most, None)
}

fn get(n: u32) -> Vec<u8> {
    frame(frame::HEADERS, END, 2 * n + 1, &block(&GET))
}

fn cancel(n: u32) -> Vec<u8> {
    frame(frame::RST_STREAM, 0, 2 * n + 1, &Reason::CANCEL.0.to_be_bytes())
}

#[test]
fn rapid_reset() {
    let (served, why) = rounds(Config::default(), 10_000, 0, |n| [get(n), cancel(n)].concat());
    assert_eq!((served, why), (400, CALM));
}

#[test]
fn paced_resets_are_cut_too() {
    // 500 a second, each a millisecond or two apart.
    let (served, why) = rounds(Config::default(), 10_000, 2, |n| [get(n), cancel(n)].concat());
    assert!(why == CALM && served < 500, "{served}");
    // A person who leaves a page now and then is no attacker.
    let (_, why) = rounds(Config::default(), 10_000, 50, |n| [get(n), cancel(n)].concat());
    assert_eq!(why, None);
}

#[test]
fn resets_that_we_are_made_to_send_cost_the_same() {
    // MadeYouReset: an update of 0 makes the server reset the stream.
    let (served, why) = rounds(Config::default(), 10_000, 0, |n| {
        [get(n), frame(frame::WINDOW_UPDATE, 0, 2 * n + 1, &[0; 4])].concat()
    });
    assert_eq!((served, why), (400, CALM));
    // Requests that mean nothing.
    let bad = block(&[(":method", "GET")]);
    let (served, why) = rounds(Config::default(), 10_000, 0, |n| frame(frame::HEADERS, END, 2 * n + 1, &bad));
    assert_eq!((served, why), (400, CALM));
    // More streams than allowed.
    let (served, why) = rounds(Config::default(), 10_000, 0, get);
    assert_eq!((served, why), (128 + 400, CALM));
}

/// Frames that carry nothing, by name.
fn floods() -> [(&'static str, Vec<u8>); 9] {
    [
        ("SETTINGS", frame(frame::SETTINGS, 0, 0, &[])),
        ("acknowledgements", frame(frame::SETTINGS, frame::ACK, 0, &[])),
        ("PING", frame(frame::PING, 0, 0, &[0; 8])),
        ("PRIORITY", frame(frame::PRIORITY, 0, 1, &[0; 5])),
        ("WINDOW_UPDATE", frame(frame::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("empty DATA", frame(frame::DATA, 0, 1, &[])),
        ("padding", frame(frame::DATA, frame::PADDED, 1, &[3, 0, 0, 0])),
        ("unknown", frame(0x77, 0, 0, &[0; 100])),
        ("RST_STREAM", frame(frame::RST_STREAM, 0, 3, &[0; 4])),
    ]
}

/// What a connection that is asked for bounded work at a time does with a buffer that is full of frames already.
#[test]
fn a_buffer_full_of_frames_is_bounded_work() {
    let open = frame(frame::HEADERS, frame::END_HEADERS, 1, &block(&GET));
    let started = || {
        let mut side = Side::server(Config::default());
        let (events, error) = side.feed(&open);
        assert!(error.is_none() && matches!(events.last(), Some(Event::Head { .. })), "{events:?} {error:?}");
        side
    };
    for (name, flood) in floods() {
        let mut side = started();
        // Far more frames than it may look at.
        let bytes = flood.repeat(100_000);
        let mut rest = &bytes[..];
        // SETTINGS are told one by one; the others are no news.
        let error = loop {
            match side.connection.receive(rest, Instant::now()) {
                Ok(received) if received.event.is_some() => rest = &rest[received.used..],
                Ok(received) => panic!("{name}: {received:?}"),
                Err(error) => break error,
            }
        };
        // A reset of a stream that never began is a fault at once (RFC 9113 §6.4).
        let expected = if name == "RST_STREAM" { Some(Reason::PROTOCOL_ERROR) } else { CALM };
        assert_eq!(Some(error.reason), expected, "{name}");
        assert!(side.connection.output().len() < 64 << 10, "{name}: {}", side.connection.output().len());
    }
    // What carries something is told one by one: between two of them the caller may do something else.
    let mut side = started();
    let data = frame(frame::DATA, 0, 1, b"x");
    let received = side.connection.receive(&data.repeat(100_000), Instant::now()).expect("it is fine");
    assert!(received.event.is_some());
    assert_eq!(received.used, data.len());
    // A block without end is given up early, however much of it is there.
    let mut side = started();
    let more =
        [frame(frame::HEADERS, 0, 3, &block(&GET)), frame(frame::CONTINUATION, 0, 3, &[]).repeat(100_000)]
            .concat();
    let error = side.connection.receive(&more, Instant::now()).expect_err("a block without end");
    assert_eq!(Some(error.reason), CALM);
}

#[test]
fn frames_that_carry_nothing() {
    for (name, flood) in floods() {
        let open = frame(frame::HEADERS, frame::END_HEADERS, 1, &block(&GET));
        let over =
            [frame(frame::HEADERS, END, 3, &block(&GET)), frame(frame::RST_STREAM, 0, 3, &[0; 4])].concat();
        let (served, why) = rounds(Config::default(), 100_000, 0, |n| {
            if n == 0 { [&open[..], &over].concat() } else { flood.clone() }
        });
        assert!(why == CALM && (1900..2100).contains(&served), "{name}: {served} {why:?}");
    }
}

#[test]
fn updates_of_windows_that_are_used_cost_nothing() {
    // A reader of a long answer: two updates for each frame.
    let mut side = Side::server(Config::default());
    let (events, _) = side.feed(&get(0));
    let Some(&Event::Head { stream, .. }) = events.last() else { panic!("{events:?}") };
    side.connection.send_head(stream, &list(&[(":status", "200")]), false).unwrap();
    let now = Instant::now();
    for _ in 0..20_000 {
        let sent = side.connection.send_data(stream, &[0; 1000], false).unwrap();
        assert_eq!(sent, 1000);
        side.connection.output().clear();
        let update = |id| frame(frame::WINDOW_UPDATE, 0, id, &1000_u32.to_be_bytes());
        assert_eq!(side.feed_at(&[update(0), update(1)].concat(), now).1, None);
    }
}

#[test]
fn answers_that_are_not_read_pile_up_to_a_bound() {
    let mut side =
        Side::server(Config { chatter: Allowance { burst: 1 << 30, per_second: 0 }, ..Config::default() });
    let ping = frame(frame::PING, 0, 0, &[0; 8]);
    let mut sent = 0;
    let error = loop {
        match side.feed(&ping).1 {
            Some(error) => break error,
            None => sent += ping.len(),
        }
    };
    assert_eq!(error.reason, Reason::ENHANCE_YOUR_CALM);
    assert!(sent < 200_000 && side.connection.output().len() < 200_000);
}

#[test]
fn header_blocks_without_end() {
    let mut side = Side::server(Config::default());
    side.feed(&frame(frame::HEADERS, frame::END_STREAM, 1, &block(&GET)));
    let empty = frame(frame::CONTINUATION, 0, 1, &[]);
    assert_eq!(side.feed(&empty.repeat(1000)).1.map(|error| error.reason), CALM);
    let mut side = Side::server(Config::default());
    side.feed(&frame(frame::HEADERS, frame::END_STREAM, 1, &block(&GET)));
    let large = frame(frame::CONTINUATION, 0, 1, &[0; 16_384]);
    assert_eq!(side.feed(&large.repeat(5)).1.map(|error| error.reason), CALM);
}

#[test]
fn an_hpack_bomb_is_told_and_not_kept() {
    // One field of 4,000 bytes in the table, and 16,000 times the byte that means it.
    let value = "x".repeat(4000);
    let mut bomb = block(&GET.into_iter().chain([("x-b", "")]).collect::<Vec<_>>());
    bomb.truncate(bomb.len() - 5);
    bomb.extend([0x40, 3, b'x', b'-', b'b', 0x7f, 0xa1, 0x1e]);
    bomb.extend_from_slice(value.as_bytes());
    bomb.extend(std::iter::repeat_n(0xbe, 12_000));
    let mut side = Side::server(Config::default());
    let (events, error) = side.feed(&frame(frame::HEADERS, END, 1, &bomb));
    assert!(error.is_none() && matches!(events[..], [_, Event::TooLarge { .. }]), "{events:?} {error:?}");
    let kept: usize = side.connection.head().fields().map(|field| field.value.len()).sum();
    assert!(kept < 64 * 1024, "{kept}");
}

#[test]
fn a_reader_that_stands_still_is_told_and_holds_little() {
    let mut side = Side::server(Config::default());
    let (events, _) = side.feed(&get(0));
    let Some(&Event::Head { stream, .. }) = events.last() else { panic!("{events:?}") };
    side.connection.send_head(stream, &list(&[(":status", "200")]), false).unwrap();
    let page = vec![0; 1 << 20];
    let mut sent = 0;
    while let Ok(n) = side.connection.send_data(stream, &page, true)
        && n > 0
    {
        sent += n;
        assert!(side.connection.output().len() <= 64 * 1024);
        side.connection.output().clear();
        side.connection.next_writable();
    }
    assert_eq!(sent, 65_535);
    assert!(side.connection.is_stalled());
}
