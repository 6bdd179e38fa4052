//! A request sent, its answers received.
//!
//! Owns: the reading loop. Never: decides what a failure means for the run.
//! Driven by: `slot`.
//! Why `recv` into one buffer for all connections: it is in the cache, and nothing stays in it. What is left of a body
//! after that is dropped in the kernel, where the connection is plain.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use weir_rt::{Conn, LARGE, MEDIUM};

use super::link::Link;
use super::state::Worker;
use super::unit::{Failure, Unit};
use crate::answer::Fed;
use crate::report::Cause;
use crate::shot::Shot;

/// The most that is dropped unseen at once.
const DROP: u64 = 4 << 20;

/// Sends `shot` and receives its answers; whether the connection may be used again.
pub(super) async fn exchange(
    worker: &Worker,
    link: &mut Link,
    shot: &Shot,
    unit: &Unit,
) -> Result<bool, Failure> {
    let Link { conn: Some(conn), reader, served, .. } = link else {
        return Err(Failure::Write(Cause::Other));
    };
    let kept = *served > 0;
    reader.begin(shot.head);
    if let Err(error) = conn.write_slice(&shot.bytes).await {
        return Err(if kept { Failure::Stale } else { Failure::Write(Cause::of(&error)) });
    }
    worker.count(|tally| tally.bytes.sent += shot.bytes.len() as u64);
    let mut left = shot.answers;
    let conn = &*conn;
    let result = poll_fn(|cx| poll_answers(cx, worker, conn, reader, unit, &mut left)).await;
    match result {
        Err(Failure::Read(_)) if kept && !reader.began() && left == shot.answers => Err(Failure::Stale),
        result => result,
    }
}

fn poll_answers(
    cx: &mut Context<'_>,
    worker: &Worker,
    conn: &Conn,
    reader: &mut crate::answer::Reader,
    unit: &Unit,
    left: &mut u32,
) -> Poll<Result<bool, Failure>> {
    let mut note = |reader: &crate::answer::Reader, status, keep: bool| {
        *left -= 1;
        unit.answered(worker, status, *left == 0, reader.collected());
        // Answers that were still to come on a connection that ends will not.
        if *left > 0 && !keep { Err(Failure::Read(Cause::Truncated)) } else { Ok(*left == 0) }
    };
    loop {
        ready!(conn.poll_readable(cx));
        let unseen = reader.discardable().min(DROP);
        if let Conn::Plain(stream) = conn
            && unseen > 0
        {
            let dropped = match stream.try_discard(unseen as usize) {
                Ok(None) => continue,
                Ok(Some(0)) => return Poll::Ready(Err(Failure::Read(Cause::Truncated))),
                Err(error) => return Poll::Ready(Err(Failure::Read(Cause::of(&error)))),
                Ok(Some(dropped)) => dropped as u64,
            };
            worker.count(|tally| tally.bytes.received += dropped);
            if let Fed::Answer { status, keep, .. } = reader.discarded(dropped)
                && note(reader, status, keep)?
            {
                return Poll::Ready(Ok(keep));
            }
            continue;
        }
        let mut scratch = worker.scratch.borrow_mut();
        scratch.clear();
        let limit = if conn.tls().is_some() { LARGE } else { MEDIUM };
        match conn.try_read_up_to(&mut scratch, limit) {
            Ok(None) => continue,
            Ok(Some(0)) => return Poll::Ready(at_the_end(reader, &mut note)),
            Err(error) if ended(&error) => return Poll::Ready(at_the_end(reader, &mut note)),
            Err(error) => return Poll::Ready(Err(Failure::Read(Cause::of(&error)))),
            Ok(Some(read)) => worker.count(|tally| tally.bytes.received += read as u64),
        }
        let mut rest = &scratch[..];
        loop {
            let fed = reader.feed(&mut worker.heads.borrow_mut(), rest);
            match fed.map_err(|_| Failure::Malformed)? {
                Fed::More => break,
                Fed::Answer { taken, status, keep } => {
                    rest = &rest[taken..];
                    if note(reader, status, keep)? {
                        // Bytes that nobody asked for: whatever they are, the next answer would be misread.
                        let result =
                            if rest.is_empty() || !keep { Ok(keep) } else { Err(Failure::Malformed) };
                        return Poll::Ready(result);
                    }
                }
            }
        }
    }
}

/// A TLS stream that ends without close_notify ends all the same: lengths say whether an answer was cut.
fn ended(error: &io::Error) -> bool {
    weir_rt::is_truncated(error)
}

fn at_the_end(
    reader: &mut crate::answer::Reader,
    note: &mut impl FnMut(&crate::answer::Reader, u16, bool) -> Result<bool, Failure>,
) -> Result<bool, Failure> {
    match reader.end_of_stream() {
        Some(Fed::Answer { status, .. }) => note(reader, status, false).map(|_| false),
        _ if reader.began() => Err(Failure::Read(Cause::Truncated)),
        _ => Err(Failure::Read(Cause::ClosedEarly)),
    }
}
