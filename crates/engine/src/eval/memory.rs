//! Rules about caches in memory: which response is used, and which is kept.
//!
//! Owns: the name of a request, what of it a response may vary by, what may be stored and for how long (RFC 9111).
//! Never: sends; the walk answers with what was found.
//! Driven by: programs of requests (`look`) and of responses (`store`).
//! Why: judged more strictly than HAProxy does in three points. A response that sets a cookie is kept only if it says that
//! it is for all; its age counts against its time; a `no-cache` that names fields is one.

use weir_cache::Coming;
use weir_expr::settings;
use weir_http::semantics::FieldSource as _;
use weir_http::semantics::accept::coding_weight;
use weir_http::semantics::caching::{ResponseControl, seconds, vary};
use weir_http::{HeaderId, HttpDate, Method, Version, list};
use weir_plan::MemoryCacheIx;

use crate::exchange::fields::Fields;
use crate::exchange::memory::Looked;
use crate::exchange::{BodyFilter, Exchange, Then};
use crate::files::remembered::{Remembered, Variant, VariesBy};

/// Codings of bodies that are known: of others nobody can say who takes them.
const CODINGS: &[&[u8]] = &[
    b"aes128gcm",
    b"br",
    b"compress",
    b"dcb",
    b"dcz",
    b"deflate",
    b"exi",
    b"gzip",
    b"identity",
    b"pack200-gzip",
    b"x-compress",
    b"x-gzip",
    b"zstd",
];

/// Looks for a response to the request in a cache.
#[cold]
pub(super) fn look(exchange: &mut Exchange, cache: MemoryCacheIx) {
    if is_found(exchange) {
        return;
    }
    let for_pool = exchange.route().counts_for.is_some();
    let mut looked = exchange.looked.take().unwrap_or_else(|| {
        Box::new(Looked { name: name(exchange), found: None, served: false, for_pool, times: 0 })
    });
    if may_use(exchange) {
        looked.times += 1;
        let memory = &exchange.installed.prepared.memories[cache.at()];
        let now = weir_rt::unix_now().as_secs();
        let found = memory.find(&looked.name, now, |response| fits(exchange, &response.variant));
        looked.found = found.map(|found| (cache, found));
    }
    exchange.looked = Some(looked);
}

/// Whether a response was found.
pub(crate) fn is_found(exchange: &Exchange) -> bool {
    exchange.looked.as_ref().is_some_and(|looked| looked.found.is_some())
}

/// Whether a response was found, and is still to be answered with.
pub(crate) fn is_due(exchange: &Exchange) -> bool {
    exchange.looked.as_ref().is_some_and(|looked| looked.found.is_some() && !looked.served)
}

/// Host and target: as HAProxy, whatever the scheme.
fn name(exchange: &Exchange) -> Vec<u8> {
    let request = &exchange.request;
    let host = request.fields.first(HeaderId::Host).unwrap_or(&request.host);
    let mark: &[u8] = if request.query.is_empty() { b"" } else { b"?" };
    [host, &request.raw_path, mark, &request.query].concat()
}

/// Whether a request may be answered from a cache at all.
fn may_use(exchange: &Exchange) -> bool {
    let request = &exchange.request;
    let fields = &request.fields;
    matches!(request.method, Method::Get | Method::Head)
        && request.version >= Version::Http11
        && !request.upgrade
        && !fields.has(HeaderId::Authorization)
        && !wants_fresh(fields)
}

/// Whether the client wants it from the origin (RFC 9111 §5.2.1, §5.4).
fn wants_fresh(fields: &Fields) -> bool {
    if !fields.has(HeaderId::CacheControl) {
        return fields.all(HeaderId::Pragma).any(|line| list::contains(line, b"no-cache"));
    }
    fields.all(HeaderId::CacheControl).flat_map(list::items).any(|item| {
        let (name, _) = list::parameter(item);
        name.eq_ignore_ascii_case(b"no-cache") || name.eq_ignore_ascii_case(b"max-age")
    })
}

/// Whether a response of this variant is for the request.
fn fits(exchange: &Exchange, variant: &Variant) -> bool {
    let fields = &exchange.request.fields;
    let same = |counts: bool, id: HeaderId, value: &Option<Box<[u8]>>| {
        !counts || only(fields, id).is_some_and(|found| found == value.as_deref())
    };
    same(variant.by.referer, HeaderId::Referer, &variant.referer)
        && same(variant.by.origin, HeaderId::Origin, &variant.origin)
        && (!variant.by.encoding || variant.codings.iter().all(|coding| takes(fields, coding)))
}

/// Whether a client takes a coding; one that does not say takes all (RFC 9110 §12.5.3).
fn takes(fields: &Fields, coding: &[u8]) -> bool {
    if !fields.has(HeaderId::AcceptEncoding) {
        return true;
    }
    let weight = |coding: &[u8]| coding_weight(fields.all(HeaderId::AcceptEncoding), coding);
    match weight(coding).or_else(|| weight(b"*")) {
        Some(weight) => weight > 0,
        None => coding == b"identity",
    }
}

/// A field's value, or that there is none. `None`: it has several.
fn only(fields: &Fields, id: HeaderId) -> Option<Option<&[u8]>> {
    (!fields.repeats(id)).then(|| fields.first(id))
}

