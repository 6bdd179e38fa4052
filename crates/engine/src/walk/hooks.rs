//! What runs between finding a route and its action.
//!
//! Owns: the list of hooks, in the order in which a request meets them, which routes have them, which of them hold for
//! requests of our own.
//! Never: judges; `admission` and `action::files` do.
//! Driven by: the walk, which asks once whether a route has any.
//! Why: what is new here is one row. A hook that never waits costs a call; one that may is boxed, and only then.

use std::pin::Pin;
use std::time::Duration;

use weir_plan::{RouteFeatures, RouteSettings, TryLast};

use super::{Next, identity, subrequest};
use crate::action;
use crate::admission::{access, limits};
use crate::eval::{edit, text, trace};
use crate::exchange::{Downstream, Exchange, intake};
use crate::worker::Installed;

/// One hook.
struct Declared {
    /// A route without any of this has no use for it.
    feature: RouteFeatures,
    /// A route with any of this has another hook in its place.
    unless: RouteFeatures,
    /// It holds for requests of our own, too.
    ours: bool,
    /// Whether it needs all of the body first, if there is one.
    body: fn(&RouteSettings) -> bool,
    run: Run,
}

/// How a hook is run. What it gives ends the way to the action.
enum Run {
    /// At once.
    Now(fn(&mut Exchange, &Installed) -> Then),
    /// It may have to wait for something.
    Waits(for<'a> fn(&'a mut Exchange, &'a Installed) -> Waiting<'a>),
}

/// A hook that waits; it gives what is done instead of the action.
type Waiting<'a> = Pin<Box<dyn Future<Output = Option<Next>> + 'a>>;

/// What follows a hook.
enum Then {
    /// The next hook.
    Go,
    /// The next hook, after this time.
    After(Duration),
    /// Something other than the action.
    Instead(Next),
}

const NONE: RouteFeatures = RouteFeatures::empty();

const fn now(feature: RouteFeatures, run: fn(&mut Exchange, &Installed) -> Then) -> Declared {
    Declared { feature, unless: NONE, ours: false, body: |_| false, run: Run::Now(run) }
}

const fn waits(
    feature: RouteFeatures,
    run: for<'a> fn(&'a mut Exchange, &'a Installed) -> Waiting<'a>,
) -> Declared {
    Declared { feature, unless: NONE, ours: false, body: |_| false, run: Run::Waits(run) }
}

impl Declared {
    const fn unless(self, unless: RouteFeatures) -> Self {
        Self { unless, ..self }
    }

    const fn for_ours(self) -> Self {
        Self { ours: true, ..self }
    }

    const fn with_body(self, body: fn(&RouteSettings) -> bool) -> Self {
        Self { body, ..self }
    }
}

/// All of them, in order. nginx asks nobody who asks who gets in, nor counts what it asks itself.
const HOOKS: [Declared; 11] = [
    now(RouteFeatures::TRACING, traced),
    now(RouteFeatures::REQUEST_EDITS, edited).for_ours(),
    now(RouteFeatures::REAL_IP, real_ip).for_ours(),
    now(RouteFeatures::LIMIT_REQ, rates),
    now(RouteFeatures::LIMIT_CONN, concurrency),
    waits(RouteFeatures::IDENTITY, identified),
    waits(RouteFeatures::ASK, asked).unless(RouteFeatures::IDENTITY),
    waits(RouteFeatures::BASIC_AUTH, password).unless(RouteFeatures::IDENTITY.union(RouteFeatures::ASK)),
    now(RouteFeatures::ACCESS_RULES, address)
        .unless(RouteFeatures::IDENTITY.union(RouteFeatures::ASK).union(RouteFeatures::BASIC_AUTH)),
    now(RouteFeatures::TRY_FILES, candidates).for_ours(),
    now(RouteFeatures::MIRRORS, mirrored)
        .with_body(|settings| settings.mirrors.as_ref().is_some_and(|mirrors| mirrors.body)),
];

/// What routes with any hook have.
pub(super) const ANY: RouteFeatures = {
    let (mut any, mut at) = (NONE, 0);
    while at < HOOKS.len() {
        any = any.union(HOOKS[at].feature);
        at += 1;
    }
    any
};

// Whoever enters a route in place, without the walk, asks for these.
const _: () = assert!(RouteFeatures::BEFORE_ACTION.contains(ANY));

