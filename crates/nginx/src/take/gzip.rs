//! Words about compression.

use std::ops::RangeInclusive;
use std::sync::Arc;

use weir_model::settings::{CompressionSettings, GzipProxied};

use super::args::bytes;
use super::{Lowering, Scope};
use crate::tree::Directive;
use crate::value;

pub(crate) fn level(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    level_of(lo, &mut s.gzip, d, 1..=9);
}

pub(crate) fn brotli_level(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    level_of(lo, &mut s.brotli, d, 0..=11);
}

pub(crate) fn zstd_level(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    level_of(lo, &mut s.zstd, d, 1..=22);
}

fn level_of(
    lo: &mut Lowering<'_>,
    settings: &mut Arc<CompressionSettings>,
    d: &Directive,
    levels: RangeInclusive<u8>,
) {
    let level = value::number(d.arg(0)).and_then(|level| u8::try_from(level).ok());
    match level.filter(|level| levels.contains(level)) {
        Some(level) => Arc::make_mut(settings).level = level,
        None => lo.bad_value(d, 0, &format!("a number from {} to {}", levels.start(), levels.end())),
    }
}

/// `brotli_window SIZE`: a power of two.
pub(crate) fn brotli_window(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    match bytes(d) {
        size @ 0x400..=0x100_0000 if size.is_power_of_two() => {
            Arc::make_mut(&mut s.brotli).window = size.ilog2() as u8;
        }
        _ => lo.bad_value(d, 0, "a power of two from 1k to 16m"),
    }
}

pub(crate) fn types(_: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    Arc::make_mut(&mut s.gzip).types = super::filters::types(d);
}

pub(crate) fn proxied(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let mut out = Vec::new();
    for (n, word) in d.args.iter().enumerate() {
        out.push(match word.text.as_str() {
            "off" => continue,
            "expired" => GzipProxied::Expired,
            "no-cache" => GzipProxied::NoCache,
            "no-store" => GzipProxied::NoStore,
            "private" => GzipProxied::Private,
            "no_last_modified" => GzipProxied::NoLastModified,
            "no_etag" => GzipProxied::NoEtag,
            "auth" => GzipProxied::Auth,
            "any" => GzipProxied::Any,
            _ => return lo.bad_value(d, n, "one of `off`, `expired`, `no-cache`, `no-store`, `private`, `no_last_modified`, `no_etag`, `auth`, `any`"),
        });
    }
    Arc::make_mut(&mut s.gzip).proxied = out;
}

/// `gzip_disable "regex" …`; `msie6` is a word of its own.
pub(crate) fn disable(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let mut out = Vec::new();
    for word in &d.args {
        match word.text.as_str() {
            "msie6" => out.push(r"MSIE [4-6]\.(?!.*SV1)".to_owned()),
            "degradation" => {}
            source => out.push(lo.pattern(source, true, word).source),
        }
    }
    Arc::make_mut(&mut s.gzip).disable = out;
}
