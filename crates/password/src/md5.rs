//! MD5-crypt: `$1$`, and Apache's `$apr1$`, which differs by that word alone.

use md5::{Digest as _, Md5};

use crate::alphabet::{push_low_first, word};

const ROUNDS: u32 = 1000;
const LONGEST_SALT: usize = 8;

/// What is stored for a password with the salt of `stored`.
pub(crate) fn crypt(stored: &str, password: &[u8]) -> Option<String> {
    let (name, rest) = stored.strip_prefix('$')?.split_once('$')?;
    let salt = rest.split('$').next()?;
    let salt = salt.get(..salt.len().min(LONGEST_SALT))?;
    let magic = format!("${name}$");
    let digest = digest(magic.as_bytes(), salt.as_bytes(), password);
    let mut out = format!("{magic}{salt}$");
    for [a, b, c] in [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]] {
        push_low_first(&mut out, word(digest[a], digest[b], digest[c]), 4);
    }
    push_low_first(&mut out, u32::from(digest[11]), 2);
    Some(out)
}

fn digest(magic: &[u8], salt: &[u8], password: &[u8]) -> [u8; 16] {
    let inner = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut first = Md5::new().chain_update(password).chain_update(magic).chain_update(salt);
    for part in password.chunks(16) {
        first.update(&inner[..part.len()]);
    }
    let mut bits = password.len();
    while bits > 0 {
        // What was meant once is lost to history: a NUL for each bit that is set, else the first byte.
        first.update(if bits & 1 == 1 { &[0] } else { &password[..1] });
        bits >>= 1;
    }
    let mut digest: [u8; 16] = first.finalize().into();
    for round in 0..ROUNDS {
        let odd = round % 2 == 1;
        let mut next = Md5::new();
        next.update(if odd { password } else { &digest });
        if !round.is_multiple_of(3) {
            next.update(salt);
        }
        if !round.is_multiple_of(7) {
            next.update(password);
        }
        next.update(if odd { &digest } else { password });
        digest = next.finalize().into();
    }
    digest
}
