//! Heads: the same in pieces, the same when written and read again.

use super::{ends, pieces};
use crate::fastcgi::CgiHead;
use crate::{
    HeadRules, HeadWriter, HeaderId, Method, Parsed, Phrases, RequestHead, ResponseHead, UnusualNames,
    Version,
};

fn rules(len: usize) -> HeadRules {
    // Odd inputs meet narrow bounds.
    if len % 2 == 1 {
        HeadRules {
            first_line: 40,
            field_line: 40,
            head: 200,
            fields: 6,
            unusual_names: UnusualNames::Keep,
            mends: len % 4 == 1,
        }
    } else {
        HeadRules { unusual_names: UnusualNames::Keep, ..HeadRules::default() }
    }
}

/// Every line gets its end, so that an error is seen however the bytes come.
fn ended(rest: &[u8]) -> Vec<u8> {
    [rest, b"\r\n\r\n"].concat()
}

type Fields = Vec<(HeaderId, Vec<u8>, Vec<u8>)>;

fn owned<'a>(fields: impl Iterator<Item = (HeaderId, &'a [u8], &'a [u8])>) -> Fields {
    fields.map(|(id, name, value)| (id, name.to_vec(), value.to_vec())).collect()
}

pub(super) fn request(data: &[u8]) {
    let (step, rest) = pieces(data);
    let text = ended(rest);
    let rules = rules(text.len());
    let mut whole = RequestHead::new();
    let at_once = whole.parse(&text, &rules);
    let mut head = RequestHead::new();
    let in_pieces = ends(text.len(), step)
        .map(|end| head.parse(&text[..end], &rules))
        .find(|found| !matches!(found, Ok(Parsed::NeedMore)));
    let Ok(Parsed::Whole(len)) = at_once else {
        assert!(!matches!(in_pieces, Some(Ok(_))), "refused at once, taken in pieces");
        assert!(at_once.is_err() == in_pieces.is_some(), "refused in one way only");
        return;
    };
    assert_eq!(in_pieces, Some(Ok(Parsed::Whole(len))));
    let (a, b) = (whole.view(&text), head.view(&text));
    assert_eq!(owned(a.headers().iter()), owned(b.headers().iter()));
    assert_eq!((a.method(), a.target(), a.framing()), (b.method(), b.target(), b.framing()));
    touch_request(&a);

    let mut out = Vec::new();
    let mut writer = HeadWriter::request(&mut out, a.method_text(), a.target(), a.version())
        .expect("what was read can be written");
    a.headers().iter().for_each(|(_, name, value)| writer.forward(name, value));
    writer.end();
    let wide = HeadRules { unusual_names: UnusualNames::Keep, ..HeadRules::default() };
    let mut again = RequestHead::new();
    assert_eq!(again.parse(&out, &wide), Ok(Parsed::Whole(out.len())));
    let c = again.view(&out);
    assert_eq!(owned(a.headers().iter()), owned(c.headers().iter()));
    assert_eq!(owned(a.headers().end_to_end()), owned(c.headers().end_to_end()));
    assert_eq!((a.path(), a.query(), a.authority()), (c.path(), c.query(), c.authority()));
    assert_eq!((a.framing(), a.keep_alive()), (c.framing(), c.keep_alive()));
}

fn touch_request(request: &crate::Request<'_>) {
    assert!(request.authority().is_some() || request.version() == Version::Http10);
    assert!(!request.path().is_empty());
    let _ = (request.line(), request.origin_target(), request.upgrade(), request.is_websocket());
    let _ = (request.expects_continue(), request.expects_unknown(), request.takes_trailers());
}

