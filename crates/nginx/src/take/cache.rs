//! Words about caches of upstreams' answers, whatever the gateway: `…_cache_path`, `…_cache`, and what they say of each.
//!
//! Owns: zones, and the cache of one location.
//! Driven by: the table of gateways.

use std::sync::Arc;
use std::time::Duration;

use weir_diag::Diagnostic;
use weir_model::settings::{CachePace, CacheStale, CacheValid, CacheZone};
use weir_model::{CacheZoneUse, Caching};

use super::Lowering;
use super::scope::{CacheScope, GatewayScope, Level};
use crate::tree::Directive;
use crate::value;

/// The pace of `purger_*` where only a part of it is written, as nginx documents it.
const PURGER: CachePace =
    CachePace { files: 10, sleep: Duration::from_millis(50), threshold: Duration::from_millis(50) };

/// Answers of these statuses are meant where `…_cache_valid` names none.
const USUAL: [u16; 3] = [200, 301, 302];

/// `…_cache_path path keys_zone=name:size [word=value …]`.
pub(crate) fn path(lo: &mut Lowering<'_>, d: &Directive) {
    let mut zone = CacheZone {
        name: String::new(),
        path: lo.path(d.arg(0)),
        levels: String::new(),
        size: 0,
        max_size: None,
        min_free: 0,
        inactive: Duration::from_secs(600),
        manager: CachePace::default(),
        loader: None,
        purger: None,
    };
    for (n, word) in d.args.iter().enumerate().skip(1) {
        let Some((name, text)) = word.text.split_once('=') else {
            return lo.bad_value(
                d,
                n,
                "`levels=`, `keys_zone=`, `max_size=`, `inactive=` or another of its words",
            );
        };
        if !take_word(&mut zone, name, text) {
            return lo.bad_value(
                d,
                n,
                "a value that this word of `…_cache_path` has, such as `keys_zone=name:10m`",
            );
        }
    }
    if zone.name.is_empty() {
        let text = format!("`{}` names no zone", d.name());
        return lo.report(
            Diagnostic::error("nginx::arguments", text).at(d.span).help("add `keys_zone=name:size`"),
        );
    }
    let same = |known: &&CacheZone| known.name == zone.name || known.path == zone.path;
    if let Some(known) = lo.model.cache_zones.iter().find(same) {
        let what = if known.name == zone.name { "the zone" } else { "the folder of the zone" };
        let text = format!("{what} `{}` is defined twice", known.name);
        return lo.report(Diagnostic::error("nginx::duplicate", text).at(d.span));
    }
    lo.model.cache_zones.push(zone);
}

/// Takes one word of `…_cache_path`; false if its value is wrong.
fn take_word(zone: &mut CacheZone, name: &str, text: &str) -> bool {
    let pace = |part: &str, pace: &mut CachePace| match part {
        "files" => value::number(text).map(|files| pace.files = files),
        "sleep" => value::time(text).map(|sleep| pace.sleep = sleep),
        "threshold" => value::time(text).map(|threshold| pace.threshold = threshold),
        _ => None,
    };
    let taken = match name {
        "levels" => is_levels(text).then(|| zone.levels = text.to_owned()),
        "keys_zone" => super::access::zone(text).map(|(name, size)| (zone.name, zone.size) = (name, size)),
        "max_size" => value::offset(text).map(|size| zone.max_size = Some(size)),
        "min_free" => value::offset(text).map(|size| zone.min_free = size),
        "inactive" => value::time(text).map(|time| zone.inactive = time),
        // Objects are always written beside their place, and get their name by a rename.
        "use_temp_path" => value::flag(text).map(drop),
        // Files of purged objects are always removed.
        "purger" => value::flag(text).map(drop),
        _ => match name.split_once('_') {
            Some(("manager", part)) => pace(part, &mut zone.manager),
            Some(("loader", part)) => pace(part, zone.loader.get_or_insert_default()),
            Some(("purger", part)) => pace(part, zone.purger.get_or_insert(PURGER)),
            _ => None,
        },
    };
    taken.is_some()
}