/// Runs the hooks of the current route. `None`: go on with the action.
pub(super) async fn run<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
) -> Option<Next> {
    let features = installed.plan.route(exchange.route).features;
    let is_ours = exchange.asked_for.is_some();
    for hook in &HOOKS {
        let applies = features.intersects(hook.feature) && !features.intersects(hook.unless);
        if !applies || is_ours && !hook.ours {
            continue;
        }
        if exchange.request.has_body()
            && (hook.body)(&installed.plan.route(exchange.route).settings)
            && let Err(status) = Box::pin(intake::buffer(exchange, down)).await
        {
            return Some(Next::Status(status));
        }
        match hook.run {
            Run::Now(run) => match run(exchange, installed) {
                Then::Go => {}
                Then::After(time) => weir_rt::sleep(time).await,
                Then::Instead(next) => return Some(next),
            },
            Run::Waits(run) => {
                if let Some(next) = run(exchange, installed).await {
                    if matches!(next, Next::Status(401)) {
                        let delay = installed.plan.route(exchange.route).settings.access.delay;
                        if !delay.is_zero() {
                            weir_rt::sleep(delay).await;
                        }
                    }
                    return Some(next);
                }
            }
        }
    }
    None
}

/// Whether a request is sampled is decided once. A route with a program decided before it.
fn traced(exchange: &mut Exchange, installed: &Installed) -> Then {
    if let Some(tracing) = &installed.plan.route(exchange.route).settings.tracing {
        trace::begin(exchange, tracing);
    }
    Then::Go
}

fn edited(exchange: &mut Exchange, _: &Installed) -> Then {
    edit::of_route(exchange);
    Then::Go
}

fn real_ip(exchange: &mut Exchange, installed: &Installed) -> Then {
    if let Some(rules) = &installed.plan.route(exchange.route).settings.real_ip {
        access::real_ip(exchange, rules);
    }
    Then::Go
}

fn rates(exchange: &mut Exchange, installed: &Installed) -> Then {
    match limits::rates(exchange, installed) {
        Ok(None) => Then::Go,
        Ok(Some(delay)) => Then::After(delay),
        Err(status) => Then::Instead(Next::Status(status)),
    }
}

fn concurrency(exchange: &mut Exchange, installed: &Installed) -> Then {
    match limits::connections(exchange, installed) {
        Ok(()) => Then::Go,
        Err(status) => Then::Instead(Next::Status(status)),
    }
}

/// Another route is asked as well: it is walked here, access judges what came of it.
fn asked<'a>(exchange: &'a mut Exchange, installed: &'a Installed) -> Waiting<'a> {
    Box::pin(async move {
        let access = &installed.plan.route(exchange.route).settings.access;
        let ask = access.ask.as_ref()?;
        match access::before_asking(exchange, access).await {
            access::Known::Passes => None,
            access::Known::Refused(status) => Some(Next::Status(status)),
            access::Known::Ask => {
                let refused = subrequest::ask(exchange, ask).await;
                access::after_asking(exchange, access, refused).map(Next::Status)
            }
        }
    })
}

/// All ways of access together, where a token or a variable is one of them.
fn identified<'a>(exchange: &'a mut Exchange, installed: &'a Installed) -> Waiting<'a> {
    const REQUESTS: identity::Requests =
        identity::Requests { ask: subrequest::ask, fetch: subrequest::fetch };
    Box::pin(identity::check(exchange, installed, &REQUESTS))
}

/// Other routes get a copy each; nobody waits for what comes of it.
fn mirrored(exchange: &mut Exchange, installed: &Installed) -> Then {
    if let Some(mirrors) = &installed.plan.route(exchange.route).settings.mirrors {
        mirrors.paths.iter().for_each(|path| subrequest::beside(exchange, path, mirrors.body));
    }
    Then::Go
}

fn password<'a>(exchange: &'a mut Exchange, installed: &'a Installed) -> Waiting<'a> {
    Box::pin(async {
        let access = &installed.plan.route(exchange.route).settings.access;
        access::check(exchange, access).await.map(Next::Status)
    })
}

fn address(exchange: &mut Exchange, installed: &Installed) -> Then {
    match access::by_address(exchange, &installed.plan.route(exchange.route).settings.access) {
        None => Then::Go,
        Some(status) => Then::Instead(Next::Status(status)),
    }
}

fn candidates(exchange: &mut Exchange, installed: &Installed) -> Then {
    let Some(tries) = installed.plan.route(exchange.route).try_files.as_ref() else { return Then::Go };
    if let Some(found) = action::files::first_candidate(exchange, tries) {
        exchange.request.path = found;
        exchange.request.path_is_raw = false;
        return Then::Go;
    }
    Then::Instead(match &tries.last {
        TryLast::Status(status) => Next::Status(*status),
        TryLast::Named(route) => Next::Named(*route),
        TryLast::Uri(target) => Next::internal(&text(exchange, target)),
    })
}
