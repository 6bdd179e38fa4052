//! Tables as peers define them, and entries by that definition.
//!
//! Owns: the kinds of keys and data with their numbers, the order and form of values.
//! Never: holds an entry.

use super::{Fault, read_number, whole_number, write_number};

/// Most elements of an array of counters.
const MOST_OF_ARRAY: u64 = 100;

/// What the keys of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers of 32 bits.
    Number,
    /// IPv4 addresses.
    Ipv4,
    /// IPv6 addresses.
    Ipv6,
    /// Texts.
    Text,
    /// So many bytes.
    Bytes,
    /// Something else.
    Other(u64),
}

impl Kind {
    fn code(self) -> u64 {
        match self {
            Self::Number => 2,
            Self::Ipv4 => 4,
            Self::Ipv6 => 5,
            Self::Text => 6,
            Self::Bytes => 7,
            Self::Other(code) => code,
        }
    }

    fn of(code: u64) -> Self {
        match code {
            2 => Self::Number,
            4 => Self::Ipv4,
            5 => Self::Ipv6,
            6 => Self::Text,
            7 => Self::Bytes,
            other => Self::Other(other),
        }
    }
}

/// A kind of data in an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its number, as HAProxy counts them.
    pub kind: u8,
    /// Elements; 1 unless it is an array.
    pub count: u8,
    /// Rates: milliseconds.
    pub period: u64,
}

/// The form of a kind of data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Number,
    Rate,
    /// A text that is sent once and then called by a number.
    Word,
}

/// The last kind that HAProxy 3.4 knows.
const LAST_KIND: u8 = 26;

fn form(kind: u8) -> Form {
    match kind {
        3 | 5 | 8 | 10 | 12 | 14 | 16 | 18 | 21 | 24 | 26 => Form::Rate,
        19 => Form::Word,
        _ => Form::Number,
    }
}

fn is_array(kind: u8) -> bool {
    matches!(kind, 22..=24)
}

