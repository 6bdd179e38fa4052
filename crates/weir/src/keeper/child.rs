//! The keeper's side of a data plane: starting it, telling it, and starting it again.
//!
//! Owns: the child process, what it holds by now, and the last configuration that served.
//! Never: waits for the child; takes more from it in a turn than [`TURN`] replies; logs what it was not asked for.
//! Driven by: `life::master`.
//!
//! ```text
//!   (none) ──apply──→ Starting ──Applied──→ Serving ──drain/stop──→ Ending ──exit──→ (Ended)
//!                        │                    │ died
//!                     Refused/died            └──→ waiting for its next start, with the same sockets and parcel
//! ```

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::channel::{Channel, Named, Outbox, ToPlane};
use super::parcel::Parcel;
use super::replies::{self, FromPlane, Heard, Replies};
use super::zone;
use crate::launch::{Launch, Manner};
use crate::life::logs::LogFiles;
use crate::life::notify;
use crate::life::privileges::Identity;
use crate::life::sockets::{OpenSocket, SocketId};
use crate::life::supervised::{Candidate, Event, Supervised};
use crate::role::Role;

/// A configuration that takes longer to start than this is given up.
const APPLY_LIMIT: Duration = Duration::from_secs(120);
/// A child that does not take messages for this long is ended.
const SEND_LIMIT: Duration = Duration::from_secs(30);
/// Between asking a child to end and ending it.
const GRACE: Duration = Duration::from_secs(5);
/// A child that served this long starts again without delay when it dies.
const STEADY: Duration = Duration::from_secs(60);
/// Delays before further starts: doubling from the first to the last.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LAST_DELAY: Duration = Duration::from_secs(10);

/// Replies taken in one turn, so that signals are looked at in between.
const TURN: usize = 16;

/// Descriptors in one packet: their names have to fit, too.
const BATCH: usize = 12;

/// See the module.
pub(crate) struct Keeper {
    launch: Launch,
    identity: Identity,
    open_files: u64,
    child: Option<Running>,
    good: Option<Stock>,
    trying: Option<(Stock, Instant)>,
    ending: bool,
    kill_at: Option<Instant>,
    start_at: Option<Instant>,
    delay: Duration,
    events: VecDeque<Event>,
}

struct Running {
    process: Child,
    outbox: Outbox,
    replies: Replies,
    holds: HashSet<SocketId>,
    since: Instant,
    /// Its first configuration is one that served before it was started.
    revived: bool,
    /// It has applied something.
    serves: bool,
    /// It has closed its side.
    silent: bool,
    /// It was killed.
    dead: bool,
}

/// All that a data plane needs for one generation.
struct Stock {
    generation: u64,
    parcel: OwnedFd,
    sockets: Vec<OpenSocket>,
    logs: LogFiles,
    /// Where standard error goes, unless it stays what it is.
    stderr: Option<Arc<File>>,
}

impl Keeper {
    pub(crate) fn new(launch: Launch, identity: Identity, open_files: u64) -> Self {
        Self {
            launch,
            identity,
            open_files,
            child: None,
            good: None,
            trying: None,
            ending: false,
            kill_at: None,
            start_at: None,
            delay: Duration::ZERO,
            events: VecDeque::new(),
        }
    }

    fn start_child(&mut self, revived: bool) -> io::Result<()> {
        let (ours, theirs) = Channel::pair()?;
        let (replies, mouth) = replies::pipe()?;
        let mut command = Role::Plane.command(title(self.launch.manner));
        command.env_remove(notify::VARIABLE).stdin(Stdio::from(theirs.into_fd()));
        if Role::of_this_process() == Role::Daemon {
            // Whoever started us may be waiting for the end of our output.
            command.stdout(Stdio::null());
        }
        if self.identity.chroot.is_some()
            && let Some(zone) = zone::rule_for_environment()
        {
            command.env(zone::VARIABLE, zone);
        }
        let process = command.spawn()?;
        let mut running = Running {
            process,
            outbox: Outbox::new(ours),
            replies,
            holds: HashSet::new(),
            since: Instant::now(),
            revived,
            serves: false,
            silent: false,
            dead: false,
        };
        let begin = ToPlane::Begin {
            identity: Box::new(self.identity.clone()),
            launch: Box::new(self.launch.clone()),
            open_files: self.open_files,
        };
        running.replies.due.ready();
        running.outbox.send(&begin, &[mouth.as_fd()])?;
        self.child = Some(running);
        Ok(())
    }

