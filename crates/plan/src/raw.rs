//! Answers that are files with whole HTTP responses (HAProxy `errorfile`).
//!
//! Owns: what of such a file is status, fields and body.
//! Never: sends its bytes as they are: framing and connection are of the exchange at hand.
//! Driven by: `lower`, at load.

use crate::{Cause, HeaderName, Respond, RespondBody, Template};

/// The answer of a file's text. Its status is the file's, or `status` where the file has none.
#[must_use]
pub fn whole_response(status: u16, bytes: &[u8]) -> Respond {
    let (head, body) = match memchr::memmem::find(bytes, b"\r\n\r\n") {
        Some(at) => (&bytes[..at], &bytes[at + 4..]),
        None => match memchr::memmem::find(bytes, b"\n\n") {
            Some(at) => (&bytes[..at], &bytes[at + 2..]),
            None => (&b""[..], bytes),
        },
    };
    let mut respond = Respond {
        status,
        body: RespondBody::Bytes(body.into()),
        content_type: Some(Template::default()),
        headers: Vec::new(),
        error_pages: false,
        reason: None,
        cause: Cause::Content,
    };
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    // `HTTP/1.0 503 Service Unavailable`
    let mut first = lines.next().unwrap_or_default().splitn(3, ' ').skip(1);
    let own = first.next().and_then(|own| own.parse().ok()).filter(|own| (200..=599).contains(own));
    respond.status = own.unwrap_or(status);
    respond.reason = first.next().map(|reason| reason.trim().into());
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        let framing = ["content-length", "transfer-encoding", "connection"];
        if !framing.iter().any(|other| name.eq_ignore_ascii_case(other)) {
            respond.headers.push((HeaderName::new(name.trim()), Template::literal(value.trim())));
        }
    }
    respond
}
