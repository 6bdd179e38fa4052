//! Looking for the object of a request.
//!
//! Owns: the name's object, then the variant's if it varies; waiting for what is being read or written, with a bound.
//! Driven by: the cache, once a request, and again while it waits for another.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use weir_cache::{Key, Loaded, Lookup};
use weir_http::list;

use crate::exchange::fields::FieldName;
use crate::exchange::{Caching, Exchange};
use crate::files::Held;

/// How long a read, or the end of a write, may take before the upstream is asked instead.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks at an object that is being written.
const AGAIN: Duration = Duration::from_millis(1);

/// What there is.
pub(super) enum Found {
    /// The object.
    Object(Rc<Held>),
    /// Nothing, and it was asked for so many times.
    Missing { uses: u16 },
    /// That cannot be said now.
    Busy,
}

/// The object of a request.
pub(super) async fn object(exchange: &mut Exchange) -> Found {
    let Some(caching) = &mut exchange.caching else { return Found::Busy };
    caching.key = caching.main;
    let first = match one(exchange).await {
        Found::Object(held) => held,
        other => return other,
    };
    if first.vary.is_empty() {
        return Found::Object(first);
    }
    let variant = variant(exchange, &first.vary);
    let Some(caching) = &mut exchange.caching else { return Found::Busy };
    caching.first = Some(first.clone());
    if variant == first.meta.variant {
        return Found::Object(first);
    }
    caching.key = key_of_variant(caching, &first.vary, first.meta.family, &variant);
    match one(exchange).await {
        Found::Object(held) if held.meta.variant == variant && held.vary == first.vary => Found::Object(held),
        Found::Object(_) => Found::Missing { uses: 1 },
        other => other,
    }
}

/// The key of a variant of a name.
pub(super) fn key_of_variant(caching: &Caching, vary: &[u8], family: u64, variant: &[u8; 16]) -> Key {
    Key::of_parts([&caching.name[..], vary, &family.to_le_bytes(), variant])
}

/// What the request has of the fields that an object varies by: of names separated by commas. Zeros: there are none.
pub(super) fn variant(exchange: &Exchange, vary: &[u8]) -> [u8; 16] {
    if vary.is_empty() {
        return [0; 16];
    }
    let fields = &exchange.request.fields;
    let values = vary.split(|&byte| byte == b',').map(|name| {
        let lines = fields.all(FieldName::new(name));
        // Spaces and empty members make no difference; whether the field is there does.
        let there = fields.has(FieldName::new(name));
        let items: Vec<&[u8]> = lines.flat_map(list::items).collect();
        [&[u8::from(there)], &items.join(&b',')[..]].concat()
    });
    let values: Vec<Vec<u8>> = values.collect();
    *Key::of_parts(values.iter().map(Vec::as_slice)).bytes()
}

/// The object of the current key.
pub(super) async fn one(exchange: &mut Exchange) -> Found {
    let now = weir_rt::unix_now().as_secs();
    let mut until = None;
    loop {
        let Some(caching) = &exchange.caching else { return Found::Busy };
        let count = caching.settings.settings.min_uses > 1;
        let name = (caching.store.id(), caching.key);
        match caching.store.look_up(&caching.key, now, count) {
            Lookup::Missing { uses } => {
                exchange.worker.objects.forget(name);
                return Found::Missing { uses };
            }
            Lookup::Stored { version } if caching.store.is_purged(&caching.key, &caching.name, version) => {}
            Lookup::Stored { version } => match exchange.worker.objects.find(name, version) {
                Some(held) if !held.is_due(exchange.now()) => return Found::Object(held),
                held => return Box::pin(load(exchange, held, 1)).await,
            },
            Lookup::Unknown { uses } => return Box::pin(load(exchange, None, uses)).await,
            Lookup::Written => {
                let until = *until.get_or_insert_with(|| weir_rt::now() + PATIENCE);
                if weir_rt::now() >= until {
                    return Found::Busy;
                }
                weir_rt::sleep(AGAIN).await;
            }
        }
    }
}

/// Has an object read. `held`: it is in memory, and its file is to be looked at; while that cannot be done it holds good.
/// `uses`: so often it was asked for, if there is none.
#[cold]
async fn load(exchange: &mut Exchange, held: Option<Rc<Held>>, uses: u16) -> Found {
    let Some(caching) = &exchange.caching else { return Found::Busy };
    let (tell, told) = oneshot::channel();
    let (store, key, name) = (caching.store.clone(), caching.key, caching.name.clone());
    let began = store.load(key, name, move |loaded| drop(tell.send(loaded)));
    let loaded = match began {
        true => weir_rt::timeout(weir_rt::now() + PATIENCE, told).await.ok().and_then(Result::ok),
        false => None,
    };
    match (loaded, held) {
        (Some(Loaded::Object(object)), _) => {
            let Some(held) = Held::new(*object, weir_rt::now()) else {
                // It was written by another version of this program, perhaps.
                store.remove(&key, Instant::now());
                return Found::Missing { uses: 1 };
            };
            let held = Rc::new(held);
            exchange.worker.objects.keep((store.id(), key), &held);
            Found::Object(held)
        }
        (Some(Loaded::Missing), _) => {
            exchange.worker.objects.forget((store.id(), key));
            Found::Missing { uses }
        }
        (None, Some(held)) => Found::Object(held),
        (None, None) => Found::Busy,
    }
}
