//! A stream of HTTP/3, as its exchange has it.
//!
//! Never: sends a datagram; the carrier does.
//! Driven by: [`crate::http::stream::Stream`].

use std::rc::Rc;
use std::task::{Context, Poll};

use weir_rt::Buf;
use weir_wire::h2;
use weir_wire::h3::{self, Code};

use super::half::{Half, Mux};
use crate::exchange::fields::Fields;
use crate::http::lane::{Lane, Lost};
use crate::worker::watch::Leaves;

/// Most payload of a frame: so much of it may have to be kept for a stream whose window is shut.
const FRAME: usize = 16 * 1024;

/// A stream with the connection that it belongs to.
pub(super) struct H3Lane {
    pub(super) mux: Rc<Mux>,
    pub(super) half: Rc<Half>,
}

impl H3Lane {
    pub(super) fn new(mux: &Rc<Mux>, half: Rc<Half>) -> Self {
        mux.live.set(mux.live.get() + 1);
        half.begun.set(true);
        Self { mux: mux.clone(), half }
    }
}

impl Lane for H3Lane {
    const FRAME_HEAD: u64 = 3;

    fn send_list(&self, list: &h2::Fields, end: bool) -> Result<u64, Lost> {
        let mut bytes = Vec::new();
        h3::head(&mut bytes, list);
        self.half.write(&self.mux, &bytes)?;
        if end {
            self.half.end(&self.mux)?;
        }
        Ok(bytes.len() as u64)
    }

    fn send_data(&self, data: &[u8], end: bool) -> Result<usize, Lost> {
        self.half.flush(&self.mux)?;
        if !data.is_empty() && !self.half.is_flushed() {
            return Ok(0);
        }
        let piece = &data[..data.len().min(FRAME)];
        if !piece.is_empty() {
            let mut head = Vec::with_capacity(8);
            h3::data_head(&mut head, piece.len());
            self.half.write(&self.mux, &head)?;
            self.half.write(&self.mux, piece)?;
        }
        if end && piece.len() == data.len() {
            self.half.end(&self.mux)?;
        }
        Ok(piece.len())
    }

    fn call(&self) {
        self.mux.quic.call();
    }

    fn poll_data(&self, cx: &Context<'_>, into: &mut Buf) -> Poll<Result<bool, Lost>> {
        self.half.poll_data(&self.mux, cx, into)
    }

    fn poll_room(&self, cx: &Context<'_>) -> Poll<Result<(), Lost>> {
        self.half.poll_room(&self.mux, cx)
    }

    // Reading is what opens the window.
    fn release(&self, _: usize) {}

    fn is_done(&self) -> bool {
        self.half.is_done()
    }

    fn trailers(&self, into: &mut Fields) {
        self.half.trailers(into);
    }

    fn cut(&self) {
        self.half.cut(&self.mux, Code::INTERNAL_ERROR);
        self.mux.quic.call();
    }

    fn close(&self, ended: bool, _: usize) {
        self.mux.live.set(self.mux.live.get() - 1);
        self.half.closed.set(true);
        if !ended {
            self.half.cut(&self.mux, Code::INTERNAL_ERROR);
        }
        // What the client still sends is nothing to anybody (RFC 9114 §4.1).
        if !self.half.is_done() {
            self.mux.quic.stop(self.half.id, Code::NO_ERROR.0);
        }
        if !ended || self.half.is_lost() {
            self.mux.halves.borrow_mut().remove(&self.half.id);
        }
        self.mux.quic.call();
    }

    fn leaves(&self) -> Rc<dyn Leaves> {
        self.half.clone()
    }
}
