//! The data plane: workers, connections, exchanges, actions.
//!
//! Owns: everything that carries traffic.
//! Never: knows the model or a configuration language, binds sockets, reads certificates from disk; it is given a
//! plan, sockets and log files.
//! Driven by: the binary, through [`Engine`].
//! Why: a plan is swapped under live traffic; nothing that lives long holds on to one.

#![forbid(unsafe_code)]

mod action;
mod admission;
mod answer;
mod entry;
mod eval;
mod exchange;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod logging;
mod tcp;
#[cfg(test)]
mod tests;
mod upstream;
mod walk;
mod worker;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use weir_control::changes::NewEndpoint;
use weir_control::lists::{Entry, List};
use weir_control::sessions::ClientSession;
use weir_control::snapshot::Snapshot;
use weir_control::{Change, ListenerId, Requests};
use weir_expr::KeptValue;
use weir_expr::settings::{CertificateList, Paces};
use weir_plan::{KeyListFile, KeyListIx, KeyListUse, Plan};
use weir_policy::Millis;
pub use weir_rt::IoChoice;
use weir_telemetry::Detail;

use entry::run::Handle;
use upstream::{health, names, stapling};
use worker::command::{Command, Crew, SocketKey};
use worker::prepared::Prepared;
use worker::shared::Shared;
pub use worker::sticks::StickTables;
use worker::{count, layer, memory, shared, snapshot};

pub use eval::vars::NGINX_LANGUAGE;
pub use logging::{LogFile, LogFiles};
pub use worker::keyvals::Keyval;
pub use worker::layer::Switch;
pub use worker::options::{ApiRequest, EngineOptions, Issued, Page, PageRequest, Pages};
pub use worker::tls::{client_tls_faults, server_tls_faults};

/// A listening socket, named so that it is known again.
pub struct Socket {
    /// The listener it belongs to.
    pub listener: ListenerId,
    /// Unique in the process; the same socket has the same id in all plans.
    pub id: u64,
    /// The socket. The engine works on duplicates.
    pub fd: Arc<OwnedFd>,
}

/// The data plane.
pub struct Engine {
    shared: Arc<Shared>,
    crew: Arc<Crew>,
    prepared: Arc<Prepared>,
    active: Vec<Handle>,
    /// Workers that serve what they have and accept nothing. They are the first to be asked when more are wanted, and
    /// end with the engine only: one that ended by itself could not be told from one that is wanted again.
    resting: Vec<Handle>,
    sockets: HashMap<SocketKey, (Arc<OwnedFd>, usize)>,
}

impl Engine {
    /// Starts workers that serve a plan on these sockets.
    ///
    /// # Errors
    /// One line: what of the plan cannot be used, or what the system refused.
    pub fn start(
        plan: Arc<Plan>,
        workers: usize,
        sockets: Vec<Socket>,
        options: EngineOptions,
    ) -> Result<Self, String> {
        let shared = Arc::new(Shared::new(options, &plan).map_err(|error| format!("cannot start: {error}"))?);
        shared.set_limits(&plan);
        shared.note_plan(&plan);
        let prepared = Arc::new(Prepared::new(&shared, plan)?);
        // There are none yet whose changes could be lost.
        shared.lists.keep(&prepared.plan, &prepared.keys);
        layer::review(&shared, &prepared.plan);
        let crew = Arc::new(Crew::default());
        names::follow(&shared, &crew, &prepared)?;
        stapling::follow(&shared, &crew, &prepared)?;
        health::follow(&shared, &crew, &prepared)?;
        let telling = shared.clone();
        weir_rt::compare_sendfile(move |cost| telling.tell_sendfile(cost));
        memory::watch(&shared).map_err(|error| format!("cannot start: {error}"))?;
        let mut engine =
            Self { shared, crew, prepared, active: Vec::new(), resting: Vec::new(), sockets: HashMap::new() };
        engine.resize(workers.max(1))?;
        engine.install(sockets)?;
        Ok(engine)
    }

