//! Following the names of endpoints.
//!
//! Owns: a side thread that looks up the names of a plan's endpoints again and again, and the addresses it found.
//! Never: chooses endpoints, blocks a worker: it replaces a pool's endpoints as a whole.
//! Driven by: [`crate::Engine`], at each new plan and when endpoints were given.
//! Why: one for the process: name servers are asked once for a name, however many workers and pools use it. What a name
//! means and when it is asked again is `policy::names`; what endpoints follow from it, [`weir_plan::EndpointSet::at`].

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::{Arc, Weak, mpsc as blocking};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use weir_plan::{EndpointSet, Resolve, Resolver};
use weir_policy::Millis;
use weir_policy::names::{Name, NameConfig};
use weir_telemetry::Level;

use crate::worker::command::{Crew, Follow};
use crate::worker::dns::{Clients, Found, look_up};
use crate::worker::lasting;
use crate::worker::prepared::Prepared;
use crate::worker::shared::Shared;

/// Look-ups at once.
const PARALLEL: usize = 64;
/// How long a plan waits for names that nothing is known of, before it runs without them.
const FIRST: Duration = Duration::from_secs(1);

/// Follows the names of a plan's endpoints, if there are any. Returns once all are known, or after a second: workers that
/// begin before would refuse what they could serve in a moment.
///
/// # Errors
/// No thread could be started.
pub(crate) fn follow(shared: &Arc<Shared>, crew: &Arc<Crew>, prepared: &Arc<Prepared>) -> Result<(), String> {
    if crew.names.get().is_none() {
        if !prepared.pools.iter().any(|pool| pool.wanted().resolves()) {
            return Ok(());
        }
        let _ = crew.names.set(start_thread(shared, crew)?);
    }
    if let Some(names) = crew.names.get() {
        let (settled, is_settled) = blocking::channel();
        if names.send(Follow { prepared: prepared.clone(), settled }).is_ok() {
            let _ = is_settled.recv_timeout(FIRST);
        }
    }
    Ok(())
}

fn start_thread(shared: &Arc<Shared>, crew: &Arc<Crew>) -> Result<mpsc::UnboundedSender<Follow>, String> {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    // The thread ends with the engine, whose end closes the mailbox.
    let weak = Arc::downgrade(shared);
    let note = move |payload: &(dyn std::any::Any + Send)| {
        if let Some(shared) = weak.upgrade() {
            shared.note_panic("looking up the names of endpoints", payload);
        }
    };
    let engine = Engine(Arc::downgrade(shared), Arc::downgrade(crew));
    // Outlives a panic, as what it knows must.
    let mut state = State { names: HashMap::new(), current: None, origin: Instant::now() };
    lasting::thread("weir-names", note, move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, state.serve(&engine, &mut receiver));
    })
    .map_err(|error| format!("cannot start the thread that follows names: {error}"))?;
    Ok(sender)
}

/// The engine, if it is still there: its end ends the thread.
struct Engine(Weak<Shared>, Weak<Crew>);

impl Engine {
    fn there(&self) -> Option<(Arc<Shared>, Arc<Crew>)> {
        self.0.upgrade().zip(self.1.upgrade())
    }
}

/// A name, whom to ask (what decides what its addresses are worth), and whether its service records are asked for.
type Key = (Box<str>, Arc<Resolver>, bool);

struct State {
    names: HashMap<Key, Name>,
    current: Option<Follow>,
    origin: Instant,
}

impl State {
    /// Looks names up until the engine is gone.
    async fn serve(&mut self, engine: &Engine, orders: &mut mpsc::UnboundedReceiver<Follow>) {
        let clients = Rc::new(RefCell::new(Clients::new()));
        let (done, mut results) = mpsc::channel::<(Key, Found)>(PARALLEL);
        let mut asking: Vec<Key> = Vec::new();
        loop {
            let now = self.now();
            let due: Vec<Key> =
                self.names.iter().filter(|(_, name)| name.due() <= now).map(|(key, _)| key.clone()).collect();
            for key in due {
                if asking.len() >= PARALLEL {
                    break;
                }
                if asking.contains(&key) {
                    continue;
                }
                asking.push(key.clone());
                let (clients, done) = (clients.clone(), done.clone());
                tokio::task::spawn_local(async move {
                    let found = look_up(&clients, &key.1, &key.0, key.2).await;
                    let _ = done.send((key, found)).await;
                });
            }
            let idle = self.names.iter().filter(|(key, _)| !asking.contains(key));
            let next = idle.map(|(_, name)| name.poll_timeout()).min();
            let next =
                next.map_or(Duration::from_secs(3600), |at| Duration::from_millis(at.since(self.now())));
            tokio::select! {
                order = orders.recv() => {
                    let Some(order) = order else { return };
                    let Some((shared, crew)) = engine.there() else { return };
                    self.take_up((&shared, &crew), order);
                }
                Some((key, found)) = results.recv() => {
                    asking.retain(|other| *other != key);
                    let Some((shared, crew)) = engine.there() else { return };
                    self.learn((&shared, &crew), &key, found);
                }
                () = tokio::time::sleep(next) => {
                    let Some((shared, crew)) = engine.there() else { return };
                    let now = self.now();
                    let over: Vec<Key> = self.names.iter_mut().filter_map(|(key, name)| name.expire(now).then(|| key.clone())).collect();
                    for key in over {
                        self.apply((&shared, &crew), &key);
                    }
                }
            }
        }
    }

