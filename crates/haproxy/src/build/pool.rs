//! Backends as pools: balance, persistence, kept connections, queue.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_diag::Diagnostic;
use weir_expr::Convert;
use weir_model::settings::{BackupUse, Spread, Ties};
use weir_model::{
    Balance, EndpointAddress, HashFunction, Pool, Queue, Resolver, Resolving, Reuse, Step, Stickiness,
    Sticky, StickyMode, Template, UpstreamKeepalive, Var,
};

use super::check::checks;
use super::expression::parse;
use super::parameters::Parameters;
use super::problem::Problem;
use super::sample;
use super::scope::Scope;
use super::server::{Built, Servers, is_service};
use super::server_rules;
use super::stickiness;
use crate::draft::{Connection, Resolvers, ServerLine};
use crate::findings::Findings;
use crate::read::{Line, Prefix, Word};
use crate::take::proxy::twice;
use crate::values::{Host, Port, address, time};
use crate::words::SERVER;

/// A kept connection serves until it is idle for this long, as `pool-purge-delay` has it by default.
const PURGE: Duration = Duration::from_secs(5);
/// HAProxy bounds idle connections by descriptors only; so many a worker are as good as no bound.
const IDLE: u32 = 1024;

/// Builds the pool of a backend. `None` if it has no server.
pub(crate) fn pool(
    scope: Scope<'_>,
    base: Option<PathBuf>,
    client_ports: &[u16],
    findings: &mut Findings,
) -> Option<Pool> {
    let proxy = scope.proxy;
    let checks = checks(&scope, findings);
    let mut lines: Vec<ServerLine> = proxy.servers.clone();
    if let (Some(place), true) = (&proxy.dispatch, lines.is_empty()) {
        let word = |text: &str| Word { text: text.into(), span: place.span };
        let words = vec![word("server"), word("dispatch"), place.clone()];
        lines.push(ServerLine {
            line: Line { prefix: Prefix::Plain, words, unindented: false },
            defaults: Vec::new(),
            template: None,
        });
    }
    let balance = balance(&scope, findings);
    let load_percent = load_percent(&scope, findings);
    let settings = &proxy.settings;
    let sticky = settings.cookie.as_ref().and_then(|line| sticky(line, findings));
    let assigned = server_rules::rules(&scope, findings);
    let persistence = server_rules::persistence(&scope, findings);
    let stickiness_rules = stickiness::rules(&scope, findings);
    let mut servers = Servers { scope, base, client_ports, checks: &checks, findings };
    let mut built: Vec<Built> = lines.iter().filter_map(|line| servers.line(line)).collect();
    let given: Vec<Option<u32>> = built.iter().map(|one| one.endpoint.id).collect();
    for (one, number) in built.iter_mut().zip(super::roster::numbers(&given, 1)) {
        one.endpoint.id = Some(number);
    }
    for one in &mut built {
        let Some(word) = &one.resolvers else { continue };
        let found = resolver(&scope, word, findings);
        if matches!(one.endpoint.address, EndpointAddress::Name { .. }) {
            let spread = Spread::One(one.choice);
            let services = is_service(&one.endpoint.address);
            one.endpoint.resolve =
                found.map(|resolver| Resolving { spread, resolver: Some(resolver), services });
        }
    }
    if built.is_empty() {
        // Nobody takes these words, but their mistakes are mistakes.
        for line in &settings.default_server {
            Parameters::default().read(line.from(1), SERVER, "default-server", findings);
        }
        return None;
    }
    same_names(&built, findings);
    dynamic_cookies(&scope, &mut built);
    super::states::restore(&scope, built.iter_mut().map(|one| &mut one.endpoint), findings);
    let never = built.iter().filter(|one| one.non_stick).filter_map(|one| one.endpoint.id).collect();
    let stickiness = (!stickiness_rules.is_empty()).then_some(Stickiness {
        rules: stickiness_rules,
        never,
        by_name: false,
    });
    let queues = built.iter().any(|one| one.endpoint.max_connections.is_some());
    let queue_time = settings.timeout("queue").or_else(|| settings.timeout("connect"));
    Some(Pool {
        name: proxy.name.text.clone(),
        origin: Some(proxy.name.span),
        balance,
        keepalive: keepalive(&scope, &built),
        shared: true,
        queue: queues.then(|| Queue { max: None, timeout: queue_time.unwrap_or(Duration::from_secs(60)) }),
        assigned,
        persistence,
        sticky,
        stickiness,
        resolver: None,
        backups: match settings.flag("allbackups") {
            true => BackupUse::AllWhenDown,
            false => BackupUse::FirstWhenDown,
        },
        unavailable: super::settings::UNAVAILABLE,
        outliers: None,
        panic_percent: 0,
        load_percent,
        locality: None,
        retry_budget: None,
        max_pending: None,
        may_be_empty: true,
        group: None,
        fresh: None,
        endpoints: built.into_iter().map(|one| one.endpoint).collect(),
    })
}

