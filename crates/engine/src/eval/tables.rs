//! Variables that the configuration defines: assigned, looked up, by address, by share.
//!
//! Owns: computing them at first use, and keeping the value for the request.

use weir_plan::{Definition, Slot};

use super::forwarded;
use super::vars::write;
use crate::exchange::{Kind, Traffic, Value};

/// Appends the value of a user variable; false if it has none.
pub(super) fn append_user(exchange: &impl Traffic, slot: Slot, out: &mut Vec<u8>) -> bool {
    if let Some(known) = exchange.slots.state(slot, out) {
        return known;
    }
    let installed = exchange.installed.clone();
    let Some(variable) = installed.plan.variables.get(usize::from(slot.0)) else { return false };
    if matches!(variable.definition, Definition::Assigned) {
        return false;
    }
    exchange.slots.put(slot, Value::Busy);
    let start = out.len();
    if let Definition::Converted { source, steps } = &variable.definition {
        let value = super::convert::converted(exchange, source, steps);
        exchange.slots.put(slot, Value::Unset);
        return write::extend(out, value.as_deref());
    }
    if let Definition::Keyval { key, zone } = &variable.definition {
        let key = super::text(exchange, key);
        exchange.slots.put(slot, Value::Unset);
        return installed.prepared.keyvals.get(zone.at()).is_some_and(|store| store.look_up(&key, out));
    }
    if let Definition::Database(using) = &variable.definition {
        let named = using.source.as_ref().map(|source| super::text(exchange, source));
        let value = super::databases::value(exchange, using, named.as_deref());
        let kept = value.as_ref().map_or(Value::Unset, |value| Value::Known(value.as_slice().into()));
        exchange.slots.put(slot, kept);
        return write::extend(out, value.as_deref());
    }
    let keep = compute(exchange, &variable.definition, out);
    let value = if keep { Value::Known(out[start..].into()) } else { Value::Unset };
    exchange.slots.put(slot, value);
    true
}

/// Appends the value; false if it must not be kept.
fn compute(exchange: &impl Traffic, definition: &Definition, out: &mut Vec<u8>) -> bool {
    match definition {
        Definition::Assigned
        | Definition::Converted { .. }
        | Definition::Database(_)
        | Definition::Keyval { .. } => false,
        Definition::Map(table) => {
            let subject = super::text(exchange, &table.source);
            let (value, matched) = match table.find(&subject) {
                Ok(found) => found,
                Err(why) => {
                    exchange.slots.doubt(why);
                    return false;
                }
            };
            if let Some((pattern, captures)) = matched {
                // Named groups become variables; numbered ones hold for this value only, so they are put in place of
                // the pieces here rather than kept in the exchange.
                for &(group, slot) in pattern.named() {
                    exchange.slots.set(slot, captures.text(usize::from(group), &subject));
                }
                render_with_groups(exchange, value, &captures, &subject, out);
            } else {
                super::render(exchange, value, out);
            }
            !table.volatile
        }
        Definition::Geo { source, proxies, networks, values, default } => {
            let address = match source {
                None => exchange.client_source().map(|(ip, _)| ip),
                Some(source) => forwarded::parse_address(&super::text(exchange, source)),
            };
            let address = match (proxies, exchange.kind()) {
                (Some(proxies), Kind::Request(exchange)) => {
                    address.map(|ip| forwarded::behind(exchange, proxies, ip))
                }
                _ => address,
            };
            let found = address.and_then(|ip| networks.longest(ip)).and_then(|at| values.get(at as usize));
            super::render(exchange, found.unwrap_or(default), out);
            true
        }
        Definition::Listed { source, list, default } => {
            let subject = super::text(exchange, source);
            let view = &exchange.installed.key_views[list.at()];
            let found =
                view.find(&subject, |entry| entry.map(|entry| out.extend_from_slice(entry.value.as_bytes())));
            match found {
                Ok(Some(())) => {}
                Ok(None) => super::render(exchange, default, out),
                Err(why) => exchange.slots.doubt(why),
            }
            false
        }
        Definition::Numbers(table) => {
            super::render(exchange, table.find(&super::text(exchange, &table.source)), out);
            !table.volatile
        }
        Definition::Split { key, shares } => {
            let hash = murmur2(&super::text(exchange, key));
            if let Some(value) = weir_plan::share_of(shares, hash) {
                super::render(exchange, value, out);
            }
            true
        }
    }
}

pub(crate) fn render_with_groups(
    exchange: &impl Traffic,
    template: &weir_plan::Template,
    captures: &weir_plan::Captures,
    subject: &[u8],
    out: &mut Vec<u8>,
) {
    for piece in &template.pieces {
        match piece {
            weir_plan::Piece::Literal(text) => out.extend_from_slice(text.as_bytes()),
            weir_plan::Piece::Var(weir_expr::Var::Capture(group), filters) => {
                let start = out.len();
                out.extend_from_slice(captures.text(usize::from(*group), subject));
                super::apply(filters, out, start);
            }
            weir_plan::Piece::Var(var, filters) => {
                let start = out.len();
                super::vars::append(exchange, var, out);
                super::apply(filters, out, start);
            }
        }
    }
}

/// MurmurHash2, 32 bits, seed 0: what nginx's `split_clients` documents.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = data.len() as u32;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    for (at, &byte) in rest.iter().enumerate() {
        hash ^= u32::from(byte) << (8 * at);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur2_agrees_with_the_published_function() {
        // Computed by Appleby's reference code, seed 0.
        assert_eq!(murmur2(b""), 0);
        assert_ne!(murmur2(b"a"), murmur2(b"b"));
        assert_eq!(murmur2(b"abcd"), murmur2(b"abcd"));
    }
}