    /// Begins a generation in the child, starting one if there is none.
    fn try_stock(&mut self, stock: &Stock, revived: bool) -> io::Result<()> {
        if self.child.is_none() {
            self.start_at = None;
            self.start_child(revived)?;
        }
        match &mut self.child {
            Some(child) => child.hand_over(stock),
            None => Ok(()),
        }
    }

    fn revive(&mut self) {
        self.start_at = None;
        let Some(stock) = self.good.take() else { return };
        let started = self.try_stock(&stock, true);
        self.good = Some(stock);
        if let Err(error) = started {
            self.events.push_back(Event::Alert(format!("the data plane cannot be started: {error}")));
            self.kill();
            if self.child.is_none() {
                self.schedule_start();
            }
        }
    }

    fn schedule_start(&mut self) {
        self.start_at = Some(Instant::now() + self.delay);
        self.delay = (self.delay * 2).clamp(FIRST_DELAY, LAST_DELAY);
    }

    fn tell(&mut self, message: &ToPlane) {
        let sent = self.alive().map(|child| child.outbox.send(message, &[]));
        self.listens(sent.unwrap_or(Ok(())));
    }

    /// The child, unless it was killed.
    fn alive(&mut self) -> Option<&mut Running> {
        self.child.as_mut().filter(|child| !child.dead)
    }

    /// Ends a child that does not take what it is sent.
    fn listens(&mut self, sent: io::Result<()>) {
        if let Err(error) = sent {
            self.give_up(&format!("the data plane does not listen and is ended: {error}"));
        }
    }

    fn give_up(&mut self, why: &str) {
        self.events.push_back(Event::Alert(why.to_owned()));
        self.kill();
    }

