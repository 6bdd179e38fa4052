//! What is known of one socket's readiness, whichever driver it is learnt from.
//!
//! Owns: the flags, and who waits for them.
//! Never: asks the kernel.
//! Driven by: `reactor` and `uring`, each of which keeps a table of these.
//! Why one type: both drivers report edges, so both have the same rules for when a flag falls and who is woken.

use std::task::{Context, Poll, Waker};

pub(crate) const READABLE: u8 = 1;
pub(crate) const WRITABLE: u8 = 2;
/// The peer sent FIN, or the connection failed: reads no longer block.
pub(crate) const HANGUP: u8 = 4;

/// A registered socket's place in its driver's table.
#[derive(Clone, Copy)]
pub(crate) struct Token {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Readiness of one socket.
pub(crate) struct Source {
    flags: u8,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Source {
    /// `flags` is what is known to be true at once.
    pub(crate) fn new(flags: u8) -> Self {
        Self { flags, reader: None, writer: None }
    }

    /// Ready when any of `wanted` is set.
    #[inline]
    pub(crate) fn poll_read(&mut self, wanted: u8, cx: &mut Context<'_>) -> Poll<u8> {
        if self.flags & wanted != 0 {
            return Poll::Ready(self.flags);
        }
        set_waker(&mut self.reader, cx);
        Poll::Pending
    }

    /// Ready when a write may make progress.
    #[inline]
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.flags & WRITABLE != 0 {
            return Poll::Ready(());
        }
        self.wait_to_write(cx);
        Poll::Pending
    }

    /// Leaves the writer's waker.
    pub(crate) fn wait_to_write(&mut self, cx: &mut Context<'_>) {
        set_waker(&mut self.writer, cx);
    }

    /// Notes that a read drained the socket. A hang-up keeps it readable: the end has yet to be read.
    #[inline]
    pub(crate) fn clear_readable(&mut self) {
        if self.flags & HANGUP == 0 {
            self.flags &= !READABLE;
        }
    }

    /// Notes that a read drained a socket that has no end, whatever error it told of before.
    pub(crate) fn clear_read(&mut self) {
        self.flags &= !(READABLE | HANGUP);
    }

    /// Notes that a write would have blocked.
    pub(crate) fn clear_writable(&mut self) {
        self.flags &= !WRITABLE;
    }

    /// There is something to read: data, or (`hangup`) an end or error.
    pub(crate) fn set_readable(&mut self, hangup: bool, woken: &mut Vec<Waker>) {
        self.flags |= if hangup { READABLE | HANGUP } else { READABLE };
        woken.extend(self.reader.take());
    }

    /// There is room to write, or an error to be told of.
    pub(crate) fn set_writable(&mut self, woken: &mut Vec<Waker>) {
        self.flags |= WRITABLE;
        woken.extend(self.writer.take());
    }

    /// Forgets who waits; the wakers are to be dropped outside of any borrow.
    pub(crate) fn forget(&mut self) -> [Option<Waker>; 2] {
        [self.reader.take(), self.writer.take()]
    }
}

fn set_waker(slot: &mut Option<Waker>, cx: &mut Context<'_>) {
    match slot {
        Some(waker) if waker.will_wake(cx.waker()) => {}
        _ => *slot = Some(cx.waker().clone()),
    }
}
