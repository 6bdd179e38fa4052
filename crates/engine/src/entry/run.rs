//! One worker's life: a thread, its runtime, the commands that it carries out.
//!
//! Owns: the accept loops of a worker; beginning anew after a death.
//! Never: serves; connections do, each in a task of its own.
//! Driven by: [`crate::Engine`], by commands in a mailbox.
//! Why: who starts things stands on top of what they are made of, so that what connections share knows none of them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_rt::{Receiver, Sender};

use super::accept::AcceptLoop;
use super::datagrams::DatagramLoop;
use super::quic::QuicLoop;
use crate::worker::Worker;
use crate::worker::command::{Command, SocketKey};
use crate::worker::lasting;
use crate::worker::links::Cut;
use crate::worker::prepared::Prepared;
use crate::worker::race::{Either, race};
use crate::worker::shared::{Shared, panic_message};

/// A worker's handle for the engine.
pub(crate) struct Handle {
    pub(crate) commands: Sender<Command>,
    pub(crate) thread: std::thread::JoinHandle<()>,
}

/// What a worker is given again should it die: its plan, its sockets, what it was told of its future.
struct Given {
    prepared: Arc<Prepared>,
    /// Duplicates of the sockets it accepts from. While they are open, connections queue and none is refused.
    sockets: HashMap<SocketKey, OwnedFd>,
    resting: bool,
    draining: bool,
}

impl Given {
    /// Notes sockets that changed. Done before the worker acts on it: what goes away must not be held open here.
    fn change_sockets(&mut self, opened: &[(SocketKey, OwnedFd)], held: &[SocketKey]) {
        self.sockets.retain(|key, _| held.contains(key));
        for (key, fd) in opened {
            // Without a duplicate the worker still accepts; only after a death this socket would be lost.
            if let Ok(copy) = fd.try_clone() {
                self.sockets.insert(*key, copy);
            }
        }
    }

    /// Duplicates for a worker that begins anew.
    fn sockets_again(&self) -> Vec<(SocketKey, OwnedFd)> {
        self.sockets.iter().filter_map(|(key, fd)| Some((*key, fd.try_clone().ok()?))).collect()
    }
}

/// Pause before a worker that died is started again, so that one that cannot live costs little.
const AFTER_DEATH: Duration = Duration::from_millis(100);

/// Starts a worker's thread. It runs until it is told to drain or stop. A worker that dies by a panic outside of all
/// connections loses its own, and goes on at once with a new runtime on the same sockets.
pub(crate) fn start(id: u16, shared: Arc<Shared>, prepared: Arc<Prepared>) -> std::io::Result<Handle> {
    let (commands, mut receiver) = weir_rt::mailbox();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let builder = std::thread::Builder::new().name(format!("weir-{id}"));
    let thread = builder.spawn(move || {
        let mut given = Given { prepared, sockets: HashMap::new(), resting: false, draining: false };
        loop {
            match weir_rt::Runtime::new(shared.runtime_config()) {
                Ok(runtime) => {
                    let _ = shared.driver.set(runtime.driver().to_string());
                    let _ = ready.send(Ok(()));
                    let life = main(id, shared.clone(), &mut given, &mut receiver);
                    let lived = catch_unwind(AssertUnwindSafe(|| runtime.block_on(life)));
                    // Its connections end here, after the unwinding: a drop that panics must find nothing to unwind.
                    drop(runtime);
                    let Err(payload) = lived else { return };
                    shared.worker_deaths.fetch_add(1, Ordering::Relaxed);
                    let why = panic_message(&*payload);
                    shared.log_process_error(&format!("worker {id} died and is started again: {why}"));
                }
                // The first start says so to whoever started us; later ones are tried until one succeeds.
                Err(error) => {
                    if ready.send(Err(error)).is_ok() {
                        return;
                    }
                }
            }
            std::thread::sleep(AFTER_DEATH);
        }
    })?;
    match is_ready.recv() {
        Ok(Ok(())) => Ok(Handle { commands, thread }),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(std::io::Error::other("a worker thread ended before it began")),
    }
}

/// Where clients come in.
#[derive(Clone)]
enum Entrance {
    Connections(Rc<AcceptLoop>),
    Datagrams(Rc<DatagramLoop>),
    Quic(Rc<QuicLoop>),
}

impl Entrance {
    fn open(worker: &Rc<Worker>, key: SocketKey, fd: OwnedFd) -> std::io::Result<Self> {
        match weir_rt::takes_datagrams(&fd) {
            true if super::quic::is_spoken(worker, key) => QuicLoop::start(worker, key, fd).map(Self::Quic),
            true => DatagramLoop::start(worker, key, fd).map(Self::Datagrams),
            false => AcceptLoop::start(worker, key, fd).map(Self::Connections),
        }
    }
}

/// A worker with the sockets that it accepts from. It is emptied when it ends, by whatever way.
struct Runner {
    worker: Rc<Worker>,
    loops: RefCell<HashMap<SocketKey, Entrance>>,
}

