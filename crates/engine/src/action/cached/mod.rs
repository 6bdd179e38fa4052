//! The cache in front of upstreams.
//!
//! Owns: the way of a request through it: found and fresh, old and used all the same, waited for, or fetched.
//! Never: speaks to an upstream; the proxy and FastCGI actions do, and ask here what becomes of an answer.
//! Driven by: the walk, for routes whose upstream is cached.
//! Why: routes without a cache ask once whether there is one. What has to do with objects is in files of its own: looking
//! (`find`), removing (`purge`), judging (`rules`), storing (`keep`), sending (`deliver`), updating beside a request (`beside`).
//!
//! ```text
//!   key → bypass? → look → fresh → HIT ──────────────────────────────┐
//!                        → old  → updated by another? → UPDATING ────┤
//!                        │      → updated beside → STALE ────────────┼→ deliver
//!                        │      → fetch → 304 → REVALIDATED ─────────┤
//!                        │              → error → STALE ─────────────┘
//!                        │              → answer → EXPIRED → keep
//!                        → none → (wait for who fetches) → fetch → MISS → keep
//! ```

mod beside;
pub(crate) mod deliver;
mod find;
pub(crate) mod gateway;
pub(crate) mod keep;
pub(crate) mod memory;
mod purge;
mod range;
mod rules;
pub(crate) mod slice;

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_cache::{Key, Store};
use weir_http::{HeaderId, Method};
use weir_plan::{CacheZoneUse, Caching as Settings};

use super::later::Later;
use crate::eval::text;
use crate::exchange::{CacheStatus, Caching, Downstream, Ending, Exchange, Next, Phase, errors, intake};
use crate::files::Held;
use crate::worker::Installed;
use crate::worker::watch::{Ends, Watch};
use find::Found;
use gateway::Gateway;
use keep::is_any;

/// Between two looks at an object that somebody else fetches.
const AGAIN: Duration = Duration::from_millis(10);

/// Answers from the cache, or from the upstream behind it.
pub(crate) async fn serve<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
    cached: (Gateway<'_>, &Arc<Settings>),
) -> Next<Later> {
    let next = through(exchange, down, installed, cached).await;
    if !matches!(next, Next::Done | Next::Later(_))
        && let Some(caching) = &mut exchange.caching
    {
        // Another action answers in its place: an error page, a redirect inside. What that gets is no object of this one.
        caching.part();
    }
    next
}

async fn through<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
    (gateway, settings): (Gateway<'_>, &Arc<Settings>),
) -> Next<Later> {
    let method = exchange.request.method;
    let cached =
        matches!(method, Method::Get | Method::Head) || method == Method::Post && settings.settings.post;
    let safe = matches!(method, Method::Options | Method::Trace);
    let store = match zone(exchange, installed, settings) {
        Ok(store) => store,
        Err(instead) => return instead,
    };
    let purges = is_any(exchange, &settings.purge);
    let Some(store) = store.filter(|_| purges || !exchange.request.upgrade && (cached || !safe)) else {
        return gateway.ask(exchange, down, installed).await;
    };
    // The key may have the body in it.
    if cached
        && exchange.request.has_body()
        && let Err(status) = Box::pin(intake::buffer(exchange, down)).await
    {
        return Next::Status(status);
    }
    let before = exchange.slice_uses();
    let name = gateway.name(exchange, settings.key.as_ref());
    let names_slice = exchange.slice_uses() > before;
    if let Some(why) = exchange.slots.take_doubt() {
        errors::undecided(exchange, &why);
        return Next::Status(500);
    }
    let main = Key::of(&name);
    exchange.caching = Some(Box::new(Caching {
        settings: settings.clone(),
        store: store.clone(),
        name,
        main,
        key: main,
        status: None,
        fill: None,
        written: Rc::default(),
        old: None,
        first: None,
        instead: None,
        stores: cached,
        whole: cached,
        asks: false,
        names_slice,
        as_get: cached && method == Method::Head && settings.settings.convert_head,
        answered: false,
        invalidates: !cached,
        began: Instant::now(),
    }));
    if purges {
        return purge::run(exchange).await;
    }
    if !cached {
        return gateway.ask(exchange, down, installed).await;
    }
    if is_any(exchange, &settings.bypass) {
        note(exchange, CacheStatus::Bypass);
        return fetch(exchange, down, installed, gateway).await;
    }
    match look(exchange, down, installed, gateway).await {
        Way::Use(held) => deliver(exchange, down, installed, gateway, held).await,
        Way::Fetch => fetch(exchange, down, installed, gateway).await,
        Way::Gone => {
            down.cut();
            Next::Done
        }
    }
}

