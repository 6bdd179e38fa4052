//! Lines of one worker before they are handed to the writers.
//!
//! Owns: buffers by plan and log, files with computed names, the task that flushes, the clocks in text.
//! Never: waits for a disk, but to open a file whose name a request computed (as nginx does).
//! Driven by: `log`, after each exchange.
//! Why: the flushing task sleeps on a signal while nothing is buffered, so an idle worker does not wake up.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use weir_http::{DateLine, HttpDate};
use weir_plan::LogIx;
use weir_policy::Millis;
use weir_telemetry::{BufferOptions, LogBuffer, LogClock, TargetSpec};

use super::{Logs, Targets};
use crate::logging::targets::Target;
use crate::worker::race::Signal;

/// Files with computed names that a worker holds open for one log.
const MOST_NAMED: usize = 64;

/// Lines on their way.
pub(crate) struct WorkerLogs {
    state: RefCell<State>,
    /// When lines must be handed over; `None` while nothing is buffered.
    due: Cell<Option<Millis>>,
    /// Told when that became sooner.
    sooner: Signal,
}

struct State {
    /// Stamps of syslog messages.
    clock: LogClock,
    /// Buffers by plan, the one that was written to last at the end.
    plans: Vec<PlanBuffers>,
    uses: u64,
}

struct PlanBuffers {
    serial: u64,
    by_log: Vec<Slot>,
}

#[derive(Default)]
enum Slot {
    #[default]
    Unused,
    One(Box<LogBuffer>),
    Named(HashMap<PathBuf, Named>),
}

struct Named {
    /// `None`: it could not be opened, and is not tried again until something pushes it out.
    buffer: Option<LogBuffer>,
    used: u64,
}

impl Default for WorkerLogs {
    fn default() -> Self {
        let state = State { clock: LogClock::local(), plans: Vec::new(), uses: 0 };
        Self { state: RefCell::new(state), due: Cell::new(None), sooner: Signal::default() }
    }
}

impl WorkerLogs {
    /// Adds a line. `name` computes the path of a file where that is computed.
    pub(crate) fn line(
        &self,
        logs: &Logs,
        now: Millis,
        targets: &Targets,
        log: LogIx,
        line: &[u8],
        name: impl FnOnce(&weir_plan::Template) -> Vec<u8>,
    ) {
        let Some(target) = targets.target(log) else { return };
        let now = now.0;
        let mut state = self.state.borrow_mut();
        let State { clock, plans, uses } = &mut *state;
        let slot = slot(plans, targets.serial, log);
        let (buffer, longest) = match target {
            Target::Nowhere => return logs.count_dropped(),
            Target::Lines(lines) => {
                if lines.sample.as_deref().is_some_and(left_out) {
                    return;
                }
                if !matches!(slot, Slot::One(_)) {
                    *slot = Slot::One(Box::new(lines.buffer()));
                }
                let Slot::One(buffer) = slot else { return };
                (&mut **buffer, lines.longest)
            }
            Target::Template { path, options } => {
                *uses += 1;
                let Some(path) = safe_path(name(path)) else { return logs.count_dropped() };
                match named(logs, slot, path, *options, *uses) {
                    Some(buffer) => (buffer, None),
                    None => return logs.count_dropped(),
                }
            }
        };
        let line = longest.map_or(line, |most| &line[..line.len().min(most)]);
        buffer.line(now, None, || clock.at(millis(weir_rt::unix_now())), |out| out.extend_from_slice(line));
        let due = buffer.poll_timeout().map(Millis);
        drop(state);
        if let Some(due) = due
            && self.due.get().is_none_or(|known| due < known)
        {
            self.due.set(Some(due));
            self.sooner.wake_all();
        }
    }

    /// Hands over all lines, and forgets the buffers of plans that are gone.
    pub(crate) fn flush(&self) {
        let mut state = self.state.borrow_mut();
        let current = state.plans.pop();
        // Buffers hand over what they hold when they are dropped.
        state.plans.clear();
        if let Some(mut current) = current {
            current.each(LogBuffer::flush);
            state.plans.push(current);
        }
        drop(state);
        self.due.set(None);
    }

    /// When lines are due; `None`: none wait.
    pub(crate) fn due(&self) -> Option<Millis> {
        self.due.get()
    }

    /// Ready when lines are due sooner than they were.
    pub(crate) fn sooner(&self) -> impl Future<Output = ()> {
        self.sooner.next()
    }

    /// Hands over the lines that are due, and notes when the next are.
    pub(crate) fn flush_due(&self, now: Millis) {
        let mut state = self.state.borrow_mut();
        let mut next: Option<u64> = None;
        for plan in &mut state.plans {
            plan.each(|buffer| {
                if buffer.poll_timeout().is_some_and(|due| due <= now.0) {
                    buffer.flush();
                }
                next = [next, buffer.poll_timeout()].into_iter().flatten().min();
            });
        }
        // With nothing waiting, buffers of older plans are of no more use.
        if next.is_none() && state.plans.len() > 1 {
            let last = state.plans.pop();
            state.plans.clear();
            state.plans.extend(last);
        }
        self.due.set(next.map(Millis));
    }
}

