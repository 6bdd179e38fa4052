//! Short forms: what people write in place of the whole of a value.
//!
//! Owns: each short form, both ways ([`long`] reads, [`short`] writes), so that they cannot part.
//! Never: knows a default.
//! Driven by: `read`, `print`.
//!
//! ```text
//! endpoint    10.0.0.1:80              { name: "10.0.0.1:80", address: { ip: "10.0.0.1:80" } }
//! route       matching: /images/       { matching: { prefix: { path: /images/ } } }
//! rule        deny: 10.0.0.0/8         { allow: false, who: { net: 10.0.0.0/8 } }
//! ```

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use crate::node::{Key, Node, Value};
use crate::plain::Plain;

/// A type's name as people see it.
pub(crate) fn spoken(name: &str) -> String {
    let mut out = String::from("`");
    for (at, letter) in name.char_indices() {
        if at > 0 && letter.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out.push('`');
    out
}

/// What a node of that type is in full.
pub(crate) fn long(name: &str, node: &Rc<Node>) -> Rc<Node> {
    let made = match &node.value {
        Value::Scalar { text, .. } if !node.is_null() => long_scalar(name, text, node),
        Value::Map(_) => long_map(name, node),
        Value::List(_) if name == "Words" => Some(Node::map(node, vec![("any_of", Rc::clone(node))])),
        _ => None,
    };
    made.unwrap_or_else(|| Rc::clone(node))
}

fn long_scalar(name: &str, text: &str, node: &Rc<Node>) -> Option<Rc<Node>> {
    let wrap = |key: &str| Some(Node::map(node, vec![(key, Rc::clone(node))]));
    let held = |key: &str, text: &str| Some(Node::map(node, vec![(key, with_text(node, text))]));
    match name {
        "Pattern" | "Pem" => wrap("source"),
        "Endpoint" => Some(Node::map(node, vec![("name", Rc::clone(node)), ("address", Rc::clone(node))])),
        "Listener" => Some(Node::map(node, vec![("name", Rc::clone(node)), ("address", Rc::clone(node))])),
        "User" => wrap("user"),
        "AccessLog" | "ErrorLog" => wrap("target"),
        "Proxy" | "FastCgi" | "TcpProxy" => wrap("target"),
        "Certificate" => Some(Node::map(node, vec![("chain", Rc::clone(node)), ("key", Rc::clone(node))])),
        "Words" => wrap("any_of"),
        "Workers" => text.parse::<u16>().is_ok().then(|| wrap("count"))?,
        "Address" => long_address(text, &held),
        "EndpointAddress" => {
            if let Some(path) = text.strip_prefix("unix:") {
                return held("unix", path);
            }
            if text.parse::<SocketAddr>().is_ok() {
                return wrap("ip");
            }
            let (host, port) = text.rsplit_once(':')?;
            let fields = vec![("host", with_text(node, host)), ("port", with_text(node, port))];
            Some(Node::map(node, vec![("name", Node::map(node, fields))]))
        }
        "NamePattern" => match text {
            _ if text.starts_with("*.") => held("suffix", &text[2..].to_ascii_lowercase()),
            _ if text.ends_with(".*") => held("prefix", &text[..text.len() - 2].to_ascii_lowercase()),
            _ if text.starts_with('~') => held("regex", &text[1..]),
            _ => held("exact", &text.to_ascii_lowercase()),
        },
        "RouteMatch" if text.starts_with('/') => {
            Some(Node::map(node, vec![("prefix", Node::map(node, vec![("path", Rc::clone(node))]))]))
        }
        "RouteMatch" if text.starts_with('@') => wrap("named"),
        "Who" if !matches!(text, "all" | "unix") => match text.parse::<IpAddr>() {
            Ok(address) => held("net", &format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 })),
            Err(_) => wrap("net"),
        },
        "LogTarget" if text.starts_with('/') => {
            wrap(if text.contains("${") { "file_template" } else { "file" })
        }
        "LogTarget" if !matches!(text, "stderr" | "stdout" | "off") => wrap("file"),
        "ProxyTarget" => wrap(if text.contains("${") { "computed" } else { "pool" }),
        _ => None,
    }
}

