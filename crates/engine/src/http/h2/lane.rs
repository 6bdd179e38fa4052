//! A stream of HTTP/2.
//!
//! Never: writes to the connection; the carrier does.
//! Driven by: [`crate::http::stream::Stream`].

use std::rc::Rc;
use std::task::{Context, Poll};

use weir_rt::Buf;
use weir_wire::h2::{self, Reason};

use super::mux::{Inbox, Mux};
use crate::exchange::fields::Fields;
use crate::http::lane::{Lane, Lost};
use crate::worker::watch::Leaves;

/// A stream with the connection that it belongs to.
pub(super) struct H2Lane {
    pub(super) mux: Rc<Mux>,
    pub(super) inbox: Rc<Inbox>,
}

impl Lane for H2Lane {
    const FRAME_HEAD: u64 = 9;

    fn send_list(&self, list: &h2::Fields, end: bool) -> Result<u64, Lost> {
        let wire = &mut *self.mux.wire.borrow_mut();
        let before = wire.output().len();
        let sent = wire.send_head(self.inbox.key, list, end);
        sent.map_err(|h2::Gone| Lost)?;
        Ok((wire.output().len() - before) as u64)
    }

    fn send_data(&self, data: &[u8], end: bool) -> Result<usize, Lost> {
        self.mux.wire.borrow_mut().send_data(self.inbox.key, data, end).map_err(|h2::Gone| Lost)
    }

    fn call(&self) {
        self.mux.call_carrier();
    }

    fn poll_data(&self, cx: &Context<'_>, into: &mut Buf) -> Poll<Result<bool, Lost>> {
        self.inbox.poll_data(cx, into)
    }

    fn poll_room(&self, cx: &Context<'_>) -> Poll<Result<(), Lost>> {
        self.inbox.poll_room(cx)
    }

    fn release(&self, taken: usize) {
        self.mux.wire.borrow_mut().release(self.inbox.key, taken);
        self.mux.call_carrier();
    }

    fn is_done(&self) -> bool {
        self.inbox.is_done()
    }

    fn trailers(&self, into: &mut Fields) {
        self.inbox.trailers(into);
    }

    fn cut(&self) {
        self.mux.reset(self.inbox.key, Reason::INTERNAL_ERROR);
    }

    fn close(&self, ended: bool, held: usize) {
        let left = held + self.inbox.untaken();
        self.mux.forget(self.inbox.key);
        // Borrowed only if the protocol itself panicked: the connection ends then.
        let Ok(mut wire) = self.mux.wire.try_borrow_mut() else { return };
        if left > 0 {
            wire.release(self.inbox.key, left);
        }
        // What the client still sends is nothing to anybody (RFC 9113 §8.1).
        wire.reset(self.inbox.key, if ended { Reason::NO_ERROR } else { Reason::INTERNAL_ERROR });
        drop(wire);
        self.mux.call_carrier();
    }

    fn leaves(&self) -> Rc<dyn Leaves> {
        self.inbox.clone()
    }
}
