//! Whether an answer to a check is what is expected.

use std::sync::Arc;

use weir_expr::check::{Expect, TextMatch};
use weir_http::list;
use weir_plan::{MatchFailed, Pattern};

type What = Expect<Arc<Pattern>>;

/// A response to a check.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) body: Vec<u8>,
}

impl Response {
    /// The head of a response.
    pub(super) fn of(head: &weir_http::Response<'_>) -> Self {
        let headers = head.headers().iter().map(|(_, name, value)| (name.to_vec(), value.to_vec()));
        Self { status: head.status(), headers: headers.collect(), body: Vec::new() }
    }
}

/// Whether a response is so.
///
/// # Errors
/// A pattern gave up.
pub(super) fn meets(what: &What, response: &Response) -> Result<bool, MatchFailed> {
    let status = response.status;
    Ok(match what {
        Expect::Status(ranges) => ranges.iter().any(|(low, high)| (*low..=*high).contains(&status)),
        Expect::StatusMatches(pattern) => pattern.is_match(status.to_string().as_bytes())?,
        Expect::Body(text) => memchr::memmem::find(&response.body, text.as_bytes()).is_some(),
        Expect::BodyMatches(pattern) => pattern.is_match(&response.body)?,
        Expect::Header { name, value, full } => {
            for (field, line) in &response.headers {
                if !is(name, field, true)? {
                    continue;
                }
                let Some(value) = value else { return Ok(true) };
                let whole = [line.as_slice()];
                let mut members = list::items(line);
                let mut whole = whole.into_iter();
                let values: &mut dyn Iterator<Item = &[u8]> = if *full { &mut whole } else { &mut members };
                for one in values {
                    if is(value, one, false)? {
                        return Ok(true);
                    }
                }
            }
            false
        }
        Expect::Bytes(_) | Expect::BytesMatch(_) | Expect::HexMatches(_) => false,
    })
}

/// Whether bytes that were received are so.
///
/// # Errors
/// A pattern gave up.
pub(super) fn has_come(what: &What, received: &[u8]) -> Result<bool, MatchFailed> {
    match what {
        Expect::Bytes(bytes) => Ok(memchr::memmem::find(received, bytes).is_some()),
        Expect::BytesMatch(pattern) => pattern.is_match(received),
        Expect::HexMatches(pattern) => {
            let digits: Vec<u8> =
                received.iter().flat_map(|byte| format!("{byte:02X}").into_bytes()).collect();
            pattern.is_match(&digits)
        }
        _ => Ok(false),
    }
}

fn is(wanted: &TextMatch<Arc<Pattern>>, text: &[u8], is_name: bool) -> Result<bool, MatchFailed> {
    let lowered;
    let text = match is_name {
        true => {
            lowered = text.to_ascii_lowercase();
            &lowered
        }
        false => text,
    };
    let given = |wanted: &str| match is_name {
        true => wanted.to_ascii_lowercase().into_bytes(),
        false => wanted.as_bytes().to_vec(),
    };
    Ok(match wanted {
        TextMatch::Is(wanted) => text == given(wanted),
        TextMatch::Begins(wanted) => text.starts_with(&given(wanted)),
        TextMatch::Ends(wanted) => text.ends_with(&given(wanted)),
        TextMatch::Contains(wanted) => memchr::memmem::find(text, &given(wanted)).is_some(),
        TextMatch::Matches(pattern) => pattern.is_match(text)?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    fn response() -> Response {
        let header = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let headers = vec![header("X-Role", "primary, writable"), header("server", "db")];
        Response { status: 204, headers, body: b"state: fine".to_vec() }
    }

    #[test]
    fn answers_are_judged_by_status_body_and_fields() {
        let field = |name: &str, value: Option<TextMatch<Arc<Pattern>>>, full| What::Header {
            name: TextMatch::Is(name.to_owned()),
            value,
            full,
        };
        let text = |text: &str| Some(TextMatch::Is(text.to_owned()));
        let cases = [
            (What::Status(vec![(200, 200), (202, 205)]), true),
            (What::Status(vec![(200, 203)]), false),
            (What::Body("fine".into()), true),
            (What::Body("bad".into()), false),
            (field("x-role", None, false), true),
            (field("x-none", None, false), false),
            (field("x-role", text("writable"), false), true),
            (field("x-role", text("writable"), true), false),
            (field("x-role", text("primary, writable"), true), true),
            (field("Server", Some(TextMatch::Begins("d".into())), false), true),
            (field("Server", Some(TextMatch::Ends("d".into())), false), false),
            (field("Server", Some(TextMatch::Contains("b".into())), false), true),
        ];
        for (what, expected) in cases {
            assert_eq!(meets(&what, &response()).unwrap(), expected, "{what:?}");
        }
    }

    #[test]
    fn bytes_are_found_anywhere() {
        assert!(has_come(&What::Bytes(b"PONG".to_vec()), b"+PONG\r\n").unwrap());
        assert!(!has_come(&What::Bytes(b"PONG".to_vec()), b"+PON").unwrap());
    }
}
