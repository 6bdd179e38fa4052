//! The data plane's process under a keeper.
//!
//! Owns: becoming the unprivileged user, compiling parcels, passing orders on to the [`DataPlane`].
//! Never: reads traffic before privileges are dropped; asks the keeper for anything.
//! Driven by: the keeper's messages. Signals of the terminal or the service manager are left to the keeper; should
//! the keeper be gone, connections get a moment to end, and the process follows.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::channel::{Channel, Named, ToPlane};
use super::confine::{Part, confine};
use super::parcel::Parcel;
use super::replies::{FromPlane, Mouth};
use crate::compile::store::Store;
use crate::launch::Launch;
use crate::life::bell::Bell;
use crate::life::logs::LogFiles;
use crate::life::privileges::{become_identity, tie_to_parent};
use crate::life::signals::Signals;
use crate::life::sockets::{ListenerSockets, OpenSocket, SocketId, Sockets};
use crate::plane::{DataPlane, Options, Start, Update};
use crate::{compile, role};

/// What connections get when the keeper is gone.
const ORPHAN_GRACE: Duration = Duration::from_secs(10);

/// The whole life of the process.
pub(crate) fn run(start: Start) -> ExitCode {
    match Worker::begin(start).and_then(|mut worker| worker.serve()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            errln!("weir: the data plane ends: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Worker {
    start: Start,
    channel: Channel,
    /// For replies; it comes with the first message.
    mouth: Option<Mouth>,
    signals: Signals,
    parent: Option<rustix::process::Pid>,
    launch: Option<Launch>,
    options: Options,
    plane: Option<Arc<dyn DataPlane>>,
    /// Handed over, by id.
    sockets: HashMap<SocketId, Arc<OwnedFd>>,
    /// Those of the configuration that serves.
    current: Sockets,
    logs: LogFiles,
    parcel: Option<OwnedFd>,
    drained: (Sender<()>, Receiver<()>),
    bell: Arc<Bell>,
}

impl Worker {
    fn begin(start: Start) -> io::Result<Self> {
        Ok(Self {
            start,
            signals: Signals::take()?,
            channel: Channel::from_fd(role::take_stdin()?),
            mouth: None,
            parent: rustix::process::getppid(),
            launch: None,
            options: Options { io: crate::launch::Io::Auto, open_files: 0, state: None },
            plane: None,
            sockets: HashMap::new(),
            current: Sockets::default(),
            logs: LogFiles::default(),
            parcel: None,
            drained: channel(),
            bell: Arc::new(Bell::new()?),
        })
    }

    fn serve(&mut self) -> io::Result<()> {
        loop {
            self.wait()?;
            while self.signals.next().is_some() {
                if rustix::process::getppid() != self.parent {
                    return self.outlive_keeper();
                }
            }
            self.bell.reset();
            if self.drained.1.try_recv().is_ok() {
                return self.say(FromPlane::Drained);
            }
            match self.channel.try_receive::<ToPlane>() {
                Ok(Some((message, fds))) => {
                    if !self.obey(message, fds)? {
                        return Ok(());
                    }
                }
                Ok(None) => return self.outlive_keeper(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn wait(&self) -> io::Result<()> {
        let mut fds = [
            PollFd::new(&self.channel, PollFlags::IN),
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn say(&mut self, reply: FromPlane) -> io::Result<()> {
        match &mut self.mouth {
            Some(mouth) => mouth.say(reply),
            None => Err(io::Error::other("the keeper sent no pipe for replies")),
        }
    }

    /// False when the process is to end.
    fn obey(&mut self, message: ToPlane, fds: Vec<OwnedFd>) -> io::Result<bool> {
        match message {
            ToPlane::Begin { identity, launch, open_files } => {
                role::name_process(crate::cli::program_name(launch.manner));
                become_identity(&identity).map_err(io::Error::other)?;
                tie_to_parent();
                let unconfined = confine(Part::Plane(launch.io), launch.sandbox).err();
                self.options = Options { io: launch.io, open_files, state: launch.state.clone() };
                self.launch = Some(*launch);
                self.mouth = fds.into_iter().next().map(Mouth::new);
                self.say(FromPlane::Ready { unconfined: unconfined.map(|error| error.to_string()) })?;
            }
            ToPlane::Descriptors(names) => self.keep(names, fds)?,
            ToPlane::Apply { generation } => self.apply(generation)?,
            ToPlane::Reopen => {
                let logs = std::mem::take(&mut self.logs);
                if let Some(plane) = &self.plane {
                    plane.reopen_logs(logs);
                }
            }
            ToPlane::Drain { deadline } => self.drain(deadline),
            ToPlane::Stop => {
                if let Some(plane) = &self.plane {
                    plane.stop();
                }
                return Ok(false);
            }
            ToPlane::Status => {
                let text =
                    self.plane.as_ref().map_or_else(|| "not serving yet".into(), |plane| plane.status());
                self.say(FromPlane::Status(text))?;
            }
        }
        Ok(true)
    }

    fn keep(&mut self, names: Vec<Named>, fds: Vec<OwnedFd>) -> io::Result<()> {
        for (name, fd) in names.into_iter().zip(fds) {
            match name {
                Named::Socket(id) => drop(self.sockets.insert(id, Arc::new(fd))),
                Named::Log(path) => self.logs.insert(path, Arc::new(File::from(fd))),
                Named::Parcel => self.parcel = Some(fd),
                Named::Stderr => rustix::stdio::dup2_stderr(fd)?,
            }
        }
        Ok(())
    }

    fn apply(&mut self, generation: u64) -> io::Result<()> {
        let tried = self.try_apply(generation);
        // What the plan was compiled from, and the plan before where nobody uses it any more.
        weir_rt::trim_heap();
        self.keep_only_current();
        let answer = match tried {
            Ok(()) => FromPlane::Applied { generation },
            Err(reason) => FromPlane::Refused { generation, reason },
        };
        self.say(answer)
    }

    fn try_apply(&mut self, generation: u64) -> Result<(), String> {
        let launch = self.launch.as_ref().ok_or("told to serve before told what to be")?;
        let parcel = self.parcel.take().ok_or("told to serve without a parcel")?;
        let parcel = Parcel::unpack(parcel).map_err(|error| error.to_string())?;
        let launch = Launch { text: parcel.text.map(Arc::new), ..launch.clone() };
        let compiled = compile::compile(&launch, &Store::replay(parcel.answers));
        let (_, plan) = compiled.into_runnable()?;
        let sockets = self.listing(&parcel.listeners)?;
        let plane = match &self.plane {
            Some(plane) => Arc::clone(plane),
            None => Arc::from((self.start)(self.options.clone())?),
        };
        let logs = std::mem::take(&mut self.logs);
        let update = Update { generation, workers: parcel.workers, plan, sockets: sockets.clone(), logs };
        plane.apply(update)?;
        self.current = sockets;
        self.plane = Some(plane);
        Ok(())
    }

    /// From here on the data plane's own references keep a removed listener open until it is empty; and sockets of a
    /// configuration that was refused close now, or the kernel would queue connections that nobody accepts.
    fn keep_only_current(&mut self) {
        let all = self.current.listeners.iter().flat_map(|one| &one.sockets);
        self.sockets = all.map(|socket| (socket.id, Arc::clone(&socket.fd))).collect();
    }

    fn listing(&self, listeners: &[(String, Vec<SocketId>)]) -> Result<Sockets, String> {
        let open = |id: &SocketId| {
            let fd = self.sockets.get(id).ok_or_else(|| format!("socket {} was not handed over", id.0))?;
            Ok(OpenSocket { id: *id, fd: Arc::clone(fd) })
        };
        let one = |(name, ids): &(String, Vec<SocketId>)| {
            let sockets = ids.iter().map(open).collect::<Result<_, String>>()?;
            Ok(ListenerSockets { name: name.clone(), sockets })
        };
        Ok(Sockets { listeners: listeners.iter().map(one).collect::<Result<_, String>>()? })
    }

    fn drain(&mut self, deadline: Option<Duration>) {
        self.sockets.clear();
        self.current = Sockets::default();
        let (done, bell, plane) = (self.drained.0.clone(), Arc::clone(&self.bell), self.plane.clone());
        let plane_or_none = plane.clone();
        let spawned = std::thread::Builder::new().name("drain".into()).spawn(move || {
            if let Some(plane) = plane {
                plane.drain(deadline);
            }
            let _ = done.send(());
            bell.ring();
        });
        if spawned.is_err() {
            // Without a thread to wait in, ending at once is what is left.
            plane_or_none.inspect(|plane| plane.stop());
            let _ = self.drained.0.send(());
            self.bell.ring();
        }
    }

    fn outlive_keeper(&mut self) -> io::Result<()> {
        self.sockets.clear();
        self.current = Sockets::default();
        if let Some(plane) = self.plane.take() {
            plane.drain(Some(ORPHAN_GRACE));
        }
        Err(io::Error::other("the keeper is gone"))
    }
}
