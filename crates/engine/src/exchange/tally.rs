//! What counters are told of an exchange and of its attempts.
//!
//! Owns: which cells an ending counts in.
//! Never: keeps a count; `worker::count` does.
//! Driven by: the log, once an exchange is over; attempts, once they are.

use weir_telemetry::count::status_class;
use weir_telemetry::{AttemptEnd, BackKey, FrontCells};

use super::caching::CACHE_STATUSES;
use super::{Ending, Exchange, Phase, Traffic};
use crate::worker::count::{Attempting, CameTo, Counters, micros, second};
use crate::worker::zones::{Ended, InZone};

impl Attempting {
    /// It is over. Says so once; later calls do nothing.
    pub(crate) fn end(&mut self, end: AttemptEnd, exchange: &impl Traffic) {
        if self.is_over() {
            return;
        }
        if let AttemptEnd::Answer(status) = end
            && exchange.installed.plan.counts_details
        {
            self.code(status);
        }
        let record = exchange.attempts.last();
        let (sent, received) = record.map_or((0, 0), |record| (record.sent, record.received));
        let came_to = CameTo {
            queued: exchange.times.queued.unwrap_or_default(),
            connect: record.and_then(|record| record.connect),
            header: record.and_then(|record| record.header),
            sent,
            received,
            taken: exchange.received(),
        };
        self.close(end, exchange.now(), &came_to);
    }

    /// How an exchange ends whose endpoint broke off in the middle: by itself, or because its connection was cut in
    /// this `phase`.
    pub(crate) fn broken(&self, phase: Option<Phase>) -> Ending {
        match self.cut() {
            Some(cut) => Ending::Cut(cut, phase),
            None => Ending::ServerAborted(Phase::Data),
        }
    }
}

impl Counters {
    /// Counts an exchange that is over; its bytes and status are final. `zone`: its place in that of its site, if it has any.
    pub(crate) fn exchange(&self, exchange: &Exchange, zone: Option<InZone>) {
        let second = second();
        let facts = Facts::of(exchange);
        self.whole().client_in.add(facts.received);
        self.whole().client_out.add(exchange.response.bytes_sent);
        let listener = self.listener(exchange.client.listener);
        let site = self.site(exchange.site().id);
        facts.count(exchange, &listener, second);
        facts.count(exchange, &site, second);
        if let Some(first_byte) = exchange.times.first_byte
            && exchange.response.status != 101
        {
            let first_byte = micros(first_byte);
            site.phases(first_byte, facts.micros.saturating_sub(first_byte));
        }
        if exchange.worker.flights.is_on() {
            self.count_route(exchange, &facts, second);
        }
        self.zones(exchange, zone, &facts);
        if let Some(looked) = &exchange.looked {
            let [lookups, hits] = match exchange.route().counts_for.filter(|_| looked.for_pool) {
                Some(pool) => &self.back(BackKey::Pool(pool)).cache,
                None => &site.cache,
            };
            lookups.add(looked.times.into());
            hits.add(looked.found.is_some().into());
        }
        if let (None, Some(pool)) = (exchange.pool, exchange.route().counts_for) {
            let denied = exchange.ending == Ending::Proxy(Phase::Request) && is_denied(exchange);
            let (status, nobody) = (exchange.response.status, gave_up(exchange.ending));
            self.back(BackKey::Pool(pool)).answered_here(status, denied, nobody, second);
        }
        if let Some(pool) = exchange.pool
            && gave_up(exchange.ending)
        {
            // The answer was made here for want of one from the pool: it counts for the pool as a whole.
            let pool = self.back(BackKey::Pool(exchange.installed.plan.pool(pool).id));
            pool.answers[status_class(exchange.response.status)].bump();
        }
    }
}

