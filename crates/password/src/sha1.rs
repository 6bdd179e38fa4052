//! NetBSD's `$sha1$`: PBKDF1 with HMAC-SHA1.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;

use crate::alphabet::{push_low_first, word};

const LONGEST_SALT: usize = 64;

/// What is stored for a password with the rounds and salt of `stored`.
pub(crate) fn crypt(stored: &str, password: &[u8]) -> Option<String> {
    let (rounds, rest) = stored.strip_prefix("$sha1$")?.split_once('$')?;
    let rounds = crate::sha2::number(rounds)?;
    let salt = rest.split('$').next()?;
    if rounds == 0 || salt.len() > LONGEST_SALT {
        return None;
    }
    let keyed = Hmac::<Sha1>::new_from_slice(password).ok()?;
    let mut digest = keyed.clone().chain_update(format!("{salt}$sha1${rounds}")).finalize().into_bytes();
    for _ in 1..rounds {
        digest = keyed.clone().chain_update(digest).finalize().into_bytes();
    }
    let mut out = format!("$sha1${rounds}${salt}$");
    // 20 bytes are six groups of three and two: the first byte fills up.
    for at in (0..18).step_by(3) {
        push_low_first(&mut out, word(digest[at], digest[at + 1], digest[at + 2]), 4);
    }
    push_low_first(&mut out, word(digest[18], digest[19], digest[0]), 4);
    Some(out)
}
