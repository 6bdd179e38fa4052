//! What a directive is.

use std::fmt;

use crate::take::{Lowering, Place, PoolParts, Scope, ServerParts, StreamScope};
use crate::tree::Directive;

/// A set of places where a directive may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Contexts(u16);

/// The blocks of nginx.conf by their bit.
const NAMES: [(Contexts, &str); 14] = [
    (Contexts::MAIN, "main"),
    (Contexts::EVENTS, "events"),
    (Contexts::HTTP, "http"),
    (Contexts::SERVER, "server"),
    (Contexts::LOCATION, "location"),
    (Contexts::UPSTREAM, "upstream"),
    (Contexts::SERVER_IF, "if in server"),
    (Contexts::LOCATION_IF, "if in location"),
    (Contexts::LIMIT_EXCEPT, "limit_except"),
    (Contexts::STREAM, "stream"),
    (Contexts::STREAM_SERVER, "server in stream"),
    (Contexts::STREAM_UPSTREAM, "upstream in stream"),
    (Contexts::MAIL, "mail"),
    (Contexts::MAIL_SERVER, "server in mail"),
];

impl Contexts {
    /// Outside of all blocks.
    pub const MAIN: Self = Self(1);
    /// `events`.
    pub const EVENTS: Self = Self(1 << 1);
    /// `http`.
    pub const HTTP: Self = Self(1 << 2);
    /// `server` of `http`.
    pub const SERVER: Self = Self(1 << 3);
    /// `location`.
    pub const LOCATION: Self = Self(1 << 4);
    /// `upstream` of `http`.
    pub const UPSTREAM: Self = Self(1 << 5);
    /// `if` of a server.
    pub const SERVER_IF: Self = Self(1 << 6);
    /// `if` of a location.
    pub const LOCATION_IF: Self = Self(1 << 7);
    /// `limit_except`.
    pub const LIMIT_EXCEPT: Self = Self(1 << 8);
    /// `stream`.
    pub const STREAM: Self = Self(1 << 9);
    /// `server` of `stream`.
    pub const STREAM_SERVER: Self = Self(1 << 10);
    /// `upstream` of `stream`.
    pub const STREAM_UPSTREAM: Self = Self(1 << 11);
    /// `mail`.
    pub const MAIL: Self = Self(1 << 12);
    /// `server` of `mail`.
    pub const MAIL_SERVER: Self = Self(1 << 13);

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if `one` is among these.
    pub const fn has(self, one: Self) -> bool {
        self.0 & one.0 == one.0
    }

    #[cfg(test)]
    pub(super) const fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl fmt::Display for Contexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (context, name) in NAMES.iter().filter(|(context, _)| self.has(*context)) {
            debug_assert!(self.has(*context));
            f.write_str(if first { "" } else { ", " })?;
            f.write_str(name)?;
            first = false;
        }
        Ok(())
    }
}

/// What Weir does with a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It does what it does in nginx.
    Built,
    /// It tunes something that Weir does by itself, or helps without deciding anything: a warning.
    TuningOnly,
    /// It decides who gets in, or what is answered, and is not built yet: an error.
    NotYet,
    /// nginx itself dropped it: an error that names its successor.
    Removed,
}

/// What the first argument must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Anything.
    Text,
    /// `on` or `off`.
    Flag,
    /// Bytes in memory.
    Size,
    /// Bytes of files.
    Offset,
    /// A time down to milliseconds.
    Time,
    /// A time in seconds.
    Seconds,
    /// A number.
    Number,
    /// One of these.
    OneOf(&'static [&'static str]),
}

