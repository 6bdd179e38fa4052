//! Lists of keys that change while running: what is kept of them over plans, and how a worker looks things up.
//!
//! Owns: the lists of the process under their names; an index for each way of using one, made once for all workers; what a
//! worker has taken up of later changes.
//! Never: locks at a look-up unless the list has changed since the last.
//! Driven by: `Prepared`, for each plan; `eval`, which looks up and changes; [`crate::Engine`], for commands.
//! Why: a list that changes rarely costs a look-up one number that is read; one that changes often costs each worker the
//! changes, not the list.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_control::lists::{Entry, List, Named, News, Refused};
use weir_plan::{KeyIndex, KeyListFile, KeyListIx, KeyListUse, ListEdit, MatchFailed, Plan};

/// By file, and by whether its lines have values.
type ByFile = HashMap<(Box<str>, bool), Arc<List>>;

/// The lists of the process. They are kept over plans for as long as their files stay as they are.
#[derive(Default)]
pub(crate) struct Lists {
    all: Mutex<ByFile>,
}

impl Lists {
    /// The lists of a plan.
    pub(crate) fn of(&self, plan: &Plan) -> KeyLists {
        let all = self.all();
        let list = |file: &KeyListFile| match all.get(&(file.name.clone(), file.values)) {
            Some(known) if known.written() == &file.written => known.clone(),
            _ => Arc::new(List::new(file.written.clone())),
        };
        let lists: Vec<_> = plan.key_lists.iter().map(list).collect();
        drop(all);
        let one = |of: &KeyListUse| Arc::new(KeyUse::new(*of, lists[of.list.at()].clone()));
        KeyLists { uses: plan.key_list_uses.iter().map(one).collect(), lists }
    }

    /// Keeps those of the plan that runs now, and no others. Says whose changes are lost, because their files were edited.
    pub(crate) fn keep(&self, plan: &Plan, lists: &KeyLists) -> Vec<String> {
        let named = || plan.key_lists.iter().zip(&lists.lists);
        let now = named().map(|(file, list)| ((file.name.clone(), file.values), list.clone())).collect();
        let before = std::mem::replace(&mut *self.all(), now);
        let lost = named().filter(|(file, list)| {
            let old = before.get(&(file.name.clone(), file.values));
            old.is_some_and(|old| !Arc::ptr_eq(old, list) && old.figures().changed)
        });
        let line = |(file, _): (&KeyListFile, _)| {
            format!(
                "the file {} was edited: what was changed of its list while running is forgotten",
                file.name
            )
        };
        lost.map(line).collect()
    }

    fn all(&self) -> MutexGuard<'_, ByFile> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lists of a plan, and the ways in which it uses them, by index.
#[derive(Default)]
pub(crate) struct KeyLists {
    lists: Vec<Arc<List>>,
    uses: Vec<Arc<KeyUse>>,
}

impl KeyLists {
    /// The lists.
    pub(crate) fn all(&self) -> &[Arc<List>] {
        &self.lists
    }

    /// What a worker looks up in.
    pub(crate) fn views(&self) -> Rc<[KeyView]> {
        self.uses.iter().map(KeyView::new).collect()
    }

    /// Carries out a rule. What cannot be a key, or finds no place, changes nothing.
    pub(crate) fn edit(&self, list: KeyListIx, edit: ListEdit, key: &[u8], value: &[u8]) {
        let Some(of) = self.lists.get(list.at()) else { return };
        let (key, value) = (String::from_utf8_lossy(key), String::from_utf8_lossy(value));
        let done = match edit {
            ListEdit::Remove => of.remove(Named::Key(&key)),
            ListEdit::Set | ListEdit::Add => match self.check(list, &key) {
                Ok(()) => of.put(&key, &value),
                Err(_) => return,
            },
        };
        // Nothing is removed where there was nothing; what is full says so to whoever asks by a command.
        let (Ok(()) | Err(Refused::Missing | Refused::Version | Refused::Full)) = done;
    }

