//! Words about who gets in, and how often.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_diag::Diagnostic;
use weir_model::settings::LogLevel;
use weir_model::{AccessRule, LimitConn, LimitConnZone, LimitReq, LimitReqZone, RealIpSource, Who};

use super::{Lowering, Scope};
use crate::tree::Directive;
use crate::value;
use crate::variables::Dialect;

/// `allow` and `deny`.
pub(crate) fn rule(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let Some(rule) = parse_rule(lo, d) else { return };
    let level = s.level;
    s.parts().access_rules.push(level, rule);
}

/// The rule of `allow` or `deny`, wherever it stands.
pub(crate) fn parse_rule(lo: &mut Lowering<'_>, d: &Directive) -> Option<AccessRule> {
    let who = match d.arg(0) {
        "all" => Who::All,
        "unix:" => Who::Unix,
        text => match network(text) {
            Some(net) => Who::Net(net),
            None => {
                lo.bad_value(d, 0, "an address, a network such as `10.0.0.0/8`, `unix:` or `all`");
                return None;
            }
        },
    };
    Some(AccessRule { allow: d.name() == "allow", who })
}

/// An address or a network; bits beyond the prefix are cleared, as nginx does with a warning.
pub(crate) fn network(text: &str) -> Option<IpNet> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    match bare.parse::<IpAddr>() {
        Ok(address) => Some(IpNet::from(address)),
        Err(_) => text.parse::<IpNet>().ok().map(|net| net.trunc()),
    }
}

pub(crate) fn auth_basic(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    s.parts().realm = (d.arg(0) != "off").then(|| (lo.template(&d.args[0]), d.span));
}

/// The location that is asked who gets in.
pub(crate) fn auth_request(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let path = d.arg(0);
    if path != "off" && !path.starts_with('/') {
        return lo.bad_value(d, 0, "a path that begins with `/`, or `off`");
    }
    s.parts().ask = (path != "off").then(|| path.to_owned());
}

/// A variable that is assigned from what that location answers.
pub(crate) fn auth_request_set(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let Some(name) = d.arg(0).strip_prefix('$').filter(|name| super::declare::is_name(name)) else {
        return lo.bad_value(d, 0, "a variable such as `$name`");
    };
    let value = lo.template(&d.args[1]);
    let level = s.level;
    s.parts().ask_set.push(level, (name.to_owned(), value));
}

/// A password file; relative to the folder of the main file.
pub(crate) fn auth_basic_user_file(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    s.parts().user_file = Some(lo.conf_file(&d.args[0]));
}

/// `set_real_ip_from address | CIDR | unix: | hostname`.
pub(crate) fn real_ip_from(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let level = s.level;
    for who in parse_trusted(lo, d) {
        s.parts().real_ip_from.push(level, who);
    }
}

/// Peers named by `set_real_ip_from`; host names are looked up now.
pub(crate) fn parse_trusted(lo: &mut Lowering<'_>, d: &Directive) -> Vec<Who> {
    let text = d.arg(0);
    if text == "unix:" {
        return vec![Who::Unix];
    }
    if let Some(net) = network(text) {
        return vec![Who::Net(net)];
    }
    let found = if text.contains('/') { Vec::new() } else { lo.files.resolve(text) };
    if found.is_empty() {
        lo.bad_value(d, 0, "an address, a network, `unix:` or a host name that can be looked up");
    }
    found.into_iter().map(|address| Who::Net(IpNet::from(address))).collect()
}

pub(crate) fn real_ip_header(_: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    s.parts().real_ip_source = match d.arg(0) {
        "proxy_protocol" => RealIpSource::ProxyProtocol,
        name => RealIpSource::Header(name.to_ascii_lowercase()),
    };
}

/// `name:size` of a zone.
pub(crate) fn zone(text: &str) -> Option<(String, u64)> {
    let (name, size) = text.rsplit_once(':')?;
    let size = value::size(size).filter(|&size| size >= 8 * 4096)?;
    (!name.is_empty()).then(|| (name.to_owned(), size))
}

/// `limit_req_zone key zone=name:size rate=rate [sync]`.
pub(crate) fn limit_req_zone(lo: &mut Lowering<'_>, d: &Directive) {
    let key = lo.template(&d.args[0]);
    let mut named = None;
    let mut rate_milli = 1000;
    for (n, word) in d.args.iter().enumerate().skip(1) {
        match word.text.split_once('=') {
            Some(("zone", text)) => match zone(text) {
                Some(zone) => named = Some(zone),
                None => return lo.bad_value(d, n, "`zone=name:size` with at least 32k"),
            },
            Some(("rate", text)) => match value::rate_milli(text) {
                Some(rate) => rate_milli = rate,
                None => return lo.bad_value(d, n, "`rate=` with a rate such as `10r/s` or `30r/m`"),
            },
            None if word.text == "sync" => {}
            _ => return lo.bad_value(d, n, "`zone=`, `rate=` or `sync`"),
        }
    }
    let Some((name, size)) = named else { return missing_zone(lo, d) };
    if lo.model.limit_req_zones.iter().any(|zone| zone.name == name) {
        return duplicate_zone(lo, d, &name);
    }
    lo.model.limit_req_zones.push(LimitReqZone { name, key, size, rate_milli });
}

