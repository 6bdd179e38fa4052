//! Variables about a session of a TCP service.

use weir_expr::{Peeked, SessionVar};

use super::write::{extend, number, seconds};
use crate::exchange::Session;

/// Appends the value of a variable about a session; false if there is none.
pub(super) fn append(session: &Session, var: SessionVar<'_>, out: &mut Vec<u8>) -> bool {
    match var {
        SessionVar::Peeked(what) => peeked(session, *what, out),
        SessionVar::SessionTime => {
            seconds(out, session.now().saturating_duration_since(session.client.accepted))
        }
        SessionVar::TransportProtocol => extend(out, Some(b"TCP")),
        SessionVar::SessionStatus => number(out, Some(u64::from(session.status))),
    }
}

/// What a session's first bytes say; nothing where they were not read ahead.
fn peeked(session: &Session, what: Peeked, out: &mut Vec<u8>) -> bool {
    let Some(peeked) = &session.peeked else { return false };
    let hello = peeked.hello.as_ref();
    match what {
        Peeked::ServerName => {
            extend(out, hello.map(|hello| &*hello.server_name).filter(|name| !name.is_empty()))
        }
        Peeked::Alpn => extend(out, hello.map(|hello| &*hello.alpn).filter(|name| !name.is_empty())),
        Peeked::HelloType => number(out, hello.map(|_| 1)),
        Peeked::Length => number(out, Some(peeked.length as u64)),
    }
}
