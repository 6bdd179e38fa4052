//! MP4 files from one time to another.
//!
//! Owns: finding the tables of a file, and the bounds of what is read for that.
//! Never: reads; [`Seek::poll_read`] says what is wanted.
//! Driven by: `engine::action::files`: `poll_read` and `handle_read` in turn until nothing is wanted, then `cut`.
//! Why: the tables (`moov`) may stand before the media data or behind it. In what is sent they stand before it, so that
//! playing begins at once.
//!
//! ```text
//!   file:   ftyp · moov · … · mdat ················        or  ftyp · mdat · moov
//!   sent:   ftyp · moov' · mdat' ──────╴from╶───╴to╶       moov': tables of the samples in between
//! ```

mod asked;
mod boxes;
mod example;
mod table;
mod track;

pub use asked::{Asked, Fault};
use boxes::{Header, Kind};

/// Longest `ftyp` that is kept.
const LONGEST_TYPE: u64 = 1024;
/// Most boxes beside one another that are looked at.
const MOST_BOXES: u32 = 10_000;

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// What stands before the media data.
    pub head: Vec<u8>,
    /// The media data: from this byte of the file …
    pub from: u64,
    /// … up to this one.
    pub to: u64,
}

/// A file that is looked through.
#[derive(Debug)]
pub struct Seek {
    asked: Asked,
    size: u64,
    /// Most bytes of the tables.
    most: u64,
    at: u64,
    boxes: u32,
    /// What the next bytes are, if not a header.
    body: Option<Header>,
    file_type: Vec<u8>,
    tables: Option<Vec<u8>>,
    /// Where the last media data ends.
    media_end: Option<u64>,
    /// The tables stand before all media data.
    in_order: bool,
}

impl Seek {
    /// A file of this size, whose tables may take so many bytes.
    #[must_use]
    pub fn new(size: u64, most: u64, asked: Asked) -> Self {
        Self {
            asked,
            size,
            most,
            at: 0,
            boxes: 0,
            body: None,
            file_type: Vec::new(),
            tables: None,
            media_end: None,
            in_order: false,
        }
    }

    /// What is to be read next: the first byte, and how many; `None`: all is known.
    #[must_use]
    pub fn poll_read(&self) -> Option<(u64, usize)> {
        match self.body {
            Some(header) => Some((self.at, usize::try_from(header.body()).ok()?)),
            None if self.at >= self.size => None,
            None => Some((self.at, usize::try_from((self.size - self.at).min(boxes::LONGEST_HEADER)).ok()?)),
        }
    }

    /// What was read: exactly what was wanted.
    ///
    /// # Errors
    /// The file cannot be cut.
    pub fn handle_read(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if let Some(header) = self.body.take() {
            self.at += header.body();
            match header.kind {
                Kind::FILE_TYPE => self.file_type = boxes::written(Kind::FILE_TYPE, bytes)?,
                _ => {
                    self.in_order = self.media_end.is_none();
                    self.tables = Some(bytes.to_vec());
                }
            }
            return Ok(());
        }
        let header = Header::read(bytes, self.size - self.at)?;
        self.boxes += 1;
        if self.boxes > MOST_BOXES {
            return Err(Fault::Broken);
        }
        match header.kind {
            Kind::FILE_TYPE if header.body() <= LONGEST_TYPE => self.at += header.header,
            Kind::TABLES if self.tables.is_none() => {
                if header.body() > self.most {
                    return Err(Fault::TooLarge);
                }
                self.at += header.header;
            }
            kind => {
                self.at += header.size;
                if kind == Kind::MEDIA {
                    self.media_end = Some(self.at);
                }
                return Ok(());
            }
        }
        self.body = Some(header);
        Ok(())
    }

    /// What is sent.
    ///
    /// # Errors
    /// The file cannot be cut.
    pub fn cut(&self) -> Result<Cut, Fault> {
        let (Some(tables), Some(media_end)) = (&self.tables, self.media_end) else {
            return Err(Fault::Missing);
        };
        if self.in_order && self.asked.start == 0 && self.asked.length.is_none() {
            return Ok(Cut { head: Vec::new(), from: 0, to: self.size });
        }
        let found = table::cut(tables, self.asked, media_end)?;
        let media =
            found.to.checked_sub(found.from).filter(|_| found.to <= media_end).ok_or(Fault::Mismatch)?;
        let mut head = self.file_type.clone();
        let tables_at = head.len();
        head.extend_from_slice(&found.tables);
        boxes::put_header(Kind::MEDIA, media, &mut head);
        // Every offset moves by as much as the first byte of media data does.
        let begins = head.len() as u64;
        found.move_chunks(&mut head[tables_at..], |old| Some(old - found.from + begins))?;
        Ok(Cut { head, from: found.from, to: found.to })
    }
}

/// A small file, as good input of the fuzzer.
pub(crate) fn example(tables_first: bool) -> Vec<u8> {
    example::file(&example::usual(), tables_first)
}

#[cfg(test)]
mod tests;