    fn now(&self) -> Millis {
        // Zero is no time.
        Millis(1 + u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX - 1))
    }

    /// Follows the names of another plan; what is known of those that stay stays known.
    fn take_up(&mut self, (shared, crew): (&Shared, &Crew), order: Follow) {
        let now = self.now();
        let mut before = std::mem::take(&mut self.names);
        let wanted = resolves(&order.prepared);
        for resolve in &wanted {
            let key = key(resolve);
            let known = || shared.changes.addresses(&resolve.described()).unwrap_or_default();
            let name =
                before.remove(&key).unwrap_or_else(|| Name::new(config(&resolve.resolver), now, known()));
            self.names.entry(key).or_insert(name);
        }
        let described: HashSet<String> = wanted.iter().map(|resolve| resolve.described()).collect();
        shared.changes.keep_names(|name| described.contains(name));
        self.current = Some(order);
        // An answer may have come between the preparing of the plan and now.
        for key in self.names.keys().cloned().collect::<Vec<_>>() {
            self.apply((shared, crew), &key);
        }
        self.tell_settled();
    }

    /// Takes in what came of a look-up.
    fn learn(&mut self, (shared, crew): (&Shared, &Crew), key: &Key, found: Found) {
        let now = self.now();
        let Some(name) = self.names.get_mut(key) else { return };
        let changed = match found {
            Ok((addresses, ttl)) => name.answered(now, &addresses, ttl),
            Err(failed) => {
                let last = if name.addresses().is_some_and(|all| !all.is_empty()) {
                    "; its last known addresses are used"
                } else {
                    ""
                };
                shared
                    .log_process_error(&format!("{} could not be resolved ({}){last}", key.0, failed.words));
                name.failed(now, failed.kind)
            }
        };
        if changed {
            self.apply((shared, crew), key);
        }
        self.tell_settled();
    }

    /// Replaces the endpoints of the pools that name this name, where they are not what they should be.
    fn apply(&self, (shared, crew): (&Shared, &Crew), changed: &Key) {
        let Some(Follow { prepared, .. }) = &self.current else { return };
        if let Some(addresses) = self.names.get(changed).and_then(Name::addresses) {
            let resolve = resolves(prepared).into_iter().find(|resolve| key(resolve) == *changed);
            resolve
                .into_iter()
                .for_each(|resolve| shared.changes.set_addresses(&resolve.described(), addresses.clone()));
        }
        for (pool, live) in prepared.plan.pools.iter().zip(&prepared.pools) {
            let concerns = |resolve: &Arc<Resolve>| key(resolve) == *changed;
            if !live.wanted().endpoints.iter().filter_map(|one| one.resolve.as_ref()).any(concerns) {
                continue;
            }
            let found = |resolve: &Resolve| self.names.get(&key(resolve)).and_then(Name::addresses);
            let now = shared.millis(weir_rt::Instant::now());
            let Some(set) = live.follow_names(pool.id, now, found) else { continue };
            let told: Vec<String> = set
                .endpoints
                .iter()
                .filter_map(|one| one.address.as_ref())
                .map(ToString::to_string)
                .collect();
            // Once it is said, it is so.
            crew.tell_endpoints(shared, prepared, pool.id);
            shared.logs.event(
                Level::Notice,
                &format!(
                    "the endpoints of {} are now {}",
                    pool.name,
                    if told.is_empty() { "none".to_owned() } else { told.join(", ") }
                ),
            );
        }
    }

    fn tell_settled(&self) {
        if let Some(current) = &self.current
            && self.names.values().all(Name::is_settled)
        {
            let _ = current.settled.send(());
        }
    }
}

/// The names of a plan's endpoints, or of those that were given in their place.
fn resolves(prepared: &Prepared) -> Vec<Arc<Resolve>> {
    let sets = prepared.pools.iter().map(|pool| pool.wanted());
    let of_set = |set: Arc<EndpointSet>| {
        let names = set.endpoints.iter().filter_map(|endpoint| endpoint.resolve.clone());
        names.collect::<Vec<_>>()
    };
    sets.flat_map(of_set).collect()
}

fn key(resolve: &Resolve) -> Key {
    (resolve.host.to_ascii_lowercase().into(), resolve.resolver.clone(), resolve.services)
}

fn config(resolver: &Resolver) -> NameConfig {
    NameConfig { valid: resolver.valid, again: resolver.again, holds: resolver.holds }
}
