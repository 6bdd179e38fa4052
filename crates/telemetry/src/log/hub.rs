//! The threads that write logs.
//!
//! Owns: the queue, the open files, reopening.
//! Never: lets one target's trouble reach a worker.
//! Driven by: log buffers and error logs (lines), signals (`reopen`), the end (`flush`).
//! Why: one thread for files, FIFOs (opened nonblocking) and syslog; standard error has a thread of its own, because it
//! may be a pipe that somebody stopped reading, and cannot be made nonblocking without doing so to the parent's shell.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use hashbrown::HashMap;

use super::ring::Ring;
use super::target::{Batch, LogTarget, Output, TargetSpec};

/// Opens a log file for appending. The default makes it with mode 0644; the keeper's passes a descriptor that root
/// opened.
pub type Opener = Arc<dyn Fn(&Path) -> io::Result<File> + Send + Sync>;

/// Told once when a target gets into trouble, and once when it is over.
pub type Notify = Arc<dyn Fn(&str) + Send + Sync>;

/// How a hub works.
#[derive(Clone)]
pub struct HubOptions {
    /// Opens files.
    pub opener: Opener,
    /// Hears of trouble. It must not wait; writing to an error log is fine.
    pub notify: Notify,
    /// Bytes that may wait for one target; beyond, lines are dropped.
    pub room: usize,
}

impl Default for HubOptions {
    fn default() -> Self {
        Self {
            opener: Arc::new(open_append),
            // It may be the very stream that fails.
            notify: Arc::new(|text| drop(io::stderr().write_all(format!("weir: {text}\n").as_bytes()))),
            room: 4 << 20,
        }
    }
}

/// A file to append to. Nonblocking, for a FIFO without a reader must not hold us up; on files it means nothing.
fn open_append(path: &Path) -> io::Result<File> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits();
    OpenOptions::new().append(true).create(true).mode(0o644).custom_flags(nonblocking as i32).open(path)
}

pub(super) enum Message {
    Write(Arc<LogTarget>, Batch),
    /// Open the target now, and say whether it worked.
    Open(TargetSpec, Sender<io::Result<()>>),
    /// Close and reopen all files.
    Reopen,
    /// Everything before this is written.
    Flush(Sender<()>),
    /// A target has gone: close it.
    Close(TargetSpec),
}

/// The process's logs. Clones are handles to the same; the threads end with the last of them and of its targets.
#[derive(Clone)]
pub struct LogHub {
    options: HubOptions,
    files: Sender<Message>,
    stderr: Sender<Message>,
    targets: Arc<Mutex<HashMap<TargetSpec, Weak<LogTarget>, ahash::RandomState>>>,
    dropped: Arc<AtomicU64>,
    rings: Rings,
}

/// The rings that there are, by whoever holds them.
type Rings = Arc<Mutex<Vec<Weak<Ring>>>>;

/// The end of a write to rings is looked for so often.
const LOOK: Duration = Duration::from_millis(10);

impl std::fmt::Debug for LogHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogHub").field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}

