//! What went wrong in a run: what was being done, and what caused it.
//!
//! Owns: the kinds of errors (wrk's, and what it does not know), their causes, what cause an error of the system shows.
//! Never: decides what an error means for a run; `success` and `judge` do.
//! Driven by: workers, which count; the report.

use std::io;

use serde::{Deserialize, Serialize};

/// What went wrong, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// Connections that could not be opened.
    pub connect: u64,
    /// TLS handshakes that failed.
    pub tls: u64,
    /// Reads that failed, answers cut by the end of their connection among them.
    pub read: u64,
    /// Writes that failed.
    pub write: u64,
    /// Units that took longer than the timeout, the unfinished among them.
    pub timeout: u64,
    /// Answers that are no HTTP, or echoes that are none.
    pub malformed: u64,
    /// Handshakes that resumed a session although a full one was asked for, or the other way round.
    pub not_as_asked: u64,
    /// HTTP/2 streams that the server reset before their answer was whole.
    #[serde(default)]
    pub reset: u64,
    /// What caused them. Each error has one cause, but for [`Errors::not_as_asked`], which has none.
    #[serde(default)]
    pub causes: Causes,
}

impl Errors {
    /// All of them.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.connect
            + self.tls
            + self.read
            + self.write
            + self.timeout
            + self.malformed
            + self.not_as_asked
            + self.reset
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        self.connect += other.connect;
        self.tls += other.tls;
        self.read += other.read;
        self.write += other.write;
        self.timeout += other.timeout;
        self.malformed += other.malformed;
        self.not_as_asked += other.not_as_asked;
        self.reset += other.reset;
        self.causes.merge(&other.causes);
    }
}

/// What caused an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Nobody listens there (ECONNREFUSED).
    Refused,
    /// No way leads there (EHOSTUNREACH, ENETUNREACH).
    Unreachable,
    /// The peer reset the connection or the HTTP/2 stream.
    Reset,
    /// The peer closed the connection before any byte of the answer.
    ClosedEarly,
    /// Nothing came in time.
    TimedOut,
    /// What came is no HTTP.
    NotHttp,
    /// The peer closed the connection within the answer.
    Truncated,
    /// The peer sent a TLS alert.
    TlsAlert,
    /// The generator's own machine: no port, descriptor or memory was left for one more connection.
    Exhausted,
    /// Anything else, such as a TLS handshake that this side ended.
    Other,
}

impl Cause {
    /// What an error of the system shows.
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        use io::ErrorKind as K;
        const NFILE: i32 = 23;
        const MFILE: i32 = 24;
        const NOBUFS: i32 = 105;
        if weir_rt::is_alert(error) {
            return Self::TlsAlert;
        }
        match (error.kind(), error.raw_os_error()) {
            (K::ConnectionRefused, _) => Self::Refused,
            (K::HostUnreachable | K::NetworkUnreachable, _) => Self::Unreachable,
            (K::ConnectionReset | K::ConnectionAborted, _) => Self::Reset,
            (K::UnexpectedEof | K::BrokenPipe, _) => Self::ClosedEarly,
            (K::TimedOut, _) => Self::TimedOut,
            (K::AddrNotAvailable | K::OutOfMemory, _) | (_, Some(NFILE | MFILE | NOBUFS)) => Self::Exhausted,
            _ => Self::Other,
        }
    }
}

/// Errors by what caused them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Causes {
    /// [`Cause::Refused`].
    pub refused: u64,
    /// [`Cause::Unreachable`].
    pub unreachable: u64,
    /// [`Cause::Reset`].
    pub reset: u64,
    /// [`Cause::ClosedEarly`].
    pub closed_early: u64,
    /// [`Cause::TimedOut`].
    pub timed_out: u64,
    /// [`Cause::NotHttp`].
    pub not_http: u64,
    /// [`Cause::Truncated`].
    pub truncated: u64,
    /// [`Cause::TlsAlert`].
    pub tls_alert: u64,
    /// [`Cause::Exhausted`].
    pub exhausted: u64,
    /// [`Cause::Other`].
    pub other: u64,
}

impl Causes {
    /// Counts an error of this cause.
    pub fn add(&mut self, cause: Cause) {
        *match cause {
            Cause::Refused => &mut self.refused,
            Cause::Unreachable => &mut self.unreachable,
            Cause::Reset => &mut self.reset,
            Cause::ClosedEarly => &mut self.closed_early,
            Cause::TimedOut => &mut self.timed_out,
            Cause::NotHttp => &mut self.not_http,
            Cause::Truncated => &mut self.truncated,
            Cause::TlsAlert => &mut self.tls_alert,
            Cause::Exhausted => &mut self.exhausted,
            Cause::Other => &mut self.other,
        } += 1;
    }

    /// Each with its words, in the order in which text lists them.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("refused", self.refused),
            ("unreachable", self.unreachable),
            ("reset", self.reset),
            ("closed early", self.closed_early),
            ("timed out", self.timed_out),
            ("not HTTP", self.not_http),
            ("truncated", self.truncated),
            ("TLS alert", self.tls_alert),
            ("out of ports or descriptors", self.exhausted),
            ("other", self.other),
        ]
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        self.refused += other.refused;
        self.unreachable += other.unreachable;
        self.reset += other.reset;
        self.closed_early += other.closed_early;
        self.timed_out += other.timed_out;
        self.not_http += other.not_http;
        self.truncated += other.truncated;
        self.tls_alert += other.tls_alert;
        self.exhausted += other.exhausted;
        self.other += other.other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_have_their_causes() {
        let of = |code| Cause::of(&io::Error::from_raw_os_error(code));
        assert_eq!(
            [111, 104, 110, 113].map(of),
            [Cause::Refused, Cause::Reset, Cause::TimedOut, Cause::Unreachable]
        );
        assert_eq!(
            [99, 24, 32, 1].map(of),
            [Cause::Exhausted, Cause::Exhausted, Cause::ClosedEarly, Cause::Other]
        );
    }

    #[test]
    fn each_cause_is_counted_named_and_added_as_itself() {
        use Cause as C;
        let all = [
            C::Refused,
            C::Unreachable,
            C::Reset,
            C::ClosedEarly,
            C::TimedOut,
            C::NotHttp,
            C::Truncated,
            C::TlsAlert,
            C::Exhausted,
            C::Other,
        ];
        for (at, cause) in all.into_iter().enumerate() {
            let mut one = Causes::default();
            one.add(cause);
            let mut two = one;
            two.merge(&one);
            let counts = two.named().map(|(_, count)| count);
            assert_eq!((counts[at], counts.iter().sum::<u64>()), (2, 2), "{cause:?}");
        }
    }
}
