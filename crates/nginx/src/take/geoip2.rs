//! `geoip2`, `geoip2_proxy`, `geoip2_proxy_recursive` (the third-party module of that name).
//!
//! Owns: the lines of a `geoip2` block, each of which defines a variable, and who is believed about clients.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use weir_diag::Diagnostic;
use weir_expr::networks::DatabasePart;
use weir_model::{Definition, NetworkDatabase};

use super::Lowering;
use super::access::network;
use super::declare::is_name;
use crate::tree::Directive;
use crate::value;

/// `geoip2 FILE { auto_reload TIME; $name [default=TEXT] [source=TEXT] PATH…; $name metadata FACT; }`.
pub(crate) fn block(lo: &mut Lowering<'_>, d: &Directive) {
    let file = lo.path(d.arg(0));
    let mut reload = None;
    for line in d.children().iter().filter(|line| line.name() == "auto_reload") {
        match line.args.first().and_then(|time| value::time(&time.text)) {
            Some(time) => reload = Some(time.max(Duration::from_secs(1))),
            None => lo.bad_value(line, 0, "a time such as `5m`"),
        }
    }
    for line in d.children().iter().filter(|line| line.name() != "auto_reload") {
        let Some(name) = line.name().strip_prefix('$').filter(|name| is_name(name)) else {
            let text = format!("`{}` is neither a variable nor `auto_reload`", line.name());
            lo.report(Diagnostic::error("nginx::bad-value", text).at(line.name.span));
            continue;
        };
        let Some(database) = variable(lo, line) else { continue };
        let database = NetworkDatabase { file: file.clone(), reload, ..database };
        if !lo.define(name, Definition::Database(Box::new(database))) {
            let text = format!("the variable `${name}` is defined twice");
            lo.report(Diagnostic::error("nginx::duplicate", text).at(line.span));
        }
    }
    trust(lo);
}

/// One line of a block.
fn variable(lo: &mut Lowering<'_>, line: &Directive) -> Option<NetworkDatabase> {
    let mut found = NetworkDatabase {
        file: std::path::PathBuf::new(),
        reload: None,
        part: DatabasePart::Entry(Vec::new()),
        source: None,
        proxies: Vec::new(),
        recursive: false,
        default: None,
    };
    if line.args.first().is_some_and(|word| word.text == "metadata") {
        found.part = match line.args.get(1).map(|word| word.text.as_str()) {
            Some("build_epoch") if line.args.len() == 2 => DatabasePart::BuildTime,
            Some("last_check") if line.args.len() == 2 => DatabasePart::LastCheck,
            Some("last_change") if line.args.len() == 2 => DatabasePart::LastChange,
            _ => {
                let text = "metadata is `build_epoch`, `last_check` or `last_change`";
                lo.report(Diagnostic::error("nginx::bad-value", text).at(line.span));
                return None;
            }
        };
        return Some(found);
    }
    let mut words = line.args.iter().peekable();
    while let Some(word) = words.peek() {
        if let Some(text) = word.text.strip_prefix("default=") {
            found.default = Some(text.to_owned());
        } else if let Some(text) = word.text.strip_prefix("source=") {
            let mut word = (*word).clone();
            word.text = text.to_owned();
            found.source = Some(lo.template(&word));
        } else {
            break;
        }
        words.next();
    }
    let path: Vec<String> = words.map(|word| word.text.clone()).collect();
    if path.is_empty() {
        let text = format!("`{}` does not say what is wanted of the database", line.name());
        lo.report(
            Diagnostic::error("nginx::arguments", text)
                .at(line.span)
                .help("write a path such as `country iso_code`"),
        );
        return None;
    }
    found.part = DatabasePart::Entry(path);
    Some(found)
}

/// `geoip2_proxy NETWORK`.
pub(crate) fn proxy(lo: &mut Lowering<'_>, d: &Directive) {
    let all: Option<Vec<IpNet>> = match d.arg(0).parse::<IpAddr>() {
        Ok(ip) => Some(vec![ip.into()]),
        Err(_) => network(d.arg(0)).map(|net| vec![net]),
    };
    match all {
        Some(all) => lo.geoip2.proxies.extend(all),
        None => lo.bad_value(d, 0, "an address or a network"),
    }
    trust(lo);
}

/// `geoip2_proxy_recursive on|off`.
pub(crate) fn recursive(lo: &mut Lowering<'_>, d: &Directive) {
    lo.geoip2.recursive = super::args::on(d);
    trust(lo);
}

/// The words stand in any order, so each of them brings all that was defined up to date.
fn trust(lo: &mut Lowering<'_>) {
    if lo.geoip2.proxies.is_empty() {
        return;
    }
    for variable in &mut lo.model.variables {
        if let Definition::Database(database) = &mut variable.definition
            && database.source.is_none()
        {
            (database.proxies, database.recursive) = (lo.geoip2.proxies.clone(), lo.geoip2.recursive);
        }
    }
}
