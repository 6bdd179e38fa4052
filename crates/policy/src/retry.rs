//! Whether a failed attempt may be made again, and where.
//!
//! Owns: the rules: kinds of failure, safety of a repetition, budgets of tries and time.
//! Never: makes an attempt, looks at a message.
//! Driven by: the exchange, once for each attempt that did not end in an answer it wants to forward.
//! Why: a repeated request that was already carried out is a second order placed. The method and what was sent decide;
//! RFC 9110, 9.2.2 and RFC 9112, 9.3.1 draw the line, nginx's `proxy_next_upstream` and HAProxy's `retry-on` narrow it.

use std::time::Duration;

use bitflags::bitflags;
pub use weir_expr::settings::Redispatch;

use crate::time::{Millis, millis};

bitflags! {
    /// Failures after which the next endpoint is tried: the words of nginx's `proxy_next_upstream`, to which HAProxy's
    /// `retry-on` is translated.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RetryOn: u32 {
        /// Connecting, sending or reading failed.
        const ERROR = 1;
        /// One of the same timed out.
        const TIMEOUT = 1 << 1;
        /// An empty or malformed answer.
        const INVALID_HEADER = 1 << 2;
        /// The answers 500 to 504, 403, 404 and 429.
        const HTTP_500 = 1 << 3;
        #[allow(missing_docs)]
        const HTTP_502 = 1 << 4;
        #[allow(missing_docs)]
        const HTTP_503 = 1 << 5;
        #[allow(missing_docs)]
        const HTTP_504 = 1 << 6;
        #[allow(missing_docs)]
        const HTTP_403 = 1 << 7;
        #[allow(missing_docs)]
        const HTTP_404 = 1 << 8;
        #[allow(missing_docs)]
        const HTTP_429 = 1 << 9;
        /// Requests that are not idempotent too, once sent. Dangerous: they may be carried out twice.
        const NON_IDEMPOTENT = 1 << 10;
        /// HAProxy's `conn-failure`: only failures to connect, whatever the method. nginx has no word for it.
        const CONNECT = 1 << 11;
        /// Further answers that HAProxy's `retry-on` knows.
        const HTTP_401 = 1 << 12;
        #[allow(missing_docs)]
        const HTTP_408 = 1 << 13;
        #[allow(missing_docs)]
        const HTTP_425 = 1 << 14;
        #[allow(missing_docs)]
        const HTTP_501 = 1 << 15;
    }
}

impl Default for RetryOn {
    /// nginx's default: `error timeout`.
    fn default() -> Self {
        Self::ERROR | Self::TIMEOUT
    }
}

impl RetryOn {
    /// The flag of an answer's status, if it has one.
    pub fn for_status(status: u16) -> Option<Self> {
        Some(match status {
            401 => Self::HTTP_401,
            403 => Self::HTTP_403,
            404 => Self::HTTP_404,
            408 => Self::HTTP_408,
            425 => Self::HTTP_425,
            429 => Self::HTTP_429,
            500 => Self::HTTP_500,
            501 => Self::HTTP_501,
            502 => Self::HTTP_502,
            503 => Self::HTTP_503,
            504 => Self::HTTP_504,
            _ => return None,
        })
    }
}

/// Why an attempt gave no answer to forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection: refused, unreachable, TLS failed.
    Connect,
    /// No connection in time.
    ConnectTimeout,
    /// Sending or reading failed after connecting.
    Io,
    /// Sending or reading took too long.
    Timeout,
    /// The answer was empty or malformed.
    InvalidHeader,
    /// An answer with this status, which [`RetryPolicy::intercepts`] said to treat as a failure.
    Status(u16),
    /// A kept connection turned out closed before any byte of an answer: the origin's idle timeout won a race.
    StaleConnection,
}

impl Failure {
    /// Whether it counts against the endpoint's `max_fails`. nginx: errors, timeouts and malformed answers always,
    /// 403 and 404 never, other statuses when listed. A lost race with an idle timeout is nobody's failure.
    pub fn counts(self) -> bool {
        !matches!(self, Self::StaleConnection | Self::Status(403 | 404))
    }

    /// The status to answer if this was the last attempt. A forwarded answer keeps its own.
    pub fn status(self) -> u16 {
        match self {
            Self::ConnectTimeout | Self::Timeout => 504,
            Self::Status(status) => status,
            Self::Connect | Self::Io | Self::InvalidHeader | Self::StaleConnection => 502,
        }
    }