/// Stores the response that has come, if it may be stored, once its body has passed.
#[cold]
pub(super) fn store(exchange: &mut Exchange, cache: MemoryCacheIx) {
    let Some(looked) = exchange.looked.as_ref().filter(|looked| looked.found.is_none()) else { return };
    let memory = &exchange.installed.prepared.memories[cache.at()];
    let status = exchange.response.status;
    let safe =
        matches!(exchange.request.method, Method::Get | Method::Head | Method::Options | Method::Trace);
    if !safe && (200..400).contains(&status) {
        // What is stored is out of date (RFC 9111 §4.4).
        memory.remove(&looked.name);
        return;
    }
    let now = weir_rt::unix_now().as_secs();
    let settings = &exchange.installed.plan.memory_caches[cache.at()];
    let Some((fresh, age)) = judge(exchange, settings, now) else { return };
    let Some(variant) = variant(exchange, settings) else { return };
    let Some(coming) = memory.expect() else { return };
    let length = exchange.response.upstream_fields.first(HeaderId::ContentLength);
    let expected = length.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    if expected.is_some_and(|expected: u64| expected > settings.object) {
        return;
    }
    let head = exchange.response.stored_head(&exchange.response.fields, exchange.phrases());
    let about = (now, age, now + fresh);
    let tee = Tee { coming: Some(coming), name: looked.name.clone(), variant, about, head, expected };
    exchange.filters.push(Box::new(tee));
}

/// For how many seconds a response may be used, and its age. `None`: it is not stored.
fn judge(exchange: &Exchange, settings: &settings::MemoryCache, now: u64) -> Option<(u64, u64)> {
    let (request, fields) = (&exchange.request, &exchange.response.fields);
    if request.method != Method::Get || request.version < Version::Http11 || exchange.response.status != 200 {
        return None;
    }
    if request.fields.all(HeaderId::CacheControl).any(|line| list::contains(line, b"no-store")) {
        return None;
    }
    let control = ResponseControl::read(fields.all(HeaderId::CacheControl));
    let somebodys = request.fields.has(HeaderId::Authorization) || fields.has(HeaderId::SetCookie);
    let pragma = fields.all(HeaderId::Pragma).any(|line| list::contains(line, b"no-cache"));
    if control.forbids() || pragma || somebodys && !control.is_for_all() {
        return None;
    }
    let most = settings.max_age.as_secs();
    let age = fields.first(HeaderId::Age).map_or(0, seconds);
    let said = match (control.lifetime(), fields.first(HeaderId::Expires)) {
        (Some(lifetime), _) => Some(lifetime),
        (None, Some(value)) => {
            let at = HttpDate::parse(value, HttpDate::from_unix(now));
            Some(at.map_or(0, |at| at.unix().saturating_sub(now)))
        }
        (None, None) => None,
    };
    let fresh = match said {
        Some(lifetime) => lifetime.saturating_sub(age),
        None => {
            let validated = fields.has(HeaderId::ETag) || fields.has(HeaderId::LastModified);
            if validated { most.saturating_sub(age) } else { 0 }
        }
    };
    (fresh > 0).then_some((fresh.min(most), age))
}

/// For which requests a response is. `None`: that cannot be said, so it is not stored.
fn variant(exchange: &Exchange, settings: &settings::MemoryCache) -> Option<Variant> {
    let (asked, fields) = (&exchange.request.fields, &exchange.response.fields);
    let mut variant = Variant::default();
    if !fields.has(HeaderId::Vary) {
        return Some(variant);
    }
    settings.variants?;
    for name in vary(fields.all(HeaderId::Vary))?.split(|&byte| byte == b',') {
        match name {
            b"" => {}
            b"accept-encoding" => variant.by.encoding = true,
            b"referer" => variant.by.referer = true,
            b"origin" => variant.by.origin = true,
            _ => return None,
        }
    }
    if variant.by.encoding {
        let lines = fields.all(HeaderId::ContentEncoding).flat_map(list::items);
        variant.codings = lines.map(|coding| coding.to_ascii_lowercase().into()).collect();
        if !variant.codings.iter().all(|coding| CODINGS.contains(&&**coding)) {
            return None;
        }
        if variant.codings.is_empty() {
            variant.codings.push((*b"identity").into());
        }
        variant.codings.sort_unstable();
    }
    let VariesBy { referer, origin, .. } = variant.by;
    if referer {
        variant.referer = only(asked, HeaderId::Referer)?.map(Into::into);
    }
    if origin {
        variant.origin = only(asked, HeaderId::Origin)?.map(Into::into);
    }
    Some(variant)
}

/// Copies a body that passes.
struct Tee {
    /// `None`: it is stored, or was given up.
    coming: Option<Coming<Remembered>>,
    name: Vec<u8>,
    variant: Variant,
    /// When it came, its age then, and when it is too old.
    about: (u64, u64, u64),
    head: Vec<u8>,
    /// How long it is, if that was said.
    expected: Option<u64>,
}

impl BodyFilter for Tee {
    fn pass<'a>(&'a mut self, piece: &'a [u8], then: Then) -> &'a [u8] {
        let Some(coming) = &mut self.coming else { return piece };
        if !coming.push(piece) {
            self.coming = None;
            return piece;
        }
        // The client knows that it has all as soon as it has this piece, and may ask again at once.
        let length = coming.length();
        let whole = self.expected.map_or(then == Then::End, |expected| length == expected);
        if whole && let Some(coming) = self.coming.take() {
            let (variant, head) = (std::mem::take(&mut self.variant), std::mem::take(&mut self.head));
            coming.keep(&self.name, self.about.0, |body| Remembered::new(variant, self.about, head, body));
        }
        piece
    }
}
