//! What commands act on: the engine, as `weir_admin::cli` asks for it.
//!
//! Owns: certificates that wait for their commit; the list of sockets as clients see it.
//! Never: holds on to the engine's lock for longer than a call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::peers::Peers;
use rustix::time::{ClockId, clock_gettime};
use weir_admin::cli;
use weir_control::lists::{Entry, List};
use weir_control::memory::MemoryCache;
use weir_control::sessions::ClientSession;
use weir_control::snapshot::Snapshot;
use weir_control::{Change, Requests};
use weir_engine::{Engine, Switch};
use weir_expr::KeptValue;
use weir_expr::settings::{CertificateList, ControlPurpose, ControlSocket, Paces};
use weir_plan::{KeyListFile, KeyListIx, KeyListUse};
use weir_telemetry::log::Ring;

/// The engine, once there is one.
pub(crate) type Shared = Arc<Mutex<Option<Engine>>>;

/// See the module.
pub(crate) struct Runtime {
    engine: Shared,
    started: Instant,
    waiting: Mutex<cli::Waiting>,
    sockets: Mutex<Vec<cli::Socket>>,
    peers: Arc<Peers>,
}

impl Runtime {
    pub(crate) fn new(engine: Shared, peers: Arc<Peers>) -> Self {
        Self { engine, started: Instant::now(), waiting: Mutex::default(), sockets: Mutex::default(), peers }
    }

    pub(super) fn set_sockets(&self, sockets: &[ControlSocket]) {
        let shown = sockets
            .iter()
            .filter(|one| one.purpose == ControlPurpose::Commands)
            .map(|one| cli::Socket { name: one.name.clone(), level: super::level(one.level) });
        *self.sockets.lock().unwrap_or_else(PoisonError::into_inner) = shown.collect();
    }

    /// Figures in detail, and single requests: of each list at most so many.
    pub(crate) fn observe(&self, most: usize) -> (Snapshot, Requests) {
        self.engine().as_ref().map(|engine| engine.observe(most)).unwrap_or_default()
    }

    pub(super) fn engine(&self) -> MutexGuard<'_, Option<Engine>> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn with<T>(&self, act: impl FnOnce(&Engine) -> Result<T, String>) -> Result<T, String> {
        self.engine().as_ref().map_or_else(|| Err("it does not serve yet".to_owned()), act)
    }
}

impl cli::Runtime for Runtime {
    fn snapshot(&self) -> Snapshot {
        self.engine().as_ref().map(Engine::snapshot).unwrap_or_default()
    }

    fn change(&self, change: Change) -> Result<(), String> {
        self.with(|engine| engine.change(change))
    }

    fn judge(&self, pool: &str, endpoint: &str, healthy: bool) -> Result<(), String> {
        self.with(|engine| engine.judge(pool, endpoint, healthy))
    }

    fn cut(&self, pool: &str, endpoint: &str) -> Result<(), String> {
        self.with(|engine| engine.cut(pool, endpoint))
    }

    fn bound_endpoint(&self, pool: &str, endpoint: &str, most: u32) -> Result<(), String> {
        self.with(|engine| engine.bound_endpoint(pool, endpoint, most))
    }

    fn switch_checks(&self, pool: &str, endpoint: &str, on: bool) -> Result<bool, String> {
        self.with(|engine| engine.switch(pool, endpoint, Switch::Checks, on))
    }

    fn switch_agent(&self, pool: &str, endpoint: &str, on: bool) -> Result<bool, String> {
        self.with(|engine| engine.switch(pool, endpoint, Switch::Agent, on))
    }

    fn clear_counters(&self, all: bool) {
        if let Some(engine) = self.engine().as_ref() {
            engine.clear_counters(all);
        }
    }

    fn sessions(&self) -> Vec<ClientSession> {
        self.engine().as_ref().map(Engine::sessions).unwrap_or_default()
    }

    fn end_session(&self, number: u64) -> bool {
        self.engine().as_ref().is_some_and(|engine| engine.end_session(number))
    }

    fn peers(&self) -> Vec<cli::PeerSection> {
        self.peers.report()
    }

    fn paces(&self) -> cli::Rates {
        let Paces { connections, sessions, tls } =
            self.engine().as_ref().map(Engine::paces).unwrap_or_default();
        cli::Rates { connections, sessions, tls }
    }

    fn set_paces(&self, paces: cli::Rates) {
        if let Some(engine) = self.engine().as_ref() {
            let cli::Rates { connections, sessions, tls } = paces;
            engine.set_paces(&Paces { connections, sessions, tls });
        }
    }

    fn bound_connections(&self, most: u64) {
        if let Some(engine) = self.engine().as_ref() {
            engine.bound_connections(most);
        }
    }

    fn hold(&self, site: &str, held: bool) -> Result<bool, String> {
        self.with(|engine| engine.hold(site, held))
    }

    fn bound_site(&self, site: &str, most: u64) -> Result<(), String> {
        self.with(|engine| engine.bound_site(site, most))
    }

