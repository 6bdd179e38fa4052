//! bcrypt: `$2a$`, `$2b$`, `$2y$` (Niels Provos and David Mazières, "A Future-Adaptable Password Scheme").
//!
//! Why the three are one: they mark the repair of faults that this code never had.

use blowfish::Blowfish;

use crate::alphabet::{bcrypt_salt, push_bcrypt};

/// Bytes of a password that count, its final NUL included.
const MOST: usize = 72;

/// What is stored for a password with the cost and salt of `stored`.
pub(crate) fn crypt(stored: &str, password: &[u8]) -> Option<String> {
    let prefix = stored.get(..29)?;
    let (cost, salt) = prefix.get(4..)?.split_once('$')?;
    let doublings = cost.parse::<u32>().ok().filter(|n| cost.len() == 2 && (4..=31).contains(n))?;
    let digest = digest(doublings, &bcrypt_salt(salt.as_bytes())?, password);
    let mut out = prefix.to_owned();
    push_bcrypt(&mut out, &digest[..23]);
    Some(out)
}

fn digest(doublings: u32, salt: &[u8; 16], password: &[u8]) -> [u8; 24] {
    let mut key = password[..password.len().min(MOST)].to_vec();
    if key.len() < MOST {
        key.push(0);
    }
    let mut state: Blowfish = Blowfish::bc_init_state();
    state.salted_expand_key(salt, &key);
    for _ in 0..1u64 << doublings {
        state.bc_expand_key(&key);
        state.bc_expand_key(salt);
    }
    let mut out = [0; 24];
    for (block, text) in out.chunks_mut(8).zip(b"OrpheanBeholderScryDoubt".chunks(8)) {
        let word = |at: usize| text[at..at + 4].iter().fold(0, |word, &byte| word << 8 | u32::from(byte));
        let mut halves = [word(0), word(4)];
        for _ in 0..64 {
            halves = state.bc_encrypt(halves);
        }
        block[..4].copy_from_slice(&halves[0].to_be_bytes());
        block[4..].copy_from_slice(&halves[1].to_be_bytes());
    }
    out
}