impl Drop for Runner {
    fn drop(&mut self) {
        if let Ok(mut loops) = self.loops.try_borrow_mut() {
            loops.clear();
        }
        self.worker.let_go();
    }
}

impl Runner {
    async fn change_sockets(
        &self,
        opened: Vec<(SocketKey, OwnedFd)>,
        held: &[SocketKey],
        closing: &[SocketKey],
    ) {
        let given_up: Vec<_> = {
            let mut loops = self.loops.borrow_mut();
            let keys: Vec<SocketKey> = loops.keys().filter(|key| !held.contains(key)).copied().collect();
            keys.into_iter().filter_map(|key| Some((key, loops.remove(&key)?))).collect()
        };
        for (key, accept) in given_up {
            match accept {
                Entrance::Connections(accept) => accept.end(&self.worker, closing.contains(&key)).await,
                Entrance::Datagrams(datagrams) => datagrams.end().await,
                Entrance::Quic(quic) => quic.end(),
            }
        }
        for (key, fd) in opened {
            match Entrance::open(&self.worker, key, fd) {
                Ok(accept) => drop(self.loops.borrow_mut().insert(key, accept)),
                Err(error) => {
                    self.worker.shared.log_process_error(&format!("cannot accept on a listener: {error}"))
                }
            }
        }
    }

    fn keys(&self) -> Vec<SocketKey> {
        self.loops.borrow().keys().copied().collect()
    }
}

async fn main(id: u16, shared: Arc<Shared>, given: &mut Given, commands: &mut Receiver<Command>) {
    crate::walk::included::serve();
    let worker = Rc::new(Worker::new(id, shared, given.prepared.clone()));
    let runner = Runner { worker: worker.clone(), loops: RefCell::default() };
    let flushes = worker.clone();
    weir_rt::spawn(async move {
        let note = |payload: &_| flushes.shared.note_panic("handing over log lines", payload);
        lasting::task(note, || keep_flushing(&flushes)).await;
    });
    let held: Vec<SocketKey> = given.sockets.keys().copied().collect();
    runner.change_sockets(given.sockets_again(), &held, &[]).await;
    worker.resting.set(given.resting);
    if given.draining {
        worker.draining.set();
    }
    loop {
        let order = if worker.draining.is_set() {
            if worker.serves_nothing() {
                break;
            }
            match race(commands.recv(), worker.ended.next()).await {
                Either::Left(order) => order,
                Either::Right(()) => continue,
            }
        } else {
            commands.recv().await
        };
        match order {
            None | Some(Command::Stop) => break,
            Some(Command::Install { prepared, opened, held, closing, done }) => {
                given.prepared = prepared.clone();
                (given.resting, given.draining) = (false, false);
                given.change_sockets(&opened, &held);
                worker.draining.clear();
                worker.resting.set(false);
                worker.install(prepared);
                runner.change_sockets(opened, &held, &closing).await;
                let _ = done.send(());
            }
            Some(Command::Endpoints { pool, done }) => {
                worker.take_up_endpoints(pool);
                let _ = done.send(());
            }
            Some(Command::Standing(pool)) => worker.follow_standing(pool),
            Some(Command::Cut(endpoints)) => {
                worker.counters.links.cut(|endpoint| endpoints.contains(&endpoint).then_some(Cut::Killed));
            }
            Some(Command::ClearCounters { all, done }) => {
                worker.counters.clear(all);
                let _ = done.send(());
            }
            Some(Command::Roll { tell }) => {
                let _ = tell.send(worker.roll.call(worker.counters.links.carried()));
            }
            Some(Command::CutClient { serial, done }) => {
                let _ = done.send(worker.roll.cut(serial));
            }
            Some(Command::Certificates { done }) => {
                worker.take_up_certificates();
                let _ = done.send(());
            }
            Some(Command::Requests(most, tell)) => drop(tell.send(worker.flights.show(id, most))),
            Some(Command::NoteRequests(on)) => worker.flights.set(on),
            Some(Command::ReopenLogs) => worker.logs.flush(),
            Some(Command::Rest) => {
                given.resting = true;
                worker.resting.set(true);
            }
            Some(Command::Drain) => {
                given.draining = true;
                given.sockets.clear();
                runner.change_sockets(Vec::new(), &[], &runner.keys()).await;
                worker.draining.set();
            }
            Some(Command::InjectPanic) => worker.inject_panic(),
            Some(Command::InjectAcceptPanic) => worker.inject_accept_panic(),
            Some(Command::InjectDeath) => panic!("a test asked for this death"),
        }
    }
    worker.logs.flush();
}

/// Hands over log lines when they are due.
async fn keep_flushing(worker: &Worker) {
    loop {
        let sooner = worker.logs.sooner();
        match worker.logs.due() {
            None => sooner.await,
            Some(due) => {
                let _ = race(weir_rt::sleep_until(worker.shared.instant(due)), sooner).await;
            }
        }
        worker.logs.flush_due(worker.millis());
    }
}