impl PlanBuffers {
    fn each(&mut self, mut act: impl FnMut(&mut LogBuffer)) {
        for slot in &mut self.by_log {
            match slot {
                Slot::Unused => {}
                Slot::One(buffer) => act(buffer),
                Slot::Named(files) => {
                    files.values_mut().filter_map(|named| named.buffer.as_mut()).for_each(&mut act)
                }
            }
        }
    }
}

/// Counts a line; whether it is not among those that are wanted.
#[cold]
fn left_out((sample, count): &(weir_expr::settings::LogSample, std::sync::atomic::AtomicU32)) -> bool {
    !sample.takes(count.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
}

/// The place for a log's buffer. Lines of one plan mostly follow lines of the same.
fn slot(plans: &mut Vec<PlanBuffers>, serial: u64, log: LogIx) -> &mut Slot {
    if plans.last().is_none_or(|last| last.serial != serial) {
        let plan = match plans.iter().position(|plan| plan.serial == serial) {
            Some(at) => plans.remove(at),
            None => PlanBuffers { serial, by_log: Vec::new() },
        };
        plans.push(plan);
    }
    let last = plans.len() - 1;
    let by_log = &mut plans[last].by_log;
    if by_log.len() <= log.at() {
        by_log.resize_with(log.at() + 1, Slot::default);
    }
    &mut by_log[log.at()]
}

/// The buffer for a file with a computed name; the one unused for longest gives way.
fn named<'s>(
    logs: &Logs,
    slot: &'s mut Slot,
    path: PathBuf,
    options: BufferOptions,
    uses: u64,
) -> Option<&'s mut LogBuffer> {
    if !matches!(slot, Slot::Named(_)) {
        *slot = Slot::Named(HashMap::new());
    }
    let Slot::Named(files) = slot else { return None };
    if !files.contains_key(&path) && files.len() >= MOST_NAMED {
        let oldest = files.iter().min_by_key(|(_, named)| named.used).map(|(path, _)| path.clone());
        oldest.map(|oldest| files.remove(&oldest));
    }
    let named = files.entry(path).or_insert_with_key(|path| {
        let opened = logs.hub.target(TargetSpec::File(path.clone()));
        if let Err(error) = &opened {
            logs.process_error(&format!("open() \"{}\" failed: {error}", path.display()));
        }
        Named { buffer: opened.ok().map(|target| LogBuffer::new(target, options)), used: uses }
    });
    named.used = uses;
    named.buffer.as_mut()
}

/// A computed path, unless a request made it climb.
fn safe_path(path: Vec<u8>) -> Option<PathBuf> {
    let path = PathBuf::from(std::ffi::OsString::from(String::from_utf8(path).ok()?));
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    (plain && path.is_absolute() && path.file_name().is_some() && !has_nul(&path)).then_some(path)
}

fn has_nul(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().contains(&0)
}

/// The texts of the present second.
pub(crate) struct Clock {
    now: LogClock,
    /// Of other moments: HAProxy's dates of accepts and requests.
    other: LogClock,
    date: DateLine,
}

impl Default for Clock {
    fn default() -> Self {
        let now = LogClock::local();
        Self { other: now.another(), now, date: DateLine::default() }
    }
}

impl Clock {
    /// Appends nginx's `$time_local`.
    pub(crate) fn local(&mut self, at: Duration, out: &mut Vec<u8>) {
        out.extend_from_slice(self.now.at(millis(at)).local.as_bytes());
    }

    /// Appends nginx's `$time_iso8601`.
    pub(crate) fn iso8601(&mut self, at: Duration, out: &mut Vec<u8>) {
        out.extend_from_slice(self.now.at(millis(at)).iso8601.as_bytes());
    }

    /// A moment in a form of strftime(3).
    pub(crate) fn in_form(&self, at: Duration, form: &str, gmt: bool) -> Option<String> {
        self.now.in_form(at.as_secs(), form, gmt)
    }

    /// Appends HAProxy's date with milliseconds: `21/Nov/2026:02:45:31.123`.
    pub(crate) fn haproxy(&mut self, at: Duration, out: &mut Vec<u8>) {
        let (start, at) = (out.len(), millis(at));
        self.other.at(at).haproxy_into(out, at);
        // The brackets are the format's own.
        out.pop();
        out.remove(start);
    }

    /// See [`LogClock::formatted`].
    pub(crate) fn formatted(&self, format: &str, second: i64, nanos: i32, utc: bool) -> Option<String> {
        self.now.formatted(format, second, nanos, utc)
    }

    /// Appends a whole `Date` line.
    pub(crate) fn date_line(&mut self, at: Duration, out: &mut Vec<u8>) {
        out.extend_from_slice(self.date.at(HttpDate::from_unix(at.as_secs())));
    }

    /// The value of a `Date` field.
    pub(crate) fn date(&mut self, at: Duration) -> &[u8] {
        self.date.value_at(HttpDate::from_unix(at.as_secs()))
    }
}

fn millis(at: Duration) -> u64 {
    u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
}
