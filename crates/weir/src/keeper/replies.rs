//! What the data plane says to the keeper.
//!
//! Owns: the words, the pipe they come through, and the account of which are due.
//! Never: waits for a byte; keeps more than one line of [`MAX_LINE`] bytes; takes a word that was not asked for.
//! Driven by: `keeper::child` reads, `keeper::plane` writes.
//! Why: the data plane may have been taken over, and this is all of it that root's process looks at. So each reply
//! answers one order, and whoever says more is ended: there is no flood to bound. A pipe, because it carries no
//! descriptors: closing one that a stranger sent can block. Lines of JSON, because a pipe has no message borders.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};
use serde::{Deserialize, Serialize};

use crate::report::printable;

/// Most bytes of one reply, with its newline.
const MAX_LINE: usize = 16 << 10;

/// Most bytes of a reason or a status; JSON writes a byte as six at most.
const MAX_TEXT: usize = 2 << 10;

/// Most lines of a reason.
const MAX_LINES: usize = 32;

/// A reply.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FromPlane {
    /// Privileges are dropped; why the sandbox could not be had.
    Ready { unconfined: Option<String> },
    /// This generation serves.
    Applied { generation: u64 },
    /// It does not, and the one before still does.
    Refused { generation: u64, reason: String },
    /// Nothing is left to serve.
    Drained,
    /// The answer to `Status`.
    Status(String),
}

impl FromPlane {
    /// Text that is safe to log, and short.
    fn made_plain(self) -> Self {
        match self {
            Self::Refused { generation, reason } => {
                let lines: Vec<_> = cut(&reason).lines().take(MAX_LINES).map(printable).collect();
                Self::Refused { generation, reason: lines.join("\n") }
            }
            Self::Ready { unconfined } => {
                Self::Ready { unconfined: unconfined.map(|reason| printable(cut(&reason))) }
            }
            Self::Status(text) => Self::Status(printable(cut(&text))),
            other => other,
        }
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

/// Both ends of the pipe: the keeper's, which never blocks, and the data plane's.
pub(crate) fn pipe() -> io::Result<(Replies, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    // The flag belongs to this end alone; the other side cannot take it back.
    fcntl_setfl(&read, OFlags::NONBLOCK)?;
    Ok((Replies { pipe: read, lines: Lines::default(), due: Due::default() }, write))
}

/// The data plane's end.
pub(crate) struct Mouth {
    pipe: std::fs::File,
}

impl Mouth {
    pub(crate) fn new(pipe: OwnedFd) -> Self {
        Self { pipe: pipe.into() }
    }

    /// Says one word.
    pub(crate) fn say(&mut self, reply: FromPlane) -> io::Result<()> {
        let mut line = serde_json::to_vec(&reply.made_plain())?;
        line.push(b'\n');
        self.pipe.write_all(&line)
    }
}

/// The keeper's end.
pub(crate) struct Replies {
    pipe: OwnedFd,
    lines: Lines,
    /// What was asked for.
    pub(crate) due: Due,
}

/// What reading came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A reply that was due.
    Reply(FromPlane),
    /// Nothing more for now.
    Nothing,
    /// The other side has closed the pipe.
    Closed,
    /// It broke the rules, and should be ended.
    Nonsense(String),
}

impl Replies {
    /// Reads at most once, and takes the next reply. After anything but [`Heard::Reply`] come back later.
    pub(crate) fn hear(&mut self) -> Heard {
        if let Some(heard) = self.lines.next() {
            return self.judge(heard);
        }
        let mut chunk = [0; MAX_LINE];
        match rustix::io::read(&self.pipe, &mut chunk[..self.lines.room()]) {
            Ok(0) => return Heard::Closed,
            Ok(count) => self.lines.feed(&chunk[..count]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Heard::Nothing,
            Err(error) => return Heard::Nonsense(error.to_string()),
        }
        self.lines.next().map_or(Heard::Nothing, |heard| self.judge(heard))
    }

    fn judge(&mut self, heard: Result<FromPlane, String>) -> Heard {
        match heard {
            Ok(reply) if self.due.settle(&reply) => Heard::Reply(reply.made_plain()),
            Ok(_) => Heard::Nonsense("it answers what was not asked".into()),
            Err(reason) => Heard::Nonsense(printable(cut(&reason))),
        }
    }
}

impl AsFd for Replies {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

/// Bytes on their way to be replies.
#[derive(Default)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
}

impl Lines {
    /// Bytes that may be fed before the next line has to end.
    pub(crate) fn room(&self) -> usize {
        MAX_LINE - self.bytes.len()
    }

    /// Takes bytes, at most [`Self::room`].
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.room());
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole line; why it is none, or why there can be none.
    pub(crate) fn next(&mut self) -> Option<Result<FromPlane, String>> {
        let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') else {
            return (self.room() == 0).then(|| Err("a reply has no end".into()));
        };
        let reply = serde_json::from_slice(&self.bytes[..end]).map_err(|error| error.to_string());
        self.bytes.drain(..=end);
        Some(reply)
    }
}

/// Replies that orders have made due.
#[derive(Default)]
pub(crate) struct Due {
    ready: bool,
    generations: VecDeque<u64>,
    drained: bool,
    status: bool,
}

impl Due {
    /// `Begin` was sent.
    pub(crate) fn ready(&mut self) {
        self.ready = true;
    }

    /// `Apply` was sent.
    pub(crate) fn generation(&mut self, generation: u64) {
        self.generations.push_back(generation);
    }

    /// `Drain` was sent.
    pub(crate) fn drained(&mut self) {
        self.drained = true;
    }

    /// False if a status is due already: then it need not be asked for again.
    pub(crate) fn status(&mut self) -> bool {
        !std::mem::replace(&mut self.status, true)
    }

