//! One conversation with a peer.
//!
//! Owns: what was told and heard in it, its buffers and times.
//! Never: calls anybody or accepts a call.
//! Driven by: the threads of `peers`.
//! Why: whoever is being taught by a peer tells it nothing until that is over, as HAProxy does it: what a process that has
//! just begun counts would take the place of all that the others know. And if each side wants to be taught by the other, the
//! one that called is taught first: both at once would hand one another what they had just said, older than it is by then.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_http::peers::{Fault, Message, TableDefinition, read, write};

use super::{Group, LEARNING, MOST_TABLES};
use crate::life::bell::Bell;

/// A peer says something at least this often.
const HEARTBEAT: Duration = Duration::from_secs(3);

/// One that says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(6);

/// Most bytes that wait to be sent before more is looked for.
const ENOUGH: usize = 64 << 10;

/// Entries of a group that are looked for at a time.
const AT_ONCE: usize = 256;

/// Most bytes that are not yet a message: a message, its beginning and what came behind it.
const MOST_IN: usize = 64 << 10;

/// Most marks of updates that nobody said to have heard yet.
const MOST_MARKS: usize = 64;

/// Whoever has heard this update of a table has heard of its changes up to these.
struct Mark {
    table: usize,
    update: u32,
    told: Vec<u64>,
}

/// A table that the other side defined.
struct Theirs {
    definition: TableDefinition<'static>,
    /// Ours, if we share it.
    ours: Option<usize>,
    /// The last update that was heard of it, and the last that was said to be heard.
    last: u32,
    said: u32,
}

/// See the module.
pub(super) struct Session<'a> {
    group: &'a Group,
    /// Where this peer stands among the others; `None`: it is this process's own name.
    member: Option<usize>,
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    theirs: HashMap<u64, Theirs>,
    /// The table that they talk of.
    theirs_now: Option<u64>,
    /// The table that we talk of.
    ours_now: Option<usize>,
    /// How far each group of each table was told, and how far it was heard.
    told: Vec<Vec<u64>>,
    known: Vec<Vec<u64>>,
    /// The last update of each table, and what hearing updates means, the oldest first.
    updates: Vec<u32>,
    marks: VecDeque<Mark>,
    /// Of each group of each table: up to which change all entries were told.
    taught: Vec<Vec<Option<u64>>>,
    /// We are being told everything, and heard something then last.
    learning: Option<Instant>,
    /// They were asked for everything, and did not give it.
    gave_up: bool,
    /// We called.
    calls: bool,
    /// They are being told everything: the table and the group that come next.
    teaching: Option<(usize, usize)>,
    spoke: Instant,
    heard: Instant,
}

impl<'a> Session<'a> {
    /// With somebody who was greeted. `left`: what came behind the greeting.
    pub(super) fn new(
        group: &'a Group,
        member: Option<usize>,
        stream: TcpStream,
        left: Vec<u8>,
        calls: bool,
    ) -> Self {
        let now = Instant::now();
        let heard = group.heard(member);
        let groups = || group.tables.iter().map(|table| table.table.groups());
        Self {
            group,
            member,
            stream,
            input: left,
            output: Vec::new(),
            theirs: HashMap::new(),
            theirs_now: None,
            ours_now: None,
            told: heard.clone(),
            known: heard,
            updates: vec![0; group.tables.len()],
            marks: VecDeque::new(),
            taught: groups().map(|count| vec![None; count]).collect(),
            learning: None,
            gave_up: false,
            calls,
            teaching: None,
            spoke: now,
            heard: now,
        }
    }

    /// Talks until one of both leaves, or `goes_on` says no. Woken by `bell`.
    pub(super) fn run(mut self, bell: &Bell, goes_on: impl Fn() -> bool) -> io::Result<()> {
        self.stream.set_nonblocking(true)?;
        self.stream.set_nodelay(true)?;
        loop {
            bell.reset();
            // After that: what it was rung for may have been the end.
            if !goes_on() {
                return Ok(());
            }
            if !self.gave_up && self.group.asks(self.member) {
                self.learning = Some(Instant::now());
                self.say(&Message::SyncRequest);
            }
            self.take_in().or_else(|fault| self.refuse(fault))?;
            if self.learning.is_some_and(|last| last.elapsed() >= LEARNING) {
                self.gave_up = true;
                self.was_taught(false);
            }
            self.tell();
            if self.output.is_empty() && self.spoke.elapsed() >= HEARTBEAT {
                self.say(&Message::Heartbeat);
            }
            self.flush()?;
            if self.heard.elapsed() >= SILENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.wait(bell);
            if !self.receive()? {
                return Ok(());
            }
        }
    }

