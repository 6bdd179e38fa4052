//! The io_uring driver: readiness by polls, small writes by sends, all submitted with the next wait.
//!
//! Owns: the ring, opened with the best flags that the kernel grants; each socket's readiness; the bytes of sends that
//! are with the kernel.
//! Never: blocks except in `wait`; gives up memory or a descriptor number that the kernel may still look at.
//! Driven by: the runtime's loop; streams and listeners register, read readiness, send, and leave wakers.
//! Why polls and not receives: an idle connection then holds no buffer of the ring's, and a plain recv takes what is
//! there into the buffer used last. Why sends: those of one wake-up leave together, in the system call that waits, so
//! that no peer on this machine runs between them. Why not compio's driver: it makes an allocation, a hash table's entry
//! and a wake-up of each operation; at two operations a request that was a tenth of what a request cost.
//!
//! ```text
//!   user_data = index of the socket << 2 | POLL_IN, POLL_OUT or SEND          WAKE, CANCEL: not about a socket
//!   a slot is free again once its handle is gone and each of its operations has had its last completion
//! ```

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};

use crate::buf::Buf;
use crate::config::{RuntimeConfig, UringFlags};
use crate::fd::SharedFd;
use crate::paged::Paged;
use crate::shared::Shared;
use crate::source::{HANGUP, READABLE, Source, Token};

const POLL_IN: u8 = 0;
const POLL_OUT: u8 = 1;
const SEND: u8 = 2;
const WAKE: u64 = u64::MAX;
const CANCEL: u64 = u64::MAX - 1;

pub(crate) struct Ring {
    // Dropped before what its operations look at.
    ring: RefCell<IoUring>,
    slots: RefCell<Paged<Slot>>,
    wake: Arc<OwnedFd>,
    /// Cancellations that found the queue full.
    cancels: RefCell<Vec<u64>>,
    woken: RefCell<Vec<Waker>>,
    has_taskrun_flag: bool,
    /// The wake-up descriptor is not being polled.
    deaf: Cell<bool>,
}

/// One registered socket.
struct Slot {
    source: Source,
    /// Keeps the number for operations that name it.
    fd: SharedFd,
    /// Operations with the kernel, a bit each.
    armed: u8,
    /// The first poll for input is one-shot, because many connections see only one; from the second on one stays
    /// armed, and a request then costs one completion and no submission.
    polled: bool,
    /// A poll failed: from then on they are one-shot, and a second failure counts as a hang-up.
    failed: bool,
    /// Nobody has the handle any more.
    closed: bool,
    /// What a send carries.
    sending: Buf,
    /// What it carries behind that.
    tail: Option<Box<Tail>>,
    /// The error of a send that failed; zero: none did.
    error: i32,
}

/// The second part of a send, with what describes both parts to the kernel.
struct Tail {
    bytes: Shared,
    parts: [libc::iovec; 2],
    message: libc::msghdr,
}

impl Tail {
    fn new(bytes: Shared) -> Box<Self> {
        // SAFETY: plain numbers and null pointers.
        Box::new(unsafe { Self { bytes, parts: std::mem::zeroed(), message: std::mem::zeroed() } })
    }

    /// Describes `first` and these bytes, as they are now.
    fn describe(&mut self, first: &[u8]) -> *const libc::msghdr {
        let part =
            |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        self.parts = [part(first), part(&self.bytes)];
        self.message.msg_iov = self.parts.as_mut_ptr();
        self.message.msg_iovlen = self.parts.len();
        &raw const self.message
    }
}

impl Slot {
    fn is_armed(&self, op: u8) -> bool {
        self.armed & 1 << op != 0
    }

    /// Takes what was sent off the front.
    fn consume(&mut self, sent: usize) {
        let first = sent.min(self.sending.len());
        self.sending.consume(first);
        if let Some(tail) = &mut self.tail {
            tail.bytes.consume(sent - first);
        }
    }

    fn has_unsent(&self) -> bool {
        !self.sending.is_empty() || self.tail.as_ref().is_some_and(|tail| !tail.bytes.is_empty())
    }

    fn forget_send(&mut self) {
        self.sending.release();
        self.tail = None;
    }
}

