//! HAProxy's peers protocol, version 2.1: what is said, and nothing of when to say it.
//!
//! Owns: the lines of the handshake, numbers, messages, and entries by the definition of their table.
//! Never: reads past what arrived; believes a length; knows a table of ours.
//! Driven by: the threads that talk to peers.
//! Why: rates and counters that several load balancers share are enforced by each; HAProxy's own peers take part.
//!
//! ```text
//!   HAProxyS 2.1 ⏎ remote ⏎ local pid 1 ⏎   →        ←   200 ⏎
//!   class type                       control messages and errors
//!   10    type length payload        about tables: definition, switch, update, acknowledgement
//! ```

mod entry;
mod number;

pub use entry::{Entry, Field, Kind, TableDefinition, Value};
pub use number::{read_number, write_number};

/// The newest version that is spoken.
pub const VERSION: &str = "2.1";

/// The first word of the first line.
const NAME: &str = "HAProxyS";

/// Longest message: HAProxy's fit a buffer of 16 KB.
pub const MOST: usize = 16 << 10;

/// Longest line of the handshake.
const LONGEST_LINE: usize = 512;

/// What the one who was called answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It goes on.
    Agreed,
    /// Later.
    TryAgain,
    /// That was no handshake.
    Protocol,
    /// Not this version.
    Version,
    /// It is not the one who was called.
    NotMe,
    /// It does not know who calls.
    Stranger,
}

impl Status {
    const ALL: [(Self, u16); 6] = [
        (Self::Agreed, 200),
        (Self::TryAgain, 300),
        (Self::Protocol, 501),
        (Self::Version, 502),
        (Self::NotMe, 503),
        (Self::Stranger, 504),
    ];

    /// Its number.
    pub fn code(self) -> u16 {
        Self::ALL.iter().find(|(known, _)| *known == self).map_or(501, |(_, code)| *code)
    }

    /// The line that says it.
    pub fn line(self) -> String {
        format!("{}\n", self.code())
    }

    /// From a line; what is unknown is a refusal.
    pub fn of(line: &str) -> Self {
        let code = line.trim().parse::<u16>().unwrap_or_default();
        Self::ALL.iter().find(|(_, known)| *known == code).map_or(Self::Protocol, |(status, _)| *status)
    }
}

/// What a caller says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The minor version of 2 that it speaks.
    pub minor: u32,
    /// Whom it wants.
    pub to: String,
    /// Who it is.
    pub from: String,
}

impl Hello {
    /// The lines of a caller.
    pub fn lines(to: &str, from: &str, pid: u32) -> String {
        format!("{NAME} {VERSION}\n{to}\n{from} {pid} 1\n")
    }

    /// Reads three lines; `None`: they have not all arrived. The number is that of their bytes.
    ///
    /// # Errors
    /// What to answer.
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, Status> {
        let mut lines: [&str; 3] = [""; 3];
        let mut at = 0;
        for line in &mut lines {
            match line_at(bytes, at)? {
                Some((text, next)) => (*line, at) = (text, next),
                None => return Ok(None),
            }
        }
        let [version, to, from] = lines;
        let version = version.strip_prefix(NAME).and_then(|rest| rest.strip_prefix(' '));
        let (major, minor) = version.and_then(|text| text.split_once('.')).ok_or(Status::Protocol)?;
        if major != "2" {
            return Err(Status::Version);
        }
        let minor = minor.parse::<u32>().map_err(|_| Status::Protocol)?;
        let from = from.split(' ').next().unwrap_or_default();
        if to.is_empty() || from.is_empty() {
            return Err(Status::Protocol);
        }
        Ok(Some((Self { minor, to: to.to_owned(), from: from.to_owned() }, at)))
    }
}

/// The status line of the one who was called; `None`: it has not arrived.
///
/// # Errors
/// It is no line.
pub fn read_status(bytes: &[u8]) -> Result<Option<(Status, usize)>, Status> {
    Ok(line_at(bytes, 0)?.map(|(line, next)| (Status::of(line), next)))
}

/// The line at a place, and where the next one begins.
fn line_at(bytes: &[u8], at: usize) -> Result<Option<(&str, usize)>, Status> {
    let rest = bytes.get(at..).unwrap_or_default();
    let Some(end) = rest.iter().take(LONGEST_LINE).position(|byte| *byte == b'\n') else {
        return if rest.len() >= LONGEST_LINE { Err(Status::Protocol) } else { Ok(None) };
    };
    let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
    let text = std::str::from_utf8(line).map_err(|_| Status::Protocol)?;
    Ok(Some((text, at + end + 1)))
}

/// What ends a connection: the other side is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It makes no sense.
    Protocol,
    /// It is longer than a message may be.
    TooLong,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Teach me all that you have.
    SyncRequest,
    /// That was all.
    SyncFinished,
    /// That was all, and it is not all that there is.
    SyncPartial,
    /// All was heard.
    SyncConfirmed,
    /// I am here.
    Heartbeat,
    /// What you said makes no sense.
    ProtocolError,
    /// What you said is too long.
    TooLong,
    /// Updates that follow are of this table.
    Table(TableDefinition<'a>),
    /// Updates that follow are of a table that was defined, by the sender's number.
    Switch(u64),
    /// An entry: the number of the update, if it is said; milliseconds until it expires, if they are said; and the rest, which
    /// [`TableDefinition::entry`] reads.
    Update {
        /// The number; `None`: one more than the last one.
        number: Option<u32>,
        /// Milliseconds.
        expires_in: Option<u32>,
        /// Key and values.
        rest: &'a [u8],
    },
    /// Updates up to this one were heard, of the receiver's table of this number.
    Heard {
        /// The table.
        table: u64,
        /// The update.
        number: u32,
    },
    /// Nothing that is understood, and may be passed over.
    Unknown,
}