    fn say(&mut self, message: &Message<'_>) {
        write(message, &mut self.output);
    }

    /// Says what is wrong, and leaves.
    fn refuse(&mut self, fault: Fault) -> io::Result<()> {
        self.group.note_fault(self.member);
        let said = match fault {
            Fault::Protocol => Message::ProtocolError,
            Fault::TooLong => Message::TooLong,
        };
        self.say(&said);
        let _ = self.flush();
        Err(io::ErrorKind::InvalidData.into())
    }

    fn wait(&self, bell: &Bell) {
        let more = self.teaches() && self.output.len() < ENOUGH;
        let patience = if more { Duration::ZERO } else { HEARTBEAT.saturating_sub(self.spoke.elapsed()) };
        let patience =
            Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
        let mut wanted = PollFlags::IN;
        if !self.output.is_empty() {
            wanted |= PollFlags::OUT;
        }
        let mut fds = [
            PollFd::from_borrowed_fd(self.stream.as_fd(), wanted),
            PollFd::from_borrowed_fd(bell.as_fd(), PollFlags::IN),
        ];
        // An interrupted wait is a wait that ended.
        let _ = poll(&mut fds, Some(&patience));
    }

    /// False: the other side left.
    fn receive(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 16 << 10];
        while self.input.len() < MOST_IN {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    self.heard = Instant::now();
                    self.input.extend_from_slice(&bytes[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.output.len() {
            match self.stream.write(&self.output[sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.spoke = Instant::now();
                    sent += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.drain(..sent);
        Ok(())
    }

    /// Obeys all messages that have arrived, and says up to where updates were heard.
    fn take_in(&mut self) -> Result<(), Fault> {
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[..];
        while let Some((message, length)) = read(rest)? {
            self.obey(message)?;
            rest = &rest[length..];
        }
        self.input = rest.to_vec();
        for (table, theirs) in &mut self.theirs {
            if theirs.ours.is_some() && theirs.last != theirs.said {
                theirs.said = theirs.last;
                write(&Message::Heard { table: *table, number: theirs.last }, &mut self.output);
            }
        }
        Ok(())
    }

    fn obey(&mut self, message: Message<'_>) -> Result<(), Fault> {
        match message {
            Message::SyncRequest => self.teaching = Some((0, 0)),
            Message::SyncFinished | Message::SyncPartial => {
                self.was_taught(message == Message::SyncFinished);
                self.say(&Message::SyncConfirmed);
            }
            Message::Table(definition) => self.define(&definition)?,
            Message::Switch(number) => {
                self.theirs_now = self.theirs.contains_key(&number).then_some(number);
            }
            Message::Update { number, expires_in, rest } => self.learn(number, expires_in, rest)?,
            // They hang up by themselves.
            Message::ProtocolError | Message::TooLong => self.group.note_fault(self.member),
            Message::Heard { table, number } => self.is_heard(table, number),
            Message::SyncConfirmed | Message::Heartbeat | Message::Unknown => {}
        }
        Ok(())
    }

    fn was_taught(&mut self, whole: bool) {
        self.learning = None;
        self.group.was_taught(self.member, whole);
    }

    /// They have heard this update of one of our tables, and those before it.
    fn is_heard(&mut self, table: u64, update: u32) {
        let before =
            |mark: &Mark| mark.table as u64 + 1 == table && update.wrapping_sub(mark.update) < 1 << 31;
        let Some(last) = self.marks.iter().rposition(before) else { return };
        let Some(mark) = self.marks.remove(last) else { return };
        self.known[mark.table] = mark.told;
        self.marks.retain(|mark| !before(mark));
        self.group.note_heard(self.member, &self.known);
    }

    /// There is something left to teach, and it is our turn.
    fn teaches(&self) -> bool {
        self.teaching.is_some() && !(self.calls && self.learning.is_some())
    }

    fn define(&mut self, definition: &TableDefinition<'_>) -> Result<(), Fault> {
        if self.theirs.len() >= MOST_TABLES && !self.theirs.contains_key(&definition.number) {
            return Err(Fault::TooLong);
        }
        let ours = self.group.tables.iter().position(|table| table.takes(definition));
        let kept = TableDefinition {
            number: definition.number,
            name: b"",
            key: definition.key,
            key_size: definition.key_size,
            fields: definition.fields.clone(),
            expire: definition.expire,
        };
        let (last, said) =
            self.theirs.get(&definition.number).map_or((0, 0), |known| (known.last, known.said));
        self.theirs.insert(definition.number, Theirs { definition: kept, ours, last, said });
        self.theirs_now = Some(definition.number);
        Ok(())
    }

    fn learn(&mut self, number: Option<u32>, expires_in: Option<u32>, rest: &[u8]) -> Result<(), Fault> {
        // Updates of a table that was never defined are of no use.
        let Some(theirs) = self.theirs_now.and_then(|now| self.theirs.get_mut(&now)) else { return Ok(()) };
        theirs.last = number.unwrap_or_else(|| theirs.last.wrapping_add(1));
        let entry = theirs.definition.entry(rest)?;
        if let Some(table) = theirs.ours.and_then(|ours| self.group.tables.get(ours)) {
            let told = match self.learning {
                Some(_) => &self.taught[theirs.ours.unwrap_or_default()][..],
                None => &[],
            };
            table.learn(&entry, expires_in, told, self.group.now());
            self.group.note_learnt(self.member);
        }
        self.learning = self.learning.map(|_| self.heard);
        Ok(())
    }

    /// Tells what changed here, and everything to whoever asked for it.
    fn tell(&mut self) {
        let now = self.group.now();
        for at in 0..self.group.tables.len() {
            let table = &self.group.tables[at];
            if table.receive_only {
                continue;
            }
            table.table.look();
            if self.learning.is_some() {
                continue;
            }
            let before = self.updates[at];
            for part in 0..table.table.groups() {
                while self.output.len() < ENOUGH {
                    let (entries, last) = table.table.changed(part, self.told[at][part], AT_ONCE, now);
                    if last == self.told[at][part] {
                        break;
                    }
                    self.told[at][part] = last;
                    for entry in &entries {
                        self.pass_on(at, entry);
                    }
                }
            }
            if self.updates[at] != before {
                self.mark(at);
            }
        }
        while let Some((at, part)) = self.teaching.filter(|_| self.teaches())
            && self.output.len() < ENOUGH
        {
            self.teaching = match self.group.tables.get(at) {
                Some(table) if !table.receive_only && part < table.table.groups() => {
                    let (entries, last) = table.table.entries(part, now);
                    self.taught[at][part] = Some(last);
                    for entry in entries {
                        self.pass_on(at, &entry);
                    }
                    Some((at, part + 1))
                }
                Some(_) => Some((at + 1, 0)),
                None => {
                    let whole = self.group.knows_all();
                    let said = if whole { Message::SyncFinished } else { Message::SyncPartial };
                    self.say(&said);
                    None
                }
            };
        }
    }

    fn pass_on(&mut self, at: usize, entry: &weir_policy::limit::StickEntry) {
        let table = &self.group.tables[at];
        if self.ours_now != Some(at) {
            self.ours_now = Some(at);
            write(&Message::Table(table.definition(at as u64 + 1)), &mut self.output);
        }
        self.updates[at] = self.updates[at].wrapping_add(1);
        table.tell(entry, self.updates[at], &mut self.output);
    }

    /// Notes what the last update of a table ends.
    fn mark(&mut self, at: usize) {
        if self.marks.len() >= MOST_MARKS {
            // Later is right, too, only less is known until then.
            let of_it = self.marks.iter().rposition(|mark| mark.table == at);
            self.marks.remove(of_it.unwrap_or(0));
        }
        self.marks.push_back(Mark { table: at, update: self.updates[at], told: self.told[at].clone() });
    }
}