impl Counters {
    /// Counts it for its route, where routes are counted apart.
    #[cold]
    fn count_route(&self, exchange: &Exchange, facts: &Facts, second: u64) {
        let route = self.route(exchange.site().id, &exchange.route().name);
        facts.count(exchange, &route, second);
        if let Some(first_byte) = exchange.times.first_byte.filter(|_| exchange.response.status != 101) {
            let first_byte = micros(first_byte);
            route.phases(first_byte, facts.micros.saturating_sub(first_byte));
        }
    }

    /// Counts an exchange in its zones.
    fn zones(&self, exchange: &Exchange, zone: Option<InZone>, facts: &Facts) {
        let of_site = zone.or_else(|| Some(self.enter_zone(exchange.site().zone?)));
        let of_route = exchange.route().settings.zone;
        if of_site.is_some() || of_route.is_some() {
            let response = &exchange.response;
            let ended = Ended {
                status: response.status,
                silent: response.bytes_sent == 0,
                received: facts.received,
                sent: response.bytes_sent,
                took: exchange.elapsed(),
            };
            let of_route = of_route.map(|zone| self.enter_zone(zone));
            of_site.into_iter().chain(of_route).for_each(|zone| zone.end(&ended));
        }
        if exchange.installed.plan.counts_details
            && let Some(caching) = &exchange.caching
            && let Some(status) = caching.status
        {
            let events = self.events(caching.settings.counts_as);
            events.add(status as usize, 1);
            events.add(CACHE_STATUSES + status as usize, exchange.response.bytes_sent);
            if let Some(bytes) = caching.written.get() {
                events.add(2 * CACHE_STATUSES + (status as usize).min(2), 1);
                events.add(2 * CACHE_STATUSES + 3 + (status as usize).min(2), bytes);
            }
        }
    }
}

/// What a listener and a site are both told of an exchange.
struct Facts {
    received: u64,
    passed_on: u64,
    passed_back: u64,
    micros: u64,
}

impl Facts {
    fn of(exchange: &Exchange) -> Self {
        let attempts = &exchange.attempts;
        Self {
            received: exchange.received(),
            passed_on: attempts.iter().map(|attempt| attempt.sent).sum(),
            passed_back: attempts.iter().map(|attempt| attempt.received).sum(),
            micros: micros(exchange.elapsed()),
        }
    }

    fn count(&self, exchange: &Exchange, front: &FrontCells, second: u64) {
        let response = &exchange.response;
        front.request(1, second);
        front.answer(response.status, self.micros);
        front.bytes_in.add(self.received);
        front.bytes_out.add(response.bytes_sent);
        front.passed_on.add(self.passed_on);
        front.passed_back.add(self.passed_back);
        match exchange.ending {
            Ending::Normal => {}
            Ending::Local if response.status == 500 => front.internal_errors.bump(),
            Ending::Local => front.intercepted.bump(),
            Ending::Proxy(Phase::Request) if is_denied(exchange) => {
                front.denied_requests.bump();
            }
            Ending::ClientAborted(Phase::Request)
            | Ending::ClientTimeout(Phase::Request)
            | Ending::Proxy(Phase::Request) => {
                front.request_errors.bump();
            }
            Ending::Resource(_) => front.internal_errors.bump(),
            _ => {}
        }
        if let Some(plain) = response.uncompressed {
            front.compression[0].add(plain);
            front.compression[1].add(response.body_bytes_sent);
            front.compression[3].bump();
        }
    }
}

/// Whether no endpoint gave an answer.
fn gave_up(ending: Ending) -> bool {
    let (Ending::ServerAborted(phase) | Ending::ServerTimeout(phase) | Ending::Proxy(phase)) = ending else {
        return false;
    };
    matches!(phase, Phase::Queue | Phase::Connect | Phase::Headers)
}

/// Whether a rule turned down a request that was well-formed.
fn is_denied(exchange: &Exchange) -> bool {
    let any = exchange.site().conduct.rules_refuse && exchange.times.head.is_some();
    any && exchange.response.status != 408 || matches!(exchange.response.status, 403 | 429)
}
