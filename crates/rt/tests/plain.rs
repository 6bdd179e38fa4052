//! Sockets, timers and mailboxes, the same on both drivers.

#![allow(clippy::unwrap_used)]

mod common;

use std::cell::{Cell, RefCell};
use std::io::{IoSlice, Read, Write};
use std::rc::Rc;
use std::time::Duration;

use common::{both, deadline, pattern, serve_once};
use weir_rt::*;

#[test]
fn both_drivers_report_themselves() {
    both(|runtime, io| match io {
        IoChoice::Epoll => assert_eq!(runtime.driver(), Driver::Epoll),
        _ => assert!(matches!(runtime.driver(), Driver::Uring(_))),
    });
}

#[test]
fn a_big_transfer_arrives_whole() {
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            const LEN: usize = 8 << 20;
            let addr = serve_once(|stream| async move {
                let mut buf = Buf::new();
                while stream.read_up_to(&mut buf, LARGE).await? > 0 {
                    let (result, _) = stream.write_all(buf.take()).await;
                    result?;
                }
                stream.shutdown_write().await
            });
            let client = connect(addr, &ConnectOptions::default()).await.unwrap();
            let writer = client.clone();
            spawn(async move {
                let data = pattern(LEN);
                let (small, large) = data.split_at(LEN / 2);
                for chunk in small.chunks(MEDIUM) {
                    writer.write_all(Buf::from(chunk)).await.0.unwrap();
                }
                writer.write_slice(large).await.unwrap();
                writer.shutdown_write().await.unwrap();
            });
            let mut got = Vec::new();
            let mut buf = Buf::new();
            while client.read(&mut buf).await.unwrap() > 0 {
                got.extend_from_slice(&buf);
                buf.release();
            }
            assert!(got == pattern(LEN));
        }));
    });
}

#[test]
fn discarded_bytes_are_counted_and_what_follows_them_is_read() {
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            const LEN: usize = 3 << 20;
            let addr = serve_once(|stream| async move {
                stream.write_slice(&pattern(LEN)).await?;
                stream.write_slice(b"the rest").await?;
                stream.shutdown_write().await
            });
            let client = connect(addr, &ConnectOptions::default()).await.unwrap();
            let mut left = LEN;
            while left > 0 {
                client.readable().await;
                left -= client.try_discard(left).unwrap().unwrap_or_default();
            }
            let mut rest = Buf::new();
            while client.read(&mut rest).await.unwrap() > 0 {}
            assert_eq!(&rest[..], b"the rest");
            assert_eq!(client.try_discard(10).unwrap(), Some(0), "the end");
        }));
    });
}

#[test]
fn dropped_reads_lose_no_data() {
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            const ROUNDS: u32 = 300;
            let addr = serve_once(|stream| async move {
                for i in 0..ROUNDS {
                    stream.write_all(Buf::from(&i.to_be_bytes()[..])).await.0?;
                    yield_now().await;
                }
                stream.shutdown_write().await
            });
            let client = connect(addr, &ConnectOptions::default()).await.unwrap();
            let mut buf = Buf::new();
            let mut dropped = 0;
            loop {
                // Polled once, then dropped, as by a timeout that fires at the worst moment.
                let once = Poll1(client.read(&mut buf)).await;
                match once {
                    None => {
                        dropped += 1;
                        yield_now().await;
                    }
                    Some(read) if read.as_ref().is_ok_and(|&n| n == 0) => break,
                    Some(read) => drop(read.unwrap()),
                }
            }
            assert!(dropped > 0);
            let got: Vec<u32> =
                buf.chunks(4).map(|chunk| u32::from_be_bytes(chunk.try_into().unwrap())).collect();
            assert_eq!(got, (0..ROUNDS).collect::<Vec<_>>());
        }));
    });
}

/// Polls a future once.
struct Poll1<F>(F);

impl<F: Future> Future for Poll1<F> {
    type Output = Option<F::Output>;

    fn poll(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        // SAFETY: the inner future is pinned with the outer one and never moved.
        let inner = unsafe { self.map_unchecked_mut(|this| &mut this.0) };
        match inner.poll(cx) {
            std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        }
    }
}

#[test]
fn half_close_lets_the_other_half_go_on() {
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let addr = serve_once(|stream| async move {
                let mut buf = Buf::new();
                while stream.read(&mut buf).await? > 0 {}
                assert_eq!(&buf[..], b"request");
                stream.write_all(Buf::from(&b"answer"[..])).await.0
            });
            let client = connect(addr, &ConnectOptions::default()).await.unwrap();
            client.write_slice(b"request").await.unwrap();
            client.shutdown_write().await.unwrap();
            let mut buf = Buf::new();
            while client.read(&mut buf).await.unwrap() > 0 {}
            assert_eq!(&buf[..], b"answer");
        }));
    });
}

