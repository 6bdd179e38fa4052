//! The values of the Common Log Format.
//!
//! Owns: how each is found without a look at what else there is. What a value is, its family says.

use weir_plan::CommonValue;

use super::{client, process, request, response};
use crate::exchange::{Kind, Traffic};

/// Appends the value; false if there is none.
#[inline]
pub(crate) fn append(traffic: &impl Traffic, value: CommonValue, out: &mut Vec<u8>) -> bool {
    match (value, traffic.kind()) {
        (CommonValue::ClientAddr, _) => client::append_address(traffic, out),
        (CommonValue::TimeLocal, _) => process::append_time_local(traffic, out),
        (CommonValue::RemoteUser, Kind::Request(exchange)) => request::remote_user(exchange, out),
        (CommonValue::RequestLine, Kind::Request(exchange)) => request::append_line(exchange, out),
        (CommonValue::Status, Kind::Request(exchange)) => response::append_status(exchange, out),
        (CommonValue::BodyBytesSent, Kind::Request(exchange)) => {
            response::append_body_bytes_sent(exchange, out)
        }
        (_, Kind::Session(_)) => false,
    }
}