impl LogHub {
    /// Starts the threads. Call after forking and dropping privileges: they are this process's.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(options: HubOptions) -> io::Result<Self> {
        let rings = Rings::default();
        let files = spawn("weir-log", &options, &rings)?;
        let stderr = spawn("weir-log-stderr", &options, &rings)?;
        Ok(Self { options, files, stderr, targets: Arc::default(), dropped: Arc::default(), rings })
    }

    /// The target for `spec`, opened; the same one for equal specs as long as somebody holds it.
    ///
    /// # Errors
    /// If it cannot be opened. (A syslog daemon that is away is no error: messages are dropped until it is back.)
    pub fn target(&self, spec: TargetSpec) -> io::Result<Arc<LogTarget>> {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = targets.get(&spec).and_then(Weak::upgrade) {
            return Ok(target);
        }
        targets.retain(|_, target| target.strong_count() > 0);
        let queue = if spec == TargetSpec::Stderr { &self.stderr } else { &self.files };
        let (answer, opened) = channel();
        let gone = || io::Error::other("the log writer has ended");
        queue.send(Message::Open(spec.clone(), answer)).map_err(|_| gone())?;
        opened.recv().map_err(|_| gone())??;
        let target = Arc::new(LogTarget {
            spec: spec.clone(),
            queue: queue.clone(),
            room: self.options.room,
            waiting: 0.into(),
            dropped: 0.into(),
            troubled: false.into(),
            all_dropped: Arc::clone(&self.dropped),
        });
        targets.insert(spec, Arc::downgrade(&target));
        Ok(target)
    }

    /// Closes and reopens all files, after what was handed over so far is written to the old ones.
    pub fn reopen(&self) {
        let _ = self.files.send(Message::Reopen);
    }

    /// Waits until what was handed over so far is written, at most this long. True if it is.
    pub fn flush(&self, at_most: Duration) -> bool {
        let end = Instant::now() + at_most;
        let written = [&self.files, &self.stderr].into_iter().all(|queue| {
            let (done, wait) = channel();
            queue.send(Message::Flush(done)).is_ok()
                && wait.recv_timeout(at_most) != Err(RecvTimeoutError::Timeout)
        });
        // Nobody waits for servers that are not there.
        let waits = |ring: &Arc<Ring>| !ring.is_passed_on() && !ring.is_down();
        while self.rings().iter().any(waits) {
            if Instant::now() >= end {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        written
    }

    /// The rings that are open, those of pools' servers among them.
    pub fn rings(&self) -> Vec<Arc<Ring>> {
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        rings.retain(|ring| ring.strong_count() > 0);
        rings.iter().filter_map(Weak::upgrade).collect()
    }

    /// Lines dropped since the start, over all targets.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}

impl Drop for LogTarget {
    fn drop(&mut self) {
        let _ = self.queue.send(Message::Close(self.spec.clone()));
    }
}

fn spawn(name: &str, options: &HubOptions, rings: &Rings) -> io::Result<Sender<Message>> {
    let (sender, queue) = channel();
    let writer = Writer { options: options.clone(), outputs: HashMap::default(), rings: rings.clone() };
    std::thread::Builder::new().name(name.into()).spawn(move || writer.run(&queue))?;
    Ok(sender)
}

/// One thread's open ends.
struct Writer {
    options: HubOptions,
    /// How many targets of this spec were opened and not closed, and the open end, unless it could not be reopened.
    outputs: HashMap<TargetSpec, (u32, Option<Output>), ahash::RandomState>,
    rings: Rings,
}

impl Writer {
    fn run(mut self, queue: &Receiver<Message>) {
        while let Ok(message) = queue.recv() {
            // A thread that ended here would leave a process that looks alive and writes no logs.
            if catch_unwind(AssertUnwindSafe(|| self.take(message))).is_err() {
                (self.options.notify)("writing a log panicked, and goes on: what was to be written is lost");
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Write(target, batch) => self.write(&target, &batch),
            Message::Open(spec, answer) => {
                let _ = answer.send(self.open(spec));
            }
            Message::Reopen => self.reopen(),
            Message::Flush(done) => {
                let _ = done.send(());
            }
            Message::Close(spec) => self.close(&spec),
        }
    }

    fn open(&mut self, spec: TargetSpec) -> io::Result<()> {
        if let Some((count, Some(_))) = self.outputs.get_mut(&spec) {
            *count += 1;
            return Ok(());
        }
        let output = Output::open(&spec, &self.options.opener)?;
        let rings = output.rings();
        if !rings.is_empty() {
            let mut known = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
            known.extend(rings.iter().map(Arc::downgrade));
        }
        let entry = self.outputs.entry(spec).or_insert((0, None));
        *entry = (entry.0 + 1, Some(output));
        Ok(())
    }

    /// A target is dropped before its successor's open is asked for, or after; the count bridges both orders.
    fn close(&mut self, spec: &TargetSpec) {
        if let Some((count, _)) = self.outputs.get_mut(spec) {
            *count -= 1;
            if *count == 0 {
                self.outputs.remove(spec);
            }
        }
    }

    fn reopen(&mut self) {
        for (spec, (_, output)) in &mut self.outputs {
            if !matches!(spec, TargetSpec::File(_)) {
                continue;
            }
            match Output::open(spec, &self.options.opener) {
                Ok(new) => *output = Some(new),
                // The old file is better than none: lines go on to it.
                Err(error) => {
                    (self.options.notify)(&format!("cannot reopen {spec}: {error}; keeping the old file"))
                }
            }
        }
    }

    fn write(&mut self, target: &LogTarget, batch: &Batch) {
        target.waiting.fetch_sub(batch.bytes.len(), Relaxed);
        let Some((_, Some(output))) = self.outputs.get_mut(&target.spec) else {
            target.drop_lines(batch.ends.len() as u64);
            return;
        };
        let (lost, error) = output.write(batch);
        target.drop_lines(lost);
        self.tell(target, error);
    }

    /// Says once that a target is in trouble, and once that it is over.
    fn tell(&self, target: &LogTarget, error: Option<io::Error>) {
        let troubled = error.is_some();
        if target.troubled.swap(troubled, Relaxed) == troubled {
            return;
        }
        let spec = &target.spec;
        match error {
            Some(error) => {
                (self.options.notify)(&format!(
                    "cannot write to {spec}: {error}; lines are dropped and counted"
                ));
            }
            None => {
                let dropped = target.dropped();
                (self.options.notify)(&format!("{spec} can be written again; {dropped} lines were dropped"));
            }
        }
    }
}
