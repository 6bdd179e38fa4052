//! What the commands of a page have come to (nginx's SSI).
//!
//! Owns: where the search for commands stands, what they have set for this page, and what the pages of one request
//! share: values, blocks, groups of the last pattern.
//! Never: carries a command out; `answer::commands` does.
//! Why: what is kept is bounded, whatever a page says; so are the requests that its pages ask for, and their depth.

mod scan;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub(crate) use scan::{Command, Found, MOST_PARAMETERS, Scan, fuzz};

use super::captures::Captured;

/// Bytes of values and blocks that the pages of one request may keep.
pub(crate) const MOST_KEPT: usize = 1 << 20;
/// Requests that they may ask for, all together.
const MOST_ASKED: u32 = 1000;
/// How deep they may lie in one another.
pub(crate) const MOST_DEEP: u8 = 16;

/// One page.
pub(crate) struct Page {
    /// The search; taken out while it goes on.
    pub(crate) scan: Option<Scan>,
    /// What follows `if`, `elif` and `else`.
    pub(crate) branch: Branch,
    /// What stands here is sent.
    pub(crate) shows: bool,
    /// A block is being read: its name and text.
    pub(crate) block: Option<(Vec<u8>, Vec<u8>)>,
    /// How values are written.
    pub(crate) encoding: Encoding,
    /// What stands for a command that failed.
    pub(crate) error_text: Vec<u8>,
    /// The form of `$date_local` and `$date_gmt`.
    pub(crate) time_format: Vec<u8>,
    /// What it has in common with the others.
    pub(crate) shared: Rc<Shared>,
}

/// Where a page stands in `if … elif … else … endif`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Branch {
    /// The last command of it.
    pub(crate) at: Option<Part>,
    /// A branch was chosen.
    pub(crate) chosen: bool,
}

/// A part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// `if` or `elif`.
    If,
    /// `else`.
    Else,
}

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// As they are.
    None,
    /// `%XX`.
    Url,
    /// `&lt;` and its kin.
    Entity,
}

/// How dates are written until a page says otherwise.
pub(crate) const TIME_FORMAT: &[u8] = b"%A, %d-%b-%Y %H:%M:%S %Z";

impl Page {
    /// One whose parameters have values of so many bytes at most.
    pub(crate) fn new(value_length: usize, shared: Rc<Shared>) -> Self {
        Self {
            scan: Some(Scan::new(value_length)),
            branch: Branch::default(),
            shows: true,
            block: None,
            encoding: Encoding::Entity,
            error_text: b"[an error occurred while processing the directive]".to_vec(),
            time_format: TIME_FORMAT.to_vec(),
            shared,
        }
    }
}

/// The name and the text of a block.
type Block = (Vec<u8>, Rc<[u8]>);

/// What the pages of one request share.
#[derive(Default)]
pub(crate) struct Shared {
    values: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
    blocks: RefCell<Vec<Block>>,
    groups: RefCell<Captured>,
    kept: Cell<usize>,
    asked: Cell<u32>,
}

/// No more is kept, or asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMuch;

impl Shared {
    /// The value of a name in lower case.
    pub(crate) fn value(&self, name: &[u8]) -> Option<Vec<u8>> {
        if let &[digit @ b'0'..=b'9'] = name
            && let Some(group) = self.groups.borrow().group(usize::from(digit - b'0'))
        {
            return Some(group.to_vec());
        }
        let values = self.values.borrow();
        values.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    /// Keeps a value.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn set(&self, name: Vec<u8>, value: Vec<u8>) -> Result<(), TooMuch> {
        let mut values = self.values.borrow_mut();
        let known = values.iter_mut().find(|(known, _)| *known == name);
        let before = known.as_ref().map_or(0, |(_, value)| value.len());
        let named = if known.is_some() { 0 } else { name.len() + size_of::<(Vec<u8>, Vec<u8>)>() };
        self.keep(value.len() + named, before)?;
        match known {
            Some(known) => known.1 = value,
            None => values.push((name, value)),
        }
        Ok(())
    }

    /// Keeps a block; the first of a name stands.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn set_block(&self, name: Vec<u8>, text: &[u8]) -> Result<(), TooMuch> {
        self.keep(name.len() + text.len() + size_of::<(Vec<u8>, Vec<u8>)>(), 0)?;
        self.blocks.borrow_mut().push((name, text.into()));
        Ok(())
    }

    /// A block.
    pub(crate) fn block(&self, name: &[u8]) -> Option<Rc<[u8]>> {
        let blocks = self.blocks.borrow();
        blocks.iter().find(|(known, _)| known == name).map(|(_, text)| text.clone())
    }

    /// Keeps the groups of a match.
    pub(crate) fn match_in(&self, text: &[u8], groups: impl Iterator<Item = Option<(usize, usize)>>) {
        self.groups.borrow_mut().keep(text, groups);
    }

    /// Counts a request that is asked for.
    ///
    /// # Errors
    /// There were too many.
    pub(crate) fn ask(&self) -> Result<(), TooMuch> {
        self.asked.set(self.asked.get() + 1);
        if self.asked.get() > MOST_ASKED { Err(TooMuch) } else { Ok(()) }
    }

    fn keep(&self, more: usize, less: usize) -> Result<(), TooMuch> {
        let kept = self.kept.get() - less + more;
        if kept > MOST_KEPT {
            return Err(TooMuch);
        }
        self.kept.set(kept);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pages_keep_is_bounded() {
        let shared = Shared::default();
        assert_eq!(shared.set(b"a".to_vec(), vec![0; MOST_KEPT - 100]), Ok(()));
        assert_eq!(shared.set(b"b".to_vec(), vec![0; 200]), Err(TooMuch));
        assert_eq!(shared.set_block(b"b".to_vec(), &[0; 200]), Err(TooMuch));
        assert_eq!(shared.set(b"a".to_vec(), b"1".to_vec()), Ok(()));
        assert_eq!(shared.set(b"b".to_vec(), b"2".to_vec()), Ok(()));
        assert_eq!((shared.value(b"a"), shared.value(b"b")), (Some(b"1".to_vec()), Some(b"2".to_vec())));
        assert_eq!(shared.set_block(b"x".to_vec(), b"text"), Ok(()));
        assert_eq!(shared.block(b"x").as_deref(), Some(&b"text"[..]));
        (0..MOST_ASKED).for_each(|_| assert_eq!(shared.ask(), Ok(())));
        assert_eq!(shared.ask(), Err(TooMuch));
    }
}
