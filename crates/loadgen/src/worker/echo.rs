//! A message sent, the same message received.
//!
//! Owns: sending and receiving at the same time, so that no size of message can stall both sides.
//! Driven by: `slot`, for `tcp://` targets.

use std::future::poll_fn;
use std::task::{Context, Poll};

use weir_rt::{Conn, LARGE};

use super::link::Link;
use super::state::Worker;
use super::unit::Failure;
use crate::report::Cause;

/// Sends `message` and receives it.
pub(super) async fn echo(worker: &Worker, link: &Link, message: &[u8]) -> Result<(), Failure> {
    let Some(conn) = &link.conn else { return Err(Failure::Write(Cause::Other)) };
    let (mut sent, mut received) = (0, 0);
    let result = poll_fn(|cx| poll_echo(cx, worker, conn, message, &mut sent, &mut received)).await;
    match result {
        Err(Failure::Read(_) | Failure::Write(_)) if link.served > 0 && received == 0 => Err(Failure::Stale),
        result => result,
    }
}

fn poll_echo(
    cx: &mut Context<'_>,
    worker: &Worker,
    conn: &Conn,
    message: &[u8],
    sent: &mut usize,
    received: &mut usize,
) -> Poll<Result<(), Failure>> {
    loop {
        let mut stuck = true;
        if *sent < message.len() {
            match conn.try_write(&message[*sent..]).map_err(broken)? {
                Some(n) => {
                    *sent += n;
                    worker.count(|tally| tally.bytes.sent += n as u64);
                    stuck = false;
                }
                // Ready means that there is room again since: go round.
                None => stuck = conn.socket().poll_writable(cx).map_err(broken)?.is_pending(),
            }
        }
        if conn.poll_readable(cx).is_ready() {
            let mut scratch = worker.scratch.borrow_mut();
            scratch.clear();
            match conn
                .try_read_up_to(&mut scratch, LARGE)
                .map_err(|error| Failure::Read(Cause::of(&error)))?
            {
                Some(0) => return Poll::Ready(Err(Failure::Read(end(*received)))),
                Some(n) => {
                    worker.count(|tally| tally.bytes.received += n as u64);
                    if message.get(*received..*received + n) != Some(&scratch[..]) {
                        return Poll::Ready(Err(Failure::Malformed));
                    }
                    *received += n;
                    stuck = false;
                }
                // Not ready after all; the next look at it leaves the waker.
                None => stuck &= conn.poll_readable(cx).is_pending(),
            }
        }
        if *received == message.len() {
            return Poll::Ready(Ok(()));
        }
        if stuck {
            return Poll::Pending;
        }
    }
}

fn broken(error: std::io::Error) -> Failure {
    Failure::Write(Cause::of(&error))
}

/// What the end of a connection means after so many bytes of the echo.
fn end(received: usize) -> Cause {
    if received > 0 { Cause::Truncated } else { Cause::ClosedEarly }
}
