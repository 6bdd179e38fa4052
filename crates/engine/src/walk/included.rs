//! Requests of our own whose bodies become parts of another response.
//!
//! Owns: the half of the client of such a request, which hands the body on piece by piece, a bounded number of bytes
//! ahead.
//! Driven by: `answer::include`, for nginx's addition, slice and SSI modules.
//! Why: request and response that asks for it are one task: whoever wants a piece runs the request until there is one.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use weir_rt::{Buf, PIECE};
use weir_wire::SendError;

use super::subrequest::other;
use crate::answer::include::{self, Asked, Cut, Included};
use crate::answer::stub;
use crate::exchange::clientless::{Clientless, Taker};
use crate::exchange::slice::{Further, Slice};
use crate::exchange::{Exchange, Next, errors};

/// Bytes that a request is ahead of its response.
const AHEAD: usize = 64 << 10;

/// Bytes of a body that become a value where its route says nothing about them.
const MOST_KEPT: usize = 4096;

/// Lets responses ask for other bodies.
pub(crate) fn serve() {
    include::serve_by(ask);
}

fn ask(exchange: &Exchange, Asked { path, query, stub, slice }: Asked<'_>) -> Box<dyn Included> {
    let mut asked = match &slice {
        Some(slice) => {
            let asked = exchange.again();
            asked.slice.set(Some(Slice::part(slice.range.start)));
            asked
        }
        None => other(exchange, path, query),
    };
    // How deep they lie in one another is bounded by itself.
    asked.redirects = 0;
    if let Some(asked_for) = &mut asked.asked_for {
        asked_for.stub = stub;
    }
    let pipe = Rc::new(Pipe::default());
    let is_slice = slice.is_some();
    let mut teller = Clientless(Teller { pipe: pipe.clone(), told: 0, slice });
    let run = Box::pin(async move {
        if is_slice {
            let installed = asked.installed.clone();
            let next = super::act(&mut asked, &mut teller, &installed).await;
            if !matches!(next, Next::Done) {
                teller.0.cut();
            }
        } else {
            let _ = super::run_path(&mut asked, &mut teller).await;
            if teller.0.told == 0 && !teller.0.pipe.cut.get() {
                let _ = stub::instead(&mut asked, &mut teller).await;
            }
        }
        asked.give();
    });
    Box::new(Running { run: Some(run), pipe, path: String::from_utf8_lossy(path).into_owned() })
}

/// What was told and not taken yet.
#[derive(Default)]
struct Pipe {
    pieces: RefCell<VecDeque<Vec<u8>>>,
    held: Cell<usize>,
    cut: Cell<bool>,
    status: Cell<u16>,
    most_kept: Cell<usize>,
}

/// A request under way.
struct Running {
    run: Option<Pin<Box<dyn Future<Output = ()>>>>,
    pipe: Rc<Pipe>,
    path: String,
}

impl Included for Running {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, Cut>> {
        loop {
            if let Some(piece) = self.pipe.pieces.borrow_mut().pop_front() {
                self.pipe.held.set(self.pipe.held.get() - piece.len());
                return Poll::Ready(Ok(Some(piece)));
            }
            let Some(run) = &mut self.run else {
                let cut = self.pipe.cut.get();
                return Poll::Ready(if cut { Err(Cut(self.path.clone())) } else { Ok(None) });
            };
            match run.as_mut().poll(cx) {
                Poll::Ready(()) => self.run = None,
                Poll::Pending if self.pipe.held.get() == 0 => return Poll::Pending,
                Poll::Pending => {}
            }
        }
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        if let Some(run) = self.run.as_mut().filter(|_| self.pipe.held.get() < AHEAD)
            && run.as_mut().poll(cx).is_ready()
        {
            self.run = None;
        }
    }

    fn status(&self) -> u16 {
        self.pipe.status.get()
    }

    fn most_kept(&self) -> usize {
        self.pipe.most_kept.get()
    }
}

/// The client's half.
struct Teller {
    pipe: Rc<Pipe>,
    told: u64,
    /// What the response has to be, if that is known.
    slice: Option<Further>,
}

impl Teller {
    /// Hands a piece on, then waits until little is held: whoever takes pieces runs this again.
    async fn tell(&mut self, piece: Vec<u8>) {
        if piece.is_empty() || self.pipe.cut.get() {
            return;
        }
        self.told += piece.len() as u64;
        let pipe = &self.pipe;
        pipe.held.set(pipe.held.get() + piece.len());
        pipe.pieces.borrow_mut().push_back(piece);
        poll_fn(|_| if pipe.held.get() < AHEAD { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

impl Taker for Teller {
    fn begin(&mut self, exchange: &Exchange) {
        if let Some(why) = self.slice.as_ref().and_then(|slice| slice.fault(&exchange.response)) {
            errors::error(exchange, &why);
            self.pipe.cut.set(true);
        }
        self.pipe.status.set(exchange.response.status);
        let most = exchange.route().settings.filters.as_ref().map(|filters| filters.most_kept);
        self.pipe.most_kept.set(most.and_then(|most| usize::try_from(most).ok()).unwrap_or(MOST_KEPT));
    }

    async fn send(&mut self, _: &Exchange, data: &[u8]) -> Result<(), SendError> {
        self.tell(data.to_vec()).await;
        Ok(())
    }

    async fn send_file(&mut self, file: &File, offset: u64, length: u64) -> Result<(), SendError> {
        let (mut at, end, mut buf) = (offset, offset + length, Buf::new());
        while at < end {
            buf.clear();
            let most = (end - at).min(PIECE as u64) as usize;
            let read = weir_rt::pread_into(file, at, &mut buf, most)?;
            if read == 0 {
                return Err(SendError::Length);
            }
            at += read as u64;
            self.tell(buf.to_vec()).await;
        }
        Ok(())
    }

    fn cut(&mut self) {
        self.pipe.cut.set(true);
    }

    fn retract(&mut self) -> bool {
        self.told == 0 && !self.pipe.cut.get()
    }

    fn taken(&self) -> u64 {
        self.told
    }
}