/// The store of the zone that a request gets; `None`: it gets none.
fn zone<'a>(
    exchange: &mut Exchange,
    installed: &'a Installed,
    settings: &Settings,
) -> Result<Option<&'a Arc<Store>>, Next<Later>> {
    let template = match &settings.zone {
        CacheZoneUse::Known(zone) => return Ok(installed.prepared.caches.get(zone.at())),
        CacheZoneUse::Computed(template) => template,
    };
    let name = text(exchange, template);
    if matches!(&name[..], b"" | b"off") {
        return Ok(None);
    }
    let zones = &installed.plan.cache_zones;
    match zones.iter().position(|zone| zone.name.as_bytes() == name) {
        Some(at) => Ok(installed.prepared.caches.get(at)),
        None => {
            errors::error(exchange, &format!("cache \"{}\" not found", String::from_utf8_lossy(&name)));
            Err(Next::Status(500))
        }
    }
}

fn note(exchange: &mut Exchange, status: CacheStatus) {
    if let Some(caching) = &mut exchange.caching {
        caching.status = Some(status);
    }
}

/// How a request goes on.
enum Way {
    /// With this object.
    Use(Rc<Held>),
    /// To the upstream.
    Fetch,
    /// Nowhere: its client left while it waited.
    Gone,
}

/// Looks for the object of a request, and waits for it where another request fetches it.
async fn look<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
    gateway: Gateway<'_>,
) -> Way {
    let Some(settings) = exchange.caching.as_ref().map(|caching| caching.settings.clone()) else {
        return Way::Fetch;
    };
    let until = exchange.now() + settings.settings.lock_timeout;
    loop {
        let found = find::object(exchange).await;
        let Some(caching) = &mut exchange.caching else { return Way::Fetch };
        let uses = match found {
            Found::Object(held) => return judge(exchange, installed, gateway, held),
            Found::Missing { uses } => uses,
            Found::Busy => {
                // A disk that is stuck stops nobody.
                (caching.status, caching.stores) = (Some(CacheStatus::Miss), false);
                return Way::Fetch;
            }
        };
        caching.status = Some(CacheStatus::Miss);
        if u64::from(uses) < settings.settings.min_uses {
            (caching.stores, caching.whole, caching.as_get) = (false, false, false);
            return Way::Fetch;
        }
        if passes_range(exchange, &settings) || !settings.settings.lock {
            return Way::Fetch;
        }
        let now = Instant::now();
        let Some(caching) = &mut exchange.caching else { return Way::Fetch };
        caching.fill = caching.store.claim(&caching.key, None, settings.settings.lock_age, now);
        if caching.fill.is_some() {
            caching.began = now;
            return Way::Fetch;
        }
        if weir_rt::now() >= until {
            caching.stores = false;
            return Way::Fetch;
        }
        let watch = Watch::new(down.watched(), Ends::unanswered(gateway.settings().client_abort));
        if watch.over(weir_rt::sleep(AGAIN)).await.is_err() {
            exchange.ending = Ending::ClientAborted(Phase::Headers);
            return Way::Gone;
        }
    }
}

/// A range that begins too far behind is passed on, and what comes is not stored.
fn passes_range(exchange: &mut Exchange, settings: &Settings) -> bool {
    let Some(most) = settings.settings.max_range_offset else { return false };
    let far =
        exchange.request.fields.first(HeaderId::Range).is_some_and(|value| range::begins_behind(value, most));
    if far && let Some(caching) = &mut exchange.caching {
        (caching.stores, caching.whole, caching.as_get) = (false, false, false);
    }
    far
}

