//! Variables about a session of a TCP service.

use weir_expr::{Peeked, SessionVar};

use super::write::{extend, number, seconds, text_of, three_digits};
use crate::exchange::Session;

/// Appends the value of a variable about a session; false if there is none.
pub(super) fn append(session: &Session, var: SessionVar<'_>, out: &mut Vec<u8>) -> bool {
    match var {
        SessionVar::Peeked(what) => peeked(session, *what, out),
        SessionVar::SessionTime => {
            seconds(out, session.now().saturating_duration_since(session.client.accepted))
        }
        SessionVar::TransportProtocol => extend(out, Some(if session.datagrams { b"UDP" } else { b"TCP" })),
        SessionVar::SessionStatus => three_digits(out, session.status.into()),
    }
}

/// What a session's first bytes say; nothing where they were not read ahead.
fn peeked(session: &Session, what: Peeked, out: &mut Vec<u8>) -> bool {
    match (what, &session.answered) {
        (Peeked::AnswerLength, Some(bytes)) => return number(out, Some(bytes.len() as u64)),
        (Peeked::AnswerBytes, Some(bytes)) => return text_of(out, bytes),
        _ => {}
    }
    let Some(peeked) = &session.peeked else { return false };
    let hello = peeked.hello.as_ref();
    match what {
        Peeked::ServerName => {
            extend(out, hello.map(|hello| &*hello.server_name).filter(|name| !name.is_empty()))
        }
        Peeked::Alpn => extend(out, hello.map(|hello| &*hello.alpn).filter(|name| !name.is_empty())),
        // nginx's: what a hello does not say is empty; without a hello there is no value.
        Peeked::Name => extend(out, hello.map(|hello| &*hello.server_name)),
        Peeked::AlpnProtocols => extend(out, hello.map(|hello| &*hello.protocols)),
        Peeked::Protocol => extend(out, hello.map(|hello| version_name(hello.version))),
        Peeked::HelloType => number(out, hello.map(|_| 1)),
        Peeked::Length => number(out, Some(peeked.bytes.len() as u64)),
        Peeked::Bytes => text_of(out, &peeked.bytes),
        Peeked::AnswerLength | Peeked::AnswerBytes => false,
    }
}

/// A version as nginx spells it.
fn version_name(version: (u8, u8)) -> &'static [u8] {
    match version {
        (3, 0) => b"SSLv3",
        (3, 1) => b"TLSv1",
        (3, 2) => b"TLSv1.1",
        (3, 3) => b"TLSv1.2",
        (3, 4) => b"TLSv1.3",
        _ => b"",
    }
}
