//! What of a message leaves at once, and what waits for the rest.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use weir_rt::{Buf, ConnectOptions, IoChoice, Runtime, RuntimeConfig, Timer};
use weir_wire::{Conn, SendError, SendFraming, ServerConnection};

#[test]
fn a_head_waits_for_its_file_where_packets_are_to_be_full() {
    let seconds = Duration::from_secs(30);
    for (io, full) in [IoChoice::Uring, IoChoice::Epoll].into_iter().flat_map(|io| [(io, true), (io, false)])
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let runtime = Runtime::new(RuntimeConfig { io, ..Default::default() }).unwrap();
        runtime.block_on(async move {
            let stream = weir_rt::connect(addr, &ConnectOptions { nodelay: true, ..Default::default() })
                .await
                .unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            peer.set_nonblocking(true).unwrap();
            let mut outgoing = ServerConnection::new(Conn::from(stream), Buf::new(), Box::default()).outgoing;
            let timer = Timer::new();
            outgoing.set_full_packets(full);
            outgoing.buffer().extend(b"head");
            outgoing.begin(SendFraming::UntilClose);
            // A file that is shorter than was thought: only the head was sent when that shows.
            let mut file = tempfile::tempfile().unwrap();
            let short = outgoing.send_file(&file, 0, 4, &timer, seconds).await;
            assert!(matches!(short, Err(SendError::Length)), "{io:?}: {short:?}");
            let mut seen = [0; 16];
            match peer.read(&mut seen) {
                Ok(read) => assert!(!full && &seen[..read] == b"head", "{io:?}"),
                Err(error) => assert!(full && error.kind() == ErrorKind::WouldBlock, "{io:?}: {error}"),
            }
            // Once the rest is there, both are.
            file.write_all(b"file").unwrap();
            outgoing.send_file(&file, 0, 4, &timer, seconds).await.unwrap();
            let rest = peer.read(&mut seen).unwrap();
            assert_eq!(&seen[..rest], if full { &b"headfile"[..] } else { b"file" }, "{io:?}");
        });
    }
}
