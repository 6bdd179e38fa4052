//! Parts of messages as HAProxy's fetches give them: blocks of fields, lists of names, pairs of forms, credentials.
//!
//! Owns: their forms.
//! Driven by: the families of requests and responses.

use weir_expr::{AuthPart, MessagePart};
use weir_http::HeaderId;

use super::write::{extend, number, text_of};
use crate::exchange::Exchange;
use crate::exchange::fields::{FieldName, Fields};

/// Appends a part of the request; false if there is none.
pub(super) fn request_part(exchange: &Exchange, part: &MessagePart, out: &mut Vec<u8>) -> bool {
    let request = &exchange.request;
    match part {
        MessagePart::CookieNames(separator) => joined(cookies(exchange), separator.as_bytes(), out),
        MessagePart::BodyLength => number(out, Some(exchange.body.buffered())),
        MessagePart::BodySize => {
            let announced = request.fields.first(HeaderId::ContentLength);
            extend(out, announced) || number(out, Some(exchange.body.buffered()))
        }
        part => fields_part(&request.fields, part, out),
    }
}

/// Appends a part of the response; false if there is none.
pub(super) fn response_part(exchange: &Exchange, part: &MessagePart, out: &mut Vec<u8>) -> bool {
    let response = &exchange.response;
    match part {
        MessagePart::CookieNames(separator) => joined(set_cookies(exchange), separator.as_bytes(), out),
        MessagePart::BodyLength | MessagePart::BodySize => {
            extend(out, response.fields.first(HeaderId::ContentLength))
        }
        part => fields_part(&response.fields, part, out),
    }
}

fn fields_part(fields: &Fields, part: &MessagePart, out: &mut Vec<u8>) -> bool {
    match part {
        MessagePart::Fields => {
            for field in fields.iter() {
                out.extend(field.name.to_ascii_lowercase());
                out.extend_from_slice(b": ");
                out.extend_from_slice(field.value);
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(b"\r\n");
            true
        }
        MessagePart::BinaryFields => {
            for field in fields.iter() {
                sized(&field.name.to_ascii_lowercase(), out);
                sized(field.value, out);
            }
            // An empty name and an empty value end the list.
            out.extend_from_slice(&[0, 0]);
            true
        }
        MessagePart::Names(separator) => {
            let names: Vec<Vec<u8>> = fields.iter().map(|field| field.name.to_ascii_lowercase()).collect();
            joined(names.iter().map(Vec::as_slice), separator.as_bytes(), out)
        }
        _ => false,
    }
}

/// A length as HAProxy's SPOE writes numbers, then the bytes.
fn sized(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes.len() as u64;
    if rest < 240 {
        out.push(rest as u8);
    } else {
        out.push(rest as u8 | 0xf0);
        rest = (rest - 240) >> 4;
        while rest >= 128 {
            out.push(rest as u8 | 0x80);
            rest = (rest - 128) >> 7;
        }
        out.push(rest as u8);
    }
    out.extend_from_slice(bytes);
}

fn joined<'a>(names: impl Iterator<Item = &'a [u8]>, separator: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    for name in names {
        if out.len() > start {
            out.extend_from_slice(separator);
        }
        out.extend_from_slice(name);
    }
    out.len() > start
}

/// Names of the request's cookies.
pub(super) fn cookies(exchange: &Exchange) -> impl Iterator<Item = &[u8]> {
    exchange
        .request
        .fields
        .all(HeaderId::Cookie)
        .flat_map(|line| line.split(|byte| *byte == b';'))
        .filter_map(name)
}

/// Names of the cookies that the response sets.
pub(super) fn set_cookies(exchange: &Exchange) -> impl Iterator<Item = &[u8]> {
    exchange.response.fields.all(HeaderId::SetCookie).filter_map(name)
}

fn name(pair: &[u8]) -> Option<&[u8]> {
    pair.iter().position(|byte| *byte == b'=').map(|end| pair[..end].trim_ascii())
}

/// The value of a name in `a=b&c=d`.
pub(super) fn pair<'a>(text: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    text.split(|byte| matches!(byte, b'&' | b';'))
        .filter_map(|pair| pair.split_at_checked(pair.iter().position(|byte| *byte == b'=')?))
        .find(|(name, _)| *name == wanted)
        .map(|(_, value)| &value[1..])
}

/// The value of a name behind the first delimiter of a target.
pub(super) fn argument<'a>(target: &'a [u8], wanted: &[u8], delimiter: u8) -> Option<&'a [u8]> {
    let at = target.iter().position(|byte| *byte == delimiter)?;
    pair(&target[at + 1..], wanted)
}

/// Appends a part of the credentials; false if there is none.
pub(super) fn authorization(exchange: &Exchange, part: &AuthPart, out: &mut Vec<u8>) -> bool {
    let fields = &exchange.request.fields;
    let value = fields.first(HeaderId::Authorization);
    let basic = || value.and_then(weir_http::auth::basic);
    match part {
        AuthPart::Scheme => extend(out, value.and_then(|value| value.split(|byte| *byte == b' ').next())),
        AuthPart::User => extend(out, basic().as_ref().map(|found| &*found.user)),
        AuthPart::Password => extend(out, basic().as_ref().map(|found| &*found.password)),
        AuthPart::Bearer(name) => {
            let value = match name.as_str() {
                "" => value,
                name => fields.first(FieldName::new(name.as_bytes())),
            };
            let token = value.and_then(|value| {
                let (scheme, token) = value.split_at_checked(7)?;
                scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
            });
            token.is_some_and(|token| text_of(out, token))
        }
    }
}
