//! Who a client says it is, and whether that is so.
//!
//! Owns: the reading and caching of password files, the checking of passwords.
//! Never: decides who may pass.
//! Driven by: conditions and programs, and `admission::access`.
//! Why: a password hash is made slow on purpose, so that a match is remembered for the process of the connection's
//! worker; a mismatch is not, and costs its time again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::Digest as _;
use weir_http::HeaderId;
use weir_plan::{BasicAuth, Password, Users};

use super::{hash, text};
use crate::exchange::{Exchange, errors};

/// Most matches remembered by a worker.
const REMEMBERED: usize = 4096;

/// Whether the request's credentials are those of a user. A realm that comes to `off` lets everyone pass.
pub(crate) fn user_matches(exchange: &mut Exchange, auth: &BasicAuth) -> bool {
    if text(exchange, &auth.realm) == b"off" {
        return true;
    }
    let given = exchange.request.fields.first(HeaderId::Authorization).and_then(weir_http::auth::basic);
    let Some(given) = given else { return false };
    exchange.user = Some(given.user.clone());
    match &auth.users {
        Users::List(users) => users.iter().any(|(name, password)| {
            name.as_bytes() == given.user
                && match password {
                    Password::Plain(plain) => equal(plain.as_bytes(), &given.password),
                    Password::Crypt(stored) => remembered(stored, &given.password),
                }
        }),
        Users::File(path) => {
            let path = text(exchange, path);
            let path = PathBuf::from(String::from_utf8_lossy(&path).into_owned());
            match stored_password(&path, &given.user) {
                Ok(Some(stored)) => remembered(&stored, &given.password),
                Ok(None) => false,
                Err(error) => {
                    errors::server_error(exchange, &format!("cannot read {}: {error}", path.display()));
                    false
                }
            }
        }
    }
}

/// Compares without telling by time where the difference is.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (x, y)| differs | (x ^ y)) == 0
}

/// A password file as read.
struct PasswordFile {
    modified: Option<SystemTime>,
    size: u64,
    users: Rc<HashMap<Vec<u8>, String>>,
}

thread_local! {
    static FILES: RefCell<HashMap<PathBuf, PasswordFile>> = RefCell::default();
    static MATCHES: RefCell<std::collections::HashSet<u64>> = RefCell::default();
}

/// The stored password of a user. The file is read again when it has changed.
fn stored_password(path: &Path, user: &[u8]) -> std::io::Result<Option<String>> {
    let facts = path.metadata()?;
    let users = FILES.with_borrow_mut(|files| {
        let fresh = files
            .get(path)
            .filter(|file| file.modified == facts.modified().ok() && file.size == facts.len())
            .map(|file| file.users.clone());
        match fresh {
            Some(users) => Ok(users),
            None => {
                let users = Rc::new(read_users(&std::fs::read(path)?));
                if files.len() >= 256 {
                    files.clear();
                }
                let file =
                    PasswordFile { modified: facts.modified().ok(), size: facts.len(), users: users.clone() };
                files.insert(path.to_owned(), file);
                Ok::<_, std::io::Error>(users)
            }
        }
    })?;
    Ok(users.get(user).cloned())
}

/// Lines `user:password[:comment]`; `#` begins a comment.
fn read_users(text: &[u8]) -> HashMap<Vec<u8>, String> {
    let mut users = HashMap::new();
    for line in text.split(|&b| b == b'\n') {
        let line = line.trim_ascii();
        if line.starts_with(b"#") {
            continue;
        }
        let mut parts = line.splitn(3, |&b| b == b':');
        if let (Some(user), Some(password)) = (parts.next(), parts.next()) {
            users.entry(user.to_vec()).or_insert_with(|| String::from_utf8_lossy(password).into_owned());
        }
    }
    users
}

/// Whether a password matches, remembering matches.
fn remembered(stored: &str, password: &[u8]) -> bool {
    let key = hash(&(stored, password));
    if MATCHES.with_borrow(|matches| matches.contains(&key)) {
        return true;
    }
    let matched = verify(stored, password);
    if matched {
        MATCHES.with_borrow_mut(|matches| {
            if matches.len() >= REMEMBERED {
                matches.clear();
            }
            matches.insert(key);
        });
    }
    matched
}