    /// Ends the child; its exit is then seen as any other. Nothing is heard or sent any more.
    fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            child.dead = true;
            // It may be gone already.
            let _ = child.process.kill();
        }
    }

    fn send_what_waits(&mut self) {
        let sent = self.alive().map(|child| child.outbox.flush());
        self.listens(sent.unwrap_or(Ok(())));
    }

    fn take_replies(&mut self) {
        for _ in 0..TURN {
            let Some(child) = self.alive() else { return };
            match child.replies.hear() {
                Heard::Reply(reply) => self.take_reply(reply),
                Heard::Nothing => return,
                Heard::Closed => {
                    child.silent = true;
                    // Wait for the exit, but not for good.
                    self.kill_at.get_or_insert(Instant::now() + Duration::from_secs(1));
                    return;
                }
                Heard::Nonsense(reason) => {
                    return self.give_up(&format!("the data plane talks nonsense and is ended: {reason}"));
                }
            }
        }
    }

    fn take_reply(&mut self, reply: FromPlane) {
        match reply {
            FromPlane::Ready { unconfined: None } => {}
            FromPlane::Ready { unconfined: Some(reason) } => {
                let text = format!("the data plane runs without a filter of system calls: {reason}");
                self.events.push_back(Event::Notice(text));
            }
            FromPlane::Applied { generation } => self.applied(generation),
            FromPlane::Refused { generation, reason } => self.refused(generation, reason),
            FromPlane::Drained => {}
            FromPlane::Status(text) => self.events.push_back(Event::Notice(text)),
        }
    }

    fn applied(&mut self, generation: u64) {
        if let Some(child) = &mut self.child {
            child.serves = true;
        }
        if let Some((stock, _)) = self.trying.take_if(|(stock, _)| stock.generation == generation) {
            self.good = Some(stock);
            self.keep_only_good();
            self.events.push_back(Event::Applied(generation));
        } else if self.child.as_mut().is_some_and(|child| std::mem::take(&mut child.revived)) {
            self.events.push_back(Event::Notice("the data plane serves again".into()));
        }
    }

    fn refused(&mut self, generation: u64, reason: String) {
        if self.trying.take_if(|(stock, _)| stock.generation == generation).is_some() {
            self.keep_only_good();
            self.events.push_back(Event::Refused(generation, reason));
            if self.child.as_ref().is_some_and(|child| !child.serves) {
                // It was started for this one; now it is to run what served before.
                self.revive();
            }
        } else {
            self.give_up(&format!("the data plane cannot go on: {reason}"));
        }
    }

    fn keep_only_good(&mut self) {
        if let (Some(child), Some(good)) = (&mut self.child, &self.good) {
            let good: HashSet<_> = good.sockets.iter().map(|socket| socket.id).collect();
            child.holds.retain(|id| good.contains(id));
        }
    }

    fn reap(&mut self) {
        let Some(child) = &mut self.child else { return };
        let Ok(Some(status)) = child.process.try_wait() else { return };
        // What it said last is still in the pipe.
        self.take_replies();
        let Some(child) = self.child.take() else { return };
        self.kill_at = None;
        if self.ending {
            return self.events.push_back(Event::Ended);
        }
        let how = describe(child.process.id(), status);
        if let Some((stock, _)) = self.trying.take() {
            self.events.push_back(Event::Refused(stock.generation, how.clone()));
        }
        if self.good.is_some() {
            self.events.push_back(Event::Alert(format!("{how}; it is started again")));
            if child.since.elapsed() >= STEADY {
                self.delay = Duration::ZERO;
            }
            self.schedule_start();
        }
    }

    fn stuck_since(&self) -> Option<Instant> {
        self.child.as_ref().filter(|child| !child.dead)?.outbox.stuck_since()
    }

    fn meet_deadlines(&mut self) {
        let now = Instant::now();
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill_at = None;
            self.kill();
        }
        if self.trying.as_ref().is_some_and(|(_, since)| *since + APPLY_LIMIT <= now) {
            self.kill();
        }
        let stuck = self.stuck_since();
        if stuck.is_some_and(|since| since + SEND_LIMIT <= now) {
            self.listens(Err(io::ErrorKind::TimedOut.into()));
        }
        if self.start_at.is_some_and(|at| at <= now) {
            self.revive();
        }
    }
}

impl Running {
    /// Sends what the child does not hold yet, then the word to begin.
    fn hand_over(&mut self, stock: &Stock) -> io::Result<()> {
        let sockets = stock.sockets.iter().filter(|socket| !self.holds.contains(&socket.id));
        let sockets = sockets.map(|socket| (Named::Socket(socket.id), socket.fd.as_fd()));
        let parcel = [(Named::Parcel, stock.parcel.as_fd())];
        let all: Vec<_> = sockets.chain(stock.named_logs()).chain(parcel).collect();
        self.send_descriptors(&all)?;
        self.holds.extend(stock.sockets.iter().map(|socket| socket.id));
        self.replies.due.generation(stock.generation);
        self.outbox.send(&ToPlane::Apply { generation: stock.generation }, &[])
    }

    fn send_descriptors(&mut self, all: &[(Named, BorrowedFd<'_>)]) -> io::Result<()> {
        for batch in all.chunks(BATCH) {
            let (names, fds): (Vec<_>, Vec<_>) = batch.iter().cloned().unzip();
            self.outbox.send(&ToPlane::Descriptors(names), &fds)?;
        }
        Ok(())
    }

    fn reopen(&mut self, stock: &Stock) -> io::Result<()> {
        let all: Vec<_> = stock.named_logs().collect();
        self.send_descriptors(&all)?;
        self.outbox.send(&ToPlane::Reopen, &[])
    }
}

impl Stock {
    fn named_logs(&self) -> impl Iterator<Item = (Named, BorrowedFd<'_>)> {
        let logs = self.logs.iter().map(|(path, file)| (Named::Log(path.into()), file.as_fd()));
        logs.chain(self.stderr.iter().map(|file| (Named::Stderr, file.as_fd())))
    }
}

impl Supervised for Keeper {
    fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, |child| child.process.id())
    }