fn with_text(node: &Node, text: &str) -> Rc<Node> {
    node.with(Value::Scalar { text: text.to_owned(), plain: false })
}

fn long_address(text: &str, held: &dyn Fn(&str, &str) -> Option<Rc<Node>>) -> Option<Rc<Node>> {
    if let Some(path) = text.strip_prefix("unix:") {
        return held("unix", path);
    }
    if let Some(address) = text.strip_prefix("udp:") {
        return held("udp", &any_address(address));
    }
    match text.strip_prefix("fd@") {
        Some(number) => held("inherited", number),
        None => held("tcp", &any_address(text)),
    }
}

/// `:80`, `*:80` and `80` are every address of IPv4.
fn any_address(text: &str) -> String {
    let port = text.strip_prefix("*:").or_else(|| text.strip_prefix(':')).unwrap_or(text);
    match port.parse::<u16>() {
        Ok(port) => format!("0.0.0.0:{port}"),
        Err(_) => text.to_owned(),
    }
}

fn long_map(name: &str, node: &Rc<Node>) -> Option<Rc<Node>> {
    match name {
        "MimeTypes" if node.entry("by_extension").is_none() => {
            Some(Node::map(node, vec![("by_extension", Rc::clone(node))]))
        }
        "AccessRule" => match node.entries() {
            [(key, who)] if matches!(key.text.as_str(), "allow" | "deny") => {
                let allow = Node::text(key.span, if key.text == "allow" { "true" } else { "false" });
                Some(Node::map(node, vec![("allow", allow), ("who", Rc::clone(who))]))
            }
            _ => None,
        },
        "Endpoint" | "Listener" => added(node, "name", |node| {
            // Without an address that is what is told to be missing.
            let address = node.entry("address").and_then(shown_address);
            Some(address.unwrap_or_else(|| Node::text(node.span, "")))
        }),
        "Site" => {
            let named = added(node, "name", |node| node.entry("names").and_then(first_text));
            let node = named.as_ref().unwrap_or(node);
            let nothing = |node: &Node| {
                let status = Node::map(node, vec![("status", Node::text(node.span, "404"))]);
                let action = Node::map(node, vec![("respond", status)]);
                Some(Node::map(node, vec![("name", Node::text(node.span, "otherwise")), ("action", action)]))
            };
            added(node, "fallback", nothing).or(named)
        }
        "Route" => added(node, "name", |node| {
            let text = match node.entry("matching") {
                Some(matching) => matching.as_text().map(str::to_owned).or_else(|| {
                    let (key, held) = matching.entries().first()?;
                    let text = held.as_text().or_else(|| held.entry("path")?.as_text());
                    let text = text.or_else(|| held.entry("source")?.as_text())?;
                    Some(match key.text.as_str() {
                        "exact" => format!("= {text}"),
                        "regex" => format!("~ {text}"),
                        _ => text.to_owned(),
                    })
                }),
                None => None,
            };
            Some(Node::text(node.span, text.unwrap_or_default()))
        }),
        _ => None,
    }
}

/// The map with one more field, unless it has it.
fn added(node: &Rc<Node>, field: &str, value: impl Fn(&Node) -> Option<Rc<Node>>) -> Option<Rc<Node>> {
    if node.entry(field).is_some() {
        return None;
    }
    let value = value(node)?;
    let mut entries = vec![(Key { text: field.to_owned(), span: node.span }, value)];
    entries.extend(node.entries().iter().cloned());
    Some(node.with(Value::Map(entries)))
}

fn shown_address(node: &Rc<Node>) -> Option<Rc<Node>> {
    let held = match &node.value {
        Value::Map(entries) => entries.first().map(|(_, held)| held)?,
        _ => node,
    };
    if let Some(host) = held.entry("host").and_then(|host| host.as_text()) {
        let port = held.entry("port").and_then(|port| port.as_text()).unwrap_or_default();
        return Some(Node::text(node.span, format!("{host}:{port}")));
    }
    held.as_text().map(|text| Node::text(node.span, text))
}

