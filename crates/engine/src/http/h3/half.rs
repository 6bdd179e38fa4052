//! A stream of a request, and what all of a connection share.
//!
//! Owns: the reader of the stream's frames, what is written and the transport did not take yet.
//! Never: waits.
//! Driven by: the carrier (events), the stream's task (bodies, the answer).
//! Why what is left is kept here: an exchange ends when its answer is handed over, and a window may open later. It is a head
//! or a frame at most, for each of a bounded number of streams.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use weir_rt::{Buf, MEDIUM, QuicConnection, QuicRead};
use weir_wire::h3::{Code, Fault, Item, RequestReader};

use crate::exchange::fields::Fields;
use crate::http::lane::Lost;
use crate::worker::watch::Leaves;

/// What the streams of a connection share.
pub(super) struct Mux {
    pub(super) quic: QuicConnection,
    /// Streams that were not forgotten yet.
    pub(super) halves: RefCell<HashMap<u64, Rc<Half>>>,
    /// Exchanges that are under way.
    pub(super) live: Cell<usize>,
}

impl Mux {
    /// A fault of the peer's on a stream.
    pub(super) fn fault(&self, stream: u64, fault: Fault) {
        match fault {
            Fault::Stream(code) => {
                self.quic.reset(stream, code.0);
                self.quic.stop(stream, code.0);
            }
            Fault::Connection(code) => self.quic.close(code.0, "the client breaks a rule of HTTP/3"),
        }
        self.quic.call();
    }

    /// The connection has ended, and all streams with it.
    pub(super) fn lose_all(&self) {
        let halves: Vec<_> = self.halves.borrow().values().cloned().collect();
        halves.iter().for_each(|half| half.lose());
    }
}

pub(super) struct Half {
    pub(super) id: u64,
    pub(super) reader: RefCell<RequestReader>,
    input: RefCell<Buf>,
    trailers: RefCell<Fields>,
    /// Written, and not taken by the transport.
    out: RefCell<Vec<u8>>,
    /// Our side ends behind it.
    ending: Cell<bool>,
    /// All bytes of the client's side were read.
    arrived: Cell<bool>,
    /// All of its message was taken.
    done: Cell<bool>,
    lost: Cell<bool>,
    task: RefCell<Option<Waker>>,
    /// Its exchange has begun.
    pub(super) begun: Cell<bool>,
    /// Its exchange is over.
    pub(super) closed: Cell<bool>,
}

impl Half {
    pub(super) fn new(id: u64, max_list: usize) -> Self {
        Self {
            id,
            reader: RefCell::new(RequestReader::new(max_list)),
            input: RefCell::default(),
            trailers: RefCell::default(),
            out: RefCell::default(),
            ending: Cell::new(false),
            arrived: Cell::new(false),
            done: Cell::new(false),
            lost: Cell::new(false),
            task: RefCell::default(),
            begun: Cell::new(false),
            closed: Cell::new(false),
        }
    }

    /// Something has changed for whoever waits.
    pub(super) fn wake(&self) {
        let task = self.task.borrow_mut().take();
        if let Some(task) = task {
            task.wake();
        }
    }

    /// The stream has ended early.
    pub(super) fn lose(&self) {
        self.lost.set(true);
        self.wake();
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.get()
    }

