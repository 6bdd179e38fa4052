//! Tokens and the keys that they hold by: JSON Web Signature, Encryption, Key and Token (RFC 7515 to 7519).
//!
//! Owns: which key a token may be held against, whether it holds, and until when.
//! Never: reads a file, asks a clock, fetches keys, or judges what a token claims; the caller does.
//! Driven by: `engine::eval::tokens`.
//! Why of its own, on `aws-lc-rs`: `jsonwebtoken` has neither ES512 nor encrypted tokens, and what it adds to the very
//! primitives that we have is the page in `sign`.
//!
//! Who made a token chose its header, so the header chooses nothing that the key does not allow: a key has one kind, each
//! algorithm wants one kind, and a public key is never the secret of an HMAC. `none` holds by no key. Lengths, the number of
//! keys and what trying them costs have bounds ([`LONGEST`], [`keys::MOST`], `keys::BUDGET`).

#![forbid(unsafe_code)]

mod claims;
mod compact;
mod der;
#[doc(hidden)]
pub mod fuzzing;
pub mod keys;
mod seal;
mod sign;

pub use claims::{check_times, value_at};
pub use compact::{Parts, header, is_encrypted, read};
pub use keys::KeySet;
pub use seal::{open, wants_private_key};
pub use sign::{algorithm, verify};

/// The longest token that is looked at.
pub const LONGEST: usize = 64 << 10;

/// Why a token does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is longer than [`LONGEST`].
    #[error("the token is too long")]
    TooLong,
    /// It has not the form of a token of its kind, or its header or claims are no JSON object.
    #[error("the token is malformed")]
    Malformed,
    /// Its header asks for something that must be understood, and is not (`crit`, `zip`).
    #[error("the token has critical or compressed parts that are not supported")]
    Critical,
    /// There is no such algorithm, or none that is accepted (`none`).
    #[error("the algorithm of the token is not accepted")]
    Algorithm,
    /// No key is of its kind, of its name, and meant for this.
    #[error("no key matches the token")]
    NoKey,
    /// It holds by none of the keys.
    #[error("the token does not hold by any key")]
    Mismatch,
    /// Its time is over (`exp`).
    #[error("the token has expired")]
    Expired,
    /// Its time has not come (`nbf`).
    #[error("the token is not valid yet")]
    NotYet,
}
