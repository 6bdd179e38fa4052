//! What the streams of a connection share with the task that reads and writes for them.
//!
//! Owns: the protocol's state, and an inbox for each stream.
//! Never: touches the socket, or waits.
//! Driven by: the carrier (puts in what arrived), streams (take it out, and send).
//! Why inboxes of their own: a stream of the protocol may end, and its place be taken by another one, while its exchange
//! still writes its log.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use weir_rt::Buf;
use weir_wire::h2::{Connection, Reason, StreamKey};

use crate::exchange::fields::Fields;
use crate::http::lane::Lost;
use crate::worker::watch::Leaves;

/// What the streams of a connection share.
pub(super) struct Mux {
    /// The protocol's state. Never borrowed across a wait.
    pub(super) wire: RefCell<Connection>,
    inboxes: RefCell<Vec<Option<Rc<Inbox>>>>,
    carrier: Cell<Option<Waker>>,
}

/// What arrived for a stream and was not taken yet: at most the stream's window.
pub(super) struct Inbox {
    /// The stream.
    pub(super) key: StreamKey,
    state: RefCell<Arrived>,
}

#[derive(Default)]
struct Arrived {
    data: Buf,
    trailers: Fields,
    /// The client has sent all.
    ended: bool,
    /// Nobody takes anything any more: the client reset the stream, or the connection ended.
    lost: bool,
    /// The stream could not send all, and now it may.
    room: bool,
    task: Option<Waker>,
}

impl Mux {
    pub(super) fn new(wire: Connection) -> Self {
        Self { wire: RefCell::new(wire), inboxes: RefCell::default(), carrier: Cell::default() }
    }

    /// Notes that whoever writes for the streams is at it: nobody need be called.
    pub(super) fn carried_now(&self) {
        self.carrier.take();
    }

    /// Notes who is to be called to write what streams send.
    pub(super) fn carried_by(&self, waker: &Waker) {
        self.carrier.set(Some(waker.clone()));
    }

    /// Something is to be written.
    pub(super) fn call_carrier(&self) {
        if let Some(waker) = self.carrier.take() {
            waker.wake();
        }
    }

    /// Begins a stream. `ended`: it has no body.
    pub(super) fn begin(&self, key: StreamKey, ended: bool) -> Rc<Inbox> {
        let state = RefCell::new(Arrived { ended, ..Arrived::default() });
        let inbox = Rc::new(Inbox { key, state });
        let inboxes = &mut *self.inboxes.borrow_mut();
        if inboxes.len() <= key.slot() {
            inboxes.resize_with(key.slot() + 1, || None);
        }
        inboxes[key.slot()] = Some(inbox.clone());
        inbox
    }

    fn find(&self, key: StreamKey) -> Option<Rc<Inbox>> {
        self.inboxes.borrow().get(key.slot())?.as_ref().filter(|inbox| inbox.key == key).cloned()
    }

    /// Forgets a stream whose exchange is over.
    pub(super) fn forget(&self, key: StreamKey) {
        let place = &mut *self.inboxes.borrow_mut();
        if let Some(place) = place.get_mut(key.slot())
            && place.as_ref().is_some_and(|inbox| inbox.key == key)
        {
            *place = None;
        }
    }

    /// A piece of a body has arrived.
    pub(super) fn put(&self, key: StreamKey, piece: &[u8], end: bool) {
        match self.find(key) {
            Some(inbox) => inbox.change(|arrived| {
                arrived.data.extend(piece);
                arrived.ended |= end;
            }),
            None => self.wire.borrow_mut().release(key, piece.len()),
        }
    }

    /// The trailers of a body have arrived: it has ended.
    pub(super) fn put_trailers(&self, key: StreamKey) {
        let Some(inbox) = self.find(key) else { return };
        let wire = self.wire.borrow();
        inbox.change(|arrived| {
            for field in wire.head().fields() {
                arrived.trailers.push(field.name, field.value);
            }
            arrived.ended = true;
        });
    }

    /// A stream has ended early.
    pub(super) fn lose(&self, key: StreamKey) {
        if let Some(inbox) = self.find(key) {
            inbox.change(|arrived| arrived.lost = true);
        }
    }

    /// The connection has ended, and all streams with it.
    pub(super) fn lose_all(&self) {
        for inbox in self.inboxes.borrow().iter().flatten() {
            inbox.change(|arrived| arrived.lost = true);
        }
    }

    /// Tells streams that wait for room that there is some.
    pub(super) fn tell_room(&self) {
        loop {
            let Some(key) = self.wire.borrow_mut().next_writable() else { return };
            if let Some(inbox) = self.find(key) {
                inbox.change(|arrived| arrived.room = true);
            }
        }
    }

    /// Resets a stream.
    pub(super) fn reset(&self, key: StreamKey, reason: Reason) {
        self.wire.borrow_mut().reset(key, reason);
        self.call_carrier();
    }
}

impl Inbox {
    fn change(&self, change: impl FnOnce(&mut Arrived)) {
        let task = {
            let arrived = &mut *self.state.borrow_mut();
            change(arrived);
            arrived.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Takes what arrived, into an empty buffer. False: there is no more to come.
    pub(super) fn poll_data(&self, cx: &Context<'_>, into: &mut Buf) -> Poll<Result<bool, Lost>> {
        self.poll(cx, |arrived| {
            if !arrived.data.is_empty() {
                std::mem::swap(&mut arrived.data, into);
                return Some(Ok(true));
            }
            if arrived.ended { Some(Ok(false)) } else { arrived.lost.then_some(Err(Lost)) }
        })
    }

    /// Waits until more can be sent.
    pub(super) fn poll_room(&self, cx: &Context<'_>) -> Poll<Result<(), Lost>> {
        self.poll(cx, |arrived| match arrived.lost {
            true => Some(Err(Lost)),
            false => std::mem::take(&mut arrived.room).then_some(Ok(())),
        })
    }

    fn poll<T>(&self, cx: &Context<'_>, look: impl FnOnce(&mut Arrived) -> Option<T>) -> Poll<T> {
        let arrived = &mut *self.state.borrow_mut();
        if let Some(found) = look(arrived) {
            return Poll::Ready(found);
        }
        if !arrived.task.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            arrived.task = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Whether all of the body was taken.
    pub(super) fn is_done(&self) -> bool {
        let arrived = self.state.borrow();
        arrived.ended && arrived.data.is_empty()
    }

    /// Bytes that arrived and were not taken.
    pub(super) fn untaken(&self) -> usize {
        self.state.borrow().data.len()
    }

    /// The trailers, once the body has ended.
    pub(super) fn trailers(&self, into: &mut Fields) {
        for field in self.state.borrow().trailers.iter() {
            into.push_known(field.id, field.name, field.value);
        }
    }
}

impl Leaves for Inbox {
    fn poll_left(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx, |arrived| arrived.lost.then_some(()))
    }
}
