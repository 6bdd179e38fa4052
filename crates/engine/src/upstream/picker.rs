//! Choosing an endpoint, attempt after attempt.
//!
//! Owns: what one exchange remembers of its attempts, the wait for a slot, the verdict on failures.
//! Driven by: `attempt`: `next`, or `queue` where that has to wait, then `succeeded` or `failed`.

use std::borrow::Cow;
use std::rc::Rc;

use weir_control::{EndpointKey, PoolId};
use weir_expr::Follows;
use weir_expr::check::Observe;
use weir_plan::{Address, BalanceKey, Endpoint, Pool, PoolIx, UpstreamKeepalive};
use weir_policy::Millis;
use weir_policy::pool::{Key, Lease, Selection, Turn, Turnover};
use weir_policy::retry::{Facts, Failure, Retry, RetryPolicy};
use weir_telemetry::BackKey;

use super::guard::Guard;
use super::target::{Destination, Named};
use crate::exchange::{Attempt, Core, Ending, Exchange, Phase, Traffic};
use crate::worker::Installed;
use crate::worker::endpoints::{Member, Nobody, WorkerPool};
use crate::worker::race::{Either, race};

/// An exchange's attempts.
pub(crate) struct Picker {
    destination: Destination,
    selection: Selection,
    /// The endpoint in use. It stays what it is, whatever becomes of the pool's endpoints meanwhile.
    lease: Option<(Lease, Rc<Member>)>,
    policy: RetryPolicy,
    attempts: u32,
    named_at: usize,
    began: Millis,
    same: bool,
    /// The first endpoint needs no cookie.
    settled: bool,
    /// Of pools that have bounds.
    guard: Option<Box<Guard>>,
}

/// An endpoint that was picked.
pub(crate) struct Picked {
    /// Its pool's id, for kept connections.
    pub(crate) pool: PoolId,
    /// Its key.
    pub(crate) key: EndpointKey,
    /// Under what its connections are kept.
    pub(crate) link: EndpointKey,
    /// Where it is.
    pub(crate) address: Address,
    /// The client needs no cookie: it has it, or it is ignored.
    pub(crate) settled: bool,
    /// Its pool and itself, if it is one of the plan's.
    pub(crate) member: Option<(PoolIx, Rc<Member>)>,
}

/// Why there is no endpoint at once.
pub(crate) enum Stuck {
    /// There will be none.
    Refused(Refusal),
    /// All are full, or this one, which it is bound to: [`Picker::queue`] waits.
    Full(Option<EndpointKey>),
}

impl From<Refusal> for Stuck {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Where a request stands among those who wait.
fn turn(exchange: &impl Traffic) -> Turn {
    let own = exchange.own.as_deref();
    let (class, later) = own.map_or((0, 0), |own| own.priority);
    let now = i64::try_from(exchange.worker.millis().0).unwrap_or(i64::MAX / 2);
    Turn { class, due: now + i64::from(later) }
}

/// Where the endpoint of a client is that says so itself.
#[cold]
fn after_client(exchange: &impl Traffic, follows: Follows, own: &Address) -> Result<Address, Refusal> {
    let place = match (own, exchange.destination()) {
        (Address::Tcp(own), Some(meant)) => follows.place(*own, meant),
        _ => None,
    };
    place
        .map(Address::Tcp)
        .ok_or(Refusal { status: 503, why: "it is not known where the client wants to go" })
}

/// No endpoint.
pub(crate) struct Refusal {
    /// Status to answer with.
    pub(crate) status: u16,
    /// For the log.
    pub(crate) why: &'static str,
}

impl Picker {
    /// Attempts that have not begun.
    pub(crate) fn new(exchange: &Core, destination: Destination, policy: RetryPolicy) -> Self {
        Self {
            destination,
            selection: Selection::default(),
            lease: None,
            policy,
            attempts: 0,
            named_at: 0,
            began: exchange.worker.millis(),
            same: false,
            settled: false,
            guard: None,
        }
    }