fn same_names(built: &[Built], findings: &mut Findings) {
    let mut seen: std::collections::BTreeMap<&str, weir_diag::Span> = std::collections::BTreeMap::new();
    for one in built {
        let Some(span) = one.endpoint.origin else { continue };
        if let Some(first) = seen.insert(&one.endpoint.name, span) {
            twice(&Word { text: one.endpoint.name.clone(), span }, first, "server", findings);
        }
    }
}

fn keepalive(scope: &Scope<'_>, built: &[Built]) -> UpstreamKeepalive {
    let settings = &scope.proxy.settings;
    let kept = settings.connection.is_none_or(|mode| mode == Connection::Keep);
    let least = built.iter().filter_map(|one| one.idle).min();
    UpstreamKeepalive {
        idle: if kept { least.unwrap_or(IDLE) } else { 0 },
        requests: built.iter().filter_map(|one| one.reuse).min().map(|times| times.saturating_add(1)),
        time: None,
        timeout: built.iter().filter_map(|one| one.purge).min().unwrap_or(PURGE),
        reuse: match settings.http_reuse.as_ref().map(|reuse| reuse.value.as_str()) {
            Some("never") => Reuse::Never,
            Some("aggressive") => Reuse::Aggressive,
            Some("always") => Reuse::Always,
            _ => Reuse::Safe,
        },
    }
}

/// `hash-balance-factor PERCENT`: 0, or more than 100.
fn load_percent(scope: &Scope<'_>, findings: &mut Findings) -> u16 {
    let Some(word) = &scope.proxy.settings.hash_balance else { return 0 };
    match word.text.parse() {
        Ok(percent) if percent == 0 || percent > 100 => percent,
        _ => {
            findings.bad_value(word, "a percentage above 100, or 0 for no bound");
            0
        }
    }
}

/// `balance ALGORITHM …` with `hash-type`.
fn balance(scope: &Scope<'_>, findings: &mut Findings) -> Balance {
    let (consistent, function, avalanche) = hash_type(scope, findings);
    let Some(line) = &scope.proxy.settings.balance else { return Balance::RoundRobin };
    let Some(word) = line.word(1) else { return Balance::RoundRobin };
    let name = word.text.split_once('(').map_or(word.as_str(), |(name, _)| name);
    let key = match name {
        "roundrobin" => return Balance::RoundRobin,
        "static-rr" => return Balance::StaticRoundRobin,
        "leastconn" => return Balance::LeastConnections(Ties::LongestUnused),
        "first" => return Balance::First,
        "random" => return Balance::Random { two: !word.text.ends_with("(1)"), times: None },
        "source" => Template::var(Var::ClientAddrBinary),
        "uri" => uri_key(scope, line, findings),
        "url_param" => param_key(line, findings),
        "hdr" => header_key(scope, word, line, findings),
        "hash" => expression_key(scope, line, findings),
        "rdp-cookie" => rdp_key(scope, word),
        "log-hash" | "sticky" => {
            findings.not_built(word.span, &format!("balance {name}"), "it decides which server answers");
            return Balance::RoundRobin;
        }
        _ => {
            let known = [
                "roundrobin",
                "static-rr",
                "leastconn",
                "first",
                "random",
                "source",
                "uri",
                "url_param",
                "hdr",
                "hash",
                "rdp-cookie",
            ];
            findings.bad_choice(word, "balance algorithm", &known);
            return Balance::RoundRobin;
        }
    };
    Balance::KeyHash { key, consistent, function, avalanche }
}

/// `rdp-cookie[(NAME)]`: the cookie in a session's first bytes.
fn rdp_key(scope: &Scope<'_>, word: &Word) -> Template {
    let name = word.text.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or("mstshash");
    let cookie =
        Step::Call { routine: weir_expr::Routine::RdpCookie, arguments: vec![Template::literal(name)] };
    let first = Template::var(Var::Peeked(weir_expr::Peeked::Bytes));
    Template::var(Var::User(scope.maps.converted(first, vec![cookie])))
}