#[test]
fn a_hang_up_is_seen_and_data_before_it_is_kept() {
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            for early in [&b""[..], b"pipelined"] {
                let (sender, mut closed) = mailbox();
                let addr = serve_once(move |stream| async move {
                    let how = stream.peer_closed().await;
                    assert!(matches!(how, PeerClosed::Finished), "{how:?}");
                    let mut buf = Buf::new();
                    while stream.read(&mut buf).await? > 0 {}
                    sender.send(buf.to_vec()).unwrap();
                    Ok(())
                });
                let client = connect(addr, &ConnectOptions::default()).await.unwrap();
                client.write_slice(early).await.unwrap();
                drop(client);
                assert_eq!(closed.recv().await.unwrap(), early);
            }
        }));
    });
}

#[test]
fn an_abort_is_an_error_on_the_other_side() {
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let (client, server) = common::pair().await;
            server.abort();
            let how = client.peer_closed().await;
            assert!(matches!(how, PeerClosed::Failed(_)), "{how:?}");
        }));
    });
}

#[test]
fn a_refused_connection_is_an_error() {
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let socket = listen_tcp("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
            let addr = listen_addr(&socket).unwrap().inet().unwrap();
            drop(socket);
            let error = connect(addr, &ConnectOptions::default()).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        }));
    });
}

#[test]
fn a_file_is_sent_whole() {
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            const LEN: usize = 5 << 20;
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&pattern(LEN)).unwrap();
            let addr = serve_once(move |stream| async move {
                let sent = stream.send_file(&file, 3, LEN as u64).await?;
                assert_eq!(sent, LEN as u64 - 3);
                let mut head = Buf::new();
                assert_eq!(pread_into(&file, 0, &mut head, 3)?, 3);
                stream.write_all(head).await.0
            });
            let client = connect(addr, &ConnectOptions::default()).await.unwrap();
            let mut got = Vec::new();
            let mut buf = Buf::new();
            while client.read_up_to(&mut buf, LARGE).await.unwrap() > 0 {
                got.extend_from_slice(&buf);
                buf.clear();
            }
            let all = pattern(LEN);
            assert!(got[..LEN - 3] == all[3..] && got[LEN - 3..] == all[..3]);
        }));
    });
}

#[test]
fn vectored_writes_keep_their_order() {
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let data = pattern(1 << 20);
            let expected = [&b"head"[..], &data, b"tail"].concat();
            let addr = serve_once(move |stream| async move {
                let mut pieces = [IoSlice::new(b"head"), IoSlice::new(&data), IoSlice::new(b"tail")];
                stream.write_vectored(&mut pieces).await
            });
            let client = connect(addr, &ConnectOptions::default()).await.unwrap();
            let mut got = Vec::new();
            let mut buf = Buf::new();
            while client.read(&mut buf).await.unwrap() > 0 {
                got.extend_from_slice(&buf);
                buf.clear();
            }
            assert!(got == expected);
        }));
    });
}

#[test]
fn heads_and_what_messages_share_keep_their_order() {
    const MESSAGES: usize = 400;
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let shared: Rc<[u8]> = pattern(20_000).into();
            // Some go through the ring, some are too long for it; the reader is slow, so that they stop half-way.
            let part = |at: usize| at..at + [4_096, 10_000, 15_000, 19_000][at % 4];
            let bytes = shared.clone();
            let addr = serve_once(move |stream| async move {
                let mut head = Buf::new();
                for at in 0..MESSAGES {
                    head.extend(format!("message {at:04}\n").as_bytes());
                    let (result, empty) = stream.write_with(head, Shared::new(&bytes, part(at))).await;
                    result?;
                    assert!(empty.is_empty());
                    head = empty;
                }
                stream.flushed().await
            });
            let stream = connect(addr, &ConnectOptions::default()).await.unwrap();
            let mut buf = Buf::new();
            for at in 0..MESSAGES {
                let length = 13 + part(at).len();
                while buf.len() < length {
                    yield_now().await;
                    assert!(stream.read_up_to(&mut buf, SMALL).await.unwrap() > 0);
                }
                assert_eq!(buf[..13], *format!("message {at:04}\n").as_bytes());
                assert!(buf[13..length] == shared[part(at)], "message {at}");
                buf.consume(length);
            }
            assert_eq!(stream.read(&mut buf).await.unwrap(), 0);
        }));
    });
}

