//! An endpoint that follows a script.

use std::io::Read as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// Longer than anything here takes on a busy machine: whoever waits so long waits for ever.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `script` for each request of `connections`, with its head and the stream behind it. A connection ends once a
/// script says so, or its client did.
pub(super) fn origin(
    listener: &UnixListener,
    connections: usize,
    script: impl Fn(&str, &mut UnixStream) -> Then + Send + 'static,
) {
    let listener = listener.try_clone().unwrap();
    std::thread::spawn(move || {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            while let Some(head) = head(&mut stream) {
                if script(&head, &mut stream) == Then::Close {
                    break;
                }
            }
        }
    });
}

/// What becomes of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Keep,
    Close,
}

/// Reads up to the empty line; `None`: nothing comes any more.
pub(super) fn head(stream: &mut UnixStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

/// Reads so many bytes.
pub(super) fn bytes(stream: &mut UnixStream, count: usize) -> Vec<u8> {
    let mut read = vec![0; count];
    stream.read_exact(&mut read).unwrap();
    read
}
