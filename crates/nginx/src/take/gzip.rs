//! Words about compression.

use std::sync::Arc;

use weir_model::settings::GzipProxied;

use super::{Lowering, Scope};
use crate::tree::Directive;
use crate::value;

pub(crate) fn level(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    match value::number(d.arg(0)) {
        Some(level @ 1..=9) => Arc::make_mut(&mut s.gzip).level = level as u8,
        _ => lo.bad_value(d, 0, "a number from 1 to 9"),
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
