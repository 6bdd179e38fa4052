//! The alphabet that `model` and `plan` share: variables, templates, and settings that hold no names.
//!
//! Owns: [`Var`], [`Template`], the plain setting groups of [`settings`], OpenSSL's words about TLS ([`ciphers`]).
//! Never: computes a value, resolves a name, knows a configuration language.
//! Driven by: front ends write these with names ([`Named`]), `lower` turns names into [`Slot`]s, the engine reads them.
//! Why: a variable's meaning is stated once. What differs between "as meant" and "as run" is only how a
//! user-defined variable is referred to, and that is the type parameter.

#![forbid(unsafe_code)]

pub mod authorities;
pub mod check;
pub mod ciphers;
mod convert;
mod dav;
pub mod form;
mod json;
pub mod networks;
pub mod offered;
mod routine;
pub mod settings;
mod source;
mod stick;
mod target;
mod template;
pub mod text;
mod var;

pub use convert::{Arithmetic, Chunks, Coding, Convert, Digits, number};
pub use dav::{Dav, DavMethods, FileAccess};
pub use routine::{Digest, HelloPart, PacketPart, Routine, TimeUnit, When};
pub use source::Source;
pub use stick::{
    StickAsk, StickData, StickKey, StickOp, StickSpan, StickTableConfig, StickWhat, StickWhom, Stored,
};
pub use target::{AddressPart, End, Follows, Normalizer, OwnTimeout, Socks};
pub use template::{Filter, Piece, Template};
pub use var::{
    AuthPart, CertPart, ClientVar, Count, Counted, CourseVar, DnPart, EndpointFigure, EndpointTls, Family,
    IdentityVar, JudgedVar, KeptIn, KeptValue, LocalOf, MessagePart, Moment, Peeked, PlaceVar, PriorityOf,
    ProcessVar, ProxyTlv, RateOf, RequestVar, ResponseVar, SessionVar, StickVar, TcpFigure, Timer, TlsVar,
    UpstreamVar, Var,
};

/// A user-defined variable by name, as the model refers to it (without `$`).
pub type Named = String;

/// A user-defined variable by its place in the table of a request's computed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Slot(pub u16);

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{}", self.0)
    }
}
