//! Objects of the cache held in memory, for one worker.
//!
//! Owns: objects whose bodies are small, as they were read.
//! Never: decides whether one may be used: its version is compared with the store's at every use.
//! Driven by: the cache in front of upstreams.
//! Why: a hot object then costs a look at the store's index and at this table, and no system call but its send. It is read
//! again once a second while it is used: a file that was removed by hand, as scripts do, is noticed.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use weir_cache::{Body, Key, Meta, Object};
use weir_http::{HeadRules, Parsed, ResponseHead, UnusualNames};
use weir_rt::Instant;

use super::Content;

/// How long an object is used without looking at its file.
const TRUSTED: Duration = Duration::from_secs(1);
/// Most bytes held.
const MOST_BYTES: usize = 32 << 20;
/// Most objects held.
const MOST_ENTRIES: usize = 8192;

/// An object of the cache.
pub(crate) struct Held {
    /// See `weir_cache::Lookup`.
    pub(crate) version: u32,
    /// What the store knows of it.
    pub(crate) meta: Meta,
    /// Names of the request's fields that it varies by, separated by commas.
    pub(crate) vary: Box<[u8]>,
    /// Its head.
    head: Box<[u8]>,
    parsed: ResponseHead,
    /// Its bytes.
    pub(crate) content: Content,
    /// Where they begin there.
    pub(crate) at: u64,
    /// How many there are.
    pub(crate) length: u64,
    trusted: Cell<Instant>,
}

/// Reads a stored head. `None`: it is none.
pub(super) fn stored_head(head: &[u8]) -> Option<ResponseHead> {
    let most = head.len();
    let rules = HeadRules {
        first_line: most,
        field_line: most,
        head: most,
        fields: most,
        unusual_names: UnusualNames::Keep,
        mends: false,
    };
    let mut parsed = ResponseHead::new();
    (parsed.parse(head, &rules) == Ok(Parsed::Whole(most))).then_some(parsed)
}

impl Held {
    /// As the store read it. `None`: its head is none.
    pub(crate) fn new(object: Object, now: Instant) -> Option<Self> {
        let Object { version, meta, vary, head, body, length } = object;
        let parsed = stored_head(&head)?;
        let (content, at) = match body {
            Body::Memory(bytes) => (Content::Memory(bytes.into()), 0),
            Body::File(file, at) => (Content::Open(file), at),
        };
        let trusted = Cell::new(now + TRUSTED);
        Some(Self { version, meta, vary, head, parsed, content, at, length, trusted })
    }

    /// Its head.
    pub(crate) fn head(&self) -> (&[u8], weir_http::Response<'_>) {
        (&self.head, self.parsed.view(&self.head))
    }

    /// The same object, found to hold good.
    pub(crate) fn refreshed(&self, meta: Meta) -> Option<Self> {
        let content = match &self.content {
            Content::Memory(bytes) | Content::Both(bytes, _) => Content::Memory(bytes.clone()),
            Content::Open(file) => Content::Open(file.try_clone().ok()?),
        };
        let parsed = stored_head(&self.head)?;
        Some(Self {
            version: self.version,
            meta,
            vary: self.vary.clone(),
            head: self.head.clone(),
            parsed,
            content,
            at: self.at,
            length: self.length,
            trusted: self.trusted.clone(),
        })
    }

    /// Its file was not looked at for a while.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.trusted.get()
    }

    fn cost(&self) -> usize {
        let body = match &self.content {
            Content::Memory(bytes) | Content::Both(bytes, _) => bytes.len(),
            Content::Open(_) => 0,
        };
        body + self.head.len() + self.vary.len() + size_of::<Self>()
    }
}

/// Names an object among those of all stores.
type Name = (u64, Key);

/// Objects of one worker.
#[derive(Default)]
pub(crate) struct Objects(RefCell<Entries>);

#[derive(Default)]
struct Entries {
    by_name: HashMap<Name, (Rc<Held>, bool), ahash::RandomState>,
    /// Names in the order in which they are looked at for removal; each once.
    ring: VecDeque<Name>,
    bytes: usize,
}

impl Objects {
    /// The object of this version, if it is held.
    pub(crate) fn find(&self, name: Name, version: u32) -> Option<Rc<Held>> {
        let mut entries = self.0.borrow_mut();
        let (held, used) = entries.by_name.get_mut(&name)?;
        if held.version != version {
            return None;
        }
        *used = true;
        Some(held.clone())
    }

    /// Holds an object, if its body is in memory.
    pub(crate) fn keep(&self, name: Name, held: &Rc<Held>) {
        let mut entries = self.0.borrow_mut();
        if !matches!(held.content, Content::Memory(_)) {
            return;
        }
        entries.bytes += held.cost();
        match entries.by_name.insert(name, (held.clone(), true)) {
            Some((before, _)) => entries.bytes -= before.cost(),
            None => entries.ring.push_back(name),
        }
        while entries.bytes > MOST_BYTES || entries.ring.len() > MOST_ENTRIES {
            let Some(name) = entries.ring.pop_front() else { return };
            entries.pass(name);
        }
    }

    /// Forgets an object.
    pub(crate) fn forget(&self, name: Name) {
        let mut entries = self.0.borrow_mut();
        if let Some((held, _)) = entries.by_name.remove(&name) {
            entries.bytes -= held.cost();
            entries.ring.retain(|known| *known != name);
        }
    }

    /// Forgets all objects.
    pub(crate) fn clear(&self) {
        *self.0.borrow_mut() = Entries::default();
    }
}

impl Entries {
    /// Looks at one entry for removal: one that was used since the last look stays for another round.
    fn pass(&mut self, name: Name) {
        match self.by_name.get_mut(&name) {
            Some((_, used)) if *used => {
                *used = false;
                self.ring.push_back(name);
            }
            Some(_) => {
                if let Some((held, _)) = self.by_name.remove(&name) {
                    self.bytes -= held.cost();
                }
            }
            None => {}
        }
    }
}
