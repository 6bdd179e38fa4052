//! The epoll driver: one edge-triggered registration per socket.
//!
//! Owns: the epoll descriptor, the event descriptor that interrupts it, and each socket's readiness.
//! Never: calls `epoll_ctl` for a wait; holds a buffer.
//! Driven by: the runtime's loop; streams and listeners register, read readiness, and leave wakers.
//! Why not compio's polling driver: it registers one-shot interests, so each wait costs an `epoll_ctl` (or two), and
//! it takes a managed read's buffer when the read is submitted. Here a kept-alive request costs `epoll_wait` (shared by
//! all that are ready), one `recv` and one `send`. Writability is asked for only once a write would have blocked, so
//! that a new connection does not wake anyone with it.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::paged::Paged;
use crate::source::{HANGUP, READABLE, Source, Token};

const WAKE_TOKEN: u64 = u64::MAX;
const EVENTS: usize = 256;

/// One registered socket.
struct Slot {
    source: Source,
    generation: u32,
    /// The kernel was asked for writability.
    wants_write: bool,
}

pub(crate) struct Reactor {
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    slots: RefCell<Paged<Slot>>,
    generation: std::cell::Cell<u32>,
    events: RefCell<Vec<libc::epoll_event>>,
    woken: RefCell<Vec<Waker>>,
}

