//! Variables computed by tables: `map`, `geo`, `split_clients`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};
use weir_diag::Diagnostic;
use weir_model::{Definition, MapTable, Template};

use super::Lowering;
use super::access::network;
use super::declare::is_name;
use crate::tree::Directive;

/// The variable that the last argument names.
fn variable(lo: &mut Lowering<'_>, d: &Directive) -> Option<String> {
    variable_at(lo, d, d.args.len() - 1)
}

/// The variable that an argument names.
pub(super) fn variable_at(lo: &mut Lowering<'_>, d: &Directive, n: usize) -> Option<String> {
    match d.arg(n).strip_prefix('$').filter(|name| is_name(name)) {
        Some(name) => Some(name.to_owned()),
        None => {
            lo.bad_value(d, n, "a variable such as `$name`");
            None
        }
    }
}

pub(super) fn define(lo: &mut Lowering<'_>, d: &Directive, name: &str, definition: Definition) {
    if !lo.define(name, definition) {
        let text = format!("the variable `${name}` is defined twice");
        let found = Diagnostic::error("nginx::duplicate", text).at(d.span);
        lo.report(found.help("remove one of the definitions, or join them"));
    }
}

/// A line of a table that is no block and has one value.
pub(super) fn line_is_right(lo: &mut Lowering<'_>, line: &Directive) -> bool {
    if line.block.is_none() && line.args.len() == 1 {
        return true;
    }
    let text = format!("`{}` needs one value", line.name());
    lo.report(Diagnostic::error("nginx::arguments", text).at(line.span).help("write `key value;`"));
    false
}

/// `map source $variable { … }`.
pub(crate) fn map(lo: &mut Lowering<'_>, d: &Directive) {
    let source = lo.template(&d.args[0]);
    let Some(name) = variable(lo, d) else { return };
    let mut table = MapTable {
        source,
        exact: Vec::new(),
        suffixes: Vec::new(),
        prefixes: Vec::new(),
        patterns: Vec::new(),
        default: Template::default(),
        hostnames: d.children().iter().any(|line| line.name() == "hostnames" && line.args.is_empty()),
        volatile: false,
    };
    for line in d.children() {
        map_line(lo, line, &mut table);
    }
    table.suffixes.sort_by_key(|(key, _)| std::cmp::Reverse(key.len()));
    table.prefixes.sort_by_key(|(key, _)| std::cmp::Reverse(key.len()));
    define(lo, d, &name, Definition::Map(table));
}

fn map_line(lo: &mut Lowering<'_>, line: &Directive, table: &mut MapTable) {
    match (line.name(), line.args.len()) {
        ("hostnames", 0) => return,
        ("volatile", 0) => return table.volatile = true,
        _ if !line_is_right(lo, line) => return,
        _ => {}
    }
    let value = lo.template(&line.args[0]);
    let key = line.name();
    if key == "default" {
        return table.default = value;
    }
    if let Some(pattern) = key.strip_prefix('~') {
        let (pattern, ignore_case) = match pattern.strip_prefix('*') {
            Some(pattern) => (pattern, true),
            None => (pattern, false),
        };
        let pattern = lo.pattern(pattern, ignore_case, &line.name);
        return table.patterns.push((pattern, value));
    }
    let key = key.strip_prefix('\\').unwrap_or(key).to_lowercase();
    if table.hostnames {
        if let Some(suffix) = key.strip_prefix("*.") {
            return table.suffixes.push((suffix.to_owned(), value));
        }
        if let Some(prefix) = key.strip_suffix(".*") {
            return table.prefixes.push((prefix.to_owned(), value));
        }
        if let Some(name) = key.strip_prefix('.') {
            table.suffixes.push((name.to_owned(), value.clone()));
            return push_exact(lo, line, table, name.to_owned(), value);
        }
    }
    push_exact(lo, line, table, key, value);
}

fn push_exact(lo: &mut Lowering<'_>, line: &Directive, table: &mut MapTable, key: String, value: Template) {
    // A scan a key would be too slow for tables of many thousands; `lower` indexes them and the first stands there.
    const SCANNED: usize = 512;
    if table.exact.len() < SCANNED && table.exact.iter().any(|(known, _)| *known == key) {
        let text = format!("the key `{key}` stands twice in this map");
        lo.report(Diagnostic::error("nginx::duplicate", text).at(line.span));
        return;
    }
    table.exact.push((key, value));
}

