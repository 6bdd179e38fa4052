//! Compression of answers.
//!
//! Owns: deciding whether an answer is compressed and by what (nginx's gzip module and its kin).
//! Never: compresses; `gzip`, `brotli` and `zstd` do. Never twice: what has a Content-Encoding passes as it is.
//! Driven by: `answer::filters`.

mod brotli;
mod gzip;
mod zstd;

use weir_expr::settings::{ContentCoding, GzipProxied};
use weir_http::semantics::accept;
use weir_http::{HeaderId, HttpDate, Method, Version};
use weir_plan::Compression;

use crate::exchange::{BodyFilter, BodySize, Exchange};

/// Decides on compression; the size that the body then has.
pub(crate) fn begin(exchange: &mut Exchange, size: BodySize) -> BodySize {
    let installed = exchange.installed.clone();
    let offered = &installed.plan.route(exchange.route).settings.compression;
    if offered.iter().any(|one| one.settings.vary && fits(exchange, one, size)) {
        exchange.response.fields.push_id(HeaderId::Vary, b"Accept-Encoding");
    }
    let Some(chosen) = offered.iter().find(|one| fits(exchange, one, size) && wanted(exchange, one)) else {
        return size;
    };
    let Some(encoder) = encoder(chosen) else { return size };
    let fields = &mut exchange.response.fields;
    fields.remove(HeaderId::ContentLength);
    fields.remove(HeaderId::AcceptRanges);
    fields.push_id(HeaderId::ContentEncoding, chosen.settings.coding.name().as_bytes());
    super::entity::weaken(fields);
    if size == BodySize::Bodiless {
        return size;
    }
    exchange.filters.push(encoder);
    BodySize::Unknown
}

/// `None` if there is no memory for it: the body goes as it is.
fn encoder(chosen: &Compression) -> Option<Box<dyn BodyFilter>> {
    let settings = &chosen.settings;
    Some(match settings.coding {
        ContentCoding::Gzip => Box::new(gzip::Encoder::new(settings.level)),
        ContentCoding::Brotli => Box::new(brotli::Encoder::new(settings.level, settings.window)),
        ContentCoding::Zstandard => Box::new(zstd::Encoder::new(settings.level)?),
    })
}

/// Whether an answer of this size is one that these settings compress.
fn fits(exchange: &Exchange, compression: &Compression, size: BodySize) -> bool {
    let settings = &compression.settings;
    let fields = &exchange.response.fields;
    let long_enough = match size {
        BodySize::Known(length) => length >= settings.min_length && length > 0,
        BodySize::Unknown => true,
        // The fields of an answer to HEAD are those of GET (RFC 9110 §9.3.2).
        BodySize::Bodiless if exchange.request.method == Method::Head => {
            let length = fields.first(HeaderId::ContentLength).map(std::str::from_utf8);
            let length = length.map(|text| text.ok().and_then(|text| text.parse::<u64>().ok()));
            length.is_none_or(|length| length.is_some_and(|n| n >= settings.min_length && n > 0))
        }
        BodySize::Bodiless => false,
    };
    matches!(exchange.response.status, 200 | 403 | 404)
        && long_enough
        && !fields.has(HeaderId::ContentEncoding)
        && fields
            .first(HeaderId::ContentType)
            .is_some_and(|value| std::str::from_utf8(value).is_ok_and(|value| compression.takes(value)))
}

/// Whether the client wants it, and whoever stands between may have it.
pub(crate) fn wanted(exchange: &Exchange, compression: &Compression) -> bool {
    let settings = &compression.settings;
    let request = &exchange.request;
    if request.version < Version::Http11 && !settings.http_1_0 {
        return false;
    }
    if !takes(exchange, settings.coding) {
        return false;
    }
    if request.fields.has(HeaderId::Via) && !passes_proxies(exchange, &settings.proxied) {
        return false;
    }
    let agent = request.fields.first(HeaderId::UserAgent).unwrap_or_default();
    // A client that a pattern gives up on gets what every client can read.
    !compression.disable.iter().any(|pattern| pattern.is_match(agent).unwrap_or(true))
}

/// Whether the request names the coding with a weight above zero (RFC 9110 §12.5.3). `*` alone does not choose it.
pub(crate) fn takes(exchange: &Exchange, coding: ContentCoding) -> bool {
    let items =
        exchange.request.fields.all(HeaderId::AcceptEncoding).flat_map(|line| line.split(|&b| b == b','));
    items.into_iter().any(|item| {
        let mut parts = item.split(|&b| b == b';');
        let names = parts.next().is_some_and(|named| {
            let named = named.trim_ascii();
            named.eq_ignore_ascii_case(coding.name().as_bytes())
                || coding == ContentCoding::Gzip && named.eq_ignore_ascii_case(b"x-gzip")
        });
        let refused = parts.any(|parameter| {
            let parameter = parameter.trim_ascii();
            let weight = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="));
            weight.is_some_and(|weight| accept::weight(weight.trim_ascii()).is_none_or(|weight| weight == 0))
        });
        names && !refused
    })
}

fn passes_proxies(exchange: &Exchange, allowed: &[GzipProxied]) -> bool {
    let fields = &exchange.response.fields;
    let control = |word: &[u8]| {
        fields.all(HeaderId::CacheControl).any(|line| {
            line.split(|&b| b == b',').any(|item| item.trim_ascii().to_ascii_lowercase().starts_with(word))
        })
    };
    let names = |condition| allowed.contains(&condition);
    if allowed.is_empty() || names(GzipProxied::Any) {
        return !allowed.is_empty();
    }
    if names(GzipProxied::Auth) && exchange.request.fields.has(HeaderId::Authorization) {
        return true;
    }
    // What says nothing of how long it may be kept is compressed, as nginx does it, unless a validator forbids that.
    if let Some(value) = fields.first(HeaderId::Expires) {
        let now = HttpDate::from_unix(weir_rt::unix_now().as_secs());
        return names(GzipProxied::Expired) && HttpDate::parse(value, now).is_none_or(|at| at <= now);
    }
    if fields.has(HeaderId::CacheControl) {
        return names(GzipProxied::NoCache) && control(b"no-cache")
            || names(GzipProxied::NoStore) && control(b"no-store")
            || names(GzipProxied::Private) && control(b"private");
    }
    !(names(GzipProxied::NoLastModified) && fields.has(HeaderId::LastModified)
        || names(GzipProxied::NoEtag) && fields.has(HeaderId::ETag))
}
