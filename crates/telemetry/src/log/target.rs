//! One place that lines go to.
//!
//! Owns: the open file or socket, the bytes waiting for it, the count of what was dropped.
//! Never: writes from a worker; only writer threads touch the open end.
//! Driven by: `LogHub`.
//! Why: every trouble with a target stays with it: others go on.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::mpsc::Sender;

use super::hub::{Message, Opener};
use super::pool::{Pool, PoolSpec};
use super::ring::{Ring, RingSpec};
use super::syslog::{SyslogAddress, SyslogSocket};

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TargetSpec {
    /// A file, appended to, made if missing; a FIFO works too.
    File(PathBuf),
    /// The process's standard error.
    Stderr,
    /// A syslog daemon.
    Syslog(SyslogAddress),
    /// A ring in memory, and whoever it passes lines on to.
    Ring(RingSpec),
    /// Servers that share the lines.
    Pool(PoolSpec),
}

impl std::fmt::Display for TargetSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Stderr => f.write_str("stderr"),
            Self::Syslog(SyslogAddress::Udp(to)) => write!(f, "syslog {to}"),
            Self::Syslog(SyslogAddress::Unix(path)) => write!(f, "syslog {}", path.display()),
            Self::Ring(ring) => write!(f, "ring {}", ring.name),
            Self::Pool(pool) => write!(f, "log backend {}", pool.name),
        }
    }
}

/// Whole lines on their way: in a file each ends with a newline, for syslog the ends tell messages apart.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<u32>,
    /// How long the head of each message is; empty where nobody asks.
    pub(super) heads: Vec<u32>,
}

/// A place that lines go to; made by `LogHub::target`.
#[derive(Debug)]
pub struct LogTarget {
    pub(super) spec: TargetSpec,
    pub(super) queue: Sender<Message>,
    pub(super) room: usize,
    /// Bytes handed over and not written yet.
    pub(super) waiting: AtomicUsize,
    pub(super) dropped: AtomicU64,
    /// In trouble, and told so.
    pub(super) troubled: AtomicBool,
    pub(super) all_dropped: Arc<AtomicU64>,
}

impl LogTarget {
    /// Where it goes.
    pub fn spec(&self) -> &TargetSpec {
        &self.spec
    }

    /// Lines that could not be written, or not even be queued.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Hands lines over. Full queue: they are dropped, and counted.
    pub(super) fn submit(self: &Arc<Self>, batch: Batch) {
        let (size, lines) = (batch.bytes.len(), batch.ends.len() as u64);
        if self.waiting.load(Relaxed) + size > self.room {
            self.drop_lines(lines);
            return;
        }
        self.waiting.fetch_add(size, Relaxed);
        if self.queue.send(Message::Write(Arc::clone(self), batch)).is_err() {
            // The hub has ended: nobody is left to write.
            self.drop_lines(lines);
        }
    }

    pub(super) fn drop_lines(&self, lines: u64) {
        self.dropped.fetch_add(lines, Relaxed);
        self.all_dropped.fetch_add(lines, Relaxed);
    }
}

/// The open end.
#[derive(Debug)]
pub(super) enum Output {
    File(File),
    Stderr,
    Syslog(SyslogSocket),
    Ring(Arc<Ring>),
    Pool(Pool),
}

impl Output {
    pub(super) fn open(spec: &TargetSpec, opener: &Opener) -> io::Result<Self> {
        match spec {
            TargetSpec::File(path) => opener(path).map(Self::File),
            TargetSpec::Stderr => Ok(Self::Stderr),
            TargetSpec::Syslog(address) => SyslogSocket::open(address).map(Self::Syslog),
            TargetSpec::Ring(ring) => Ring::start(ring.clone()).map(Self::Ring),
            TargetSpec::Pool(pool) => Pool::open(pool).map(Self::Pool),
        }
    }

    /// Writes lines; the number lost, with the first error.
    pub(super) fn write(&mut self, batch: &Batch) -> (u64, Option<io::Error>) {
        match self {
            Self::File(file) => write_lines(file, batch),
            Self::Stderr => write_lines(&mut io::stderr().lock(), batch),
            Self::Syslog(socket) => each(batch, |message, _| socket.send(message)),
            Self::Pool(pool) => each(batch, |message, head| pool.send(message, head)),
            Self::Ring(ring) => each(batch, |message, _| {
                ring.write(message.strip_suffix(b"\n").unwrap_or(message));
                Ok(())
            }),
        }
    }

    /// The rings that lines wait in.
    pub(super) fn rings(&self) -> Vec<Arc<Ring>> {
        match self {
            Self::Ring(ring) => vec![ring.clone()],
            Self::Pool(pool) => pool.rings().cloned().collect(),
            _ => Vec::new(),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Self::Ring(ring) = self {
            ring.end();
        }
    }
}

/// Sends messages one by one; the number lost, with the first error.
fn each(batch: &Batch, mut send: impl FnMut(&[u8], usize) -> io::Result<()>) -> (u64, Option<io::Error>) {
    let mut lost = (0, None);
    for (at, message) in messages(batch).enumerate() {
        let head = batch.heads.get(at).map_or(0, |head| *head as usize);
        if let Err(error) = send(message, head) {
            lost.0 += 1;
            lost.1.get_or_insert(error);
        }
    }
    lost
}

fn messages(batch: &Batch) -> impl Iterator<Item = &[u8]> {
    let starts = std::iter::once(0).chain(batch.ends.iter().copied());
    starts.zip(&batch.ends).map(|(start, &end)| &batch.bytes[start as usize..end as usize])
}

/// One write for all lines, so that with O_APPEND they stay whole beside other writers. After an error the rest is
/// lost; a line that went out in part is ended, so that the next begins on its own.
fn write_lines(out: &mut impl Write, batch: &Batch) -> (u64, Option<io::Error>) {
    let mut written = 0;
    let error = loop {
        if written == batch.bytes.len() {
            return (0, None);
        }
        match out.write(&batch.bytes[written..]) {
            Ok(0) => break io::ErrorKind::WriteZero.into(),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break error,
        }
    };
    if written > 0 && batch.bytes[written - 1] != b'\n' {
        let _ = out.write(b"\n");
    }
    let whole = batch.ends.partition_point(|&end| end as usize <= written);
    ((batch.ends.len() - whole) as u64, Some(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes, then has no space left.
    struct Full(Vec<u8>, usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let free = self.1.saturating_sub(self.0.len()).min(bytes.len());
            if free == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.extend_from_slice(&bytes[..free]);
            Ok(free)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn batch() -> Batch {
        Batch { bytes: b"one\ntwo\nthree\n".to_vec(), ends: vec![4, 8, 14], heads: Vec::new() }
    }

    #[test]
    fn a_full_disk_costs_the_lines_that_did_not_fit() {
        for (room, lost) in [(100, 0), (14, 0), (10, 1), (8, 1), (5, 2), (0, 3)] {
            let mut out = Full(Vec::new(), room);
            let (dropped, error) = write_lines(&mut out, &batch());
            assert_eq!((dropped, error.is_some()), (lost, lost > 0), "room for {room}");
        }
    }

    #[test]
    fn messages_are_told_apart_by_their_ends() {
        let batch = batch();
        let all: Vec<_> = messages(&batch).collect();
        assert_eq!(all, [&b"one\n"[..], b"two\n", b"three\n"]);
    }
}