/// `geo [$address] $variable { … }`.
pub(crate) fn geo(lo: &mut Lowering<'_>, d: &Directive) {
    let source = (d.args.len() == 2).then(|| lo.template(&d.args[0]));
    let Some(name) = variable(lo, d) else { return };
    // The last value of a network stands, as in nginx.
    let mut networks: BTreeMap<IpNet, Template> = BTreeMap::new();
    let mut default = Template::default();
    let (mut proxies, mut recursive) = (Vec::new(), false);
    for line in d.children() {
        match (line.name(), line.args.len()) {
            ("ranges", 0) => {}
            ("proxy_recursive", 0) => recursive = true,
            ("proxy", 1) => match network(line.arg(0)) {
                Some(net) => proxies.push(net),
                None => lo.bad_value(line, 0, "an address or a network"),
            },
            ("volatile", 0) => {}
            _ if !line_is_right(lo, line) => {}
            ("default", _) => default = Template::literal(line.arg(0)),
            ("delete", _) => {
                let Some(net) = network(line.arg(0)) else { return lo.bad_value(line, 0, "a network") };
                networks.remove(&net);
            }
            (key, _) => match range(key) {
                // The last value of a network stands, as in nginx.
                Some(nets) => {
                    networks.extend(nets.into_iter().map(|net| (net, Template::literal(line.arg(0)))))
                }
                None => {
                    let text = format!("`{key}` is neither an address nor a network");
                    lo.report(Diagnostic::error("nginx::bad-value", text).at(line.name.span));
                }
            },
        }
    }
    let networks = networks.into_iter().collect();
    define(lo, d, &name, Definition::Geo { source, proxies, recursive, networks, default });
}

/// A network, or the networks of a range such as `10.0.0.1-10.0.0.9`.
fn range(text: &str) -> Option<Vec<IpNet>> {
    if let Some(net) = network(text) {
        return Some(vec![net]);
    }
    let (first, last) = text.split_once('-')?;
    let nets: Vec<IpNet> = match (first.parse().ok()?, last.parse().ok()?) {
        (IpAddr::V4(first), IpAddr::V4(last)) => Ipv4Subnets::new(first, last, 0).map(IpNet::V4).collect(),
        (IpAddr::V6(first), IpAddr::V6(last)) => Ipv6Subnets::new(first, last, 0).map(IpNet::V6).collect(),
        _ => return None,
    };
    (!nets.is_empty()).then_some(nets)
}

/// `split_clients key $variable { 50% a; * b; }`.
pub(crate) fn split_clients(lo: &mut Lowering<'_>, d: &Directive) {
    let key = lo.template(&d.args[0]);
    let Some(name) = variable(lo, d) else { return };
    let mut shares = Vec::new();
    let (mut sum, mut bound) = (0u64, 0u64);
    for line in d.children() {
        if !line_is_right(lo, line) {
            continue;
        }
        let value = lo.template(&line.args[0]);
        if line.name() == "*" {
            shares.push((u32::MAX, value));
            continue;
        }
        let Some(percent) = line.name().strip_suffix('%').and_then(hundredths) else {
            let text = format!("`{}` is no share such as `12.5%` or `*`", line.name());
            lo.report(Diagnostic::error("nginx::bad-value", text).at(line.name.span));
            continue;
        };
        sum += percent;
        if sum > 10_000 {
            lo.report(
                Diagnostic::error("nginx::bad-value", "the shares are more than 100%").at(line.name.span),
            );
            return;
        }
        bound += percent * u64::from(u32::MAX) / 10_000;
        shares.push((bound as u32, value));
    }
    define(lo, d, &name, Definition::Split { key, shares });
}

/// A percentage with at most two decimals, in hundredths.
fn hundredths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > 2 {
        return None;
    }
    let part = format!("{part:0<2}");
    let value = crate::value::number(whole)?.checked_mul(100)?.checked_add(crate::value::number(&part)?)?;
    (1..=10_000).contains(&value).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::hundredths;

    #[test]
    fn percentages() {
        let table = [
            ("50", Some(5000)),
            ("0.5", Some(50)),
            ("12.25", Some(1225)),
            ("0", None),
            ("1.234", None),
            ("x", None),
        ];
        for (text, expected) in table {
            assert_eq!(hundredths(text), expected, "{text}");
        }
    }
}