    fn flag(self) -> RetryOn {
        match self {
            Self::Connect => RetryOn::ERROR | RetryOn::CONNECT,
            Self::ConnectTimeout => RetryOn::TIMEOUT | RetryOn::CONNECT,
            Self::Io | Self::StaleConnection => RetryOn::ERROR,
            Self::Timeout => RetryOn::TIMEOUT,
            Self::InvalidHeader => RetryOn::INVALID_HEADER,
            Self::Status(status) => RetryOn::for_status(status).unwrap_or(RetryOn::empty()),
        }
    }
}

/// The rules for one route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Failures that may be retried. Empty is nginx's `off`.
    pub on: RetryOn,
    /// Most attempts in all, the first included; zero: as many as the pool has endpoints.
    /// HAProxy's `retries N` is N + 1.
    pub attempts: u32,
    /// No further attempt once the exchange is this old; zero is no bound (`proxy_next_upstream_timeout`).
    pub timeout: Duration,
    /// Where the next attempt goes.
    pub redispatch: Redispatch,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { on: RetryOn::default(), attempts: 0, timeout: Duration::ZERO, redispatch: Redispatch::Always }
    }
}

/// What is known of the request when an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The method is idempotent (RFC 9110, 9.2.2). PATCH, POST and unknown methods are not; nginx adds LOCK.
    pub idempotent: bool,
    /// At least one byte of the request may have reached the endpoint in this attempt.
    pub sent: bool,
    /// The whole body can be sent again: there is none, it was buffered, or nothing of it was consumed.
    pub replayable: bool,
    /// Bytes of an answer were already forwarded to the client.
    pub answering: bool,
    /// Attempts made so far, this one included.
    pub attempts: u32,
    /// Attempts that the pool allows by itself (`PoolConfig::attempts`).
    pub endpoints: u32,
    /// When the first attempt began.
    pub began: Millis,
}

/// The verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Choose another endpoint.
    Next,
    /// Try this endpoint again, keeping its lease; HAProxy waits a second (or `timeout connect` if shorter) first,
    /// unless the failure was a status.
    Same,
    /// At once on a new connection to the same endpoint, keeping its lease; it costs no attempt and is no failure.
    Fresh,
    /// Give up, with this failure's status.
    No,
}

impl RetryPolicy {
    /// Whether an answer with this status is to be taken as a failure and retried, rather than forwarded.
    /// Ask before forwarding; if true, pass [`Failure::Status`] to [`Self::decide`].
    pub fn intercepts(&self, status: u16, now: Millis, facts: &Facts) -> bool {
        let Some(flag) = RetryOn::for_status(status) else { return false };
        self.on.contains(flag)
            && matches!(self.decide(Failure::Status(status), now, facts), Retry::Next | Retry::Same)
    }

    /// The same rules for a request that a cookie binds to its endpoint: it is not moved before the last retry.
    #[must_use]
    pub fn bound(self) -> Self {
        match self.redispatch {
            Redispatch::Last { turns: true } => {
                Self { redispatch: Redispatch::Last { turns: false }, ..self }
            }
            _ => self,
        }
    }

    /// The verdict on a failed attempt.
    pub fn decide(&self, failure: Failure, now: Millis, facts: &Facts) -> Retry {
        if facts.answering || (facts.sent && !facts.replayable) {
            return Retry::No;
        }
        let safe = facts.idempotent || !facts.sent;
        if failure == Failure::StaleConnection && safe {
            return Retry::Fresh;
        }
        let listed = self.on.intersects(failure.flag());
        let allowed = listed && (safe || self.on.contains(RetryOn::NON_IDEMPOTENT));
        if !allowed || self.spent(now, facts) {
            return Retry::No;
        }
        if self.moves_on(facts) { Retry::Next } else { Retry::Same }
    }

    fn spent(&self, now: Millis, facts: &Facts) -> bool {
        let late = !self.timeout.is_zero() && now.since(facts.began) >= millis(self.timeout);
        late || facts.attempts >= self.most(facts)
    }

    fn most(&self, facts: &Facts) -> u32 {
        match (self.attempts, self.redispatch) {
            // nginx never visits an endpoint twice; its `tries` only lowers the number.
            (0, Redispatch::Always | Redispatch::Last { turns: true }) => facts.endpoints,
            (most, Redispatch::Always | Redispatch::Last { turns: true }) => most.min(facts.endpoints.max(1)),
            (most, _) => most.max(1),
        }
    }

