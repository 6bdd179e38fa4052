//! Words of NGINX Plus about its state, its API, and the keys and values that this sets.

use weir_model::settings::{KeyvalKind, KeyvalZone};
use weir_model::{Definition, Template};

use super::maps::{define, line_is_right, variable_at};
use super::parts::ActionSpec;
use super::{Lowering, Place, Scope, ServerParts};
use crate::tree::Directive;
use crate::value;
use crate::variables::Dialect;

/// `api [write=on|off]`.
pub(crate) fn api(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    let writes = match d.args.first().map(|word| word.text.split_once('=')) {
        None => Some(false),
        Some(Some(("write", flag))) => value::flag(flag),
        Some(_) => None,
    };
    match writes {
        Some(writes) => place.set_action(lo, ActionSpec::Api(writes), d.span),
        None => lo.bad_value(d, 0, "`write=on` or `write=off`"),
    }
}

/// `status_zone zone` of a server, of http or of stream.
pub(crate) fn server_zone(_: &mut Lowering<'_>, parts: &mut ServerParts, d: &Directive) {
    parts.zone = Some(d.arg(0).to_owned());
}

/// `status_zone zone|off` of a location. It holds for locations inside.
pub(crate) fn location_zone(_: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    s.zone = (d.arg(0) != "off").then(|| d.arg(0).into());
}

/// `keyval_zone zone=name:size [state=file] [timeout=time] [type=string|ip|prefix] [sync]`.
pub(crate) fn keyval_zone(lo: &mut Lowering<'_>, d: &Directive) {
    let mut named = None;
    let (mut kind, mut timeout, mut state) = (KeyvalKind::String, None, None);
    for (n, word) in d.args.iter().enumerate() {
        match word.text.split_once('=') {
            Some(("zone", text)) => match super::access::zone(text) {
                Some(zone) => named = Some(zone),
                None => return lo.bad_value(d, n, "`zone=name:size` with at least 32k"),
            },
            Some(("state", path)) if !path.is_empty() => state = Some(lo.conf_path(path)),
            Some(("timeout", text)) => match value::time(text).filter(|time| !time.is_zero()) {
                Some(time) => timeout = Some(time),
                None => return lo.bad_value(d, n, "`timeout=` with a time such as `1h`"),
            },
            Some(("type", "string")) => kind = KeyvalKind::String,
            Some(("type", "ip")) => kind = KeyvalKind::Ip,
            Some(("type", "prefix")) => kind = KeyvalKind::Prefix,
            // Nobody else has the zone.
            None if word.text == "sync" => {
                let text = "zones are not shared with other machines: `sync` has no effect";
                lo.report(weir_diag::Diagnostic::warning("nginx::no-effect", text).at(word.span));
            }
            _ => {
                return lo.bad_value(
                    d,
                    n,
                    "`zone=`, `state=`, `timeout=`, `type=string|ip|prefix` or `sync`",
                );
            }
        }
    }
    let tcp = lo.dialect == Dialect::Stream;
    let Some((name, bytes)) = named else { return super::access::missing_zone(lo, d) };
    if lo.model.keyvals.iter().any(|zone| zone.name == name && zone.tcp == tcp) {
        return super::access::duplicate_zone(lo, d, &name);
    }
    lo.model.keyvals.push(KeyvalZone { name, tcp, kind, bytes, timeout, state });
}

/// `keyval key $variable zone=name`.
pub(crate) fn keyval(lo: &mut Lowering<'_>, d: &Directive) {
    let key = lo.template(&d.args[0]);
    let Some(name) = variable_at(lo, d, 1) else { return };
    let Some(zone) = d.arg(2).strip_prefix("zone=").filter(|zone| !zone.is_empty()) else {
        return lo.bad_value(d, 2, "`zone=` with the name of a `keyval_zone`");
    };
    let zone = zone.to_owned();
    lo.zones_used.push(("keyval", zone.clone(), d.arg_span(2)));
    let tcp = lo.dialect == Dialect::Stream;
    define(lo, d, &name, Definition::Keyval { key, zone, tcp });
}

/// `num_map $number $variable { … }`.
pub(crate) fn num_map(lo: &mut Lowering<'_>, d: &Directive) {
    let source = lo.template(&d.args[0]);
    let Some(name) = variable_at(lo, d, 1) else { return };
    let (mut exact, mut ranges) = (Vec::new(), Vec::new());
    let (mut default, mut volatile) = (Template::default(), false);
    let mut seen = std::collections::HashSet::new();
    for line in d.children() {
        if line.name() == "volatile" && line.args.is_empty() {
            volatile = true;
            continue;
        }
        if !line_is_right(lo, line) {
            continue;
        }
        let value = lo.template(&line.args[0]);
        match (line.name(), numbers(line.name())) {
            ("default", _) => default = value,
            (_, Some((from, to))) if from == to => match seen.insert(from) {
                true => exact.push((from, value)),
                false => {
                    let text = format!("the number `{from}` stands twice");
                    lo.report(weir_diag::Diagnostic::error("nginx::duplicate", text).at(line.span));
                }
            },
            (_, Some((from, to))) => ranges.push((from, to, value)),
            (other, None) => {
                let text =
                    format!("`{other}` is no number, no range such as `1-10`, and no bound such as `<=10`");
                lo.report(weir_diag::Diagnostic::error("nginx::bad-value", text).at(line.name.span));
            }
        }
    }
    define(lo, d, &name, Definition::Numbers { source, exact, ranges, default, volatile });
}

/// The least and the greatest number that a key of `num_map` means.
fn numbers(key: &str) -> Option<(i64, i64)> {
    let number = |text: &str| text.parse::<i64>().ok();
    let below = |text| number(text)?.checked_sub(1);
    let above = |text| number(text)?.checked_add(1);
    if let Some(text) = key.strip_prefix("<=") {
        return Some((i64::MIN, number(text)?));
    }
    if let Some(text) = key.strip_prefix(">=") {
        return Some((number(text)?, i64::MAX));
    }
    if let Some(text) = key.strip_prefix('<') {
        return Some((i64::MIN, below(text)?));
    }
    if let Some(text) = key.strip_prefix('>') {
        return Some((above(text)?, i64::MAX));
    }
    // The first character may be a sign.
    match key.get(1..)?.find('-') {
        Some(at) => {
            let (from, to) = (number(&key[..=at])?, number(&key[at + 2..])?);
            (from <= to).then_some((from, to))
        }
        None => number(key).map(|one| (one, one)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges() {
        for (key, expected) in [
            ("80", Some((80, 80))),
            ("-5", Some((-5, -5))),
            ("8080-8090", Some((8080, 8090))),
            ("-5--1", Some((-5, -1))),
            ("<=1023", Some((i64::MIN, 1023))),
            ("<0", Some((i64::MIN, -1))),
            (">=7", Some((7, i64::MAX))),
            (">7", Some((8, i64::MAX))),
            ("9-1", None),
            ("", None),
            ("-", None),
            ("x", None),
            ("1-", None),
            ("<", None),
        ] {
            assert_eq!(numbers(key), expected, "{key}");
        }
    }
}