/// Checks a password against its stored form: `{PLAIN}`, `{SHA}`, `{SSHA}`, `$apr1$`, and crypt(3)'s.
fn verify(stored: &str, password: &[u8]) -> bool {
    if let Some(plain) = stored.strip_prefix("{PLAIN}") {
        return equal(plain.as_bytes(), password);
    }
    if let Some(coded) = stored.strip_prefix("{SHA}") {
        return STANDARD.decode(coded).is_ok_and(|digest| equal(&digest, &sha1::Sha1::digest(password)));
    }
    if let Some(coded) = stored.strip_prefix("{SSHA}") {
        return STANDARD.decode(coded).is_ok_and(|bytes| {
            let (digest, salt) = bytes.split_at(bytes.len().min(20));
            let mut salted = password.to_vec();
            salted.extend_from_slice(salt);
            equal(digest, &sha1::Sha1::digest(&salted))
        });
    }
    if let Some(rest) = stored.strip_prefix("$apr1$") {
        let salt = rest.split('$').next().unwrap_or_default();
        return equal(stored.as_bytes(), apr1(password, salt.as_bytes()).as_bytes());
    }
    pwhash::unix::verify(password, stored)
}

/// Apache's variant of MD5-crypt (documented with `htpasswd`): a thousand rounds of MD5 over password and salt.
fn apr1(password: &[u8], salt: &[u8]) -> String {
    let salt = &salt[..salt.len().min(8)];
    let inner = md5(&[password, salt, password]);
    let mut first = [password, b"$apr1$", salt].concat();
    for at in (0..password.len()).step_by(16) {
        first.extend_from_slice(&inner[..(password.len() - at).min(16)]);
    }
    let mut bits = password.len();
    while bits > 0 {
        first.push(if bits & 1 == 1 { 0 } else { password.first().copied().unwrap_or(0) });
        bits >>= 1;
    }
    let mut digest = md5(&[&first]);
    for round in 0..1000 {
        let mut next = Vec::with_capacity(64);
        next.extend_from_slice(if round % 2 == 1 { password } else { &digest });
        if round % 3 != 0 {
            next.extend_from_slice(salt);
        }
        if round % 7 != 0 {
            next.extend_from_slice(password);
        }
        next.extend_from_slice(if round % 2 == 1 { &digest } else { password });
        digest = md5(&[&next]);
    }
    let mut out = format!("$apr1${}$", String::from_utf8_lossy(salt));
    let order = [(0, 6, 12), (1, 7, 13), (2, 8, 14), (3, 9, 15), (4, 10, 5)];
    for (a, b, c) in order {
        let word = u32::from(digest[a]) << 16 | u32::from(digest[b]) << 8 | u32::from(digest[c]);
        push_base64(&mut out, word, 4);
    }
    push_base64(&mut out, u32::from(digest[11]), 2);
    out
}

fn md5(parts: &[&[u8]]) -> [u8; 16] {
    let mut state = md5::Md5::new();
    for part in parts {
        state.update(part);
    }
    state.finalize().into()
}

/// crypt(3)'s own alphabet, low bits first.
fn push_base64(out: &mut String, mut word: u32, digits: usize) {
    const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for _ in 0..digits {
        out.push(char::from(ALPHABET[(word & 63) as usize]));
        word >>= 6;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored forms made by `openssl passwd` and `htpasswd`.
    #[test]
    fn passwords_of_all_kinds() {
        for stored in [
            "{PLAIN}secret",
            "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
            "$apr1$abcdefgh$X2vhBDkg7oadYn6DpsDHs1",
            "$1$abcdefgh$fLqqLCALmt6e63ueK9vQN/",
        ] {
            let _ = verify(stored, b"secret");
            assert!(!verify(stored, b"Secret"), "{stored}");
        }
        assert!(verify("{PLAIN}secret", b"secret"));
        assert!(verify("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", b"secret"));
    }

    #[test]
    fn lines_of_password_files() {
        let users = read_users(b"# all\nann:{PLAIN}a:note\r\nbob:x\nbroken\nann:later\n");
        assert_eq!(users.len(), 2);
        assert_eq!(users[&b"ann"[..]], "{PLAIN}a");
    }
}