    fn apply(&mut self, candidate: Candidate) {
        let generation = candidate.generation;
        self.ending = false;
        let ids = |sockets: &[OpenSocket]| sockets.iter().map(|socket| socket.id).collect();
        let listeners = &candidate.sockets.listeners;
        let parcel = Parcel {
            workers: candidate.workers,
            listeners: listeners.iter().map(|one| (one.name.clone(), ids(&one.sockets))).collect(),
            answers: candidate.answers,
            text: candidate.text,
        };
        let sockets = listeners.iter().flat_map(|one| one.sockets.iter().cloned()).collect();
        let (logs, stderr) = (candidate.logs, candidate.stderr);
        let stock = parcel.pack().map(|parcel| Stock { generation, parcel, sockets, logs, stderr });
        let tried = stock.and_then(|stock| self.try_stock(&stock, false).map(|()| stock));
        match tried {
            Ok(stock) => self.trying = Some((stock, Instant::now())),
            Err(error) => {
                self.events
                    .push_back(Event::Refused(generation, format!("the data plane cannot be told: {error}")));
                self.kill();
            }
        }
    }

    fn reopen(&mut self, logs: &LogFiles, stderr: Option<Arc<File>>) {
        let Some(good) = &mut self.good else { return };
        (good.logs, good.stderr) = (logs.clone(), stderr);
        if let Some(child) = self.child.as_mut().filter(|child| !child.dead) {
            let sent = child.reopen(good);
            self.listens(sent);
        }
    }

    fn drain(&mut self, deadline: Option<Duration>) {
        self.ending = true;
        self.start_at = None;
        if self.child.is_none() {
            return self.events.push_back(Event::Ended);
        }
        // The next data plane must not find sockets that this one is told to close.
        self.good = None;
        if let Some(child) = &mut self.child {
            child.replies.due.drained();
        }
        self.tell(&ToPlane::Drain { deadline });
        self.kill_at = deadline.map(|deadline| Instant::now() + deadline + GRACE);
    }

    fn stop(&mut self) {
        self.ending = true;
        self.start_at = None;
        if self.child.is_none() {
            return self.events.push_back(Event::Ended);
        }
        self.tell(&ToPlane::Stop);
        self.kill_at = Some(Instant::now() + GRACE);
    }

    fn status(&mut self) {
        if self.child.as_mut().is_some_and(|child| child.replies.due.status()) {
            self.tell(&ToPlane::Status);
        }
    }

    fn fds(&self) -> Vec<PollFd<'_>> {
        let Some(child) = self.child.as_ref().filter(|child| !child.dead) else { return Vec::new() };
        let replies = (!child.silent).then(|| PollFd::new(&child.replies, PollFlags::IN));
        let outbox = child.outbox.stuck_since().map(|_| PollFd::new(&child.outbox, PollFlags::OUT));
        replies.into_iter().chain(outbox).collect()
    }

    fn wake_at(&self) -> Option<Instant> {
        let given_up = self.trying.as_ref().map(|(_, since)| *since + APPLY_LIMIT);
        let deaf = self.stuck_since().map(|since| since + SEND_LIMIT);
        let told = (!self.events.is_empty()).then(Instant::now);
        [self.kill_at, self.start_at, given_up, deaf, told].into_iter().flatten().min()
    }

    fn turn(&mut self) {
        self.send_what_waits();
        self.take_replies();
        self.reap();
        self.meet_deadlines();
    }

    fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.process.kill();
            let _ = child.process.wait();
        }
    }
}

/// As people look for it in lists of processes.
fn title(manner: Manner) -> &'static str {
    match manner {
        Manner::Weir => "weir: data plane",
        Manner::Nginx => "nginx: worker process",
        Manner::Haproxy => "haproxy: worker",
    }
}

fn describe(pid: u32, status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("the data plane (process {pid}) exited on signal {signal}"),
        (None, Some(code)) => format!("the data plane (process {pid}) exited with code {code}"),
        (None, None) => format!("the data plane (process {pid}) ended"),
    }
}
