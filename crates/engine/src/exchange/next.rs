//! What comes next for an exchange.
//!
//! Owns: the list of what actions, rules and answers may ask of the walk that called them.
//! Never: is acted on here; the walk does.
//! Why: results that travel down are plain data, so that who gives one need not know who takes it. What is left of an
//! answer that lasts is known to its action alone, so each names its own.

use std::sync::Arc;

use weir_plan::{Respond, RouteIx};

/// What comes next. `Later`: what an action leaves to be carried on once nothing holds the plan any more.
pub(crate) enum Next<Later> {
    /// It was answered, or cut.
    Done,
    /// Answer with this status; error pages apply.
    Status(u16),
    /// Answer with this.
    Respond(Arc<Respond>),
    /// Redirect the client.
    Redirect {
        /// Status.
        status: u16,
        /// Where to, as written.
        location: Vec<u8>,
        /// Error pages apply.
        pages: bool,
    },
    /// Go on as if this target had been asked for.
    Internal {
        /// Its path, decoded.
        path: Vec<u8>,
        /// Its query.
        query: Vec<u8>,
    },
    /// Go on with this path, as it is, and the query that there is.
    InternalPath(Vec<u8>),
    /// Go on with a named route; path and method stay.
    Named(RouteIx),
    /// Close the connection without an answer; logs show this status, if any.
    Close(Option<u16>),
    /// It is being answered, and the rest is carried without the plan.
    Later(Later),
}

impl<L> Next<L> {
    /// Goes on with a target as the configuration writes it: nothing in it is encoded.
    pub(crate) fn internal(target: &[u8]) -> Self {
        let (path, query) = match memchr::memchr(b'?', target) {
            Some(at) => (&target[..at], &target[at + 1..]),
            None => (target, &b""[..]),
        };
        Self::Internal { path: path.to_vec(), query: query.to_vec() }
    }

    /// The same, with what is left put into something wider.
    pub(crate) fn wrap<M>(self, wrap: impl FnOnce(L) -> M) -> Next<M> {
        match self {
            Self::Later(later) => Next::Later(wrap(later)),
            Self::Done => Next::Done,
            Self::Status(status) => Next::Status(status),
            Self::Respond(respond) => Next::Respond(respond),
            Self::Redirect { status, location, pages } => Next::Redirect { status, location, pages },
            Self::Internal { path, query } => Next::Internal { path, query },
            Self::InternalPath(path) => Next::InternalPath(path),
            Self::Named(route) => Next::Named(route),
            Self::Close(status) => Next::Close(status),
        }
    }
}
