//! Converters by their arguments: which function does which.
//!
//! Owns: what each takes, and the short ones themselves.
//! Driven by: a step of a conversion, with its arguments.

use weir_expr::{Count, Routine, When, number};
use weir_policy::hash;

use super::lenient::STANDARD_LENIENT;
use super::{
    dates, digests, distcc, encrypted, fix, json, language, mqtt, node, packet, payload, protobuf, token,
    verify_names,
};
use crate::exchange::{Ending, Traffic};

/// What a routine makes of a value; `None` if there is nothing.
pub(super) fn call(
    traffic: &impl Traffic,
    routine: Routine,
    given: &[Vec<u8>],
    value: Vec<u8>,
) -> Option<Vec<u8>> {
    let at = |at: usize| given.get(at).map_or(&[][..], Vec::as_slice);
    let flag = |holds: bool| Some(if holds { b"1".to_vec() } else { b"0".to_vec() });
    match routine {
        Routine::Digest(digest) => Some(digests::digest(digest, &value)),
        Routine::Hmac(digest) => digests::hmac(digest, &STANDARD_LENIENT, at(0), &value),
        Routine::Crc32c(mixed) => {
            let hash = hash::crc32c(&value);
            shown(if mixed { hash::avalanche(hash) } else { hash })
        }
        Routine::Xxh32 => shown(twox_hash::XxHash32::oneshot(number(at(0)) as u32, &value)),
        Routine::Xxh64 => shown(twox_hash::XxHash64::oneshot(seed(at(0)), &value).cast_signed()),
        Routine::Xxh3 => shown(twox_hash::XxHash3_64::oneshot_with_seed(seed(at(0)), &value).cast_signed()),
        Routine::Bytes => bytes(value, at(0), at(1)),
        Routine::Arithmetic(operation) => shown(operation.of(number(&value), number(at(0)))),
        Routine::AddItem => Some(add_item(value, at(0), at(1), at(2))),
        Routine::Compare => shown(compared(&value, at(0))),
        Routine::SecureEquals => flag(weir_password::equal(&value, at(0))),
        Routine::LocalTime(unit) => dates::written(traffic, &value, at(0), at(1), unit, false),
        Routine::UniversalTime(unit) => dates::written(traffic, &value, at(0), at(1), unit, true),
        Routine::HttpDate(unit) => dates::http(traffic, &value, at(0), unit),
        Routine::Language => language::best(&value, at(0), at(1)),
        Routine::JsonQuery => json::query(&value, at(0), at(1)),
        Routine::JwtHeader => token::part(&value, 0, at(0), at(1)),
        Routine::JwtPayload => token::part(&value, 1, at(0), at(1)),
        Routine::JwtVerify => shown(token::verify(&value, at(0), at(1), at(2))),
        Routine::UsableEndpoints => {
            let name = std::str::from_utf8(&value).ok()?;
            shown(traffic.named_pool_count(name, Count::UsableEndpoints))
        }
        Routine::EndpointQueue | Routine::EndpointIsUp => {
            let (pool, name) = endpoint_name(&value, at(0))?;
            let standing = traffic.named_endpoint(pool, name)?;
            if routine == Routine::EndpointQueue { shown(standing.waiting) } else { flag(standing.up) }
        }
        Routine::ForwardedIsValid => flag(node::elements(&value).is_some()),
        Routine::ForwardedField => node::parameter(&value, at(0)),
        Routine::NodeName => node::parts(&value).map(|(name, _)| name.to_vec()),
        Routine::NodePort => node::parts(&value).and_then(|(_, port)| Some(port?.to_vec())),
        Routine::Protobuf => protobuf::field(&value, at(0), at(1)),
        Routine::Grpc => protobuf::grpc_field(&value, at(0), at(1)),
        Routine::AesGcmDecrypt(bits) => encrypted::gcm(bits, [at(0), at(1), at(2)], at(3), value),
        Routine::AesCbcDecrypt(bits) => encrypted::cbc(bits, [at(0), at(1)], value),
        Routine::AesGcmEncrypt(bits) => encrypted::gcm_encrypt(bits, [at(0), at(1)], at(2), value),
        Routine::AesCbcEncrypt(bits) => encrypted::cbc_encrypt(bits, [at(0), at(1)], value),
        Routine::FixIsValid => flag(fix::is_valid(&value)),
        Routine::FixTag => fix::value(&value, at(0)).map(<[u8]>::to_vec),
        Routine::MqttIsValid => flag(mqtt::is_valid(&value)),
        Routine::MqttField => mqtt::field(&value, at(0), at(1)),
        Routine::RdpCookie => payload::rdp_cookie(&value, at(0)).map(<[u8]>::to_vec),
        Routine::RdpCookieCount => flag(payload::rdp_cookie(&value, at(0)).is_some()),
        Routine::Sized => payload::sized(&value, at(0), at(1), at(2)),
        Routine::Whole => payload::whole(&value, at(0), at(1)),
        Routine::IsHttp => flag(payload::is_http(&value)),
        Routine::ReverseDomain => {
            let labels: Vec<&[u8]> = value.split(|byte| *byte == b'.').rev().collect();
            Some(labels.join(&b'.'))
        }
        Routine::DistccParam => distcc::param(&value, at(0), at(1)).and_then(shown),
        Routine::DistccBody => distcc::body(&value, at(0), at(1)).map(<[u8]>::to_vec),
        Routine::When(when) => holds(traffic, when).then_some(value),
        Routine::Packet(part) => packet::part(&value, part),
        Routine::Hello(part) => payload::of_hello(&value, part),
        Routine::VerifyName => verify_names::of(number(&value)).map(|name| name.as_bytes().to_vec()),
    }
}

