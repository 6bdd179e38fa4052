//! The io_uring driver: compio's proactor, opened with the best flags that the kernel grants.
//!
//! Owns: the ring, and the polls and cancellations pushed to it.
//! Never: blocks except in `wait`; lets a cancellation be lost because the queue was full.
//! Driven by: the runtime's loop; streams and listeners push operations.
//! Why: operations are pushed without a system call and submitted together with the next wait. Reads and writes do
//! not go through the ring: see `stream`.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::AsRawFd;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use compio_buf::BufResult;
use compio_driver::{Extra, Key, OpCode, OpEntry, Proactor, ProactorBuilder, PushEntry};

use crate::fd::SharedFd;
use crate::reactor::{HANGUP, READABLE};
use crate::runtime::{RuntimeConfig, UringFlags};

pub(crate) struct Ring {
    proactor: RefCell<Proactor>,
    /// Entries pushed since the last submission; see `make_room`.
    queued: Cell<u32>,
    entries: u32,
    /// A wake-up was seen while flushing: the next wait must not sleep.
    no_sleep: Cell<bool>,
}

const LADDER: [UringFlags; 4] = [
    UringFlags { single_issuer: true, defer_taskrun: true, coop_taskrun: true, taskrun_flag: true },
    UringFlags { single_issuer: true, defer_taskrun: false, coop_taskrun: true, taskrun_flag: true },
    UringFlags { single_issuer: false, defer_taskrun: false, coop_taskrun: true, taskrun_flag: true },
    UringFlags { single_issuer: false, defer_taskrun: false, coop_taskrun: false, taskrun_flag: false },
];

impl Ring {
    /// Opens a ring with the most flags possible. The note tells what was refused.
    pub(crate) fn open(config: &RuntimeConfig) -> Result<(Self, UringFlags, String), String> {
        if !has_multishot_poll() {
            return Err("io_uring: Linux is older than 5.13, and has no multishot poll".into());
        }
        let mut refused = String::new();
        for flags in LADDER {
            match Self::with_flags(config, flags) {
                Ok(ring) => return Ok((ring, flags, refused)),
                Err(error) => {
                    if !refused.is_empty() {
                        refused.push_str("; ");
                    }
                    refused.push_str(&format!("io_uring with {flags}: {error}"));
                    // Refused altogether (seccomp, sysctl, old kernel): fewer flags will not help.
                    if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS | libc::EACCES)) {
                        break;
                    }
                }
            }
        }
        Err(refused)
    }

    fn with_flags(config: &RuntimeConfig, flags: UringFlags) -> io::Result<Self> {
        let mut builder = ProactorBuilder::new();
        let entries = config.entries.clamp(64, 32768).next_power_of_two();
        builder
            .capacity(entries)
            .single_issuer(flags.single_issuer)
            .defer_taskrun(flags.defer_taskrun)
            .coop_taskrun(flags.coop_taskrun)
            .taskrun_flag(flags.taskrun_flag);
        let proactor = RefCell::new(builder.build()?);
        Ok(Self { proactor, queued: Cell::new(0), entries, no_sleep: Cell::new(false) })
    }

    pub(crate) fn waker(&self) -> Waker {
        self.proactor.borrow().waker()
    }

    /// Submits what is queued and waits for completions, at most `timeout`.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.queued.set(0);
        let timeout = if self.no_sleep.take() { Some(Duration::ZERO) } else { timeout };
        match self.proactor.borrow_mut().poll(timeout) {
            Err(error) if !matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::Interrupted) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Keeps room in the submission queue: the proactor drops a cancellation that finds it full, and the connection
    /// would then stay open for as long as its peer likes.
    fn make_room(&self, proactor: &mut Proactor) {
        let queued = self.queued.get() + 1;
        if queued < self.entries {
            self.queued.set(queued);
            return;
        }
        self.queued.set(1);
        if proactor.flush() {
            self.no_sleep.set(true);
        }
    }

    /// Queues an operation.
    pub(crate) fn push<T: OpCode + 'static>(&self, op: T) -> io::Result<Key<T>> {
        let mut proactor = self.proactor.borrow_mut();
        self.make_room(&mut proactor);
        match proactor.push(op) {
            PushEntry::Pending(key) => Ok(key),
            PushEntry::Ready(BufResult(result, _)) => {
                Err(result.err().unwrap_or_else(|| io::Error::other("the ring answered before being asked")))
            }
        }
    }

    /// Takes the result of the operation in `slot`, or leaves the waker there.
    pub(crate) fn poll_op<T: OpCode>(
        &self,
        slot: &mut Option<Key<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<(io::Result<usize>, T)> {
        let Some(key) = slot.take() else {
            return Poll::Pending;
        };
        let mut proactor = self.proactor.borrow_mut();
        match proactor.pop(key) {
            PushEntry::Ready(BufResult(result, op)) => Poll::Ready((result, op)),
            PushEntry::Pending(key) => {
                proactor.update_waker(&key, cx.waker());
                *slot = Some(key);
                Poll::Pending
            }
        }
    }

    /// Gives an operation up. The kernel may still finish it; whatever it owns lives until then.
    pub(crate) fn cancel<T: OpCode>(&self, key: Key<T>) {
        let done = {
            let mut proactor = self.proactor.borrow_mut();
            self.make_room(&mut proactor);
            proactor.cancel(key)
        };
        drop(done);
    }
}

/// Whether the kernel is at least 5.13; one whose version cannot be read is taken to be.
fn has_multishot_poll() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>());
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (5, 13),
        _ => true,
    }
}