    /// Serves another plan from the next request of each connection on. Cuts nothing.
    ///
    /// # Errors
    /// As [`Engine::start`]; nothing has changed then.
    pub fn swap(&mut self, plan: Arc<Plan>, workers: usize, sockets: Vec<Socket>) -> Result<(), String> {
        let prepared = Prepared::new(&self.shared, plan).inspect_err(|_| {
            self.shared.reloads_failed.fetch_add(1, Ordering::Relaxed);
        });
        self.prepared = Arc::new(prepared?);
        self.shared.logs.adopt(&self.prepared.logs);
        for line in self.shared.lists.keep(&self.prepared.plan, &self.prepared.keys) {
            self.shared.logs.event(weir_telemetry::Level::Error, &line);
        }
        self.shared.set_limits(&self.prepared.plan);
        self.shared.note_plan(&self.prepared.plan);
        self.shared.reloads.fetch_add(1, Ordering::Relaxed);
        self.shared.last_reload.store(shared::unix_seconds(), Ordering::Relaxed);
        layer::review(&self.shared, &self.prepared.plan);
        names::follow(&self.shared, &self.crew, &self.prepared)?;
        stapling::follow(&self.shared, &self.crew, &self.prepared)?;
        health::follow(&self.shared, &self.crew, &self.prepared)?;
        self.resize(workers.max(1))?;
        self.install(sockets)?;
        count::forget_unknown(&self.shared, &self.prepared);
        Ok(())
    }

    /// Offers log files that were opened with other rights, for the plans to come.
    pub fn offer_logs(&self, files: LogFiles) {
        self.shared.logs.offer(files);
    }

    /// Writes to these log files from now on; without any, files are opened by path again.
    pub fn reopen_logs(&self, files: LogFiles) {
        for worker in self.active.iter().chain(&self.resting) {
            let _ = worker.commands.send(Command::ReopenLogs);
        }
        self.shared.logs.reopen(files);
    }