fn data(token: Token) -> u64 {
    (u64::from(token.generation) << 32) | u64::from(token.index)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

impl Reactor {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked before it is owned.
        let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        let wake = rustix::event::eventfd(
            0,
            rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK,
        )?;
        let reactor = Self {
            epoll,
            wake: Arc::new(wake),
            slots: RefCell::new(Paged::new()),
            generation: std::cell::Cell::new(0),
            events: RefCell::new(Vec::with_capacity(EVENTS)),
            woken: RefCell::new(Vec::new()),
        };
        reactor.control(libc::EPOLL_CTL_ADD, reactor.wake.as_fd(), libc::EPOLLIN as u32, WAKE_TOKEN)?;
        Ok(reactor)
    }

    /// The descriptor to write eight bytes to when another thread wants attention.
    pub(crate) fn wake_fd(&self) -> Arc<OwnedFd> {
        self.wake.clone()
    }

    fn control(&self, op: libc::c_int, fd: BorrowedFd<'_>, events: u32, data: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: data };
        // SAFETY: both descriptors are open, `event` outlives the call.
        check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), op, fd.as_raw_fd(), &mut event) })?;
        Ok(())
    }

    /// Registers a nonblocking socket for readability. `flags` is what is known to be true at once.
    pub(crate) fn register(&self, fd: BorrowedFd<'_>, flags: u8) -> io::Result<Token> {
        let generation = self.generation.get().wrapping_add(1);
        self.generation.set(generation);
        let slot = Slot { source: Source::new(flags), generation, wants_write: false };
        let index = self.slots.borrow_mut().insert(slot);
        let token = Token { index, generation };
        let events = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
        if let Err(error) = self.control(libc::EPOLL_CTL_ADD, fd, events, data(token)) {
            self.slots.borrow_mut().remove(index);
            return Err(error);
        }
        Ok(token)
    }

    /// Forgets a socket that is about to be closed (which ends the kernel's registration).
    pub(crate) fn deregister(&self, token: Token) {
        let slot = self.slots.borrow_mut().remove(token.index);
        // Wakers are dropped outside the borrow.
        drop(slot);
    }

    /// Forgets a socket that stays open.
    pub(crate) fn detach(&self, token: Token, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.deregister(token);
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
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

    /// Ready when any of `wanted` is set.
    pub(crate) fn poll_read_flags(&self, token: Token, wanted: u8, cx: &mut Context<'_>) -> Poll<u8> {
        let mut slots = self.slots.borrow_mut();
        match slots.get_mut(token.index) {
            Some(slot) => slot.source.poll_read(wanted, cx),
            None => Poll::Ready(HANGUP | READABLE),
        }
    }

    /// Notes that a write would have blocked, and asks the kernel for writability from now on.
    pub(crate) fn write_blocked(&self, token: Token, fd: BorrowedFd<'_>) -> io::Result<()> {
        {
            let mut slots = self.slots.borrow_mut();
            let Some(slot) = slots.get_mut(token.index) else {
                return Ok(());
            };
            slot.source.clear_writable();
            if std::mem::replace(&mut slot.wants_write, true) {
                return Ok(());
            }
        }
        let events = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
        self.control(libc::EPOLL_CTL_MOD, fd, events, data(token))
    }

    pub(crate) fn poll_writable(&self, token: Token, cx: &mut Context<'_>) -> Poll<()> {
        let mut slots = self.slots.borrow_mut();
        slots.get_mut(token.index).map_or(Poll::Ready(()), |slot| slot.source.poll_write(cx))
    }

    /// Waits at most `timeout` and wakes the tasks whose sockets changed. `precise` says that milliseconds are too
    /// coarse for it.
    pub(crate) fn wait(&self, timeout: Option<Duration>, precise: bool) -> io::Result<()> {
        let mut events = self.events.borrow_mut();
        events.clear();
        let count = match timeout {
            Some(timeout) if precise && !timeout.is_zero() => self.wait_nanos(&mut events, timeout),
            timeout => self.wait_millis(&mut events, timeout),
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        // SAFETY: the kernel initialised `count` entries, and `count <= EVENTS <= capacity`.
        unsafe { events.set_len(count as usize) };
        let mut woken = self.woken.take();
        for event in events.iter() {
            self.note(event.events, event.u64, &mut woken);
        }
        drop(events);
        for waker in woken.drain(..) {
            waker.wake();
        }
        self.woken.replace(woken);
        Ok(())
    }

    fn wait_millis(&self, events: &mut Vec<libc::epoll_event>, timeout: Option<Duration>) -> i32 {
        let millis = match timeout {
            None => -1,
            // Rounded up, so that a timer that is not quite due does not spin.
            Some(timeout) => timeout.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32,
        };
        // SAFETY: the kernel writes at most `EVENTS` entries into the vector's spare capacity of that many.
        unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), EVENTS as i32, millis) }
    }

    /// By epoll_pwait2(2), Linux 5.11; where that is refused, in milliseconds rounded down, the last of them busily.
    fn wait_nanos(&self, events: &mut Vec<libc::epoll_event>, timeout: Duration) -> i32 {
        let wait = libc::timespec {
            tv_sec: timeout.as_secs().min(i32::MAX as u64) as libc::time_t,
            tv_nsec: timeout.subsec_nanos() as _,
        };
        // SAFETY: as in `wait_millis`; `wait` outlives the call, and no signal mask is given.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                EVENTS as i32,
                &raw const wait,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            ) as i32
        };
        let refused = count < 0
            && matches!(io::Error::last_os_error().raw_os_error(), Some(libc::ENOSYS | libc::EPERM));
        if refused {
            return self.wait_millis(events, Some(Duration::from_millis(timeout.as_millis() as u64)));
        }
        count
    }

    fn note(&self, events: u32, data: u64, woken: &mut Vec<Waker>) {
        if data == WAKE_TOKEN {
            let _ = rustix::io::read(&self.wake, &mut [0u8; 8][..]);
            return;
        }
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(data as u32) else {
            return;
        };
        // An event queued for a socket closed since: its place may belong to another one.
        if slot.generation != (data >> 32) as u32 {
            return;
        }
        let failed = events & (libc::EPOLLERR | libc::EPOLLHUP) as u32 != 0;
        if failed || events & (libc::EPOLLIN | libc::EPOLLRDHUP) as u32 != 0 {
            slot.source.set_readable(failed || events & libc::EPOLLRDHUP as u32 != 0, woken);
        }
        if failed || events & libc::EPOLLOUT as u32 != 0 {
            slot.source.set_writable(woken);
        }
    }
}