#[test]
fn many_waiting_reads_starve_nobody() {
    for io in common::DRIVERS {
        let config = RuntimeConfig { io, entries: 64, ..Default::default() };
        Runtime::new(config).unwrap().block_on(deadline(async {
            let mut pairs = Vec::new();
            for _ in 0..64 {
                pairs.push(common::pair().await);
            }
            for (client, _) in &pairs {
                client.write_slice(&pattern(10_000)).await.unwrap();
            }
            let done = Rc::new(Cell::new(0));
            for (_, server) in &pairs {
                let (server, done) = (server.clone(), done.clone());
                spawn(async move {
                    let mut buf = Buf::new();
                    while buf.len() < 10_000 {
                        assert!(server.read(&mut buf).await.unwrap() > 0);
                    }
                    assert!(buf[..] == pattern(10_000));
                    done.set(done.get() + 1);
                });
            }
            while done.get() < pairs.len() {
                yield_now().await;
            }
        }));
    }
}

/// Counts how often others had their turn while `task` ran.
async fn turns_of_others(task: impl Future<Output = ()> + 'static) -> usize {
    let (turns, done) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let ended = done.clone();
    spawn(async move {
        task.await;
        ended.set(true);
    });
    while !done.get() {
        turns.set(turns.get() + 1);
        yield_now().await;
    }
    turns.get()
}

#[test]
fn what_is_there_already_keeps_nobody_waiting() {
    const BYTES: usize = 20_000;
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let (client, server) = common::pair().await;
            client.write_slice(&pattern(BYTES)).await.unwrap();
            let turns = turns_of_others(async move {
                let mut buf = Buf::new();
                // All of it has arrived: none of these reads has to wait.
                while buf.len() < BYTES {
                    assert!(server.read_up_to(&mut buf, 1).await.unwrap() > 0);
                }
                assert!(buf[..] == pattern(BYTES));
            });
            let turns = turns.await;
            assert!(turns > 100, "others had {turns} turns during {BYTES} reads");
        }));
    });
}

#[test]
fn a_peer_that_takes_all_at_once_keeps_nobody_waiting() {
    const BYTES: usize = 20_000;
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let (client, server) = common::pair().await;
            let turns = turns_of_others(async move {
                for _ in 0..BYTES {
                    // The peer's buffer takes them all, without a wait.
                    client.write_slice(b"x").await.unwrap();
                }
            });
            let turns = turns.await;
            assert!(turns > 100, "others had {turns} turns during {BYTES} writes");
            drop(server);
        }));
    });
}

#[test]
fn unix_sockets_work() {
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("socket");
            let early = || match std::os::unix::net::UnixStream::connect(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Ok(()),
                other => panic!("nobody listens yet: {other:?}"),
            };
            let socket = listen_unix(&path, &ListenOptions::default(), early).unwrap();
            let listener = Listener::from_fd(socket).unwrap();
            let client = connect_unix(&path).await.unwrap();
            let (server, peer) = listener.accept().await.unwrap();
            assert!(matches!(peer, PeerAddr::Unix(None)), "{peer:?}");
            client.write_slice(b"x").await.unwrap();
            let mut buf = Buf::new();
            assert_eq!(server.read(&mut buf).await.unwrap(), 1);
            let again = listen_unix(&path, &ListenOptions::default(), || Ok(()));
            assert_eq!(again.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
        }));
    });
}

#[test]
fn a_port_held_by_another_is_an_error_for_the_probe() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = holder.local_addr().unwrap();
    let options = ListenOptions { reuse_port: true, ..Default::default() };
    assert_eq!(probe(addr, &options).unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    let shared = listen_tcp("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let addr = listen_addr(&shared).unwrap().inet().unwrap();
    assert_eq!(probe(addr, &options).unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    listen_tcp(addr, &options).unwrap();
}

#[test]
fn a_listener_that_goes_away_is_drained_of_all() {
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let socket = listen_tcp("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
            let listener = Listener::from_fd(socket).unwrap();
            let addr = listener.local_addr().unwrap().inet().unwrap();
            assert!(Poll1(listener.accept()).await.is_none());
            let mut clients = Vec::new();
            for _ in 0..5 {
                clients.push(connect(addr, &ConnectOptions::default()).await.unwrap());
            }
            let mut accepted = Vec::new();
            while let Some(more) = listener.try_accept().unwrap() {
                accepted.push(more);
            }
            assert_eq!(accepted.len(), clients.len());
        }));
    });
}

#[test]
fn timers_fire_in_order_never_early_and_cancel_on_drop() {
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let order = Rc::new(RefCell::new(Vec::new()));
            let start = Instant::now();
            for millis in [90u64, 30, 60] {
                let order = order.clone();
                spawn(async move {
                    let due = start + Duration::from_millis(millis);
                    sleep_until(due).await;
                    assert!(Instant::now() >= due);
                    order.borrow_mut().push(millis);
                });
            }
            let timer = Timer::new();
            timer.arm(Duration::from_millis(1));
            timer.disarm();
            assert_eq!(timeout(start + Duration::from_millis(20), timer.wait()).await, Err(Elapsed));
            assert!(!timer.expired());
            // Re-armed to later each time, it does not fire; left alone, it does.
            for _ in 0..5 {
                timer.arm(Duration::from_millis(40));
                sleep(Duration::from_millis(10)).await;
                assert!(!timer.expired());
            }
            timer.wait().await;
            sleep_until(start + Duration::from_millis(100)).await;
            assert_eq!(*order.borrow(), [30, 60, 90]);
        }));
    });
}

