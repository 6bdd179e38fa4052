//! What becomes of an upstream's answer: whether an old object takes its place, and whether it is stored.
//!
//! Owns: revalidation, `use_stale`, invalidation, the choice of a key among variants, the filter that copies a body.
//! Never: sends; an answer that is stored passes on its way to the client, changed by nothing here but a range.
//! Driven by: the proxy and FastCGI actions, once the head of an answer is here and again before it goes on.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use weir_cache::{Fill, Key, Meta, Writer};
use weir_expr::settings::ClientAbort;
use weir_http::semantics::{caching::vary, range::ByteRange};
use weir_http::{HeaderId, Method};
use weir_plan::{HeaderSet, Template};

use super::find;
use super::range::{self, Wanted};
use super::rules::{self, Use};
use crate::eval::condition::is_truthy;
use crate::eval::text;
use crate::exchange::fields::Fields;
use crate::exchange::{BodyFilter, BodySize, CacheStatus, Caching, Exchange, Then};
use crate::files::Held;

/// Of [`Meta::flags`]: an error page was shown in its place, and it has no body.
pub(super) const INTERCEPTED: u16 = 2;

/// Takes note of an answer whose status and fields are here. True: an object is to take its place.
#[cold]
pub(crate) fn seen(exchange: &mut Exchange, ignored: &HeaderSet) -> bool {
    let status = exchange.response.status;
    let now = weir_rt::unix_now().as_secs();
    let Some(caching) = &mut exchange.caching else { return false };
    caching.answered = true;
    if caching.invalidates {
        if (200..400).contains(&status) {
            caching.store.remove(&caching.main, Instant::now());
        }
        return false;
    }
    let Some(old) = caching.old.clone() else { return false };
    if status == 304 && caching.asks {
        let found = revalidated(caching, &exchange.response.upstream_fields, ignored, &old, now);
        (caching.instead, caching.status) = (Some(found), Some(CacheStatus::Revalidated));
    } else if replaces(caching, &old, status, now) {
        (caching.instead, caching.status) = (Some(old), Some(CacheStatus::Stale));
    } else {
        return false;
    }
    caching.fill = None;
    exchange.response.reason = None;
    true
}

/// Whether an old object takes the place of an answer with this status.
fn replaces(caching: &Caching, old: &Held, status: u16, now: u64) -> bool {
    let own_word = matches!(status, 500 | 502 | 503 | 504) && rules::may_replace_error(&old.meta, now);
    !rules::must_revalidate(&old.meta)
        && (own_word || caching.settings.settings.stale.statuses.contains(&status))
}

/// The old object in the place of no answer, if it may stand there: of an upstream's failure that would be answered with
/// this status.
pub(super) fn in_place_of_failure(caching: &mut Caching, status: u16) -> Option<Rc<Held>> {
    let old = caching.old.clone().filter(|old| !rules::must_revalidate(&old.meta))?;
    let stale = &caching.settings.settings.stale;
    let wanted = match status {
        504 => stale.timeout,
        502 | 503 => stale.error || stale.invalid_header,
        _ => false,
    };
    let own_word = rules::may_replace_error(&old.meta, weir_rt::unix_now().as_secs());
    (wanted || own_word && matches!(status, 500 | 502 | 503 | 504)).then(|| {
        caching.status = Some(CacheStatus::Stale);
        caching.fill = None;
        old
    })
}

/// The old object, which holds good for as long as the answer says, else as it says itself.
fn revalidated(
    caching: &Caching,
    answer: &Fields,
    ignored: &HeaderSet,
    old: &Rc<Held>,
    now: u64,
) -> Rc<Held> {
    let valid = &caching.settings.settings.valid;
    let judged = |fields: &Fields| rules::judge(fields, ignored, valid, old.meta.status, now);
    let by_itself = || {
        let (bytes, head) = old.head();
        let mut fields = Fields::default();
        fields.load(bytes, head.headers());
        judged(&fields)
    };
    let Some(found) = judged(answer).or_else(by_itself) else { return old.clone() };
    let Meta { flags, family, variant, .. } = old.meta;
    let new = found.meta(old.meta.status, now);
    let meta = Meta { flags: new.flags | flags & INTERCEPTED, family, variant, ..new };
    caching.store.refresh(caching.key, caching.name.clone(), old.meta.clone(), meta.clone());
    old.refreshed(meta).map_or_else(|| old.clone(), Rc::new)
}

