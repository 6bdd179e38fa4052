//! Ejection of endpoints for what traffic meets there.
//!
//! Owns: the samples that counters give, and publishing what `policy::outlier` makes of them.
//! Driven by: a task for each pool that asks for it.
//! Why: workers count anyway, so comparing costs them nothing.

use std::sync::Arc;

use weir_control::EndpointKey;
use weir_plan::Pool;
use weir_policy::outlier::{Detector, Sample, Verdict, Why};
use weir_policy::pool::Standing;
use weir_telemetry::{BackKey, Level};

use crate::logging::unix_millis;
use crate::worker::command::Crew;
use crate::worker::endpoints::Live;
use crate::worker::race::{Signal, race};
use crate::worker::shared::Shared;

/// A pool whose endpoints are compared.
pub(super) struct Compared {
    pub(super) pool: Pool,
    pub(super) live: Live,
    pub(super) crew: std::sync::Weak<Crew>,
}

impl Compared {
    /// Compares the endpoints again and again.
    pub(super) async fn watch(&self, shared: &Arc<Shared>, stop: &Signal) {
        let Some(settings) = self.pool.outliers else { return };
        let mut detector = Detector::new(settings);
        let mut due = weir_rt::now();
        loop {
            let now = shared.millis(weir_rt::now());
            for (key, verdict) in detector.handle_samples(now, &self.samples(shared)) {
                self.publish(shared, key, verdict);
            }
            due += settings.interval;
            let _ = race(stop.wait(), weir_rt::sleep_until(due)).await;
            if stop.is_set() {
                return;
            }
        }
    }

    fn samples(&self, shared: &Shared) -> Vec<(EndpointKey, Sample, bool)> {
        let now = unix_millis();
        let Live { set, state } = &self.live;
        let one = |(at, endpoint): (usize, &weir_plan::Endpoint)| {
            let key = BackKey::Endpoint(self.pool.id, endpoint.key);
            let (back, _) = shared.registry.sum_back(&[key], now, weir_telemetry::Detail::Quantiles);
            let failures =
                back.connect_errors + back.response_errors + back.server_aborts + back.responses.server_error;
            let answers = back.responses.informational
                + back.responses.success
                + back.responses.redirect
                + back.responses.client_error
                + back.responses.server_error
                + back.responses.other;
            let exchanges = answers + back.connect_errors + back.response_errors + back.server_aborts;
            let sample =
                Sample { exchanges, failures, timed: back.latency.count, time_us: back.latency.sum_us };
            let takes_work = state.standing(&set.config, at) == Standing::Up;
            (endpoint.key, sample, takes_work)
        };
        set.endpoints.iter().enumerate().map(one).collect()
    }

    fn publish(&self, shared: &Shared, key: EndpointKey, verdict: Verdict) {
        let Live { set, state } = &self.live;
        let Some(at) = set.index_of(key) else { return };
        let ejected = matches!(verdict, Verdict::Ejected(..));
        if !state.set_ejected(at, ejected, shared.millis(weir_rt::now())) {
            return;
        }
        if let Some(crew) = self.crew.upgrade() {
            crew.tell_standing(self.pool.id, set);
        }
        let name = format!("{}/{}", self.pool.name, set.endpoints[at].name);
        let left = super::census(&self.live);
        let line = match verdict {
            Verdict::Returned => format!("Server {name} is no longer ejected. {left}"),
            Verdict::Ejected(why, time) => {
                let why = match why {
                    Why::Failures { failures, of } => format!("{failures} of {of} exchanges failed"),
                    Why::Slow { own_us, median_us } => {
                        let ms = |us: u64| us as f64 / 1000.0;
                        format!("it answers in {:.1} ms, and others in {:.1} ms", ms(own_us), ms(median_us))
                    }
                };
                format!("Server {name} is ejected for {} s: {why}. {left}", time.as_secs_f64())
            }
        };
        shared.logs.event(if ejected { Level::Alert } else { Level::Notice }, &line);
    }
}
