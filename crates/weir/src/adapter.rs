//! The data plane that the program really has: the engine behind [`crate::plane::DataPlane`].
//!
//! Owns: the engine, and the translation of sockets, logs and pages for it.
//! Never: binds, reads files or decides on signals.
//! Driven by: `life::local` and `keeper::plane`, through the trait.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use weir_admin::cli::Runtime as _;
use weir_admin::dashboard::{Observed, Source};
use weir_admin::plus::Resets;
use weir_admin::stats::Operator;
use weir_control::snapshot::Snapshot;
use weir_control::{Change, Changes};
use weir_engine::{ApiRequest, Engine, EngineOptions, IoChoice, LogFile, Page, PageRequest, Pages, Socket};
use weir_expr::settings::{ControlPurpose, Exposition};
use weir_plan::{Control, StatsPage};
use weir_telemetry::Registry;

use crate::console::{Console, Runtime};
use crate::counted::Counted;
use crate::issuing::Issuing;
use crate::peers::Peers;
use crate::plane::{
    DashboardPage, DashboardRequest, DataPlane, Io, ListenerSockets, LogFiles, Options, Update,
};

/// How long a drain keeps the engine's lock at a time, and how long it then leaves it.
const DRAIN_SLICE: Duration = Duration::from_millis(50);
const DRAIN_PAUSE: Duration = Duration::from_millis(1);

/// How long the last write of what was changed may take.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// The sockets on which a group of peers is called. One that cannot be held is not called on.
fn peer_sockets(control: &Control, sockets: &[ListenerSockets], group: &str) -> Vec<OwnedFd> {
    let all = control.sockets.iter().zip(sockets);
    let own =
        all.filter(|(socket, _)| matches!(&socket.purpose, ControlPurpose::Peers(name) if name == group));
    own.filter_map(|(_, opened)| opened.sockets.first()?.fd.try_clone().ok()).collect()
}

/// Ends the workers from another thread.
type Stopper = Box<dyn Fn() + Send + Sync>;

/// The engine.
pub struct EngineAdapter {
    options: Options,
    changes: Arc<Changes>,
    registry: Registry,
    /// Keeps what is counted.
    counted: Option<Arc<Counted>>,
    engine: Arc<Mutex<Option<Engine>>>,
    console: Console,
    peers: Arc<Peers>,
    /// What authorities issue.
    issuing: Arc<Issuing>,
    /// The console's own.
    runtime: Weak<Runtime>,
    stopper: Mutex<Option<Stopper>>,
}

/// Makes the data plane; it serves from the first configuration on.
///
/// # Errors
/// None yet: drivers are tried when the first configuration is applied.
pub fn start(options: Options) -> Result<Box<dyn DataPlane>, String> {
    let changes = options.state.as_deref().map(crate::state::keep).unwrap_or_default();
    let registry = Registry::new();
    let counted = options.state.as_deref().map(|state| Counted::keep(state, registry.clone()));
    let engine: Arc<Mutex<Option<Engine>>> = Arc::default();
    let peers = Arc::new(Peers::default());
    let issuing = Arc::new(Issuing::new(&engine));
    let runtime = Arc::new(Runtime::new(engine.clone(), peers.clone()));
    let weak = Arc::downgrade(&runtime);
    let console = Console::new(runtime);
    Ok(Box::new(EngineAdapter {
        options,
        changes,
        registry,
        counted,
        engine,
        console,
        peers,
        issuing,
        runtime: weak,
        stopper: Mutex::default(),
    }))
}

impl EngineAdapter {
    fn engine(&self) -> MutexGuard<'_, Option<Engine>> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was changed last, and counted, is in its file before the process goes.
    fn settle(&self) {
        if self.options.state.is_some() {
            self.changes.settle(LAST_WRITE);
        }
        if let Some(counted) = &self.counted {
            counted.end();
        }
    }

    fn remember_stopper(&self, engine: &Engine) {
        *self.stopper.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(engine.stopper()));
    }
}

impl DataPlane for EngineAdapter {
    fn apply(&self, update: Update) -> Result<(), String> {
        let control = update.plan.process.control.clone();
        let count = update.plan.listeners.len().min(update.sockets.listeners.len());
        let (listening, control_sockets) = update.sockets.listeners.split_at(count);
        let (listening, control_sockets) = (listening.to_vec(), control_sockets.to_vec());
        let sockets = sockets(&update);
        let logs = log_files(&update.logs)?;
        let wanted = Issuing::wanted(&update.plan)?;
        self.issuing.prepare(&wanted)?;
        let mut engine = self.engine();
        match engine.as_mut() {
            Some(engine) => {
                engine.offer_logs(logs);
                engine.swap(update.plan, update.workers, sockets)?;
                self.remember_stopper(engine);
            }
            None => {
                let io = match self.options.io {
                    Io::Auto => IoChoice::Auto,
                    Io::Uring => IoChoice::Uring,
                    Io::Epoll => IoChoice::Epoll,
                };
                let options = EngineOptions {
                    issued: Some(self.issuing.clone()),
                    io,
                    pages: Arc::new(AdminPages { runtime: self.runtime.clone(), resets: Resets::default() }),
                    changes: self.changes.clone(),
                    registry: self.registry.clone(),
                    logs,
                };
                let started = Engine::start(update.plan, update.workers, sockets, options)?;
                self.remember_stopper(&started);
                *engine = Some(started);
            }
        }
        let tables = engine.as_ref().map(Engine::stick_tables);
        drop(engine);
        self.issuing.want(wanted)?;
        if let Some((tables, now)) = tables {
            let of_group = |name: &str| peer_sockets(&control, &control_sockets, name);
            self.peers
                .open(&control.peers, of_group, (&tables, now))
                .map_err(|error| format!("cannot talk to peers: {error}"))?;
        }
        self.console
            .open(&control, (&listening, &control_sockets))
            .map_err(|error| format!("cannot answer commands: {error}"))
    }