fn first_text(node: &Rc<Node>) -> Option<Rc<Node>> {
    let first = match &node.value {
        Value::List(items) => items.first()?,
        _ => node,
    };
    first.as_text().map(|text| Node::text(first.span, text))
}

/// The short form of a value of that type, where there is one.
pub(crate) fn short(name: &str, plain: Plain) -> Plain {
    match name {
        "Endpoint" | "Listener" => short_named(name, plain),
        "MimeTypes" => match plain {
            Plain::Map(mut fields) if fields.len() == 1 => fields.remove(0).1,
            Plain::Map(fields) if fields.is_empty() => Plain::Map(fields),
            other => other,
        },
        "AccessRule" => match (plain.get("allow"), plain.get("who")) {
            (allow, Some(who)) => {
                let word = if allow == Some(&Plain::Bool(true)) { "allow" } else { "deny" };
                Plain::Map(vec![(word.to_owned(), who.clone())])
            }
            _ => plain,
        },
        "Certificate" => match (&plain, plain.get("chain"), plain.get("key")) {
            (Plain::Map(fields), Some(chain), Some(key)) if fields.len() == 2 && chain == key => {
                chain.clone()
            }
            _ => plain,
        },
        "Pattern" => only(plain, "source"),
        "User" => only(plain, "user"),
        "AccessLog" | "ErrorLog" | "Proxy" | "FastCgi" | "TcpProxy" => only(plain, "target"),
        "Words" => match plain {
            Plain::Map(mut fields) if fields.len() == 1 && fields[0].0 == "any_of" => fields.remove(0).1,
            other => other,
        },
        "Workers" => held(plain, "count"),
        "Who" => held(plain, "net"),
        "Address" => match choice(&plain) {
            Some(("tcp", Plain::Text(text))) => Plain::Text(text.clone()),
            Some(("udp", Plain::Text(text))) => Plain::Text(format!("udp:{text}")),
            Some(("unix", Plain::Text(text))) => Plain::Text(format!("unix:{text}")),
            Some(("inherited", Plain::Int(number))) => Plain::Text(format!("fd@{number}")),
            _ => plain,
        },
        "EndpointAddress" => match choice(&plain) {
            Some(("ip", Plain::Text(text))) => Plain::Text(text.clone()),
            Some(("unix", Plain::Text(text))) => Plain::Text(format!("unix:{text}")),
            Some(("name", Plain::Map(fields))) if fields.len() == 2 => match (&fields[0], &fields[1]) {
                ((host, Plain::Text(name)), (port, Plain::Int(number)))
                    if host == "host"
                        && port == "port"
                        && !name.contains(':')
                        && !name.starts_with("unix") =>
                {
                    Plain::Text(format!("{name}:{number}"))
                }
                _ => plain,
            },
            _ => plain,
        },
        "NamePattern" => match choice(&plain) {
            Some(("exact", Plain::Text(text))) if !text.contains('*') && !text.starts_with('~') => {
                Plain::Text(text.clone())
            }
            Some(("suffix", Plain::Text(text))) => Plain::Text(format!("*.{text}")),
            Some(("prefix", Plain::Text(text))) if !text.starts_with("*.") => {
                Plain::Text(format!("{text}.*"))
            }
            Some(("regex", Plain::Text(text))) => Plain::Text(format!("~{text}")),
            _ => plain,
        },
        "RouteMatch" => match choice(&plain) {
            Some(("prefix", Plain::Map(fields))) => match fields.as_slice() {
                [(path, Plain::Text(text))] if path == "path" && text.starts_with('/') => {
                    Plain::Text(text.clone())
                }
                _ => plain,
            },
            Some(("named", Plain::Text(text))) if text.starts_with('@') => Plain::Text(text.clone()),
            _ => plain,
        },
        "LogTarget" => match choice(&plain) {
            Some(("file", Plain::Text(text))) if text.starts_with('/') && !text.contains("${") => {
                Plain::Text(text.clone())
            }
            Some(("file_template", Plain::Text(text))) if text.starts_with('/') && text.contains("${") => {
                Plain::Text(text.clone())
            }
            _ => plain,
        },
        "ProxyTarget" => match choice(&plain) {
            Some(("pool", Plain::Text(text))) if !text.contains("${") => Plain::Text(text.clone()),
            Some(("computed", Plain::Text(text))) if text.contains("${") => Plain::Text(text.clone()),
            _ => plain,
        },
        _ => plain,
    }
}

