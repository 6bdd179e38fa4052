//! Parts of objects, and conditions on them.
//!
//! Owns: what of an object a request wants.
//! Driven by: `deliver` for objects that are stored, `keep` for those that are on their way.

use weir_http::semantics::{Conditions, ETag, FieldSource as _, IfModifiedSince, Outcome, Validators, range};
use weir_http::{HeaderId, HttpDate, Method, list};

use crate::answer::filters;
use crate::exchange::fields::Fields;
use crate::exchange::{Exchange, caching::PARTIAL};

/// What a request wants of an answer.
pub(super) enum Wanted {
    Whole,
    NotModified,
    Failed,
    Unsatisfiable,
    One(range::ByteRange),
    Many(Vec<range::ByteRange>),
}

/// Whether the first range begins behind this byte, or is counted from an end that nobody knows.
pub(super) fn begins_behind(value: &[u8], most: u64) -> bool {
    let Some((unit, spec)) = value.split_at_checked(6) else { return false };
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return false;
    }
    let start = spec.split(|&byte| byte == b'-').next().unwrap_or_default().trim_ascii();
    // As nginx: `-500` is behind everything.
    start.is_empty()
        || std::str::from_utf8(start)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
            .is_some_and(|at| at > most)
}

/// Judges conditions, then ranges, of an answer whose fields are made and whose body has `length` bytes.
pub(super) fn wanted(exchange: &Exchange, length: Option<u64>) -> Wanted {
    let fields = &exchange.request.fields;
    if !fields.has_any(PARTIAL)
        || exchange.response.status != 200
        || exchange.status_override.is_some_and(|status| status != 200)
    {
        return Wanted::Whole;
    }
    let files = &exchange.route().files;
    let now = HttpDate::from_unix(weir_rt::unix_now().as_secs());
    let (conditions, current) = judged(exchange, now);
    let response = &exchange.response.fields;
    match conditions.judge(current) {
        Outcome::NotModified => return Wanted::NotModified,
        Outcome::Failed => return Wanted::Failed,
        Outcome::Proceed => {}
    }
    // As nginx: parts are given of what the upstream would give parts of.
    let forced = exchange.upstream_settings().is_some_and(|settings| settings.force_ranges);
    let parts = forced || response.all(HeaderId::AcceptRanges).any(|line| list::contains(line, b"bytes"));
    // Of a body that is changed on its way nobody knows them beforehand.
    let content_type = response.first(HeaderId::ContentType).unwrap_or_default();
    let parts = parts && !filters::rewrite(exchange, content_type);
    let asked = fields.value(HeaderId::Range).filter(|_| parts && exchange.request.method == Method::Get);
    let (Some(value), Some(length)) = (asked, length) else { return Wanted::Whole };
    if !conditions.range_applies(current) {
        return Wanted::Whole;
    }
    let most = files.max_ranges.map_or(usize::MAX, |most| most as usize);
    match range::parse(value, length, most) {
        range::Ranges::Whole => Wanted::Whole,
        range::Ranges::One(range) => Wanted::One(range),
        range::Ranges::Many(ranges) => Wanted::Many(ranges),
        range::Ranges::Unsatisfiable => Wanted::Unsatisfiable,
    }
}

/// What decides on conditions: those of the request, and what the answer says of itself.
fn judged(exchange: &Exchange, now: HttpDate) -> (Conditions<&Fields>, Validators<'_>) {
    let conditions = Conditions {
        headers: &exchange.request.fields,
        method: exchange.request.method,
        now,
        since: match exchange.route().files.if_modified_since {
            weir_plan::IfModifiedSince::Off => IfModifiedSince::Off,
            weir_plan::IfModifiedSince::Exact => IfModifiedSince::Exact,
            weir_plan::IfModifiedSince::Before => IfModifiedSince::Before,
        },
    };
    let response = &exchange.response.fields;
    let current = Validators {
        etag: response.first(HeaderId::ETag).and_then(ETag::parse),
        modified: response.first(HeaderId::LastModified).and_then(|value| HttpDate::parse(value, now)),
    };
    (conditions, current)
}

/// Judges ranges of an answer that passes by the cache, where they are given although its upstream does not offer them.
/// Several are not given, nor are conditions judged: they were the upstream's to judge.
pub(super) fn forced(exchange: &Exchange, length: u64) -> Wanted {
    let (fields, response) = (&exchange.request.fields, &exchange.response);
    let content_type = response.fields.first(HeaderId::ContentType).unwrap_or_default();
    let plain = exchange.request.method == Method::Get
        && response.status == 200
        && !filters::rewrite(exchange, content_type);
    let Some(value) = fields.value(HeaderId::Range).filter(|_| plain) else { return Wanted::Whole };
    let now = HttpDate::from_unix(weir_rt::unix_now().as_secs());
    let (conditions, current) = judged(exchange, now);
    if !conditions.range_applies(current) {
        return Wanted::Whole;
    }
    match range::parse(value, length, usize::MAX) {
        range::Ranges::One(range) => Wanted::One(range),
        range::Ranges::Unsatisfiable => Wanted::Unsatisfiable,
        range::Ranges::Whole | range::Ranges::Many(_) => Wanted::Whole,
    }
}

/// Makes an answer the one to a condition that held.
pub(super) fn not_modified(exchange: &mut Exchange) {
    exchange.response.status = 304;
    exchange.response.reason = None;
    for id in
        [HeaderId::ContentType, HeaderId::ContentLength, HeaderId::ContentEncoding, HeaderId::AcceptRanges]
    {
        exchange.response.fields.remove(id);
    }
}

/// Makes an answer the one with a part.
pub(super) fn partial(exchange: &mut Exchange, range: range::ByteRange, length: u64) {
    exchange.response.status = 206;
    exchange.response.reason = None;
    let mut value = Vec::with_capacity(48);
    range::put_content_range(&mut value, range, length);
    let fields = &mut exchange.response.fields;
    fields.remove(HeaderId::ContentLength);
    fields.remove(HeaderId::ContentRange);
    // Parts are offered with the whole alone.
    fields.remove(HeaderId::AcceptRanges);
    fields.push_id(HeaderId::ContentRange, &value);
}

/// Makes an answer the one that no part can be had.
pub(super) fn unsatisfiable(exchange: &mut Exchange, length: u64) {
    let mut value = Vec::new();
    range::put_unsatisfied_range(&mut value, length);
    exchange.response.fields.clear();
    exchange.response.fields.push_id(HeaderId::ContentRange, &value);
}