/// What becomes of a request whose object was found.
fn judge(exchange: &mut Exchange, installed: &Installed, gateway: Gateway<'_>, held: Rc<Held>) -> Way {
    let now = weir_rt::unix_now().as_secs();
    let hollow = is_hollow(exchange, gateway, &held);
    let Some(caching) = &mut exchange.caching else { return Way::Fetch };
    if hollow {
        caching.status = Some(CacheStatus::Miss);
        return Way::Fetch;
    }
    if now < held.meta.fresh_until {
        caching.status = Some(CacheStatus::Hit);
        return Way::Use(held);
    }
    let settings = caching.settings.clone();
    let wanted = settings.settings.stale.updating || rules::may_update(&held.meta, now);
    caching.old = Some(held.clone());
    if wanted && !rules::must_revalidate(&held.meta) {
        // Whoever has had the right for as long as an upstream may take has lost it.
        let patience = gateway.settings().read_timeout;
        let claimed = caching.store.claim(&caching.key, Some(held.version), patience, Instant::now());
        let Some(fill) = claimed else {
            caching.status = Some(CacheStatus::Updating);
            return Way::Use(held);
        };
        if settings.settings.background_update {
            caching.status = Some(CacheStatus::Stale);
            beside::update(exchange, installed, fill);
            return Way::Use(held);
        }
        caching.fill = Some(fill);
    }
    caching.status = Some(CacheStatus::Expired);
    if !passes_range(exchange, &settings) {
        ask_about_old(exchange);
    }
    Way::Fetch
}

/// Asks the upstream with the validators of the old object, where that is wanted.
fn ask_about_old(exchange: &mut Exchange) {
    let Some(caching) = &mut exchange.caching else { return };
    caching.asks = caching.settings.settings.revalidate;
}

/// Asks the upstream; what is old takes the place of a failure where the settings, or the object itself, say so.
async fn fetch<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
    gateway: Gateway<'_>,
) -> Next<Later> {
    let next = gateway.ask(exchange, down, installed).await;
    let Some(caching) = &mut exchange.caching else { return next };
    if let Some(instead) = caching.instead.take() {
        return deliver(exchange, down, installed, gateway, instead).await;
    }
    if !caching.answered
        && let Next::Status(status) = next
        && let Some(old) = keep::in_place_of_failure(caching, status)
    {
        return deliver(exchange, down, installed, gateway, old).await;
    }
    next
}

/// Answers with an object, as the upstream would have: what the configuration does with its fields is done here as well.
async fn deliver<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
    gateway: Gateway<'_>,
    held: Rc<Held>,
) -> Next<Later> {
    match prepare(exchange, installed, gateway, &held) {
        Some(instead) => instead,
        None => deliver::send(exchange, down, &held).await.wrap(Later::cached),
    }
}

/// Makes status and fields. `Some`: something else is answered.
fn prepare(
    exchange: &mut Exchange,
    installed: &Installed,
    gateway: Gateway<'_>,
    held: &Held,
) -> Option<Next<Later>> {
    let (bytes, head) = held.head();
    let status = head.status();
    exchange.response.status = status;
    exchange.response.reason = match head.reason() {
        reason if reason == exchange.phrases().reason(status).as_bytes() => None,
        reason => Some(reason.into()),
    };
    exchange.response.upstream_fields.load(bytes, head.headers());
    exchange.response.unbuffered = false;
    if exchange.attempts.is_empty() && exchange.ending == Ending::Normal {
        exchange.ending = Ending::Local;
    }
    gateway.pass_fields(exchange);
    let mut digits = itoa::Buffer::new();
    let age = rules::age(&held.meta, weir_rt::unix_now().as_secs());
    exchange.response.fields.push_id(HeaderId::Age, digits.format(age).as_bytes());
    let redirected = gateway.accelerated(exchange, installed);
    if redirected.is_some() || gateway.intercepts(exchange, status) {
        crate::action::settle::forget_fields(exchange);
        return Some(redirected.unwrap_or(Next::Status(status)));
    }
    None
}

/// Whether an object says only that an error page was shown, and none would be now.
fn is_hollow(exchange: &Exchange, gateway: Gateway<'_>, held: &Held) -> bool {
    held.meta.flags & keep::INTERCEPTED != 0 && !gateway.intercepts(exchange, held.meta.status)
}
