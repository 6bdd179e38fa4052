//! The runtime command line of a proxy in HAProxy's words.
//!
//! Owns: asking it on its unix socket, of which the files of tests call it `{dir}/cli.sock`.
//! Driven by: tests of both programs.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::{Deadline, Running};

/// What is answered to these lines, until the other side ends.
///
/// # Panics
/// When there is no such socket, or no end of the answer.
#[must_use]
#[track_caller]
pub fn ask(proxy: &Running, lines: &str) -> String {
    ask_at(&proxy.dir().join("cli.sock"), lines)
}

/// As [`ask`], of a socket elsewhere.
///
/// # Panics
/// When there is no such socket, or no end of the answer.
#[must_use]
#[track_caller]
pub fn ask_at(path: &Path, lines: &str) -> String {
    let mut stream = connect(path);
    stream.write_all(lines.as_bytes()).expect("it reads");
    if !lines.ends_with('\n') {
        stream.write_all(b"\n").expect("it reads");
    }
    stream.shutdown(Shutdown::Write).expect("it is connected");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer that ends");
    answer
}

/// A session. Ports that listen say nothing of the socket yet, so it is waited for.
#[track_caller]
fn connect(path: &Path) -> UnixStream {
    let deadline = Deadline::standard();
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => {
                stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time that is not 0");
                return stream;
            }
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                assert!(!deadline.passed(), "nobody listens at {}: {error}", path.display());
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => panic!("cannot connect to {}: {error}", path.display()),
        }
    }
}