    /// Strikes `reply` out; false if it was not due.
    fn settle(&mut self, reply: &FromPlane) -> bool {
        let struck = |due: &mut bool| std::mem::take(due);
        match reply {
            FromPlane::Ready { .. } => struck(&mut self.ready),
            FromPlane::Drained => struck(&mut self.drained),
            FromPlane::Status(_) => struck(&mut self.status),
            FromPlane::Applied { generation } | FromPlane::Refused { generation, .. } => {
                let due = self.generations.front() == Some(generation);
                due && self.generations.pop_front().is_some()
            }
        }
    }
}

/// Good input for [`fuzz`]: how to cut it, then replies.
pub(crate) fn samples() -> Vec<Vec<u8>> {
    let replies = [
        FromPlane::Ready { unconfined: Some("no".into()) },
        FromPlane::Applied { generation: 7 },
        FromPlane::Status("2 workers\u{1b}".into()),
        FromPlane::Refused { generation: 8, reason: "one\ntwo".into() },
        FromPlane::Drained,
    ];
    let lines: Vec<u8> = replies
        .iter()
        .flat_map(|reply| [serde_json::to_vec(reply).unwrap_or_default(), b"\n".to_vec()].concat())
        .collect();
    [0_u8, 1, 40].iter().map(|cut| [&[*cut][..], &lines[..]].concat()).collect()
}

/// However the bytes arrive: no more than a line is kept, no reply is taken that was not due, and none is unprintable.
pub(crate) fn fuzz(bytes: &[u8]) {
    let Some((cut, bytes)) = bytes.split_first() else { return };
    let mut lines = Lines::default();
    let mut due = Due { ready: true, generations: [7, 8].into(), drained: true, status: true };
    let mut taken = 0;
    for piece in bytes.chunks(usize::from(*cut) + 1) {
        lines.feed(&piece[..piece.len().min(lines.room())]);
        while let Some(heard) = lines.next() {
            let Ok(reply) = heard else { return };
            if !due.settle(&reply) {
                return;
            }
            taken += 1;
            let (FromPlane::Status(text) | FromPlane::Refused { reason: text, .. }) = reply.made_plain()
            else {
                continue;
            };
            assert!(text.lines().count() <= MAX_LINES && text.len() <= 6 * MAX_TEXT);
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
        }
    }
    assert!(taken <= 5, "{taken} replies");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(due: impl FnOnce(&mut Due), bytes: &[u8]) -> Vec<Heard> {
        let (mut replies, write) = pipe().unwrap();
        due(&mut replies.due);
        std::fs::File::from(write).write_all(bytes).unwrap();
        let mut heard = Vec::new();
        loop {
            heard.push(replies.hear());
            if matches!(heard.last(), Some(Heard::Closed | Heard::Nonsense(_))) {
                return heard;
            }
        }
    }

    #[test]
    fn each_order_is_answered_once() {
        let (mut replies, write) = pipe().unwrap();
        let mut mouth = Mouth::new(write);
        assert_eq!(replies.hear(), Heard::Nothing);
        replies.due.ready();
        let ready = || FromPlane::Ready { unconfined: None };
        mouth.say(ready()).unwrap();
        assert_eq!(replies.hear(), Heard::Reply(ready()));
        assert!(replies.due.status() && !replies.due.status());
        mouth.say(FromPlane::Status("well".into())).unwrap();
        mouth.say(FromPlane::Status("well".into())).unwrap();
        assert_eq!(replies.hear(), Heard::Reply(FromPlane::Status("well".into())));
        assert!(matches!(replies.hear(), Heard::Nonsense(_)));
    }

    #[test]
    fn other_generations_and_rubbish_are_nonsense() {
        for bytes in
            [&b"{\"Applied\":{\"generation\":8}}\n"[..], b"\n", b"\"Drained\"\n", b"[[[[[[\n", b"\xff\n"]
        {
            assert!(matches!(*told(|due| due.generation(7), bytes), [Heard::Nonsense(_)]), "{bytes:?}");
        }
        let endless = vec![b' '; MAX_LINE + 1];
        assert!(matches!(told(|_| {}, &endless).last(), Some(Heard::Nonsense(_))));
    }

    #[test]
    fn text_is_short_and_without_control_characters() {
        let hostile = format!("a\n2026/01/01 [emerg] b\x1b[2J\r{}", "\n".repeat(100_000));
        let line = |reply: &FromPlane| [serde_json::to_vec(reply).unwrap(), b"\n".to_vec()].concat();
        let status = line(&FromPlane::Status(hostile[..4000].into()));
        let heard = told(|due| assert!(due.status()), &status);
        let [Heard::Reply(FromPlane::Status(text)), Heard::Closed] = &heard[..] else { panic!("{heard:?}") };
        assert!(
            text.starts_with("a\\n2026/01/01 [emerg] b\\u{1b}[2J\\r\\n")
                && !text.chars().any(char::is_control)
        );
        let reason = hostile[..4000].to_owned();
        let heard = told(|due| due.generation(2), &line(&FromPlane::Refused { generation: 2, reason }));
        let [Heard::Reply(FromPlane::Refused { reason, .. }), _] = &heard[..] else { panic!("{heard:?}") };
        assert!(reason.lines().count() <= MAX_LINES && reason.len() <= 6 * MAX_TEXT);
        // What an honest data plane says always fits.
        let (mut replies, write) = pipe().unwrap();
        replies.due.status();
        Mouth::new(write).say(FromPlane::Status("\u{1}\\\"".repeat(100_000))).unwrap();
        assert!(matches!(replies.hear(), Heard::Reply(FromPlane::Status(_))));
    }
}