pub(super) fn response(data: &[u8]) {
    let (step, rest) = pieces(data);
    let text = ended(rest);
    let rules = rules(text.len());
    let mut whole = ResponseHead::new();
    let at_once = whole.parse(&text, &rules);
    let mut head = ResponseHead::new();
    let in_pieces = ends(text.len(), step)
        .map(|end| head.parse(&text[..end], &rules))
        .find(|found| !matches!(found, Ok(Parsed::NeedMore)));
    let Ok(Parsed::Whole(len)) = at_once else {
        assert!(!matches!(in_pieces, Some(Ok(_))), "refused at once, taken in pieces");
        assert!(at_once.is_err() == in_pieces.is_some(), "refused in one way only");
        return;
    };
    assert_eq!(in_pieces, Some(Ok(Parsed::Whole(len))));
    let (a, b) = (whole.view(&text), head.view(&text));
    assert_eq!(owned(a.headers().iter()), owned(b.headers().iter()));
    assert_eq!((a.status(), a.reason()), (b.status(), b.reason()));
    for method in [Method::Get, Method::Head, Method::Connect] {
        assert_eq!(a.framing(method), b.framing(method));
        assert!(!a.reusable(method) || a.framing(method) != crate::Framing::UntilClose);
    }

    let mut out = Vec::new();
    let mut writer = HeadWriter::response_with_reason(&mut out, a.status(), a.reason());
    a.headers().iter().for_each(|(_, name, value)| writer.forward(name, value));
    writer.end();
    let mut again = ResponseHead::new();
    let wide = HeadRules { unusual_names: UnusualNames::Keep, ..HeadRules::default() };
    assert_eq!(again.parse(&out, &wide), Ok(Parsed::Whole(out.len())));
    let c = again.view(&out);
    assert_eq!(owned(a.headers().iter()), owned(c.headers().iter()));
    assert_eq!((a.status(), a.framing(Method::Get)), (c.status(), c.framing(Method::Get)));
}

pub(super) fn cgi(data: &[u8]) {
    let (step, rest) = pieces(data);
    let text = ended(rest);
    let rules = rules(text.len());
    let new = if rest.starts_with(b"HTTP") { CgiHead::with_status_line } else { CgiHead::new };
    let mut whole = new();
    let at_once = whole.parse(&text, &rules);
    let mut head = new();
    let in_pieces = ends(text.len(), step)
        .map(|end| head.parse(&text[..end], &rules))
        .find(|found| !matches!(found, Ok(Parsed::NeedMore)));
    match at_once {
        Ok(Parsed::Whole(len)) => {
            assert_eq!(in_pieces, Some(Ok(Parsed::Whole(len))));
            assert!((100..1000).contains(&whole.status()));
            assert_eq!((whole.status(), whole.reason(&text)), (head.status(), head.reason(&text)));
            let mut out = Vec::new();
            let mut writer = HeadWriter::response(&mut out, whole.status(), Phrases::default());
            for (_, name, value) in whole.headers(&text).end_to_end() {
                writer.field(name, value).expect("what was read can be written");
            }
            writer.end();
        }
        _ => assert!(!matches!(in_pieces, Some(Ok(_)))),
    }
}

/// Whatever is put into a head, it stays one field.
pub(super) fn writer(data: &[u8]) {
    let split = data.first().map_or(0, |n| usize::from(*n)).min(data.len());
    let (name, value) = data.split_at(split);
    let mut out = Vec::new();
    let mut writer = HeadWriter::response_with_reason(&mut out, 200, value);
    let field = writer.field(name, value);
    let known = writer.known(HeaderId::Location, value);
    writer.end();
    let mut head = ResponseHead::new();
    let rules = HeadRules {
        first_line: 1 << 20,
        field_line: 1 << 20,
        head: 1 << 20,
        unusual_names: UnusualNames::Keep,
        ..HeadRules::default()
    };
    match head.parse(&out, &rules) {
        Ok(found) => {
            assert_eq!(found, Parsed::Whole(out.len()));
            let count = usize::from(field.is_ok()) + usize::from(known.is_ok());
            assert_eq!(head.view(&out).headers().len(), count);
        }
        // A framing field of nonsense, or one longer than any parser takes.
        Err(_) => assert!(field.is_ok() && (HeaderId::of(name) != HeaderId::Unknown || data.len() > 60_000)),
    }
}