/// What an enumeration's value is and holds.
fn choice(plain: &Plain) -> Option<(&str, &Plain)> {
    match plain {
        Plain::Map(fields) => match fields.as_slice() {
            [(word, held)] => Some((word, held)),
            _ => None,
        },
        _ => None,
    }
}

fn held(plain: Plain, word: &str) -> Plain {
    match choice(&plain) {
        Some((own, held)) if own == word => held.clone(),
        _ => plain,
    }
}

/// The value of a field that is the only one, if it is a text.
fn only(plain: Plain, field: &str) -> Plain {
    match choice(&plain) {
        Some((own, Plain::Text(text))) if own == field => Plain::Text(text.clone()),
        _ => plain,
    }
}

/// Without a name that is the address, and with the sites in place of the service.
fn short_named(kind: &str, plain: Plain) -> Plain {
    let Plain::Map(mut fields) = plain else { return plain };
    let value = |fields: &[(String, Plain)], name: &str| {
        fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    };
    if let (Some(Plain::Text(name)), Some(Plain::Text(address))) =
        (value(&fields, "name"), value(&fields, "address"))
        && name == address
    {
        fields.retain(|(key, _)| key != "name");
    }
    if kind == "Endpoint" && fields.len() == 1 && fields[0].0 == "address" {
        return fields.remove(0).1;
    }
    for (key, value) in &mut fields {
        if key != "service" {
            continue;
        }
        if let Some(("http", http)) = choice(value)
            && let Some(Plain::List(sites)) = http.get("sites")
            && sites.first() == http.get("default")
        {
            *value = Plain::List(sites.clone());
            *key = "sites".into();
        } else if let Some(("tcp", name)) = choice(value) {
            *value = name.clone();
            *key = "tcp".into();
        }
    }
    Plain::Map(fields)
}

/// A listener with its service in full: `sites` or `tcp` alone say it, and nothing says all sites.
pub(crate) fn with_service(node: &Rc<Node>, all_sites: &[String]) -> Rc<Node> {
    let node = &match &node.value {
        Value::Scalar { .. } => Node::map(node, vec![("address", Rc::clone(node))]),
        _ => Rc::clone(node),
    };
    if !matches!(node.value, Value::Map(_)) || node.entry("service").is_some() {
        return Rc::clone(node);
    }
    let service = if let Some(tcp) = node.entry("tcp") {
        Node::map(tcp, vec![("tcp", Rc::clone(tcp))])
    } else {
        let sites = node.entry("sites").cloned().unwrap_or_else(|| {
            let sites = all_sites.iter().map(|site| Node::text(node.span, site.clone())).collect();
            Node::made(node.span, Value::List(sites))
        });
        let first = match &sites.value {
            Value::List(items) => items.first().cloned(),
            _ => Some(Rc::clone(&sites)),
        };
        let Some(first) = first else { return Rc::clone(node) };
        let http = Node::map(&sites, vec![("sites", Rc::clone(&sites)), ("default", first)]);
        Node::map(&sites, vec![("http", http)])
    };
    let kept = node.entries().iter().filter(|(key, _)| !matches!(key.text.as_str(), "sites" | "tcp"));
    let mut entries: Vec<_> = kept.cloned().collect();
    entries.push((Key { text: "service".into(), span: node.span }, service));
    node.with(Value::Map(entries))
}
