//! yescrypt: `$y$` (Alexander Peslyak, "yescrypt - scalable KDF and password hashing scheme"), which Debian, Fedora and others
//! make by default.
//!
//! Why a bound: a stored form says how much memory one verification takes, up to terabytes. Of its settings those are
//! taken that crypt(3) makes: `j`, which is its native mode, then N and r, one digit each; p and t are never written.

use yescrypt::{Mode, Params};

use crate::alphabet::{low_bytes, push_low_bytes, value};

/// Most bytes that one verification may take: four times those of Debian's default (cost 5), which are those of cost 7.
pub(crate) const MOST_MEMORY: u64 = 64 << 20;

/// Bytes of a salt that crypt(3) takes.
const LONGEST_SALT: usize = 64;

/// What is stored for a password with the settings and salt of `stored`.
pub(crate) fn crypt(stored: &str, password: &[u8]) -> Option<String> {
    let settings = Settings::of(stored)?;
    let params =
        Params::new(Mode::Rw, settings.n, settings.r, 1).ok().filter(|_| settings.memory() <= MOST_MEMORY)?;
    let mut digest = [0; 32];
    yescrypt::yescrypt(password, &settings.salt, &params, &mut digest).ok()?;
    let mut out = format!("{}$", settings.prefix);
    push_low_bytes(&mut out, &digest);
    Some(out)
}

/// The memory that verifying such a form takes; `None` if it is not understood.
pub(crate) fn memory(stored: &str) -> Option<u64> {
    Settings::of(stored).map(|settings| settings.memory())
}

struct Settings<'s> {
    /// All that stands before the digest.
    prefix: &'s str,
    n: u64,
    r: u32,
    salt: Vec<u8>,
}

impl<'s> Settings<'s> {
    fn of(stored: &'s str) -> Option<Self> {
        let (settings, rest) = stored.strip_prefix("$y$")?.split_once('$')?;
        let &[b'j', n, r] = settings.as_bytes() else { return None };
        // One digit has 48 values; from there on it begins a longer number.
        let digit = |byte| value(byte).filter(|value| *value < 48);
        let n = 1u64.checked_shl(digit(n)? + 1)?;
        let text = rest.split('$').next()?;
        let salt = low_bytes(text.as_bytes()).filter(|salt| salt.len() <= LONGEST_SALT)?;
        let prefix = &stored[.."$y$$".len() + settings.len() + text.len()];
        Some(Self { prefix, n, r: digit(r)? + 1, salt })
    }

    fn memory(&self) -> u64 {
        self.n.saturating_mul(128 * u64::from(self.r))
    }
}
