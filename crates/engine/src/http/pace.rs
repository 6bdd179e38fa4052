//! How fast a client has to send a request's body, at least.
//!
//! Owns: the count of one body.
//! Driven by: the client's halves, around each wait for more.
//! Why: the least rate counts only the time that the client is the one delaying.

use std::time::Duration;

use weir_policy::limit::{BodyRate, BodyRateConfig};

use crate::exchange::Exchange;

/// The count of one body.
#[derive(Default)]
pub(super) struct BodyPace {
    /// Apart, because it is rare.
    rate: Option<Box<BodyRate>>,
}

impl BodyPace {
    /// A wait for more begins: it may last so long.
    pub(super) fn wait(&mut self, exchange: &Exchange, timeout: Duration) -> Duration {
        let least = exchange.route().settings.body.min_rate;
        if least == 0 {
            return timeout;
        }
        let rate = self.rate.get_or_insert_with(|| {
            Box::new(BodyRate::new(BodyRateConfig {
                bytes_per_second: u32::try_from(least).unwrap_or(u32::MAX),
                ..BodyRateConfig::default()
            }))
        });
        rate.wait(exchange.worker.millis());
        let limit = rate.poll_timeout().map(|at| exchange.worker.shared.instant(at));
        limit.map_or(timeout, |at| timeout.min(at.saturating_duration_since(exchange.now())))
    }

    /// It has ended, with so many bytes. True if the client is too slow.
    pub(super) fn took(&mut self, exchange: &Exchange, bytes: usize) -> bool {
        let Some(rate) = &mut self.rate else { return false };
        let now = exchange.worker.millis();
        rate.receive(now, bytes);
        rate.pause(now);
        rate.too_slow(now)
    }
}