    /// Whether a list may have this key, however it is used.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check(&self, list: KeyListIx, key: &str) -> Result<(), String> {
        self.of(list).try_for_each(|one| {
            let index = one.base().1.clone();
            index.check(key)
        })
    }

    /// Makes the indexes of a list anew where it changed as a whole, so that no worker has to.
    pub(crate) fn refresh(&self, list: KeyListIx) {
        self.of(list).for_each(|one| drop(one.anew()));
    }

    /// How each use of a list finds a value.
    pub(crate) fn look_up(&self, list: KeyListIx, value: &str) -> Vec<(KeyListUse, Option<Entry>)> {
        let found = |one: &Arc<KeyUse>| {
            let index = one.anew().1;
            (one.of, index.find(value.as_bytes()).ok().flatten().cloned())
        };
        self.of(list).map(found).collect()
    }

    fn of(&self, list: KeyListIx) -> impl Iterator<Item = &Arc<KeyUse>> {
        self.uses.iter().filter(move |one| one.of.list == list)
    }
}

/// One way of using a list, for all workers.
struct KeyUse {
    of: KeyListUse,
    list: Arc<List>,
    /// With the generation that it is of.
    base: Mutex<(u64, Arc<KeyIndex>)>,
}

impl KeyUse {
    fn new(of: KeyListUse, list: Arc<List>) -> Self {
        let (news, generation) = list.since(None);
        let empty = KeyIndex::new(of.how, of.ignore_case);
        let index = match news {
            News::All(entries) => empty.of(entries),
            News::Some(_) => empty,
        };
        Self { of, list, base: Mutex::new((generation, Arc::new(index))) }
    }

    fn base(&self) -> MutexGuard<'_, (u64, Arc<KeyIndex>)> {
        self.base.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An index as new as the list; made once where many ask.
    fn anew(&self) -> (u64, Arc<KeyIndex>) {
        let mut base = self.base();
        let (seen, index) = &mut *base;
        take_up(&self.list, seen, index, |index, entries| Arc::new(index.of(entries)));
        (*seen, index.clone())
    }
}

/// Brings an index up to date. `all` makes one where too much has changed.
fn take_up(
    list: &List,
    seen: &mut u64,
    index: &mut Arc<KeyIndex>,
    all: impl FnOnce(&KeyIndex, Vec<Entry>) -> Arc<KeyIndex>,
) {
    let (news, now) = list.since(Some(*seen));
    match news {
        News::Some(news) if news.is_empty() => {}
        News::Some(news) => {
            let index = Arc::make_mut(index);
            news.into_iter().for_each(|delta| index.take_up(delta));
        }
        News::All(entries) => *index = all(index, entries),
    }
    *seen = now;
}

/// One way of using a list, as a worker has it.
pub(crate) struct KeyView {
    of: Arc<KeyUse>,
    seen: Cell<u64>,
    index: RefCell<Arc<KeyIndex>>,
}

impl KeyView {
    fn new(of: &Arc<KeyUse>) -> Self {
        let (seen, index) = of.base().clone();
        Self { of: of.clone(), seen: Cell::new(seen), index: RefCell::new(index) }
    }

    /// What `take` makes of the entry whose key a value matches.
    ///
    /// # Errors
    /// A pattern gave up.
    pub(crate) fn find<T>(
        &self,
        value: &[u8],
        take: impl FnOnce(Option<&Entry>) -> T,
    ) -> Result<T, MatchFailed> {
        if self.of.list.generation() != self.seen.get() {
            self.catch_up();
        }
        self.index.borrow().find(value).map(take)
    }

    #[cold]
    fn catch_up(&self) {
        let (mut seen, mut index) = (self.seen.get(), self.index.borrow_mut());
        let mut newer = None;
        take_up(&self.of.list, &mut seen, &mut index, |_, _| {
            let (generation, index) = self.of.anew();
            newer = Some(generation);
            index
        });
        self.seen.set(newer.unwrap_or(seen));
    }
}
