//! Where the admin API meets the life of the process.
//!
//! Owns: what is in force as a document, its versions, the journal, proposals that wait for the master.
//! Never: applies a configuration: the master does. Keeps two threads waiting for one another: each call takes one lock, briefly.
//! Driven by: `api`, from threads of its own; `life::master`, which takes proposals and tells what is in force.
//!
//! ```text
//!  conversation                              master
//!  compiles ──propose──→ (bell) ──────────→ next: of the version in force? sockets, logs, apply
//!  answers  ←──────────────────outcome───── in_force: a version, kept in its file
//! ```

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use weir_native::{Plain, differences};

use super::book::{Book, Version};
use super::journal::{Entry, Journal};
use crate::compile::Compiled;
use crate::compile::layer::Layer;
use crate::compile::store::Answers;
use crate::compile::text::Text;
use crate::launch::Admin;
use crate::life::bell::Bell;
use crate::plane::DataPlane;

/// Proposals that may wait.
const WAITING: usize = 16;

/// A configuration that somebody asks for.
pub(crate) struct Proposal {
    /// It, compiled, and what it was compiled from besides; taken by whoever applies it.
    pub(crate) compiled: Option<Compiled>,
    pub(crate) answers: Option<Answers>,
    /// What the API then decides.
    pub(crate) layer: Arc<Layer>,
    /// Who asks, and for what.
    pub(crate) who: String,
    pub(crate) what: String,
    /// The version that it was made from; another one in force refuses it.
    pub(crate) base: u64,
    /// Set by the master when it takes it up, or by whoever asked when they wait no more: whoever comes first decides.
    pub(crate) taken: Arc<AtomicBool>,
    /// Told what came of it.
    pub(crate) answer: Sender<Outcome>,
}

impl Proposal {
    /// Tells whoever asked, if they still wait.
    pub(crate) fn tell(self, outcome: Outcome) {
        let _ = self.answer.send(outcome);
    }
}

/// A configuration that is to be in force, as documents.
#[derive(Default)]
pub(crate) struct Documents {
    /// What the files say, or why that cannot be told, if they were read again.
    pub(crate) base: Option<Result<Text, String>>,
    /// What holds, if that is not it.
    pub(crate) text: Option<Text>,
    /// What holds, without secrets.
    pub(crate) shown: Option<Plain>,
}

impl Documents {
    /// Those of a configuration that was compiled. Its text stays with it, too.
    pub(crate) fn take(compiled: &mut Compiled) -> Self {
        Self { base: compiled.base.take(), text: compiled.text.clone(), shown: compiled.shown.take() }
    }
}

/// What comes of a proposal.
pub(crate) enum Outcome {
    /// It is this version; why it will not be there after a restart, where that was asked for.
    InForce(u64, Option<String>),
    /// Another version came first.
    Late,
    /// Why nothing has changed.
    Refused(String),
}

/// Compiles a document, as a start or a reload does.
type Compile = Box<dyn Fn(Text) -> (Compiled, Answers) + Send + Sync>;

/// What is in force.
#[derive(Clone)]
pub(super) struct Current {
    pub(super) version: u64,
    pub(super) layer: Arc<Layer>,
    /// What the files say.
    pub(super) base: Arc<Text>,
    /// What holds, with secrets.
    pub(super) text: Arc<Text>,
    /// What holds, to be shown.
    pub(super) shown: Arc<Plain>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Proposal>,
    book: Book,
    journal: Journal,
    /// Or why the API cannot change this configuration.
    current: Option<Result<Current, String>>,
    plane: Option<Arc<dyn DataPlane>>,
    /// The data plane is another process.
    is_apart: bool,
}

/// See the module.
pub(crate) struct Desk {
    state: Mutex<State>,
    /// Rung once there is something in force.
    first: Condvar,
    compile: OnceLock<Compile>,
    bell: Bell,
}

impl Desk {
    /// Opens the files of versions and of the journal.
    ///
    /// # Errors
    /// One line.
    pub(crate) fn open(admin: &Admin) -> Result<Self, String> {
        let book = admin.versions.as_deref().map(Book::with_file).transpose()?.unwrap_or_default();
        let journal = admin.log.as_deref().map(Journal::with_file).transpose()?.unwrap_or_default();
        let state = State { book, journal, ..State::default() };
        let bell = Bell::new().map_err(|error| format!("cannot start: {error}"))?;
        Ok(Self { state: Mutex::new(state), first: Condvar::new(), compile: OnceLock::new(), bell })
    }