const CONTROL: u8 = 0;
const ERROR: u8 = 1;
const TABLES: u8 = 10;

const UPDATE: u8 = 128;
const INCREMENTAL: u8 = 129;
const DEFINITION: u8 = 130;
const SWITCH: u8 = 131;
const HEARD: u8 = 132;
const TIMED: u8 = 133;
const TIMED_INCREMENTAL: u8 = 134;

/// The next message and its length; `None`: it has not all arrived.
///
/// # Errors
/// It makes no sense.
pub fn read(bytes: &[u8]) -> Result<Option<(Message<'_>, usize)>, Fault> {
    let &[class, kind, ref rest @ ..] = bytes else { return Ok(None) };
    if kind < 128 {
        let message = match (class, kind) {
            (CONTROL, 0) => Message::SyncRequest,
            (CONTROL, 1) => Message::SyncFinished,
            (CONTROL, 2) => Message::SyncPartial,
            (CONTROL, 3) => Message::SyncConfirmed,
            (CONTROL, 4) => Message::Heartbeat,
            (ERROR, 0) => Message::ProtocolError,
            (ERROR, 1) => Message::TooLong,
            _ => Message::Unknown,
        };
        return Ok(Some((message, 2)));
    }
    let Some((length, after)) = read_number(rest)? else { return Ok(None) };
    let length = usize::try_from(length).ok().filter(|length| *length <= MOST).ok_or(Fault::TooLong)?;
    let Some(payload) = after.get(..length) else { return Ok(None) };
    let whole = bytes.len() - after.len() + length;
    let message = match (class, kind) {
        (TABLES, DEFINITION) => Message::Table(TableDefinition::read(payload)?),
        (TABLES, SWITCH) => Message::Switch(whole_number(payload)?.0),
        (TABLES, HEARD) => {
            let (table, rest) = whole_number(payload)?;
            Message::Heard { table, number: word(rest)?.0 }
        }
        (TABLES, UPDATE) => {
            let (number, rest) = word(payload)?;
            Message::Update { number: Some(number), expires_in: None, rest }
        }
        (TABLES, INCREMENTAL) => Message::Update { number: None, expires_in: None, rest: payload },
        (TABLES, TIMED) => {
            let (number, rest) = word(payload)?;
            let (expires_in, rest) = word(rest)?;
            Message::Update { number: Some(number), expires_in: Some(expires_in), rest }
        }
        (TABLES, TIMED_INCREMENTAL) => {
            let (expires_in, rest) = word(payload)?;
            Message::Update { number: None, expires_in: Some(expires_in), rest }
        }
        _ => Message::Unknown,
    };
    Ok(Some((message, whole)))
}

/// A number that has to be there.
fn whole_number(bytes: &[u8]) -> Result<(u64, &[u8]), Fault> {
    read_number(bytes)?.ok_or(Fault::Protocol)
}

/// Four bytes in network order.
fn word(bytes: &[u8]) -> Result<(u32, &[u8]), Fault> {
    let (word, rest) = bytes.split_first_chunk::<4>().ok_or(Fault::Protocol)?;
    Ok((u32::from_be_bytes(*word), rest))
}

/// Writes a message. Updates and definitions have functions of their own.
pub fn write(message: &Message<'_>, out: &mut Vec<u8>) {
    match message {
        Message::SyncRequest => out.extend([CONTROL, 0]),
        Message::SyncFinished => out.extend([CONTROL, 1]),
        Message::SyncPartial => out.extend([CONTROL, 2]),
        Message::SyncConfirmed => out.extend([CONTROL, 3]),
        Message::Heartbeat => out.extend([CONTROL, 4]),
        Message::ProtocolError => out.extend([ERROR, 0]),
        Message::TooLong => out.extend([ERROR, 1]),
        Message::Table(definition) => write_with(DEFINITION, out, |payload| definition.write(payload)),
        Message::Switch(table) => write_with(SWITCH, out, |payload| write_number(*table, payload)),
        Message::Heard { table, number } => write_with(HEARD, out, |payload| {
            write_number(*table, payload);
            payload.extend(number.to_be_bytes());
        }),
        Message::Update { number, expires_in, rest } => {
            let kind = match (number, expires_in) {
                (Some(_), None) => UPDATE,
                (None, None) => INCREMENTAL,
                (Some(_), Some(_)) => TIMED,
                (None, Some(_)) => TIMED_INCREMENTAL,
            };
            write_with(kind, out, |payload| {
                payload.extend(number.iter().flat_map(|number| number.to_be_bytes()));
                payload.extend(expires_in.iter().flat_map(|left| left.to_be_bytes()));
                payload.extend_from_slice(rest);
            });
        }
        Message::Unknown => {}
    }
}

fn write_with(kind: u8, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut payload = Vec::with_capacity(64);
    write(&mut payload);
    out.extend([TABLES, kind]);
    write_number(payload.len() as u64, out);
    out.append(&mut payload);
}

#[cfg(test)]
mod tests;