/// Whether something holds of an exchange or session.
fn holds(traffic: &impl Traffic, when: When) -> bool {
    let failed = !matches!(traffic.ending, Ending::Normal | Ending::Local);
    let forwarded = !traffic.attempts.is_empty();
    let own = !forwarded && traffic.ending == Ending::Local;
    match when {
        When::Error => failed,
        When::Normal => !failed,
        When::Forwarded => forwarded,
        When::Own => own,
        When::Processed => forwarded || own,
        When::Stopping => traffic.worker.is_leaving(),
    }
}

/// As C's strncmp, which HAProxy's figure comes from: the difference of the first bytes that differ, else of the lengths
/// its sign.
fn compared(value: &[u8], other: &[u8]) -> i32 {
    let differs = value.iter().zip(other).find(|(a, b)| a != b);
    match differs {
        Some((a, b)) => i32::from(*a) - i32::from(*b),
        None => value.len().cmp(&other.len()) as i32,
    }
}

fn shown(value: impl std::fmt::Display) -> Option<Vec<u8>> {
    Some(value.to_string().into_bytes())
}

fn seed(argument: &[u8]) -> u64 {
    number(argument).cast_unsigned()
}

/// As HAProxy: an offset behind the end leaves nothing, one below 0 no value.
fn bytes(mut value: Vec<u8>, offset: &[u8], length: &[u8]) -> Option<Vec<u8>> {
    let offset = usize::try_from(number(offset)).ok()?;
    value.drain(..offset.min(value.len()));
    if !length.is_empty() {
        value.truncate(usize::try_from(number(length)).ok()?);
    }
    Some(value)
}

fn add_item(mut value: Vec<u8>, delimiter: &[u8], item: &[u8], suffix: &[u8]) -> Vec<u8> {
    let adds = !item.is_empty() || !suffix.is_empty();
    if adds && !value.is_empty() {
        value.extend_from_slice(delimiter);
    }
    value.extend_from_slice(item);
    value.extend_from_slice(suffix);
    value
}

/// `POOL/NAME`, or a name in the pool that rules are about.
fn endpoint_name<'v>(value: &'v [u8], own: &'v [u8]) -> Option<(&'v str, &'v str)> {
    let text = std::str::from_utf8(value).ok()?;
    Some(match text.split_once('/') {
        Some(both) => both,
        None => (std::str::from_utf8(own).ok()?, text),
    })
}
