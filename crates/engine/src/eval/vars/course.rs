//! Variables about how a request or a session went: what it is called, its bytes, times and ending.

use std::io::Write as _;
use std::time::Duration;

use weir_expr::{Count, CourseVar, KeptIn, LocalOf, Moment, PriorityOf, Timer};
use weir_plan::Action;

use super::trace::{self, Part};
use super::write::{display, extend, number, seconds, text_of};
use crate::exchange::{Core, Ending, Exchange, Traffic};

/// Appends the value of a variable about how it went; false if there is none.
pub(super) fn append(traffic: &impl Traffic, var: CourseVar<'_>, out: &mut Vec<u8>) -> bool {
    match var {
        CourseVar::SiteLabel => text_of(out, traffic.label().as_bytes()),
        CourseVar::RequestId => write!(out, "{:032x}", traffic.id()).is_ok(),
        CourseVar::TraceId => trace::append(traffic, Part::Trace, out),
        CourseVar::SpanId => trace::append(traffic, Part::Span, out),
        CourseVar::TraceParentId => trace::append(traffic, Part::Parent, out),
        CourseVar::TraceParentSampled => trace::append(traffic, Part::ParentSampled, out),
        CourseVar::RequestSeconds => number(out, Some(traffic.started_unix.as_secs())),
        CourseVar::RequestMillis => write!(out, "{:03}", traffic.started_unix.subsec_millis()).is_ok(),
        CourseVar::RequestSerial => number(out, Some(traffic.serial())),
        CourseVar::RequestDate => {
            traffic.worker.haproxy_date(traffic.started_unix, out);
            true
        }
        CourseVar::RequestTime => seconds(out, traffic.elapsed()),
        CourseVar::RequestLength | CourseVar::BytesReceived => number(out, Some(traffic.received())),
        CourseVar::BytesSent => number(out, Some(traffic.sent())),
        CourseVar::LimitConnStatus => extend(out, traffic.limit_conn_status.map(str::as_bytes)),
        CourseVar::TerminationState => text_of(out, traffic.ending.letters().as_bytes()),
        CourseVar::PersistenceState => {
            text_of(out, traffic.exchange().map_or(b"--", |exchange| &exchange.persistence))
        }
        CourseVar::Timer(timer) => {
            let millis = time_of(traffic, *timer).map_or(-1, |time| time.as_millis() as i64);
            write!(out, "{millis}").is_ok()
        }
        CourseVar::Count(count) => {
            if *count == Count::Retries && was_redispatched(traffic) {
                out.push(b'+');
            }
            number(out, Some(count_of(traffic, *count)))
        }
        CourseVar::Kept(of, name) => kept(traffic, *of, name, out),
        CourseVar::SiteRate(name, of) => number(out, Some(traffic.site_rate(name, *of))),
        CourseVar::Moment(of) => {
            let at = match of {
                Moment::Accepted => traffic.client.accepted_unix(),
                Moment::Begun => traffic.started_unix,
            };
            write!(out, "{}", at.as_micros()).is_ok()
        }
        CourseVar::Redispatched => number(out, Some(was_redispatched(traffic).into())),
        CourseVar::Resolved => {
            traffic.own.as_ref().and_then(|own| own.resolved).is_some_and(|ip| display(out, ip))
        }
        CourseVar::Priority(of) => {
            let (class, offset) = traffic.own.as_deref().map_or((0, 0), |own| own.priority);
            match of {
                PriorityOf::Class => write!(out, "{class}").is_ok(),
                PriorityOf::Offset => write!(out, "{offset}").is_ok(),
            }
        }
        CourseVar::IsLocal(of) => {
            let end = match of {
                LocalOf::Source => traffic.client_source(),
                LocalOf::Destination => traffic.destination(),
                LocalOf::SocketPeer => traffic.client.far_end(),
                LocalOf::SocketLocal => traffic.client.own_end(),
            };
            number(out, end.map(|(ip, _)| u64::from(weir_rt::is_local(ip))))
        }
        CourseVar::Capture(group) => extend(out, traffic.captures.group(usize::from(*group))),
    }
}

/// Appends a value that rules keep; false if there is none.
fn kept(traffic: &Core, of: KeptIn, name: &str, out: &mut Vec<u8>) -> bool {
    match of {
        KeptIn::Process => {
            traffic.worker.shared.kept.get(name, |value| out.extend_from_slice(&value.text)).is_some()
        }
        KeptIn::Connection => {
            let kept = traffic.client.kept.get().map(|kept| kept.borrow());
            let found = kept.as_ref().and_then(|kept| kept.iter().find(|(known, _)| **known == *name));
            extend(out, found.map(|(_, text)| &text[..]))
        }
    }
}

fn time_of(traffic: &impl Traffic, timer: Timer) -> Option<Duration> {
    let times = &traffic.times;
    let handshake = traffic.client.handshake();
    let last = traffic.attempts.last();
    match timer {
        Timer::Handshake => Some(if traffic.client.requests.get() <= 1 { handshake } else { Duration::ZERO }),
        Timer::Idle => Some(times.idle),
        Timer::Request => times.head,
        Timer::Query => {
            times.head.map(|head| head + times.idle + time_of(traffic, Timer::Handshake).unwrap_or_default())
        }
        // HAProxy's statistics page runs inside it, at once.
        Timer::Queue | Timer::Connect | Timer::Response if is_stats(traffic) => Some(Duration::ZERO),
        // What found an endpoint without waiting waited for no time.
        Timer::Queue => times.queued.or((!traffic.attempts.is_empty()).then_some(Duration::ZERO)),
        Timer::Connect => last.and_then(|attempt| attempt.connect),
        Timer::Response => {
            last.and_then(|attempt| Some(attempt.header?.saturating_sub(attempt.connect.unwrap_or_default())))
        }
        Timer::Data => last.and_then(|attempt| Some(attempt.response?.saturating_sub(attempt.header?))),
        Timer::Active => Some(traffic.elapsed()),
        Timer::Total => Some(traffic.elapsed() + times.idle),
        Timer::User => Some(traffic.elapsed()),
    }
}

fn is_stats(traffic: &impl Traffic) -> bool {
    let route = || traffic.exchange().and_then(Exchange::route_if_any);
    traffic.ending == Ending::Local && route().is_some_and(|route| matches!(route.action, Action::Stats(_)))
}

fn count_of(traffic: &Core, count: Count) -> u64 {
    let worker = &traffic.worker;
    match count {
        Count::Retries => traffic.attempts.len().saturating_sub(1) as u64,
        Count::Process => worker.shared.connections(),
        Count::Site => worker.counters.listener_connections(&worker.shared, traffic.client.listener),
        Count::Pool => traffic.pool_in_flight(),
        Count::Endpoint => traffic.endpoint_in_flight(),
        Count::PoolQueue => waited_at(traffic, false),
        Count::EndpointQueue => waited_at(traffic, true),
        Count::UsableEndpoints => traffic.usable_endpoints(),
        Count::Attempts => traffic.attempts.len().saturating_sub(1) as u64,
        // Asked of pools by name alone.
        Count::AverageQueue | Count::FreeSlots | Count::FreePlaces | Count::SessionRate => 0,
    }
}

fn waited_at(traffic: &Core, for_one: bool) -> u64 {
    if traffic.times.queued_for_one == for_one { u64::from(traffic.times.queue_position) } else { 0 }
}

/// Whether a retry went to another endpoint; HAProxy marks such counts.
fn was_redispatched(traffic: &Core) -> bool {
    traffic.attempts.windows(2).any(|pair| pair[0].endpoint != pair[1].endpoint)
}