    /// Accepts what is queued, lets exchanges finish, closes idle connections; returns when none is left or the
    /// deadline has passed. True if none was left.
    pub fn drain(&mut self, deadline: Option<Duration>) -> bool {
        self.shared.stopping.store(true, Ordering::Relaxed);
        for worker in self.active.iter().chain(&self.resting) {
            let _ = worker.commands.send(Command::Drain);
        }
        self.sockets.clear();
        let end = deadline.map(|time| Instant::now() + time);
        let all_ended = |engine: &Self| {
            engine.active.iter().chain(&engine.resting).all(|worker| worker.thread.is_finished())
        };
        while !all_ended(self) {
            if end.is_some_and(|end| Instant::now() >= end) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    /// Cuts everything and ends the workers.
    pub fn stop(&mut self) {
        let workers: Vec<Handle> = self.active.drain(..).chain(self.resting.drain(..)).collect();
        for worker in &workers {
            let _ = worker.commands.send(Command::Stop);
        }
        for worker in workers {
            let _ = worker.thread.join();
        }
        // What the workers said last is written before the process goes.
        self.shared.logs.settle(Duration::from_secs(2));
        self.sockets.clear();
    }

    /// A handle that ends the workers from another thread while this one drains.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + 'static {
        let commands: Vec<_> =
            self.active.iter().chain(&self.resting).map(|worker| worker.commands.clone()).collect();
        move || {
            for worker in &commands {
                let _ = worker.send(Command::Stop);
            }
        }
    }

    /// Changes what runs under live traffic, until it is taken back: reloads and, where changes are kept, restarts leave it as
    /// it is. No connection is cut; requests that have begun at an endpoint that leaves end there.
    ///
    /// # Errors
    /// One line that says why it cannot be; nothing has changed then.
    pub fn change(&self, change: Change) -> Result<(), String> {
        let endpoints = matches!(change, Change::Endpoints { .. });
        let certificate = matches!(change, Change::Certificate { .. });
        layer::make(&self.shared, &self.crew, &self.prepared, change)?;
        if certificate {
            stapling::follow(&self.shared, &self.crew, &self.prepared)?;
        }
        if endpoints {
            names::follow(&self.shared, &self.crew, &self.prepared)?;
            health::begin_late(&self.shared, &self.crew, &self.prepared)?;
        }
        Ok(())
    }

    /// The endpoints that a pool is to have, as they would be given, and a number that none of them ever had.
    ///
    /// # Errors
    /// There is no such pool.
    pub fn endpoints(&self, pool: &str) -> Result<(Vec<NewEndpoint>, u32), String> {
        layer::endpoints(&self.shared, &self.prepared, pool)
    }

    /// Takes the health of the endpoints of this name for this, until a check says otherwise.
    ///
    /// # Errors
    /// There is no such pool or endpoint.
    pub fn judge(&self, pool: &str, endpoint: &str, healthy: bool) -> Result<(), String> {
        layer::judge((&self.shared, &self.crew), &self.prepared, pool, endpoint, healthy)
    }

    /// Bounds the exchanges of the endpoints of this name at once, until the next plan; 0: not at all.
    ///
    /// # Errors
    /// There is no such pool or endpoint, or no endpoint of the pool has a bound in the plan.
    pub fn bound_endpoint(&self, pool: &str, endpoint: &str, most: u32) -> Result<(), String> {
        layer::bound(&self.prepared, pool, endpoint, most)
    }

    /// Has the checks of the endpoints of this name made, or their agents asked, or not, until the next plan. `Ok(false)`:
    /// they have none.
    ///
    /// # Errors
    /// There is no such pool or endpoint.
    pub fn switch(&self, pool: &str, endpoint: &str, what: Switch, on: bool) -> Result<bool, String> {
        layer::switch(&self.prepared, (pool, endpoint), what, on)
    }

    /// Forgets the most that there ever was of anything; with `all`, what was counted for listeners, sites, pools and
    /// endpoints, too.
    pub fn clear_counters(&self, all: bool) {
        self.crew.clear_counters(all);
        self.shared.clear_peaks();
        self.prepared.pools.iter().for_each(|pool| pool.now().state.clear_peaks());
    }

    /// Ends what is under way at the endpoints of this name: requests and sessions.
    ///
    /// # Errors
    /// There is no such pool or endpoint.
    pub fn cut(&self, pool: &str, endpoint: &str) -> Result<(), String> {
        layer::cut(&self.crew, &self.prepared, pool, endpoint)
    }

    /// The connections of clients, one by one, and what goes on at endpoints for them.
    pub fn sessions(&self) -> Vec<ClientSession> {
        worker::roll::named(&self.crew, &self.prepared)
    }

    /// Ends a client's connection. False: there is none of this number.
    pub fn end_session(&self, number: u64) -> bool {
        self.crew.cut_client(number)
    }

    /// Bounds client connections of the process, until the next plan.
    pub fn bound_connections(&self, most: u64) {
        self.shared.bound_connections(most);
    }

    /// What may begin in a second in the whole process.
    pub fn paces(&self) -> Paces {
        self.shared.paces()
    }

    /// Changes that, until the next plan.
    pub fn set_paces(&self, paces: &Paces) {
        self.shared.set_paces(paces);
    }

    /// Has the site of this name accept nothing, or go on, until the next plan. False: it was so already.
    ///
    /// # Errors
    /// There is no such site.
    pub fn hold(&self, site: &str, held: bool) -> Result<bool, String> {
        self.shared.hold_site(&self.prepared.plan, site, held)
    }

    /// Bounds client connections of the site of this name, until the next plan; 0: not at all.
    ///
    /// # Errors
    /// There is no such site.
    pub fn bound_site(&self, site: &str, most: u64) -> Result<(), String> {
        self.shared.bound_site(&self.prepared.plan, site, most)
    }

    /// Shows the certificate that an authority has issued under this name, under live traffic.
    ///
    /// # Errors
    /// Nothing uses it, or it cannot be used.
    pub fn show_issued(&self, name: &str) -> Result<(), String> {
        layer::show_issued(&self.shared, &self.crew, &self.prepared, name)?;
        stapling::follow(&self.shared, &self.crew, &self.prepared)
    }

    /// Writes a line to the error log of the process.
    pub fn say(&self, is_error: bool, line: &str) {
        let level = if is_error { weir_telemetry::Level::Error } else { weir_telemetry::Level::Notice };
        self.shared.logs.event(level, line);
    }

    /// The names of the certificates in use, each once, and whether it was given while running.
    pub fn certificates(&self) -> Vec<(String, bool)> {
        layer::certificate_names(&self.shared, &self.prepared.plan)
    }

    /// The chain of a certificate that is in use, PEM.
    pub fn chain_of(&self, name: &str) -> Option<Vec<u8>> {
        layer::chain_of(&self.shared, &self.prepared.plan, name)
    }

    /// Authorities and lists of revocations in use: name, whether it is a list, PEM.
    pub fn trust(&self) -> Vec<(String, bool, Vec<u8>)> {
        let given = |name: &str| self.shared.changes.trust(name).map(String::into_bytes);
        let one = |(name, list, own): (String, bool, Arc<[u8]>)| {
            let pem = given(&name).unwrap_or_else(|| own.to_vec());
            (name, list, pem)
        };
        layer::trust(&self.prepared.plan).into_iter().map(one).collect()
    }

    /// Files that certificates of listeners were listed in, each once.
    pub fn certificate_lists(&self) -> Vec<CertificateList> {
        let listeners = self.prepared.plan.listeners.iter().filter_map(|listener| listener.tls.as_deref());
        let mut all: Vec<CertificateList> = listeners.flat_map(|tls| tls.lists.iter().cloned()).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all.dedup();
        all
    }

    /// The stick tables by name, and the time that they go by.
    pub fn stick_tables(&self) -> (Arc<StickTables>, Millis) {
        (self.prepared.sticks.clone(), self.shared.millis(weir_rt::now()))
    }

    /// A value that rules keep in the process.
    pub fn kept(&self, name: &str) -> Option<KeptValue> {
        self.shared.kept.get(name, KeptValue::clone)
    }

    /// Sets such a value.
    pub fn keep(&self, name: &str, value: KeptValue) {
        self.shared.kept.set(name, Some(value));
    }

    /// Caches in memory, as the plan has them.
    pub fn memory_caches(&self) -> Vec<weir_control::memory::MemoryCache> {
        let caches = self.prepared.plan.memory_caches.iter().zip(&self.prepared.memories);
        caches.map(|(cache, memory)| worker::memories::show(&cache.name, memory)).collect()
    }

    /// Log lines that are kept in memory.
    pub fn rings(&self) -> Vec<Arc<weir_telemetry::log::Ring>> {
        self.shared.logs.rings()
    }

    /// Stores of keys and values, by index, each as the plan has it.
    pub fn keyvals(&self) -> Vec<Arc<Keyval>> {
        self.prepared.keyvals.clone()
    }

    /// Lists of keys that change while running, by index, each as the plan has it.
    pub fn lists(&self) -> impl Iterator<Item = (&KeyListFile, &Arc<List>)> {
        self.prepared.plan.key_lists.iter().zip(self.prepared.keys.all())
    }

    /// Whether a list may have this key, however it is used.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_key(&self, list: KeyListIx, key: &str) -> Result<(), String> {
        self.prepared.keys.check(list, key)
    }

