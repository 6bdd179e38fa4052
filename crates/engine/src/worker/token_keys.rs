//! Keys of tokens, as a worker has them: read from files, or out of answers to requests of our own.
//!
//! Owns: sets that were read, while they are what they were, or for as long as the configuration says.
//! Never: asks for any. Holds more than [`MOST`] of them, or any longer than its plan.
//! Driven by: `walk::identity`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use weir_jose::{KeySet, keys};
use weir_plan::SiteIx;
use weir_rt::Instant;

/// Most sets.
const MOST: usize = 256;

/// Where a set is: a file, or a path of a site.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    File(Vec<u8>),
    Request(SiteIx, Vec<u8>),
}

/// By what a set is known to be what it was.
#[derive(PartialEq)]
pub(crate) enum Stamp {
    File(Option<SystemTime>, u64),
    Body(Vec<u8>),
}

struct Kept {
    set: Arc<KeySet>,
    stamp: Stamp,
    since: Instant,
}

/// The sets of a plan.
#[derive(Default)]
pub(crate) struct TokenKeys(RefCell<HashMap<Place, Kept>>);

impl TokenKeys {
    /// A set that is not older than this.
    pub(crate) fn fresh(&self, place: &Place, most: Duration, now: Instant) -> Option<Arc<KeySet>> {
        let all = self.0.borrow();
        let kept = all.get(place).filter(|kept| !most.is_zero() && now - kept.since < most)?;
        Some(kept.set.clone())
    }

    /// The set of this text: the one that is known, if it is of the same text.
    ///
    /// # Errors
    /// One line that says what is wrong with it.
    pub(crate) fn of_body(&self, place: Place, text: Vec<u8>, now: Instant) -> Result<Arc<KeySet>, String> {
        self.of(place, Stamp::Body(text), now, |stamp| match stamp {
            Stamp::Body(text) => KeySet::parse(text).map_err(|error| error.to_string()),
            Stamp::File(..) => Err(String::new()),
        })
    }

    /// The set of a file. It is read again when the file has changed.
    ///
    /// # Errors
    /// One line that says what is wrong with it.
    pub(crate) fn of_file(&self, path: &Path, place: Place, now: Instant) -> Result<Arc<KeySet>, String> {
        let facts = path.metadata().map_err(|error| error.to_string())?;
        self.of(place, Stamp::File(facts.modified().ok(), facts.len()), now, |_| {
            let most = keys::LARGEST as u64 + 1;
            let (text, _) =
                crate::files::open::whole(path, most, "it is no regular file of a key set's size")
                    .map_err(|error| error.to_string())?;
            KeySet::parse(&text).map_err(|error| error.to_string())
        })
    }

    fn of(
        &self,
        place: Place,
        stamp: Stamp,
        now: Instant,
        make: impl FnOnce(&Stamp) -> Result<KeySet, String>,
    ) -> Result<Arc<KeySet>, String> {
        let mut all = self.0.borrow_mut();
        if let Some(kept) = all.get_mut(&place).filter(|kept| kept.stamp == stamp) {
            kept.since = now;
            return Ok(kept.set.clone());
        }
        let set = Arc::new(make(&stamp)?);
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(place, Kept { set: set.clone(), stamp, since: now });
        Ok(set)
    }
}
