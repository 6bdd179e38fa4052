//! Variables about the pool, and about the endpoints that were tried.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use weir_expr::{EndpointFigure, UpstreamVar};

use super::write::{display, extend, number, seconds};
use crate::exchange::{Attempt, Core, Traffic};

/// Appends the value of a variable about endpoints; false if there is none.
pub(super) fn append(traffic: &impl Traffic, var: UpstreamVar<'_>, out: &mut Vec<u8>) -> bool {
    let each = |out: &mut Vec<u8>, one: fn(&Attempt, &mut Vec<u8>)| attempts(traffic, out, one);
    match var {
        UpstreamVar::PoolName => extend(out, traffic.pool_name().map(str::as_bytes)),
        UpstreamVar::EndpointName => {
            extend(out, traffic.attempts.last().map(|attempt| attempt.endpoint.as_bytes()))
        }
        UpstreamVar::PoolCount(name, count) => display(out, traffic.named_pool_count(name, *count)),
        UpstreamVar::EndpointCount(pool, name, which) => {
            traffic.named_endpoint(pool, name).is_some_and(|one| match which {
                EndpointFigure::Up => display(out, u8::from(one.up)),
                EndpointFigure::InFlight => display(out, one.in_flight),
                EndpointFigure::Free => display(out, one.free().unwrap_or(-1)),
                EndpointFigure::Waiting => display(out, one.waiting),
                EndpointFigure::Weight => display(out, one.weight),
                EndpointFigure::ConfiguredWeight => display(out, one.full_weight),
                EndpointFigure::SessionRate => display(out, traffic.endpoint_rate(pool, name)),
            })
        }
        UpstreamVar::EndpointTls(part) => {
            let facts = traffic.attempts.last().and_then(|attempt| attempt.tls.as_deref());
            crate::eval::tls::of_endpoint(facts, part, out)
        }
        UpstreamVar::EndpointNumber => {
            let name = traffic.attempts.last().map(|attempt| &*attempt.endpoint);
            number(out, name.and_then(|name| traffic.endpoint_number(name)).map(u64::from))
        }
        UpstreamVar::EndpointStatus => {
            let status = traffic.attempts.last().map(|attempt| attempt.status).filter(|status| *status > 0);
            number(out, status.map(u64::from))
        }
        UpstreamVar::EndpointReused => {
            number(out, traffic.attempts.last().map(|attempt| u64::from(attempt.reused)))
        }
        UpstreamVar::EndpointProtocol => {
            let protocol = traffic.attempts.last().and_then(|attempt| attempt.protocol);
            extend(out, protocol.map(str::as_bytes))
        }
        UpstreamVar::EndpointLocalAddr => local_end(traffic).is_some_and(|local| display(out, local.ip())),
        UpstreamVar::EndpointLocalPort => local_end(traffic).is_some_and(|local| display(out, local.port())),
        UpstreamVar::EndpointAddr => last_address(traffic).is_some_and(|(ip, _)| display(out, ip)),
        UpstreamVar::EndpointPort => last_address(traffic).is_some_and(|(_, port)| display(out, port)),
        UpstreamVar::UpstreamAddr => {
            each(out, |attempt, out| out.extend_from_slice(attempt.address.as_bytes()))
        }
        UpstreamVar::UpstreamStatus => each(out, |attempt, out| match attempt.status {
            0 => out.push(b'-'),
            status => drop(write!(out, "{status}")),
        }),
        UpstreamVar::UpstreamConnectTime => each(out, |attempt, out| optional_seconds(out, attempt.connect)),
        UpstreamVar::UpstreamHeaderTime | UpstreamVar::UpstreamFirstByteTime => {
            each(out, |attempt, out| optional_seconds(out, attempt.header))
        }
        UpstreamVar::UpstreamResponseTime | UpstreamVar::UpstreamSessionTime => {
            each(out, |attempt, out| optional_seconds(out, attempt.response))
        }
        UpstreamVar::UpstreamResponseLength => {
            each(out, |attempt, out| _ = number(out, Some(attempt.length)))
        }
        UpstreamVar::UpstreamBytesSent => each(out, |attempt, out| _ = number(out, Some(attempt.sent))),
        UpstreamVar::UpstreamBytesReceived => {
            each(out, |attempt, out| _ = number(out, Some(attempt.received)))
        }
    }
}

/// One value an attempt: `, ` between attempts, ` : ` where an internal redirect lies between.
fn attempts(traffic: &Core, out: &mut Vec<u8>, one: fn(&Attempt, &mut Vec<u8>)) -> bool {
    for (at, attempt) in traffic.attempts.iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(if attempt.new_group { b" : " } else { b", " });
        }
        one(attempt, out);
    }
    !traffic.attempts.is_empty()
}

/// Where the last attempt went, unless to a unix socket.
fn last_address(traffic: &Core) -> Option<(IpAddr, u16)> {
    let address: SocketAddr = traffic.attempts.last()?.address.parse().ok()?;
    Some((address.ip(), address.port()))
}

/// Our own end of the connection of the last attempt.
fn local_end(traffic: &Core) -> Option<SocketAddr> {
    traffic.attempts.last()?.local
}

fn optional_seconds(out: &mut Vec<u8>, time: Option<Duration>) {
    match time {
        Some(time) => _ = seconds(out, time),
        None => out.push(b'-'),
    }
}
