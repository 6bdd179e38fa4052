//! Choosing an endpoint, attempt after attempt.
//!
//! Owns: what one exchange remembers of its attempts, the wait for a slot, the verdict on failures.
//! Driven by: `attempt`: `next`, then `succeeded` or `failed`.

use std::borrow::Cow;
use std::net::IpAddr;
use std::rc::Rc;

use weir_control::{EndpointKey, PoolId};
use weir_plan::{Address, BalanceKey, Endpoint, Pool, PoolIx, UpstreamKeepalive};
use weir_policy::Millis;
use weir_policy::pool::{Key, Lease, Selection, Turnover};
use weir_policy::retry::{Facts, Failure, Retry, RetryPolicy};

use super::target::{Destination, Named};
use crate::exchange::{Attempt, Core, Ending, Exchange, Phase, Traffic};
use crate::worker::Installed;
use crate::worker::endpoints::{Member, Nobody};
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
    /// It is the exchange's first.
    pub(crate) first: bool,
    /// Its pool and itself, if it is one of the plan's.
    pub(crate) member: Option<(PoolIx, Rc<Member>)>,
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
        }
    }

    /// Settings for kept connections.
    pub(crate) fn keepalive<'p>(&self, installed: &'p Installed) -> Cow<'p, UpstreamKeepalive> {
        self.destination.keepalive(installed)
    }

    /// What was chosen from, once nothing more is to be chosen.
    pub(crate) fn into_destination(self) -> Destination {
        self.destination
    }

    /// The endpoint for the next attempt.
    ///
    /// # Errors
    /// None can be used.
    pub(crate) async fn next(
        &mut self,
        exchange: &mut impl Traffic,
        installed: &Installed,
    ) -> Result<Picked, Refusal> {
        self.attempts += 1;
        let redirected = exchange.exchange().is_some_and(|exchange| exchange.redirects > 0);
        let group = redirected && self.attempts == 1 && !exchange.attempts.is_empty();
        let picked = match &self.destination {
            Destination::Pool(pool) => {
                let pool = *pool;
                exchange.pool = Some(pool);
                self.next_of_pool(exchange, installed, pool).await?
            }
            Destination::Addresses(named) => {
                let picked = self.next_named(named)?;
                let address: Rc<str> = picked.address.to_string().into();
                note(exchange, address, named.host.as_str().into());
                picked
            }
        };
        if let Some(last) = exchange.attempts.last_mut() {
            last.new_group = group;
        }
        Ok(picked)
    }

    fn next_named(&self, named: &Named) -> Result<Picked, Refusal> {
        let address = named.addresses.get(self.named_at % named.addresses.len().max(1));
        let address = address.ok_or(Refusal { status: 502, why: "no address" })?.clone();
        Ok(Picked {
            pool: named.pool_id(),
            key: named.endpoint_key(&address),
            link: named.endpoint_key(&address),
            address,
            first: self.attempts == 1,
            member: None,
        })
    }

    async fn next_of_pool(
        &mut self,
        exchange: &mut impl Traffic,
        installed: &Installed,
        ix: PoolIx,
    ) -> Result<Picked, Refusal> {
        let pool = installed.plan.pool(ix);
        let member = match (&self.lease, self.same) {
            (Some((_, member)), true) => member.clone(),
            _ => {
                self.lease = None;
                let (lease, member) = self.choose(exchange, installed, ix, pool).await?;
                self.lease = Some((lease, member.clone()));
                member
            }
        };
        self.same = false;
        let endpoint = member.endpoint();
        let Some(address) = endpoint.address.clone() else {
            return Err(Refusal { status: 502, why: "the endpoint's name did not resolve" });
        };
        note(exchange, member.shown.clone(), member.name.clone());
        Ok(Picked {
            pool: pool.id,
            key: endpoint.key,
            link: member.link,
            address,
            first: self.attempts == 1,
            member: Some((ix, member)),
        })
    }

    async fn choose(
        &mut self,
        exchange: &mut impl Traffic,
        installed: &Installed,
        ix: PoolIx,
        pool: &Pool,
    ) -> Result<(Lease, Rc<Member>), Refusal> {
        let members = &installed.pools[ix.at()];
        if self.attempts == 1
            && pool.sticky.is_some()
            && let Some(exchange) = exchange.exchange_mut()
            && let Some(wanted) = super::sticky::wanted(exchange, pool, members)
        {
            let now = exchange.worker.millis();
            let taken = members.borrow_mut().take(wanted, now, &mut self.selection);
            exchange.persistence[0] = if taken.is_some() { b'V' } else { b'D' };
            if let Some(taken) = taken {
                self.policy = self.policy.bound();
                return Ok(taken);
            }
        }
        let key_text = match &pool.key {
            BalanceKey::Text(template) | BalanceKey::TextOrTurns(template) => {
                crate::eval::text(exchange, template)
            }
            _ => Vec::new(),
        };
        let client: Option<IpAddr> = exchange.client_source().map(|(ip, _)| ip);
        let key = match &pool.key {
            BalanceKey::None => Key::None,
            BalanceKey::Client => client.map_or(Key::None, Key::Client),
            BalanceKey::TextOrTurns(_) if key_text.is_empty() => Key::None,
            BalanceKey::Text(_) | BalanceKey::TextOrTurns(_) => Key::Bytes(&key_text),
        };
        let worker = exchange.worker.clone();
        let choose = |selection: &mut Selection| members.borrow_mut().choose(worker.millis(), key, selection);
        match choose(&mut self.selection) {
            Ok(chosen) => Ok(chosen),
            Err(Nobody::Live) => Err(none_live(pool)),
            Err(Nobody::Free(mut wanted)) => {
                let Some(queue) = &pool.queue else { return Err(none_live(pool)) };
                let most = queue.max.map_or(0, |most| most as usize);
                let began = exchange.worker.now();
                let full = || Refusal { status: pool.unavailable.queue, why: "the queue is full" };
                let mut place = members.borrow().join(wanted, most).ok_or_else(full)?;
                exchange.times.queue_position = place.position() as u32 + 1;
                exchange.times.queued_for_one = wanted.is_some();
                let deadline = began + queue.timeout;
                let chosen = loop {
                    match race(&mut place, weir_rt::sleep_until(deadline)).await {
                        Either::Right(()) => {
                            exchange.ending = Ending::ServerTimeout(Phase::Queue);
                            exchange.times.queued = Some(weir_rt::now().saturating_duration_since(began));
                            return Err(Refusal {
                                status: pool.unavailable.queue,
                                why: "waited too long in the queue",
                            });
                        }
                        Either::Left(_) => {
                            self.selection.queued();
                            match choose(&mut self.selection) {
                                Ok(chosen) => {
                                    place.seated();
                                    break chosen;
                                }
                                Err(Nobody::Live) => return Err(none_live(pool)),
                                Err(Nobody::Free(now)) if now == wanted => place.again(),
                                // The endpoint that it waited for left, or another took its keys.
                                Err(Nobody::Free(now)) => {
                                    wanted = now;
                                    place = members.borrow().join(wanted, most).ok_or_else(full)?;
                                }
                            }
                        }
                    }
                };
                exchange.times.queued = Some(exchange.worker.now().saturating_duration_since(began));
                Ok(chosen)
            }
        }
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
        status >= 400
            && self.policy.intercepts(
                status,
                exchange.worker.millis(),
                &self.facts(exchange, installed, true, replayable),
            )
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
        let retry = self.policy.decide(failure, now, &facts);
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
                if let Some((lease, _)) = self.lease.take()
                    && failure.counts()
                    && lease.fail(now) == Turnover::Disabled
                {
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

impl Picked {
    /// Its settings, if it is one of the plan's.
    pub(crate) fn endpoint(&self) -> Option<&Endpoint> {
        self.member.as_ref().map(|(_, member)| member.endpoint())
    }
}

fn none_live(pool: &Pool) -> Refusal {
    Refusal { status: pool.unavailable.none_live, why: "no live upstreams while connecting to upstream" }
}

/// Begins the record of an attempt.
fn note(exchange: &mut Core, address: Rc<str>, endpoint: Rc<str>) {
    exchange.attempts.push(Attempt::new(address, endpoint));
}
