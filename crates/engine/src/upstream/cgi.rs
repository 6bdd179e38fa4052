//! What application servers are told of a request, whatever is spoken with them.
//!
//! Owns: which parameters there are, and their order; what stands in front of a body.
//! Never: writes to a connection, or knows how a length is spelt (`weir_http::fastcgi`, `weir_http::gateway`).
//! Driven by: [`Application`](super::fastcgi::Application), once per attempt.

use weir_http::gateway::{self, TooLong};
use weir_http::{HeaderId, fastcgi};
use weir_plan::FastCgi;
use weir_plan::settings::Spoken;

use crate::exchange::Exchange;
use crate::exchange::fields::FieldName;

/// Appends all that comes before the body.
pub(super) fn write_head(exchange: &Exchange, gateway: &FastCgi, out: &mut Vec<u8>) -> Result<(), TooLong> {
    let mut pairs = Vec::with_capacity(1024);
    match gateway.spoken {
        Spoken::Uwsgi(one, two) => {
            let mut fits = Ok(());
            each(exchange, gateway, |name, value| {
                fits = fits.and_then(|()| gateway::uwsgi_param(&mut pairs, name, value));
            });
            fits?;
            out.extend_from_slice(&gateway::uwsgi_head((one, two), pairs.len())?);
            out.extend_from_slice(&pairs);
        }
        Spoken::Scgi => {
            each(exchange, gateway, |name, value| {
                // It comes first, and once.
                if name != b"CONTENT_LENGTH" {
                    gateway::scgi_param(&mut pairs, name, value);
                }
            });
            gateway::scgi_head(out, exchange.body.buffered(), &pairs);
        }
        Spoken::FastCgi | Spoken::Memcached { .. } => {
            fastcgi::begin_request(out, gateway.keep_connection);
            each(exchange, gateway, |name, value| fastcgi::param(&mut pairs, name, value));
            fastcgi::params(out, &pairs);
        }
    }
    Ok(())
}

/// Parameters in the order configured; the client's fields follow as `HTTP_*`.
fn each(exchange: &Exchange, gateway: &FastCgi, mut put: impl FnMut(&[u8], &[u8])) {
    for parameter in &gateway.params {
        let value = crate::eval::text(exchange, &parameter.value);
        if !(parameter.if_not_empty && value.is_empty()) {
            put(parameter.name.as_bytes(), &value);
        }
    }
    if !gateway.pass_request_headers {
        return;
    }
    let set = |name: &[u8]| gateway.params.iter().any(|parameter| parameter.name.as_bytes() == name);
    let mut seen: Vec<Vec<u8>> = Vec::new();
    let kept = exchange.kept_from_upstream();
    for field in exchange.request.fields.iter() {
        // `Proxy` would become HTTP_PROXY, which programs take for a setting of their own.
        let own = matches!(
            field.id,
            HeaderId::ContentLength | HeaderId::ContentType | HeaderId::ProxyAuthorization
        ) || field.name.eq_ignore_ascii_case(b"proxy")
            || field.hop_by_hop
            || kept & field.id.bit() != 0
            || gateway.usual_names
                && !field.name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
        let mut name = b"HTTP_".to_vec();
        name.extend(field.name.iter().map(|&b| if b == b'-' { b'_' } else { b.to_ascii_uppercase() }));
        if own || seen.contains(&name) || set(&name) {
            continue;
        }
        let mut value = Vec::new();
        let separator: &[u8] = if field.id == HeaderId::Cookie { b"; " } else { b", " };
        exchange.request.fields.join(FieldName::new(field.name), separator, &mut value);
        put(&name, &value);
        seen.push(name);
    }
    let [(_, tag), (_, since)] = exchange.conditions();
    let _ = tag.map(|tag| put(b"HTTP_IF_NONE_MATCH", tag));
    let _ = since.map(|since| put(b"HTTP_IF_MODIFIED_SINCE", since));
}