    /// How each use of a list finds a value.
    pub fn look_up(&self, list: KeyListIx, value: &str) -> Vec<(KeyListUse, Option<Entry>)> {
        self.prepared.keys.look_up(list, value)
    }

    /// A list changed as a whole: what workers look up in is made anew before they ask.
    pub fn refresh_list(&self, list: KeyListIx) {
        self.prepared.keys.refresh(list);
    }

    /// Figures of the whole process.
    pub fn snapshot(&self) -> Snapshot {
        snapshot::take(&self.shared, &self.prepared, Detail::Quantiles)
    }

    /// Figures of the whole process in detail, and what workers know of single requests: of each list at most so many. It waits for
    /// workers, so it is no work of one.
    pub fn observe(&self, most: usize) -> (Snapshot, Requests) {
        let requests = self.crew.requests(most);
        (snapshot::take(&self.shared, &self.prepared, Detail::Steps), requests)
    }

    /// Has single requests noted whatever the plan says, for pages that are served elsewhere.
    pub fn note_requests(&self, always: bool) {
        self.shared.shows_requests.store(always, Ordering::Relaxed);
        self.crew.note_requests(self.shared.shows_requests(&self.prepared.plan));
    }

    /// Panics in the next request of the first worker: for tests of what a panic costs.
    pub fn inject_panic(&self) {
        if let Some(worker) = self.active.first() {
            let _ = worker.commands.send(Command::InjectPanic);
        }
    }

