//! SHA-crypt: `$5$` and `$6$` (Ulrich Drepper, "Unix crypt using SHA-256 and SHA-512").

use sha2::digest::Output;
use sha2::{Digest, Sha256, Sha512};

use crate::alphabet::{push_low_first, word};

const USUAL_ROUNDS: u32 = 5000;
const LONGEST_SALT: usize = 16;

/// The rounds that may be asked for.
const ROUNDS: std::ops::RangeInclusive<u32> = 1000..=999_999_999;

/// What is stored for a password with the settings of `stored`, which begins with `$5$`.
pub(crate) fn crypt256(stored: &str, password: &[u8]) -> Option<String> {
    let settings = Settings::of(stored, "$5$")?;
    let digest = settings.digest::<Sha256>(password);
    let mut out = settings.prefix;
    let (mut a, mut b, mut c) = (0, 10, 20);
    for _ in 0..10 {
        push_low_first(&mut out, word(digest[a], digest[b], digest[c]), 4);
        (a, b, c) = (c + 1, a + 1, b + 1);
    }
    push_low_first(&mut out, word(0, digest[31], digest[30]), 3);
    Some(out)
}

/// What is stored for a password with the settings of `stored`, which begins with `$6$`.
pub(crate) fn crypt512(stored: &str, password: &[u8]) -> Option<String> {
    let settings = Settings::of(stored, "$6$")?;
    let digest = settings.digest::<Sha512>(password);
    let mut out = settings.prefix;
    let (mut a, mut b, mut c) = (0, 21, 42);
    for _ in 0..21 {
        push_low_first(&mut out, word(digest[a], digest[b], digest[c]), 4);
        (a, b, c) = (b + 1, c + 1, a + 1);
    }
    push_low_first(&mut out, u32::from(digest[63]), 2);
    Some(out)
}

/// Salt and rounds, and how they are written before the digest.
struct Settings<'s> {
    prefix: String,
    salt: &'s [u8],
    rounds: u32,
}

impl<'s> Settings<'s> {
    fn of(stored: &'s str, magic: &str) -> Option<Self> {
        let rest = stored.strip_prefix(magic)?;
        let (asked, rest) = match rest.strip_prefix("rounds=") {
            None => (None, rest),
            Some(rest) => {
                let (rounds, rest) = rest.split_once('$')?;
                (Some(number(rounds).filter(|rounds| ROUNDS.contains(rounds))?), rest)
            }
        };
        let salt = rest.split('$').next()?;
        let salt = salt.get(..salt.len().min(LONGEST_SALT))?;
        let rounds = asked.map(|rounds| format!("rounds={rounds}$")).unwrap_or_default();
        let prefix = format!("{magic}{rounds}{salt}$");
        Some(Self { prefix, salt: salt.as_bytes(), rounds: asked.unwrap_or(USUAL_ROUNDS) })
    }

    fn digest<D: Digest>(&self, password: &[u8]) -> Output<D> {
        let salt = self.salt;
        let inner = D::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
        let mut first = D::new().chain_update(password).chain_update(salt);
        for part in password.chunks(inner.len()) {
            first.update(&inner[..part.len()]);
        }
        let mut bits = password.len();
        while bits > 0 {
            first.update(if bits & 1 == 1 { &inner } else { password });
            bits >>= 1;
        }
        let mut digest = first.finalize();
        let passwords = stretched::<D>(password, password.len(), password.len());
        let salts = stretched::<D>(salt, 16 + usize::from(digest[0]), salt.len());
        for round in 0..self.rounds {
            let odd = round % 2 == 1;
            let mut next = D::new();
            next.update(if odd { &passwords } else { digest.as_slice() });
            if !round.is_multiple_of(3) {
                next.update(&salts);
            }
            if !round.is_multiple_of(7) {
                next.update(&passwords);
            }
            next.update(if odd { digest.as_slice() } else { &passwords });
            digest = next.finalize();
        }
        digest
    }
}

/// The digest of a text repeated `times`, repeated to `length` bytes.
fn stretched<D: Digest>(text: &[u8], times: usize, length: usize) -> Vec<u8> {
    let mut whole = D::new();
    for _ in 0..times {
        whole.update(text);
    }
    let digest = whole.finalize();
    digest.iter().copied().cycle().take(length).collect()
}

/// A decimal number without leading zeroes.
pub(crate) fn number(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    plain.then(|| text.parse().ok()).flatten()
}