    fn certificates(&self) -> Vec<cli::Certificate> {
        let all = self.engine().as_ref().map(Engine::certificates).unwrap_or_default();
        all.into_iter().map(|(name, replaced)| cli::Certificate { name, replaced }).collect()
    }

    fn chain_of(&self, name: &str) -> Option<Vec<u8>> {
        self.engine().as_ref().and_then(|engine| engine.chain_of(name))
    }

    fn trust(&self) -> Vec<cli::Trust> {
        let all = self.engine().as_ref().map(Engine::trust).unwrap_or_default();
        all.into_iter().map(|(name, list, pem)| cli::Trust { name, list, pem }).collect()
    }

    fn describe(&self, pem: &[u8]) -> Option<Vec<cli::CertificateFacts>> {
        let one = |facts: weir_rt::CertFacts| {
            let weir_rt::CertFacts { serial, not_before, not_after, names, key, sha1, subject, issuer } =
                facts;
            cli::CertificateFacts { serial, not_before, not_after, names, key, sha1, subject, issuer }
        };
        Some(weir_rt::cert_facts(pem)?.into_iter().map(one).collect())
    }

    fn describe_lists(&self, pem: &[u8]) -> Option<Vec<cli::ListFacts>> {
        let one = |facts: weir_rt::ListFacts| {
            let weir_rt::ListFacts { version, algorithm, issuer, made, next, revoked } = facts;
            cli::ListFacts { version, algorithm, issuer, made, next, revoked }
        };
        Some(weir_rt::list_facts(pem)?.into_iter().map(one).collect())
    }

    fn certificate_lists(&self) -> Vec<cli::CertificateList> {
        let all = self.engine().as_ref().map(Engine::certificate_lists).unwrap_or_default();
        let one = |list: CertificateList| cli::CertificateList {
            name: list.name,
            entries: list
                .entries
                .into_iter()
                .map(|entry| (entry.certificate, entry.line, entry.options, entry.names))
                .collect(),
        };
        all.into_iter().map(one).collect()
    }

    fn waiting(&self) -> &Mutex<cli::Waiting> {
        &self.waiting
    }

    fn lists(&self) -> Vec<cli::KeyList> {
        let engine = self.engine();
        let all = engine.iter().flat_map(Engine::lists).zip(0..);
        let one = |((file, list), number): ((&KeyListFile, &Arc<List>), u32)| cli::KeyList {
            number,
            name: file.name.as_ref().to_owned(),
            values: file.values,
            about: file.about.as_ref().to_owned(),
            list: list.clone(),
        };
        all.map(one).collect()
    }

    fn check_key(&self, list: u32, key: &str) -> Result<(), String> {
        self.with(|engine| engine.check_key(KeyListIx(list), key))
    }

    fn look_up(&self, list: u32, value: &str) -> Vec<cli::Found> {
        let found = self.engine().as_ref().map(|engine| engine.look_up(KeyListIx(list), value));
        let one = |(of, entry): (KeyListUse, Option<Entry>)| cli::Found {
            how: of.how.word(),
            ignore_case: of.ignore_case,
            tried: of.how.is_tried(),
            entry,
        };
        found.unwrap_or_default().into_iter().map(one).collect()
    }

    fn refresh_list(&self, list: u32) {
        if let Some(engine) = self.engine().as_ref() {
            engine.refresh_list(KeyListIx(list));
        }
    }

    fn stick_tables(&self) -> Vec<Box<dyn cli::StickTable>> {
        let engine = self.engine();
        let (tables, now) = engine.as_ref().map(Engine::stick_tables).unwrap_or_default();
        let mut all: Vec<Box<dyn cli::StickTable>> = Vec::with_capacity(tables.len());
        for (name, table) in tables.iter() {
            all.push(Box::new(super::sticks::Table::new(name, table.clone(), now)));
        }
        all.sort_by(|one, other| one.name().cmp(other.name()));
        all
    }

    fn kept(&self, name: &str) -> Option<(Vec<u8>, bool)> {
        let value = self.engine().as_ref().and_then(|engine| engine.kept(name))?;
        Some((value.text, value.number))
    }

    fn keep(&self, name: &str, text: &[u8], number: bool) {
        if let Some(engine) = self.engine().as_ref() {
            engine.keep(name, KeptValue { text: text.to_vec(), number });
        }
    }

    fn memory_caches(&self) -> Vec<MemoryCache> {
        self.engine().as_ref().map(Engine::memory_caches).unwrap_or_default()
    }

    fn rings(&self) -> Vec<Arc<Ring>> {
        self.engine().as_ref().map(Engine::rings).unwrap_or_default()
    }

    fn environment(&self) -> Vec<(String, String)> {
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value))).collect()
    }

    fn sockets(&self) -> Vec<cli::Socket> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn descriptors(&self) -> Vec<cli::Descriptor> {
        super::descriptors::all()
    }

    fn idle_percent(&self) -> u64 {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let used = used.tv_sec as u128 * 1_000_000_000 + used.tv_nsec as u128;
        let workers = self.snapshot().process.workers.max(1);
        let had = self.started.elapsed().as_nanos().max(1) * u128::from(workers);
        100 - (used * 100 / had).min(100) as u64
    }
}
