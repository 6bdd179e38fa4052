//! A stream of a connection that carries many, whatever the version of HTTP.
//!
//! Owns: the list of what the client's half of an exchange asks of it.
//! Driven by: [`super::stream::Stream`]; implemented by `h2` and `h3`.
//! Why: heads, bodies, deadlines and ends are the same in both versions; windows, frames and who reads are not.

use std::rc::Rc;
use std::task::{Context, Poll};

use weir_rt::Buf;
use weir_wire::h2;

use crate::exchange::fields::Fields;
use crate::worker::watch::Leaves;

/// The stream is gone: the client reset it, or the connection ended.
#[derive(Debug)]
pub(super) struct Lost;

/// A stream, as its exchange has it.
pub(super) trait Lane {
    /// What stands before a piece of a body.
    const FRAME_HEAD: u64;

    /// Sends a head or trailers; how many bytes that was.
    fn send_list(&self, list: &h2::Fields, end: bool) -> Result<u64, Lost>;

    /// Sends as much payload as fits now.
    fn send_data(&self, data: &[u8], end: bool) -> Result<usize, Lost>;

    /// Something is to be written.
    fn call(&self);

    /// Takes what arrived, into an empty buffer. False: there is no more to come.
    fn poll_data(&self, cx: &Context<'_>, into: &mut Buf) -> Poll<Result<bool, Lost>>;

    /// Waits until more can be sent.
    fn poll_room(&self, cx: &Context<'_>) -> Poll<Result<(), Lost>>;

    /// Gives the client room for what was taken.
    fn release(&self, taken: usize);

    /// Whether all of the body was taken.
    fn is_done(&self) -> bool;

    /// The trailers, once the body has ended.
    fn trailers(&self, into: &mut Fields);

    /// Breaks the stream off, for a reason of ours.
    fn cut(&self);

    /// The exchange is over: the client sees an end, and nothing of the stream is kept. `ended`: our side has; `held`: so much
    /// of what was taken was not released.
    fn close(&self, ended: bool, held: usize);

    /// The client, to watch over.
    fn leaves(&self) -> Rc<dyn Leaves>;
}