#[test]
fn mail_from_other_threads_wakes_the_worker() {
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let (sender, mut receiver) = mailbox();
            let threads: Vec<_> = (0..4)
                .map(|t| {
                    let sender = sender.clone();
                    std::thread::spawn(move || {
                        for i in 0..1000 {
                            sender.send(t * 1000 + i).unwrap();
                        }
                    })
                })
                .collect();
            drop(sender);
            let mut got = Vec::new();
            while let Some(message) = receiver.recv().await {
                got.push(message);
            }
            for thread in threads {
                thread.join().unwrap();
            }
            got.sort_unstable();
            assert_eq!(got, (0..4000).collect::<Vec<_>>());
        }));
    });
    let (sender, receiver) = mailbox::<u8>();
    drop(receiver);
    assert_eq!(sender.send(7), Err(7));
}

#[test]
fn a_panic_costs_one_task() {
    for io in common::DRIVERS {
        let (sender, mut receiver) = mailbox();
        let on_panic = Box::new(move |message: &str| drop(sender.send(message.to_owned())));
        let config = RuntimeConfig { io, on_panic: Some(on_panic), ..Default::default() };
        Runtime::new(config).unwrap().block_on(deadline(async {
            struct Bomb;
            impl Drop for Bomb {
                fn drop(&mut self) {
                    panic!("while dropped");
                }
            }
            spawn(async { panic!("on purpose") });
            spawn(async {
                let _bomb = Bomb;
                yield_now().await;
            });
            let (client, server) = common::pair().await;
            client.write_slice(b"still here").await.unwrap();
            let mut buf = Buf::new();
            server.read(&mut buf).await.unwrap();
            yield_now().await;
            assert_eq!(task_panics(), 2);
            assert_eq!(receiver.recv().await.as_deref(), Some("on purpose"));
            assert_eq!(receiver.recv().await.as_deref(), Some("while dropped"));
        }));
    }
}

#[test]
fn dropping_thousands_of_idle_connections_closes_them_all() {
    for io in common::DRIVERS {
        let config = RuntimeConfig { io, entries: 64, ..Default::default() };
        Runtime::new(config).unwrap().block_on(deadline(async {
            let mut clients = Vec::new();
            let mut servers = Vec::new();
            for _ in 0..500 {
                let (client, server) = common::pair().await;
                assert!(Poll1(server.readable()).await.is_none());
                clients.push(client);
                servers.push(server);
            }
            drop(servers);
            for client in clients {
                let mut buf = Buf::new();
                assert_eq!(client.read(&mut buf).await.unwrap(), 0);
            }
        }));
    }
}

#[test]
fn a_connection_moves_to_another_thread() {
    both(|runtime, io| {
        runtime.block_on(deadline(async move {
            let (client, server) = common::pair().await;
            let fd = server.into_fd().unwrap();
            let thread = std::thread::spawn(move || {
                let config = RuntimeConfig { io, ..Default::default() };
                Runtime::new(config).unwrap().block_on(async {
                    let stream = Stream::from_fd(fd).unwrap();
                    let mut buf = Buf::new();
                    stream.read(&mut buf).await.unwrap();
                    stream.write_all(buf).await.0.unwrap();
                })
            });
            client.write_slice(b"over there").await.unwrap();
            let mut buf = Buf::new();
            client.read(&mut buf).await.unwrap();
            assert_eq!(&buf[..], b"over there");
            thread.join().unwrap();
        }));
    });
}

#[test]
fn other_programs_sockets_are_plain_sockets() {
    both(|runtime, _| {
        let socket = listen_tcp("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
        let addr = listen_addr(&socket).unwrap().inet().unwrap();
        let client = std::thread::spawn(move || {
            let mut client = std::net::TcpStream::connect(addr).unwrap();
            client.write_all(b"ping").unwrap();
            let mut all = String::new();
            client.read_to_string(&mut all).unwrap();
            all
        });
        runtime.block_on(deadline(async {
            let listener = Listener::from_fd(socket).unwrap();
            let (stream, peer) = listener.accept().await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), peer);
            let mut buf = Buf::new();
            stream.read(&mut buf).await.unwrap();
            buf.extend(b" pong");
            stream.write_all(buf).await.0.unwrap();
        }));
        assert_eq!(client.join().unwrap(), "ping pong");
    });
}
