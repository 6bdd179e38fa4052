//! Stored forms of passwords, as `htpasswd`, crypt(3) and LDAP directories write them.
//!
//! Owns: which form a stored password has, what it costs to verify one, the verification.
//! Never: reads a file, remembers a result, or starts a thread: the caller decides where a dear verification runs.
//! Driven by: `engine::admission`.
//! Why: digests and Blowfish come from RustCrypto; what is made of them is a page a form, kept here and compared with
//! crypt(3) and OpenSSL by tests, so that no unmaintained crate and no C code sees a password.
//!
//! ```text
//!   {PLAIN} {SHA} {SSHA}                                 cheap: linear in the password, answered at once
//!   $apr1$ $1$ $5$ $6$ $sha1$ $2a$ $2b$ $2y$ $y$ _… DES  dear: slow on purpose, or with many passes over the password
//! ```

#![forbid(unsafe_code)]
// A length that is cut off is a length that a peer chose: each cast that could do so says why it does not.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]

mod alphabet;
mod bcrypt;
mod des;
#[doc(hidden)]
pub mod fuzzing;
mod md5;
mod sha1;
mod sha2;
mod yescrypt;

use ::sha1::{Digest as _, Sha1};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The longest password that a dear form is compared with, in bytes: crypt(3)'s own bound (libxcrypt's
/// `CRYPT_MAX_PASSPHRASE_SIZE`, with its final NUL, is 512).
///
/// `$6$` passes over the password thousands of times: without a bound 6,000 bytes cost half a second.
pub const LONGEST: usize = 511;

/// What it costs to verify a password against a stored form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Microseconds.
    Cheap,
    /// From a fraction of a millisecond to seconds: not on a thread that serves others.
    Dear,
}

/// What verifying against this stored form costs.
#[must_use]
pub fn cost(stored: &str) -> Cost {
    let cheap = ["{PLAIN}", "{SHA}", "{SSHA}"].iter().any(|prefix| stored.starts_with(prefix));
    if cheap { Cost::Cheap } else { Cost::Dear }
}

/// Why nobody gets in by a stored form that was meant to let somebody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `$…$` names a form that is none of ours.
    Unknown,
    /// Verifying it takes more memory than one verification may.
    TooLarge,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => f.write_str("a form that is not known here"),
            Self::TooLarge => {
                write!(f, "verifying it takes more than {} MB of memory", yescrypt::MOST_MEMORY >> 20)
            }
        }
    }
}

/// What is wrong with a stored form. What locks an account on purpose (`!`, `*`, `x`) is no fault.
#[must_use]
pub fn fault(stored: &str) -> Option<Fault> {
    let (form, _) = stored.strip_prefix('$')?.split_once('$')?;
    match form {
        "apr1" | "1" | "5" | "6" | "sha1" | "2a" | "2b" | "2y" => None,
        "y" => yescrypt::memory(stored)
            .is_some_and(|bytes| bytes > yescrypt::MOST_MEMORY)
            .then_some(Fault::TooLarge),
        _ => Some(Fault::Unknown),
    }
}

/// Whether a password may be compared with dear forms at all: crypt(3) sees no NUL, and no more than [`LONGEST`] bytes.
#[must_use]
pub fn is_hashable(password: &[u8]) -> bool {
    password.len() <= LONGEST && !password.contains(&0)
}

/// Whether a password is the one that was stored. A form that is none of ours matches nothing.
#[must_use]
pub fn verify(stored: &str, password: &[u8]) -> bool {
    if let Some(plain) = stored.strip_prefix("{PLAIN}") {
        return equal(plain.as_bytes(), password);
    }
    if let Some(coded) = stored.strip_prefix("{SHA}") {
        return STANDARD.decode(coded).is_ok_and(|digest| equal(&digest, &Sha1::digest(password)));
    }
    if let Some(coded) = stored.strip_prefix("{SSHA}") {
        return STANDARD.decode(coded).is_ok_and(|bytes| salted_sha1(&bytes, password));
    }
    is_hashable(password)
        && crypt(stored, password).is_some_and(|made| equal(made.as_bytes(), stored.as_bytes()))
}

/// A digest with its salt behind it.
fn salted_sha1(stored: &[u8], password: &[u8]) -> bool {
    let Some((digest, salt)) = stored.split_at_checked(20) else { return false };
    equal(digest, &Sha1::new().chain_update(password).chain_update(salt).finalize())
}

/// crypt(3), and Apache's `$apr1$`: what is stored for a password with the settings of `stored`.
fn crypt(stored: &str, password: &[u8]) -> Option<String> {
    match stored.strip_prefix('$').and_then(|rest| rest.split_once('$')) {
        Some(("apr1" | "1", _)) => md5::crypt(stored, password),
        Some(("5", _)) => sha2::crypt256(stored, password),
        Some(("6", _)) => sha2::crypt512(stored, password),
        Some(("sha1", _)) => sha1::crypt(stored, password),
        Some(("2a" | "2b" | "2y", _)) => bcrypt::crypt(stored, password),
        Some(("y", _)) => yescrypt::crypt(stored, password),
        Some(_) => None,
        None if stored.starts_with('_') => des::extended(stored, password),
        None => des::traditional(stored, password),
    }
}

/// Compares without telling by time where the difference is.
#[must_use]
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (x, y)| differs | (x ^ y)) == 0
}

#[cfg(test)]
mod tests;