    /// The exchange begins: in a pool that has bounds, under these.
    ///
    /// # Errors
    /// Too many wait already.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        exchange: &mut impl Traffic,
        installed: &Installed,
    ) -> Result<(), Refusal> {
        let Destination::Pool(ix) = self.destination else { return Ok(()) };
        match &installed.plan.pool(ix).guards {
            None => Ok(()),
            Some(_) => self.guarded(exchange, installed, ix),
        }
    }

    #[cold]
    fn guarded(
        &mut self,
        exchange: &mut impl Traffic,
        installed: &Installed,
        ix: PoolIx,
    ) -> Result<(), Refusal> {
        let pool = installed.plan.pool(ix);
        let Some(settings) = &pool.guards else { return Ok(()) };
        exchange.pool = Some(ix);
        let guard = Guard::begin(exchange, pool, settings, &installed.pools[ix.at()].borrow());
        self.guard =
            Some(Box::new(guard.ok_or(Refusal {
                status: 503,
                why: "too many requests wait for an answer of this upstream",
            })?));
        Ok(())
    }

    /// Settings for kept connections.
    pub(crate) fn keepalive<'p>(&self, installed: &'p Installed) -> Cow<'p, UpstreamKeepalive> {
        self.destination.keepalive(installed)
    }

    /// What was chosen from, once nothing more is to be chosen.
    pub(crate) fn into_destination(self) -> Destination {
        self.destination
    }

    /// The endpoint for the next attempt, where nothing has to be waited for.
    ///
    /// # Errors
    /// None can be used, or none yet.
    pub(crate) fn next(
        &mut self,
        exchange: &mut impl Traffic,
        installed: &Installed,
    ) -> Result<Picked, Stuck> {
        self.attempts += 1;
        let ix = match &self.destination {
            Destination::Pool(ix) => *ix,
            Destination::Addresses(named) => {
                let picked = self.next_named(named)?;
                let address: Rc<str> = picked.address.to_string().into();
                self.note(exchange, address, named.host.as_str().into());
                return Ok(picked);
            }
        };
        exchange.pool = Some(ix);
        let member = match &self.lease {
            Some((_, member)) if self.same => member.clone(),
            _ => {
                self.lease = None;
                let (lease, member) = self.choose(exchange, installed, ix)?;
                self.lease = Some((lease, member.clone()));
                member
            }
        };
        Ok(self.take_up(exchange, installed, ix, member)?)
    }

    /// Waits for the endpoint that [`Picker::next`] did not have yet.
    ///
    /// # Errors
    /// None can be used, or not in time.
    pub(crate) async fn queue(
        &mut self,
        exchange: &mut impl Traffic,
        installed: &Installed,
        wanted: Option<EndpointKey>,
    ) -> Result<Picked, Refusal> {
        // Addresses that a request named have no slots.
        let Destination::Pool(ix) = self.destination else {
            return Err(Refusal { status: 502, why: "no address" });
        };
        let (lease, member) = self.wait(exchange, installed, ix, wanted).await?;
        self.lease = Some((lease, member.clone()));
        self.take_up(exchange, installed, ix, member)
    }

    /// An endpoint that was chosen, with the record of its attempt begun.
    fn take_up(
        &mut self,
        exchange: &mut impl Traffic,
        installed: &Installed,
        ix: PoolIx,
        member: Rc<Member>,
    ) -> Result<Picked, Refusal> {
        self.same = false;
        let endpoint = member.endpoint();
        let Some(address) = endpoint.address.clone() else {
            return Err(Refusal { status: 502, why: "the endpoint's name did not resolve" });
        };
        let pool = installed.plan.pool(ix).id;
        let (address, link) = match endpoint.follows {
            None => {
                self.note(exchange, member.shown.clone(), member.name.clone());
                (address, member.link)
            }
            Some(follows) => {
                let address = after_client(exchange, follows, &address)?;
                let shown = address.to_string();
                // A kept connection leads to where its first client went.
                let link = EndpointKey::of(pool, &format!("{:x}@{shown}", member.link.0));
                self.note(exchange, shown.into(), member.name.clone());
                (address, link)
            }
        };
        Ok(Picked {
            pool,
            key: endpoint.key,
            link,
            address,
            settled: self.attempts == 1 && self.settled,
            member: Some((ix, member)),
        })
    }

    /// Begins the record of an attempt.
    fn note(&self, exchange: &mut impl Traffic, address: Rc<str>, endpoint: Rc<str>) {
        let redirected = exchange.exchange().is_some_and(|exchange| exchange.redirects > 0);
        let new_group = redirected && self.attempts == 1 && !exchange.attempts.is_empty();
        exchange.attempts.push(Attempt { new_group, ..Attempt::new(address, endpoint) });
    }

    fn next_named(&self, named: &Named) -> Result<Picked, Refusal> {
        let address = named.addresses.get(self.named_at % named.addresses.len().max(1));
        let address = address.ok_or(Refusal { status: 502, why: "no address" })?.clone();
        Ok(Picked {
            pool: named.pool_id(),
            key: named.endpoint_key(&address),
            link: named.endpoint_key(&address),
            address,
            settled: false,
            member: None,
        })
    }

    /// Chooses an endpoint of a pool.
    fn choose(
        &mut self,
        exchange: &mut impl Traffic,
        installed: &Installed,
        ix: PoolIx,
    ) -> Result<(Lease, Rc<Member>), Stuck> {
        let pool = installed.plan.pool(ix);
        if self.attempts == 1
            && !pool.assigned.is_empty()
            && let Some(taken) =
                super::assigned::taken(exchange, pool, &installed.pools[ix.at()], &mut self.selection)
        {
            self.policy = self.policy.bound();
            return Ok(taken);
        }
        let persistence = match self.attempts {
            1 if !pool.persistence.is_empty() => persistence_of(exchange, pool),
            _ => Persistence::Usual,
        };
        self.settled |= persistence == Persistence::Ignored;
        if self.attempts == 1
            && pool.sticky.is_some()
            && persistence != Persistence::Ignored
            && let Some(exchange) = exchange.exchange_mut()
        {
            let members = &installed.pools[ix.at()];
            if let Some(wanted) = super::sticky::wanted(exchange, pool, members) {
                let now = exchange.worker.millis();
                let taken = members.borrow_mut().take(wanted, now, &mut self.selection);
                exchange.persistence[0] = if taken.is_some() { b'V' } else { b'D' };
                let taken =
                    taken.or_else(|| self.forced(persistence, &mut members.borrow_mut(), wanted, now));
                if let Some(taken) = taken {
                    self.settled = true;
                    self.policy = self.policy.bound();
                    return Ok(taken);
                }
            }
        }
        if self.attempts == 1
            && pool.stickiness.is_some()
            && let Some(wanted) = super::stick::wanted(exchange, pool, &installed.pools[ix.at()])
        {
            let now = exchange.worker.millis();
            let mut members = installed.pools[ix.at()].borrow_mut();
            let taken = members.take(wanted, now, &mut self.selection);
            let taken = taken.or_else(|| self.forced(persistence, &mut members, wanted, now));
            if let Some(taken) = taken {
                self.policy = self.policy.bound();
                return Ok(taken);
            }
        }
        self.ask(exchange, installed, ix).map_err(|nobody| match nobody {
            Nobody::Live => none_live(pool).into(),
            Nobody::Free(wanted) => Stuck::Full(wanted),
        })
    }

    /// An endpoint that cannot be used, where rules want it used all the same.
    fn forced(
        &mut self,
        persistence: Persistence,
        members: &mut WorkerPool,
        wanted: EndpointKey,
        now: Millis,
    ) -> Option<(Lease, Rc<Member>)> {
        (persistence == Persistence::Forced).then(|| members.force(wanted, now, &mut self.selection))?
    }

    /// Asks the pool by its method.
    fn ask(
        &mut self,
        exchange: &impl Traffic,
        installed: &Installed,
        ix: PoolIx,
    ) -> Result<(Lease, Rc<Member>), Nobody> {
        let text;
        let key = match &installed.plan.pool(ix).key {
            BalanceKey::None => Key::None,
            BalanceKey::Client => exchange.client_source().map_or(Key::None, |(ip, _)| Key::Client(ip)),
            keyed @ (BalanceKey::Text(template) | BalanceKey::TextOrTurns(template)) => {
                text = crate::eval::text(exchange, template);
                let turns = text.is_empty() && matches!(keyed, BalanceKey::TextOrTurns(_));
                if turns { Key::None } else { Key::Bytes(&text) }
            }
        };
        installed.pools[ix.at()].borrow_mut().choose(exchange.worker.millis(), key, &mut self.selection)
    }

    /// Waits in the queue of a pool whose endpoints are full.
    async fn wait(
        &mut self,
        exchange: &mut impl Traffic,
        installed: &Installed,
        ix: PoolIx,
        mut wanted: Option<EndpointKey>,
    ) -> Result<(Lease, Rc<Member>), Refusal> {
        let (pool, members) = (installed.plan.pool(ix), &installed.pools[ix.at()]);
        let Some(queue) = &pool.queue else { return Err(none_live(pool)) };
        let most = queue.max.map_or(0, |most| most as usize);
        let began = exchange.worker.now();
        let full = || Refusal { status: pool.unavailable.queue, why: "the queue is full" };
        let turn = turn(exchange);
        let mut place = members.borrow().join(wanted, most, turn).ok_or_else(|| {
            exchange.worker.counters.back(BackKey::Pool(pool.id)).overflows.bump();
            full()
        })?;
        exchange.times.queue_position = place.position() as u32 + 1;
        exchange.times.queued_for_one = wanted.is_some();
        let deadline = began + queue.timeout;
        let chosen = loop {
            match race(&mut place, weir_rt::sleep_until(deadline)).await {
                Either::Right(()) => {
                    exchange.ending = Ending::ServerTimeout(Phase::Queue);
                    exchange.times.queued = Some(weir_rt::now().saturating_duration_since(began));
                    let why = "waited too long in the queue";
                    return Err(Refusal { status: pool.unavailable.queue, why });
                }
                Either::Left(_) => {
                    self.selection.queued();
                    match self.ask(exchange, installed, ix) {
                        Ok(chosen) => {
                            place.seated();
                            break chosen;
                        }
                        Err(Nobody::Live) => return Err(none_live(pool)),
                        Err(Nobody::Free(now)) if now == wanted => place.again(),
                        // The endpoint that it waited for left, or another took its keys.
                        Err(Nobody::Free(now)) => {
                            wanted = now;
                            place = members.borrow().join(wanted, most, turn).ok_or_else(full)?;
                        }
                    }
                }
            }
        };
        exchange.times.queued = Some(exchange.worker.now().saturating_duration_since(began));
        Ok(chosen)
    }

    fn facts(&self, exchange: &impl Traffic, installed: &Installed, sent: bool, replayable: bool) -> Facts {
        let endpoints = match &self.destination {
            Destination::Pool(pool) => installed.pools[pool.at()].borrow().attempts(),
            Destination::Addresses(named) => named.addresses.len() as u32,
        };
        let request: Option<&Exchange> = exchange.exchange();
        Facts {
            // Nothing of a session is sent before it is connected.
            idempotent: request.is_none_or(|exchange| exchange.request.method.is_idempotent()),
            sent,
            replayable,
            answering: request.is_some_and(|exchange| exchange.response.head_sent),
            attempts: self.attempts,
            endpoints,
            began: self.began,
        }
    }

    /// Whether an answer of this status is to be treated as a failure that is tried again.
    pub(crate) fn intercepts(
        &self,
        exchange: &impl Traffic,
        installed: &Installed,
        status: u16,
        replayable: bool,
    ) -> bool {
        let now = exchange.worker.millis();
        status >= 400
            && self.guard.as_ref().is_none_or(|guard| guard.allows_retry(now))
            && self.policy.intercepts(status, now, &self.facts(exchange, installed, true, replayable))
    }

    /// What follows a failed attempt. Counts the failure against the endpoint where it counts.
    pub(crate) fn failed(
        &mut self,
        exchange: &impl Traffic,
        installed: &Installed,
        failure: Failure,
        sent: bool,
        replayable: bool,
    ) -> Retry {
        let now = exchange.worker.millis();
        let facts = self.facts(exchange, installed, sent, replayable);
        let mut retry = self.policy.decide(failure, now, &facts);
        if let (Some(guard), Retry::Next | Retry::Same) = (&self.guard, retry)
            && !guard.take_retry(exchange)
        {
            retry = Retry::No;
        }
        if let Destination::Addresses(_) = &self.destination {
            self.named_at += 1;
            return retry;
        }
        match retry {
            Retry::Same | Retry::Fresh => {
                self.same = true;
                self.attempts -= u32::from(retry == Retry::Fresh);
            }
            Retry::Next | Retry::No => {
                if let Some((lease, member)) = self.lease.take()
                    && failure.counts()
                    && lease.fail(now) == Turnover::Disabled
                {
                    note_unavailable(exchange, member.endpoint().key);
                    crate::exchange::errors::endpoint_disabled(exchange);
                }
            }
        }
        retry
    }

    /// The endpoint answered as it should. Its slot is free again when the picker is dropped.
    pub(crate) fn succeeded(&mut self) -> Option<Lease> {
        self.lease.take().map(|(lease, _)| lease)
    }
}