/// The definition of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDefinition<'a> {
    /// The sender's number for it.
    pub number: u64,
    /// Its name.
    pub name: &'a [u8],
    /// What its keys are, and their size.
    pub key: Kind,
    #[allow(missing_docs)]
    pub key_size: u64,
    /// What its entries hold, in the order of their numbers.
    pub fields: Vec<Field>,
    /// Milliseconds after which unused entries go; zero: never.
    pub expire: u64,
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A count.
    Number(u64),
    /// A rate: milliseconds since its period began, its events, and those of the period before.
    Rate([u64; 3]),
    /// A text by its number, and the text itself where it is new.
    Word(u64, Option<&'a [u8]>),
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its key: numbers and addresses in network order.
    pub key: &'a [u8],
    /// Kinds, places in an array, and values.
    pub values: Vec<(u8, u8, Value<'a>)>,
}

impl<'a> TableDefinition<'a> {
    pub(super) fn read(payload: &'a [u8]) -> Result<Self, Fault> {
        let (number, rest) = whole_number(payload)?;
        let (length, rest) = whole_number(rest)?;
        let (name, rest) = taken(rest, length)?;
        let (key, rest) = whole_number(rest)?;
        let (key_size, rest) = whole_number(rest)?;
        let (kinds, rest) = whole_number(rest)?;
        let (expire, mut rest) = whole_number(rest)?;
        let mut fields = Vec::new();
        for kind in (0..64).filter(|kind| kinds >> kind & 1 == 1) {
            let mut field = Field { kind, count: 1, period: 0 };
            // Of kinds that came later neither form nor parameters are known.
            if kind > LAST_KIND {
                return Err(Fault::Protocol);
            }
            if is_array(kind) || form(kind) == Form::Rate {
                let (prefix, after) = whole_number(rest)?;
                if prefix != u64::from(kind) {
                    return Err(Fault::Protocol);
                }
                rest = after;
            }
            if is_array(kind) {
                let (count, after) = whole_number(rest)?;
                let count = Some(count).filter(|count| *count <= MOST_OF_ARRAY);
                field.count = count.and_then(|count| u8::try_from(count).ok()).ok_or(Fault::Protocol)?;
                rest = after;
            }
            if form(kind) == Form::Rate {
                (field.period, rest) = whole_number(rest)?;
            }
            fields.push(field);
        }
        Ok(Self { number, name, key: Kind::of(key), key_size, fields, expire })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        write_number(self.number, out);
        write_number(self.name.len() as u64, out);
        out.extend_from_slice(self.name);
        write_number(self.key.code(), out);
        write_number(self.key_size, out);
        write_number(self.fields.iter().fold(0, |kinds, field| kinds | 1 << field.kind), out);
        write_number(self.expire, out);
        for field in &self.fields {
            let rate = form(field.kind) == Form::Rate;
            if is_array(field.kind) || rate {
                write_number(field.kind.into(), out);
            }
            if is_array(field.kind) {
                write_number(field.count.into(), out);
            }
            if rate {
                write_number(field.period, out);
            }
        }
    }

    /// Reads what an update holds beside its number.
    ///
    /// # Errors
    /// It does not fit this definition.
    pub fn entry<'u>(&self, rest: &'u [u8]) -> Result<Entry<'u>, Fault> {
        let (key, mut rest) = match self.key {
            Kind::Text => {
                let (length, rest) = whole_number(rest)?;
                taken(rest, length)?
            }
            Kind::Number => taken(rest, 4)?,
            _ => taken(rest, self.key_size)?,
        };
        let mut values = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            for at in 0..field.count {
                let value;
                (value, rest) = read_value(form(field.kind), rest)?;
                values.push((field.kind, at, value));
            }
        }
        Ok(Entry { key, values })
    }

    /// Writes what an update holds beside its number; values in the order of the definition.
    pub fn write_entry(&self, key: &[u8], values: &[Value<'_>], out: &mut Vec<u8>) {
        if self.key == Kind::Text {
            write_number(key.len() as u64, out);
        }
        out.extend_from_slice(key);
        for value in values {
            match value {
                Value::Number(number) => write_number(*number, out),
                Value::Rate(parts) => parts.iter().for_each(|part| write_number(*part, out)),
                Value::Word(number, text) => {
                    let mut word = Vec::new();
                    write_number(*number, &mut word);
                    if let Some(text) = text {
                        write_number(text.len() as u64, &mut word);
                        word.extend_from_slice(text);
                    }
                    let length = if *number == 0 { 0 } else { word.len() as u64 };
                    write_number(length, out);
                    if length > 0 {
                        out.append(&mut word);
                    }
                }
            }
        }
    }
}

fn read_value(form: Form, rest: &[u8]) -> Result<(Value<'_>, &[u8]), Fault> {
    match form {
        Form::Number => whole_number(rest).map(|(number, rest)| (Value::Number(number), rest)),
        Form::Rate => {
            let (age, rest) = whole_number(rest)?;
            let (current, rest) = whole_number(rest)?;
            let (previous, rest) = whole_number(rest)?;
            Ok((Value::Rate([age, current, previous]), rest))
        }
        Form::Word => {
            let (length, rest) = whole_number(rest)?;
            let (word, rest) = taken(rest, length)?;
            if word.is_empty() {
                return Ok((Value::Word(0, None), rest));
            }
            let (number, text) = whole_number(word)?;
            let text = match read_number(text)? {
                None => None,
                Some((length, text)) => Some(taken(text, length)?.0),
            };
            Ok((Value::Word(number, text), rest))
        }
    }
}

/// So many bytes, and what follows them.
fn taken(bytes: &[u8], length: u64) -> Result<(&[u8], &[u8]), Fault> {
    let length = usize::try_from(length).map_err(|_| Fault::Protocol)?;
    bytes.split_at_checked(length).ok_or(Fault::Protocol)
}
