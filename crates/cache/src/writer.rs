//! An object on its way into the store.
//!
//! Owns: the pieces that wait for the disk, their bound, the file until it has its name.
//! Never: waits; a piece too many for the bound, or a disk that fails, ends it.
//! Driven by: a worker, which gives pieces as they come; threads of the store, which write them in order.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::key::Key;
use crate::pending::Written;
use crate::record::{FIXED, Fixed, Meta, Texts};
use crate::store::{Store, WRITES};

/// Pieces are gathered up to this size.
const PIECE: usize = 64 << 10;
/// More than this should not wait for the disk: whoever can is to wait a little.
const CROWDED: usize = 4 << 20;
/// More than this does not wait: the object is given up.
const MOST_QUEUED: usize = 16 << 20;

/// An object that is being written. Dropped before [`Writer::finish`], nothing of it is kept.
pub struct Writer {
    store: Arc<Store>,
    key: Key,
    file: Arc<Writing>,
    fixed: Fixed,
    held: Vec<u8>,
    sum: crc32fast::Hasher,
    began: Instant,
    finished: bool,
}

struct Writing {
    state: Mutex<State>,
    queued: AtomicUsize,
    failed: AtomicBool,
}

#[derive(Default)]
struct State {
    pieces: VecDeque<Vec<u8>>,
    /// A thread is at it, or about to be.
    running: bool,
    file: Option<(File, PathBuf)>,
    at: u64,
    end: Option<End>,
}

enum End {
    Finish(Box<Fixed>, Instant, Written),
    Drop,
}

impl Writer {
    /// Begins to store an object for a name; `vary` names the request's fields that it varies by, and it was asked for
    /// when its fetch `began`. `None`: it does not fit.
    pub fn new(
        store: &Arc<Store>,
        key: Key,
        (name, vary, head): (&[u8], &[u8], &[u8]),
        began: Instant,
    ) -> Option<Self> {
        let texts = Texts { name, vary, head };
        if !texts.fit() {
            return None;
        }
        let held = texts.concat();
        let fixed = Fixed {
            meta: Meta::default(),
            name: name.len() as u32,
            vary: vary.len() as u32,
            head: head.len() as u32,
            body: 0,
            texts_sum: crc32fast::hash(&held),
            body_sum: 0,
        };
        let state = State { at: FIXED as u64, ..State::default() };
        let file = Arc::new(Writing {
            state: Mutex::new(state),
            queued: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        });
        let sum = crc32fast::Hasher::new();
        Some(Self { store: store.clone(), key, file, fixed, held, sum, began, finished: false })
    }

    /// Takes a piece of the body. False: it was given up.
    pub fn push(&mut self, piece: &[u8]) -> bool {
        if self.file.failed.load(Ordering::Relaxed) {
            return false;
        }
        self.sum.update(piece);
        self.fixed.body += piece.len() as u64;
        self.held.extend_from_slice(piece);
        if self.held.len() >= PIECE {
            self.hand_over();
            if self.file.queued.load(Ordering::Relaxed) > MOST_QUEUED {
                self.file.failed.store(true, Ordering::Relaxed);
            }
        }
        true
    }

    /// Whether the disk is behind: pieces should come more slowly.
    pub fn is_crowded(&self) -> bool {
        !self.file.failed.load(Ordering::Relaxed) && self.file.queued.load(Ordering::Relaxed) > CROWDED
    }

    /// Bytes of the body so far.
    pub fn length(&self) -> u64 {
        self.fixed.body
    }

    /// All of the body was given: the object gets its name once it is written.
    pub fn finish(mut self, meta: Meta) {
        let mut fixed = self.fixed.clone();
        (fixed.meta, fixed.body_sum) = (meta, self.sum.clone().finalize());
        let written = Written::new(&self.store, self.key);
        self.finished = true;
        self.queue_held();
        self.file.state().end = Some(End::Finish(Box::new(fixed), self.began, written));
        self.wake();
    }

    fn hand_over(&mut self) {
        self.queue_held();
        self.wake();
    }

    fn queue_held(&mut self) {
        if !self.held.is_empty() {
            let piece = std::mem::take(&mut self.held);
            self.file.queued.fetch_add(piece.len(), Ordering::Relaxed);
            self.file.state().pieces.push_back(piece);
        }
    }

    fn wake(&self) {
        if std::mem::replace(&mut self.file.state().running, true) {
            return;
        }
        let (store, key, file) = (self.store.clone(), self.key, self.file.clone());
        if !self.store.threads.run(WRITES, move || file.run(&store, &key)) {
            self.file.failed.store(true, Ordering::Relaxed);
            let mut state = self.file.state();
            (state.running, state.end) = (false, None);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.finished {
            self.file.failed.store(true, Ordering::Relaxed);
            let mut state = self.file.state();
            // Nothing was written yet: there is nothing to remove.
            if state.running || state.file.is_some() {
                state.end = Some(End::Drop);
                drop(state);
                self.wake();
            }
        }
    }
}

impl Writing {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing inside the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what is there. One thread at a time is at it.
    fn run(&self, store: &Store, key: &Key) {
        loop {
            let mut state = self.state();
            if let Some(piece) = state.pieces.pop_front() {
                let (mut file, at) = (state.file.take(), state.at);
                state.at += piece.len() as u64;
                drop(state);
                self.queued.fetch_sub(piece.len(), Ordering::Relaxed);
                if !self.failed.load(Ordering::Relaxed)
                    && let Err(error) = write(store, &mut file, &piece, at)
                {
                    self.failed.store(true, Ordering::Relaxed);
                    store.tell(&format!("cannot store an object in {}: {error}", store.path.display()));
                }
                self.state().file = file;
                continue;
            }
            state.running = false;
            let Some(end) = state.end.take() else { return };
            let (file, length) = (state.file.take(), state.at);
            drop(state);
            let Some((file, path)) = file else { return };
            let kept = match end {
                End::Finish(fixed, began, written) if !self.failed.load(Ordering::Relaxed) => {
                    let headed = file.write_all_at(&fixed.to_bytes(), 0);
                    let kept = headed.and_then(|()| store.put(key, &path, length, began));
                    drop(written);
                    kept
                }
                _ => Err(io::ErrorKind::Interrupted.into()),
            };
            if let Err(error) = kept {
                let _ = std::fs::remove_file(&path);
                if !self.failed.load(Ordering::Relaxed) {
                    store.tell(&format!("cannot store an object in {}: {error}", store.path.display()));
                }
            }
            return;
        }
    }
}

fn write(store: &Store, file: &mut Option<(File, PathBuf)>, piece: &[u8], at: u64) -> io::Result<()> {
    if file.is_none() {
        *file = Some(store.temporary.create(&store.path)?);
    }
    let Some((file, _)) = file else { return Err(io::ErrorKind::NotFound.into()) };
    file.write_all_at(piece, at)
}
