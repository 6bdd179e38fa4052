//! What ends at this hop: RFC 9110 §7.6.1.
//!
//! Owns: the options of the Connection field, and the marking of hop-by-hop fields.
//! Never: writes; `write` adds the options of the next hop.
//! Driven by: the head parsers, once a head.
//! Why: fields that Connection names are dropped in both directions, as the RFC wants and nginx does not. Fields that
//! every recipient needs can not be named away: else a client could strip Host from its own request.

use crate::field::{FieldTable, Headers};
use crate::list;
use crate::method::Version;
use crate::name::HeaderId;

/// The options of a Connection field that mean something to Weir.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionOptions {
    /// `close`.
    pub close: bool,
    /// `keep-alive`.
    pub keep_alive: bool,
    /// `upgrade`; without it an Upgrade field means nothing.
    pub upgrade: bool,
    /// Names more unknown fields than [`MAX_NOMINATED`].
    pub(crate) excessive: bool,
}

/// Most unknown fields that a Connection field may name: each is compared with every field of the head.
pub(crate) const MAX_NOMINATED: usize = 32;

/// Fields that Connection can not name away: they belong to every recipient, or frame and route the message.
const NEVER: u128 = HeaderId::Host.bit()
    | HeaderId::ContentLength.bit()
    | HeaderId::ContentType.bit()
    | HeaderId::ContentEncoding.bit()
    | HeaderId::CacheControl.bit()
    | HeaderId::Date.bit();

impl ConnectionOptions {
    /// Whether the connection stays open after a message of this version: RFC 9112 §9.3.
    #[must_use]
    pub fn persists(self, version: Version) -> bool {
        !self.close && (version >= Version::Http11 || self.keep_alive)
    }
}

/// Reads Connection and marks the fields that it names. Those that always end here are marked already.
#[inline]
pub(crate) fn analyse(table: &mut FieldTable, buf: &[u8]) -> ConnectionOptions {
    let headers = table.view(buf);
    if !headers.has(HeaderId::Connection) {
        return ConnectionOptions::default();
    }
    if !headers.repeats(HeaderId::Connection) {
        let value = headers.value(HeaderId::Connection).unwrap_or_default();
        if value.eq_ignore_ascii_case(b"keep-alive") {
            return ConnectionOptions { keep_alive: true, ..ConnectionOptions::default() };
        }
        if value.eq_ignore_ascii_case(b"close") {
            return ConnectionOptions { close: true, ..ConnectionOptions::default() };
        }
    }
    mark_nominated(table, buf)
}

fn mark_nominated(table: &mut FieldTable, buf: &[u8]) -> ConnectionOptions {
    let nominated = options(table, buf);
    let known = nominated.known & !NEVER;
    let unknown = &nominated.unknown[..nominated.count.min(MAX_NOMINATED)];
    if known != 0 || !unknown.is_empty() {
        table.mark_hop_by_hop(buf, |id, name| {
            known & id.bit() != 0
                || (id == HeaderId::Unknown && unknown.iter().any(|other| other.eq_ignore_ascii_case(name)))
        });
    }
    nominated.options
}

struct Nominated<'a> {
    options: ConnectionOptions,
    known: u128,
    unknown: [&'a [u8]; MAX_NOMINATED],
    count: usize,
}

fn options<'b>(table: &FieldTable, buf: &'b [u8]) -> Nominated<'b> {
    let mut found = Nominated {
        options: ConnectionOptions::default(),
        known: 0,
        unknown: [&[]; MAX_NOMINATED],
        count: 0,
    };
    for option in table.values(buf, HeaderId::Connection).flat_map(list::items) {
        note(&mut found, option);
    }
    found.options.excessive = found.count > MAX_NOMINATED;
    found
}

fn note<'a>(found: &mut Nominated<'a>, option: &'a [u8]) {
    if option.eq_ignore_ascii_case(b"close") {
        found.options.close = true;
    } else if option.eq_ignore_ascii_case(b"keep-alive") {
        found.options.keep_alive = true;
    } else if option.eq_ignore_ascii_case(b"upgrade") {
        found.options.upgrade = true;
    } else {
        let id = HeaderId::of(option);
        found.known |= id.bit();
        if id == HeaderId::Unknown {
            if let Some(slot) = found.unknown.get_mut(found.count) {
                *slot = option;
            }
            found.count += 1;
        }
    }
}

/// The protocols that an Upgrade field offers and that may be passed on: everything but HTTP itself. `h2c` would
/// switch the upstream connection to a protocol whose requests nobody between would check.
pub(crate) fn offered_upgrades(headers: Headers<'_>) -> impl Iterator<Item = &[u8]> {
    headers.values(HeaderId::Upgrade).flat_map(passable_upgrades)
}

/// Of the protocols in the value of an Upgrade field, those that may be passed on.
pub fn passable_upgrades(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    list::items(value).filter(|protocol| !is_http_protocol(protocol))
}

fn is_http_protocol(protocol: &[u8]) -> bool {
    let name = protocol.split(|&b| b == b'/').next().unwrap_or_default();
    [b"h2c".as_slice(), b"h2", b"h3", b"http", b"tls"].iter().any(|other| name.eq_ignore_ascii_case(other))
}