/// A socket's readiness for reading, learnt from poll operations on the ring.
///
/// The first wait is a one-shot poll, because many connections see only one; from the second on a multishot poll stays
/// armed, and a request then costs one completion and no submission. Events arrive as edges: after `clear`, only
/// something new sets `READABLE` again.
pub(crate) struct Readiness {
    armed: Option<Key<PollOp>>,
    flags: u8,
    waited: bool,
    /// A poll failed: from then on they are one-shot, and a second failure counts as a hang-up.
    failed: bool,
}

impl Readiness {
    /// `ready` says that a first read is worth trying before any wait.
    pub(crate) const fn new(ready: bool) -> Self {
        Self { armed: None, flags: if ready { READABLE } else { 0 }, waited: false, failed: false }
    }

    /// Notes that a read drained the socket. A hang-up keeps it readable: the end has yet to be read.
    pub(crate) fn clear_readable(&mut self) {
        if self.flags & HANGUP == 0 {
            self.flags &= !READABLE;
        }
    }

    fn absorb(&mut self, events: usize) {
        self.flags |= READABLE;
        if events as u32 & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) as u32 != 0 {
            self.flags |= HANGUP;
        }
    }

    /// Ready when any of `wanted` is set.
    pub(crate) fn poll(&mut self, ring: &Ring, fd: &SharedFd, wanted: u8, cx: &mut Context<'_>) -> Poll<u8> {
        loop {
            if self.flags & wanted != 0 {
                return Poll::Ready(self.flags);
            }
            let Some(key) = self.armed.take() else {
                let multi = self.waited && !self.failed;
                let op = PollOp::new(fd.clone(), libc::POLLIN | libc::POLLRDHUP, multi);
                self.waited = true;
                match ring.push(op) {
                    Ok(key) => self.armed = Some(key),
                    // The ring takes nothing: a plain receive says what is the matter.
                    Err(_) => self.flags |= READABLE,
                }
                continue;
            };
            let mut proactor = ring.proactor.borrow_mut();
            if let Some(BufResult(result, _)) = proactor.pop_multishot(&key) {
                self.armed = Some(key);
                self.absorb(result.unwrap_or(libc::POLLERR as usize));
                continue;
            }
            match proactor.pop(key) {
                PushEntry::Ready(BufResult(Ok(events), _)) => self.absorb(events),
                PushEntry::Ready(BufResult(Err(_), _)) if self.failed => self.flags |= READABLE | HANGUP,
                PushEntry::Ready(BufResult(Err(_), _)) => {
                    self.failed = true;
                    self.flags |= READABLE;
                }
                PushEntry::Pending(key) => {
                    proactor.update_waker(&key, cx.waker());
                    self.armed = Some(key);
                    return Poll::Pending;
                }
            }
        }
    }

    /// Whether a poll is armed, which holds the descriptor.
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// Disarms; without this the socket would stay open until its peer does something.
    pub(crate) fn disarm(&mut self, ring: &Ring) {
        if let Some(key) = self.armed.take() {
            ring.cancel(key);
        }
    }
}

/// A wait for room to write. It belongs to the socket: a dropped write leaves it armed for the next.
#[derive(Default)]
pub(crate) struct Writability {
    armed: Option<Key<PollOp>>,
}

impl Writability {
    /// Ready once the socket takes more, or has failed.
    pub(crate) fn poll(&mut self, ring: &Ring, fd: &SharedFd, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.armed.is_none() {
            self.armed = Some(ring.push(PollOp::new(fd.clone(), libc::POLLOUT, false))?);
        }
        ring.poll_op(&mut self.armed, cx).map(|(result, _)| result.map(drop))
    }

    /// Whether a poll is armed, which holds the descriptor.
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// Disarms; see [`Readiness::disarm`].
    pub(crate) fn disarm(&mut self, ring: &Ring) {
        if let Some(key) = self.armed.take() {
            ring.cancel(key);
        }
    }
}

/// Waits for any of the given poll events (`libc::POLL…`), once or again and again.
pub(crate) struct PollOp {
    fd: SharedFd,
    mask: u32,
    multi: bool,
    /// Events of a multishot poll not yet looked at, joined: a peer cannot make a queue grow.
    seen: Option<(usize, Extra)>,
}

impl PollOp {
    pub(crate) fn new(fd: SharedFd, mask: i16, multi: bool) -> Self {
        Self { fd, mask: mask as u16 as u32, multi, seen: None }
    }
}

// SAFETY: the entry holds no pointer, only the descriptor number, and `self.fd` keeps that open until completion.
unsafe impl OpCode for PollOp {
    type Control = ();

    fn create_entry(&mut self, _: &mut Self::Control) -> OpEntry {
        let fd = io_uring::types::Fd(self.fd.as_raw_fd());
        io_uring::opcode::PollAdd::new(fd, self.mask).multi(self.multi).build().into()
    }

    unsafe fn push_multishot(&mut self, _: &mut Self::Control, result: io::Result<usize>, extra: Extra) {
        let events = result.unwrap_or(libc::POLLERR as usize);
        let before = self.seen.take().map_or(0, |(events, _)| events);
        self.seen = Some((before | events, extra));
    }

    fn pop_multishot(&mut self, _: &mut Self::Control) -> Option<BufResult<usize, Extra>> {
        self.seen.take().map(|(events, extra)| BufResult(Ok(events), extra))
    }
}