    fn moves_on(&self, facts: &Facts) -> bool {
        match self.redispatch {
            Redispatch::Always | Redispatch::Last { turns: true } => true,
            Redispatch::Never => false,
            Redispatch::Every(every) => facts.attempts.is_multiple_of(every.max(1)),
            Redispatch::Last { turns: false } => facts.attempts + 1 == self.most(facts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts = Facts {
        idempotent: true,
        sent: true,
        replayable: true,
        answering: false,
        attempts: 1,
        endpoints: 3,
        began: Millis(1000),
    };
    const NOW: Millis = Millis(2000);

    fn nginx() -> RetryPolicy {
        RetryPolicy::default()
    }

    #[test]
    fn safe_requests_go_to_the_next_endpoint() {
        for failure in [Failure::Connect, Failure::ConnectTimeout, Failure::Io, Failure::Timeout] {
            assert_eq!(nginx().decide(failure, NOW, &FACTS), Retry::Next, "{failure:?}");
        }
        assert_eq!(nginx().decide(Failure::InvalidHeader, NOW, &FACTS), Retry::No, "not in the default list");
        assert_eq!(nginx().decide(Failure::Io, NOW, &Facts { attempts: 3, ..FACTS }), Retry::No);
    }

    #[test]
    fn a_post_that_was_sent_is_never_repeated() {
        let post = Facts { idempotent: false, ..FACTS };
        assert_eq!(nginx().decide(Failure::Io, NOW, &post), Retry::No);
        assert_eq!(nginx().decide(Failure::StaleConnection, NOW, &post), Retry::No);
        assert_eq!(nginx().decide(Failure::Connect, NOW, &Facts { sent: false, ..post }), Retry::Next);
        let daring = RetryPolicy { on: RetryOn::default() | RetryOn::NON_IDEMPOTENT, ..nginx() };
        assert_eq!(daring.decide(Failure::Io, NOW, &post), Retry::Next);
    }

    #[test]
    fn nothing_is_retried_once_the_client_saw_an_answer_or_the_body_is_gone() {
        assert_eq!(nginx().decide(Failure::Io, NOW, &Facts { answering: true, ..FACTS }), Retry::No);
        assert_eq!(nginx().decide(Failure::Io, NOW, &Facts { replayable: false, ..FACTS }), Retry::No);
        let unsent = Facts { replayable: false, sent: false, ..FACTS };
        assert_eq!(nginx().decide(Failure::Connect, NOW, &unsent), Retry::Next);
    }

    #[test]
    fn a_lost_race_with_an_idle_timeout_is_no_failure() {
        let last = Facts { attempts: 3, ..FACTS };
        let off = RetryPolicy { on: RetryOn::empty(), ..nginx() };
        assert_eq!(off.decide(Failure::StaleConnection, NOW, &last), Retry::Fresh);
        assert!(!Failure::StaleConnection.counts());
    }

    #[test]
    fn statuses_are_retried_when_listed() {
        let policy =
            RetryPolicy { on: RetryOn::default() | RetryOn::HTTP_503 | RetryOn::HTTP_404, ..nginx() };
        assert!(policy.intercepts(503, NOW, &FACTS) && policy.intercepts(404, NOW, &FACTS));
        assert!(!policy.intercepts(502, NOW, &FACTS) && !policy.intercepts(200, NOW, &FACTS));
        assert!(
            !policy.intercepts(503, NOW, &Facts { attempts: 3, ..FACTS }),
            "the last answer is forwarded"
        );
        assert!(Failure::Status(503).counts() && !Failure::Status(404).counts());
    }

    #[test]
    fn time_and_tries_are_bounded() {
        let timed = RetryPolicy { timeout: Duration::from_millis(1000), ..nginx() };
        assert_eq!(timed.decide(Failure::Io, Millis(1999), &FACTS), Retry::Next);
        assert_eq!(timed.decide(Failure::Io, Millis(2000), &FACTS), Retry::No);
        let twice = RetryPolicy { attempts: 2, ..nginx() };
        assert_eq!(twice.decide(Failure::Io, NOW, &Facts { attempts: 2, ..FACTS }), Retry::No);
    }

    #[test]
    fn haproxy_stays_and_then_moves() {
        let policy = RetryPolicy {
            on: RetryOn::CONNECT,
            attempts: 4,
            timeout: Duration::ZERO,
            redispatch: Redispatch::Last { turns: false },
        };
        let verdicts = |policy: RetryPolicy| -> Vec<Retry> {
            let facts = |attempts| Facts { attempts, sent: false, idempotent: false, ..FACTS };
            (1..=4).map(|n| policy.decide(Failure::Connect, NOW, &facts(n))).collect()
        };
        assert_eq!(verdicts(policy), [Retry::Same, Retry::Same, Retry::Next, Retry::No]);
        let every = RetryPolicy { redispatch: Redispatch::Every(2), ..policy };
        assert_eq!(verdicts(every), [Retry::Same, Retry::Next, Retry::Same, Retry::No]);
        assert_eq!(policy.decide(Failure::Timeout, NOW, &FACTS), Retry::No, "only connecting is retried");
    }
}