    fn reopen_logs(&self, logs: LogFiles) {
        if let (Some(engine), Ok(files)) = (self.engine().as_ref(), log_files(&logs)) {
            engine.reopen_logs(files);
        }
    }

    fn drain(&self, deadline: Option<Duration>) {
        self.console.close();
        self.peers.close();
        // Another process may order from now on.
        self.issuing.end();
        let end = deadline.map(|time| Instant::now() + time);
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            // In slices, so that the lock is free in between: logs are rotated while long downloads end.
            let slice = left.map_or(DRAIN_SLICE, |left| left.min(DRAIN_SLICE));
            let ended = self.engine().as_mut().is_none_or(|engine| engine.drain(Some(slice)));
            if ended || left.is_some_and(|left| left.is_zero()) {
                return self.settle();
            }
            std::thread::sleep(DRAIN_PAUSE);
        }
    }

    fn stop(&self) {
        self.console.close();
        self.issuing.end();
        // Without the engine's lock: an apply may hold it.
        if let Some(stop) = &*self.stopper.lock().unwrap_or_else(PoisonError::into_inner) {
            stop();
        }
        self.settle();
    }

    fn status(&self) -> String {
        let Some(snapshot) = self.engine().as_ref().map(Engine::snapshot) else {
            return "not serving".into();
        };
        let process = &snapshot.process;
        format!(
            "{} workers on {}, plan {}, {} connections, {} requests",
            process.workers, process.driver, process.plan, process.connections.active, process.requests
        )
    }

    fn dashboard(&self, asked: &DashboardRequest<'_>) -> DashboardPage {
        let pages = AdminPages { runtime: self.runtime.clone(), resets: Resets::default() };
        let request = weir_admin::Request { target: asked.target.as_bytes(), authorization: None };
        let method = asked.method.as_bytes();
        let page = weir_admin::dashboard::page(method, &request, asked.may_write, asked.body, &pages);
        DashboardPage { status: page.status, headers: page.headers, body: page.body }
    }

    fn change(&self, change: Change) -> Result<(), String> {
        self.runtime.upgrade().ok_or(GONE)?.change(change)
    }

    fn certificates(&self) -> Vec<(String, bool)> {
        let all = self.runtime.upgrade().map(|runtime| runtime.certificates()).unwrap_or_default();
        all.into_iter().map(|one| (one.name, one.replaced)).collect()
    }
}

/// The plan's listeners are those of the model, in the same order, and so are the sockets.
fn sockets(update: &Update) -> Vec<Socket> {
    let listeners = update.plan.listeners.iter().zip(&update.sockets.listeners);
    listeners
        .flat_map(|(listener, opened)| {
            let own = |socket: &crate::plane::OpenSocket| Socket {
                listener: listener.id,
                id: socket.id.0,
                fd: socket.fd.clone(),
            };
            opened.sockets.iter().map(own)
        })
        .collect()
}

fn log_files(logs: &LogFiles) -> Result<weir_engine::LogFiles, String> {
    logs.iter()
        .map(|(path, file)| {
            let file =
                file.as_fd().try_clone_to_owned().map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(LogFile { path: path.to_owned(), file: Arc::new(file.into()) })
        })
        .collect()
}

/// Pages rendered by `weir-admin`.
struct AdminPages {
    /// What their forms act on.
    runtime: Weak<Runtime>,
    /// What was counted before whoever uses the API reset it.
    resets: Resets,
}

/// What was posted by somebody whose process is on its way out.
const GONE: &str = "it does not serve any more";

impl Operator for AdminPages {
    fn change(&self, change: Change) -> Result<(), String> {
        self.runtime.upgrade().ok_or(GONE)?.change(change)
    }

    fn judge(&self, pool: &str, endpoint: &str, healthy: bool) -> Result<(), String> {
        self.runtime.upgrade().ok_or(GONE)?.judge(pool, endpoint, healthy)
    }

    fn cut(&self, pool: &str, endpoint: &str) -> Result<(), String> {
        self.runtime.upgrade().ok_or(GONE)?.cut(pool, endpoint)
    }
}

impl Source for AdminPages {
    fn observe(&self, most: usize) -> Observed {
        let Some(runtime) = self.runtime.upgrade() else { return Observed::default() };
        let (snapshot, requests) = runtime.observe(most);
        let certificates = runtime.certificates().into_iter().map(|one| (one.name, one.replaced));
        Observed {
            snapshot,
            requests,
            caches: runtime.memory_caches(),
            certificates: certificates.collect(),
            now_unix_ms: unix_ms(),
        }
    }
}

fn unix_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

impl Pages for AdminPages {
    fn stats(&self, page: &StatsPage, request: &PageRequest<'_>, snapshot: &Snapshot) -> Page {
        crate::pages::stats(page, request, snapshot, self)
    }

    fn dashboard(&self, request: &PageRequest<'_>) -> Page {
        crate::pages::dashboard(request, self)
    }

    fn api(&self, request: &ApiRequest<'_>, snapshot: &Snapshot) -> Page {
        match self.runtime.upgrade() {
            Some(runtime) => crate::pages::api(request, snapshot, &*runtime, &self.resets),
            None => Page { status: 503, headers: Vec::new(), body: Vec::new() },
        }
    }

    fn metrics(&self, form: Exposition, request: &PageRequest<'_>, snapshot: &Snapshot) -> Page {
        crate::pages::metrics(form, request, snapshot)
    }
}