    /// Panics as the first worker accepts its next connection: for tests of a listener that goes on.
    pub fn inject_accept_panic(&self) {
        if let Some(worker) = self.active.first() {
            let _ = worker.commands.send(Command::InjectAcceptPanic);
        }
    }

    /// Ends the first worker by a panic outside of its connections: for tests of how it comes back.
    pub fn inject_death(&self) {
        if let Some(worker) = self.active.first() {
            let _ = worker.commands.send(Command::InjectDeath);
        }
    }

    /// Panics in the next health check: for tests of checks that go on.
    pub fn inject_check_panic(&self) {
        self.shared.panic_next_check.store(true, Ordering::Relaxed);
    }

    /// Makes it `count` active workers. Workers beyond that rest until their connections have ended.
    fn resize(&mut self, count: usize) -> Result<(), String> {
        while self.active.len() > count {
            if let Some(worker) = self.active.pop() {
                self.resting.push(worker);
            }
        }
        while self.active.len() < count {
            // One that rests is woken rather than a further one started, so that threads never pile up.
            let worker = match self.resting.pop() {
                Some(worker) => worker,
                None => {
                    let worker = entry::run::start(
                        self.active.len() as u16,
                        self.shared.clone(),
                        self.prepared.clone(),
                    )
                    .map_err(|error| format!("cannot start a worker: {error}"))?;
                    self.crew.join(worker.commands.clone());
                    worker
                }
            };
            self.active.push(worker);
        }
        self.shared.workers.store(self.active.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Hands the prepared plan and the sockets to all workers, and waits until they have taken them up.
    fn install(&mut self, sockets: Vec<Socket>) -> Result<(), String> {
        let workers = self.active.len();
        let now: HashMap<SocketKey, (Arc<OwnedFd>, usize)> = assign(sockets, workers);
        let (done, is_done) = mpsc::channel();
        let closing: Vec<SocketKey> =
            self.sockets.keys().filter(|key| !now.contains_key(key)).copied().collect();
        // What goes away is let go of here first, so that the workers' descriptors are the last ones.
        let before: HashMap<SocketKey, usize> =
            self.sockets.drain().map(|(key, (_, at))| (key, at)).collect();
        let mut waiting = 0;
        for (at, worker) in self.active.iter().chain(&self.resting).enumerate() {
            let held: Vec<SocketKey> =
                now.iter().filter(|(_, (_, owner))| *owner == at).map(|(key, _)| *key).collect();
            let mut opened = Vec::new();
            for key in held.iter().filter(|key| before.get(key) != Some(&at)) {
                let fd = now[key]
                    .0
                    .try_clone()
                    .map_err(|error| format!("cannot hand a socket to a worker: {error}"))?;
                opened.push((*key, fd));
            }
            let command = Command::Install {
                prepared: self.prepared.clone(),
                opened,
                held,
                closing: closing.clone(),
                done: done.clone(),
            };
            waiting += usize::from(worker.commands.send(command).is_ok());
        }
        for worker in &self.resting {
            let _ = worker.commands.send(Command::Rest);
        }
        drop(done);
        for _ in 0..waiting {
            if is_done.recv().is_err() {
                break;
            }
        }
        self.sockets = now;
        Ok(())
    }
}

/// Spreads sockets over workers: the n-th socket of a listener goes to worker n, and round again if there are more.
fn assign(sockets: Vec<Socket>, workers: usize) -> HashMap<SocketKey, (Arc<OwnedFd>, usize)> {
    let mut seen: HashMap<ListenerId, usize> = HashMap::new();
    let mut assigned = HashMap::new();
    for socket in sockets {
        let nth = seen.entry(socket.listener).or_default();
        let key = SocketKey { listener: socket.listener, id: socket.id };
        assigned.insert(key, (socket.fd, *nth % workers));
        *nth += 1;
    }
    assigned
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}
