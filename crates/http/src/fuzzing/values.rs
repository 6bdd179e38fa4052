//! Values of fields, and URIs.

use crate::semantics::{ETag, Ranges, accept, content_type, etag, range};
use crate::uri::{Escape, UriError, decode_unreserved, escape, normalize, query, resolve_dots, unescape};
use crate::{Authority, HeaderId, HttpDate, auth, cookie, forwarded, list, scan};

pub(super) fn uri(data: &[u8]) {
    let Some((flags, path)) = data.split_first() else { return };
    let one = resolve_dots(path);
    assert_eq!(resolve_dots(&one), one, "resolved twice, it is another path");
    let open = decode_unreserved(path);
    assert!(open.len() <= path.len());
    let merge = flags & 1 == 0;
    let mut scratch = Vec::new();
    let Ok(found) = normalize(path, merge, &mut scratch) else { return };
    assert_eq!(found.first(), Some(&b'/'));
    assert!(found.len() <= path.len());
    assert!(!found.contains(&0) || path.contains(&0));
    assert!(
        !found.split(|&b| b == b'/').any(|segment| matches!(segment, b"." | b"..")),
        "a dot segment is left"
    );
    assert!(!merge || !found.windows(2).any(|pair| pair == b"//"), "slashes are left");
    let (mut escaped, mut again) = (Vec::new(), Vec::new());
    escape(Escape::Uri, found, &mut escaped);
    if !found.contains(&0) {
        // An encoded LF at the end is refused; a bare one cannot come in a request line.
        let kept = if found.ends_with(b"\n") { Err(UriError::LineFeed) } else { Ok(found) };
        assert_eq!(normalize(&escaped, merge, &mut again), kept, "escaping keeps the path");
    }
}

/// HAProxy's normalizers: none makes a text longer than it can, and what is done twice is done once.
pub(super) fn normalizers(data: &[u8]) {
    use crate::uri::normalizers as each;
    let merged = each::merge_slashes(data);
    assert!(!merged.windows(2).any(|pair| pair == b"//") && each::merge_slashes(&merged) == merged);
    let dotless = each::strip_dot(data);
    assert!(dotless.len() <= data.len() && each::strip_dot(&dotless) == dotless);
    for full in [false, true] {
        // `/..` comes to `/../`, where dots at the root stay.
        assert!(each::strip_dotdot(data, full).len() <= data.len() + 1);
    }
    for strict in [false, true] {
        if let Ok(open) = each::decode_unreserved(data, strict) {
            assert!(open.len() <= data.len());
        }
        if let Ok(upper) = each::uppercase_escapes(data, strict) {
            assert!(upper.eq_ignore_ascii_case(data));
        }
    }
    let sorted = each::sort_query(data);
    assert_eq!(each::sort_query(&sorted), sorted, "sorted twice, it is another query");
    assert!(!each::strip_fragment(data).contains(&b'#'));
    assert!(!each::encode_fragment(data).contains(&b'#'));
}

/// What is read of a trace is written as a text that reads the same.
pub(super) fn trace_context(data: &[u8]) {
    use crate::trace_context::{TraceParent, trace_state};
    if let Some(parent) = TraceParent::parse(data) {
        assert!(parent.trace_id != 0 && parent.span_id != 0);
        assert_eq!(TraceParent::parse(parent.text().as_bytes()), Some(parent));
    }
    if let Some(state) = trace_state(data.split(|&byte| byte == b'\n')) {
        assert!(!state.is_empty() && state.len() <= 512 && state.is_ascii());
    }
}

pub(super) fn date(data: &[u8]) {
    let now = HttpDate::from_unix(1_800_000_000);
    if let Some(date) = HttpDate::parse(data, now) {
        assert_eq!(HttpDate::parse(&date.imf(), now), Some(date));
    }
    if let Some(bytes) = data.first_chunk() {
        let date = HttpDate::from_unix(u64::from_le_bytes(*bytes) % 400_000_000_000);
        assert_eq!(HttpDate::parse(&date.imf(), now), Some(date));
    }
}

pub(super) fn range(data: &[u8]) {
    let Some((&[a, b], value)) = data.split_first_chunk() else { return };
    let length = u64::from(u16::from_le_bytes([a, b]));
    let found = match range::parse(value, length, 8) {
        Ranges::Whole | Ranges::Unsatisfiable => return,
        Ranges::One(range) => vec![range],
        Ranges::Many(ranges) => ranges,
    };
    assert!(found.len() <= 8);
    assert!(found.iter().all(|range| range.start < range.end && range.end <= length));
    assert!(found.iter().map(|range| range.len()).sum::<u64>() <= length);
}

/// Everything else that reads a value: it comes to an end.
pub(super) fn values(data: &[u8]) {
    let (name, value) = query::split(data);
    let value = value.unwrap_or_default();
    assert!(list::items(data).map(<[u8]>::len).sum::<usize>() <= data.len());
    for item in list::items(data) {
        assert_eq!(scan::trim_ows(item), item);
        list::parts(item).for_each(|part| {
            let _ = (list::parameter(part), list::unquote(part));
        });
    }
    if let Some(authority) = Authority::parse(data) {
        assert!(!authority.host.is_empty() && scan::is_field_value(data));
        assert_eq!(Authority::parse(authority.host).map(|again| again.host), Some(authority.host));
    }
    if let Some(tag) = ETag::parse(data) {
        assert!(tag.weak_eq(tag) && tag.strong_eq(tag) != tag.weak);
    }
    if let Some(credentials) = auth::basic(data) {
        assert!(!credentials.user.contains(&b':'));
    }
    let _ = (etag::tags(data).count(), cookie::cookies(data).count(), query::args(data).count());
    let _ = (query::arg(value, name), accept::weight(data), forwarded::address(data), HeaderId::of(data));
    let _ = (content_type::media_type(data), content_type::charset(data), content_type::extension(data));
    for kind in [Escape::Uri, Escape::Args, Escape::Component] {
        let (mut there, mut back) = (Vec::new(), Vec::new());
        escape(kind, data, &mut there);
        unescape(&there, &mut back);
        assert_eq!(back, data);
        assert!(there.iter().all(|b| (0x21..0x7f).contains(b)));
    }
}
