//! The data plane in this very process: not root, or root without another user to become.
//!
//! Owns: the data plane, and a thread that waits while it drains.
//! Never: blocks the master for longer than an apply.
//! Driven by: `life::master`.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::bell::Bell;
use super::logs::LogFiles;
use super::supervised::{Candidate, Event, Supervised};
use crate::door::Desk;
use crate::plane::{DataPlane, Options, Start, Update};

/// See the module.
pub(crate) struct Local {
    start: Start,
    options: Options,
    plane: Option<Arc<dyn DataPlane>>,
    desk: Option<Arc<Desk>>,
    events: VecDeque<Event>,
    drained: (Sender<()>, Receiver<()>),
    bell: Arc<Bell>,
}

impl Local {
    pub(crate) fn new(start: Start, options: Options, desk: Option<Arc<Desk>>) -> std::io::Result<Self> {
        let bell = Arc::new(Bell::new()?);
        Ok(Self { start, options, plane: None, desk, events: VecDeque::new(), drained: channel(), bell })
    }

    fn tell(&mut self, event: Event) {
        self.events.push_back(event);
        self.bell.ring();
    }

    fn plane(&mut self) -> Result<Arc<dyn DataPlane>, String> {
        if let Some(plane) = &self.plane {
            return Ok(Arc::clone(plane));
        }
        let plane: Arc<dyn DataPlane> = Arc::from((self.start)(self.options.clone())?);
        self.plane = Some(Arc::clone(&plane));
        if let Some(desk) = &self.desk {
            desk.set_plane(Arc::clone(&plane));
        }
        Ok(plane)
    }
}

impl Supervised for Local {
    fn apply(&mut self, candidate: Candidate) {
        let generation = candidate.generation;
        let update = Update {
            generation,
            workers: candidate.workers,
            plan: candidate.plan,
            sockets: candidate.sockets,
            logs: candidate.logs,
        };
        let event = match self.plane().and_then(|plane| plane.apply(update)) {
            Ok(()) => Event::Applied(generation),
            Err(reason) => Event::Refused(generation, reason),
        };
        self.tell(event);
    }

    /// Standard error is the master's own.
    fn reopen(&mut self, logs: &LogFiles, _: Option<Arc<File>>) {
        if let Some(plane) = &self.plane {
            plane.reopen_logs(logs.clone());
        }
    }

    fn drain(&mut self, deadline: Option<Duration>) {
        let Some(plane) = self.plane.clone() else { return self.tell(Event::Ended) };
        let (done, bell) = (self.drained.0.clone(), Arc::clone(&self.bell));
        let spawned = std::thread::Builder::new().name("drain".into()).spawn(move || {
            plane.drain(deadline);
            let _ = done.send(());
            bell.ring();
        });
        if spawned.is_err() {
            // Without a thread to wait in, ending at once is what is left.
            self.stop();
        }
    }

    fn stop(&mut self) {
        if let Some(plane) = &self.plane {
            plane.stop();
        }
        self.tell(Event::Ended);
    }

    fn status(&mut self) {
        let text = self.plane.as_ref().map_or_else(|| "not serving yet".into(), |plane| plane.status());
        self.tell(Event::Notice(text));
    }

    fn pid(&self) -> u32 {
        std::process::id()
    }

    fn fds(&self) -> Vec<PollFd<'_>> {
        vec![PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN)]
    }

    fn wake_at(&self) -> Option<Instant> {
        None
    }

    fn turn(&mut self) {
        // Reading resets the bell; what it was rung for is looked at below, whoever rang.
        self.bell.reset();
        if self.drained.1.try_recv().is_ok() {
            // What is applied now begins anew.
            self.plane = None;
            self.events.push_back(Event::Ended);
        }
    }

    fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
