//! Who sends a request, by its credentials.
//!
//! Owns: the reading and keeping of password files, the choice of the stored form that a password is compared with.
//! Never: waits: a hash that is dear is a [`Question`] for the threads that verify.
//! Driven by: `admission::access`; conditions and programs (HAProxy's `http_auth`).
//! Why: a name that does not exist is compared like one that does, with the stored form of another user that stands for it:
//! the same kind and cost of hash, chosen by a secret, so that neither answers nor their time tell which names there are.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;

use weir_http::HeaderId;
use weir_password::Cost;
use weir_plan::{BasicAuth, Password, Users};

use super::text;
use crate::exchange::{Asking, Awaited, Exchange};
use crate::worker::passwords::Question;

/// Most bytes of a password file.
const LARGEST_FILE: u64 = 64 << 20;
/// Most files kept by a worker.
const KEPT_FILES: usize = 256;

/// What a request's credentials come to.
pub(crate) enum Look {
    /// The realm comes to `off`: nobody is asked.
    Open,
    /// There are none.
    Missing,
    /// They are a user's.
    Match,
    /// The user exists, the password is another.
    Mismatch,
    /// There is no such user, in this file.
    Unknown(Option<PathBuf>),
    /// The password is to be verified first; then look again.
    Ask(Box<Question>),
    /// The password file cannot be read.
    Unreadable(PathBuf, std::io::Error),
}

/// Looks at a request's credentials.
pub(crate) fn look(exchange: &mut Exchange, auth: &BasicAuth) -> Look {
    if text(exchange, &auth.realm) == b"off" {
        return Look::Open;
    }
    let given = exchange.request.fields.first(HeaderId::Authorization).and_then(weir_http::auth::basic);
    let Some(given) = given.filter(|given| !given.user.is_empty()) else { return Look::Missing };
    exchange.user = Some(given.user.clone());
    let (user, password) = (&given.user[..], &given.password[..]);
    match &auth.users {
        Users::List(users) => {
            let known = users.iter().position(|(name, _)| name.as_bytes() == user);
            let at = known.unwrap_or_else(|| exchange.worker.shared.passwords.place_of(user, users.len()));
            let unknown = known.is_none().then_some(None);
            match users.get(at).map(|(_, stored)| stored) {
                None => Look::Unknown(None),
                Some(Password::Plain(plain)) => {
                    cheap(weir_password::equal(plain.as_bytes(), password), unknown)
                }
                Some(Password::Crypt(stored)) => compare(exchange, (user, password), stored, unknown),
            }
        }
        Users::File(path) => {
            let path = PathBuf::from(std::ffi::OsString::from_vec(text(exchange, path)));
            let tell = |line: &str| exchange.worker.shared.log_process_error(line);
            let file = match password_file(&path, tell) {
                Ok(file) => file,
                Err(error) => return Look::Unreadable(path, error),
            };
            let known = file.places.get(user).copied();
            let at =
                known.unwrap_or_else(|| exchange.worker.shared.passwords.place_of(user, file.stored.len()));
            let unknown = known.is_none().then_some(Some(path));
            match file.stored.get(at) {
                None => Look::Unknown(unknown.flatten()),
                Some(stored) => compare(exchange, (user, password), stored, unknown),
            }
        }
    }
}

/// Whether credentials are a user's, for conditions. What has to be verified first is left in `exchange.asking`; once
/// there is an answer nobody is asked any more.
pub(crate) fn holds(exchange: &mut Exchange, auth: &BasicAuth) -> bool {
    match look(exchange, auth) {
        Look::Open | Look::Match => true,
        Look::Ask(question) => {
            if exchange.response.status == 0 {
                exchange.asking =
                    Some(Box::new(Asking { awaited: Awaited::Password(*question), place: Vec::new() }));
            }
            false
        }
        Look::Missing | Look::Mismatch | Look::Unknown(_) | Look::Unreadable(..) => false,
    }
}

/// Compares a password with a stored form: at once if that is cheap or known. `unknown`: the form is that of another user,
/// and nothing matches it.
fn compare(
    exchange: &Exchange,
    (user, password): (&[u8], &[u8]),
    stored: &str,
    unknown: Option<Option<PathBuf>>,
) -> Look {
    if weir_password::cost(stored) == Cost::Cheap {
        return cheap(weir_password::verify(stored, password), unknown);
    }
    if !weir_password::is_hashable(password) {
        return cheap(false, unknown);
    }
    let (worker, counts) = (&exchange.worker, unknown.is_none());
    let key = worker.shared.passwords.key(user, password, stored, counts);
    match worker.passwords.find(&key, worker.now()) {
        Some(matched) => cheap(matched, unknown),
        None => Look::Ask(Box::new(Question {
            key,
            stored: stored.into(),
            password: password.into(),
            counts,
            client: exchange.client_source().map(|(ip, _)| ip),
        })),
    }
}