/// Begins to store an answer that is about to be sent, if it may be stored, and takes out of it what the client wants.
/// The size that the body has for the client.
#[cold]
pub(crate) fn begin_storing(exchange: &mut Exchange, ignored: &HeaderSet, size: BodySize) -> BodySize {
    let known = match size {
        BodySize::Known(length) => Some(length),
        _ => None,
    };
    let stored = storing(exchange, ignored);
    let Some(caching) = &mut exchange.caching else { return size };
    let whole = caching.whole && !caching.invalidates;
    match stored {
        Some((writer, meta)) => {
            let fill = caching.fill.take();
            let written = caching.written.clone();
            let tee = Tee { writer: Some(writer), meta, expected: known, written, _fill: fill };
            exchange.filters.push(Box::new(tee));
        }
        None => (caching.stores, caching.fill) = (false, None),
    }
    if !whole {
        return size;
    }
    match (range::wanted(exchange, known), known) {
        (Wanted::NotModified, _) => {
            range::not_modified(exchange);
            BodySize::Bodiless
        }
        (Wanted::One(part), Some(length)) => {
            range::partial(exchange, part, length);
            exchange.filters.push(Box::new(Cut::to(part)));
            BodySize::Known(part.len())
        }
        _ => size,
    }
}

/// Takes out of an answer that is not stored what the client wants of it. The size that its body has for the client.
#[cold]
pub(crate) fn cut(exchange: &mut Exchange, size: BodySize) -> BodySize {
    let BodySize::Known(length) = size else { return size };
    let part = match range::forced(exchange, length) {
        Wanted::One(part) => {
            range::partial(exchange, part, length);
            part
        }
        Wanted::Unsatisfiable => {
            range::unsatisfiable(exchange, length);
            exchange.response.status = 416;
            exchange.response.reason = None;
            ByteRange { start: 0, end: 0 }
        }
        _ => {
            let fields = &mut exchange.response.fields;
            if exchange.response.status == 200 && !fields.has(HeaderId::AcceptRanges) {
                fields.push_id(HeaderId::AcceptRanges, b"bytes");
            }
            return size;
        }
    };
    exchange.filters.push(Box::new(Cut::to(part)));
    BodySize::Known(part.len())
}

/// Stores an answer in whose place an error page is shown: that it was so, without its body.
#[cold]
pub(crate) fn intercepted(exchange: &mut Exchange, ignored: &HeaderSet) {
    if let Some((writer, meta)) = storing(exchange, ignored) {
        writer.finish(Meta { flags: meta.flags | INTERCEPTED, ..meta });
    }
    if let Some(caching) = &mut exchange.caching {
        (caching.stores, caching.fill) = (false, None);
    }
}

/// Where the answer goes, and what is known of it. `None`: it is not stored.
fn storing(exchange: &Exchange, ignored: &HeaderSet) -> Option<(Writer, Meta)> {
    let caching = exchange.caching.as_ref().filter(|caching| caching.stores)?;
    let (settings, status) = (&caching.settings, exchange.response.status);
    // Parts and answers to conditions are not the whole; of an answer to HEAD there is no body.
    // A slice is an object of its own, where the key names it.
    let is_slice =
        status == 206 && caching.names_slice && exchange.response.fields.has(HeaderId::ContentRange);
    if matches!(status, 100..200 | 206 | 304) && !is_slice || exchange.upstream_method() == Method::Head {
        return None;
    }
    let now = weir_rt::unix_now().as_secs();
    let fields = &exchange.response.upstream_fields;
    let found = rules::judge(fields, ignored, &settings.settings.valid, status, now)?;
    if is_somebodys(exchange, caching, &found) || is_any(exchange, &settings.no_store) {
        return None;
    }
    let vary = match ignored.contains(HeaderId::Vary, b"vary") {
        true => Vec::new(),
        false => vary(fields.all(HeaderId::Vary))?,
    };
    let (key, family, variant) = place(exchange, caching, &vary);
    let texts = (
        &caching.name[..],
        &vary[..],
        &exchange.response.stored_head(&exchange.response.upstream_fields, exchange.phrases())[..],
    );
    let writer = Writer::new(&caching.store, key, texts, caching.began)?;
    Some((writer, Meta { family, variant, ..found.meta(status, now) }))
}

