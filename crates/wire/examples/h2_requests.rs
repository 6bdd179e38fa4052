//! What an HTTP/2 request costs without a socket: a client and a server in one thread, joined by memory.
//!
//!     cargo run --release -p weir-wire --example h2_requests -- 1000000 10 1024 1
//!
//! so many requests, so many at a time, so many bytes of an answer, so many different paths in turn. Prints the CPU time of both sides together, by the
//! scheduler's account. Under `valgrind --tool=callgrind` it counts instructions.

use weir_rt::Instant;
use weir_wire::h2::{Config, Connection, Event, Fields, Role, StreamKey};

fn cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(f64::NAN)
}

fn list(fields: &[(&str, &str)]) -> Fields {
    let mut list = Fields::new();
    for (name, value) in fields {
        list.push(name.as_bytes(), value.as_bytes());
    }
    list
}

/// What the bytes that one side has sent tell the other.
fn pass(
    from: &mut Connection,
    to: &mut Connection,
    wire: &mut Vec<u8>,
    mut event: impl FnMut(&mut Connection, Event),
) {
    let out = from.output();
    wire.extend_from_slice(out);
    out.clear();
    let (mut at, now) = (0, Instant::now());
    loop {
        let received = match to.receive(&wire[at..], now) {
            Ok(received) => received,
            Err(error) => panic!("{error}"),
        };
        at += received.used;
        match received.event {
            Some(told) => event(to, told),
            None => break,
        }
    }
    wire.drain(..at);
}

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<usize>().unwrap_or(0));
    let mut word = |usual| words.next().unwrap_or(usual);
    let (requests, streams, size, paths) = (word(1_000_000), word(10), word(1024), word(1));
    let windows = Config { stream_window: 1 << 30, connection_window: 1 << 30, ..Config::default() };
    let (mut client, mut server) =
        (Connection::new(Role::Client, windows), Connection::new(Role::Server, windows));
    let request = |n: usize| {
        list(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "127.0.0.1:8080"),
            (":path", &format!("/{n}/1k")),
            ("user-agent", "load"),
        ])
    };
    let requested: Vec<Fields> = (0..paths.max(1)).map(request).collect();
    let answer = list(&[
        (":status", "200"),
        ("server", "weir"),
        ("content-type", "application/octet-stream"),
        ("content-length", &size.to_string()),
    ]);
    let page = vec![b'x'; size];
    let mut owed: Vec<(StreamKey, usize)> = Vec::new();
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let (mut opened, mut done) = (0, 0);
    let begun = (Instant::now(), cpu_ns());
    while done < requests {
        while opened < requests
            && opened - done < streams
            && client.open(&requested[opened % requested.len()], true, false).is_ok()
        {
            opened += 1;
        }
        pass(&mut client, &mut server, &mut up, |server, event| {
            if let Event::Head { stream, .. } = event {
                let sent = server
                    .send_head(stream, &answer, false)
                    .and_then(|()| server.send_data(stream, &page, true));
                if let Ok(sent) = sent
                    && sent < size
                {
                    owed.push((stream, sent));
                }
            }
        });
        while let Some(key) = server.next_writable() {
            let Some(at) = owed.iter().position(|(owed, _)| *owed == key) else { continue };
            let sent = owed[at].1 + server.send_data(key, &page[owed[at].1..], true).unwrap_or(size);
            owed[at].1 = sent;
            if sent >= size {
                owed.swap_remove(at);
            }
        }
        pass(&mut server, &mut client, &mut down, |client, event| {
            if let Event::Data { stream, range, end } = event {
                client.release(stream, range.len());
                done += usize::from(end);
            }
        });
    }
    let (took, cpu) = (begun.0.elapsed(), cpu_ns() - begun.1);
    println!(
        "{requests} requests, {streams} at a time, {size} bytes: {:.0} ns CPU each ({took:.2?})",
        cpu / requests as f64
    );
}