/// `limit_conn_zone key zone=name:size`.
pub(crate) fn limit_conn_zone(lo: &mut Lowering<'_>, d: &Directive) {
    let key = lo.template(&d.args[0]);
    let Some((name, size)) = d.arg(1).strip_prefix("zone=").and_then(zone) else {
        return lo.bad_value(d, 1, "`zone=name:size` with at least 32k");
    };
    if lo.model.limit_conn_zones.iter().any(|zone| zone.name == name) {
        return duplicate_zone(lo, d, &name);
    }
    let tcp = lo.dialect == Dialect::Stream;
    lo.model.limit_conn_zones.push(LimitConnZone { name, key, size, tcp });
}

pub(super) fn missing_zone(lo: &mut Lowering<'_>, d: &Directive) {
    let text = format!("`{}` names no zone", d.name());
    lo.report(Diagnostic::error("nginx::arguments", text).at(d.span).help("add `zone=name:size`"));
}

pub(super) fn duplicate_zone(lo: &mut Lowering<'_>, d: &Directive, name: &str) {
    let text = format!("the zone `{name}` is defined twice");
    lo.report(Diagnostic::error("nginx::duplicate", text).at(d.span));
}

/// `limit_req zone=name [burst=number] [nodelay | delay=number]`.
pub(crate) fn limit_req(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let mut zone = None;
    let (mut burst, mut delay) = (0, Some(0));
    for (n, word) in d.args.iter().enumerate() {
        let number = |text| value::number(text).and_then(|n| u32::try_from(n).ok());
        match word.text.split_once('=') {
            Some(("zone", name)) => zone = Some((name.to_owned(), word.span)),
            Some(("burst", text)) => match number(text) {
                Some(count) => burst = count,
                None => return lo.bad_value(d, n, "`burst=` with a number"),
            },
            Some(("delay", text)) => match number(text) {
                Some(count) => delay = Some(count),
                None => return lo.bad_value(d, n, "`delay=` with a number"),
            },
            None if word.text == "nodelay" => delay = None,
            _ => return lo.bad_value(d, n, "`zone=`, `burst=`, `delay=` or `nodelay`"),
        }
    }
    let Some((zone, span)) = zone else { return missing_zone(lo, d) };
    lo.zones_used.push(("limit_req", zone.clone(), span));
    // Status, level and dry run are filled in once the level is complete.
    let limit = LimitReq { zone, burst, delay, status: 503, log_level: LogLevel::Error, dry_run: false };
    let level = s.level;
    s.parts().limit_req.push(level, limit);
}

/// `limit_conn zone number`.
pub(crate) fn limit_conn(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let Some(limit) = parse_limit_conn(lo, d) else { return };
    let level = s.level;
    s.parts().limit_conn.push(level, limit);
}

/// The limit of `limit_conn`, wherever it stands.
pub(crate) fn parse_limit_conn(lo: &mut Lowering<'_>, d: &Directive) -> Option<LimitConn> {
    let Some(limit @ 1..=65535) = value::number(d.arg(1)) else {
        lo.bad_value(d, 1, "a number from 1 to 65535");
        return None;
    };
    let zone = d.arg(0).to_owned();
    lo.zones_used.push(("limit_conn", zone.clone(), d.arg_span(0)));
    Some(LimitConn { zone, limit: limit as u32, status: 503, log_level: LogLevel::Error, dry_run: false })
}

/// Finds uses of zones that nothing defines.
pub(crate) fn check_zones(lo: &mut Lowering<'_>) {
    for (kind, name, span) in std::mem::take(&mut lo.zones_used) {
        let known: Vec<String> = match kind {
            "limit_req" => lo.model.limit_req_zones.iter().map(|zone| zone.name.clone()).collect(),
            "cache" => lo.model.cache_zones.iter().map(|zone| zone.name.clone()).collect(),
            "keyval" => lo.model.keyvals.iter().map(|zone| zone.name.clone()).collect(),
            _ => lo.model.limit_conn_zones.iter().map(|zone| zone.name.clone()).collect(),
        };
        if known.contains(&name) {
            continue;
        }
        let word = if kind == "cache" { "…_cache_path".to_owned() } else { format!("{kind}_zone") };
        let mut found =
            Diagnostic::error("nginx::unknown-zone", format!("no `{word}` defines `{name}`")).at(span);
        if let Some(near) = weir_diag::nearest(&name, known.iter().map(String::as_str)) {
            found = found.help(format!("did you mean `{near}`?"));
        }
        lo.report(found);
    }
}

/// A realm without users would let everybody in: nginx then asks nobody.
pub(crate) fn check_realm(lo: &mut Lowering<'_>, s: &Scope) {
    if let (Some((_, span)), None) = (&s.parts.realm, &s.parts.user_file)
        && !lo.diagnostics.iter().any(|d| {
            d.code == "nginx::auth-without-users" && d.primary.as_ref().is_some_and(|l| l.span == *span)
        })
    {
        lo.report(
            Diagnostic::error(
                "nginx::auth-without-users",
                "`auth_basic` without `auth_basic_user_file` asks nobody",
            )
            .at(*span)
            .help("nginx lets everybody in here; name the file of users and passwords"),
        );
    }
}