    /// How documents are compiled from now on.
    pub(crate) fn set_compiler(&self, compile: impl Fn(Text) -> (Compiled, Answers) + Send + Sync + 'static) {
        // The first one holds; there is one start.
        let _ = self.compile.set(Box::new(compile));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Readable once there is something for the master.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Silences the bell; look at what there is afterwards.
    pub(crate) fn reset(&self) {
        self.bell.reset();
    }

    /// The data plane that serves from now on.
    pub(crate) fn set_plane(&self, plane: Arc<dyn DataPlane>) {
        self.state().plane = Some(plane);
    }

    /// The data plane is another process, which takes no questions.
    pub(crate) fn set_apart(&self) {
        self.state().is_apart = true;
    }

    pub(super) fn plane(&self) -> Option<Arc<dyn DataPlane>> {
        self.state().plane.clone()
    }

    pub(super) fn is_apart(&self) -> bool {
        self.state().is_apart
    }

    pub(super) fn compile(&self, text: Text) -> Option<(Compiled, Answers)> {
        self.compile.get().map(|compile| compile(text))
    }

    /// Asks for a configuration. False: too many wait.
    pub(super) fn propose(&self, proposal: Proposal) -> bool {
        let mut state = self.state();
        if state.waiting.len() >= WAITING {
            return false;
        }
        state.waiting.push_back(proposal);
        drop(state);
        self.bell.ring();
        true
    }

    /// The next proposal that was made from the version in force; others are refused here.
    pub(crate) fn next(&self) -> Option<Proposal> {
        let mut state = self.state();
        let current = state.book.last().map_or(0, |version| version.version);
        while let Some(proposal) = state.waiting.pop_front() {
            if proposal.taken.swap(true, Ordering::Relaxed) {
                continue;
            }
            if proposal.base == current {
                return Some(proposal);
            }
            proposal.tell(Outcome::Late);
        }
        None
    }

    /// What the API decided when it was last told.
    pub(crate) fn layer(&self) -> Arc<Layer> {
        self.state().book.last().map(|version| Arc::clone(&version.layer)).unwrap_or_default()
    }

    /// A configuration is in force: its version, and why the file of versions does not have it.
    pub(crate) fn in_force(
        &self,
        documents: Documents,
        layer: &Arc<Layer>,
        (who, what): (&str, &str),
    ) -> Outcome {
        let before = self.state().current.clone();
        let Documents { base, text, shown } = documents;
        let known = |current: &Result<Current, String>| {
            current.as_ref().map(|current| Arc::clone(&current.base)).ok()
        };
        let nothing = || "there is no document".to_owned();
        let base = match base {
            Some(base) => base.map(Arc::new),
            None => before.as_ref().and_then(known).ok_or_else(nothing),
        };
        let read = base.and_then(|base| {
            let text = text.map_or_else(|| Arc::clone(&base), Arc::new);
            Ok((base, text, shown.ok_or_else(nothing)?))
        });
        let mut state = self.state();
        let last = state.book.last();
        let number = last.map_or(0, |version| version.version);
        let (base, text, shown) = match read {
            Ok(read) => read,
            Err(why) => {
                state.current = Some(Err(why.clone()));
                self.first.notify_all();
                return Outcome::Refused(why);
            }
        };
        let same_text = match &before {
            Some(Ok(before)) => before.text == text,
            // At a start it is not known what the secrets were.
            _ => last.is_some_and(|last| last.plain() == shown),
        };
        let is_known = same_text && last.is_some_and(|last| last.layer == *layer);
        let version = if is_known { number } else { number + 1 };
        let shown = Arc::new(shown);
        state.current =
            Some(Ok(Current { version, layer: Arc::clone(layer), base, text, shown: Arc::clone(&shown) }));
        self.first.notify_all();
        if is_known {
            return Outcome::InForce(version, None);
        }
        let last = state.book.last();
        let changes = last.map(|last| differences(&last.plain(), &shown)).unwrap_or_default();
        state.book.add(Version::new(version, who, what, changes, Arc::clone(layer), &shown));
        let kept = state.book.save().err();
        if let Some(why) = &kept {
            state.journal.note("weir", "the file of versions", why);
        }
        Outcome::InForce(version, kept)
    }

    /// Waits until something is in force: ports are open a moment before.
    pub(super) fn wait_for_first(&self, limit: Duration) {
        let nothing = |state: &mut State| state.current.is_none();
        drop(self.first.wait_timeout_while(self.state(), limit, nothing));
    }

    /// What is in force, or why the API cannot change it; `None` before there is anything.
    pub(super) fn current(&self) -> Option<Result<Current, String>> {
        self.state().current.clone()
    }

    pub(super) fn version(&self, number: u64) -> Option<Version> {
        self.state().book.find(number).cloned()
    }

    /// All versions, newest first.
    pub(super) fn versions(&self) -> Vec<serde_json::Value> {
        self.state().book.all().rev().map(Version::shown).collect()
    }

    /// Notes who did what, here and in the logs.
    pub(super) fn note(&self, who: &str, what: &str, outcome: &str) {
        self.state().journal.note(who, what, outcome);
        self.bell.ring();
    }

    /// The next line for the error log.
    pub(crate) fn next_line(&self) -> Option<String> {
        self.state().journal.next_line()
    }

    /// Log files were renamed.
    pub(crate) fn reopen_logs(&self) {
        self.state().journal.reopen();
    }

    pub(super) fn journal(&self) -> Vec<Entry> {
        self.state().journal.all()
    }
}