/// Who takes a word in.
#[derive(Clone, Copy)]
pub(crate) enum Taker {
    /// The building of the block around it reads it by name: blocks, and words whose order counts.
    Owner,
    /// A word of the process.
    Process(fn(&mut Lowering<'_>, &Directive)),
    /// A word of `http` or `stream` itself: tables, formats, zones.
    Shared(fn(&mut Lowering<'_>, &Directive)),
    /// A setting that inner blocks inherit.
    Scope(fn(&mut Lowering<'_>, &mut Scope, &Directive)),
    /// A word of one server.
    Server(fn(&mut Lowering<'_>, &mut ServerParts, &Directive)),
    /// A word of one location, not inherited.
    Place(fn(&mut Lowering<'_>, &mut Place, &Directive)),
    /// A word of one upstream.
    Pool(fn(&mut Lowering<'_>, &mut PoolParts, &Directive)),
    /// A setting of stream, inherited.
    Stream(fn(&mut Lowering<'_>, &mut StreamScope, &Directive)),
}

/// One directive.
pub(crate) struct Entry {
    pub name: &'static str,
    pub contexts: Contexts,
    /// Fewest and most arguments.
    pub arity: (usize, usize),
    pub kind: Kind,
    pub default: &'static str,
    /// What it is for, in one sentence.
    pub doc: &'static str,
    /// It may be written several times in one block.
    pub repeats: bool,
    /// It opens a block.
    pub block: bool,
    pub status: Status,
    /// Why it does not do what it does in nginx.
    pub why: &'static str,
    pub taker: Taker,
}

/// No upper bound on arguments.
pub(super) const MANY: usize = usize::MAX;

impl Entry {
    /// A word with free arguments, built, read by its owner.
    pub(super) const fn new(
        name: &'static str,
        contexts: Contexts,
        arity: (usize, usize),
        default: &'static str,
        doc: &'static str,
    ) -> Self {
        Self {
            name,
            contexts,
            arity,
            kind: Kind::Text,
            default,
            doc,
            repeats: false,
            block: false,
            status: Status::Built,
            why: "",
            taker: Taker::Owner,
        }
    }

    /// A word with one argument of a kind.
    pub(super) const fn one(
        name: &'static str,
        contexts: Contexts,
        kind: Kind,
        default: &'static str,
        doc: &'static str,
    ) -> Self {
        Self { kind, ..Self::new(name, contexts, (1, 1), default, doc) }
    }

    pub(super) const fn repeats(mut self) -> Self {
        self.repeats = true;
        self
    }

    pub(super) const fn block(mut self) -> Self {
        self.block = true;
        self
    }

    pub(super) const fn tuning(mut self, why: &'static str) -> Self {
        self.status = Status::TuningOnly;
        self.why = why;
        self
    }

    pub(super) const fn not_yet(mut self, why: &'static str) -> Self {
        self.status = Status::NotYet;
        self.why = why;
        self
    }

    pub(super) const fn removed(mut self, why: &'static str) -> Self {
        self.status = Status::Removed;
        self.why = why;
        self
    }

    pub(super) const fn process(mut self, f: fn(&mut Lowering<'_>, &Directive)) -> Self {
        self.taker = Taker::Process(f);
        self
    }

    pub(super) const fn shared(mut self, f: fn(&mut Lowering<'_>, &Directive)) -> Self {
        self.taker = Taker::Shared(f);
        self
    }

    pub(super) const fn scope(mut self, f: fn(&mut Lowering<'_>, &mut Scope, &Directive)) -> Self {
        self.taker = Taker::Scope(f);
        self
    }

    pub(super) const fn server(mut self, f: fn(&mut Lowering<'_>, &mut ServerParts, &Directive)) -> Self {
        self.taker = Taker::Server(f);
        self
    }

    pub(super) const fn place(mut self, f: fn(&mut Lowering<'_>, &mut Place, &Directive)) -> Self {
        self.taker = Taker::Place(f);
        self
    }

    pub(super) const fn pool(mut self, f: fn(&mut Lowering<'_>, &mut PoolParts, &Directive)) -> Self {
        self.taker = Taker::Pool(f);
        self
    }

    pub(super) const fn stream(mut self, f: fn(&mut Lowering<'_>, &mut StreamScope, &Directive)) -> Self {
        self.taker = Taker::Stream(f);
        self
    }
}

/// Sets of contexts that many words share, under the names of the tables.
pub(super) mod places {
    use super::Contexts;

    pub(in crate::table) const M: Contexts = Contexts::MAIN;
    pub(in crate::table) const E: Contexts = Contexts::EVENTS;
    pub(in crate::table) const H: Contexts = Contexts::HTTP;
    pub(in crate::table) const S: Contexts = Contexts::SERVER;
    pub(in crate::table) const L: Contexts = Contexts::LOCATION;
    pub(in crate::table) const U: Contexts = Contexts::UPSTREAM;
    pub(in crate::table) const HS: Contexts = H.and(S);
    pub(in crate::table) const SL: Contexts = S.and(L);
    pub(in crate::table) const HSL: Contexts = HS.and(L);
    /// `http`, `server`, `location`, `if` in location.
    pub(in crate::table) const HSLI: Contexts = HSL.and(Contexts::LOCATION_IF);
    /// Location and `if` in location.
    pub(in crate::table) const LI: Contexts = L.and(Contexts::LOCATION_IF);
    /// Location, `if` in location, `limit_except`.
    pub(in crate::table) const LIX: Contexts = LI.and(Contexts::LIMIT_EXCEPT);
    /// `http`, `server`, `location`, `limit_except`.
    pub(in crate::table) const HSLX: Contexts = HSL.and(Contexts::LIMIT_EXCEPT);
    /// `http`, `server`, `location`, `if` in location, `limit_except`.
    pub(in crate::table) const HSLIX: Contexts = HSLI.and(Contexts::LIMIT_EXCEPT);
    /// Where rewrites may stand.
    pub(in crate::table) const REWRITE: Contexts = SL.and(Contexts::SERVER_IF).and(Contexts::LOCATION_IF);
    pub(in crate::table) const T: Contexts = Contexts::STREAM;
    pub(in crate::table) const TS: Contexts = T.and(Contexts::STREAM_SERVER);
    pub(in crate::table) const TSRV: Contexts = Contexts::STREAM_SERVER;
    pub(in crate::table) const TU: Contexts = Contexts::STREAM_UPSTREAM;
}