fn uri_key(scope: &Scope<'_>, line: &Line, findings: &mut Findings) -> Template {
    let mut template = Template::var(Var::RawPath);
    let (mut length, mut slashes) = (None, None);
    let mut words = line.from(2).iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "whole" => {
                template.push_var(Var::IsArgs);
                template.push_var(Var::Query);
            }
            "path-only" => {}
            "len" | "depth" => {
                let Some(value) = words.next() else {
                    findings.bad_value(word, format!("`{}` lacks its number", word.text));
                    continue;
                };
                let number = findings.value(value, |text| match text.parse::<usize>() {
                    Ok(number @ 1..) => Ok(number),
                    _ => Err(format!("`{text}` is no number above 0")),
                });
                let number = if word.as_str() == "len" { &mut length } else { &mut slashes }.insert(number);
                let _ = number;
            }
            _ => findings.bad_choice(word, "word of `balance uri`", &["whole", "path-only", "len", "depth"]),
        }
    }
    let mut steps = Vec::new();
    if let Some(Some(length)) = length {
        steps.push(Step::Convert(Convert::Bytes { offset: 0, length: Some(length) }));
    }
    if let Some(Some(depth)) = slashes {
        // Up to the slash after so many folders.
        steps.push(Step::Convert(Convert::Slashes(depth + 1)));
    }
    if steps.is_empty() {
        return template;
    }
    Template::var(Var::User(scope.maps.converted(template, steps)))
}

fn param_key(line: &Line, findings: &mut Findings) -> Template {
    let Some(name) = line.word(2) else {
        findings.missing(line, "the name of a parameter");
        return Template::default();
    };
    if let Some(word) = line.word(3) {
        findings.not_built(word.span, "balance url_param … check_post", "it decides which server answers");
    }
    Template::var(Var::Arg(name.text.clone()))
}

fn header_key(scope: &Scope<'_>, word: &Word, line: &Line, findings: &mut Findings) -> Template {
    let name = word
        .text
        .strip_prefix("hdr(")
        .and_then(|rest| rest.strip_suffix(')'))
        .filter(|name| !name.is_empty());
    let Some(name) = name else {
        findings.bad_value(word, "write `hdr(NAME)`");
        return Template::default();
    };
    let value = Template::var(Var::Header(name.to_ascii_lowercase()));
    match line.word(2) {
        None => value,
        Some(word) if word.as_str() == "use_domain_only" => {
            // The label before the last.
            let separators = ".".to_owned();
            let label = Convert::Field { index: -2, separators, count: 1, skip_empty: false };
            Template::var(Var::User(scope.maps.converted(value, vec![Step::Convert(label)])))
        }
        Some(word) => {
            findings.bad_choice(word, "word of `balance hdr`", &["use_domain_only"]);
            value
        }
    }
}

fn expression_key(scope: &Scope<'_>, line: &Line, findings: &mut Findings) -> Template {
    let Some(word) = line.word(2) else {
        findings.missing(line, "an expression");
        return Template::default();
    };
    let parsed = parse(word.as_str()).map_err(Problem::Bad);
    let value = parsed.and_then(|sample| sample::template(&sample, scope));
    value.map_err(|problem| problem.report(word.span, findings)).unwrap_or_default()
}

fn hash_type(scope: &Scope<'_>, findings: &mut Findings) -> (bool, HashFunction, bool) {
    let Some(line) = &scope.proxy.settings.hash_type else { return (false, HashFunction::Sdbm, false) };
    let mut result = (false, HashFunction::Sdbm, false);
    // Without a function, `consistent` mixes once more (manual, `hash-type`).
    result.2 = line.text(1) == "consistent" && line.word(2).is_none();
    for word in line.from(1) {
        match word.as_str() {
            "consistent" => result.0 = true,
            "map-based" => result.0 = false,
            "sdbm" => result.1 = HashFunction::Sdbm,
            "djb2" => result.1 = HashFunction::Djb2,
            "crc32" => result.1 = HashFunction::Crc32,
            "wt6" => result.1 = HashFunction::Wt6,
            "none" => result.1 = HashFunction::None,
            "avalanche" => result.2 = true,
            _ => {
                let known = ["consistent", "map-based", "sdbm", "djb2", "wt6", "crc32", "none", "avalanche"];
                findings.bad_choice(word, "word of `hash-type`", &known);
            }
        }
    }
    result
}