fn cheap(matched: bool, unknown: Option<Option<PathBuf>>) -> Look {
    match unknown {
        Some(path) => Look::Unknown(path),
        None if matched => Look::Match,
        None => Look::Mismatch,
    }
}

/// A password file as read.
struct PasswordFile {
    modified: Option<SystemTime>,
    size: u64,
    stored: Vec<String>,
    /// Where the stored form of each name is.
    places: HashMap<Vec<u8>, usize>,
}

thread_local! {
    static FILES: RefCell<HashMap<PathBuf, Rc<PasswordFile>>> = RefCell::default();
}

/// A password file. It is read again when it has changed, and then told what is wrong with it.
fn password_file(path: &Path, tell: impl FnOnce(&str)) -> std::io::Result<Rc<PasswordFile>> {
    let facts = path.metadata()?;
    let modified = facts.modified().ok();
    FILES.with_borrow_mut(|files| {
        let fresh = files.get(path).filter(|file| file.modified == modified && file.size == facts.len());
        if let Some(fresh) = fresh {
            return Ok(fresh.clone());
        }
        let (stored, places) = read_users(&read(path)?);
        if let Some(line) = faults(path, &stored, &places) {
            tell(&line);
        }
        let file = Rc::new(PasswordFile { modified, size: facts.len(), stored, places });
        if files.len() >= KEPT_FILES {
            files.clear();
        }
        files.insert(path.to_owned(), file.clone());
        Ok(file)
    })
}

/// Whom no password lets in, and why: without a word they would look like users who mistype.
fn faults(path: &Path, stored: &[String], places: &HashMap<Vec<u8>, usize>) -> Option<String> {
    const MOST: usize = 5;
    let mut found: Vec<_> = places
        .iter()
        .filter_map(|(name, at)| {
            Some((*at, String::from_utf8_lossy(name), weir_password::fault(&stored[*at])?))
        })
        .collect();
    found.sort_by_key(|(at, ..)| *at);
    let told: Vec<String> = found.iter().take(MOST).map(|(_, name, why)| format!("{name}: {why}")).collect();
    let more =
        found.len().checked_sub(MOST + 1).map_or(String::new(), |more| format!("; and {} more", more + 1));
    let line = || format!("no password matches in \"{}\" for {}{more}", path.display(), told.join("; "));
    (!found.is_empty()).then(line)
}

/// Reads a file, but nothing that would make the worker wait (a pipe), or has no end.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let is_not = "it is no regular file of at most 64 MB";
    crate::files::open::whole(path, LARGEST_FILE, is_not).map(|(text, _)| text)
}

/// Lines `user:password[:comment]`; `#` begins a comment. The first line of a name counts.
fn read_users(text: &[u8]) -> (Vec<String>, HashMap<Vec<u8>, usize>) {
    let (mut stored, mut places) = (Vec::new(), HashMap::new());
    for line in text.split(|&b| b == b'\n') {
        let line = line.trim_ascii();
        if line.starts_with(b"#") {
            continue;
        }
        let mut parts = line.splitn(3, |&b| b == b':');
        if let (Some(user), Some(password)) = (parts.next(), parts.next())
            && !places.contains_key(user)
        {
            places.insert(user.to_vec(), stored.len());
            stored.push(String::from_utf8_lossy(password).into_owned());
        }
    }
    (stored, places)
}

/// Each name has one stored form, and no form is shared.
pub(crate) fn fuzz(data: &[u8]) {
    let (stored, places) = read_users(data);
    assert_eq!(stored.len(), places.len());
    assert!(places.values().all(|at| *at < stored.len()));
    for form in &stored {
        let _ = (weir_password::cost(form), weir_password::fault(form));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_password_files() {
        let (stored, places) = read_users(b"# all\nann:{PLAIN}a:note\r\nbob:x\nbroken\nann:later\n");
        assert_eq!(places.len(), 2);
        assert_eq!(stored[places[&b"ann"[..]]], "{PLAIN}a");
    }

    #[test]
    fn stored_forms_that_match_nothing_are_told() {
        let told = |text: &[u8]| {
            let (stored, places) = read_users(text);
            faults(Path::new("/p"), &stored, &places)
        };
        assert_eq!(told(b"ann:$y$j9T$abcd$x\nbob:!\neve:$6$a$b\n"), None);
        let line = told(b"ann:$argon2id$v=19$x\nbob:$6$a$b\neve:$y$jFT$abcd$x\n").unwrap();
        assert!(
            line.contains("ann: a form that is not known")
                && line.contains("eve: verifying it takes more than 64 MB")
        );
        let many: String = (0..9).map(|n| format!("u{n}:$3$$x\n")).collect();
        assert!(told(many.as_bytes()).unwrap().ends_with("; and 4 more"));
    }

    #[test]
    fn a_pipe_is_no_password_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(password_file(&path, |_| ()).is_err(), "and nobody waits for its writer");
    }
}