/// Counts that failures made an endpoint unavailable.
pub(super) fn note_unavailable(exchange: &Core, endpoint: EndpointKey) {
    let Some(pool) = exchange.pool else { return };
    let key = BackKey::Endpoint(exchange.installed.plan.pool(pool).id, endpoint);
    exchange.worker.counters.back(key).made_unavailable.bump();
}

impl Picked {
    /// Whether what becomes of the attempt is watched for its health.
    #[inline]
    pub(crate) fn observed(&self) -> Option<Observe> {
        self.endpoint()?.check.as_ref()?.observe
    }

    /// Its settings, if it is one of the plan's.
    pub(crate) fn endpoint(&self) -> Option<&Endpoint> {
        self.member.as_ref().map(|(_, member)| member.endpoint())
    }
}

fn none_live(pool: &Pool) -> Refusal {
    Refusal { status: pool.unavailable.none_live, why: "no live upstreams while connecting to upstream" }
}

/// What becomes of persistence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Persistence {
    /// It binds to endpoints that can be used.
    Usual,
    /// It binds also to those that are down.
    Forced,
    /// Cookies are not looked at.
    Ignored,
}

/// What the first rule that holds says.
#[cold]
fn persistence_of(traffic: &mut impl Traffic, pool: &weir_plan::Pool) -> Persistence {
    for rule in &pool.persistence {
        let condition = rule.condition.as_ref();
        if condition
            .is_none_or(|condition| crate::eval::condition::holds(traffic, condition).unwrap_or(false))
        {
            if rule.force {
                return Persistence::Forced;
            }
            if let (Some(exchange), Some(sticky)) = (traffic.exchange_mut(), &pool.sticky) {
                let unused = exchange.request.fields.cookie(sticky.cookie.as_bytes()).is_some();
                exchange.persistence = if unused { *b"UN" } else { *b"NN" };
            }
            return Persistence::Ignored;
        }
    }
    Persistence::Usual
}