/// `cookie NAME rewrite|insert|prefix …`.
fn sticky(line: &Line, findings: &mut Findings) -> Option<Sticky> {
    let name = line.word(1)?;
    let mut mode = None;
    let mut sticky = Sticky::by(&name.text);
    let mut words = line.from(2).iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "rewrite" => mode = Some(StickyMode::Rewrite),
            "insert" => mode = Some(StickyMode::Insert),
            "prefix" => mode = Some(StickyMode::Prefix),
            "indirect" => sticky.indirect = true,
            "nocache" => sticky.no_cache = true,
            "postonly" => sticky.post_only = true,
            "httponly" => sticky.http_only = true,
            "secure" => sticky.secure = true,
            "domain" => sticky.domains.extend(words.next().map(|word| word.text.clone())),
            "attr" => sticky.attributes.extend(words.next().map(|word| word.text.clone())),
            "preserve" => sticky.preserve = true,
            "maxidle" | "maxlife" => {
                let Some(value) = words.next() else {
                    findings.bad_value(word, format!("`{}` lacks its time", word.text));
                    continue;
                };
                let time = findings.value(value, time::seconds);
                *(if word.as_str() == "maxidle" { &mut sticky.max_idle } else { &mut sticky.max_life }) =
                    time;
            }
            // The servers' values are made where they are built.
            "dynamic" => {}
            _ => {
                let known = [
                    "rewrite", "insert", "prefix", "indirect", "nocache", "postonly", "preserve", "httponly",
                    "secure", "domain", "attr", "maxidle", "maxlife", "dynamic",
                ];
                findings.bad_choice(word, "word of `cookie`", &known);
            }
        }
    }
    // Without a mode nothing sets the cookie; whoever brings one is led by it.
    Some(Sticky { mode: mode.unwrap_or(StickyMode::Passive), ..sticky })
}

/// `cookie … dynamic`: values of servers that have none, by their addresses and `dynamic-cookie-key`.
fn dynamic_cookies(scope: &Scope<'_>, built: &mut [Built]) {
    let settings = &scope.proxy.settings;
    let is_dynamic = |line: &Line| line.from(2).iter().any(|word| word.as_str() == "dynamic");
    let (true, Some(key)) = (settings.cookie.as_ref().is_some_and(is_dynamic), &settings.cookie_key) else {
        return;
    };
    for one in built.iter_mut().filter(|one| one.endpoint.cookie.is_none()) {
        let EndpointAddress::Ip(address) = &one.endpoint.address else { continue };
        let mut hashed = key.clone().into_bytes();
        match address.ip() {
            std::net::IpAddr::V4(ip) => hashed.extend(ip.octets()),
            std::net::IpAddr::V6(ip) => hashed.extend(ip.octets()),
        }
        hashed.extend(u32::from(address.port()).to_be_bytes());
        one.endpoint.cookie = Some(format!("{:016x}", twox_hash::XxHash64::oneshot(0, &hashed)));
    }
}

/// The name servers of a section.
pub(super) fn resolver(scope: &Scope<'_>, word: &Word, findings: &mut Findings) -> Option<Resolver> {
    let Some(found) = scope.draft.resolvers.get(&word.text) else {
        if word.as_str() == "default" {
            let system = Resolvers { system: true, ..Resolvers::default() };
            return Some(resolver_of(&system, scope, findings));
        }
        let near = scope.draft.resolvers.keys().map(String::as_str);
        let title = format!("no resolvers section is named `{}`", word.text);
        findings.push(
            Diagnostic::error("haproxy::unknown-name", title)
                .at(word.span)
                .suggest(&word.text, word.span, near),
        );
        return None;
    };
    Some(resolver_of(found, scope, findings))
}

fn resolver_of(found: &Resolvers, scope: &Scope<'_>, findings: &mut Findings) -> Resolver {
    let mut resolver = Resolver {
        servers: Vec::new(),
        named_servers: Vec::new(),
        valid: Some(found.valid),
        timeout: found.retry * found.retries,
        attempts: found.retries,
        again: found.resolve,
        holds: Some(found.holds),
        ipv4: true,
        ipv6: true,
        zone: None,
    };
    for word in &found.servers {
        let text = word
            .text
            .strip_prefix("udp@")
            .or_else(|| word.text.strip_prefix("tcp@"))
            .unwrap_or(word.as_str());
        let word = Word { text: text.to_owned(), span: word.span };
        let Some(written) = findings.value(&word, address::parse) else { continue };
        let port = match written.port {
            Port::One(port) => port,
            _ => 53,
        };
        match written.host {
            Host::Ip(ip) => resolver.servers.push((ip, port).into()),
            Host::Name(name, _) => resolver.named_servers.push((name, port)),
            _ => findings.bad_value(&word, "a name server has an address and a port"),
        }
    }
    if found.system {
        let text = scope.files.read(Path::new("/etc/resolv.conf")).unwrap_or_default();
        resolver.servers.extend(of_resolv_conf(&String::from_utf8_lossy(&text)));
    }
    resolver
}

/// The name servers of resolv.conf(5). Without any, the system is asked as it is.
fn of_resolv_conf(text: &str) -> impl Iterator<Item = SocketAddr> {
    let address = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let address = words.next().filter(|word| *word == "nameserver").and(words.next())?;
        Some(SocketAddr::new(address.parse().ok()?, 53))
    };
    text.lines().filter_map(address)
}
