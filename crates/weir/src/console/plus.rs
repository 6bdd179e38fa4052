//! The engine, as NGINX Plus' API changes it.
//!
//! Owns: the one step in which endpoints are read, changed and given.
//! Driven by: `weir_admin::plus`.

use std::sync::Arc;

use weir_admin::plus::{Backend, Edit, Fault, Keyvals, Pair};
use weir_control::Change;
use weir_control::changes::NewEndpoint;
use weir_control::keyvals::{KeyvalPair, KeyvalRefused};
use weir_engine::{Engine, Keyval};

use super::Runtime;

impl Backend for Runtime {
    fn endpoints(&self, pool: &str) -> Result<Vec<NewEndpoint>, String> {
        self.with(|engine| engine.endpoints(pool)).map(|(all, _)| all)
    }

    fn edit(&self, pool: &str, edit: &mut Edit<'_>) -> Result<(), Fault> {
        // The engine stays locked from reading to giving: of two clients none undoes what the other did.
        let engine = self.engine();
        let Some(engine) = engine.as_ref() else { return Err(cannot("it does not serve yet")) };
        let (mut all, next) = engine.endpoints(pool).map_err(|why| cannot(&why))?;
        edit(&mut all, next)?;
        let change = Change::Endpoints { pool: pool.to_owned(), endpoints: Some(all) };
        engine.change(change).map_err(|why| cannot(&why))
    }

    fn keyvals(&self) -> Vec<Box<dyn Keyvals>> {
        let all = self.engine().as_ref().map(Engine::keyvals).unwrap_or_default();
        all.into_iter().map(|store| Box::new(Store(store)) as Box<dyn Keyvals>).collect()
    }
}

/// A store of keys and values.
struct Store(Arc<Keyval>);

impl Keyvals for Store {
    fn name(&self) -> &str {
        &self.0.zone.name
    }

    fn tcp(&self) -> bool {
        self.0.zone.tcp
    }

    fn expires(&self) -> bool {
        self.0.zone.timeout.is_some()
    }

    fn size(&self) -> (u64, u64) {
        (self.0.zone.bytes, self.0.pairs())
    }

    fn all(&self) -> Vec<(String, Pair)> {
        self.0.all().into_iter().map(|pair| (pair.key.clone(), shown(pair))).collect()
    }

    fn get(&self, key: &str) -> Option<Pair> {
        self.0.get(key).map(shown)
    }

    fn set(&self, key: &str, value: &str, expire: Option<u64>) -> Result<(), String> {
        self.0.set(key, value, expire).map_err(|why| {
            let words = match why {
                KeyvalRefused::Key => "invalid key format",
                KeyvalRefused::Full => "keyval memory exhausted",
            };
            words.to_owned()
        })
    }

    fn remove(&self, key: &str) -> bool {
        self.0.remove(key)
    }

    fn clear(&self) {
        self.0.clear();
    }
}

fn shown(pair: KeyvalPair) -> Pair {
    let now = weir_rt::unix_now().as_millis();
    let left = |until: u64| until.saturating_sub(u64::try_from(now).unwrap_or(u64::MAX));
    Pair { value: pair.value, expire: pair.until.map(left) }
}

/// What the engine says, under the code that comes nearest.
fn cannot(why: &str) -> Fault {
    let code = match why {
        why if why.starts_with("no resolver") => "UpstreamConfNoResolver",
        why if why.starts_with("changes may have") => "UpstreamOutOfMemory",
        _ => "UpstreamConfFormatError",
    };
    Fault::bad(code, why.to_owned())
}