/// Whether an answer was made for the credentials of its request (RFC 9111 §3.5).
fn is_somebodys(exchange: &Exchange, caching: &Caching, found: &Use) -> bool {
    let settings = &caching.settings;
    exchange.request.fields.has(HeaderId::Authorization)
        && !(found.for_all || settings.key_has_credentials || settings.hides_credentials)
}

/// The key under which an answer is stored, with its family and variant.
fn place(exchange: &Exchange, caching: &Caching, vary: &[u8]) -> (Key, u64, [u8; 16]) {
    if vary.is_empty() {
        return (caching.main, 0, [0; 16]);
    }
    let variant = find::variant(exchange, vary);
    match &caching.first {
        Some(first) if *first.vary == *vary => {
            let family = first.meta.family;
            let key = match variant == first.meta.variant {
                true => caching.main,
                false => find::key_of_variant(caching, vary, family, &variant),
            };
            (key, family, variant)
        }
        _ => (caching.main, exchange.worker.random(), variant),
    }
}

/// Whether one of these is neither empty nor `0`.
pub(super) fn is_any(exchange: &Exchange, templates: &[Template]) -> bool {
    templates.iter().any(|template| is_truthy(&text(exchange, template)))
}

/// What ends the work of an upstream for a client: nothing, where its answer may be stored.
pub(crate) fn client_abort(exchange: &Exchange, setting: ClientAbort) -> ClientAbort {
    if exchange.may_be_stored() { ClientAbort::Ignore } else { setting }
}

/// Copies a body into the store.
struct Tee {
    /// `None`: it is stored, or was given up.
    writer: Option<Writer>,
    meta: Meta,
    /// How long it is, if that was said.
    expected: Option<u64>,
    /// Told how much was stored.
    written: Rc<Cell<Option<u64>>>,
    /// Others wait until it is stored, or this is dropped.
    _fill: Option<Fill>,
}

impl BodyFilter for Tee {
    fn pass<'a>(&'a mut self, piece: &'a [u8], then: Then) -> &'a [u8] {
        let Some(writer) = &mut self.writer else { return piece };
        if !piece.is_empty() && !writer.push(piece) {
            self.writer = None;
            return piece;
        }
        // The client knows that it has all as soon as it has this piece, and may ask again at once.
        let length = writer.length();
        let whole = self.expected.map_or(then == Then::End, |expected| length == expected);
        if whole && let Some(writer) = self.writer.take() {
            writer.finish(self.meta.clone());
            self.written.set(Some(length));
            self._fill = None;
        }
        piece
    }

    fn is_crowded(&self) -> bool {
        self.writer.as_ref().is_some_and(Writer::is_crowded)
    }
}

/// Lets a part of a body pass.
pub(super) struct Cut {
    span: ByteRange,
    at: u64,
}

impl Cut {
    pub(super) fn to(span: ByteRange) -> Self {
        Self { span, at: 0 }
    }
}

impl BodyFilter for Cut {
    fn pass<'a>(&'a mut self, piece: &'a [u8], _: Then) -> &'a [u8] {
        let begins = self.at;
        self.at += piece.len() as u64;
        let inside = |at: u64| at.clamp(begins, self.at).saturating_sub(begins) as usize;
        &piece[inside(self.span.start)..inside(self.span.end)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_cut_out_of_pieces() {
        let mut cut = Cut::to(ByteRange { start: 3, end: 8 });
        let pieces = ["ab", "", "cdef", "gh", "ijkl"];
        let passed: Vec<u8> =
            pieces.iter().flat_map(|piece| cut.pass(piece.as_bytes(), Then::More).to_vec()).collect();
        assert_eq!(passed, b"defgh");
    }
}
