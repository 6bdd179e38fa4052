//! The values that nearly every log line shows.
//!
//! Owns: how each is found without a look at what else there is. What a value is, its family says.

use weir_plan::Usual;

use super::{client, process, request, response};
use crate::exchange::{Kind, Traffic};

/// Appends the value; false if there is none.
#[inline]
pub(crate) fn append(traffic: &impl Traffic, usual: Usual, out: &mut Vec<u8>) -> bool {
    match (usual, traffic.kind()) {
        (Usual::ClientAddr, _) => client::append_address(traffic, out),
        (Usual::TimeLocal, _) => process::append_time_local(traffic, out),
        (Usual::RemoteUser, Kind::Request(exchange)) => request::remote_user(exchange, out),
        (Usual::RequestLine, Kind::Request(exchange)) => request::append_line(exchange, out),
        (Usual::Status, Kind::Request(exchange)) => response::append_status(exchange, out),
        (Usual::BodyBytesSent, Kind::Request(exchange)) => response::append_body_bytes_sent(exchange, out),
        (_, Kind::Session(_)) => false,
    }
}