fn is_levels(text: &str) -> bool {
    text.split(':').count() <= 3 && text.split(':').all(|level| matches!(level, "1" | "2"))
}

/// `…_cache zone | off`; a zone may be made of variables.
pub(crate) fn zone(lo: &mut Lowering<'_>, gateway: &mut GatewayScope, d: &Directive) {
    let name = d.arg(0);
    if name.contains('$') {
        let zone = CacheZoneUse::Computed(lo.template(&d.args[0]));
        return gateway.cache().zone = Some((zone, d.span));
    }
    if name == "off" {
        return gateway.cache().zone = None;
    }
    lo.zones_used.push(("cache", name.to_owned(), d.arg_span(0)));
    gateway.cache().zone = Some((CacheZoneUse::Named(name.to_owned()), d.span));
}

/// `…_cache_valid [status …] time`.
pub(crate) fn valid(lo: &mut Lowering<'_>, gateway: &mut GatewayScope, level: Level, d: &Directive) {
    let last = d.args.len() - 1;
    let Some(time) = value::time(d.arg(last)) else { return lo.bad_value(d, last, "a time, such as `10m`") };
    let mut statuses = Vec::new();
    for n in 0..last {
        match (d.arg(n), d.arg(n).parse()) {
            ("any", _) if last == 1 => {}
            (_, Ok(status @ 100..=599)) => statuses.push(status),
            _ => return lo.bad_value(d, n, "a status, or `any`"),
        }
    }
    if last == 0 {
        statuses.extend(USUAL);
    }
    gateway.cache().valid.push(level, CacheValid { statuses, time });
}

/// `…_cache_methods GET | HEAD | POST …`.
pub(crate) fn methods(lo: &mut Lowering<'_>, gateway: &mut GatewayScope, d: &Directive) {
    let mut post = false;
    for n in 0..d.args.len() {
        match d.arg(n) {
            "GET" | "HEAD" => {}
            "POST" => post = true,
            _ => return lo.bad_value(d, n, "`GET`, `HEAD` or `POST`"),
        }
    }
    gateway.cache().settings.post = post;
}

/// `…_cache_use_stale word …`.
pub(crate) fn use_stale(lo: &mut Lowering<'_>, gateway: &mut GatewayScope, d: &Directive) {
    let mut stale = CacheStale::default();
    for n in 0..d.args.len() {
        match d.arg(n) {
            "error" => stale.error = true,
            "timeout" => stale.timeout = true,
            "invalid_header" => stale.invalid_header = true,
            "updating" => stale.updating = true,
            "off" => {
                stale = CacheStale::default();
                break;
            }
            word => match word.strip_prefix("http_").and_then(|code| code.parse().ok()) {
                Some(code @ (403 | 404 | 429 | 500 | 502 | 503 | 504)) => stale.statuses.push(code),
                _ => {
                    return lo.bad_value(
                        d,
                        n,
                        "one of `error`, `timeout`, `invalid_header`, `updating`, `http_500`, `http_502`, `http_503`, `http_504`, `http_403`, `http_404`, `http_429`, `off`",
                    );
                }
            },
        }
    }
    gateway.cache().settings.stale = stale;
}

/// The cache of a location. `key`: what is used where none is written; `None`: there is no such.
pub(crate) fn caching(
    lo: &mut Lowering<'_>,
    scope: &CacheScope,
    word: &str,
    has_default_key: bool,
) -> Option<Arc<Caching>> {
    let (zone, span) = scope.zone.clone()?;
    if scope.key.is_none() && !has_default_key {
        let text = format!(
            "`{word}` without `{word}_key` would have one object for all requests; nothing is cached"
        );
        lo.report(Diagnostic::warning("nginx::cache-without-key", text).at(span));
        return None;
    }
    let mut settings = scope.settings.clone();
    settings.valid = scope.valid.items().to_vec();
    Some(Arc::new(Caching {
        zone,
        key: scope.key.clone(),
        bypass: scope.bypass.items().to_vec(),
        no_store: scope.no_store.items().to_vec(),
        purge: scope.purge.items().to_vec(),
        settings,
    }))
}