fn user_data(index: u32, op: u8) -> u64 {
    u64::from(index) << 2 | u64::from(op)
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
        let mut builder = IoUring::builder();
        builder.dontfork();
        if flags.single_issuer {
            builder.setup_single_issuer();
        }
        if flags.defer_taskrun {
            builder.setup_defer_taskrun();
        }
        if flags.coop_taskrun {
            builder.setup_coop_taskrun();
        }
        if flags.taskrun_flag {
            builder.setup_taskrun_flag();
        }
        let ring = builder.build(config.entries.clamp(64, 32768).next_power_of_two())?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "no timeouts for waits (Linux 5.11)"));
        }
        let wake = rustix::event::eventfd(
            0,
            rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK,
        )?;
        let ring = Self {
            ring: RefCell::new(ring),
            slots: RefCell::new(Paged::new()),
            wake: Arc::new(wake),
            cancels: RefCell::default(),
            woken: RefCell::default(),
            has_taskrun_flag: flags.taskrun_flag,
            deaf: Cell::new(true),
        };
        ring.listen_for_wakes();
        Ok(ring)
    }

    /// The descriptor to write eight bytes to when another thread wants attention.
    pub(crate) fn wake_fd(&self) -> Arc<OwnedFd> {
        self.wake.clone()
    }

    fn listen_for_wakes(&self) {
        let poll = opcode::PollAdd::new(Fd(self.wake.as_raw_fd()), libc::POLLIN as u32).multi(true);
        // SAFETY: no memory is named, and the descriptor lives as long as the ring.
        let pushed = unsafe { self.push(poll.build().user_data(WAKE)) };
        self.deaf.set(pushed.is_err());
    }

    /// Queues an entry, submitting those before it if there is no room.
    ///
    /// # Safety
    /// Memory and descriptors that the entry names live until its last completion.
    unsafe fn push(&self, entry: squeue::Entry) -> io::Result<()> {
        let mut ring = self.ring.borrow_mut();
        // SAFETY: the caller's promise.
        if unsafe { ring.submission().push(&entry) }.is_ok() {
            return Ok(());
        }
        ring.submit()?;
        // SAFETY: the caller's promise.
        unsafe { ring.submission().push(&entry) }.map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))
    }

    fn cancel(&self, user_data: u64) {
        // SAFETY: nothing is named but a number.
        let pushed = unsafe { self.push(opcode::AsyncCancel::new(user_data).build().user_data(CANCEL)) };
        if pushed.is_err() {
            self.cancels.borrow_mut().push(user_data);
        }
    }

    /// Registers a nonblocking socket. `flags` is what is known to be true at once. Asks the kernel nothing.
    pub(crate) fn register(&self, fd: &SharedFd, flags: u8) -> Token {
        let slot = Slot {
            source: Source::new(flags),
            fd: fd.clone(),
            armed: 0,
            polled: false,
            failed: false,
            closed: false,
            sending: Buf::new(),
            tail: None,
            error: 0,
        };
        Token { index: self.slots.borrow_mut().insert(slot), generation: 0 }
    }

    /// Forgets a socket. A send that is queued is still tried, but not waited for; what else is armed is cancelled.
    pub(crate) fn deregister(&self, token: Token) {
        let index = token.index;
        let (armed, forgotten) = {
            let mut slots = self.slots.borrow_mut();
            let Some(slot) = slots.get_mut(index) else { return };
            slot.closed = true;
            (slot.armed, slot.source.forget())
        };
        drop(forgotten);
        if armed == 0 {
            let slot = self.slots.borrow_mut().remove(index);
            drop(slot);
        }
        for op in [POLL_IN, POLL_OUT, SEND] {
            if armed & 1 << op != 0 {
                self.cancel(user_data(index, op));
            }
        }
    }

    /// Whether an operation is with the kernel, which holds the descriptor.
    pub(crate) fn is_busy(&self, token: Token) -> bool {
        self.slots.borrow().get(token.index).is_some_and(|slot| slot.armed != 0)
    }

    /// Whether a poll for input is with the kernel.
    pub(crate) fn is_listening(&self, token: Token) -> bool {
        self.slots.borrow().get(token.index).is_some_and(|slot| slot.is_armed(POLL_IN))
    }

    /// See [`Source::clear_readable`].
    pub(crate) fn clear_readable(&self, token: Token) {
        if let Some(slot) = self.slots.borrow_mut().get_mut(token.index) {
            slot.source.clear_readable();
        }
    }

    /// See [`Source::clear_read`].
    pub(crate) fn clear_read(&self, token: Token) {
        if let Some(slot) = self.slots.borrow_mut().get_mut(token.index) {
            slot.source.clear_read();
        }
    }

    /// See [`Source::clear_writable`].
    pub(crate) fn write_blocked(&self, token: Token) {
        if let Some(slot) = self.slots.borrow_mut().get_mut(token.index) {
            slot.source.clear_writable();
        }
    }

    /// Ready when any of `wanted` is set.
    pub(crate) fn poll_read_flags(&self, token: Token, wanted: u8, cx: &mut Context<'_>) -> Poll<u8> {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(token.index) else {
            return Poll::Ready(HANGUP | READABLE);
        };
        if let Poll::Ready(flags) = slot.source.poll_read(wanted, cx) {
            return Poll::Ready(flags);
        }
        if !slot.is_armed(POLL_IN) {
            let multi = slot.polled && !slot.failed;
            let mask = (libc::POLLIN | libc::POLLRDHUP) as u32;
            let poll = opcode::PollAdd::new(Fd(slot.fd.as_raw_fd()), mask).multi(multi).build();
            // SAFETY: no memory is named; the slot keeps the descriptor.
            if unsafe { self.push(poll.user_data(user_data(token.index, POLL_IN))) }.is_err() {
                // The ring takes nothing: a plain receive says what is the matter.
                return Poll::Ready(READABLE);
            }
            slot.polled = true;
            slot.armed |= 1 << POLL_IN;
        }
        Poll::Pending
    }

    /// Ready when a write may make progress, or will tell why it cannot.
    pub(crate) fn poll_writable(&self, token: Token, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(token.index) else {
            return Poll::Ready(Ok(()));
        };
        if slot.is_armed(SEND) {
            slot.source.wait_to_write(cx);
            return Poll::Pending;
        }
        if slot.error != 0 || slot.source.poll_write(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if !slot.is_armed(POLL_OUT) {
            let poll = opcode::PollAdd::new(Fd(slot.fd.as_raw_fd()), libc::POLLOUT as u32).build();
            // SAFETY: no memory is named; the slot keeps the descriptor.
            unsafe { self.push(poll.user_data(user_data(token.index, POLL_OUT)))? };
            slot.armed |= 1 << POLL_OUT;
        }
        Poll::Pending
    }

    /// Sends all of `buf`, and of `tail` behind it, in the background, and takes them for that; to be called when no
    /// send is under way. Gives them back as they are if the ring takes nothing.
    pub(crate) fn send(&self, token: Token, buf: &mut Buf, tail: Option<&mut Shared>) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(token.index) else { return };
        slot.sending = buf.take();
        slot.tail = tail.as_deref().cloned().map(Tail::new);
        if self.push_send(token.index, slot).is_err() {
            *buf = slot.sending.take();
            slot.tail = None;
        } else if let Some(tail) = tail {
            tail.consume(tail.len());
        }
    }

    fn push_send(&self, index: u32, slot: &mut Slot) -> io::Result<()> {
        let (fd, bytes) = (Fd(slot.fd.as_raw_fd()), &slot.sending);
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        let send = match &mut slot.tail {
            None => opcode::Send::new(fd, bytes.as_ptr(), bytes.len() as u32).flags(flags).build(),
            Some(tail) => opcode::SendMsg::new(fd, tail.describe(bytes)).flags(flags as u32).build(),
        };
        // SAFETY: the bytes and what describes them stand on the heap, and stay untouched in the slot until the
        // completion that ends the send; the slot keeps the descriptor.
        unsafe { self.push(send.user_data(user_data(index, SEND)))? };
        slot.armed |= 1 << SEND;
        Ok(())
    }

    /// Whether bytes of an earlier send are still on their way.
    ///
    /// # Errors
    /// An earlier send failed; told once.
    pub(crate) fn is_sending(&self, token: Token) -> io::Result<bool> {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(token.index) else { return Ok(false) };
        match std::mem::take(&mut slot.error) {
            0 => Ok(slot.is_armed(SEND)),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Ready when earlier sends are done.
    ///
    /// # Errors
    /// As [`Ring::is_sending`].
    pub(crate) fn poll_sent(&self, token: Token, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_sending(token)? {
            return Poll::Ready(Ok(()));
        }
        if let Some(slot) = self.slots.borrow_mut().get_mut(token.index) {
            slot.source.wait_to_write(cx);
        }
        Poll::Pending
    }

    /// Submits what is queued, waits for completions at most `timeout`, and wakes the tasks whose sockets changed.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> io::Result<()> {
        if self.deaf.get() {
            self.listen_for_wakes();
        }
        let cancels = self.cancels.take();
        cancels.into_iter().for_each(|user_data| self.cancel(user_data));
        match self.enter(timeout) {
            Err(error)
                if !matches!(
                    error.raw_os_error(),
                    Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)
                ) =>
            {
                return Err(error);
            }
            _ => {}
        }
        let mut woken = self.woken.take();
        self.reap(&mut woken);
        for waker in woken.drain(..) {
            waker.wake();
        }
        self.woken.replace(woken);
        Ok(())
    }

    fn enter(&self, timeout: Option<Duration>) -> io::Result<()> {
        let mut ring = self.ring.borrow_mut();
        let has_completions = !ring.completion().is_empty();
        let queue = ring.submission();
        let to_submit = queue.len() as u32;
        let work = queue.taskrun() || queue.cq_overflow() || !self.has_taskrun_flag;
        drop(queue);
        if has_completions || work || timeout == Some(Duration::ZERO) {
            if to_submit > 0 || work {
                let flags = EnterFlags::GETEVENTS.bits();
                // SAFETY: the entries are those that `push` was promised to be sound; no argument is given.
                unsafe { ring.submitter().enter::<libc::sigset_t>(to_submit, 0, flags, None)? };
            }
            return Ok(());
        }
        let mut args = SubmitArgs::new();
        let time = timeout.map(|timeout| {
            Timespec::new().sec(timeout.as_secs().min(i32::MAX as u64)).nsec(timeout.subsec_nanos())
        });
        if let Some(time) = &time {
            args = args.timespec(time);
        }
        let mut flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        if ring.params().is_feature_no_iowait() {
            flags |= EnterFlags::NO_IOWAIT;
        }
        // SAFETY: as above; the argument outlives the call.
        unsafe { ring.submitter().enter(to_submit, 1, flags.bits(), Some(&args))? };
        Ok(())
    }

    fn reap(&self, woken: &mut Vec<Waker>) {
        let mut again = Vec::new();
        let mut ring = self.ring.borrow_mut();
        let mut slots = self.slots.borrow_mut();
        for entry in ring.completion() {
            match entry.user_data() {
                CANCEL => {}
                WAKE => {
                    self.deaf.set(!cqueue::more(entry.flags()));
                    let _ = rustix::io::read(&self.wake, &mut [0u8; 8][..]);
                }
                data => {
                    let (index, op) = ((data >> 2) as u32, data as u8 & 3);
                    let Some(slot) = slots.get_mut(index) else { continue };
                    if !cqueue::more(entry.flags()) {
                        slot.armed &= !(1 << op);
                    }
                    if op == SEND && sent(slot, entry.result(), woken) {
                        again.push(index);
                    } else if op != SEND {
                        polled(slot, op, entry.result(), woken);
                    }
                    if slot.closed && slot.armed == 0 {
                        slots.remove(index);
                    }
                }
            }
        }
        drop(ring);
        for index in again {
            let Some(slot) = slots.get_mut(index) else { continue };
            if let Err(error) = self.push_send(index, slot) {
                slot.error = error.raw_os_error().unwrap_or(libc::EIO);
                slot.forget_send();
                slot.source.set_writable(woken);
            }
        }
    }
}

/// Notes how a send ended; true if the rest of it must be sent again.
fn sent(slot: &mut Slot, result: i32, woken: &mut Vec<Waker>) -> bool {
    match result {
        sent @ 0.. => slot.consume(sent as usize),
        error if -error == libc::EINTR || -error == libc::EAGAIN => {}
        error => {
            slot.error = -error;
            slot.forget_send();
        }
    }
    if slot.has_unsent() && !slot.closed {
        return true;
    }
    slot.forget_send();
    slot.source.set_writable(woken);
    false
}

fn polled(slot: &mut Slot, op: u8, result: i32, woken: &mut Vec<Waker>) {
    let broken = (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) as i32;
    match (op, result) {
        (POLL_OUT, _) => slot.source.set_writable(woken),
        (_, events @ 0..) => slot.source.set_readable(events & broken != 0, woken),
        // A receive will tell what is the matter.
        _ => {
            slot.source.set_readable(slot.failed, woken);
            slot.failed = true;
        }
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