    fn wait(&self, cx: &Context<'_>) {
        let task = &mut *self.task.borrow_mut();
        if !task.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *task = Some(cx.waker().clone());
        }
    }

    /// Reads on, until there is something to tell. `None`: there is nothing now; [`Half::is_done`] says whether there will be.
    pub(super) fn read(&self, mux: &Mux, body: &mut Buf) -> Result<Option<Item>, Lost> {
        if self.lost.get() {
            return Err(Lost);
        }
        if self.done.get() {
            return Ok(None);
        }
        let (mut reader, mut input) = (self.reader.borrow_mut(), self.input.borrow_mut());
        let failed = |fault| {
            self.lost.set(true);
            mux.fault(self.id, fault);
            Lost
        };
        loop {
            match reader.read(&mut input, body).map_err(failed)? {
                Item::More => {}
                item => return Ok(Some(item)),
            }
            if !self.arrived.get() {
                match mux.quic.read(self.id, &mut input, MEDIUM) {
                    Ok(QuicRead::Some(_)) => continue,
                    Ok(QuicRead::Nothing) => return Ok(None),
                    Ok(QuicRead::End(read)) => {
                        self.arrived.set(true);
                        if read > 0 {
                            continue;
                        }
                    }
                    Err(_) => {
                        self.lost.set(true);
                        return Err(Lost);
                    }
                }
            }
            reader.end(&input).map_err(failed)?;
            self.done.set(true);
            return Ok(None);
        }
    }

    /// Takes a piece of the body. False: there is no more to come.
    pub(super) fn poll_data(&self, mux: &Mux, cx: &Context<'_>, body: &mut Buf) -> Poll<Result<bool, Lost>> {
        loop {
            match self.read(mux, body)? {
                Some(Item::Data) => return Poll::Ready(Ok(true)),
                Some(Item::Trailers) => {
                    let (reader, mut trailers) = (self.reader.borrow(), self.trailers.borrow_mut());
                    reader.head().fields().for_each(|field| trailers.push(field.name, field.value));
                }
                Some(_) => {}
                None if self.done.get() => return Poll::Ready(Ok(false)),
                None => {
                    self.wait(cx);
                    return Poll::Pending;
                }
            }
        }
    }

    /// Whether the client has ended the stream with the head.
    pub(super) fn has_no_body(&self, mux: &Mux) -> bool {
        let input = &mut *self.input.borrow_mut();
        if input.is_empty() && !self.arrived.get() {
            match mux.quic.read(self.id, input, MEDIUM) {
                Ok(QuicRead::End(_)) => self.arrived.set(true),
                Err(_) => self.lost.set(true),
                Ok(_) => {}
            }
        }
        let none = self.arrived.get() && input.is_empty();
        // A length that was announced and did not come is for the body's reader to find.
        let whole = none && self.reader.borrow().end(&[]).is_ok();
        self.done.set(whole);
        whole
    }

    /// Whether the message has ended.
    pub(super) fn is_done(&self) -> bool {
        self.done.get()
    }

    pub(super) fn trailers(&self, into: &mut Fields) {
        for field in self.trailers.borrow().iter() {
            into.push_known(field.id, field.name, field.value);
        }
    }

    /// Writes bytes, behind what is left of others.
    pub(super) fn write(&self, mux: &Mux, bytes: &[u8]) -> Result<(), Lost> {
        self.flush(mux)?;
        let out = &mut *self.out.borrow_mut();
        let taken = if out.is_empty() { mux.quic.write(self.id, bytes).map_err(|_| Lost)? } else { 0 };
        out.extend_from_slice(&bytes[taken..]);
        Ok(())
    }

    /// Our side ends behind what was written.
    pub(super) fn end(&self, mux: &Mux) -> Result<(), Lost> {
        self.ending.set(true);
        self.flush(mux)
    }

    /// Whether the transport has taken all that was written.
    pub(super) fn is_flushed(&self) -> bool {
        self.out.borrow().is_empty()
    }

    /// Hands over what is left.
    pub(super) fn flush(&self, mux: &Mux) -> Result<(), Lost> {
        if self.lost.get() {
            return Err(Lost);
        }
        let out = &mut *self.out.borrow_mut();
        while !out.is_empty() {
            let taken = mux.quic.write(self.id, out).map_err(|_| Lost)?;
            if taken == 0 {
                return Ok(());
            }
            out.drain(..taken);
        }
        if self.ending.replace(false) {
            mux.quic.finish(self.id);
        }
        Ok(())
    }

    /// Waits until all that was written was taken.
    pub(super) fn poll_room(&self, mux: &Mux, cx: &Context<'_>) -> Poll<Result<(), Lost>> {
        self.flush(mux)?;
        if self.is_flushed() {
            return Poll::Ready(Ok(()));
        }
        self.wait(cx);
        Poll::Pending
    }

    /// Nothing more of it is said.
    pub(super) fn cut(&self, mux: &Mux, code: Code) {
        self.out.borrow_mut().clear();
        self.ending.set(false);
        mux.quic.reset(self.id, code.0);
    }
}

impl Leaves for Half {
    fn poll_left(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.lost.get() {
            return Poll::Ready(());
        }
        self.wait(cx);
        Poll::Pending
    }
}
